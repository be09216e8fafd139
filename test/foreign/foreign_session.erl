%% Sessions whose files other people's programs are to read: a node where processes
%% wait in functions with names that break readers, one that appends lists, and all
%% that a file can hold: both engines, schedulers, periods, a series of files with
%% the profiler's own samples, and the export by weight.
%%
%%     foreign_session:main(["DIRECTORY"])
%%
%% leaves the files of each session in a directory of its own below DIRECTORY.
-module(foreign_session).

-export([main/1]).

-define(FLUSHES, 4).
-define(FLUSHED_AGAIN_MOST, 40).

main([Directory]) ->
    Waiters = nasty_names:start(),
    _ = spawn_link(fun() -> append(lists:seq(1, 100000)) end),
    Everybody = #{select => {top, 10000, 500}, cpu_budget => infinity},
    [session(Directory, Name, maps:merge(Everybody, Options), Waiters)
     || {Name, Options} <- [{"portable", #{engine => portable}},
            {"native", #{engine => native, flushes_per_file => 2}},
            {"changes", #{engine => native, flushes_per_file => 2, coalesce_idle => true}},
            {"schedulers", #{engine => native, mode => schedulers}}]],
    weighted(Directory).

append(List) ->
    _ = List ++ [0],
    append(List).

session(Directory, Name, Options, Waiters) ->
    case flame_prof:start(Options#{dir => filename:join(Directory, Name)}) of
        {ok, _} ->
            [flush(500) || _ <- lists:seq(1, ?FLUSHES)],
            until(Name, ?FLUSHED_AGAIN_MOST),
            {ok, #{files := Files, written := Written, own_samples := Own}} = flame_prof:stop(),
            [nasty_names:check(Waiters, Files) || Name =/= "schedulers"],
            io:format("    ~s: ~b samples, files: ~b~n", [Name, Written + Own, length(Files)]);
        {error, {engine, _} = Reason} ->
            io:format("    ~s: skipped: ~ts~n", [Name, flame_prof:format_error(Reason)])
    end.

flush(Ms) ->
    timer:sleep(Ms),
    ok = flame_prof:flush().

%% What the session is for is in its files, however slow this machine is.
until(Name, 0) -> error({not_in_the_files_of, Name});
until(Name, N) ->
    #{files := Files} = flame_prof:info(),
    {ok, Found, _} = flame_prof:fold(fun(Sample, Found) -> Found
        orelse is_it(Name, Sample) end, false, Files),
    Found orelse begin flush(500), until(Name, N - 1) end.

is_it("native", #{frames := [{<<"erlang:%2B%2B/2">>, <<"bif">>} | _]}) -> true;
is_it("native", #{frames := [_ | Frames]}) ->
    lists:member({<<"erlang:%2B%2B/2">>, <<"bif">>}, Frames);
is_it("changes", #{period := Period}) -> Period > 50;
is_it("schedulers", #{frames := [{<<"[idle]">>, _} | _]}) -> true;
is_it(Name, _) -> Name =:= "portable".

%% The change of memory as period, and the sign as a frame.
weighted(Directory) ->
    Files = filelib:wildcard(filename:join([Directory, "portable", "*.zst"])),
    {ok, Profile} = flame_prof_profile:read(Files),
    File = filename:join([Directory, "weighted", "memory.log"]),
    ok = filelib:ensure_dir(File),
    {ok, _} = flame_prof_profile:export(Profile, perf, File, #{by => {delta, memory}}).
