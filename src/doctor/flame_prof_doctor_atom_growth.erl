%% @private `atom_growth': new atoms all the time. Atoms are never freed, and at the limit the node
%% ends.
%%
%% == False alarms ==
%% A node makes atoms when it loads modules and at its first requests of a kind; then it comes to
%% rest. Where it lacks CPU that takes all of the time, flame_prof's own modules too (55 a second
%% were seen). Steady growth of a hundred a second is made from data: no program has so many names
%% in its code.
-module(flame_prof_doctor_atom_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> atom_growth.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {per_second, 100, <<"new atoms a second, all the time">>},
        {hours_left, 1, <<"hours until the limit: with fewer it is critical">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{seconds := Seconds}, #{per_second := PerSecond, hours_left := Hours}) ->
    case flame_prof_doctor_growth:steady(node_atoms, Seconds) of
        #{per_s := PerS} = Growth when PerS >= PerSecond ->
            [finding(Growth, maps:get(node_atom_limit, lists:last(Seconds), 1 bsl 20), Hours)];
        _ ->
            []
    end.

finding(#{per_s := PerS} = Growth, Limit, Hours) ->
    Left = flame_prof_doctor_growth:until(Limit, Growth),
    #{
        kind => atom_growth,
        severity => if Left < Hours * 3600 -> critical; true -> warning end,
        size => PerS,
        title => io_lib:format("~ts new atoms a second", [number(PerS)]),
        sentences => flame_prof_doctor_growth:sentences("The number of atoms", Growth,
            fun flame_prof_doctor_rule:number/1, [
                io_lib:format("Atoms are never freed: at the limit of ~ts, in ~ts at this rate, the "
                    "node ends.", [number(Limit), flame_prof_doctor_rule:duration(Left)]),
                "Look for binary_to_atom, list_to_atom or binary_to_term of data from outside."
            ]),
        command => "flame_prof latency NODE erlang:binary_to_atom/2 erlang:list_to_atom/1",
        processes => [],
        numbers => Growth#{limit => Limit, seconds_left => Left}
    }.
