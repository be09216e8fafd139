%% @doc What is wrong with a node, in sentences, the cause first. {@link flame_prof:doctor/0} prints
%% it.
%%
%% ```
%% 1> {ok, #{findings := Findings}} = flame_prof:look(doctor, #{}).
%% 2> [{Severity, Kind} || #{severity := Severity, kind := Kind} <- Findings].
%% [{critical,bottleneck}]
%% 3> Options = #{for => 30000, thresholds => #{mailbox_long => 5000}},
%%    {ok, Diagnosis} = flame_prof:look(doctor, Options).
%% 4> io:put_chars(flame_prof_doctor:format(Diagnosis)).
%% '''
%%
%% doc/doctor.md has the kinds and their thresholds, what an examination costs the node, and what
%% it does not see. Rules are modules of their own: {@link flame_prof_doctor_rule}.
-module(flame_prof_doctor).

-behaviour(flame_prof_look).

-export([examine/0, examine/1, judge/2, of_profile/2, diagnosed/3]).
-export([about/0, takes/0, run/2, text/2, longest_ms/1]).
-export([format/1, json/1, kinds/0, thresholds/0, options/1]).

-export_type([options/0, diagnosis/0]).

-type options() ::
    #{
        node => node() | flame_prof_options:left_out(),
        for => pos_integer() | flame_prof_options:left_out(),
        engine => auto | native | portable | flame_prof_options:left_out(),
        thresholds => flame_prof_doctor_rule:thresholds() | flame_prof_options:left_out()
    }.
%% <ul>
%% <li>`for': milliseconds to look at the node, from 1,000 to 60,000 (10,000)</li>
%% <li>`node': which node; {@link flame_prof} takes it</li>
%% <li>`engine': `auto' takes the native engine where it can be trusted</li>
%% <li>`thresholds': by the names in doc/doctor.md, `Kind_Name'; those not given have their
%%     defaults</li>
%% </ul>

-type diagnosis() ::
    #{
        findings := [flame_prof_doctor_rule:finding()],
        unseen := [{flame_prof_doctor_rule:kind(), Why :: binary()}],
        looked_at => flame_prof_doctor_text:looked_at()
    }.
