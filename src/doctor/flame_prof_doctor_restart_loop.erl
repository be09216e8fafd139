%% @private A supervisor that starts the same child again and again.
%%
%% == False alarms ==
%% A crash, and the restart of all that hangs on it, is no loop: there are restarts at the first and
%% at the last look, which have no second in common, or more than any crash makes. Children that
%% end and are started by others are no restarts: the supervisor's own list of these is read.
-module(flame_prof_doctor_restart_loop).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, number/1]).

kind() -> restart_loop.

needs() -> [system].

thresholds() ->
    [
        {restarts, 2, <<"restarts within 10 s, at both looks">>},
        {many, 20, <<"restarts within 10 s, at the last look alone">>}
    ].

find(#{system := {First, Last}}, #{restarts := Least, many := Many}) ->
    Were = maps:get(supervisors, First, []),
    Before = maps:from_list([{Pid, Supervisor} || #{process := Pid} = Supervisor <- Were]),
    [
        told(Supervisor, Was)
     || #{process := Pid, restarts := N} = Supervisor <- maps:get(supervisors, Last, []),
        N >= Least,
        #{restarts := Before0} = Was <- [maps:get(Pid, Before, #{restarts => 0, children => #{}})],
        Before0 >= Least orelse N >= Many
    ].

told(#{process := Pid, name := Name, restarts := N, within_s := S, children := Children} = Now,
    #{children := Were}) ->
    Process = #{pid => flame_prof_doctor_waits:text(Pid), name => atom_to_binary(Name)},
    Started = lists:usort([Call || {Child, Call} <- maps:to_list(Children),
        not is_map_key(Child, Were)]),
    #{intensity := Intensity} = Now,
    Finding = #{
        kind => kind(),
        severity => warning,
        size => N / S,
        title => [name(Process), " restarts its children again and again"],
        sentences => [
            ["It has restarted children ", number(N), " times in ", number(S), " s."],
            started(Started),
            ["With more than ", number(Intensity), " restarts in its period it ends, and what it "
                "supervises with it."],
            "Its own list of restarts has them, at both ends of the time."
        ],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process],
        numbers => #{restarts => N, seconds => S, intensity => Intensity}
    },
    Functions = [{function, call(Call)} || Call <- lists:sublist(Started, 1)],
    maps:merge(Finding, maps:from_list(Functions)).

started([]) -> "No child has a pid that is new: they do not live for long.";
started([Call]) -> ["The new one is started by ", call(Call), "."];
started([Call | More]) ->
    ["New ones are started by ", call(Call), " and ", number(length(More)), " more functions."].

call({M, F, A}) -> unicode:characters_to_binary(io_lib:format("~ts:~ts/~b", [M, F, A])).
