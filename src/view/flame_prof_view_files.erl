%% @private Which files of a directory may be shown: its own profiles, by name.
%%
%% A name is taken from the listing and never made into a path of its own, so that
%% nothing that is asked for can lead elsewhere. Links are refused, whatever made
%% them, and so are files of users other than the directory's owner and root.
%%
%% A file that is being written is known by the name that it will have, without
%% `.part'.
-module(flame_prof_view_files).

-include_lib("kernel/include/file.hrl").

-export([root/1, list/1, finished/1, is_unfinished/1]).

-export_type([root/0, entry/0]).

-type root() :: #{dir := binary(), only := all | binary()}.

-type entry() ::
    #{
        name := binary(),
        kind := samples | allocations,
        paths := [binary()],
        inode := integer(),
        state := file | refused,
        why := binary(),
        bytes := non_neg_integer(),
        has_samples := boolean(),
        modified := integer(),
        version := binary(),
        %% Of the same session: see flame_prof_view_series.
        other => binary()
    }.

-define(OTHERS_WRITE, 8#022).
-define(STICKY, 8#1000).
-define(PROFILES, "\\.(log|txt|perf|script|out)(\\.(gz|zst))?(\\.part)?$").
-define(PART, <<".part">>).

%% The argument of flame_prof:view/1.
-spec root(file:name_all()) -> {ok, root()} | {error, flame_prof:reason()}.
root(Given) ->
    case flame_prof_samples:path(Given) of
        {ok, Path} -> at(filename:absname(Path));
        {error, {_, Why}} -> refused(Why)
    end.

at(Path) ->
    case file:read_file_info(Path, [raw]) of
        {ok, #file_info{type = directory}} ->
            safe(#{dir => Path, only => all});
        {ok, #file_info{type = regular}} ->
            safe(#{dir => filename:dirname(Path), only => finished(filename:basename(Path))});
        {ok, _} ->
            refused(<<Path/binary, " is neither a directory nor a file">>);
        {error, Reason} ->
            {error, flame_prof_error:file(Path, Reason)}
    end.

refused(Why) ->
    {error, {view, #{reason => Why}}}.

%% Where others may replace files, a file can become a link after the check.
safe(#{dir := Dir} = Root) ->
    {ok, #file_info{mode = Mode}} = file:read_file_info(Dir, [raw]),
    case Mode band ?OTHERS_WRITE =/= 0 andalso Mode band ?STICKY =:= 0 of
        true ->
            refused(<<Dir/binary, " may be written by others; chmod go-w makes it safe">>);
        false ->
            {ok, Root}
    end.

-spec list(root()) -> [entry()].
list(#{dir := Dir, only := Only}) ->
    case file:list_dir_all(Dir) of
        {ok, Names} ->
            Owners = owners(Dir),
            Wanted = [N || Given <- Names, {ok, N} <- [text(Given)], is_wanted(N, Only)],
            [E || Name <- Wanted, E <- entry(Dir, Name, Owners)];
        {error, _} ->
            []
    end.

%% Names that are not text could not be asked for.
text(Name) ->
    case unicode:characters_to_binary(Name) of
        Text when is_binary(Text) -> {ok, Text};
        _ -> error
    end.

is_wanted(Name, all) ->
    re:run(Name, ?PROFILES, [{capture, none}]) =:= match andalso binary:first(Name) =/= $.;
is_wanted(Name, Only) ->
    finished(Name) =:= Only.

owners(Dir) ->
    case file:read_file_info(Dir, [raw]) of
        {ok, #file_info{uid = Uid}} -> [0, Uid];
        {error, _} -> [0]
    end.

entry(Dir, Name, Owners) ->
    Path = filename:join(Dir, Name),
    case file:read_link_info(Path, [raw, {time, posix}]) of
        {ok, #file_info{type = directory}} ->
            [];
        {ok, #file_info{size = Size, mtime = Modified, inode = Inode} = Info} ->
            {State, Why} = judged(Info, Owners),
            [
                #{
                    name => finished(Name),
                    kind => kind(Name),
                    paths => [Path],
                    inode => Inode,
                    state => State,
                    why => Why,
                    bytes => Size,
                    has_samples => Size > 0,
                    modified => Modified,
                    version => version([Inode, Size, Modified, erlang:crc32(Name)])
                }
            ];
        {error, _} ->
            []
    end.

%% The events of a file, not its name, decide what the page shows.
kind(Name) ->
    case flame_prof_log_name:parse(Name) of
        {ok, #{kind := Kind}} -> Kind;
        error -> samples
    end.

judged(#file_info{type = symlink}, _) -> {refused, <<"a link">>};
judged(#file_info{type = Type}, _) when Type =/= regular -> {refused, <<"not a file">>};
judged(#file_info{uid = Uid, access = Access}, Owners) ->
    case {lists:member(Uid, Owners), Access} of
        {false, _} -> {refused, <<"another user's">>};
        {true, Some} when Some =:= read; Some =:= read_write -> {file, <<>>};
        {true, _} -> {refused, <<"may not be read">>}
    end.

%% The name that a file has, or will have when it is finished.
-spec finished(binary()) -> binary().
finished(Name) ->
    filename:rootname(Name, ?PART).

%% A session writes it, or died before its end.
-spec is_unfinished(binary()) -> boolean().
is_unfinished(Name) ->
    finished(Name) =/= Name.

version(Numbers) ->
    iolist_to_binary(lists:join("-", [integer_to_binary(N) || N <- Numbers])).
