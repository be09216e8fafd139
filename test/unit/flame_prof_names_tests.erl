-module(flame_prof_names_tests).

-include_lib("eunit/include/eunit.hrl").

elixir_is_shown_the_elixir_way_test_() ->
    [?_assertEqual(Shown, flame_prof_names:function(Name))
     || {Name, Shown} <- [{<<"Elixir.Foo.Bar:baz/1">>, <<"Foo.Bar.baz/1">>},
            {<<"Elixir.Foo.Bar:baz/1:99">>, <<"Foo.Bar.baz/1:99">>},
            {<<"Elixir.Foo:-run/2-fun-0-/1">>, <<"anonymous fn/1 in Foo.run/2">>},
            {"Elixir.MyApp.Repo", <<"MyApp.Repo">>},
            {<<"Elixir.Foo:é?/0"/utf8>>, <<"Foo.é?/0"/utf8>>},
            {<<"Elixir.Foo:", 255>>, <<"Foo.", 255>>},
            {<<255>>, <<255>>},
            {<<"lists:map/2">>, <<"lists:map/2">>},
            {<<"m:-f/1-fun-0-/2">>, <<"m:-f/1-fun-0-/2">>},
            {<<"Elixir:f/0">>, <<"Elixir:f/0">>},
            {<<>>, <<>>}]].

what_is_printed_can_be_typed_back_test_() ->
    [?_assertEqual(Shown, unicode:characters_to_binary(flame_prof_names:printed(Name)))
     || {Name, Shown} <- [{'Elixir.Shop.Stock', <<"Shop.Stock">>},
            {my_server, <<"my_server">>},
            {'my server', <<"'my server'">>},
            {{'Elixir.Shop', 'add!'}, <<"Shop.add!">>},
            {{'Elixir.Shop', 'add!', 2}, <<"Shop.add!/2">>},
            {{m, 'F', 2}, <<"m:'F'/2">>},
            {{m, f}, <<"m:f">>}]].

names_of_a_process_for_a_person_test() ->
    Parent = self(),
    Pid = proc_lib:spawn(fun() ->
        set_label({worker, 7}),
        Parent ! ready,
        receive stop -> ok end
    end),
    receive ready -> ok end,
    Shown = lists:flatten(flame_prof_names:show(Pid)),
    ?assertEqual(0, string:str(Shown, pid_to_list(Pid)) - 1),
    ?assertNotEqual(nomatch, string:find(Shown, "flame_prof_names_tests:-names_of")),
    ?assertEqual(has_labels(), string:find(Shown, "{worker,7}") =/= nomatch),
    true = register('Elixir.My.Worker', Pid),
    ?assertNotEqual(nomatch, string:find(lists:flatten(flame_prof_names:show(Pid)), " My.Worker ")),
    Monitor = monitor(process, Pid),
    Pid ! stop,
    receive {'DOWN', Monitor, process, Pid, _} -> ok end,
    ?assertEqual(pid_to_list(Pid), lists:flatten(flame_prof_names:show(Pid))).

%% The limit is more than the test's: only an answer of all ends it in time.
labels_are_there_when_all_have_answered_test() ->
    in_processes(20, fun(Pids) ->
        Labels = flame_prof_names:labels(Pids, 3600000),
        Expected = maps:from_list([{Pid, {worker, N}}
            || {N, Pid} <- lists:zip(lists:seq(1, 20), Pids), has_labels()]),
        ?assertEqual(Expected, Labels),
        ?assertEqual(#{}, flame_prof_names:labels([], 3600000))
    end).

no_more_than_a_thousand_are_asked_test() ->
    in_processes(1001, fun(Pids) ->
        Labels = flame_prof_names:labels(Pids, 3600000),
        Expected = [Pid || Pid <- lists:droplast(Pids), has_labels()],
        ?assertEqual(lists:sort(Expected), lists:sort(maps:keys(Labels)))
    end).

nothing_comes_after_the_labels_test() ->
    in_processes(20, fun(Pids) ->
        _ = flame_prof_names:labels(Pids, 0),
        receive
            Late -> ?assertEqual(nothing, Late)
        after 100 -> ok
        end
    end).

%% Each labelled with its number.
in_processes(Count, Test) ->
    Self = self(),
    Pids = [proc_lib:spawn_link(fun() ->
        set_label({worker, N}),
        Self ! {self(), ready},
        receive stop -> ok end
    end) || N <- lists:seq(1, Count)],
    _ = [receive {Pid, ready} -> ok end || Pid <- Pids],
    try Test(Pids)
    after
        _ = [begin unlink(Pid), exit(Pid, kill) end || Pid <- Pids]
    end.

has_labels() -> erlang:function_exported(proc_lib, set_label, 1).

set_label(Label) ->
    ProcLib = proc_lib,
    case has_labels() of true -> ProcLib:set_label(Label); false -> ok end.
