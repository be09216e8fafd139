%% OpenTelemetry's ids in samples, against what processes have logged of their own spans
%% (otel_app). The files are read here, line by line: no reader of the library has a part in it.
%% OTEL_SAMPLES (30000) is how many samples are held against the logs.
-module(flame_prof_otel_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    a_context_is_what_erlang_says/1,
    a_context_that_is_none_has_no_ids/1,
    samples_carry_the_ids_of_their_moment/1,
    the_other_users_of_the_dictionary_are_not_told/1,
    without_the_option_there_are_none/1,
    the_portable_engine_says_what_it_needs/1,
    reports_group_by_trace_and_span/1
]).

%% A sample is of a moment behind its time: the tick reads many processes, and a busy machine may
%% keep it from its CPU meanwhile.
-define(BEFORE_US, 1000).
-define(AFTER_US, 10000).
-define(LEAST, 0.99).
%% A sample has the time of its tick. Where the sampler's thread waits for a processor in a tick,
%% what it reads is of a later moment.
-define(LATE_US, 1000000).

suite() ->
    [{timetrap, {minutes, 10}}].

all() ->
    [
        a_context_is_what_erlang_says,
        a_context_that_is_none_has_no_ids,
        samples_carry_the_ids_of_their_moment,
        the_other_users_of_the_dictionary_are_not_told,
        without_the_option_there_are_none,
        the_portable_engine_says_what_it_needs,
        reports_group_by_trace_and_span
    ].

init_per_suite(Config) ->
    case flame_prof_nif:platform() of
        #{native := false, why := Why} -> {skip, {no_native_engine, Why}};
        #{native := true} -> Config
    end.

end_per_suite(_) ->
    ok.

init_per_testcase(_, Config) ->
    _ = flame_prof:stop(),
    Config.

end_per_testcase(_, _Config) ->
    _ = flame_prof:stop(),
    ok.

%% Ids of each size, young and collected. Behind many other keys of all kinds there may be more to
%% read than one moment allows: then there are none.
a_context_is_what_erlang_says(_Config) ->
    {ok, _} = flame_prof_calibration:ensure(),
    ?assertEqual([], [C || C <- contexts(4), view(C) =/= expected(C)]),
    Old = contexts(4),
    true = garbage_collect(),
    ?assertEqual([], [C || C <- Old, view(C) =/= expected(C)]),
    Many = contexts(31),
    true = garbage_collect(),
    ?assertEqual([], [C || C <- Many, not lists:member(view(C), [expected(C), none])]),
    ?assert(length([C || C <- Many, view(C) =/= none]) > length(Many) div 2).

contexts(Most) ->
    [otel_app:context(otel_app:span_ctx(Release, ids(N), []), others(N rem (Most + 1)))
        || Release <- [9, 11], N <- lists:seq(1, 2000)].

view(Context) -> flame_prof_nif:term_view(Context, otel).

ids(N) ->
    {1 + rand:uniform(1 bsl (N rem 128)) - 1, 1 + rand:uniform(1 bsl (N rem 64)) - 1}.

others(N) ->
    maps:from_list([{key(rand:uniform(6), K), K} || K <- lists:seq(1, N)]).

key(1, K) -> list_to_atom("key" ++ integer_to_list(K));
key(2, K) -> {otel_tracer, K};
key(3, K) -> {span_ctx, otel_tracer, K};
key(4, K) -> [otel_tracer, span_ctx, K];
key(5, K) -> 1 bsl 100 + K;
key(6, K) -> integer_to_binary(K).

