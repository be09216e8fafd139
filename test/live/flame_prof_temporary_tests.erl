%% Temporary folders, also where the server of files hangs.
-module(flame_prof_temporary_tests).

-include_lib("kernel/include/file.hrl").
-include_lib("eunit/include/eunit.hrl").

%% In a VM of its own.
-export([write_beyond_the_limit/0]).

%% In a VM of its own.
-export([hangs/0]).

a_folder_is_its_owners_and_is_removed_test() ->
    Folder = flame_prof_temporary:in_folder(fun(Folder, _) ->
        {ok, #file_info{mode = Mode}} = file:read_file_info(Folder),
        ?assertEqual(8#700, Mode band 8#777),
        ok = file:write_file(filename:join(Folder, "file"), <<"text">>),
        Folder
    end),
    ?assertNot(filelib:is_file(Folder)).

files_are_their_owners_and_stay_in_their_folder_test() ->
    Paths = flame_prof_temporary:with_files([{<<"one">>, <<"1">>}, {<<"../two">>, <<"2">>}],
        fun([One, Two] = Paths) ->
            ?assertEqual(filename:dirname(One), filename:dirname(Two)),
            [?assertEqual({ok, Bytes}, file:read_file(Path))
                || {Path, Bytes} <- [{One, <<"1">>}, {Two, <<"2">>}]],
            [?assertEqual(8#600, Mode band 8#777) || Path <- Paths,
                {ok, #file_info{mode = Mode}} <- [file:read_file_info(Path)]],
            Paths
        end),
    [?assertNot(filelib:is_file(Path)) || Path <- Paths].

a_file_that_is_there_is_left_alone_test() ->
    {error, Reason} = flame_prof_temporary:with_files([{<<"a/one">>, <<"1">>}, {<<"one">>, <<>>}],
        fun(_) -> none end),
    ?assertMatch({match, _}, re:run(flame_prof:format_error(Reason), "file already exists")).

%% A recording of flame_prof's own node, without an agent.
a_server_of_files_that_hangs_keeps_nobody_test() ->
    {ok, [{Name, Bytes} | _]} = peer_vm:value(?MODULE, hangs, []),
    ?assert(is_binary(Name)),
    ?assertMatch(<<_, _/binary>>, Bytes).

hangs() ->
    %% What loads code does it before.
    {ok, [_ | _]} = recorded(),
    ok = sys:suspend(file_server_2),
    try recorded()
    after sys:resume(file_server_2)
    end.

recorded() -> flame_prof_recording:record(300, #{sample_interval => 10, sync => none}, self()).

nothing_begins_for_a_caller_that_ended_meanwhile_test() ->
    {Caller, Monitor} = spawn_monitor(fun() -> ok end),
    waiting:eventually(fun() -> not is_process_alive(Caller) end),
    ?assertMatch({error, _}, flame_prof_temporary:in_folder(fun(_, _) -> begun end, Monitor)).

%% The kernel ends a process that writes beyond its limit of file sizes.
a_file_beyond_the_limit_is_refused_test_() ->
    case os:find_executable("prlimit") of
        false -> [];
        _ -> {timeout, 120, ?_assertEqual({{error, efbig}, ok},
            peer_vm:value(?MODULE, write_beyond_the_limit, []))}
    end.

write_beyond_the_limit() ->
    "" = os:cmd("prlimit --pid " ++ os:getpid() ++ " --fsize=4096:unlimited"),
    Path = filename:join("/tmp", flame_prof_temporary:name()),
    try
        {flame_prof_temporary:write_file(Path, binary:copy(<<0>>, 4097)),
            flame_prof_temporary:write_file(Path, binary:copy(<<0>>, 4096))}
    after file:delete(Path, [raw])
    end.
