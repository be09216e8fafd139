%% How long it takes to choose the 100 busiest of a node's processes, and beside it that of the
%% obvious loop over process_info/2. Needs a VM with room for
%% more than a million processes (+P).
-module(bench_selection).

-export([run/1]).

-define(TOP, 100).
%% More slots than a process table can have.
-define(ALL, 16#ffffffff).
-define(ROUNDS, 3).
%% The first pass counts from each process' start, and fills the tables.
-define(PASSES, 3).

-spec run(pos_integer()) -> [bench_results:result()].
run(_Seconds) ->
    lists:append([of_processes(N) || N <- [1000, 10000, 100000, 1000000]]).

of_processes(N) ->
    bench_processes:with_idle(N, fun() -> [native(N), by_process_info(N)] end).

native(N) ->
    Us = [last_pass() || _ <- lists:seq(1, ?ROUNDS)],
    row(<<"native">>, N, [Took / 1000 || Took <- Us], bar(N)).

last_pass() ->
    {ok, Selector} = flame_prof_nif:selector_new(reductions, true, ?TOP),
    Us = [element(1, timer:tc(fun() -> flame_prof_nif:selector_next(Selector) end))
        || _ <- lists:seq(1, ?PASSES)],
    lists:last(Us).

bar(100000) -> #{bar => {at_most, 40}};
bar(_) -> #{}.

by_process_info(N) ->
    Us = [element(1, timer:tc(fun() -> busiest(?TOP) end)) || _ <- lists:seq(1, rounds(N))],
    row(<<"process_info/2">>, N, [Took / 1000 || Took <- Us], #{}).

rounds(N) when N >= 1000000 -> 1;
rounds(_) -> ?ROUNDS.

row(How, N, Ms, More) ->
    bench_results:tell(More#{
        section => selection,
        name => iolist_to_binary(io_lib:format("100 of ~w processes, ~s", [N, How])),
        value => bench_stats:median(Ms),
        unit => <<"ms">>,
        counted => #{rounds => length(Ms), longest_ms => lists:max(Ms)}
    }).

%% What a person would write.
busiest(N) ->
    Reductions = [{R, P} || P <- erlang:processes(),
                            {reductions, R} <- [erlang:process_info(P, reductions)]],
    lists:sublist(lists:reverse(lists:sort(Reductions)), N).
