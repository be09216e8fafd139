%% What the interface answers to wrong arguments and in states in which a call cannot be
%% served: an error of one class, or a documented state, and a sentence without terms.
-module(flame_prof_refusals_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/ours.log").

%% Arguments. None of these starts a session.

%% As Elixir's code has it where a key of a configuration is not set.
what_is_nil_or_undefined_is_left_out_test_() ->
    [{lists:flatten(io_lib:format("~ts, ~p", [Title, None])),
            ?_assertEqual(With(#{}), With(maps:from_list([{Key, None} || Key <- Keys])))}
     || None <- [nil, undefined],
        {Title, Keys, With} <- [{"fold", [chunk, bad], fun(Given) ->
            flame_prof:fold(fun count/2, 0, ?CORPUS, Given) end},
            {"hot", [by, idle, status, node, top, min, depth, max_memory, progress], fun(Given) ->
                flame_prof_tree:report(?CORPUS, Given) end},
            {"export", [by, measure, group_by, levels, lines, stacks, top], fun(Given) ->
                stacks(Given) end}]].

stacks(Given) ->
    {ok, Profile} = flame_prof_profile:read(?CORPUS, #{max_memory => nil}),
    {ok, Stacks} = flame_prof_profile:stacks(Profile, Given),
    ok = flame_prof_profile:close(Profile),
    Stacks.

wrong_arguments_are_refused_with_a_class_test_() ->
    {setup, fun stopped/0, fun(_) -> stopped() end, [
        {lists:flatten(io_lib:format("~ts", [Title])), ?_test(refused(Expected, Call))}
     || {Title, Expected, Call} <- [
            {"start, -1", {bad_option, #{option => options}}, fun() -> flame_prof:start(-1) end},
            {"start, time", {badarg, #{argument => timeout}},
                fun() -> flame_prof:start(#{}, soon) end},
            {"stop, atom", {badarg, #{argument => session}}, fun() -> flame_prof:stop(foo) end},
            {"stop, string", {badarg, #{argument => session}}, fun() -> flame_prof:stop("x") end},
            {"stop, -1", {badarg, #{argument => timeout}}, fun() -> flame_prof:stop(-1) end},
            {"stop, time", {badarg, #{argument => timeout}},
                fun() -> flame_prof:stop(self(), foo) end},
            {"stop, session and time", {badarg, #{argument => session}},
                fun() -> flame_prof:stop(foo, 10) end},
            {"flush", {badarg, #{argument => timeout}}, fun() -> flame_prof:flush(foo) end},
            {"top, atom", {bad_option, #{option => filter, value => cache}},
                fun() -> flame_prof:top(#{filter => cache}) end},
            {"top, number", {bad_option, #{option => filter, value => 5}},
                fun() -> flame_prof:top(#{filter => 5}) end},
            {"top, sort", {bad_option, #{option => sort}},
                fun() -> flame_prof:top(#{sort => foo}) end},
            {"top, node", {bad_option, #{option => node}},
                fun() -> flame_prof:top(#{node => 5}) end},
            {"top, processes of its own", {bad_option, #{option => targets}},
                fun() -> flame_prof:top(#{targets => [init]}) end},
            {"view, port", {bad_option, #{option => port, value => -1}},
                fun() -> flame_prof:view(?CORPUS, #{port => -1}) end},
            {"fold, chunk", {bad_option, #{option => chunk, value => 0}},
                fun() -> flame_prof:fold(fun count/2, 0, ?CORPUS, #{chunk => 0}) end},
            {"profile", {badarg, #{argument => what}}, fun() -> flame_prof:profile(foo) end},
            {"profile, options", {bad_option, #{option => options}},
                fun() -> flame_prof:profile(10, foo) end},
            {"profile, key", {bad_option, #{option => colour}},
                fun() -> flame_prof:profile(10, #{colour => red}) end},
            {"report, none", {no_files, #{}},
                fun() -> flame_prof:report([], "/nonexistent/x.html") end},
            {"report, missing", {file, #{file => "/nofile", reason => enoent}},
                fun() -> flame_prof:report("/nofile", "/nonexistent/x.html") end},
            {"report, place", {file, #{file => "/nonexistent/x.html", reason => enoent}},
                fun() -> flame_prof:report(?CORPUS, "/nonexistent/x.html") end},
            {"hot, none", {no_files, #{}}, fun() -> flame_prof:hot([]) end},
            {"hot, missing", {file, #{file => "/nofile", reason => enoent}},
                fun() -> flame_prof:hot("/nofile") end},
            {"hot, tuple", {file, #{file => {}}}, fun() -> flame_prof:hot({}) end},
            {"hot, options", {bad_option, #{option => options}},
                fun() -> flame_prof:hot(?CORPUS, 5) end},
            {"hot, metric", {bad_option, #{option => by}},
                fun() -> flame_prof:hot(?CORPUS, #{by => colour}) end},
            {"fold, none", {no_files, #{}}, fun() -> flame_prof:fold(fun count/2, 0, []) end},
            {"own, none", {no_files, #{}}, fun() -> flame_prof_samples:own([]) end},
            {"fold, missing", {file, #{file => "/nofile", reason => enoent}},
                fun() -> flame_prof:fold(fun count/2, 0, "/nofile") end},
            {"fold, tuple", {file, #{file => {}}},
                fun() -> flame_prof:fold(fun count/2, 0, {}) end},
            {"fold, function", {badarg, #{argument => function}},
                fun() -> flame_prof:fold(count, 0, ?CORPUS) end},
            {"pstack", {badarg, #{argument => process}}, fun() -> flame_prof:pstack({a, b}) end},
            {"blame", {badarg, #{argument => function}}, fun() -> flame_prof:blame(5, 1000) end},
            {"blame, time", {bad_option, #{option => for}},
                fun() -> flame_prof:blame(gc, soon) end},
            {"a selection", {bad_option, #{option => {select, by}, value => colour}},
                fun() -> flame_prof:start(#{select => #{by => colour}}) end},
            {"the original's name of it", {bad_option, #{option => {auto_select, by}}},
                fun() -> flame_prof:start(#{auto_select => #{by => colour}}) end}]]}.

count(_, N) -> N + 1.

a_start_that_is_refused_starts_nothing_test() ->
    stopped(),
    [begin
        refused({bad_option, #{option => max_files}}, fun() -> Start(#{max_files => 0}) end),
        ?assertEqual([], [Name || Name <- registered(), Name =:= flame_prof_sup
            orelse Name =:= flame_prof_session])
    end || Start <- [fun flame_prof:start/1, fun flame_prof:start_link/1]],
    ?assertError({bad_option, #{option := follow}},
        flame_prof:profile_start(#{follow => sometimes})).

%% The environment.

a_mistake_in_the_environment_is_not_the_callers_test() ->
    with_environment([{foo, 1}], fun() ->
        refused({bad_env, #{option => foo}}, fun() -> flame_prof:start(#{}) end)
    end).

a_refused_autostart_is_told_by_info_test() ->
    with_environment([{autostart, true}, {profile, #{sync => never}}], fun() ->
        ok = application:start(flame_prof),
        Error = waiting:eventually(fun() ->
            #{state := stopped, last_error := Reason} = flame_prof:info(),
            {true, Reason}
        end),
        refused({bad_env, #{option => {profile, sync}}}, fun() -> {error, Error} end)
    end).

%% What conflicts in the environment alone need not do so in the session that starts.
an_autostart_has_the_options_of_its_profile_test() ->
    Triggers = #{on => run_queue, above => 50},
    with_environment([{autostart, true}, {lookback, 5000}, {profile, #{triggers => Triggers}}],
        fun() -> ?assertMatch({ok, #{lookback := 5000}}, flame_prof_env:autostart()) end).

with_environment(Environment, Fun) ->
    stopped(),
    _ = application:load(flame_prof),
    _ = [ok = application:set_env(flame_prof, Key, Value) || {Key, Value} <- Environment],
    try Fun()
    after
        stopped(),
        _ = [ok = application:unset_env(flame_prof, Key) || {Key, _} <- Environment]
    end.

%% Sessions.

sessions_test_() ->
    {timeout, 600, {foreach, fun folder/0, fun left/1, [
        fun(Folder) -> {timeout, 300, {atom_to_list(Name), fun() -> session(Name, Folder) end}} end
     || Name <- [no_time_to_start, stop_without_a_profile, suspended]]}}.

session(no_time_to_start, Folder) ->
    with_environment([{dir, Folder}, {engine, portable}], fun() ->
        %% The original's start(Timeout).
        refused({timeout, #{ms => 0, request => start}}, fun() -> flame_prof:start(0) end)
    end);
session(stop_without_a_profile, Folder) ->
    Never = #{on => run_queue, above => 1000000},
    {ok, _} = flame_prof:start((options(Folder))#{triggers => Never}),
    refused({not_started, #{}}, fun() -> flame_prof:flush() end),
    {ok, #{files := [], engine := _, engine_reason := _, error := <<>>, rates := #{}} = Run} =
        flame_prof:stop(),
    Counts = [attempted, written, inconsistent, dropped, exited, ticks, missed, elapsed_ms],
    ?assertEqual([0], lists:usort([maps:get(Count, Run) || Count <- Counts -- [elapsed_ms]]));
session(suspended, Folder) ->
    {ok, Session} = flame_prof:start(options(Folder)),
    ok = sys:suspend(Session),
    ?assertMatch(#{state := unresponsive}, flame_prof:info()),
    refused({timeout, #{ms => 1, request => flush}}, fun() -> flame_prof:flush(1) end),
    ok = sys:resume(Session),
    ?assertMatch({ok, #{state := stopped}}, flame_prof:stop()).

options(Folder) -> #{dir => Folder, engine => portable}.

folder() ->
    stopped(),
    Unique = integer_to_list(erlang:unique_integer([positive])),
    filename:join("/tmp", "flame_prof_refusals_" ++ os:getpid() ++ "_" ++ Unique).

left(Folder) ->
    stopped(),
    _ = file:del_dir_r(Folder),
    ok.

stopped() ->
    _ = application:stop(flame_prof),
    ok.

%% Profiles.

%% The answer has the class and these details, and its sentence is for a person.
refused({Class, Expected}, Call) ->
    {error, {Class, Details} = Reason} = Call(),
    ?assertEqual(Expected, maps:with(maps:keys(Expected), Details)),
    Sentence = unicode:characters_to_binary(flame_prof:format_error(Reason)),
    ?assert(byte_size(Sentence) > 10),
    ?assertEqual(nomatch,
        re:run(Sentence, "function_clause|badmatch|badarg|\\{error|#Ref|<<|=>.*=>", [dotall])).
