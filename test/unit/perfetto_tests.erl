%% Files and exports as Perfetto reads them, against the plain reader.
-module(perfetto_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/").

files_of_sessions_are_read_test_() ->
    [{File, fun() -> ?assertEqual(told(?CORPUS ++ File), lists:sort(read(?CORPUS ++ File))) end}
     || File <- ["changes.log", "format3.log.zst"]].

an_export_by_samples_is_read_test() ->
    exported("format3.log.zst", samples, fun(Path) ->
        Read = lists:sort(read(Path)),
        ?assertEqual(told(Path), Read),
        ?assertEqual(lists:sort(without_own(read(?CORPUS "format3.log.zst"))), Read)
    end).

%% doc/format.md: only the metrics line is no frame of the profile.
a_metrics_line_is_one_frame_more_test_() ->
    Check = fun(Path) ->
        Told = without_own(told(Path)),
        Read = lists:sort(without_own(read(Path))),
        ?assert(length(Told) > 2),
        ?assertEqual(Told, [{Us, Tid, Frames} || {Us, Tid, [<<"# ", _/binary>> | Frames]} <- Read])
    end,
    [{"exported", fun() -> exported("format3.log.zst", reductions, Check) end},
        {"allocations", fun() -> Check(?CORPUS "allocations.log") end}].

exported(File, By, Test) ->
    text_file:with("", fun(Path) ->
        {ok, Profile} = flame_prof_profile:read(?CORPUS ++ File),
        {ok, _} = flame_prof_profile:export(Profile, perf, Path, #{by => By}),
        Test(Path)
    end).

read(File) ->
    [{Us, Tid, Frames} || #{time_us := Us, tid := Tid, frames := Frames} <-
        perfetto_oracle:samples(text(File))].

text(File) ->
    {ok, Bytes} = file:read_file(File),
    case Bytes of
        <<16#fd2fb528:32/little, _/binary>> ->
            unicode:characters_to_binary(os:cmd("zstd -dcq -- " ++ File));
        _ -> Bytes
    end.

without_own(Samples) -> [Sample || {_, _, Frames} = Sample <- Samples, not is_own(Frames)].
is_own(Frames) -> lists:member({<<"flame_prof_self">>, <<"flame_prof">>}, Frames).

%% The profiler's own samples, too, which the reader has apart.
told(File) ->
    {ok, Samples, #{bad := 0}} = reader_oracle:fold(fun(S, All) -> [S | All] end, [], File),
    {ok, Own, _} = reader_oracle:own(File),
    OwnFrames = [{<<"flame_prof_self">>, <<"flame_prof">>}, {<<"waiting">>, <<"status">>}],
    lists:sort([{Us, Tid, Frames ++ [{Status, <<"status">>}]}
        || #{time_us := Us, tid := Tid, frames := Frames, status := Status} <- Samples] ++
        [{Us, 16#7fffffff, OwnFrames} || #{time_us := Us} <- Own]).
