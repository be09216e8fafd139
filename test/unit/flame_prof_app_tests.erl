%% What the environment starts with the application, with a scripted agent.
-module(flame_prof_app_tests).

-include_lib("eunit/include/eunit.hrl").

-define(DIR, "/tmp/flame_prof_fake").

%% With this environment and nothing of it started yet.
run(Fun) ->
    fake_agent:run(fun() ->
        ok = application:stop(flame_prof),
        Fun()
    end).

start(Environment) ->
    _ = application:stop(flame_prof),
    [application:unset_env(flame_prof, Key) || {Key, _} <- application:get_all_env(flame_prof)],
    [ok = application:set_env(flame_prof, Key, Value) || {Key, Value} <- Environment],
    ok = application:start(flame_prof),
    %% Autostart has a process of its own.
    waiting:eventually(fun() -> [] =:= [P || P <- processes(),
        proc_lib:translate_initial_call(P) =:= {flame_prof_sup, autostart, 0}] end),
    virtual_clock:settle().

%% As an operator writes it.
profile(More) -> {profile, maps:merge(fake_agent:options(native), More)}.

nothing_is_started_unless_asked_test() ->
    run(fun() ->
        ok = start([profile(#{})]),
        ?assertEqual({#{state => stopped}, []},
            {flame_prof:info(), fake_agent:calls(session_start)})
    end).

the_profile_is_started_with_the_application_test() ->
    run(fun() ->
        ok = start([{autostart, true}, profile(#{select => {top, 7, 100}})]),
        ?assertMatch(#{state := running, options := #{select := {top, 7, 100}}}, flame_prof:info()),
        ?assertMatch({error, {already_started, _}}, flame_prof:start(#{})),
        ?assertMatch({ok, _}, flame_prof:stop())
    end).

%% The profile is what autostart starts, and nobody's default.
options_of_the_environment_are_defaults_of_the_profile_test() ->
    run(fun() ->
        ok = start([{autostart, true}, {dir, ?DIR}, {engine, native}, {running_stacks, false},
            {messages, false}, {sample_interval, 20}, {collapse_recursion, false},
            {profile, #{sample_interval => 30}}]),
        ?assertMatch(#{options := #{sample_interval := 30, collapse_recursion := false}},
            flame_prof:info()),
        {ok, _} = flame_prof:stop(),
        {ok, _} = flame_prof:start(),
        ?assertMatch(#{options := #{sample_interval := 20}}, flame_prof:info())
    end).

%% A person who asks gets the reason, too, until a session starts.
a_bad_environment_is_logged_and_harmless_test() ->
    run(fun() ->
        [begin
            [Text] = logged:texts(fun() -> start(Environment) end),
            #{state := stopped, last_error := Reason} = flame_prof:info(),
            Told = unicode:characters_to_list(flame_prof:format_error(Reason)),
            [?assertNotEqual(nomatch, string:find(In, Part), {In, Part})
                || Part <- Named, In <- [Text, Told]],
            ?assertEqual([], fake_agent:calls(session_start))
        end || {Environment, Named} <- [{[{sample_rate, 1}], ["sample_rate", "no such option"]},
            {[{max_files, 0}], ["sys.config", "max_files"]},
            {[{profile, #{max_files => 0}}], ["profile", "max_files"]},
            {[{autostart, yes}], ["autostart", "true or false"]},
            {[{autostart, true}, {profile, [sample_interval]}],
                ["profile", "a map of options"]},
            {[{autostart, true}, {profile, #{sample_interval => 0}}],
                ["profile", "sample_interval", "whole milliseconds"]},
            {[{autostart, true}, {profile, #{sample_rate => 1}}],
                ["sample_rate", "no such option"]},
            {[{autostart, true}, {profile, #{}}, {sample_rate, 1}],
                ["sample_rate", "no such option"]}]]
    end).

a_disk_that_refuses_is_logged_and_harmless_test() ->
    run(fun() ->
        fake_agent:script(session_start, {error, {io, <<"file exists">>}}),
        [Text] = logged:texts(fun() -> start([{autostart, true}, profile(#{})]) end),
        ?assertNotEqual(nomatch, string:find(Text, "autostart failed: ")),
        ?assertMatch(#{state := stopped, last_error := _}, flame_prof:info()),
        fake_agent:script(session_start, none),
        _ = fake_agent:profile(native, #{}),
        {ok, _} = flame_prof:stop(),
        ?assertNot(is_map_key(last_error, flame_prof:info()))
    end).

triggers_are_armed_with_the_application_test() ->
    run(fun() ->
        ok = start([{autostart, true},
            profile(#{triggers => #{on => run_queue, above => 1000000}})]),
        ?assertMatch(#{state := armed, triggers := [#{fired := 0}]}, flame_prof:info())
    end).

a_killed_session_is_not_started_again_test() ->
    run(fun() ->
        ok = start([{autostart, true}, profile(#{})]),
        exit(whereis(flame_prof_session), kill),
        waiting:eventually(fun() -> whereis(flame_prof_session) =:= undefined end),
        ok = virtual_clock:advance(60000),
        ?assertMatch({#{state := stopped}, true},
            {flame_prof:info(), is_pid(whereis(flame_prof_sup))}),
        ?assertMatch([_], fake_agent:calls(session_start))
    end).

%% The node's own figures: their process is started again after a flush interval, not at once.
figures_that_cannot_be_had_are_not_asked_for_without_end_test() ->
    fake_agent:each(fun(Engine) ->
        Session = fake_agent:profile(Engine, #{flush_interval => 15000}),
        Nodes = fun() ->
            {links, Links} = process_info(Session, links),
            [Pid || Pid <- Links, is_pid(Pid),
                proc_lib:translate_initial_call(Pid) =:= {flame_prof_node, init, 1}]
        end,
        [begin
            [Node] = Nodes(),
            exit(Node, kill),
            ok = virtual_clock:advance(14999),
            ?assertEqual({[], Session}, {Nodes(), whereis(flame_prof_session)}),
            ok = virtual_clock:advance(1),
            ?assertMatch([_], Nodes())
        end || _ <- [first, second]]
    end).
