%% Sentences of the doctor's findings that would say what the evidence does not: each case was once
%% printed of a real node.
-module(flame_prof_doctor_sentences_tests).

-include_lib("eunit/include/eunit.hrl").

-import(made_samples, [judged/1, holder/2, worker/2, stack/2]).

-define(US, 10000000).

text(#{title := Title, sentences := Sentences}) ->
    unicode:characters_to_binary([Title, " " | lists:join(" ", Sentences)]).

says(Finding, Part) ->
    Text = text(Finding),
    ?assertNotEqual({Part, Text, nomatch}, {Part, Text, binary:match(Text, Part)}).

silent(Finding, Part) ->
    Text = text(Finding),
    ?assertEqual({Part, Text, nomatch}, {Part, Text, binary:match(Text, Part)}).

limits(Rule) -> maps:from_list([{Name, Default} || {Name, Default, _} <- Rule:thresholds()]).

evidence(More) ->
    maps:merge(#{node => none, engine => native, span_us => ?US, unseen => #{}}, More).

process(Pid, More) ->
    maps:merge(#{pid => Pid, name => <<"feed">>, observations => 900, running => 800,
        runnable => 50, waiting => 50, gc => 0, other => 0, waits_for => [],
        first_us => 0, last_us => ?US,
        queue => [{0, 9, 9, 9}, {1, 9, 9, 9}, {2, 9, 9, 9}], queue_range => {9, 9, 9, 9},
        bin_vheap => [], tags => []}, More).

%%% Shares are those of the function that is printed.

-define(FUN, <<"Elixir.Shop.Stock:-available/1-fun-0-/1">>).

the_stacks_of_a_function_are_also_those_of_its_funs_test() ->
    In = {[{<<"maps:get/2">>, called}, {?FUN, erlang}, {<<"gen_server:loop/7">>, erlang}], 70},
    Out = {[{<<"gen_server:loop/7">>, erlang}], 30},
    Function = flame_prof_doctor_stacks:function([In, Out]),
    ?assertEqual(<<"Elixir.Shop.Stock:available/1">>, Function),
    ?assertEqual([In], flame_prof_doctor_stacks:within([In, Out], Function)),
    ?assertEqual([Out], flame_prof_doctor_stacks:within([Out], <<"gen_server:loop/7">>)).

a_process_that_is_in_a_fun_is_in_its_function_all_the_time_test() ->
    #{at := At} = Worker = worker(report, [{running, 1.0}]),
    Stack = stack(report, ["shop_report:-csv/1-fun-1-/1:6"]),
    Hot = Worker#{at := fun(Us) -> (At(Us))#{stack := Stack} end},
    [#{kind := hot_function, numbers := #{in_function := Part}} = Finding] =
        judged([holder(idle, fun(_) -> #{} end), Hot]),
    ?assertEqual(1.0, Part),
    says(Finding, <<"It is in shop_report:csv/1 for 100 % of it.">>).

a_server_that_works_in_a_fun_spends_its_time_in_the_function_test() ->
    Pid = list_to_pid("<0.1.0>"),
    Frames = [{?FUN, erlang}, {<<"gen_server:loop/7">>, erlang}, {<<"proc_lib:init/1">>, erlang}],
    Samples = #{processes => [process(<<"<0.1.0>">>, #{})],
        stacks => fun(_, _) -> [{Frames, 5}] end},
    ?assertEqual({<<"Elixir.Shop.Stock:available/1">>, 1.0},
        flame_prof_doctor_does:function(Pid, #{samples => Samples}, #{processes => #{}})).

%%% A call is not its own caller.

files(Frames) ->
    Samples = #{processes => [process(<<"<0.1.0>">>, #{}) |
        [process(iolist_to_binary(["<0.", integer_to_list(N), ".0>"]),
            #{waits_for => [{<<"<0.1.0>">>, 800}]}) || N <- lists:seq(2, 6)]],
        stacks => fun(<<"<0.1.0>">>, _) -> [{Frames, 800}]; (_, _) -> [] end},
    Rule = flame_prof_doctor_file_io,
    [Finding] = Rule:find(evidence(#{samples => Samples,
        waits => #{edges => [], processes => #{}}}), limits(Rule)),
    doctor_finding:checked(Finding).

-define(LIST_DIR, {<<"prim_file:list_dir_nif/1">>, called}).
-define(ROOT, {<<"proc_lib:init_p/3">>, erlang}).

a_call_of_files_is_not_said_to_be_made_by_itself_test() ->
    silent(files([?LIST_DIR, ?ROOT]), <<"made by">>),
    silent(files([?LIST_DIR, {<<"prim_file:list_dir/2">>, erlang}, ?ROOT]), <<"made by">>),
    says(files([?LIST_DIR, {<<"shop_pages:page/1">>, erlang}, ?ROOT]),
        <<"These are made by shop_pages:page/1.">>).

who_calls_is_never_one_of_the_calls_test() ->
    Of = fun(Frames) -> flame_prof_doctor_stacks:caller([{Frames ++ [?ROOT], 10}],
        [<<"erlang:spawn*">>]) end,
    ?assertEqual(<<>>, Of([{<<"erlang:spawn_link/3">>, called}])),
    ?assertEqual(<<>>, Of([{<<"erlang:spawn/1">>, erlang}])),
    ?assertEqual(<<"supervisor:start/2">>,
        Of([{<<"erlang:spawn/1">>, erlang}, {<<"supervisor:start/2">>, erlang}])),
    ?assertEqual(<<"shop:run/1">>, Of([{<<"erlang:spawn/1">>, called},
        {<<"supervisor:start/2">>, erlang}, {<<"shop:run/1">>, erlang}])).

%%% Who writes is who is seen in a write.

written(Frames) ->
    Port = #{port => hd(erlang:ports()), name => <<"tcp_inet">>, owner => list_to_pid("<0.6.0>"),
        owner_name => <<"feed">>, queued => 200000, output => 900000},
    Samples = #{processes => [process(<<"<0.6.0>">>, #{})],
        stacks => fun(_, _) -> [{Frames, 800}] end},
    Rule = flame_prof_doctor_busy_port,
    [Finding] = Rule:find(evidence(#{samples => Samples, system => {#{ports => [Port]},
        #{ports => [Port]}}}), limits(Rule)),
    doctor_finding:checked(Finding).

one_that_is_not_seen_in_a_write_is_not_said_to_write_test() ->
    silent(written([{<<"unicode:o_trans/1">>, erlang}, {<<"io_lib:format/2">>, erlang}, ?ROOT]),
        <<"the one that writes">>),
    says(written([{<<"erlang:port_command/2">>, called}, {<<"shop_feed:push/2">>, erlang}, ?ROOT]),
        <<"the one that writes is in shop_feed:push/2.">>).

%%% Numbers.

%% The kernel counts a stop when it begins, and its period when that ends.
a_quota_stops_the_node_in_no_more_periods_than_there_are_test() ->
    Of = fun(Periods, Stopped, Us) -> #{at_us => Us * 2,
        throttled => #{periods => Periods, throttled_periods => Stopped, us => Us}} end,
    Rule = flame_prof_doctor_throttled,
    [#{numbers := #{share := Share}} = Finding] = Rule:find(
        evidence(#{os => {Of(1000, 10, 1000), Of(1101, 112, 5000000)}}), limits(Rule)),
    ?assertEqual(1.0, Share),
    says(doctor_finding:checked(Finding), <<"stopped in 102 of 102 periods">>).

queue_of(Least) ->
    Pid = list_to_pid("<0.1.0>"),
    Edge = fun(N) -> #{from => list_to_pid(lists:concat(["<0.", N, ".0>"])), to => Pid, how => call,
        tag => unknown, ref => {N, 0, 0}, site => {gen, do_call, 4}, since_ms => 2000} end,
    Edges = [Edge(N) || N <- lists:seq(100, 130)],
    Told = #{status => running, message_queue_len => 3, memory => 1, stack => []},
    Tree = fun(E) -> #{edge => E, direct => 0, all => 0, waiters => [], more => 0} end,
    Look = #{edges => Edges, looks => 11, processes => #{Pid => Told}, roots => [
        #{process => Pid, direct => 31, all => 31, waiters => [Tree(E) || E <- Edges], more => 0}]},
    Queue = #{queue => [{0, Least, 9, 9}], queue_range => {9, Least, 9, 9}},
    Samples = #{processes => [process(<<"<0.1.0>">>, Queue)], stacks => fun(_, _) -> [] end},
    Rule = flame_prof_doctor_bottleneck,
    [Finding] = Rule:find(evidence(#{waits => Look, samples => Samples}), limits(Rule)),
    doctor_finding:checked(Finding).

a_queue_that_is_empty_at_times_is_not_praised_test() ->
    silent(queue_of(0), <<"fewer than">>),
    says(queue_of(1), <<"Its queue never has fewer than 1 message.">>),
    says(queue_of(5), <<"Its queue never has fewer than 5 messages.">>).

one_other_is_no_others_test() ->
    Heavy = fun(N) ->
        Processes = [{10, process(<<"<0.1.0>">>, #{})} || _ <- lists:seq(1, N)],
        text(flame_prof_doctor_calls:finding(timers, #{processes => Processes, weight => 90,
            on_cpu => 100, share => 0.9, cpus => 0.5, function => <<>>, stacks => []}, "setting timers",
            #{sentences => [], command => "flame_prof top"}))
    end,
    ?assertMatch({_, _}, binary:match(Heavy(2), <<"and 1 other spend 90 %">>)),
    ?assertMatch({_, _}, binary:match(Heavy(3), <<"and 2 others spend 90 %">>)).

%%% Functions without a name may be those of a VM that has symbols.

c_functions_without_names_are_counted_test() ->
    Named = {[{<<"copy_shallow_x">>, native}, {<<"ets:lookup/2">>, called}], 40},
    Unnamed = {[{<<"[beam.smp]">>, native}, {<<"erlang:send/2">>, called}], 60},
    Of = fun(Stacks) -> flame_prof_doctor_vm:named([], #{stacks => fun(_, _) -> Stacks end}) end,
    ?assertEqual({unseen, <<"60 % of the time in C functions is in functions without a name">>},
        Of([Named, Unnamed])),
    ?assertEqual([], Of([Named])).
