%% @private The commands, what each takes, and the words of a command line taken
%% apart by that. The same table makes the help.
-module(flame_prof_cli_args).

-include("flame_prof.hrl").

-export([parse/1, help/0, help/1, options/1]).

-export_type([parsed/0, failure/0, option/0, kind/0]).

-type parsed() :: #{command := atom(), arguments := [string()], atom() => term()}.

%% What a command ends with: the command line is wrong, or something has failed.
-type failure() ::
    {error, {usage, unicode:chardata()} | flame_prof:reason() | unicode:chardata()}.

%% Name, what it takes, what it does. `flag' takes nothing.
-type option() :: {atom(), flag | {string(), kind()}, unicode:chardata()}.
-type kind() ::
    text | file | nodes | duration | moment | metric | dimensions | setting
    | {whole, integer(), integer()} | percent | share | port | top | threshold
    | {one_of, [atom()]}.

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
words(["--" ++ Word | Words], Parsed, Options) ->
    {Name, Given} =
        case string:split(Word, "=") of
            [N, V] -> {N, {value, V}};
            [N] -> {N, none}
        end,
    case [Option || {Key, _, _} = Option <- Options, spelled(Key) =:= Name] of
        [Option] -> option(Option, Given, Words, Parsed, Options);
        [] -> {usage, ["--", Name, ": unknown option; ", known(Options)]}
    end;
words([Word | Words], #{arguments := Arguments} = Parsed, Options) ->
    words(Words, Parsed#{arguments := [Word | Arguments]}, Options).

option({Key, flag, _}, none, Words, Parsed, Options) ->
    words(Words, Parsed#{Key => true}, Options);
option({Key, flag, _}, {value, _}, _Words, _Parsed, _Options) ->
    {usage, ["--", spelled(Key), " takes no value"]};
option({Key, {Takes, _}, _}, none, [], _Parsed, _Options) ->
    {usage, ["--", spelled(Key), " takes ", Takes]};
option(Option, none, [Value | Words], Parsed, Options) ->
    option(Option, {value, Value}, Words, Parsed, Options);
option({Key, {_, Kind}, _}, {value, Text}, Words, Parsed, Options) ->
    case value(Kind, Text) of
        {ok, Value} -> words(Words, put_value(Kind, Key, Value, Parsed), Options);
        error -> {usage, ["--", spelled(Key), ": ", quoted(Text), "; it takes ", accepts(Kind)]}
    end.

%% These may be given again.
put_value(Kind, Key, Value, Parsed) when Kind =:= nodes; Kind =:= setting;
    Kind =:= threshold
->
    Parsed#{Key => maps:get(Key, Parsed, []) ++ Value};
put_value(_Kind, Key, Value, Parsed) ->
    Parsed#{Key => Value}.

value(text, Text) ->
    {ok, Text};
value(file, Text) ->
    not_empty(Text);
value(nodes, Text) ->
    not_empty(string:lexemes(Text, ","));
value({whole, Least, Most}, Text) ->
    case string:to_integer(Text) of
        {N, ""} when is_integer(N), N >= Least, N =< Most -> {ok, N};
        _ -> error
    end;
value(percent, Text) ->
    percent(Text, 0);
value(share, Text) ->
    percent(Text, 0.01);
value(duration, Text) ->
    case string:to_integer(Text) of
        {N, Unit} when is_integer(N), N > 0 -> duration(N, Unit);
        _ -> error
    end;
value(moment, Text) ->
    case string:to_integer(Text) of
        {0, Unit} when Unit =:= ""; Unit =:= "s" -> {ok, 0};
        _ -> value(duration, Text)
    end;
value({one_of, Atoms}, Text) ->
    case [Atom || Atom <- Atoms, atom_to_list(Atom) =:= Text] of
        [Atom] -> {ok, Atom};
        [] -> error
    end;
value(port, Text) ->
    case string:split(Text, ":", trailing) of
        [Port] -> port(host, Port);
        [[_ | _] = Host, Port] -> port(string:trim(Host, both, "[]"), Port);
        _ -> error
    end;
value(top, Text) ->
    case [string:to_integer(Part) || Part <- string:split(Text, ":")] of
        [{N, ""}] when is_integer(N) -> {ok, {top, N}};
        [{N, ""}, {Ms, ""}] when is_integer(N), is_integer(Ms) -> {ok, {top, N, Ms}};
        _ -> error
    end;
value(threshold, Text) ->
    case string:split(Text, "=") of
        [Name, Value] -> threshold(Name, string:to_float(Value), string:to_integer(Value));
        _ -> error
    end;
value(setting, Text) ->
    case string:split(Text, "=") of
        [[_ | _] = Key, [_ | _] = Value] -> setting(Key, Value);
        _ -> error
    end;
value(Kind, Text) ->
    of_files(Kind, Text).

%% What the commands that read files take.
of_files(metric, "value:" ++ [_ | _] = Text) ->
    {ok, {value, binary_part_after(":", Text)}};
of_files(metric, "delta:" ++ [_ | _] = Text) ->
    {ok, {delta, binary_part_after(":", Text)}};
of_files(metric, "samples") ->
    {ok, samples};
of_files(metric, "period") ->
    {ok, period};
of_files(metric, Text) ->
    case not_empty(Text) of
        {ok, _} -> {ok, unicode:characters_to_binary(Text)};
        error -> error
    end;
of_files(dimensions, Text) ->
    Levels = [[Dimension || Dimension <- flame_prof_query:dimensions(),
        atom_to_list(Dimension) =:= Word] || Word <- string:lexemes(Text, ",")],
    case lists:member([], Levels) of
        true -> error;
        false -> {ok, lists:append(Levels)}
    end.

%% An unknown name is refused with the list of the known ones.
threshold(Name, {Float, ""}, _) when is_float(Float) -> {ok, [{threshold_name(Name), Float}]};
threshold(Name, _, {N, ""}) when is_integer(N) -> {ok, [{threshold_name(Name), N}]};
threshold(_Name, _, _) -> error.

threshold_name(Text) ->
    Known = [Name || {Name, _, _} <- flame_prof_doctor:thresholds(), atom_to_list(Name) =:= Text],
    hd(Known ++ [unicode:characters_to_binary(Text)]).

percent(Text, Least) ->
    case {string:to_float(Text), string:to_integer(Text)} of
        {{F, ""}, _} when is_float(F), F >= Least, F =< 100 -> {ok, F};
        {_, {N, ""}} when is_integer(N), N >= Least, N =< 100 -> {ok, N};
        _ -> error
    end.

port(Host, Text) ->
    case value({whole, 1, 65535}, Text) of
        {ok, Port} -> {ok, {Host, Port}};
        error -> error
    end.

binary_part_after(Separator, Text) ->
    [_, After] = string:split(Text, Separator),
    unicode:characters_to_binary(After).

not_empty([]) -> error;
not_empty(Value) -> {ok, Value}.

duration(N, Unit) when Unit =:= "s"; Unit =:= "" -> {ok, N * 1000};
duration(N, "m") -> {ok, N * 60000};
duration(N, "h") -> {ok, N * 3600000};
duration(N, "ms") -> {ok, N};
duration(_, _) -> error.

%% The options of flame_prof:start/1 by their own names; a term as in sys.config.
setting(Key, Value) ->
    Known = [Atom || Atom <- flame_prof_options:names(), atom_to_list(Atom) =:= Key],
    case {Known, erl_scan:string(Value ++ ".")} of
        {[Atom], {ok, Tokens, _}} ->
            case erl_parse:parse_term(Tokens) of
                {ok, Term} -> {ok, [{Atom, Term}]};
                {error, _} -> error
            end;
        _ ->
            error
    end.

accepts(nodes) -> "a node's name, or several with commas";
accepts({whole, Least, Most}) -> io_lib:format("a whole number from ~b to ~b", [Least, Most]);
accepts(port) -> "a port, or HOST:PORT";
accepts(percent) -> "a number from 0 to 100";
accepts(share) -> "a number from 0.01 to 100";
accepts(Time) when Time =:= duration; Time =:= moment -> "a time such as 500ms, 30s, 5m or 1h";
accepts({one_of, Atoms}) -> ["one of: ", lists:join(", ", [atom_to_list(Atom) || Atom <- Atoms])];
accepts(top) -> "a number of processes, or with the interval of the choice, as in 100:5000";
accepts(metric) -> "samples, period, a metric, value:METRIC or delta:METRIC";
accepts(dimensions) ->
    Names = [atom_to_list(Dimension) || Dimension <- flame_prof_query:dimensions()],
    ["a list of ", lists:join(", ", Names)];
accepts(threshold) -> "NAME=N, as in limit_warning=0.7";
accepts(setting) ->
    Keys = [atom_to_list(Key) || Key <- flame_prof_options:keys()],
    ["KEY=TERM, KEY being one of: ", lists:join(", ", Keys)];
accepts(_) -> "a text that is not empty".

%% The node of a command: its first argument or --node. Of several nodes --node has a list.
placed(Command, Parsed) ->
    case {node_form(Command), Parsed} of
        {arguments, #{node := Nodes, arguments := Arguments}} ->
            counted(Command, maps:remove(node, Parsed#{arguments := Nodes ++ Arguments}));
        {first, #{node := [Node], arguments := Arguments}} ->
            counted(Command, maps:remove(node, Parsed#{arguments := [Node | Arguments]}));
        {first, #{node := _}} ->
            {usage, [atom_to_list(Command), " looks at one node"]};
        {option, #{node := _}} ->
            counted(Command, Parsed);
        {option, #{arguments := [Node | Targets]}} ->
            counted(Command, Parsed#{node => [Node], arguments := Targets});
        {option, _} ->
            {usage, ["a node is missing; usage: flame_prof ", usage(Command)]};
        {_, _} ->
            counted(Command, Parsed)
    end.

%% How the module of a command has the node: in `node', as the first argument, or among several. A
%% command that reads files has none.
node_form(Command) when Command =:= attach; Command =:= doctor; Command =:= mcp -> arguments;
node_form(Command) when Command =:= trace; Command =:= latency; Command =:= allocations -> first;
node_form(Command) when
    Command =:= hot; Command =:= 'slow-calls'; Command =:= check; Command =:= export;
    Command =:= report; Command =:= view
