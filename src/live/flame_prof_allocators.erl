%% @doc What the VM's allocators have: carriers, which are memory taken from the system, and blocks,
%% which are memory given out of them. By allocator and instance, read from their own counters.
%% {@link flame_prof_memory} has them in its page.
%%
%% ```
%% 1> {ok, [#{allocator := eheap_alloc, instance := 1, carriers_bytes := C, blocks_bytes := B} | _]}
%%        = flame_prof_allocators:look().
%% '''
%%
%% == Why it is cheap ==
%% `erlang:system_info({allocator, _})' and `recon_alloc' ask every scheduler, and wait for the
%% slowest. Here the counters of all instances are copied out of memory, some 500 ns for each. Where
%% they are is found once in a VM's life: the first look asks the schedulers and compares.
%%
%% == How exact it is ==
%% At rest the figures equal those of `system_info'. An instance whose scheduler is at work may be
%% seen between two of its counters: its blocks and its carriers are then one allocation apart.
%% Memory of an allocator that `+M' flags turned off is malloc's, and not counted anywhere.
-module(flame_prof_allocators).

-export([look/0, sums/0, known_sums/0, off/1]).
-export([facts/0]).

-export_type([instance/0, carriers/0, of_allocator/0, sums/0]).

-type carriers() :: #{
    mseg_carriers := non_neg_integer(),
    mseg_bytes := non_neg_integer(),
    sys_carriers := non_neg_integer(),
    sys_bytes := non_neg_integer(),
    blocks := non_neg_integer(),
    blocks_bytes := non_neg_integer()
}.
%% `mseg': the VM's own mappings. `sys': from malloc.

-type instance() :: #{
    allocator := atom(),
    instance := non_neg_integer(),
    carriers := non_neg_integer(),
    carriers_bytes := non_neg_integer(),
    blocks := non_neg_integer(),
    blocks_bytes := non_neg_integer(),
    multi := carriers(),
    single := carriers(),
    largest_free => non_neg_integer(),
    pool => #{
        carriers := non_neg_integer(),
        bytes := non_neg_integer(),
        blocks := non_neg_integer(),
        blocks_bytes := non_neg_integer()
    }
}.
%% The sums are those of `multi' (carriers with many blocks), `single' (a carrier for each large
%% block) and `pool': carriers that this instance made and that no instance uses now. Without
%% `pool' no allocator of the node lets go of carriers. `largest_free': bytes of the largest free
%% block in `multi'; the strategies `bf', `aobf', `gf' and `af' do not keep it. Instance 0 serves
%% threads that are no schedulers; instance N serves scheduler N.

%% Bytes of all instances: carriers, blocks, single-block carriers, those in the pool, the largest
%% free block; carriers from mseg and from malloc, those in the pool left out; blocks in
%% single-block carriers.
-type of_allocator() :: {
    atom(), non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer(),
    none | non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer()
}.

-type sums() :: #{
    allocators := [of_allocator()],
    taken := non_neg_integer(),
    given_back := non_neg_integer(),
    fix_of_processes := none | non_neg_integer(),
    super_carrier := none | {Size :: non_neg_integer(), Used :: non_neg_integer()}
}.
%% `taken', `given_back': calls for carriers since the start of the VM. `fix_of_processes': bytes of
%% the blocks of fixed sizes that `erlang:memory(processes)' counts. `none': not known, or none.

%% The eleven counters of the pool, in the order of Allctr_t.
-define(POOL_COUNTERS, [
    fail_pooled, fail_shared, fail_pend_dealloc, fail, fetch, skip_size, skip_busy,
    skip_not_pooled, skip_homecoming, skip_race, entrance_removed
]).

%% Blocks of fixed sizes that erlang:memory(processes) counts (erlang.erl).
-define(FIX_OF_PROCESSES, [proc, monitor, link, msg_ref, ll_ptimer, hl_ptimer, bif_timer]).

%% A scheduler in a long NIF does not answer.
-define(ASK_MS, 2000).
-define(TRIES, 5).
-define(PAUSE_MS, 20).

