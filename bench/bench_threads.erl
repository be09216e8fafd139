%% CPU time of this VM's threads, from the kernel's own clocks of them.
-module(bench_threads).

-export([schedulers/0, dirty/0, cpu_ns/1, sleep_ns/2]).

-on_load(load/0).
-nifs([cpu_ns/1, sleep_ns/2]).

load() ->
    erlang:load_nif(filename:rootname(code:which(?MODULE)), 0).

%% The threads of the normal schedulers, as the kernel numbers them.
-spec schedulers() -> [pos_integer()].
schedulers() ->
    %% Named by the VM: up to OTP 25 `1_scheduler', then `erts_sched_1'.
    named("^([0-9]+_scheduler|erts_sched_[0-9]+)").

%% Those of the dirty CPU schedulers.
-spec dirty() -> [pos_integer()].
dirty() ->
    named("^([0-9]+_dirty_cpu_|erts_dcpus_)").

named(Regexp) ->
    {ok, Threads} = file:list_dir("/proc/self/task"),
    [list_to_integer(Thread) || Thread <- Threads, is_named(Regexp, Thread)].

is_named(Regexp, Thread) ->
    case file:read_file(filename:join(["/proc/self/task", Thread, "comm"])) of
        {ok, Comm} -> re:run(Comm, Regexp, [{capture, none}]) =:= match;
        {error, _} -> false
    end.

%% Until now: of these threads, and of the whole VM.
-spec cpu_ns([pos_integer()]) -> {Ns :: non_neg_integer(), AllNs :: non_neg_integer()}.
cpu_ns(_) ->
    erlang:nif_error(not_loaded).

%% What it costs a thread to sleep N times for so long, and nothing else.
-spec sleep_ns(Us :: 1..999999, N :: pos_integer()) -> Ns :: non_neg_integer().
sleep_ns(_, _) ->
    erlang:nif_error(not_loaded).
