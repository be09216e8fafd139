%% What a person types in a shell: help, profiles of bounded length, i/0, the emergency exit.
-module(flame_prof_front_SUITE).

-include("flame_prof.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
    end_per_testcase/2]).
-export([
    help_names_functions_that_there_are_in_ten_lines/1,
    i_is_eight_lines_of_what_runs/1,
    a_profile_prints_what_was_active_and_keeps_its_file/1,
    a_profile_of_a_function_has_its_result_and_its_processes/1,
    a_profile_of_a_function_that_raises_ends/1,
    a_macro_profiles_an_expression/1,
    a_profile_beside_a_session_is_refused/1,
    all_options_of_a_profile_are_checked_before_it_starts/1,
    a_profile_that_cannot_be_shown_keeps_result_and_files/1,
    what_a_profile_leaves_out_has_its_default/1,
    a_profile_ends_with_its_caller/1,
    a_profile_that_is_stopped_elsewhere_prints_what_it_has/1,
    a_profile_can_leave_a_page/1,
    a_session_stops_after_its_duration/1,
    the_duration_of_a_session_with_triggers_is_refused/1,
    kill_ends_what_runs_without_a_report/1,
    kill_ends_a_session_that_does_not_answer/1,
    there_is_nothing_to_kill/1,
    a_session_that_does_not_answer_is_unresponsive/1
]).
%% For profile/1 by name, and as a handler of logger.
-export([work/1, log/2]).

-import(waiting, [eventually/1]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        help_names_functions_that_there_are_in_ten_lines,
        i_is_eight_lines_of_what_runs,
        a_profile_prints_what_was_active_and_keeps_its_file,
        a_profile_of_a_function_has_its_result_and_its_processes,
        a_profile_of_a_function_that_raises_ends,
        a_macro_profiles_an_expression,
        a_profile_beside_a_session_is_refused,
        all_options_of_a_profile_are_checked_before_it_starts,
        a_profile_that_cannot_be_shown_keeps_result_and_files,
        what_a_profile_leaves_out_has_its_default,
        a_profile_ends_with_its_caller,
        a_profile_that_is_stopped_elsewhere_prints_what_it_has,
        a_profile_can_leave_a_page,
        a_session_stops_after_its_duration,
        the_duration_of_a_session_with_triggers_is_refused,
        kill_ends_what_runs_without_a_report,
        kill_ends_a_session_that_does_not_answer,
        there_is_nothing_to_kill,
        a_session_that_does_not_answer_is_unresponsive
    ].

init_per_suite(Config) ->
    Config.

end_per_suite(_Config) ->
    _ = application:stop(flame_prof),
    ok.

init_per_testcase(Case, Config) ->
    _ = application:stop(flame_prof),
    Name = atom_to_list(Case) ++ integer_to_list(erlang:unique_integer([positive])),
    [{directory, filename:join(proplists:get_value(priv_dir, Config), Name)} | Config].

end_per_testcase(_Case, _Config) ->
    _ = logger:remove_handler(?MODULE),
    _ = application:stop(flame_prof),
    ok.

%% ---- help and i ------------------------------------------------------------------

help_names_functions_that_there_are_in_ten_lines(_Config) ->
    {ok, Text} = printed(fun flame_prof:help/0),
    Lines = string:lexemes(Text, "\n"),
    ?assertEqual(10, length(Lines)),
    [?assert(string:length(Line) =< 90, Line) || Line <- Lines],
    {match, Calls} = re:run(Text, "^  ([a-z_]+)\\(", [multiline, global, {capture, [1], list}]),
    ?assertEqual(9, length(Calls)),
    Exported = [atom_to_list(F) || {F, _} <- flame_prof:module_info(exports)],
    [?assert(lists:member(Call, Exported), Call) || [Call] <- Calls].

