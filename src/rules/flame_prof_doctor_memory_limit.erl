%% @private `memory_limit': little memory is left, of the control group or of the machine, or the
%% node grows so fast that it is used up soon. The kernel ends a process then, a large one.
%%
%% == False alarms ==
%% Memory that the kernel can have back (caches of files) does not count. Growth counts where it is
%% steady through all of the time: what is collected again goes down in between. A node that is a
%% small part of what is used is not told: it is not what takes the memory.
-module(flame_prof_doctor_memory_limit).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [bytes/1, share/1, duration/1]).

kind() -> memory_limit.

needs() -> [os].

thresholds() ->
    [
        {used, 0.9, <<"part of the limit that is used">>},
        {used_critical, 0.95, <<"part of the limit that is used">>},
        {minutes_left, 10, <<"minutes until the limit at the rate of growth">>},
        {minutes_left_critical, 2, <<"minutes until the limit at the rate of growth">>},
        {own_share, 0.1, <<"the node's resident memory, part of the limit">>},
        {taker, 0.3, <<"share of growth or memory from which the holder is named">>}
    ].

find(#{os := {#{at_us := From} = First, #{rss := Rss, at_us := To} = Last}} = Evidence,
    #{own_share := Own, taker := Taker} = Thresholds
) ->
    case {limit(First), limit(Last)} of
        {{_, _, Before}, {What, Limit, Used}} when Rss >= Own * Limit ->
            Rate = rate(Evidence, (Used - Before) * 1.0e6 / max(1, To - From)),
            Left = left(Limit - Used, Rate),
            finding(severity(Used / Limit, Left / 60, Thresholds),
                #{what => What, limit => Limit, used => Used, rss => Rss, per_s => Rate,
                    seconds_left => Left, span_us => To - From},
                flame_prof_doctor_takers:memory(Evidence, Taker));
        {none, _} ->
            unseen();
        _ ->
            []
    end;
find(_, _) ->
    unseen().

unseen() -> {unseen, <<"the memory limit is unknown">>}.

limit(#{memory_limit := Limit, memory_used := Used, total := Total}) when Limit =< Total ->
    {control_group, Limit, Used};
limit(#{total := Total, available := Available}) ->
    {machine, Total, Total - Available};
limit(_) ->
    none.

%% Of memory that grows steadily; else there is no rate.
rate(#{seconds := Seconds}, PerS) ->
    case flame_prof_doctor_growth:steady(node_memory_total, Seconds) of
        #{per_s := Grown} -> max(0, min(Grown, PerS));
        none -> 0
    end;
rate(_, _) ->
    0.

left(_Room, Rate) when Rate =< 0 -> infinity_s();
left(Room, Rate) -> max(0, Room) / Rate.

%% Some years.
infinity_s() -> 1.0e9.

severity(Used, Minutes, #{used_critical := Most, minutes_left_critical := Least}) when
    Used >= Most; Minutes < Least
->
    critical;
severity(Used, Minutes, #{used := Most, minutes_left := Least}) when
    Used >= Most; Minutes < Least
->
    warning;
severity(_, _, _) ->
    none.

finding(none, _, _) ->
    [];
finding(Severity, #{what := What, limit := Limit, used := Used, rss := Rss} = Numbers, Taker) ->
    [(caused(Numbers))#{
        kind => memory_limit,
        severity => Severity,
        size => Used / Limit,
        title => [share(Used / Limit), " of the memory of the ", place(What), " is used" |
            soon(Numbers)],
        sentences => [
            io_lib:format("~ts of ~ts are used; this node has ~ts of it.",
                [bytes(Used), bytes(Limit), bytes(Rss)])
        ] ++ growth(Numbers) ++ [Sentence || {_, Sentence, _} <- [Taker]] ++
            ["When it is used up, the kernel ends a process: a large one."],
        command => "flame_prof memory NODE",
        processes => [Process || {Process, _, _} <- [Taker]],
        numbers => lists:foldl(fun maps:merge/2, Numbers#{share => Used / Limit},
            [Taken || {_, _, Taken} <- [Taker]])
    }].

%% What takes the memory, where it grows.
caused(#{per_s := PerS}) when PerS > 0 ->
    #{caused_by => [heap_growth, binary_leak, table_growth, mailbox, process_growth, code_growth]};
caused(_) ->
    #{}.

place(control_group) -> "control group";
place(machine) -> "machine".

soon(#{seconds_left := Left}) when Left < 3600 -> [", and all of it in ", duration(Left)];
soon(_) -> [].

growth(#{per_s := PerS, span_us := Us}) when PerS > 0 ->
    [io_lib:format("The node grew all the time, by ~ts a second for ~ts.",
        [bytes(PerS), flame_prof_doctor_rule:seconds(Us)])];
growth(#{span_us := Us}) ->
    [["It did not grow steadily in ", flame_prof_doctor_rule:seconds(Us), "."]].
