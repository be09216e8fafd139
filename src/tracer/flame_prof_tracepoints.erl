%% @private What a tracing switches on in the VM: breakpoints of functions, flags of processes,
%% patterns of messages; and how it goes off again, by any process.
%%
%% <dl>
%%   <dt>From OTP 27 on</dt>
%%   <dd>A trace session of its own; and one for each function that is traced with `meta', since
%%     a function is known by the state of its session's tracer. Nothing of another session is
%%     seen or changed. Only collections are shared (erlang/otp#11623): a process whose collections
%%     another session traces is left alone.</dd>
%%   <dt>OTP 25 and 26</dt>
%%   <dd>There is one tracer a process, and one set of breakpoints. A process that has another
%%     tracer is left alone and counted. A function that another tracer has is refused.</dd>
%% </dl>
%%
%% `trace(all)' is never used: it stops all schedulers.
-module(flame_prof_tracepoints).

-export([set/3, add/3, flag/3, clear/1, forget/0, off/1]).

-export_type([wanted/0, set/0, counts/0, tracer_flag/0]).

%% By variables: older releases do not have the module.
-define(TRACER, flame_prof_looks_nif).
-define(BATCH, 100).
%% Not an application: the name of its parameter.
-define(REMEMBERED, flame_prof_tracepoints).

-type tracer_flag() :: atom().

-type wanted() ::
    #{
        tracer := flame_prof_looks_nif:tracer_state(),
        flags := [tracer_flag()],
        %% `chosen': new ones; the library chooses among the others, for flag/3.
        processes := every | chosen | none | [pid()],
        %% `meta' among the flags: all processes, and the tracer has the state tracer + the
        %% number of the pattern, from 1. No other patterns are numbered.
        patterns := [{mfa() | {atom(), atom(), '_'} | {atom(), '_', '_'}, term(), [atom()]}],
        message_patterns := [{send | 'receive', term()}],
        atom() => term()
    }.

%% The tracepoints that are on, or may be. Any process that has it can switch it off.
-type set() ::
    #{
        tracer := flame_prof_looks_nif:tracer_state(),
        sessions := [term()],
        %% Of OTP 25 and 26.
        points := [{mfa() | tuple(), [atom()]}],
        flags := [tracer_flag()],
        messages := [send | 'receive']
    }.

-type counts() ::
    #{
        functions := non_neg_integer(),
        processes := non_neg_integer(),
        %% They have another tracer.
        left_alone := non_neg_integer()
    }.

%% @doc Tell gets what will be on before it is. Both functions are called often: every few
%% milliseconds. After a failure the tracepoints that were set stay on: see {@link clear/1}.
-spec set(wanted(), Tell :: fun((set()) -> term()), Check :: fun(() -> term())) ->
    {ok, set(), counts()} | {error, unicode:chardata()}.
