%% Programs that signals could hurt, each checking what it gets: files, TCP through
%% the driver and through sockets (enif_select), ports, os:cmd, timers, NIFs that
%% block on dirty and on normal schedulers, and jiffy, somebody else's NIF.
-module(running_harm).

-export([run/2]).

-define(PATIENCE_MS, 300000).

%% @doc All of them at once for so many milliseconds. `done' counts rounds; all else
%% is a result, the same however often it is run.
-spec run(file:name_all(), pos_integer()) ->
    #{atom() => #{done := non_neg_integer(), atom() => term()}}.
run(Directory, Ms) ->
    Until = erlang:monotonic_time(millisecond) + Ms,
    Workers = [
        {Kind, spawn_monitor(fun() -> exit({done, rounds(Kind, open(Kind, Directory), Until, 0,
            #{})}) end)} || Kind <- kinds()],
    maps:from_list([receive
        {'DOWN', Monitor, process, Pid, {done, Result}} -> {Kind, Result};
        {'DOWN', Monitor, process, Pid, Reason} -> error({Kind, Reason})
    end || {Kind, {Pid, Monitor}} <- Workers]).

%% Where jiffy is not installed the rest goes on, and says so.
kinds() ->
    Always = [files, tcp, socket, port, os_cmd, timers, dirty_nif, dirty_work, pipe, memory],
    case code:ensure_loaded(jiffy) of
        {module, jiffy} -> [jiffy | Always];
        {error, Reason} ->
            io:format(user, "    jiffy is not here (~w): without it~n", [Reason]),
            Always
    end.

rounds(Kind, State, Until, Done, Result0) ->
    Result = round(Kind, State, Done, Result0),
    case erlang:monotonic_time(millisecond) < Until of
        true -> rounds(Kind, State, Until, Done + 1, Result);
        false -> Result#{done => Done + 1}
    end.

open(files, Directory) ->
    filename:join(Directory, "harm." ++ integer_to_list(erlang:unique_integer([positive])));
open(tcp, _) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    {ok, Server} = gen_tcp:accept(Listen),
    {Client, Server};
open(socket, _) ->
    {ok, Listen} = socket:open(inet, stream, tcp),
    ok = socket:bind(Listen, #{family => inet, addr => {127, 0, 0, 1}, port => 0}),
    ok = socket:listen(Listen),
    {ok, Address} = socket:sockname(Listen),
    {ok, Client} = socket:open(inet, stream, tcp),
    ok = socket:connect(Client, Address),
    {ok, Server} = socket:accept(Listen),
    {Client, Server};
open(port, _) -> open_port({spawn_executable, os:find_executable("cat")}, [binary, stream]);
open(jiffy, _) ->
    Term = {[{<<"numbers">>, lists:seq(1, 500)},
        {<<"text">>, binary:copy(<<"a\"b\\c">>, 200)},
        {<<"nested">>, [{[{<<"k">>, K}]} || K <- lists:seq(1, 100)]}]},
    {Term, iolist_to_binary(jiffy:encode(Term))};
open(memory, _) -> binary:copy(<<"0123456789abcdef">>, 4096);
open(_, _) -> none.

round(files, Name, N, Result) ->
    Bytes = binary:copy(<<N:64>>, 1000),
    ok = file:write_file(Name, Bytes),
    {ok, Device} = file:open(Name, [read, raw, binary]),
    {ok, Bytes} = file:read(Device, 8000),
    eof = file:read(Device, 1),
    ok = file:sync(Device),
    ok = file:close(Device),
    ok = file:delete(Name),
    Result;
round(tcp, {Client, Server}, N, Result) ->
    Bytes = binary:copy(<<N:32>>, 5000),
    ok = gen_tcp:send(Client, Bytes),
    {ok, Bytes} = gen_tcp:recv(Server, 20000, ?PATIENCE_MS),
    ok = gen_tcp:send(Server, <<N:32>>),
    {ok, <<N:32>>} = gen_tcp:recv(Client, 4, ?PATIENCE_MS),
    Result;
round(socket, {Client, Server}, N, Result) ->
    Bytes = binary:copy(<<N:32>>, 5000),
    Self = self(),
    %% The receiver waits first: it is told by enif_select.
    Receiver = spawn_link(fun() -> Self ! {self(), socket:recv(Server, 20000, ?PATIENCE_MS)} end),
    ok = socket:send(Client, Bytes, ?PATIENCE_MS),
    receive {Receiver, {ok, Bytes}} -> ok end,
    Result;
round(port, Port, N, Result) ->
    Bytes = binary:copy(<<N:32>>, 2000),
    true = port_command(Port, Bytes),
    Bytes = from_port(Port, byte_size(Bytes), []),
    Result;
round(os_cmd, _, N, Result) ->
    Expected = integer_to_list(N * 3) ++ "\n",
    Expected = os:cmd("sleep 0.01; echo $((" ++ integer_to_list(N) ++ " * 3))"),
    Result;
round(timers, _, N, Result) ->
    Before = erlang:monotonic_time(millisecond),
    Timers = [erlang:start_timer(K rem 20, self(), K) || K <- lists:seq(1, 50)],
    [receive {timeout, T, K} -> ok end || {T, K} <- lists:zip(Timers, lists:seq(1, 50))],
    %% None early.
    true = erlang:monotonic_time(millisecond) - Before >= 19,
    receive after N rem 3 -> Result end;
round(dirty_nif, _, _, Result) ->
    0 = running_test_nif:dirty_sleep(15),
    Result#{interrupted => 0};
round(dirty_work, _, _, Result) -> Result#{answer => running_test_nif:dirty_spin(3000000)};
round(pipe, _, _, Result) -> Result#{through => running_test_nif:pipe_through(50000)};
round(jiffy, {Term, Json}, _, Result) ->
    Json = iolist_to_binary(jiffy:encode(Term)),
    Term = jiffy:decode(Json),
    Result#{md5 => erlang:md5(Json)};
round(memory, Bytes, _, Result) ->
    %% Long BIFs, and the collector.
    Sum = erlang:crc32(Bytes),
    Parts = [P || <<P:1024/binary>> <= Bytes],
    Sum = erlang:crc32(Parts),
    Result#{sum => Sum}.

from_port(_, 0, Acc) -> iolist_to_binary(lists:reverse(Acc));
from_port(Port, Left, Acc) ->
    receive
        {Port, {data, Bytes}} -> from_port(Port, Left - byte_size(Bytes), [Bytes | Acc])
    after ?PATIENCE_MS -> error({port_is_silent, Left})
    end.
