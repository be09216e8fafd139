%% Stacks of processes that run, against what they are known to run.
-module(flame_prof_pstack_tests).

-include_lib("eunit/include/eunit.hrl").

-export([lookups/1, garbage/1, sleeper/1]).

native_test_() ->
    case native_node:why_not() of
        none -> [{timeout, 60, Test} || Test <- tests()];
        Why -> {"skipped: " ++ Why, []}
    end.

tests() ->
    [{"a scheduler's process is shown in its BIF, under its caller", fun bif/0},
        {"garbage collection is a frame", fun gc/0},
        {"a process in a dirty NIF has its NIF and its stack", fun dirty/0},
        {"a waiting process has the stack that process_info tells", fun waiting/0},
        {"the caller sees itself asking", fun myself/0},
        {"who is gone is said to be gone", fun gone/0},
        {"a process has several names", fun named/0},
        {"each is told once, in the order asked for", fun order/0},
        {"what is no process is refused", fun refused/0},
        {"every scheduler is told once", fun every_scheduler/0},
        {"beside a profile, whose counters balance", fun beside_profile/0},
        {"from many processes at once", fun at_once/0},
        {"leaves nothing behind", fun leaves_nothing/0},
        {"a label is told, where OTP has them", fun label/0},
        {"prints and answers ok", fun prints/0}].

%% Workloads.

lookups(Table) ->
    _ = ets:lookup(Table, key),
    lookups(Table).

%% What is made lives long enough to be copied.
garbage(Live) -> garbage([N + 1 || N <- Live]).

sleeper(N) ->
    receive never -> N end.

with_lookups(Fun) ->
    Table = ets:new(table, [public]),
    ets:insert(Table, {key, lists:seq(1, 2000)}),
    with(spawn(?MODULE, lookups, [Table]), Fun).

with(Pid, Fun) ->
    try Fun(Pid)
    after exit(Pid, kill)
    end.

