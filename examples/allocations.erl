%% A program whose allocations are known: to see whether an estimate of them is right.
%%
%% ```
%% 1> Program = allocations:start(),
%% 2> flame_prof:allocations(10000).
%% 3> allocations:stop(Program).
%% '''
%%
%% THE RIGHT ANSWER, of the words of the process that `start/0' makes:
%%
%%   50 %  allocations:tuples/2    30 %  allocations:conses/2    20 %  allocations:floats/2
%%
%% Each call of one of them allocates 6 words times a number between 50 and 249: a list of tuples
%% of 3 elements (4 words, and 2 of the list), of three small integers (2 words of the list each),
%% of floats and small integers (2 words, and 4 of the list). The last list is kept. Which one is
%% called, and for how much, is a matter of chance, 5 : 3 : 2, by a generator that allocates
%% nothing; no call grows the stack by more than some words. stop/1 answers the words that each has
%% allocated.
%%
%% `start(in_step)' calls one after the other, with 10, 6 and 4, over and over: the right answer is
%% the same. But the collections of garbage come at the same place each time, after as many rounds
%% as the heap has room for, and one function has all of the words. flame_prof has to say so:
%%
%%   may be in step: <0.95.0>, with 100.0% of the bytes
-module(allocations).

-export([start/0, start/1, stop/1]).
-export([tuples/2, conses/2, floats/2]).

-spec start() -> pid().
start() ->
    start(random).

-spec start(random | in_step) -> pid().
start(How) ->
    spawn_opt(fun() -> loop(How, 1, [], 0, 0, 0) end, [{min_heap_size, 20000}]).

-spec stop(pid()) -> #{atom() => non_neg_integer()}.
stop(Pid) ->
    Pid ! {stop, self()},
    receive {Pid, Words} -> Words end.

loop(How, Random, Kept, Tuples, Conses, Floats) ->
    receive
        {stop, From} ->
            From ! {self(), #{tuples => 6 * Tuples, conses => 6 * Conses, floats => 6 * Floats}},
            Kept
    after 0 ->
        step(How, Random, Kept, Tuples, Conses, Floats)
    end.

step(in_step, Random, Kept, Tuples, Conses, Floats) ->
    List = newer(floats(4, conses(6, tuples(10, []))), Kept),
    loop(in_step, Random, List, Tuples + 10, Conses + 6, Floats + 4);
step(random, Random, Kept, Tuples, Conses, Floats) ->
    %% The minimal standard generator.
    Next = Random * 48271 rem 2147483647,
    N = 50 + Next div 100 rem 200,
    case Next rem 10 of
        R when R < 5 ->
            loop(random, Next, newer(tuples(N, []), Kept), Tuples + N, Conses, Floats);
        R when R < 8 ->
            loop(random, Next, newer(conses(N, []), Kept), Tuples, Conses + N, Floats);
        _ ->
            loop(random, Next, newer(floats(N, []), Kept), Tuples, Conses, Floats + N)
    end.

newer(List, _Kept) -> List.

-spec tuples(non_neg_integer(), list()) -> list().
tuples(0, List) -> List;
tuples(N, List) -> tuples(N - 1, [{N, N, N} | List]).

-spec conses(non_neg_integer(), list()) -> list().
conses(0, List) -> List;
conses(N, List) -> conses(N - 1, [N, N, N | List]).

-spec floats(non_neg_integer(), list()) -> list().
floats(0, List) -> List;
floats(N, List) -> floats(N - 1, [N * 1.5, N | List]).
