%% Without HOME, as in many containers, the default of `dir' lies in the current folder, which may
%% not be writable: a profile of bounded length goes on, and a start says what to set.
-module(flame_prof_home_tests).

-include_lib("eunit/include/eunit.hrl").
-include_lib("kernel/include/file.hrl").

a_start_names_dir_and_home_test() ->
    homeless(fun(_) ->
        {error, {file, #{reason := enotdir}} = Reason} = flame_prof:start(#{}),
        Sentence = unicode:characters_to_list(flame_prof:format_error(Reason)),
        [?assertNotEqual({Word, nomatch}, {Word, string:find(Sentence, Word)})
            || Word <- ["flame_prof: not a directory", "HOME is not set", "option dir"]]
    end).

another_folder_that_cannot_be_has_no_word_of_home_test() ->
    homeless(fun(Folder) ->
        {error, {file, _} = Reason} = flame_prof:start(#{dir => Folder ++ "/flame_prof/below"}),
        Sentence = unicode:characters_to_list(flame_prof:format_error(Reason)),
        ?assertEqual(nomatch, string:find(Sentence, "HOME"))
    end).

a_profile_takes_a_temporary_folder_test() ->
    homeless(fun(Folder) ->
        {ok, #{files := [File | _]}} = flame_prof:profile(50),
        Own = unicode:characters_to_list(filename:dirname(File)),
        ?assertEqual(filename:join(Folder, "tmp"), filename:dirname(Own)),
        {ok, #file_info{mode = Mode}} = file:read_file_info(Own),
        ?assertEqual(8#700, Mode band 8#777),
        ?assert(filelib:is_regular(File))
    end).

a_profile_that_cannot_begin_leaves_no_folder_test() ->
    homeless(fun(Folder) ->
        {error, {bad_option, _}} = flame_prof:profile(50, #{memory_budget => 48420352}),
        ?assertEqual({ok, []}, file:list_dir(filename:join(Folder, "tmp")))
    end).

a_given_folder_is_taken_test() ->
    homeless(fun(Folder) ->
        Given = filename:join(Folder, "given"),
        {ok, #{files := [File | _]}} = flame_prof:profile(50, #{dir => Given}),
        ?assertEqual(Given, unicode:characters_to_list(filename:dirname(File)))
    end).

%% In a current folder in which `flame_prof' is a file.
homeless(Fun) ->
    Home = os:getenv("HOME"),
    Temporary = os:getenv("TMPDIR"),
    {ok, Before} = file:get_cwd(),
    Folder = filename:join("/tmp", lists:concat(["flame_prof_home_", os:getpid(), "_",
        erlang:unique_integer([positive])])),
    ok = filelib:ensure_dir(filename:join([Folder, "tmp", "x"])),
    ok = file:write_file(filename:join(Folder, "flame_prof"), <<>>),
    true = os:unsetenv("HOME"),
    true = os:putenv("TMPDIR", filename:join(Folder, "tmp")),
    ok = file:set_cwd(Folder),
    try Fun(Folder)
    after
        ok = applications:stop([flame_prof]),
        ok = file:set_cwd(Before),
        true = os:putenv("HOME", Home),
        true = case Temporary of
            false -> os:unsetenv("TMPDIR");
            _ -> os:putenv("TMPDIR", Temporary)
        end,
        ok = file:del_dir_r(Folder)
    end.
