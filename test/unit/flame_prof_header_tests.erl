%% The words and limits of the headers are those of the C library.
-module(flame_prof_header_tests).

-include("flame_prof.hrl").
-include("flame_prof_internal.hrl").
-include_lib("eunit/include/eunit.hrl").

statuses_are_those_of_c_test() ->
    %% `free' is never written.
    ?assertEqual(?FLAME_PROF_STATUSES ++ [free], listed("FP_STATUS_MAP")).

statuses_are_those_of_the_type_test() ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} =
        beam_lib:chunks(code:which(flame_prof), [abstract_code]),
    [Statuses] = [Atoms || {attribute, _, type, {status, {type, _, union, Atoms}, []}} <- Forms],
    ?assertEqual(?FLAME_PROF_STATUSES, [Status || {atom, _, Status} <- Statuses]).

metrics_are_those_of_c_in_the_order_of_the_file_test() ->
    ?assertEqual(?FLAME_PROF_METRICS, listed("FP_METRIC_MAP")).

%% The names of an X-macro.
listed(Macro) ->
    {match, [Body]} = re:run(source("base/metric.h"),
        "#define " ++ Macro ++ "\\(X\\)((?: *\\\\\\n *X\\(\\w+\\))+)", [{capture, [1], list}]),
    {match, Names} = re:run(Body, "X\\((\\w+)\\)", [global, {capture, [1], list}]),
    [list_to_atom(Name) || [Name] <- Names].

pseudo_frames_are_those_of_the_file_test() ->
    {match, Found} = re:run([source("format/write_stack.c"), source("format/perf_script.c")],
        "\"([^\" ]+) \\((flame_prof)\\)", [global, {capture, [1, 2], binary}]),
    Frames = [?FLAME_PROF_GC, ?FLAME_PROF_IDLE, ?FLAME_PROF_AMBIGUOUS, ?FLAME_PROF_TRUNCATED,
        ?FLAME_PROF_NOT_SAMPLED, ?FLAME_PROF_UNREADABLE, ?FLAME_PROF_NO_FRAMES],
    ?assertEqual(lists:sort([[Symbol, ?FLAME_PROF_DSO] || Symbol <- Frames]),
        lists:usort([Frame || [Symbol, _] = Frame <- Found, Symbol =/= ?FLAME_PROF_SELF])).

the_profilers_own_sample_is_that_of_the_file_test() ->
    Source = source("format/write_self.c"),
    ?assertEqual(?FLAME_PROF_SELF_TID, defined("OWN_TID", Source)),
    ?assertMatch({_, _}, binary:match(Source, ?FLAME_PROF_SELF)).

limits_are_those_of_c_test_() ->
    [{Name, ?_assertEqual(Limit, defined(Name, source(File)))}
     || {Name, Limit, File} <- [{"FP_RANKINGS_MAX", ?FP_RANKINGS_MAX, "session/top_processes.h"},
            {"FP_PINNED_MAX", ?FP_PINNED_MAX, "session/sampler.h"},
            {"FP_STACK_SLOTS", ?FP_STACK_SLOTS, "format/record.h"},
            {"FP_STACK_FRAMES_MAX", ?FP_STACK_FRAMES_MAX, "format/record.h"},
            {"FP_FRAME_TEXT_MAX", ?FP_FRAME_TEXT_MAX, "format/record.h"},
            {"FP_FILE_BYTES_MAX", ?FP_FILE_BYTES_MAX, "format/symbolizer.h"},
            {"FP_LOG_NODE_ROOM", ?FP_LOG_NODE_ROOM, "store/log_name.h"}]].

defined(Name, Source) ->
    {match, [Hex, Digits]} = re:run(Source, "#define " ++ Name ++ " (0x)?([0-9a-f]+)u?\\b",
        [{capture, [1, 2], list}]),
    list_to_integer(Digits, case Hex of "0x" -> 16; "" -> 10 end).

source(File) ->
    {ok, Source} = file:read_file(checkout:path("c_src/" ++ File)),
    Source.
