%% What a sanitizer is to see of the library in a VM, in one node: the storms
%% beside a session that asks schedulers for stacks, looks at processes and
%% schedulers all the while, a session of the portable engine, files read and
%% exported in each way, damaged files, the perf map; and the library unloaded and
%% loaded again in each round. Ends by exit(3), where leaks are looked for, with
%% nothing of ours left open.
-module(sanitized).

-export([main/1]).

%% erl -s sanitized main SECONDS DIRECTORY CORPUS
main([Seconds, Directory, Corpus]) ->
    Rounds = 3,
    [round(max(1, list_to_integer(atom_to_list(Seconds)) div Rounds),
            filename:join(atom_to_list(Directory), integer_to_list(Round)), atom_to_list(Corpus))
     || Round <- lists:seq(1, Rounds)],
    io:format("  ~w rounds~n", [Rounds]),
    halt(0).

round(Seconds, Directory, Corpus) ->
    Looker = spawn_link(fun look/0),
    {ok, Storm} = storm:start([{storm_inside, Kind}
        || Kind <- storm_inside:kinds(), Kind =/= pressure]),
    {ok, _} = flame_prof:start(#{dir => filename:join(Directory, "storm"), sample_interval => 5,
        cpu_budget => infinity, select => {top, 100, 250}, engine => native}),
    timer:sleep(1000 * Seconds),
    {ok, #{written := Written, files := Files}} = flame_prof:stop(),
    #{deaths := [], steps := Steps} = storm:stop(Storm),
    true = lists:sum(maps:values(Steps)) > 0,
    true = Written > 0,
    unlink(Looker),
    exit(Looker, kill),
    Portable = portable(Directory),
    lists:foreach(fun(File) -> read(File, Directory, ok) end, Files ++ Portable),
    Damaged = filelib:wildcard(filename:join(Corpus, "*")),
    lists:foreach(fun(File) -> read(File, Directory, any) end, Damaged),
    {ok, _} = flame_prof:write_perf_map(),
    ok = application:stop(flame_prof),
    reload(20).

look() ->
    {ok, _} = flame_prof_pstack:schedulers(),
    {ok, _} = flame_prof_pstack:processes(lists:sublist(processes(), 50)),
    timer:sleep(20),
    look().

portable(Directory) ->
    {ok, _} = flame_prof:start(#{dir => filename:join(Directory, "portable"), engine => portable,
        compress => none, sample_interval => 10}),
    timer:sleep(500),
    ok = flame_prof:flush(),
    {ok, #{files := Files}} = flame_prof:stop(),
    Files.

%% Expected is `any' where a file may be refused.
read(File, Directory, Expected) ->
    Folded = flame_prof:fold(fun(_, N) -> N + 1 end, 0, File),
    true = Expected =:= any orelse element(1, Folded) =:= ok,
    case flame_prof_profile:read(File) of
        {ok, Profile} ->
            _ = flame_prof_profile:info(Profile),
            _ = flame_prof_profile:processes(Profile),
            [flame_prof_profile:export(Profile, Format, filename:join(Directory, "export"))
             || Format <- [collapsed, perf, speedscope, pprof]],
            _ = flame_prof_profile:packed_index(Profile, filename:join(Directory, "index")),
            ok = flame_prof_profile:close(Profile);
        {error, _} when Expected =:= any -> ok
    end.

%% The library goes when nobody refers to it: what is left of it is garbage of
%% processes first.
reload(0) -> error(the_library_can_not_be_unloaded);
reload(Attempts) ->
    [erlang:garbage_collect(Pid) || Pid <- processes()],
    case flame_prof_schedulers:retire() of
        ok ->
            true = code:delete(flame_prof_nif),
            _ = code:purge(flame_prof_nif),
            {module, flame_prof_nif} = code:load_file(flame_prof_nif);
        {error, _} ->
            timer:sleep(100),
            reload(Attempts - 1)
    end.
