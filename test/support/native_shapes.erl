%% Idle processes of every shape whose stack is worth comparing, kept until
%% stop/1. Each waits for a message that never comes.
-module(native_shapes).

-export([start/1, stop/1, init/1, callback_mode/0, handle_call/3, handle_cast/2, handle_event/4,
    terminate/3, proc_lib_main/1, hibernated/1, woken/1, tail/2]).

-behaviour(gen_server).

%% At least `Count' processes, all settled.
start(Count) ->
    Elixir = elixir_module(),
    Shapes = shapes(Elixir),
    Rounds = 1 + Count div length(Shapes),
    Pids = [{Name, Start(N)} || N <- lists:seq(1, Rounds), {Name, Start} <- Shapes],
    timer:sleep(100),
    Pids.

stop(Shapes) ->
    [exit(Pid, kill) || {_, Pid} <- Shapes],
    ok.

shapes(Elixir) ->
    [{plain_receive, fun(_) -> spawn(fun() -> wait() end) end},
        {recursion, fun(N) -> spawn(fun() -> recurse(3 * N) end) end},
        {deep_recursion, fun(N) -> spawn(fun() -> recurse_by_two(400 + N) end) end},
        {tail_call, fun(N) -> spawn(?MODULE, tail, [N, done]) end},
        {'catch', fun(_) -> spawn(fun() -> {old, catch inner()} end) end},
        {'try', fun(_) -> spawn(fun() -> tried() end) end},
        {try_after, fun(_) -> spawn(fun() -> tried_after() end) end},
        {a_fun, fun(N) -> spawn(fun() -> apply_deep(fun(F) -> in_fun(F) end, N) end) end},
        {comprehension, fun(N) -> spawn(fun() -> [inner() || _ <- lists:seq(1, N)] end) end},
        {map_fold, fun(N) -> spawn(fun() -> folded(N) end) end},
        {hibernated, fun(N) -> spawn(?MODULE, hibernated, [N]) end},
        {gen_server, fun(N) -> element(2, {ok, _} =
            gen_server:start(?MODULE, {server, N}, [])) end},
        {gen_server_hibernated, fun(N) ->
            element(2, {ok, _} = gen_server:start(?MODULE, {hibernate, N}, []))
        end},
        {gen_statem, fun(N) -> element(2, {ok, _} =
            gen_statem:start(?MODULE, {statem, N}, [])) end},
        {proc_lib, fun(N) -> proc_lib:spawn(?MODULE, proc_lib_main, [N]) end},
        {registered, fun(N) -> named(N) end},
        {suspended, fun(_) -> suspended() end},
        {elixir_style, fun(_) -> spawn(fun() -> Elixir:'ready?'([1]) end) end},
        {heaps, fun(N) -> spawn(fun() -> with_heaps(N) end) end},
        {binaries, fun(N) -> spawn(fun() -> with_binaries(N) end) end},
        {messages, fun(N) -> with_messages(N) end},
        {dictionary, fun(N) -> spawn(fun() -> with_dictionary(N) end) end}].

wait() ->
    receive never -> ok end.

inner() ->
    Answer = wait(),
    {answer, Answer}.

recurse(0) -> wait();
recurse(N) -> [N | recurse(N - 1)].

%% Two return addresses in turn: no two neighbours are equal, so that a deep
%% stack really has that many frames.
recurse_by_two(0) -> wait();
recurse_by_two(N) when N rem 2 =:= 0 -> [even | recurse_by_two(N - 1)];
recurse_by_two(N) -> {odd, recurse_by_two(N - 1)}.

tail(0, Done) -> {Done, wait()};
tail(N, Done) -> tail(N - 1, Done).

tried() ->
    try inner() of
        Answer -> {ok, Answer}
    catch
        error:Reason -> {error, Reason}
    end.

tried_after() ->
    try inner()
    after put(done, true)
    end.

apply_deep(Fun, 0) -> {applied, Fun(0)};
apply_deep(Fun, N) -> {applied, apply_deep(Fun, N - 1)}.

in_fun(F) -> lists:map(fun(_) -> {F, wait()} end, [1, 2, 3]).
folded(N) -> maps:fold(fun(K, V, Acc) -> [{K, V, wait()} | Acc] end, [], #{N => 1}).
hibernated(N) -> erlang:hibernate(?MODULE, woken, [N]).
woken(N) -> N.
proc_lib_main(N) -> {main, N, wait()}.

named(N) ->
    Pid = spawn(fun() -> wait() end),
    register(list_to_atom("native_shape_" ++ integer_to_list(N)), Pid),
    Pid.

%% By a process of its own, since who suspends must live.
suspended() ->
    Pid = spawn(fun() -> recurse(5) end),
    timer:sleep(5),
    spawn(fun() ->
        erlang:suspend_process(Pid),
        wait()
    end),
    Pid.

with_heaps(N) ->
    Old = lists:seq(1, 100 * N),
    erlang:garbage_collect(),
    erlang:garbage_collect(self(), [{type, minor}]),
    Young = lists:seq(1, 10 * N),
    {Old, Young, wait()}.

with_binaries(N) ->
    Old = [binary:copy(<<"o">>, 100 * N) || _ <- lists:seq(1, 5)],
    erlang:garbage_collect(),
    erlang:garbage_collect(self(), [{type, minor}]),
    {Old, binary:copy(<<"y">>, 1000 + N), wait()}.

with_messages(N) ->
    Pid = spawn(fun() -> wait() end),
    timer:sleep(1),
    [Pid ! ignored || _ <- lists:seq(1, N)],
    Pid.

with_dictionary(N) ->
    [put({key, K}, K) || K <- lists:seq(1, 20 * N)],
    %% Of every other one, the array has become smaller again.
    [erase({key, K}) || N rem 2 =:= 0, K <- lists:seq(3 + N, 20 * N)],
    put('$initial_call', {?MODULE, with_dictionary, N rem 256}),
    wait().

%% 'Elixir.Native.Shapes':'ready?'/1, compiled here.
elixir_module() ->
    Name = 'Elixir.Native.Shapes',
    L = erl_anno:new(7),
    Forms = [{attribute, L, file, {"lib/native/shapes.ex", L}},
        {attribute, L, module, Name},
        {attribute, L, export, [{'ready?', 1}]},
        {function, L, 'ready?', 1, [{clause, L, [{var, L, 'X'}], [], [
                {tuple, L, [{var, L, 'X'}, {call, L, {atom, L, 'wait!'}, []}]}]}]},
        {function, L, 'wait!', 0, [{clause, L, [], [], [
                {'receive', L, [{clause, L, [{atom, L, never}], [], [{atom, L, ok}]}]}]}]}],
    {ok, Name, Code} = compile:forms(Forms, [debug_info]),
    {module, Name} = code:load_binary(Name, "lib/native/shapes.ex", Code),
    Name.

%%% gen_server and gen_statem callbacks

callback_mode() -> handle_event_function.

init({server, N}) -> {ok, N};
init({hibernate, N}) -> {ok, N, hibernate};
init({statem, N}) -> {ok, idle, N}.

handle_call(_, _, S) -> {reply, ok, S}.
handle_cast(_, S) -> {noreply, S}.
handle_event(_, _, _, _) -> keep_state_and_data.
terminate(_, _, _) -> ok.
