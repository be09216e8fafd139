%% Rules of the doctor on what processes spend their time on a CPU with: each finds the calls that
%% made the samples, and not the nearest healthy thing. Other findings must not be there.
-module(flame_prof_doctor_stacks_tests).

-include_lib("eunit/include/eunit.hrl").

-import(made_samples, [judged/1, judged/2, holder/2, worker/2, worker/3, stack/2]).

-define(MIB, 1048576).

named(Found) ->
    [{Kind, [Name || #{name := Name} <- Processes]}
        || #{kind := Kind, processes := Processes} <- Found].

text(#{title := Title, sentences := Sentences}) ->
    unicode:characters_to_list([Title | Sentences]).

idle() -> holder(idle, fun(_) -> #{} end).

%% On a CPU for this share of the time, and in these frames for that share of it.
in(Name, OnCpu, Part, Frames) ->
    #{at := At} = Worker = worker(Name, [{running, OnCpu}]),
    Worker#{at := fun(Us) ->
        case At(Us) of
            #{status := running} = State when (Us div 10000 * 389) rem 1000 < 1000 * Part ->
                State#{stack := stack(Name, Frames)};
            State -> State
        end
    end}.

%%% Servers.

%% Waits for the process with this number for so much of the time, in this stack.
caller(Name, N, Part, Stack) ->
    Words = io_lib:format("waits_for=<0.~b.0> ", [N]),
    #{name => Name, at => fun(Us) ->
        State = #{status => waiting, stack => Stack, values => #{reductions => Us}},
        case (Us div 10000 * 617) rem 1000 < 1000 * Part of
            true -> State#{words => Words};
            false -> State#{stack => stack(Name, [])}
        end
    end}.

-define(IN_CALL, ["gen:do_call/4:259", "client:run/1", "client:init/1"]).

clients(N, Part) ->
    [caller(list_to_atom("client_" ++ integer_to_list(C)), N, Part, ?IN_CALL)
        || C <- lists:seq(1, 12)].

a_server_that_many_wait_for_is_told_with_what_it_does_test() ->
    [One] = judged([worker(store, [{running, 0.7}]) | clients(100, 0.9)]),
    ?assertMatch([{bottleneck, [<<"store">>]}], named([One])),
    #{numbers := #{waiting := Waiting}, function := <<"store:work/1">>} = One,
    ?assert(abs(Waiting - 12 * 0.9) < 0.2).

of_a_chain_the_one_that_waits_for_no_other_is_told_test() ->
    Front = caller(front, 101, 0.95, ["gen:do_call/4:259", "front:check/1", "front:init/1"]),
    Auth = caller(auth, 102, 0.95, ["gen:do_call/4:259", "auth:check/1", "auth:init/1"]),
    Disk = worker(disk, [{running, 0.3}], #{values => #{message_queue_len => 1}}),
    [One] = judged([Front, Auth, Disk | clients(100, 0.9)]),
    ?assertMatch([{chain, [<<"disk">>, <<"auth">>, <<"front">>]}], named([One])),
    ?assertMatch(#{function := <<"disk:work/1">>}, One).

workers_that_never_wait_in_one_function_are_one_finding_test() ->
    Workers = [in(Name, 1, 1, ["price:all/1:8"]) || Name <- [price_1, price_2, price_3]],
    Other = in(search, 1, 1, ["search:all/1:8"]),
    Found = judged([idle(), Other | Workers]),
    ?assertEqual([[<<"price_1">>, <<"price_2">>, <<"price_3">>], [<<"search">>]],
        lists:sort([lists:sort(Names) || {hot_function, Names} <- named(Found)])).

a_batch_in_many_functions_is_healthy_test() ->
    Batch = [in(Name, 1, 1, ["lists:sort/1:9", "batch:all/1:8"]) || Name <- [batch_1]] ++
        [in(batch_2, 1, 1, ["zlib:gzip/1:9", "batch:all/1:8"]),
        in(batch_3, 1, 1, ["maps:fold/3:9", "batch:all/1:8"])],
    ?assertEqual([], [Names || {hot_function, Names} <- named(judged([idle() | Batch]))]),
    Same = [in(Name, 1, 1, ["lists:sort/1:9", "batch:all/1:8"]) || Name <- [batch_1, batch_2]],
    ?assertMatch([_], [Names || {hot_function, Names} <- named(judged([idle() | Same]))]).

a_server_without_a_cpu_is_told_where_fewer_are_ready_than_wait_test() ->
    Late = worker(store, [{running, 0.2}, {runnable, 0.7}]),
    ?assertMatch([{bottleneck, [<<"store">>]}], named(judged([Late | clients(100, 0.9)]))),
    Busy = [worker(list_to_atom("busy_" ++ integer_to_list(N)), [{running, 0.1}, {runnable, 0.8}])
        || N <- lists:seq(1, 20)],
    ?assertEqual([], judged([Late | clients(100, 0.9)] ++ Busy)).

who_waits_for_a_process_is_not_judged_where_no_sample_says_it_test() ->
    {ok, Profile} = flame_prof_profile:read(checkout:path("test/corpus/trouble/none.log.zst")),
    #{unseen := Unseen} = flame_prof_doctor:of_profile(Profile, #{}),
    ?assertMatch({_, <<"which process waits for which", _/binary>>},
        lists:keyfind(bottleneck, 1, Unseen)),
    ?assertMatch({_, _}, lists:keyfind(run_queue, 1, Unseen)).

those_who_wait_for_jobs_and_seldom_ones_are_none_test() ->
    Idle = #{name => jobs, at => fun(_) ->
        #{status => waiting, stack => ["gen_server:loop/7:871", "jobs:init/1"]} end},
    ?assertEqual([], judged([Idle | clients(100, 0.95)])),
    ?assertEqual([], judged([worker(quick, [{running, 0.7}]) | clients(100, 0.3)])).

%%% Calls.

-define(APPEND, [{"[beam.smp]", "beam.smp"}, {"erlang:++/2", "bif"}]).

a_list_that_grows_at_its_end_is_told_test() ->
    [One] = judged([idle(), in(collector, 0.5, 0.9, ?APPEND)]),
    ?assertMatch(#{kind := append, function := <<"collector:work/1">>}, One).

the_garbage_of_appends_is_theirs_whoever_appends_most_test() ->
    Collects = fun(Name, OnCpu) ->
        #{at := At} = Worker = in(Name, OnCpu, 1, ?APPEND),
        Worker#{at := fun(Us) ->
            case At(Us) of
                #{status := running} = State when Us div 10000 rem 2 =:= 0 ->
                    State#{status := garbage_collecting};
                State -> State
            end
        end}
    end,
    Found = judged([idle(), Collects(collector_1, 0.5), Collects(collector_2, 0.4)]),
    ?assertMatch([{append, [_, _]}], named(Found)).

-define(RAISE, [{"handle_error", "beam.smp"}, "parser:value/2:8"]).

exceptions_of_many_are_one_finding_test() ->
    Parsers = [in(Name, 0.05, 0.7, ?RAISE) || Name <- [parser_1, parser_2, parser_3, parser_4]],
    [#{kind := exceptions, processes := Processes} = One] = judged([idle() | Parsers]),
    ?assertEqual(4, length(Processes)),
    ?assertMatch(#{function := <<"parser:value/2">>}, One).

-define(COPY, [{"copy_struct_x", "beam.smp"}, {"erts_send_message", "beam.smp"},
    {"erlang:send/2", "bif"}]).

large_messages_are_told_by_the_copies_in_sends_test() ->
    [One] = judged([idle(), in(publisher, 0.2, 0.8, ?COPY)]),
    ?assertMatch(#{kind := copies, function := <<"publisher:work/1">>}, One).

%% Stages that hand on much, and do little else, of a node that does other work: 65 % of a tenth of
%% a CPU were copies in a pipeline that was as it should be.
calls_that_are_a_small_part_of_what_the_node_does_are_none_test() ->
    Others = [worker(Name, [{running, 0.3}]) || Name <- [parser_1, parser_2, parser_3, parser_4]],
    Stages = fun(Frames) -> [in(Name, 0.1, 0.65, Frames) || Name <- [stage_1, stage_2]] end,
    Timer = [{"erlang:start_timer/4", "bif"}],
    [begin
        ?assertMatch([{Kind, [_, _]}], named(judged([idle() | Stages(Frames)]))),
        ?assertEqual([], judged([idle() | Stages(Frames) ++ Others]))
    end || {Kind, Frames} <- [{copies, ?COPY}, {exceptions, ?RAISE}, {append, ?APPEND},
        {timers, Timer}]].

-define(WAIT, [{"sched_yield", "libc.so.6"}, {"ethr_event_swait", "beam.smp"},
    {"ethr_rwmutex_rwlock", "beam.smp"}, {"ets:insert/2", "bif"}]).

writers_that_wait_for_a_table_are_told_with_it_test() ->
    [#{kind := lock} = One] = judged([idle() | [in(Name, 0.3, 0.8, ?WAIT)
        || Name <- [writer_1, writer_2, writer_3]]]),
    ?assertMatch({match, _}, re:run(text(One), "100 % of it is in ets:insert/2")).

%% As Debian's of OTP 29. What is no table's may call the system for anything.
waits_for_tables_are_told_of_a_vm_without_symbols_too_test() ->
    In = fun(Call, Function) -> [idle() | [in(Name, 0.3, 0.8,
        [{Call, "libc.so.6"}, {"[beam.smp]", "beam.smp"}, {Function, "bif"}])
        || Name <- [writer_1, writer_2, writer_3]]] end,
    [?assertMatch([{lock, [_, _, _]}], named(judged(In(Call, "ets:update_counter/3"))))
        || Call <- ["syscall", "sched_yield"]],
    ?assertEqual([], judged(In("syscall", "erlang:send/2"))),
    ?assertEqual([], judged(In("memcpy", "ets:insert/2"))).

locks_of_a_vm_that_lacks_cpus_are_none_test() ->
    Story = [idle() | [in(Name, 0.9, 0.5, ?WAIT) || Name <- [writer_1, writer_2, writer_3]]],
    Figures = fun(Ms) -> #{own => [{1000000 * N, #{node_runtime_ms => Ms * N}}
        || N <- [1, 5, 9]]} end,
    ?assertEqual([], judged(Story, Figures(200))),
    ?assertMatch([{lock, [_, _, _]}], named(judged(Story, Figures(1500)))).

%% What a rule says of samples in these frames, leaf first.
why(Rule, Leaf) ->
    Limits = maps:from_list([{Name, Value} || {Name, Value, _} <- Rule:thresholds()]),
    Frames = Leaf ++ [{<<"sender:work/1">>, erlang}],
    Rule:find(#{samples => #{mode => processes, processes => [],
        stacks => fun(_, _) -> [{Frames, 100}] end}}, Limits).

of_a_vm_without_symbols_calls_in_c_are_unseen_test() ->
    Send = {<<"erlang:send/2">>, called},
    [begin
        ?assertMatch({unseen, _}, why(Rule, [{<<"[beam.smp]">>, native}, Send])),
        ?assertMatch({unseen, _},
            why(Rule, [{<<"write">>, native}, {<<"[beam.smp]">>, native}, Send])),
        %% A function that is not exported, called by one that has a name.
        ?assertEqual([], why(Rule, [{<<"[beam.smp]">>, native}, {<<"erts_mixed_times">>, native}])),
        ?assertEqual([], why(Rule, [Send]))
    end || Rule <- [flame_prof_doctor_copies, flame_prof_doctor_exceptions,
        flame_prof_doctor_lock]].

-define(TIMER, [{"erlang:send_after/3", "bif"}]).

timers_set_all_the_time_are_told_test() ->
    [One] = judged([idle(), in(session_1, 0.3, 0.6, ?TIMER), in(session_2, 0.3, 0.6, ?TIMER)]),
    ?assertMatch(#{kind := timers}, One),
    ?assertMatch([{timers, [_, _]}], named([One])).

%%% Collections.

collector(Name, Every, Ticks, Mib) ->
    #{name => Name, at => fun(Us) ->
        Tick = Us div 10000,
        Status = case Tick rem Every < Ticks of true -> garbage_collecting; false -> waiting end,
        #{status => Status, stack => stack(Name, []),
            values => #{reductions => Tick div Every, memory => Mib * ?MIB}}
    end}.

a_large_heap_that_stops_its_process_is_told_test() ->
    [One] = judged([idle(), collector(giant, 300, 50, 500)]),
    #{kind := long_gc, numbers := #{longest_us := Us, count := Count}} = One,
    ?assertEqual({490000, 4}, {Us, Count}).

%%% Receives.

%% Its queue has so many messages; it scans for this share of the time, and waits.
scanner(Name, Length, Scans, Waits) ->
    #{name => Name, at => fun(Us) ->
        Place = ((Us div 10000 * 617) rem 1000) / 1000,
        Values = #{message_queue_len => Length, reductions => Us},
        if
            Place < Scans ->
                #{status => running, scheduler => 1, values => Values,
                    stack => ["inbox:answer/1:12", "inbox:init/1"]};
            Place < Scans + Waits ->
                #{status => waiting, values => Values,
                    stack => ["inbox:answer/1:12", "inbox:init/1"]};
            true ->
                #{status => running, scheduler => 1, values => Values,
                    stack => ["lists:map/2:3", "inbox:handle/1", "inbox:init/1"]}
        end
    end}.

