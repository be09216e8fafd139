%% @private `code_growth': more and more memory for code, or more and more persistent terms. Neither
%% is made for data: both stay until they are removed, and to remove one costs all processes.
%%
%% == False alarms ==
%% Modules are loaded when they are first called, and configuration is put when an application
%% starts; then both come to rest. What is told grows through all of the time.
-module(flame_prof_doctor_code_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> code_growth.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {bytes_per_second, 65536, <<"more bytes of code a second, all the time">>},
        {terms_per_second, 2, <<"more persistent terms a second, all the time">>},
        {term_bytes_per_second, 262144, <<"more bytes of persistent terms a second, all the time">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{seconds := Seconds}, #{bytes_per_second := Code, terms_per_second := Terms,
    term_bytes_per_second := TermBytes}) ->
    Grown = [
        {Key, Growth}
     || {Key, Least} <- [{node_memory_code, Code}, {node_persistent_terms, Terms},
            {node_memory_persistent_terms, TermBytes}],
        #{per_s := PerS} = Growth <- [flame_prof_doctor_growth:steady(Key, Seconds)],
        PerS >= Least
    ],
    case Grown of
        [{Key, Growth} | _] -> [finding(Key, Growth)];
        [] -> []
    end.

finding(Key, #{per_s := PerS} = Growth) ->
    {Title, What, Shown, Why} = words(Key),
    #{
        kind => code_growth,
        severity => warning,
        size => PerS,
        title => io_lib:format(Title, [Shown(PerS)]),
        sentences => flame_prof_doctor_growth:sentences(What, Growth, Shown, [Why]),
        command => "flame_prof memory NODE",
        processes => [],
        numbers => Growth
    }.

words(node_memory_code) ->
    {"the code grows by ~ts a second", "The memory of code", fun flame_prof_doctor_rule:bytes/1,
        "Something compiles and loads modules all the time, each with its own name."};
words(node_persistent_terms) ->
    {"~ts more persistent terms a second", "The number of persistent terms",
        fun flame_prof_doctor_rule:number/1,
        "They stay until they are erased, and to erase one costs all processes."};
words(node_memory_persistent_terms) ->
    {"persistent terms grow by ~ts a second", "The memory of persistent terms",
        fun flame_prof_doctor_rule:bytes/1,
        "They stay until they are erased, and to erase one costs all processes."}.
