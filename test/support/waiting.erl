%% Waiting for conditions, in tests, with one bound that ends a hang.
-module(waiting).

-export([eventually/1, found/1, differing/2, suspend/1, pauses/3]).

-define(BOUND_MS, 30000).
-define(PAUSE_MS, 10).

%% Until Look answers true, or {true, Found}: then Found. A look that fails is one too many
%% or too early: on a slow machine info/0 may say no more than that it got no answer.
eventually(Look) -> eventually(Look, erlang:monotonic_time(millisecond) + ?BOUND_MS).

eventually(Look, Until) ->
    case looked(Look) of
        true -> ok;
        {true, Found} -> Found;
        Last ->
            erlang:monotonic_time(millisecond) < Until orelse
                error({never, Look, {Last, catch flame_prof:info()}}),
            timer:sleep(?PAUSE_MS),
            eventually(Look, Until)
    end.

%% What Look gives that is not false; a look may be too early.
found(Look) ->
    eventually(fun() ->
        case Look() of false -> false; Found -> {true, Found} end
    end).

%% What differs in each round, by Look: without what was the same in 3 of 10 that follow each other,
%% of so many rounds at most. Once in a thousand it may be the same by chance.
differing(Look, Rounds) -> differing(Look, Rounds, [], []).

differing(Look, Left, Before, Same) ->
    Last = lists:sublist([Look() | Before], 10),
    Open = lists:usort(lists:append(Last)) -- Same,
    Now = [Key || Key <- Open, length([Keys || Keys <- Last, not lists:member(Key, Keys)]) >= 3],
    case Open -- Now of
        [] when length(Last) >= 3 -> [];
        Differ when Left =:= 1 -> Differ;
        _ -> timer:sleep(2), differing(Look, Left - 1, Last, Same ++ Now)
    end.

looked(Look) ->
    try Look()
    catch
        Class:Reason:Stack -> {Class, Reason, Stack}
    end.

%% erlang:suspend_process/1 answers internal_error now and then, on a busy machine, about a
%% process that lives.
suspend(Pid) ->
    try erlang:suspend_process(Pid)
    catch
        error:internal_error -> suspend(Pid)
    end.

%% Until the process sleeps in this function: between two looks of one that tells growth.
pauses(Pid, Module, Function) ->
    eventually(fun() ->
        {current_stacktrace, Stack} = erlang:process_info(Pid, current_stacktrace),
        Wanted = [{timer, sleep}, {Module, Function}],
        Wanted =:= [{M, F} || {M, F, _, _} <- Stack, lists:member({M, F}, Wanted)]
    end).
