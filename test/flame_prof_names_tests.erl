-module(flame_prof_names_tests).

-include_lib("eunit/include/eunit.hrl").

elixir_is_shown_the_elixir_way_test_() ->
    [
        ?_assertEqual(Shown, flame_prof_names:function(Name))
     || {Name, Shown} <- [
            {<<"Elixir.Foo.Bar:baz/1">>, <<"Foo.Bar.baz/1">>},
            {<<"Elixir.Foo.Bar:baz/1:99">>, <<"Foo.Bar.baz/1:99">>},
            {<<"Elixir.Foo:-run/2-fun-0-/1">>, <<"anonymous fn/1 in Foo.run/2">>},
            {"Elixir.MyApp.Repo", <<"MyApp.Repo">>},
            {<<"Elixir.Foo:é?/0"/utf8>>, <<"Foo.é?/0"/utf8>>},
            {<<"Elixir.Foo:", 255>>, <<"Foo.", 255>>},
            {<<255>>, <<255>>},
            {<<"lists:map/2">>, <<"lists:map/2">>},
            {<<"m:-f/1-fun-0-/2">>, <<"m:-f/1-fun-0-/2">>},
            {<<"Elixir:f/0">>, <<"Elixir:f/0">>},
            {<<>>, <<>>}
        ]
    ].

names_of_a_process_for_a_person_test() ->
    Parent = self(),
    Pid = proc_lib:spawn(fun() ->
        set_label({worker, 7}),
        Parent ! ready,
        receive
            stop -> ok
        end
    end),
    receive
        ready -> ok
    end,
    Shown = lists:flatten(flame_prof_names:show(Pid)),
    ?assertEqual(0, string:str(Shown, pid_to_list(Pid)) - 1),
    ?assertNotEqual(nomatch, string:find(Shown, "flame_prof_names_tests:-names_of")),
    ?assertEqual(has_labels(), string:find(Shown, "{worker,7}") =/= nomatch),
    true = register('Elixir.My.Worker', Pid),
    ?assertNotEqual(nomatch, string:find(lists:flatten(flame_prof_names:show(Pid)), " My.Worker ")),
    Monitor = monitor(process, Pid),
    Pid ! stop,
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    end,
    ?assertEqual(pid_to_list(Pid), lists:flatten(flame_prof_names:show(Pid))).

has_labels() ->
    erlang:function_exported(proc_lib, set_label, 1).

set_label(Label) ->
    ProcLib = proc_lib,
    case has_labels() of
        true -> ProcLib:set_label(Label);
        false -> ok
    end.
