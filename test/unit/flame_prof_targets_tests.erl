%% Whom a session looks at, with a scripted agent and a virtual clock: because it said so itself, by
%% name, because profiling has spread to it, by rules. By real samples, and following what is sent:
%% test/live/flame_prof_targets_SUITE.
-module(flame_prof_targets_tests).

-include_lib("eunit/include/eunit.hrl").

-import(fake_agent, [profile/2]).
-import(virtual_clock, [advance/1, settle/0]).

-export([wait/0, started_as/1]).
%% As a registry.
-export([whereis_name/1]).

-define(NOT_STARTED, {not_started, flame_prof}).

wait() -> receive {do, Fun} -> _ = Fun(), wait() end.
started_as(_) -> wait().
each(Fun) -> fake_agent:each(fun(Engine) -> Fun(Engine), clear() end).
run(Fun) -> fake_agent:run(fun() -> Fun(), clear() end).

clear() ->
    gone([P || P <- processes(), {_, {?MODULE, F, _}} <- [process_info(P, initial_call),
        {proc_lib, proc_lib:translate_initial_call(P)}], F =:= wait orelse F =:= started_as]).

%% Does what it is told to.
helper() -> spawn(?MODULE, wait, []).

helper(Name) ->
    Pid = helper(),
    true = register(Name, Pid),
    Pid.

does(Pid, Fun) ->
    Test = self(),
    Pid ! {do, fun() -> Test ! {did, Pid, catch Fun()} end},
    receive {did, Pid, Answer} -> ok = settle(), Answer end.

%% They are gone, and their names.
gone(Pids) ->
    [begin
        Monitor = monitor(process, Pid),
        exit(Pid, kill),
        receive {'DOWN', Monitor, process, _, _} -> ok end
    end || Pid <- Pids],
    settle().

