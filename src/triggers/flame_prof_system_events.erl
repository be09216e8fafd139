%% @private Events that the VM reports: long collections, long turns, large heaps, busy ports.
%%
%% Where trace sessions have a monitor of their own (OTP 28 on) no other monitor is
%% touched. Before that a node has one system monitor. It is taken only when it is free
%% has set it, given back at the end, and left alone from the moment on at which
%% another process has taken it.
%%
%% An event that has come has to be switched off for a while, or its bound raised: a
%% node in trouble makes thousands in a second.
-module(flame_prof_system_events).

-export([open/1, set/3, close/1]).
-export([event/1]).

-export_type([handle/0, wanted/0, event/0]).

-type wanted() :: #{flame_prof_trigger:event() => pos_integer() | true}.

-record(handle, {
    on :: wanted(),
    session :: none | term()
}).

-opaque handle() :: #handle{}.

-type event() :: {flame_prof_trigger:event(), number(), Detail :: binary()}.

%% @doc The caller gets a message for each event: event/1. `{error, Why}': another
%% program has the monitor.
-spec open(wanted()) -> {ok, handle()} | {error, binary()}.
open(Wanted) ->
    case has_sessions() of
        true ->
            Trace = trace,
            Session = Trace:session_create(flame_prof_triggers, self(), []),
            {ok, switch(Wanted, #handle{on = #{}, session = Session})};
        false ->
            open_node(Wanted, erlang:system_monitor())
    end.

has_sessions() ->
    Trace = trace,
    case code:ensure_loaded(Trace) of
        {module, Trace} -> erlang:function_exported(Trace, system, 3);
        {error, _} -> false
    end.

open_node(Wanted, undefined) ->
    case erlang:system_monitor(self(), options(Wanted)) of
        undefined ->
            {ok, #handle{on = Wanted, session = none}};
        Theirs ->
            %% Between the two calls.
            _ = erlang:system_monitor(Theirs),
            {error, taken()}
    end;
open_node(_Wanted, _Theirs) ->
    {error, taken()}.

taken() ->
    <<"another program uses erlang:system_monitor/2, which a node has only once before OTP 28">>.

options(On) ->
    [option(Event, Value) || {Event, Value} <- maps:to_list(On)].

option(Event, true) -> Event;
option(Event, Value) -> {Event, Value}.

%% @doc From this bound on it is to be told of, or not at all. What came before may
%% still be among the messages. Asks nothing of the VM where nothing changes.
-spec set(flame_prof_trigger:event(), pos_integer() | true | off, handle()) ->
    {ok, handle()} | {error, binary()}.
set(Event, off, #handle{on = On} = Handle) ->
    change(maps:remove(Event, On), Handle);
set(Event, Bound, #handle{on = On} = Handle) ->
    change(On#{Event => Bound}, Handle).

change(On, #handle{on = On} = Handle) ->
    {ok, Handle};
change(On, #handle{session = none} = Handle) ->
    case is_owner() of
        true -> change_node(On, Handle);
        false -> {error, taken()}
    end;
change(On, Handle) ->
    {ok, switch(On, Handle)}.

%% Without an event there is no monitor, and another program may take it.
is_owner() ->
    case erlang:system_monitor() of
        undefined -> true;
        {Pid, _} -> Pid =:= self()
    end.

change_node(On, Handle) ->
    Self = self(),
    case erlang:system_monitor(Self, options(On)) of
        Before when Before =:= undefined; element(1, Before) =:= Self ->
            {ok, Handle#handle{on = On}};
        Theirs ->
            _ = erlang:system_monitor(Theirs),
            {error, taken()}
    end.

switch(On, #handle{on = Before, session = Session} = Handle) ->
    Trace = trace,
    Off = maps:without(maps:keys(On), Before),
    _ = [Trace:system(Session, Event, false) || Event <- maps:keys(Off)],
    _ = [
        Trace:system(Session, Event, Value)
     || {Event, Value} <- maps:to_list(On), maps:get(Event, Before, off) =/= Value
    ],
    Handle#handle{on = On}.

-spec close(handle()) -> ok.
close(#handle{session = none}) ->
    Self = self(),
    case erlang:system_monitor() of
        {Self, _} -> give_back(Self);
        _ -> ok
    end;
close(#handle{session = Session}) ->
    Trace = trace,
    _ = Trace:session_destroy(Session),
    ok.

give_back(Self) ->
    case erlang:system_monitor(undefined) of
        {Self, _} ->
            ok;
        undefined ->
            ok;
        Theirs ->
            _ = erlang:system_monitor(Theirs),
            ok
    end.

%% @doc What a message says. The numbers are those of `above'.
-spec event(term()) -> event() | none.
event({monitor, Who, Event, Info}) when Event =:= long_gc; Event =:= long_schedule ->
    {Event, proplists:get_value(timeout, Info, 0), detail(Who, Info)};
event({monitor, Who, large_heap, Info}) ->
    Keys = [heap_block_size, old_heap_block_size, mbuf_size],
    {large_heap, lists:sum([proplists:get_value(Key, Info, 0) || Key <- Keys]), detail(Who, Info)};
event({monitor, Who, busy_port, Port}) ->
    {busy_port, 1, iolist_to_binary([text(Who), " to ", text(Port)])};
event(_) ->
    none.

%% Where it ran when its turn began and ended: of a process, functions.
detail(Who, Info) ->
    Calls = [
        [" ", Key, " ", flame_prof_names:call({M, F, A})]
     || {Item, Key} <- [{in, "from"}, {out, "to"}],
        {M, F, A} <- [proplists:get_value(Item, Info)]
    ],
    unicode:characters_to_binary([text(Who) | Calls]).

text(Pid) when is_pid(Pid) -> pid_to_list(Pid);
text(Port) when is_port(Port) -> port_to_list(Port);
text(_) -> "?".
