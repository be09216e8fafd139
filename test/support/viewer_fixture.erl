%% What the browser's tests (viewer/test) need, made in a directory: a profile of
%% the demo, a weighted one, one with hostile names, a broken one; reports; a server
%% that shows them, and another one for a session that runs, until its standard
%% input ends.
%%
%%     viewer_fixture:main([Dir, ProfileOfTheDemo])
-module(viewer_fixture).

-export([main/1, worked/1, slept/1]).

main([Dir, Demo]) ->
    Profiles = filename:join(Dir, "profiles"),
    ok = filelib:ensure_dir(filename:join(Profiles, "x")),
    ok = file:change_mode(Profiles, 8#700),
    Name = filename:basename(Demo),
    {ok, _} = file:copy(Demo, filename:join(Profiles, Name)),
    ok = file:write_file(filename:join(Profiles, "hostile.log"), hostile()),
    ok = file:write_file(filename:join(Profiles, "own.log"), [hostile(), own()]),
    ok = file:write_file(filename:join(Profiles, "gaps.log"), gaps(0)),
    ok = file:write_file(filename:join(Profiles, "broken.log"),
        binary:copy(<<"no profile\n\n">>, 99)),
    ok = file:write_file(filename:join(Profiles, "zero.log"), ""),
    ok = file:write_file(filename:join(Profiles, "text.log.zst"), "a letter\n\nto a friend\n\n"),
    ok = trouble(Profiles, Dir),
    ok = chains(Profiles, Dir),
    ok = memory(Profiles, Dir),
    Report = filename:join(Dir, "report.html"),
    {ok, _} = flame_prof:report(Demo, Report),
    {ok, _} = flame_prof:report(filename:join(Profiles, "hostile.log"),
        filename:join(Dir, "hostile.html")),
    ok = viewer_oracle:main([Demo, filename:join(Dir, "expected.json")]),
    Weighted = weighted(filename:join(Dir, "weighted")),
    {ok, _} = file:copy(Weighted, filename:join(Profiles, "weighted.erl_perf.log.zst")),
    {ok, <<Begin:9000/binary, Byte, End/binary>>} = file:read_file(Weighted),
    ok = file:write_file(filename:join(Profiles, "flipped.log.zst"), [Begin, Byte bxor 255, End]),
    ok = viewer_oracle:main([Weighted, filename:join(Dir, "expected_weighted.json")]),
    {ok, #{url := Url, pid := Pid}} = flame_prof_view:start(Profiles),
    {ok, #{url := Live}} = live(filename:join(Dir, "live")),
    Allocations = allocations(filename:join(Dir, "allocations"), Dir),
    _ = spawn_link(fun work/0),
    Series = series(filename:join(Dir, "series")),
    About = #{url => Url, profile => text(Name), report => text(Report), directory => text(Dir),
              hostile => <<"hostile.log">>,
                  weighted => <<"weighted.erl_perf.log.zst">>, live => Live,
              series => Series, begun => begun(filename:join(Dir, "begun")),
              allocations => Allocations},
    ok = file:write_file(filename:join(Dir, "about.new"), flame_prof_json:encode_for_page(About)),
    ok = file:rename(filename:join(Dir, "about.new"), filename:join(Dir, "about.json")),
    eof = io:get_line(""),
    {ok, _} = flame_prof:stop(),
    flame_prof_view:stop(Pid).

%% Calls to be measured.
work() ->
    done = worked(1000),
    done = slept(5),
    work().

worked(N) ->
    true = lists:sum(lists:seq(1, N)) > 0,
    done.

slept(Ms) ->
    ok = timer:sleep(Ms),
    done.

%% Profiles of examples/trouble, recorded on a machine that had nothing else to do: on one that
%% runs all tests a healthy node has problems.
trouble(Profiles, Dir) ->
    Corpus = "test/corpus/trouble",
    [{ok, _} = file:copy(File, filename:join(Profiles, "trouble_" ++ filename:basename(File)))
     || File <- filelib:wildcard(Corpus ++ "/*.log.zst")],
    {ok, _} = flame_prof:report(filename:join(Corpus, "mailbox.log.zst"),
        filename:join(Dir, "trouble.html")),
    {ok, _} = file:copy(filename:join(Corpus, "truth.json"), filename:join(Dir, "truth.json")),
    ok.

%% The node's memory, with its truth in the text, and a report of it.
memory(Profiles, Dir) ->
    Path = filename:join(Profiles, "memory.log"),
    _ = made_memory:write(Path),
    {ok, _} = flame_prof:report(Path, filename:join(Dir, "memory.html")),
    ok.

%% The two files of a session, on a page of their own, a report of the allocations, and the truth.
allocations(Folder, Dir) ->
    Name = filename:join(Folder, "2026-11-21@0154.07.shop@host.erl_"),
    ok = filelib:ensure_dir(Name),
    ok = file:change_mode(Folder, 8#700),
    #{samples := Samples} = Story = made_allocations:write(Name ++ "alloc.log"),
    ok = file:write_file(Name ++ "perf.log", made_allocations:samples(Story)),
    {ok, _} = flame_prof:report(Name ++ "alloc.log", filename:join(Dir, "allocations.html")),
    ok = file:write_file(filename:join(Dir, "allocations.json"), flame_prof_json:encode_for_page(
        [#{who => list_to_binary(Who), words => Words, fate => Fate, at_us => At,
            frames => [list_to_binary(Frame) || Frame <- Frames],
            long_us => element(1, maps:get(long, One, {0, minor, heap}))}
         || #{who := {Who, _, _}, words := Words, fate := Fate, at_us := At,
                frames := Frames} = One <- Samples])),
    {ok, #{url := Url}} = flame_prof_view:start(Folder),
    Url.

%% Calls of one node, and the same as files of two nodes: their chains as the library makes them.
chains(Profiles, Dir) ->
    Run = made_calls:run(#{seed => 17, seconds => 4, clients => 9, servers => 4}),
    One = filename:join(Profiles, "chains.log"),
    Two = [filename:join(Dir, Name ++ ".log") || Name <- ["a", "b"]],
    ok = file:write_file(One, made_calls:text(Run)),
    {Clients, Servers} = made_calls:two_nodes(Run, 4, 1500),
    [ok = file:write_file(File, Text) || {File, Text} <- lists:zip(Two, [Clients, Servers])],
    {ok, _} = flame_prof:report(One, filename:join(Dir, "chains.html")),
    {ok, _} = flame_prof:report(Two, filename:join(Dir, "chains_of_two.html")),
    ok = file:write_file(filename:join(Dir, "chains.json"), flame_prof_json:encode_for_page(
        #{one => expected_chains(One), two => expected_chains(Two)})).

expected_chains(Files) ->
    {ok, Profile} = flame_prof_profile:read(Files),
    {ok, #{stacks := Stacks}} =
        flame_prof_profile:stacks(Profile, #{chains => true, group_by => []}),
    [[iolist_to_binary(lists:join(";", [flame_prof_frames:decode(Symbol)
        || {Symbol, _} <- lists:reverse(Frames)])), N] || {[], Frames, N, N} <- Stacks].

text(Path) -> unicode:characters_to_binary(Path).

%% A session that writes what does not move once a second: some of this node's
%% processes, and one that works now and then.
weighted(Dir) ->
    Worker = spawn_link(fun Work() -> _ = lists:sum(lists:seq(1, 50000)), timer:sleep(40),
        Work() end),
    _ = erlang:system_flag(scheduler_wall_time, true),
    {ok, _} = flame_prof:start(#{dir => Dir, coalesce_idle => true, flush_interval => 1500}),
    timer:sleep(5000),
    {ok, #{files := [File]}} = flame_prof:stop(),
    _ = erlang:system_flag(scheduler_wall_time, false),
    unlink(Worker),
    exit(Worker, kill),
    File.

%% A session that runs, and begins a new file with every second flush.
live(Dir) ->
    {ok, _} = flame_prof:start(#{dir => Dir, flush_interval => 1500, flushes_per_file => 2,
                                 max_files => infinity, select => {top, 10}}),
    flame_prof_view:start(Dir).

%% Two files of one session, ten seconds apart.
series(Dir) ->
    First = filename:join(Dir, "2026-11-21@0509.42.erl_perf.log"),
    ok = filelib:ensure_dir(First),
    ok = file:change_mode(Dir, 8#700),
    ok = file:write_file(First, gaps(0)),
    ok = file:write_file(filename:join(Dir, "2026-11-21@0509.52.erl_perf.log"), gaps(10)),
    {ok, #{url := Url}} = flame_prof_view:start(Dir),
    #{url => Url, first => text(First)}.

%% A session that has no sample yet, and what it will have written.
begun(Dir) ->
    File = filename:join(Dir, "2026-11-21@0509.42.erl_perf.log"),
    ok = filelib:ensure_dir(File),
    ok = file:change_mode(Dir, 8#700),
    ok = file:write_file(File, ""),
    {ok, #{url := Url}} = flame_prof_view:start(Dir),
    #{url => Url, file => text(File), text => iolist_to_binary(gaps(0))}.

%% Names as a profile may hold them: written by hand, since flame_prof's own writer
%% encodes the worst of it.
hostile() ->
    Names = ["<img src=x onerror=window.pwned=1>", "%3Cimg%20src=x%20onerror=window.pwned%3D1%3E",
             "</script><script>window.pwned=1</script>",
                 "%3C/script%3E%3Cscript%3Ewindow.pwned=1%3C/script%3E",
             "\"onmouseover=window.pwned=1", "%22%27%26amp;%0A", "javascript:window.pwned=1",
                 "<b>bold</b>",
             "%E2%80%AEdesrever", "__proto__", "constructor", "=1+1", "%00%01%02"],
    [sample(N, lists:nth(N rem length(Names) + 1, Names)) || N <- lists:seq(1, 400)].

%% A second of ticks every 10 ms, one of ticks every 40 ms, half a second of none, and
%% half a second of ticks every 40 ms; from this second on.
gaps(From) ->
    Times = lists:seq(0, 990, 10) ++ lists:seq(1000, 1960, 40) ++ lists:seq(2500, 2980, 40),
    [["beam 77/1 [000] 17952377", io_lib:format("~2..0b.~6..0b: cpu-clock:\n",
        [From + 82 + T div 1000, T rem 1000 * 1000 + 1]),
      "# reductions=1/0 erl_pid=<0.1.0> (metrics)\n\tffffffff a:b/0 (a.erl)\n\tffffffff waiting (status)\n\n"]
     || T <- Times].

%% What the profiler tells of itself: no sample.
own() ->
    "beam 77/2147483647 [000] 1795237790.900000: cpu-clock:\n"
    "# ticks=978/122 missed=0/0 name=flame_prof engine=native (metrics)\n"
    "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n".

sample(N, Name) ->
    Spaceless = [case C of $\s -> $_; _ -> C end || C <- Name],
    [io_lib:format("beam 77/~b [000] ~b.~6..0b: cpu-clock:\n",
        [N rem 13, 1795237782 + N div 100, N rem 100 * 10000 + 1]),
     io_lib:format("# reductions=~b/0 memory=~b/0 erl_pid=<0.~b.0> name=~s (metrics)\n",
         [N, N * 1000, N rem 13, Spaceless]),
     "\tffffffff ", Spaceless, ":", Spaceless, "/1:3 (", Spaceless, ".erl)\n",
     "\tffffffff ", Spaceless, " (x)\n",
     "\tffffffff a:b/0 (a.erl)\n\tffffffff waiting (status)\n\n"].
