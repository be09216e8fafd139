%% @private What a process of a look at waits is doing, and who waits for it.
-module(flame_prof_doctor_does).

-export([function/3, function_of/4, work/5, at_look/2, waiters/2, queue/1]).

-import(flame_prof_doctor_rule, [share/1]).

-define(WAITERS_MOST, 20).

%% @doc The function that explains what it does: of its samples with their share, else of its stack
%% at the look.
-spec function(pid(), flame_prof_doctor_rule:evidence(), flame_prof_waits:look()) ->
    {binary(), Share :: float() | none}.
function(Pid, Evidence, Look) ->
    case flame_prof_doctor_waits:sampled(Pid, Evidence) of
        #{observations := All, running := _} = Process when All > 0 ->
            #{samples := #{stacks := Stacks}} = Evidence,
            Of = Stacks(maps:get(pid, Process), [<<"running">>, <<"runnable">>,
                <<"garbage_collecting">>, <<"waiting">>]),
            shared(flame_prof_doctor_stacks:function(Of), Of);
        _ ->
            {at_look(Pid, Look), none}
    end.

%% @doc The same of one that many wait for; where it waits itself, of the one that it waits for. Of
%% an earlier look it is that of the stack then: samples are of all the time.
-spec function_of(now | past, pid(), [flame_prof_waits_graph:edge()],
    flame_prof_doctor_rule:evidence()) -> {binary(), Share :: float() | none}.
function_of(When, Pid, Path, #{waits := Look} = Evidence) ->
    case {When, Path} of
        {_, [#{to := To}]} when not is_pid(To) -> {<<>>, none};
        {past, [#{to := To}]} -> {at_look(To, Look), none};
        {past, []} -> {at_look(Pid, Look), none};
        {now, [#{to := To}]} -> function(To, Evidence, Look);
        {now, []} -> function(Pid, Evidence, Look)
    end.

%% @doc A sentence on that; empty where it is not known.
-spec work(now | past, binary(), Share :: float() | none, [flame_prof_waits_graph:edge()],
    flame_prof_waits:look()) -> unicode:chardata().
work(_, <<>>, _, [], _) -> "";
work(When, <<>>, _, [Edge], Look) -> [waits(When, Edge, Look), "."];
work(When, F, none, [], _) -> ["It ", verb(When, "is", "was"), " in ", F, "."];
work(_, F, Share, [], _) -> ["It spends ", share(Share), " of its time in ", F, "."];
work(When, F, _, [Edge], Look) ->
    [waits(When, Edge, Look), ", which ", verb(When, "is", "was"), " in ", F, "."].

waits(When, #{to := To, how := How}, Look) ->
    Other = flame_prof_doctor_rule:name(flame_prof_doctor_waits:process(To, Look)),
    case How of
        start -> [verb(When, "It starts ", "It started "), Other, verb(When, " and waits until that "
            "is ready", " and waited until that was ready")];
        _ -> [verb(When, "It waits for ", "It waited for "), Other, " itself"]
    end.

verb(now, Is, _) -> Is;
verb(past, _, Was) -> Was.

%% @doc The function of its stack at the look.
-spec at_look(pid(), #{processes := #{pid() => flame_prof_waits:told()}, _ => _}) -> binary().
at_look(Pid, #{processes := Told}) ->
    Frames = [{flame_prof_doctor_rule:text({M, F, A}), erlang}
        || {M, F, A, _} <- maps:get(stack, maps:get(Pid, Told, #{}), []), is_atom(M)],
    flame_prof_doctor_stacks:function([{Frames, 1} || Frames =/= []]).

shared(<<>>, _) ->
    {<<>>, none};
shared(Function, Stacks) ->
    In = flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:within(Stacks, Function)),
    {Function, In / max(1, flame_prof_doctor_stacks:weight(Stacks))}.

%% @doc Numbers of its message queue, and how often it was sampled.
-spec queue(flame_prof_doctor_samples:process() | none) -> #{atom() => number()}.
queue(#{queue := [_ | _] = Queue, queue_range := {First, _, _, Last}, observations := N} = P) ->
    Us = max(1, flame_prof_doctor_samples:span_us(P)),
    #{observations => N, queue_from => First, queue_to => Last,
        queue_least => lists:min([Min || {_, Min, _, _} <- Queue]),
        queue_per_second => (Last - First) * 1.0e6 / Us};
queue(#{observations := N}) ->
    #{observations => N};
queue(none) ->
    #{}.

%% @doc How many wait for it directly, and who: twenty at most, those who have waited longest first.
-spec waiters(flame_prof_waits_graph:vertex(), flame_prof_doctor_rule:evidence()) ->
    {non_neg_integer(), [flame_prof_doctor_rule:process()]}.
waiters(To, #{waits := #{edges := Edges} = Look} = Evidence) ->
    Since = [{-maps:get(since_ms, Edge, 0), From} || #{to := Of, from := From} = Edge <- Edges,
        Of =:= To],
    First = [From || {_, From} <- lists:sublist(lists:sort(Since), ?WAITERS_MOST)],
    {length(Since), [known(flame_prof_doctor_waits:process(From, Look),
        flame_prof_doctor_waits:sampled(From, Evidence)) || From <- First]}.

%% The look has the names of those in its trees only.
known(#{name := <<>>} = Process, #{name := Name}) -> Process#{name := Name};
known(Process, _) -> Process.
