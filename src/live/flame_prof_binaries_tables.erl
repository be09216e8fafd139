%% @private Finds where the VM's ETS tables have their objects, once in its life: some tables are
%% filled with binaries for a moment, and the library looks for the places that lead to just these
%% (c_src/erts/ets_objects.c). Nothing is asked of any other table.
%%
%% Some milliseconds. The tables belong to a process of their own and are gone when this returns.
-module(flame_prof_binaries_tables).

-export([ensure/0]).

%% Options, objects. The first has its first buckets only; the third chains all in one; the large
%% one has more segments than the first.
-define(TABLES, [
    {[set], 40},
    {[set, public, {write_concurrency, true}], 60},
    {[bag], 24},
    {[duplicate_bag, compressed], 30},
    {[set, compressed], 700},
    {[ordered_set], 7},
    {[ordered_set, public, {read_concurrency, true}], 50},
    {[ordered_set, compressed], 20},
    {[ordered_set, public, {write_concurrency, true}], 7},
    {[ordered_set, public, {write_concurrency, true}, compressed], 50}
]).

%% @doc The layout is known, or why it is not.
-spec ensure() -> ok | {error, binary()}.
ensure() ->
    case flame_prof_tables_layout:ensure() of
        ok ->
            case flame_prof_looks_nif:tables_objects([]) of
                ok -> ok;
                _ -> answered(flame_prof_tables_layout:in_process(fun find/0))
            end;
        Error ->
            answered(Error)
    end.

answered(ok) -> ok;
answered({error, {_, Why}}) -> {error, Why}.

find() ->
    flame_prof_looks_nif:tables_objects([fact(Options, Count) || {Options, Count} <- ?TABLES]).

fact([Type | _] = Options, Count) ->
    Table = ets:new(flame_prof_binaries_probe, Options),
    Objects = [{key(Type, N), N, binary(N, 1), binary(N, 100)} || N <- lists:seq(1, Count)],
    true = ets:insert(Table, Objects),
    Binaries = lists:append([[One, Two] || {_, _, One, Two} <- Objects]),
    {Table, buckets(Options, Table), Count, Binaries}.

key(bag, _) -> all;
key(_, N) -> N.

%% Refc binaries.
binary(N, More) -> binary:copy(<<N>>, 70 + N rem 100 + More).

buckets([ordered_set | Options], _) ->
    case lists:member({write_concurrency, true}, Options) of
        true -> concurrent_tree;
        false -> tree
    end;
buckets(_, Table) ->
    element(1, ets:info(Table, stats)).
