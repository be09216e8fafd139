%% @private The node's memory as figures of a session's file: by kind, by allocator, and what the
%% kernel says of the OS process.
%%
%% With the native engine all of it is read: the allocators' counters out of memory
%% ({@link flame_prof_allocators}), what lies beside them by `erlang:system_info(allocated_areas)',
%% which asks no scheduler, the rest from /proc. Only the first reading in a VM's life asks the
%% schedulers. With the portable engine, and where the counters cannot be found, each reading asks
%% them: `erlang:memory/0', `erlang:system_info({allocator_sizes, _})'.
-module(flame_prof_node_memory).

-export([new/1, at_once/0, figures/1, kind/1, kinds/1]).

-export_type([source/0, kinds/0]).

-record(source, {
    %% So often the counters may still be looked for.
    tries :: non_neg_integer(),
    limit = none :: none | {ok, pos_integer()},
    %% When the limit is read again.
    limit_ms :: integer(),
    %% Open files of /proc.
    files :: [{ok, file:fd()} | {error, term()}]
}).

-opaque source() :: #source{}.

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

-define(TRIES, 3).
-define(LIMIT_MS, 30000).

%% @doc For the calling process, which keeps two files of /proc open.
-spec new(flame_prof_engine:name()) -> source().
new(Engine) ->
    #source{
        tries = case Engine of native -> ?TRIES; portable -> 0 end,
        limit_ms = erlang:monotonic_time(millisecond),
        files = flame_prof_memory:process_files()
    }.

%% @doc What can be told before the counters are found: by asking the schedulers once.
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
    Source = #source{limit = Limit, files = Files} = with_limit(Source1),
    {Figures ++ process(Files) ++ [{node_rss_limit, Bytes} || {ok, Bytes} <- [Limit]], Source}.

of_vm(#source{tries = 0} = Source) ->
    {asked(), Source};
of_vm(#source{tries = Tries} = Source) ->
    case flame_prof_allocators:sums() of
        {ok, Sums} -> {of_sums(Sums), Source#source{tries = ?TRIES}};
        {error, _} -> {asked(), Source#source{tries = Tries - 1}}
    end.

with_limit(#source{limit_ms = LimitMs} = Source) ->
    case erlang:monotonic_time(millisecond) of
        Now when Now >= LimitMs ->
            Limit = flame_prof_cgroup:memory_limit(),
            Source#source{limit = Limit, limit_ms = Now + ?LIMIT_MS};
        _ ->
            Source
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
        memory(kinds_or_asked(Sums))
    ]).

of_allocator({Name, Carriers, Blocks, Single, Pool, LargestFree}) ->
    {Carriers_, Blocks_, Single_, Pool_, LargestFree_} = names(Name),
    [
        {Carriers_, Carriers}, {Blocks_, Blocks}, {Single_, Single}, {Pool_, Pool}
        | [{LargestFree_, LargestFree} || LargestFree =/= none]
    ].

%% Twelve allocators at most: these atoms are few.
names(Name) ->
    [Short | _] = string:split(atom_to_list(Name), "_alloc"),
    Named = fun(What) -> list_to_atom("node_alloc_" ++ Short ++ What) end,
    {Named("_carriers"), Named("_blocks"), Named("_sbc_carriers"), Named("_pool"),
        Named("_largest_free")}.

kinds_or_asked(Sums) ->
    case kinds(Sums) of
        None when map_size(None) =:= 0 -> asked_kinds();
        Kinds -> Kinds
    end.

memory(Kinds) ->
    [{Name, Bytes} || {Kind, Name} <- ?KINDS, #{Kind := Bytes} <- [Kinds]].

%% @doc What `erlang:memory/0' makes of the same figures (erlang.erl, aa_mem_data()). Empty where
%% a part of them is not known.
-spec kinds(flame_prof_allocators:sums()) -> kinds().
kinds(#{allocators := Allocators, fix_of_processes := Fix}) ->
    Blocks = maps:from_list([{Name, Bytes} || {Name, _, Bytes, _, _, _} <- Allocators]),
    case Blocks of
        #{eheap_alloc := Heaps, binary_alloc := Binaries, ets_alloc := Tables, fix_alloc := _,
            std_alloc := _, ll_alloc := _, sl_alloc := _, driver_alloc := _}
            when Fix =/= none ->
            Areas = maps:from_list([{element(1, A), element(2, A)}
                || A <- erlang:system_info(allocated_areas)]),
            Area = fun(Names) -> lists:sum([maps:get(Name, Areas, 0) || Name <- Names]) end,
            #{
                total => lists:sum(maps:values(maps:without([temp_alloc, test_alloc], Blocks))) +
                    Area([external_alloc]),
                processes => Heaps + Fix + Area([process_table, bif_timer]),
                binary => Binaries,
                ets => Tables + Area([ets_misc]),
                atom => Area([atom_space, atom_table]),
                code => Area([module_table, export_table, export_list, fun_table, fun_list,
                    module_refs, loaded_code])
            };
        #{} ->
            #{}
    end.

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
    [{node_allocator_carriers, Carriers}, {node_allocator_blocks, Blocks} | memory(asked_kinds())].

%% A VM whose allocators are switched off (`+Mea min', say) does not know.
asked_kinds() ->
    try maps:from_list(erlang:memory())
    catch error:notsup -> #{}
    end.

%% What the allocators have from the system, and what of it is in use.
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
