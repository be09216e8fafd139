%% Workloads of which it is known who causes what.
-module(blamed_work).

-export([with_asking/1, with/2, is_of/2]).
%% In stacks.
-export([asking/1, garbage/1, entry/1, turn/1]).

with_asking(Fun) ->
    Table = ets:new(table, [public]),
    ets:insert(Table, {key, lists:seq(1, 500)}),
    with(spawn(?MODULE, asking, [Table]), Fun).

with(Pid, Fun) ->
    try Fun(Pid)
    after exit(Pid, kill)
    end.

%% Of a name in a report: whether it is a line of this function of this module.
is_of(Name, Function) -> lists:prefix("blamed_work:" ++ Function ++ ":", binary_to_list(Name)).

asking(Table) ->
    often(Table),
    seldom(Table),
    asking(Table).

often(Table) ->
    _ = ets:lookup(Table, key),
    _ = ets:lookup(Table, key),
    _ = ets:lookup(Table, key),
    ok.

seldom(Table) ->
    _ = ets:lookup(Table, key),
    ok.

garbage(Live) -> garbage([N + 1 || N <- Live]).

entry(Depth) ->
    _ = walk(Depth),
    entry(Depth).

%% Two functions in turn.
walk(0) -> lists:sum(lists:seq(1, 500));
walk(N) -> 1 + turn(N - 1).

turn(N) -> 1 + walk(N).
