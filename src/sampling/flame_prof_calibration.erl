%% @private Finds the VM's memory layout by asking the VM public questions.
%%
%% A handful of probe processes are brought into states whose figures all
%% differ: heaps, old heaps, binaries, collections, messages, dictionaries,
%% priorities. The C library gets their values of `erlang:process_info/2', searches their memory for
%% the one place of each value, and compares it with the table of the release
%% (c_src/erts/layout_solve.c). The probes are gone when {@link ensure/1} returns.
%%
%% Some 50 ms, once in a VM's life: the layout is kept by the agent, which takes it as a value of
%% the library of looks. A
%% calibration that is refused is tried again with new probes, three times at
%% most: under load a probe may change between two questions.
-module(flame_prof_calibration).

-export([ensure/0, ensure/1, format_error/1]).
-export([probe/3, bare/1]).

-export_type([info/0, reason/0]).

-type info() :: #{
    otp := pos_integer(),
    tested := tested | untested | unlisted,
    reads := binary(),
    process_size := pos_integer()
}.

%% Why the native engine is refused: an error of c_src/base/error.h, the field
%% or table that it is about, and a sentence.
-type reason() :: {Error :: atom(), Field :: atom(), Why :: binary()}.

%% As many as give every field at least three different answers, with some to
%% spare.
-define(PROBES, 6).

%% Messages in the in-queue of the suspended probes.
-define(OUTER, [5, 7, 11]).

%% Longer than what OTP 28 and later keep inside the atom's own binary.
-define(LONG_ATOM,
    flame_prof_calibration_knows_this_atom_by_its_text_which_is_longer_than_sixty_four_bytes
).

%% Calibrations before one that is refused is believed.
-define(TRIES, 3).

-define(SETTLE_ATTEMPTS, 200).
-define(COMPARE_ATTEMPTS, 5).

%% @equiv ensure(#{})
-spec ensure() -> {ok, info()} | {error, reason()}.
ensure() ->
    ensure(#{}).

%% @doc The layout, found now if it was not found before.
%%
%% With `allow_unlisted', a release that the table does not list is accepted
%% when every field is found in exactly one place.
-spec ensure(#{allow_unlisted => boolean()}) -> {ok, info()} | {error, reason()}.
ensure(Opts) ->
    case flame_prof_nif:layout_info() of
        undefined -> calibrate(maps:get(allow_unlisted, Opts, false));
        #{} = Info -> {ok, Info};
        %% Code has come to lie where the engine cannot follow.
        {error, _} = Refusal -> Refusal
    end.

-spec format_error(reason()) -> iolist().
format_error({Error, Field, Why}) ->
    io_lib:format("~ts: ~ts (~ts)", [Field, Why, Error]).

%% In a process of its own: the probes' messages and exits stay out of the
%% caller's mailbox.
calibrate(AllowUnlisted) ->
    case in_process(fun() -> in_turn(AllowUnlisted) end) of
        {ok, Answer} -> Answer;
        {crashed, Crash} -> crashed(Crash)
    end.

%% Two calibrations at once would register the same names. The second one waits
%% and takes what the first has found.
in_turn(AllowUnlisted) ->
    try register(?MODULE, self()) of
        true ->
            case flame_prof_nif:layout_info() of
                undefined -> tries(1, AllowUnlisted);
                #{} = Info -> {ok, Info};
                {error, _} = Refusal -> Refusal
            end
    catch
        error:badarg ->
            Monitor = erlang:monitor(process, ?MODULE),
            receive
                {'DOWN', Monitor, process, _, _} -> in_turn(AllowUnlisted)
            end
    end.

%% On a busy node a probe may be collected, preempted or ended between two
%% questions. Each try has a process of its own: the probes' parent, a pid that
%% no other field of theirs holds.
tries(N, AllowUnlisted) ->
    Solve = fun() -> solve(flame_prof_looks_nif:calibration_open(), AllowUnlisted) end,
    Answer =
        case in_process(fun() -> flame_prof_looks:with(Solve) end) of
            {ok, {error, {library, #{reason := NoLibrary}}}} ->
                {error, {unsupported, library, NoLibrary}};
            {ok, Solved} -> Solved;
            {crashed, Crash} -> crashed(Crash)
        end,
    case Answer of
        {ok, _} = Ok ->
            Ok;
        {error, {unsupported, _, _}} = Final ->
            Final;
        {error, _} when N < ?TRIES ->
            tries(N + 1, AllowUnlisted);
        {error, {Error, Field, Why}} ->
            {error, {Error, Field, <<Why/binary, "; refused ", (integer_to_binary(N))/binary,
                " times, with new probes each">>}}
    end.

in_process(Fun) ->
    Self = self(),
    Tag = make_ref(),
    {Pid, Monitor} = spawn_opt(fun() -> Self ! {Tag, Fun()} end, [monitor, {priority, high}]),
    receive
        {'DOWN', Monitor, process, Pid, normal} ->
            receive
                {Tag, Answer} -> {ok, Answer}
            end;
        {'DOWN', Monitor, process, Pid, Crash} ->
            {crashed, Crash}
    end.

crashed(Crash) ->
    Why = flame_prof_error:exit_text(Crash),
    {error, {probe, probes, <<"the probes failed: ", Why/binary>>}}.

solve(Ref, AllowUnlisted) ->
    try
        Rich = [start_probe(Ref, K) || K <- lists:seq(1, ?PROBES)],
        Bare = [start_bare(Ref) || _ <- ?OUTER],
        Size = process_size(hd(Bare)),
        RichAnswers = [rich_answers(Pid, K) || {K, Pid} <- enumerate(Rich)],
        BareAnswers = [bare_answers(Pid, N) || {N, Pid} <- lists:zip(?OUTER, Bare)],
        compare(?COMPARE_ATTEMPTS, Ref, #{
            otp => list_to_integer(erlang:system_info(otp_release)),
            process_limit => erlang:system_info(process_limit),
            port_limit => erlang:system_info(port_limit),
            atom_limit => erlang:system_info(atom_limit),
            process_size => Size,
            allow_unlisted => AllowUnlisted,
            atoms => [ok, ?MODULE, probe_name(?PROBES), ?LONG_ATOM],
            probes => RichAnswers ++ BareAnswers
        })
    after
        lists:foreach(fun stop_probe/1, started())
    end.

%% A probe that has just answered may not have been scheduled out yet: what is
%% compared then does not fit. A layout that does not fit never does.
compare(Attempts, Ref, Input) ->
    case flame_prof_looks_nif:calibration_solve(Ref, Input) of
        {ok, Layout} ->
            taken(flame_prof_nif:value_take(Layout));
        {error, _} when Attempts > 1 ->
            timer:sleep(5),
            compare(Attempts - 1, Ref, Input);
        {error, _} = Refusal ->
            Refusal
    end.

taken(ok) ->
    case flame_prof_nif:layout_info() of
        #{} = Info -> {ok, Info};
        {error, _} = Refusal -> Refusal
    end;
taken({error, Error}) ->
    Why = io_lib:format("the agent does not take it: ~0tp", [Error]),
    {error, {layout, layout, unicode:characters_to_binary(Why)}}.

enumerate(List) ->
    lists:zip(lists:seq(1, length(List)), List).

stop_probe(Pid) ->
    Monitor = erlang:monitor(process, Pid),
    exit(Pid, kill),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    end.

%%% ---------------------------------------------------------------- probes --

start_probe(Ref, K) ->
    Options = [
        {priority, priority(K)},
        %% Consumed messages then stay in fragments until a collection.
        {message_queue_data, off_heap},
        %% Room, so that consuming the message does not collect it at once.
        {min_heap_size, 2000 * K},
        {min_bin_vheap_size, vheap_block(old, K)}
    ],
    {Pid, Monitor} = start(probe, [self(), Ref, K], [monitor | Options]),
    _ = Pid ! {consume, lists:seq(1, 40 * K)},
    receive
        {ready, Pid} -> erlang:demonitor(Monitor, [flush]);
        {'DOWN', Monitor, process, Pid, Reason} -> exit(Reason)
    end,
    send_inert(Pid, inner_len(K)),
    Pid.

%% Not linked, which would count as their memory: remembered, to be stopped
%% however far this gets.
start(Function, Args, Options) ->
    Started = spawn_opt(?MODULE, Function, Args, Options),
    Pid = case Started of
        {P, _Monitor} -> P;
        P -> P
    end,
    put(?MODULE, [Pid | started()]),
    Started.

started() ->
    case get(?MODULE) of
        undefined -> [];
        Pids -> Pids
    end.

send_inert(Pid, Count) ->
    lists:foreach(fun(_) -> Pid ! inert end, lists:seq(1, Count)).

start_bare(Ref) ->
    Pid = start(bare, [Ref], [{message_queue_data, on_heap}]),
    await(Pid, waiting, ?SETTLE_ATTEMPTS),
    Pid.

priority(K) ->
    element(1 + K rem 3, {low, normal, high}).

priority_bits(low) -> 3;
priority_bits(normal) -> 2;
priority_bits(high) -> 1.

%% In words. The VM rounds up by steps of some 20 to 60 %: each is double the
%% one before.
vheap_block(old, K) -> 100000 bsl K;
vheap_block(young, K) -> 100000 bsl (K + ?PROBES);
vheap_block(minimum, K) -> 100000 bsl (K + 2 * ?PROBES).

inner_len(K) -> 3 * K.
dictionary_len(K) -> 2 * K + 1.

probe_name(K) ->
    list_to_atom("flame_prof_probe_" ++ integer_to_list(K)).

%% @private
probe(Parent, Ref, K) ->
    ok = flame_prof_looks_nif:calibration_probe(Ref),
    true = register(probe_name(K), self()),
    lists:foreach(fun(N) -> put({probe, N}, N) end, lists:seq(1, dictionary_len(K))),
    dig(7 * K, Parent, K).

%% The stack's depth is one of the answers.
dig(0, Parent, K) ->
    burn(3001 * K),
    %% A full sweep leaves everything young; the first minor collection after
    %% it moves that to the old heap, and each later one what came in between.
    Old = {lists:seq(1, 300 * K), binaries(2, 1000 * K)},
    erlang:garbage_collect(),
    %% A minor collection grows the young block to the minimum, not the old
    %% one; after it the minimum itself must differ from both.
    process_flag(min_bin_vheap_size, vheap_block(young, K)),
    Recent = [collect_minor(N, K) || N <- lists:seq(1, K)],
    process_flag(min_bin_vheap_size, vheap_block(minimum, K)),
    Fresh = {lists:seq(1, 60 * K), binaries(1, 700 * K)},
    consume(Parent),
    wait([Old, Recent, Fresh]);
dig(N, Parent, K) ->
    [dig(N - 1, Parent, K)].

collect_minor(_, K) ->
    Young = {lists:seq(1, 11 * K), binaries(1, 100 * K)},
    erlang:garbage_collect(self(), [{type, minor}]),
    Young.

%% Binaries above 64 bytes live outside the heap and count as virtual heap.
binaries(Count, Bytes) ->
    [binary:copy(<<N>>, 64 + Bytes) || N <- lists:seq(1, Count)].

burn(0) -> ok;
burn(N) -> burn(N - 1).

consume(Parent) ->
    receive
        {consume, _} ->
            _ = Parent ! {ready, self()},
            ok
    end.

wait(Keep) ->
    receive
        never -> Keep
    end.

%% @private
bare(Ref) ->
    ok = flame_prof_looks_nif:calibration_probe(Ref),
    wait([]).

%%% --------------------------------------------------------------- answers --

-define(ITEMS, [
    status,
    initial_call,
    reductions,
    message_queue_len,
    garbage_collection,
    garbage_collection_info
]).

rich_answers(Pid, K) ->
    await(Pid, waiting, ?SETTLE_ATTEMPTS),
    Items = settled(Pid, ?SETTLE_ATTEMPTS),
    Gc = maps:get(garbage_collection_info, Items),
    Answers = maps:with(
        [
            heap_size,
            heap_block_size,
            stack_size,
            recent_size,
            old_heap_size,
            old_heap_block_size,
            mbuf_size,
            bin_vheap_size,
            bin_vheap_block_size,
            bin_old_vheap_size,
            bin_old_vheap_block_size
        ],
        maps:from_list(Gc)
    ),
    (identity(Pid, Items))#{
        registered => probe_name(K),
        current_function => maps:get(current_function, Items),
        answers => Answers#{
            minor_gcs => proplists:get_value(minor_gcs, maps:get(garbage_collection, Items)),
            reductions => maps:get(reductions, Items),
            inner_len => maps:get(message_queue_len, Items),
            outer_len => 0,
            dictionary_len => dictionary_len(K),
            state => priority_bits(priority(K)) bor off_heap_bit()
        }
    }.

%% Suspended, a process does not fetch what is sent to it: the messages stay in
%% the shared in-queue, and their number is what was sent.
bare_answers(Pid, OuterLen) ->
    Items = settled(Pid, ?SETTLE_ATTEMPTS),
    true = erlang:suspend_process(Pid),
    await(Pid, suspended, ?SETTLE_ATTEMPTS),
    send_inert(Pid, OuterLen),
    (identity(Pid, Items))#{
        answers => #{
            inner_len => 0,
            outer_len => OuterLen,
            reductions => maps:get(reductions, Items)
        }
    }.

