%% The demo's node with problems that are known: what a profile has to show.
%%
%% Each problem is a module with its processes and its truth: what is wrong, and the
%% process and function that tell so. Without any, the node is as healthy as the demo's.
%%
%% `make trouble' runs it; examples/trouble/run.sh, with the environment TROUBLE,
%% TROUBLE_DIR and TROUBLE_SECONDS, runs it again. By hand, with these beams and the
%% demo's on the path: `trouble:start([mailbox, gc])', `trouble:stop()'.
-module(trouble).
-behaviour(supervisor).

-export([main/0, hold/0, start/1, stop/0, problems/0, faults/0, healthy/0, truth/1]).
-export([process/4, spawn/4, spawn/5]).
-export([init/1]).

-export_type([problem/0, truth/0]).

-type problem() :: atom().

%% kind: the doctor's kinds that name it, none of a healthy node; severity: the least one;
%% finding: the kind of what a viewer says of it, of {@link problems/0}; process: the registered
%% name of the process that causes it, or several of which one is to be named, or none; function:
%% is on the stacks that show why; flags: of its node, without which the problem is none.
-type truth() :: #{
    problem := problem(),
    kind := [atom()],
    severity => critical | warning | note,
    flags => [string()],
    finding => mailbox | memory | gc | server | scheduler | spawn,
    process := atom() | [atom()],
    function => binary(),
    sentence := binary()
}.

-callback children() -> [supervisor:child_spec()].
-callback truth() -> truth().

-define(WARM_UP_MS, 1000).

-spec start([problem()]) -> {ok, pid()}.
start(Problems) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, [demo | Problems]).

-spec stop() -> ok.
stop() ->
    gen_server:stop(?MODULE).

%% @doc Those that a profile alone shows: `make trouble' and the viewer's tests have these.
-spec problems() -> [problem()].
problems() ->
    [mailbox, gc, binary_leak, chain, hot_function, bottleneck, table, spawn_storm].

%% @doc All of them: `make test-doctor'.
-spec faults() -> [problem()].
faults() ->
    [Problem || {Problem, _} <- modules()] -- [quiet | healthy()].

%% @doc Heavy loads that are no problem; `demo' is the demo alone.
-spec healthy() -> [problem()].
healthy() ->
    [demo, healthy_requests, healthy_batch, healthy_cache, healthy_topics, healthy_workers,
        healthy_bursts, healthy_start].

-spec truth(problem()) -> truth().
truth(Problem) ->
    (module(Problem)):truth().

modules() ->
    [
        {mailbox, trouble_mailbox},
        {gc, trouble_gc},
        {binary_leak, trouble_binary_leak},
        {chain, trouble_chain},
        {hot_function, trouble_hot},
        {bottleneck, trouble_bottleneck},
        {table, trouble_table},
        {spawn_storm, trouble_spawn_storm},
        {flood, trouble_flood},
        {selective_receive, trouble_selective},
        {binary_hold, trouble_binary_hold},
        {heap_growth, trouble_heap},
        {atom_growth, trouble_atoms},
        {process_leak, trouble_processes},
        {port_leak, trouble_ports},
        {monitor_leak, trouble_monitors},
        {deadlock, trouble_deadlock},
        {deadlock_ends, trouble_deadlock_ends},
        {long_gc, trouble_long_gc},
        {copies, trouble_copies},
        {long_bif, trouble_long_bif},
        {regexp, trouble_regexp},
        {ets_lock, trouble_lock},
        {logger, trouble_logger},
        {timers, trouble_timers},
        {slow_file, trouble_slow_file},
        {socket, trouble_socket},
        {busy_dist, trouble_dist},
        {restart_loop, trouble_restarts},
        {priority, trouble_priority},
        {persistent_term, trouble_persistent},
        {code_loading, trouble_code},
        {exceptions, trouble_exceptions},
        {append, trouble_append},
        {fragmentation, trouble_fragments},
        {supervisor_starts, trouble_starts},
        {slow_handler, trouble_slow_handler},
        {limit, trouble_limit},
        {offline, trouble_offline},
        {code_growth, trouble_code_growth},
        {long_nif, trouble_long_nif},
        {global_lock, trouble_global},
        {unnamed_restarts, trouble_unnamed_sup},
        {socket_module, trouble_socket_module}
    ] ++ [{quiet, trouble_quiet} | more()].

more() ->
    [{Healthy, list_to_atom("trouble_" ++ atom_to_list(Healthy))} || Healthy <- healthy()].

module(Problem) ->
    {Problem, Module} = lists:keyfind(Problem, 1, modules()),
    Module.

%%% Processes of problems: `Name' is registered where it is an atom.

