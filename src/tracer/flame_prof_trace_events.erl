%% @private Events of a readable trace, as maps, from what the library has copied
%% (c_src/agent_nif/trace_nif.c); and the names of their processes.
-module(flame_prof_trace_events).

-export([event/3, names/3, of_program/2, start_namer/0]).

-export_type([raw/0, names/0]).

%% Time of the library's clock in nanoseconds, and the arguments of a tracer's trace/5.
-type raw() :: {integer(), atom(), pid(), term(), list(), list()}.

-type names() :: #{pid() => atom() | mfa() | unknown | own}.
%% `own': a process of flame_prof.

-define(NAMES_MS, 100).

%% @doc Offset: of the library's clock to Unix time.
-spec event(raw(), integer(), names()) -> flame_prof_trace_format:event().
event({Time, Tag, Pid, Message, Extra, Result}, Offset, Names) ->
    Event = what(Tag, Message, Extra),
    result(Tag, Result, Event#{
        time => Time + Offset, process => Pid, name => maps:get(Pid, Names, unknown)}).

what(call, {M, F, Args}, _) -> #{event => call, mfa => mfa(M, F, Args), args => Args};
what(return_from, MFA, [Value]) -> #{event => return, mfa => MFA, value => Value};
what(exception_from, MFA, [{Class, Reason}]) ->
    #{event => exception, mfa => MFA, class => Class, reason => Reason};
what(send, Message, [To]) -> #{event => send, message => Message, to => To};
what(send_to_non_existing_process, Message, [To]) ->
    #{event => send, message => Message, to => To, exists => false};
what('receive', Message, _) -> #{event => 'receive', message => Message};
what(Tag, Pid, [{M, F, Args}]) when Tag =:= spawn; Tag =:= spawned ->
    #{event => Tag, other => Pid, mfa => mfa(M, F, Args), args => Args};
what(exit, Reason, _) -> #{event => exit, reason => Reason};
what(Tag, Name, _) when Tag =:= register; Tag =:= unregister ->
    #{event => Tag, registered_name => Name};
what(Tag, Other, _) -> #{event => Tag, other => Other}.

%% Of arguments that are cut the number is not known.
mfa(M, F, Args) ->
    try {M, F, length(Args)}
    catch
        error:badarg -> {M, F, '...'}
    end.

result(call, [{flame_prof_trace, Caller, Stack}], Event) ->
    Event#{caller => Caller, stack => Stack};
result('receive', [From], Event) -> Event#{from => From};
result(_, [], Event) -> Event;
result(_, [Result], Event) -> Event#{result => Result}.

%% @doc The process that asks others for their names: one that hangs does not answer. It is there
%% before anything is traced, and ends with who has started it.
-spec start_namer() -> pid().
start_namer() ->
    Reader = self(),
    spawn(fun() -> naming(Reader, monitor(process, Reader)) end).

naming(Reader, Monitor) ->
    receive
        {Reader, Ref, Pids} ->
            _ = [Reader ! {Ref, Pid, name(Pid)} || Pid <- Pids],
            Reader ! {Ref, done},
            naming(Reader, Monitor);
        {'DOWN', Monitor, process, Reader, _} ->
            ok
    end.

%% @doc With those of new processes. A name that does not arrive in time stays unknown.
-spec names([raw()], pid(), names()) -> names().
names(Events, Namer, Names) ->
    Of = lists:usort(lists:append([[element(3, E) | others(E)] || E <- Events])),
    case [Pid || Pid <- Of, not is_map_key(Pid, Names)] of
        [] ->
            Names;
        New ->
            Ref = make_ref(),
            Namer ! {self(), Ref, New},
            Until = erlang:monotonic_time(millisecond) + ?NAMES_MS,
            Unknown = maps:from_list([{Pid, unknown} || Pid <- New]),
            named(Ref, Until, maps:merge(Names, Unknown))
    end.

%% The other process of a message, a spawn or a link.
others({_, Tag, _, _, [To | _], _}) when
    is_pid(To), node(To) =:= node(), Tag =:= send orelse Tag =:= send_to_non_existing_process
->
    [To];
others({_, 'receive', _, _, _, [From]}) when is_pid(From), node(From) =:= node() -> [From];
others({_, Tag, _, Other, _, _}) when
    is_pid(Other), node(Other) =:= node(),
    Tag =/= call, Tag =/= send, Tag =/= 'receive', Tag =/= exit
->
    [Other];
others(_) ->
    [].

%% @doc Without those of processes of flame_prof, as the probes of a session that runs beside it,
%% and without calls that it makes in others.
-spec of_program([raw()], names()) -> [raw()].
of_program(Events, Names) ->
    Own = maps:filter(fun(_, Name) -> is_own(Name) end, Names),
    [Event || Event <- Events, not is_called(Event),
        not lists:any(fun(Pid) -> is_map_key(Pid, Own) end, [element(3, Event) | others(Event)])].

is_called({_, call, _, _, _, [{flame_prof_trace, Caller, Stack}]}) ->
    flame_prof_own:is_in([Caller | case is_list(Stack) of true -> Stack; false -> [] end]);
is_called(_) ->
    false.

is_own(own) -> true;
is_own({_, _, _} = MFA) -> flame_prof_own:is_own(#{initial_call => MFA});
is_own(Name) -> flame_prof_own:is_own(#{registered_name => Name}).

named(Ref, Until, Names) ->
    receive
        {Ref, Pid, Name} -> named(Ref, Until, Names#{Pid := Name});
        {Ref, done} -> Names
    after max(0, Until - erlang:monotonic_time(millisecond)) ->
        Names
    end.

name(Pid) ->
    case flame_prof_own:is_live(Pid) of
        true -> own;
        false -> name_of_program(Pid)
    end.

name_of_program(Pid) ->
    case process_info(Pid, [registered_name, initial_call]) of
        [{registered_name, Name}, _] when is_atom(Name) -> Name;
        [_, {initial_call, {proc_lib, _, _}}] -> started(Pid);
        [_, {initial_call, MFA}] -> MFA;
        undefined -> unknown
    end.

%% Without the rest of the dictionary, from OTP 26.2 on, which the types of OTP 25 do not know.
-dialyzer({nowarn_function, started/1}).
started(Pid) ->
    try erlang:process_info(Pid, [{dictionary, '$initial_call'}]) of
        [{_, {_, _, _} = MFA}] -> MFA;
        _ -> unknown
    catch
        error:badarg -> unknown
    end.
