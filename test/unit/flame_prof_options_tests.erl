-module(flame_prof_options_tests).

-ifdef(PROPER).
-include_lib("proper/include/proper.hrl").
-endif.
-include_lib("eunit/include/eunit.hrl").

defaults_test() ->
    {ok, Options} = flame_prof_options:validate(#{}),
    ?assertEqual(#{sample_interval => 9, flush_interval => 15000, node_interval => 5000,
            flushes_per_file => 8, max_file_bytes => 134217728, max_files => 15,
            max_total_bytes => 1073741824, sync => close, compress => zstd, coalesce_idle => false,
            memory_budget => 100663296, collapse_recursion => true, select => {top, 100, 5000},
            growers => 25, process_options => #{status => all, follow => none}, include => [],
            follow_limits => #{processes => 200, events => 100000, seconds => 60}, triggers => [],
            duration => infinity, lookback => 0,
            cpu_budget => 2.0, mode => processes, running_stacks => true, c_frames => true,
            messages => true, otel => false, allocations => off, engine => auto},
        maps:remove(dir, Options)).

undefined_and_nil_are_left_out_test_() ->
    [{atom_to_list(None), fun() ->
        All = maps:from_list([{Key, None} || Key <- flame_prof_options:names()]),
        ?assertEqual(flame_prof_options:validate(#{}), flame_prof_options:validate(All)),
        Inner = #{select => maps:from_list([{Key, None}
                || Key <- [top, by, delta, interval, include, exclude]]),
            process_options => #{status => None, follow => None, viral => None},
            follow_limits => #{processes => None, events => None, seconds => None},
            allocations => #{bytes => None, long_gc_us => None, max_cpu_percent => None},
            triggers => #{on => long_gc, above => 7, duration => None, cooldown => None}},
        ?assertEqual(flame_prof_options:validate(#{select => #{}, allocations => #{},
                triggers => #{on => long_gc, above => 7}}),
            flame_prof_options:validate(Inner))
    end} || None <- [undefined, nil]].

growers_are_a_quarter_of_the_selected_at_most_and_none_of_maps_test_() ->
    [{lists:flatten(io_lib:format("~0tp", [Given])), fun() ->
        {ok, Options} = flame_prof_options:validate(Given),
        ?assertEqual(Places, flame_prof_options:growers(Options))
    end}
     || {Given, Places} <- [{#{}, 25}, {#{select => {top, 400}}, 25}, {#{select => {top, 40}}, 10},
            {#{select => {top, 3, 1000}}, 0}, {#{select => {top, 0}}, 0},
            {#{select => {top, 1000}, growers => 100}, 100},
            {#{select => {top, 100}, growers => 100}, 25}, {#{growers => 0}, 0},
            {#{select => #{top => 100}}, 0}, {#{select => [#{top => 100}]}, 0},
            {#{select => [#{top => 60}, #{top => 60, by => memory}], growers => 100}, 30}]].

an_unknown_key_is_refused_even_when_it_is_undefined_test() ->
    ?assertMatch({error, {bad_option, #{option := sample_rate}}},
        flame_prof_options:validate(#{sample_rate => undefined})).

older_names_are_accepted_test_() ->
    [{atom_to_list(Old), fun() ->
        Triggers = #{triggers => #{on => busy_port}},
        {ok, Expected} = flame_prof_options:validate(Triggers#{New => Value}),
        ?assertEqual({ok, Expected}, flame_prof_options:validate(Triggers#{Old => Older})),
        {ok, Defaults} = flame_prof_options:validate(Triggers),
        ?assertNotEqual(Defaults, Expected)
    end}
     || {Old, Older, New, Value} <- [
            {basename, "/tmp/x", dir, "/tmp/x"}, {flush_close_max, 3, flushes_per_file, 3},
            {file_max_bytes, 2097152, max_file_bytes, 2097152}, {files_max, 3, max_files, 3},
            {total_max_bytes, 9999999, max_total_bytes, 9999999},
            {idle_samples, changes, coalesce_idle, true},
            {flatten_recursive, false, collapse_recursion, false},
            {auto_select, {top, 3}, select, {top, 3}},
            {auto_process_opts, #{viral => true}, process_options, #{follow => spawn_and_send}},
            {always, [init], include, [init]},
            {viral_limits, #{events => 5}, follow_limits, #{events => 5}},
            {pre_roll, 5000, lookback, 5000},
            {native_frames, false, c_frames, false}]].

every_older_name_is_tested_test() ->
    ?assertEqual(13, length(flame_prof_options:names() -- flame_prof_options:keys())).

an_error_names_the_option_as_it_was_given_test_() ->
    [?_assertMatch({error, {bad_option, #{option := Name}}}, flame_prof_options:validate(Given))
     || {Given, Name} <- [{#{files_max => 0}, files_max}, {#{idle_samples => true}, idle_samples},
            {#{auto_select => #{by => stack_size}}, {auto_select, by}},
            {#{auto_process_opts => #{viral => 7}}, {auto_process_opts, viral}}]].

two_names_of_one_option_are_refused_test() ->
    {error, {bad_option, #{option := basename, accepted := Why}}} =
        flame_prof_options:validate(#{dir => "/tmp/x", basename => "/tmp/x"}),
    ?assertNotEqual(nomatch, string:find(Why, "one of dir and basename")),
    ?assertMatch({error, {bad_option, #{option := {process_options, viral}}}},
        flame_prof_options:validate(#{process_options => #{follow => none, viral => none}})),
    ?assertMatch({ok, #{dir := <<"/tmp/x">>}},
        flame_prof_options:validate(#{dir => undefined, basename => "/tmp/x"})).

an_error_of_select_names_the_key_test_() ->
    [?_assertMatch({error, {bad_option, #{option := {select, Key}}}},
            flame_prof_options:validate(#{select => Given}))
     || {Key, Given} <- [
            {by, #{by => stack_size}}, {top, #{top => 10001}}, {delta, [#{}, #{delta => yes}]},
            {frequency, #{frequency => 7}}, {include, #{include => {name, x}}},
            {top, #{include => {module, m}, top => 501}}, {top, [#{top => 6000}, #{top => 6000}]}]].

the_normal_form_is_accepted_as_it_is_test_() ->
    [fun() ->
        {ok, Options} = flame_prof_options:validate(Given),
        ?assertEqual({ok, Options}, flame_prof_options:validate(Options))
    end
     || Given <- [#{}, #{select => #{by => memory}}, #{select => [#{}, #{top => 5}]},
         #{flushes_per_file => 0, process_options => #{follow => true}, sample_interval => 60000},
         #{triggers => [#{on => run_queue, above => 5}, #{on => {m, f}}], lookback => 1000}]].

the_environment_replaces_defaults_only_test_() ->
    [?_assertMatch({ok, #{max_files := Files}}, flame_prof_options:validate(Given, Environment))
     || {Given, Environment, Files} <- [
            {#{}, #{}, 15}, {#{}, #{max_files => 7}, 7}, {#{max_files => 3}, #{max_files => 7}, 3},
            {#{max_files => undefined}, #{max_files => 7}, 7},
            {#{max_files => nil}, #{max_files => 7}, 7}, {#{max_files => 3}, #{files_max => 7}, 3},
            {#{files_max => 3}, #{max_files => 7}, 3}, {#{}, #{max_files => undefined}, 15}]].

a_mistake_in_the_environment_is_not_the_callers_test_() ->
    [?_assertMatch({error, {Class, #{option := Option}}},
            flame_prof_options:validate(Given, Environment))
     || {Given, Environment, Class, Option} <- [
            {#{}, #{foo => 1}, bad_env, foo}, {#{}, #{max_files => 0}, bad_env, max_files},
            {#{max_files => 3}, #{max_files => 0}, bad_env, max_files},
            {#{}, #{dir => "x", basename => "y"}, bad_env, basename},
            {#{}, #{lookback => 5000}, bad_env, lookback},
            {#{}, #{mode => schedulers, engine => portable}, bad_env, mode},
            {#{sample_interval => 7}, #{flush_interval => 900}, bad_env, flush_interval},
            {#{sample_interval => 20000}, #{flush_interval => 15000}, bad_option, flush_interval},
            {#{mode => schedulers}, #{engine => portable}, bad_option, mode},
            {#{max_files => 0}, #{max_files => 7}, bad_option, max_files}]].

a_tilde_is_the_home_directory_test() ->
    with_home("/home/somebody", fun() ->
        ?assertEqual(<<"/home/somebody/prof">>, value(dir, "~/prof")),
        ?assertEqual(<<"/home/somebody/prof">>, value(dir, <<"~/prof">>)),
        ?assertEqual(<<"/home/somebody">>, value(dir, "~")),
        ?assertEqual(<<"/home/somebody/etc">>, value(dir, "~//etc")),
        ?assertEqual({ok, <<"/home/somebody/x.log">>}, flame_prof_samples:path("~/x.log")),
        ?assertEqual({ok, <<"~x.log">>}, flame_prof_samples:path(<<"~x.log">>)),
        ?assertEqual(<<"/tmp/~x">>, value(dir, "/tmp/~x")),
        refused(dir, "~somebody/prof")
    end),
    with_home(false, fun() ->
        refused(dir, "~/prof"),
        ?assertMatch({error, _}, flame_prof_samples:path("~/prof"))
    end).

files_go_to_the_home_directory_test() ->
    with_home("/home/somebody", fun() ->
        ?assertEqual(<<"/home/somebody/flame_prof">>, value(dir, undefined))
    end).

without_a_home_files_go_to_the_current_directory_test() ->
    with_home(false, fun() -> ?assertEqual(<<"./flame_prof">>, value(dir, undefined)) end).

with_home(Home, Test) ->
    Before = os:getenv("HOME"),
    set_home(Home),
    try Test()
    after set_home(Before)
    end.

set_home(false) -> os:unsetenv("HOME");
set_home(Home) -> os:putenv("HOME", Home).

accepted_test_() ->
    [{lists:flatten(io_lib:format("~p ~0tp", [Key, Given])), ?_assertEqual(Kept, value(Key, Given))}
     || {Key, Given, Kept} <- [{dir, "/tmp/x", <<"/tmp/x">>}, {dir, <<"/tmp/x">>, <<"/tmp/x">>},
            {dir, "relative", <<"relative">>}, {dir, [$/, 16#444, 16#1f525], <<"/ф🔥"/utf8>>},
            {dir, <<"/ф🔥"/utf8>>, <<"/ф🔥"/utf8>>}, {dir, "with blank", <<"with blank">>},
            {sample_interval, 1, 1}, {flushes_per_file, infinity, infinity},
            {flushes_per_file, 0, infinity}, {flushes_per_file, 1, 1},
            {max_files, infinity, infinity}, {max_files, 1, 1},
            {max_file_bytes, infinity, infinity}, {max_file_bytes, 1048576, 1048576},
            {max_total_bytes, infinity, infinity}, {max_total_bytes, 4194304, 4194304},
            {sync, none, none}, {sync, flush, flush}, {compress, none, none},
            {coalesce_idle, true, true}, {memory_budget, 48420352, 48420352}, {growers, 0, 0},
            {growers, 100, 100}, {collapse_recursion, false, false},
            {select, {top, 1}, {top, 1, 5000}}, {select, {top, 0}, {top, 0, 5000}},
            {select, {top, 10000, 100}, {top, 10000, 100}}, {select, #{}, rule(#{})},
            {select, #{by => memory}, rule(#{by => memory, delta => false})},
            {select, #{by => minor_gcs, top => 3}, rule(#{by => minor_gcs, top => 3})},
            {select, [#{top => 5, interval => 100}, #{by => memory, delta => true}], [
                rule(#{top => 5, interval => 100}), rule(#{by => memory})]},
            {select, [#{interval => 500}, #{interval => 749}, #{interval => 751}, #{top => 0,
                interval => 100}], [
                rule(#{interval => 500}), rule(#{interval => 500}), rule(#{interval => 1000}),
                rule(#{top => 0, interval => 100})]},
            {select, #{include => {module, m}}, rule(#{include => [{module, m}]}, 100)},
            {select, #{exclude => [{initial_call, {m, f, 3}}, {application, a}]},
                rule(#{exclude => [{initial_call, {m, f, 3}}, {application, a}]}, 100)},
            {process_options, #{}, process(all, none)},
            {process_options, #{status => undefined, follow => undefined}, process(all, none)},
            {process_options, #{follow => true}, process(all, spawn_and_send)},
            {process_options, #{follow => false}, process(all, none)},
            {process_options, #{follow => send}, process(all, send)},
            {process_options, #{status => garbage_collecting}, process(garbage_collecting, none)},
            {include, init, [init]}, {include, [init, self()], [init, self()]},
            {include, "<0.0.0>", [whereis(init)]},
            {include, [{0, 0, 0}, {global, g}], [whereis(init), {global, g}]},
            {include, {via, global, g}, [{via, global, g}]},
            {follow_limits, #{}, #{processes => 200, events => 100000, seconds => 60}},
            {follow_limits, #{events => 5, seconds => undefined},
                #{processes => 200, events => 5, seconds => 60}},
            {triggers, [], []},
            {triggers, #{on => run_queue, above => 50}, [
                trigger(#{on => run_queue, above => 50, below => 40.0})]},
            {triggers, [#{on => busy_port, interval => undefined},
                #{on => long_gc, above => 7, duration => 5000}], [
                trigger(#{on => busy_port}), trigger(#{on => long_gc, above => 7, duration => 5000})
            ]},
            {triggers, #{on => {m, f}}, [trigger(#{on => {m, f}})]},
            {triggers, #{on => {m, f}, above => -10},
                [trigger(#{on => {m, f}, above => -10, below => -12.0})]},
            {triggers, #{on => fun erlang:node/0, cooldown => 0, timeout => 10}, [
                trigger(#{on => fun erlang:node/0, cooldown => 0, timeout => 10})]},
            {cpu_budget, 0.1, 0.1}, {cpu_budget, 5, 5}, {cpu_budget, infinity, infinity},
            {mode, schedulers, schedulers}, {mode, cpu, schedulers}, {running_stacks, false, false},
            {c_frames, false, false}, {messages, false, false}, {engine, native, native},
            {engine, portable, portable}]].

rule(Given) -> rule(Given, 100).

rule(Given, Top) ->
    maps:merge(#{top => Top, by => reductions, delta => true, interval => 5000, include => [],
            exclude => []},
        Given).

trigger(Given) ->
    maps:merge(#{interval => 1000, duration => 30000, cooldown => 60000, max_per_hour => 4,
            timeout => 1000},
        Given).

process(Status, Follow) -> #{status => Status, follow => Follow}.

value(Key, Given) ->
    {ok, #{Key := Value}} = flame_prof_options:validate(#{Key => Given}),
    Value.

refused_test_() ->
    Huge = 1 bsl 200,
    [{lists:flatten(io_lib:format("~p ~0tP", [Key, Given, 12])), fun() -> refused(Key, Given) end}
     || {Key, Values} <- [{dir, [
                "", <<>>, "a\0b", <<"a\nb">>, [$a, 16#9b, $b], [$a | $b], [$a, -1], [16#d800],
                [16#110000], [foo], <<255>>, foo, 7, lists:duplicate(4001, $a), [Huge]]},
            {sample_interval, [0, -1, 60001, Huge, 9.0, "9", infinity]},
            {flush_interval, [0, 1008, 86400001, Huge, infinity]},
            {node_interval, [0, 999, 86400001, Huge, infinity]},
            {flushes_per_file, [-1, Huge, 1.0, all]}, {max_files, [0, -1, Huge, all]},
            {max_file_bytes, [0, 1048575, Huge, 1.0e7, all]},
            {max_total_bytes, [0, 4194303, Huge, "5000000"]}, {sync, [true, always, "flush"]},
            {coalesce_idle, [none, changes, 1]}, {growers, [-1, 101, 2.0, infinity, all]},
            {memory_budget, [0, -1, 48420351, Huge, infinity, 64.0e6]},
            {compress, [gzip, true, {zstd, 3}]}, {collapse_recursion, [yes, 1, "true"]},
            {select, [{top}, {top, -1}, {top, 10001}, {top, Huge}, {top, 1, 0}, {top, 1, 99},
                {top, 1, Huge}, {top, 1, 1000, x}, {bottom, 1}, none, [top | 1], [], #{top => -1},
                #{top => 10001}, #{by => stack_size}, #{by => 7}, #{delta => yes},
                #{interval => 99}, #{frequency => 7}, #{include => {name, x}},
                #{include => {module, "m"}}, #{include => {initial_call, {m, f, 256}}},
                #{exclude => [{module, m} | x]}, #{include => {module, m}, top => 501},
                [#{top => 6000}, #{top => 6000}], [#{}, {top, 1}], [#{} | #{}],
                lists:duplicate(9, #{top => 1})]},
            {process_options, [[status], all, [{status, all} | x], {}]},
            {include, [7, [1, 2], [init | self()], lists:duplicate(101, init), make_ref()]},
            {follow_limits, [[events], all, 7]},
            {triggers, [all, run_queue, [run_queue], [#{on => busy_port} | x],
                lists:duplicate(33, #{on => busy_port})]},
            {lookback, [-1, 1, 999, 60001, 1.0e4, infinity, 5000]},
            {cpu_budget, [0, 0.05, -1, 6401, "2", none]}, {mode, [threads, "schedulers", true]},
            {running_stacks, [yes, 1, "true"]}, {c_frames, [yes, 1, "true"]},
            {messages, [yes, 1, "true"]}, {engine, [nif, "auto", true]}],
        Given <- Values].

refused(Key, Given) ->
    {error, {bad_option, #{option := Option, accepted := Accepted, value := Value}}} =
        flame_prof_options:validate(#{Key => Given}),
    case Option of
        Key -> ?assertEqual({flame_prof_options:accepts(Key), Given}, {Accepted, Value});
        {Outer, _} -> ?assertEqual({Key, true}, {Outer, is_binary(Accepted)})
    end.

%% Where refused_test_ and a_bad_trigger_is_named_test_ are one beyond it.
the_least_and_the_most_are_accepted_test_() ->
    Rule = fun(More) -> #{select => More} end,
    Trigger = fun(More) -> #{triggers => maps:merge(#{on => busy_port}, More)} end,
    Level = fun(On, Above) -> #{triggers => #{on => On, above => Above}} end,
    [{lists:flatten(io_lib:format("~0tP", [Given, 20])),
        ?_assertMatch({ok, _}, flame_prof_options:validate(Given))}
     || Given <- [#{Key => Value} || {Key, Values} <- [
            {sample_interval, [1, 60000]}, {flush_interval, [1009, 86400000]},
            {node_interval, [1000, 86400000]}, {growers, [0, 100]}, {cpu_budget, [0.1, 6400]},
            {select, [{top, 0, 100}, {top, 10000, 86400000}]},
            {include, [lists:duplicate(100, init)]},
            {follow_limits, [#{processes => 1}, #{processes => 400}]},
            {triggers, [lists:duplicate(32, #{on => busy_port})]}], Value <- Values] ++
        [(Trigger(#{}))#{lookback => Ms} || Ms <- [1000, 60000]] ++
        [Rule(More) || More <- [#{top => 0, interval => 100}, #{top => 10000, interval => 86400000},
            #{include => {module, m}, top => 500}, [#{top => 5000}, #{top => 5000}],
            lists:duplicate(8, #{top => 1}), #{include => lists:duplicate(100, {module, m})},
            #{include => {initial_call, {m, f, 0}}}, #{exclude => {initial_call, {m, f, 255}}},
            #{exclude => {initial_call, {m, f}}}, #{include => {initial_call, m}}]] ++
        [Trigger(More) || More <- [#{interval => 100}, #{interval => 3600000}, #{duration => 1000},
            #{duration => 86400000}, #{cooldown => 0}, #{cooldown => 86400000},
            #{max_per_hour => 1}, #{max_per_hour => 1000}, #{timeout => 10}, #{timeout => 60000},
            #{on => run_queue, above => 5, below => 5}]] ++
        [Level(run_queue, 1), Level(memory, 1152921504606846975), Level(long_gc, 1),
            Level(scheduler_utilisation, 100), Level(rss_percent, 0.1),
            Level({m, f}, -1152921504606846975)]].

conditions_that_are_none_are_refused_test_() ->
    [?_assertMatch({error, {bad_option, #{option := {select, include}}}},
        flame_prof_options:validate(#{select => #{include => Given}}))
     || Given <- [lists:duplicate(101, {module, m}), {registered_name, "a"}, {application, "a"},
            {initial_call, {m, f, -1}}, {initial_call, {m, f, 1.0}}, {initial_call, {"m", f, 1}},
            {initial_call, {m, "f", 1}}, {initial_call, {"m", f}}, {initial_call, {m, "f"}},
            {initial_call, "m"}]].

flush_interval_leaves_a_second_after_a_sample_test() ->
    ?assertMatch({ok, _}, flame_prof_options:validate(#{sample_interval => 500,
        flush_interval => 1500})),
    ?assertMatch({error, {bad_option, #{option := flush_interval}}},
        flame_prof_options:validate(#{sample_interval => 500, flush_interval => 1499})),
    ?assertMatch({error, {bad_option, #{option := flush_interval}}},
        flame_prof_options:validate(#{sample_interval => 20000, flush_interval => 15000})).

the_default_of_flush_interval_leaves_that_second_test() ->
    [?assertMatch({ok, #{flush_interval := Flush}},
            flame_prof_options:validate(#{sample_interval => Sample}))
     || {Sample, Flush} <- [{9, 15000}, {14000, 15000}, {14001, 15001}, {60000, 61000}]].

an_unknown_key_is_named_test() ->
    {error, {bad_option, #{option := sample_intervall, accepted := Why}}} =
        flame_prof_options:validate(#{sample_intervall => 9}),
    ?assertMatch({_, _}, binary:match(Why, <<"sample_interval">>)).

an_unknown_key_may_be_any_term_test() ->
    ?assertMatch({error, {bad_option, #{option := [a | b]}}},
        flame_prof_options:validate(#{[a | b] => 1})).

an_unknown_process_option_is_named_test() ->
    ?assertMatch({error, {bad_option, #{option := {process_options, virus}}}},
        flame_prof_options:validate(#{process_options => #{virus => true, status => all}})),
    ?assertMatch({error, {bad_option, #{option := {process_options, follow},
            accepted := <<"none, spawn, send or ", _/binary>>}}},
        flame_prof_options:validate(#{process_options => #{follow => sometimes}})),
    ?assertMatch({error, {bad_option, #{option := {process_options, status},
            accepted := <<"all, waiting, ", _/binary>>}}},
        flame_prof_options:validate(#{process_options => #{status => asleep}})).

a_bad_limit_is_named_test() ->
    [?assertMatch({error, {bad_option, #{option := {follow_limits, Key}}}},
            flame_prof_options:validate(#{follow_limits => #{Key => Value}}))
     || {Key, Value} <- [{processes, 0}, {processes, 401}, {events, many}, {seconds, 1.5},
         {minutes, 1}]].

what_is_no_map_is_refused_test_() ->
    [?_assertMatch({error, {bad_option, #{option := options}}}, flame_prof_options:validate(Given))
     || Given <- [[sample_interval], [{"sample_interval", 9}], foo, <<>>, 7, [a | b]]].

%% As Elixir writes options. Of one that is given twice the first counts there, too.
a_list_of_pairs_is_a_map_test() ->
    Same = fun(List, Map) ->
        ?assertEqual(flame_prof_options:validate(Map), flame_prof_options:validate(List))
    end,
    Same([], #{}),
    Same([{sample_interval, 11}, {sample_interval, 12}], #{sample_interval => 11}),
    Same([{process_options, [{status, running}]}, {follow_limits, [{events, 7}]}],
        #{process_options => #{status => running}, follow_limits => #{events => 7}}),
    ?assertMatch({error, {bad_option, #{option := nix}}},
        flame_prof_options:validate([{nix, 1}])).

a_bad_trigger_is_named_test_() ->
    [{lists:flatten(io_lib:format("~0tp", [Given])), fun() ->
        {error, {bad_option, #{option := {triggers, Key}, accepted := Why}}} =
            flame_prof_options:validate(#{triggers => Given}),
        ?assertNotEqual(nomatch, string:find(Why, Part), Why)
    end}
     || {Given, Key, Part} <- [{#{}, on, "scheduler_utilisation, run_queue, memory"},
            {#{on => undefined}, on, "a fun without arguments"},
            {#{on => load}, on, "process_count"},
            {#{on => fun(_) -> true end}, on, "a fun without arguments"},
            {#{on => {m, f, 0}}, on, "{Module, Function}"},
            {#{on => run_queue}, above, "for run_queue, a count from 1"},
            {#{on => run_queue, above => 0}, above, "a count from 1"},
            {#{on => run_queue, above => 1.5}, above, "a count from 1"},
            {#{on => memory, above => 1 bsl 200}, above, "bytes from 1"},
            {#{on => memory, above => 1152921504606846976}, above, "bytes from 1"},
            {#{on => {m, f}, above => 1152921504606846976}, above, "a number"},
            {#{on => {"m", f}}, on, "{Module, Function}"},
            {#{on => {m, "f"}}, on, "{Module, Function}"},
            {#{on => busy_port, cooldown => 86400001}, cooldown, "to 86400000"},
            {#{on => scheduler_utilisation, above => 101}, above, "percent"},
            {#{on => fragmentation, above => 101}, above, "percent"},
            {#{on => fragmentation, above => 50, allocator => heap}, allocator, "eheap_alloc"},
            {#{on => fragmentation, above => 50, least_bytes => 0}, least_bytes, "bytes from 1"},
            {#{on => rss, above => 1, allocator => all}, allocator, "no such option"},
            {#{on => rss_percent}, above, "for rss_percent, percent"},
            {#{on => ets_growth, above => 0.5}, above, "bytes from 1"},
            {#{on => atom_count, above => none}, above, "a count from 1"},
            {#{on => scheduler_utilisation, above => 0}, above, "percent"},
            {#{on => long_gc}, above, "whole milliseconds from 1"},
            {#{on => large_heap, above => big}, above, "words from 1"},
            {#{on => {m, f}, above => big}, above, "a number"},
            {#{on => {m, f}, above => 1 bsl 2000}, above, "a number"},
            {#{on => run_queue, above => 5, below => 6}, below, "up to above, 5"},
            {#{on => run_queue, above => 5, below => low}, below, "a number up to above"},
            {#{on => busy_port, above => 1}, above, "no such option; there are: on, interval"},
            {#{on => long_gc, above => 5, below => 1}, below, "no such option; there are: on, above, interval"},
            {#{on => {m, f}, below => 1}, below, "no such option"},
            {#{on => busy_port, cool_down => 1}, cool_down, "cooldown"},
            {#{on => busy_port, interval => 99}, interval, "milliseconds from 100 to 3600000"},
            {#{on => busy_port, duration => 999}, duration, "milliseconds from 1000 to 86400000"},
            {#{on => busy_port, cooldown => -1}, cooldown, "milliseconds from 0"},
            {#{on => busy_port, max_per_hour => 0}, max_per_hour, "a count from 1 to 1000"},
            {#{on => busy_port, timeout => infinity}, timeout, "milliseconds from 10 to 60000"}]].

what_comes_before_needs_something_that_it_is_before_test() ->
    Triggers = #{on => busy_port},
    ?assertMatch({ok, #{lookback := 5000}},
        flame_prof_options:validate(#{triggers => Triggers, lookback => 5000})),
    {error, {bad_option, #{option := lookback, accepted := Why}}} =
        flame_prof_options:validate(#{lookback => 5000}),
    ?assertNotEqual(nomatch, string:find(Why, "with triggers")).

errors_can_be_read_test() ->
    {error, Error} = flame_prof_options:validate(#{sample_interval => 0}),
    Text = unicode:characters_to_binary(flame_prof:format_error(Error)),
    [?assertNotEqual(nomatch, string:find(Text, Part), Text)
        || Part <- ["sample_interval", "whole milliseconds from 1 to 60000"]].

-ifdef(PROPER).

properties_test_() ->
    [{atom_to_list(Name), seeded:property(Property, 500)}
     || {Name, Property} <- [{any_term_gets_an_answer, any_term_gets_an_answer()},
            {any_values_get_an_answer, any_values_get_an_answer()},
            {what_was_accepted_is_accepted_unchanged, what_was_accepted_is_accepted_unchanged()}]].

any_term_gets_an_answer() ->
    ?FORALL(Given, any(), is_answer(flame_prof_options:validate(Given))).

any_values_get_an_answer() ->
    ?FORALL(Given, given(), is_answer(flame_prof_options:validate(Given))).

what_was_accepted_is_accepted_unchanged() ->
    ?FORALL(Given, likely(),
        case flame_prof_options:validate(Given) of
            {ok, Options} -> flame_prof_options:validate(Options) =:= {ok, Options};
            {error, _} -> true
        end).

%% A known key with any value, sometimes an unknown one.
given() ->
    ?LET(Pairs, list({oneof([oneof(flame_prof_options:keys()), any()]), oneof([any(), nearly()])}),
        maps:from_list(Pairs)).

nearly() ->
    oneof([{top, any()},
        {top, integer(), any()},
        [integer() | any()], binary(), ?LET(Bits, range(1, 300), 1 bsl Bits),
        ?LET(Pairs, list({oneof([status, follow, any()]), any()}), maps:from_list(Pairs)),
        ranking(), list(ranking()), trigger(), list(trigger()),
        ?LET(Pairs, list({oneof([processes, events, seconds, junk()]),
            oneof([junk(), range(1, 500)])}), maps:from_list(Pairs))]).

%% No any(): it would fill the table of atoms.
ranking() ->
    Key = oneof([top, by, delta, interval, include, exclude, junk()]),
    Value = oneof([junk(), range(0, 20000), oneof(flame_prof_selection:metrics()), filter()]),
    ?LET(Pairs, list({Key, Value}), maps:from_list(Pairs)).

trigger() ->
    Key = oneof([above, below, interval, duration, cooldown, max_per_hour, timeout, junk()]),
    ?LET({On, Pairs},
        {oneof([run_queue, long_gc, busy_port, {m, f}, fun erlang:node/0, junk()]),
            list({Key, oneof([junk(), range(-5, 5000), ?LET(Bits, range(1, 2000), 1 bsl Bits)])})},
        (maps:from_list(Pairs))#{on => On}).

filter() ->
    Kind = oneof([registered_name, initial_call, module, application, junk()]),
    list({Kind, oneof([a_name, {m, f}, {m, f, 1}, junk()])}).

junk() ->
    oneof([true, false, undefined, junk, -1, 0, 1.5, "text", <<"text">>, {}, [], [a | b], #{}]).

likely() ->
    ?LET({Triggers, Sample, Flush, Close, Files, Top, Engine, Name},
        {list(trigger()), range(0, 70000), range(0, 90000000), oneof([infinity, non_neg_integer()]),
            oneof([infinity, non_neg_integer()]),
            oneof([{top, range(0, 10001)}, {top, range(0, 10001), range(0, 10000)}, undefined,
                ranking(),
                ?LET(Top, range(0, 600), #{top => Top, by => memory, include => [{module, lists}]})
            ]),
            oneof([auto, native, portable]), oneof([undefined, list(range(16#20, 16#d7ff)), utf8()])
        },
        #{sample_interval => Sample, flush_interval => Flush, flushes_per_file => Close,
            max_files => Files, triggers => Triggers, select => Top, engine => Engine, dir => Name}
    ).

is_answer({ok, Options}) ->
    lists:sort(maps:keys(Options)) =:= lists:sort(flame_prof_options:keys());
is_answer({error, {bad_option, #{accepted := Why}} = Error}) ->
    is_binary(Why) andalso Why =/= <<>> andalso
        is_binary(unicode:characters_to_binary(flame_prof:format_error(Error))).

-endif.

schedulers_are_asked_by_the_native_engine_only_test_() ->
    Refused = {error, {bad_option, #{option => mode, value => schedulers,
        accepted => flame_prof_options:accepts(mode)}}},
    [?_assertEqual(Refused, flame_prof_options:validate(Given))
     || Given <- [#{mode => schedulers, running_stacks => false},
            #{mode => schedulers, engine => portable}]].
