%% @private An example of each command, for its help.
-module(flame_prof_cli_examples).

-export([of_command/1]).

-spec of_command(atom()) -> [string(), ...].
of_command(attach) ->
    ["flame_prof attach rabbit@myhost --for 30s --output /tmp/prof --report /tmp/prof/rabbit.html",
        "flame_prof attach a@myhost b@myhost --for 10s --set mode=schedulers"];
of_command(top) -> ["flame_prof top --node shop@myhost --by memory"];
of_command(pstack) -> ["flame_prof pstack --node shop@myhost",
    "flame_prof pstack --node shop@myhost my_server '<0.1.0>'"];
of_command(mailbox) -> ["flame_prof mailbox shop@myhost my_server",
    "flame_prof mailbox shop@myhost '<0.85.0>' --oldest 100 --json"];
of_command(memory) -> ["flame_prof memory shop@myhost", "flame_prof memory shop@myhost --json"];
of_command(tables) ->
    ["flame_prof tables shop@myhost", "flame_prof tables shop@myhost --for 5s --sort growth"];
of_command(binaries) -> ["flame_prof binaries shop@myhost --for 10s"];
of_command(xray) -> ["flame_prof xray shop@myhost my_server",
    "flame_prof xray shop@myhost '<0.85.0>' --time-limit 1m --max-memory 256"];
of_command(trace) ->
    ["flame_prof trace shop@myhost 'lists:seq(A, B) when B > 100 -> return'",
        "flame_prof trace shop@myhost send receive --first 'my_conn:init(#{user := anna})' "
        "--follow spawn"];
of_command(waits) ->
    ["flame_prof waits shop@myhost", "flame_prof waits shop@myhost my_server --for 2s"];
of_command(latency) ->
    ["flame_prof latency shop@myhost shop_db:query/2",
        "flame_prof latency shop@myhost shop_db:query/2 ets:lookup/2 --for 1m --json",
        "flame_prof latency shop@myhost shop_db:_ --prometheus"];
of_command(allocations) ->
    ["flame_prof allocations shop@myhost --for 30s",
        "flame_prof allocations shop@myhost --collapsed | flamegraph.pl > allocations.svg"];
of_command(hot) -> ["flame_prof hot /tmp/prof/*.erl_perf.log.zst --by reductions --status running"];
of_command('slow-calls') -> ["flame_prof slow-calls /tmp/prof/*.erl_perf.log.zst --top 5"];
of_command(check) -> ["flame_prof check /tmp/prof/*.log.zst"];
of_command(export) ->
    ["flame_prof export prof.log.zst --as speedscope",
        "flame_prof export prof.log.zst --as firefox --from 30s --to 90s",
        "flame_prof export prof.log.zst --as collapsed --by memory --output - | flamegraph.pl > memory.svg"];
of_command(report) -> ["flame_prof report /tmp/prof/*.erl_perf.log.zst --output shop.html"];
of_command(mcp) -> ["flame_prof mcp shop@myhost --cookie-file /etc/shop/cookie"];
of_command(view) -> ["flame_prof view /tmp/prof", "flame_prof view /tmp/prof --node shop@myhost"];
of_command(info) -> ["flame_prof info --node shop@myhost --json"];
of_command(start) -> ["flame_prof start --node shop@myhost --output /tmp/prof --top 50:1000"];
of_command(flush) -> ["flame_prof flush --node shop@myhost"];
of_command(stop) -> ["flame_prof stop --node shop@myhost"].