set(#{patterns := Patterns, flags := Flags} = Wanted, Tell, Check) ->
    Set = off(Wanted),
    Numbered = number(Patterns),
    try
        case has_sessions() of
            true -> set_sessions(Wanted, Numbered, Set, Tell, Check);
            false -> set_all(Wanted, Numbered, Set#{flags := Flags}, Tell, Check)
        end
    catch
        throw:{refused, Why} -> {error, Why}
    end.

%% @doc Nothing is on.
-spec off(#{tracer := flame_prof_looks_nif:tracer_state(), _ => _}) -> set().
off(#{tracer := Tracer}) ->
    #{tracer => Tracer, sessions => [], points => [], flags => [], messages => []}.

number(Patterns) ->
    {Numbered, _} = lists:mapfoldl(
        fun({MFA, Spec, Flags}, N) -> {{MFA, Spec, Flags, N}, N + 1} end, 1, Patterns),
    Numbered.

has_sessions() ->
    {module, trace} =:= code:ensure_loaded(trace).

-spec refuse(string(), [term()]) -> no_return().
refuse(Format, Args) ->
    throw({refused, unicode:characters_to_binary(io_lib:format(Format, Args))}).

shown(MFA) -> flame_prof_names:call(MFA).

%% With sessions.

set_sessions(#{tracer := Tracer} = Wanted, Patterns, Set0, Tell, Check) ->
    {Meta, Others} = lists:partition(fun({_, _, Flags, _}) -> Flags =:= [meta] end, Patterns),
    {Set1, Functions} = lists:foldl(
        fun({MFA, Spec, Flags, N}, {Set, Sum}) ->
            Check(),
            {Session, New} = create(Tracer + N, Set, Tell),
            {New, Sum + function(Session, MFA, Spec, Flags)}
        end,
        {Set0, 0}, Meta),
    case Wanted of
        #{flags := [], message_patterns := []} when Others =:= [] ->
            {ok, Set1, #{functions => Functions, processes => 0, left_alone => 0}};
        _ ->
            {Session, Set} = create(Tracer, Set1, Tell),
            set_session(Session, Wanted, Others, Set, Functions, Check)
    end.

set_session(Session, Wanted, Patterns, Set, Functions0, Check) ->
    #{processes := Processes, flags := Flags, message_patterns := Messages} = Wanted,
    Functions = lists:foldl(
        fun({MFA, Spec, Options, _}, Sum) ->
            Check(),
            Sum + function(Session, MFA, Spec, Options)
        end,
        Functions0, Patterns),
    Trace = trace,
    _ = [
        case Event of
            send -> Trace:send(Session, Spec, []);
            'receive' -> Trace:recv(Session, Spec, [])
        end
     || {Event, Spec} <- Messages
    ],
    Collects = lists:member(garbage_collection, Flags),
    IsEvery = lists:member(Processes, [every, chosen]),
    ok = ensure_alone(Collects andalso IsEvery, Session),
    Turn = fun(Which) ->
        case Collects andalso is_collection_traced(Which, Session) of
            true -> other;
            false -> process(Which, fun() -> Trace:process(Session, Which, true, Flags) end)
        end
    end,
    {ok, Set, (processes(Processes, Turn, Check))#{functions => Functions}}.

create(State, #{sessions := Sessions} = Set, Tell) ->
    Trace = trace,
    Session = Trace:session_create(flame_prof, {?TRACER, State}, []),
    New = Set#{sessions := [Session | Sessions]},
    _ = Tell(New),
    {Session, New}.

function(Session, MFA, Spec, Flags) ->
    Trace = trace,
    Trace:function(Session, MFA, Spec, Flags).

ensure_alone(true, Own) ->
    case is_collection_traced(new_processes, Own) of
        true -> refuse("another trace session traces the collections of new processes: two that "
            "do may end the node (erlang/otp#11623)", []);
        false -> ok
    end;
ensure_alone(false, _Own) ->
    ok.

is_collection_traced(Which, {_, Own}) ->
    Trace = trace,
    case Trace:session_info(Which) of
        Sessions when is_list(Sessions) ->
            lists:any(fun(Session) -> has_collections(Session, Which) end, Sessions -- [Own]);
        undefined ->
            false
    end.

%% An error: the session has ended since, or this function knows too little of it.
has_collections(Session, Which) ->
    Trace = trace,
    try flags(Session, Which) of
        {flags, Flags} when is_list(Flags) -> lists:member(garbage_collection, Flags);
        undefined -> false
    catch
        error:_ -> lists:member(Session, Trace:session_info(all))
    end.

%% The session of `erlang:trace/3' and dbg is in the list of session_info/1, but info/3 refuses
%% it: its number is an atom.
flags({_Name, Number} = Session, Which) when is_integer(Number) ->
    Trace = trace,
    Trace:info(Session, Which, flags);
flags(_Legacy, Which) ->
    erlang:trace_info(Which, flags).

%% Without sessions.

set_all(#{tracer := Tracer} = Wanted, Patterns, Set0, Tell, Check) ->
    #{processes := Processes, flags := Flags, message_patterns := Messages} = Wanted,
    ok = clear_left(),
    ok = lists:foreach(fun({MFA, _, How, _}) -> ensure_free(MFA, How) end, Patterns),
    ok = lists:foreach(fun ensure_free_event/1, Messages),
    Set = Set0#{
        points := [{MFA, How} || {MFA, _, How, _} <- Patterns],
        messages := [Event || {Event, _} <- Messages]
    },
    _ = Tell(Set),
    ok = remember(Set),
    Functions = lists:foldl(
        fun({MFA, Spec, How, N}, Sum) ->
            Check(),
            Sum + erlang:trace_pattern(MFA, Spec, how(How, Tracer + N))
        end,
        0, Patterns),
    _ = [erlang:trace_pattern(Event, Spec, []) || {Event, Spec} <- Messages],
    Turn = fun(Which) ->
        Options = [{tracer, ?TRACER, Tracer} | Flags],
        if_free(Which, Tracer, fun() -> erlang:trace(Which, true, Options) end)
    end,
    {ok, Set, (processes(Processes, Turn, Check))#{functions => Functions}}.

%% The VM logs an attempt to replace a tracer.
if_free(Which, Tracer, Turn) ->
    case erlang:trace_info(Which, tracer) of
        {tracer, []} -> process(Which, Turn);
        {tracer, {?TRACER, Tracer}} -> process(Which, Turn);
        {tracer, _} -> other;
        undefined -> gone
    end.

%% What a tracing leaves whose owner and guard were killed: the VM does not tell whose a breakpoint
%% is. The parameters of an application outlive all processes but the VM's. Its last word, 1 for
%% `off', is no parameter: while an application stops, none can be set.
remember(Set) ->
    application:set_env(?REMEMBERED, set, {Set, atomics:new(1, [])}).

clear_left() ->
    case application:get_env(?REMEMBERED, set) of
        {ok, {Left, IsOff}} ->
            _ = atomics:get(IsOff, 1) =:= 1 orelse clear(Left),
            forget();
        undefined ->
            ok
    end.

%% @doc What was on is off.
-spec forget() -> ok.
forget() ->
    case application:get_env(?REMEMBERED, set) of
        {ok, {_Set, IsOff}} -> atomics:put(IsOff, 1, 1);
        undefined -> ok
    end.

how([meta], State) -> [{meta, ?TRACER, State}];
how(Flags, _State) -> Flags.

%% Another tracer's breakpoint would be replaced, and then removed.
ensure_free(MFA, How) ->
    Item = case How of [meta] -> meta; _ -> traced end,
    _ = [
        refuse("~ts is traced by another tracer", [shown(Function)])
     || Function <- functions(MFA), is_taken(erlang:trace_info(Function, Item))
    ],
    ok.

%% Of a tracing of this library whose owner and guard were killed.
is_taken({meta, {?TRACER, _}}) -> false;
is_taken({_, No}) when No =:= false; No =:= undefined; No =:= [] -> false;
is_taken({_, _}) -> true.

functions({M, F, A}) when is_atom(M), M =/= '_' ->
    [
        {M, Name, Arity}
     || {Name, Arity} <- module_functions(M),
        F =:= '_' orelse F =:= Name,
        A =:= '_' orelse A =:= Arity
    ];
functions(_) ->
    [].

module_functions(M) ->
    try
        M:module_info(functions)
    catch
        error:undef -> []
    end.

ensure_free_event({Event, _}) ->
    case erlang:trace_info(Event, match_spec) of
        {match_spec, true} -> ok;
        _ -> refuse("another tracer has a pattern for ~ts", [Event])
    end.

%% Processes.

%% @doc More processes, with flags of their own. One that another tracer has is left alone.
-spec add(set(), [pid()], [tracer_flag()]) -> ok.
add(#{sessions := Sessions, tracer := Tracer}, Pids, Flags) ->
    Trace = trace,
    Turn = fun(Pid, How, Given) ->
        case Sessions of
            [Session | _] ->
                process(Pid, fun() -> Trace:process(Session, Pid, How, Given) end);
            [] ->
                Options = [{tracer, ?TRACER, Tracer} | Given],
                if_free(Pid, Tracer, fun() -> erlang:trace(Pid, How, Options) end)
        end
    end,
    lists:foreach(fun(Pid) -> _ = Turn(Pid, true, Flags), Turn(Pid, false, [silent]) end, Pids).

%% @doc Sets the flags of a process, unless another tracer has it.
-spec flag(set(), pid(), [tracer_flag()]) -> ok | other | gone.
flag(#{sessions := [Session | _]}, Pid, Flags) ->
    Trace = trace,
    case is_collection_traced(Pid, Session) of
        true -> other;
        false -> process(Pid, fun() -> Trace:process(Session, Pid, true, Flags) end)
    end;
flag(#{sessions := [], tracer := Tracer}, Pid, Flags) ->
    Options = [{tracer, ?TRACER, Tracer} | Flags],
    if_free(Pid, Tracer, fun() -> erlang:trace(Pid, true, Options) end).

%% The existing processes, and before them the new ones: none is missed between the two.
processes(none, _Turn, _Check) ->
    counted([]);
processes(chosen, Turn, _Check) ->
    _ = Turn(new_processes),
    counted([]);
processes(every, Turn, Check) ->
    _ = Turn(new_processes),
    counted(each(processes() -- [self()], Turn, Check));
processes(Pids, Turn, Check) ->
    counted(each(Pids, Turn, Check)).

each(Pids, Turn, Check) when length(Pids) =< ?BATCH ->
    Check(),
    [Turn(Pid) || Pid <- Pids];
each(Pids, Turn, Check) ->
    {Batch, Rest} = lists:split(?BATCH, Pids),
    each(Batch, Turn, Check) ++ each(Rest, Turn, Check).

counted(Outcomes) ->
    #{
        processes => length([ok || ok <- Outcomes]),
        left_alone => length([other || other <- Outcomes])
    }.

process(Which, Turn) ->
    try Turn() of
        _ -> ok
    catch
        error:_ when not is_pid(Which); node(Which) =/= node() -> other;
        error:_ -> case is_process_alive(Which) of true -> other; false -> gone end
    end.

%% Off.

%% @doc What another tracer has switched on stays. Of processes that the tracer has left in OTP 25
%% and 26, the flags go last: there may be many.
-spec clear(set()) -> ok.
clear(#{sessions := Sessions, points := Points, messages := Messages} = Set) ->
    _ = [end_session(Session) || Session <- Sessions],
    _ = [clear_point(Point) || Point <- Points],
    _ = [erlang:trace_pattern(Event, true, []) || Event <- Messages],
    clear_processes(Set).

%% OTP 27 and later count the sessions that trace new processes, and never less for one that is
%% destroyed: each spawn of the node would ask all sessions for ever.
end_session(Session) ->
    Trace = trace,
    _ = try Trace:process(Session, new_processes, false, [all]) catch error:_ -> gone end,
    Trace:session_destroy(Session).

%% A function that is not there any more has no breakpoint.
clear_point({MFA, [meta]}) ->
    _ = [
        erlang:trace_pattern(Function, false, [meta])
     || Function <- functions(MFA), is_own(erlang:trace_info(Function, meta))
    ],
    ok;
clear_point({MFA, Flags}) ->
    _ = erlang:trace_pattern(MFA, false, [Flag || Flag <- Flags, is_atom(Flag)]),
    ok.

%% [] is what the VM leaves where the library has answered `remove'.
is_own({meta, {?TRACER, _}}) -> true;
is_own({meta, []}) -> true;
is_own(_) -> false.

clear_processes(#{flags := []}) ->
    ok;
clear_processes(#{tracer := Tracer}) ->
    ok = clear_process(new_processes, Tracer),
    lists:foreach(fun(Pid) -> clear_process(Pid, Tracer) end, processes()).

%% The types of OTP 25 do not know that a tracer may be a module.
-dialyzer({nowarn_function, [clear_process/2, turn_off/1, is_taken/1, is_own/1, if_free/3]}).

%% Between the two calls no other tracer can have replaced this one.
clear_process(Which, Tracer) ->
    case erlang:trace_info(Which, tracer) of
        {tracer, {?TRACER, Tracer}} -> turn_off(Which);
        _ -> ok
    end.

%% All flags: a match specification may have set others.
turn_off(Which) ->
    try erlang:trace(Which, false, [all]) of
        _ -> ok
    catch
        error:badarg -> ok
    end.
