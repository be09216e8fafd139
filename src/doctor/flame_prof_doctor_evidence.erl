%% @private What the doctor looks at, on the node that is examined: for so many milliseconds, each
%% look in a process of its own. A look that fails or does not answer in time is `unseen' with its
%% reason; the others go on.
%%
%% Nothing is traced, no system flag is set, no process is suspended. The session has the CPU budget
%% of any other; the rest is looks that exist for themselves, and figures of the VM each second.
%% A session that runs already is left alone: its files are read. Beside triggers it has its own.
-module(flame_prof_doctor_evidence).

-export([collect/1]).
-export([run/1]).

-export_type([collected/0]).

-type collected() :: {flame_prof_doctor_rule:evidence(), [flame_prof_recording:file()]}.
%% `samples' are to be read from the files, where that does not load the node.

%% After the end of the time: answers that come later are not waited for.
-define(REGISTRY_MS, 300).
-define(GRACE_MS, 4000).
-define(SESSION_GRACE_MS, 9000).
-define(SECOND_MS, 1000).
-define(WARM_MS, 5000).
%% A start takes no longer.
-define(START_MS, 60000).
%% Beside the time of the look, where the caller says none.
-define(BESIDE_MS, 14000).
%% Where little is left of that: what each stage has at least, and the look.
-define(WARM_LEAST_MS, 1500).
-define(LOOK_LEAST_MS, 6000).
-define(END_LEAST_MS, 3000).
%% The looks at waits end so long before the others do.
-define(WAITS_AHEAD_MS, 300).
%% Mailboxes are looked at as late as that.
-define(MAILBOXES_AHEAD_MS, 1500).
%% A session may write some more than that, and flame_prof_recording reads 67108864 at most.
-define(BYTES_MOST, 50331648).
-define(QUEUE_LEAST, 1000).
-define(QUEUES, 5).
-define(MAILBOX_MS, 500).
-define(EDGES_MOST, 10000).
-define(TABLES, 20).
%% The look for growth of binaries ends so long before the others do: then the heap of one process
%% is looked through.
-define(BINARIES_AHEAD_MS, 1000).
-define(BINARIES_MS, 2000).
-define(BINARIES_GROWN, 1048576).

