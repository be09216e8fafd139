%% @private What is a session elsewhere, in a node that cannot run the library: the
%% portable engine with all that chooses what it samples, for a remote writer
%% (flame_prof_remote_writer) in another node, which writes the files.
%%
%% It ends on request, and when its engine or its remote writer ends. It is a child of
%% flame_prof_sup in the place of the session, and goes with it.
-module(flame_prof_remote_sampler).

-behaviour(gen_server).

-export([start_link/2, end_soon/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(sampler, {
    node :: pid(),
    targets :: pid(),
    engine :: flame_prof_portable:engine(),
    writer :: reference()
}).

%% The engine's last tick is over by then, and told, unless a process that it asks does
%% not answer.
-define(HALT_MS, 2000).

%% @doc With the remote writer that there is in How.
-spec start_link(flame_prof_options:options(), flame_prof_session:how()) ->
    {ok, pid()} | {error, term()}.
start_link(Options, #{remote_writer := Writer, timeout := Timeout}) ->
    case gen_server:start_link(?MODULE, {Options, Writer}, [{timeout, Timeout}]) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc Only asks, from anywhere: the remote writer hears of the end.
-spec end_soon(pid()) -> ok.
end_soon(Pid) ->
    gen_server:cast(Pid, stop).

-spec init({flame_prof_options:options(), pid()}) -> {ok, #sampler{}} | {stop, term()}.
init({Options, Writer}) ->
    _ = process_flag(trap_exit, true),
    case lacking(Options) of
        none -> begun(Options, Writer);
        Why -> {stop, {shutdown, {refused, {engine, #{engine => portable, reason => Why}}}}}
    end.

lacking(#{mode := schedulers}) ->
    <<"mode schedulers needs the C library">>;
lacking(#{process_options := #{follow := Follow}}) when
    Follow =:= send; Follow =:= spawn_and_send
->
    <<"follow by send needs the C library, which is the tracer">>;
lacking(#{allocations := #{}}) ->
    flame_prof_engine:without_allocations();
lacking(_) ->
    none.

begun(Options, Writer) ->
    Node = flame_prof_node:start_link(),
    Targets = flame_prof_targets:start_link(#{
        options => Options,
        rules => [],
        exclude => [Node | flame_prof_config:own_processes()]
    }),
    Transport = flame_prof_transport:far(Writer),
    Own = [Node | flame_prof_targets:processes(Targets)],
    case flame_prof_portable:start_link(flame_prof_config:portable(Transport, Options, Own)) of
        {ok, Engine} ->
            ok = flame_prof_node:watch(Node, Transport, portable, Options),
            ok = flame_prof_targets:attach(Targets, {portable, Engine}),
            Monitor = monitor(process, Writer),
            {ok, #sampler{node = Node, targets = Targets, engine = Engine, writer = Monitor}};
        {error, Reason} ->
            {stop, {shutdown, {refused, {engine, #{engine => portable,
                reason => <<"it did not start">>, cause => Reason}}}}}
    end.

-spec handle_call(term(), gen_server:from(), #sampler{}) ->
    {reply, {error, unknown_call}, #sampler{}}.
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #sampler{}) -> {noreply, #sampler{}}.
handle_cast(stop, State) ->
    {noreply, halting(State)};
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #sampler{}) -> {noreply, #sampler{}} | {stop, term(), #sampler{}}.
handle_info({'DOWN', Writer, process, _, _}, #sampler{writer = Writer} = State) ->
    {noreply, halting(State)};
handle_info(halt_now, #sampler{engine = Engine} = State) ->
    ok = flame_prof_portable:kill(Engine),
    {noreply, State};
handle_info({'EXIT', Pid, Reason}, #sampler{engine = Engine, targets = Targets} = State) ->
    case flame_prof_portable:pid(Engine) of
        Pid -> {stop, ended(Reason), State};
        _ when Pid =:= Targets -> {stop, {shutdown, {targets, Reason}}, State};
        _ -> {noreply, State}
    end;
handle_info(_, State) ->
    {noreply, State}.

halting(#sampler{engine = Engine} = State) ->
    ok = flame_prof_portable:stop(Engine),
    _ = erlang:send_after(?HALT_MS, self(), halt_now),
    State.

%% The reason goes to the remote writer, not to the log.
ended(normal) -> normal;
ended(Reason) -> {shutdown, {portable_engine, Reason}}.

%% The engine has ended, or is killed here.
-spec terminate(term(), #sampler{}) -> ok.
terminate(_Reason, #sampler{node = Node, targets = Targets, engine = Engine}) ->
    ok = flame_prof_node:stop(Node),
    ok = flame_prof_targets:stop(Targets),
    ok = flame_prof_portable:kill(Engine),
    flame_prof_portable:restore(Engine).
