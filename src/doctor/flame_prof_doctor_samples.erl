%% @private What the rules of the doctor judge of a profile: facts of each process and of the
%% profiler, and stacks with their weights.
%%
%% Pids, names and functions are decoded. Times are microseconds since 1970, memory is in bytes. All
%% of it is read at once: the profile may be closed afterwards.
-module(flame_prof_doctor_samples).

-export([read/1, evidence/1, on_cpu/1, process/1, target/1, busy/2, function/2, finding/3]).
-export([span_us/1, time/1]).

-export_type([samples/0, process/0, series/0, stay/0, stack/0]).

-type series() :: [{TimeUs :: integer(), Min :: integer(), Max :: integer(), Last :: integer()}].
%% In at most 32 equal parts of the time of the process; the time is that of the first sample in the
%% part. Empty where the numbers of the process are small (c_src/report/facts.c).

-type range() :: {First :: integer(), Min :: integer(), Max :: integer(), Last :: integer()}.

-type stay() :: #{
    us := integer(),
    since_us := integer(),
    frame := binary(),
    kind := erlang | called | pseudo | native,
    scheduler := non_neg_integer(),
    samples := pos_integer(),
    count := non_neg_integer(),
    all_us := non_neg_integer()
}.
%% The longest time in one call of a BIF or NIF on a normal scheduler, or in one collection. `count'
%% and `all_us' are of all that took 50 ms or more.

-type process() :: #{
    pid := binary(),
    name := binary(),
    place := non_neg_integer(),
    observations := non_neg_integer(),
    running := non_neg_integer(),
    runnable := non_neg_integer(),
    waiting := non_neg_integer(),
    gc := non_neg_integer(),
    other := non_neg_integer(),
    first_us := integer(),
    last_us := integer(),
    reductions := integer(),
    queue := series(),
    memory := series(),
    bin_vheap := series(),
    survived := series(),
    queue_range := range(),
    memory_range := range(),
    bin_vheap_range := range(),
    waits_for := [{binary(), pos_integer()}],
    tags := [{binary(), pos_integer()}],
    longest_native := stay() | none,
    longest_gc := stay() | none
}.
%% `survived' is what the last collection left in the heap. `waits_for' and `tags' (of messages in
%% work) have the observations, the most first.

-type stack() :: {Frames :: [flame_prof_doctor_stacks:frame()], Weight :: pos_integer()}.
%% Leaf first. The weight is in observations.

-type samples() :: #{
    span_us := non_neg_integer(),
    first_us := integer(),
    last_us := integer(),
    ticks_done := non_neg_integer(),
    ticks_missed := non_neg_integer(),
    mode := processes | schedulers,
    rate_hz := float(),
    losses := #{
        missed := float(),
        dropped := float(),
        inconsistent := float(),
        damaged := float(),
        step := integer()
    },
    processes := [process()],
    stacks := fun((Pid :: binary() | all, [Status :: binary()]) -> [stack()]),
    by_queue := fun((Pid :: binary()) -> [{Status :: binary(), Queue :: binary(), stack()}]),
    figures := [#{time_us := integer(), atom() => integer()}]
}.
%% `mode' is `schedulers' also where the samples have no statuses, as those of perf: shares of time
%% are unknown then. `losses' are shares of what was due. `figures' are the profiler's own, of one
%% node; a figure that is as old as the one before it is left out. `Queue' is a class of the length
%% of the message queue: `queue_0', `queue_100s' (doc/format.md).

%% Stacks beyond these are rare ones.
-define(STACKS_MOST, 30000).
-define(NAMES_MOST, 8).
%% The first and the last reading of allocators, at least: files have one each five seconds.
-define(APART_US, 4000000).
-define(FIGURES, [
    node_atoms, node_ets_tables, node_memory_atom, node_memory_binary, node_memory_code,
    node_memory_ets, node_memory_processes, node_memory_total, node_ports, node_processes,
    node_rss, node_run_queues, node_runtime_ms, node_schedulers_online
]).
%% Allocators that leaks and bursts are in, with what they have from the system and what is in use.
-define(ALLOCATORS, [
    {binary_alloc, node_alloc_binary_carriers, node_alloc_binary_blocks},
    {driver_alloc, node_alloc_driver_carriers, node_alloc_driver_blocks},
    {eheap_alloc, node_alloc_eheap_carriers, node_alloc_eheap_blocks},
    {ets_alloc, node_alloc_ets_carriers, node_alloc_ets_blocks},
    {ll_alloc, node_alloc_ll_carriers, node_alloc_ll_blocks}
]).

