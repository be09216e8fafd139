%% Whatever fails while it is lent is taken back: a failure of each sort at each step of lending, on
%% a node of plain Erlang. Afterwards nothing is left there, and the next command works.
-module(flame_prof_lending_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, a_failure_at_any_step_leaves_nothing/1,
    with_any_number_of_free_processes_nothing_is_left/1, what_another_version_left_is_removed/1,
    what_is_left_beside_the_application_is_no_reason_to_end_it/1,
    two_commands_at_once_on_what_was_left/1]).
-import(command_line, [call/4, until/1]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

%% Of as few processes as the VM takes.
-define(FEW, [["+P", "1024"]]).

with_node(Fun) -> command_line:with_shared({start_node, ?FEW}, Fun).

%% A connection that was cut and made again has other processes of OTP's.
leaves_nothing(Node, Before, Told) ->
    Kinds = case Told of
        {_, disconnect} -> maps:keys(Before) -- [descriptors, processes, registered, tables];
        _ -> maps:keys(Before)
    end,
    command_line:leaves_nothing(Kinds, Node, Before).

%% Before and after each of these something else is lent.
steps() ->
    [{flame_prof_agent, init, 2}, {flame_prof_agent, start_cleanup, 1}, {flame_prof_agent, load, 1},
        {flame_prof_agent_library, load, 3}, {flame_prof_temporary, make_folder, 1},
        {flame_prof_temporary, write_file, 2}, {flame_prof_agent_library, maybe_mapped, 2},
        {flame_prof_agent, report_ready, 2}, {flame_prof_session, init, 1},
        {flame_prof_agent, end_session, 1}, {flame_prof_schedulers, retire, 0},
        {flame_prof_agent, end_servers, 1}, {flame_prof_agent, unload_all, 1}].

failures() ->
    #{crash => "error(injected)", kill_agent => kill([flame_prof_agent]),
        kill_cleanup => kill([flame_prof_cleanup]),
        %% One that kills itself does so last. Once, as the next agent calls what was left.
        kill_both => "undefined =:= application:get_env(kernel, lent_failed) andalso begin "
            "application:set_env(kernel, lent_failed, true), " ++
            kill([flame_prof_cleanup, flame_prof_agent]) ++ " end",
        disconnect => "[erlang:disconnect_node(Node) || Node <- nodes(connected)]",
        %% All free processes are taken for a while.
        no_process => "(fun Take() -> try spawn(timer, sleep, [700]) of _ -> Take() "
            "catch error:system_limit -> ok end end)()"}.

kill(Names) ->
    io_lib:format("[exit(Pid, kill) || Name <- ~w, Pid <- [whereis(Name)], is_pid(Pid)]", [Names]).

%% A crash at each step, the others where they differ; all of them with LENDING=all.
a_failure_at_any_step_leaves_nothing(_) ->
    Some = [{Step, crash} || Step <- steps()] ++ [{lists:nth(N, steps()), Failure}
        || {Failure, At} <- [{kill_both, [2, 4, 6, 8, 10, 11, 13]}, {kill_agent, [2, 6, 8]},
            {kill_cleanup, [4, 8]}, {no_process, [1, 8, 13]}, {disconnect, [4]}], N <- At],
    %% Whose connections are cut comes last.
    All = [{Step, Failure} || Failure <- [crash, kill_agent, kill_cleanup, kill_both, no_process,
        disconnect], Step <- steps()],
    command_line:with_node(start_node, ?FEW, fun(Node, Before) ->
        [fail(Node, Before, Case) || Case <- case os:getenv("LENDING") of
            "all" -> All;
            _ -> Some
        end]
    end).

