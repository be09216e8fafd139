%% @private A port, mostly a socket, whose bytes are not taken: its peer does not read, or slowly.
%%
%% == False alarms ==
%% A port that sends much has a queue at any moment. It is a finding where the queue was there at
%% both looks and holds as many bytes as the port got rid of in `delay_ms': what is written waits
%% for as long. Of a socket of the module `socket' the queue is the kernel's: one waits to write at
%% both looks, and its peer takes less than `socket_bytes' a second. A network that is slow for all
%% takes more.
-module(flame_prof_doctor_busy_port).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, text/1]).

-import(flame_prof_doctor_rule, [name/1, bytes/1, seconds/1]).

-define(STATUSES, [<<"suspended">>, <<"waiting">>, <<"running">>, <<"runnable">>]).
-define(WRITES, [<<"erlang:port_command/*">>, <<"erts_internal:port_command/*">>,
    <<"prim_inet:send*">>, <<"gen_tcp:send/2">>, <<"socket:send*">>, <<"prim_socket:send*">>]).

kind() -> busy_port.

needs() -> [system].

thresholds() ->
    [
        {queued_bytes, 4096, <<"bytes that wait in a port at both looks">>},
        {delay_ms, 1000, <<"milliseconds that bytes wait, by the rate at which they leave">>},
        {socket_bytes, 16384, <<"bytes a second, below which a socket is slow">>}
    ].

find(#{system := {#{ports := Were} = First, #{ports := Are} = Last}, span_us := Us} = Evidence,
    Limits) ->
    Connections = [Port || #{port := Port} <- maps:get(connections, Last, [])],
    [
        with_function(finding(Port, Taken, Evidence, Us), Evidence)
     || {#{port := Id} = Port, Taken} <-
            flame_prof_doctor_queues:slow(Were, Are, Us, Limits),
        not lists:member(Id, Connections)
    ] ++ [with_function(Finding, Evidence) || Finding <-
        sockets(maps:get(sockets, First, []), maps:get(sockets, Last, []), Us, Limits)];
find(_, _) ->
    {unseen, <<"ports did not answer in time">>}.

finding(#{port := Port, name := Kind, queued := Queued} = Queue, Taken, Evidence, Us) ->
    (of_peer(waiting(Port, Evidence, Queue), "port"))#{
        size => Queued,
        sentences => [[bytes(Queued), " wait in ", text(Port), " (", Kind, ")."]
            | peer(Taken, Us, "port")],
        numbers => #{queued => Queued, taken => Taken, span_us => Us}
    }.

of_peer(Process, What) ->
    #{
        kind => kind(),
        severity => warning,
        title => [name(Process), " has a ", What, " whose peer does not take its bytes"],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_waits:target(Process)],
        processes => [Process]
    }.

peer(Taken, Us, What) ->
    [
        ["The peer took ", bytes(Taken), " in ", seconds(Us), "."],
        "A process that sends more waits, or its memory grows.",
        ["Seen at both ends of that time, by the counters of the ", What, "."]
    ].

%% Where it writes, if samples have it in a write.
with_function(#{processes := [#{pid := Pid}], sentences := [First, Second | Rest]} = Finding,
    #{samples := #{processes := Processes, stacks := Stacks}}) ->
    case [F || #{pid := Of} <- Processes, Of =:= Pid,
        Writes <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, ?STATUSES), ?WRITES)],
        F <- [flame_prof_doctor_stacks:caller(Writes, ?WRITES)], F =/= <<>>]
    of
        [Function | _] -> Finding#{function => Function,
            sentences := [First, [lists:droplast(Second),
                "; the one that writes is in ", Function, "."] | Rest]};
        [] -> Finding
    end;
with_function(Finding, _) ->
    Finding.

sockets(First, Last, Us, #{socket_bytes := Least}) ->
    Before = maps:from_list([{Id, Output} || #{socket := Id, output := Output} <- First]),
    [
        (of_peer(owner(Socket), "socket"))#{
            size => Writers,
            sentences => [
                ["Waiting to write to its socket, of the module socket: ",
                    integer_to_list(Writers), "."]
                | peer(Taken, Us, "socket")
            ],
            numbers => #{writers => Writers, taken => Taken, span_us => Us}
        }
     || #{socket := Id, writers := Writers, output := Output} = Socket <- Last,
        #{Id := Was} <- [Before], Taken <- [max(0, Output - Was)],
        Taken * 1.0e6 < Least * Us
    ].

%% @private As the examined node writes it.
-spec text(port()) -> unicode:chardata().
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
