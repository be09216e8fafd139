%% Servers that call one another, for tests of waits: what each does is its caller's request.
-module(waits_work).

-behaviour(gen_server).

-export([know_sites/0, set_sites/2, start/0, start/1, deadlock/1, will_call/2, chain/1, caller/2,
    all_in_calls/1, is_at/2, false_edges/1, stop/1, stop_all/0, init/1, handle_call/3,
    handle_cast/2, handle_continue/2]).

%% The library knows all sites, however often a busy machine makes the probes late: a try that was
%% late (flame_prof_wait_sites) is forgotten, and made again.
know_sites() ->
    waiting:eventually(fun() ->
        _ = flame_prof_wait_sites:ensure(),
        case flame_prof_looks:with(fun flame_prof_looks_nif:wait_sites/0) of
            {AllFound, true, _} when AllFound bsr 60 =:= 15 ->
                is_binary(flame_prof_nif:value(sites));
            Other -> _ = flame_prof_looks_nif:wait_sites_learn([], 1 bsl 60), Other
        end
    end).

%% In the library of looks.
set_sites(Rows, Mark) ->
    {ok, Value} = flame_prof_looks_nif:wait_sites_value(Rows, Mark),
    ok = flame_prof_looks_nif:value_take(Value).

start() ->
    {ok, Pid} = gen_server:start(?MODULE, none, []),
    Pid.

start(Name) ->
    {ok, Pid} = gen_server:start({local, Name}, ?MODULE, none, []),
    Pid.

%% So many servers, of which each has called the next one. Returns once all wait.
deadlock(Count) ->
    Servers = [start() || _ <- lists:seq(1, Count)],
    Pairs = lists:zip(Servers, tl(Servers) ++ [hd(Servers)]),
    _ = [will_call(Server, Next) || {Server, Next} <- Pairs],
    _ = [Server ! go || Server <- Servers],
    ok = all_in_calls(Servers),
    Servers.

%% It takes no further request, and calls once it gets `go'.
will_call(Server, Next) ->
    ok = gen_server:cast(Server, {call_at_go, Next, self()}),
    receive {will_call, Server} -> ok end.

%% Servers of which each calls the next one in handle_call, the last one waits in a receive.
chain(Servers) ->
    [First | Rest] = Servers,
    Caller = caller(First, {pass, Rest}),
    waiting:eventually(fun() -> is_at(lists:last(Servers), hold) end),
    ok = all_in_calls(lists:droplast(Servers)),
    Caller.

caller(Server, Request) ->
    Caller = spawn(fun() -> catch gen_server:call(Server, Request, infinity) end),
    ok = all_in_calls([Caller]),
    Caller.

%% By an oracle that is not flame_prof.
all_in_calls(Pids) ->
    waiting:eventually(fun() -> lists:all(fun(Pid) -> is_at(Pid, do_call) end, Pids) end),
    ok.

is_at(Pid, Function) ->
    {status, waiting} =:= erlang:process_info(Pid, status) andalso
        case erlang:process_info(Pid, current_function) of
            {current_function, {_, Function, _}} -> true;
            _ -> false
        end.

%% Looks, so many, at servers that call those that were started after them, all the time: how many
%% edges they told, and those that lead back. No look may tell a deadlock.
false_edges(Looks) ->
    Seed = seeded:seed(),
    Servers = [start() || _ <- lists:seq(1, 30)],
    Places = maps:from_list(lists:zip(Servers, lists:seq(1, 30))),
    Callers = [spawn(fun() -> rand:seed(exsss, Seed + N), passes(Servers) end)
        || N <- lists:seq(1, 10)],
    Edges = lists:append([edges(Places) || _ <- lists:seq(1, Looks)]),
    ok = stop(Callers ++ Servers),
    #{edges => length(Edges), wrong => [Wrong || {From, To} = Wrong <- Edges, From >= To]}.

edges(Places) ->
    {ok, #{cycles := [], suspects := [], edges := Edges}} = flame_prof_waits:look(#{}),
    [{map_get(From, Places), map_get(To, Places)} || #{from := From, to := To} <- Edges,
        is_map_key(From, Places), is_map_key(To, Places)].

passes(Servers) ->
    Some = [Server || Server <- Servers, rand:uniform(6) =:= 1],
    _ = [gen_server:call(hd(Some), {relay, tl(Some)}, infinity) || Some =/= []],
    passes(Servers).

stop(Pids) ->
    Monitors = [monitor(process, Pid) || Pid <- Pids],
    _ = [exit(Pid, kill) || Pid <- Pids],
    _ = [receive {'DOWN', Monitor, process, _, _} -> ok end || Monitor <- Monitors],
    ok.

%% The servers of this node. Who waits in a call of one ends by that.
stop_all() ->
    stop([Pid || Pid <- processes(), proc_lib:translate_initial_call(Pid) =:= {?MODULE, init, 1}]).

init(none) -> {ok, none}.

handle_call({pass, []}, _From, State) ->
    hold(),
    {reply, ok, State};
handle_call({pass, [Next | Rest]}, _From, State) ->
    {reply, gen_server:call(Next, {pass, Rest}, infinity), State};
handle_call({relay, []}, _From, State) -> {reply, ok, State};
handle_call({relay, [Next | Rest]}, _From, State) ->
    {reply, gen_server:call(Next, {relay, Rest}, infinity), State};
%% Whoever gets the From answers.
handle_call({give_to, Pid}, From, State) ->
    Pid ! {answer, From},
    {noreply, State};
%% And calls while the other one has it.
handle_call({give_to, Pid, Next}, From, State) ->
    Pid ! {answer, From},
    {noreply, State, {continue, {call, Next}}};
handle_call(_Request, _From, State) -> {reply, ok, State}.

handle_continue({call, Next}, State) ->
    _ = gen_server:call(Next, get, infinity),
    {noreply, State}.

handle_cast({call, Next, Request}, State) ->
    _ = gen_server:call(Next, Request, infinity),
    {noreply, State};
handle_cast({call_at_go, Next, To}, State) ->
    To ! {will_call, self()},
    receive go -> ok end,
    _ = gen_server:call(Next, {lock, self(), secret}, infinity),
    {noreply, State}.

hold() ->
    receive never -> ok end.
