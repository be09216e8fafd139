%% The refc binaries of the node by holder, against what the test has made, and what the VM says:
%% erlang:memory(binary), process_info(Pid, binary).
-module(flame_prof_binaries_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    of_a_hundred_thousand_binaries_at_least_99_percent_are_found/1,
    more_than_the_budget_is_refused/1,
    a_holder_has_what_process_info_says/1,
    what_two_hold_is_not_alone/1,
    a_part_names_its_process_and_the_function_on_its_stack/1,
    messages_are_told_apart/1,
    a_message_that_was_taken_is_the_heaps/1,
    what_grows_is_told/1,
    binaries_of_a_table_have_no_holder/1,
    binaries_that_are_appended_to_are_told/1,
    a_suspended_process_is_told_and_stays_suspended/1,
    processes_that_always_work_are_told_or_counted/1,
    other_objects_beside_the_heap_are_passed/1,
    a_message_of_another_node_is_told_or_counted/1,
    what_is_not_accepted_is_refused/1,
    the_text_has_names_and_no_values/1
]).
-export([working/1]).

suite() ->
    [{timetrap, {minutes, 3}}].

all() ->
    [F || {F, 1} <- ?MODULE:module_info(exports),
        not lists:member(F, [init_per_suite, end_per_suite, module_info, working])].

init_per_suite(Config) ->
    case flame_prof_engine:choose(native) of
        {ok, _} -> Config;
        {error, Reason} ->
            Listed = lists:member(erlang:system_info(otp_release), ["25", "27", "29"]),
            Text = lists:flatten(io_lib:format("~ts", [flame_prof:format_error(Reason)])),
            case Listed andalso erlang:system_info(emu_flavor) =:= jit of
                true -> error({refused, Text});
                false -> {skip, Text}
            end
    end.

end_per_suite(_Config) ->
    ok.

%%% ----------------------------------------------------------------- helpers --

%% Processes that each make a term and then hold it.
with_holders(Makes, Fun) ->
    Self = self(),
    Started = [spawn_monitor(fun() ->
        Term = Make(),
        erlang:garbage_collect(),
        Self ! {self(), made},
        holding(Term)
    end) || Make <- Makes],
    Pids = [Pid || {Pid, _} <- Started],
    try
        [receive {Pid, made} -> ok end || Pid <- Pids],
        Fun(Pids)
    after
        [exit(Pid, kill) || Pid <- Pids],
        [receive {'DOWN', Monitor, _, _, _} -> ok end || {_, Monitor} <- Started]
    end.

with_holder(Make, Fun) -> with_holders([Make], fun([Pid]) -> Fun(Pid) end).

holding(Term) ->
    receive
        {grow, More, From} ->
            Larger = [More() | Term],
            From ! {self(), grown},
            holding(Larger);
        never ->
            Term
    end.

