%% Files that are no profiles of flame_prof's kind: each is named, with what reads it.
-module(flame_prof_foreign_file_tests).

-include_lib("eunit/include/eunit.hrl").

each_kind_of_file_is_named_test_() ->
    [{lists:flatten(io_lib:format("~w ~ts", [N, Expected])), fun() ->
        text_file:with(Bytes, fun(File) ->
            Name = flame_prof_foreign_file:name(File),
            ?assertMatch({match, _}, re:run(Name, ["^it ", Expected])),
            Reason = <<"no sample of it can be read: ", Name/binary>>,
            ?assertMatch({error, {file, #{reason := Reason}}}, flame_prof_tree:report(File, #{}))
        end)
    end}
     || {Expected, Files} <- [
            {"is a recording of perf: `perf script -i FILE", [["PERFILE2", <<0:8000>>]]},
            {"is a recording of simpleperf: `report_sample.py'", [["SIMPLEPERF", <<1, 0>>]]},
            {"is UTF-16: `iconv ", [unicode:characters_to_binary("\x{feff}beam 1/1 [000] 1.00",
                unicode, {utf16, Order}) || Order <- [little, big]]},
            {"is a profile of pprof", [Pack(<<16#0a, 4, 16#08, 1, 16#10, 2, 16#12, 0>>)
                || Pack <- [fun zlib:gzip/1, fun(Bytes) -> Bytes end]]},
            {"is a ZIP archive", [["PK", <<3, 4, 0:800>>]]},
            {"is a crash dump of a VM: `cdv'", ["=erl_crash_dump:0.5\nSat Nov 28\n"]},
            {"is an analysis of fprof", ["%% Analysis results:\n{  analysis_options,\n"]},
            {"has collapsed stacks, which have no times", ["main;a;b 3\nmain;a 4\n", "a;b 1",
                "# of eflame\n<0.9.0>;a b:c/1 3.5 4.\r\n"]},
            {"is a profile of speedscope",
                ["{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\"}\n"]},
            {"is a profile of the Firefox Profiler", ["{\"meta\":{\"version\":27}}\n"]},
            {"is a trace of Chrome", ["{\"traceEvents\":[{\"ph\":\"X\"}]}\n"]},
            {"is JSON", ["[{\"a\":1}]\n", "{\"url\":\"/speedscope/a.js\",\"meta\":{\"a\":1}}\n"]},
            {"is a page", ["<!DOCTYPE html>\n<html></html>\n", "<?xml version=\"1.0\"?>\n<svg>"]},
            {"is a table of `perf report'", ["# Samples: 4\n# Overhead  Command\n    50.00%  a\n"]},
            {"has stacks without times: `perf script -F comm,", [["java 12 cycles:\n", frame()]]},
            {"has stacks without commands and threads: `perf script -F comm,",
                [["12/13 1.000001: cycles: \n", frame()]]},
            {"has times without stacks: `perf script -F comm,",
                ["java 12 1.000001:          1 cycles: \njava 12 1.000002: cycles: \n"]},
            {"is no profile, or damaged$", ["Dear all,\n\nno samples.\n", <<0:8000>>,
                "Call graph:\n    2355 Thread_7  com.apple.main-thread  (serial)\n", "<?xml?>\n<a/>\n",
                ["java 12 1.000001: cycles: \n\t??\n", frame()]]}],
        {N, Bytes} <- lists:zip(lists:seq(1, length(Files)), Files)].

frame() -> "\t    7f89e341d84f write+0x4f (/usr/lib/libc.so)\n\n".

what_cannot_be_read_is_no_profile_test() ->
    ?assertEqual(<<"it is no profile, or damaged">>, flame_prof_foreign_file:name("/nowhere/x")).
