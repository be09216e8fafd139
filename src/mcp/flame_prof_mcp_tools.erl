%% @private The tools of `flame_prof mcp': a table with a row for each, what their arguments may be,
%% and how they are answered. A tool is a command of the command line that looks at a node; its
%% arguments are options of that command, or stand here where an assistant needs other words.
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
-type row() :: #{command := atom(), title := string(), takes := [takes()], about := [string()]}.

-define(PROCESS, "a registered name, or a pid, as answers have them: Shop.Stock, <0.85.0>").
-define(PROCESSES_MOST, 100).
-define(TEXT_MOST, 500).
%% Of what is listed, and megabytes: answers are read by a model, and the node is to notice little.
-define(COUNT_MOST, 200).

%% What it answers; what it costs; what it cannot.
-spec table() -> [row(), ...].
table() ->
    [doctor() | looks() ++ memory()].

doctor() ->
    #{command => doctor, title => "What is wrong with the node",
        takes => [{seconds, for, 6, 30, "how long it looks (10)"}],
        about => [
            "What is wrong with a node, in sentences, the most severe first: bottlenecks, ",
            "deadlocks, queues, memory that grows, long BIFs and NIFs, locks, limits and more, ",
            "each with the process, the function and numbers, and the command that shows more. ",
            "Begin with it. Nothing is found in a healthy node under load. Costs at most 2 % of ",
            "one CPU for samples, and looks at waits of 15 to 65 ms of one CPU for 100,000 ",
            "processes, 11 of them; the answer comes some seconds after the look. It sees what ",
            "happens during the look, and not what happens rarely. Less is seen without the ",
            "native engine (Linux on x86_64): what is not seen is told."]}.

looks() ->
    [
        #{command => top, title => "Busiest processes",
            takes => [{option, by}, {option, filter}, {option, rows, "processes to show (20)"},
                {seconds, every, 0.5, 30, "length of the interval that is measured (1)"}],
            about => [
                "The first processes of a node by a column over an interval: reductions a second, ",
                "share of time running, ready to run and collecting garbage, messages in the ",
                "mailbox, memory and its growth, and the function each was seen in most. A good ",
                "first question. Costs a pass over all processes (0.1 to 0.3 microseconds each, 3 ",
                "to 10 with a filter or by name). On a node with very many processes the interval ",
                "is longer than asked for."]},
        #{command => pstack, title => "Stacks now",
            takes => [{process, many, "whose stacks; without them what each scheduler runs now"}],
            about => [
                "The stack of what each scheduler runs at this moment, or of given processes, ",
                "whether they run or wait, with BIFs, NIFs and C functions. One instant, no ",
                "statistics: hot has these. Costs some 5 ms and an interruption of 6 microseconds ",
                "for each scheduler; processes are not asked. Needs the native engine (Linux on ",
                "x86_64)."]},
        #{command => waits, title => "Who waits for which process",
            takes => [{process, optional, "only the chain of this process: " ?PROCESS},
                {seconds, for, 0.1, 30, "look again for so long: how long waits last (one look)"},
                {option, top}],
            about => [
                "Which processes wait for which: callers and their servers, chains and what the ",
                "process at the end does, deadlocks. Tells a bottleneck: one process that many ",
                "wait for. Costs 15 to 65 ms of one CPU for 100,000 processes; no process is ",
                "interrupted. A wait for something else than a process, such as a timer or a ",
                "socket, is told as such."]},
        #{command => mailbox, title => "A mailbox",
            takes => [{process, one, ?PROCESS}, {option, senders}, {option, tags},
                {option, oldest},
                {seconds, time_limit, 0.1, 30, "of the reading (2)"}],
            about => [
                "Who fills the mailbox of a process, with which kinds of messages, how much ",
                "memory they take, and the oldest of them. Of a message only the tag atom and its sender ",
                "are read: no contents. Costs up to the time limit on a dirty scheduler; the ",
                "process is not asked and goes on."]},
        #{command => hot, title => "Hot stacks over some seconds",
            takes => [{seconds, for, 1, 30, "how long it records (10)"},
                {enum, mode, [processes, schedulers, cpu], "the 100 busiest processes at each "
                    "tick, or the CPU time of what schedulers run (processes)"},
                {enum, by, [samples | ?FLAME_PROF_METRICS], "what shares are of: samples are time, "
                    "a metric is its changes (samples)"},
                {option, idle}, {option, chains}, {option, min}, {option, top}],
            about => [
                "Records a profile for some seconds and answers its hot stacks as a tree, and its ",
                "hot functions and processes: where the time goes. With chains also why processes ",
                "wait. Costs at most 2 % of one CPU by the session's own budget; the answer comes ",
                "after the recording. The recording is removed. Refused while another session of ",
                "flame_prof runs in the node. Needs the native engine (Linux on x86_64) in a node ",
                "without flame_prof."]}
    ].

memory() ->
    [
        #{command => memory, title => "Memory of the node",
            takes => [],
            about => [
                "Where the memory of a node is: what its resident memory consists of, what each ",
                "allocator has and uses, fragmentation. Costs some milliseconds, more for each ",
                "gigabyte. Not by process: top by memory tells the largest, xray what one holds."]},
        #{command => binaries, title => "Who holds the refc binaries",
            takes => [{seconds, for, 0.1, 30, "look again after it: what has grown (one look)"},
                {seconds, time_limit, 0.1, 30, "of the reading (10)"}, {option, max_memory}],
            about => [
                "Which processes and ETS tables hold the binaries of more than 64 bytes, and how ",
                "much processes pin and by what: a small part of a large binary keeps all of it. ",
                "Tells a binary leak. No process is asked, stopped or collected, no table is ",
                "locked. Costs 50 ms of CPU for 100,000 binaries in 1,000 processes, 0.3 s for ",
                "100,000 processes. What queues of ports, timers and literals hold is one sum. ",
                "Needs the native engine (Linux on x86_64)."]},
        #{command => tables, title => "ETS tables",
            takes => [{seconds, for, 0.1, 30, "look again after it: growth (one look)"},
                {option, sort}, {option, top}],
            about => [
                "The ETS tables of a node by memory, objects or growth, with their owners; and ",
                "how many atoms, modules and persistent terms there are. Tells which table grows. ",
                "No table is locked or asked. Costs some 20 ms of CPU for 10,000 tables."]},
        #{command => xray, title => "What a process holds",
            takes => [{process, one, ?PROCESS},
                {seconds, time_limit, 0.1, 30, "of the reading (10)"}, {option, max_memory}],
            about => [
                "What one process holds: its memory by the ways from stack, dictionary and ",
                "mailbox, by type, garbage, and the binaries that it pins, with shapes and atoms ",
                "but no values. Costs up to the time limit and max_memory on a dirty scheduler; ",
                "the process goes on. A process that never stands still is refused. Needs the ",
                "native engine (Linux on x86_64)."]}
    ].

%% As flame_prof_cli_looks:needs/1: a node that the server has borrowed gets all modules.
-spec needs(atom()) -> {module(), refused | bare}.
needs(top) -> {flame_prof_top_sampler, bare};
needs(hot) -> {flame_prof_recording, refused};
needs(doctor) -> {flame_prof_doctor_evidence, bare};
needs(Command) ->
    {[Module | _], Without} = flame_prof_cli_looks:needs(Command),
    {Module, Without}.

%% @doc What a client tells its assistant once.
-spec instructions([binary()]) -> binary().
instructions(Nodes) ->
    unicode:characters_to_binary([
        "Looks into live Erlang nodes, and changes nothing there. Begin with doctor; then waits ",
        "and top, hot for CPU time, mailbox for a long queue, memory, tables, binaries and xray ",
        "for memory. Answers have names of modules, functions and processes, tag atoms and ",
        "numbers, but no values of messages or heaps. A pid is valid in the node that showed it, ",
        "as long as the process lives. A node without flame_prof is lent it until a minute after ",
        "the last question.",
        [[" Nodes: ", lists:join(", ", Nodes), "; the first is asked where none is named."]
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

properties(#{command := Command, takes := Takes}, Nodes) ->
    [node_property(Nodes) | [property(Take, Command) || Take <- Takes]].

node_property([]) ->
    {<<"node">>, string("the node: name@host"), true};
node_property([First | _] = Nodes) ->
    {<<"node">>, (string(["the node (", First, ")"]))#{enum => Nodes}, false}.

property({option, Key}, Command) ->
    {Key, _, About} = lists:keyfind(Key, 1, flame_prof_cli_args:options(Command)),
    property({option, Key, About}, Command);
property({option, Key, About}, Command) ->
    {Key, Kind, _} = lists:keyfind(Key, 1, flame_prof_cli_args:options(Command)),
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
of_kind({_, {whole, Least, Most}}) ->
    #{type => integer, minimum => Least, maximum => min(Most, ?COUNT_MOST)};
of_kind({_, percent}) -> #{type => number, minimum => 0, maximum => 100};
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

arguments(#{command := Command, takes := Takes} = Row, Given, Nodes) ->
    Properties = properties(Row, Nodes),
    Known = [Name || {Name, _, _} <- Properties],
    Unknown = maps:keys(Given) -- Known,
    Missing = [Name || {Name, _, true} <- Properties, not is_map_key(Name, Given)],
    Wrong = [{Name, Schema} || {Name, Schema, _} <- Properties, #{Name := Value} <- [Given],
        not is_valid(Schema, Value)],
    case {Unknown, Missing, Wrong} of
        {[], [], []} ->
            Node = maps:get(<<"node">>, Given, hd(Nodes ++ [<<>>])),
            {ok, lists:foldl(fun(Take, Call) -> taken(Take, Command, Given, Call) end,
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
taken({option, Key, _}, Command, Given, Call) ->
    taken({option, Key}, Command, Given, Call);
taken({option, Key}, Command, Given, Call) ->
    {Key, Kind, _} = lists:keyfind(Key, 1, flame_prof_cli_args:options(Command)),
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
    {Module, Without} = needs(Command),
    case flame_prof_mcp_node:borrow(Server, Module, Without) of
        {ok, Node} -> told(seen(Command, Node, Parsed));
        {error, _} = Error -> told(Error)
    end.

seen(top, Node, Parsed) ->
    flame_prof_cli_top:seen(Node, flame_prof_cli_nodes:timeout(Parsed), Parsed);
seen(doctor, Node, Parsed) ->
    flame_prof_cli_doctor:seen(Node, Parsed);
seen(hot, Node, Parsed) ->
    flame_prof_mcp_hot:seen(Node, flame_prof_cli_nodes:timeout(Parsed), Parsed);
seen(Command, Node, Parsed) ->
    Bounded = Parsed#{edges => ?COUNT_MOST},
    case flame_prof_cli_looks:seen(Command, Node, Bounded, [text, json]) of
        {ok, #{text := Text} = Seen} -> {ok, Seen#{text := [atom_to_list(Node), "\n", Text]}};
        {error, _} = Error -> Error
    end.

told({ok, Seen}) -> {ok, Seen};
told({error, Reason}) -> {error, flame_prof:format_error(Reason)}.
