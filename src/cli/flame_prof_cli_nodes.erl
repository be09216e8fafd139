%% @private The commands to nodes that have flame_prof: info, start, flush, stop; and top. The looks
%% are in {@link flame_prof_cli_looks}.
-module(flame_prof_cli_nodes).

-export([do/2, session_options/1, timeout/1, outcome/2, first_error/1]).

-import(flame_prof_cli_out, [put/1]).

-define(TIMEOUT_MS, 10000).
%% The session itself gives a slow disk half a minute.
-define(STOP_MS, 30000).

-spec do(atom(), flame_prof_cli_args:parsed()) ->
    ok | interrupted | flame_prof_cli_args:failure().
do(Command, #{node := Names} = Parsed) ->
    case flame_prof_remote:connect(Names, Parsed) of
        {ok, Nodes} -> at(Command, Nodes, Parsed);
        {error, _} = Error -> Error
    end.

-spec timeout(flame_prof_cli_args:parsed()) -> pos_integer().
timeout(Parsed) -> maps:get(timeout, Parsed, ?TIMEOUT_MS).

at(top, Nodes, Parsed) ->
    flame_prof_cli_top:do(Nodes, Parsed);
at(info, Nodes, Parsed) ->
    each(Nodes, fun info/2, flame_prof, info, [], Parsed);
at(start, Nodes, Parsed) ->
    each(Nodes, fun started/2, flame_prof, start, [session_options(Parsed)], Parsed);
at(flush, Nodes, Parsed) ->
    each(Nodes, fun flushed/2, flame_prof, flush, [], Parsed);
at(stop, Nodes, Parsed) ->
    each(Nodes, fun stopped/2, flame_prof, stop, [], Parsed#{timeout => ?STOP_MS}).

%% Called at the same time, printed in their order. The first error is the command's.
each(Nodes, Tell, Module, Function, Args, Parsed) ->
    Answers = flame_prof_remote:all(Nodes, Module, Function, Args, timeout(Parsed)),
    Outcomes = [{Node, outcome(Node, Answer)} || {Node, Answer} <- Answers],
    ok =
        case Parsed of
            #{json := true} -> json([{N, A} || {N, {ok, A}} <- Outcomes]);
            _ -> put([Tell(N, A) || {N, {ok, A}} <- Outcomes])
        end,
    first_error([Error || {_, {error, _} = Error} <- Outcomes]).

%% @doc The first error is the command's, the others are said.
-spec first_error([{error, flame_prof:reason()}]) -> ok | {error, flame_prof:reason()}.
first_error([]) ->
    ok;
first_error([Error | More]) ->
    _ = [flame_prof_cli_out:say(flame_prof:format_error(Reason)) || {error, Reason} <- More],
    Error.

%% @doc What a function of flame_prof answered there.
-spec outcome(node(), {ok, term()} | {error, flame_prof:reason()}) ->
    {ok, term()} | {error, flame_prof:reason()}.
outcome(_Node, {error, _} = Error) ->
    Error;
outcome(Node, {ok, {error, Reason}}) ->
    Why = unicode:characters_to_binary(flame_prof:format_error(Reason)),
    {error, {attach, #{node => Node, reason => Why, cause => refused}}};
outcome(_Node, {ok, {ok, Answer}}) ->
    {ok, Answer};
outcome(_Node, {ok, Answer}) ->
    {ok, Answer}.

json(Answers) ->
    put([flame_prof_json:encode([(as_map(A))#{node => Node} || {Node, A} <- Answers]), "\n"]).

as_map(Map) when is_map(Map) -> texts(Map);
as_map(Answer) -> #{answer => Answer}.

%% A datetime is a tuple, which JSON does not have.
texts(Map) ->
    maps:map(
        fun
            (_, Value) when is_map(Value) -> texts(Value);
            (_, {{_, _, _}, {_, _, _}} = Time) -> datetime(Time);
            (_, {off, Why}) -> Why;
            (_, Value) -> Value
        end,
        Map
    ).

datetime({{Y, Mo, D}, {H, Mi, S}}) ->
    iolist_to_binary(io_lib:format("~4..0b-~2..0b-~2..0b ~2..0b:~2..0b:~2..0b",
        [Y, Mo, D, H, Mi, S])).

%% start

-spec session_options(flame_prof_cli_args:parsed()) -> flame_prof:options().
session_options(Parsed) ->
    Named = [{output, dir}, {top, select}, {interval, sample_interval}, {mode, mode},
        {engine, engine}],
    Options = maps:from_list([{To, maps:get(K, Parsed)}
        || {K, To} <- Named, is_map_key(K, Parsed)]),
    Status = [{process_options, #{status => S}} || {status, S} <- maps:to_list(Parsed)],
    maps:merge(Options, maps:from_list(Status ++ maps:get(set, Parsed, []))).

started(Node, _Pid) ->
    io_lib:format("~ts: started; `flame_prof stop --node ~ts' ends it~n", [Node, Node]).

flushed(Node, ok) ->
    io_lib:format("~ts: flushed~n", [Node]).

stopped(Node, Run) ->
    flame_prof_info:format(Node, Run).

info(Node, Info) ->
    flame_prof_info:format(Node, Info).