-spec process(Name :: term(), module(), atom(), [term()]) -> supervisor:child_spec().
process(Name, Module, Function, Args) ->
    #{id => Name, start => {?MODULE, spawn, [Name, Module, Function, Args]},
        shutdown => brutal_kill}.

-spec spawn(term(), module(), atom(), [term()]) -> {ok, pid()}.
spawn(Name, Module, Function, Args) ->
    spawn(Name, Module, Function, Args, []).

-spec spawn(term(), module(), atom(), [term()], [term()]) -> {ok, pid()}.
spawn(Name, Module, Function, Args, Options) ->
    Pid = proc_lib:spawn_opt(Module, Function, Args, [link | Options]),
    _ = is_atom(Name) andalso register(Name, Pid),
    {ok, Pid}.

init(Problems) ->
    Children = [Child || Problem <- Problems, Child <- (module(Problem)):children()],
    {ok, {#{strategy => one_for_one}, Children}}.

%%% The command line.

main() ->
    Dir = os:getenv("TROUBLE_DIR", "_build/trouble"),
    Seconds = list_to_integer(os:getenv("TROUBLE_SECONDS", "20")),
    try run(asked_for(os:getenv("TROUBLE", "all")), filename:absname(Dir), Seconds) of
        ok -> halt(0)
    catch
        throw:{failed, Text} ->
            io:format(standard_error, "trouble: ~ts~n", [Text]),
            halt(1)
    end.

%% @doc A node that has one problem, or the demo, until it is ended. `TROUBLE' is its name.
hold() ->
    Problem = list_to_existing_atom(os:getenv("TROUBLE", "demo")),
    {ok, Pid} = supervisor:start_link({local, ?MODULE}, ?MODULE, beside(Problem)),
    %% The process that has started this ends.
    true = unlink(Pid),
    io:format("ready~n", []).

%% A problem is not alone: a light load is beside it.
beside(demo) -> [demo];
beside(Problem) ->
    case lists:member(Problem, healthy()) of
        true -> [Problem];
        false -> [quiet, Problem]
    end.

asked_for("all") -> problems();
asked_for("none") -> [];
asked_for(Names) -> [problem(Name) || Name <- string:lexemes(Names, " ,")].

problem(Name) ->
    case [Problem || Problem <- problems(), atom_to_list(Problem) =:= Name] of
        [Problem] ->
            Problem;
        [] ->
            Accepted = lists:join(", ", [atom_to_list(P) || P <- problems()]),
            throw({failed, ["TROUBLE has ", Name, ", accepts all, none or: ", Accepted]})
    end.

run(Problems, Dir, Seconds) ->
    {ok, _} = start(Problems),
    timer:sleep(?WARM_UP_MS),
    _ = ok(flame_prof:start(#{dir => Dir})),
    timer:sleep(Seconds * 1000),
    #{files := Files} = ok(flame_prof:stop()),
    ok = stop(),
    Truths = [truth(Problem) || Problem <- Problems],
    Json = flame_prof_json:encode(#{
        files => [unicode:characters_to_binary(filename:basename(File)) || File <- Files],
        problems => Truths
    }),
    ok = file:write_file(filename:join(Dir, "truth.json"), Json),
    Profile = ok(flame_prof_profile:read(Files)),
    #{findings := Findings} = Diagnosis = demo:diagnosis(Profile),
    ok = flame_prof_profile:close(Profile),
    io:format("What the doctor says of the profile~n~n~ts~n", [demo:text(Diagnosis)]),
    io:format("What was planted, and which finding says it~n~n"),
    [print(Truth, Findings) || Truth <- Truths],
    io:format("~nNext~n~n  bin/flame_prof view ~ts~n", [Dir]),
    ok.

print(#{problem := Problem, kind := Kinds, sentence := Sentence}, Findings) ->
    Found = case [integer_to_list(N) || {N, #{kind := Kind}} <- lists:enumerate(Findings),
            lists:member(Kind, Kinds)] of
        [] -> "in none: a profile does not show it, or the doctor missed it";
        Numbers -> ["in ", lists:join(", ", Numbers)]
    end,
    io:format("  ~s: ~ts~n      ~ts~n", [Problem, Found, Sentence]).

ok({ok, Value}) -> Value;
ok({error, Reason}) -> throw({failed, flame_prof:format_error(Reason)}).
