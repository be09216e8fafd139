%% What is printed of an answer, and its JSON.
-module(flame_prof_latency_text_tests).

-include_lib("eunit/include/eunit.hrl").

counts_quantiles_and_bars_are_told_test() ->
    Text = text(answer([function({lists, seq, 2}, [{100, 101, 90}, {4096, 4160, 10}])])),
    [?assertMatch({_, {_, _}}, {Part, binary:match(Text, Part)}) || Part <- [
        <<"lists:seq/2\n">>, <<"100 calls in 2.00 s (50 a second)">>, <<"p50 100 ns">>,
        <<"p99 4.13 us">>, <<"max 4.16 us">>, <<"  64 ns ####">>, <<" 90  90.0%">>,
        <<"4.10 us ###">>]],
    ?assertEqual(nomatch, binary:match(Text, <<"exception">>)).

several_functions_have_a_table_by_total_time_test() ->
    Text = text(answer([function({a, short, 0}, [{100, 101, 1}]),
        function({a, long, 0}, [{4096, 4160, 1}]), function({a, never, 0}, [])])),
    {Long, _} = binary:match(Text, <<"a:long/0">>),
    {Short, _} = binary:match(Text, <<"a:short/0">>),
    {Never, _} = binary:match(Text, <<"a:never/0">>),
    ?assert(Long < Short),
    ?assert(Short < Never).

what_only_failed_has_no_times_test() ->
    Failed = (function({a, failed, 0}, []))#{exceptions => 3},
    Text = text(answer([Failed, function({a, called, 0}, [{100, 101, 1}])])),
    ?assertMatch({_, _}, binary:match(Text, <<"0 calls in 2.00 s (0 a second), and 3 that">>)),
    ?assertMatch({match, _}, re:run(Text, " 0 +3( +-){5}  a:failed/0\n")),
    ?assertEqual(1, length(binary:matches(Text, <<"p99.99 ">>))).

no_line_ends_in_blanks_test() ->
    Text = text(answer([function({a, b, 0}, [{100, 101, 4}])])),
    ?assertEqual(nomatch, re:run(Text, " \n")).

no_call_is_told_test() ->
    ?assertMatch({_, _}, binary:match(text(answer([function({a, never, 0}, [])])),
        <<"no call of the measured functions has ended">>)).

limits_sampling_and_losses_come_first_test() ->
    Answer = (answer([function({a, b, 0}, [{100, 101, 1}])]))#{
        ended => {limit, max_events_per_second}, sampled_of => 8,
        lost => #{stack_full => 3, nothing => 0}},
    [First, Second, Third | _] = binary:split(text(Answer), <<"\n">>, [global]),
    ?assertEqual([<<"a limit ended it: too many calls in a second (max_events_per_second)">>,
        <<"calls came too fast: down to 1 of 8 was measured; counts and sums are of these">>,
        <<"3 stack full: not measured">>], [First, Second, Third]).

groups_and_callers_are_parts_of_the_total_test() ->
    Function = (function({a, b, 0}, [{100, 101, 4}]))#{
        groups => [#{group => my_server, calls => 3, total_ns => 300, p50_ns => 70,
                p99_ns => 90, max_ns => 160},
            #{group => <<"shop \e[31m">>, calls => 1, total_ns => 100}],
        callers => [#{caller => {'Elixir.Shop', run, 1}, calls => 4, total_ns => 400},
            #{caller => undefined, calls => 0, total_ns => 0}]},
    Text = text(answer([Function])),
    [?assertMatch({_, {_, _}}, {Part, binary:match(Text, Part)}) || Part <- [
        <<"  By process group        calls        p50        p99        max\n">>,
        <<"75.0%     300 ns          3      70 ns      90 ns     160 ns  my_server">>,
        <<"shop ?[31m">>, <<"(unknown)">>,
        <<"100.0%     400 ns          4          -          -          -  Shop.run/1">>]].

json_has_names_buckets_and_the_heatmap_test() ->
    Function = (function({a, b, 0}, [{100, 101, 4}]))#{
        heatmap => #{interval_ms => 500, rows => [{64, 80}, {1 bsl 40, infinity}],
            columns => [[4, 0]]},
        groups => [#{group => my_server, calls => 3, total_ns => 300,
            histogram => [{100, 101, 3}]}]},
    Json = flame_prof_latency_text:json((answer([Function]))#{ended => {down, self()}}),
    ?assertMatch(#{ended := down, limits := [_], functions := [#{function := <<"a:b/0">>,
        calls := 4, histogram := [[100, 101, 4]], p50_ns := 100,
        heatmap := #{interval_ms := 500, rows := [[64, 80], [1099511627776, undefined]],
            columns := [[4, 0]]},
        groups := [#{group := <<"my_server">>, p99_ns := 100}]}]}, Json),
    ?assertNotEqual(<<>>, iolist_to_binary(flame_prof_json:encode(Json))).

json_of_no_call_has_no_times_test() ->
    #{functions := [Json]} = flame_prof_latency_text:json(answer(
        [maps:remove(max_ns, function({a, never, 0}, []))])),
    ?assertEqual(#{}, maps:with([p50_ns, p9999_ns, max_ns], Json)).

prometheus_names_each_function_test() ->
    Text = iolist_to_binary(flame_prof_latency_text:prometheus(answer([
        function({a, b, 0}, [{100, 101, 4}]), function({'Elixir.A', b, 1}, [])]))),
    [?assertMatch({_, {_, _}}, {Part, binary:match(Text, Part)}) || Part <- [
        <<"flame_prof_call_duration_seconds_count{function=\"a:b/0\"} 4\n">>,
        <<"flame_prof_call_duration_seconds_count{function=\"A.b/1\"} 0\n">>,
        <<"flame_prof_call_exceptions_total{function=\"a:b/0\"} 0\n">>,
        <<"flame_prof_call_sampled_of 1\n">>]].

text(Answer) -> unicode:characters_to_binary(flame_prof_latency_text:format(Answer)).

answer(Functions) ->
    #{functions => Functions, sampled_of => 1, ended => asked, lost => #{}, open => 0, ms => 2000}.

function(Function, Buckets) ->
    Ends = [End - 1 || {_, End, _} <- Buckets],
    #{function => Function, calls => lists:sum([N || {_, _, N} <- Buckets]), exceptions => 0,
        total_ns => lists:sum([Low * N || {Low, _, N} <- Buckets]), own_ns => 0,
        max_ns => lists:max([0 | Ends]), histogram => Buckets}.
