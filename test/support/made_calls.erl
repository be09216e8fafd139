%% Files of clients that call servers, which call servers, with the truth: every call with its begin
%% and end. A simulation in steps of 0.1 ms, sampled every 9 ms, more or less.
%%
%%      Made = made_calls:run(#{seed => 1, seconds => 20, clients => 12, servers => 4}),
%%      ok = file:write_file(Path, made_calls:text(Made))
-module(made_calls).

-export([run/1, text/1, text/2, two_nodes/3, own/3]).

-define(STEP_US, 100).
-define(BEGIN_US, 1795237782000000).

-type call() :: #{
    reference := {integer(), integer(), integer()},
    caller := integer(),
    callee := integer(),
    request := string(),
    begun := integer(),
    ended => integer(),
    work_begun => integer(),
    work_ended => integer()
}.

-spec run(map()) -> #{calls := [call()], ticks := [{integer(), [tuple()]}]}.
run(#{seed := Seed, seconds := Seconds, clients := Clients, servers := Servers}) ->
    _ = rand:seed(exsss, Seed),
    Numbers = lists:seq(1, Servers + Clients),
    State = #{now => 0, servers => Servers,
        processes => maps:from_list([{N, idle_or_thinking(N, Servers)} || N <- Numbers]),
        queues => maps:from_list([{N, queue:new()} || N <- lists:seq(1, Servers)]), calls => #{},
        next => 1, ticks => [], tick_at => 5000},
    steps(State, Seconds * 1000000).

idle_or_thinking(N, Servers) when N =< Servers -> idle;
idle_or_thinking(_, _) -> {thinking, think()}.

%% Most calls are short, some take seconds.
think() -> rand:uniform(60) * 1000.

work() ->
    case rand:uniform(10) of
        10 -> rand:uniform(300) * 1000;
        N when N > 6 -> rand:uniform(40) * 1000;
        _ -> rand:uniform(8) * 500
    end.

steps(#{now := Now, calls := Calls, ticks := Ticks}, End) when Now >= End ->
    #{calls => [Call || {_, Call} <- lists:sort(maps:to_list(Calls))],
        ticks => lists:reverse(Ticks)};
