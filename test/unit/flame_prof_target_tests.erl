%% Processes as a person names them.
-module(flame_prof_target_tests).

-include_lib("eunit/include/eunit.hrl").

-export([whereis_name/1]).

%% A registry for `via'.
whereis_name(init) -> whereis(init);
whereis_name(nobody) -> undefined;
whereis_name(hangs) -> timer:sleep(infinity);
whereis_name(nonsense) -> 17.

every_form_names_its_process_test_() ->
    Init = whereis(init),
    [?_test(begin
        {ok, [Parsed]} = flame_prof_target:parse(Target),
        ?assertEqual(Init, flame_prof_target:find(Parsed))
    end)
     || Target <- [Init, init, pid_to_list(Init), list_to_binary(pid_to_list(Init)), {0, 0, 0},
            [init], [{0, 0, 0}], ["<0.0.0>"], {via, ?MODULE, init}, "init", <<"init">>, "'init'",
            ["init"], [<<"init">>], "#PID<0.0.0>", <<"#PID<0.0.0>">>]].

%% As it is printed, and as it is.
a_name_of_elixir_names_its_process_test() ->
    Name = 'Elixir.Target.Tests',
    true = register(Name, self()),
    [begin
        {ok, [Parsed]} = flame_prof_target:parse(Target),
        ?assertEqual({Target, self()}, {Target, flame_prof_target:find(Parsed)})
    end || Target <- [Name, "Elixir.Target.Tests", <<"Target.Tests">>, "Target.Tests",
        'Target.Tests']],
    true = unregister(Name),
    ?assertEqual(undefined, flame_prof_target:find(<<"Target.Tests">>)).

%% All looks ask for one here.
each_look_finds_it_and_has_one_error_for_nobody_test() ->
    Nobody = {error, {process, #{target => <<"Nobody.There">>}}},
    Looks = [fun flame_prof_mailbox:look/1,
        fun(Name) -> flame_prof_waits:look(#{process => Name}) end,
        fun(Name) -> flame_prof_waits:page(#{process => Name}, text) end,
        fun(Name) -> flame_prof_trace:run("lists:seq/2", #{processes => Name,
            max_seconds => 1, to => fun(_) -> ok end}) end
    ] ++ [fun flame_prof_pstack:processes/1 || native_node:why_not() =:= none]
        ++ [fun flame_prof_xray:look/1 || native_node:why_not() =:= none],
    true = register('Elixir.Target.Looked.At', whereis(kernel_sup) =/= undefined andalso
        spawn(fun() -> receive stop -> ok end end)),
    [begin
        ?assertMatch({ok, _}, Look(Name)),
        ?assertEqual(Nobody, Look(<<"Nobody.There">>))
    end || Look <- Looks, Name <- ["Target.Looked.At", <<"Target.Looked.At">>]],
    ?assertEqual("there is no process Nobody.There",
        lists:flatten(io_lib:format("~ts", [flame_prof:format_error(element(2, Nobody))]))),
    'Elixir.Target.Looked.At' ! stop,
    {Ended, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    [?assertEqual({error, {process, #{target => Ended}}}, Look(Ended))
        || Look <- Looks -- [lists:nth(4, Looks)]].

a_global_name_is_found_test() ->
    yes = global:register_name(?MODULE, self()),
    {ok, [Parsed]} = flame_prof_target:parse({global, ?MODULE}),
    ?assertEqual(self(), flame_prof_target:find(Parsed)),
    global:unregister_name(?MODULE),
    ?assertEqual(undefined, flame_prof_target:find(Parsed)).

a_registry_that_does_not_answer_delays_little_test() ->
    Before = processes(),
    ?assertEqual(undefined, flame_prof_target:find({via, ?MODULE, hangs})),
    waiting:eventually(fun() -> processes() -- Before =:= [] end).

a_name_without_a_process_is_undefined_test_() ->
    [?_assertEqual(undefined, flame_prof_target:find(Target))
     || Target <- [nobody_has_this_name, {global, nobody}, {via, ?MODULE, nobody},
            {via, ?MODULE, nonsense}, {via, ?MODULE, crashes}, {via, no_such_module, a}]].

a_name_as_text_makes_no_atom_test() ->
    Name = <<"nobody_has_this_name_", (integer_to_binary(rand:uniform(1 bsl 60)))/binary>>,
    Init = list_to_binary(pid_to_list(whereis(init))),
    ?assertEqual({ok, [<<"init">>, Name, whereis(init), init]},
        flame_prof_target:parse([<<"init">>, Name, Init, init])),
    ?assertEqual({ok, [Name]}, flame_prof_target:parse(Name)),
    ?assertEqual(undefined, flame_prof_target:find(Name)),
    ?assertEqual({error, {process, #{target => Name}}}, flame_prof_mailbox:look(Name)),
    ?assertError(badarg, binary_to_existing_atom(Name)),
    ?assertError(badarg, binary_to_existing_atom(<<"Elixir.", Name/binary>>)).

what_is_no_process_is_refused_test_() ->
    Remote = binary_to_term(<<131, 88, 100, 0, 3, "a@b", 0:32, 0:32, 1:32>>),
    [?_assertEqual(error, flame_prof_target:parse(Bad))
     || Bad <- [17, "<0.1>", "<0.1.0", "<a.b.c>", <<"<0.1">>, <<>>, {0, 1}, [1, 2],
            [<<"init">>, 17],
            {0, -1, 0}, {a, b, c}, {via, "m", a}, {local, a}, #{}, Remote, [self(), 17],
            [self() | init], [[self()]]]].
