%% @private The commands that look at a node once: binaries, mailbox, memory, pstack, tables, waits
%% and xray. Each is a function from its options to what is seen, apart from printing: `flame_prof
%% mcp' asks the same.
%%
%% What is seen is made text, and JSON, in the node that was looked at: there a pid has the numbers
%% that the node's own shell shows.
-module(flame_prof_cli_looks).

-export([do/2, needs/1, seen/4]).

-export_type([form/0, seen/0]).

-type form() :: text | json.
%% `text': what the command prints below the name of the node. `json': what it prints with --json.
-type seen() :: #{form() => iodata()}.

%% What flame_prof_xray has for a limit that is not given.
-define(XRAY_MS, 10000).
%% flame_prof_binaries: as long for each of two looks, and for the heaps of the largest holders.
-define(BINARIES_MS, 10000).
-define(WALK_MS, 5000).
%% flame_prof_tables: it looks twice for a growth in any case.
-define(GROWTH_MS, 1000).
-define(TABLES, 20).
%% That a look waits for other nodes: their looks, their names, what processes do there.
-define(OTHERS_MS, 15000).

-spec do(atom(), flame_prof_cli_args:parsed()) -> ok | flame_prof_cli_args:failure().
do(Command, #{node := Names} = Parsed) ->
    case flame_prof_remote:connect(Names, Parsed) of
        {ok, Nodes} ->
            {Modules, Without} = needs(Command),
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            flame_prof_cli_attach:borrowing(Nodes, {look, Modules}, Without, Timeout, fun() ->
                flame_prof_cli_nodes:first_error([Error || Node <- Nodes,
                    {error, _} = Error <- [printed(Command, Node, Parsed)]])
            end);
        {error, _} = Error ->
            Error
    end.

printed(Command, Node, #{json := true} = Parsed) ->
    case seen(Command, Node, Parsed, [json]) of
        {ok, #{json := Json}} -> flame_prof_cli_out:put([Json, "\n"]);
        {error, _} = Error -> Error
    end;
printed(Command, Node, Parsed) ->
    case seen(Command, Node, Parsed, [text]) of
        {ok, #{text := Text}} ->
            flame_prof_cli_out:put([flame_prof_cli_out:bold(atom_to_list(Node)), "\n", Text]);
        {error, _} = Error ->
            Error
    end.

%% @doc What the command calls there, the module first that the node must have, and whether they can
%% be lent without the library.
-spec needs(atom()) -> {[module(), ...], refused | bare}.
needs(binaries) -> {[flame_prof_binaries], refused};
needs(mailbox) -> {[flame_prof_mailbox], bare};
needs(memory) -> {[flame_prof_memory], bare};
needs(pstack) -> {[flame_prof_pstack], refused};
needs(tables) -> {[flame_prof_tables], bare};
needs(waits) -> {[flame_prof_waits, flame_prof_waits_part], bare};
needs(xray) -> {[flame_prof_xray], refused}.

%% @doc One look, in each of these forms. The node is connected and has what the command needs.
-spec seen(atom(), node(), flame_prof_cli_args:parsed(), [form()]) ->
    {ok, seen()} | {error, flame_prof:reason()}.
seen(binaries, Node, Parsed, Forms) ->
    Ms = 2 * maps:get(time_limit, Parsed, ?BINARIES_MS) + maps:get(for, Parsed, 0) + ?WALK_MS,
    Look = call(Node, flame_prof_binaries, look, [bounded(Parsed)], Ms, Parsed),
    formed(Node, Look, both(flame_prof_binaries_text), Forms, Parsed);
seen(mailbox, Node, #{arguments := [Process]} = Parsed, Forms) ->
    Options = maps:with([senders, tags, oldest, time_limit], Parsed),
    Ms = maps:get(time_limit, Parsed, 0),
    Look = call(Node, flame_prof_mailbox, look, [target(Process), Options], Ms, Parsed),
    formed(Node, Look, #{text => {flame_prof_mailbox, format}, json => {flame_prof_mailbox_text,
        json}}, Forms, Parsed);
seen(memory, Node, Parsed, Forms) ->
    Look = call(Node, flame_prof_memory, look, [], 0, Parsed),
    formed(Node, Look, both(flame_prof_memory), Forms, Parsed);
seen(pstack, Node, #{arguments := Processes} = Parsed, Forms) ->
    {Function, Args} =
        case Processes of
            [] -> {schedulers, []};
            _ -> {processes, [[target(Process) || Process <- Processes]]}
        end,
    Look = call(Node, flame_prof_pstack, Function, Args, 0, Parsed),
    demangled(formed(Node, Look, both(flame_prof_pstack), Forms, Parsed));
seen(tables, Node, Parsed, Forms) ->
    Options = maps:merge(#{top => ?TABLES}, maps:with([for, sort, top], Parsed)),
    Ms = maps:get(for, Parsed, ?GROWTH_MS),
    Look = call(Node, flame_prof_tables, look, [Options], Ms, Parsed),
    formed(Node, Look, both(flame_prof_tables), Forms, Parsed);
seen(waits, Node, Parsed, Forms) ->
    waits(Node, Parsed, Forms);
seen(xray, Node, #{arguments := [Process]} = Parsed, Forms) ->
    Ms = maps:get(time_limit, Parsed, ?XRAY_MS),
    Look = xray(Node, target(Process), bounded(Parsed), Ms, Parsed),
    formed(Node, Look, #{text => {flame_prof_xray, format}, json => {flame_prof_xray_text, json}},
        Forms, Parsed).

%% Here: the node has no reader of files, which knows such names.
demangled({ok, #{text := Text} = Seen}) ->
    Parts = re:split(Text, "(_Z[A-Za-z0-9_]+)"),
    {ok, Seen#{text := unicode:characters_to_binary([symbol(Part) || Part <- Parts])}};
demangled(Outcome) ->
    Outcome.

symbol(<<"_Z", _/binary>> = Symbol) -> flame_prof_frames:function({Symbol, <<>>});
symbol(Text) -> Text.

both(Module) -> #{text => {Module, format}, json => {Module, json}}.

bounded(Parsed) ->
    Budget = [{memory_budget, MB bsl 20} || #{max_memory := MB} <- [Parsed]],
    maps:merge(maps:with([time_limit, for], Parsed), maps:from_list(Budget)).

%% The node knows whether it is a name; it makes no atom of another.
target(Text) -> unicode:characters_to_binary(Text).

formed(_Node, {error, _} = Error, _Makers, _Forms, _Parsed) ->
    Error;
formed(Node, {ok, Look}, Makers, Forms, Parsed) ->
    Made = [{Form, made(Node, maps:get(Form, Makers), Look, Parsed)} || Form <- Forms],
    case [Error || {_, {error, _} = Error} <- Made] of
        [] -> {ok, maps:from_list([{Form, part(Form, Node, Part)} || {Form, {ok, Part}} <- Made])};
        [Error | _] -> Error
    end.

made(Node, {Module, Function}, Look, Parsed) ->
    flame_prof_remote:call(Node, Module, Function, [Look], flame_prof_cli_nodes:timeout(Parsed)).

part(text, _Node, Text) -> unicode:characters_to_binary(Text);
part(json, Node, Json) -> flame_prof_json:encode(Json#{node => Node}).

call(Node, Module, Function, Args, MoreMs, Parsed) ->
    Timeout = flame_prof_cli_nodes:timeout(Parsed) + MoreMs,
    flame_prof_cli_nodes:outcome(Node,
        flame_prof_remote:call(Node, Module, Function, Args, Timeout)).

%% A look at it may be large: its page and its JSON are made there, too. `edges': so many in JSON.
waits(Node, #{arguments := Process} = Parsed, Forms) ->
    For = maps:get(for, Parsed, 0),
    Nodes = [flame_prof_remote:full(Name) || Name <- maps:get(nodes, Parsed, [])],
    Options = maps:merge(maps:with([for, top], Parsed), maps:from_list(
        [{process, target(Name)} || Name <- Process] ++
            [{nodes, [target(Name) || Name <- Nodes]} || Nodes =/= []])),
    %% One that hangs is waited for once.
    Others = case Nodes of [] -> 0; _ -> ?OTHERS_MS end,
    Wanted = [case {Form, Parsed} of {json, #{edges := Most}} -> {json, Most}; _ -> Form end
        || Form <- Forms],
    case call(Node, flame_prof_waits, pages, [Options, Wanted], For + Others, Parsed) of
        {ok, Pages} -> {ok, maps:from_list(lists:zip(Forms, Pages))};
        {error, _} = Error -> Error
    end.

%% Its errors are sentences about the process.
xray(Node, Target, Options, LookMs, Parsed) ->
    Timeout = flame_prof_cli_nodes:timeout(Parsed) + LookMs,
    case flame_prof_remote:call(Node, flame_prof_xray, look, [Target, Options], Timeout) of
        {ok, {error, {moved, Why}}} -> {error, {moved, Why#{target => Target}}};
        {ok, Answer} -> Answer;
        {error, _} = Error -> Error
    end.
