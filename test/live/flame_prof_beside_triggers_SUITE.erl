%% Looks on a node whose session waits for triggers: they see the node, and nothing of them reaches
%% the triggers, their samples or their folder. How they end: test/unit/flame_prof_triggers_tests.
-module(flame_prof_beside_triggers_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2,
    the_doctor_sees_beside_a_lookback/1, one_that_fires_during_a_recording_has_its_own_file/1,
    a_profile_beside_triggers_is_not_their_last_run/1]).
%% As a trigger, and in files.
-export([is_set/0, spin/1, work/1]).

-import(waiting, [eventually/1]).

-define(SWITCH, {?MODULE, switch}).

suite() -> [{timetrap, {minutes, 4}}].
all() -> suite_cases:list(?MODULE, [spin, work]).

init_per_testcase(Case, Config) ->
    _ = application:stop(flame_prof),
    persistent_term:put(?SWITCH, false),
    Name = filename:join(proplists:get_value(priv_dir, Config), Case),
    Spinner = spawn(fun() -> ?MODULE:spin(0) end),
    [{directory, Name}, {spinner, Spinner} | Config].

end_per_testcase(_Case, Config) ->
    true = exit(proplists:get_value(spinner, Config), kill),
    _ = application:stop(flame_prof),
    _ = persistent_term:erase(?SWITCH),
    ok.

is_set() -> persistent_term:get(?SWITCH, false).
spin(N) -> ?MODULE:spin(erlang:phash2(N)).

the_doctor_sees_beside_a_lookback(Config) ->
    ok = arm(Config, #{lookback => 20000}),
    Session = whereis(flame_prof_session),
    eventually(fun() -> lists:keymember(spinner(Config), 1, flame_prof:selected()) end),
    seen_by_the_doctor(),
    ?assertEqual(Session, whereis(flame_prof_session)),
    [{Before, Fired}] = fires(Config),
    ?assert(Before < Fired).

%% A look whose session starts late, as on a busy machine, may end before a sample of the spinner.
seen_by_the_doctor() ->
    ok = waiting:eventually(fun() ->
        {#{unseen := Unseen}, Files} =
            flame_prof_doctor_evidence:collect(#{for => 1500, engine => auto}),
        not is_map_key(samples, Unseen) andalso
            flame_prof_temporary:with_files(Files, fun(Paths) -> times(Paths, spin) =/= [] end)
    end).

one_that_fires_during_a_recording_has_its_own_file(Config) ->
    ok = arm(Config, #{lookback => 20000}),
    eventually(fun() -> lists:keymember(spinner(Config), 1, flame_prof:selected()) end),
    {Recorder, Monitor} = spawn_monitor(fun() ->
        {ok, Files} = flame_prof_recording:record(3000, #{}, self()),
        Found = flame_prof_temporary:with_files(Files, fun(Paths) -> times(Paths, spin) end),
        exit({found, Found =/= []})
    end),
    eventually(fun() -> is_pid(whereis(flame_prof_session_beside)) end),
    [{Before, Fired}] = fires(Config),
    ?assert(Before < Fired),
    receive {'DOWN', Monitor, process, Recorder, Reason} -> ?assertEqual({found, true}, Reason) end,
    eventually(fun() -> whereis(flame_prof_session_beside) =:= undefined end).

a_profile_beside_triggers_is_not_their_last_run(Config) ->
    ok = arm(Config, #{lookback => 5000}),
    Own = filename:join(directory(Config), "profile"),
    {{ok, #{files := [File | _] = Files, result := done}}, _} = native_node:printed(fun() ->
        flame_prof:profile(fun() -> ?MODULE:work(erlang:monotonic_time(millisecond) + 700) end,
            #{dir => Own})
    end),
    ?assertEqual(Own, filename:dirname(unicode:characters_to_list(File))),
    ?assert(times(Files, work) =/= []),
    #{state := armed} = Info = flame_prof:info(),
    ?assertNot(is_map_key(last_run, Info)),
    ?assertMatch({ok, #{files := []}}, flame_prof:stop()).

work(Until) ->
    case erlang:monotonic_time(millisecond) > Until of
        true -> done;
        false -> ?MODULE:work(Until)
    end.

arm(Config, More) ->
    Trigger = #{on => {?MODULE, is_set}, interval => 100, duration => 1000, cooldown => 600000},
    {ok, _} = flame_prof:start(More#{dir => directory(Config), triggers => [Trigger],
        include => [spinner(Config)]}),
    ok.

directory(Config) -> proplists:get_value(directory, Config).
spinner(Config) -> proplists:get_value(spinner, Config).

%% Nothing was written until it fires; then one file: when its first sample of the spinner was
%% taken, and when the trigger fired.
fires(Config) ->
    ?assertMatch(#{state := armed, triggers := [#{fired := 0}]}, flame_prof:info()),
    ?assertEqual([], finished(Config)),
    persistent_term:put(?SWITCH, true),
    eventually(fun() ->
        #{triggers := [#{fired := Fired}]} = flame_prof:info(),
        Fired =:= 1 andalso length(finished(Config)) =:= 1
    end),
    [begin
        {ok, [#{trigger := _, time_us := Fired} | _], _} = reader_oracle:own(File),
        {lists:min(times([File], spin)), Fired}
    end || File <- finished(Config)].

finished(Config) -> filelib:wildcard(filename:join(directory(Config), "*.zst")).

%% Of the samples with this function of this module.
times(Files, Function) ->
    Wanted = iolist_to_binary([atom_to_list(?MODULE), ":", atom_to_list(Function), "/"]),
    {ok, Times, _} = reader_oracle:fold(fun(#{time_us := Time, frames := Frames}, Times) ->
        case [F || {F, _} <- Frames, binary:match(F, Wanted) =/= nomatch] of
            [] -> Times;
            _ -> [Time | Times]
        end
    end, [], Files),
    Times.
