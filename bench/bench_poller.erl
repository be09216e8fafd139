%% The sampler that anybody would write: a process that asks process_info/2 of others
%% again and again. One of them that runs answers when it stops by itself, so its
%% stack is that of a place where it can be interrupted.
-module(bench_poller).

-export([start/2, stop/1]).

-export_type([sample/0]).

%% Status and stack, leaf first.
-type sample() :: {Status :: atom(), [mfa()]}.

-spec start([pid()], IntervalMs :: pos_integer()) -> pid().
start(Pids, IntervalMs) ->
    spawn_link(fun() ->
        _ = process_flag(priority, high),
        poll(Pids, IntervalMs, erlang:monotonic_time(millisecond), #{})
    end).

%% What it has seen, how often.
-spec stop(pid()) -> #{sample() => pos_integer()}.
stop(Poller) ->
    Poller ! {self(), stop},
    receive {Poller, Samples} -> Samples end.

poll(Pids, IntervalMs, Due, Samples0) ->
    receive
        {From, stop} ->
            From ! {self(), Samples0}
    after max(0, Due - erlang:monotonic_time(millisecond)) ->
        Samples = lists:foldl(fun look/2, Samples0, Pids),
        poll(Pids, IntervalMs, next(Due + IntervalMs, IntervalMs), Samples)
    end.

%% What is late is not caught up with.
next(Due, IntervalMs) ->
    max(Due, erlang:monotonic_time(millisecond) - IntervalMs).

look(Pid, Samples) ->
    case erlang:process_info(Pid, [status, current_stacktrace]) of
        [{status, Status}, {current_stacktrace, Stack}] ->
            bench_shares:add({Status, [{M, F, A} || {M, F, A, _} <- Stack]}, 1, Samples);
        undefined ->
            Samples
    end.
