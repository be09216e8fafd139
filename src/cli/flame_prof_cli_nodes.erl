%% @private The commands to nodes that have flame_prof: info, start, flush, stop;
%% and mailbox, memory, pstack, tables, top and waits, which bring it where it is missing.
-module(flame_prof_cli_nodes).

-export([do/2, session_options/1, tables_options/0, timeout/1]).

-import(flame_prof_cli_out, [put/1]).

-define(TIMEOUT_MS, 10000).
%% The session itself gives a slow disk half a minute.
-define(STOP_MS, 30000).
%% That a look waits for other nodes: their looks, their names, what processes do there.
-define(OTHERS_MS, 15000).

-spec do(atom(), flame_prof_cli_args:parsed()) ->
    ok | interrupted | flame_prof_cli_args:failure().
do(waits, #{arguments := [Name | Process]} = Parsed) ->
    case flame_prof_remote:connect([Name], Parsed) of
        {ok, [Node]} ->
            flame_prof_cli_attach:borrowing([Node], flame_prof_waits, bare, timeout(Parsed),
                fun() -> waits(Node, Process, Parsed) end);
        {error, _} = Error ->
            Error
    end;
do(Command, #{node := Names} = Parsed) ->
    case flame_prof_remote:connect(Names, Parsed) of
        {ok, Nodes} -> at(Command, Nodes, Parsed);
        {error, _} = Error -> Error
    end.

-spec timeout(flame_prof_cli_args:parsed()) -> pos_integer().
timeout(Parsed) -> maps:get(timeout, Parsed, ?TIMEOUT_MS).

at(top, Nodes, Parsed) ->
    flame_prof_cli_top:do(Nodes, Parsed);
at(pstack, Nodes, Parsed) ->
    flame_prof_cli_attach:borrowing(Nodes, refused, timeout(Parsed), fun() ->
        first_error([Error || Node <- Nodes, {error, _} = Error <- [pstack(Node, Parsed)]])
    end);
at(mailbox, Nodes, Parsed) ->
    flame_prof_cli_attach:borrowing(Nodes, bare, timeout(Parsed), fun() ->
        first_error([Error || Node <- Nodes, {error, _} = Error <- [mailbox(Node, Parsed)]])
    end);
at(memory, Nodes, Parsed) ->
    flame_prof_cli_attach:borrowing(Nodes, bare, timeout(Parsed), fun() ->
        first_error([Error || Node <- Nodes, {error, _} = Error <- [memory(Node, Parsed)]])
    end);
at(tables, Nodes, Parsed) ->
    flame_prof_cli_attach:borrowing(Nodes, bare, timeout(Parsed), fun() ->
        first_error([Error || Node <- Nodes, {error, _} = Error <- [tables(Node, Parsed)]])
    end);
at(info, Nodes, Parsed) ->
    each(Nodes, fun info/2, flame_prof, info, [], Parsed);
at(start, Nodes, Parsed) ->
    each(Nodes, fun started/2, flame_prof, start, [session_options(Parsed)], Parsed);
at(flush, Nodes, Parsed) ->
    each(Nodes, fun flushed/2, flame_prof, flush, [], Parsed);
at(stop, Nodes, Parsed) ->
    each(Nodes, fun stopped/2, flame_prof, stop, [], Parsed#{timeout => ?STOP_MS}).

%% Asked at the same time, told in their order. The first error is the command's.
each(Nodes, Tell, Module, Function, Args, Parsed) ->
    Answers = flame_prof_remote:all(Nodes, Module, Function, Args, timeout(Parsed)),
    Outcomes = [{Node, outcome(Node, Answer)} || {Node, Answer} <- Answers],
    ok =
        case Parsed of
            #{json := true} -> json([{N, A} || {N, {ok, A}} <- Outcomes]);
            _ -> put([Tell(N, A) || {N, {ok, A}} <- Outcomes])
        end,
    first_error([Error || {_, {error, _} = Error} <- Outcomes]).

first_error([]) ->
    ok;
first_error([Error | More]) ->
    _ = [flame_prof_cli_out:say(flame_prof:format_error(Reason)) || {error, Reason} <- More],
    Error.

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

text(Term) -> unicode:characters_to_binary(io_lib:format("~0tp", [Term])).

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

%% pstack: told where it was seen, so that pids are those of the node.

pstack(Node, #{arguments := []} = Parsed) ->
    look(Node, outcome(Node, call(Node, flame_prof_pstack, schedulers, [], Parsed)), Parsed);
pstack(Node, #{arguments := Names} = Parsed) ->
    Answer = call(Node, flame_prof_pstack, processes, [[target(Name) || Name <- Names]], Parsed),
    look(Node, outcome(Node, Answer), Parsed).

%% The node knows whether it is a name; it makes no atom of another.
target(Text) -> unicode:characters_to_binary(Text).

look(_Node, {error, _} = Error, _Parsed) ->
    Error;
look(Node, {ok, Look}, #{json := true}) ->
    put([flame_prof_json:encode(#{node => Node, look => [entry(Entry) || Entry <- Look]}), "\n"]);
look(Node, {ok, Look}, Parsed) ->
    case call(Node, flame_prof_pstack, format, [Look], Parsed) of
        {ok, Text} -> put([flame_prof_cli_out:bold(atom_to_list(Node)), "\n", Text]);
        {error, _} = Error -> Error
    end.

entry({Place, What}) -> #{place => text(Place), process => What}.

%% mailbox

mailbox(Node, #{arguments := [Name]} = Parsed) ->
    Options = maps:with([senders, tags, oldest, time_limit], Parsed),
    Asked = Parsed#{timeout => timeout(Parsed) + maps:get(time_limit, Parsed, 0)},
    Look = outcome(Node, call(Node, flame_prof_mailbox, look, [target(Name), Options], Asked)),
    {Module, Function} =
        case Parsed of
            #{json := true} -> {flame_prof_mailbox_text, json};
            _ -> {flame_prof_mailbox, format}
        end,
    case Look of
        {ok, Mailbox} ->
            told(Node, call(Node, Module, Function, [Mailbox], Parsed));
        {error, _} = Error ->
            Error
    end.

%% memory

memory(Node, Parsed) ->
    Function = case Parsed of #{json := true} -> json; _ -> format end,
    case outcome(Node, call(Node, flame_prof_memory, look, [], Parsed)) of
        {ok, Memory} -> told(Node, call(Node, flame_prof_memory, Function, [Memory], Parsed));
        {error, _} = Error -> Error
    end.

%% tables

-spec tables_options() -> [flame_prof_cli_args:option()].
tables_options() ->
    [
        {for, {"TIME", duration}, "look again after it, up to 60s: growth (once)"},
        {sort, {"BY", {one_of, [memory, objects, growth]}}, "memory, objects or growth (memory)"},
        {top, {"N", {whole, 1, 1000000}}, "tables to show (20)"}
    ].

tables(Node, Parsed) ->
    Function = case Parsed of #{json := true} -> json; _ -> format end,
    Options = maps:merge(#{top => 20}, maps:with([for, sort, top], Parsed)),
    %% By growth it looks twice in any case.
    Asked = Parsed#{timeout => timeout(Parsed) + maps:get(for, Options, 1000)},
    case outcome(Node, call(Node, flame_prof_tables, look, [Options], Asked)) of
        {ok, Look} -> told(Node, call(Node, flame_prof_tables, Function, [Look], Parsed));
        {error, _} = Error -> Error
    end.

told(_Node, {error, _} = Error) ->
    Error;
told(Node, {ok, #{} = Json}) ->
    put([flame_prof_json:encode(Json#{node => Node}), "\n"]);
told(Node, {ok, Text}) ->
    put([flame_prof_cli_out:bold(atom_to_list(Node)), "\n", Text]).

%% waits: its page and its JSON are made there, too.

waits(Node, Process, Parsed) ->
    For = maps:get(for, Parsed, 0),
    Nodes = [flame_prof_remote:full(Name) || Name <- maps:get(nodes, Parsed, [])],
    Options = maps:merge(maps:with([for, top], Parsed), maps:from_list(
        [{process, unicode:characters_to_binary(Name)} || Name <- Process] ++
            [{nodes, [unicode:characters_to_binary(Name) || Name <- Nodes]} || Nodes =/= []])),
    As = case Parsed of #{json := true} -> json; #{} -> text end,
    %% One that hangs is waited for once.
    Others = case Nodes of [] -> 0; _ -> ?OTHERS_MS end,
    Asked = Parsed#{timeout => timeout(Parsed) + For + Others},
    case outcome(Node, call(Node, flame_prof_waits, page, [Options, As], Asked)) of
        {ok, Text} when As =:= json -> put([Text, "\n"]);
        {ok, Text} -> put([flame_prof_cli_out:bold(atom_to_list(Node)), "\n", Text]);
        {error, _} = Error -> Error
    end.

call(Node, Module, Function, Args, Parsed) ->
    flame_prof_remote:call(Node, Module, Function, Args, timeout(Parsed)).