%% The most severe first. `unseen': kinds that could not be judged.

%% In the order of the list in doc/doctor.md: where severities are equal, the first is told first.
-define(RULES, [
    flame_prof_doctor_memory_limit,
    flame_prof_doctor_limit,
    flame_prof_doctor_deadlock,
    flame_prof_doctor_throttled,
    flame_prof_doctor_scheduler_stuck,
    flame_prof_doctor_bottleneck_locks,
    flame_prof_doctor_bottleneck,
    flame_prof_doctor_bottleneck_files,
    flame_prof_doctor_chain,
    flame_prof_doctor_unanswered,
    flame_prof_doctor_unanswered_locks,
    flame_prof_doctor_unanswered_tasks,
    flame_prof_doctor_stalled,
    flame_prof_doctor_stalled_nodes,
    flame_prof_doctor_mailbox,
    flame_prof_doctor_selective_receive,
    flame_prof_doctor_lock,
    flame_prof_doctor_busy_port,
    flame_prof_doctor_busy_port_calls,
    flame_prof_doctor_busy_dist,
    flame_prof_doctor_file_io,
    flame_prof_doctor_files_taken,
    flame_prof_doctor_restart_loop,
    flame_prof_doctor_logger,
    flame_prof_doctor_logger_calls,
    flame_prof_doctor_formatting,
    flame_prof_doctor_long_gc,
    flame_prof_doctor_gc,
    flame_prof_doctor_spawn_storm,
    flame_prof_doctor_exceptions,
    flame_prof_doctor_append,
    flame_prof_doctor_append_binary,
    flame_prof_doctor_copies,
    flame_prof_doctor_copies_ets,
    flame_prof_doctor_timers,
    flame_prof_doctor_persistent_term,
    flame_prof_doctor_code_loading,
    flame_prof_doctor_priority,
    flame_prof_doctor_hot_function,
    flame_prof_doctor_heap_growth,
    flame_prof_doctor_binary_leak,
    flame_prof_doctor_table_growth,
    flame_prof_doctor_atom_growth,
    flame_prof_doctor_process_growth,
    flame_prof_doctor_port_growth,
    flame_prof_doctor_monitor_growth,
    flame_prof_doctor_code_growth,
    flame_prof_doctor_fragmentation,
    flame_prof_doctor_programs_started,
    flame_prof_doctor_stolen_cpu,
    flame_prof_doctor_run_queue,
    flame_prof_doctor_run_queue_dirty,
    flame_prof_doctor_losses
]).

%% Each of the processes that these name does it; of other kinds the first one is the cause.
-define(OF_ALL, [append, copies, exceptions, formatting, lock, timers]).

%% What grows also while a node starts.
-define(GROWS, [heap_growth, binary_leak, table_growth, atom_growth, process_growth, port_growth,
    monitor_growth, code_growth]).

%% What grows in a node that is younger may be what it starts with.
-define(YOUNG_MS, 60000).

%% @private
-spec examine() -> {ok, diagnosis()} | {error, flame_prof:reason()}.
examine() ->
    examine(#{}).

%% @private
%% Looks at this node for some seconds, and judges what was seen. The samples are read here,
%% too.
-spec examine(options()) -> {ok, diagnosis()} | {error, flame_prof:reason()}.
examine(Given) ->
    case options(Given) of
        {ok, #{thresholds := Thresholds} = Options} ->
            examine(flame_prof_shortage:check(doctor), Options, Thresholds);
        {error, _} = Error ->
            Error
    end.

examine(ok, Options, Thresholds) ->
    {Evidence, Files} = flame_prof_doctor_evidence:collect(Options),
    {ok, diagnosed(Evidence, Files, Thresholds)};
examine({error, _} = Shortage, _Options, _Thresholds) ->
    Shortage.

%% @private The options with their defaults.
-spec options(options()) ->
    {ok, #{for := pos_integer(), engine := auto | native | portable,
        thresholds := flame_prof_doctor_rule:thresholds()}}
    | {error, flame_prof:reason()}.
options(Given) ->
    flame_prof_schema:checked(rows(), Given).

rows() ->
    [
        #{key => for, type => {whole, ms, 1000, 60000}, default => 10000,
            doc => "how long to look, up to 60s"},
        flame_prof_look_options:engine(),
        #{key => thresholds, word => none,
            type => {own, fun known/1, "a map of thresholds by their names"},
            default => #{}}
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => doctor,
        group => wrong,
        asks => "what is wrong with this node, in sentences",
        sentence => "What is wrong with a node, in sentences, the cause first.",
        cost => "Costs at most 2 % of one CPU for samples, and looks at waits of 15 to 65 ms of "
            "one CPU for 100,000 processes, 11 of them.",
        shows => "The tag atoms of requests and messages; no contents.",
        argument => {node, optional, "node()", "NODE"},
        runs => here,
        lends => [flame_prof_doctor_evidence],
        assistant => #{
            title => "What is wrong with the node",
            tells => [
                "Bottlenecks, deadlocks, queues, memory that grows, long BIFs and NIFs, locks, ",
                "limits and more, each with the process, the function and numbers, and the ",
                "command that shows more. Begin with it. Nothing is found in a healthy node under ",
                "load. The answer comes some seconds after the look. It sees what happens during ",
                "the look, and not what happens rarely. Less is seen without the native engine ",
                "(Linux on x86_64): the answer says what is not seen."],
            seconds => {for, 6, 30, "how long it looks (10)"}
        },
        examples => ["doctor shop@myhost", "doctor shop@myhost --for 30s --report shop.html",
            "doctor /tmp/prof/*.erl_perf.log.zst --threshold limit_warning=0.7"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> rows().

%% @private The other node collects; samples are read, and all is judged, here.
-spec run(node(), map()) -> {ok, diagnosis()} | {error, flame_prof:reason()}.
run(Node, Options) when Node =:= node() ->
    examine(maps:remove(node, Options));
run(Node, #{thresholds := Thresholds} = Options) ->
    case flame_prof_remote_evidence:collect(Node, Options) of
        {ok, {Evidence, Files}} -> {ok, diagnosed(Evidence, Files, Thresholds)};
        {error, _} = Error -> Error
    end.

%% @private
-spec text(diagnosis(), pos_integer()) -> unicode:chardata().
text(Diagnosis, _Columns) -> format(Diagnosis).

%% @private
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{for := Ms}) -> Ms.

known(Given) when is_map(Given) ->
    Known = maps:from_list([{Name, Default} || {Name, Default, _} <- thresholds()]),
    case [Name || {Name, Value} <- maps:to_list(Given),
        not is_map_key(Name, Known) orelse not is_number(Value)] of
        [] ->
            {ok, Given};
        [Name | _] when is_map_key(Name, Known) ->
            {error, flame_prof_schema:refused(Name, maps:get(Name, Given), "a number")};
        [Name | _] ->
            Accepted = ["no such threshold; there are: ",
                lists:join(", ", [atom_to_list(N) || {N, _, _} <- thresholds()])],
            {error, flame_prof_schema:refused(Name, maps:get(Name, Given), Accepted)}
    end;
known(_) ->
    error.

%% @private What was collected, judged where this is called: reading the samples takes memory and
%% some CPU time.
-spec diagnosed(
    flame_prof_doctor_rule:evidence(),
    [flame_prof_recording:file()],
    flame_prof_doctor_rule:thresholds()
) -> diagnosis().
diagnosed(Evidence, [], Thresholds) ->
    told(Evidence, Thresholds);
diagnosed(Evidence, Files, Thresholds) ->
    %% What was read is not copied to another process: stacks share much.
    With = fun(Paths) -> told(with_files(Paths, Evidence), Thresholds) end,
    case flame_prof_temporary:with_files(Files, With) of
        {error, Reason} -> told(without_samples(Reason, Evidence), Thresholds);
        Diagnosis -> Diagnosis
    end.

with_files(Paths, Evidence) ->
    case flame_prof_profile:read(Paths) of
        {ok, Profile} -> with_samples(Profile, Evidence);
        {error, Reason} -> without_samples(Reason, Evidence)
    end.

with_samples(Profile, Evidence) ->
    try flame_prof_doctor_samples:read(Profile) of
        {ok, Samples} -> Evidence#{samples => Samples};
        {error, Reason} -> without_samples(Reason, Evidence)
    catch
        _:_:Stack -> without_samples(flame_prof_error:internal(Stack), Evidence)
    end.

without_samples(Why, #{unseen := Unseen} = Evidence) when is_binary(Why) ->
    Evidence#{unseen := Unseen#{samples => Why}};
without_samples(Reason, Evidence) ->
    without_samples(unicode:characters_to_binary(flame_prof_error:format(Reason)), Evidence).

told(Evidence, Thresholds) ->
    #{findings := Findings} = Diagnosis = judge(Evidence, Thresholds),
    Looked = flame_prof_doctor_text:looked_at(Evidence),
    MayBeStart = maps:get(uptime_ms, Looked, ?YOUNG_MS) < ?YOUNG_MS
        andalso lists:any(fun grows/1, Findings),
    Diagnosis#{looked_at => case MayBeStart of
        true -> Looked#{may_be_start => true};
        false -> Looked
    end}.

%% @private The closed list of what the doctor knows.
-spec kinds() -> [flame_prof_doctor_rule:kind()].
kinds() ->
    lists:uniq([Rule:kind() || Rule <- ?RULES]).

%% @doc All thresholds, as `Kind_Name', with their defaults and what they are.
-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [{full_name(Rule, Name), Default, What} || Rule <- ?RULES,
        {Name, Default, What} <- Rule:thresholds()].

