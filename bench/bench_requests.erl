%% Requests that come when they come: an open loop, and how long each took.
%%
%% A client sends requests at times that were fixed beforehand, whatever has become of
%% those before, and a request's latency counts from the time at which it should have
%% been sent. So a stall costs each request that it held up, and not one alone as with
%% a client that waits for an answer before it asks again (coordinated omission). The
%% client is a process of the VM that is measured: its own waiting for a scheduler, and
%% the wheel of the VM's timers (up to a millisecond), are part of every latency.
-module(bench_requests).

-export([start_link/1, processes/1, latencies/3]).

%% For bench_rabbitmq, whose requests go through a broker.
-export([client/1]).

-export_type([client/0, server/0]).

-opaque client() :: #{client := pid(), servers := [pid()]}.
%% Sends a request; `{answer, Id}' has to come back to the client.
-type server() :: fun((Client :: pid(), Id :: integer()) -> term()).

%% On average one in a millisecond.
-define(MOST_MS_APART, 2).
-define(SERVERS, 4).
-define(TIMEOUT_MS, 20000).

%% `Work' is done for each request, by one of ?SERVERS processes.
-spec start_link(Work :: fun((integer()) -> term())) -> client().
start_link(Work) ->
    Servers = [spawn_link(fun() -> serve(Work) end) || _ <- lists:seq(1, ?SERVERS)],
    All = list_to_tuple(Servers),
    Send = fun(Client, Id) -> element(1 + Id rem ?SERVERS, All) ! {request, Client, Id} end,
    #{client => client(Send), servers => Servers}.

-spec client(server()) -> pid().
client(Send) ->
    spawn_link(fun() ->
        Next = erlang:monotonic_time(millisecond) + 10,
        loop(armed(#{send => Send, next => Next, id => 0, open => #{}, done => []}))
    end).

-spec processes(client()) -> [pid()].
processes(#{client := Client, servers := Servers}) -> [Client | Servers].

%% In ns, of all requests that were to be sent in this time (of erlang:monotonic_time/0,
%% past the last one that was asked for). One that has no answer yet is as old as it is.
-spec latencies(client() | pid(), From :: integer(), To :: integer()) -> [non_neg_integer()].
latencies(#{client := Client}, From, To) ->
    latencies(Client, From, To);
latencies(Client, From, To) ->
    Monitor = monitor(process, Client),
    Client ! {latencies, self(), Monitor, From, To},
    receive
        {Monitor, Latencies} ->
            demonitor(Monitor, [flush]),
            Latencies;
        {'DOWN', Monitor, _, _, Reason} ->
            error({client, Reason})
    after ?TIMEOUT_MS ->
        error({client, does_not_answer})
    end.

serve(Work) ->
    receive
        {request, Client, Id} ->
            _ = Work(Id),
            Client ! {answer, Id},
            serve(Work)
    end.

loop(#{open := Open, done := Done} = State) ->
    receive
        {answer, Id} ->
            {Due, StillOpen} = maps:take(Id, Open),
            loop(State#{open := StillOpen, done := [{Due, erlang:monotonic_time() - Due} | Done]});
        {timeout, _, due} ->
            loop(armed(sent(State)));
        {latencies, Asking, Ref, From, To} ->
            %% What is late to be sent is late all the same.
            Current = sent(State),
            Asking ! {Ref, between(From, To, Current)},
            loop(Current#{done := []})
    end.

between(From, To, #{open := Open, done := Done}) ->
    [ns(Latency) || {Due, Latency} <- Done, Due >= From, Due < To] ++
        [ns(To - Due) || Due <- maps:values(Open), Due >= From, Due < To].

armed(#{next := Next} = State) ->
    _ = erlang:start_timer(Next, self(), due, [{abs, true}]),
    State.

sent(#{send := Send, next := Next, id := Id, open := Open} = State) ->
    case erlang:monotonic_time(millisecond) >= Next of
        true ->
            Send(self(), Id),
            sent(State#{
                next := Next + rand:uniform(?MOST_MS_APART + 1) - 1,
                id := Id + 1,
                open := Open#{Id => erlang:convert_time_unit(Next, millisecond, native)}
            });
        false ->
            State
    end.

ns(Native) -> erlang:convert_time_unit(Native, native, nanosecond).