off_heap_bit() -> 8.

identity(Pid, Items) ->
    {Number, Serial} = pid_numbers(Pid),
    #{
        pid => Pid,
        number => Number,
        serial => Serial,
        parent => self(),
        initial_call => maps:get(initial_call, Items)
    }.

pid_numbers(Pid) ->
    [_, Number, Serial] = string:lexemes(pid_to_list(Pid), "<.>"),
    {list_to_integer(Number), list_to_integer(Serial)}.

%% Memory of a process besides its heap.
process_size(Pid) ->
    [{memory, Memory}, {total_heap_size, Words}] =
        erlang:process_info(Pid, [memory, total_heap_size]),
    Memory - Words * erlang:system_info(wordsize).

%% Answering makes a process run where it has messages to fetch, and always
%% where its current function is asked for, so that comes first; of the rest
%% only an answer that came twice in a row is believed.
settled(Pid, Attempts) when Attempts > 0 ->
    Function = erlang:process_info(Pid, current_function),
    Items = erlang:process_info(Pid, ?ITEMS),
    case erlang:process_info(Pid, ?ITEMS) of
        Items when hd(Items) =:= {status, waiting} -> maps:from_list([Function | Items]);
        _ -> again(Pid, Attempts)
    end.

again(Pid, Attempts) ->
    timer:sleep(1),
    settled(Pid, Attempts - 1).

await(Pid, Status, Attempts) when Attempts > 0 ->
    case erlang:process_info(Pid, status) of
        {status, Status} ->
            ok;
        {status, _} ->
            timer:sleep(1),
            await(Pid, Status, Attempts - 1)
    end.
