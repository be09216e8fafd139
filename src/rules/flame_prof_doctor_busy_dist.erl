%% @private A connection to another node that does not take what is sent to it: who sends more is
%% suspended by the VM.
%%
%% == False alarms ==
%% As of busy_port: the queue stands at both looks, for longer than its bytes would need.
-module(flame_prof_doctor_busy_dist).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1, bytes/1, seconds/1]).

-define(NAMED_MOST, 20).

kind() -> busy_dist.

needs() -> [system].

thresholds() ->
    [
        {queued_bytes, 4096, <<"bytes that wait in a connection at both looks">>},
        {delay_ms, 1000, <<"milliseconds that bytes wait, by the rate at which they leave">>}
    ].

find(#{system := {#{connections := Were}, #{connections := Are} = Last}, span_us := Us}, Limits) ->
    [
        finding(Queue, Taken, maps:get(blocked, Last, #{}), Us)
     || {Queue, Taken} <- flame_prof_doctor_queues:slow(Were, Are, Us, Limits)
    ];
find(_, _) ->
    {unseen, <<"connections did not answer in time">>}.

finding(#{node := Node, queued := Queued}, Taken, Blocked, Us) ->
    ByCall = lists:reverse(lists:keysort(1,
        [{length(Pids), Call, Pids} || {Call, Pids} <- maps:to_list(Blocked)])),
    Waiting = lists:sum([N || {N, _, _} <- ByCall]),
    Calls = [Call || {_, Call, _} <- ByCall],
    Suspended = lists:sublist(lists:append([Pids || {_, _, Pids} <- ByCall]), ?NAMED_MOST),
    Finding = #{
        kind => kind(),
        severity => warning,
        size => Queued + Waiting,
        title => ["the connection to ", atom_to_list(Node), " does not take what is sent to it"],
        sentences => [
            blocked(Waiting, Calls),
            [bytes(Queued), " wait in it, and as much as the VM queues before that."],
            ["The node took ", bytes(Taken), " in ", seconds(Us), "."],
            "Seen at both ends of that time, by the connection's own counters."
        ],
        command => "flame_prof top --node NODE",
        processes => [#{pid => flame_prof_doctor_rule:pid(Pid), name => Name}
            || {Pid, Name} <- Suspended],
        numbers => #{queued => Queued, taken => Taken, blocked => Waiting, node => Node,
            span_us => Us}
    },
    Functions = [{function, call(Call)} || Call <- lists:sublist(Calls, 1)],
    maps:merge(Finding, maps:from_list(Functions)).

blocked(0, _) -> "No process is suspended in a send now.";
blocked(1, [Call | _]) -> ["1 process is suspended in a send, in ", call(Call), "."];
blocked(N, [Call | _]) ->
    [number(N), " processes are suspended in a send, most in ", call(Call), "."].

call({M, F, A}) -> unicode:characters_to_binary(io_lib:format("~ts:~ts/~b", [M, F, A])).
