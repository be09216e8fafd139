%% @private What the help of a command says behind its options, and its examples.
-module(flame_prof_cli_help).

-export([more/1, example/1]).

-define(IS_SENT, "A node without flame_prof gets it for as long as this runs.\n\n").

-spec more(atom()) -> unicode:chardata().
more(attach) ->
    "Modules and library are sent to the node, and removed from it in any case: at the end, on\n"
    "Ctrl-C, and when this command is killed or cut off. Of several nodes each has a file of its\n"
    "own. Ctrl-C ends early and keeps what was sampled until then.\n\n";
more(doctor) ->
    "A node without flame_prof gets it for as long as this runs. Instead of a node it takes files\n"
    "of a session: only what is in samples is known then. The status is 10 where something was\n"
    "found, and 0 where nothing is wrong. doc/doctor.md has the names of the thresholds.\n\n";
more(top) ->
    ["Keys: ", flame_prof_top:help(), "\n",
        "Ctrl-C ends it, too. A node without flame_prof gets it for as long as this runs.\n\n"];
more(mailbox) ->
    "The process is a registered name, as my_server or Shop.Stock, or a pid of the node, as\n"
    "'<0.85.0>'. It is not asked, and no "
    "message is copied. A node without flame_prof gets it for as long as this runs.\n\n";
more(memory) -> "No scheduler is asked, but by the first look.\n" ?IS_SENT;
more(tables) -> "The tables are read out of memory: none is asked, locked or copied.\n" ?IS_SENT;
more(xray) ->
    "The process is a registered name or a pid of the node, as '<0.85.0>'. It is not asked and not\n"
    "stopped; shapes and atoms are shown, no values. It is told while it stands still. A node\n"
    "without flame_prof gets it for as long as this runs.\n\n";
more(trace) ->
    "A pattern is Module:Function/Arity, Module:Function(Arguments) when Guards, both with -> return\n"
    "behind it; send(Message), receive(Message), spawn, exit, link or register. What is beyond the\n"
    "rate is dropped and counted. A node without flame_prof gets it for as long as this runs.\n\n";
more(latency) ->
    "A function is module:function/arity; without an arity it is any, and module:_ is all functions\n"
    "of a module. A node without flame_prof gets it for as long as this runs. When this command is\n"
    "killed or cut off, the node measures nothing any more. Ctrl-C ends early and prints what was\n"
    "measured until then.\n\n";
more(allocations) ->
    "A node without flame_prof gets it for as long as this runs. When this command is killed or cut\n"
    "off, the node measures nothing any more. Ctrl-C ends early and prints what was measured until\n"
    "then.\n\n";
more(view) ->
    "With --node the page has a panel that measures calls of it while it is open.\n" ?IS_SENT;
more(Command) when Command =:= waits; Command =:= binaries -> ?IS_SENT;
more(mcp) ->
    "An assistant's program starts it; it ends with its standard input. With nodes only these\n"
    "can be asked. A node without flame_prof has it until a minute after the last question.\n\n";
more(Command) when Command =:= check; Command =:= hot; Command =:= export; Command =:= report;
    Command =:= 'slow-calls'
->
    "The status is 0 when all is whole, 4 when something is damaged or cut off and was left out, 1\n"
    "when nothing can be read.\n\n";
more(_) ->
    "".

-spec example(atom()) -> [string()].
example(attach) ->
    ["flame_prof attach rabbit@myhost --for 30s --output /tmp/prof --report /tmp/prof/rabbit.html",
        "flame_prof attach a@myhost b@myhost --for 10s --set mode=schedulers"];
example(doctor) ->
    ["flame_prof doctor shop@myhost", "flame_prof doctor shop@myhost --for 30s --report shop.html",
        "flame_prof doctor /tmp/prof/*.erl_perf.log.zst --threshold limit_warning=0.7"];
example(top) -> ["flame_prof top shop@myhost --by memory"];
example(pstack) -> ["flame_prof pstack shop@myhost",
    "flame_prof pstack shop@myhost my_server '<0.1.0>'"];
example(mailbox) -> ["flame_prof mailbox shop@myhost my_server",
    "flame_prof mailbox shop@myhost '<0.85.0>' --oldest 100 --json"];
example(memory) -> ["flame_prof memory shop@myhost", "flame_prof memory shop@myhost --json"];
example(tables) ->
    ["flame_prof tables shop@myhost", "flame_prof tables shop@myhost --for 5s --sort growth"];
example(binaries) -> ["flame_prof binaries shop@myhost --for 10s"];
example(mcp) -> ["flame_prof mcp shop@myhost --cookie-file /etc/shop/cookie"];
example(xray) -> ["flame_prof xray shop@myhost my_server",
    "flame_prof xray shop@myhost '<0.85.0>' --time-limit 1m --max-memory 256"];
example(trace) ->
    ["flame_prof trace shop@myhost 'lists:seq(A, B) when B > 100 -> return'",
        "flame_prof trace shop@myhost send receive --first 'my_conn:init(#{user := anna})' "
        "--follow spawn"];
example(waits) ->
    ["flame_prof waits shop@myhost", "flame_prof waits shop@myhost my_server --for 2s"];
example(latency) ->
    ["flame_prof latency shop@myhost shop_db:query/2",
        "flame_prof latency shop@myhost shop_db:query/2 ets:lookup/2 --for 1m --json",
        "flame_prof latency shop@myhost shop_db:_ --prometheus"];
example(allocations) ->
    ["flame_prof allocations shop@myhost --for 30s",
        "flame_prof allocations shop@myhost --collapsed | flamegraph.pl > allocations.svg"];
example(hot) -> ["flame_prof hot /tmp/prof/*.erl_perf.log.zst --by reductions --status running"];
example('slow-calls') -> ["flame_prof slow-calls /tmp/prof/*.erl_perf.log.zst --top 5"];
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
example(stop) -> ["flame_prof stop shop@myhost"].
