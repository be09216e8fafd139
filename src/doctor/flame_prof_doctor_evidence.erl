%% @private What the doctor looks at, on the node that is examined: for so many milliseconds, each
%% look in a process of its own. A look that fails or does not answer in time is `unseen' with its
%% reason; the others go on.
%%
%% Nothing is traced, no system flag is set, no process is suspended. The session has the CPU budget
%% of any other; the rest is looks that exist for themselves, and figures of the VM each second.
%% A session that runs already is left alone: its files are read.
-module(flame_prof_doctor_evidence).

-export([collect/1, second/0]).
-export([run/2]).

-export_type([collected/0, file/0]).

-type file() :: {Name :: binary(), Bytes :: binary()}.
-type collected() :: {flame_prof_doctor_rule:evidence(), [file()]}.
%% `samples' are to be read from the files, where that does not load the node.

%% After the end of the time: answers that come later are not waited for.
-define(GRACE_MS, 4000).
-define(SESSION_GRACE_MS, 9000).
-define(SECOND_MS, 1000).
-define(WARM_MS, 5000).
%% The looks at waits end so long before the others do.
-define(WAITS_AHEAD_MS, 300).
%% Mailboxes are looked at as late as that.
-define(MAILBOXES_AHEAD_MS, 1500).
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

%% @doc By any process of the node. It returns a few seconds after the end of the time at most.
-spec collect(#{for := pos_integer(), engine := auto | native | portable, _ => _}) -> collected().
collect(#{for := Ms, engine := Engine}) ->
    ok = warm(Engine),
    Begun = now_us(),
    Until = Begun div 1000 + Ms,
    Answers = asked([{Key, Until + Grace, Look} || {Key, Grace, Look} <- looks(Ms, Until, Engine)]),
    {Seen, Files} = taken_files(maps:from_list([{K, V} || {K, {ok, V}} <- maps:to_list(Answers)])),
    Unseen = maps:from_list([{Key, Why} || {Key, {unseen, Why}} <- maps:to_list(Answers)]),
    {(with_seconds(Seen))#{
        node => node(),
        engine => engine(Seen),
        span_us => Ms * 1000,
        unseen => Unseen
    }, Files}.

%% What only first looks do - to load code, to calibrate, to learn receives - is not to be found as
%% something of the node: it makes atoms, and asks the code server.
warm(Engine) ->
    Work = fun() ->
        _ = application:load(flame_prof),
        {ok, Modules} = application:get_key(flame_prof, modules),
        _ = [code:ensure_loaded(Module) || Module <- Modules]
    end,
    Look = fun() ->
        %% An agent's node has no application, and all that it needs.
        _ = whereis(flame_prof_agent) =:= undefined andalso Work(),
        _ = flame_prof_doctor_system:look(reader(Engine)),
        _ = flame_prof_waits:look(#{for => 0, top => 1, engine => Engine}),
        _ = memory(Engine),
        _ = flame_prof_tables:look(#{top => 1, engine => Engine}),
        {ok, reader(Engine)}
    end,
    _ = asked([{warm, now_us() div 1000 + ?WARM_MS, Look}]),
    ok.

looks(Ms, Until, Engine) ->
    [
        {samples, ?SESSION_GRACE_MS, fun() ->
            flame_prof_doctor_session:sampled(Engine, Ms, Until)
        end},
        {seconds, ?GRACE_MS, fun() -> {ok, each_second(fun second/0, Until)} end},
        {vm_memory, ?GRACE_MS, fun() -> {ok, each_second(fun vm_memory/0, Until)} end},
        {waits, ?GRACE_MS, fun() -> waits(Engine, Ms, Until) end},
        {mailboxes, ?GRACE_MS, fun() -> mailboxes(Engine, Until) end},
        {memory, ?GRACE_MS, both(fun() -> memory(Engine) end, Until)},
        {tables, ?GRACE_MS, fun() -> tables(Engine, Until) end},
        {binaries, ?GRACE_MS, fun() -> binaries(Engine, Until) end},
        {os, ?GRACE_MS, both(fun() -> flame_prof_doctor_os:look() end, Until)},
        {system, ?GRACE_MS, both(fun() -> flame_prof_doctor_system:look(reader(Engine)) end,
            Until)}
    ].

%% Processes and their answers.

%% What answers too late answers to nothing: the caller may be a shell, which goes on.
asked(Wanted) ->
    Alias = alias(),
    Looks = maps:from_list([begun(Key, Deadline, Look, Alias) || {Key, Deadline, Look} <- Wanted]),
    Answers = answers(Alias, Looks, #{}),
    true = unalias(Alias),
    ok = forget(Alias),
    Answers.

forget(Alias) ->
    receive
        {Alias, _, _} -> forget(Alias)
    after 0 -> ok
    end.

begun(Key, Deadline, Look, Alias) ->
    %% Little work, which a busy node is not to keep waiting: then the node is to be looked at.
    {Pid, Monitor} = spawn_opt(?MODULE, run, [Look, Alias], [monitor, {priority, high}]),
    {Pid, {Key, Monitor, Deadline}}.

%% @private A look that fails writes no report into the log of the node.
-spec run(fun(() -> {ok, term()} | {unseen, binary()}), reference()) -> term().
run(Look, Alias) ->
    Answer = try Look() catch _:_:Stack -> {unseen, flame_prof_error:internal(Stack)} end,
    Alias ! {Alias, self(), Answer}.

answers(_Alias, Looks, Answers) when map_size(Looks) =:= 0 ->
    Answers;
answers(Alias, Looks, Answers) ->
    Deadline = lists:min([Until || {_, _, Until} <- maps:values(Looks)]),
    receive
        {Alias, Pid, Answer} when is_map_key(Pid, Looks) ->
            answered(Alias, Pid, Answer, Looks, Answers);
        {'DOWN', _, process, Pid, Reason} when is_map_key(Pid, Looks) ->
            Why = iolist_to_binary(["the look failed: ", flame_prof_error:exit_text(Reason)]),
            answered(Alias, Pid, {unseen, Why}, Looks, Answers)
    after max(0, Deadline - now_us() div 1000) ->
        [Late | _] = [Pid || {Pid, {_, _, Until}} <- maps:to_list(Looks), Until =:= Deadline],
        true = exit(Late, kill),
        answered(Alias, Late, {unseen, <<"no answer in time">>}, Looks, Answers)
    end.

answered(Alias, Pid, Answer, Looks, Answers) ->
    {{Key, Monitor, _}, Others} = maps:take(Pid, Looks),
    true = demonitor(Monitor, [flush]),
    answers(Alias, Others, Answers#{Key => Answer}).

now_us() -> erlang:monotonic_time(microsecond).

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

wait(Until) -> timer:sleep(max(0, Until - now_us() div 1000)).

%% Each second.

each_second(Figures, Until) ->
    Now = now_us() div 1000,
    Second = (Figures())#{time_us => erlang:system_time(microsecond)},
    case Until - Now of
        Left when Left < ?SECOND_MS div 2 ->
            [Second];
        Left ->
            ok = timer:sleep(min(Left, ?SECOND_MS)),
            [Second | each_second(Figures, Until)]
    end.

%% @doc What asks no scheduler.
-spec second() -> #{atom() => number()}.
second() ->
    {RunTimeMs, _} = statistics(runtime),
    Online = erlang:system_info(schedulers_online),
    Queues = lists:sublist(statistics(run_queue_lengths), Online),
    #{
        node_schedulers => erlang:system_info(schedulers),
        node_schedulers_online => Online,
        node_schedulers_unblocked => unblocked(erlang:system_info(multi_scheduling), Online),
        node_run_queues => statistics(total_run_queue_lengths_all),
        node_run_queue_sum => lists:sum(Queues),
        node_run_queue_longest => lists:max(Queues),
        node_run_queue_shortest => lists:min(Queues),
        node_runtime_ms => RunTimeMs,
        node_processes => erlang:system_info(process_count),
        node_process_limit => erlang:system_info(process_limit),
        node_ports => erlang:system_info(port_count),
        node_port_limit => erlang:system_info(port_limit),
        node_atoms => erlang:system_info(atom_count),
        node_atom_limit => erlang:system_info(atom_limit),
        node_ets_tables => erlang:system_info(ets_count),
        node_persistent_terms => maps:get(count, persistent_term:info()),
        node_memory_persistent_terms => maps:get(memory, persistent_term:info())
    }.

unblocked(blocked, _Online) -> 1;
unblocked(_, Online) -> Online.

%% This asks all schedulers: one that is in a long NIF keeps it waiting.
vm_memory() ->
    try
        maps:from_list([
            {Name, Bytes}
         || {Kind, Bytes} <- erlang:memory(), {K, Name} <- memory_names(), K =:= Kind
        ])
    catch
        error:notsup -> #{}
    end.

memory_names() ->
    [
        {total, node_memory_total},
        {processes, node_memory_processes},
        {binary, node_memory_binary},
        {ets, node_memory_ets},
        {atom, node_memory_atom},
        {code, node_memory_code}
    ].

%% Both series are of one second each.
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

waits(Engine, Ms, Until) ->
    %% Waits have lasted as long as is known: from a third of the time on.
    ok = wait(Until - Ms * 2 div 3),
    For = max(0, Until - now_us() div 1000 - ?WAITS_AHEAD_MS),
    case flame_prof_waits:look(#{for => For, top => 20, engine => Engine}) of
        {ok, #{edges := Edges} = Look} ->
            {ok, Look#{edges := lists:sublist(Edges, ?EDGES_MOST)}};
        {error, Reason} ->
            unseen(Reason)
    end.

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
    For = max(1, Until - now_us() div 1000),
    Options = #{for => For, sort => growth, top => ?TABLES, engine => Engine},
    case flame_prof_tables:look(Options) of
        {ok, Tables} -> {ok, Tables};
        {error, Reason} -> unseen(Reason)
    end.

%% What it pins is looked for in the one whose binaries grow most, where they grow by much.
binaries(portable, _Until) ->
    {unseen, <<"binaries: needs the native engine">>};
binaries(_, Until) ->
    For = max(1, Until - now_us() div 1000 - ?BINARIES_AHEAD_MS),
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
