%% @private `atom_growth': new atoms all the time. Atoms are never freed, and at the limit the node
%% ends.
%%
%% == False alarms ==
%% A node makes atoms when it loads modules and at its first requests of a kind; then it comes to
%% rest. While flame_prof's own modules are loaded nothing is judged. Steady growth of a hundred a
%% second is made from data: no program has so many names
%% in its code.
-module(flame_prof_doctor_atom_growth).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [number/1]).

-define(MAKERS, [<<"erlang:list_to_atom/1">>, <<"erlang:binary_to_atom/*">>]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> atom_growth.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [seconds].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {per_second, 100, <<"new atoms a second, all the time">>},
        {hours_left, 1, <<"hours until the limit, below which it is critical">>},
        {maker_seen, 3, <<"samples from which a process that makes atoms is named">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{seconds := Seconds} = Evidence, Limits) ->
    #{per_second := PerSecond, hours_left := Hours, maker_seen := Seen} = Limits,
    case flame_prof_doctor_growth:steady(node_atoms, flame_prof_doctor_growth:settled(Seconds)) of
        #{per_s := PerS} = Growth when PerS >= PerSecond ->
            Limit = maps:get(node_atom_limit, lists:last(Seconds), 1 bsl 20),
            [finding(Growth, Limit, Hours, maker(Evidence, Seen))];
        _ ->
            []
    end.

-spec unseen(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    binary() | none.
unseen(Evidence, _) -> flame_prof_doctor_growth:unseen_of_code(Evidence).

%% The process that has most of the samples in such calls. Calls whose names are known make no atom:
%% it is not sure to be the one.
maker(#{samples := #{processes := Processes, stacks := Stacks}}, Seen) ->
    Made = [
        {flame_prof_doctor_stacks:weight(In), Process, In}
     || #{pid := Pid} = Process <- Processes,
        In <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, [<<"running">>]), ?MAKERS)], In =/= []
    ],
    All = lists:sum([N || {N, _, _} <- Made]),
    case lists:reverse(lists:keysort(1, Made)) of
        [{N, Process, In} | _] when N >= Seen, 2 * N > All ->
            {{N, All}, flame_prof_doctor_samples:process(Process),
                flame_prof_doctor_stacks:caller(In, ?MAKERS)};
        _ ->
            none
    end;
maker(_, _) ->
    none.

made(none) ->
    "Look for binary_to_atom, list_to_atom or binary_to_term of data from outside.";
made({{N, All}, Process, Function}) ->
    [flame_prof_doctor_rule:name(Process), " is often in binary_to_atom or list_to_atom",
        [[", in ", Function] || Function =/= <<>>], ": ", number(N), " of ", number(All),
        " such samples."].

made_by({{N, All}, _, _}) -> #{made => N, made_by_all => All};
made_by(none) -> #{}.

finding(#{per_s := PerS} = Growth, Limit, Hours, Maker) ->
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
                made(Maker)
            ]),
        command => "flame_prof latency NODE erlang:binary_to_atom/2 erlang:list_to_atom/1",
        processes => [Process || {_, Process, _} <- [Maker]],
        numbers => maps:merge(Growth#{limit => Limit, seconds_left => Left}, made_by(Maker))
    }.