a_receive_that_looks_through_a_long_queue_is_told_instead_of_the_queue_test() ->
    [One] = judged([idle(), scanner(inbox, 20000, 0.6, 0.3)]),
    ?assertMatch(#{kind := selective_receive, function := <<"inbox:answer/1">>}, One).

a_slow_server_is_told_by_its_queue_test() ->
    [#{kind := mailbox}] = judged([idle(), scanner(slow, 20000, 0.0, 0.0)],
        #{thresholds => #{hot_function_whole_cpu => 2}}).

%%% The VM's own processes.

%% Not waiting for this share of the time.
system(Name, Status, Busy) ->
    #{name => Name, at => fun(Us) ->
        Is = (Us div 10000 * 617) rem 1000 < 1000 * Busy,
        #{status => case Is of true -> Status; false -> waiting end,
            stack => stack(Name, [])}
    end}.

asking(Name, Part, Frames) ->
    #{name => Name, at => fun(Us) ->
        Asks = (Us div 10000 * 389) rem 1000 < 1000 * Part,
        #{status => waiting, stack => stack(Name, case Asks of true -> Frames; false -> [] end)}
    end}.

code_that_is_loaded_all_the_time_is_told_with_who_asks_test() ->
    Asks = asking(plugin, 0.5, ["code_server:call/1:99", "error_handler:undefined_function/3"]),
    [One] = judged([system(code_server, running, 0.4), Asks, idle()]),
    ?assertMatch([{code_loading, [<<"plugin">>]}], named([One])),
    ?assertMatch(#{function := <<"plugin:work/1">>}, One).

code_that_is_replaced_all_the_time_is_told_by_what_is_purged_test() ->
    Asks = asking(pages, 0.1, ["code_server:call/1:99"]),
    Loads = [system(code_server, running, 0.05), idle()],
    [One] = judged([system(erts_code_purger, running, 0.03), Asks | Loads]),
    ?assertMatch([{code_loading, [<<"pages">>]}], named([One])),
    ?assertEqual([], judged([system(erts_code_purger, running, 0.001), Asks | Loads])),
    ?assertEqual([], judged([system(erts_code_purger, running, 0.03) | Loads])).

%% The VM's process has an initial call and no name.
unnamed(#{at := At} = Story) ->
    Words = "initial_call=erts_literal_area_collector%3Astart/0 ",
    Story#{name := '', at := fun(Us) -> (At(Us))#{words => Words} end}.

%% Suspended for a part of the time, and in a put for another one.
putter(Suspended, Puts) ->
    #{name => config, at => fun(Us) ->
        case (Us div 10000 * 617) rem 1000 / 1000 of
            Place when Place < Suspended -> #{status => suspended, stack => stack(config, [])};
            Place when Place < Suspended + Puts ->
                #{status => running, scheduler => 1,
                    stack => stack(config, ["persistent_term:put/2"])};
            _ -> #{status => waiting, stack => stack(config, [])}
        end
    end}.

