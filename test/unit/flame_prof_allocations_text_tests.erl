%% What is printed of an answer, and its JSON.
-module(flame_prof_allocations_text_tests).

-include_lib("eunit/include/eunit.hrl").

-define(LEAF, {shop, basket, 1, 12}).
-define(ROOT, {shop, loop, 0, 0}).

functions_have_shares_of_all_bytes_test() ->
    Text = text(answer([{[?LEAF, ?ROOT], 750}, {[?ROOT], 250}])),
    [?assertMatch({_, {_, _}}, {Part, binary:match(Text, Part)}) || Part <- [
        <<"1.91 MB allocated in 2.0 s (977 KB a second); 2 samples, one each 512 KB\n">>,
        <<"  75.0%  75.0%    20.0%  shop:basket/1\n">>,
        <<" 100.0%  25.0%           shop:loop/0\n">>]],
    [?assertEqual(nomatch, binary:match(Text, Part)) || Part <- [
        <<"in step">>, <<"ended">>, <<"could not">>, <<"+-">>]].

a_function_that_calls_itself_counts_once_test() ->
    Text = text(answer([{[?LEAF, ?LEAF, setelement(4, ?LEAF, 13)], 10}])),
    ?assertMatch({_, _}, binary:match(Text, <<" 100.0% 100.0%    20.0%  shop:basket/1\n">>)).

