%% The live table on real processes, with each engine. Which process is the first by what:
%% test/unit/flame_prof_top_tests.
-module(flame_prof_top_live_tests).

-include_lib("eunit/include/eunit.hrl").

the_first_process_of_the_node_is_selected_test_() ->
    {setup, fun crowd/0, fun(Crowd) -> [exit(Pid, kill) || Pid <- Crowd] end, fun(Crowd) ->
        [Large, Mailbox, Growing, Burning | _] = Crowd,
        [{lists:concat([Engine, " ", By]), fun() ->
            waiting:eventually(fun() -> first(Engine, By) =:= [Pid] end)
        end} || Engine <- lists:usort([portable, flame_prof_top_reader:engine()]),
            {By, Pid} <- [{memory, Large}, {queue, Mailbox}, {growth, Growing},
                {reductions, Burning}, {running, Burning}]]
    end}.

%% One for each column, and a hundred that do a little.
crowd() ->
    Keep = fun Keep(Term) -> receive never -> Term end, Keep(Term) end,
    Large = spawn(fun() -> Keep(lists:seq(1, 4000000)) end),
    Mailbox = spawn(fun() -> Keep(none) end),
    _ = [Mailbox ! N || N <- lists:seq(1, 50000)],
    Growing = spawn(fun() -> grow([]) end),
    Burning = spawn(fun Burn() -> _ = lists:seq(1, 200), Burn() end),
    Little = fun Little() -> timer:sleep(10), _ = lists:seq(1, 200), Little() end,
    [Large, Mailbox, Growing, Burning | [spawn(Little) || _ <- lists:seq(1, 100)]].

grow(Kept) when length(Kept) > 3000 -> grow([]);
grow(Kept) -> timer:sleep(1), grow([lists:seq(1, 1000) | Kept]).

%% By two passes.
first(Engine, By) ->
    {_, Second} = pass(flame_prof_top_ranking:new(Engine, By, <<>>, 1)),
    timer:sleep(200),
    {#{pids := Pids}, _} = pass(Second),
    Pids.

pass(Ranking) -> steps(flame_prof_top_ranking:step(flame_prof_top_ranking:begin_pass(Ranking))).

steps({more, _, Ranking}) -> steps(flame_prof_top_ranking:step(Ranking));
steps({done, Selected, Ranking}) -> {Selected, Ranking}.

it_goes_on_when_its_code_is_loaded_anew_test() ->
    flame_prof_top_tests:it_goes_on_when_its_code_is_loaded_anew().