terms_that_are_replaced_all_the_time_are_told_with_who_does_test() ->
    Collector = unnamed(system(literals, running, 0.2)),
    [One] = judged([Collector, putter(0.3, 0.01), idle()]),
    ?assertMatch([{persistent_term, [<<"config">>]}], named([One])).

one_that_is_suspended_and_never_seen_in_a_put_replaces_none_test() ->
    Collector = unnamed(system(literals, running, 0.2)),
    ?assertEqual([], judged([Collector, putter(0.3, 0.0), idle()])).

%%% Priorities.

a_process_that_never_waits_for_a_cpu_on_a_loaded_node_is_told_test() ->
    Starved = [worker(Name, [{running, 0.1}, {runnable, 0.8}])
        || Name <- [one, two, three, four, five, six, seven]],
    [One] = judged([worker(important, [{running, 0.9}]) | Starved]),
    ?assertMatch([{priority, [<<"important">>]}], named([One])).

fair_turns_and_a_node_with_free_cpus_are_none_test() ->
    Others = [worker(Name, [{running, 0.1}, {runnable, 0.8}])
        || Name <- [one, two, three, four, five, six, seven]],
    ?assertEqual([], judged([worker(fair, [{running, 0.5}, {runnable, 0.4}]) | Others])),
    ?assertMatch([#{kind := hot_function, severity := note}],
        judged([worker(busy, [{running, 0.9}]), idle()])).
