%% The allocations of a session: their file beside the samples', its limits and its ends.
-module(flame_prof_session_allocations_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
    end_per_testcase/2, the_file_has_words/1, who_allocates_is_in_the_stacks/1,
    the_message_in_work_is_in_the_file/1, a_long_collection_has_its_length/1,
    nothing_is_traced_after_the_application/1, the_limits_of_files_are_for_each_kind/1,
    a_trigger_names_the_function_of_a_long_collection/1, the_portable_engine_refuses_it/1,
    without_the_option_nothing_is_traced/1]).
%% Told in stacks.
-export([make/1, collect/1]).

-import(waiting, [eventually/1]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [make, collect]).

init_per_suite(Config) ->
    {ok, Apps} = application:ensure_all_started(flame_prof),
    case native_node:why_not() of none -> [{apps, Apps} | Config]; Why -> {skip, Why} end.

end_per_suite(_Config) -> application:stop(flame_prof).

init_per_testcase(Case, Config) ->
    _ = application:ensure_all_started(flame_prof),
    [{dir, filename:join(proplists:get_value(priv_dir, Config), Case)} | Config].

end_per_testcase(_, _) ->
    _ = flame_prof:stop(),
    _ = flame_prof_tracing:stop_all(),
    ok.

start(Config, Options) ->
    start(Config, #{max_cpu_percent => infinity, heartbeat_ms => 60000}, Options).

start(Config, Allocations, Options) ->
    flame_prof:start(maps:merge(#{dir => proplists:get_value(dir, Config), flush_interval => 1100,
        %% One file, however long it takes.
        flushes_per_file => 1000, engine => native, allocations => Allocations
    }, Options)).

files(Config, Kind) ->
    filelib:wildcard(filename:join(proplists:get_value(dir, Config), "*.erl_" ++ Kind ++ ".log*")).

worker(Work) -> spawn_opt(fun() -> repeat(Work) end, [link]).

repeat(Work) ->
    _ = Work(),
    repeat(Work).

over(Pid) ->
    true = unlink(Pid),
    true = exit(Pid, kill).

make(N) -> [{I, I} || I <- lists:seq(1, N)].

collect(Live) ->
    true = erlang:garbage_collect(),
    length(Live).

%% It makes lists of some thousand words, and none is as long as the one before.
maker() ->
    Seed = seeded:seed(),
    worker(fun() ->
        _ = get(rand_seed) =:= undefined andalso rand:seed(exsss, Seed),
        make(100 + rand:uniform(1000))
    end).

said() -> maps:get(allocations, flame_prof:info()).
text(File) -> unicode:characters_to_binary(os:cmd("zstd -dcq '" ++ File ++ "'")).

