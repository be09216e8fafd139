%% @private Processes that are suspended, as the port to which they write takes no more.
%%
%% == False alarms ==
%% Who sends much is suspended until its own peer has read: that is how a port says that it is full,
%% and as many processes as ports are that at a time. It is a finding where, in the mean, as many as
%% `suspended' are for each port that has bytes: some of them wait for one another.
-module(flame_prof_doctor_busy_port_calls).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1]).

-define(WRITES, [<<"erlang:port_command/*">>, <<"erts_internal:port_command/*">>]).
-define(NAMED_MOST, 20).

kind() -> busy_port.

needs() -> [samples, system].

thresholds() ->
    [{suspended, 5, <<"processes that are suspended in a write, for each port that has bytes">>}].

find(#{samples := #{mode := processes, processes := Processes} = Samples,
    system := {#{ports := Were}, #{ports := Are}}}, #{suspended := Least}
) ->
    #{stacks := Stacks} = Samples,
    Found = lists:reverse(lists:keysort(1, [
        {flame_prof_doctor_stacks:weight(In), Process, In}
     || #{pid := Pid, other := Other} = Process <- Processes, Other > 0,
        In <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, [<<"suspended">>]), ?WRITES)],
        In =/= []
    ])),
    Sum = lists:sum([Weight || {Weight, _, _} <- Found]),
    Ports = max(length(Were), length(Are)),
    case Sum / flame_prof_doctor_calls:ticks(Samples) of
        Waiting when Ports > 0, Waiting >= Least * Ports -> [finding(Found, Sum, Waiting, Are)];
        _ -> []
    end;
find(#{system := {#{ports := _}, #{ports := _}}}, _) ->
    [];
find(_, _) ->
    {unseen, <<"ports did not answer in time">>}.

finding([{_, First, _} | Others] = Found, Sum, Waiting, Ports) ->
    Function = flame_prof_doctor_stacks:caller(lists:append([In || {_, _, In} <- Found]), ?WRITES),
    Finding = flame_prof_doctor_samples:finding(kind(), First, #{
        severity => warning,
        size => Waiting,
        title => ["and ", flame_prof_doctor_rule:count(length(Others), "other"),
            " wait until a port takes more"],
        sentences => [
            ["In the mean ", number(Waiting), " processes are suspended in a write",
                [[", in ", Function] || Function =/= <<>>], "."],
            has_bytes(Ports),
            "A full port suspends all processes that write to it.",
            ["Seen in ", number(Sum), " samples of them in ",
                flame_prof_doctor_samples:time(First), "."]
        ],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_samples:target(First)],
        numbers => #{waiting => Waiting, processes => length(Found), samples => Sum,
            ports => length(Ports)},
        function => Function,
        view => #{measure => samples, show => all, levels => [process, status], view => flame}
    }),
    Named = [flame_prof_doctor_samples:process(P)
        || {_, P, _} <- lists:sublist(Found, ?NAMED_MOST)],
    Finding#{processes := Named}.

has_bytes([#{port := Port, name := Kind, owner := Owner, owner_name := Name} = Queue]) ->
    ["Only ", [[Registered, ", "] || #{registered := Registered} <- [Queue]],
        flame_prof_doctor_busy_port:text(Port), " (", Kind, ") of ",
        flame_prof_doctor_rule:name(#{pid => flame_prof_doctor_rule:pid(Owner), name => Name}),
        " has bytes that its peer did not take."];
has_bytes(Ports) ->
    [number(length(Ports)), " ports have bytes that their peers did not take."].
