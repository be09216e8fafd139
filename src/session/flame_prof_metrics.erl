%% @private The counters of the running session in Prometheus' text form (version
%% 0.0.4), for whatever answers `/metrics' in this node.
-module(flame_prof_metrics).

-export([all/0, format/1, metric/4, labels/1]).

%% A metric of the library's counters: one line for each counter, told apart by the
%% label. `{seconds, PerSecond}' says in what part of a second the counter counts.
-type row() ::
    {
        Name :: string(),
        gauge | counter,
        Help :: string(),
        Unit :: count | {seconds, PerSecond :: pos_integer()},
        Label :: none | atom(),
        [{Counter :: atom(), Value :: string()}]
    }.

%% @doc Of this node now: the session, the memory, and the calls that are measured, if any are.
-spec all() -> binary().
all() ->
    Latency =
        case flame_prof_latency:running() of
            {ok, Answer} -> flame_prof_latency_text:prometheus(Answer);
            none -> []
        end,
    iolist_to_binary([format(flame_prof_info:info()), flame_prof_memory_metrics:all(), Latency]).

%% @doc Of what `flame_prof:info/0' answers. Times are in seconds.
-spec format(flame_prof:info()) -> binary().
format(Info) ->
    iolist_to_binary([up(Info), triggers(Info) | of_session(Info)]).

up(#{state := State} = Info) ->
    Up =
        case State of
            stopped -> 0;
            armed when not is_map_key(counters, Info) -> 0;
            _ -> 1
        end,
    metric("up", gauge, "Whether a session is running (1) or not (0).", [{[], Up}]).

%% One line for each condition: of two triggers on the same the sum.
triggers(#{triggers := Triggers}) ->
    Fired = lists:foldl(
        fun(#{on := On, fired := N}, Sums) ->
            maps:update_with(flame_prof_trigger:name(On), fun(Sum) -> Sum + N end, N, Sums)
        end,
        #{},
        Triggers
    ),
    Values = [{[{on, On}], N} || {On, N} <- lists:sort(maps:to_list(Fired))],
    metric("triggers_fired_total", counter, "Profiles that the trigger has started.", Values);
triggers(_) ->
    [].

of_session(#{counters := Counters, engine := Engine, elapsed_ms := Ms} = Info) ->
    [
        metric("session_info", gauge, "The engine of the running session, as a label; always 1.",
            [{[{engine, Engine}], 1}]),
        metric("session_seconds", gauge, "Seconds since the start of the session.",
            [{[], Ms / 1000}]),
        [of_counters(Row, Counters) || Row <- rows()]
        | targets(Info)
    ];
of_session(_) ->
    [].

of_counters({Name, Type, Help, Unit, Label, Counters}, Values) ->
    metric(Name, Type, Help, [
        {[{Label, Value} || Label =/= none], in_unit(Unit, maps:get(Counter, Values))}
     || {Counter, Value} <- Counters
    ]).

in_unit(count, Value) -> Value;
in_unit({seconds, PerSecond}, Value) -> Value / PerSecond.

-spec rows() -> [row()].
rows() ->
    sample_rows() ++ file_rows() ++ selection_rows() ++ cost_rows().

sample_rows() ->
    [
        {"samples_total", counter, "Samples by outcome.", count, result, [
            {written, "written"}, {inconsistent, "inconsistent"}, {dropped, "dropped"},
            {exited, "exited"}, {evicted, "evicted"}
        ]},
        {"samples_attempted_total", counter, "Attempted samples.", count, none,
            [{attempted, ""}]},
        {"samples_pending", gauge, "Samples that are not in the file yet.", count, none,
            [{pending, ""}]},
        {"samples_inconsistent_total", counter,
            "Discarded inconsistent samples, by cause.", count, cause, [
                {inconsistent_changed, "changed"}, {inconsistent_moved, "moved"},
                {inconsistent_unfound, "unfound"}, {inconsistent_late, "late"}
            ]},
        {"samples_merged_total", counter,
            "Samples merged into the weight of another sample.", count, none, [{merged, ""}]},
        {"samples_lost_total", counter,
            "Dropped samples that the file refused.", count, none, [{lost, ""}]},
        {"samples_unsaved_total", counter,
            "Written samples whose file was removed or not synced afterwards.", count, none,
            [{unsaved, ""}]},
        {"own_samples_total", counter, "Samples of the profiler itself.", count, none,
            [{own_samples, ""}]},
        {"ticks_total", counter, "Ticks of the sampler, done and missed.", count, result,
            [{ticks, "done"}, {missed, "missed"}]},
        {"broken_invariants_total", counter,
            "Broken invariants of the library; the first one ends the session.", count, none,
            [{broken_invariants, ""}]}
    ].

file_rows() ->
    [
        {"text_bytes_total", counter, "Bytes of text before compression.", count, none,
            [{bytes, ""}]},
        {"file_bytes_total", counter, "Bytes written to files.", count, none,
            [{file_bytes, ""}]},
        {"files_total", counter, "Files by operation of the session.", count, event,
            [{files_begun, "begun"}, {files_removed, "removed"}, {files_recovered, "recovered"}]},
        {"file_errors_total", counter, "File operations that failed.", count, none,
            [{errors, ""}]},
        {"flushes_total", counter, "Flushes that have completed.", count, none, [{flushes, ""}]}
    ].

selection_rows() ->
    [
        {"selected_processes", gauge, "Selected processes.", count, none,
            [{selected, ""}]},
        {"growing_processes", gauge,
            "Processes selected because their queue or memory grew.", count, none,
            [{growers, ""}]},
        {"seen_processes", gauge, "Processes of the node at the last selection.", count, none,
            [{processes, ""}]},
        {"selections_total", counter, "Selections that have completed.", count, none,
            [{selections, ""}]},
        {"selection_interval_seconds", gauge,
            "Seconds between two selections, lengthened to stay within cpu_budget.",
            {seconds, 1000}, none, [{select_interval_ms, ""}]}
    ].

cost_rows() ->
    [
        {"cpu_seconds_total", counter, "CPU time of the profiler's threads.",
            {seconds, 1000000000}, thread,
            [{sampler_cpu_ns, "sampler"}, {writer_cpu_ns, "writer"}]},
        {"writer_cpu_seconds_total", counter, "CPU time of the writer, by kind of work.",
            {seconds, 1000000000}, work,
            [{file_cpu_ns, "file"}, {compress_cpu_ns, "compression"}]},
        {"handler_seconds_total", counter,
            "Time that schedulers spent in the signal handler.", {seconds, 1000000000}, none,
            [{handler_ns, ""}]},
        {"signals_total", counter, "Signals sent to schedulers for a capture.", count, none,
            [{signals, ""}]},
        {"signals_refused_total", counter,
            "Signals that the kernel refused (RLIMIT_SIGPENDING).", count, none,
            [{refused_signals, ""}]},
        {"captures_total", counter, "Stacks that signal handlers captured.", count, none,
            [{captures, ""}]},
        {"throttle_level", gauge,
            "Throttle level, from 0 (nothing left out) to 8.", count, none,
            [{budget_step, ""}]},
        {"throttle_changes_total", counter, "Changes of the throttle level.", count, none,
            [{budget_changes, ""}]},
        {"stacks_total", counter, "Distinct stacks that were defined to the writer.", count, none,
            [{stacks, ""}]},
        {"stacks_retried_total", counter, "Stacks that were read twice.", count, none,
            [{retried, ""}]},
        {"frames_unresolved_total", counter,
            "Frames left out because no function is at their address.", count, none,
            [{unresolved, ""}]},
        {"functions_recoded_total", counter,
            "Cached functions that a code load has replaced.", count, none, [{recoded, ""}]}
    ].

targets(#{targets := Targets}) ->
    Kinds = [explicit, included, filtered, followed],
    Help = "Processes sampled in addition to the selection, by reason.",
    [metric("target_processes", gauge, Help,
        [{[{kind, Kind}], maps:get(Kind, Targets)} || Kind <- Kinds])];
targets(_) ->
    [].

%% @doc A metric with a value for each list of labels.
-spec metric(
    string(), gauge | counter, string(), [{[{atom(), atom() | unicode:chardata()}], number()}]
) -> iodata().
metric(Name, Type, Help, Values) ->
    Full = ["flame_prof_", Name],
    [
        ["# HELP ", Full, $\s, Help, $\n, "# TYPE ", Full, $\s, atom_to_list(Type), $\n]
        | [[Full, labels(Labels), $\s, number(Value), $\n] || {Labels, Value} <- Values]
    ].

%% @doc `{name="value",name="value"}', with what a value may not have escaped.
-spec labels([{atom(), atom() | unicode:chardata()}]) -> iodata().
labels([]) ->
    [];
labels(Labels) ->
    Pairs = [[atom_to_list(Key), "=\"", label(Value), $"] || {Key, Value} <- Labels],
    [${, lists:join($,, Pairs), $}].

label(Value) when is_atom(Value) -> atom_to_list(Value);
label(Text) ->
    Escapes = [{<<"\\">>, <<"\\\\">>}, {<<"\"">>, <<"\\\"">>}, {<<"\n">>, <<"\\n">>}],
    Escape = fun({What, By}, Bytes) -> binary:replace(Bytes, What, By, [global]) end,
    lists:foldl(Escape, unicode:characters_to_binary(Text), Escapes).

number(N) when is_integer(N) -> integer_to_list(N);
number(F) -> io_lib:format("~.9f", [F]).