i_is_eight_lines_of_what_runs(Config) ->
    {ok, None} = printed(fun flame_prof:i/0),
    ?assertMatch({match, _}, re:run(None, "^[^ ]+: stopped\n$")),
    {ok, _} = flame_prof:start(options(Config)),
    sampled(),
    #{engine_reason := Why, files := [File]} = flame_prof:info(),
    {ok, Text} = printed(fun flame_prof:i/0),
    ?assertEqual(8, length(string:lexemes(Text, "\n"))),
    Parts = [": running", Why, File, " missed (", " attempted, ", "samples/s", "of one core"],
    [?assertNotEqual(nomatch, string:find(Text, Part), Part) || Part <- Parts],
    {ok, _} = flame_prof:stop(),
    {ok, Last} = printed(fun flame_prof:i/0),
    ?assertNotEqual(nomatch, string:find(Last, "stopped; the last run was:")),
    ?assertNotEqual(nomatch, string:find(Last, filename:rootname(File, ".part"))).

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
        receive
            {'DOWN', Monitor, process, _, normal} -> Spawned
        end
    end,
    {{ok, #{files := Files, result := Spawned}}, _} =
        printed(fun() -> flame_prof:profile(Fun, options(Config)) end),
    unlink(Burner),
    exit(Burner, kill),
    {ok, Pids, _} = flame_prof:fold(
        fun(#{words := Words}, Seen) -> Seen#{maps:get(<<"erl_pid">>, Words, none) => []} end,
        #{},
        Files
    ),
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
    after
        application:unset_env(flame_prof, dir)
    end.

a_profile_of_a_function_that_raises_ends(Config) ->
    Raise = fun() -> throw({ball, self()}) end,
    {Caught, _} = printed(fun() ->
        try
            flame_prof:profile(Raise, options(Config))
        catch
            throw:Ball -> {thrown, Ball}
        end
    end),
    ?assertMatch({thrown, {ball, _}}, Caught),
    ?assertEqual(undefined, whereis(flame_prof_session)).

a_profile_beside_a_session_is_refused(Config) ->
    {ok, Session} = flame_prof:start(options(Config)),
    Run = fun() -> self() ! evaluated end,
    ?assertEqual({error, {already_started, #{pid => Session}}}, flame_prof:profile(100)),
    ?assertEqual({error, {already_started, #{pid => Session}}}, flame_prof:profile(Run)),
    receive
        evaluated -> error(evaluated)
    after 0 -> ok
    end,
    ?assertMatch(#{state := running}, flame_prof:info()),
    {ok, _} = flame_prof:stop(Session).

all_options_of_a_profile_are_checked_before_it_starts(Config) ->
    Options = options(Config),
    _ = [
        ?assertMatch({{error, {Class, _}}, _}, {flame_prof:profile(What, Given), Given})
     || {Class, What, Given} <- [
            {badarg, 0, Options},
            {badarg, -1, Options},
            {badarg, 3600001, Options},
            {badarg, fun(_) -> ok end, Options},
            {badarg, {lists, seq, 2}, Options},
            {badarg, {lists, seq, [1 | 2]}, Options},
            {badarg, "later", Options},
            {bad_option, 100, [by]},
            {bad_option, 100, Options#{sample_interval => 0}},
            {bad_option, 100, Options#{triggers => #{on => run_queue, above => 5}}},
            {bad_option, 100, Options#{nonsuch => 5, top => 3}}
        ]
    ],
    [
        ?assertMatch({error, _}, flame_prof:profile(100, Options#{Key => Value}))
     || {Key, Value} <- [{by, 7}, {by, reduction}, {by, {value, reduction}}, {min, 101},
            {top, 0}, {report, 5}]
    ],
    ?assertNot(filelib:is_file(directory(Config))).

%% The run may not be repeatable.
a_profile_that_cannot_be_shown_keeps_result_and_files(Config) ->
    Options = (options(Config))#{report => filename:join(directory(Config), "none/x.html")},
    {{error, {file, #{reason := enoent, result := done, files := [File]}} = Reason}, Text} =
        printed(fun() -> flame_prof:profile(fun() -> work(100) end, Options) end),
    ?assertNotEqual(nomatch, string:find(Text, unicode:characters_to_list(File))),
    ?assertMatch({ok, _, #{}}, flame_prof:fold(fun(_, N) -> N + 1 end, 0, File)),
    ?assertNotEqual(nomatch,
        string:find(flame_prof:format_error(Reason), "no such file or directory")).

what_a_profile_leaves_out_has_its_default(Config) ->
    Burner = spawn_link(fun() -> work(infinity) end),
    _ = [
        begin
            Options = maps:merge(options(Config), More),
            {{ok, #{files := Files}}, _} =
                printed(fun() -> flame_prof:profile(fun() -> work(100) end, Options) end),
            {ok, Pids, _} = flame_prof:fold(
                fun(#{words := Words}, Seen) -> [maps:get(<<"erl_pid">>, Words, none) | Seen] end,
                [], Files),
            ?assertNot(lists:member(list_to_binary(pid_to_list(Burner)), Pids), More)
        end
     || More <- [#{select => nil, by => nil}, #{auto_select => undefined}, #{triggers => nil},
            #{pre_roll => 0}]
    ],
    unlink(Burner),
    exit(Burner, kill).

a_profile_ends_with_its_caller(Config) ->
    Caller = spawn(fun() -> flame_prof:profile(600000, options(Config)) end),
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= running end),
    exit(Caller, kill),
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= stopped end),
    ?assertMatch(#{last_run := #{pending := 0}}, flame_prof:info()).

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

%% ---- duration ------------------------------------------------------------------------

a_session_stops_after_its_duration(Config) ->
    {ok, Session} = flame_prof:start((options(Config))#{duration => 300}),
    Monitor = monitor(process, Session),
    receive
        {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason)
    end,
    #{state := stopped, last_run := Run} = flame_prof:info(),
    #{files := [File], elapsed_ms := Ms, pending := 0, error := <<>>} = Run,
    ?assert(Ms >= 300),
    {ok, _} = perf_script_grammar:check(File),
    ?assertEqual({error, {not_started, #{}}}, flame_prof:stop()).

the_duration_of_a_session_with_triggers_is_refused(Config) ->
    Options = (options(Config))#{duration => 300, triggers => #{on => run_queue, above => 5}},
    ?assertMatch({error, {bad_option, #{option := duration}}}, flame_prof:start(Options)),
    [?assertMatch({error, {bad_option, #{option := duration}}},
        flame_prof:start((options(Config))#{duration => Wrong})) || Wrong <- [0, 1.5, forever]].

%% ---- kill --------------------------------------------------------------------------

kill_ends_what_runs_without_a_report(Config) ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => #{to => self()}, level => warning}),
    Options = options(Config),
    Armed = #{triggers => #{on => run_queue, above => 1000000}, lookback => 1000},
    [
        begin
            {ok, _} = flame_prof:start(maps:merge(Options, More)),
            State =:= running andalso sampled(),
            ?assertEqual(ok, flame_prof:kill()),
            ?assertEqual(undefined, whereis(flame_prof_session)),
            ?assertEqual(undefined, whereis(flame_prof_triggers)),
            ?assertMatch(#{state := stopped}, flame_prof:info())
        end
     || {State, More} <- [{running, #{}}, {running, #{engine => portable}}, {armed, Armed}]
    ],
    #{last_run := #{files := [File], written := Written}} = flame_prof:info(),
    ?assert(Written > 0),
    {ok, _} = perf_script_grammar:check(File),
    %% And the next one can be started at once.
    {ok, _} = flame_prof:start(Options),
    {ok, _} = flame_prof:stop(),
    ?assertEqual([], logged()).

%% The supervisor has to tell that it was killed; nobody else has anything to tell.
kill_ends_a_session_that_does_not_answer(Config) ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => #{to => self()}, level => warning}),
    {ok, Session} = flame_prof:start(options(Config)),
    sampled(),
    #{files := [File]} = flame_prof:info(),
    ok = sys:suspend(Session),
    ?assertEqual(ok, flame_prof:kill()),
    ?assertNot(is_process_alive(Session)),
    Finished = filename:rootname(File, ".part"),
    eventually(fun() -> filelib:is_file(Finished) end),
    {ok, _} = perf_script_grammar:check(Finished),
    {ok, _} = flame_prof:start(options(Config)),
    {ok, _} = flame_prof:stop(),
    ?assertMatch([{report, #{label := {supervisor, child_terminated}}}], logged()).

there_is_nothing_to_kill(_Config) ->
    ?assertEqual({error, {not_started, #{}}}, flame_prof:kill()).

a_session_that_does_not_answer_is_unresponsive(Config) ->
    {ok, Session} = flame_prof:start(options(Config)),
    ok = sys:suspend(Session),
    ?assertEqual(#{state => unresponsive}, flame_prof:info()),
    {ok, Text} = printed(fun flame_prof:i/0),
    ?assertNotEqual(nomatch, string:find(Text, "unresponsive")),
    ok = sys:resume(Session),
    ?assertMatch(#{state := running}, flame_prof:info()),
    {ok, _} = flame_prof:stop().

%% ---- tools -----------------------------------------------------------------------------

directory(Config) ->
    proplists:get_value(directory, Config).

options(Config) ->
    #{dir => directory(Config)}.

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
work(_) ->
    done.

%% What a fun returns, and what it prints.
printed(Fun) ->
    Leader = group_leader(),
    Printer = spawn_link(fun() -> printer([]) end),
    true = group_leader(Printer, self()),
    try Fun() of
        Answer ->
            Printer ! {printed, self()},
            receive
                {printed, Text} -> {Answer, Text}
            end
    after
        group_leader(Leader, self())
    end.

printer(Text) ->
    receive
        {io_request, From, Ref, {put_chars, unicode, Chars}} ->
            From ! {io_reply, Ref, ok},
            printer([Text | unicode:characters_to_list(Chars)]);
        {io_request, From, Ref, {put_chars, unicode, Module, Function, Args}} ->
            From ! {io_reply, Ref, ok},
            printer([Text | unicode:characters_to_list(apply(Module, Function, Args))]);
        {io_request, From, Ref, _} ->
            From ! {io_reply, Ref, {error, enotsup}},
            printer(Text);
        {printed, To} ->
            To ! {printed, lists:flatten(Text)}
    end.

log(#{msg := Message}, #{config := #{to := To}}) ->
    To ! {logged, Message}.

logged() ->
    receive
        {logged, Message} -> [Message | logged()]
    after 0 -> []
    end.
