%% @private Work that leaves nothing behind: in a process of its own, which goes on where its caller
%% is killed, and with a folder for temporary files, which is removed at its end.
%%
%% No file operation goes through the server of files (file_server_2): where one hangs in it, all
%% others would.
-module(flame_prof_temporary).

-include_lib("kernel/include/file.hrl").

-export([directory/0, in_process/1, in_folder/1, with_files/2]).
-export([name/0, may_execute/1, may_write/1, make_folder/0, make_folder/1, write_file/2]).
-export([run/2, in_folder/2]).

%% @doc Where the environment wants such files.
-spec directory() -> file:filename().
directory() -> hd(places()).

%% One that the environment names is wanted: where it cannot be, that is to be said.
places() ->
    case os:getenv("TMPDIR") of
        Unset when Unset =:= false; Unset =:= "" -> ["/tmp", "/var/tmp"];
        Path -> [Path]
    end.

%% @doc Fun is given a monitor of the caller, for work that ends with it. An exception of Fun is
%% raised here.
-spec in_process(fun((CallerMonitor :: reference()) -> Answer)) ->
    Answer | {error, flame_prof:reason()}.
in_process(Fun) ->
    {priority, Priority} = process_info(self(), priority),
    %% Limits of heaps (`+hmax') are for the node's own processes.
    Options = [monitor, {priority, Priority}, {max_heap_size, #{size => 0}}],
    {Pid, Monitor} = spawn_opt(?MODULE, run, [Fun, self()], Options),
    receive
        {'DOWN', Monitor, process, Pid, {?MODULE, {answered, Answer}}} -> Answer;
        {'DOWN', Monitor, process, Pid, {?MODULE, {Class, Reason, Stack}}} ->
            erlang:raise(Class, Reason, Stack);
        {'DOWN', Monitor, process, Pid, Reason} -> {error, flame_prof_error:of_exit(Reason)}
    end.

%% @private Without a report in the log.
-spec run(fun((reference()) -> term()), pid()) -> no_return().
run(Fun, Caller) ->
    Monitor = monitor(process, Caller),
    Outcome = try {answered, Fun(Monitor)}
    catch Class:Reason:Stack -> {Class, Reason, Stack}
    end,
    exit({?MODULE, Outcome}).

%% @doc The same with a new folder, of mode 0700 before anything is in it.
-spec in_folder(fun((file:filename(), CallerMonitor :: reference()) -> Answer)) ->
    Answer | {error, flame_prof:reason()}.
in_folder(Fun) ->
    in_process(fun(Monitor) -> in_folder(Fun, Monitor) end).

%% @private Nothing is begun for a caller that ended while the folder was made: a file system may
%% have hung.
-spec in_folder(fun((file:filename(), reference()) -> Answer), CallerMonitor :: reference()) ->
    Answer | {error, flame_prof:reason()}.
in_folder(Fun, Monitor) ->
    case make_folder() of
        {ok, Folder} ->
            try
                receive
                    {'DOWN', Monitor, process, _, Reason} ->
                        {error, flame_prof_error:of_exit(Reason)}
                after 0 -> Fun(Folder, Monitor)
                end
            after
                ok = removed(Folder)
            end;
        {error, _} = Error ->
            Error
    end.

%% @doc A new one, which stays, where the environment wants such folders.
-spec make_folder() -> {ok, file:filename()} | {error, flame_prof:reason()}.
make_folder() ->
    Name = name(),
    made([filename:absname(Name, Place) || Place <- places()]).

%% The first that can be. Why not is said of the one that was wanted.
made([Folder | Others]) ->
    case make_folder(Folder) of
        ok ->
            {ok, Folder};
        {error, Reason} ->
            case Others =/= [] andalso made(Others) of
                {ok, _} = Made -> Made;
                _ -> {error, flame_prof_error:file(Folder, Reason)}
            end
    end.

%% Nobody makes folders in it.
removed(Folder) ->
    Names = case prim_file:list_dir_all(Folder) of
        {ok, All} -> All;
        {error, _} -> []
    end,
    _ = [file:delete(filename:join(Folder, Name), [raw]) || Name <- Names],
    _ = prim_file:del_dir(Folder),
    ok.

%% @doc Of a new folder. It says whose it is.
-spec name() -> file:filename().
name() ->
    Unique = erlang:phash2({make_ref(), node()}, 1 bsl 32),
    lists:flatten(io_lib:format("flame_prof.~ts.~.36b", [os:getpid(), Unique])).

%% @doc Tries it: access rights do not decide.
-spec may_write(file:filename()) -> boolean().
may_write(Place) ->
    Folder = filename:join(Place, name()),
    make_folder(Folder) =:= ok andalso prim_file:del_dir(Folder) =:= ok.

%% @doc A new one, of mode 0700 before anything is in it. None is left where its file system has no
%% modes.
-spec make_folder(file:filename()) -> ok | {error, file:posix() | badarg}.
make_folder(Folder) ->
    case prim_file:make_dir(Folder) of
        ok -> its_owners(file:write_file_info(Folder, #file_info{mode = 8#700}, [raw]), Folder);
        {error, _} = Error -> Error
    end.

its_owners(ok, _Folder) ->
    ok;
its_owners({error, _} = Error, Folder) ->
    _ = prim_file:del_dir(Folder),
    Error.

%% @doc A new one, of mode 0600 before anything is in it. Refused with `efbig' before the kernel
%% would end the VM, which it does at a write beyond RLIMIT_FSIZE.
-spec write_file(file:filename_all(), binary()) -> ok | {error, file:posix() | badarg | terminated}.
write_file(Path, Bytes) ->
    Steps = [
        fun() -> may_have(byte_size(Bytes)) end,
        fun() -> file:write_file(Path, <<>>, [exclusive, raw]) end,
        fun() -> file:write_file_info(Path, #file_info{mode = 8#600}, [raw]) end,
        fun() -> file:write_file(Path, Bytes, [raw]) end
    ],
    lists:foldl(
        fun
            (Step, ok) -> Step();
            (_Step, {error, _} = Error) -> Error
        end, ok, Steps).

may_have(Size) ->
    Lines = case prim_file:read_file("/proc/self/limits") of
        {ok, Text} -> binary:split(Text, <<"\n">>, [global]);
        {error, _} -> []
    end,
    Limits = [string:to_integer(string:trim(Rest)) || <<"Max file size", Rest/binary>> <- Lines],
    case [Limit || {Limit, _} <- Limits, is_integer(Limit), Limit < Size] of
        [] -> ok;
        _ -> {error, efbig}
    end.

%% @doc May a library be run from there? Not simply tried: where it may not, glibc leaves a part of
%% the library mapped.
-spec may_execute(file:filename()) -> boolean().
may_execute(Folder) ->
    case prim_file:read_file("/proc/self/mounts") of
        {ok, Mounts} ->
            Lines = binary:split(Mounts, <<"\n">>, [global]),
            Options = mounted(Lines, unicode:characters_to_binary(Folder), 0, <<>>),
            not lists:member(<<"noexec">>, binary:split(Options, <<",">>, [global]));
        {error, _} ->
            true
    end.

%% With the options of the deepest mount above the folder, the last of several.
mounted([], _Folder, _Depth, Options) ->
    Options;
mounted([Line | Lines], Folder, Depth, Options) ->
    case binary:split(Line, <<" ">>, [global]) of
        [_, Point, _, Those | _] when byte_size(Point) >= Depth ->
            case is_below(Folder, Point) of
                true -> mounted(Lines, Folder, byte_size(Point), Those);
                false -> mounted(Lines, Folder, Depth, Options)
            end;
        _ ->
            mounted(Lines, Folder, Depth, Options)
    end.

is_below(_Folder, <<"/">>) -> true;
is_below(Folder, Point) -> lists:prefix(filename:split(Point), filename:split(Folder)).

%% @doc Fun is given the paths of these files, which another node may have sent: nothing of their
%% names is a way out of the folder.
-spec with_files([{Name :: binary(), Bytes :: binary()}], fun(([file:filename_all()]) -> Answer)) ->
    Answer | {error, flame_prof:reason()}.
with_files(Files, Fun) ->
    in_folder(fun(Folder, _CallerMonitor) ->
        Placed = [{filename:join(Folder, filename:basename(Name)), Bytes}
            || {Name, Bytes} <- Files],
        case [flame_prof_error:file(Path, Reason) || {Path, Bytes} <- Placed,
            {error, Reason} <- [write_file(Path, Bytes)]] of
            [] -> Fun([Path || {Path, _} <- Placed]);
            [Reason | _] -> {error, Reason}
        end
    end).
