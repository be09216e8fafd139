%% @private Calls that are measured while a page reads of them: the answer of one request has a line
%% of JSON each half second, what came since the line before.
%%
%% The process of the page's connection is the one that asked for the measurement, and it watches
%% the connection between two lines: the page's end, or that of its browser or tunnel, ends the
%% measurement at once. So does a page that reads nothing any more.
-module(flame_prof_view_latency).

-export([start/3, stream/3]).

-opaque lines() :: {node(), flame_prof_latency:measurement()}.
-export_type([lines/0]).

-define(INTERVAL_MS, 500).
%% Nobody reads.
-define(SEND_MS, 900).
%% To begin takes that long where a node has very many processes.
-define(CALL_MS, 35000).
%% For how long another tracing may be one that ends.
-define(LEFT_MS, 2000).
-define(AGAIN_MS, 50).
-define(FUNCTIONS_MOST, 64).
%% Rows of a function's groups and callers.
-define(PARTS_MOST, 50).
%% With more functions these rows have no histograms: a line would have some hundred kilobytes.
-define(DETAILED_MOST, 8).

%% @doc By the process of the connection.
-spec start(node(), [binary()], Seconds :: binary()) ->
    {ok, lines()} | {error, Why :: binary()}.
start(_Node, Texts, _Seconds) when length(Texts) > ?FUNCTIONS_MOST ->
    {error, <<"that is more than 64 functions; module:_ is all of a module">>};
start(Node, Texts, Seconds) ->
    case {parsed(Node, Texts, []), re:run(Seconds, "^[1-9][0-9]{0,3}$", [{capture, none}])} of
        {_, nomatch} ->
            {error, <<"seconds: a whole number from 1 to 9999">>};
        {{ok, Functions}, match} ->
            Options = #{owner => self(), seconds => binary_to_integer(Seconds)},
            case begun(Node, [Functions, Options], now_ms() + ?LEFT_MS) of
                {ok, Ref} -> {ok, {Node, Ref}};
                {error, _} = Error -> Error
            end;
        {{error, _} = Error, match} ->
            Error
    end.

%% A page that measures other functions has just left its measurement before, which may still end.
begun(Node, Args, Until) ->
    Answer = flame_prof_remote:call(Node, flame_prof_latency, start, Args, ?CALL_MS),
    case {Answer, now_ms() < Until} of
        {{ok, {error, {tracing, #{busy := true}}}}, true} ->
            timer:sleep(?AGAIN_MS),
            begun(Node, Args, Until);
        _ ->
            answered(Answer)
    end.

parsed(_Node, [], Functions) ->
    {ok, lists:reverse(Functions)};
parsed(Node, [Text | Texts], Functions) ->
    case at(Node, flame_prof_mfa, parse, [Text]) of
        {ok, Function} -> parsed(Node, Texts, [Function | Functions]);
        {error, _} = Error -> Error
    end.

%% @doc Headers and lines, to the end of the measurement or of the connection.
-spec stream(gen_tcp:socket(), [{string(), string()}], lines()) -> ok.
stream(Socket, Headers, {Node, Ref} = Lines) ->
    ok = set(Socket, [{active, false}, {send_timeout, ?SEND_MS}, {send_timeout_close, true}]),
    All = [{"Content-Type", "application/x-ndjson"}, {"Cache-Control", "no-store"},
        {"Connection", "close"} | Headers],
    Head = ["HTTP/1.1 200 OK\r\n", [[Name, ": ", Value, "\r\n"] || {Name, Value} <- All], "\r\n"],
    try
        ok = sent(Socket, Head),
        read(Socket, now_ms() + ?INTERVAL_MS, Lines)
    catch
        throw:closed -> ok
    after
        _ = at(Node, flame_prof_latency, stop, [Ref]),
        _ = gen_tcp:close(Socket)
    end.

set(Socket, Options) ->
    _ = inet:setopts(Socket, Options),
    ok.

%% The page says nothing: what comes is the end of the connection.
read(Socket, Next, Lines) ->
    case gen_tcp:recv(Socket, 0, max(0, Next - now_ms())) of
        {error, timeout} -> write(Socket, Next, Lines);
        _ -> ok
    end.

write(Socket, Next, {Node, Ref} = Lines) ->
    case at(Node, flame_prof_latency, interval, [Ref]) of
        {ok, #{ended := running} = Interval} ->
            ok = line(Socket, shown(Interval)),
            read(Socket, max(now_ms(), Next + ?INTERVAL_MS), Lines);
        {ok, Interval} ->
            line(Socket, shown(Interval));
        {error, Why} ->
            line(Socket, #{ended => failed, why => Why})
    end.

line(Socket, Json) ->
    sent(Socket, [flame_prof_json:encode_for_page(Json), $\n]).

sent(Socket, Bytes) ->
    case gen_tcp:send(Socket, Bytes) of
        ok -> ok;
        {error, _} -> throw(closed)
    end.

now_ms() -> erlang:monotonic_time(millisecond).

%% Functions that were not called in between are left out, and rows beyond the first. The page takes
%% the longest of all lines: it is 0 in one with exceptions only.
shown(#{functions := Functions} = Interval) ->
    Called = [Function
        || #{calls := Calls, exceptions := Exceptions} = Function <- Functions,
            Calls + Exceptions > 0],
    Left = [histogram || length(Called) > ?DETAILED_MOST],
    flame_prof_latency_text:json(Interval#{functions := [few(F, Left) || F <- Called]}).

few(Function, LeftOut) ->
    maps:map(
        fun
            (Key, Parts) when Key =:= groups; Key =:= callers ->
                [maps:without(LeftOut, Part) || Part <- lists:sublist(Parts, ?PARTS_MOST)];
            (_, Value) ->
                Value
        end,
        maps:merge(#{max_ns => 0}, Function)
    ).

at(Node, Module, Function, Args) ->
    answered(flame_prof_remote:call(Node, Module, Function, Args, ?CALL_MS)).

answered({ok, {ok, _} = Answer}) -> Answer;
answered({ok, {error, Why}}) when is_binary(Why) -> {error, Why};
answered({ok, {error, Reason}}) -> {error, told(Reason)};
answered({error, Reason}) -> {error, told(Reason)}.

told(Reason) -> unicode:characters_to_binary(flame_prof_error:format(Reason)).
