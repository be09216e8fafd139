%% @private The node's memory as figures of a session's file: by kind, by allocator, and what the
%% kernel says of the OS process.
%%
%% With the native engine all of it is read: the allocators' counters out of memory
%% ({@link flame_prof_allocators}), what lies beside them by `erlang:system_info(allocated_areas)',
%% which asks no scheduler, the rest from /proc. Only the first readings in a VM's life ask the
%% schedulers, until the counters are found; where they cannot be found these figures are left out,
%% and {@link state/1} says why. The portable engine has no other way, and asks at each reading:
%% `erlang:memory/0', `erlang:system_info({allocator_sizes, _})'.
-module(flame_prof_node_memory).

-export([new/1, at_once/0, figures/1, state/1, by_kind/1, kind/1, kinds/1]).

-export_type([source/0, state/0, kinds/0]).

-define(TRIES, 3).

-record(source, {
    engine :: flame_prof_engine:name(),
    %% So often the counters may still be looked for.
    tries = ?TRIES :: non_neg_integer(),
    state = on :: state(),
    limit = none :: none | {ok, pos_integer()},
    %% When the limit is read again.
    limit_ms :: integer(),
    %% What the resident memory is, and when that is read again.
    resident = [] :: flame_prof_node:figures(),
    resident_ms = 0 :: integer() | never,
    %% Open files of /proc.
    files :: [{ok, file:fd()} | {error, term()}]
}).

-opaque source() :: #source{}.

-type state() :: on | {off, Why :: binary()}.
%% Which figures of the memory are left out, and why.

-type kind() :: total | processes | binary | ets | atom | code.

