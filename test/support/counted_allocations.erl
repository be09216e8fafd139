%% Programs that count the words that they allocate, by how their terms are made up: a cell of a
%% list has 2 words, a tuple one more than elements, a float 2.
%%
%% Their processes are made at once, wait for go/1, work for so many milliseconds, and wait for
%% stop/1: all of their words are allocated between the two.
-module(counted_allocations).

-export([names/0, start/2, go/1, counts/1, all/1, pids/1, stop/1, when_traced/1, worker/2,
    until/1, mixed/2]).
%% They are told in stacks.
-export([tuples/2, conses/2, floats/2, sets/2, puts/3, bytes/1, numbers/1, sender/5, receiver/2,
    brief_tuples/2, brief_conses/2, brief_floats/2]).

-export_type([name/0, program/0]).

-type name() :: one_process | many_processes | thousand_processes | brief_processes | large_heap
    | small_terms_of_bifs | messages | large_terms_of_bifs.
-opaque program() :: #{
    pids := [pid()],
    counter := counters:counters_ref(),
    functions := [{mfa(), Index :: pos_integer()}]
}.

%% Words of no function of those that are told.
-define(OTHERS, 1).

%% Those with functions.
-spec names() -> [name()].
names() ->
    [one_process, many_processes, thousand_processes, brief_processes, large_heap,
        small_terms_of_bifs, messages].

-spec start(name(), pos_integer()) -> program().
start(Name, Ms) ->
    Counter = counters:new(4, []),
    #{pids => workers(Name, Ms, Counter), counter => Counter, functions => functions(Name)}.

functions(Name) when Name =:= one_process; Name =:= many_processes; Name =:= large_heap;
    Name =:= thousand_processes ->
    [{{?MODULE, tuples, 2}, 2}, {{?MODULE, conses, 2}, 3}, {{?MODULE, floats, 2}, 4}];
functions(brief_processes) ->
    [{{?MODULE, brief_tuples, 2}, 2}, {{?MODULE, brief_conses, 2}, 3},
        {{?MODULE, brief_floats, 2}, 4}];
functions(small_terms_of_bifs) -> [{{?MODULE, sets, 2}, 2}, {{?MODULE, puts, 3}, 3}];
functions(messages) -> [{{?MODULE, sender, 5}, 2}, {{?MODULE, receiver, 2}, 3}];
functions(large_terms_of_bifs) -> [].

workers(one_process, Ms, Counter) ->
    [worker(fun() -> mixed(Counter, Ms) end, [{min_heap_size, 20000}])];
workers(many_processes, Ms, Counter) ->
    [worker(fun() -> mixed(Counter, Ms) end, [{min_heap_size, 10000 * (1 + N rem 4)}])
        || N <- lists:seq(1, 50)];
%% Each with one of the functions. Those of the first work twice as often as those of the second,
%% and these twice as often as those of the third.
workers(thousand_processes, Ms, Counter) ->
    [worker(fun() -> rarely(Counter, N rem 3, seed(), until(Ms), 0) end, [])
        || N <- lists:seq(1, 1000)];
%% Some 10,000 a second, one after the other.
workers(brief_processes, Ms, Counter) ->
    [worker(fun() -> briefly(Counter, seed(), until(Ms)) end, []) || _ <- [1, 2, 3, 4]];
%% Heaps that only dirty schedulers collect: larger than 128 K words, and abandoned before.
workers(large_heap, Ms, Counter) ->
    [worker(fun() -> large(Counter, Ms) end, [{min_heap_size, 500000}])];
workers(small_terms_of_bifs, Ms, Counter) ->
    [worker(fun() -> updates(Counter, seed(), until(Ms), 0, 0) end, [{min_heap_size, 20000}])];
%% The heap has room for few of them: many are put into fragments, which may be collected later.
workers(large_terms_of_bifs, Ms, Counter) ->
    [worker(fun() -> built(Counter, seed(), until(Ms), 0) end, [{min_heap_size, 5000}])];
workers(messages, Ms, Counter) ->
    Receiver = worker(fun() -> receiver(Counter, 0) end, []),
    [Receiver, worker(fun() -> sender(Receiver, Counter, seed(), until(Ms), 0) end, [])].