steps(#{now := Now, processes := Processes} = State0, End) ->
    State1 = lists:foldl(fun step/2, State0, maps:keys(Processes)),
    State = tick(State1),
    steps(State#{now := Now + ?STEP_US}, End).

tick(#{now := Now, tick_at := At, processes := Processes, calls := Calls} = State) when Now >= At ->
    #{ticks := Ticks} = State,
    Seen = [{N, doing(Process, Calls)} || {N, Process} <- lists:sort(maps:to_list(Processes))],
    State#{ticks := [{Now, Seen} | Ticks], tick_at := At + 8500 + rand:uniform(10) * 100};
tick(State) -> State.

doing(idle, _) -> idle;
doing({thinking, _}, _) -> thinking;
doing({calling, Ref}, Calls) -> {calling, map_get(Ref, Calls)};
doing({working, Ref, _}, Calls) -> {working, map_get(Ref, Calls)};
doing({nested, Ref, _, Ref2}, Calls) -> {nested, map_get(Ref, Calls), map_get(Ref2, Calls)}.

step(N, #{processes := Processes} = State) -> step(N, map_get(N, Processes), State).

step(N, idle, #{queues := Queues} = State) ->
    case queue:out(map_get(N, Queues)) of
        {{value, Ref}, Rest} -> work_on(N, Ref, State#{queues := Queues#{N := Rest}});
        {empty, _} -> State
    end;
step(N, {thinking, Left}, State) when Left > 0 -> become(N, {thinking, Left - ?STEP_US}, State);
step(N, {thinking, _}, #{servers := Servers} = State0) ->
    {Ref, State} = call(N, rand:uniform(Servers), State0),
    become(N, {calling, Ref}, State);
step(_N, {calling, _}, State) -> State;
step(N, {working, Ref, Left}, State) when Left > 0 ->
    become(N, {working, Ref, Left - ?STEP_US}, State);
step(N, {working, Ref, _}, State) -> become(N, idle, answer(Ref, State));
step(_N, {nested, _, _, _}, State) -> State.

%% A third of the requests needs another server: one with a higher number, so that nobody waits
%% for itself.
work_on(N, Ref, #{now := Now, calls := Calls, servers := Servers} = State0) ->
    Call = map_get(Ref, Calls),
    State = State0#{calls := Calls#{Ref := Call#{work_begun => Now}}},
    case N < Servers andalso rand:uniform(3) =:= 1 of
        true ->
            {Ref2, Called} = call(N, N + rand:uniform(Servers - N), State),
            become(N, {nested, Ref, work(), Ref2}, Called);
        false -> become(N, {working, Ref, work()}, State)
    end.

call(Caller, Callee, #{now := Now, calls := Calls, queues := Queues, next := Next} = State) ->
    Request = lists:nth(rand:uniform(3), ["get", "{put,_,_}", "{list,_}"]),
    Call = #{reference => {Next rem 3, Next, 16#fffffff0 + Next div 100}, caller => Caller,
        callee => Callee, request => Request, begun => Now},
    Queue = queue:in(Next, map_get(Callee, Queues)),
    {Next, State#{calls := Calls#{Next => Call}, queues := Queues#{Callee := Queue},
        next := Next + 1}}.

answer(Ref, #{now := Now, calls := Calls, processes := Processes} = State0) ->
    #{caller := Caller} = Call = map_get(Ref, Calls),
    State = State0#{calls := Calls#{Ref := Call#{ended => Now, work_ended => Now}}},
    case map_get(Caller, Processes) of
        {calling, Ref} -> become(Caller, {thinking, think()}, State);
        {nested, Outer, Work, Ref} -> become(Caller, {working, Outer, Work}, State)
    end.

become(N, Process, #{processes := Processes} = State) ->
    State#{processes := Processes#{N := Process}}.

%% ---- text ----------------------------------------------------------------

text(Made) -> text(Made, fun(_Tick, _Process) -> true end).

%% Only the samples for which Keep(Tick, Process) is true.
text(#{ticks := Ticks}, Keep) ->
    {Texts, _} = lists:mapfoldl(fun({I, {Us, Seen}}, Known) ->
        lists:mapfoldl(fun({N, Doing}, Known1) ->
            {sample(Us, N, Doing, lists:member(N, Known1)), [N | Known1 -- [N]]}
        end, Known, [One || {N, _} = One <- Seen, Keep(I, N)])
    end, [], lists:zip(lists:seq(1, length(Ticks)), Ticks)),
    Texts.

text(Made, Keep, OsPid) ->
    iolist_to_binary(string:replace(text(Made, Keep), " 42/", [" ", integer_to_list(OsPid), "/"],
        all)).

%% The files of a node a@h with the clients, and of a node b@h with the servers, whose clock is
%% ahead by some microseconds.
-spec two_nodes(map(), pos_integer(), integer()) -> {binary(), binary()}.
two_nodes(#{ticks := Ticks} = Made, Servers, AheadUs) ->
    Clients = text(Made, fun(_, N) -> N > Servers end, 42),
    Ahead = Made#{ticks := [{Us + AheadUs, Seen} || {Us, Seen} <- Ticks]},
    {LastUs, _} = lists:last(Ticks),
    {iolist_to_binary([string:replace(Clients, "waits_for=<", "waits_for=b@h/<", all),
        own(42, "a@h", LastUs)]),
        <<(text(Ahead, fun(_, N) -> N =< Servers end, 43))/binary,
            (iolist_to_binary(own(43, "b@h", LastUs)))/binary>>}.

%% What the profiler of a node tells of itself.
own(OsPid, Node, Us) ->
    Time = ?BEGIN_US + Us,
    io_lib:format("flame_prof ~b/2147483647 [000] ~b.~6..0b: ticks=0/0 name=flame_prof "
        "engine=native format=3 node=~s cpu-clock:\n\tffffffff flame_prof_self (flame_prof)\n"
        "\tffffffff waiting (status)\n\n",
        [OsPid, Time div 1000000, max(1, Time rem 1000000), Node]).

sample(Us, N, Doing, IsKnown) ->
    Time = ?BEGIN_US + Us,
    Micros = max(1, Time rem 1000000),
    [io_lib:format("beam 42/~b [000] ~b.~6..0b: ", [N, Time div 1000000, Micros]),
        case IsKnown of
            true -> [];
            false -> io_lib:format("reductions=5/0 memory=2640/0 erl_pid=<0.~b.0> name=p_~s ",
                [N, letters(N)])
        end, words(Doing), "cpu-clock:\n",
        [["\tffffffff ", Frame, "\n"] || Frame <- frames(Doing)], "\n"].

letters(N) -> [$a + N div 26, $a + N rem 26].

words(idle) -> [];
words(thinking) -> [];
words({calling, Call}) -> waits(Call);
words({working, Call}) -> serves(Call);
words({nested, Call, Other}) -> serves_and(Call, waits(Other)).

serves(Call) -> serves_and(Call, []).

serves_and(#{request := Request} = Call, More) ->
    ["message=call/", Request, " serves=", reference(Call), " ", More].

waits(#{callee := Callee, request := Request} = Call) ->
    [io_lib:format("waits_for=<0.~b.0> call=", [Callee]), reference(Call), " request=", Request,
        " "].

reference(#{reference := {A, B, C}}) -> io_lib:format("~b.~b.~b", [C, B, A]).

frames(idle) -> ["gen_server:loop/7:871 (gen_server.erl)", "waiting (status)"];
frames(thinking) -> ["client:think/1:7 (client.erl)", "running (status)"];
frames({calling, _}) ->
    ["gen:do_call/4:237 (gen.erl)", "gen_server:call/2:400 (gen_server.erl)",
        "client:ask/1:9 (client.erl)", "waiting (status)"];
frames({working, #{request := Request}}) ->
    ["work:" ++ name(Request) ++ "/1:3 (work.erl)", "server:handle_call/3:20 (server.erl)",
        "gen_server:try_handle_call/4:900 (gen_server.erl)", "running (status)"];
frames({nested, _, _}) ->
    ["gen:do_call/4:237 (gen.erl)", "gen_server:call/2:400 (gen_server.erl)",
        "server:handle_call/3:20 (server.erl)", "gen_server:try_handle_call/4:900 (gen_server.erl)",
        "waiting (status)"].

name("{" ++ Name) -> hd(string:lexemes(Name, ","));
name(Name) -> Name.
