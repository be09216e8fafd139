%% @private Whether the library can run in a node's VM, by what is known before it is loaded:
%% the architecture of the VM, and the libc that it has mapped.
-module(flame_prof_compatible).

-export([incompatibility/3]).

%% Machines by the numbers that ELF has for them, named as in a system's name.
-define(MACHINES, #{
    21 => "powerpc64le",
    22 => "s390x",
    62 => "x86_64",
    183 => "aarch64",
    243 => "riscv64",
    258 => "loongarch64"
}).

-define(ELF, 16#7f, "ELF").

-type libc() :: glibc | musl.

%% @doc Why not, about the node: its `system_architecture', the text of its
%% /proc/self/maps, and the bytes of the library.
-spec incompatibility(string(), {ok, binary()} | {error, term()}, binary()) ->
    none | unicode:chardata().
incompatibility(Architecture, Maps, <<?ELF, _:14/binary, Machine:16/little, _/binary>> = Library) ->
    Wanted = maps:get(Machine, ?MACHINES, "another architecture"),
    case is_built_for(Wanted, Architecture) of
        true ->
            other_libc(libc_of_node(Architecture, Maps), libc_of_library(Library));
        false ->
            io_lib:format("it is built for ~ts, and the library of flame_prof for ~ts Linux",
                [Architecture, Wanted])
    end;
incompatibility(_Architecture, _Maps, _Library) ->
    "the library of flame_prof is no ELF file".

%% `x86_64-pc-linux-gnu'; elsewhere also without any system, as `win32'.
is_built_for(Wanted, Architecture) ->
    case string:split(Architecture, "-") of
        [Wanted, System] -> string:find(System, "linux") =/= nomatch;
        _ -> false
    end.

other_libc({musl, Which}, glibc) ->
    io_lib:format("it runs on musl (~ts), and the library of flame_prof needs glibc", [Which]);
other_libc({glibc, Which}, musl) ->
    io_lib:format("it runs on glibc (~ts), and the library of flame_prof needs musl", [Which]);
other_libc(_, _) ->
    %% The same; otherwise loading it reports the error.
    none.

%% By what it asks the loader for.
-spec libc_of_library(binary()) -> libc() | unknown.
libc_of_library(Library) ->
    Asked = [
        {glibc, [<<0, "libc.so.6", 0>>]},
        {musl, [<<0, "libc.musl-">>, <<0, "libc.so", 0>>]}
    ],
    case [Libc || {Libc, Names} <- Asked, binary:match(Library, Names) =/= nomatch] of
        [Libc | _] -> Libc;
        [] -> unknown
    end.

%% The loader and libc of musl are one file, with links to it: mapped is the file, which
%% is ld-musl-x86_64.so.1 on Alpine and x86_64-linux-musl/libc.so on Debian. A VM
%% that is linked statically has none.
-spec libc_of_node(string(), {ok, binary()} | {error, term()}) -> {libc(), iodata()} | unknown.
libc_of_node(Architecture, Maps) ->
    Files = [
        {musl, "/\\S*(?:/ld-musl|/libc\\.musl|-musl\\S*/libc\\.so)\\S*"},
        {glibc, "/\\S*/libc(?:\\.so\\.6|-2\\.\\d+\\.so)\\b"}
    ],
    case [{Libc, File} || {ok, Text} <- [Maps], {Libc, Pattern} <- Files,
        File <- found(Pattern, Text)] of
        [Found | _] -> Found;
        [] -> by_name(Architecture)
    end.

found(Pattern, Text) ->
    case re:run(Text, Pattern, [{capture, first, binary}]) of
        {match, [File]} -> [File];
        nomatch -> []
    end.

by_name(Architecture) ->
    case string:find(Architecture, "-musl") of
        nomatch -> unknown;
        _ -> {musl, Architecture}
    end.
