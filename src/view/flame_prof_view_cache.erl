%% @private The private directory of a flame_prof_view, in which its indexes are.
-module(flame_prof_view_cache).

-include_lib("kernel/include/file.hrl").

-export([make/1, make_private/1]).

-define(NO_HOUSE, "0").
-define(ABANDONED_S, 30 * 24 * 3600).

%% Under the user's cache, with mode 0700: view-HOUSE-PID-RANDOM. Those of
%% nodes that died are removed. Where the user has no home, or none that can be written, as
%% a service's in a container: below $TMPDIR, in which nothing is cleaned, as it is shared.
-spec make(Token :: binary()) -> {ok, file:filename()} | {error, flame_prof:reason()}.
make(Token) ->
    House = house(),
    Name = lists:append(lists:join("-",
        ["view", House, os:getpid(), binary_to_list(binary:part(Token, 0, 8))])),
    case made_in_cache(user_cache(), House, Name) of
        {ok, _} = Made -> Made;
        {error, _} -> made(filename:join(os:getenv("TMPDIR", "/tmp"), "flame_prof-" ++ Name))
    end.

%% Without HOME it crashes.
user_cache() ->
    try
        filename:basedir(user_cache, "flame_prof")
    catch
        error:_ -> none
    end.

made_in_cache(none, _House, _Name) ->
    {error, enoent};
made_in_cache(Base, House, Name) ->
    case filelib:ensure_dir(filename:join(Base, "x")) of
        ok ->
            remove_abandoned(Base, House),
            made(filename:join(Base, Name));
        {error, _} = Error ->
            Error
    end.

made(Dir) ->
    case make_private(Dir) of
        ok -> {ok, Dir};
        {error, Reason} -> {error, flame_prof_error:file(Dir, Reason)}
    end.

%% Also where it is there: another user may have made it meanwhile, and would read the indexes.
-spec make_private(file:name_all()) -> ok | {error, file:posix() | badarg}.
make_private(Dir) ->
    case file:make_dir(Dir) of
        ok -> file:change_mode(Dir, 8#700);
        {error, eexist} -> private(file:read_link_info(Dir), file:read_file_info("/proc/self"));
        {error, _} = Error -> Error
    end.

private({ok, #file_info{type = directory, mode = Mode, uid = Uid}}, Self) when
    Mode band 8#777 =:= 8#700
->
    case Self of
        {ok, #file_info{uid = Other}} when Other =/= Uid -> {error, eperm};
        _ -> ok
    end;
private({ok, #file_info{}}, _Self) ->
    {error, eperm};
private({error, _} = Error, _Self) ->
    Error.

%% The boot and the pid namespace of this node: HOUSE in the folder's name.
%% Containers and other machines may share the home, and a pid of theirs says
%% nothing here. A /proc of another namespace does not tell that a process has died.
house() ->
    Self = os:getpid(),
    case {file:read_file("/proc/sys/kernel/random/boot_id"), file:read_link("/proc/self/ns/pid"),
          file:read_link("/proc/self")} of
        {{ok, Boot}, {ok, Namespace}, {ok, Self}} ->
            lists:append(string:replace(string:trim(binary_to_list(Boot)), "-", "", all)) ++
                "." ++ [C || C <- Namespace, C >= $0, C =< $9];
        _ ->
            ?NO_HOUSE
    end.

remove_abandoned(Base, House) ->
    _ = [
        file:del_dir_r(Dir)
     || Dir <- filelib:wildcard(filename:join(Base, "view-*")),
        is_abandoned(string:split(filename:basename(Dir), "-", all), House, Dir)
    ],
    ok.

%% Of another house nothing is known but when an index was made last. A server that
%% lives longer without one makes its indexes anew.
is_abandoned(["view", House, Pid, _], House, _Dir) when House =/= ?NO_HOUSE ->
    not filelib:is_dir(filename:join("/proc", Pid));
is_abandoned(_, _, Dir) ->
    case file:read_file_info(Dir, [{time, posix}]) of
        {ok, #file_info{mtime = Modified}} -> os:system_time(second) - Modified > ?ABANDONED_S;
        {error, _} -> false
    end.
