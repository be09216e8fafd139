%% @private The records of c_src/tracer/allocations.h, added up: by stack, by process, the longest
%% collections, and which of them may be in step with the program.
%%
%% == In step ==
%%
%% The estimate trusts that a collection may come anywhere in what a program allocates. It may not
%% where the words between two collections are the same ones again and again; then the windows are
%% of few sizes. Of the samples of one group - a process, or all processes that begin with one
%% function and had few samples each - this is the chance that two have windows of one size,
%%
%%      sum over sizes of n (n - 1)  /  N (N - 1)
%%
%% which is an unbiased estimate of the sum of p^2, the p being the sizes' shares. Its inverse is
%% the number of sizes, were they equally frequent. A group of SAMPLES samples or more with fewer
%% than SIZES sizes is told. Windows that differ by the last term alone (what had no room
%% anymore) are of several sizes unless all terms have one size: programs that do nothing but build
%% one list are told, too, though theirs is right.
-module(flame_prof_allocations_sum).

-export([new/1, windows/0, add/3, answer/2, in_step/1]).

-export_type([sum/0, record/0]).

%% See record_term() in c_src/agent_nif/allocations_nif.c.
-type record() ::
    {pid(), minor | major, atom(), Window :: non_neg_integer() | unknown,
        Weight :: non_neg_integer(), Survived :: non_neg_integer() | unknown,
        Live :: non_neg_integer() | unknown, LengthNs :: non_neg_integer(), IsLong :: boolean(),
        [flame_prof_allocations:frame()], flame_prof_mailbox:tag() | none}.

