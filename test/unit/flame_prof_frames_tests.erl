%% Texts of files, for a person.
-module(flame_prof_frames_tests).

-include_lib("eunit/include/eunit.hrl").

symbols_are_decoded_test_() ->
    [?_assertEqual(Decoded, flame_prof_frames:decode(Symbol))
     || {Symbol, Decoded} <- [{<<"lists:map/2">>, <<"lists:map/2">>},
            {<<"erlang:%2B%2B/2">>, <<"erlang:++/2">>},
            {<<"%D1%84:f/0">>, <<"ф:f/0"/utf8>>},
            {<<"100%25:f/0">>, <<"100%:f/0">>},
            %% Not what we write: as it is.
            {<<"a%zz:f/0">>, <<"a%zz:f/0">>},
            {<<"a%">>, <<"a%">>},
            {<<"a%4">>, <<"a%4">>},
            %% Nothing that a terminal would obey.
            {<<"a%1B[2J:f/0">>, <<"a%1B[2J:f/0">>},
            {<<"a%0A">>, <<"a%0A">>},
            {<<"a%E2%80%AE">>, <<"a%E2%80%AE">>},
            {<<"a%FF">>, <<"a%FF">>}]].

a_function_has_no_line_test_() ->
    [?_assertEqual(Function, flame_prof_frames:function({Symbol, <<"x.erl">>}))
     || {Symbol, Function} <- [{<<"lists:map/2:1239">>, <<"lists:map/2">>},
            {<<"lists:map/2">>, <<"lists:map/2">>},
            {<<"erlang:%2B%2B/2:7">>, <<"erlang:++/2">>},
            {<<"copy_struct">>, <<"copy_struct">>},
            {<<"Elixir.Enum:map/2:3">>, <<"Elixir.Enum:map/2">>}]].

frames_are_of_four_kinds_test_() ->
    [?_assertEqual(Kind, flame_prof_frames:kind({Symbol, Dso}))
     || {Symbol, Dso, Kind} <- [{<<"lists:map/2:1239">>, <<"lists.erl">>, erlang},
            {<<"$lists:map/2">>, <<"/tmp/perf-4242.map">>, erlang},
            {<<"ets:lookup/2">>, <<"bif">>, called},
            {<<"prim_file:read_nif/2">>, <<"nif">>, called},
            {<<"[gc]">>, <<"flame_prof">>, pseudo},
            {<<"copy_struct">>, <<"beam.smp">>, native},
            {<<"operator new(unsigned long)">>, <<"libstdc++.so.6">>, native}]].

a_process_has_the_best_of_its_names_test_() ->
    Process = fun(Texts) ->
        None = #{erl_pid => <<>>, name => <<>>, label => <<>>, initial_call => <<>>,
            proc_lib_initial_call => <<>>, words => <<>>, comm => <<"beam">>, pid => 1, tid => 2},
        flame_prof_frames:process(maps:merge(None, Texts))
    end,
    Pid = #{erl_pid => <<"<0.9.0>">>},
    Called = Pid#{initial_call => <<"proc_lib:init_p/5">>},
    Server = Called#{proc_lib_initial_call => <<"Elixir.Shop:init/1">>},
    [?_assertEqual(<<"<0.9.0>">>, Process(Pid)),
        ?_assertEqual(<<"<0.9.0> proc_lib:init_p/5">>, Process(Called)),
        ?_assertEqual(<<"<0.9.0> Shop.init/1">>, Process(Server)),
        ?_assertEqual(<<"cart <0.9.0>">>, Process(Server#{label => <<"cart">>})),
        ?_assertEqual(<<"Shop.Cart <0.9.0>">>,
            Process(Server#{label => <<"cart">>, name => <<"Elixir.Shop.Cart">>})),
        ?_assertEqual(<<"scheduler 2">>, Process(#{words => <<"scheduler=2">>})),
        ?_assertEqual(<<"beam 1/2">>, Process(#{})),
        ?_assertEqual(<<"swapper">>, Process(#{comm => <<"swapper">>, pid => 0, tid => 0}))].
