%% The demo: a busy node, profiled for ten seconds, and what was found.
%%
%% `make demo' runs it; examples/demo/run.sh, with the environment DEMO_DIR and
%% DEMO_SECONDS, runs it again. By hand, in `make shell' with these beams on the
%% path: `demo:run("/tmp/prof", 10)'.
-module(demo).

-export([main/0, run/2, diagnosis/1, text/1]).

-define(TOP, 100).
-define(SELECT_MS, 5000).
-define(WARM_UP_MS, 1000).
-define(STACKS, 8).
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
    io:format("The node used ~.1f cores, the threads of the profiler included.~n",
              [(After - Before) / 1000 / Seconds]).

%% One line that grows, on a terminal and in a log alike.
progress(1, 1) -> " 1 s\n";
progress(1, _) -> " 1";
progress(Last, Last) -> io_lib:format(" ~b s~n", [Last]);
progress(Second, _) -> io_lib:format(" ~b", [Second]).

report(#{files := Files} = Run) ->
    [File | _] = Files,
    Profile = ok(flame_prof_profile:read(Files)),
    heading("What was done"),
    counters(Run),
    [io:format("  ~ts (~b KiB)~n", [here(F), filelib:file_size(F) div 1024]) || F <- Files],
    heading("What ran: share of the samples of running processes, function < callers"),
    #{stacks := Stacks} = ok(flame_prof_profile:stacks(Profile, #{lines => false})),
    stacks([{Frames, N} || {[<<"running">>], Frames, _, N} <- Stacks]),
    heading("What the doctor says"),
    io:put_chars(text(diagnosis(Profile))),
    ok = flame_prof_profile:close(Profile),
    heading("Next"),
    io:format("  bin/flame_prof view ~ts~n      a timeline and flame graphs, in a browser~n"
              "  bin/flame_prof hot ~ts --by reductions~n      the same profile by another metric~n"
              "  examples/shop.sh start && bin/flame_prof doctor shop@localhost~n"
              "      a node that has a problem~n", [here(filename:dirname(File)), here(File)]).

%% A path below the current folder is shown from there.
here(Path) ->
    {ok, Folder} = file:get_cwd(),
    case string:prefix(Path, Folder ++ "/") of
        nomatch -> Path;
        Short -> Short
    end.

%% @doc What the doctor says of a profile.
diagnosis(Profile) ->
    {ok, #{thresholds := Thresholds}} = flame_prof_doctor:options(#{}),
    flame_prof_doctor:of_profile(Profile, Thresholds).

%% @doc The same for a person, indented.
text(Diagnosis) ->
    Text = string:trim(flame_prof_doctor:format(Diagnosis)),
    [re:replace(Text, "^(?=.)", "  ", [global, multiline, unicode]), $\n].

%% A row a stack without its C functions: its share of all samples, its leaf end and its root.
stacks(Stacks) ->
    Total = lists:sum([Samples || {_, Samples} <- Stacks]),
    Rows = maps:groups_from_list(fun({Frames, _}) -> functions(Frames) end,
        fun({_, Samples}) -> Samples end, Stacks),
    Sums = lists:sort([{-lists:sum(Samples), Row} || {Row, Samples} <- maps:to_list(Rows)]),
    [io:format("  ~5.1f %  ~ts~n", [-100 * Sum / Total, row(Row)])
     || {Sum, Row} <- lists:sublist(Sums, ?STACKS)].

functions(Frames) ->
    case [F || Frame <- Frames, F <- [flame_prof_frames:function(Frame)], is_of_erlang(F)] of
        [] -> [<<"no function of Erlang">>];
        Functions -> Functions
    end.

is_of_erlang(Function) ->
    Function =:= <<"[gc]">> orelse
        re:run(Function, ":.*/[0-9]+$", [{capture, none}]) =:= match.

row(Frames) when length(Frames) =< ?FRAMES ->
    lists:join(" < ", Frames);
row(Frames) ->
    lists:join(" < ", lists:sublist(Frames, ?FRAMES - 1) ++ ["...", lists:last(Frames)]).

heading(Text) ->
    io:format("~n== ~ts~n~n", [Text]).

counters(#{attempted := Attempted, written := Written, inconsistent := Inconsistent,
        dropped := Dropped, exited := Exited, ticks := Ticks, missed := Missed,
        elapsed_ms := Elapsed}) ->
    io:format("  ~b samples attempted = ~b written + ~b inconsistent + ~b dropped + ~b exited~n",
              [Attempted, Written, Inconsistent, Dropped, Exited]),
    io:format("  ~b ticks in ~.1f s (~.1f a second), ~b missed~n",
              [Ticks, Elapsed / 1000, Ticks * 1000 / max(1, Elapsed), Missed]).

ok({ok, Value}) -> Value;
ok({error, Reason}) -> throw({failed, flame_prof:format_error(Reason)}).
