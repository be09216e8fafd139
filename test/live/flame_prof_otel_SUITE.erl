%% OpenTelemetry's ids in samples, against the contexts that processes have. How many samples of
%% processes that change theirs are right: test/proof/otel_proof_SUITE.
-module(flame_prof_otel_SUITE).

-include_lib("stdlib/include/assert.hrl").

-import(sampled_words, [start/3, wait/1, stop/1, words/2, pid/1, kill/1]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2,
    a_context_is_what_erlang_says/1, a_context_that_is_none_has_no_ids/1,
    samples_carry_the_ids_of_their_moment/1, the_other_users_of_the_dictionary_are_not_told/1,
    without_the_option_or_the_native_engine_there_are_none/1, reports_group_by_trace_and_span/1]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, []).

init_per_suite(Config) ->
    case sampled_words:why_not(Config) of
        {skip, _} = Skip -> Skip;
        Natively -> ok = term_test_nif:load(), Natively
    end.

end_per_suite(_) -> ok.
end_per_testcase(_, _Config) -> flame_prof:stop().

%% Ids of each size, young and collected. Behind many other keys of all kinds there may be more to
%% read than one moment allows: then there are none.
a_context_is_what_erlang_says(_Config) ->
    _ = seeded:seed(),
    ?assertEqual([], [C || C <- contexts(4), view(C) =/= expected(C)]),
    Old = contexts(4),
    true = garbage_collect(),
    ?assertEqual([], [C || C <- Old, view(C) =/= expected(C)]),
    Many = contexts(31),
    true = garbage_collect(),
    ?assertEqual([], [C || C <- Many, not lists:member(view(C), [expected(C), none])]),
    ?assertMatch([_ | _], [C || C <- Many, view(C) =/= none]).

contexts(Most) ->
    [otel_app:context(otel_app:span_ctx(Release, ids(N), []), others(N rem (Most + 1)))
        || Release <- [9, 11], N <- lists:seq(1, 2000)].

view(Context) -> term_test_nif:view(Context, otel).
ids(N) -> {1 + rand:uniform(1 bsl (N rem 128)) - 1, 1 + rand:uniform(1 bsl (N rem 64)) - 1}.
others(N) -> maps:from_list([{key(rand:uniform(6), K), K} || K <- lists:seq(1, N)]).

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
    None = [#{}, undefined, [], 17, <<"context">>, {Key, Right}, [{Key, Right}], fun() -> Right end,
        #{{otel_tracer, external_span_ctx} => Right}, #{[otel_tracer, span_ctx] => Right},
        Of(undefined), Of([Right]), Of({span_ctx, 1, 2}),
        Of(setelement(1, Right, other)), Of(setelement(2, Right, 0)), Of(setelement(4, Right, 0)),
        Of(setelement(2, Right, -1)), Of(setelement(2, Right, -(1 bsl 127))),
        Of(setelement(2, Right, 1 bsl 128)), Of(setelement(4, Right, 1 bsl 64)),
        Of(setelement(2, Right, 1.5)), Of(setelement(4, Right, <<"8">>)),
        %% Such a map is a tree.
        maps:from_list([{Key, Right} | [{N, N} || N <- lists:seq(1, 32)]])],
    ?assertEqual([], [T || T <- None, view(T) =/= none]),
    ?assertNotEqual(none, view(Of(Right))).

%% One span, and then another one: no sample has a third, or the first one again.
samples_carry_the_ids_of_their_moment(Config) ->
    Ids = [First, Second] = [otel_app:new_ids() || _ <- [1, 2]],
    Pids = [spawn(fun() -> in_spans(Release, Work, Ids) end)
        || Release <- [9, 11], Work <- [fun spin/0, fun rests/0]],
    ok = start(Config, Pids, #{otel => true}),
    ?assertMatch(#{otel := on}, flame_prof:info()),
    ok = wait(500),
    _ = [Pid ! next || Pid <- Pids],
    ok = wait(maps:get(attempted, maps:get(counters, flame_prof:info())) + 500),
    Samples = stop(Pids),
    kill(Pids),
    %% While it runs or collects there may be none.
    [?assertEqual([told(First), told(Second)], told_of(Pid, Samples)) || Pid <- Pids].

in_spans(Release, Work, Ids) ->
    [begin
        _ = put('$__current_otel_ctx', otel_app:context(otel_app:span_ctx(Release, Of, []), #{})),
        works_until_next(Work)
    end || Of <- Ids].

works_until_next(Work) ->
    _ = Work(),
    receive next -> ok after 0 -> works_until_next(Work) end.

rests() -> receive after 5 -> ok end.

told({Trace, Span}) -> #{<<"trace">> => otel_app:hex(<<Trace:128>>),
    <<"span">> => otel_app:hex(<<Span:64>>)}.

%% In their order, without repetitions.
told_of(Pid, Samples) ->
    lists:foldr(fun(Words, [Words | _] = Told) -> Told; (Words, Told) -> [Words | Told] end, [],
        [Words || {P, _, _, _, Words} <- Samples, P =:= pid(Pid), Words =/= #{}]).

%% Its dictionary has a map and tuples as a context has; its atoms are another's.
the_other_users_of_the_dictionary_are_not_told(Config) ->
    Span = otel_app:span_ctx(11, otel_app:new_ids(), []),
    Pids = [spawn(fun() -> put(Key, Context), works_until_next(fun rests/0) end)
        || {Key, Context} <- [{'$__current_otel_context', otel_app:context(Span, #{})},
            {'$__current_otel_ctx', #{{other_tracer, span_ctx} => Span}},
            {'$__current_otel_ctx', #{{otel_tracer, span_ctx} => setelement(1, Span, ctx)}},
            {{'$__current_otel_ctx'}, otel_app:context(Span, #{})}]],
    ok = start(Config, Pids, #{otel => true}),
    ok = wait(500),
    Samples = stop(Pids),
    kill(Pids),
    [?assertEqual([#{}], words(Pid, Samples)) || Pid <- Pids].

spin() -> length(lists:seq(1, 1000)).

without_the_option_or_the_native_engine_there_are_none(Config) ->
    [begin
        Worker = otel_app:worker(otel_app:log(), 11, []),
        ok = start(Config, [Worker], Options),
        #{otel := {off, Why}} = flame_prof:info(),
        ?assertMatch({0, _}, binary:match(Why, Said)),
        ok = wait(500),
        Samples = stop([Worker]),
        kill([Worker]),
        ?assertEqual([#{}], words(Worker, Samples))
    end || {Options, Said} <- [{#{}, <<"not asked for">>},
        {#{engine => portable, otel => true}, <<"needs the native engine">>}]].

%% What the file has, by its lines and by the library.
reports_group_by_trace_and_span(Config) ->
    Worker = otel_app:worker(otel_app:log(), 11, []),
    ok = start(Config, [Worker], #{otel => true}),
    ok = wait(2000),
    {ok, #{files := Files}} = flame_prof:stop(),
    kill([Worker]),
    Lines = [W || File <- Files, {Pid, _, _, _, W} <- sampled_words:read(File), Pid =/= none],
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
