%% What a person types in a shell: profiles of bounded length, i/0, the emergency exit. What needs
%% no sample: test/unit/flame_prof_{session,event}_tests.
-module(flame_prof_front_SUITE).

-include("flame_prof.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2,
    a_profile_prints_what_was_active_and_keeps_its_file/1,
    a_profile_of_a_function_has_its_result_and_its_processes/1,
    a_profile_of_a_function_that_raises_ends/1, a_macro_profiles_an_expression/1,
    a_profile_that_cannot_be_shown_keeps_result_and_files/1,
    a_profile_that_is_stopped_elsewhere_prints_what_it_has/1, a_profile_can_leave_a_page/1,
    kill_ends_a_session_that_does_not_answer/1]).
%% For profile/1 by name.
-export([work/1]).

-import(native_node, [printed/1]).
-import(waiting, [eventually/1]).

suite() -> [{timetrap, {minutes, 5}}].
all() -> suite_cases:list(?MODULE, [work]).

init_per_testcase(Case, Config) ->
    _ = application:stop(flame_prof),
    Name = atom_to_list(Case) ++ integer_to_list(erlang:unique_integer([positive])),
    [{directory, filename:join(proplists:get_value(priv_dir, Config), Name)} | Config].

end_per_testcase(_Case, _Config) ->
    _ = application:stop(flame_prof),
    ok.

%% ---- profile -----------------------------------------------------------------------

a_profile_prints_what_was_active_and_keeps_its_file(Config) ->
    Burner = spawn_link(fun() -> work(infinity) end),
    {{ok, #{files := [File]}}, Text} =
        printed(fun() -> flame_prof:profile(1500, options(Config)) end),
    unlink(Burner),
    exit(Burner, kill),
    ?assertNotEqual(nomatch, string:find(Text, "flame_prof_front_SUITE:work/1")),
    ?assertNotEqual(nomatch, string:find(Text, unicode:characters_to_list(File))),
    %% What waits is counted and not shown.
    ?assertNotEqual(nomatch, string:find(Text, "not shown (idle => true)")),
    ?assertMatch({match, _}, re:run(Text, "[0-9]  running\\n")),
    {ok, _} = perf_script_grammar:check(File),
    ?assertMatch(#{state := stopped}, flame_prof:info()).

a_profile_of_a_function_has_its_result_and_its_processes(Config) ->
    Burner = spawn_link(fun() -> work(infinity) end),
    Self = list_to_binary(pid_to_list(self())),
    Fun = fun() ->
        {Spawned, Monitor} = spawn_monitor(fun() -> work(600) end),
        _ = work(600),
        receive {'DOWN', Monitor, process, _, normal} -> Spawned end
    end,
    {{ok, #{files := Files, result := Spawned}}, _} =
        printed(fun() -> flame_prof:profile(Fun, options(Config)) end),
    unlink(Burner),
    exit(Burner, kill),
    {ok, Pids, _} = flame_prof:fold(
        fun(#{words := Words}, Seen) -> Seen#{maps:get(<<"erl_pid">>, Words, none) => []} end,
        #{}, Files),
    ?assert(is_map_key(Self, Pids), Pids),
    Own = [Self, list_to_binary(pid_to_list(Spawned))],
    ?assertEqual([], [Pid || <<"<", _/binary>> = Pid <- maps:keys(maps:without(Own, Pids))]),
    %% And by name.
    {{ok, #{result := done}}, _} =
        printed(fun() -> flame_prof:profile({?MODULE, work, [1]}, options(Config)) end).

a_macro_profiles_an_expression(Config) ->
    #{dir := Directory} = options(Config),
    ok = application:set_env(flame_prof, dir, Directory),
    try
        {{ok, #{files := [File], result := done}}, _} = printed(fun() -> ?PROFILE(work(300)) end),
        ?assertEqual(Directory, filename:dirname(unicode:characters_to_list(File)))
    after application:unset_env(flame_prof, dir)
    end.

a_profile_of_a_function_that_raises_ends(Config) ->
    Raise = fun() -> throw({ball, self()}) end,
    {Caught, _} = printed(fun() ->
        try flame_prof:profile(Raise, options(Config))
        catch
            throw:Ball -> {thrown, Ball}
        end
    end),
    ?assertMatch({thrown, {ball, _}}, Caught),
    ?assertEqual(undefined, whereis(flame_prof_session)).

%% The run may not be repeatable.
a_profile_that_cannot_be_shown_keeps_result_and_files(Config) ->
    Options = (options(Config))#{report => filename:join(directory(Config), "none/x.html")},
    {{error, {file, #{reason := enoent, result := done, files := [File]}} = Reason}, Text} =
        printed(fun() -> flame_prof:profile(fun() -> work(100) end, Options) end),
    ?assertNotEqual(nomatch, string:find(Text, unicode:characters_to_list(File))),
    ?assertMatch({ok, _, #{}}, flame_prof:fold(fun(_, N) -> N + 1 end, 0, File)),
    ?assertNotEqual(nomatch,
        string:find(flame_prof:format_error(Reason), "no such file or directory")).

a_profile_that_is_stopped_elsewhere_prints_what_it_has(Config) ->
    Test = self(),
    _ = spawn_link(fun() ->
        Test ! {profiled, printed(fun() -> flame_prof:profile(600000, options(Config)) end)}
    end),
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= running end),
    sampled(),
    {ok, #{files := Files}} = flame_prof:stop(),
    receive
        {profiled, {Answer, Text}} ->
            ?assertEqual({ok, #{files => Files}}, Answer),
            ?assertNotEqual(nomatch, string:find(Text, "Samples: "))
    end.

a_profile_can_leave_a_page(Config) ->
    Page = filename:join(proplists:get_value(priv_dir, Config), "profile.html"),
    {{ok, #{report := Page}}, _} =
        printed(fun() -> flame_prof:profile(300, (options(Config))#{report => Page, top => 3}) end),
    ?assert(filelib:file_size(Page) > 10000).

%% ---- kill --------------------------------------------------------------------------

%% The supervisor has to tell that it was killed; nobody else has anything to tell.
kill_ends_a_session_that_does_not_answer(Config) ->
    {ok, Session} = flame_prof:start(options(Config)),
    sampled(),
    #{files := [File]} = flame_prof:info(),
    ok = sys:suspend(Session),
    Said = logged:during(fun() -> ?assertEqual(ok, flame_prof:kill()) end),
    ?assertNot(is_process_alive(Session)),
    Finished = filename:rootname(File, ".part"),
    eventually(fun() -> filelib:is_file(Finished) end),
    {ok, _} = perf_script_grammar:check(Finished),
    {ok, _} = flame_prof:start(options(Config)),
    {ok, _} = flame_prof:stop(),
    ?assertMatch([#{label := {supervisor, child_terminated}}],
        [Message || {Level, Message, _} <- Said, lists:member(Level, [error, warning])]).

directory(Config) -> proplists:get_value(directory, Config).
options(Config) -> #{dir => directory(Config)}.

sampled() ->
    eventually(fun() -> maps:get(written, maps:get(counters, flame_prof:info())) > 0 end).

%% For so many milliseconds.
work(infinity) ->
    _ = lists:sort(lists:seq(1, 1000)),
    work(infinity);
work(Ms) when Ms > 0 ->
    Begun = erlang:monotonic_time(millisecond),
    _ = lists:sort(lists:seq(1, 10000)),
    work(Ms - max(1, erlang:monotonic_time(millisecond) - Begun));
work(_) -> done.
