%% @private `table_growth': ETS tables take more and more memory, or there are more and more tables.
%%
%% == False alarms ==
%% A table that is filled and emptied goes up and down; one that is filled once comes to rest. What
%% is told grows through all of the time, by a part of what there was and by much a second. A cache
%% that is being filled for that long looks the same, and is told.
-module(flame_prof_doctor_table_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, bytes/1, number/1, share/1]).

kind() -> table_growth.

needs() -> [seconds].

thresholds() ->
    [
        {bytes_per_second, 262144, <<"more bytes in tables a second, all the time">>},
        {share, 0.05, <<"growth during the look, as a share of the value before">>},
        {tables_per_second, 5, <<"more tables a second, all the time">>},
        {file_readings, 3, <<"files: least number of values">>},
        {file_share, 0.2, <<"files: growth, as a share of the value before">>}
        | flame_prof_doctor_writers:thresholds()
    ].

find(#{node := none} = Evidence, Thresholds) ->
    of_file(Evidence, Thresholds);
find(#{seconds := Seconds} = Evidence, #{share := Share} = Thresholds) ->
    #{bytes_per_second := Bytes, tables_per_second := Tables} = Thresholds,
    Found = [
        finding(What, Growth, Evidence, Thresholds)
     || {What, Key, Least} <- [{tables, node_ets_tables, Tables}, {bytes, node_memory_ets, Bytes}],
        #{per_s := PerS, change := Change, from := From} = Growth <-
            [flame_prof_doctor_growth:steady(Key, Seconds)],
        PerS >= Least, Change >= Share * From
    ],
    case Found =:= [] andalso flame_prof_doctor_growth:is_missing(node_memory_ets, Seconds) of
        true -> {unseen, <<"the memory of tables was not read each second">>};
        false -> Found
    end.

unseen(Evidence, _) -> flame_prof_doctor_growth:unseen(Evidence).

%% A file has a figure each five seconds.
of_file(#{seconds := Seconds} = Evidence, #{bytes_per_second := Least} = Thresholds) ->
    #{file_readings := Readings, file_share := Share} = Thresholds,
    Values = [{Us, Bytes} || #{time_us := Us, node_memory_ets := Bytes} <- Seconds],
    case flame_prof_doctor_series:growing(Values, Readings - 1) of
        _ when length(Values) < Readings ->
            {unseen, <<"the files have too few figures of the node">>};
        #{from := From, to := To, from_us := FromUs, to_us := ToUs} when
            To - From >= Share * From, (To - From) * 1.0e6 >= Least * (ToUs - FromUs)
        ->
            Growth = #{from => From, to => To, change => To - From, span_us => ToUs - FromUs,
                per_s => (To - From) * 1.0e6 / (ToUs - FromUs), looks => length(Values),
                parts => length(Values) - 1},
            [finding(bytes, Growth, Evidence, Thresholds)];
        _ ->
            []
    end.

finding(tables, #{per_s := PerS} = Growth, Evidence, _) ->
    {Who, Processes, Counted} = flame_prof_doctor_takers:new_tables(Evidence),
    (finding(PerS, Growth))#{
        title => io_lib:format("~ts more ETS tables a second", [number(PerS)]),
        sentences => flame_prof_doctor_growth:sentences("The number of ETS tables", Growth,
            fun flame_prof_doctor_rule:number/1,
            Who ++ ["A table lives until it is deleted or its owner ends."]),
        processes => Processes,
        numbers => maps:merge(Growth, Counted)
    };
finding(bytes, #{per_s := PerS} = Growth, Evidence, Thresholds) ->
    {Title, More, Named} = table(Evidence, Thresholds),
    Numbers = maps:merge(Growth, maps:get(numbers, Named, #{})),
    maps:merge((finding(PerS, Growth))#{
        title => io_lib:format("~ts by ~ts a second", [Title, bytes(PerS)]),
        sentences => flame_prof_doctor_growth:sentences("The memory of all ETS tables", Growth,
            fun flame_prof_doctor_rule:bytes/1, More)
    }, Named#{numbers => Numbers}).

finding(PerS, Growth) ->
    #{
        kind => table_growth,
        severity => warning,
        size => PerS,
        command => "flame_prof tables NODE --for 5s --sort growth",
        processes => [],
        numbers => Growth
    }.

%% The one that grows most; of a file, who writes.
table(#{tables := #{tables := [#{growth := #{bytes_per_s := PerS}} = Table | _]}},
    _) when PerS > 0 ->
    #{name := Name, owner := Pid, bytes := Bytes, objects := Objects, growth := Growth} = Table,
    Owner = #{pid => flame_prof_doctor_rule:pid(Pid),
        name => flame_prof_doctor_rule:text(maps:get(owner_name, Table))},
    {["the ETS table ", atom_to_binary(Name), " grows"], [
        io_lib:format("The table ~ts of ~ts grows by ~ts and ~ts objects a second, to ~ts and ~ts "
            "objects.", [Name, name(Owner), bytes(PerS), number(maps:get(objects_per_s, Growth)),
            bytes(Bytes), number(Objects)])
    ], #{processes => [Owner], numbers => #{table_bytes => Bytes, table_objects => Objects,
        table_bytes_per_second => PerS,
        table_objects_per_second => maps:get(objects_per_s, Growth)}}};
table(#{node := none, samples := Samples}, Thresholds) ->
    case flame_prof_doctor_writers:most(Samples, Thresholds) of
        {Process, Share, Function} ->
            {"ETS tables grow", [
                [name(Process), " writes to tables for ", share(Share), " of its time on a CPU",
                    [[", in ", Function] || Function =/= <<>>], "."]
            ], maps:from_list([{processes, [Process]}, {numbers, #{writes_share => Share}} | [
                {function, Function} || Function =/= <<>>]])};
        none ->
            {"ETS tables grow", [], #{}}
    end;
table(_, _) ->
    {"ETS tables grow", [], #{}}.
