%% @private The events of a session.
%%
%% Each event goes to `telemetry' where that application is loaded (flame_prof does
%% not depend on it), and to `logger' as a report of level `notice' in the domain
%% `[flame_prof]'. OTP's default handler drops domains other than its own: a node
%% is quiet until a handler or a filter for this one is added. Events that need action, such as a
%% refused configuration, are logged without a domain where they happen.
%%
%% Handlers run in a process of the event's own: a slow handler delays no session, and
%% one that calls flame_prof:stop/0 gets an answer. The events of one process are
%% handled one after the other.
-module(flame_prof_event).

-include("flame_prof.hrl").
-include_lib("kernel/include/logger.hrl").

-export([emit/3, session_started/2, session_stopped/2]).
-export([format/2]).

%% @doc As telemetry's execute/3, of an event of include/flame_prof.hrl. Never fails, and
%% returns before any handler is called.
-spec emit([atom(), ...], #{atom() => number()}, #{atom() => term()}) -> ok.
emit(Event, Measurements, Metadata) ->
    Meta = #{
        application => flame_prof,
        domain => [flame_prof],
        report_cb => fun ?MODULE:format/2,
        pid => self(),
        time => logger:timestamp()
    },
    Before = get(?MODULE),
    Emitter = spawn(fun() ->
        ok = await(Before),
        ?LOG_NOTICE(#{event => Event, measurements => Measurements, metadata => Metadata}, Meta),
        execute(Event, Measurements, Metadata)
    end),
    _ = put(?MODULE, Emitter),
    ok.

%% @doc By the session. It has no file yet if a trigger has just fired.
-spec session_started(flame_prof_run:description(), none | binary()) -> ok.
session_started(Description, Trigger) ->
    About = maps:with([engine, engine_reason, files], Description),
    emit(
        ?FLAME_PROF_EVENT_SESSION_START,
        #{system_time => erlang:system_time(), monotonic_time => erlang:monotonic_time()},
        About#{session => self(), trigger => Trigger}
    ).

%% @doc By the session. Like the stop of a telemetry span it has `duration', in native units.
-spec session_stopped(flame_prof_run:run(), ok | {error, flame_prof:reason()}) -> ok.
session_stopped(Run, Outcome) ->
    Counts = [attempted, written, inconsistent, dropped, exited, ticks, missed, bytes, elapsed_ms],
    #{elapsed_ms := Ms} = Run,
    emit(
        ?FLAME_PROF_EVENT_SESSION_STOP,
        (maps:with(Counts, Run))#{
            monotonic_time => erlang:monotonic_time(),
            duration => erlang:convert_time_unit(Ms, millisecond, native)
        },
        (maps:with([engine, files, error, trigger], Run))#{session => self(), outcome => Outcome}
    ).

%% The event before this one is handled.
await(undefined) ->
    ok;
await(Emitter) ->
    Monitor = erlang:monitor(process, Emitter),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    end.

%% By a variable: there is nothing to call where it is not loaded.
execute(Event, Measurements, Metadata) ->
    Telemetry = telemetry,
    case erlang:function_exported(Telemetry, execute, 3) of
        true ->
            try
                _ = Telemetry:execute(Event, Measurements, Metadata),
                ok
            catch
                _:_ -> ok
            end;
        false ->
            ok
    end.

%% @doc One of flame_prof's reports on one line, for logger.
-spec format(map(), map()) -> unicode:chardata().
format(#{event := Event, measurements := Measurements, metadata := Metadata}, _Config) ->
    Name = lists:join($., [atom_to_list(Part) || Part <- Event]),
    Pairs = lists:sort(maps:to_list(maps:merge(Metadata, Measurements))),
    [Name | [pair(Key, Value) || {Key, Value} <- Pairs]].

pair(outcome, {error, Reason}) ->
    io_lib:format(" outcome=\"~ts\"", [flame_prof:format_error(Reason)]);
pair(Key, Value) ->
    io_lib:format(" ~tw=~0tP", [Key, Value, 20]).