-spec read(flame_prof_profile:profile()) -> {ok, samples()} | {error, flame_prof:reason()}.
read(Profile) ->
    Query = #{group_by => [status, queue, pid], lines => false, top => ?STACKS_MOST},
    maybe_all([
        fun() -> flame_prof_profile:facts(Profile) end,
        fun() -> checked(flame_prof_profile:info(Profile)) end,
        fun() -> checked(flame_prof_profile:processes(Profile)) end,
        fun() -> flame_prof_profile:stacks(Profile, Query) end
    ]).

checked({error, _} = Error) -> Error;
checked(Value) -> {ok, Value}.

maybe_all(Steps) -> maybe_all(Steps, []).

maybe_all([], Read) ->
    {ok, samples(lists:reverse(Read))};
maybe_all([Step | Steps], Read) ->
    case Step() of
        {ok, Value} -> maybe_all(Steps, [Value | Read]);
        {error, _} = Error -> Error
    end.

samples([{Facts, Texts, Own}, Info, Processes, #{stacks := Stacks}]) ->
    #{first_us := First, last_us := Last} = Info,
    Numbered = lists:zip3(lists:seq(0, length(Facts) - 1), lists:sublist(Processes, length(Facts)),
        Facts),
    Named = named(Texts),
    Figures = [figure(Row) || Row <- Own],
    ByPid = by_pid(Stacks),
    maps:merge(counters(Own, Info), #{
        first_us => First,
        last_us => Last,
        span_us => Last - First,
        mode => mode(Info, Numbered),
        processes => [Process
            || {Place, #{is_own := false, erl_pid := Pid} = P, F} <- Numbered, Pid =/= <<>>,
                #{name := Name} = Process <- [process(Place, P, F, Named)],
                not (is_profiler(Name) orelse is_in_profiler(maps:get(Pid, ByPid, [])))],
        stacks => fun(Of, Statuses) -> stacks(ByPid, Of, Statuses) end,
        by_queue => fun(Pid) -> maps:get(Pid, ByPid, []) end,
        figures => fresh(Figures)
    }).

%%% Processes.

%% Those of the profiler and of the doctor are no findings on the node.
is_profiler(Name) ->
    [Module | _] = binary:split(Name, <<":">>),
    flame_prof_own:is_module(Module).

%% One that was started for a moment, as to look for a file, has no name that tells it.
is_in_profiler(Rows) ->
    Of = [{lists:any(fun is_frame_of_profiler/1, Frames), Weight}
        || {_, _, {[_ | _] = Frames, Weight}} <- Rows],
    2 * lists:sum([Weight || {true, Weight} <- Of]) > lists:sum([Weight || {_, Weight} <- Of]).

%% What flame_prof:apply/1 and profile/1 call is the program's.
is_frame_of_profiler({<<"flame_prof:", _/binary>>, erlang}) -> false;
is_frame_of_profiler({<<"flame_prof_oneshot:", _/binary>>, erlang}) -> false;
is_frame_of_profiler({<<"flame_prof", _/binary>> = Function, erlang}) -> is_profiler(Function);
is_frame_of_profiler(_) -> false.

process(Place, Process, Facts, Named) ->
    #{erl_pid := Pid, first_us := First, last_us := Last} = Process,
    #{parts := Parts, longest_native := Native, longest_gc := Gc} = Facts,
    Statuses = maps:with([running, runnable, waiting, gc, other], Facts),
    Texts = fun(Kind) -> lists:sublist(maps:get({Place, Kind}, Named, []), ?NAMES_MOST) end,
    maps:merge(Statuses, #{
        pid => Pid,
        name => label(Process),
        place => Place,
        observations => lists:sum(maps:values(Statuses)),
        first_us => First,
        last_us => Last,
        reductions => maps:get(reductions, Facts),
        queue => series(Parts, 1),
        memory => series(Parts, 2),
        bin_vheap => [words(Part) || Part <- series(Parts, 3)],
        survived => [words(Part) || Part <- series(Parts, 4)],
        queue_range => maps:get(queue_range, Facts),
        memory_range => maps:get(memory_range, Facts),
        bin_vheap_range => bytes(maps:get(bin_vheap_range, Facts)),
        waits_for => Texts(waits_for),
        tags => Texts(serves),
        longest_native => stay(Native),
        longest_gc => stay(Gc)
    }).

label(#{name := Name}) when Name =/= <<>> -> flame_prof_frames:decode(Name);
label(#{label := Label}) when Label =/= <<>> -> flame_prof_frames:decode(Label);
label(#{proc_lib_initial_call := Call}) when Call =/= <<>> -> flame_prof_frames:decode(Call);
label(#{initial_call := Call}) -> flame_prof_frames:decode(Call).

series(Parts, N) ->
    [{TimeUs, Min, Max, Last}
     || {TimeUs, Numbers} <- Parts, {_, Min, Max, Last} <- [lists:nth(N, Numbers)]].

words({TimeUs, Min, Max, Last}) -> {TimeUs, 8 * Min, 8 * Max, 8 * Last}.

bytes({First, Min, Max, Last}) -> {8 * First, 8 * Min, 8 * Max, 8 * Last}.

stay(none) -> none;
stay(#{frame := Frame} = Stay) ->
    Stay#{frame := flame_prof_frames:function(Frame), kind => flame_prof_frames:kind(Frame)}.

named(Texts) ->
    ByPlace = lists:foldl(
        fun({Place, Kind, Text, N}, Map) ->
            maps:update_with({Place, Kind}, fun(L) -> [{Text, N} | L] end, [{Text, N}], Map)
        end, #{}, Texts),
    maps:map(fun(_, Some) -> lists:reverse(lists:keysort(2, Some)) end, ByPlace).

mode(#{metrics := Metrics}, Numbered) ->
    IsOfSchedulers = [P || {_, #{is_own := true, words := Words} = P, _} <- Numbered,
        binary:match(Words, <<"mode=schedulers">>) =/= nomatch],
    Waiting = lists:sum([N || {_, #{is_own := false}, #{waiting := N}} <- Numbered]),
    case lists:member(<<"message_queue_len">>, Metrics) andalso Waiting > 0 of
        true when IsOfSchedulers =:= [] -> processes;
        _ -> schedulers
    end.

%%% Stacks.

by_pid(Stacks) ->
    {Rows, _} = lists:mapfoldl(fun row/2, #{}, Stacks),
    maps:groups_from_list(fun({Pid, _}) -> Pid end, fun({_, Row}) -> Row end, Rows).

row({[Status, Queue, Pid], Frames, Weight, _Samples}, Known) ->
    {Stack, Knows} = lists:mapfoldl(fun frame/2, Known, Frames),
    {{Pid, {Status, Queue, {Stack, Weight}}}, Knows}.

frame(Frame, Known) ->
    case Known of
        #{Frame := Shown} ->
            {Shown, Known};
        #{} ->
            Shown = {flame_prof_frames:function(Frame), flame_prof_frames:kind(Frame)},
            {Shown, Known#{Frame => Shown}}
    end.

stacks(ByPid, all, Statuses) ->
    [Stack || Rows <- maps:values(ByPid), {S, _, Stack} <- Rows, lists:member(S, Statuses)];
stacks(ByPid, Pid, Statuses) ->
    [Stack || {S, _, Stack} <- maps:get(Pid, ByPid, []), lists:member(S, Statuses)].

%%% The profiler's own.

%% Counters begin with the session: the first flush of one has no change since the one before, the
%% first of a later file has.
counters([], Info) ->
    #{ticks_done => 0, ticks_missed => 0, rate_hz => 0.0, losses => losses(#{}, Info, 0)};
counters([First | _] = Own, Info) ->
    Last = lists:last(Own),
    During = maps:from_list([
        {Name, count(Name, Last) - before(Name, First, change(<<"ticks">>, First))}
     || Name <- [<<"ticks">>, <<"missed">>, <<"dropped">>, <<"lost">>, <<"inconsistent">>,
            <<"attempted">>, <<"written">>]
    ]),
    #{
        ticks_done => maps:get(<<"ticks">>, During),
        ticks_missed => maps:get(<<"missed">>, During),
        rate_hz => count(<<"rate_millihertz">>, Last) / 1000,
        losses => losses(During, Info,
            lists:max([count(<<"budget_step">>, Row) || Row <- Own]))
    }.

count(Name, Row) -> element(1, maps:get(Name, Row, {0, 0})).
change(Name, Row) -> element(2, maps:get(Name, Row, {0, 0})).

before(Name, First, Ticks) when Ticks > 0 -> count(Name, First) - change(Name, First);
before(_, _, _) -> 0.

losses(During, #{bad := Bad, damaged := Damaged, samples := Samples}, Step) ->
    Of = fun(Name) -> maps:get(Name, During, 0) end,
    Due = lists:max([Of(<<"attempted">>), Of(<<"written">>), 1]),
    #{
        missed => Of(<<"missed">>) / max(1, Of(<<"missed">>) + Of(<<"ticks">>)),
        dropped => (Of(<<"dropped">>) + Of(<<"lost">>)) / Due,
        inconsistent => Of(<<"inconsistent">>) / Due,
        damaged => (Bad + Damaged) / max(1, Bad + Damaged + Samples),
        step => Step
    }.

%% Without names that no rule asks for; a file may have any.
figure(#{time_us := TimeUs} = Row) ->
    OfAllocators = lists:append([[Carriers, Blocks] || {_, Carriers, Blocks} <- ?ALLOCATORS]),
    maps:from_list([{time_us, TimeUs} | [
        {Figure, Value}
     || Figure <- ?FIGURES ++ OfAllocators, Name <- [atom_to_binary(Figure)],
        {Value, _} <- [maps:get(Name, Row, none)]
    ]]).

%% A busy node answers late: its figures are then those of the flush before.
fresh([#{node_runtime_ms := Same} = First, #{node_runtime_ms := Same} | Rest]) ->
    fresh([First | Rest]);
fresh([First | Rest]) ->
    [First | fresh(Rest)];
fresh([]) ->
    [].

%% @doc Of a file alone: what it tells of its node is as that of a look.
-spec evidence(samples()) -> flame_prof_doctor_rule:evidence().
evidence(#{span_us := SpanUs, figures := Figures} = Samples) ->
    Why = <<"only recorded samples are known">>,
    Needs = [seconds, waits, standing, mailboxes, memory, tables, binaries, os, system],
    Evidence = #{
        node => none,
        engine => native,
        span_us => SpanUs,
        unseen => maps:from_list([{Need, Why} || Need <- Needs]),
        samples => Samples
    },
    Seconds = [Figure || #{node_runtime_ms := _} = Figure <- Figures],
    Memory = [{Us, Look} || #{time_us := Us} = Second <- Seconds,
        #{allocators := [_ | _]} = Look <- [memory(Second)]],
    maps:merge(Evidence, maps:from_list(
        [{seconds, Seconds} || Seconds =/= []] ++
        [{memory, Pair} || Pair <- both_ends(Memory)])).

%% One reading says nothing of what stays.
both_ends([{FromUs, First} | _] = Readings) ->
    {ToUs, Last} = lists:last(Readings),
    [{First, Last} || ToUs - FromUs >= ?APART_US];
both_ends([]) ->
    [].

memory(Second) ->
    Allocators = [
        #{allocator => Name, carriers_bytes => Allocated, blocks_bytes => Used}
     || {Name, Carriers, Blocks} <- ?ALLOCATORS,
        #{Carriers := Allocated, Blocks := Used} <- [Second]
    ],
    Rss = maps:from_list([{rss, Bytes} || #{node_rss := Bytes} <- [Second]]),
    #{allocators => Allocators, process => Rss}.

%% @doc Observations in which it was on a CPU.
-spec on_cpu(process()) -> non_neg_integer().
on_cpu(#{running := Running, gc := Gc}) -> Running + Gc.

%% @doc As findings have it.
-spec process(process()) -> flame_prof_doctor_rule:process().
process(Process) -> maps:with([pid, name], Process).

%% @doc As the word of a command: a registered name, or the pid in quotes.
-spec target(#{name := binary(), pid := binary(), atom() => term()}) -> unicode:chardata().
target(#{name := Name, pid := Pid}) ->
    case re:run(Name, "^[A-Za-z_][A-Za-z0-9_@.]*$", [{capture, none}]) of
        match -> Name;
        nomatch -> ["'", Pid, "'"]
    end.

%% @doc Its stacks while it did not wait.
-spec busy(samples(), process()) -> flame_prof_doctor_stacks:stacks().
busy(#{stacks := Stacks}, #{pid := Pid}) ->
    Stacks(Pid, [<<"running">>, <<"runnable">>, <<"garbage_collecting">>]).

%% @doc The function that explains what it does; of one that only waits, what it waits in.
-spec function(samples(), process()) -> binary().
function(#{stacks := Stacks} = Samples, #{pid := Pid} = Process) ->
    flame_prof_doctor_stacks:function(
        case busy(Samples, Process) of
            [] -> Stacks(Pid, [<<"waiting">>]);
            Busy -> Busy
        end
    ).

%% @doc For so long it was sampled.
-spec span_us(process()) -> non_neg_integer().
span_us(#{first_us := FromUs, last_us := ToUs}) -> ToUs - FromUs.

%% @doc That as the words of a sentence: `10 s'.
-spec time(process()) -> unicode:chardata().
time(Process) -> flame_prof_doctor_rule:seconds(span_us(Process)).

%% @doc A finding on a process, without what its kind adds; sentences that are empty are left out.
%% Its numbers begin with how long and how often the process was sampled.
-spec finding(flame_prof_doctor_rule:kind(), process(), map()) ->
    flame_prof_doctor_rule:finding().
finding(Kind, Process, #{title := Title, sentences := Sentences} = More) ->
    Given = case More of
        #{function := <<>>} -> maps:remove(function, More);
        _ -> More
    end,
    Numbers = #{span_us => span_us(Process), observations => maps:get(observations, Process)},
    Named = #{kind => Kind, processes => [process(Process)]},
    maps:merge(Named, Given#{
        title := [flame_prof_doctor_rule:name(Process), " ", Title],
        sentences := [S || S <- Sentences, S =/= ""],
        numbers := maps:merge(Numbers, maps:get(numbers, Given))
    }).