%% {Period, the words of the line behind, [Frame]} of each sample but the profiler's own.
samples(File) ->
    {ok, #{event := <<"alloc-words">>}} = perf_script_grammar:check(File),
    Parts = binary:split(text(File), <<"\n\n">>, [global, trim]),
    [sample(binary:split(Part, <<"\n">>, [global])) || Part <- Parts,
        binary:match(Part, <<"flame_prof_self">>) =:= nomatch].

sample([Header, <<"# ", Metrics/binary>> | Frames]) ->
    {match, [Text]} = re:run(Header, ": ([0-9]* ?)alloc-words:$",
        [{capture, all_but_first, binary}]),
    Period = case string:trim(Text) of <<>> -> 1; Digits -> binary_to_integer(Digits) end,
    [<<"words=", Words/binary>> | More] = binary:split(Metrics, <<" ">>, [global]),
    Twice = integer_to_binary(Period),
    ?assertEqual(<<Twice/binary, "/", Twice/binary>>, Words),
    {Period, More, Frames}.

is_of(Text, {_, _, Frames}) ->
    lists:any(fun(Frame) -> binary:match(Frame, Text) =/= nomatch end, Frames).

words(Samples) -> lists:sum([Period || {Period, _, _} <- Samples]).

%% What the session has measured.

%% How many of the words: allocations_proof_SUITE.
the_file_has_words(Config) ->
    {ok, _} = start(Config, #{}),
    Makers = [maker(), maker()],
    eventually(fun() -> maps:get(samples, said()) > 500 end),
    _ = [over(Maker) || Maker <- Makers],
    {ok, #{allocations := Told, files := [_]}} = flame_prof:stop(),
    #{words := Words, files := [File], state := ended, ended := asked, error := <<>>} = Told,
    ?assertEqual([unicode:characters_to_list(File)], files(Config, "alloc")),
    {ok, #file_info{mode = Mode}} = file:read_file_info(File),
    ?assertEqual(8#100600, Mode),
    Samples = samples(unicode:characters_to_list(File)),
    ?assert(Words > 0),
    ?assert(words(Samples) > 0),
    %% One tracing at a time: it is over.
    ?assertEqual(#{}, flame_prof_tracing:info()),
    %% All readers take it.
    {ok, Profile} = flame_prof_profile:read([File], #{}),
    ?assertMatch(#{bad := 0, events := [<<"alloc-words">>], metrics := [<<"words">> | _]},
        flame_prof_profile:info(Profile)).

who_allocates_is_in_the_stacks(Config) ->
    {ok, _} = start(Config, #{}),
    Maker = maker(),
    eventually(fun() -> maps:get(samples, said()) > 500 end),
    over(Maker),
    {ok, #{allocations := #{files := [File]}}} = flame_prof:stop(),
    Samples = samples(unicode:characters_to_list(File)),
    Pid = list_to_binary("erl_pid=" ++ pid_to_list(Maker)),
    Own = [S || {_, [P | _], _} = S <- Samples, P =:= Pid],
    Made = [S || S <- Own, is_of(<<"flame_prof_session_allocations_SUITE:">>, S)],
    ?assert(words(Made) > 0),
    Fates = [lists:nth(length(Frames) - 1, Frames) || {_, _, Frames} <- Own],
    ?assertEqual([], lists:usort(Fates) -- [<<"\tffffffff ", F/binary, " (heap)">>
        || F <- [<<"kept">>, <<"garbage">>, <<"not_known">>]]).

the_message_in_work_is_in_the_file(Config) ->
    {ok, _} = start(Config, #{}),
    {Server, Caller} = making_server:busy(),
    eventually(fun() -> maps:get(samples, said()) > 500 end),
    over(Caller),
    {ok, #{allocations := #{files := [File]}}} = flame_prof:stop(),
    Pid = list_to_binary("erl_pid=" ++ pid_to_list(Server)),
    Own = [S || {_, [P | _], _} = S <- samples(unicode:characters_to_list(File)), P =:= Pid],
    Large = [S || {_, Said, _} = S <- Own, lists:member(<<"message=call/{large,_}">>, Said)],
    Small = [S || {_, Said, _} = S <- Own, lists:member(<<"message=call/{small,_}">>, Said)],
    ?assert(words(Large) > 0),
    ?assert(words(Small) > 0),
    {ok, Profile} = flame_prof_profile:read(File),
    {ok, #{stacks := Stacks}} =
        flame_prof_profile:stacks(Profile, #{group_by => [message], stacks => false}),
    ?assertEqual(words(Large), lists:sum([N || {[<<"call:{large,_}">>], _, N, _} <- Stacks])).

a_long_collection_has_its_length(Config) ->
    {ok, _} = start(Config, #{max_cpu_percent => infinity, long_gc_us => 100}, #{}),
    Collector = spawn_link(fun() ->
        Live = lists:seq(1, 1000000),
        repeat(fun() -> collect(Live) end)
    end),
    eventually(fun() ->
        {?MODULE, collect, 1} =:= flame_prof_session_allocations:function_of(Collector)
    end),
    over(Collector),
    {ok, #{allocations := #{files := [File]}}} = flame_prof:stop(),
    Long = [S || {_, [P | _] = Words, _} = S <- samples(unicode:characters_to_list(File)),
        P =:= list_to_binary("erl_pid=" ++ pid_to_list(Collector)),
        lists:member(<<"collection=major">>, Words)],
    ?assert(lists:any(fun(S) -> is_of(<<"_SUITE:collect/1">>, S) end, Long)),
    [{_, Words, _} | _] = Long,
    [<<"collection_us=", Us/binary>> | _] =
        lists:dropwhile(fun(W) -> binary:match(W, <<"collection_us">>) =:= nomatch end, Words),
    ?assert(binary_to_integer(Us) >= 100).

%% Its ends.

nothing_is_traced_after_the_application(Config) ->
    {ok, _} = start(Config, #{}),
    Maker = maker(),
    eventually(fun() -> maps:get(samples, said()) > 50 end),
    ok = application:stop(flame_prof),
    ?assertEqual(#{}, flame_prof_tracing:info()),
    eventually(fun() -> [filename:extension(F) || F <- files(Config, "alloc")] =:= [".zst"] end),
    over(Maker),
    ?assert(words(samples(hd(files(Config, "alloc")))) > 0).

%% One tracing at a time.

%% Files.

the_limits_of_files_are_for_each_kind(Config) ->
    {ok, _} = start(Config, #{flushes_per_file => 1, max_files => 2}),
    Maker = maker(),
    Names = fun() -> lists:sort(files(Config, "perf") ++ files(Config, "alloc")) end,
    _ = [begin
        Samples = maps:get(samples, said()),
        eventually(fun() -> maps:get(samples, said()) > Samples end),
        Before = Names(),
        ok = flame_prof:flush(),
        eventually(fun() -> Names() =/= Before end)
    end || _ <- [1, 2, 3, 4]],
    over(Maker),
    {ok, #{allocations := #{files := Files}}} = flame_prof:stop(),
    ?assertEqual(2, length(files(Config, "perf"))),
    ?assertEqual(2, length(files(Config, "alloc"))),
    ?assertEqual(lists:sort([unicode:characters_to_list(F) || F <- Files]),
        lists:sort(files(Config, "alloc"))).

a_trigger_names_the_function_of_a_long_collection(Config) ->
    Self = self(),
    %% Those while the list is made, and short ones that a busy machine makes long, are not meant.
    Collector = spawn_link(fun() ->
        Live = lists:seq(1, 4000000),
        Self ! {made, self()},
        receive collect -> ok end,
        repeat(fun() -> collect(Live) end)
    end),
    receive {made, Collector} -> ok end,
    {ok, _} = start(Config, #{
        triggers => [#{on => long_gc, above => 10, interval => 100, duration => 1000}],
        lookback => 5000}),
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= armed end),
    ?assertMatch(#{kind := allocations}, flame_prof_tracing:info()),
    ?assertEqual([], files(Config, "alloc")),
    Collector ! collect,
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= running end),
    eventually(fun() -> files(Config, "alloc") =/= [] end),
    over(Collector),
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= armed end),
    {ok, #{trigger := Note}} = flame_prof:stop(),
    ct:pal("~ts", [Note]),
    {match, [Pid, Function]} = re:run(Note, "(<[0-9.]+>) in ([^ ]+:[^ ]+/[0-9]+)$",
        [{capture, all_but_first, binary}]),
    [File | _] = files(Config, "alloc"),
    ?assertMatch({_, _}, binary:match(text(File), <<" trigger=long_gc">>)),
    %% With its stack.
    ?assertMatch([_ | _], [S || {_, [Process | Words], [Leaf | _]} = S <- samples(File),
        Process =:= <<"erl_pid=", Pid/binary>>,
        lists:any(fun(W) -> binary:match(W, <<"collection_us=">>) =/= nomatch end, Words),
        binary:match(Leaf, Function) =/= nomatch]).

%% Refusals.

the_portable_engine_refuses_it(Config) ->
    {error, {bad_option, #{option := allocations, accepted := Accepted}}} =
        start(Config, #{engine => portable}),
    ?assertMatch({_, _}, binary:match(Accepted, <<"native engine">>)),
    ?assertMatch({error, {engine, #{engine := portable, reason := <<"allocations", _/binary>>}}},
        flame_prof_engine:usable(portable, #{allocations => #{}}, {off, <<>>})),
    ?assertMatch({error, {bad_option, #{option := {allocations, bytes}}}},
        start(Config, #{bytes => 1}, #{})),
    ?assertMatch({error, {bad_option, #{option := {allocations, byte}}}},
        start(Config, #{byte => 1}, #{})).

without_the_option_nothing_is_traced(Config) ->
    {ok, _} = flame_prof:start(#{dir => proplists:get_value(dir, Config)}),
    ?assertMatch({off, _}, said()),
    ?assertEqual(#{}, flame_prof_tracing:info()),
    {ok, #{allocations := {off, _}}} = flame_prof:stop(),
    ?assertEqual([], files(Config, "alloc")).
