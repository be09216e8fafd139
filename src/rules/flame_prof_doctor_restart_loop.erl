%% @private A supervisor that starts the same child again and again.
%%
%% == False alarms ==
%% A crash, and the restart of all that hangs on it, is no loop: there are restarts in the seconds
%% before the first look, and others after its second; or more than any crash makes. Children that
%% end and are started by others are no restarts: the supervisor's own list of these is read.
-module(flame_prof_doctor_restart_loop).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [count/2, name/1, number/1]).

kind() -> restart_loop.

needs() -> [system].

thresholds() ->
    [
        {restarts, 2, <<"restarts in the 11 s before the first look, and in the 11 s after it">>},
        {many, 20, <<"restarts in the 11 s after the first look, even with none before it">>}
    ].

find(#{system := {#{supervisors := Were}, #{supervisors := Are}}}, Limits) ->
    #{restarts := Least, many := Many} = Limits,
    Before = maps:from_list([{Pid, Supervisor} || #{process := Pid} = Supervisor <- Were]),
    [
        finding(Supervisor, N, Was)
     || #{process := Pid} = Supervisor <- Are,
        Was <- [maps:get(Pid, Before, none)],
        N <- [lists:sum(maps:values(since(Supervisor, Was)))],
        N >= Least,
        N >= Many orelse restarts(Was) >= Least
    ];
find(_, _) ->
    {unseen, <<"supervisors did not answer: that needs the native engine and an answer in time">>}.

%% What the first look has seen is not counted again; of a supervisor that it has not seen all are.
since(#{restarts := Restarts}, #{at_s := First}) ->
    maps:filter(fun(Second, _) -> Second > First end, Restarts);
since(#{restarts := Restarts}, none) ->
    Restarts.

restarts(#{restarts := Restarts}) -> lists:sum(maps:values(Restarts));
restarts(none) -> 0.

span(#{at_s := At, within_s := S}, #{at_s := First}) -> max(1, min(S, At - First));
span(#{within_s := S}, none) -> S.

finding(#{process := Pid, name := Name, children := Children} = Now, N, Was) ->
    S = span(Now, Was),
    Were = case Was of none -> #{}; #{children := Known} -> Known end,
    Process = #{pid => flame_prof_doctor_waits:text(Pid),
        name => flame_prof_doctor_rule:text(Name)},
    Started = lists:usort([Call || {Child, Call} <- maps:to_list(Children),
        not is_map_key(Child, Were)]),
    #{intensity := Intensity} = Now,
    Finding = #{
        kind => kind(),
        severity => warning,
        size => N / S,
        title => [name(Process), " restarts its children again and again"],
        sentences => [
            ["It has restarted children ", count(N, "time"), " in ", number(S), " s."],
            started(Started),
            ["With more than ", count(Intensity, "restart"), " in its period it ends, and what it "
                "supervises with it."],
            "Its own list of restarts has them."
        ],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process],
        numbers => #{restarts => N, seconds => S, intensity => Intensity,
            started => length(Started)}
    },
    Functions = [{function, call(Call)} || Call <- lists:sublist(Started, 1)],
    maps:merge(Finding, maps:from_list(Functions)).

started([]) -> "No child has a new pid: the children do not live long.";
started([Call]) -> ["The new one is started by ", call(Call), "."];
started([Call | More]) ->
    ["New ones are started by ", call(Call), " and ", count(length(More), "more function"), "."].

call({M, F, A}) -> unicode:characters_to_binary(io_lib:format("~ts:~ts/~b", [M, F, A])).
