%% How much memory may be taken without being killed for it, and the pieces of it.
%%
%% The limit is the nearest of three: what the machine says is available, what the
%% cgroup allows beyond what it uses (v2, or v1), and what `ulimit -d' leaves, which
%% soak.sh sets so that there is a limit to come near to. SOAK_MEMORY_PERCENT of it
%% is taken, at most SOAK_MEMORY_MIB: other people's programs are on the machine too.
-module(storm_memory).

-export([pieces/0, piece/1, is_whole/2]).
-export([status/1]).

-define(PIECE_BYTES, 33554432).
-define(MIB, 1048576).

%% So many may be there at once.
pieces() ->
    Share = rest() * number("SOAK_MEMORY_PERCENT", "70") div 100,
    max(0, min(Share, number("SOAK_MEMORY_MIB", "4096") * ?MIB) div ?PIECE_BYTES).

number(Name, Default) -> list_to_integer(os:getenv(Name, Default)).

%% Written, not only reserved.
piece(K) -> binary:copy(<<K:64>>, ?PIECE_BYTES div 8).

is_whole(K, Piece) ->
    Last = ?PIECE_BYTES - 8,
    Places = [0, ?PIECE_BYTES div 2, Last],
    byte_size(Piece) =:= ?PIECE_BYTES andalso
        lists:all(fun(At) -> binary:part(Piece, At, 8) =:= <<K:64>> end, Places).

rest() -> lists:min([Bytes || {ok, Bytes} <- [of_machine(), of_cgroup(), of_ulimit()]]).

of_machine() ->
    {ok, Text} = file:read_file("/proc/meminfo"),
    {ok, [KiB]} = numbers(Text, "MemAvailable:\\s+([0-9]+)"),
    {ok, KiB * 1024}.

of_cgroup() ->
    case file:read_file("/proc/self/cgroup") of
        {ok, Text} ->
            V2 = cgroup(Text, "^0::(.*)$", "/sys/fs/cgroup", "memory.max", "memory.current"),
            V1 = cgroup(Text, "^[0-9]+:memory:(.*)$", "/sys/fs/cgroup/memory",
                        "memory.limit_in_bytes", "memory.usage_in_bytes"),
            case [Bytes || {ok, Bytes} <- [V1, V2]] of
                [] -> none;
                Rests -> {ok, lists:min(Rests)}
            end;
        {error, _} -> none
    end.

%% `max' is no number, and no limit.
cgroup(Text, Pattern, Root, Limit, Used) ->
    case re:run(Text, Pattern, [multiline, {capture, all_but_first, list}]) of
        {match, [Path]} ->
            Read = fun(Name) -> integer_in(filename:join([Root, string:trim(Path, leading, "/"),
                Name])) end,
            case {Read(Limit), Read(Used)} of
                {{ok, Most}, {ok, Now}} -> {ok, Most - Now};
                _ -> none
            end;
        nomatch -> none
    end.

integer_in(File) ->
    case file:read_file(File) of
        {ok, Text} -> numbers_of(re:run(Text, "^([0-9]+)\\s*$", [{capture, all_but_first, list}]));
        {error, _} -> none
    end.

numbers_of({match, [Digits]}) -> {ok, list_to_integer(Digits)};
numbers_of(nomatch) -> none.

of_ulimit() ->
    {ok, Text} = file:read_file("/proc/self/limits"),
    case numbers(Text, "Max data size\\s+([0-9]+)") of
        {ok, [Most]} -> {ok, Most - 1024 * status("VmData")};
        none -> none
    end.

%% KiB, or a count.
status(Key) ->
    {ok, Text} = file:read_file("/proc/self/status"),
    {ok, [Number]} = numbers(Text, "^" ++ Key ++ ":\\s+([0-9]+)"),
    Number.

numbers(Text, Pattern) ->
    case re:run(Text, Pattern, [multiline, {capture, all_but_first, list}]) of
        {match, Found} -> {ok, [list_to_integer(Digits) || Digits <- Found]};
        nomatch -> none
    end.
