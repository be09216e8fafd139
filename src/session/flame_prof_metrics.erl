%% @private The books of the running session in Prometheus' text form (version
%% 0.0.4), for whatever answers `/metrics' in this node.
-module(flame_prof_metrics).

-export([format/1]).

%% What goes up and down; all other books only grow while a session runs.
-define(GAUGES, [selected, processes, pending, budget_step, select_interval_ms]).

%% @doc Of what `flame_prof:info/0' says. Times are in seconds.
-spec format(flame_prof:info()) -> binary().
format(Info) ->
    iolist_to_binary([up(Info), triggers(Info) | of_session(Info)]).

up(#{state := State} = Info) ->
    Up =
        case State of
            stopped -> 0;
            armed when not is_map_key(books, Info) -> 0;
            _ -> 1
        end,
    metric(up, gauge, "Whether a session is running.", [{[], Up}]).

%% One line for each, as they are many: of two on the same the sum.
triggers(#{triggers := Triggers}) ->
    Fired = lists:foldl(
        fun(#{on := On, fired := N}, Sums) ->
            maps:update_with(flame_prof_trigger:name(On), fun(Sum) -> Sum + N end, N, Sums)
        end,
        #{},
        Triggers
    ),
    Values = [{[{on, On}], N} || {On, N} <- lists:sort(maps:to_list(Fired))],
    metric(triggers_fired_total, counter, "Profiles that a trigger has started.", Values);
triggers(_) ->
    [].

of_session(#{books := Books, engine := Engine, elapsed_ms := Ms} = Info) ->
    [
        metric(session_info, gauge, "The running session.", [{[{engine, Engine}], 1}]),
        metric(session_seconds, gauge, "How long it has been running.", [{[], Ms / 1000}])
        | [book(Key, Value) || {Key, Value} <- lists:sort(maps:to_list(Books)),
            is_integer(Value)] ++
            targets(Info)
    ];
of_session(_) ->
    [].

book(Key, Value) ->
    case {lists:member(Key, ?GAUGES), seconds_name(Key)} of
        {true, _} -> metric(Key, gauge, help(Key), [{[], Value}]);
        {false, none} -> metric([atom_to_list(Key), "_total"], counter, help(Key), [{[], Value}]);
        {false, Name} -> metric(Name, counter, help(Key), [{[], Value / 1.0e9}])
    end.

seconds_name(Key) ->
    Name = atom_to_list(Key),
    case lists:suffix("_ns", Name) of
        true -> [lists:sublist(Name, length(Name) - 3), "_seconds_total"];
        false -> none
    end.

targets(#{targets := Targets}) ->
    Kinds = [explicit, included, filtered, caught],
    Help = "Processes looked at beside those that the rules choose.",
    [metric(targets, gauge, Help, [{[{kind, Kind}], maps:get(Kind, Targets)} || Kind <- Kinds])];
targets(_) ->
    [].

metric(Name, Type, Help, Values) ->
    Full = ["flame_prof_", name(Name)],
    [
        ["# HELP ", Full, $\s, Help, $\n, "# TYPE ", Full, $\s, atom_to_list(Type), $\n]
        | [[Full, labels(Labels), $\s, number(Value), $\n] || {Labels, Value} <- Values]
    ].

name(Name) when is_atom(Name) -> atom_to_list(Name);
name(Name) -> Name.

labels([]) -> [];
labels([{Key, Value}]) -> [${, atom_to_list(Key), "=\"", label(Value), "\"}"].

label(Value) when is_atom(Value) -> atom_to_list(Value);
label(Text) ->
    Escapes = [{<<"\\">>, <<"\\\\">>}, {<<"\"">>, <<"\\\"">>}, {<<"\n">>, <<"\\n">>}],
    lists:foldl(fun escape/2, Text, Escapes).

escape({What, By}, Text) -> binary:replace(Text, What, By, [global]).

number(N) when is_integer(N) -> integer_to_list(N);
number(F) -> io_lib:format("~.9f", [F]).

help(taken) -> "Samples begun.";
help(written) -> "Samples formatted and handed to the file.";
help(torn) -> "Samples given up because the process changed meanwhile.";
help(dropped) -> "Samples given up because there was no room for them.";
help(gone) -> "Samples given up because the process had exited.";
help(lost) -> "Samples that the file refused, counted in dropped as well.";
help(expired) -> "Samples held for a trigger that did not fire in time.";
help(pending) -> "Samples between the engine and the file.";
help(ticks) -> "Ticks done.";
help(missed) -> "Ticks left out because their time had passed.";
help(selected) -> "Processes looked at now.";
help(processes) -> "Processes seen at the last selection.";
help(bytes) -> "Bytes of text written.";
help(sampler_cpu_ns) -> "CPU time of the engine.";
help(writer_cpu_ns) -> "CPU time of the writer's thread.";
help(handler_ns) -> "Time that schedulers spent answering.";
help(budget_step) -> "How much is left out to keep within cpu_budget: 0 nothing, 8 most.";
help(select_interval_ms) ->
    "Milliseconds between selections, as stretched to keep within cpu_budget.";
help(_) -> "See The books in doc/sampling.md.".
