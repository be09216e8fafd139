%% @doc What is wrong with a node, in sentences, the cause first.
-module(flame_prof_doctor).

-export([judge/2, of_profile/2, kinds/0]).

-export_type([diagnosis/0]).

-type diagnosis() ::
    #{
        findings := [flame_prof_doctor_rule:finding()],
        unseen := [{flame_prof_doctor_rule:kind(), Why :: binary()}]
    }.
%% The most severe first. `unseen': kinds that could not be judged.

%% In the order of the list in doc/doctor.md: where severities are equal, the first is told first.
-define(RULES, [
    flame_prof_doctor_scheduler_stuck,
    flame_prof_doctor_bottleneck_files,
    flame_prof_doctor_mailbox,
    flame_prof_doctor_selective_receive,
    flame_prof_doctor_lock,
    flame_prof_doctor_long_gc,
    flame_prof_doctor_gc,
    flame_prof_doctor_spawn_storm,
    flame_prof_doctor_exceptions,
    flame_prof_doctor_append,
    flame_prof_doctor_copies,
    flame_prof_doctor_timers,
    flame_prof_doctor_persistent_term,
    flame_prof_doctor_code_loading,
    flame_prof_doctor_priority,
    flame_prof_doctor_hot_function,
    flame_prof_doctor_heap_growth,
    flame_prof_doctor_losses
]).

%% @doc The closed list of what the doctor knows.
-spec kinds() -> [flame_prof_doctor_rule:kind()].
kinds() ->
    lists:uniq([Rule:kind() || Rule <- ?RULES]).

%% @doc Evidence judged by all rules. Thresholds are named `Kind_Name'; those not given have their
%% defaults.
-spec judge(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) -> diagnosis().
judge(Evidence, Given) ->
    {Seen, Unseen} = lists:partition(fun(Rule) -> missing(Rule, Evidence) =:= [] end, ?RULES),
    Found = [
        {Rule, Finding}
     || Rule <- Seen, Finding <- Rule:find(Evidence, thresholds(Rule, Given))
    ],
    Told = [Finding || {Rule, Finding} <- Found, not is_explained(Rule, Finding, Found)],
    #{
        findings => lists:sort(fun is_before/2, Told),
        unseen => [{Rule:kind(), why(Rule, Evidence)} || Rule <- Unseen]
    }.

%% @doc A profile alone, judged: what its samples tell, and the figures that its profiler noted.
-spec of_profile(flame_prof_profile:profile(), flame_prof_doctor_rule:thresholds()) -> diagnosis().
of_profile(Profile, Thresholds) ->
    case flame_prof_doctor_samples:read(Profile) of
        {ok, Samples} ->
            judge(flame_prof_doctor_samples:evidence(Samples), Thresholds);
        {error, Reason} ->
            Why = unicode:characters_to_binary(flame_prof_error:format(Reason)),
            judge(#{node => none, engine => native, span_us => 0, unseen => #{samples => Why}},
                Thresholds)
    end.

missing(Rule, Evidence) ->
    [Need || Need <- Rule:needs(), not is_map_key(Need, Evidence)].

why(Rule, #{unseen := Unseen} = Evidence) ->
    [Need | _] = missing(Rule, Evidence),
    maps:get(Need, Unseen, <<"not looked at">>).

thresholds(Rule, Given) ->
    Kind = atom_to_list(Rule:kind()),
    maps:from_list([
        {Name, maps:get(list_to_atom(Kind ++ "_" ++ atom_to_list(Name)), Given, Default)}
     || {Name, Default, _} <- Rule:thresholds()
    ]).

is_explained(Rule, #{processes := [#{pid := Pid} | _]}, Found) ->
    Kinds = case erlang:function_exported(Rule, explained_by, 0) of
        true -> Rule:explained_by();
        false -> []
    end,
    lists:any(
        fun({_, #{kind := Kind, processes := Processes}}) ->
            lists:member(Kind, Kinds) andalso
                [P || #{pid := P} <- lists:sublist(Processes, 1), P =:= Pid] =/= []
        end,
        Found
    );
is_explained(_Rule, _Finding, _Found) ->
    false.

is_before(A, B) ->
    order(A) =< order(B).

order(#{severity := Severity, kind := Kind, size := Size}) ->
    {rank(Severity, [critical, warning, note]), rank(Kind, kinds()), -Size}.

rank(Wanted, [Wanted | _]) -> 0;
rank(Wanted, [_ | Rest]) -> 1 + rank(Wanted, Rest).
