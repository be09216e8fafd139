%% @private The processes that {@link flame_prof_wait_sites} looks into: callers of a
%% helper that answers nobody, servers with nothing to do, and servers whose callback
%% waits.
%%
%% Each is linked to the driver, and sends it only what it was given.
-module(flame_prof_wait_probe).

-export([callers/0, idles/0, sleepers/0, starters/0, busy/0, helper/1, child/1, attempt/1]).
-export([forks/0]).
%% Callbacks of gen_server, gen_statem, gen_event.
-export([init/1, callback_mode/0, handle_call/3, handle_cast/2, handle_info/2, handle_event/4]).
-export([handle_event/2, terminate/2, code_change/3]).
-export([state/3]).

-export_type([caller/0, starter/0, busy/0]).

%% Given the helper, by some name, and a request.
-type caller() :: fun((Server :: term(), Request :: term()) -> term()).
-type starter() :: fun((Driver :: pid()) -> term()).
%% Starts a server and hands it the request: `{Server, Caller | none}'.
-type busy() :: fun((Driver :: pid(), Request :: term()) -> {pid(), pid() | none}).

-define(MINUTE, 60000).

%% @doc What waits for a helper, and how the helper may be named: those that do not
%% exist here, or refuse the name, end at once and are no probes.
-spec callers() -> [{Name :: atom(), [pid | name | node], caller()}].
callers() ->
    [
        {gen_server_call_2, [pid, name, node], fun(S, R) -> gen_server:call(S, R) end},
        {gen_server_call_3, [pid, name, node], fun(S, R) -> gen_server:call(S, R, infinity) end},
        {gen_server_call_t, [pid, name, node], fun(S, R) -> gen_server:call(S, R, ?MINUTE) end},
        {gen_statem_call_2, [pid, name, node], fun(S, R) -> gen_statem:call(S, R) end},
        {gen_statem_call_3, [pid, name], fun(S, R) -> gen_statem:call(S, R, ?MINUTE) end},
        {gen_statem_dirty, [pid], fun(S, R) ->
            gen_statem:call(S, R, {dirty_timeout, ?MINUTE})
        end},
        {gen_statem_clean, [pid], fun(S, R) ->
            gen_statem:call(S, R, {clean_timeout, ?MINUTE})
        end},
        {gen_call_3, [pid], fun(S, R) -> gen:call(S, '$gen_call', R) end},
        {gen_call_4, [pid], fun(S, R) -> gen:call(S, '$gen_call', R, infinity) end},
        {gen_event_call_3, [pid, name], fun(S, R) -> gen_event:call(S, handler, R) end},
        {gen_event_call_4, [pid], fun(S, R) -> gen_event:call(S, handler, R, infinity) end},
        {gen_event_sync, [pid], fun(S, R) -> gen_event:sync_notify(S, R) end},
        {supervisor, [pid], fun(S, _) -> supervisor:which_children(S) end},
        {receive_response_2, [pid], fun(S, R) ->
            gen_server:receive_response(gen_server:send_request(S, R), infinity)
        end},
        {receive_response_t, [pid], fun(S, R) ->
            gen_server:receive_response(gen_server:send_request(S, R), ?MINUTE)
        end},
        {wait_response, [pid], fun(S, R) ->
            gen_server:wait_response(gen_server:send_request(S, R), infinity)
        end},
        {statem_response, [pid], fun(S, R) ->
            gen_statem:receive_response(gen_statem:send_request(S, R), infinity)
        end},
        {io_request, [pid], fun(S, R) -> io:request(S, R) end},
        {sys_status, [pid], fun(S, _) -> sys:get_status(S, ?MINUTE) end},
        {elixir_call_2, [pid, name], fun(S, R) -> elixir('Elixir.GenServer', call, [S, R]) end},
        {elixir_call_3, [pid], fun(S, R) ->
            elixir('Elixir.GenServer', call, [S, R, infinity])
        end},
        {elixir_await, [pid], fun(S, R) -> elixir_await(S, R, infinity) end},
        {elixir_await_t, [pid], fun(S, R) -> elixir_await(S, R, ?MINUTE) end}
    ] ++
        lists:append([
            [
                {Fork, [pid, name], fun(S, R) -> Fork:call(S, R, infinity) end},
                {Fork, [pid, name], fun(S, R) -> Fork:call(S, R) end}
            ]
         || Fork <- loaded_forks()
        ]).

%% @doc Copies of gen_server that others have made, with the same calls and callbacks: RabbitMQ's
%% and ejabberd's.
-spec forks() -> [module()].
forks() -> [gen_server2, p1_server].

loaded_forks() -> [Fork || Fork <- forks(), erlang:module_loaded(Fork)].

%% Modules that the node has not loaded are not loaded for this.
elixir(Module, Function, Args) ->
    case erlang:module_loaded(Module) of
        true -> apply(Module, Function, Args);
        false -> ok
    end.

elixir_await(Server, Request, Timeout) ->
    case erlang:module_loaded('Elixir.Task') of
        true ->
            Ref = erlang:monitor(process, Server, [{alias, demonitor}]),
            Server ! {'$gen_call', {self(), Ref}, Request},
            Task = #{
                '__struct__' => 'Elixir.Task',
                pid => Server,
                ref => Ref,
                owner => self(),
                mfa => {?MODULE, child, 1}
            },
            elixir('Elixir.Task', await, [Task, Timeout]);
        false ->
            ok
    end.

%% @doc Servers in their main receive, and the modules that it may be in. Hibernated, a
%% process continues in the VM.
-spec idles() -> [{[module()], fun((Driver :: pid()) -> pid())}].
idles() ->
    [
        {[gen_server], fun(_) -> server(gen_server, {idle, []}) end},
        {[gen_server], fun(_) -> server(gen_server, {idle, [?MINUTE]}) end},
        {[gen_server, none, erlang], fun(_) -> server(gen_server, {idle, [hibernate]}) end},
        {[gen_statem], fun(_) -> server(gen_statem, {idle, []}) end},
        {[gen_statem], fun(_) -> server(gen_statem, {idle, [[{timeout, ?MINUTE, x}]]}) end},
        {[gen_statem, none, erlang], fun(_) -> server(gen_statem, {idle, [[hibernate]]}) end},
        {[gen_event], fun(_) -> element(2, {ok, _} = gen_event:start_link()) end},
        {[none, erlang], fun(_) ->
            spawn_link(fun() -> erlang:hibernate(?MODULE, child, [x]) end)
        end}
    ] ++
        [{[Fork], fun(_) -> server(Fork, {idle, Options}) end} || Fork <- loaded_forks(),
            Options <- [[], [?MINUTE]]].

server(Behaviour, Args) ->
    Kind = case lists:member(Behaviour, forks()) of true -> gen_server; false -> Behaviour end,
    {ok, Pid} = Behaviour:start_link(?MODULE, {Kind, Args}, []),
    Pid.

-spec sleepers() -> [{mfa(), fun(() -> term())}].
sleepers() ->
    [
        {{timer, sleep, 1}, fun() -> timer:sleep(infinity) end},
        {{timer, sleep, 1}, fun() -> timer:sleep(?MINUTE) end}
    ].

%% @doc Callers of proc_lib's starts: the child tells its pid, and is not done.
-spec starters() -> [starter()].
starters() ->
    [
        fun(D) -> proc_lib:start(?MODULE, child, [D]) end,
        fun(D) -> proc_lib:start(?MODULE, child, [D], ?MINUTE) end,
        fun(D) -> proc_lib:start_link(?MODULE, child, [D]) end,
        fun(D) -> proc_lib:start_link(?MODULE, child, [D], ?MINUTE) end,
        fun(D) -> proc_lib:start_monitor(?MODULE, child, [D], ?MINUTE) end,
        fun(D) -> gen_server:start(?MODULE, {starting, D}, []) end
    ].

%% @private
child(Driver) ->
    Monitor = monitor(process, Driver),
    _ = attempt(fun() -> link(Driver) end),
    Driver ! {child, self(), hd(get('$ancestors'))},
    until_down(Monitor).

%% A link alone does not end what traps exits, as gen_event does. A server that ended with a reason
%% would be in the node's log.
-spec until_down(reference()) -> no_return().
until_down(Monitor) ->
    receive
        {'DOWN', Monitor, process, _, _} -> exit(self(), kill)
    end,
    until_down(Monitor).

%% @private Tells the driver what it gets, and answers nobody.
helper(Driver) ->
    receive
        Message ->
            Driver ! {got, self(), Message},
            helper(Driver)
    end.

%% @doc Servers at work: what is on their stacks is known.
-spec busy() -> [{Kind :: call | cast | info | event, busy()}].
busy() ->
    [
        {call, fun(D, R) -> called(server(gen_server, {busy, D}), gen_server, R) end},
        {cast, fun(D, R) -> cast(server(gen_server, {busy, D}), gen_server, R) end},
        {info, fun(D, R) -> sent(server(gen_server, {busy, D}), R) end},
        {call, fun(D, R) -> called(server(gen_statem, {busy, D}), gen_statem, R) end},
        {cast, fun(D, R) -> cast(server(gen_statem, {busy, D}), gen_statem, R) end},
        {info, fun(D, R) -> sent(server(gen_statem, {busy, D}), R) end},
        {call, fun(D, R) -> called(server(gen_statem, {states, D}), gen_statem, R) end},
        {cast, fun(D, R) -> cast(server(gen_statem, {states, D}), gen_statem, R) end},
        {event, fun(D, R) ->
            {ok, Pid} = gen_event:start_link(),
            ok = gen_event:add_handler(Pid, ?MODULE, {gen_event, {busy, D}}),
            ok = gen_event:notify(Pid, R),
            {Pid, none}
        end}
    ] ++ lists:append([busy(Fork) || Fork <- loaded_forks()]).

busy(Fork) ->
    [
        {call, fun(D, R) -> called(server(Fork, {busy, D}), Fork, R) end},
        {cast, fun(D, R) -> cast(server(Fork, {busy, D}), Fork, R) end},
        {info, fun(D, R) -> sent(server(Fork, {busy, D}), R) end}
    ].

called(Server, Module, Request) ->
    {Server, spawn_link(fun() -> attempt(fun() -> Module:call(Server, Request, infinity) end) end)}.

%% @doc Fun's answer; `failed' where it ends in any other way.
-spec attempt(fun(() -> term())) -> term().
attempt(Fun) ->
    try
        Fun()
    catch
        _:_ -> failed
    end.

