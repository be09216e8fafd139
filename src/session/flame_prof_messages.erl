%% @private The messages in work and the calls of a session's samples, when the places where
%% processes work on messages were not found at its start.
%%
%% Probes find these places ({@link flame_prof_wait_sites}), and a node that is busy may keep some
%% or all of them waiting for too long. The session then starts with the places that were found,
%% and this process, which is linked to it, has the others looked for again. The library reads
%% messages at all places that are known at that time. The session gets
%% `{flame_prof_messages, Pid, State}' for each try.
-module(flame_prof_messages).

-behaviour(gen_server).

-include("flame_prof_internal.hrl").
-include_lib("kernel/include/logger.hrl").

-export([state/2, start_link/3, config/2, format/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([state/0]).

-type state() :: on | {off, Why :: binary()}.

%% @doc Looks for the places if the option asks for them: a second at most.
-spec state(flame_prof_engine:name(), flame_prof_options:options()) -> state().
state(portable, _Options) ->
    {off, <<"the portable engine cannot read the terms on a stack">>};
state(native, #{messages := false}) ->
    {off, <<"not asked for">>};
state(native, _Options) ->
    case flame_prof_wait_sites:ensure() of
        ok -> on;
        {error, {wait_sites, Why}} -> {off, Why};
        {error, {_Error, _Field, Why}} -> {off, Why}
    end.

%% @doc By the session, before it starts in the library, which is not to sample the process. `none':
%% there is nothing to look for again. With the state as the session reports it.
-spec start_link(flame_prof_engine:name(), flame_prof_options:options(), state()) ->
    {none | pid(), state()}.
start_link(native, #{messages := true} = Options, {off, Why}) ->
    {ok, Pid} = gen_server:start_link(?MODULE, {self(), Options}, []),
    Reported = again(Why),
    ?LOG_WARNING("flame_prof samples without the messages in work: ~ts", [Reported], ?LOG_META),
    {Pid, {off, Reported}};
start_link(native, #{messages := true} = Options, on) ->
    case flame_prof_wait_sites:are_all() of
        true ->
            {none, on};
        false ->
            {ok, Pid} = gen_server:start_link(?MODULE, {self(), Options}, []),
            {Pid, on}
    end;
start_link(_Engine, _Options, State) ->
    {none, State}.

again(Why) ->
    Seconds = integer_to_binary(flame_prof_wait_sites:again_ms() div 1000),
    <<Why/binary, "; a running session tries again every ", Seconds/binary, " s">>.

%% @doc Whether the library shall read messages: also if the places may be found later.
-spec config(state(), none | pid()) -> boolean().
config(State, none) -> State =:= on;
config(_State, Pid) when is_pid(Pid) -> true.

%% @doc One line on a session that was to have messages, and none on one of an earlier version.
-spec format(map()) -> {ok, unicode:chardata()} | none.
format(#{engine := native, options := #{messages := true}, messages := {off, Why}}) -> {ok, Why};
format(_Info) -> none.

-spec init({pid(), flame_prof_options:options()}) ->
    {ok, {pid(), flame_prof_options:options()}}.
init({Session, _Options} = State) ->
    %% A busy node is what it is for.
    _ = process_flag(priority, high),
    _ = monitor(process, Session),
    ok = wait(),
    {ok, State}.

wait() ->
    _ = flame_prof_clock:send_after(flame_prof_wait_sites:again_ms(), find),
    ok.

-spec handle_call(term(), gen_server:from(), State) -> {reply, {error, unknown_call}, State}.
handle_call(_, _From, State) -> {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), State) -> {noreply, State}.
handle_cast(_, State) -> {noreply, State}.

-spec handle_info(term(), State) -> {noreply, State} | {stop, normal, State}.
handle_info(find, {Session, Options} = State) ->
    case state(native, Options) of
        on ->
            Session ! {?MODULE, self(), on},
            found(flame_prof_wait_sites:are_all(), State);
        {off, Why} ->
            Session ! {?MODULE, self(), {off, again(Why)}},
            found(false, State)
    end;
%% A session that ends normally ends no process that is linked to it.
handle_info({'DOWN', _, process, Session, _}, {Session, _} = State) ->
    {stop, normal, State};
handle_info(_, State) ->
    {noreply, State}.

found(true, State) ->
    ?LOG_NOTICE("flame_prof has found all places of messages in work", ?QUIET_META),
    {stop, normal, State};
found(false, State) ->
    ok = wait(),
    {noreply, State}.
