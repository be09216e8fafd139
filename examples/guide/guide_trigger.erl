%% Catch it when it happens: who fills the mailbox, before anybody has looked?
-module(guide_trigger).

-export([run/1]).

run(Directory) ->
    {ok, _} = flame_prof:start(#{
        dir => Directory,
        lookback => 3000,
        select => {top, 20, 200},
        triggers => #{on => message_queue_len, above => 1000, interval => 100, duration => 1000}
    }),
    true = register(audit_log, spawn(fun slow/0)),
    %% The cause comes and goes; the queue is what is left of it.
    timer:sleep(2000),
    true = register(nightly_export, spawn(fun() -> export(3000) end)),
    File = finished(),
    {ok, [#{trigger := Fired, time_us := FiredUs} | _], _} = flame_prof_samples:own(File),
    io:format("~ts~n", [Fired]),
    {ok, {FirstUs, LastUs}, _} = flame_prof:fold(
        fun(#{time_us := Us}, {First, Last}) -> {min(First, Us), max(Last, Us)} end,
        {FiredUs, FiredUs},
        File
    ),
    io:format("from ~.1f s before to ~.1f s after~n~n", [
        (FiredUs - FirstUs) / 1.0e6, (LastUs - FiredUs) / 1.0e6
    ]),
    flame_prof:hot(File, #{by => reductions, top => 3}),
    {ok, _} = flame_prof:stop(),
    ok.

%% A minute at most, for one that takes a second.
finished() ->
    finished(600).

finished(Attempts) when Attempts > 0 ->
    timer:sleep(100),
    case flame_prof:info() of
        #{last_run := #{files := [File | _]}} -> File;
        #{} -> finished(Attempts - 1)
    end.

export(0) ->
    ok;
export(N) ->
    audit_log ! {exported, N},
    format(N, 3000),
    export(N - 1).

slow() ->
    receive
        {exported, N} -> format(N, 60000)
    end,
    slow().

format(_, 0) -> ok;
format(N, Times) -> _ = integer_to_list(N * Times), format(N, Times - 1).