-record(sum, {
    open :: non_neg_integer(),
    counters = #{} :: #{atom() => number()},
    %% Stack => {Words, Survived, Of}
    stacks = #{} :: #{[flame_prof_allocations:frame()] => tuple()} | none,
    other = 0 :: non_neg_integer(),
    %% Process => {Words, Samples, first function, #{window => samples}}
    processes = #{} :: #{pid() => tuple()},
    %% Message in work => words
    messages = #{} :: #{flame_prof_mailbox:tag() => non_neg_integer()},
    longest = [] :: [{non_neg_integer(), flame_prof_allocations:collection()}]
}).

-opaque sum() :: #sum{}.

%% Of what is kept; words of further ones are added up.
-define(STACKS, 20000).
-define(PROCESSES, 50000).
-define(MESSAGES, 10000).
-define(WINDOWS, 64).
-define(LONGEST, 20).

%% Counters of c_src/tracer/allocations.h.
-define(CAUSES, [{by_heap, heap}, {by_fragments, fragments}, {by_binaries, binaries},
    {by_other, other}, {by_unknown, unknown}]).

%% See above.
-define(SAMPLES, 20).
-define(SIZES, 8).

%% @doc Open: the words in no window yet, at the begin.
-spec new(non_neg_integer()) -> sum().
new(Open) ->
    #sum{open = Open}.

%% @doc What in_step/1 needs, and nothing else.
-spec windows() -> sum().
windows() ->
    #sum{open = 0, stacks = none}.

-spec add([record()], #{atom() => number()}, sum()) -> sum().
add(Records, Counters, Sum) ->
    lists:foldl(fun record/2, Sum#sum{counters = Counters}, Records).

record(Record, Sum) ->
    case is_own(Record) of
        true -> Sum;
        false -> record_of_program(Record, Sum)
    end.

record_of_program(Record, Sum0) ->
    Sum = long(Record, Sum0),
    case element(5, Record) of
        0 -> Sum;
        _ -> message(Record, process(Record, stack(Record, Sum)))
    end.

%% The counters have what flame_prof allocates, too.
is_own(Record) -> flame_prof_own:is_in(element(10, Record)).

long({_, _, _, _, _, _, _, _, false, _, _}, Sum) ->
    Sum;
long({Pid, Kind, Cause, _, _, _, Live, Ns, true, Stack, _}, #sum{longest = Longest} = Sum) ->
    Collection = #{
        process => Pid, kind => Kind, cause => Cause, microseconds => Ns div 1000, words => Live,
        stack => Stack
    },
    Sorted = lists:reverse(lists:keysort(1, [{Ns, Collection} | Longest])),
    Sum#sum{longest = lists:sublist(Sorted, ?LONGEST)}.

%% The code that made a fragment is unknown: the frame `[fragments]' says so.
stack(_, #sum{stacks = none} = Sum) ->
    Sum;
stack(Record, #sum{stacks = Stacks} = Sum) ->
    {_, _, Cause, Window, Weight, Survived, _, _, _, Collected, _} = Record,
    Stack = [fragments || Cause =:= fragments] ++ Collected,
    {Kept, Of} =
        case is_integer(Survived) andalso is_integer(Window) andalso Window > 0 of
            true -> {round(Weight * Survived / Window), Weight};
            false -> {0, 0}
        end,
    case Stacks of
        #{Stack := {W, S, O}} ->
            Sum#sum{stacks = Stacks#{Stack := {W + Weight, S + Kept, O + Of}}};
        _ when map_size(Stacks) < ?STACKS ->
            Sum#sum{stacks = Stacks#{Stack => {Weight, Kept, Of}}};
        _ ->
            Sum#sum{other = Sum#sum.other + Weight}
    end.

process({Pid, _, _, Window, Weight, _, _, _, _, Stack, _}, #sum{processes = Processes} = Sum) ->
    case Processes of
        #{Pid := {W, N, First, Windows}} ->
            Process = {W + Weight, N + 1, First, window(Window, Windows)},
            Sum#sum{processes = Processes#{Pid := Process}};
        _ when map_size(Processes) < ?PROCESSES ->
            Process = {Weight, 1, first(Stack), window(Window, #{})},
            Sum#sum{processes = Processes#{Pid => Process}};
        _ ->
            Sum
    end.

message({_, _, _, _, _, _, _, _, _, _, none}, Sum) ->
    Sum;
message({_, _, _, _, Weight, _, _, _, _, _, Tag}, #sum{messages = Messages} = Sum) ->
    case Messages of
        #{Tag := Words} -> Sum#sum{messages = Messages#{Tag := Words + Weight}};
        _ when map_size(Messages) < ?MESSAGES -> Sum#sum{messages = Messages#{Tag => Weight}};
        _ -> Sum
    end.

%% Below the behaviours' own.
first(Stack) ->
    Own = [proc_lib, gen_server, gen_statem, gen_event, gen],
    case [Frame || {M, _, _, _} = Frame <- Stack, not lists:member(M, Own)] of
        [] -> lists:last(Stack);
        Frames -> lists:last(Frames)
    end.

window(Window, Windows) ->
    case Windows of
        #{Window := N} -> Windows#{Window := N + 1};
        _ when map_size(Windows) < ?WINDOWS -> Windows#{Window => 1};
        _ -> Windows
    end.

%% @doc Open: as in new/1, at the end.
-spec answer(non_neg_integer(), sum()) -> map().
answer(Open, #sum{counters = Counters, stacks = Stacks, longest = Longest} = Sum) ->
    Count = fun(Key) -> maps:get(Key, Counters, 0) end,
    ByWords = lists:reverse(lists:keysort(2, [{S, T} || {S, T} <- maps:to_list(Stacks)])),
    #{
        stacks => [{Stack, Words} || {Stack, {Words, _, _}} <- ByWords],
        survived => [{Stack, Kept, Of} || {Stack, {_, Kept, Of}} <- ByWords, Of > 0],
        processes => processes(Sum),
        messages => lists:reverse(lists:keysort(2, maps:to_list(Sum#sum.messages))),
        words => max(0, round(Count(words)) + Open - Sum#sum.open),
        share => maps:get(share, Counters, 1),
        words_error => round(math:sqrt(max(0.0, Count(variance)))),
        samples => Count(samples) - Count(dropped),
        in_step => in_step(Sum),
        collections => #{
            minor => Count(minor) - Count(failed),
            major => Count(major),
            milliseconds => Count(collection_ns) div 1000000,
            longest_microseconds => Count(longest_ns) div 1000,
            longest => [Collection || {_, Collection} <- Longest],
            causes => maps:from_list([{Cause, N} || {Key, Cause} <- ?CAUSES,
                N <- [Count(Key)], N > 0])
        },
        lost => #{
            dropped_words => Count(dropped_words),
            unreadable => Count(unreadable),
            other_stacks_words => Sum#sum.other
        },
        looks => Count(looks),
        look_ns => Count(look_ns)
    }.

processes(#sum{processes = Processes}) ->
    lists:reverse(lists:keysort(2, [{P, element(1, T)} || {P, T} <- maps:to_list(Processes)])).

%% In step.

%% @doc The words of groups that may be in step, the largest first.
-spec in_step(sum()) -> [{flame_prof_allocations:group(), non_neg_integer()}].
in_step(#sum{processes = Processes}) ->
    Groups = maps:fold(fun group/3, #{}, Processes),
    Told = [{Group, Words} || {Group, {Words, Windows}} <- maps:to_list(Groups),
            is_in_step(maps:values(Windows))],
    lists:reverse(lists:keysort(2, Told)).

group(Pid, {Words, N, _First, Windows}, Groups) when N >= ?SAMPLES ->
    Groups#{Pid => {Words, Windows}};
group(_Pid, {Words, _N, First, Windows}, Groups) ->
    {Words0, Windows0} = maps:get(First, Groups, {0, #{}}),
    Add = fun(Window, N, All) -> maps:update_with(Window, fun(M) -> M + N end, N, All) end,
    Groups#{First => {Words0 + Words, maps:fold(Add, Windows0, Windows)}}.

is_in_step(Counts) ->
    N = lists:sum(Counts),
    N >= ?SAMPLES andalso
        ?SIZES * lists:sum([C * (C - 1) || C <- Counts]) > N * (N - 1).
