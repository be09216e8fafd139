%% @private The commands, what each takes, and the words of a command line taken
%% apart by that. The same table makes the help.
-module(flame_prof_cli_args).

-include("flame_prof.hrl").

-define(COLUMNS, 97).
-define(ABOUT_COLUMNS, 80).

-export([parse/1, help/0, help/1, options/1]).

-export_type([parsed/0, failure/0, option/0, command/0]).

-type parsed() :: #{command := atom(), arguments := [string()], atom() => term()}.

%% What a command ends with: the command line is wrong, or something has failed.
-type failure() ::
    {error, {usage, unicode:chardata()} | flame_prof:reason() | unicode:chardata()}.

%% Name, what it takes, what it does. `flag' takes nothing.
-type option() :: {atom(), flag | {string(), flame_prof_cli_values:kind()}, unicode:chardata()}.

%% Name, usage, fewest and most arguments, what it does.
-type command() :: {atom(), string(), {non_neg_integer(), non_neg_integer()}, unicode:chardata()}.

%% @doc `{usage, Text}': it is wrong, and Text says what.
-spec parse([string()]) -> {ok, parsed()} | {help, unicode:chardata()} | {usage,
    unicode:chardata()}.
parse([]) ->
    {usage, ["a command is missing\n", commands()]};
parse(["help", Command]) ->
    parse([Command, "--help"]);
parse([Help | _]) when Help =:= "--help"; Help =:= "-h"; Help =:= "help" ->
    {help, help()};