-spec worker(fun(() -> term()), list()) -> pid().
worker(Work, Options) ->
    ok = seeded:once(),
    Seed = seed(),
    spawn_opt(fun() ->
        _ = rand:seed(exsss, Seed),
        receive go -> ok end,
        Result = Work(),
        receive stop -> Result end
    end, [link | Options]).

-spec go(program()) -> ok.
go(#{pids := Pids}) -> lists:foreach(fun(Pid) -> Pid ! go end, Pids).

%% By a process of its own: the caller is left out of what is measured, and waits.
-spec when_traced(fun(() -> term())) -> pid().
when_traced(Fun) -> spawn_link(fun() -> traced(Fun) end).

traced(Fun) ->
    case flame_prof_tracing:info() of
        #{processes := N} when N > 0 -> Fun();
        _ -> timer:sleep(5), traced(Fun)
    end.

%% Words by function.
-spec counts(program()) -> [{mfa(), non_neg_integer()}].
counts(#{counter := Counter, functions := Functions}) ->
    [{Function, counters:get(Counter, Index)} || {Function, Index} <- Functions].

%% Words of all of them.
-spec all(program()) -> non_neg_integer().
all(#{counter := Counter}) ->
    lists:sum([counters:get(Counter, Index) || Index <- [1, 2, 3, 4]]).

-spec pids(program()) -> [pid()].
pids(#{pids := Pids}) -> Pids.

-spec stop(program()) -> ok.
stop(#{pids := Pids}) -> lists:foreach(fun(Pid) -> Pid ! stop end, Pids).

-spec until(pos_integer()) -> integer().
until(Ms) -> erlang:monotonic_time(millisecond) + Ms.

is_over(Until) -> erlang:monotonic_time(millisecond) >= Until.

%% With the same one twice, the collections would come in the same places twice.
seed() -> rand:uniform(2147483646).

%% The minimal standard generator: it allocates nothing.
next(Random) -> Random * 48271 rem 2147483647.

%% Each takes so many times 6 words.

tuples(0, List) -> List;
tuples(N, List) -> tuples(N - 1, [{N, N, N} | List]).

conses(0, List) -> List;
conses(N, List) -> conses(N - 1, [N, N, N | List]).

floats(0, List) -> List;
floats(N, List) -> floats(N - 1, [N * 1.5, N | List]).

%% By chance, 5 : 3 : 2. A call takes 300 to 1,500 words: the few words of stack that a call pushes
%% fill the heap, too. What counts would do so as well: it is done in the end. Counter: of four.
-spec mixed(counters:counters_ref(), pos_integer()) -> list().
mixed(Counter, Ms) -> mixed(Counter, seed(), until(Ms), [], 0, 0, 0).

mixed(Counter, Random, Until, Kept, Tuples, Conses, Floats) ->
    case is_over(Until) of
        true ->
            ok = count(Counter, [0, 6 * Tuples, 6 * Conses, 6 * Floats]),
            Kept;
        false ->
            Next = next(Random),
            N = 50 + Next div 100 rem 200,
            case Next rem 10 of
                R when R < 5 ->
                    New = newer(tuples(N, []), Kept),
                    mixed(Counter, Next, Until, New, Tuples + N, Conses, Floats);
                R when R < 8 ->
                    New = newer(conses(N, []), Kept),
                    mixed(Counter, Next, Until, New, Tuples, Conses + N, Floats);
                _ ->
                    New = newer(floats(N, []), Kept),
                    mixed(Counter, Next, Until, New, Tuples, Conses, Floats + N)
            end
    end.

newer(List, _) -> List.

rarely(Counter, Kind, Random, Until, Done) ->
    receive after Random rem (50 bsl Kind) -> ok end,
    Next = next(Random),
    N = 50 + Next div 100 rem 200,
    case is_over(Until) of
        true -> ok = counters:add(Counter, 2 + Kind, 6 * Done);
        false when Kind =:= 0 ->
            _ = tuples(N, []),
            rarely(Counter, Kind, Next, Until, Done + N);
        false when Kind =:= 1 ->
            _ = conses(N, []),
            rarely(Counter, Kind, Next, Until, Done + N);
        false ->
            _ = floats(N, []),
            rarely(Counter, Kind, Next, Until, Done + N)
    end.

%% By chance, 5 : 3 : 2. What they have allocated since their last collection no collection would
%% tell when they end: so there is one.
briefly(Counter, Random, Until) ->
    case is_over(Until) of
        true -> ok;
        false ->
            Next = next(Random),
            N = 50 + Next div 100 rem 200,
            {_, Monitor} = spawn_monitor(fun() -> brief(Next rem 10, Counter, N) end),
            receive {'DOWN', Monitor, _, _, _} -> briefly(Counter, Next, Until) end
    end.

brief(R, Counter, N) when R < 5 ->
    ok = brief_tuples(20, N),
    counters:add(Counter, 2, 20 * 6 * N);
brief(R, Counter, N) when R < 8 ->
    ok = brief_conses(20, N),
    counters:add(Counter, 3, 20 * 6 * N);
brief(_, Counter, N) ->
    ok = brief_floats(20, N),
    counters:add(Counter, 4, 20 * 6 * N).

brief_tuples(0, _) -> collected();
brief_tuples(Times, N) -> _ = tuples(N, []), ok = brief_tuples(Times - 1, N).

brief_conses(0, _) -> collected();
brief_conses(Times, N) -> _ = conses(N, []), ok = brief_conses(Times - 1, N).

brief_floats(0, _) -> collected();
brief_floats(Times, N) -> _ = floats(N, []), ok = brief_floats(Times - 1, N).

collected() ->
    true = erlang:garbage_collect(),
    ok.

count(Counter, Words) ->
    lists:foreach(fun({Index, N}) -> counters:add(Counter, Index, N) end,
        lists:zip(lists:seq(1, length(Words)), Words)).

large(Counter, Ms) ->
    Large = lists:seq(1, 200000),
    counters:add(Counter, ?OTHERS, 400000),
    Kept = mixed(Counter, Ms),
    {length(Large), Kept}.

%% 11 words: a tuple of 10, and a map of 8 without its keys.
sets(0, Tuple) -> Tuple;
sets(N, Tuple) -> sets(N - 1, setelement(3, Tuple, N)).

puts(0, Map, _) -> Map;
puts(N, Map, Value) -> puts(N - 1, maps:put(e, Value + N, Map), Value).

updates(Counter, Random, Until, Sets, Puts) ->
    case is_over(Until) of
        true -> count(Counter, [0, 11 * Sets, 11 * Puts]);
        false ->
            Next = next(Random),
            N = 50 + Next div 100 rem 200,
            case Next rem 10 of
                R when R < 6 ->
                    _ = sets(N, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
                    updates(Counter, Next, Until, Sets + N, Puts);
                _ ->
                    Map = #{a => 1, b => 2, c => 3, d => 4, e => 5, f => 6, g => 7, h => 8},
                    _ = puts(N, Map, Random),
                    updates(Counter, Next, Until, Sets, Puts + N)
            end
    end.

bytes(N) ->
    [_ | _] = List = binary_to_list(<<0:(8 * N)>>),
    List.

numbers(N) -> lists:seq(1, N).

%% 2 words for each byte, and for each number. A binary of up to 64 bytes has a few words.
built(Counter, Random, Until, Terms) ->
    case is_over(Until) of
        true -> count(Counter, [2 * Terms]);
        false ->
            Next = next(Random),
            N = 100 + Next rem 900,
            _ = case Next div 1000 rem 4 of 0 -> bytes(N); _ -> numbers(N) end,
            built(Counter, Next, Until, Terms + N)
    end.

%% What is sent is built once, and counts for the receiver once it is there. A list of N numbers has
%% 2 N words, a message a tuple of 2 more: 3 words; the answer is no more than an atom.
sender(To, Counter, Random, Until, Words) ->
    case is_over(Until) of
        true ->
            To ! {count, self()},
            receive counted -> count(Counter, [0, Words]) end;
        false ->
            Next = next(Random),
            N = 50 + Next rem 200,
            To ! {self(), conses(N, [])},
            receive next -> ok end,
            sender(To, Counter, Next, Until, Words + 6 * N + 3)
    end.

receiver(Counter, Words) ->
    receive
        {count, From} ->
            ok = count(Counter, [0, 0, Words]),
            From ! counted;
        {From, List} ->
            N = length(List),
            From ! next,
            receiver(Counter, Words + 2 * N + 3)
    end.
