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

-export([main/0, start/1, stop/0, problems/0, truth/1]).
-export([init/1]).

-export_type([problem/0, truth/0]).

-type problem() ::
    mailbox | gc | binary_leak | chain | hot_function | bottleneck | table | spawn_storm.

%% finding: the kind of what a viewer says of it; process: the registered name of the
%% process that causes it; function: is on the stacks that show why.
-type truth() :: #{
    problem := problem(),
    finding := mailbox | memory | gc | server | scheduler | spawn,
    process := atom(),
    function := binary(),
    sentence := binary()
}.

-callback children() -> [supervisor:child_spec()].
-callback truth() -> truth().

-define(WARM_UP_MS, 1000).

-spec start([problem()]) -> {ok, pid()}.
start(Problems) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, Problems).

-spec stop() -> ok.
stop() ->
    gen_server:stop(?MODULE).

-spec problems() -> [problem()].
problems() ->
    [Problem || {Problem, _} <- modules()].

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
        {spawn_storm, trouble_spawn_storm}
    ].

module(Problem) ->
    {Problem, Module} = lists:keyfind(Problem, 1, modules()),
    Module.

init(Problems) ->
    Demo = #{id => demo, start => {demo_workload, start, []}, type => supervisor},
    Children = [Child || Problem <- Problems, Child <- (module(Problem)):children()],
    {ok, {#{strategy => one_for_one}, [Demo | Children]}}.

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
    [io:format("profile ~ts~n", [File]) || File <- Files],
    [tell(Truth) || Truth <- Truths],
    ok.

tell(#{problem := Problem, finding := Finding, process := Process, function := Function,
       sentence := Sentence}) ->
    io:format("truth ~s: finding ~s, process ~s, function ~ts~n    ~ts~n",
        [Problem, Finding, Process, Function, Sentence]).

ok({ok, Value}) -> Value;
ok({error, Reason}) -> throw({failed, flame_prof:format_error(Reason)}).
