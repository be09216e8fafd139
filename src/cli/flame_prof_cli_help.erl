%% @private What the help of a command says behind its options, and its examples.
-module(flame_prof_cli_help).

-export([more/1, example/1]).

-define(COLUMNS, 97).
-define(LENT, "A node without flame_prof gets it for as long as this runs.\n\n").

-spec more(atom()) -> unicode:chardata().
more(attach) ->
    "Modules and library are sent to the node, and removed from it in any case: at the end, on\n"
    "Ctrl-C, and when this command is killed or cut off. Each node has a file of its own.\n"
    "Ctrl-C ends early and keeps what was sampled until then.\n\n";
more(view) ->
    "With --node the page has a panel that measures calls of it while it is open.\n" ?LENT;
more(mcp) ->
    "The program of an assistant starts it; it ends with its standard input. With nodes in the\n"
    "command only these are used. A node without flame_prof has it until a minute after the last\n"
    "call.\n\n";
more(Command) when Command =:= check; Command =:= export; Command =:= report ->
    of_files();
more(Command) ->
    case flame_prof_cli_look_options:module(Command) of
        {ok, Look} -> of_look(flame_prof_look:about(Look));
        error -> ""
    end.

of_files() ->
    "The status is 0 when all is whole, 4 when something is damaged or cut off and was left out, 1\n"
    "when nothing can be read.\n\n".

of_look(#{name := Name, cost := Cost, shows := Shows, argument := {Key, _, _, _}, runs := Runs}) ->
    [
        [[Line, "\n"] || Text <- [[Cost, " Shows: ", Shows], own(Name), argument(Key)],
            Line <- flame_prof_text:wrapped(Text, ?COLUMNS)],
        case Runs of
            files -> of_files();
            _ -> ?LENT
        end
    ].

own(doctor) ->
    "Instead of a node it takes files of a session, and then judges by samples only. The status "
    "is 10 with findings, and 0 without. doc/doctor.md has the "
    "names of the thresholds.";
own(top) ->
    ["Keys: ", flame_prof_top:help(), ". Ctrl-C ends it, too."];
own(trace) ->
    "A pattern is Module:Function/Arity, Module:Function(Arguments) when Guards, both with -> return "
    "behind it; send(Message), receive(Message), spawn, exit, link or register. Events beyond "
    "the rate are dropped and counted.";
own(Measures) when Measures =:= latency; Measures =:= allocations ->
    "The measurement also ends if this command is killed or cut off. Ctrl-C ends early "
    "and prints what was measured until then.";
own(_) ->
    "".

argument(process) ->
    "A process is a registered name, as my_server or Shop.Stock, or a pid of the node, as "
    "'<0.85.0>'. It is not interrupted.";
argument(functions) ->
    "A function is module:function/arity; without an arity it is any, and module:_ is all functions "
    "of a module.";
argument(function) ->
    "A function is gc, module:function/arity, or the name of a C function or of a library.";
argument(_) ->
    "".

-spec example(atom()) -> [string()].
example(attach) ->
    ["flame_prof attach rabbit@myhost --for 30s --output /tmp/prof --report /tmp/prof/rabbit.html",
        "flame_prof attach a@myhost b@myhost --for 10s --set mode=schedulers"];
example(mcp) -> ["flame_prof mcp shop@myhost --cookie-file /etc/shop/cookie"];
example(check) -> ["flame_prof check /tmp/prof/*.log.zst"];
example(export) ->
    ["flame_prof export prof.log.zst --as speedscope",
        "flame_prof export prof.log.zst --as firefox --from 30s --to 90s",
        "flame_prof export prof.log.zst --as collapsed --by memory --output - | flamegraph.pl > memory.svg"];
example(report) -> ["flame_prof report /tmp/prof/*.erl_perf.log.zst --output shop.html"];
example(view) -> ["flame_prof view /tmp/prof", "flame_prof view /tmp/prof --node shop@myhost"];
example(info) -> ["flame_prof info shop@myhost --json"];
example(start) -> ["flame_prof start shop@myhost --output /tmp/prof --top 50:1000"];
example(flush) -> ["flame_prof flush shop@myhost"];
example(stop) -> ["flame_prof stop shop@myhost"];
example(Command) ->
    {ok, Look} = flame_prof_cli_look_options:module(Command),
    #{examples := Examples} = flame_prof_look:about(Look),
    ["flame_prof " ++ Example || Example <- Examples].
