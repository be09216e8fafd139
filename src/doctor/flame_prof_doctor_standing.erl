%% @private Processes that wait in one place and do nothing else for seconds, by the native engine:
%% read in memory some times, they have run nothing in between.
%%
%% Servers that wait for their next message are left out, and sleepers are the last to be kept. The
%% stacks of the others are read once, at the end.
-module(flame_prof_doctor_standing).

-export([look/2, monitored/1]).

-export_type([standing/0, process/0]).

-type process() :: #{pid := pid(), name := binary(), stack := [binary(), ...],
    since_ms := pos_integer()}.
%% `stack': functions, the innermost first.

-type standing() :: #{processes := [process()], left_out := non_neg_integer()}.

-define(PAUSE_MS, 1000).
-define(PROCESSES_MOST, 20000).
-define(STACKS_MOST, 500).
%% Of servers whose callers wait for answers: they are asked, and they are idle.
-define(SERVERS_MOST, 5).
-define(WAITERS_LEAST, 3).
-define(MONITORS_MOST, 1000).
-define(MONITORED_MOST, 20).
-define(ANSWER_MS, 300).

%% @doc At the end of the time: who has done nothing for a second or more.
-spec look(flame_prof_top_reader:engine(), UntilMs :: integer()) ->
    {ok, standing()} | {unseen, binary()}.
look(native, Until) ->
    case erlang:system_info(process_count) of
        Count when Count > ?PROCESSES_MOST ->
            {unseen, <<"there are more than 20000 processes">>};
        _ ->
            {ok, watched(Until, waiting(#{}), #{processes => [], left_out => 0})}
    end;
look(portable, _Until) ->
    {unseen, <<"that needs the native engine">>}.

%% The last reading is at the end of the time; of those before it the one with the most counts, too.
watched(Until, Seen, Most) ->
    case Until - now_ms() of
        Left when Left =< 0 ->
            both(with_stacks(Seen), Most);
        Left ->
            sleep(if Left < 2 * ?PAUSE_MS -> Left; true -> ?PAUSE_MS end),
            Now = waiting(Seen),
            watched(Until, Now, case length(long(Now)) > length(maps:get(processes, Most)) of
                true -> with_stacks(Now);
                false -> Most
            end)
    end.

both(#{processes := Last} = Standing, #{processes := Most}) ->
    Known = maps:from_list([{Pid, true} || #{pid := Pid} <- Last]),
    Standing#{processes := Last ++ [P || #{pid := Pid} = P <- Most, not is_map_key(Pid, Known)]}.

sleep(Ms) -> flame_prof_clock:sleep(Ms).
now_ms() -> erlang:monotonic_time(millisecond).

%% By process: its reductions, and since when it has them.
waiting(Before) ->
    Now = now_ms(),
    maps:from_list([
        {Pid, {Reductions, since(Pid, Reductions, Now, Before), Function}}
     || {Pid, #{status := waiting, reductions := Reductions} = Process} <-
            snapshot([brief | processes()]),
        Function <- [function(Process)], Function =/= none,
        not flame_prof_waits_portable:is_idle(Function), not flame_prof_own:is_own(Process)
    ]).

since(Pid, Reductions, Now, Before) ->
    case Before of
        #{Pid := {Reductions, Since, _}} -> Since;
        #{} -> Now
    end.

snapshot(Wanted) ->
    case flame_prof_nif:snapshot(Wanted) of
        {error, _} -> [];
        Seen -> [{Pid, Process} || {Pid, #{} = Process} <- Seen]
    end.

%% A name that is no atom yet is of no function that is known to be idle.
function(#{stack := [{Module, Function, Arity, _, _} | _]}) ->
    try {binary_to_existing_atom(Module), binary_to_existing_atom(Function), Arity}
    catch
        error:badarg -> none
    end;
function(_) ->
    none.

with_stacks(Seen) ->
    Now = now_ms(),
    Long = long(Seen),
    {Kept, Others} = lists:split(min(?STACKS_MOST, length(Long)), lists:sort(Long)),
    Since = maps:from_list([{Pid, Ms} || {_, Ms, Pid} <- Kept]),
    #{
        processes => [
            #{pid => Pid, name => name(Process), stack => Stack,
                since_ms => Now - maps:get(Pid, Since)}
         || {Pid, #{status := waiting, stack := Frames} = Process} <- snapshot(maps:keys(Since)),
            [_ | _] = Stack <- [stack(Frames)], not is_ours(Stack)
        ],
        left_out => length(Others)
    }.

long(Seen) ->
    Now = now_ms(),
    [{is_asleep(Function), Since, Pid}
        || {Pid, {_, Since, Function}} <- maps:to_list(Seen), Now - Since >= ?PAUSE_MS].

is_asleep({timer, sleep, 1}) -> true;
is_asleep(_) -> false.

stack(Frames) ->
    [iolist_to_binary([Module, $:, Function, $/, integer_to_binary(Arity)])
        || {Module, Function, Arity, _, _} <- Frames].

%% A process that flame_prof has started for a moment has no name.
is_ours(Stack) ->
    lists:any(fun(Call) -> flame_prof_own:is_module(hd(binary:split(Call, <<":">>))) end, Stack).

name(#{registered_name := Name}) when Name =/= none -> flame_prof_names:function(Name);
name(#{proc_lib_initial_call := {_, _, _} = Call}) -> flame_prof_names:call(Call);
name(#{initial_call := {_, _, _} = Call}) -> flame_prof_names:call(Call);
name(_) -> <<>>.

%% @doc A look with the processes that idle servers monitor, if some wait for their answers: a pool
%% monitors the processes that have what it gave out. The processes that wait for it are left out.
-spec monitored(flame_prof_waits:look()) -> flame_prof_waits:look().
monitored(#{roots := Roots, edges := Edges, processes := Told, engine := native} = Look) ->
    Idle = [Pid || #{process := Pid, direct := Direct} = Root <- Roots, is_pid(Pid),
        node(Pid) =:= node(), Direct >= ?WAITERS_LEAST, not is_map_key(waits, Root),
        #{status := waiting, message_queue_len := 0} <- [maps:get(Pid, Told, #{})]],
    Waits = maps:from_list([{{From, To}, true} || #{from := From, to := To} <- Edges]),
    Look#{monitored => maps:from_list([
        {Pid, flame_prof_waits_part:told(lists:sublist(Others, ?MONITORED_MOST), native)}
     || Pid <- lists:sublist(Idle, ?SERVERS_MOST),
        Others <- [[Of || Of <- monitors(Pid), not is_map_key({Of, Pid}, Waits)]], Others =/= []
    ])};
monitored(Look) ->
    Look.

%% A process with many monitors is not asked: all of them would be copied.
monitors(Pid) ->
    case flame_prof_looks:with(fun() -> flame_prof_looks_nif:monitor_counts([Pid]) end) of
        {ok, Counts, [], []} ->
            case lists:keyfind(Pid, 1, Counts) of
                {Pid, Count} when Count > ?MONITORS_MOST -> [];
                _ -> asked(Pid)
            end;
        _ ->
            []
    end.

-dialyzer({nowarn_function, asked/1}). % its answer is how it ends
asked(Pid) ->
    {Asker, Monitor} = spawn_monitor(fun() -> exit(erlang:process_info(Pid, monitors)) end),
    receive
        {'DOWN', Monitor, process, Asker, {monitors, Monitors}} ->
            [Of || {process, Of} <- Monitors, is_pid(Of)];
        {'DOWN', Monitor, process, Asker, _} ->
            []
    after ?ANSWER_MS ->
        true = demonitor(Monitor, [flush]),
        true = exit(Asker, kill),
        []
    end.
