%% @private The processes whose message queue or memory grew most since the selection before: those
%% of the portable engine. The native engine has c_src/session/growers.c, which explains the
%% numbers.
%%
%% Reductions and the length of the queue are read of all processes, which takes 0.3 us. The sizes
%% of heaps take a signal to the process, and 3 us: they are read of processes that have run since
%% they were last read, of a limited number in each pass.
-module(flame_prof_growers).

-export([new/1, items/0, see/3, select/2]).

-export_type([growers/0]).

-type kind() :: queue | memory.
%% Messages; words of heaps and binaries, and the reductions when they were read.
-type sizes() :: {Messages :: non_neg_integer(), Words :: unread | non_neg_integer(),
    ReadAt :: non_neg_integer()}.

%% `keeping': it stays while it has so much. `passes': since it grew.
-record(grower, {
    growth :: integer(),
    keeping :: non_neg_integer(),
    passes = 0 :: non_neg_integer()
}).

-record(growers, {
    places :: non_neg_integer(),
    %% None at the first selection.
    before = none :: none | #{pid() => sizes()},
    now = [] :: [{pid(), sizes()}],
    %% Of this pass: its number, and whose sizes were due. Each `every'-th of these is read.
    pass = 0 :: non_neg_integer(),
    due = 0 :: non_neg_integer(),
    every = 1 :: pos_integer(),
    queue = #{} :: #{pid() => #grower{}},
    memory = #{} :: #{pid() => #grower{}}
}).

-opaque growers() :: #growers{}.

-define(MESSAGES_LEAST, 64).
-define(WORDS_LEAST, 131072).
-define(HELD_PASSES, 12).
-define(READS, 1000).
%% To be read costs a process some itself. These add up until it is read.
-define(REDUCTIONS_LEAST, 100).
%% For each place: some are top processes, and need none.
-define(ROOM, 4).

-spec new(non_neg_integer()) -> growers().
new(Places) -> #growers{places = Places}.

%% @doc What {@link see/3} needs of `process_info/2'.
-spec items() -> [atom(), ...].
items() -> [message_queue_len, reductions].

-spec see(pid(), [{atom(), term()}], growers()) -> growers().
see(_Pid, _Info, #growers{places = 0} = Growers) ->
    Growers;
see(Pid, Info, #growers{before = Before, now = Now, due = Due} = Growers) ->
    {_, Queue} = lists:keyfind(message_queue_len, 1, Info),
    {_, Reductions} = lists:keyfind(reductions, 1, Info),
    {_, Words, ReadAt} = before(Pid, Before),
    case Reductions - ReadAt >= ?REDUCTIONS_LEAST of
        true ->
            {NewWords, NewReadAt} =
                read(is_turn(Pid, Growers), Pid, Words, ReadAt, Reductions),
            Growers#growers{now = [{Pid, {Queue, NewWords, NewReadAt}} | Now], due = Due + 1};
        false ->
            Growers#growers{now = [{Pid, {Queue, idle(Words), ReadAt}} | Now]}
    end.

%% One that has never done anything has no memory to speak of.
idle(unread) -> 0;
idle(Words) -> Words.

is_turn(Pid, #growers{pass = Pass, every = Every, due = Due}) ->
    Due div Every < ?READS andalso (erlang:phash2(Pid, Every) + Pass) rem Every =:= 0.

read(false, _Pid, Words, ReadAt, _Reductions) ->
    {Words, ReadAt};
read(true, Pid, Words, ReadAt, Reductions) ->
    case erlang:process_info(Pid, garbage_collection_info) of
        {_, Heap} -> {words(Heap, 0), Reductions};
        undefined -> {Words, ReadAt}
    end.

words([], Sum) -> Sum;
words([{Key, Words} | Heap], Sum) when
    Key =:= heap_block_size; Key =:= old_heap_block_size; Key =:= mbuf_size;
    Key =:= bin_vheap_size; Key =:= bin_old_vheap_size
->
    words(Heap, Sum + Words);
words([_ | Heap], Sum) -> words(Heap, Sum).

%% @doc At the end of a pass: those that have a place, none of which is ranked.
-spec select([pid()], growers()) -> {[pid()], growers()}.
select(_Ranked, #growers{places = 0} = Growers) ->
    {[], Growers};
select(Ranked, #growers{places = Places, before = Before, now = List, due = Due} = Growers) ->
    Now = maps:from_list(List),
    Queue = held(queue, Now, Before, Growers),
    Memory = held(memory, Now, Before, Growers),
    %% Half of the places each; what one does not need is for the other.
    First = most((Places + 1) div 2, Queue, Ranked),
    Second = most(Places - length(First), Memory, First ++ Ranked),
    Both = Second ++ First,
    Third = most(Places - length(Both), Queue, Both ++ Ranked),
    {Third ++ Both, Growers#growers{
        before = Now, now = [], queue = Queue, memory = Memory,
        pass = Growers#growers.pass + 1, due = 0, every = 1 + Due div ?READS
    }}.

held(Kind, Now, Before, #growers{places = Places, queue = Queue, memory = Memory}) ->
    Held = case Kind of queue -> Queue; memory -> Memory end,
    Kept = maps:filtermap(fun(Pid, Grower) -> keep(Kind, Grower, Now, Pid) end, Held),
    Grown = maps:fold(
        fun(Pid, Sizes, All) -> grow(Kind, Pid, before(Pid, Before), Sizes, All) end,
        Kept, Now),
    maps:with(most(?ROOM * Places, Grown, []), Grown).

keep(_Kind, #grower{passes = ?HELD_PASSES}, _Now, _Pid) ->
    false;
keep(Kind, #grower{keeping = Keeping, passes = Passes} = Grower, Now, Pid) ->
    case Now of
        #{Pid := Sizes} ->
            size_of(Kind, Sizes) >= Keeping andalso {true, Grower#grower{passes = Passes + 1}};
        _ ->
            false
    end.

%% A process has memory from its start, but a queue only when it lags: at the first selection
%% queues count, and no memory.
before(_Pid, none) -> {0, unread, 0};
before(Pid, Before) -> maps:get(Pid, Before, {0, 0, 0}).

grow(Kind, Pid, Before, Now, All) ->
    grow_by(Kind, Pid, size_of(Kind, Before), size_of(Kind, Now), All).

grow_by(_Kind, _Pid, Was, Now, All) when Was =:= unread; Now =:= unread ->
    All;
grow_by(Kind, Pid, Was, Now, All) ->
    Growth = Now - Was,
    case {Growth >= least(Kind), All} of
        {false, _} ->
            All;
        {true, #{Pid := #grower{growth = Most} = Grower}} ->
            All#{Pid := Grower#grower{growth = max(Most, Growth), passes = 0}};
        {true, _} ->
            All#{Pid => #grower{growth = Growth, keeping = Was + least(Kind)}}
    end.

-spec size_of(kind(), sizes()) -> unread | non_neg_integer().
size_of(queue, {Messages, _, _}) -> Messages;
size_of(memory, {_, Words, _}) -> Words.

least(queue) -> ?MESSAGES_LEAST;
least(memory) -> ?WORDS_LEAST.

%% The N that grew most.
most(N, Growers, Without) ->
    Growths = [{Growth, Pid} || {Pid, #grower{growth = Growth}} <- maps:to_list(
        maps:without(Without, Growers))],
    [Pid || {_, Pid} <- lists:sublist(lists:reverse(lists:sort(Growths)), N)].