%% @doc By any process of the node. It returns some seconds after the end of the time at most, and
%% `within' so many milliseconds: where the first looks took long the look is shorter, and what is
%% not there by then is unseen. It looks no longer than `caller', which may be on another node,
%% lives. With `samples => none' the caller has a session of its own.
-spec collect(#{for := pos_integer(), engine := auto | native | portable,
    within => pos_integer(), caller => pid(), samples => none, _ => _}) -> collected().
collect(#{for := For, engine := Engine} = Options) ->
    Caller = maps:get(caller, Options, self()),
    Priority = process_flag(priority, high),
    try
        LeftOut = maps:keys(maps:with([samples], Options)),
        Latest = now_ms() + maps:get(within, Options, For + ?BESIDE_MS),
        collected(For, Engine, Caller, Latest, LeftOut)
    after
        process_flag(priority, Priority)
    end.

collected(For, Engine, Caller, Latest, LeftOut) ->
    WarmMs = max(?WARM_LEAST_MS, min(?WARM_MS, Latest - now_ms() - For - ?GRACE_MS)),
    ok = warm(Engine, Caller, WarmMs),
    Left = Latest - now_ms() - ?END_LEAST_MS,
    Ms = max(min(For, Left), min(For, ?LOOK_LEAST_MS)),
    Until = now_ms() + Ms,
    Answers = asked(Caller, [{Key, Until + max(?END_LEAST_MS, min(Grace, Latest - Until)), Look}
        || {Key, Grace, Look} <- looks(Until, Engine), not lists:member(Key, LeftOut)]),
    {Seen, Files} = taken_files(maps:from_list([{K, V} || {K, {ok, V}} <- maps:to_list(Answers)])),
    Unseen = maps:from_list([{Key, Why} || {Key, {unseen, Why}} <- maps:to_list(Answers)]),
    {(with_seconds(Seen))#{
        node => node(),
        engine => engine(Seen),
        span_us => Ms * 1000,
        unseen => Unseen
    }, Files}.

now_ms() -> erlang:monotonic_time(millisecond).

%% What only first looks do - to load code, to calibrate, to learn receives - is not to be found as
%% something of the node: it makes atoms, and asks the code server.
warm(Engine, Caller, WarmMs) ->
    Work = fun() ->
        ok = flame_prof_env:load(),
        {ok, Modules} = application:get_key(flame_prof, modules),
        _ = [code:ensure_loaded(Module) || Module <- Modules]
    end,
    Look = fun() ->
        %% An agent's node has no application, and all that it needs.
        _ = whereis(flame_prof_agent) =:= undefined andalso Work(),
        %% It calibrates what the look at the system needs.
        _ = flame_prof_waits:look(#{for => 0, top => 1, engine => Engine}),
        _ = flame_prof_doctor_system:look(reader(Engine)),
        _ = memory(Engine),
        _ = flame_prof_tables:look(#{top => 1, engine => Engine}),
        {ok, reader(Engine)}
    end,
    _ = asked(Caller, [{warm, now_ms() + WarmMs, Look}]),
    ok.

looks(Until, Engine) ->
    [
        {start, ?GRACE_MS, fun start/0},
        {samples, ?SESSION_GRACE_MS, fun() -> samples(Engine, Until) end},
        {seconds, ?GRACE_MS, fun() -> {ok, each_second(fun second/0, Until)} end},
        {vm_memory, ?GRACE_MS, fun() ->
            Reader = reader(Engine),
            Kinds = fun() -> maps:from_list(flame_prof_node_memory:by_kind(Reader)) end,
            {ok, each_second(Kinds, Until)}
        end},
        {waits, ?GRACE_MS, fun() -> waits(Engine, Until) end},
        {standing, ?GRACE_MS, fun() ->
            flame_prof_doctor_standing:look(reader(Engine), Until - ?WAITS_AHEAD_MS)
        end},
        {mailboxes, ?GRACE_MS, fun() -> mailboxes(Engine, Until) end},
        {memory, ?GRACE_MS, both(fun() -> memory(Engine) end, Until)},
        {tables, ?GRACE_MS, fun() -> tables(Engine, Until) end},
        {binaries, ?GRACE_MS, fun() -> binaries(Engine, Until) end},
        {os, ?GRACE_MS, fun() -> flame_prof_doctor_os:looks(Until) end},
        {system, ?GRACE_MS, both(fun() -> flame_prof_doctor_system:look(reader(Engine)) end,
            Until)}
    ].

%% Processes and their answers.

%% By a process that ends the looks where a caller has gone. What answers too late answers to
%% nothing.
asked(Caller, Wanted) ->
    #{} = flame_prof_temporary:in_process(fun(AskerMonitor) ->
        Monitors = {AskerMonitor, monitor(process, Caller)},
        answers(Monitors, maps:from_list([begun(W) || W <- Wanted]), #{})
    end).

begun({Key, Deadline, Look}) ->
    %% Little work, which a busy node is not to keep waiting: then the node is to be looked at.
    Options = [monitor, {priority, high}, {max_heap_size, 0}],
    {Pid, _Monitor} = spawn_opt(?MODULE, run, [Look], Options),
    {Pid, {Key, Deadline}}.

%% @private A look that fails writes no report into the log of the node.
-spec run(fun(() -> {ok, term()} | {unseen, binary()})) -> no_return().
run(Look) ->
    exit(try {?MODULE, Look()}
    catch _:_:Stack -> {?MODULE, {unseen, flame_prof_error:internal(Stack)}}
    end).

answers(_Monitors, Looks, Answers) when map_size(Looks) =:= 0 ->
    Answers;
answers({A, B} = Monitors, Looks, Answers) ->
    Deadline = lists:min([Until || {_, Until} <- maps:values(Looks)]),
    receive
        {'DOWN', _, process, Pid, Reason} when is_map_key(Pid, Looks) ->
            {{Key, _}, Others} = maps:take(Pid, Looks),
            answers(Monitors, Others, Answers#{Key => answer(Reason)});
        {'DOWN', Monitor, process, _, _} when Monitor =:= A; Monitor =:= B ->
            _ = [exit(Pid, kill) || Pid <- maps:keys(Looks)],
            Answers
    after max(0, Deadline - now_ms()) ->
        [{Late, Key} | _] = [{Pid, K} || {Pid, {K, Until}} <- maps:to_list(Looks),
            Until =:= Deadline],
        true = exit(Late, kill),
        Why = {unseen, <<"no answer in time">>},
        answers(Monitors, maps:remove(Late, Looks), Answers#{Key => Why})
    end.

answer({?MODULE, Answer}) -> Answer;
answer(Reason) ->
    {unseen, iolist_to_binary(["the look failed: ", flame_prof_error:exit_text(Reason)])}.

%% At the first and at the last moment.
both(Look, Until) ->
    fun() ->
        case Look() of
            {ok, First} ->
                ok = wait(Until),
                pair(First, Look());
            {unseen, _} = Unseen ->
                Unseen
        end
    end.

pair(First, {ok, Last}) -> {ok, {First, Last}};
pair(_First, {unseen, _} = Unseen) -> Unseen.

wait(Until) -> timer:sleep(max(0, Until - now_ms())).

%% Is it still starting: the VM, or one of its applications?
start() ->
    Ms = now_ms() - erlang:convert_time_unit(erlang:system_info(start_time), native, millisecond),
    {Vm, _} = init:get_status(),
    Applications = proplists:get_value(starting, application:info(), []),
    %% One whose start function does not return is never said to be started.
    IsStarting = Ms < ?START_MS andalso (Vm =:= starting orelse Applications =/= []),
    {ok, #{uptime_ms => Ms, is_starting => IsStarting}}.

%% Each second.

each_second(Figures, Until) ->
    Now = now_ms(),
    Second = (Figures())#{time_us => erlang:system_time(microsecond)},
    case Until - Now of
        Left when Left < ?SECOND_MS div 2 ->
            [Second];
        Left ->
            ok = timer:sleep(min(Left, ?SECOND_MS)),
            [Second | each_second(Figures, Until)]
    end.

second() ->
    Online = erlang:system_info(schedulers_online),
    Queues = lists:sublist(statistics(run_queue_lengths), Online),
    maps:merge(maps:from_list(sockets() ++ flame_prof_node:counts()), #{
        own_modules => flame_prof_own:loaded(),
        node_spawned => spawned(),
        node_run_queue_dirty_cpu => lists:nth(2, lists:reverse(statistics(run_queue_lengths_all))),
        node_dirty_cpu_schedulers => erlang:system_info(dirty_cpu_schedulers_online),
        node_schedulers => erlang:system_info(schedulers),
        node_schedulers_unblocked => unblocked(erlang:system_info(multi_scheduling), Online),
        node_run_queue_sum => lists:sum(Queues),
        node_run_queue_longest => lists:max(Queues),
        node_run_queue_shortest => lists:min(Queues),
        node_process_limit => erlang:system_info(process_limit),
        node_port_limit => erlang:system_info(port_limit),
        node_atom_limit => erlang:system_info(atom_limit),
        node_persistent_terms => maps:get(count, persistent_term:info()),
        node_memory_persistent_terms => maps:get(memory, persistent_term:info())
    }).

%% Processes are numbered as they are spawned, 28 bits of it: how many there have been.
spawned() ->
    Pid = spawn(fun() -> ok end),
    [_, Number, Serial] = [list_to_integer(Text)
        || Text <- string:lexemes(pid_to_list(Pid), "<.>")],
    Number + (Serial bsl 15).

%% Sockets of the module `socket' are no ports; their registry counts them, which may be late.
sockets() -> lists:append([open_sockets() || erlang:module_loaded(socket)]).

