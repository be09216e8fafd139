%% Ways to look at a running program, ours and others', each with one interface.
%%
%% What is looked at are the processes of a workload, or whatever the tool chooses by
%% itself. A session is up for a window; what has to be there before it and can do no
%% harm meanwhile (a server, perf waiting to be told) is prepared once.
-module(bench_peers).

-export([names/0, word/1, title/1, kind/1, available/1]).
-export([prepare/1, start/2, counted/1, stop/1, release/1, give_up/0]).

-export_type([name/0, prepared/0, session/0, counts/0]).

-type name() ::
    off
    | {native, IntervalMs :: pos_integer(), Top :: pos_integer()}
    | portable | poller | eprof | fprof | tprof | call_count | call_trace
    | {perf, Hz :: pos_integer()}.
-type prepared() :: {name(), term()}.
-type session() :: {name(), term()}.
%% Since the session began, or for `release' since it was prepared. `samples' are looks
%% at one process; `events' are calls that were traced or counted.
-type counts() :: #{atom() => non_neg_integer()}.

-define(TOP, 100).
-define(INTERVAL_MS, 10).
-define(PERF_MS, 20000).

%% `off' is nothing against nothing: how far the noise goes.
-spec names() -> [name()].
names() ->
    [off] ++ [{native, I, Top} || I <- [10, 1], Top <- [100, 1000]] ++
        [portable, poller, eprof, fprof, tprof, call_count, call_trace, {perf, 99}, {perf, 999}].

%% As VARIANTS has it.
-spec word(name()) -> string().
word({native, Interval, Top}) -> lists:concat(["native_", hz(Interval), "_", Top]);
word({perf, Hz}) -> lists:concat(["perf_", Hz]);
word(Name) -> atom_to_list(Name).

-spec title(name()) -> binary().
title(off) -> <<"off again">>;
title({native, Interval, Top}) -> iolist_to_binary(io_lib:format("native ~s Hz, top ~b",
    [hz(Interval), Top]));
title(portable) -> <<"portable 99 Hz, top 100">>;
title(poller) -> <<"process_info poller 99 Hz, top 100">>;
title(call_count) -> <<"call_count, all functions">>;
title(call_trace) -> <<"calls traced to a process">>;
title({perf, Hz}) -> iolist_to_binary(io_lib:format("perf record ~b Hz", [Hz]));
title(Name) -> atom_to_binary(Name).

%% Intervals are whole milliseconds: 99 Hz are 100, in truth, and 999 are 1000.
hz(10) -> "99";
hz(1) -> "999".

-spec kind(name()) -> own | samples | traces | none.
kind(off) -> none;
kind({native, _, _}) -> own;
kind(portable) -> own;
kind(poller) -> samples;
kind({perf, _}) -> samples;
kind(_) -> traces.

%% Of this VM.
-spec available(name()) -> ok | {no, Why :: binary()}.
available(tprof) -> has(code:which(tprof) =/= non_existing, <<"is of OTP 27">>);
available(eprof) -> has(code:which(eprof) =/= non_existing,
    <<"the application tools is not installed">>);
available(fprof) -> has(code:which(fprof) =/= non_existing,
    <<"the application tools is not installed">>);
available({perf, _}) -> has(os:find_executable("perf") =/= false, <<"perf is not installed">>);
available(_) -> ok.

has(true, _) -> ok;
has(false, Why) -> {no, Why}.

-spec prepare(name()) -> prepared().
prepare(eprof) ->
    {ok, _} = eprof:start(),
    {eprof, none};
