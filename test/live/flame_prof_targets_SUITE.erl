%% The processes that a session samples, by its files: those that asked for it, and those that
%% profiling has spread to. With each engine. Selection: test/unit/flame_prof_targets_tests.
-module(flame_prof_targets_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_group/2, end_per_group/2, init_per_testcase/2,
    end_per_testcase/2, a_status_is_of_the_process_that_asked_for_it/1,
    nobody_profiles_without_an_answer/1, receivers_are_followed/1,
    tracing_ends_at_its_limit_of_events/1, somebody_elses_trace_goes_on/1,
    nothing_is_traced_after_the_session/1, burn/1, wait/0]).

-import(waiting, [eventually/1]).

suite() -> [{timetrap, {minutes, 10}}].
all() -> [{group, native}, {group, portable}].

groups() ->
    Cases = suite_cases:list(?MODULE, [burn]),
    %% The same with each engine, for as long as nobody answers.
    [{native, [], Cases}, {portable, [], Cases -- [nobody_profiles_without_an_answer]}].

init_per_group(Engine, Config) ->
    Directory = filename:join(proplists:get_value(priv_dir, Config), Engine),
    case flame_prof:start(#{engine => Engine, dir => Directory}) of
        {ok, _} ->
            {ok, _} = flame_prof:stop(),
            [{engine, Engine}, {directory, Directory} | Config];
        {error, Reason} -> {skip, unicode:characters_to_list(flame_prof:format_error(Reason))}
    end.

end_per_group(_Engine, _Config) -> ok.

init_per_testcase(_Case, Config) ->
    {ok, _} = application:ensure_all_started(flame_prof),
    Config.

end_per_testcase(_Case, _Config) ->
    _ = application:stop(flame_prof),
    [exit(Pid, kill) || Pid <- processes(), is_ours(Pid)],
    ok.

%% ---- explicit --------------------------------------------------------------

a_status_is_of_the_process_that_asked_for_it(Config) ->
    start(Config, #{}),
    Burner = ours(fun() -> 1 = flame_prof:profile_start(#{status => running}), ?MODULE:burn(0) end),
    Waiter = ours(fun() -> 1 = flame_prof:profile_start(#{status => running}), ?MODULE:wait() end),
    Other = ours(fun() -> 1 = flame_prof:profile_start(#{status => waiting}), ?MODULE:wait() end),
    eventually(fun() -> count(explicit) =:= 3 end),
    %% process_info/2 sees it running only where it runs on another scheduler.
    has_samples_of([Other | [Burner || engine(Config) =:= native]]),
    %% It may have been seen on its way.
    eventually(fun() -> not lists:member(Waiter, sampled_late(flushed())) end),
    ?assert(lists:member(Other, sampled(Config))).

%% One that is late does not profile behind the back of who has been refused.
nobody_profiles_without_an_answer(Config) ->
    start(Config, #{}),
    {ok, Targets} = flame_prof_session:targets(current),
    ok = sys:suspend(Targets),
    ?assertError({not_started, flame_prof}, flame_prof:profile_start()),
    ?assertEqual(done, flame_prof:apply(fun() -> done end)),
    ok = sys:resume(Targets),
    ?assertEqual(0, count(explicit)).

%% ---- follow -----------------------------------------------------------------

receivers_are_followed(Config) ->
    start(Config, #{}),
    Last = ours(fun wait/0),
    Named = ours(fun() -> relay(Last) end),
    true = register(?FUNCTION_NAME, Named),
    First = ours(fun() -> 1 = flame_prof:profile_start(#{follow => send}),
        relay(?FUNCTION_NAME) end),
    Nobody = ours(fun() -> relay(Last) end),
    eventually(fun() -> count(explicit) =:= 1 end),
    First ! hello,
    %% The second may have sent before it was traced itself.
    eventually(fun() -> count(followed) >= 1 end),
    First ! hello,
    eventually(fun() -> count(followed) =:= 2 end),
    ?assertMatch(#{following := {traces, _}}, targets()),
    has_samples_of([First, Named, Last]),
    Sampled = sampled(Config),
    ?assertEqual(lists:sort([First, Named, Last]), Sampled),
    ?assertNot(lists:member(Nobody, Sampled)).

relay(To) ->
    receive hello -> To ! hello end,
    relay(To).

%% What is known: it sends as often as it can. With the limit reached it is not
%% traced any more, whatever it does.
tracing_ends_at_its_limit_of_events(Config) ->
    start(Config, #{follow_limits => #{events => 1000, processes => 5}}),
    Sink = ours(fun Loop() -> receive _ -> Loop() end end),
    Root = ours(fun() ->
        1 = flame_prof:profile_start(#{follow => spawn_and_send}),
        storm(Sink)
    end),
    eventually(fun() -> is_ended(maps:get(following, targets())) end),
    eventually(fun() -> flags(Root) =:= [] end),
    ?assert(is_process_alive(Root)),
    ?assertMatch(#{state := running}, flame_prof:info()).

%% It is off until somebody has asked for it.
is_ended({ended, _}) -> true;
is_ended(_) -> false.

storm(Sink) ->
    Sink ! {some, message},
    _ = spawn(fun() -> Sink ! bye end),
    storm(Sink).

%% Theirs is a trace of the same process, of the same kind.
somebody_elses_trace_goes_on(Config) ->
    start(Config, #{follow_limits => #{seconds => 1}}),
    Sink = ours(fun Loop() -> receive _ -> Loop() end end),
    Root = ours(fun() ->
        receive profile -> 1 = flame_prof:profile_start(#{follow => send}) end,
        relay(Sink)
    end),
    1 = erlang:trace(Root, true, [send]),
    Root ! profile,
    eventually(fun() -> count(explicit) =:= 1 end),
    Root ! hello,
    receive {trace, Root, send, hello, Sink} -> ok end,
    %% Where it may trace as well, until its limit.
    eventually(fun() -> maps:get(following, targets()) =:= {ended, seconds} end),
    {ok, _} = flame_prof:stop(),
    Root ! hello,
    receive {trace, Root, send, hello, Sink} -> ok end,
    ?assertEqual({tracer, self()}, erlang:trace_info(Root, tracer)),
    1 = erlang:trace(Root, false, [send]).

nothing_is_traced_after_the_session(Config) ->
    [begin
        start(Config, #{}),
        Root = ours(fun() ->
            1 = flame_prof:profile_start(#{follow => send}),
            relay(self())
        end),
        eventually(fun() -> count(explicit) =:= 1 end),
        End(),
        Root ! hello,
        eventually(fun() -> flags(Root) =:= [] end),
        eventually(fun() -> maps:get(state, flame_prof:info()) =:= stopped end)
    end
     || End <- [fun() -> {ok, _} = flame_prof:stop() end,
            fun() -> exit(whereis(flame_prof_session), kill) end]].

%% In the trace session of the node, and in all others where OTP has them.
flags(Pid) ->
    case erlang:trace_info(Pid, flags) of
        {flags, Flags} -> Flags ++ session_flags(Pid);
        undefined -> []
    end.

session_flags(Pid) ->
    Trace = trace,
    case code:ensure_loaded(Trace) of
        {module, Trace} -> [N || {N, _} <- listed(Trace:session_info(Pid)), N =:= flame_prof];
        {error, _} -> []
    end.

listed(undefined) -> [];
listed(Sessions) -> Sessions.

engine(Config) -> proplists:get_value(engine, Config).
directory(Config) -> proplists:get_value(directory, Config).

%% Nobody is chosen unless a test says so. All is in one file.
start(Config, Options) ->
    Default = #{select => {top, 0}, engine => engine(Config), dir => directory(Config),
        flushes_per_file => infinity},
    {ok, Pid} = flame_prof:start(maps:merge(Default, Options)),
    Pid.

stop() ->
    {ok, Run} = flame_prof:stop(),
    #{attempted := Attempted, written := Written, inconsistent := Inconsistent, dropped := Dropped,
        exited := Exited} = Run,
    ?assertEqual(Attempted, Written + Inconsistent + Dropped + Exited),
    Run.

targets() -> maps:get(targets, flame_prof:info()).
count(Key) -> maps:get(Key, targets()).

%% Each of these at least, by now.
has_samples_of(Pids) -> eventually(fun() -> Pids -- sampled_since(flushed(), 0) =:= [] end).

%% The file as it grows, with all that has been sampled.
flushed() ->
    ok = flame_prof:flush(60000),
    lists:last(maps:get(files, flame_prof:info())).

%% Ends the session: whom its file has samples of.
sampled(_Config) ->
    #{files := [File], written := Written} = stop(),
    _ = [{ok, _} = perf_script_grammar:check(File) || Written > 0],
    sampled_since(File, 0).

%% In the last second of it.
sampled_late(File) ->
    {ok, Last, _} = reader_oracle:fold(fun(#{time_us := T}, _) -> T end, 0, File),
    sampled_since(File, Last - 1000000).

sampled_since(File, Since) ->
    Add = fun
        (#{time_us := T, words := #{<<"erl_pid">> := Pid}}, Pids)
            when T >= Since -> Pids#{Pid => []};
        (_, Pids) -> Pids
    end,
    {ok, Pids, _} = reader_oracle:fold(Add, #{}, File),
    lists:sort([list_to_pid(binary_to_list(Pid)) || Pid <- maps:keys(Pids)]).

%% Marked, so that it is killed in the end. It begins when it has its mark.
ours(Fun) ->
    Pid = spawn(fun() ->
        receive ?MODULE -> put(?MODULE, ours) end,
        Fun()
    end),
    Pid ! ?MODULE,
    Pid.

is_ours(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} -> lists:member({?MODULE, ours}, Dictionary);
        undefined -> false
    end.

wait() ->
    receive stop -> ok end.

burn(N) -> ?MODULE:burn(N + 1).