look() -> look(#{}).

look(Options) ->
    {ok, Look} = flame_prof_binaries:look(Options),
    Look.

holder(Pid, #{holders := Holders}) ->
    [Holder] = [Holder || #{process := P} = Holder <- Holders, P =:= Pid],
    Holder.

binary(Size) -> binary:copy(<<(rand:uniform(255))>>, Size).

text(Look) -> unicode:characters_to_binary(flame_prof_binaries:format(Look)).

%% By address, as the VM lists them.
said(Pid) ->
    {binary, Binaries} = process_info(Pid, binary),
    Unique = lists:ukeysort(1, [{Address, Size} || {Address, Size, _} <- Binaries]),
    {length(Unique), lists:sum([Size || {_, Size} <- Unique])}.

%% A block has headers, and at most a half more.
is_block_of(Bytes, Size, N) ->
    ?assert(Bytes >= Size + 24 * N),
    ?assert(Bytes =< Size * 3 div 2 + 256 * N).

%%% ------------------------------------------------------------------- whole --

of_a_hundred_thousand_binaries_at_least_99_percent_are_found(_) ->
    with_hundred_thousand(fun(Sizes) ->
        Had = erlang:memory(binary),
        #{memory := Memory, found := Found, binaries := N, no_holder := None} = Look = look(),
        #{moved := Moved, all_holders := All} = Look,
        ct:pal("~ts", [text(Look)]),
        ?assert(abs(Memory - Had) =< Had div 100),
        ?assert(Found >= 0.99 * Had),
        ?assert(Found =< 1.01 * Had),
        ?assert(Found >= Sizes),
        ?assert(N >= 100000),
        ?assert(All >= 1000),
        ?assert(None =< Had div 100),
        ?assert(Moved =< 5)
    end).

with_hundred_thousand(Fun) ->
    Size = fun(N, I) -> 100 + (I * 37 + N) rem 2000 end,
    Makes =
        [fun() -> [binary(Size(N, I)) || I <- lists:seq(1, 100)] end || N <- lists:seq(1, 1000)],
    Sizes = lists:sum([Size(N, I) || N <- lists:seq(1, 1000), I <- lists:seq(1, 100)]),
    with_holders(Makes, fun(_) -> Fun(Sizes) end).

more_than_the_budget_is_refused(_) ->
    with_hundred_thousand(fun(_) ->
        {error, {memory, #{reason := Why}}} =
            flame_prof_binaries:look(#{memory_budget => 16 bsl 20}),
        ?assertMatch({match, _}, re:run(Why, "memory_budget")),
        ?assertMatch({ok, _}, flame_prof_binaries:look(#{memory_budget => 32 bsl 20}))
    end).

a_holder_has_what_process_info_says(_) ->
    Make = fun() ->
        Large = binary(300000),
        Sizes = [65, 100, 1000, 65536, 1000000],
        {[binary(Size) || Size <- Sizes], Large, binary:part(Large, 5, 200)}
    end,
    with_holder(Make, fun(Pid) ->
        {N, Size} = said(Pid),
        #{binaries := Binaries, bytes := Bytes, alone := Alone, partial := false} =
            holder(Pid, look()),
        ?assertEqual(6, N),
        ?assertEqual(N, Binaries),
        ?assertEqual(Bytes, Alone),
        is_block_of(Bytes, Size, N)
    end).

what_two_hold_is_not_alone(_) ->
    Shared = binary(500000),
    Make = fun() -> [Shared, binary(400000)] end,
    with_holders([Make, Make], fun([One, Two]) ->
        Look = look(),
        [begin
            #{bytes := Bytes, alone := Alone, binaries := 2} = holder(Pid, Look),
            is_block_of(Bytes, 900000, 2),
            is_block_of(Alone, 400000, 1)
        end || Pid <- [One, Two]]
    end).

%%% -------------------------------------------------------------------- pins --

a_part_names_its_process_and_the_function_on_its_stack(_) ->
    Make = fun() -> [binary:part(binary(65536), 1000, 100) || _ <- lists:seq(1, 100)] end,
    with_holder(Make, fun(Pid) ->
        Look = look(#{walked => 20}),
        #{pinned := Pinned, pins := [Pin | _], function := Function} = holder(Pid, Look),
        #{path := Path, binaries := 100, bytes := Bytes, shown_bytes := Shown} = Pin,
        ?assertEqual(100 * 65536, Bytes),
        ?assertEqual(100 * 100, Shown),
        ?assertEqual(Bytes - Shown, Pinned),
        Way = "^flame_prof_binaries_SUITE:holding/1 slot . > list",
        ?assertMatch({match, _}, re:run(Path, Way)),
        ?assertEqual(<<"flame_prof_binaries_SUITE:holding/1">>, Function),
        ?assertMatch({match, _}, re:run(text(Look), "6390K of 6400K: 100 binaries for 9K"))
    end).

%%% ---------------------------------------------------------------- messages --

messages_are_told_apart(_) ->
    with_holder(fun() -> binary(200000) end, fun(Pid) ->
        true = erlang:suspend_process(Pid),
        [Pid ! {m, binary(10000)} || _ <- lists:seq(1, 50)],
        true = erlang:resume_process(Pid),
        timer:sleep(50),
        #{message_binaries := Messages, message_bytes := Bytes, binaries := N} =
            holder(Pid, look()),
        ?assertEqual(51, N),
        %% Some may have been put on its heap.
        ?assert(Messages =< 50),
        ?assert(Bytes =< 50 * 10500),
        #{message_binaries := 40} = with_off_heap_messages(40)
    end).

with_off_heap_messages(N) ->
    Pid = spawn_opt(fun() -> holding([]) end, [{message_queue_data, off_heap}]),
    [Pid ! {m, binary(20000)} || _ <- lists:seq(1, N)],
    Holder = holder(Pid, look()),
    exit(Pid, kill),
    is_block_of(maps:get(message_bytes, Holder), N * 20000, N),
    Holder.

a_message_that_was_taken_is_the_heaps(_) ->
    with_holder(fun() -> [] end, fun(Pid) ->
        Large = binary(250000),
        Pid ! {grow, fun() -> Large end, self()},
        receive {Pid, grown} -> ok end,
        #{binaries := 1, message_binaries := 0, bytes := Bytes} = holder(Pid, look()),
        is_block_of(Bytes, 250000, 1)
    end).

%%% ------------------------------------------------------------------ growth --

what_grows_is_told(_) ->
    with_holders([fun() -> [binary(300000)] end, fun() -> [binary(310000)] end], fun([One, Two]) ->
        Self = self(),
        spawn_link(fun() ->
            timer:sleep(200),
            [One ! {grow, fun() -> binary(100000) end, Self} || _ <- lists:seq(1, 5)]
        end),
        #{growing := Growing, grown := #{ms := 1000, found := Found}} = Look = look(#{for => 1000}),
        [receive {One, grown} -> ok end || _ <- lists:seq(1, 5)],
        #{grown := Grown} = holder(One, #{holders => Growing}),
        is_block_of(Grown, 500000, 5),
        ?assert(is_integer(Found)),
        ?assertMatch(#{grown := 0}, holder(Two, Look)),
        ?assertMatch({match, _}, re:run(text(Look), "Grown in 1000 ms"))
    end).

%%% --------------------------------------------------------------- elsewhere --

binaries_of_a_table_have_no_holder(_) ->
    #{no_holder := Before} = look(),
    Table = ets:new(table, [public]),
    {Pid, Monitor} = spawn_monitor(fun() ->
        [ets:insert(Table, {N, binary(50000)}) || N <- lists:seq(1, 200)]
    end),
    receive {'DOWN', Monitor, _, Pid, _} -> ok end,
    #{no_holder := After} = look(),
    ?assert(After - Before >= 0.99 * 200 * 50000),
    [{_, One}] = ets:lookup(Table, 1),
    ?assertMatch(#{elsewhere := N} when N >= 1, look()),
    ?assertEqual(50000, byte_size(One)),
    ets:delete(Table).

binaries_that_are_appended_to_are_told(_) ->
    Append = fun(N, Bin) -> <<Bin/binary, N:64>> end,
    Make = fun() -> lists:foldl(Append, <<>>, lists:seq(1, 50000)) end,
    with_holder(Make, fun(Pid) ->
        #{binaries := 1, bytes := Bytes} = holder(Pid, look()),
        ?assert(Bytes >= 400000),
        ?assert(Bytes =< 1000000)
    end).

%%% --------------------------------------------------------------- processes --

a_suspended_process_is_told_and_stays_suspended(_) ->
    with_holder(fun() -> binary(700000) end, fun(Pid) ->
        true = erlang:suspend_process(Pid),
        {reductions, Before} = process_info(Pid, reductions),
        #{binaries := 1} = holder(Pid, look()),
        ?assertEqual({reductions, Before}, process_info(Pid, reductions)),
        ?assertEqual({status, suspended}, process_info(Pid, status))
    end).

%% @private
working(List) ->
    working([binary(1000 + rand:uniform(1000)) | lists:sublist(List, 50)]).

processes_that_always_work_are_told_or_counted(_) ->
    Pids = [spawn(?MODULE, working, [[]]) || _ <- lists:seq(1, 20)],
    Looks = [look(#{walked => 0}) || _ <- lists:seq(1, 20)],
    [exit(Pid, kill) || Pid <- Pids],
    [begin
        %% 51 of them, and what was garbage when it was read.
        [?assert(Bytes =< 64 bsl 20) || #{process := Pid, bytes := Bytes} <- Holders,
            lists:member(Pid, Pids)],
        ?assertEqual(Moved > 0, Unknown =/= [])
    end || #{holders := Holders, moved := Moved, unknown := Unknown} <- Looks],
    ?assert(lists:any(fun(#{holders := Holders}) ->
        lists:any(fun(#{process := Pid, partial := Partial}) ->
            lists:member(Pid, Pids) andalso not Partial
        end, Holders)
    end, Looks)).

other_objects_beside_the_heap_are_passed(_) ->
    Far = <<131, 88, 119, 5, "a@far", 7:32, 0:32, 99:32>>,
    Make = fun() ->
        X = binary(600000),
        {make_ref(), binary_to_term(Far), fun() -> X end, ets:new(t, []), binary(100),
            atomics:new(5, [])}
    end,
    with_holder(Make, fun(Pid) ->
        #{binaries := 2, bytes := Bytes} = holder(Pid, look()),
        is_block_of(Bytes, 600100, 2)
    end).

a_message_of_another_node_is_told_or_counted(_) ->
    Undecoded = [Why || #{unknown := Whys} <- [look()], Why <- Whys,
        binary:match(Why, <<"not decoded">>) =/= nomatch],
    ?assert(length(Undecoded) =< 1).

what_is_not_accepted_is_refused(_) ->
    [?assertMatch({error, _}, flame_prof_binaries:look(Options))
        || Options <- [#{for => -1}, #{walked => many}, #{memory_budget => 1}, #{other => 1}, []]].

the_text_has_names_and_no_values(_) ->
    with_holder(fun() -> [<<"a secret ", (binary(2000000))/binary>>] end, fun(Pid) ->
        true = register(binaries_suite_holder, Pid),
        Look = look(),
        Text = text(Look),
        ?assertMatch({match, _}, re:run(Text, "binaries_suite_holder")),
        ?assertEqual(nomatch, binary:match(Text, <<"secret">>)),
        Json = iolist_to_binary(flame_prof_json:encode(flame_prof_binaries_text:json(Look))),
        ?assertEqual(nomatch, binary:match(Json, <<"secret">>)),
        ?assertMatch({match, _}, re:run(Json, "binaries_suite_holder"))
    end).
