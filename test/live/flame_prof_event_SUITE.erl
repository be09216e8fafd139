%% What is told about a session: events, numbers, names.
-module(flame_prof_event_SUITE).

-include("flame_prof.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2]).
-export([
    a_session_is_told_to_logger/1,
    the_default_handler_says_nothing/1,
    a_session_is_told_to_telemetry_where_it_is_loaded/1,
    telemetry_that_fails_does_no_harm/1,
    a_handler_can_stop_the_session/1,
    a_handler_that_does_not_return_keeps_nobody_waiting/1,
    events_are_handled_in_their_order/1,
    numbers_are_in_the_text_form_of_prometheus/1,
    those_looked_at_have_names/1
]).
%% As a handler of logger.
-export([log/2]).

-import(waiting, [eventually/1]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        a_session_is_told_to_logger,
        the_default_handler_says_nothing,
        a_session_is_told_to_telemetry_where_it_is_loaded,
        telemetry_that_fails_does_no_harm,
        a_handler_can_stop_the_session,
        a_handler_that_does_not_return_keeps_nobody_waiting,
        events_are_handled_in_their_order,
        numbers_are_in_the_text_form_of_prometheus,
        those_looked_at_have_names
    ].

init_per_suite(Config) ->
    [{directory, filename:join(proplists:get_value(priv_dir, Config), "files")} | Config].

end_per_suite(_Config) ->
    _ = application:stop(flame_prof),
    ok.

end_per_testcase(_Case, _Config) ->
    _ = logger:remove_handler(?MODULE),
    _ = code:purge(telemetry),
    _ = code:delete(telemetry),
    application:stop(flame_prof).

a_session_is_told_to_logger(Config) ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => #{to => self()}, level => all}),
    _ = run(Config),
    {Meta, Start} = told(),
    ?assertMatch(#{domain := [flame_prof], application := flame_prof}, Meta),
    ?assertEqual(0, string:str(Start, "flame_prof.session.start") - 1),
    ?assertNotEqual(nomatch, string:find(Start, "engine=")),
    {_, Stop} = told(),
    ?assertEqual(0, string:str(Stop, "flame_prof.session.stop") - 1),
    [?assertNotEqual(nomatch, string:find(Stop, Part)) || Part <- ["written=", "outcome=ok"]].

told() ->
    receive
        {told, Meta, Text} -> {Meta, Text}
    after 60000 -> ct:fail("nothing was logged")
    end.

log(#{msg := {report, #{event := [flame_prof | _]} = Report},
    meta := #{report_cb := Format} = Meta}, #{
    config := #{to := To}
}) ->
    To ! {told, Meta, unicode:characters_to_list(Format(Report, #{}))};
log(_, _) ->
    ok.

%% As OTP configures it when nobody says otherwise.
the_default_handler_says_nothing(_Config) ->
    Filters = [
        {domain, {fun logger_filters:domain/2, {log, super, [otp, sasl]}}},
        {no_domain, {fun logger_filters:domain/2, {log, undefined, []}}}
    ],
    ok = logger:add_handler(?MODULE, ?MODULE, #{
        config => #{to => self()}, filters => Filters, filter_default => stop
    }),
    ok = flame_prof_event:emit(?FLAME_PROF_EVENT_SESSION_START, #{}, #{}),
    receive
        {told, _, Text} -> ct:fail(Text)
    after 100 -> ok
    end.

a_session_is_told_to_telemetry_where_it_is_loaded(Config) ->
    load_telemetry("execute(E, M, D) -> flame_prof_event_to ! {telemetry, E, M, D}."),
    true = register(flame_prof_event_to, self()),
    Pid = run(Config),
    receive
        {telemetry, ?FLAME_PROF_EVENT_SESSION_START, Times, Started} ->
            ?assertMatch(#{session := Pid, files := [_]}, Started),
            #{system_time := _, monotonic_time := Begun} = Times
    end,
    receive
        {telemetry, ?FLAME_PROF_EVENT_SESSION_STOP, Counts, Stopped} ->
            #{attempted := _, elapsed_ms := Ms, monotonic_time := Ended, duration := For} = Counts,
            ?assertEqual(Ms, erlang:convert_time_unit(For, native, millisecond)),
            ?assert(Ended > Begun),
            ?assertMatch(#{session := Pid, outcome := ok}, Stopped)
    end,
    true = unregister(flame_prof_event_to).

telemetry_that_fails_does_no_harm(Config) ->
    load_telemetry("execute(_, _, _) -> error(broken)."),
    _ = run(Config).

a_handler_can_stop_the_session(Config) ->
    load_telemetry(
        "execute([_, session, start], _, _) ->"
        "    State = maps:get(state, flame_prof:info()),"
        "    flame_prof_event_to ! {answered, State, flame_prof:stop()};"
        "execute(_, _, _) -> ok."
    ),
    true = register(flame_prof_event_to, self()),
    {ok, Session} = flame_prof:start(#{dir => directory(Config)}),
    receive
        {answered, State, Answer} ->
            ?assertEqual(running, State),
            ?assertMatch({ok, #{files := [_]}}, Answer)
    end,
    ?assertNot(is_process_alive(Session)),
    true = unregister(flame_prof_event_to).

a_handler_that_does_not_return_keeps_nobody_waiting(Config) ->
    load_telemetry("execute(_, _, _) -> receive never -> ok end."),
    Session = run(Config),
    ?assertNot(is_process_alive(Session)).

%% Even where the first is handled slowly.
events_are_handled_in_their_order(Config) ->
    load_telemetry(
        "execute([_, session, start], _, _) ->"
        "    timer:sleep(300), flame_prof_event_to ! {handled, start};"
        "execute([_, session, stop], _, _) -> flame_prof_event_to ! {handled, stop}."
    ),
    true = register(flame_prof_event_to, self()),
    _ = run(Config),
    ?assertEqual([start, stop], [receive {handled, Event} -> Event end || _ <- [1, 2]]),
    true = unregister(flame_prof_event_to).

load_telemetry(Execute) ->
    Forms = [
        begin
            {ok, Tokens, _} = erl_scan:string(Text),
            {ok, Form} = erl_parse:parse_form(Tokens),
            Form
        end
     || Text <- ["-module(telemetry).", "-export([execute/3]).", Execute]
    ],
    {ok, telemetry, Beam} = compile:forms(Forms),
    {module, telemetry} = code:load_binary(telemetry, "no file", Beam).

numbers_are_in_the_text_form_of_prometheus(Config) ->
    ?assertMatch(#{"flame_prof_up" := 0.0}, parse(flame_prof:metrics())),
    {ok, _} = flame_prof:start(#{dir => directory(Config)}),
    Numbers = eventually(fun() ->
        case parse(flame_prof:metrics()) of
            #{"flame_prof_samples_attempted_total" := 0.0} -> false;
            Parsed -> {true, Parsed}
        end
    end),
    #{counters := Counters} = flame_prof:info(),
    ?assertMatch(#{"flame_prof_up" := 1.0}, Numbers),
    %% Each counter is there, and none has gone backwards since.
    ?assert(maps:get("flame_prof_samples_attempted_total", Numbers) > 0),
    [
        ?assert(maps:get("flame_prof_" ++ Name, Numbers) =< maps:get(Key, Counters), Name)
     || {Name, Key} <- [{"samples_attempted_total", attempted}, {"text_bytes_total", bytes},
            {"ticks_total{result=\"done\"}", ticks}, {"ticks_total{result=\"missed\"}", missed}] ++
            [{"samples_total{result=\"" ++ atom_to_list(Key) ++ "\"}", Key}
                || Key <- [written, inconsistent, dropped, exited, evicted]]
    ],
    #{sampler_cpu_ns := SamplerNs} = Counters,
    Cpu = maps:get("flame_prof_cpu_seconds_total{thread=\"sampler\"}", Numbers),
    ?assert(Cpu =< SamplerNs / 1.0e9),
    ?assertMatch(#{"flame_prof_target_processes{kind=\"explicit\"}" := 0.0}, Numbers),
    %% It falls again.
    ?assertMatch(#{"flame_prof_throttle_level" := _}, Numbers),
    {ok, _} = flame_prof:stop().

%% By the grammar of the text form, version 0.0.4: a help line and a type line,
%% then the metric's own lines.
parse(Text) ->
    ?assertEqual($\n, binary:last(Text)),
    Lines = string:split(string:trim(binary_to_list(Text)), "\n", all),
    parse(Lines, none, #{}).

parse([], _, Numbers) ->
    Numbers;
parse(["# HELP " ++ Help, "# TYPE " ++ Type | Lines], _, Numbers) ->
    [Name, Sentence] = string:split(Help, " "),
    ?assertMatch({match, _}, re:run(Sentence, "^[A-Z].{10,}\\.$|; always 1\\.$"), Help),
    ?assertEqual(nomatch, string:find(Sentence, "doc/"), Help),
    [Name, Kind] = string:split(Type, " "),
    ?assert(lists:member(Kind, ["gauge", "counter"])),
    ?assertEqual(Kind =:= "counter", lists:suffix("_total", Name)),
    ?assertMatch({match, _}, re:run(Name, "^flame_prof_[a-z_]+$")),
    parse(Lines, Name, Numbers);
parse([Line | Lines], Name, Numbers) ->
    [Series, Number] = string:split(Line, " "),
    ?assert(Series =:= Name orelse lists:prefix(Name ++ "{", Series)),
    ?assertNot(is_map_key(Series, Numbers)),
    parse(Lines, Name, Numbers#{Series => to_number(Number)}).

to_number(Text) ->
    case string:to_float(Text) of
        {error, no_float} -> float(list_to_integer(Text));
        {Float, ""} -> Float
    end.

those_looked_at_have_names(Config) ->
    ?assertEqual([], flame_prof:selected()),
    {ok, _} = flame_prof:start(#{dir => directory(Config), select => {top, 0},
        include => kernel_sup}),
    Pid = whereis(kernel_sup),
    Names = eventually(fun() ->
        case flame_prof:selected() of
            [] -> false;
            [{Pid, Text}] -> {true, Text}
        end
    end),
    ?assertNotEqual(nomatch, string:find(Names, "kernel_sup")),
    ?assertNotEqual(nomatch, string:find(Names, "supervisor:kernel/1")),
    {ok, _} = flame_prof:stop().

directory(Config) ->
    proplists:get_value(directory, Config).

run(Config) ->
    {ok, Pid} = flame_prof:start(#{dir => directory(Config)}),
    {ok, _} = flame_prof:stop(),
    Pid.
