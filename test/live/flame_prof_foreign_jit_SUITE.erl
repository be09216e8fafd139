%% Other code generators in the VM's process: where the engine finds Erlang code.
-module(flame_prof_foreign_jit_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1, other_jits_do_not_disturb_the_native_engine/1,
    other_jits_that_come_after_calibration_do_not_either/1,
    nor_where_the_vm_s_own_code_is_anonymous/1,
    more_code_ranges_than_fit_give_the_portable_engine_and_the_reason/1,
    ranges_that_no_longer_fit_are_counted_and_told/1]).
%% For peers.
-export([before_the_first_session/0, between_sessions/0, choices/0, choices_once_calibrated/0,
    in_a_session/0]).

-import(waiting, [eventually/1]).

-define(MAPPINGS, 80).

all() -> suite_cases:list(?MODULE, []).

init_per_suite(Config) ->
    case native_node:why_not() of
        none ->
            case foreign_jit:build() of ok -> Config; {skip, _} = Skip -> Skip end;
        Why -> {skip, Why}
    end.

end_per_suite(_) -> ok.

other_jits_do_not_disturb_the_native_engine(_) ->
    native = peer_vm:value(?MODULE, before_the_first_session, []).

other_jits_that_come_after_calibration_do_not_either(_) ->
    {native, native} = peer_vm:value(?MODULE, between_sessions, []).

nor_where_the_vm_s_own_code_is_anonymous(_) ->
    native = peer_vm:value(?MODULE, before_the_first_session, anonymous_code()),
    {native, native} = peer_vm:value(?MODULE, between_sessions, anonymous_code()).

more_code_ranges_than_fit_give_the_portable_engine_and_the_reason(_) ->
    [begin
        {Auto, Native} = peer_vm:value(?MODULE, Function, anonymous_code()),
        {ok, #{engine := portable, engine_reason := Why}} = Auto,
        {error, {engine, #{engine := native, cause := {full, code, Reason}}}} = Native,
        <<"the JIT's code lies in more than 64 separate mappings", _/binary>> = Reason,
        {_, _} = binary:match(Why, Reason)
    end || Function <- [choices, choices_once_calibrated]].

ranges_that_no_longer_fit_are_counted_and_told(_) ->
    {LeftOut, Log} = peer_vm:value(?MODULE, in_a_session, anonymous_code()),
    true = LeftOut > 0,
    {_, _} = binary:match(Log, <<"mappings of code">>).

%% Before +JMsingle the code was anonymous for perf's sake alone.
anonymous_code() ->
    case erlang:system_info(otp_release) of
        "25" -> ["+JPperf", "true"];
        _ -> ["+JMsingle", "true"]
    end.

before_the_first_session() ->
    map(none),
    engine_of_a_session().

between_sessions() ->
    First = engine_of_a_session(),
    map(none),
    {First, engine_of_a_session()}.

choices() ->
    map(code_info),
    {flame_prof_engine:choose(auto), flame_prof_engine:choose(native)}.

choices_once_calibrated() ->
    {ok, #{engine := native}} = flame_prof_engine:choose(native),
    choices().

in_a_session() ->
    Directory = directory(),
    Log = filename:join(Directory, "log"),
    ok = logger:add_handler(?MODULE, logger_std_h, #{config => #{file => Log}}),
    {ok, _} = flame_prof:start(#{
        engine => native, flush_interval => 2000, dir => Directory, compress => none}),
    map(code_info),
    LeftOut = fun() -> maps:get(code_ranges_left_out, maps:get(counters, flame_prof:info())) end,
    eventually(fun() -> LeftOut() > 0 end),
    eventually(fun() ->
        {ok, Text} = file:read_file(Log),
        binary:match(Text, <<"mappings of code">>) =/= nomatch
    end),
    N = LeftOut(),
    {ok, Logged} = file:read_file(Log),
    {ok, _} = flame_prof:stop(),
    ok = file:del_dir_r(Directory),
    {N, Logged}.

%% Its samples have the frames of a function that is known to run.
engine_of_a_session() ->
    Directory = directory(),
    Worker = spawn_link(fun Work() -> lists:sort(lists:seq(1, 1000)), Work() end),
    {ok, _} = flame_prof:start(#{
        engine => auto, flush_interval => 2000, dir => Directory, compress => none}),
    #{engine := Engine} = flame_prof:info(),
    %% On a busy machine it is in sort/1, or waits for a scheduler, for many ticks.
    eventually(fun() ->
        #{files := [File | _]} = flame_prof:info(),
        {ok, Text} = file:read_file(File),
        binary:match(Text, <<"lists:seq">>) =/= nomatch
    end),
    {ok, _} = flame_prof:stop(),
    unlink(Worker),
    exit(Worker, kill),
    ok = file:del_dir_r(Directory),
    Engine.

map(Kind) ->
    ok = foreign_jit:load(),
    ok = foreign_jit:map(?MAPPINGS, Kind).

directory() ->
    Name = filename:join("/tmp", "flame_prof_foreign_jit_" ++ os:getpid()),
    ok = filelib:ensure_dir(filename:join(Name, "x")),
    Name.
