%% Files that are no profiles of flame_prof's kind: each is named, with what reads it.
-module(flame_prof_foreign_file_tests).

-include_lib("eunit/include/eunit.hrl").

each_kind_of_file_is_named_test_() ->
    [{Expected, fun() ->
        text_file:with(Bytes, fun(File) ->
            Name = flame_prof_foreign_file:name(File),
            ?assertMatch({match, _}, re:run(Name, Expected)),
            Reason = <<"no sample of it can be read: ", Name/binary>>,
            ?assertMatch({error, {file, #{reason := Reason}}}, flame_prof_tree:report(File, #{}))
        end)
    end}
     || {Bytes, Expected} <- [
            {["PERFILE2", <<0:8000>>], "^it is a recording of perf: `perf script -i FILE"},
            {unicode:characters_to_binary("\x{feff}beam 1/1 [000] 1.000001: e:\n", unicode,
                {utf16, little}), "^it is UTF-16: `iconv "},
            {zlib:gzip(<<16#0a, 4, 16#08, 1, 16#10, 2, 16#12, 0>>), "^it is a profile of pprof"},
            {"main;a;b 3\nmain;a 4\n", "^it has collapsed stacks, which have no times"},
            {"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\"}\n",
                "^it is a profile of speedscope"},
            {"{\"meta\":{\"version\":27},\"threads\":[]}\n", "the Firefox Profiler"},
            {"{\"traceEvents\":[{\"ph\":\"X\"}]}\n", "^it is a trace of Chrome"},
            {"[{\"a\":1}]\n", "^it is JSON"},
            {"<!DOCTYPE html>\n<html></html>\n", "^it is a page"},
            {"<?xml version=\"1.0\"?>\n<svg></svg>\n", "^it is a page"},
            {"java 12 cycles:\n\t    7f89e341d84f write+0x4f (/usr/lib/libc.so)\n\n",
                "^it has stacks without times: `perf script -F comm,"},
            {"Dear all,\n\nno samples.\n", "^it is no profile, or damaged$"},
            {<<0:8000>>, "^it is no profile, or damaged$"}]].

what_cannot_be_read_is_no_profile_test() ->
    ?assertEqual(<<"it is no profile, or damaged">>, flame_prof_foreign_file:name("/nowhere/x")).
