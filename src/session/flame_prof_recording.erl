%% @private A short session whose files nobody keeps: `flame_prof mcp' asks for it, by a call to
%% the node. The node is one with flame_prof, or one that has it from an agent.
-module(flame_prof_recording).

-export([record/3]).

-define(START_MS, 10000).
-define(STOP_MS, 20000).
%% Of all files: they are one message.
-define(BYTES_MOST, 67108864).

%% @doc In a process of its own, such as that of a call. The files are read and removed here. It
%% ends early when Caller ends, and then answers nothing that anyone waits for.
-spec record(Ms :: pos_integer(), flame_prof:options(), Caller :: pid()) ->
    {ok, [{Name :: binary(), Bytes :: binary()}]} | {error, flame_prof:reason()}.
record(Ms, Given, Caller) ->
    _ = process_flag(trap_exit, true),
    %% It ends by itself where this process cannot stop it.
    Bounded = Given#{duration => Ms + ?STOP_MS},
    case whereis(flame_prof_agent) of
        undefined -> in_folder(folders(), Ms, Bounded, Caller);
        Agent -> recorded(flame_prof_agent:start_session(Agent, Bounded, none), Ms, Caller)
    end.

folders() ->
    [Folder || Folder <- [os:getenv("TMPDIR")], is_list(Folder)] ++ ["/tmp", "/var/tmp"].

in_folder([Parent | Parents], Ms, Given, Caller) ->
    Name = io_lib:format("flame_prof.~ts.~.36b", [os:getpid(), erlang:unique_integer([positive])]),
    Folder = filename:join(Parent, lists:flatten(Name)),
    case {file:make_dir(Folder), Parents} of
        {ok, _} ->
            try
                _ = file:change_mode(Folder, 8#700),
                recorded(begun(Given#{dir => Folder}), Ms, Caller)
            after
                _ = file:del_dir_r(Folder)
            end;
        {{error, Reason}, []} ->
            {error, flame_prof_error:file(Parent, Reason)};
        {{error, _}, _} ->
            in_folder(Parents, Ms, Given, Caller)
    end.

%% Without what the environment has: a page of questions is no session of the operator.
begun(Given) ->
    case flame_prof_options:validate(Given) of
        {ok, Options} ->
            How = #{timeout => ?START_MS, owner => self()},
            flame_prof_sup:start_session_with_application(Options, How);
        {error, _} = Error ->
            Error
    end.

recorded({error, _} = Error, _Ms, _Caller) ->
    Error;
recorded({ok, Session}, Ms, Caller) ->
    CallerMonitor = monitor(process, Caller),
    SessionMonitor = monitor(process, Session),
    receive
        {'DOWN', CallerMonitor, process, _, _} -> ok;
        {'DOWN', SessionMonitor, process, _, _} -> ok
    after Ms -> ok
    end,
    case flame_prof_session:stop(Session, ?STOP_MS) of
        {ok, #{failure := _} = Run} -> failed(Run);
        {ok, #{files := Files}} -> taken(Files);
        {error, _} = Error -> Error
    end.

failed(#{failure := Why, files := Files}) ->
    _ = [file:delete(File) || File <- Files],
    {error, {session_ended, #{reason => Why}}}.

taken(Files) ->
    Bytes = lists:sum([filelib:file_size(File) || File <- Files]),
    try
        case Bytes > ?BYTES_MOST of
            true -> {error, flame_prof_error:file(hd(Files), <<"it has too many samples">>)};
            false -> read(Files, [])
        end
    after
        _ = [file:delete(File) || File <- Files]
    end.

read([], Read) ->
    {ok, lists:reverse(Read)};
read([File | Files], Read) ->
    case file:read_file(File) of
        {ok, Bytes} ->
            Name = unicode:characters_to_binary(filename:basename(File)),
            read(Files, [{Name, Bytes} | Read]);
        {error, Reason} ->
            {error, flame_prof_error:file(File, Reason)}
    end.