%% Nobody is selected unless a test says so.
start(Engine, Options) -> profile(Engine, maps:merge(#{select => {top, 0}}, Options)).

sampled() -> ok = settle(), lists:sort([Pid || {Pid, _} <- flame_prof:selected()]).
targets() -> ok = settle(), maps:get(targets, flame_prof:info()).

a_process_profiles_itself_test() ->
    each(fun(Engine) ->
        [One, Other] = [helper(), helper()],
        ?assertEqual({'EXIT', ?NOT_STARTED}, short(does(One, fun flame_prof:profile_start/0))),
        ?assertEqual(0, flame_prof:profile_stop()),
        _ = start(Engine, #{}),
        ?assertEqual(1, does(One, fun flame_prof:profile_start/0)),
        ?assertEqual({[One], 1}, {sampled(), maps:get(explicit, targets())}),
        ?assertEqual(1, does(One, fun flame_prof:profile_start/0)),
        ?assertEqual(1, does(Other, fun() -> flame_prof:profile_start(#{status => running}) end)),
        ?assertEqual([1, 0], [does(One, fun flame_prof:profile_stop/0) || _ <- [1, 2]]),
        ?assertEqual([Other], sampled()),
        Engine =:= native andalso ?assertEqual([{Other, running, pinned}],
            lists:last(lists:last(fake_agent:calls(session_pin)))),
        ok = gone([One, Other]),
        ?assertEqual([], sampled())
    end).

short({'EXIT', {Reason, [_ | _]}}) -> {'EXIT', Reason}.

%% However it ends; also when they are nested.
apply_gives_back_what_the_fun_does_test() ->
    each(fun(Engine) ->
        ?assertEqual(called, flame_prof:apply(fun() -> called end)),
        _ = start(Engine, #{}),
        Self = self(),
        ?assertEqual({7, [Self]}, flame_prof:apply(fun() -> {7, sampled()} end)),
        ?assertError(mine, flame_prof:apply(fun() -> error(mine) end)),
        ?assertThrow(mine, flame_prof:apply(fun() -> throw(mine) end, #{follow => none})),
        ?assertEqual([], sampled()),
        flame_prof:apply(fun() ->
            ?assertEqual([Self], flame_prof:apply(fun sampled/0, #{status => running})),
            ?assertEqual([Self], sampled())
        end),
        ?assertEqual([], sampled()),
        ?assertError({bad_option, #{option := follow}},
            flame_prof:apply(fun() -> error(called) end, #{follow => 7})),
        ?assertError({bad_option, #{option := depth}}, flame_prof:profile_start(#{depth => 7}))
    end).

the_end_of_the_session_does_not_disturb_test() ->
    each(fun(Engine) ->
        [begin
            Pid = start(Engine, #{}),
            ?assertEqual(done, flame_prof:apply(fun() -> End(Pid), done end)),
            waiting:eventually(fun() -> whereis(flame_prof_session) =:= undefined end)
        end || End <- [fun flame_prof:stop/1, fun(Pid) -> exit(Pid, kill) end]]
    end).

names_are_looked_up_again_test() ->
    each(fun(Engine) ->
        Pid = helper(),
        Always = lists:sort([Pid, whereis(kernel_sup)]),
        _ = start(Engine, #{include => [kernel_sup, Pid, ?FUNCTION_NAME]}),
        ?assertEqual(Always, sampled()),
        [begin
            Named = helper(?FUNCTION_NAME),
            ok = advance(200),
            ?assertEqual(lists:sort([Named | Always]), sampled()),
            ok = gone([Named]),
            ok = advance(200),
            ?assertEqual(Always, sampled())
        end || _ <- [first, second]]
    end).

%% Names whose registry does not answer are 0.2 s each.
a_registry_that_hangs_holds_up_nobody_test() ->
    each(fun(Engine) ->
        [Pid, Found] = [helper(), helper()],
        _ = start(Engine, #{include => [{via, ?MODULE, hang}, Pid, {via, ?MODULE, Found}]}),
        ?assertEqual(done, flame_prof:apply(fun() -> done end)),
        ?assertMatch(#{explicit := 0, included := 1}, targets()),
        ?assertEqual([Pid], sampled()),
        waiting:eventually(fun() -> sampled() =:= lists:sort([Pid, Found]) end)
    end).

whereis_name(Pid) when is_pid(Pid) -> Pid;
whereis_name(_) -> receive never -> ok end.

spawned_processes_are_followed_test() ->
    each(fun(Engine) ->
        _ = start(Engine, #{}),
        [Root, Nobody] = [helper(), helper()],
        Before = does(Root, fun helper/0),
        ?assertEqual(off, maps:get(following, targets())),
        1 = does(Root, fun() -> flame_prof:profile_start(#{follow => spawn}) end),
        Child = does(Root, fun helper/0),
        Grandchild = does(Child, fun helper/0),
        Stranger = does(Nobody, fun helper/0),
        ?assertEqual([Root], sampled()),
        ok = advance(200),
        ?assertEqual(lists:sort([Root, Child, Grandchild]), sampled()),
        ?assertMatch(#{followed := 2, following := polls}, targets()),
        ok = gone([Grandchild]),
        ?assertEqual(lists:sort([Root, Child]), sampled()),
        %% What it spawned before it left is its own.
        Late = does(Root, fun() -> Pid = helper(), 1 = flame_prof:profile_stop(), Pid end),
        ok = advance(200),
        ?assertEqual(lists:sort([Child, Late]), sampled())
    end).

%% Polls have ended and begun again between the two.
children_from_before_are_not_followed_test() ->
    each(fun(Engine) ->
        _ = start(Engine, #{}),
        ?assertEqual(ok, flame_prof:apply(fun() -> ok end)),
        ok = advance(200),
        ?assertEqual(off, maps:get(following, targets())),
        Root = helper(),
        Before = does(Root, fun helper/0),
        1 = does(Root, fun() -> flame_prof:profile_start(#{follow => spawn}) end),
        After = does(Root, fun helper/0),
        ok = advance(200),
        ?assertEqual(lists:sort([Root, After]), sampled())
    end).

children_of_the_selected_are_followed_test() ->
    each(fun(Engine) ->
        Root = helper(?FUNCTION_NAME),
        _ = start(Engine, #{process_options => #{follow => spawn},
            select => #{top => 1, interval => 100, include => {registered_name, ?FUNCTION_NAME}}}),
        ok = advance(400),
        ?assertEqual([Root], sampled()),
        Child = does(Root, fun helper/0),
        ok = advance(200),
        ?assertEqual(lists:sort([Root, Child]), sampled())
    end).

%% For good: what is followed stays, what comes is not.
following_ends_at_its_limit_of_processes_test() ->
    each(fun(Engine) ->
        _ = start(Engine, #{follow_limits => #{processes => 10}}),
        Root = helper(),
        1 = does(Root, fun() -> flame_prof:profile_start(#{follow => spawn}) end),
        Spawn = fun() -> does(Root, fun() -> [helper() || _ <- lists:seq(1, 10)] end) end,
        Children = Spawn(),
        ok = advance(200),
        ?assertMatch(#{followed := 10, following := polls}, targets()),
        _ = Spawn(),
        ok = advance(200),
        ?assertMatch(#{followed := 10, following := {ended, processes}}, targets()),
        ?assertEqual(lists:sort([Root | Children]), sampled())
    end).

%% Also when no poll is going to come.
who_has_left_is_forgotten_test() ->
    run(fun() ->
        _ = start(native, #{follow_limits => #{processes => 1}}),
        {ok, Targets} = flame_prof_session:targets(current),
        Size = fun() -> ok = settle(), erts_debug:flat_size(sys:get_state(Targets)) end,
        Visit = fun(Follow) -> [begin
            Visitor = helper(),
            ok = does(Visitor, fun() -> flame_prof:apply(fun() -> ok end, #{follow => Follow}) end),
            ok = gone([Visitor])
        end || _ <- lists:seq(1, 20)] end,
        Before = Size(),
        _ = Visit(none),
        ?assertEqual(Before, Size()),
        Root = helper(),
        1 = does(Root, fun() -> flame_prof:profile_start(#{follow => spawn}) end),
        _ = does(Root, fun() -> [helper() || _ <- [1, 2]] end),
        ok = advance(200),
        ?assertMatch(#{following := {ended, processes}}, targets()),
        Ended = Size(),
        _ = Visit(spawn),
        ?assertEqual(Ended, Size())
    end).

%% With the native engine those with filters only: the library does the others.
filters_choose_who_takes_part_test() ->
    each(fun(Engine) ->
        Named = helper(?FUNCTION_NAME),
        Started = proc_lib:spawn(?MODULE, started_as, [self()]),
        Selected = fun(Filter) ->
            _ = start(Engine, #{select => Filter#{top => 100, interval => 100}, growers => 0}),
            ok = advance(300),
            Pids = sampled(),
            {ok, _} = flame_prof:stop(),
            Pids
        end,
        [?assertEqual({Filter, Expected}, {Filter, Selected(Filter)}) || {Filter, Expected} <- [
            {#{include => {registered_name, ?FUNCTION_NAME}}, [Named]},
            {#{include => {initial_call, {?MODULE, started_as, 1}}}, [Started]},
            {#{include => {initial_call, ?MODULE}, exclude => {initial_call, {?MODULE, wait}}},
                [Started]},
            {#{include => {application, no_such_application}}, []}]],
        Module = Selected(#{include => [{module, ?MODULE}],
            exclude => {registered_name, ?FUNCTION_NAME}}),
        ?assertEqual({true, false}, {lists:member(Started, Module), lists:member(Named, Module)}),
        Kernel = Selected(#{include => {application, kernel}}),
        ?assertEqual([true, false, false], [lists:member(Pid, Kernel)
            || Pid <- [whereis(kernel_sup), Named, whereis(init)]])
    end).

%% Of the portable engine, where each has by far the most of one thing.
rules_choose_by_their_metric_test() ->
    run(fun() ->
        Big = helper(),
        Queue = helper(),
        Binaries = helper(),
        _ = [Queue ! N || N <- lists:seq(1, 20000)],
        Hold = fun(Pid, Make) ->
            Test = self(),
            Pid ! {do, fun() -> Held = Make(), Test ! made, wait(), length(Held) end},
            receive made -> ok end
        end,
        ok = Hold(Big, fun() -> lists:seq(1, 3000000) end),
        ok = Hold(Binaries, fun() -> [binary:copy(<<N>>, 1000000) || N <- lists:seq(1, 60)] end),
        Selected = fun(Select, Growers, Ms) ->
            _ = start(portable, #{select => Select, growers => Growers}),
            ok = advance(Ms),
            Pids = sampled(),
            {ok, _} = flame_prof:stop(),
            Pids
        end,
        [?assertEqual({By, [Pid]}, {By, Selected(#{top => 1, by => By, interval => 100}, 0, 300)})
            || {By, Pid} <- [{memory, Big}, {total_heap_size, Big}, {message_queue_len, Queue},
                {bin_vheap_size, Binaries}]],
        ?assertEqual(lists:sort([Big, Queue]), Selected([
            #{top => 1, by => message_queue_len, interval => 200},
            #{top => 1, by => memory, interval => 100}], 0, 300)),
        %% Who grows: at first nothing is known, and all have grown from nothing.
        Growing = helper(),
        _ = start(portable, #{growers => 0,
            select => #{top => 1, by => message_queue_len, delta => true, interval => 100}}),
        ?assertEqual([Queue], sampled()),
        ok = advance(100),
        _ = [Growing ! more || _ <- lists:seq(1, 100)],
        ok = advance(100),
        ?assertEqual([Growing], sampled())
    end).

%% None grows into a list of rules, unless there are growers by name.
who_is_flooded_has_a_place_until_it_is_drained_test() ->
    [run(fun() ->
        [Flooded | Busy] = [helper() || _ <- lists:seq(1, 6)],
        %% So many selections later; others have done more in each.
        Growers = fun(Selections) ->
            _ = [begin
                _ = [does(P, fun() -> lists:seq(1, 10000) end) || P <- Busy],
                advance(500)
            end || _ <- lists:seq(1, Selections)],
            {selection, _, _, N} = lists:last([S || {selection, _, _, _} = S
                <- fake_agent:pushed()]),
            {N, N =:= 1 andalso lists:member(Flooded, sampled())}
        end,
        _ = start(portable, maps:merge(#{select => {top, 4, 500}}, Options)),
        ?assertEqual({0, false}, Growers(3)),
        true = waiting:suspend(Flooded),
        _ = [Flooded ! N || N <- lists:seq(1, 20000)],
        ?assertEqual({Options, Expected}, {Options, Growers(1)}),
        ?assertEqual({Options, Expected}, {Options, Growers(3)}),
        true = erlang:resume_process(Flooded),
        ok = does(Flooded, fun flush/0),
        ?assertEqual({0, false}, Growers(1))
    end) || {Options, Expected} <- [{#{}, {1, true}}, {#{growers => 0}, {0, false}},
        {#{select => [#{top => 4, interval => 500}]}, {0, false}},
        {#{select => [#{top => 4, interval => 500}], growers => 1}, {1, true}}]].

flush() -> receive _ -> flush() after 0 -> ok end.