an_error_of_the_sum_is_told_when_it_matters_test() ->
    Told = text((answer([{[?ROOT], 1}]))#{words_error => 12500}),
    ?assertMatch({_, _}, binary:match(Told, <<"1.91 MB (+- 10.0%) allocated">>)).

a_share_of_the_processes_is_told_test() ->
    Told = text((answer([{[?ROOT], 1}]))#{share => 4}),
    ?assertMatch({_, _}, binary:match(Told, <<"\n1 in 4 processes is traced and counts 4 times">>)),
    ?assertEqual(nomatch, binary:match(text(answer([{[?ROOT], 1}])), <<"is traced">>)).

what_is_in_step_is_named_with_its_share_test() ->
    Answer = answer([{[?ROOT], 100}]),
    Told = text(Answer#{in_step => [{self(), 30}, {?ROOT, 20}]}),
    Who = list_to_binary(["may be in step: ", pid_to_list(self()), " and 1 more, with 50.0% of"]),
    ?assertMatch({_, _}, binary:match(Told, Who)),
    Kind = text(Answer#{in_step => [{?ROOT, 20}]}),
    ?assertMatch({_, _}, binary:match(Kind,
        <<"may be in step: processes that begin with shop:loop/0, with 20.0%">>)),
    ?assertEqual(nomatch, binary:match(text(Answer#{in_step => [{?ROOT, 0}]}), <<"in step">>)).

losses_are_told_from_one_percent_on_test() ->
    Answer = answer([{[?ROOT], 99}]),
    Lost = maps:get(lost, Answer),
    Told = text(Answer#{lost := Lost#{dropped_words := 1, unreadable := 1, events := 2}}),
    [?assertMatch({_, {_, _}}, {Part, binary:match(Told, Part)}) || Part <- [
        <<"1.0% of the bytes are in no stack below: there was no room">>,
        <<"10.0% of the processes to sample could not be read">>,
        <<"20.0% of the collections are not counted">>]],
    Left = text(Answer#{lost := Lost#{left_alone := 2}}),
    ?assertMatch({_, _}, binary:match(Left, <<"which are not measured: 2\n">>)),
    Few = text(Answer#{lost := Lost#{other_stacks_words := 0}}),
    ?assertEqual(nomatch, binary:match(Few, <<" of the ">>)).

no_sample_says_what_to_do_test() ->
    ?assertMatch({_, _}, binary:match(text(answer([])), <<"no stack: measure longer">>)).

a_limit_is_told_and_the_end_of_its_time_is_not_test() ->
    Told = text((answer([]))#{ended => {limit, max_cpu_percent}}),
    ?assertMatch({_, _}, binary:match(Told, <<"ended early: its limit max_cpu_percent was">>)),
    ?assertEqual(nomatch, binary:match(text((answer([]))#{ended => {limit, max_seconds}}),
        <<"ended early">>)).

collections_have_length_process_cause_and_stack_test() ->
    Text = text(answer([])),
    [?assertMatch({_, {_, _}}, {Part, binary:match(Text, Part)}) || Part <- [
        <<"\n3 minor and 1 major collections took 7 ms of 2,000, the longest 5.3 ms\n",
            "  minor ones: half took at most 640 us, 99 % at most 642 us, "
            "99.9 % at most 642 us\n", "  causes: 75.0% heap full, 25.0% on request\n">>,
        list_to_binary(["\n  share      minor      major     longest  process\n"
            "  50.0%      2,000          1      0.6 ms  ", pid_to_list(self()),
            " shop shop:loop/0\n"
            "\n  the longest:\n"]),
        list_to_binary(["      5.3 ms  major, ", pid_to_list(self()), " of 23.4 KB, heap full\n",
            "              shop:basket/1:12 < shop:loop/0\n"])]].

no_line_ends_in_blanks_test() ->
    ?assertEqual(nomatch, re:run(text(answer([{[?LEAF, ?ROOT], 750}])), " \n")).

collapsed_lines_begin_with_the_root_test() ->
    Quoted = {'a;b', c, 0, 1},
    ?assertEqual(<<"shop:loop/0;shop:basket/1:12 750\n'a:b':c/0:1 5\n">>,
        unicode:characters_to_binary(flame_prof_allocations_text:collapsed(
            answer([{[?LEAF, ?ROOT], 750}, {[Quoted], 5}])))).

json_has_texts_for_terms_test() ->
    Answer = (answer([{[?LEAF, ?ROOT], 750}]))#{in_step => [{self(), 10}]},
    Pid = list_to_binary(pid_to_list(self())),
    Named = <<Pid/binary, " shop shop:loop/0">>,
    Json = flame_prof_allocations_text:json(Answer),
    ?assertMatch(#{
        stacks := [#{stack := [<<"shop:basket/1:12">>, <<"shop:loop/0">>], words := 750}],
        in_step := [#{who := Pid, words := 10}],
        collections := #{processes := [#{process := Named, minor := 2000, major := 1,
            microseconds := 961, longest_microseconds := 642}]},
        ended := <<"asked">>
    }, Json),
    ?assertNotEqual(<<>>, iolist_to_binary(flame_prof_json:encode(Json))).

names_are_printed_as_those_of_hot_are_test() ->
    Leaf = {'Elixir.Shop.Pool', handle_call, 3, 12},
    Answer = (answer([{[Leaf, ?ROOT], 750}]))#{names => #{self() => #{
        registered_name => 'Elixir.Shop.Pool', initial_call => {'Elixir.Shop.Pool', init, 1}}}},
    Text = text(Answer),
    ?assertMatch({_, _}, binary:match(Text, <<"Shop.Pool.handle_call/3">>)),
    ?assertMatch({_, _}, binary:match(Text, <<" Shop.Pool Shop.Pool.init/1">>)),
    ?assertEqual(nomatch, binary:match(Text, <<"Elixir.">>)).

text(Answer) -> unicode:characters_to_binary(flame_prof_allocations_text:format(Answer)).

%% A fifth of each stack has survived.
answer(Stacks) ->
    #{stacks => Stacks,
        survived => [{Stack, Words div 5, Words} || {[?LEAF | _] = Stack, Words} <- Stacks],
        messages => [], processes => [{self(), Words} || {_, Words} <- lists:sublist(Stacks, 1)],
        names => #{self() => #{registered_name => shop, initial_call => {shop, loop, 0}}},
        words => 250000, words_error => 0, share => 1, samples => length(Stacks), bytes => 524288,
        milliseconds => 2000, in_step => [],
        collections => #{minor => 3, major => 1, milliseconds => 7, longest_microseconds => 5300,
            longest => [#{process => self(), kind => major, cause => heap, microseconds => 5300,
                words => 3000, stack => [?LEAF, ?ROOT]}],
            processes => [#{process => self(), minor => 2000, major => 1, microseconds => 961,
                longest_microseconds => 642}],
            causes => #{heap => 3, other => 1},
            lengths => #{
                minor => flame_prof_histogram:new([{635000, 645000, 2}, {641000, 643000, 1}],
                    1922000, 642000),
                major => flame_prof_histogram:new([], 0, 0)}},
        lost => #{dropped_words => 0, unreadable => 0, other_stacks_words => 0, events => 0,
            left_alone => 0},
        looks => 10, look_ns => 1000, ended => asked}.