%% @doc The instances, by allocator and number.
-spec look() -> {ok, [instance()]} | {error, flame_prof:reason()}.
look() ->
    case erlang:module_loaded(flame_prof_nif) andalso read() of
        {ok, {Rows, HasPool, _, _}} -> {ok, [instance(Row, HasPool) || Row <- Rows]};
        {error, _} = Error -> Error;
        false -> first_look(flame_prof_engine:choose(auto))
    end.

%% The agent is loaded first.
first_look({ok, #{engine := native}}) -> look();
first_look({ok, #{engine_reason := Why}}) -> refused(portable, Why);
first_look({error, _} = Error) -> Error.

%% @private The sums over the instances of each allocator, and what else costs nothing to read.
-spec sums() -> {ok, sums()} | {error, flame_prof:reason()}.
sums() ->
    case read() of
        {ok, Read} -> {ok, named(Read)};
        {error, _} = Error -> Error
    end.

%% @private The same if a look has found the counters before: no scheduler is asked.
-spec known_sums() -> {ok, sums()} | none.
known_sums() ->
    try erlang:module_loaded(flame_prof_nif) andalso flame_prof_nif:allocators_read() of
        {_, _, _, _} = Read -> {ok, named(Read)};
        _ -> none
    catch
        %% The library is not loaded.
        error:_ -> none
    end.

named({Rows, _, Fix, Super}) ->
    #{
        allocators => [of_allocator(Name, Of) || Name <- flame_prof_allocator_names:all(),
            [_ | _] = Of <- [[Row || Row <- Rows, name(Row) =:= Name]]],
        taken => total(Rows, [19]),
        given_back => total(Rows, [20]),
        fix_of_processes => Fix,
        super_carrier => Super
    }.

name(Row) -> lists:nth(element(1, Row) + 1, flame_prof_allocator_names:all()).

%% An atom is larger than any number.
of_allocator(Name, Rows) ->
    {Name, total(Rows, [4, 6, 10, 12, 16]), total(Rows, [8, 14, 18]), total(Rows, [10, 12]),
        total(Rows, [16]), lists:max([element(21, Row) || Row <- Rows]), total(Rows, [4, 10]),
        total(Rows, [6, 12]), total(Rows, [14])}.

total(Rows, Places) -> lists:sum([element(Place, Row) || Row <- Rows, Place <- Places]).

%% The first look in a VM's life finds the places. Where the library is not loaded, its module is
%% not called: that would look for its file.
read() ->
    try erlang:module_loaded(flame_prof_nif) andalso flame_prof_nif:allocators_read() of
        NotYet when NotYet =:= undefined; NotYet =:= false -> begin_reading();
        Answer -> told(Answer)
    catch
        %% The library is not loaded.
        error:_ -> begin_reading()
    end.

begin_reading() ->
    case flame_prof_engine:choose(auto) of
        {ok, #{engine := native}} -> flame_prof_looks:with(fun() -> calibrated(?TRIES) end);
        {ok, #{engine := portable, engine_reason := Why}} -> refused(portable, Why);
        {error, _} = Error -> Error
    end.

%% @private Allocators that `+M' flags turned off: malloc has their memory.
-spec off([instance()]) -> [atom()].
off(Instances) ->
    On = [Name || #{allocator := Name} <- Instances],
    (flame_prof_allocator_names:all() -- [sys_alloc, test_alloc]) -- On.

told({error, Error}) -> refused(Error, <<"the counters could not be read">>);
told(Read) -> {ok, Read}.

%% An instance at work differs from what was said of it: again, up to a limit; at last without the
%% parts that are not counters.
calibrated(Tries) ->
    case asked() of
        {ok, {Facts, Fixes, Super}} ->
            Parts = case Tries of 1 -> [none, none]; _ -> [Fixes, Super] end,
            case apply(flame_prof_looks_nif, allocators_solve, [Facts | Parts]) of
                ok ->
                    _ = flame_prof_nif:value_take(flame_prof_looks_nif:value(allocators)),
                    told(flame_prof_nif:allocators_read());
                {error, {enoent, _}} when Tries > 1 ->
                    timer:sleep(?PAUSE_MS),
                    calibrated(Tries - 1);
                {error, {Error, Why}} ->
                    refused(Error, Why)
            end;
        late ->
            refused(late, <<"a scheduler did not report its allocators within two seconds">>)
    end.

refused(Cause, Why) ->
    Reason = <<"allocators: ", Why/binary>>,
    {error, {engine, #{engine => native, reason => Reason, cause => Cause}}}.

%% In a process of its own: what comes too late is not for the caller.
asked() ->
    Self = self(),
    Tag = make_ref(),
    {Pid, Monitor} = spawn_monitor(fun() -> Self ! {Tag, {facts(), fixes(), super_carrier()}} end),
    receive
        {'DOWN', Monitor, process, Pid, _} -> told_by(Tag)
    after ?ASK_MS ->
        exit(Pid, kill),
        receive
            {'DOWN', Monitor, process, Pid, _} -> told_by(Tag)
        end
    end.

told_by(Tag) ->
    receive
        {Tag, Facts} -> {ok, Facts}
    after 0 ->
        late
    end.

%% @private What the VM says of each instance, as the words of its counters.
-spec facts() -> [flame_prof_looks_nif:allocator_fact()].
facts() ->
    [
        {Name, N, calls(value(calls, Facts)) ++ carriers(value(sbcs, Facts)) ++
            carriers(value(mbcs, Facts)), pool(Facts), has_tree(value(options, Facts))}
     || Name <- flame_prof_allocator_names:all(),
        Name =/= sys_alloc,
        {instance, N, Facts} <- instances(erlang:system_info({allocator, Name}))
    ].

instances(Instances) when is_list(Instances) -> Instances;
%% false, or undefined: turned off, or not in this release.
instances(_) -> [].

value(Key, Facts) -> proplists:get_value(Key, Facts, []).

calls(Facts) ->
    [counter(Key, Facts)
     || Key <- [mseg_alloc, mseg_dealloc, mseg_realloc, sys_alloc, sys_free, sys_realloc]].

%% The family of address order first fit: each carrier is in a tree.
has_tree(Options) ->
    lists:member(value(as, Options),
        [aoff, aoffcbf, aoffcaobf, ageffcaoff, ageffcbf, ageffcaobf]).

%% The numbers of erlang:memory/0. Another release may say it otherwise: then it stays unknown.
fixes() ->
    Ref = make_ref(),
    try
        true = erlang:system_info({memory_internal, Ref, [fix_alloc]}),
        Told = lists:append([told_fixes(Ref) || _ <- lists:seq(1, erlang:system_info(schedulers))]),
        Fixes = [{N, Types} || {fix_alloc, N, Facts} <- Told, Types <- fix_types(Facts)],
        [{_, [_ | _] = Types} | _] = Fixes,
        {bits([lists:member(Name, ?FIX_OF_PROCESSES) || {Name, _, _} <- Types]),
            [{N, [Bytes || {_, Bytes, _} <- Of]} || {N, Of} <- Fixes]}
    catch
        error:_ -> none
    end.

told_fixes(Ref) ->
    receive
        {Ref, _Scheduler, Facts} -> Facts
    after ?ASK_MS -> error(late)
    end.

fix_types(Facts) ->
    [Types || Fact <- Facts, element(1, Fact) =:= fix_types,
        [_ | _] = Types <- [element(tuple_size(Fact), Fact)]].

bits(Flags) ->
    lists:foldr(fun(Flag, Bits) -> 2 * Bits + case Flag of true -> 1; false -> 0 end end, 0, Flags).

super_carrier() ->
    Mappers = erlang:system_info({allocator, erts_mmap}),
    case value(supercarrier, value(default_mmap, Mappers)) of
        [] ->
            none;
        Facts ->
            [value(Key, value(sizes, Facts)) || Key <- [total, used, used_sa, used_sua]]
    end.

%% Now, maximum, maximum ever; the third kind of carrier is never used.
carriers(Facts) ->
    {_, _, Carriers, CarriersEver} = current(carriers, Facts),
    {_, _, Bytes, BytesEver} = current(carriers_size, Facts),
    By = [value(Key, Facts)
        || Key <- [mseg_alloc_carriers, mseg_alloc_carriers_size, sys_alloc_carriers,
            sys_alloc_carriers_size]],
    [number(N) || N <- By] ++ [0, 0, Carriers, Bytes, CarriersEver, BytesEver] ++
        lists:append([blocks(value(Name, value(blocks, Facts)))
            || Name <- flame_prof_allocator_names:all()]).

blocks(Facts) ->
    {_, Count, CountMax, CountEver} = current(count, Facts),
    {_, Size, SizeMax, SizeEver} = current(size, Facts),
    [Count, Size, CountMax, SizeMax, CountEver, SizeEver].

current(Key, Facts) ->
    case lists:keyfind(Key, 1, Facts) of
        false -> {Key, 0, 0, 0};
        Fact -> Fact
    end.

number(N) when is_integer(N) -> N;
number([]) -> 0.

pool(Facts) ->
    case lists:keyfind(mbcs_pool, 1, Facts) of
        false ->
            none;
        {_, Pool} ->
            Asked = value(options, Facts),
            Options = [number(value(Key, Asked)) || Key <- [acul, acful, acnl, acfml]],
            Blocks = [value(Name, value(blocks, Pool)) || Name <- flame_prof_allocator_names:all()],
            Options ++ [0] ++ [number(value(size, B)) || B <- Blocks] ++
                [number(value(count, B)) || B <- Blocks] ++
                [value(carriers_size, Pool), value(carriers, Pool)] ++
                [counter(Key, Pool) || Key <- ?POOL_COUNTERS]
    end.

counter(Key, Pool) ->
    {_, Billions, Rest} = lists:keyfind(Key, 1, Pool),
    Billions * 1000000000 + Rest.

instance(Row, HasPool) ->
    Words = fun(From, N) -> list_to_tuple(lists:sublist(tuple_to_list(Row), From, N)) end,
    Pool = Words(15, 4),
    Kinds = [of_carriers(Words(3, 6)), of_carriers(Words(9, 6))],
    Parts = [Pool | [sums(Kind) || Kind <- Kinds]],
    [Carriers, CarriersBytes, Blocks, BlocksBytes] =
        [lists:sum([element(K, Part) || Part <- Parts]) || K <- [1, 2, 3, 4]],
    [MultiMap, SingleMap] = Kinds,
    with_pool(HasPool, Pool, with_largest_free(element(21, Row), #{
        allocator => name(Row),
        instance => element(2, Row),
        carriers => Carriers,
        carriers_bytes => CarriersBytes,
        blocks => Blocks,
        blocks_bytes => BlocksBytes,
        multi => MultiMap,
        single => SingleMap
    })).

with_largest_free(none, Instance) -> Instance;
with_largest_free(Bytes, Instance) -> Instance#{largest_free => Bytes}.

of_carriers({Mseg, MsegBytes, Sys, SysBytes, Blocks, BlocksBytes}) ->
    #{
        mseg_carriers => Mseg,
        mseg_bytes => MsegBytes,
        sys_carriers => Sys,
        sys_bytes => SysBytes,
        blocks => Blocks,
        blocks_bytes => BlocksBytes
    }.

sums(#{mseg_carriers := Mseg, sys_carriers := Sys, mseg_bytes := MsegBytes,
    sys_bytes := SysBytes, blocks := Blocks, blocks_bytes := BlocksBytes}) ->
    {Mseg + Sys, MsegBytes + SysBytes, Blocks, BlocksBytes}.

with_pool(false, _, Instance) ->
    Instance;
with_pool(true, {Carriers, Bytes, Blocks, BlocksBytes}, Instance) ->
    Pool = #{carriers => Carriers, bytes => Bytes, blocks => Blocks, blocks_bytes => BlocksBytes},
    Instance#{pool => Pool}.