prepare(tprof) ->
    {ok, _} = tprof:start(#{type => call_time}),
    {tprof, none};
prepare({perf, Hz}) ->
    {{perf, Hz}, perf(Hz)};
prepare(Name) ->
    {Name, none}.

%% `Processes' are those of the workload.
-spec start(prepared(), [pid()]) -> session().
start({off, _}, _) ->
    {off, none};
start({{native, Interval, Top} = Name, _}, _) ->
    {Name, flame_prof(native, Interval, Top)};
start({portable, _}, _) ->
    {portable, flame_prof(portable, ?INTERVAL_MS, ?TOP)};
start({poller, _}, _) ->
    Counter = counters:new(1, []),
    Pid = spawn(fun() -> poll(Counter) end),
    {poller, {Pid, Counter}};
start({eprof, _}, Processes) ->
    profiling = eprof:start_profiling(Processes),
    {eprof, none};
start({fprof, _}, Processes) ->
    File = file("fprof.trace"),
    ok = fprof:trace([start, {file, File}, {procs, Processes}]),
    {fprof, File};
start({tprof, _}, Processes) ->
    _ = tprof:set_pattern('_', '_', '_'),
    _ = tprof:enable_trace(Processes),
    {tprof, Processes};
start({call_count, _}, _) ->
    _ = erlang:trace_pattern({'_', '_', '_'}, true, [local, call_count]),
    {call_count, none};
start({call_trace, _}, Processes) ->
    Counter = counters:new(1, []),
    Tracer = spawn(fun() -> process_flag(priority, high), count(Counter) end),
    _ = erlang:trace_pattern({bench_workloads, '_', '_'}, true, [local]),
    _ = [erlang:trace(P, true, [call, set_on_spawn, {tracer, Tracer}]) || P <- Processes],
    {call_trace, {Tracer, Counter, Processes}};
start({{perf, _} = Name, Perf}, _) ->
    ok = tell(Perf, "enable\n"),
    {Name, Perf}.

-spec counted(session()) -> counts().
counted({Name, none}) when Name =:= call_count; Name =:= eprof ->
    #{events => calls(Name)};
counted({Name, _}) when element(1, Name) =:= native; Name =:= portable ->
    #{counters := #{attempted := Attempted} = Counters} = flame_prof:info(),
    maps:merge(#{samples => Attempted}, maps:with(
        [signals, handler_ns, sampler_cpu_ns, writer_cpu_ns, missed, ticks, bytes], Counters));
counted({poller, {_, Counter}}) ->
    #{samples => counters:get(Counter, 1)};
counted({fprof, File}) ->
    #{trace_bytes => filelib:file_size(File)};
counted({call_trace, {Tracer, Counter, _}}) ->
    {message_queue_len, Waiting} = process_info(Tracer, message_queue_len),
    #{events => counters:get(Counter, 1) + Waiting};
counted({_, _}) ->
    #{}.

-spec stop(session()) -> ok.
stop({off, _}) ->
    ok;
stop({Name, Folder}) when element(1, Name) =:= native; Name =:= portable ->
    {ok, #{files := Files}} = flame_prof:stop(),
    _ = [file:delete(filename:join(Folder, File)) || File <- Files],
    ok;
stop({poller, {Pid, _}}) ->
    ended(Pid);
stop({eprof, _}) ->
    profiling_stopped = eprof:stop_profiling(),
    ok;
stop({fprof, File}) ->
    _ = fprof:trace(stop),
    _ = file:delete(File),
    ok;
stop({tprof, Processes}) ->
    _ = tprof:disable_trace(Processes),
    _ = tprof:clear_pattern('_', '_', '_'),
    ok;
stop({call_count, _}) ->
    _ = erlang:trace_pattern({'_', '_', '_'}, false, [local, call_count]),
    ok;
stop({call_trace, {Tracer, _, _}}) ->
    _ = erlang:trace(all, false, [call, set_on_spawn]),
    _ = erlang:trace_pattern({bench_workloads, '_', '_'}, false, [local]),
    ended(Tracer);
stop({{perf, _}, Perf}) ->
    tell(Perf, "disable\n").

-spec release(prepared()) -> counts().
release({eprof, _}) ->
    stopped = eprof:stop(),
    #{};
release({fprof, _}) ->
    _ = fprof:stop(),
    #{};
release({tprof, _}) ->
    ok = tprof:stop(),
    #{};
release({{perf, _}, Perf}) ->
    #{samples => ended_perf(Perf)};
release(_) ->
    #{}.

%% After a tool that failed or did not come back: nobody is traced any more.
-spec give_up() -> ok.
give_up() ->
    _ = erlang:trace(all, false, [all]),
    _ = erlang:trace_pattern({'_', '_', '_'}, false, [local, call_count, call_time]),
    _ = flame_prof:stop(),
    _ = [exit(Pid, kill) || Name <- [eprof, fprof_server, tprof], Pid <- [whereis(Name)],
        is_pid(Pid)],
    ok.

ended(Pid) ->
    Monitor = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end.

%% A node that is no part of the benchmark is told by its environment where to write.
file(Name) ->
    filename:absname(filename:join(os:getenv("BENCH_FOLDER", "_build/bench"), Name)).

%%% ------------------------------------------------------------------ flame_prof --

flame_prof(Engine, Interval, Top) ->
    Folder = file("files"),
    {ok, _} = flame_prof:start(#{
        dir => Folder,
        engine => Engine,
        sample_interval => Interval,
        select => {top, Top},
        %% It shall take all samples that it is asked for.
        cpu_budget => infinity
    }),
    Folder.

%%% ---------------------------------------------------------------------- poller --

%% What a profiler in Erlang does at the least, as the original flame_prof did: one
%% process chooses the busiest, asks each for its stack and figures a hundred times a
%% second, and counts stacks. It writes no file.
poll(Counter) ->
    poll(Counter, busiest(), 500, erlang:monotonic_time(millisecond), #{}).

poll(Counter, _, 0, At, Stacks) ->
    poll(Counter, busiest(), 500, At, Stacks);
poll(Counter, Pids, Left, At, Stacks) ->
    Next = max(At + ?INTERVAL_MS, erlang:monotonic_time(millisecond)),
    timer:sleep(max(0, Next - erlang:monotonic_time(millisecond))),
    Seen = lists:foldl(fun(Pid, Acc) -> poll_one(Counter, Pid, Acc) end, Stacks, Pids),
    poll(Counter, Pids, Left - 1, Next, Seen).

poll_one(Counter, Pid, Stacks) ->
    Items = [
        current_stacktrace, status, reductions, message_queue_len, memory, total_heap_size,
        stack_size, heap_size, garbage_collection_info, registered_name
    ],
    case process_info(Pid, Items) of
        [{current_stacktrace, Stack}, {status, Status} | _] ->
            counters:add(Counter, 1, 1),
            maps:update_with({Status, Stack}, fun(N) -> N + 1 end, 1, Stacks);
        undefined ->
            Stacks
    end.

busiest() ->
    Reductions = [{R, P} || P <- processes(), {reductions, R} <- [process_info(P, reductions)]],
    [P || {_, P} <- lists:sublist(lists:reverse(lists:sort(Reductions)), ?TOP)].

%%% --------------------------------------------------------------------- tracing --

count(Counter) ->
    receive _ -> counters:add(Counter, 1, 1) end,
    count(Counter).

%% Of the workload's own functions and those of the libraries that it calls most: all
%% that are loaded would take longer than the window.
calls(Name) ->
    Item = case Name of call_count -> call_count; eprof -> call_time end,
    lists:sum([
        calls_of(erlang:trace_info({Module, Function, Arity}, Item))
     || Module <- [bench_workloads, bench_requests, lists, maps],
        {Function, Arity} <- Module:module_info(functions)
    ]).

calls_of({call_count, Count}) when is_integer(Count) -> Count;
calls_of({call_time, Times}) when is_list(Times) -> lists:sum([Count || {_, Count, _, _} <- Times]);
calls_of(_) -> 0.

%%% ------------------------------------------------------------------------ perf --

%% One perf for all windows, that samples only while it is told to: its commands come
%% through its input, its answers through its output.
perf(Hz) ->
    File = file("perf.data"),
    %% Should we be killed, it ends all the same.
    Port = open_port({spawn_executable, os:find_executable("timeout")}, [
        {args, ["900", "perf", "record", "-e", "cpu-clock:u", "-g", "-F", integer_to_list(Hz), "-D",
            "-1",
                "--control", "fd:0,1", "-p", os:getpid(), "-o", File]},
        {env, [{"LC_ALL", "C"}]}, binary, stderr_to_stdout, exit_status
    ]),
    %% It acknowledges what it is told when all is open.
    Perf = {Port, File},
    ok = tell(Perf, "ping\n"),
    Perf.

tell({Port, _}, Command) ->
    true = port_command(Port, Command),
    acknowledged(Port, <<>>).

acknowledged(Port, Said) ->
    receive
        {Port, {data, More}} ->
            case binary:match(<<Said/binary, More/binary>>, <<"ack\n">>) of
                nomatch -> acknowledged(Port, <<Said/binary, More/binary>>);
                _ -> ok
            end;
        {Port, {exit_status, Status}} ->
            error({perf, Status, Said})
    after ?PERF_MS ->
        error({perf, does_not_answer, Said})
    end.

ended_perf({Port, File}) ->
    true = port_command(Port, "stop\n"),
    Said = said(Port, <<>>),
    _ = file:delete(File),
    _ = file:delete("/tmp/perf-" ++ os:getpid() ++ ".map"),
    case re:run(Said, "\\(~?([0-9]+) samples\\)", [{capture, all_but_first, binary}]) of
        {match, [Samples]} -> binary_to_integer(Samples);
        nomatch -> 0
    end.

said(Port, Said) ->
    receive
        {Port, {data, More}} -> said(Port, <<Said/binary, More/binary>>);
        {Port, {exit_status, _}} -> Said
    after ?PERF_MS ->
        error({perf, does_not_end, Said})
    end.
