%% @private The tools of `flame_prof mcp': the looks that have an assistant's part, and a recording.
%% The arguments of a tool are options of its command, which flame_prof_cli_look_options makes of
%% the list of looks, or stand here where an assistant needs other words.
-module(flame_prof_mcp_tools).

-include("flame_prof.hrl").

-export([list/1, instructions/1, checked/3, run/3]).

-export_type([call/0]).

-type call() :: #{
    command := atom(),
    node := string(),
    arguments := [string()],
    options := #{atom() => term()}
}.

%% `option': of the command. `seconds': a time, for this option of the command. `one': one process,
%% `optional': one or none, `many': any number.
-type takes() ::
    {option, atom()}
    | {option, atom(), About :: string()}
    | {seconds, atom(), Least :: number(), Most :: number(), About :: string()}
    | {enum, atom(), [atom(), ...], About :: string()}
    | {process, one | optional | many, About :: string()}.
-type row() :: #{look := module(), command := atom(), title := string(), takes := [takes()],
    about := unicode:chardata()}.

-define(PROCESS, "a registered name, or a pid, as answers have them: Shop.Stock, <0.85.0>").
-define(PROCESSES_MOST, 100).
-define(TEXT_MOST, 500).
%% Of what is listed, and megabytes: answers are read by a model, and the node is to notice little.
-define(COUNT_MOST, 200).
-define(WIDTH, 120).