-dialyzer({nowarn_function, open_sockets/0}). % its helper's answer is how it ends
open_sockets() ->
    {Asker, Monitor} = spawn_monitor(fun() -> exit({node_sockets, socket:number_of()}) end),
    receive
        {'DOWN', Monitor, process, Asker, {node_sockets, N}} when is_integer(N) ->
            [{node_sockets, N}];
        {'DOWN', Monitor, process, Asker, _} -> []
    after ?REGISTRY_MS ->
        true = demonitor(Monitor, [flush]),
        true = exit(Asker, kill),
        []
    end.

unblocked(blocked, _Online) -> 1;
unblocked(_, Online) -> Online.

%% Both series are of one second each; that of memory may have had to wait for a scheduler in a NIF.
with_seconds(#{seconds := Seconds, vm_memory := Memory} = Seen) ->
    (maps:remove(vm_memory, Seen))#{seconds := merged(Seconds, Memory)};
with_seconds(Seen) ->
    maps:remove(vm_memory, Seen).

merged([Second | Seconds], [Memory | Memories]) ->
    [maps:merge(Memory, Second) | merged(Seconds, Memories)];
merged(Seconds, []) ->
    Seconds;
merged([], _) ->
    [].

engine(#{memory := {#{engine := Engine}, _}}) -> Engine;
engine(#{}) -> portable.

taken_files(#{samples := Files} = Seen) -> {maps:remove(samples, Seen), Files};
taken_files(Seen) -> {Seen, []}.

%% Looks.

samples(Engine, Until) ->
    Options = #{engine => Engine, select => {top, 100, 2500}, sample_interval => 10,
        flush_interval => 5000, flushes_per_file => 60, max_total_bytes => ?BYTES_MOST,
        sync => none},
    case flame_prof_recording:until(Until, Options) of
        {ok, []} -> {unseen, <<"nothing was sampled">>};
        {ok, Files} -> {ok, Files};
        {error, Reason} -> unseen(Reason)
    end.

%% For all of the time: a deadlock that a time-out ends stands for seconds, of which some may lie
%% before the first look.
waits(Engine, Until) ->
    For = max(0, Until - now_ms() - ?WAITS_AHEAD_MS),
    case flame_prof_waits:looks(#{for => For, top => 20, engine => Engine}) of
        {ok, Look, Earlier} ->
            Monitored = flame_prof_doctor_standing:monitored(Look),
            {ok, (with_edges(Monitored))#{earlier => [with_edges(Of) || Of <- Earlier]}};
        {error, Reason} ->
            unseen(Reason)
    end.

with_edges(#{edges := Edges} = Look) -> Look#{edges := lists:sublist(Edges, ?EDGES_MOST)}.

%% Those of the longest queues, while what fills them is at work.
mailboxes(Engine, Until) ->
    ok = wait(Until - ?MAILBOXES_AHEAD_MS),
    Options = #{senders => 10, tags => 10, oldest => 5, time_limit => ?MAILBOX_MS,
        engine => Engine},
    {ok, [
        Mailbox
     || Pid <- longest(reader(Engine)),
        {ok, Mailbox} <- [flame_prof_mailbox:look(Pid, Options)]
    ]}.

reader(portable) -> portable;
reader(_) -> flame_prof_top_reader:engine().

longest(Engine) ->
    Ranking = flame_prof_top_ranking:new(Engine, queue, <<>>, ?QUEUES),
    Pids = pass(flame_prof_top_ranking:begin_pass(Ranking)),
    [
        Pid
     || {Pid, #{message_queue_len := Length}} <- flame_prof_top_reader:read(Engine, bare, Pids),
        is_integer(Length), Length >= ?QUEUE_LEAST
    ].

pass(Ranking) ->
    case flame_prof_top_ranking:step(Ranking) of
        {more, PauseMs, Next} ->
            ok = timer:sleep(PauseMs),
            pass(Next);
        {done, #{pids := Pids}, _} ->
            Pids
    end.

memory(Engine) ->
    case flame_prof_memory:look(#{explain => false, engine => Engine}) of
        {ok, Memory} -> {ok, Memory};
        {error, Reason} -> unseen(Reason)
    end.

%% Those that grow most.
tables(Engine, Until) ->
    For = max(1, Until - now_ms()),
    Options = #{for => For, by => growth, top => ?TABLES, engine => Engine},
    case flame_prof_tables:look(Options) of
        {ok, Tables} -> {ok, Tables};
        {error, Reason} -> unseen(Reason)
    end.

%% What it pins is looked for in the one whose binaries grow most, where they grow by much.
binaries(portable, _Until) ->
    {unseen, <<"binaries: needs the native engine">>};
binaries(_, Until) ->
    For = max(1, Until - now_ms() - ?BINARIES_AHEAD_MS),
    case flame_prof_binaries:look(#{for => For, walked => 0, time_limit => ?BINARIES_MS}) of
        {ok, #{growing := [#{grown := Grown} = First | Rest]} = Look} when
            Grown >= ?BINARIES_GROWN
        ->
            {ok, Look#{growing := [flame_prof_binaries:with_pins(First) | Rest]}};
        {ok, Look} ->
            {ok, Look};
        {error, Reason} ->
            unseen(Reason)
    end.

unseen(Reason) ->
    {unseen, unicode:characters_to_binary(flame_prof:format_error(Reason))}.
