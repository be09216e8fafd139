%% Triggers on real conditions: each fires, leaves a bounded profile that says why, and does no harm
%% where it cannot. When they fire and when not: test/unit/flame_prof_triggers_tests.
-module(flame_prof_triggers_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_group/2, end_per_group/2, init_per_testcase/2,
    end_per_testcase/2, on_scheduler_utilisation/1, on_the_run_queue/1,
    levels_rise_with_what_they_measure/1, on_the_share_of_the_memory_limit/1,
    a_small_node_is_not_fragmented/1, on_growing_tables/1,
    no_table_is_looked_for_while_none_may_fire/1, on_a_message_queue/1, on_a_long_collection/1,
    on_a_long_turn/1, on_a_large_heap/1, on_a_busy_port/1, what_came_before_is_in_the_file/1,
    one_that_is_late_to_write_ends_all_the_same/1, a_monitor_of_somebodys_is_left_alone/1,
    a_monitor_that_somebody_takes_later_is_left_alone/1, ours_is_given_back/1]).
%% As a trigger.
-export([is_set/0]).
%% Seen in a file.
-export([before_it_happened/0]).

-import(waiting, [eventually/1]).

-define(SWITCH, {?MODULE, switch}).

suite() -> [{timetrap, {minutes, 4}}].
all() -> [{group, native}, {group, portable} | single()].

groups() ->
    Before = [what_came_before_is_in_the_file, one_that_is_late_to_write_ends_all_the_same],
    Conditions = [F || {F, 1} <- ?MODULE:module_info(exports)]
        -- [module_info | Before ++ single()],
    [{native, [], Conditions ++ Before}, {portable, [], [on_the_run_queue | Before]}].

single() ->
    [a_monitor_of_somebodys_is_left_alone, a_monitor_that_somebody_takes_later_is_left_alone,
        ours_is_given_back].

init_per_group(native, Config) ->
    case flame_prof_nif:platform() of
        #{native := true} -> [{engine, native} | Config];
        #{native := false, why := Why} -> {skip, Why}
    end;
init_per_group(portable, Config) -> [{engine, portable} | Config].

end_per_group(_, _Config) -> ok.

init_per_testcase(Case, Config) ->
    _ = application:stop(flame_prof),
    switch(false),
    Name = atom_to_list(Case) ++ integer_to_list(erlang:unique_integer([positive])),
    [{directory, filename:join(proplists:get_value(priv_dir, Config), Name)} | Config].

end_per_testcase(_Case, _Config) ->
    _ = application:stop(flame_prof),
    _ = erlang:system_monitor(undefined),
    [application:unset_env(flame_prof, Key) || {Key, _} <- application:get_all_env(flame_prof)],
    _ = persistent_term:erase(?SWITCH),
    ok.

