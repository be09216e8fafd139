%% @private The memory that the kernel allows this OS process: the smallest limit of its control
%% group and of the groups above it, as a container or a service has one. Version 2 (memory.max)
%% and version 1 (memory.limit_in_bytes). Some file reads: any process, not in a tight loop.
-module(flame_prof_cgroup).

-export([memory_limit/0, memory_limit/1]).

%% What version 1 has for `none' is a little less than 2^63.
-define(NO_LIMIT, 16#4000000000000000).

%% More than any of these files has.
-define(FILE_BYTES, 1048576).

%% @doc Bytes; `none' without a limit, and where there are no control groups.
-spec memory_limit() -> {ok, pos_integer()} | none.
memory_limit() ->
    memory_limit("").

%% @doc Below a folder, for tests.
-spec memory_limit(string()) -> {ok, pos_integer()} | none.
memory_limit(Root) ->
    Mounts = mounts(lines([Root, "/proc/self/mountinfo"])),
    Limits = [
        Limit
     || {Version, Path} <- groups(lines([Root, "/proc/self/cgroup"])),
        {V, Top, Mount} <- Mounts,
        V =:= Version,
        Group <- with_parents(below(Top, Path)),
        Limit <- limit([Root, Mount, Group, $/, file(Version)])
    ],
    case Limits of
        [] -> none;
        _ -> {ok, lists:min(Limits)}
    end.

%% Not by the file server, which may have work.
lines(Path) ->
    case file:open(iolist_to_binary(Path), [read, raw, binary]) of
        {ok, File} ->
            Read = file:read(File, ?FILE_BYTES),
            _ = file:close(File),
            text_lines(Read);
        {error, _} ->
            []
    end.

text_lines({ok, Text}) -> binary:split(Text, <<"\n">>, [global, trim_all]);
text_lines(_) -> [].

%% `0::/path', or `4:memory:/path'.
groups(Lines) ->
    Parts = [binary:split(Line, <<":">>) || Line <- Lines],
    [{2, Path} || [<<"0">>, <<":", Path/binary>>] <- Parts] ++
        [
            {1, Path}
         || [_, Rest] <- Parts,
            [Controllers, Path] <- [binary:split(Rest, <<":">>)],
            lists:member(<<"memory">>, binary:split(Controllers, <<",">>, [global]))
        ].

%% `36 35 0:30 /top /mount rw,nosuid shared:9 - cgroup2 source rw'
mounts(Lines) ->
    [
        {Version, Top, Mount}
     || Line <- Lines,
        [Before, After] <- [binary:split(Line, <<" - ">>)],
        [_, _, _, Top, Mount | _] <- [words(Before)],
        Version <- version(words(After))
    ].

words(Text) -> binary:split(Text, <<" ">>, [global, trim_all]).

version([<<"cgroup2">> | _]) ->
    [2];
version([<<"cgroup">>, _, Options | _]) ->
    [1 || lists:member(<<"memory">>, binary:split(Options, <<",">>, [global]))];
version(_) ->
    [].

%% Of the path of a group what lies below the mounted one.
below(Top, Path) ->
    Size = byte_size(Top),
    case Path of
        _ when Top =:= <<"/">> -> Path;
        <<Top:Size/binary, Rest/binary>> -> Rest;
        _ -> <<>>
    end.

%% `/a/b', `/a' and the top, which is nothing. Outside of the mounted part only the top is known.
with_parents(Path) ->
    Names = binary:split(Path, <<"/">>, [global, trim_all]),
    case lists:member(<<"..">>, Names) of
        true -> [[]];
        false -> [[[$/, Name] || Name <- lists:sublist(Names, N)]
            || N <- lists:seq(0, length(Names))]
    end.

file(2) -> "memory.max";
file(1) -> "memory.limit_in_bytes".

limit(Path) ->
    try [binary_to_integer(Text) || Text <- lines(Path)] of
        [Bytes] when Bytes > 0, Bytes < ?NO_LIMIT -> [Bytes];
        _ -> []
    catch
        %% `max'
        error:badarg -> []
    end.
