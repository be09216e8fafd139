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
            State ->
                State
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

appends_among_other_work_are_none_test() ->
    ?assertEqual([], judged([idle(), in(mixer, 0.8, 0.2, ?APPEND),
        in(seldom, 0.05, 0.9, ?APPEND)])).

-define(RAISE, [{"handle_error", "beam.smp"}, "parser:value/2:8"]).

exceptions_of_many_are_one_finding_test() ->
    Parsers = [in(Name, 0.05, 0.7, ?RAISE) || Name <- [parser_1, parser_2, parser_3, parser_4]],
    [#{kind := exceptions, processes := Processes} = One] = judged([idle() | Parsers]),
    ?assertEqual(4, length(Processes)),
    ?assertMatch(#{function := <<"parser:value/2">>}, One).

some_exceptions_are_none_test() ->
    Throw = [{"erlang:throw/1", "bif"}],
    ?assertEqual([], judged([idle(), in(parser, 0.6, 0.1, Throw), in(other, 0.05, 0.9, Throw)])).

-define(COPY, [{"copy_struct_x", "beam.smp"}, {"erts_send_message", "beam.smp"},
    {"erlang:send/2", "bif"}]).

large_messages_are_told_by_the_copies_in_sends_test() ->
    [One] = judged([idle(), in(publisher, 0.2, 0.8, ?COPY)]),
    ?assertMatch(#{kind := copies, function := <<"publisher:work/1">>}, One).

small_messages_and_copies_into_tables_are_none_test() ->
    Send = [{"erts_proc_sig_queue_lock", "beam.smp"}, {"erlang:send/2", "bif"}],
    Insert = [{"copy_struct_x", "beam.smp"}, {"db_put_hash", "beam.smp"}, {"ets:insert/2", "bif"}],
    ?assertEqual([], judged([idle(), in(sender, 0.5, 0.9, Send), in(writer, 0.5, 0.9, Insert)])).

-define(WAIT, [{"sched_yield", "libc.so.6"}, {"ethr_event_swait", "beam.smp"},
    {"ethr_rwmutex_rwlock", "beam.smp"}, {"ets:insert/2", "bif"}]).

writers_that_wait_for_a_table_are_told_with_it_test() ->
    [#{kind := lock} = One] = judged([idle() | [in(Name, 0.3, 0.8, ?WAIT)
        || Name <- [writer_1, writer_2, writer_3]]]),
    ?assertMatch({match, _}, re:run(text(One), "100 % of it is in ets:insert/2")).

locks_of_a_vm_that_lacks_cpus_are_none_test() ->
    Story = [idle() | [in(Name, 0.9, 0.5, ?WAIT) || Name <- [writer_1, writer_2, writer_3]]],
    Figures = fun(Ms) -> #{own => [{1000000 * N, #{node_runtime_ms => Ms * N}}
        || N <- [1, 5, 9]]} end,
    ?assertEqual([], judged(Story, Figures(200))),
    ?assertMatch([{lock, [_, _, _]}], named(judged(Story, Figures(1500)))).

work_in_tables_and_short_waits_are_none_test() ->
    Insert = [{"db_put_hash", "beam.smp"}, {"ets:insert/2", "bif"}],
    ?assertEqual([], judged([idle(), in(alone, 0.5, 0.9, ?WAIT), in(work_1, 0.4, 0.9, Insert),
        in(work_2, 0.4, 0.9, Insert), in(brief_1, 0.4, 0.05, ?WAIT),
        in(brief_2, 0.4, 0.05, ?WAIT)])).

-define(TIMER, [{"erlang:send_after/3", "bif"}]).

timers_set_all_the_time_are_told_test() ->
    [One] = judged([idle(), in(session_1, 0.3, 0.6, ?TIMER), in(session_2, 0.3, 0.6, ?TIMER)]),
    ?assertMatch(#{kind := timers}, One),
    ?assertMatch([{timers, [_, _]}], named([One])).

a_timer_for_each_request_and_sleep_are_none_test() ->
    ?assertEqual([], judged([idle(), in(server, 0.6, 0.15, ?TIMER),
        in(sleeper, 0.3, 0.9, ["timer:sleep/1"])])).

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

a_single_collection_and_small_heaps_are_none_test() ->
    ?assertEqual([], judged([idle(), collector(starts, 1000, 50, 500),
        collector(short, 100, 8, 500), collector(starved, 400, 30, 3)])).

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

a_receive_over_a_short_queue_is_none_test() ->
    ?assertEqual([], judged([idle(), scanner(inbox, 300, 0.6, 0.3)])).

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

a_node_that_loads_for_a_second_is_none_test() ->
    ?assertEqual([], judged([system(code_server, running, 0.1), idle()])).

%% The VM's process has an initial call and no name.
unnamed(#{at := At} = Story) ->
    Words = "initial_call=erts_literal_area_collector%3Astart/0 ",
    Story#{name := '', at := fun(Us) -> (At(Us))#{words => Words} end}.

terms_that_are_replaced_all_the_time_are_told_with_who_does_test() ->
    Collector = unnamed(system(literals, running, 0.2)),
    [One] = judged([Collector, system(config, suspended, 0.3), idle()]),
    ?assertMatch([{persistent_term, [<<"config">>]}], named([One])).

settings_that_are_put_at_a_start_are_none_test() ->
    ?assertEqual([], judged([unnamed(system(literals, running, 0.02)),
        system(config, suspended, 0.02), idle()])).

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
    ?assertEqual([], judged([worker(busy, [{running, 0.9}]), idle()])).
