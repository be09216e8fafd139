%% @private A port, mostly a socket, whose bytes are not taken: its peer does not read, or slowly.
%%
%% == False alarms ==
%% A port that sends much has a queue at any moment. It is a finding where the queue was there at
%% both looks and holds as many bytes as the port got rid of in `delay_ms': what is written waits
%% for as long.
-module(flame_prof_doctor_busy_port).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).
-export([slow/4]).

-import(flame_prof_doctor_rule, [name/1, bytes/1, seconds/1]).

kind() -> busy_port.

needs() -> [system].

thresholds() ->
    [
        {queued_bytes, 4096, <<"bytes that wait in a port at both looks">>},
        {delay_ms, 1000, <<"milliseconds for which bytes wait, by the rate at which they go">>}
    ].

find(#{system := {First, Last}, span_us := Us} = Evidence, Limits) ->
    Connections = [Port || #{port := Port} <- maps:get(connections, Last, [])],
    [
        told(Port, Taken, Evidence, Us)
     || {#{port := Id} = Port, Taken} <- slow(maps:get(ports, First, []), maps:get(ports, Last, []),
            Us, Limits),
        not lists:member(Id, Connections)
    ].

%% @private The queues that stand, with the bytes that were taken from each between the looks.
-spec slow([map()], [map()], pos_integer(), flame_prof_doctor_rule:thresholds()) ->
    [{map(), integer()}].
slow(First, Last, Us, #{queued_bytes := Least, delay_ms := DelayMs}) ->
    Before = maps:from_list([{Port, Queue} || #{port := Port} = Queue <- First]),
    [
        {Now, Taken}
     || #{port := Port, queued := Queued, output := Output} = Now <- Last, Queued >= Least,
        #{Port := #{queued := Had, output := Was}} <- [Before], Had >= Least,
        Taken <- [max(0, (Output - Was) - (Queued - Had))],
        Queued * 1000.0 >= DelayMs * Taken * 1.0e6 / max(1, Us)
    ].

told(#{port := Port, name := Kind, queued := Queued} = Queue, Taken, Evidence, Us) ->
    Process = waiting(Port, Evidence, Queue),
    #{
        kind => kind(),
        severity => warning,
        size => Queued,
        title => [name(Process), " has a port whose peer does not take its bytes"],
        sentences => [
            [bytes(Queued), " wait in ", text(Port), " (", Kind, ")."],
            ["The peer took ", bytes(Taken), " in ", seconds(Us), "."],
            "Who sends more waits, or its memory grows.",
            "Seen at both ends of the time, by the port's own counters."
        ],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process],
        numbers => #{queued => Queued, taken => Taken}
    }.

text(Port) -> re:replace(erlang:port_to_list(Port), "^#Port<[0-9]+", "#Port<0").

%% Who waits for the port, else who owns it.
waiting(Port, #{waits := #{edges := Edges} = Look}, Queue) ->
    case [From || #{from := From, to := To} <- Edges, To =:= Port] of
        [From | _] -> flame_prof_doctor_waits:process(From, named(Queue, Look));
        [] -> owner(Queue)
    end;
waiting(_, _, Queue) ->
    owner(Queue).

named(#{owner := Owner, owner_name := Name}, #{processes := Told} = Look) when Name =/= <<>> ->
    Look#{processes := Told#{Owner => #{registered_name => binary_to_atom(Name)}}};
named(_, Look) ->
    Look.

owner(#{owner := Owner, owner_name := Name}) ->
    #{pid => flame_prof_doctor_waits:text(Owner), name => Name}.
