%% What it costs to know whom a process waits for, and for which message.
%%
%% The words of samples: CPU time of a sample, with them less without, in pairs of windows, on a
%% node of 40 servers and 40 callers, as every one of these samples has words. A look at the waits
%% of 100,000 processes, and at a mailbox of a million messages.
-module(bench_waits).

-behaviour(gen_server).

-export([run/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(SERVERS, 40).
-define(TOP, 100).
-define(HZ, 111).
-define(PROCESSES, 100000).
-define(MESSAGES, 1000000).
-define(LOOKS, 15).
%% A call that computes some 20 us, and one that waits.
-define(SPINS, 2000).
-define(WAIT_MS, 1).

-spec run(pos_integer()) -> [bench_results:result()].
run(Seconds) ->
    ok = flame_prof_wait_sites:ensure(),
    Words = [
        words(<<"servers that compute">>, {spin, ?SPINS}, Seconds, #{}),
        words(<<"servers that wait">>, {wait, ?WAIT_MS}, Seconds, #{bar => {at_most, 100}})
    ],
    lists:append(Words) ++ looks() ++ [mailbox()].

%% ------------------------------------------------------------------- words --

%% Where servers compute, a sample's cost varies by more from window to window than by its words:
%% only the other load is held against the bar.
words(Name, Request, Seconds, Bar) ->
    Callees = [server() || _ <- lists:seq(1, ?SERVERS)],
    Callers = [spawn_link(fun() -> call(S, Request) end) || S <- Callees],
    timer:sleep(300),
    Pairs = bench_stats:pairs(4 * Seconds, fun() -> window(true) end, fun() -> window(false) end),
    ok = bench_processes:kill(Callers ++ Callees),
    Parts = [
        {<<"sampling">>, sampler_cpu_ns, Bar},
        {<<"formatting, compressing, file">>, writer_cpu_ns, #{}},
        {<<"in signal handlers">>, handler_ns, #{}}
    ],
    [told_words(Name, Part, Pairs) || Part <- Parts].

server() ->
    {ok, Pid} = gen_server:start_link(?MODULE, [], []),
    Pid.

call(Server, Request) ->
    _ = gen_server:call(Server, Request, infinity),
    call(Server, Request).

window(HasWords) ->
    bench_session:measure((bench_session:options(?TOP, ?HZ))#{messages => HasWords}, 1000).

told_words(Name, {Part, Key, More}, Pairs) ->
    Of = fun(#{written := Written} = Window) -> maps:get(Key, Window) / max(1, Written) end,
    Differences = [Of(With) - Of(Without) || {With, Without} <- Pairs],
    bench_results:tell(More#{
        section => waits,
        name => <<"words of a sample, 40 callers, ", Name/binary, ": ", Part/binary>>,
        value => bench_stats:median(Differences),
        unit => <<"ns more">>,
        interval => bench_stats:interval(Differences),
        counted => #{
            pairs => length(Pairs),
            without_ns => bench_stats:median([Of(Without) || {_, Without} <- Pairs])
        }
    }).

%% A server of the calls.

init([]) -> {ok, []}.

handle_call({spin, N}, _From, State) -> {reply, spin(N, 0), State};
handle_call({wait, Ms}, _From, State) -> {reply, timer:sleep(Ms), State}.

handle_cast(_, State) -> {noreply, State}.

spin(0, Acc) -> Acc;
spin(N, Acc) -> spin(N - 1, Acc bxor N).

%% ------------------------------------------------------------------- looks --

looks() ->
    Silent = spawn_link(fun() -> receive never -> ok end end),
    Rows = [
        look(<<"idle servers">>, fun(_) -> server() end),
        look(<<"all blocked in calls">>, fun(N) ->
            spawn_link(fun() -> gen_server:call(Silent, {get, N}, infinity) end)
        end)
    ],
    ok = bench_processes:kill([Silent]),
    Rows.

look(Name, Spawn) ->
    Pids = [Spawn(N) || N <- lists:seq(1, ?PROCESSES)],
    timer:sleep(1000),
    Ms = [look_ms() || _ <- lists:seq(1, ?LOOKS)],
    ok = bench_processes:kill(Pids),
    timer:sleep(1000),
    bench_results:tell(#{
        section => waits,
        name => <<"a look at 100,000 processes, ", Name/binary>>,
        value => bench_stats:median(Ms),
        unit => <<"ms CPU">>,
        interval => {lists:min(Ms), lists:max(Ms)},
        bar => {at_most, 60},
        counted => #{looks => ?LOOKS}
    }).

look_ms() ->
    {ok, _, #{cpu_ns := Ns}} = flame_prof_looks_nif:waits_look([]),
    _ = garbage_collect(),
    Ns / 1.0e6.

mailbox() ->
    Owner = spawn_link(fun() -> receive never -> ok end end),
    _ = [Owner ! {get, N} || N <- lists:seq(1, ?MESSAGES)],
    Ms = [mailbox_ms(Owner) || _ <- lists:seq(1, ?LOOKS)],
    ok = bench_processes:kill([Owner]),
    bench_results:tell(#{
        section => waits,
        name => <<"a look at a mailbox of a million messages">>,
        value => bench_stats:median(Ms),
        unit => <<"ms">>,
        interval => {lists:min(Ms), lists:max(Ms)},
        bar => {at_most, 1000},
        counted => #{looks => ?LOOKS}
    }).

mailbox_ms(Owner) ->
    {Us, {ok, #{length := ?MESSAGES}}} = timer:tc(fun() ->
        flame_prof_mailbox:look(Owner, #{time_limit => 10000})
    end),
    Us / 1000.