parse(["--version" | _]) ->
    {ok, #{command => version, arguments => []}};
parse([Word | Words]) ->
    case [Command || {Command, _, _, _} <- table(), atom_to_list(Command) =:= Word] of
        [Command] -> parse(Command, Words);
        [] -> {usage, ["unknown command ", quoted(Word), "\n", commands()]}
    end.

parse(Command, Words) ->
    case lists:any(fun(W) -> W =:= "--help" orelse W =:= "-h" end, before_dashes(Words)) of
        true -> {help, help(Command)};
        false -> words(Words, #{command => Command, arguments => []}, options(Command))
    end.

before_dashes(Words) ->
    lists:takewhile(fun(Word) -> Word =/= "--" end, Words).

words([], #{command := Command, arguments := Arguments} = Parsed, _Options) ->
    placed(Command, Parsed#{arguments := lists:reverse(Arguments)});
words(["--" | Rest], #{arguments := Arguments} = Parsed, Options) ->
    words([], Parsed#{arguments := lists:reverse(Rest) ++ Arguments}, Options);
words(["--" ++ Word | Words], #{command := Command} = Parsed, Options) ->
    {Name, Given} =
        case string:split(Word, "=") of
            [N, V] -> {N, {value, V}};
            [N] -> {N, none}
        end,
    Today = today(Name, Command),
    case [Option || {Key, _, _} = Option <- Options, spelled(Key) =:= Today] of
        [Option] -> option(Option, Given, Words, Parsed, Options);
        [] -> {usage, ["--", Name, ": unknown option; ", known(Options)]}
    end;
words([Word | Words], #{arguments := Arguments} = Parsed, Options) ->
    words(Words, Parsed#{arguments := [Word | Arguments]}, Options).

today(Name, Command) ->
    Older = flame_prof_cli_look_options:older(Command),
    hd([spelled(Key) || {Old, Key} <- Older, spelled(Old) =:= Name] ++ [Name]).

option({Key, flag, _}, none, Words, Parsed, Options) ->
    words(Words, Parsed#{Key => true}, Options);
option({Key, flag, _}, {value, _}, _Words, _Parsed, _Options) ->
    {usage, ["--", spelled(Key), " takes no value"]};
option({Key, {Takes, _}, _}, none, [], _Parsed, _Options) ->
    {usage, ["--", spelled(Key), " takes ", Takes]};
option(Option, none, [Value | Words], Parsed, Options) ->
    option(Option, {value, Value}, Words, Parsed, Options);
option({Key, {_, Kind}, _}, {value, Text}, Words, Parsed, Options) ->
    case flame_prof_cli_values:value(Kind, Text) of
        {ok, Value} -> words(Words, put_value(Kind, Key, Value, Parsed), Options);
        error -> {usage, ["--", spelled(Key), ": ", quoted(Text), "; it takes ",
            flame_prof_cli_values:accepts(Kind)]}
    end.

%% These may be given again.
put_value(Kind, Key, Value, Parsed) when Kind =:= nodes; Kind =:= setting;
    Kind =:= threshold
->
    Parsed#{Key => maps:get(Key, Parsed, []) ++ Value};
put_value(_Kind, Key, Value, Parsed) ->
    Parsed#{Key => Value}.

%% The node of a command: its first argument or --node. --node takes a list of nodes.
placed(Command, Parsed) ->
    case {node_form(Command), Parsed} of
        {arguments, #{node := Nodes, arguments := Arguments}} ->
            counted(Command, maps:remove(node, Parsed#{arguments := Nodes ++ Arguments}));
        {one, #{node := [_, _ | _]}} ->
            {usage, [atom_to_list(Command), " looks at one node"]};
        {Form, _} when Form =:= arguments; Form =:= files ->
            counted(Command, Parsed);
        {_, #{node := _}} ->
            counted(Command, Parsed);
        {_, #{arguments := [Node | Targets]}} ->
            counted(Command, Parsed#{node => [Node], arguments := Targets});
        {_, _} ->
            {usage, ["a node is missing; usage: flame_prof ", usage(Command)]}
    end.

%% How the module of a command has the node: in `node', of one or of several, or as arguments. A
%% command that reads files has none.
node_form(Command) when Command =:= attach; Command =:= doctor; Command =:= mcp -> arguments;
node_form(Command) when Command =:= trace; Command =:= latency; Command =:= allocations -> one;
node_form(Command) when
    Command =:= check; Command =:= export; Command =:= report; Command =:= view
->
    files;
node_form(Command) ->
    case flame_prof_cli_look_options:module(Command) of
        {ok, Module} ->
            case flame_prof_cli_look_options:is_of_files(Module) of
                true -> files;
                false -> several
            end;
        error ->
            several
    end.

usage(Command) ->
    {Command, Usage, _, _} = lists:keyfind(Command, 1, table()),
    Usage.

counted(Command, #{arguments := Arguments} = Parsed) ->
    {Command, Usage, {Least, Most}, _} = lists:keyfind(Command, 1, table()),
    case length(Arguments) of
        N when N < Least -> {usage, ["too few arguments; usage: flame_prof ", Usage]};
        N when N > Most -> {usage, ["unexpected argument ",
            quoted(lists:nth(Most + 1, Arguments)), "; usage: flame_prof ", Usage]};
        _ -> required(Command, Parsed)
    end.

required(export, Parsed) when not is_map_key(as, Parsed) ->
    {usage, ["--as is missing: ",
        flame_prof_cli_values:accepts({one_of, flame_prof_query:formats()})]};
required(_, Parsed) ->
    {ok, Parsed}.

%% The table.

statuses() -> [all | ?FLAME_PROF_STATUSES].

-spec table() -> [command()].
table() ->
    [attach() | [flame_prof_cli_look_options:command(Look) || Look <- flame_prof_look:modules()]]
        ++ others().

attach() ->
    {attach, "attach NODE... [--for TIME] [options]", {1, 64},
        "Profile a running node that does not have flame_prof."}.

others() ->
    Any = 100000,
    [
        {check, "check FILE... [options]", {1, Any},
            "Check files: damage, contents, losses."},
        {export, "export FILE... --as FORMAT [options]", {1, Any},
            "Write a file for another tool."},
        {report, "report FILE... [options]", {1, Any},
            "Make one HTML page of files, to be opened in a browser or sent by mail."},
        {mcp, "mcp [NODE...] [options]", {0, 64},
            "Serve an assistant by the Model Context Protocol; reads only."},
        {view, "view FOLDER|FILE [options]", {1, 1},
            "Show files in a browser on this machine, until Ctrl-C."},
        {info, "info NODE [options]", {0, 0},
            "Show the session in a node: rates, losses, files."},
        {start, "start NODE [options]", {0, 0},
            "Start a session in nodes that have flame_prof."},
        {flush, "flush NODE [options]", {0, 0},
            "Write every sample taken so far to the file."},
        {stop, "stop NODE [options]", {0, 0}, "End the session and finish its file."}
    ].

%% @doc Of a command, with what each takes.
-spec options(atom()) -> [option()].
options(attach) ->
    attach_options() ++ session_options() ++ node_options() ++ json();
options(mcp) ->
    node_options();
options(check) -> [event_option(), memory_option()] ++ json();
options(export) ->
    [
        {as, {"FORMAT", {one_of, flame_prof_query:formats()}}, either(flame_prof_query:formats())},
        {output, {"FILE", file}, "where to (beside the first file); - is the standard output"},
        {by, {"METRIC", metric}, "samples, a metric, value:METRIC, delta:METRIC (samples)"},
        {group_by, {"LIST", dimensions}, "outermost first, as in status,process (status)"},
        {from, {"TIME", moment}, "only samples from this time on, after the first sample: 500ms, 30s"},
        {to, {"TIME", duration}, "only samples before this time after the first sample"},
        {status, {"STATUS", {one_of, flame_prof_query:selections()}},
            "only samples of this status, as running or active (all)"},
        {process, {"NAME", file}, "only of processes of this pid, name, label or initial call"},
        {lines, {"BOOLEAN", {one_of, [true, false]}},
            "two lines of a function are two frames (true; for speedscope false)"},
        {chains, flag, "what processes wait for: its stack below theirs (not firefox)"},
        event_option(),
        memory_option()
    ] ++ json();
options(report) ->
    [{output, {"FILE", file}, "where to (the first file's name with .html)"}, event_option()];
options(view) ->
    view_options() ++ lists:keydelete(port, 1, connection_options());
options(start) ->
    [{output, {"DIR", file}, "the folder of the files, in the node's file system"}] ++
        session_options() ++ node_options() ++ json();
options(trace) ->
    flame_prof_cli_look_options:options(flame_prof_trace) ++ node_options();
options(Command) ->
    case flame_prof_cli_look_options:module(Command) of
        {ok, Look} ->
            Node = case flame_prof_cli_look_options:is_of_files(Look) of
                true -> [];
                false -> node_options()
            end,
            flame_prof_cli_look_options:options(Look) ++ Node ++ json();
        error ->
            node_options() ++ json()
    end.

view_options() ->
    [
        {port, {"PORT", {whole, 0, 65535}}, "to listen on; 0: any free one (0)"},
        {node, {"NODE", nodes}, "whose calls the page measures on request"}
    ].

attach_options() ->
    [
        {for, {"TIME", duration}, "how long: 500ms, 30s, 5m (30s)"},
        {output, {"DIR", file}, "where the files go (the current folder)"},
        {report, {"FILE", file}, "also make an HTML page: what was sampled, and the findings"},
        {quiet, flag, "no table of the hottest stacks at the end"}
    ].

session_options() ->
    [
        {top, {"N[:MS]", top}, "the N busiest processes, selected again every MS (100:5000)"},
        {interval, {"MS", {whole, 1, 60000}}, "between two samples of a process (9)"},
        {status, {"STATUS", {one_of, statuses()}},
            "only while a process has this status, such as running (all)"},
        {mode, {"MODE", {one_of, [processes, schedulers, cpu]}},
            "sample processes, or the CPU time of what schedulers run (processes)"},
        engine_option(),
        {set, {"KEY=TERM", setting}, "any option of flame_prof:start/1, listed below; TERM as in sys.config"}
    ].

engine_option() ->
    {engine, {"ENGINE", {one_of, [auto, native, portable]}},
        "native, portable, or what the node can do (auto)"}.

node_options() ->
    [{node, {"NODE", nodes}, "name@host, instead of the argument; with commas for several"}]
        ++ connection_options().

connection_options() ->
    [
        {cookie, {"COOKIE", text}, "of the node; seen by all users of this host: see the next one"},
        {cookie_file, {"FILE", file}, "whose first line it is (~/.erlang.cookie)"},
        {port, {"[HOST:]PORT", port},
            "where the node listens, without epmd or through ssh -L"},
        {tls, {"FILE", file}, "connect by TLS: the node's ssl_dist_optfile, or another one"},
        {dist_opt, {"FLAGS", text}, "for the distribution of erl, as '-proto_dist inet6_tcp'"},
        {timeout, {"TIME", duration}, "to wait for an answer (10s)"}
    ].

event_option() ->
    {event, {"NAME", text}, "of several events in files of perf: only its samples, or all (the first)"}.

memory_option() ->
    {max_memory, {"MB", {whole, 1, 1 bsl 20}}, "megabytes that reading may take (1024)"}.

json() ->
    [{json, flag, "print JSON"}].

%% Help.

-spec help() -> unicode:chardata().
help() ->
    [
        "flame_prof: a sampling profiler for live Erlang nodes\n\n",
        commands(),
        "\nflame_prof COMMAND --help says more, with an example; flame_prof --version the version.\n",
        "\nExit status: 0 done; 1 refused or failed; 2 the command line is wrong; 3 the node cannot\n",
        "be reached, or this flame_prof is incompatible with it; 4 a file was damaged;\n",
        "10 the doctor found something; 130 interrupted.\n"
    ].

commands() ->
    ["Commands:\n"] ++
        [listed(atom_to_list(C), flame_prof_text:wrapped(About, ?ABOUT_COLUMNS))
            || {C, _, _, About} <- table()].

listed(Name, [First | Rest]) ->
    [["  ", string:pad(Name, 13), First, "\n"] |
        [["  ", lists:duplicate(13, $\s), Line, "\n"] || Line <- Rest]].

-spec help(atom()) -> unicode:chardata().
help(Command) ->
    {Command, Usage, _, About} = lists:keyfind(Command, 1, table()),
    [
        ["flame_prof ", Usage, "\n\n"],
        [[Line, "\n"] || Line <- flame_prof_text:wrapped(About, ?COLUMNS)], "\n",
        [["  ", string:pad(title(Option), 20), element(3, Option), "\n"]
            || Option <- options(Command)],
        ["\n" || options(Command) =/= []],
        settings(Command),
        flame_prof_cli_help:more(Command),
        ["Example:\n", [["  $ ", Line, "\n"] || Line <- flame_prof_cli_help:example(Command)]]
    ].

settings(attach) ->
    Without = [dir, duration, triggers, lookback],
    ["Options for --set:\n", flame_prof_options_doc:help(Without), "\n"];
settings(start) ->
    ["Options for --set:\n", flame_prof_options_doc:help([dir]), "\n"];
settings(_) ->
    "".

title({Key, flag, _}) -> ["--", spelled(Key)];
title({Key, {Takes, _}, _}) -> ["--", spelled(Key), " ", Takes].

either(Atoms) ->
    lists:join(", ", [atom_to_list(Atom) || Atom <- lists:droplast(Atoms)]) ++
        [" or ", atom_to_list(lists:last(Atoms))].

spelled(Key) -> lists:flatten(string:replace(atom_to_list(Key), "_", "-", all)).

names(Options) ->
    lists:join(", ", [["--", spelled(Key)] || {Key, _, _} <- Options]).

known(Options) -> ["there are: ", names(Options)].

quoted(Text) ->
    io_lib:format("~tp", [Text]).
