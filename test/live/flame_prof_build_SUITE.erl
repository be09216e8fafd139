%% What `make nif' says where something is missing: in a copy of the checkout, with
%% this machine's compiler, but with a choice of what it finds.
-module(flame_prof_build_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    missing_headers_are_named_with_the_packages_of_each_system/1,
    headers_in_a_prefix_of_their_own_are_found/1, a_missing_compiler_is_named_with_its_packages/1,
    a_missing_erlang_is_named_with_its_packages/1, a_32_bit_system_is_refused_by_the_compiler/1]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [missing_headers_are_named_with_the_packages_of_each_system,
        headers_in_a_prefix_of_their_own_are_found, a_missing_compiler_is_named_with_its_packages,
        a_missing_erlang_is_named_with_its_packages, a_32_bit_system_is_refused_by_the_compiler].

init_per_suite(Config) ->
    Cc = os:getenv("CC", "gcc"),
    case [Tool || Tool <- ["make", hd(string:lexemes(Cc, " "))],
        os:find_executable(Tool) =:= false] of
        [] ->
            Copy = filename:join(proplists:get_value(priv_dir, Config), "checkout"),
            ok = file:make_dir(Copy),
            Top = filename:dirname(filename:dirname(command_line:script())),
            "" = os:cmd("cd " ++ Top ++ " && cp -r Makefile tools c_src " ++ Copy),
            [{cc, Cc}, {copy, Copy} | Config];
        Missing -> {skip, "there is no " ++ lists:join(", ", Missing)}
    end.

end_per_suite(_Config) -> ok.

missing_headers_are_named_with_the_packages_of_each_system(Config) ->
    Cc = compiler_without(["uv.h", "uv", "zstd.h"], Config),
    Text = fails(Config, ["make nif CC='", Cc, "'"]),
    says(Text, "does not find <uv.h> <zstd.h>"),
    says(Text, "apt-get install libuv1-dev libzstd-dev "),
    says(Text, "dnf install libuv-devel libzstd-devel\n"),
    says(Text, "apk add libuv-dev zstd-dev\n"),
    %% Before anything is compiled.
    nomatch = re:run(Text, "  CC ").

headers_in_a_prefix_of_their_own_are_found(Config) ->
    Headers = ["uv.h", "uv", "zstd.h"],
    Cc = compiler_without(Headers, Config),
    Prefix = filename:join(proplists:get_value(priv_dir, Config), "prefix"),
    ok = file:make_dir(Prefix),
    _ = [file:make_symlink(Path, filename:join(Prefix, Name))
        || {Name, Path} <- paths(Headers, Config)],
    Libs = "_build/c/" ++ erlang:system_info(otp_release) ++ "/libs",
    {0, _} = shell(Config, ["make -f tools/nif.mk ", Libs, " CPPFLAGS=-I", Prefix, " CC='", Cc,
        "'"]),
    {ok, Linked} = file:read_file(filename:join(proplists:get_value(copy, Config), Libs ++
        ".agent")),
    says(Linked, "uv").

a_missing_compiler_is_named_with_its_packages(Config) ->
    Text = fails(Config, "make nif CC=no-such-compiler"),
    says(Text, "there is no C compiler 'no-such-compiler'"),
    says(Text, "apt-get install gcc libc6-dev "),
    says(Text, "dnf install gcc glibc-devel\n"),
    says(Text, "apk add gcc musl-dev\n").

a_missing_erlang_is_named_with_its_packages(Config) ->
    Bin = filename:join(proplists:get_value(priv_dir, Config), "bin"),
    ok = file:make_dir(Bin),
    Tools = ["bash", "sh", "make", "env", "cat", "mkdir", "flock", "dirname", "readlink"],
    _ = [file:make_symlink(Path, filename:join(Bin, T))
        || T <- Tools, (Path = os:find_executable(T)) =/= false],
    Text = fails(Config, ["PATH=", Bin, " make nif"]),
    says(Text, "Erlang is missing"),
    says(Text, "apt-get install erlang-base erlang-dev"),
    says(Text, "dnf install erlang-erts"),
    says(Text, "apk add erlang erlang-dev").

a_32_bit_system_is_refused_by_the_compiler(Config) ->
    Cc = proplists:get_value(cc, Config),
    Compile = [Cc, " -m32 -ffreestanding -fsyntax-only -x c "],
    case shell(Config, [Compile, "/dev/null"]) of
        {0, _} -> says(fails(Config, [Compile, "-include c_src/base/error.h /dev/null"]),
            "needs a 64-bit system");
        _ -> {skip, "this compiler is of 64 bits only"}
    end.

says(Text, What) ->
    case string:find(Text, What) of
        nomatch -> ct:fail("~ts~nis not in~n~ts", [What, Text]);
        _ -> ok
    end.

fails(Config, Command) ->
    {Status, Text} = shell(Config, Command),
    ?assertNotEqual(0, Status),
    Text.

%% As who builds would: what the tests' own make has put into the environment is none
%% of it, and pkg-config knows nothing.
shell(Config, Command) ->
    Unset = ["unset MAKEFLAGS MFLAGS MAKELEVEL CC CPPFLAGS WERROR; export LC_ALL=C PKG_CONFIG_LIBDIR=/nonexistent; "],
    Port = open_port({spawn_executable, os:find_executable("bash")}, [
        {args, ["-c", unicode:characters_to_binary([Unset, Command])]},
        {cd, proplists:get_value(copy, Config)},
        binary, exit_status, stderr_to_stdout]),
    until_exit(Port, <<>>).

until_exit(Port, Text) ->
    receive
        {Port, {data, More}} -> until_exit(Port, <<Text/binary, More/binary>>);
        {Port, {exit_status, Status}} -> {Status, Text}
    end.

%% It searches folders of links to all that it would find otherwise, but for these.
compiler_without(Headers, Config) ->
    Top = filename:join(proplists:get_value(priv_dir, Config), "include"),
    _ = file:make_dir(Top),
    Folders = [mirrored(Folder, Headers, Top) || Folder <- searched(Config)],
    lists:append([proplists:get_value(cc, Config),
        " -nostdinc" | [" -isystem " ++ F || F <- Folders]]).

mirrored(Folder, Headers, Top) ->
    Mirror = filename:join(Top, lists:flatten(string:replace(string:trim(Folder, leading, "/"), "/",
        "_", all))),
    _ = file:make_dir(Mirror),
    {ok, Names} = file:list_dir(Folder),
    _ = [file:make_symlink(filename:join(Folder, N), filename:join(Mirror, N))
        || N <- Names -- Headers],
    Mirror.

paths(Headers, Config) ->
    [{N, filename:join(F, N)} || N <- Headers, F <- searched(Config),
        filelib:is_file(filename:join(F, N))].

%% Where the compiler looks for <...>, by its own word.
searched(Config) ->
    {0, Text} = shell(Config, [proplists:get_value(cc, Config), " -xc -E -v - </dev/null"]),
    {match, [List]} = re:run(Text, "search starts here:\\n((?: /.*\\n)+)End of search",
        [{capture, all_but_first, list}]),
    [F || F <- lists:uniq([filename:absname(string:trim(L)) || L <- string:lexemes(List, "\n")]),
        filelib:is_dir(F)].
