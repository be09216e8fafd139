%% @private What a process of a look at waits is doing, and who waits for it.
-module(flame_prof_doctor_does).

-export([function/3, at_look/2, waiters/2, queue/1]).

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

%% @doc The function of its stack at the look.
-spec at_look(pid(), flame_prof_waits:look()) -> binary().
at_look(Pid, #{processes := Told}) ->
    Frames = [{flame_prof_doctor_rule:text({M, F, A}), erlang}
        || {M, F, A, _} <- maps:get(stack, maps:get(Pid, Told, #{}), []), is_atom(M)],
    flame_prof_doctor_stacks:function([{Frames, 1} || Frames =/= []]).

shared(<<>>, _) ->
    {<<>>, none};
shared(Function, Stacks) ->
    In = flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:anywhere(Stacks, [Function])),
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
