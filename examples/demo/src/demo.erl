%% The demo: a busy node, profiled for ten seconds, and what was found.
%%
%% `make demo' runs it; examples/demo/run.sh, with the environment DEMO_DIR and
%% DEMO_SECONDS, runs it again. By hand, in `make shell' with these beams on the
%% path: `demo:run("/tmp/prof", 10)'.
-module(demo).

-export([main/0, run/2]).

-define(TOP, 100).
-define(SELECT_MS, 5000).
-define(WARM_UP_MS, 1000).
-define(HOTTEST, 12).
-define(HOTTEST_OF_STATUS, 5).
-define(LEAST_PERCENT, 5).
-define(FRAMES, 3).

main() ->
    Dir = os:getenv("DEMO_DIR", "_build/demo"),
    Seconds = list_to_integer(os:getenv("DEMO_SECONDS", "10")),
    try run(Dir, Seconds) of
        ok -> halt(0)
    catch
        throw:{failed, Text} ->
            io:format(standard_error, "~nThe demo failed: ~ts~n", [Text]),
            halt(1);
        Class:Reason:Stack ->
            io:format(standard_error, "~nThe demo failed: ~tp~n~tp~n", [{Class, Reason}, Stack]),
            halt(1)
    end.

run(Dir0, Seconds) ->
    Dir = filename:absname(Dir0),
    {ok, _} = demo_workload:start(),
    timer:sleep(?WARM_UP_MS),
    io:format("A busy node: OTP ~s, ~b processes on ~b schedulers.~n",
              [erlang:system_info(otp_release), erlang:system_info(process_count),
               erlang:system_info(schedulers_online)]),
    ok = profile(Dir),
    ok = wait(Seconds),
    Run = ok(flame_prof:stop()),
    demo_workload:stop(),
    report(Run).

profile(Dir) ->
    _ = ok(flame_prof:start(#{dir => Dir, select => {top, ?TOP, ?SELECT_MS}})),
    #{engine_reason := Engine} = flame_prof:info(),
    io:format("Profiling the ~b processes with the most reductions.~n"
              "Engine: ~ts~n", [?TOP, Engine]).

wait(Seconds) ->
    {Before, _} = erlang:statistics(runtime),
    [begin
         timer:sleep(1000),
         io:put_chars(progress(Second, Seconds))
     end || Second <- lists:seq(1, Seconds)],
    {After, _} = erlang:statistics(runtime),
    io:format("The node used ~.1f cores meanwhile, the profiler's threads included.~n",
              [(After - Before) / 1000 / Seconds]).

%% One line that grows, on a terminal and in a log alike.
progress(1, 1) -> " 1 s\n";
progress(1, _) -> " 1";
progress(Last, Last) -> io_lib:format(" ~b s~n", [Last]);
progress(Second, _) -> io_lib:format(" ~b", [Second]).

report(#{files := Files} = Run) ->
    heading("The hottest, by reductions"),
    done(flame_prof:hot(Files, #{by => reductions, top => ?HOTTEST, min => ?LEAST_PERCENT})),
    heading("The most frequent stacks of each status"),
    Profile = ok(flame_prof_profile:read(Files)),
    #{stacks := Stacks} = ok(flame_prof_profile:stacks(Profile, #{lines => false})),
    [stacks(Status, [{Frames, N} || {[Of], Frames, _, N} <- Stacks, Of =:= Status])
     || Status <- [<<"running">>, <<"runnable">>, <<"garbage_collecting">>, <<"waiting">>]],
    ok = flame_prof_profile:close(Profile),
    heading("The counters"),
    books(Run),
    heading("The files"),
    [io:format("  ~ts (~b KiB)~n", [File, filelib:file_size(File) div 1024]) || File <- Files],
    io:format("~nIn a browser: bin/flame_prof view ~ts~n", [filename:dirname(hd(Files))]),
    io:format("~nLinux `perf script' text, compressed: FlameScope, FlameGraph, speedscope and~n"
              "the Firefox Profiler read what zstdcat makes of it.~n"),
    ok.

%% A row a stack: its share of the status's samples, its leaf end and its root.
stacks(Status, Stacks) ->
    Total = lists:sum([Samples || {_, Samples} <- Stacks]),
    io:format("~ts, ~b samples~n", [Status, Total]),
    [io:format("  ~5.1f%  ~ts~n", [100 * Samples / Total, row(functions(Frames))])
     || {Frames, Samples} <- lists:sublist(Stacks, ?HOTTEST_OF_STATUS)],
    io:nl().

functions([]) -> [<<"no_frames">>];
functions(Frames) -> [flame_prof_frames:function(Frame) || Frame <- Frames].

row(Frames) when length(Frames) =< ?FRAMES ->
    lists:join(" < ", Frames);
row(Frames) ->
    lists:join(" < ", lists:sublist(Frames, ?FRAMES - 1) ++ ["...", lists:last(Frames)]).

heading(Text) ->
    io:format("~n== ~ts~n~n", [Text]).

books(Run) ->
    #{attempted := Taken, written := Written, inconsistent := Torn, dropped := Dropped,
        exited := Gone,
      ticks := Ticks, missed := Missed, elapsed_ms := Elapsed} = Run,
    io:format("  ~b samples attempted = ~b written + ~b inconsistent + ~b dropped + ~b exited~n",
              [Taken, Written, Torn, Dropped, Gone]),
    io:format("  ~b ticks in ~.1f s (~.1f a second), ~b missed~n",
              [Ticks, Elapsed / 1000, Ticks * 1000 / max(1, Elapsed), Missed]).

done(ok) -> ok;
done(Error) -> ok(Error).

ok({ok, Value}) -> Value;
ok({error, Reason}) -> throw({failed, flame_prof:format_error(Reason)}).