->
    files;
node_form(_) -> option.

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
    {usage, ["--as is missing: ", accepts({one_of, flame_prof_query:formats()})]};
required(_, Parsed) ->
    {ok, Parsed}.

%% The table.

statuses() -> [all | ?FLAME_PROF_STATUSES].

%% Command, usage, fewest and most arguments, what it does.
table() ->
    Any = 100000,
    [
        {attach, "attach NODE... [--for TIME] [options]", {1, 64},
            "Profile a running node that does not have flame_prof."},
        {doctor, "doctor NODE [--for TIME] [options]", {1, Any},
            "What is wrong with a node, in sentences, the cause first."},
        {top, "top NODE [options]", {0, 0}, "The first processes of a node by a column, live."},
        {pstack, "pstack NODE [PROCESS...] [options]", {0, Any},
            "What every scheduler runs now, or what some processes do."},
        {mailbox, "mailbox NODE PROCESS [options]", {1, 1},
            "Who fills a mailbox, and with what."},
        {memory, "memory NODE [options]", {0, 0},
            "Where the memory of a node is: RSS explained, allocators, fragmentation."},
        {tables, "tables NODE [options]", {0, 0},
            "The ETS tables: owner, objects, memory, growth; atoms, code, persistent terms."},
        {xray, "xray NODE PROCESS [options]", {1, 1},
            "What a process holds: memory by the ways to it, and binaries."},
        {binaries, "binaries NODE [options]", {0, 0},
            "Who holds the refc binaries: processes, ETS tables; what is pinned, what grows."},
        {waits, "waits NODE [PROCESS] [options]", {0, 1},
            "Which processes wait for which: chains, their ends, deadlocks."},
        {trace, "trace NODE PATTERN... [options]", {2, 64},
            "Calls, returns, messages as text: limited in rate, number and size."},
        {latency, "latency NODE FUNCTION... [options]", {2, 65},
            "How long calls of functions take: quantiles, histogram, by process and caller."},
        {allocations, "allocations NODE [options]", {1, 1},
            "Which code allocates: by stack and process, what survives, collections."},
        {hot, "hot FILE... [options]", {1, Any}, "What was active in files: stacks, functions and processes."},
        {'slow-calls', "slow-calls FILE... [options]", {1, Any},
            "The longest calls between processes: caller, callee, request, both stacks."},
        {check, "check FILE... [options]", {1, Any},
            "Are the files whole, what do they hold, what was lost?"},
        {export, "export FILE... --as FORMAT [options]", {1, Any},
            "Write a file for another tool."},
        {report, "report FILE... [options]", {1, Any},
            "Make one HTML page of files, to be opened in a browser or sent by mail."},
        {mcp, "mcp [NODE...] [options]", {0, 64},
            "Answer an assistant about nodes, by the Model Context Protocol; reads only."},
        {view, "view FOLDER|FILE [options]", {1, 1},
            "Show files in a browser on this machine, until Ctrl-C."},
        {info, "info NODE [options]", {0, 0},
            "What runs in a node: rates, losses, files."},
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
options(top) -> top_options() ++ node_options() ++ json();
options(mailbox) ->
    mailbox_options() ++ node_options() ++ json();
options(doctor) ->
    doctor_options() ++ node_options() ++ json();
options(xray) ->
    xray_options() ++ node_options() ++ json();
options(binaries) ->
    [{for, {"TIME", duration}, "look again after it: what has grown (once)"} | options(xray)];
options(tables) ->
    tables_options() ++ node_options() ++ json();
options(waits) ->
    waits_options() ++ node_options() ++ json();
options(mcp) ->
    node_options();
options(trace) ->
    trace_options() ++ node_options();
options(Measures) when Measures =:= latency; Measures =:= allocations ->
    measuring_options(Measures) ++ node_options() ++ json();
options(hot) ->
    [
        {by, {"METRIC", metric}, "samples, a metric such as reductions, value:METRIC (samples)"},
        {idle, flag, "with what waits, and idle schedulers: --status all"},
        {status, {"STATUS", {one_of, [active | statuses()]}},
            "only samples of this status, as running (active; by a metric all)"},
        {files, flag, "sort into files first: one for each node"},
        {group_by, {"LIST", dimensions}, "below the status, as in process,message (none)"},
        {chains, flag, "what processes wait for: its stack below theirs, down to the process that runs"},
        {top, {"N", {whole, 1, 100000}}, "functions to list (20)"},
        {min, {"PERCENT", percent}, "leave out branches below it (1)"},
        {depth, {"N", {whole, 1, 1000}}, "frames of a branch (40)"},
        event_option(),
        memory_option()
    ] ++ json();
options('slow-calls') -> slow_calls_options() ++ json();
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
        {levels, {"LIST", dimensions}, "an earlier name of --group-by"},
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
options(_) ->
    node_options() ++ json().

top_options() ->
    [
        {every, {"TIME", duration}, "between two tables (1s)"},
        {by, {"COLUMN", {one_of, flame_prof_top:columns()}},
            [either(flame_prof_top:columns()), " (reductions)"]},
        {sort, {"COLUMN", {one_of, flame_prof_top:columns()}}, "an older name of --by"},
        {filter, {"TEXT", text}, "only processes whose name or function has it"},
        {rows, {"N", {whole, 1, 1000}}, "processes to show (what finds room)"},
        {count, {"N", {whole, 1, 1000000}}, "tables to print, then end (no end)"}
    ].

view_options() ->
    [
        {port, {"PORT", {whole, 0, 65535}}, "to listen on; 0: any free one (0)"},
        {node, {"NODE", nodes}, "whose calls the page measures on request"}
    ].

waits_options() ->
    [
        {for, {"TIME", duration}, "look again until then: how long waits have lasted (once)"},
        {top, {"N", {whole, 1, 100000}}, "waited-for processes to show (10)"},
        {nodes, {"NODES", nodes}, "nodes that the node is connected to, to follow chains to"}
    ].

trace_options() ->
    [
        {for, {"TIME", duration}, "how long at most (60s)"},
        {events, {"N", {whole, 1, 1000000}}, "how many at most (1000)"},
        {rate, {"N", {whole, 1, 10000}}, "events a second in the long run (100)"},
        {burst, {"N", {whole, 1, 10000}}, "events at once (100)"},
        {cpu, {"PERCENT", share}, "of the node's CPUs at most; then it ends (5)"},
        {process, {"NAMES", file}, "of these only: names or pids, with commas (all)"},
        {first, {"PATTERN", text}, "of a call, send or receive: only processes that did it, from then on"},
        {follow, {"WHAT", {one_of, [none, spawn, send, spawn_and_send]}},
            "also what a traced process spawns, sends to, or both (none)"},
        {depth, {"N", {whole, 0, 30}}, "of terms: how far they are nested (8)"},
        {bytes, {"N", {whole, 64, 8192}}, "of terms: size of the copy (1024)"},
        {items, {"N", {whole, 1, 1000}}, "of terms: elements of a list, tuple or map (100)"},
        {output, {"FILE", file}, "to a new file on this machine, for its owner only"}
    ].

slow_calls_options() ->
    [
        {ticks, {"N", {whole, 1, 1000000}}, "calls that were seen at N ticks at least (3)"},
        {top, {"N", {whole, 1, 1000000}}, "calls to list (20)"},
        memory_option()
    ].

measuring_options(latency) ->
    [
        {for, {"TIME", duration}, "how long: 500ms, 10s, 1m (10s)"},
        {prometheus, flag, "print histograms in Prometheus' text form"},
        {max_cpu, {"PERCENT", share}, "of the node's CPU time for measuring; above, it ends (5)"},
        {max_rate, {"N", {whole, 1, 1000000000}}, "measured calls a second; above, it ends (1000000)"},
        {max_calls, {"N", {whole, 1, 4294967295}}, "measured calls; then it ends (100000000)"}
    ];
measuring_options(allocations) ->
    [
        {for, {"TIME", duration}, "how long: 500ms, 10s, 1m (10s)"},
        {bytes, {"BYTES", {whole, 8, 1 bsl 32}}, "from sample to sample, in the mean (524288)"},
        {long_gc, {"TIME", duration}, "collections of this length or more are listed (1ms)"},
        {max_cpu, {"PERCENT", share}, "of the node's CPU time for measuring; above, it ends (5)"},
        {collapsed, flag, "print a line for each stack, for flamegraph.pl and others"}
    ].

mailbox_options() ->
    [
        {senders, {"N", {whole, 1, 1000}}, "senders to show (20)"},
        {tags, {"N", {whole, 1, 1000}}, "kinds of messages to show (20)"},
        {oldest, {"N", {whole, 0, 100}}, "of the oldest messages to show (20)"},
        {time_limit, {"TIME", duration}, "of the reading, up to 60s (2s)"}
    ].

attach_options() ->
    [
        {for, {"TIME", duration}, "how long: 500ms, 30s, 5m (30s)"},
        {output, {"DIR", file}, "where the files go (the current folder)"},
        {report, {"FILE", file}, "also make an HTML page: what was sampled, and the findings"},
        {quiet, flag, "no table of the hottest stacks at the end"}
    ].

tables_options() ->
    [
        {for, {"TIME", duration}, "look again after it, up to 60s: growth (once)"},
        {sort, {"BY", {one_of, [memory, objects, growth]}}, "memory, objects or growth (memory)"},
        {top, {"N", {whole, 1, 1000000}}, "tables to show (20)"}
    ].

doctor_options() ->
    [
        {for, {"TIME", duration}, "how long to look, from 1s to 60s (10s)"},
        {report, {"FILE", file}, "also make an HTML page of what was sampled"},
        {threshold, {"NAME=N", threshold}, "another threshold; again for several"},
        engine_option()
    ].

xray_options() ->
    [
        {time_limit, {"TIME", duration}, "of the reading, up to 10m (10s)"},
        {max_memory, {"MB", {whole, 16, 1 bsl 20}}, "megabytes that it takes in the node (64)"}
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
        [["  ", string:pad(atom_to_list(C), 13), About, "\n"] || {C, _, _, About} <- table()].

-spec help(atom()) -> unicode:chardata().
help(Command) ->
    {Command, Usage, _, About} = lists:keyfind(Command, 1, table()),
    [
        ["flame_prof ", Usage, "\n\n", About, "\n\n"],
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