-type kinds() :: #{kind() => non_neg_integer()}.
%% As `erlang:memory/0' has them.

-define(KINDS, [
    {total, node_memory_total},
    {processes, node_memory_processes},
    {binary, node_memory_binary},
    {ets, node_memory_ets},
    {atom, node_memory_atom},
    {code, node_memory_code}
]).

-define(LIMIT_MS, 30000).

%% The kernel is asked for the resident pages of all mappings no more often, for less than a
%% thousandth of the time, and not where there are many: no thread maps memory meanwhile.
-define(RESIDENT_MS, 4500).
-define(RESIDENT_REST, 1000).
-define(RESIDENT_MOST, 1 bsl 30).

%% In the order of flame_prof_allocators:of_allocator().
-define(OF_ALLOCATOR, [
    "carriers", "blocks", "sbc_carriers", "pool", "largest_free", "mseg", "sys", "sbc_blocks"
]).

-define(RESIDENT, [
    {carriers, node_resident_carriers},
    {cached, node_resident_cached},
    {malloc, node_resident_malloc},
    {code, node_resident_code},
    {stacks, node_resident_stacks},
    {executable, node_resident_executable},
    {files, node_resident_files},
    {other, node_resident_other}
]).

%% Without one of them the kinds cannot be told.
-define(OF_KINDS, [
    eheap_alloc, binary_alloc, ets_alloc, fix_alloc, std_alloc, ll_alloc, sl_alloc, driver_alloc
]).

%% @doc For the calling process, which keeps two files of /proc open.
-spec new(flame_prof_engine:name()) -> source().
new(Engine) ->
    #source{
        engine = Engine,
        limit_ms = flame_prof_clock:now_ms(),
        files = flame_prof_memory:process_files()
    }.

%% @doc The values that are known before the counters are found: the schedulers are asked once.
-spec at_once() -> flame_prof_node:figures().
at_once() ->
    case flame_prof_allocators:known_sums() of
        {ok, Sums} -> of_sums(Sums);
        _ -> asked()
    end.

%% @doc The figures of now. May wait for a scheduler as long as that does not answer.
-spec figures(source()) -> {flame_prof_node:figures(), source()}.
figures(Source0) ->
    {Figures, Source1} = of_vm(Source0),
    Source2 = #source{limit = Limit, files = Files} = with_limit(Source1),
    Process = process(Files),
    Source = #source{resident = Resident} = with_resident(Process, Source2),
    {Figures ++ Process ++ Resident ++ [{node_rss_limit, Bytes} || {ok, Bytes} <- [Limit]], Source}.

of_vm(#source{engine = portable} = Source) ->
    {asked(), Source};
of_vm(#source{tries = 0} = Source) ->
    {[], Source};
of_vm(#source{tries = Tries} = Source) ->
    case flame_prof_allocators:sums() of
        {ok, Sums} ->
            {of_sums(Sums), Source#source{tries = ?TRIES, state = kinds_state(Sums)}};
        {error, {_, #{reason := Why}}} ->
            {[], Source#source{tries = Tries - 1, state = {off, Why}}}
    end.

%% @doc Of the last reading.
-spec state(source()) -> state().
state(#source{state = State}) -> State.

kinds_state(#{allocators := Allocators, fix_of_processes := Fix}) ->
    case ?OF_KINDS -- [element(1, Allocator) || Allocator <- Allocators] of
        [] when Fix =:= none ->
            {off, <<"memory of processes: the blocks of fixed sizes were not found">>};
        [] ->
            on;
        Off ->
            Texts = lists:join(<<", ">>, [atom_to_binary(Name) || Name <- Off]),
            {off, iolist_to_binary(["memory by kind: +M flags turned off ", Texts])}
    end.

with_limit(#source{limit_ms = LimitMs} = Source) ->
    case flame_prof_clock:now_ms() of
        Now when Now >= LimitMs ->
            Limit = flame_prof_cgroup:memory_limit(),
            Source#source{limit = Limit, limit_ms = Now + ?LIMIT_MS};
        _ ->
            Source
    end.

with_resident(_, #source{engine = portable} = Source) ->
    Source;
with_resident(_, #source{resident_ms = never} = Source) ->
    Source;
with_resident([{node_rss, Rss} | _], Source) when Rss > ?RESIDENT_MOST ->
    Source#source{resident = []};
with_resident([{node_rss, _} | _], #source{resident_ms = DueMs} = Source) ->
    Now = flame_prof_clock:now_ms(),
    case DueMs =:= 0 orelse Now >= DueMs of
        true -> resident(resident_now(), Now, Source);
        false -> Source
    end;
with_resident(_, Source) ->
    Source.

%% While a look or the doctor has the library: a session alone does not keep it in the node.
resident_now() -> flame_prof_looks:while_held(fun flame_prof_looks_nif:memory_rss/0).

resident(not_held, BeganMs, Source) ->
    Source#source{resident = [], resident_ms = BeganMs + ?RESIDENT_MS};
resident(#{} = Kinds, BeganMs, Source) ->
    Now = flame_prof_clock:now_ms(),
    Source#source{
        resident = [{Name, Bytes} || {Kind, Name} <- ?RESIDENT, #{Kind := Bytes} <- [Kinds]],
        resident_ms = Now + max(?RESIDENT_MS, ?RESIDENT_REST * (Now - BeganMs))
    };
resident({error, _}, _, Source) ->
    Source#source{resident = [], resident_ms = never}.

%% @doc The kinds alone, as figures: none where the counters have not been found. Asks the
%% schedulers for the portable engine.
-spec by_kind(flame_prof_engine:name()) -> flame_prof_node:figures().
by_kind(portable) ->
    memory(flame_prof_memory:vm());
by_kind(native) ->
    case flame_prof_allocators:known_sums() of
        {ok, Sums} -> memory(kinds(Sums));
        none -> []
    end.

%% @doc Of one kind. Asks the schedulers where the counters have not been found.
-spec kind(kind()) -> non_neg_integer().
kind(Kind) ->
    case [kinds(Sums) || {ok, Sums} <- [flame_prof_allocators:known_sums()]] of
        [#{Kind := Bytes}] -> Bytes;
        _ -> erlang:memory(Kind)
    end.

%% From memory.

of_sums(#{allocators := Allocators} = Sums) ->
    #{taken := Taken, given_back := GivenBack, super_carrier := Super} = Sums,
    lists:append([
        [
            {node_allocator_carriers, lists:sum([element(2, A) || A <- Allocators])},
            {node_allocator_blocks, lists:sum([element(3, A) || A <- Allocators])},
            {node_carriers_taken, Taken},
            {node_carriers_given_back, GivenBack}
        ],
        [Figure || {Size, Used} <- [Super],
            Figure <- [{node_super_carrier, Size}, {node_super_carrier_used, Used}]],
        lists:append([of_allocator(Allocator) || Allocator <- Allocators]),
        memory(kinds(Sums))
    ]).

%% Twelve allocators at most: these atoms are few.
of_allocator(Sums) ->
    [Name | Values] = tuple_to_list(Sums),
    [Short | _] = string:split(atom_to_list(Name), "_alloc"),
    [{list_to_atom(lists:append(["node_alloc_", Short, "_", What])), Value}
        || {What, Value} <- lists:zip(?OF_ALLOCATOR, Values), Value =/= none].

memory(Kinds) ->
    [{Name, Bytes} || {Kind, Name} <- ?KINDS, #{Kind := Bytes} <- [Kinds]].

%% @doc What `erlang:memory/0' makes of the same figures (erlang.erl, aa_mem_data()). Empty where
%% an allocator is off; without `processes' where their blocks of fixed sizes were not found, as
%% may be on a node that was busy when the counters were looked for.
-spec kinds(flame_prof_allocators:sums()) -> kinds().
kinds(#{allocators := Allocators, fix_of_processes := Fix}) ->
    Blocks = maps:from_list([{element(1, A), element(3, A)} || A <- Allocators]),
    case Blocks of
        #{eheap_alloc := Heaps, binary_alloc := Binaries, ets_alloc := Tables, fix_alloc := _,
            std_alloc := _, ll_alloc := _, sl_alloc := _, driver_alloc := _} ->
            Areas = maps:from_list([{element(1, A), element(2, A)}
                || A <- erlang:system_info(allocated_areas)]),
            Area = fun(Names) -> lists:sum([maps:get(Name, Areas, 0) || Name <- Names]) end,
            maps:merge(of_processes(Heaps, Fix, Area), #{
                total => lists:sum(maps:values(maps:without([temp_alloc, test_alloc], Blocks))) +
                    Area([external_alloc]),
                binary => Binaries,
                ets => Tables + Area([ets_misc]),
                atom => Area([atom_space, atom_table]),
                code => Area([module_table, export_table, export_list, fun_table, fun_list,
                    module_refs, loaded_code])
            });
        #{} ->
            #{}
    end.

of_processes(_, none, _) ->
    #{};
of_processes(Heaps, Fix, Area) ->
    #{processes => Heaps + Fix + Area([process_table, bif_timer])}.

%% From the kernel.

process(Files) ->
    Process = flame_prof_memory:process(Files),
    [{Name, Value}
        || {Key, Name} <- [
            {rss, node_rss},
            {anonymous, node_rss_anonymous},
            {files, node_rss_files},
            {minor_faults, node_page_faults},
            {major_faults, node_major_faults}
        ],
        #{Key := Value} <- [Process]].

%% From the schedulers.

asked() ->
    {Carriers, Blocks} = allocated(),
    [{node_allocator_carriers, Carriers}, {node_allocator_blocks, Blocks}
        | memory(flame_prof_memory:vm())].

%% Memory of the allocators from the system, and its part in use.
allocated() ->
    Allocators = erlang:system_info(alloc_util_allocators),
    Found = [erlang:system_info({allocator_sizes, A}) || A <- Allocators],
    Kinds = [
        Sizes
     || Instances <- Found,
        is_list(Instances),
        {instance, _, Properties} <- Instances,
        {Kind, Sizes} <- Properties,
        lists:member(Kind, [mbcs, mbcs_pool, sbcs])
    ],
    {
        lists:sum([element(2, S) || Sizes <- Kinds, S <- Sizes, element(1, S) =:= carriers_size]),
        lists:sum([
            element(2, Size)
         || Sizes <- Kinds,
            {blocks, Blocks} <- Sizes,
            {_, Properties} <- Blocks,
            Size <- Properties,
            element(1, Size) =:= size
        ])
    }.