expected(#{{otel_tracer, span_ctx} := Span}) ->
    Id = case tuple_size(Span) of 9 -> element(3, Span); 11 -> element(4, Span) end,
    {<<(element(2, Span)):128>>, <<Id:64>>}.

a_context_that_is_none_has_no_ids(_Config) ->
    Key = {otel_tracer, span_ctx},
    Of = fun(Span) -> #{Key => Span} end,
    Right = otel_app:span_ctx(11, {1 bsl 127, 1 bsl 63}, []),
    None = [
        #{}, undefined, [], 17, <<"context">>, {Key, Right}, [{Key, Right}], fun() -> Right end,
        #{{otel_tracer, external_span_ctx} => Right}, #{[otel_tracer, span_ctx] => Right},
        Of(undefined), Of([Right]), Of({span_ctx, 1, 2}),
        Of(setelement(1, Right, other)), Of(setelement(2, Right, 0)), Of(setelement(4, Right, 0)),
        Of(setelement(2, Right, -1)), Of(setelement(2, Right, -(1 bsl 127))),
        Of(setelement(2, Right, 1 bsl 128)), Of(setelement(4, Right, 1 bsl 64)),
        Of(setelement(2, Right, 1.5)), Of(setelement(4, Right, <<"8">>)),
        %% Such a map is a tree.
        maps:from_list([{Key, Right} | [{N, N} || N <- lists:seq(1, 32)]])
    ],
    ?assertEqual([], [T || T <- None, view(T) =/= none]),
    ?assertNotEqual(none, view(Of(Right))).

samples_carry_the_ids_of_their_moment(Config) ->
    Log = otel_app:log(),
    Workers = [otel_app:worker(Log, Release, [{fullsweep_after, F}])
        || Release <- [9, 11], F <- [0, 1, 65535]],
    start(Config, Workers, #{}),
    ?assertMatch(#{otel := on}, flame_prof:info()),
    ok = wait_for(env("OTEL_SAMPLES", 30000)),
    Samples = stop(Workers),
    kill(Workers),
    %% Those of the first and last moments are not in the logs.
    Verdicts = [verdict(Log, Sample) || Sample <- lists:sublist(lists:nthtail(100, Samples),
        length(Samples) - 200)],
    Count = maps:from_list([{V, length([x || One <- Verdicts, One =:= V])}
        || V <- [right, none, missing, collecting, late, wrong]]),
    #{right := Right, missing := Missing, late := Late, wrong := Wrong} = Count,
    say("~b samples: ~p", [length(Verdicts), Count]),
    ?assertEqual(0, Wrong),
    ?assert(Right > 1000),
    ?assert(Right / (Right + Missing + Late) >= ?LEAST).

verdict(Log, {Pid, Us, Status, IsCollecting, Words}) ->
    Process = list_to_pid(binary_to_list(Pid)),
    Possible = otel_app:possible(Log, Process, {Us - ?BEFORE_US, Us + ?AFTER_US}),
    Told = case Words of
        #{<<"trace">> := <<Trace:32/binary>>, <<"span">> := <<Span:16/binary>>} ->
            {binary_to_integer(Trace, 16), binary_to_integer(Span, 16)};
        #{} ->
            none
    end,
    case {lists:member(Told, Possible), Told} of
        {true, none} -> none;
        {true, _} -> right;
        {false, none} when Status =:= <<"garbage_collecting">>; IsCollecting -> collecting;
        {false, none} -> missing;
        {false, _} ->
            Later = otel_app:possible(Log, Process, {Us - ?BEFORE_US, Us + ?LATE_US}),
            case lists:member(Told, Later) of
                true -> late;
                false -> wrong
            end
    end.

%% Its dictionary has a map and tuples as a context has; its atoms are another's.
the_other_users_of_the_dictionary_are_not_told(Config) ->
    Span = otel_app:span_ctx(11, otel_app:new_ids(), []),
    Pids = [spawn(fun() -> put(Key, Context), spin() end)
        || {Key, Context} <- [{'$__current_otel_context', otel_app:context(Span, #{})},
            {'$__current_otel_ctx', #{{other_tracer, span_ctx} => Span}},
            {'$__current_otel_ctx', #{{otel_tracer, span_ctx} => setelement(1, Span, ctx)}},
            {{'$__current_otel_ctx'}, otel_app:context(Span, #{})}]],
    start(Config, Pids, #{}),
    ok = wait_for(500),
    Samples = stop(Pids),
    kill(Pids),
    ?assertEqual([], [W || {_, _, _, _, W} <- Samples, W =/= #{}]).

spin() ->
    _ = lists:seq(1, 1000),
    timer:sleep(1),
    spin().

without_the_option_there_are_none(Config) ->
    Log = otel_app:log(),
    Worker = otel_app:worker(Log, 11, []),
    start(Config, [Worker], #{otel => false}),
    ?assertMatch(#{otel := {off, <<"not asked for">>}}, flame_prof:info()),
    ok = wait_for(500),
    Samples = stop([Worker]),
    kill([Worker]),
    ?assertEqual([], [W || {_, _, _, _, W} <- Samples, W =/= #{}]).

the_portable_engine_says_what_it_needs(Config) ->
    Log = otel_app:log(),
    Worker = otel_app:worker(Log, 11, []),
    start(Config, [Worker], #{engine => portable}),
    ?assertMatch(#{otel := {off, <<"needs the native engine", _/binary>>}}, flame_prof:info()),
    ok = wait_for(100),
    Samples = stop([Worker]),
    kill([Worker]),
    ?assertEqual([], [W || {_, _, _, _, W} <- Samples, W =/= #{}]).

%% What the file has, by its lines and by the library.
reports_group_by_trace_and_span(Config) ->
    Log = otel_app:log(),
    Worker = otel_app:worker(Log, 11, []),
    start(Config, [Worker], #{}),
    ok = wait_for(2000),
    {ok, #{files := Files}} = flame_prof:stop(),
    kill([Worker]),
    Lines = [W || File <- Files, {_, _, _, _, W} <- read(File)],
    Sums = sums([{maps:get(<<"trace">>, W, <<>>), maps:get(<<"span">>, W, <<>>)} || W <- Lines]),
    {ok, Profile} = flame_prof_profile:read(Files, #{}),
    #{traces := Traces} = flame_prof_profile:info(Profile),
    {ok, #{stacks := Groups}} = flame_prof_profile:stacks(Profile,
        #{group_by => [trace, span], stacks => false}),
    {ok, Folded, _} = flame_prof:fold(fun(#{words := W}, All) ->
        [{maps:get(<<"trace">>, W, <<>>), maps:get(<<"span">>, W, <<>>)} | All] end, [], Files),
    ?assertEqual(length([W || #{<<"trace">> := _} = W <- Lines]), Traces),
    ?assertEqual(Sums, lists:sort([{{T, S}, N} || {[T, S | _], _, _, N} <- Groups])),
    ?assertEqual(Sums, sums(Folded)).

sums(Keys) ->
    Counts = lists:foldl(fun(K, All) -> maps:update_with(K, fun(N) -> N + 1 end, 1, All) end,
        #{}, Keys),
    lists:sort(maps:to_list(Counts)).

%% A session, and its samples of these processes: {Pid, Microseconds, Status, whether a frame is
%% the collector's, trace and span}.

start(Config, Pids, Options) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config),
        integer_to_list(erlang:unique_integer([positive]))),
    {ok, _} = flame_prof:start(maps:merge(#{
        dir => Dir,
        engine => native,
        otel => true,
        sample_interval => 1,
        select => {top, 0, 1000},
        growers => 0,
        include => Pids,
        cpu_budget => infinity,
        compress => none,
        max_file_bytes => infinity
    }, Options)),
    ok.

wait_for(Count) ->
    timer:sleep(100),
    case flame_prof:info() of
        #{counters := #{attempted := Attempted}} when Attempted >= Count -> ok;
        #{} -> wait_for(Count)
    end.

stop(Pids) ->
    {ok, #{files := Files}} = flame_prof:stop(),
    Known = [list_to_binary(pid_to_list(Pid)) || Pid <- Pids],
    [Sample || File <- Files, {Pid, _, _, _, _} = Sample <- read(File), lists:member(Pid, Known)].

%% A whole sample tells whose tid it is. The samples of the profiler have none.
read(File) ->
    {ok, Text} = file:read_file(File),
    {Samples, _} = lists:foldl(fun sample/2, {[], #{}},
        binary:split(Text, <<"\n\n">>, [global, trim_all])),
    lists:reverse([Sample || {Pid, _, _, _, _} = Sample <- Samples, Pid =/= none]).

sample(Piece, {Samples, Tids0}) ->
    [Header | Frames] = binary:split(Piece, <<"\n">>, [global]),
    [_, Ids, _, Time | Fields] = binary:split(Header, <<" ">>, [global]),
    Words = maps:from_list([{K, V} || Field <- Fields,
        [K, V] <- [binary:split(Field, <<"=">>)]]),
    Tids = case Words of
        #{<<"erl_pid">> := Told} -> Tids0#{Ids => Told};
        #{} -> Tids0
    end,
    [Seconds, Rest] = binary:split(Time, <<".">>),
    <<Us:6/binary, ":">> = Rest,
    <<"\tffffffff ", Status/binary>> = lists:last(Frames),
    {[{maps:get(Ids, Tids, none), binary_to_integer(Seconds) * 1000000 + binary_to_integer(Us),
        hd(binary:split(Status, <<" ">>)), binary:match(Piece, <<"ffffffff [gc]">>) =/= nomatch,
        maps:with([<<"trace">>, <<"span">>], Words)} | Samples], Tids}.

say(Format, Args) ->
    io:format(user, "    " ++ Format ++ "~n", Args).

env(Name, Default) ->
    case os:getenv(Name) of
        false -> Default;
        Text -> list_to_integer(Text)
    end.

kill(Pids) ->
    [exit(Pid, kill) || Pid <- Pids].