cast(Server, Module, Request) ->
    ok = Module:cast(Server, Request),
    {Server, none}.

sent(Server, Request) ->
    Server ! Request,
    {Server, none}.

%%% ------------------------------------------------------------- callbacks --

%% @private Asked in the server, after its init/1.
callback_mode() ->
    case get(?MODULE) of
        states -> state_functions;
        undefined -> handle_event_function
    end.

%% @private
init({starting, Driver}) ->
    child(Driver);
init({gen_server, {idle, Options}}) ->
    list_to_tuple([ok, idle | Options]);
init({gen_statem, {idle, Options}}) ->
    list_to_tuple([ok, idle, data | Options]);
init({gen_server, {busy, Driver}}) ->
    {ok, {driver, Driver}};
init({gen_statem, {busy, Driver}}) ->
    {ok, state, {driver, Driver}};
init({gen_statem, {states, Driver}}) ->
    put(?MODULE, states),
    {ok, state, {driver, Driver}};
init({gen_event, {busy, Driver}}) ->
    {ok, {driver, Driver}}.

%% A probe at work waits until it is killed.
-dialyzer(
    {no_return, [
        handle_call/3, handle_cast/2, handle_info/2, handle_event/2, state/3, work/2, until_down/1
    ]}
).

%% @private
handle_call(_, From, {driver, Driver}) -> work(Driver, From).

%% @private
handle_cast(_, {driver, Driver}) -> work(Driver, none).

%% @private
handle_info(_, {driver, Driver}) -> work(Driver, none).

%% @private gen_event's.
handle_event(_, {driver, Driver}) -> work(Driver, none).

%% @private gen_statem's.
handle_event(_, _, idle, Data) -> {next_state, idle, Data};
handle_event({call, From}, _, _, {driver, Driver}) -> work(Driver, From);
handle_event(_, _, _, {driver, Driver}) -> work(Driver, none).

%% @private gen_statem's, by state_functions.
state({call, From}, _, {driver, Driver}) -> work(Driver, From);
state(_, _, {driver, Driver}) -> work(Driver, none).

%% Not in tail position: the frame of who called back is below this one.
work(Driver, From) ->
    Monitor = monitor(process, Driver),
    Driver ! {works, self(), From},
    ok = until_down(Monitor).

%% @private
terminate(_, _) -> ok.

%% @private
code_change(_, State, _) -> {ok, State}.
