%% @private Events of a readable trace, as maps, from what the library has copied
%% (c_src/agent_nif/trace_nif.c); and the names of their processes.
-module(flame_prof_trace_events).

-export([event/3, names/2]).

-export_type([raw/0, names/0]).

%% Time of the library's clock in nanoseconds, and the arguments of a tracer's trace/5.
-type raw() :: {integer(), atom(), pid(), term(), list(), list()}.

-type names() :: #{pid() => atom() | mfa() | unknown}.

-define(NAMES_MS, 100).

%% @doc Offset: of the library's clock to Unix time.
-spec event(raw(), integer(), names()) -> flame_prof_trace_format:event().
event({Time, Tag, Pid, Message, Extra, Result}, Offset, Names) ->
    Event = what(Tag, Message, Extra),
    result(Tag, Result, Event#{
        time => Time + Offset, process => Pid, name => maps:get(Pid, Names, unknown)}).

what(call, {M, F, Args}, _) -> #{event => call, mfa => mfa(M, F, Args), args => Args};
what(call, {'...', tuple, 3, [M, F]}, _) ->
    #{event => call, mfa => {M, F, '...'}, args => '...'};
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

%% @doc With those of new processes. They are asked by another process: one that hangs does not
%% answer.
-spec names([raw()], names()) -> names().
names(Events, Names) ->
    case lists:usort([element(3, E) || E <- Events, not is_map_key(element(3, E), Names)]) of
        [] ->
            Names;
        New ->
            Own = self(),
            {Asking, Monitor} = spawn_monitor(fun() ->
                _ = [Own ! {self(), Pid, name(Pid)} || Pid <- New]
            end),
            Until = erlang:monotonic_time(millisecond) + ?NAMES_MS,
            Unknown = maps:from_list([{Pid, unknown} || Pid <- New]),
            asked(Asking, Monitor, Until, maps:merge(Names, Unknown))
    end.

asked(Asking, Monitor, Until, Names) ->
    receive
        {Asking, Pid, Name} -> asked(Asking, Monitor, Until, Names#{Pid := Name});
        {'DOWN', Monitor, process, Asking, _} -> Names
    after max(0, Until - erlang:monotonic_time(millisecond)) ->
        true = demonitor(Monitor, [flush]),
        true = exit(Asking, kill),
        Names
    end.

name(Pid) ->
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