-spec table() -> [row(), ...].
table() ->
    [tool(Look, About) || Look <- flame_prof_look:modules(),
        #{assistant := _} = About <- [flame_prof_look:about(Look)]] ++ [hot()].

tool(Look, #{name := Name, sentence := Sentence, cost := Cost, assistant := Assistant} = About) ->
    #{title := Title, tells := Tells} = Assistant,
    #{
        look => Look,
        command => Name,
        title => Title,
        takes => process(maps:get(argument, About)) ++ seconds(Assistant) ++
            [option(Option) || Option <- maps:get(options, Assistant, [])],
        about => [Sentence, " ", Tells, " ", Cost]
    }.

process({process, required, _, _}) -> [{process, one, ?PROCESS}];
process({process, optional, _, "PROCESS"}) ->
    [{process, optional, "only this process: " ?PROCESS}];
process({process, optional, _, "PROCESS..."}) ->
    [{process, many, "only these, instead of what each scheduler runs"}];
process(_) ->
    [].

seconds(#{seconds := {Option, Least, Most, About}}) -> [{seconds, Option, Least, Most, About}];
seconds(#{}) -> [].

option({Key, About}) -> {option, Key, About};
option(Key) -> {option, Key}.

%% The look at files, of files that are recorded for it.
hot() ->
    #{
        look => flame_prof_tree,
        command => hot,
        title => "Hot stacks over some seconds",
        takes => [{seconds, for, 1, 30, "how long it records (10)"},
            {enum, mode, [processes, schedulers, cpu], "the 100 busiest processes at each "
                "tick, or the CPU time of what schedulers run (processes)"},
            {enum, by, [samples | ?FLAME_PROF_METRICS], "samples for shares of time, or a metric "
                "for shares of its changes (samples)"},
            {option, idle}, {option, chains}, {option, min}, {option, top}],
        about => [
            "Records a profile for some seconds and answers its hot stacks as a tree, and its ",
            "hot functions and processes: where the time goes. With chains also why processes ",
            "wait. Costs at most 2 % of one CPU by the session's own budget; the answer comes ",
            "after the recording. The recording is removed. Refused while another session of ",
            "flame_prof runs in the node. Needs the native engine (Linux on x86_64) in a node ",
            "without flame_prof."]
    }.

%% The module that shows whether a node has it: a node that the server has borrowed gets all.
-spec needs(row()) -> {module(), refused | bare}.
needs(#{command := hot}) -> {flame_prof_recording, refused};
needs(#{look := Look}) ->
    {Without, [Module | _]} = flame_prof_look:lent(Look),
    {Module, Without}.

%% @doc The text that a client passes to its assistant once.
-spec instructions([binary()]) -> binary().
instructions(Nodes) ->
    unicode:characters_to_binary([
        "Looks into live Erlang nodes, and changes nothing there. Begin with doctor; then waits ",
        "and top, hot for CPU time, mailbox for a long queue, memory, tables, binaries and xray ",
        "for memory. Answers have names of modules, functions and processes, tag atoms and ",
        "numbers, but no values of messages or heaps. A pid is valid in the node that showed it, ",
        "as long as the process lives. A node without flame_prof is lent it until a minute after ",
        "the last question.",
        [[" Nodes: ", lists:join(", ", Nodes), "; the first one is the default."]
            || Nodes =/= []]
    ]).

%% @doc For tools/list.
-spec list([binary()]) -> [map()].
list(Nodes) ->
    [
        #{
            name => Command,
            title => text(Title),
            description => text(About),
            'inputSchema' => schema(Row, Nodes),
            annotations => #{
                title => text(Title),
                'readOnlyHint' => true,
                'destructiveHint' => false,
                'idempotentHint' => true,
                'openWorldHint' => false
            }
        }
     || #{command := Command, title := Title, about := About} = Row <- table()
    ].

text(Text) -> unicode:characters_to_binary(Text).

%% Arguments: {Name, JSON schema, is it required}.

schema(Row, Nodes) ->
    Properties = properties(Row, Nodes),
    #{
        type => object,
        properties => maps:from_list([{Name, Schema} || {Name, Schema, _} <- Properties]),
        required => [Name || {Name, _, true} <- Properties],
        'additionalProperties' => false
    }.

properties(#{look := Look, takes := Takes}, Nodes) ->
    [node_property(Nodes) | [property(Take, Look) || Take <- Takes]].

node_property([]) ->
    {<<"node">>, string("the node: name@host"), true};
node_property([First | _] = Nodes) ->
    {<<"node">>, (string(["the node (", First, ")"]))#{enum => Nodes}, false}.

property({option, Key}, Look) ->
    {Key, _, About} = lists:keyfind(Key, 1, flame_prof_cli_look_options:options(Look)),
    property({option, Key, About}, Look);
property({option, Key, About}, Look) ->
    {Key, Kind, _} = lists:keyfind(Key, 1, flame_prof_cli_look_options:options(Look)),
    {atom_to_binary(Key), (of_kind(Kind))#{description => text(About)}, false};
property({seconds, _Key, Least, Most, About}, _) ->
    {<<"seconds">>, #{type => number, minimum => Least, maximum => Most,
        description => text(["seconds: ", About])}, false};
property({enum, Key, Values, About}, _) ->
    {atom_to_binary(Key), #{type => string, enum => Values, description => text(About)}, false};
property({process, many, About}, _) ->
    {<<"processes">>, #{type => array, items => string(?PROCESS), description => text(About),
        'maxItems' => ?PROCESSES_MOST}, false};
property({process, HowMany, About}, _) ->
    {<<"process">>, string(About), HowMany =:= one}.

string(About) ->
    #{type => string, 'minLength' => 1, 'maxLength' => ?TEXT_MOST, description => text(About)}.

of_kind(flag) -> #{type => boolean};
of_kind({_, {Whole, Least, Most}}) when Whole =:= whole; Whole =:= megabytes ->
    #{type => integer, minimum => Least, maximum => min(Most, ?COUNT_MOST)};
of_kind({_, {number, Least, Most}}) -> #{type => number, minimum => Least, maximum => Most};
of_kind({Word, {either, _, Kind}}) -> of_kind({Word, Kind});
of_kind({_, {one_of, Values}}) -> #{type => string, enum => Values};
of_kind({_, text}) -> #{type => string, 'maxLength' => ?TEXT_MOST}.

%% @doc A call with arguments as their schema has them.
-spec checked(binary(), flame_prof_json_reader:json(), [binary()]) ->
    {ok, call()} | {error, unicode:chardata()}.
checked(Name, Given, Nodes) ->
    case [Row || #{command := Command} = Row <- table(), atom_to_binary(Command) =:= Name] of
        [Row] when is_map(Given) -> arguments(Row, Given, Nodes);
        [_] -> {error, "arguments is an object"};
        [] -> {error, ["there is no tool ", Name]}
    end.

arguments(#{look := Look, command := Command, takes := Takes} = Row, Given, Nodes) ->
    Properties = properties(Row, Nodes),
    Known = [Name || {Name, _, _} <- Properties],
    Unknown = maps:keys(Given) -- Known,
    Missing = [Name || {Name, _, true} <- Properties, not is_map_key(Name, Given)],
    Wrong = [{Name, Schema} || {Name, Schema, _} <- Properties, #{Name := Value} <- [Given],
        not is_valid(Schema, Value)],
    case {Unknown, Missing, Wrong} of
        {[], [], []} ->
            Node = maps:get(<<"node">>, Given, hd(Nodes ++ [<<>>])),
            {ok, lists:foldl(fun(Take, Call) -> taken(Take, Look, Given, Call) end,
                #{command => Command, node => unicode:characters_to_list(Node), arguments => [],
                    options => #{}}, Takes)};
        {[Name | _], _, _} ->
            {error, [Name, ": unknown argument; there are: ", lists:join(", ", Known)]};
        {[], [Name | _], _} ->
            {error, [Name, " is missing"]};
        {[], [], [{Name, Schema} | _]} ->
            {error, [Name, ": it takes ", accepts(Schema)]}
    end.

is_valid(#{type := array, items := Items, 'maxItems' := Most}, Value) ->
    is_list(Value) andalso length(Value) =< Most
        andalso lists:all(fun(Item) -> is_valid(Items, Item) end, Value);
is_valid(#{enum := Values}, Value) ->
    lists:member(Value, [flat(V) || V <- Values]);
is_valid(#{type := string} = Schema, Value) ->
    is_binary(Value) andalso byte_size(Value) =< maps:get('maxLength', Schema)
        andalso byte_size(Value) >= maps:get('minLength', Schema, 0);
is_valid(#{type := boolean}, Value) ->
    is_boolean(Value);
is_valid(#{type := integer} = Schema, Value) ->
    is_integer(Value) andalso is_between(Schema, Value);
is_valid(#{type := number} = Schema, Value) ->
    is_number(Value) andalso is_between(Schema, Value).

flat(Value) when is_atom(Value) -> atom_to_binary(Value);
flat(Value) -> Value.

is_between(#{minimum := Least, maximum := Most}, Value) -> Value >= Least andalso Value =< Most.

accepts(#{enum := Values}) ->
    ["one of: ", lists:join(", ", [flat(Value) || Value <- Values])];
accepts(#{type := array, 'maxItems' := Most}) ->
    io_lib:format("a list of at most ~b texts", [Most]);
accepts(#{type := string, 'maxLength' := Most}) ->
    io_lib:format("a text of at most ~b bytes", [Most]);
accepts(#{type := boolean}) ->
    "true or false";
accepts(#{type := integer, minimum := Least, maximum := Most}) ->
    io_lib:format("a whole number from ~w to ~w", [Least, Most]);
accepts(#{type := number, minimum := Least, maximum := Most}) ->
    io_lib:format("a number from ~w to ~w", [Least, Most]).

%% As the command line would have parsed it.
taken({process, many, _}, _, Given, Call) ->
    Processes = maps:get(<<"processes">>, Given, []),
    Call#{arguments := [unicode:characters_to_list(Process) || Process <- Processes]};
taken({process, _, _}, _, #{<<"process">> := Process}, Call) ->
    Call#{arguments := [unicode:characters_to_list(Process)]};
taken({seconds, Key, _, _, _}, _, #{<<"seconds">> := Seconds}, #{options := Options} = Call) ->
    Call#{options := Options#{Key => round(Seconds * 1000)}};
taken({enum, by, _, _}, _, #{<<"by">> := Metric}, #{options := Options} = Call) ->
    Call#{options := Options#{by => case Metric of <<"samples">> -> samples; _ -> Metric end}};
taken({enum, Key, Values, _}, _, Given, Call) ->
    with_option(Key, Given, fun(Value) -> one_of(Values, Value) end, Call);
taken({option, Key, _}, Look, Given, Call) ->
    taken({option, Key}, Look, Given, Call);
taken({option, Key}, Look, Given, Call) ->
    {Key, Kind, _} = lists:keyfind(Key, 1, flame_prof_cli_look_options:options(Look)),
    with_option(Key, Given, fun(Value) -> as_parsed(Kind, Value) end, Call);
taken(_, _, _, Call) ->
    Call.

with_option(Key, Given, Parse, #{options := Options} = Call) ->
    case maps:find(atom_to_binary(Key), Given) of
        {ok, Value} -> Call#{options := Options#{Key => Parse(Value)}};
        error -> Call
    end.

one_of(Values, Value) -> hd([Atom || Atom <- Values, atom_to_binary(Atom) =:= Value]).

as_parsed({_, {one_of, Values}}, Value) -> one_of(Values, Value);
as_parsed({_, text}, Value) -> unicode:characters_to_list(Value);
as_parsed(_, Value) -> Value.

%% @doc What the command would print, or its sentence. Server: of the node
%% ({@link flame_prof_mcp_node}); Parsed: the ways to it.
-spec run(call(), pid(), flame_prof_cli_args:parsed()) -> flame_prof_mcp:answer().
run(#{command := Command, arguments := Arguments, options := Options}, Server, Parsed0) ->
    Parsed = maps:merge(Parsed0#{arguments := Arguments}, Options),
    [#{look := Look} = Row] = [Of || #{command := Name} = Of <- table(), Name =:= Command],
    {Module, Without} = needs(Row),
    case flame_prof_mcp_node:borrow(Server, Module, Without) of
        {ok, Node} -> told(seen(Command, Look, Node, Parsed));
        {error, _} = Error -> told(Error)
    end.

seen(doctor, _Look, Node, Parsed) ->
    flame_prof_cli_doctor:seen(Node, Parsed);
seen(hot, _Look, Node, Parsed) ->
    flame_prof_mcp_hot:seen(Node, flame_prof_cli_nodes:timeout(Parsed), Parsed);
seen(_Command, Look, Node, Parsed) ->
    Timeout = flame_prof_cli_nodes:timeout(Parsed),
    Edges = [{edges, ?COUNT_MOST} || #{key := edges} <- flame_prof_look:rows(Look)],
    Given = maps:merge(flame_prof_cli_look_options:given(Look, Parsed), maps:from_list(Edges)),
    case flame_prof_cli_looks:seen(Look, Node, Given, [{text, ?WIDTH}, json], Timeout) of
        {ok, #{text := Text} = Seen} -> {ok, Seen#{text := [atom_to_list(Node), "\n", Text]}};
        {error, _} = Error -> Error
    end.

told({ok, Seen}) -> {ok, Seen};
told({error, Reason}) -> {error, flame_prof:format_error(Reason)}.
