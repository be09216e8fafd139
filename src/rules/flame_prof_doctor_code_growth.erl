%% @private `code_growth': more and more memory for code, or more and more persistent terms. Neither
%% is made for data: both stay until they are removed, and to remove one costs all processes.
%%
%% == False alarms ==
%% Modules are loaded when they are first called, and configuration is put when an application
%% starts; then both come to rest. What is told grows through all of the time.
-module(flame_prof_doctor_code_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-define(LOADS, [<<"code:load_binary/*">>, <<"code_server:call/*">>, <<"compile:*">>]).
-define(PUTS, [<<"persistent_term:put/2">>]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> code_growth.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {bytes_per_second, 65536, <<"more bytes of code a second, all the time">>},
        {terms_per_second, 2, <<"more persistent terms a second, all the time">>},
        {term_bytes_per_second, 262144,
            <<"more bytes of persistent terms a second, all the time">>},
        {seen, 5, <<"samples from which a process that loads code or puts terms is named">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{seconds := Seconds} = Evidence, #{bytes_per_second := Code, terms_per_second := Terms,
    term_bytes_per_second := TermBytes, seen := Seen}) ->
    Settled = flame_prof_doctor_growth:settled(Seconds),
    Grown = [
        {Key, Growth}
     || {Key, Least} <- [{node_memory_code, Code}, {node_persistent_terms, Terms},
            {node_memory_persistent_terms, TermBytes}],
        #{per_s := PerS} = Growth <- [flame_prof_doctor_growth:steady(Key, Settled)],
        PerS >= Least
    ],
    case Grown of
        [{Key, Growth} | _] -> [finding(Key, Growth, who(calls(Key), Evidence, Seen))];
        [] -> []
    end.

-spec unseen(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    binary() | none.
unseen(Evidence, _) -> flame_prof_doctor_growth:unseen_of_code(Evidence).

calls(node_memory_code) -> ?LOADS;
calls(_) -> ?PUTS.

%% The process of the program that was seen most in these calls.
who(Calls, #{samples := #{processes := Processes, stacks := Stacks}}, Seen) ->
    Statuses = [<<"running">>, <<"runnable">>, <<"waiting">>, <<"suspended">>],
    In = [
        {flame_prof_doctor_stacks:weight(Own), Process, Own}
     || #{pid := Pid} = Process <- Processes,
        Own <- [[Stack || {Frames, _} = Stack <-
            flame_prof_doctor_stacks:anywhere(Stacks(Pid, Statuses), Calls),
            lists:any(fun flame_prof_doctor_stacks:is_own/1, Frames)]]
    ],
    case lists:reverse(lists:keysort(1, In)) of
        [{N, Process, Own} | _] when N >= Seen ->
            {N, flame_prof_doctor_samples:process(Process),
                flame_prof_doctor_stacks:function(Own)};
        _ ->
            none
    end;
who(_, _, _) ->
    none.

finding(Key, #{per_s := PerS} = Growth, Who) ->
    {Title, What, Shown, Why} = words(Key),
    Function = maps:from_list([{function, F} || {_, _, F} <- [Who], F =/= <<>>]),
    Function#{
        kind => code_growth,
        severity => warning,
        size => PerS,
        title => io_lib:format(Title, [Shown(PerS)]),
        sentences => flame_prof_doctor_growth:sentences(What, Growth, Shown, [Why | [
            [flame_prof_doctor_rule:name(Process), " does so, in ", F, ": seen in ",
                flame_prof_doctor_rule:number(N), " samples."] || {N, Process, F} <- [Who]]]),
        command => "flame_prof memory NODE",
        processes => [Process || {_, Process, _} <- [Who]],
        numbers => lists:foldl(fun maps:merge/2, Growth,
            [#{observations => N} || {N, _, _} <- [Who]])
    }.

words(node_memory_code) ->
    {"the code grows by ~ts a second", "The memory of code", fun flame_prof_doctor_rule:bytes/1,
        "Something compiles and loads modules all the time, each with its own name."};
words(node_persistent_terms) ->
    {"~ts more persistent terms a second", "The number of persistent terms",
        fun flame_prof_doctor_rule:number/1,
        "They stay until they are erased, and an erase interrupts all processes."};
words(node_memory_persistent_terms) ->
    {"persistent terms grow by ~ts a second", "The memory of persistent terms",
        fun flame_prof_doctor_rule:bytes/1,
        "They stay until they are erased, and an erase interrupts all processes."}.