on_scheduler_utilisation(Config) ->
    fires(Config, #{on => scheduler_utilisation, above => 60}, fun busy/0).

on_the_run_queue(Config) -> fires(Config, #{on => run_queue, above => 10}, fun busy/0).

%% Each by what is made: the probe's value, and what the note has beside it.
levels_rise_with_what_they_measure(_) ->
    Processes = fun() -> [P || _ <- lists:seq(1, 500), P <- helper(fun rest/0)] end,
    Atoms = fun() -> [P || N <- lists:seq(1, 500), list_to_atom("on_atoms_"
        ++ integer_to_list(N)) =/= none, P <- []] end,
    [begin
        {Before, _} = probed(#{on => On, above => 1}),
        Pids = Make(),
        eventually(fun() ->
            {Value, Detail} = probed(#{on => On, above => 1}),
            Value >= Before + More andalso nomatch =/= re:run(Detail, Expected)
        end),
        kill(Pids)
    end || {On, More, Make, Expected} <- [{memory, 64000000, fun() -> holder(128000000) end, "^$"},
        {binary_memory, 32000000, fun() -> holder(64000000) end, "^$"},
        {rss, 100000000, fun() -> holder(200000000) end, "^$"},
        {process_count, 400, Processes, "^$"},
        {atom_count, 500, Atoms, "^$"},
        {atom_percent, 0, fun() -> [] end, "^[0-9]+ of [0-9]+ atoms$"}]].

rest() -> timer:sleep(infinity).
probed(Given) -> probed(Given, none).

probed(Given, Before) ->
    {ok, [Spec]} = flame_prof_trigger:validate(Given),
    _ = process_flag(trap_exit, true),
    {Pid, Monitor} = flame_prof_condition:probe(Spec, true, Before),
    receive
        {'DOWN', Monitor, process, Pid, {flame_prof_condition, Value, Detail, _}} -> {Value, Detail}
    end.

%% Most machines that run tests have none: the limit is one that was read before.
on_the_share_of_the_memory_limit(_) ->
    {ok, #{process := #{rss := Rss}}} = flame_prof_memory:look(#{explain => false}),
    Of = fun(Limit) ->
        probed(#{on => rss_percent, above => 80}, {Limit, erlang:monotonic_time(millisecond)})
    end,
    ?assertMatch({Percent, <<"of 1000000 bytes">>} when Percent > 100, Of(1000000)),
    ?assertMatch({Percent, _} when Percent < 80, Of(1000 * Rss)).

a_small_node_is_not_fragmented(_) ->
    case native_node:why_not() of
        none ->
            Given = #{on => fragmentation, above => 1, allocator => eheap_alloc},
            {Percent, <<"eheap_alloc: ", _/binary>>} = probed(Given#{least_bytes => 1}),
            ?assert(Percent > 0),
            ?assertMatch({0, _}, probed(Given#{least_bytes => 1 bsl 50}));
        Why -> {skip, Why}
    end.

%% The note names the table and its owner, among others that are larger and at rest.
on_growing_tables(Config) ->
    Large = ets:new(at_rest, [public]),
    true = ets:insert(Large, [{N, lists:seq(1, 20)} || N <- lists:seq(1, 50000)]),
    Self = self(),
    Note = fires(Config, #{on => ets_growth, above => 1000000}, fun() ->
        helper(fun() ->
            true = register(grower, self()),
            Self ! {owner, self()},
            fill_table(ets:new(growing, []), 0)
        end)
    end),
    Owner = receive {owner, Pid} -> pid_to_list(Pid) end,
    true = ets:delete(Large),
    case native_node:why_not() of
        none ->
            ?assertMatch({match, _}, re:run(Note, [", table growing of ", Owner, " grower .*",
                " (grows most, [0-9]+ bytes a second|is the largest, [0-9]+ bytes)$"]));
        _ -> ?assertEqual(nomatch, re:run(Note, "table"))
    end.

%% It looks at all tables, twice: while its profile runs nobody would read which one grows.
no_table_is_looked_for_while_none_may_fire(Config) ->
    Trigger = #{on => ets_growth, above => 100, timeout => 1000, duration => 600000},
    ok = start(Config, #{triggers => [bounded(Trigger)]}),
    Pids = helper(fun() -> fill_table(ets:new(growing, []), 0) end),
    eventually(fun() -> fired(Trigger) =:= 1 end),
    Look = {flame_prof_tables, look, 1},
    {module, _} = code:ensure_loaded(flame_prof_tables),
    1 = erlang:trace_pattern(Look, true, [local, call_count]),
    Held = fun() -> lists:sum(maps:values(maps:get(suppressed, about(Trigger)))) end,
    Before = Held(),
    eventually(fun() -> Held() >= Before + 2 end),
    ?assertEqual({call_count, 0}, erlang:trace_info(Look, call_count)),
    1 = erlang:trace_pattern(Look, false, [local, call_count]),
    kill(Pids),
    {ok, _} = flame_prof:stop().

holder(Bytes) ->
    helper(fun() ->
        Held = binary:copy(<<"x">>, Bytes),
        timer:sleep(infinity),
        byte_size(Held)
    end).

%% As long as the test lasts, some megabytes a second.
fill_table(Table, N) ->
    true = ets:insert(Table, {N, binary_to_list(<<0:8000>>)}),
    N rem 10 =:= 0 andalso timer:sleep(10),
    fill_table(Table, N + 1).

on_a_message_queue(Config) ->
    Note = fires(Config, #{on => message_queue_len, above => 1000}, fun() ->
        [Pid] = helper(fun() ->
            true = register(far_behind, self()),
            timer:sleep(infinity)
        end),
        [Pid ! message || _ <- lists:seq(1, 2000)],
        [Pid]
    end),
    %% Whose it was, who fills it, and with what.
    ?assertNotEqual(nomatch, string:find(Note, "far_behind")),
    Sender = pid_to_list(self()),
    ?assertNotEqual(nomatch, string:find(Note, "100.0% info:message, 100.0% from " ++ Sender)).

on_a_long_collection(Config) -> fires(Config, #{on => long_gc, above => 1}, fun collecting/0).

%% A BIF that does not yield.
on_a_long_turn(Config) ->
    fires(Config, #{on => long_schedule, above => 2}, fun() ->
        helper(fun() -> multiply((1 bsl 50000) - 1) end)
    end).

on_a_large_heap(Config) ->
    fires(Config, #{on => large_heap, above => 1000000}, fun collecting/0).

on_a_busy_port(Config) ->
    Test = self(),
    _ = fires(Config, #{on => busy_port}, fun() ->
        helper(fun() ->
            Port = open_port({spawn, "sleep 600"}, [binary, stream]),
            {os_pid, Reader} = erlang:port_info(Port, os_pid),
            Test ! {reader, Reader},
            fill(Port, binary:copy(<<"x">>, 100000))
        end)
    end),
    %% A node that ends waits for what its ports still have to write.
    receive {reader, Reader} -> os:cmd("kill " ++ integer_to_list(Reader)) end.

%% Not before it is so, and then once; the file says why.
fires(Config, Trigger, Cause) ->
    ok = start(Config, #{triggers => [bounded(Trigger)]}),
    eventually(fun() -> seen(Trigger) =/= none orelse is_event(Trigger) end),
    %% A slow machine has long turns and collections of its own accord.
    happens_anywhere(Trigger) orelse begin
        ?assertMatch(#{state := armed, files := []}, maps:merge(#{files => []}, flame_prof:info())),
        ?assertEqual(0, fired(Trigger))
    end,
    Pids = Cause(),
    eventually(fun() -> fired(Trigger) >= 1 end),
    kill(Pids),
    eventually(fun() -> finished(Config) =/= [] end),
    {ok, #{trigger := Last, files := LastFiles}} = flame_prof:stop(),
    [File | _] = Files = finished(Config),
    {ok, _} = perf_script_grammar:check(File),
    %% It may have fired again meanwhile: what the end tells is of one of them.
    Notes = [Own || F <- Files, {ok, [#{trigger := Own} | _],
        #{bad := 0}} <- [reader_oracle:own(F)]],
    ?assertEqual(length(Files), length(Notes)),
    ?assert(LastFiles =:= [] orelse lists:member(Last, Notes)),
    [Note | _] = Notes,
    #{on := On} = Trigger,
    ?assertEqual({0, byte_size(flame_prof_trigger:name(On))},
        binary:match(Note, flame_prof_trigger:name(On))),
    ct:pal("~ts", [Note]),
    Note.

%% Looks often, is short, and fires as soon as it may.
bounded(Trigger) ->
    maps:merge(#{interval => 100, duration => 1000, cooldown => 0, max_per_hour => 100,
        timeout => 30000}, Trigger).

happens_anywhere(#{on := On}) -> lists:member(On, [long_gc, long_schedule]).
is_event(#{on := On}) -> flame_prof_trigger:is_event(On).
seen(Trigger) -> maps:get(last, about(Trigger)).
fired(Trigger) -> maps:get(fired, about(Trigger)).

about(#{on := On}) ->
    %% It may be late with its answer.
    Triggers = eventually(fun() -> {true, maps:get(triggers, flame_prof:info())} end),
    [About] = [T || #{on := O} = T <- Triggers, O =:= On],
    About.

%% It has ended when the trigger fires.
what_came_before_is_in_the_file(Config) ->
    ok = start(Config, #{triggers => [bounded(set_trigger())], lookback => 20000,
        sample_interval => 20, include => [what_came_before]}),
    ?assertMatch(#{state := armed, files := []}, flame_prof:info()),
    [Early] = helper(fun() ->
        true = register(what_came_before, self()),
        ?MODULE:before_it_happened()
    end),
    eventually(fun() -> lists:keymember(Early, 1, flame_prof:selected()) end),
    ticks(30),
    kill([Early]),
    set(),
    eventually(fun() -> fired(set_trigger()) =:= 1 end),
    eventually(fun() -> finished(Config) =/= [] end),
    {ok, #{evicted := Evicted} = Run} = flame_prof:stop(),
    balanced(Run),
    [File] = finished(Config),
    {ok, _} = perf_script_grammar:check(File),
    {ok, [#{trigger := _, time_us := Fired} | _], _} = reader_oracle:own(File),
    {ok, Times, _} = reader_oracle:fold(fun(#{time_us := Time, frames := Frames}, Times) ->
        case lists:any(fun is_before/1, Frames) of true -> [Time | Times]; false -> Times end
    end, [], [File]),
    ?assert(length(Times) >= 5, {Evicted, length(Times)}),
    ?assert(lists:max(Times) =< Fired).

is_before({Symbol, _}) -> binary:match(Symbol, <<"before_it_happened/0">>) =/= nomatch.

before_it_happened() ->
    receive
        never -> ok
    after 1 -> ok
    end,
    ?MODULE:before_it_happened().

%% What is asked of it waits in its queue for longer than anybody waits for an answer.
one_that_is_late_to_write_ends_all_the_same(Config) ->
    ok = start(Config, #{triggers => [bounded(set_trigger())], lookback => 1000}),
    Late = whereis(flame_prof_session),
    ok = sys:suspend(Late),
    set(),
    eventually(fun() ->
        {ok, #{triggers := [#{fired := Fired}]}} = flame_prof_triggers:info(),
        Fired =:= 1
    end),
    ok = sys:resume(Late),
    eventually(fun() -> length(finished(Config)) =:= 1 end),
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= armed end),
    {ok, #{trigger := _}} = flame_prof:stop().

balanced(#{attempted := T, written := W, inconsistent := N, dropped := D, exited := G,
    evicted := E}) ->
    ?assertEqual(T, W + N + D + G + E).

%% So many more.
ticks(N) ->
    #{counters := #{ticks := Ticks}} = flame_prof:info(),
    eventually(fun() -> maps:get(ticks, maps:get(counters, flame_prof:info())) >= Ticks + N end).

has_sessions() ->
    {module, trace} =:= code:ensure_loaded(trace)
        andalso erlang:function_exported(trace, system, 3).

a_monitor_of_somebodys_is_left_alone(Config) ->
    [Theirs] = helper(fun() -> timer:sleep(infinity) end),
    undefined = erlang:system_monitor(Theirs, [{long_gc, 123456}, busy_port]),
    Before = erlang:system_monitor(),
    LongGc = bounded(#{on => long_gc, above => 1}),
    Text = lists:append(logged:texts(fun() ->
        ok = start(Config, #{triggers => [LongGc, bounded(set_trigger())]}) end)),
    Pids = collecting(),
    case has_sessions() of
        true -> eventually(fun() -> fired(LongGc) >= 1 end);
        false ->
            ?assertNotEqual(nomatch,
                string:find(Text, "another program uses erlang:system_monitor/2")),
            ?assertMatch(#{trouble := <<"another program uses", _/binary>>, fired := 0},
                about(LongGc)),
            ?assertEqual(Before, erlang:system_monitor())
    end,
    %% All others are what they would be.
    set(),
    eventually(fun() -> fired(set_trigger()) >= 1 end),
    kill(Pids),
    {ok, _} = flame_prof:stop(),
    ?assertEqual(Before, erlang:system_monitor()),
    kill([Theirs]).

a_monitor_that_somebody_takes_later_is_left_alone(Config) ->
    LongGc = bounded(#{on => long_gc, above => 1}),
    ok = start(Config, #{triggers => [LongGc]}),
    [Theirs] = helper(fun() -> timer:sleep(infinity) end),
    _ = erlang:system_monitor(Theirs, [{large_heap, 123456789}]),
    Before = erlang:system_monitor(),
    Pids = collecting(),
    has_sessions() andalso eventually(fun() -> fired(LongGc) >= 1 end),
    kill(Pids),
    ?assertEqual(Before, erlang:system_monitor()),
    {ok, _} = flame_prof:stop(),
    ?assertEqual(Before, erlang:system_monitor()),
    kill([Theirs]).

%% Also after it was switched off and on again, by events.
ours_is_given_back(Config) ->
    LongGc = bounded(#{on => long_gc, above => 1}),
    ok = start(Config, #{triggers => [LongGc, bounded(#{on => busy_port})]}),
    has_sessions() orelse ?assertMatch({_, [_, _]}, erlang:system_monitor()),
    Pids = collecting(),
    eventually(fun() -> fired(LongGc) >= 1 end),
    kill(Pids),
    eventually(fun() -> seen(LongGc) =:= false end),
    has_sessions() orelse eventually(fun() -> length(element(2,
        erlang:system_monitor())) =:= 2 end),
    {ok, _} = flame_prof:stop(),
    ?assertEqual(undefined, erlang:system_monitor()).

start(Config, Options) ->
    Engine = proplists:get_value(engine, Config, auto),
    {ok, Pid} = flame_prof:start(Options#{dir => directory(Config), engine => Engine}),
    ?assertEqual(Pid, whereis(flame_prof_triggers)),
    ok.

directory(Config) -> proplists:get_value(directory, Config).

files(Config) ->
    [list_to_binary(File) || File <- filelib:wildcard(filename:join(directory(Config), "*"))].

finished(Config) -> [File || File <- files(Config), filename:extension(File) =/= <<".part">>].
set_trigger() -> #{on => {?MODULE, is_set}}.
is_set() -> persistent_term:get(?SWITCH, false) =:= true.

set() ->
    switch(true),
    [].

switch(Value) -> persistent_term:put(?SWITCH, Value).
helper(Fun) -> [spawn(Fun)].
kill(Pids) -> [exit(Pid, kill) || Pid <- Pids].

%% On each scheduler, however many there are, and more than it can run.
busy() ->
    Online = lists:seq(1, erlang:system_info(schedulers_online)),
    [spawn_opt(fun() -> burn(1) end, [{scheduler, S}]) || S <- Online, _ <- [runs, waits]] ++
        lists:append([helper(fun() -> burn(1) end) || _ <- lists:seq(1, 40)]).

burn(N) -> burn((N * 5 + 1) band 16#ffffff).
collecting() -> helper(fun() -> collect(lists:seq(1, 2000000)) end).

collect(Live) ->
    true = erlang:garbage_collect(),
    collect([N + 1 || N <- Live]).

%% Turns of some ten milliseconds. The VM
%% tells of a turn when it ends, and a product takes no reductions. The compiler takes products away
%% that nothing uses: it does not know this function.
multiply(N) ->
    Product = list_to_existing_atom("*"),
    _ = [apply(erlang, Product, [N, I]) || I <- lists:duplicate(20, N)],
    true = erlang:yield(),
    multiply(N).

fill(Port, Bytes) ->
    true = port_command(Port, Bytes),
    fill(Port, Bytes).
