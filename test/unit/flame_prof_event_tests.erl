%% What is told about a session: events, numbers, names. With a scripted agent.
-module(flame_prof_event_tests).

-include("flame_prof.hrl").
-include_lib("eunit/include/eunit.hrl").

-import(fake_agent, [run/1, profile/2]).

%% Starts and stops one.
session() ->
    Pid = profile(native, #{}),
    {ok, _} = flame_prof:stop(),
    Pid.

a_session_is_told_to_logger_test() ->
    run(fun() ->
        Reports = [{Report, Format} || {notice, #{event := _} = Report, #{report_cb := Format,
            domain := [flame_prof], application := flame_prof}}
            <- logged:during(fun() -> session(), handled() end)],
        Texts = [unicode:characters_to_list(Format(Report, #{})) || {Report, Format} <- Reports],
        [?assertMatch({match, _}, re:run(Text, Expected)) || {Text, Expected} <- lists:zip(Texts, [
            "^flame_prof\\.session\\.start .*engine=native",
            "^flame_prof\\.session\\.stop .*outcome=ok.* written=0"])]
    end).

%% By processes of their own, each of which waits for the one before.
handled() ->
    waiting:eventually(fun() -> [] =:= [P || P <- processes(),
        {_, {flame_prof_event, _, _}} <- [process_info(P, current_function)]] end).

%% By the filters that OTP gives it when nobody says otherwise.
the_default_handler_says_nothing_test() ->
    Event = #{level => notice, msg => {report, #{}}, meta => #{domain => [flame_prof]}},
    ?assertEqual(ignore, logger_filters:domain(Event, {log, super, [otp, sasl]})),
    ?assertEqual(ignore, logger_filters:domain(Event, {log, undefined, []})).

a_session_is_told_to_telemetry_when_it_is_loaded_test() ->
    with_telemetry("execute(E, M, D) -> telemetry_test ! {telemetry, E, M, D}.", fun() ->
        Pid = session(),
        receive
            {telemetry, ?FLAME_PROF_EVENT_SESSION_START, Times, Started} ->
                ?assertMatch(#{session := Pid, files := [_]}, Started),
                #{system_time := _, monotonic_time := Begun} = Times
        end,
        receive
            {telemetry, ?FLAME_PROF_EVENT_SESSION_STOP, Counts, Stopped} ->
                #{attempted := _, elapsed_ms := Ms, monotonic_time := Ended, duration := For} =
                    Counts,
                ?assertEqual(Ms, erlang:convert_time_unit(For, native, millisecond)),
                ?assert(Ended > Begun),
                ?assertMatch(#{session := Pid, outcome := ok}, Stopped)
        end
    end).

a_handler_that_fails_or_hangs_does_no_harm_test() ->
    [with_telemetry(Execute, fun() -> ?assertNot(is_process_alive(session())) end) || Execute <- [
        "execute(_, _, _) -> error(broken).", "execute(_, _, _) -> receive never -> ok end."]].

a_handler_can_stop_the_session_test() ->
    with_telemetry("execute([_, session, start], _, _) ->"
        "    State = maps:get(state, flame_prof:info()),"
        "    telemetry_test ! {answered, State, flame_prof:stop()};"
        "execute(_, _, _) -> ok.", fun() ->
            {ok, Session} = flame_prof:start(fake_agent:options(native)),
            receive {answered, State, Answer} ->
                ?assertMatch({running, {ok, #{files := [_]}}}, {State, Answer}) end,
            ?assertNot(is_process_alive(Session))
        end).

%% Even when the first is not handled yet.
events_are_handled_in_their_order_test() ->
    with_telemetry("execute([_, session, What], _, _) ->"
        "    telemetry_test ! {handles, What, self()}, receive go -> ok end.", fun() ->
            _ = session(),
            [receive {handles, What, Pid} ->
                ?assertEqual(Expected, What),
                receive {handles, _, _} -> error(too_early) after 0 -> Pid ! go end
            end || Expected <- [start, stop]]
        end).

with_telemetry(Execute, Fun) ->
    Forms = [begin
        {ok, Tokens, _} = erl_scan:string(Text),
        {ok, Form} = erl_parse:parse_form(Tokens),
        Form
    end || Text <- ["-module(telemetry).", "-export([execute/3]).", Execute]],
    {ok, telemetry, Beam} = compile:forms(Forms),
    {module, telemetry} = code:load_binary(telemetry, "no file", Beam),
    true = register(telemetry_test, self()),
    try run(Fun) after
        true = unregister(telemetry_test),
        true = code:delete(telemetry),
        code:purge(telemetry)
    end.

%% Each counter is there, as it is.
numbers_are_in_the_text_form_of_prometheus_test() ->
    run(fun() ->
        ?assertMatch(#{"flame_prof_up" := 0.0}, parse(flame_prof:metrics())),
        _ = profile(native, #{}),
        Names = [{"samples_attempted_total", attempted}, {"text_bytes_total", bytes},
            {"ticks_total{result=\"done\"}", ticks}, {"ticks_total{result=\"missed\"}", missed} |
            [{"samples_total{result=\"" ++ atom_to_list(Key) ++ "\"}", Key}
                || Key <- [written, inconsistent, dropped, exited, evicted]]],
        Counts = maps:from_list([{Key, N} || {N, {_, Key}} <- lists:enumerate(Names)]),
        ok = fake_agent:count(Counts#{sampler_cpu_ns => 1500000000}),
        Numbers = parse(flame_prof:metrics()),
        [?assertEqual({Name, float(maps:get(Key, Counts))},
            {Name, maps:get("flame_prof_" ++ Name, Numbers)}) || {Name, Key} <- Names],
        ?assertMatch(#{"flame_prof_up" := 1.0, "flame_prof_throttle_level" := _,
            "flame_prof_cpu_seconds_total{thread=\"sampler\"}" := 1.5,
            "flame_prof_target_processes{kind=\"explicit\"}" := 0.0}, Numbers)
    end).

those_selected_have_names_test() ->
    run(fun() ->
        ?assertEqual([], flame_prof:selected()),
        _ = profile(native, #{select => {top, 0}, include => kernel_sup}),
        Pid = whereis(kernel_sup),
        [{Pid, Names}] = flame_prof:selected(),
        [?assertNotEqual(nomatch, string:find(Names, Part))
            || Part <- ["kernel_sup", "supervisor:kernel/1"]]
    end).

help_names_every_look_by_question_test() ->
    {ok, Text} = native_node:printed(fun flame_prof:help/0),
    Lines = string:lexemes(unicode:characters_to_list(Text), "\n"),
    [?assert(length(Line) =< 90, Line) || Line <- Lines],
    {match, Calls} = re:run(Text, "^  ([a-z_]+)\\(", [multiline, global, {capture, [1], list}]),
    ?assertEqual([], [atom_to_list(Look) || Look <- flame_prof_look:names()]
        -- [Call || [Call] <- Calls]),
    ?assertMatch([["doctor"] | _], Calls),
    Exported = [atom_to_list(F) || {F, _} <- flame_prof:module_info(exports)],
    [?assert(lists:member(Call, Exported), Call) || [Call] <- Calls].

i_is_eight_lines_of_what_runs_test() ->
    run(fun() ->
        Printed = fun() -> {ok, Text} = native_node:printed(fun flame_prof:i/0), Text end,
        ?assertMatch({match, _}, re:run(Printed(), "^[^ ]+: stopped\n$")),
        _ = profile(native, #{}),
        ok = fake_agent:count(#{attempted => 1204, written => 1204, ticks => 90, missed => 10}),
        #{engine_reason := Why, files := [File]} = flame_prof:info(),
        Text = Printed(),
        %% And one of what this agent cannot read.
        ?assertEqual(9, length(string:lexemes(binary_to_list(Text), "\n"))),
        [?assertMatch({_, _}, binary:match(Text, Part), Part) || Part <- [
            <<": running">>, Why, File,
            <<"10 of 100 ticks missed (10.0">>, <<"1,204 attempted, ">>, <<"samples/s">>,
            <<"of one core">>]],
        {ok, _} = flame_prof:stop(),
        Last = Printed(),
        [?assertMatch({_, _}, binary:match(Last, Part)) || Part <- [
            <<"stopped; the last run was:">>, filename:rootname(File, <<".part">>)]]
    end).

%% By the grammar of the text form, version 0.0.4: a help line and a type line,
%% then the metric's own lines.
parse(Text) ->
    ?assertEqual($\n, binary:last(Text)),
    Lines = string:split(string:trim(binary_to_list(Text)), "\n", all),
    parse(Lines, none, #{}).

parse([], _, Numbers) -> Numbers;
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
