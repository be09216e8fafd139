%% @private A short session whose files nobody keeps: its files are bytes of a message, because who
%% asks is mostly on another node. This node is one with flame_prof, or one that has it from an
%% agent, in whose folder the files are then.
%%
%% The session is ended and its files are removed by a process of their own: also where the one
%% that asked for them is killed.
-module(flame_prof_recording).

-include_lib("kernel/include/file.hrl").

-export([record/3, until/2]).

-export_type([file/0]).

-type file() :: {Name :: binary(), Bytes :: binary()}.

%% A node is calibrated in its first session.
-define(START_MS, 10000).
-define(STOP_MS, 20000).
-define(FLUSH_MS, 3000).
%% Of all files: they are one message.
-define(BYTES_MOST, 67108864).
%% Of a session that runs already.
-define(OTHERS_BYTES_MOST, 16777216).

%% @doc It ends early when Caller ends, and then answers nothing that anyone waits for. Refused
%% while a session runs, but not beside triggers. One that failed meanwhile, by a disk that is full,
%% is an error.
-spec record(Ms :: pos_integer(), flame_prof:options(), Caller :: pid()) ->
    {ok, [file()]} | {error, flame_prof:reason()}.
record(Ms, Given, Caller) ->
    started(Given#{duration => Ms + ?STOP_MS}, fun(Session, Monitor) ->
        OthersMonitor = monitor(process, Caller),
        SessionMonitor = monitor(process, Session),
        receive
            {'DOWN', M, process, _, _} when M =:= Monitor; M =:= OthersMonitor;
                M =:= SessionMonitor -> ok
        after Ms -> ok
        end
    end, fun(Reason, _Monitor) -> {error, Reason} end).

%% @doc Until that monotonic time in milliseconds, or until the calling process ends. A session that
%% runs already is left alone: what it samples is written, and its newest files are the answer.
%% Beside triggers it is a session of its own. One that failed meanwhile is an error.
-spec until(integer(), flame_prof:options()) -> {ok, [file()]} | {error, flame_prof:reason()}.
until(Until, Given) ->
    Wait = fun(Monitor) ->
        receive {'DOWN', Monitor, process, _, _} -> ok
        after left(Until) -> ok
        end
    end,
    started(Given#{duration => left(Until) + ?STOP_MS},
        fun(_Session, Monitor) -> Wait(Monitor) end,
        fun
            ({already_started, #{pid := Pid}} = Reason, Monitor) ->
                case whereis(flame_prof_session_beside) of
                    Pid ->
                        {error, Reason};
                    _ ->
                        ok = Wait(Monitor),
                        of_other(flame_prof:flush(?FLUSH_MS))
                end;
            (Reason, _Monitor) ->
                {error, Reason}
        end).

left(Until) -> max(0, Until - erlang:monotonic_time(millisecond)).

%% It ends by itself where nothing else can end it: it has a duration.
started(Given, Wait, Refused) ->
    Record = fun
        ({ok, Session}, Monitor) ->
            ok = Wait(Session, Monitor),
            stopped(flame_prof_session:stop(Session, ?STOP_MS));
        ({error, Reason}, Monitor) ->
            Refused(Reason, Monitor)
    end,
    case whereis(flame_prof_agent) of
        undefined ->
            flame_prof_temporary:in_folder(fun(Folder, Monitor) ->
                Record(begun(Given#{dir => Folder}), Monitor)
            end);
        Agent ->
            flame_prof_temporary:in_process(fun(Monitor) ->
                Record(flame_prof_agent:start_session(Agent, Given, none), Monitor)
            end)
    end.

%% Without what the environment has: a page of questions is no session of the operator.
begun(Given) ->
    case flame_prof_options:validate(Given) of
        {ok, Options} ->
            How = #{timeout => ?START_MS, owner => none, caller => self()},
            flame_prof_sup:start_bounded(Options, How);
        {error, _} = Error ->
            Error
    end.

stopped({ok, #{files := Files}}) ->
    try read(Files)
    after
        _ = [file:delete(File, [raw]) || File <- Files]
    end;
stopped({error, _} = Error) ->
    Error.

of_other(ok) ->
    Times = lists:sort([{Time, File} || File <- maps:get(files, flame_prof:info(), []),
        {ok, #file_info{mtime = Time}} <- [file:read_file_info(File, [raw, {time, posix}])]]),
    newest(lists:reverse([File || {_, File} <- Times]));
of_other({error, _} = Error) ->
    Error.

%% The one before has what was sampled before the newest began.
newest([Last, Before | _]) ->
    case file_size(Last) + file_size(Before) =< ?OTHERS_BYTES_MOST of
        true -> read([Before, Last]);
        false -> read([Last])
    end;
newest(Files) ->
    read(Files).

read(Files) ->
    case lists:sum([file_size(File) || File <- Files]) > ?BYTES_MOST of
        true -> {error, flame_prof_error:file(hd(Files), <<"it has too many samples">>)};
        false -> read(Files, [])
    end.

%% Without the server of files, which may hang in another file.
file_size(File) -> filelib:file_size(File, prim_file).

read([], Read) ->
    {ok, lists:reverse(Read)};
read([File | Files], Read) ->
    case prim_file:read_file(File) of
        {ok, Bytes} -> read(Files, [{name(File), Bytes} | Read]);
        {error, Reason} -> {error, flame_prof_error:file(File, Reason)}
    end.

%% One that is being written is whole as far as it goes.
name(File) ->
    filename:basename(unicode:characters_to_binary(File), <<".part">>).
