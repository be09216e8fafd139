%% @private Tables as `ets:info/2' has them, for {@link flame_prof_tables} where memory cannot be
%% read. A process of its own asks: a table that is locked holds up who asks. For a table with
%% decentralized counters only cheap items are read.
-module(flame_prof_tables_portable).

-export([read/1]).

-define(TABLES_MOST, 1000).
-define(TIME_MS, 2000).

%% Bits of a status: c_src/erts/ets.h.
-define(BITS, #{
    private => 16#1,
    protected => 16#2,
    public => 16#4,
    set => 16#10,
    bag => 16#20,
    duplicate_bag => 16#40,
    ordered_set => 16#80
}).
-define(FINE_LOCKED, 16#200).
-define(NAMED, 16#800).

%% @doc As far as they answered; what is missing, and why memory is not read.
-spec read(Why :: binary()) -> {ok, [flame_prof_looks_nif:table_figures()], Unknown :: [binary()]}.
read(Why) ->
    Alias = erlang:alias(),
    {Pid, Monitor} = spawn_monitor(fun() -> ask(Alias) end),
    Until = erlang:monotonic_time(millisecond) + ?TIME_MS,
    {All, Figures} = collect(Alias, Monitor, Until, unknown, []),
    _ = erlang:unalias(Alias),
    exit(Pid, kill),
    erlang:demonitor(Monitor, [flush]),
    ok = flush(Alias),
    {ok, Figures, missing(All, length(Figures)) ++
        [<<"the rest: needs the native engine (", Why/binary, ")">>]}.

ask(Alias) ->
    Tables = ets:all(),
    Alias ! {Alias, all, length(Tables)},
    _ = [Alias ! {Alias, table, figures(Table)} || Table <- lists:sublist(Tables, ?TABLES_MOST)],
    ok.

collect(Alias, Monitor, Until, All, Figures) ->
    receive
        {Alias, all, Count} -> collect(Alias, Monitor, Until, Count, Figures);
        {Alias, table, gone} -> collect(Alias, Monitor, Until, All, Figures);
        {Alias, table, Row} -> collect(Alias, Monitor, Until, All, [Row | Figures]);
        {'DOWN', Monitor, process, _, _} -> {All, Figures}
    after max(0, Until - erlang:monotonic_time(millisecond)) -> {All, Figures}
    end.

flush(Alias) ->
    receive
        {Alias, _, _} -> flush(Alias)
    after 0 -> ok
    end.

missing(unknown, _) ->
    [<<"all tables: the node did not name them within two seconds">>];
missing(All, Told) when All > Told ->
    [<<(integer_to_binary(All - Told))/binary, " of ", (integer_to_binary(All))/binary,
        " tables: at most 1,000 are asked, for two seconds; or they went meanwhile">>];
missing(_, _) ->
    [].

figures(Table) ->
    try figures(Table, ets:info(Table, decentralized_counters))
    catch
        error:_ -> gone
    end.

figures(Table, true) -> row(Table, -1, -1, 1);
figures(Table, false) -> row(Table, ets:info(Table, size), words(ets:info(Table, memory)), 0).

words(Words) -> Words * erlang:system_info(wordsize).

%% A table that goes meanwhile has `undefined' in one of them.
row(Table, Objects, Bytes, Flags) when is_integer(Objects) ->
    Info = fun(Key) -> ets:info(Table, Key) end,
    Keypos = Info(keypos),
    Owner = Info(owner),
    true = is_integer(Keypos) andalso is_pid(Owner),
    Status = lists:sum(
        [maps:get(Info(Key), ?BITS) || Key <- [protection, type]] ++
            [?FINE_LOCKED || Info(write_concurrency) =/= false] ++
            [?NAMED || Info(named_table)]),
    Compressed = case Info(compressed) of true -> 2; false -> 0 end,
    {flame_prof_tables_layout:numbers(Table), Info(name), Owner, Status, Keypos, Objects, Bytes,
        Flags bor Compressed}.
