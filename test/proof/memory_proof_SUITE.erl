%% What sessions leave of the node's resident memory.
-module(memory_proof_SUITE).

-export([all/0, suite/0, sessions_leave_no_memory/1]).
%% For a peer.
-export([print_memory/2]).

suite() -> [{timetrap, {minutes, 10}}].
all() -> [sessions_leave_no_memory].

%% The first sessions warm up what stays: the layout, arenas, carriers. Texts that were malloc'ed
%% stayed in another thread's arena each time, some 8 MB of them.
sessions_leave_no_memory(Config) ->
    Call = io_lib:format("~s:print_memory(~p, 8), halt().",
        [?MODULE, proplists:get_value(priv_dir, Config)]),
    %% Each scheduler has carriers of its own: so many of them on any machine.
    Flags = ["-kernel", "logger_level", "critical", "+S", "2:2", "+SDcpu", "2:2", "+SDio", "2"],
    {0, Out} = peer_vm:output(
        peer_vm:start([flame_prof, ?MODULE], lists:flatten(Call), Flags), infinity),
    {match, Found} = re:run(Out, "rss ([0-9]+)", [global, {capture, all_but_first, list}]),
    [_, _, Third | More] = [list_to_integer(KiB) || [KiB] <- Found],
    [Seventh, Eighth] = lists:nthtail(length(More) - 2, More),
    proof:figure("memory: growth of RssAnon from the third session to the eighth, KiB", [],
        min(Seventh, Eighth) - Third, none, "20480").

%% By a peer: so many sessions over many deep stacks, each of as many samples, and of more
%% stacks than the writer keeps.
print_memory(Directory, Sessions) ->
    [spawn_link(fun climb/0) || _ <- lists:seq(1, 1000)],
    [begin
        {ok, _} = flame_prof:start(#{dir => Directory, engine => native, select => {top, 1000, 500},
            sample_interval => 3, cpu_budget => infinity}),
        ok = written(20000),
        {ok, _} = flame_prof:stop(60000),
        [erlang:garbage_collect(Pid) || Pid <- processes()],
        {ok, Status} = file:read_file("/proc/self/status"),
        {match, [KiB]} = re:run(Status, "RssAnon:\\s+([0-9]+)", [{capture, all_but_first, list}]),
        io:format("rss ~s~n", [KiB])
    end || _ <- lists:seq(1, Sessions)].

written(Least) ->
    case flame_prof:info() of
        #{counters := #{written := Written}} when Written >= Least -> ok;
        _ -> timer:sleep(50), written(Least)
    end.

%% To another depth by another way each time: hardly a stack comes twice.
climb() ->
    left(rand:uniform(60)),
    climb().

left(0) -> timer:sleep(rand:uniform(30));
left(N) -> {ok, step(N - 1)}.

right(0) -> timer:sleep(rand:uniform(30));
right(N) -> [ok | step(N - 1)].

step(N) ->
    case rand:uniform(2) of 1 -> {left, left(N)}; 2 -> {right, right(N)} end.
