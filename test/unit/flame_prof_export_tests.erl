%% Exports of flame_prof_profile as their consumers find them: each test has a file whose samples
%% it knows.
-module(flame_prof_export_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/").

%%% perf

init_keeps_its_own_thread_test() ->
    Text = [sample(#{tid => 0, pid => "<0.0.0>", us => 1}), sample(#{tid => 1, us => 1}),
        sample(#{tid => 0, pid => "<0.0.0>", us => 2}), sample(#{tid => 2, us => 2})],
    exported(perf, Text, #{by => samples}, fun(Path) ->
        {ok, Tids, _} = flame_prof:fold(fun(#{tid := Tid}, Tids) -> [Tid | Tids] end, [], Path),
        ?assertEqual([2, 0, 1, 0], Tids),
        ?assertMatch({ok, #{}}, perf_script_grammar:check(Path))
    end).

%%% pprof

the_profilers_counters_are_no_types_of_pprof_test() ->
    Text = [sample(#{metrics => "reductions=5/0 memory=0/0"}),
        sample(#{metrics => "reductions=9/4 memory=0/0", us => 2}), own("ticks=10/5 missed=1/0")],
    exported(pprof, Text, #{}, fun(Path) ->
        {ok, Gzip} = file:read_file(Path),
        #{types := Types, samples := Samples} = foreign_formats:pprof(Gzip),
        %% Also what was always 0: profiles of other types cannot be compared.
        ?assertEqual([<<"samples">>, <<"period">>, <<"reductions_delta">>, <<"reductions">>,
            <<"memory_delta">>, <<"memory">>], [Type || {Type, _} <- Types]),
        ?assertMatch([{_, [2, 2, 4, 14, 0, 0], _}], Samples)
    end).

%%% Names

%% A file of another profiler, or of an older flame_prof, has them as they are.
what_turns_a_line_is_encoded_everywhere_test_() ->
    Turned = <<"m:a", 16#202e/utf8, "b", 16#2066/utf8, "c/0">>,
    Written = <<"m:a%E2%80%AEb%E2%81%A6c/0">>,
    Text = [sample(#{name => Turned, frames => [Turned]})],
    [
        {atom_to_list(Format), fun() ->
            exported(Format, Text, #{group_by => [process]}, fun(Path) ->
                Bytes = plain(Path),
                ?assertNotEqual(nomatch, binary:match(Bytes, Written)),
                ?assertEqual(nomatch, binary:match(Bytes, <<16#202e/utf8>>))
            end)
        end}
     || Format <- [collapsed, perf, speedscope, pprof]
    ] ++ [
        {"hot", fun() ->
            with_file(Text, fun(File) ->
                {ok, Report} = flame_prof_tree:report(File, #{idle => true}),
                Shown = unicode:characters_to_binary(flame_prof_tree:format(Report, 100)),
                ?assertNotEqual(nomatch, binary:match(Shown, <<"m:a?b?c/0">>)),
                ?assertEqual(nomatch, binary:match(Shown, <<16#202e/utf8>>))
            end)
        end}
    ].

%%% Files

exported(Format, Text, Options, Test) ->
    with_file(Text, fun(File) ->
        {ok, Profile} = flame_prof_profile:read(File),
        Path = File ++ ".export",
        {ok, _} = flame_prof_profile:export(Profile, Format, Path, Options),
        Test(Path)
    end).

with_file(Text, Test) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Name = "flame_prof_export_tests." ++ os:getpid() ++ "." ++ Unique,
    Dir = filename:join(os:getenv("TMPDIR", "/tmp"), Name),
    ok = file:make_dir(Dir),
    try
        File = filename:join(Dir, "file.log"),
        ok = file:write_file(File, Text),
        Test(File)
    after
        file:del_dir_r(Dir)
    end.

plain(Path) ->
    {ok, Bytes} = file:read_file(Path),
    case Bytes of
        <<16#1f, 16#8b, _/binary>> -> zlib:gunzip(Bytes);
        _ -> Bytes
    end.

%% A sample of a session; times are microseconds behind a second.
sample(Given) ->
    Tid = maps:get(tid, Given, 1),
    Default = #{us => 1, pid => io_lib:format("<0.~b.0>", [Tid]), status => "waiting",
        metrics => "reductions=1/0", frames => ["a:a/0:1"], period => "", call => "a:a/0"},
    #{us := Us, pid := Pid, status := Status, metrics := Metrics, frames := Frames,
        period := Period, call := Call} = maps:merge(Default, Given),
    [
        io_lib:format("beam 7/~b [000] ~b.~6..0b: ~scpu-clock:\n",
            [Tid, 100 + Us div 1000000, Us rem 1000000, Period]),
        ["# ", Metrics, " erl_pid=", Pid],
        [[" name=", Name] || #{name := Name} <- [Given]],
        [[" initial_call=", Call] || Call =/= none],
        " (metrics)\n",
        [["\tffffffff ", Frame, " (", dso(Frame), ")\n"] || Frame <- Frames],
        ["\tffffffff ", Status, " (status)\n\n"]
    ].

dso({Frame, Dso}) when is_list(Frame) -> Dso;
dso(_) -> "a.erl".

own(Fields) ->
    [
        "beam 7/2147483647 [000] 109.000001: cpu-clock:\n# ", Fields,
        " name=flame_prof (metrics)\n",
        "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"
    ].
