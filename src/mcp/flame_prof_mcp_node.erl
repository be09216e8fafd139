%% @private One node for `flame_prof mcp': the connection, which stays, and what is lent to the
%% node, which goes a minute after the last look. A call of a tool borrows the node, and gives it
%% back by its end.
%%
%% A node that goes is connected to again by the next call.
-module(flame_prof_mcp_node).

-behaviour(gen_server).

-export([start_link/2, borrow/3, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(state, {
    name :: string(),
    parsed :: flame_prof_cli_args:parsed(),
    agent = none :: none | flame_prof_attach:agent(),
    borrowers = #{} :: #{reference() => true},
    timer = none :: none | reference()
}).

-define(KEPT_MS, 60000).
%% What was lent is removed: the agent waits for a session and for schedulers.
-define(STOP_MS, 60000).

%% @doc Parsed has the ways to the node. Nothing is done yet.
-spec start_link(string(), flame_prof_cli_args:parsed()) -> {ok, pid()}.
start_link(Name, Parsed) ->
    {ok, _} = gen_server:start_link(?MODULE, {Name, Parsed}, []).

%% @doc The node, with this module there until the calling process ends. Without: as for {@link
%% flame_prof_attach:open/2}.
-spec borrow(pid(), module(), refused | bare) -> {ok, node()} | {error, flame_prof:reason()}.
borrow(Server, Module, Without) ->
    gen_server:call(Server, {borrow, Module, Without}, infinity).

%% @doc Gives back what was lent.
-spec stop(pid()) -> ok.
stop(Server) ->
    gen_server:stop(Server, normal, ?STOP_MS).

-spec init({string(), flame_prof_cli_args:parsed()}) -> {ok, #state{}}.
init({Name, Parsed}) ->
    _ = process_flag(trap_exit, true),
    {ok, #state{name = Name, parsed = Parsed}}.

-spec handle_call({borrow, module(), refused | bare}, gen_server:from(), #state{}) ->
    {reply, {ok, node()} | {error, flame_prof:reason()}, #state{}}.
handle_call({borrow, Module, Without}, {Caller, _}, State0) ->
    case lent(connected(State0), Module, State0) of
        {ok, Node, #state{borrowers = Borrowers} = State} ->
            case fits(Without, Node, State) of
                ok ->
                    Kept = (awake(State))#state{
                        borrowers = Borrowers#{monitor(process, Caller) => true}},
                    {reply, {ok, Node}, Kept};
                {error, _} = Error ->
                    {reply, Error, rested(State)}
            end;
        {error, _} = Error ->
            {reply, Error, State0}
    end.

%% Without a word to the node where it is connected.
connected(#state{name = Name, parsed = Parsed}) ->
    case [Node || Node <- nodes(connected), atom_to_list(Node) =:= Name] of
        [Node] -> {ok, Node};
        [] ->
            case flame_prof_remote:connect([Name], Parsed) of
                {ok, [Node]} -> {ok, Node};
                {error, _} = Error -> Error
            end
    end.

lent({error, _} = Error, _Module, _State) ->
    Error;
lent({ok, Node}, Module, State) ->
    Timeout = flame_prof_cli_nodes:timeout(State#state.parsed),
    case flame_prof_remote:lacks(Node, Module, Timeout) of
        %% Modules sent before are gone with the connection, or with the node.
        {ok, true} -> opened(Node, State#state{agent = none});
        {ok, false} -> {ok, Node, State};
        {error, _} = Error -> Error
    end.

opened(Node, State) ->
    case flame_prof_attach:open(Node, bare, mcp) of
        {ok, Agent} -> {ok, Node, State#state{agent = Agent}};
        {error, _} = Error -> Error
    end.

fits(refused, Node, #state{agent = Agent}) when Agent =/= none ->
    case flame_prof_attach:lacks(Agent) of
        {true, Why} -> {error, {attach, #{node => Node, reason => Why, cause => incompatible}}};
        false -> ok
    end;
fits(_, _Node, _State) ->
    ok.

%% The modules are removed after some time without a call.
rested(#state{agent = Agent, borrowers = Borrowers} = State) when
    Agent =/= none, map_size(Borrowers) =:= 0
->
    Awake = awake(State),
    Awake#state{timer = erlang:start_timer(?KEPT_MS, self(), leave)};
rested(State) ->
    State.

awake(#state{timer = none} = State) ->
    State;
awake(#state{timer = Timer} = State) ->
    _ = erlang:cancel_timer(Timer),
    State#state{timer = none}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', Monitor, process, _, _}, #state{borrowers = Borrowers} = State) ->
    {noreply, rested(State#state{borrowers = maps:remove(Monitor, Borrowers)})};
handle_info({timeout, Timer, leave}, #state{timer = Timer} = State) ->
    ok = left(State),
    {noreply, State#state{agent = none, timer = none}};
handle_info(_, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, State) ->
    left(State).

left(#state{agent = none}) ->
    ok;
left(#state{agent = Agent}) ->
    case flame_prof_attach:close(Agent) of
        ok -> ok;
        {error, {node, _}} -> ok;
        {error, Reason} -> flame_prof_cli_out:say(flame_prof:format_error(Reason))
    end.