fail(#{node := At} = Node, Before, {Step, Failure} = Case) ->
    Lent = case Step of
        {flame_prof_session, _, _} -> everything;
        _ -> {look, [flame_prof_mailbox]}
    end,
    Outcome = lent_modules:with(Step, lists:flatten(maps:get(Failure, failures())), fun() ->
        case flame_prof_attach:open(At, refused, Lent) of
            {ok, Agent} ->
                _ = Lent =:= everything andalso flame_prof_attach:start_sessions([Agent], #{}),
                flame_prof_attach:close(Agent);
            {error, Reason} ->
                {error, unicode:characters_to_binary(flame_prof:format_error(Reason))}
        end
    end),
    ct:pal("~p: ~tp", [Case, Outcome]),
    ok = is_worded(Outcome),
    %% Else the next command removes the rest.
    is_removed(Failure, Step) andalso leaves_nothing(Node, Before, Case),
    are_free(At),
    works(Node, Before, Case),
    ok = call(At, application, unset_env, [kernel, lent_failed]).

are_free(At) -> until(fun() -> call(At, erlang, system_info, [process_count]) < 500 end).

%% With both processes gone nobody removes it: from the agent's end on there is one.
is_removed(kill_both, _Step) -> false;
is_removed(kill_cleanup, {flame_prof_schedulers, _, _}) -> false;
is_removed(kill_cleanup, {_, Function, _}) ->
    not lists:member(Function, [end_session, end_servers, unload_all]);
is_removed(crash, {_, Function, _}) -> Function =/= unload_all;
is_removed(_, _) -> true.

is_worded({error, Text}) when is_binary(Text) ->
    nomatch = re:run(Text, "[{}]|internal error"),
    ok;
is_worded({error, Reason}) ->
    is_worded({error, unicode:characters_to_binary(flame_prof:format_error(Reason))});
is_worded(ok) -> ok.

works(#{node := At} = Node, Before, Case) ->
    {Case, {ok, Agent}} = {Case, flame_prof_attach:open(At, refused, {look, [flame_prof_mailbox]})},
    {Case, ok} = {Case, flame_prof_attach:close(Agent)},
    leaves_nothing(Node, Before, Case).

%% As the VM itself fails at each process that lending starts.
with_any_number_of_free_processes_nothing_is_left(_) ->
    with_node(fun(#{node := At} = Node) ->
        Before = command_line:settled(Node),
        Limit = call(At, erlang, system_info, [process_limit]),
        Outcomes = [begin
            Taken = take_processes(At, Limit - Free),
            Outcome = lend_first_modules(At),
            true = exit(Taken, kill),
            are_free(At),
            works(Node, Before, {free, Free}),
            Outcome
        end || Free <- [1, 2, 3, 5, 8, 14]],
        ct:pal("~tp", [Outcomes]),
        ?assert(lists:member(refused, Outcomes))
    end).

%% The process that all others are linked to.
take_processes(At, Most) ->
    Text = "Take = fun Take(N) when N > 0 -> spawn_link(timer, sleep, [infinity]), Take(N - 1); "
        "Take(_) -> receive after infinity -> ok end end, "
        "spawn(fun() -> Take(" ++ integer_to_list(Most) ++
        " - erlang:system_info(process_count) - 1) end).",
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Pid, _} = call(At, erl_eval, exprs, [Expressions, []]),
    until(fun() -> call(At, erlang, process_info, [Pid, status]) =:= {status, waiting} end),
    Pid.

%% What attach does once a node has passed: below that it refuses by the numbers.
lend_first_modules(At) ->
    {flame_prof_agent, Code, _} = code:get_object_code(flame_prof_agent),
    Lent = [{M, C} || M <- [flame_prof_agent_library, flame_prof_temporary, flame_prof_mfa,
        flame_prof_text, flame_prof_error, flame_prof_schedulers],
        {_, C, _} <- [code:get_object_code(M)]],
    Config = #{controller => self(), heartbeat_ms => 15000, modules => Lent,
        library => {none, <<"none">>}, may_lack => true, companions => []},
    try call(At, lists, zipwith, [fun erlang:apply/2,
        [fun code:atomic_load/1, fun flame_prof_agent:start/1],
        [[[{flame_prof_agent, "flame_prof_attached", Code}]], [Config]]]) of
        [_, {ok, #{agent := Agent}}] ->
            Agent ! {close, self(), make_ref()},
            lent;
        [_, {error, {_, _}}] -> refused;
        [_, [_, _, _, {error, {processes, _}}]] -> refused
    catch
        error:{exception, system_limit, _} -> refused;
        %% Its module was not loaded.
        error:{exception, undef, [{flame_prof_agent, start, _, _} | _]} -> refused;
        error:{erpc, system_limit} -> refused
    end.

what_another_version_left_is_removed(_) ->
    with_node(fun(#{node := At, pid := OsPid} = Node) ->
        Before = command_line:settled(Node),
        Folder = "/tmp/flame_prof." ++ OsPid ++ ".left",
        ok = call(At, file, make_dir, [Folder]),
        ok = call(At, file, change_mode, [Folder, 8#700]),
        ok = call(At, file, write_file, [filename:join(Folder, "file"), <<"samples">>]),
        %% The module of the agent twice, another one that is unknown here, one that has other
        %% functions.
        [{module, M} = call(At, code, load_binary, [M, "flame_prof_attached", module(M)])
            || M <- [flame_prof_agent, flame_prof_agent, flame_prof_of_long_ago,
                flame_prof_schedulers]],
        true = call(At, erlang, check_old_code, [flame_prof_agent]),
        works(Node, Before, another_version),
        {error, enoent} = call(At, file, read_file_info, [Folder])
    end).

module(Name) ->
    {ok, Name, Code} = compile:forms([{attribute, 1, module, Name},
        {attribute, 1, export, [{start, 1}]},
        {function, 1, start, 1, [{clause, 1, [{var, 1, '_'}], [], [{atom, 1, no_answer}]}]}]),
    Code.

%% Started since: its supervisor is none of an agent, and its modules may be those that were lent.
what_is_left_beside_the_application_is_no_reason_to_end_it(_) ->
    with_node(fun(#{node := At} = Node) ->
        Before = command_line:settled(Node),
        Supervisor = erlang:spawn(At, timer, sleep, [infinity]),
        [{module, M} = call(At, code, load_binary, [M, "flame_prof_attached", module(M)])
            || M <- [flame_prof_agent, flame_prof_sup]],
        true = call(At, erlang, register, [flame_prof_sup, Supervisor]),
        {error, {attach, #{reason := Why}}} = flame_prof_attach:open(At),
        {match, _} = re:run(Why, "has flame_prof already"),
        true = call(At, erlang, is_process_alive, [Supervisor]),
        true = exit(Supervisor, kill),
        works(Node, Before, beside_the_application)
    end).

two_commands_at_once_on_what_was_left(_) ->
    with_node(fun(#{node := At}) ->
        [{module, M} = call(At, code, load_binary, [M, "flame_prof_attached", module(M)])
            || M <- [flame_prof_agent, flame_prof_agent, flame_prof_of_long_ago]],
        Self = self(),
        Open = fun() ->
            Opened = flame_prof_attach:open(At, refused, {look, [flame_prof_mailbox]}),
            Self ! {self(), Opened},
            receive close -> ok end,
            [ok = flame_prof_attach:close(Agent) || {ok, Agent} <- [Opened]]
        end,
        Commands = [spawn_monitor(Open) || _ <- lists:seq(1, 3)],
        Opened = [receive
            {Pid, Answer} -> Answer;
            {'DOWN', Monitor, process, Pid, Why} -> error(Why)
        end || {Pid, Monitor} <- Commands],
        ?assertMatch([_], [Agent || {ok, Agent} <- Opened]),
        [{match, _} = re:run(Why, "another flame_prof is ")
            || {error, {attach, #{reason := Why}}} <- Opened],
        _ = [Pid ! close || {Pid, _} <- Commands],
        [receive {'DOWN', Monitor, process, _, normal} -> ok end || {_, Monitor} <- Commands]
    end).