bif() ->
    with_lookups(fun(Pid) ->
        Stack = waiting:eventually(fun() ->
            {ok, Look} = flame_prof_pstack:schedulers(),
            case [P || {{scheduler, _}, #{pid := Seen} = P} <- Look, Seen =:= Pid] of
                [#{stack := Stack, status := running}] ->
                    case lists:member({bif, {ets, lookup, 2}}, Stack) of
                        true -> {true, Stack};
                        false -> false
                    end;
                _ -> false
            end
        end),
        [{bif, _}, {?MODULE, lookups, 1, Location} | _] =
            lists:dropwhile(fun(F) -> F =/= {bif, {ets, lookup, 2}} end, Stack),
        ?assertMatch({line, Line} when is_integer(Line), lists:keyfind(line, 1, Location)),
        ?assertEqual("flame_prof_pstack_tests.erl",
            filename:basename(proplists:get_value(file, Location))),
        %% Above the BIF, if anything, is C.
        Above = lists:takewhile(fun(F) -> F =/= {bif, {ets, lookup, 2}} end, Stack),
        [?assert(F =:= gc orelse F =:= truncated orelse element(1, F) =:= native) || F <- Above]
    end).

gc() ->
    with(spawn(?MODULE, garbage, [lists:seq(1, 20000)]), fun(Pid) ->
        Stack = waiting:eventually(fun() ->
            case flame_prof_pstack:processes([Pid]) of
                {ok, [{{process, Pid}, #{status := garbage_collecting,
                    stack := [_, _ | _] = S}}]} ->
                    {true, S};
                {ok, [{_, #{}}]} -> false
            end
        end),
        ?assert(lists:member(gc, Stack))
    end).

%% Reading a FIFO that nobody writes blocks a dirty scheduler in a NIF.
dirty() ->
    with_fifo(fun(Pid) ->
        {ok, Look} = flame_prof_pstack:schedulers(),
        [Seen] = [P || {dirty, #{pid := P0} = P} <- Look, P0 =:= Pid],
        ?assertMatch(#{status := running, scheduler := none,
                stack := [{nif, {prim_file, open_nif, 2}}, {prim_file, open, 2, _} | _]},
            Seen),
        {current_stacktrace, Public} = process_info(Pid, current_stacktrace),
        ?assertEqual(Public, tl(maps:get(stack, Seen))),
        {ok, [{{process, Pid}, Alone}]} = flame_prof_pstack:processes([Pid]),
        ?assertEqual(maps:get(stack, Seen), maps:get(stack, Alone)),
        Text = unicode:characters_to_list(flame_prof_pstack:format(Look)),
        Line = "Dirty scheduler: " ++ pid_to_list(Pid),
        ?assertNotEqual(nomatch, string:find(Text, Line)),
        %% This process is on one as well while it looks: it is not told.
        ?assertEqual([], [P || {dirty, #{pid := P0} = P} <- Look, P0 =:= self()])
    end).

with_fifo(Fun) ->
    Fifo = "/tmp/pstack_fifo_" ++ os:getpid(),
    _ = file:delete(Fifo),
    [] = os:cmd("mkfifo " ++ Fifo),
    Pid = spawn(fun() -> {read, file:open(Fifo, [read, raw])} end),
    try
        waiting:eventually(fun() ->
            case erlang:process_info(Pid, current_stacktrace) of
                {_, [{prim_file, _, _, _} | _]} -> true;
                _ -> false
            end
        end),
        waiting:eventually(fun() -> {status, running} =:= erlang:process_info(Pid, status) end),
        Fun(Pid)
    after
        {ok, Writer} = file:open(Fifo, [write, raw]),
        ok = file:close(Writer),
        file:delete(Fifo)
    end.

waiting() ->
    with(spawn(?MODULE, sleeper, [1]), fun(Pid) ->
        waiting:eventually(fun() -> {status, waiting} =:= erlang:process_info(Pid, status) end),
        {current_stacktrace, Public} = erlang:process_info(Pid, current_stacktrace),
        {ok, [{_, #{status := waiting, scheduler := none, stack := Stack} = Process}]} =
            flame_prof_pstack:processes([Pid]),
        ?assertEqual([{M, F, A, proplists:get_value(line, L)} || {M, F, A, L} <- Public],
            [{M, F, A, proplists:get_value(line, L)} || {M, F, A, L} <- Stack]),
        ?assertEqual({?MODULE, sleeper, 1}, maps:get(initial_call, Process)),
        ?assertNot(maps:is_key(registered_name, Process)),
        register(pstack_sleeper, Pid),
        {ok, [{{process, pstack_sleeper}, #{pid := Pid, registered_name := pstack_sleeper}}]} =
            flame_prof_pstack:processes([pstack_sleeper])
    end).

myself() ->
    {ok, [{_, #{pid := Self, stack := Stack}}]} = flame_prof_pstack:processes([self()]),
    ?assertEqual(self(), Self),
    ?assert(lists:member({nif, {flame_prof_nif, snapshot, 1}}, Stack)),
    ?assertNotEqual(false, lists:keyfind(flame_prof_pstack, 1, Stack)).

named() ->
    Init = whereis(init),
    [?assertMatch({ok, [{{process, _}, #{pid := Init, registered_name := init}}]},
            flame_prof_pstack:processes(Target))
     || Target <- [init, pid_to_list(Init), {0, 0, 0}, [Init]]].

gone() ->
    {Pid, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    Unknown = <<"pstack_no_atom_of_this_", (integer_to_binary(rand:uniform(1 bsl 60)))/binary>>,
    {ok, [{{process, Pid}, gone}, {{process, pstack_nobody}, gone}, {{process, Unknown}, gone}]
        = Look} = flame_prof_pstack:processes([Pid, pstack_nobody, Unknown]),
    ?assertError(badarg, binary_to_existing_atom(Unknown)),
    ?assertEqual(
        "there is no process " ++ pid_to_list(Pid) ++ "\n\nthere is no process pstack_nobody\n\n"
            ++ "there is no process " ++ binary_to_list(Unknown) ++ "\n",
        unicode:characters_to_list(flame_prof_pstack:format(Look))),
    ?assertMatch(#{look := [#{place := _}, #{place := <<"process pstack_nobody">>}, _]},
        flame_prof_pstack:json(Look)),
    [?assertEqual({error, {process, #{target => One}}}, flame_prof_pstack:processes([One]))
        || One <- [Pid, pstack_nobody, Unknown]].

%% No term of Erlang is in the JSON.
places_are_words_test() ->
    Seen = #{pid => self(), stack => []},
    #{look := Look} = flame_prof_pstack:json([{{scheduler, 3}, idle}, {dirty, Seen},
        {{process, init}, gone}, {{process, <<"Shop.Stock">>}, gone}]),
    ?assertEqual([<<"scheduler 3">>, <<"dirty scheduler">>, <<"process init">>,
        <<"process Shop.Stock">>], [Place || #{place := Place} <- Look]).

order() ->
    {ok, Look} = flame_prof_pstack:processes([kernel_sup, init, kernel_sup]),
    ?assertEqual([{process, kernel_sup}, {process, init}, {process, kernel_sup}],
        [Place || {Place, #{}} <- Look]).

refused() ->
    Remote = binary_to_term(<<131, 88, 100, 0, 3, "a@b", 0:32, 0:32, 1:32>>),
    [begin
        {error, {badarg, #{argument := process}} = Reason} = flame_prof:pstack(Bad),
        Why = unicode:characters_to_binary(flame_prof:format_error(Reason)),
        ?assertNotEqual(nomatch, binary:match(Why, <<"registered name">>))
    end || Bad <- [[1, 2], 1, [self(), {a, b}], [self() | init], Remote, <<>>]].

every_scheduler() ->
    {ok, Look} = flame_prof_pstack:schedulers(),
    ?assertEqual(lists:seq(1, erlang:system_info(schedulers)),
        [Number || {{scheduler, Number}, _} <- Look]).

beside_profile() ->
    Directory = "/tmp/pstack_profile_" ++ os:getpid(),
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1, cpu_budget => infinity}),
    try
        with_lookups(fun(Pid) ->
            [begin
                {ok, _} = flame_prof_pstack:schedulers(),
                {ok, [{_, #{pid := Pid}}]} = flame_prof_pstack:processes([Pid])
            end || _ <- lists:seq(1, 50)]
        end)
    after
        {ok, Run} = flame_prof:stop(),
        #{attempted := T, written := W, inconsistent := N, dropped := D, exited := G} = Run,
        ?assertEqual(T, W + N + D + G),
        file:del_dir_r(Directory)
    end.

at_once() ->
    with_lookups(fun(Pid) ->
        Look = fun() ->
            [{ok, [{_, #{pid := Pid}}]} = flame_prof_pstack:processes([Pid])
                || _ <- lists:seq(1, 20)]
        end,
        Monitors = [element(2, spawn_monitor(Look)) || _ <- lists:seq(1, 6)],
        [receive
            {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason)
        end || Monitor <- Monitors]
    end).

leaves_nothing() ->
    {ok, _} = flame_prof_pstack:schedulers(),
    {0, Threads} = native_node:settled(),
    [{ok, _} = flame_prof_pstack:schedulers() || _ <- lists:seq(1, 20)],
    waiting:eventually(fun() -> native_node:leftovers() =:= {0, Threads} end).

%% By variables: older releases do not have these.
label() ->
    ProcLib = proc_lib,
    case erlang:function_exported(ProcLib, set_label, 1) of
        true ->
            Test = self(),
            Pid = spawn(fun() ->
                ok = ProcLib:set_label({cart, 7}),
                Test ! labelled,
                timer:sleep(infinity)
            end),
            receive labelled -> ok end,
            waiting:eventually(fun() ->
                {ok, [{_, Seen}]} = flame_prof_pstack:processes([Pid]),
                maps:get(label, Seen, none) =:= {cart, 7}
            end),
            exit(Pid, kill);
        false ->
            {ok, [{_, Seen}]} = flame_prof_pstack:processes([self()]),
            ?assertNot(is_map_key(label, Seen))
    end.

prints() ->
    {ok, All} = native_node:printed(fun flame_prof:pstack/0),
    ?assertNotEqual(nomatch, binary:match(All, <<" on dirty schedulers\n">>)),
    {ok, One} = native_node:printed(fun() -> flame_prof:pstack(init) end),
    ?assertNotEqual(nomatch, binary:match(One, <<"<0.0.0> init ">>)),
    ?assertNotEqual(nomatch, binary:match(One, <<"\n  init:loop/1">>) =:= nomatch
        andalso binary:match(One, <<"\n  init:boot_loop/2">>)),
    {ok, Several} = native_node:printed(fun() -> flame_prof:pstack([init, self()]) end),
    ?assertNotEqual(nomatch, binary:match(Several, list_to_binary(pid_to_list(self())))).

%% Text, of looks that are made up.

elixir_and_labels_are_shown_as_their_authors_know_them_test() ->
    Process = #{pid => self(), status => waiting, scheduler => none,
        initial_call => {'Elixir.Shop.Cart', init, 1}, reductions => 1, message_queue_len => 0,
        memory => 1024, stack => []},
    First = fun(More) ->
        Text = flame_prof_pstack:format([{{process, self()}, maps:merge(Process, More)}]),
        hd(string:split(unicode:characters_to_list(Text), "\n"))
    end,
    Pid = pid_to_list(self()),
    ?assertEqual(Pid ++ " Shop.Cart.init/1", First(#{})),
    ?assertEqual(Pid ++ " Shop.Till Shop.Cart.init/1",
        First(#{registered_name => 'Elixir.Shop.Till'})),
    ?assertEqual(Pid ++ " {cart,7} Shop.Cart.init/1", First(#{label => {cart, 7}})).

a_look_as_text_test() ->
    Process = #{pid => self(), status => garbage_collecting, scheduler => 2,
        registered_name => 'a b', initial_call => {m, init, 1}, reductions => 1234567,
        message_queue_len => 1, memory => 1025,
        stack => [{native, none, <<"beam.smp">>},
            {native, none, <<"beam.smp">>},
            {native, <<"f\n">>, <<"lib.so">>},
            gc,
            {bif, {ets, lookup, 2}},
            {'Elixir.M', 'x!', 1, [{file, "lib/m.ex"}, {line, 7}]},
            {m, loop, 0, [{file, "m.erl"}]},
            {m, init, 1, []},
            truncated]},
    Look = [{{scheduler, 1}, idle},
        {{scheduler, 2}, Process},
        {{scheduler, 3}, idle},
        {{scheduler, 4}, idle},
        {{scheduler, 5}, late},
        {{scheduler, 6}, unregistered},
        {{scheduler, 7}, offline},
        {dirty, Process#{scheduler := none, status := running, memory := unknown, stack := []}}],
    Pid = pid_to_list(self()),
    ?assertEqual("1 of 7 schedulers runs a process, 1 more on dirty schedulers\n\n"
        "Scheduler 2: " ++ Pid ++ " 'a b' m:init/1\n"
        "    garbage_collecting, 1 message, 1,234,567 reductions, 2 KB\n"
        "  [beam.smp] x 2\n"
        "  f? (lib.so)\n"
        "  [gc]\n"
        "  ets:lookup/2 (bif)\n"
        "  M.x!/1 (lib/m.ex:7)\n"
        "  m:loop/0 (m.erl)\n"
        "  m:init/1\n"
        "  truncated\n\n"
        "Dirty scheduler: " ++ Pid ++ " 'a b' m:init/1\n"
        "    running, 1 message, 1,234,567 reductions, ? KB\n\n"
        "Schedulers 1, 3-4: idle\n"
        "Scheduler 5: no answer in time\n"
        "Scheduler 6: not registered: too busy, or it must not be interrupted\n"
        "Scheduler 7: offline\n", unicode:characters_to_list(flame_prof_pstack:format(Look))),
    ?assertEqual(Pid ++ " 'a b' m:init/1, on scheduler 2\n",
        hd(string:split(unicode:characters_to_list(
                flame_prof_pstack:format([{{process, self()}, Process#{stack := []}}])),
            "    "))).
