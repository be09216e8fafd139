%% How soon a tracing is off: after a limit, and after the page that it is for has gone.
-module(tracing_proof_SUITE).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, off_after_a_limit/1]).
%% Traced.
-export([f/1]).

suite() -> [{timetrap, {minutes, 5}}].
all() -> [off_after_a_limit].
f(X) -> X.

%% Its kind of tracing is that of test/hooks/looks/count_kind.c.
init_per_suite(Config) ->
    ok = hooked_library:use(),
    Config.

end_per_suite(_) -> ok.

off_after_a_limit(_) ->
    _ = [begin
        Ms = lists:sort([off_after_ms(#{Limit => Value}) || _ <- lists:seq(1, 20)]),
        proof:figure("tracing: milliseconds from ~s until nothing is traced, median", [Limit],
            lists:nth(10, Ms), {hd(Ms), lists:last(Ms)}, "50")
    end
     || {Limit, Value} <- [{max_events, 1000}, {max_cpu_percent, 0.1}, {max_events_per_second, 100}]
    ],
    ok.

off_after_ms(Limits) ->
    {ok, Ref} = flame_prof_tracing:start(#{kind => count, owner => self(),
        patterns => [{{?MODULE, f, 1}, [{'_', [], [{exception_trace}]}], [meta]}],
        limits => Limits#{heartbeat_ms => 60000}}),
    ok = until_ended(Ref),
    {ok, #{off_after_ms := Ms}} = flame_prof_tracing:stop(Ref),
    Ms.

until_ended(Ref) ->
    _ = [?MODULE:f(N) || N <- lists:seq(1, 1000)],
    receive
        {flame_prof_tracing, Ref, {ended, {limit, _}}} -> ok
    after 0 -> until_ended(Ref)
    end.
