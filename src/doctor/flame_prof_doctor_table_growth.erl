%% @private `table_growth': ETS tables take more and more memory, or there are more and more tables.
%%
%% == False alarms ==
%% A table that is filled and emptied goes up and down; one that is filled once comes to rest. What
%% is told grows through all of the time, by a part of what there was and by much a second. A cache
%% that is being filled for that long looks the same, and is told.
-module(flame_prof_doctor_table_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [bytes/1, number/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> table_growth.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {bytes_per_second, 262144, <<"more bytes in tables a second, all the time">>},
        {share, 0.05, <<"growth in the time of the look, part of what there was">>},
        {tables_per_second, 5, <<"more tables a second, all the time">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{seconds := Seconds} = Evidence, #{share := Share} = Thresholds) ->
    #{bytes_per_second := Bytes, tables_per_second := Tables} = Thresholds,
    [
        finding(What, Growth, Evidence)
     || {What, Key, Least} <- [{tables, node_ets_tables, Tables}, {bytes, node_memory_ets, Bytes}],
        #{per_s := PerS, change := Change, from := From} = Growth <-
            [flame_prof_doctor_growth:steady(Key, Seconds)],
        PerS >= Least, Change >= Share * From
    ].

finding(tables, #{per_s := PerS} = Growth, _) ->
    (finding(PerS, Growth))#{
        title => io_lib:format("~ts more ETS tables a second", [number(PerS)]),
        sentences => flame_prof_doctor_growth:sentences("The number of ETS tables", Growth,
            fun flame_prof_doctor_rule:number/1,
            ["A table lives until it is deleted or its owner ends."])
    };
finding(bytes, #{per_s := PerS} = Growth, Evidence) ->
    {Title, More, Processes} = table(Evidence),
    (finding(PerS, Growth))#{
        processes := Processes,
        title => io_lib:format("~ts by ~ts a second", [Title, bytes(PerS)]),
        sentences => flame_prof_doctor_growth:sentences("The memory of all ETS tables", Growth,
            fun flame_prof_doctor_rule:bytes/1, More)
    }.

finding(PerS, Growth) ->
    #{
        kind => table_growth,
        severity => warning,
        size => PerS,
        command => "flame_prof tables NODE --sort growth",
        processes => [],
        numbers => Growth
    }.

%% The one that grew most, where the largest were asked.
table(#{tables := {First, Last}}) ->
    Before = fun(Id) -> maps:get(Id, First, #{bytes => 0, objects => 0}) end,
    Grown = [{Bytes - maps:get(bytes, Before(Id)), Objects - maps:get(objects, Before(Id)), Table}
        || {Id, #{bytes := Bytes, objects := Objects} = Table} <- maps:to_list(Last)],
    case lists:reverse(lists:keysort(1, Grown)) of
        [{Bytes, Objects, #{name := Name, bytes := Now} = Table} | _] when Bytes > 0 ->
            Process = #{
                pid => flame_prof_doctor_rule:pid(maps:get(owner, Table)),
                name => maps:get(owner_name, Table, <<>>)
            },
            Owner = flame_prof_doctor_rule:name(Process),
            {["the ETS table ", Name, " grows"], [
                io_lib:format("The table ~ts of ~ts grew by ~ts and ~ts objects to ~ts.",
                    [Name, Owner, bytes(Bytes), number(Objects), bytes(Now)])
            ], [Process]};
        _ ->
            {"ETS tables grow", [], []}
    end;
table(_) ->
    {"ETS tables grow", [], []}.
