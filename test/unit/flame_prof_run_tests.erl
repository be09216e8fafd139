%% Calls to the servers that own a run.
-module(flame_prof_run_tests).

-behaviour(gen_server).

-include_lib("eunit/include/eunit.hrl").

-export([init/1, handle_call/3, handle_cast/2]).

%% As in a handler of logger, which runs in the process that logs.
a_server_that_stops_itself_does_not_wait_for_its_end_test() ->
    {ok, Server} = gen_server:start(?MODULE, none, []),
    Monitor = monitor(process, Server),
    ?assertEqual({error, {stopping, #{}}}, gen_server:call(Server, stop_yourself)),
    receive {'DOWN', Monitor, process, Server, Reason} -> ?assertEqual(normal, Reason) end.

a_stop_is_answered_when_the_server_has_ended_test() ->
    {ok, Server} = gen_server:start(?MODULE, none, []),
    ?assertEqual({ok, stopped}, flame_prof_run:stop(Server, 5000)),
    ?assertNot(is_process_alive(Server)),
    ?assertEqual({error, {not_started, #{}}}, flame_prof_run:stop(Server, 5000)).

a_server_that_does_not_hear_of_its_end_is_killed_with_its_own_processes_test() ->
    {ok, Server} = gen_server:start(?MODULE, none, []),
    {Child, Other} = gen_server:call(Server, spawn),
    ok = sys:suspend(Server),
    Monitor = monitor(process, Server),
    ok = flame_prof_run:kill(Server, 10),
    receive {'DOWN', Monitor, process, Server, Reason} -> ?assertEqual(killed, Reason) end,
    ?assertNot(is_process_alive(Child)),
    %% Of another parent, it hears of the end and decides for itself.
    ?assert(is_process_alive(Other)),
    exit(Other, kill).

%% What the command line prints of it.
triggers_that_never_fired_stop_with_a_text_test() ->
    {ok, Options} = flame_prof_options:validate(#{triggers => #{on => run_queue, above => 5}}),
    Run = flame_prof_run:nothing(Options, #{engine => native, engine_reason => <<"native">>}),
    Text = flame_prof_info:format(node(), Run#{triggers => [#{on => run_queue, fired => 0}]}),
    ?assertEqual(
        "nonode@nohost: stopped; no trigger has fired\n  trigger run_queue: fired 0 times\n",
        unicode:characters_to_list(Text)).

%% A session samples less than it was told when its budget is spent: its text says so.
a_throttled_session_says_its_level_test() ->
    {ok, Options} = flame_prof_options:validate(#{}),
    Run = flame_prof_run:nothing(Options, #{engine => native, engine_reason => <<"native">>}),
    Text = fun(Level) ->
        unicode:characters_to_list(flame_prof_info:format(node(), Run#{running_stacks => on,
            selected => 0, processes => 0, budget_step => Level, file_bytes => 0}))
    end,
    ?assertEqual(nomatch, string:find(Text(0), "throttle")),
    ?assertNotEqual(nomatch, string:find(Text(3), "; throttle level 3 of 8\n")).

init(_) -> {ok, none}.

handle_call(stop_yourself, _From, State) ->
    {reply, flame_prof_run:stop(self(), infinity), State};
handle_call(spawn, _From, State) ->
    Self = self(),
    Child = proc_lib:spawn_link(fun() -> process_flag(trap_exit, true), timer:sleep(infinity) end),
    _ = spawn(fun() ->
        Other = proc_lib:spawn(fun() ->
            process_flag(trap_exit, true),
            link(Self),
            Self ! {other, self()},
            timer:sleep(infinity)
        end),
        Other
    end),
    receive {other, Other} -> {reply, {Child, Other}, State} end;
handle_call(stop, _From, State) -> {stop, normal, {ok, stopped}, State}.

handle_cast(stop, State) -> {stop, normal, State};
handle_cast(kill, State) -> {stop, {shutdown, killed}, State}.
