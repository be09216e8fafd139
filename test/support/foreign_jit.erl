%% The stubs of test/nif/foreign_jit.c, and how it is built.
-module(foreign_jit).

-export([build/0, load/0, map/2]).

-nifs([map/2]).

%% A reason where there is no compiler.
-spec build() -> ok | {skip, string()}.
build() ->
    case os:find_executable(os:getenv("CC", "cc")) of
        false -> {skip, "there is no C compiler (cc) to build the test NIF with"};
        Cc -> build(Cc)
    end.

build(Cc) ->
    C = checkout:path("test/nif/" ?MODULE_STRING ".c"),
    Command = lists:join(" ", [Cc, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC",
        "-isystem", filename:join([code:root_dir(), "usr", "include"]),
        "-o", library() ++ ".so", C, "2>&1"]),
    case os:cmd(lists:flatten(Command)) of "" -> ok; Said -> error({cc, Said}) end.

load() -> erlang:load_nif(library(), 0).

%% Beside the beam file, where the peers find it.
library() -> filename:join(filename:dirname(code:which(?MODULE)), ?MODULE_STRING).

%% Maps so many executable ranges, each with what looks like an Erlang function's
%% head, or with none.
-spec map(pos_integer(), none | code_info) -> ok.
map(_, _) -> erlang:nif_error({not_loaded, ?MODULE}).
