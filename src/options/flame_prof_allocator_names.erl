%% @private The allocators of the VM, for options and for looks.
-module(flame_prof_allocator_names).

-export([all/0]).

%% @doc erl_alloc.types, from ERTS_ALC_A_MIN on: the order of the VM's tables.
-spec all() -> [atom(), ...].
all() ->
    [sys_alloc, temp_alloc, sl_alloc, std_alloc, ll_alloc, eheap_alloc, ets_alloc, fix_alloc,
    literal_alloc, binary_alloc, driver_alloc, test_alloc].
