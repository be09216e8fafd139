%% The workers of a soak: everything at once that could hurt a profiler. Each
%% repeats the step of its kind, checks what came out of it, and dies of a wrong
%% result; a death is kept, and another takes its place, so that the storm goes on.
%%
%% ```
%% {ok, Storm} = storm:start(storm:kinds()),
%% ok = storm:pause(Storm),             % all are between two steps and hold nothing
%% ok = storm:resume(Storm),
%% #{deaths := [], steps := #{mailer := 7310}} = storm:stop(Storm).
%% '''
%%
%% The kinds are in storm_inside (the VM on itself), storm_tracing and storm_looks (with
%% this library) and storm_outside (with what is not Erlang, or not this node), which have
%% three functions each:
%%
%%     open(Kind) -> State             before the first step, and after a death
%%     step(Kind, N, State) -> State   the Nth; it takes well below a minute
%%     close(Kind, State) -> ok
-module(storm).

-behaviour(gen_server).

-export([kinds/0, start/1, pause/1, resume/1, stop/1, report/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export([worker/2]).

%% For a step to end, on a machine that has nine other things to do.
-define(STEP_MS, 180000).
-define(REST_MOST_MS, 100).
%% A worker that cannot even begin would be started for ever.
-define(DEATHS_MOST, 100).

kinds() ->
    [{storm_inside, Kind} || Kind <- storm_inside:kinds()] ++
        [{storm_tracing, Kind} || Kind <- storm_tracing:kinds()] ++
        [{storm_looks, Kind} || Kind <- storm_looks:kinds()] ++
        [{storm_outside, Kind} || Kind <- storm_outside:kinds()].

start(Kinds) -> gen_server:start_link(?MODULE, Kinds, []).

%% It is an error when one does not come to rest: a step hangs.
pause(Storm) -> all(Storm, pause).

resume(Storm) -> all(Storm, resume).

%% #{steps => #{Kind => Count}, deaths => [{Kind, Reason}]}
report(Storm) -> gen_server:call(Storm, report, ?STEP_MS).

%% With the last report.
stop(Storm) ->
    ok = all(Storm, stop),
    Report = report(Storm),
    ok = gen_server:stop(Storm),
    Report.

%% The workers are asked by the caller, so that the server hears of deaths meanwhile.
all(Storm, What) ->
    ok = gen_server:call(Storm, {begin_phase, What}, ?STEP_MS),
    all(Storm, What, erlang:monotonic_time(millisecond) + ?STEP_MS).

all(Storm, What, Until) ->
    case gen_server:call(Storm, {waiting_for, What}, ?STEP_MS) of
        [] -> ok;
        Kinds ->
            erlang:monotonic_time(millisecond) < Until orelse error({hangs, What, Kinds}),
            timer:sleep(5),
            all(Storm, What, Until)
    end.

%% Of the server: who there is, which phase each has confirmed, what has happened.

init(Kinds) ->
    _ = process_flag(trap_exit, true),
    Steps = counters:new(length(Kinds), [write_concurrency]),
    Numbered = lists:zip(Kinds, lists:seq(1, length(Kinds))),
    State = #{phase => resume, steps => Steps, numbered => Numbered, workers => #{}, deaths => []},
    {ok, lists:foldl(fun born/2, State, Numbered)}.

born(Who, #{workers := Workers, steps := Steps, phase := Phase} = State) ->
    Pid = spawn_link(?MODULE, worker, [Who, {self(), Steps}]),
    Phase =:= resume orelse (Pid ! Phase),
    State#{workers := Workers#{Pid => {Who, resume}}}.

handle_call({begin_phase, Phase}, _From, #{workers := Workers} = State) ->
    _ = [Pid ! Phase || Pid <- maps:keys(Workers)],
    {reply, ok, State#{phase := Phase}};
handle_call({waiting_for, stop}, _From, #{workers := Workers} = State) ->
    {reply, [Kind || {{{_, Kind}, _}, _} <- maps:values(Workers)], State};
handle_call({waiting_for, Phase}, _From, #{workers := Workers} = State) ->
    {reply, [Kind || {{{_, Kind}, _}, In} <- maps:values(Workers), In =/= Phase], State};
handle_call(report, _From, #{steps := Steps, numbered := Numbered, deaths := Deaths} = State) ->
    Counts = maps:from_list([{Kind, counters:get(Steps, I)} || {{_, Kind}, I} <- Numbered]),
    {reply, #{steps => Counts, deaths => lists:reverse(Deaths)}, State}.

handle_cast(_, State) -> {noreply, State}.

handle_info({in, Phase, Pid}, #{workers := Workers} = State) ->
    #{Pid := {Who, _}} = Workers,
    {noreply, State#{workers := Workers#{Pid := {Who, Phase}}}};
handle_info({'EXIT', Pid, Reason}, #{workers := Workers} = State) ->
    case maps:take(Pid, Workers) of
        {{Who, _}, Others} -> {noreply, gone(Reason, Who, State#{workers := Others})};
        error -> {noreply, State}
    end;
handle_info(_, State) -> {noreply, State}.

gone(normal, _Who, #{phase := stop} = State) -> State;
gone(Reason, {{_, Kind}, _} = Who, #{deaths := Deaths} = State) ->
    io:format("worker ~w died: ~0tP~n", [Kind, Reason, 30]),
    Died = State#{deaths := [{Kind, Reason} | Deaths]},
    case length(Deaths) < ?DEATHS_MOST of true -> born(Who, Died); false -> Died end.

%% Of a worker.

worker({{Module, Kind}, Index}, {Server, Steps}) ->
    loop(Module, Kind, Module:open(Kind), 0, fun() -> counters:add(Steps, Index, 1) end, Server).

loop(Module, Kind, State0, N, Count, Server) ->
    Began = erlang:monotonic_time(millisecond),
    State = Module:step(Kind, N, State0),
    Count(),
    ok = rest(erlang:monotonic_time(millisecond) - Began),
    case between(Server) of
        resume -> loop(Module, Kind, State, N + 1, Count, Server);
        stop ->
            %% Not a death, whoever it was linked to.
            ok = Module:close(Kind, State),
            unlink(Server),
            Server ! {'EXIT', self(), normal}
    end.

%% Twice as long as it took: all together still want more cores than there are, but
%% who starts and stops sessions gets a turn now and then.
rest(TookMs) -> timer:sleep(min(2 * TookMs, ?REST_MOST_MS)).

between(Server) ->
    receive
        stop -> stop;
        resume -> between(Server);
        pause -> paused(Server)
    after 0 -> resume
    end.

paused(Server) ->
    _ = erlang:garbage_collect(),
    Server ! {in, pause, self()},
    receive
        resume ->
            Server ! {in, resume, self()},
            resume;
        stop -> stop
    end.
