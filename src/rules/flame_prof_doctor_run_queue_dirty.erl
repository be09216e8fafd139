%% @private Calls wait for a dirty CPU scheduler, as others have all of them: BIFs and NIFs that
%% compute for long, and collections of large heaps.
%%
%% == False alarms ==
%% A few calls at once take them for a moment: the median of the seconds counts. One call that waits
%% may be of flame_prof itself.
-module(flame_prof_doctor_run_queue_dirty).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1, count/2]).

-define(NAMED_MOST, 20).
%% Of its time that one of these is in the call.
-define(IN_CALL, 0.5).

kind() -> run_queue.

needs() -> [seconds].

thresholds() ->
    [{dirty_length, 2, <<"calls that wait for a dirty CPU scheduler, in most seconds">>}].

find(#{seconds := [#{node_run_queue_dirty_cpu := _}, _, _ | _] = Seconds} = Evidence, Limits) ->
    #{dirty_length := Least} = Limits,
    Queues = lists:sort([N || #{node_run_queue_dirty_cpu := N} <- Seconds]),
    case lists:nth((length(Queues) + 1) div 2, Queues) of
        Queue when Queue >= Least -> [finding(Queue, Seconds, callers(Evidence))];
        _ -> []
    end;
find(_, _) ->
    {unseen, <<"the queue of dirty CPU schedulers is not in it">>}.

%% Those that are in one BIF or NIF for most of the time, or wait for their turn in it.
callers(#{samples := #{processes := Processes, stacks := Stacks}}) ->
    lists:reverse(lists:sort([
        {Share, flame_prof_doctor_samples:process(Process), In}
     || #{pid := Pid, observations := All} = Process <- Processes,
        In <- [[Stack || {Frames, _} = Stack <- Stacks(Pid, [<<"running">>, <<"runnable">>]),
            is_called(Frames)]],
        Share <- [flame_prof_doctor_stacks:weight(In) / max(1, All)], Share >= ?IN_CALL
    ]));
callers(_) ->
    [].

is_called([{_, native} | Frames]) -> is_called(Frames);
is_called([{_, called} | _]) -> true;
is_called(_) -> false.

finding(Queue, Seconds, Callers) ->
    Last = #{time_us := To} = lists:last(Seconds),
    Us = To - maps:get(time_us, hd(Seconds)),
    Schedulers = maps:get(node_dirty_cpu_schedulers, Last, 0),
    Stacks = lists:append([In || {_, _, In} <- Callers]),
    {Call, _} = flame_prof_doctor_stacks:most_called(Stacks),
    Finding = #{
        kind => kind(),
        severity => warning,
        size => Queue,
        title => ["all ", number(Schedulers), " dirty CPU schedulers are taken, and ",
            count(Queue, "call"), " wait for one"],
        sentences => [S || S <- [
            who(Callers, Call),
            "Collections of large heaps wait for these schedulers, too.",
            ["It was so in the median second, seen in ", count(length(Seconds), "look"), " in ",
                seconds(Us), "."]
        ], S =/= ""],
        command => "flame_prof top --node NODE --by running",
        processes => lists:sublist([Process || {_, Process, _} <- Callers], ?NAMED_MOST),
        numbers => #{queue => Queue, schedulers => Schedulers, callers => length(Callers),
            looks => length(Seconds), span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, Call} || Call =/= <<>>])).

who([], _) -> "Who has them is not known.";
who([{_, First, _} | _] = Callers, Call) ->
    ["There are ", count(length(Callers), "process"), " in such calls most of the time: ",
        name(First),
        " first, most in ", Call, "."].
