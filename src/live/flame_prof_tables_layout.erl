%% @private Finds where the VM's tables have what, once in its life: some tables of all types are
%% made for a moment, and the library looks for the places that hold what `ets:info/2' says of them
%% (c_src/erts/ets_solve.c). Nothing is asked of any other table.
%%
%% Some milliseconds. The tables belong to a process of their own and are gone when this returns.
-module(flame_prof_tables_layout).

-export([ensure/0, in_process/1, numbers/1]).

%% Before a refusal is believed: another process may make a table on the same scheduler meanwhile,
%% or the maker may come to another one.
-define(TRIES, 8).
-define(PAUSE_MS, 10).
%% A snapshot of decentralized counters waits until each scheduler has passed by.
-define(WAIT_MS, 2000).

%% Name, options, objects. Two have decentralized counters; of the last one counters are not, and it
%% is like the one before it in all else. One has another owner, two have an heir.
-define(TABLES, [
    {flame_prof_tables_set, [set, protected], 3},
    {flame_prof_tables_ordered, [ordered_set, public, {keypos, 2}, {read_concurrency, true}], 17},
    {flame_prof_tables_bag, [bag, public, {keypos, 3}], 8},
    {flame_prof_tables_duplicate, [duplicate_bag, private, compressed], 40},
    {flame_prof_tables_tree, [ordered_set, public, named_table, {write_concurrency, true},
        {decentralized_counters, true}], 13},
    {flame_prof_tables_many, [set, public, {write_concurrency, true},
        {decentralized_counters, true}], 29},
    {flame_prof_tables_one, [set, public, {write_concurrency, true},
        {decentralized_counters, false}], 29}
]).

%% Bits of a status: c_src/erts/ets.h.
-define(PROTECTION, [{private, 1}, {protected, 2}, {public, 4}]).
-define(FINE_LOCKED, 16#200).
-define(FREQUENT_READ, 16#400).
-define(NAMED, 16#800).

%% @doc The layout is known, or why it is not.
-spec ensure() -> ok | {error, {atom(), binary()}}.
ensure() ->
    case flame_prof_looks_nif:tables_probe() of
        known -> ok;
        _ -> tries(?TRIES)
    end.

tries(N) ->
    case in_process(fun find/0) of
        {error, {Error, _}} when N > 1, Error =/= late, Error =/= unsupported ->
            timer:sleep(?PAUSE_MS),
            tries(N - 1);
        Answer ->
            Answer
    end.

%% @doc What a function says that makes tables, which are gone then.
-spec in_process(fun(() -> Answer)) -> Answer | {error, {late, binary()}}.
in_process(Find) ->
    Self = self(),
    Tag = make_ref(),
    {Pid, Monitor} = spawn_monitor(fun() -> Self ! {Tag, Find()} end),
    receive
        {'DOWN', Monitor, process, Pid, _} -> told(Tag)
    after ?WAIT_MS ->
        exit(Pid, kill),
        receive
            {'DOWN', Monitor, process, Pid, _} -> told(Tag)
        end
    end.

told(Tag) ->
    receive
        {Tag, Answer} -> Answer
    after 0 ->
        {error, {late, <<"the tables made for comparison could not be read in time">>}}
    end.

find() ->
    Other = spawn_link(fun() -> receive stop -> ok end end),
    try
        %% One after another: all of them on one scheduler.
        Made = [{Name, made(Name, Options, Other), Count} || {Name, Options, Count} <- ?TABLES],
        case flame_prof_looks_nif:tables_probe() of
            ok -> solve(Made, Other);
            known -> ok;
            {error, {Error, Why}} -> {error, {Error, Why}};
            {error, Error} -> {error, {Error, <<"the tables of a scheduler were not found">>}}
        end
    catch
        %% Its name is taken: another process does the same.
        error:badarg -> {error, {bad_state, <<"another look makes the same tables">>}}
    after
        unlink(Other),
        exit(Other, kill)
    end.

made(Name, Options, Other) ->
    Heir = [{heir, Other, none} || Name =:= flame_prof_tables_set],
    Table = ets:new(Name, Options ++ Heir),
    case Name of
        flame_prof_tables_bag -> ets:setopts(Table, {heir, self(), none});
        _ -> true
    end,
    Table.

solve(Made, Other) ->
    ArrayBytes = 8 * (memory(flame_prof_tables_many, Made) - memory(flame_prof_tables_one, Made)),
    _ = [ets:insert(Table, [object(N) || N <- lists:seq(1, Count)]) || {_, Table, Count} <- Made],
    true = ets:give_away(table(flame_prof_tables_bag, Made), Other, none),
    Facts = [fact(Table, Count) || {_, Table, Count} <- Made],
    flame_prof_looks_nif:tables_solve(Facts, ArrayBytes, erlang:system_info(schedulers)).

table(Name, Made) ->
    {Name, Table, _} = lists:keyfind(Name, 1, Made),
    Table.

memory(Name, Made) -> ets:info(table(Name, Made), memory).

object(N) -> {N, N, N}.

%% Once it was asked, the first slot of decentralized counters has all: two objects more are asked
%% for and deleted, so that another slot holds something as well.
fact(Table, Count) ->
    Words = ets:info(Table, memory),
    true = ets:insert(Table, [object(Count + 1), object(Count + 2)]),
    _ = ets:info(Table, memory),
    _ = [ets:delete(Table, Count + N) || N <- [1, 2]],
    [Owner, Heir, Name, Keypos, Decentralized, Compressed] = [ets:info(Table, Key)
        || Key <- [owner, heir, name, keypos, decentralized_counters, compressed]],
    {tid(Table), numbers(Table), Owner, Heir, Name, Keypos, status(Table), Count, Words,
        Decentralized, Compressed}.

tid(Name) when is_atom(Name) -> ets:whereis(Name);
tid(Tid) -> Tid.

%% @doc The last three numbers of a table's reference. No other table ever has them.
-spec numbers(ets:table()) -> flame_prof_looks_nif:ref_numbers().
numbers(Table) ->
    [_, N2, N1, N0] = [list_to_integer(N)
        || N <- string:lexemes(ref_to_list(tid(Table)), "#Ref<.>")],
    {N0, N1, N2}.

status(Table) ->
    Is = fun(Key) -> ets:info(Table, Key) =/= false end,
    Fine = Is(write_concurrency),
    {_, Protection} = lists:keyfind(ets:info(Table, protection), 1, ?PROTECTION),
    lists:sum(
        [Protection, type(ets:info(Table, type), Fine)] ++
            [?FINE_LOCKED || Fine] ++
            [?FREQUENT_READ || Is(read_concurrency)] ++
            [?NAMED || Is(named_table)]
    ).

type(set, _) -> 16#10;
type(bag, _) -> 16#20;
type(duplicate_bag, _) -> 16#40;
type(ordered_set, false) -> 16#80;
type(ordered_set, true) -> 16#100.