full_name(Rule, Name) ->
    list_to_atom(atom_to_list(Rule:kind()) ++ "_" ++ atom_to_list(Name)).

%% @private
%% Evidence judged by all rules. Thresholds are named `Kind_Name'; those not given have their
%% defaults.
-spec judge(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) -> diagnosis().
judge(Evidence, Given) ->
    Judged = [{Rule, judged(Rule, Evidence, thresholds(Rule, Given))} || Rule <- ?RULES],
    Found = [{Rule, Finding} || {Rule, {ok, Findings}} <- Judged, Finding <- Findings],
    {Explained, Left} = lists:partition(
        fun({Rule, Finding}) -> causes(Rule, Finding, Found) =/= [] end, Found),
    Told = [as_severe(Finding, [Of || {Rule, #{severity := Of} = Explains} <- Explained,
        lists:member(Finding, causes(Rule, Explains, Found))]) || {_, Finding} <- Left],
    #{
        findings => causes_first(lists:sort(fun is_before/2, Told)),
        unseen => unseen(Judged, [Kind || #{kind := Kind} <- Told])
    }.

%% A kind may have two rules, of which one needs less.
unseen(Judged, Found) ->
    Seen = Found ++ [Rule:kind() || {Rule, {ok, _}} <- Judged],
    Unseen = maps:from_list([{Rule:kind(), Why} || {Rule, {unseen, Why}} <- Judged]),
    [{Kind, maps:get(Kind, Unseen)}
        || Kind <- kinds(), is_map_key(Kind, Unseen), not lists:member(Kind, Seen)].

%% @private A profile alone, judged: what its samples tell, and the figures that its profiler noted.
-spec of_profile(flame_prof_profile:profile(), flame_prof_doctor_rule:thresholds()) -> diagnosis().
of_profile(Profile, Thresholds) ->
    case flame_prof_doctor_samples:read(Profile) of
        {ok, #{processes := []} = Samples} ->
            Evidence = maps:remove(samples, flame_prof_doctor_samples:evidence(Samples)),
            told(without_samples(<<"no sample of an Erlang process is in these files">>, Evidence),
                Thresholds);
        {ok, Samples} ->
            told(flame_prof_doctor_samples:evidence(Samples), Thresholds);
        {error, Reason} ->
            Why = unicode:characters_to_binary(flame_prof_error:format(Reason)),
            told(#{node => none, engine => native, span_us => 0, unseen => #{samples => Why}},
                Thresholds)
    end.

missing(Rule, Evidence) ->
    [Need || Need <- Rule:needs(), not is_map_key(Need, Evidence)].

why(Rule, #{unseen := Unseen} = Evidence) ->
    [Need | _] = missing(Rule, Evidence),
    maps:get(Need, Unseen, <<"not looked at">>).

judged(Rule, Evidence, Thresholds) ->
    case missing(Rule, Evidence) of
        [] -> found(Rule, Evidence, Thresholds);
        [_ | _] -> {unseen, why(Rule, Evidence)}
    end.

%% Of a kind that a node that starts also shows?
grows(#{kind := Kind}) -> lists:member(Kind, ?GROWS).

%% A rule that fails takes no other finding with it.
found(Rule, #{start := #{is_starting := true}} = Evidence, Thresholds) ->
    case grows(#{kind => Rule:kind()}) of
        true -> {unseen, <<"the node is still starting: repeat the look later">>};
        false -> found(Rule, maps:remove(start, Evidence), Thresholds)
    end;
found(Rule, Evidence, Thresholds) ->
    try Rule:find(Evidence, Thresholds) of
        {unseen, _} = Unseen -> Unseen;
        [] -> not_found(Rule, Evidence, Thresholds);
        Findings -> {ok, Findings}
    catch
        _:_:Stack -> {unseen, flame_prof_error:internal(Stack)}
    end.

%% Did it judge?
not_found(Rule, Evidence, Thresholds) ->
    Asked = erlang:function_exported(Rule, unseen, 2),
    case Asked andalso Rule:unseen(Evidence, Thresholds) of
        Why when is_binary(Why) -> {unseen, Why};
        _ -> {ok, []}
    end.

thresholds(Rule, Given) ->
    maps:from_list([
        {Name, maps:get(full_name(Rule, Name), Given, Default)}
     || {Name, Default, _} <- Rule:thresholds()
    ]).

%% What of the same process explains it.
causes(Rule, #{processes := [#{pid := Pid} | _]}, Found) ->
    Kinds = case erlang:function_exported(Rule, explained_by, 0) of
        true -> Rule:explained_by();
        false -> []
    end,
    [
        Cause
     || {_, #{kind := Kind, processes := Processes} = Cause} <- Found,
        lists:member(Kind, Kinds), lists:member(Pid, [P || #{pid := P} <- meant(Kind, Processes)])
    ];
causes(_Rule, _Finding, _Found) ->
    [].

%% As what it explains, which is not told.
as_severe(#{severity := Own} = Finding, Explained) ->
    [Severity | _] = [S || S <- severities(), lists:member(S, [Own | Explained])],
    Finding#{severity := Severity}.

severities() -> [critical, warning, note].

%% What leads to another finding stands before it, and is as severe.
causes_first(Findings) ->
    lists:foldl(fun cause_first/2, Findings, [F || #{caused_by := [_ | _]} = F <- Findings]).

cause_first(#{severity := Severity} = Finding, Findings) ->
    {Before, [Finding | After]} = lists:splitwith(fun(F) -> F =/= Finding end, Findings),
    case [Cause || Cause <- After, is_cause(Cause, Finding)] of
        [Cause | _] ->
            Before ++ [as_severe(Cause, [Severity]), Finding | lists:delete(Cause, After)];
        [] ->
            Findings
    end.

%% Of one process, where both name any and more than one kind may lead there.
is_cause(#{kind := Kind}, #{caused_by := [Only]}) ->
    Kind =:= Only;
is_cause(#{kind := Kind} = Cause, #{caused_by := Kinds} = Finding) ->
    lists:member(Kind, Kinds) andalso case {first(Cause), first(Finding)} of
        {[Pid], [Other]} -> Pid =:= Other;
        _ -> true
    end.

first(#{processes := Processes}) -> [Pid || #{pid := Pid} <- lists:sublist(Processes, 1)].

meant(Kind, Processes) ->
    case lists:member(Kind, ?OF_ALL) of
        true -> Processes;
        false -> lists:sublist(Processes, 1)
    end.

is_before(A, B) ->
    order(A) =< order(B).

order(#{severity := Severity, kind := Kind, size := Size}) ->
    {rank(Severity, severities()), rank(Kind, kinds()), -Size}.

rank(Wanted, [Wanted | _]) -> 0;
rank(Wanted, [_ | Rest]) -> 1 + rank(Wanted, Rest).

%% @doc As text: a paragraph for each finding.
-spec format(diagnosis()) -> unicode:chardata().
format(Diagnosis) -> flame_prof_doctor_text:format(Diagnosis).

%% @doc For {@link flame_prof_json}: every number and pid.
-spec json(diagnosis()) -> #{atom() => term()}.
json(Diagnosis) -> flame_prof_doctor_text:json(Diagnosis).
