%% The stubs of test/nif/running_test_nif.c, and how it is built: by the suite,
%% with this machine's cc against the headers of the OTP that runs.
-module(running_test_nif).

-export([build/0, load/0, spin/1, dirty_spin/1, thread_cpu_ns/0, thread_id/0, take_signal/1,
    signal_action/1, signals_arrived/0, real_time_signals/0, queue_signal/3, dirty_sleep/1,
    pipe_through/1]).

-nifs([spin/1, dirty_spin/1, thread_cpu_ns/0, thread_id/0, take_signal/1, signal_action/1,
    signals_arrived/0, real_time_signals/0, queue_signal/3, dirty_sleep/1, pipe_through/1]).

-define(NOT_LOADED, erlang:nif_error({not_loaded, ?MODULE})).

%% Compile, load. A reason where there is no compiler.
-spec build() -> ok | {skip, string()}.
build() ->
    case os:find_executable(os:getenv("CC", "cc")) of
        false -> {skip, "there is no C compiler (cc) to build the test NIF with"};
        Cc -> build(Cc)
    end.

build(Cc) ->
    C = checkout:path("test/nif/" ?MODULE_STRING ".c"),
    Command = lists:join(" ", [
        Cc, "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-shared", "-fPIC",
        "-fasynchronous-unwind-tables",
        "-isystem", filename:join([code:root_dir(), "usr", "include"]),
        "-o", library() ++ ".so.new", C, "2>&1 && mv", library() ++ ".so.new", library() ++ ".so"]),
    case os:cmd(lists:flatten(Command)) of "" -> load(); Said -> error({cc, Said}) end.

load() ->
    case erlang:load_nif(library(), 0) of
        ok -> ok;
        {error, {reload, _}} -> ok;
        {error, Reason} -> error(Reason)
    end.

%% Beside the beam file, where the peers find it.
library() -> filename:join(filename:dirname(code:which(?MODULE)), ?MODULE_STRING).

spin(_) -> ?NOT_LOADED.
dirty_spin(_) -> ?NOT_LOADED.
thread_cpu_ns() -> ?NOT_LOADED.
thread_id() -> ?NOT_LOADED.
take_signal(_) -> ?NOT_LOADED.
signal_action(_) -> ?NOT_LOADED.
signals_arrived() -> ?NOT_LOADED.
real_time_signals() -> ?NOT_LOADED.
queue_signal(_, _, _) -> ?NOT_LOADED.
dirty_sleep(_) -> ?NOT_LOADED.
pipe_through(_) -> ?NOT_LOADED.
