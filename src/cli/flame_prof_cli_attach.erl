%% @private `flame_prof attach', and lending flame_prof to nodes for a while.
-module(flame_prof_cli_attach).

-export([do/1, borrowing/4, borrowing/5, report_lack/3]).

-import(flame_prof_text, [grouped/1]).

-define(FOR_MS, 30000).
-define(TICK_MS, 1000).
%% If a node goes away, data that has not been fetched is lost.
-define(FLUSH_MS, 1000).
%% The node's disk holds what its limits allow; all of it is fetched in time.
-define(FLUSHES_A_FILE, 60).
%% Findings of the doctor at the end.
-define(FEW, 3).

%% Of one node: `state' becomes a reason once it is lost.
-record(target, {
    node :: node(),
    agent :: flame_prof_attach:agent(),
    fetching :: flame_prof_fetching:fetching(),
    files = [] :: [file:filename()],
    %% Of these, those of allocations.
    allocations = [] :: [file:filename()],
    info = #{} :: map(),
    state = sampling :: sampling | {lost, unicode:chardata()}
}).

-spec do(flame_prof_cli_args:parsed()) ->
    ok | interrupted | flame_prof_cli_args:failure().
do(#{arguments := Names} = Parsed) ->
    Output = maps:get(output, Parsed, "."),
    try
        Options = options(Parsed),
        ok = has_folder(filename:join(Output, "x")),
        ok = checked(flame_prof_cli_view:can_report(Parsed)),
        connected(flame_prof_remote:connect(Names, Parsed), Output, Options, Parsed)
    catch
        throw:{error, _} = Error -> Error
    end.

checked(ok) -> ok;
checked({error, _} = Error) -> throw(Error).

has_folder(File) ->
    case filelib:ensure_dir(File) of
        ok -> ok;
        {error, Reason} -> throw({error, flame_prof_error:file(filename:dirname(File), Reason)})
    end.

%% Refused before anything is sent.
options(Parsed) ->
    Given = flame_prof_cli_nodes:session_options(maps:remove(output, Parsed)),
    is_map_key(triggers, Given) andalso
        throw({error, {usage, "--set triggers: not with attach; start takes them"}}),
    is_map_key(duration, Given) andalso
        throw({error, {usage, "--set duration: use --for"}}),
    Interval = maps:get(sample_interval, Given, 9),
    Defaults =
        case Interval of
            Ms when is_integer(Ms) -> #{flush_interval => Ms + ?FLUSH_MS};
            _ -> #{}
        end,
    case flame_prof_options:validate(Given, Defaults#{flushes_per_file => ?FLUSHES_A_FILE}) of
        {ok, Options} -> maps:remove(dir, Options);
        {error, Reason} -> throw({error, {usage, flame_prof:format_error(Reason)}})
    end.

connected({error, _} = Error, _Output, _Options, _Parsed) ->
    Error;
connected({ok, Nodes}, Output, Options, Parsed) ->
    with_agents(Nodes, attach, without(Options, Output), [], fun(Agents) ->
        Consequence = ": the portable engine samples it, and the files are written here",
        ok = lists:foreach(fun({Node, Agent}) -> report_lack(Node, Agent, Consequence) end, Agents),
        profile(Agents, Output, Options, Parsed)
    end).

%% If the library is incompatible.
without(#{engine := native}, _Output) -> refused;
without(_Options, Output) -> {writer, Output}.

%% @doc Prints why a node runs without the library, and the consequences.
-spec report_lack(node(), flame_prof_attach:agent(), Consequence :: iodata()) -> ok.
report_lack(Node, Agent, Consequence) ->
    case flame_prof_attach:lacks(Agent) of
        {true, Why} ->
            flame_prof_cli_out:say(io_lib:format("~ts runs without the library (~ts)~ts",
                [Node, Why, Consequence]));
        false ->
            ok
    end.

%% All or none; closed in any case.
with_agents([], _Lent, _Without, Agents, Fun) ->
    try
        Fun(lists:reverse(Agents))
    after
        close(Agents)
    end;
with_agents([Node | Nodes], Lent, Without, Agents, Fun) ->
    ok = flame_prof_cli_out:progress(io_lib:format("attaching to ~ts", [Node])),
    case flame_prof_attach:open(Node, Without, Lent) of
        {ok, Agent} ->
            with_agents(Nodes, Lent, Without, [{Node, Agent} | Agents], Fun);
        {error, _} = Error ->
            close(Agents),
            Error
    end.

close(Agents) ->
    lists:foreach(
        fun({Node, Agent}) ->
            ok = flame_prof_cli_out:progress(io_lib:format("leaving ~ts", [Node])),
            case flame_prof_attach:close(Agent) of
                ok -> ok;
                {error, {node, _}} -> ok;
                {error, Reason} -> flame_prof_cli_out:say(flame_prof:format_error(Reason))
            end
        end,
        Agents
    ),
    flame_prof_cli_out:progress_done().

%% @doc While Fun runs, the nodes have flame_prof: their own, or the agent's.
-spec borrowing([node()], flame_prof_attach:without(), timeout(), fun(() -> Answer)) ->
    Answer | {error, flame_prof:reason()}.
borrowing(Nodes, Without, Timeout, Fun) ->
    borrowing(Nodes, flame_prof_top_sampler, Without, Timeout, Fun).

%% @doc Module: what the command calls; a node's own flame_prof may be too old to have it. A look
%% calls only these, and the first call shows whether the node has them.
-spec borrowing([node()], module() | {look, [module(), ...]}, flame_prof_attach:without(),
    timeout(), fun(() -> Answer)) -> Answer | {error, flame_prof:reason()}.
borrowing(Nodes, {look, [Module | _]} = Lent, Without, Timeout, Fun) ->
    borrowing(Nodes, Module, Lent, Without, Timeout, Fun);
borrowing(Nodes, Module, Without, Timeout, Fun) ->
    borrowing(Nodes, Module, Module, Without, Timeout, Fun).

borrowing(Nodes, Module, Lent, Without, Timeout, Fun) ->
    Asked = [{Node, flame_prof_remote:lacks(Node, Module, Timeout)} || Node <- Nodes],
    case [Error || {_, {error, _} = Error} <- Asked] of
        [] -> with_agents([Node || {Node, {ok, true}} <- Asked], Lent, Without, [], fun(Agents) ->
            ok = lists:foreach(fun({Node, Agent}) -> report_lack(Node, Agent, "") end, Agents),
            Fun()
        end);
        Errors -> flame_prof_cli_nodes:first_error(Errors)
    end.

%% Profiling.

profile(Agents, Output, Options, Parsed) ->
    Answers = flame_prof_attach:start_sessions([Agent || {_, Agent} <- Agents], Options),
    case [Error || {_, {error, _}} = Error <- Answers] of
        [] ->
            Targets = [
                #target{node = Node, agent = Agent,
                    fetching = flame_prof_attach:fetching(Agent, Output)}
             || {Node, Agent} <- Agents
            ],
            Until = now_ms() + maps:get(for, Parsed, ?FOR_MS),
            {How, Sampled} = sample(Targets, now_ms(), Until),
            told(How, [stopped(Target) || Target <- Sampled], Parsed);
        [{Node, {error, Reason}} | _] ->
            {error, io_lib:format("~ts: ~ts", [Node, why(Reason)])}
    end.

now_ms() -> erlang:monotonic_time(millisecond).

sample(Targets0, Since, Until) ->
    Left = Until - now_ms(),
    case {flame_prof_cli:was_interrupted(), [T || #target{state = sampling} = T <- Targets0]} of
        {true, _} ->
            {interrupted, Targets0};
        {false, []} ->
            {ok, Targets0};
        {false, _} when Left =< 0 ->
            {ok, Targets0};
        {false, _} ->
            ok = flame_prof_cli:pause(min(?TICK_MS, Left)),
            Targets = [looked_after(Target) || Target <- Targets0],
            ok = flame_prof_cli_out:progress(progress(Targets, now_ms() - Since, Until - Since)),
            sample(Targets, Since, Until)
    end.

looked_after(#target{state = sampling, agent = Agent} = Target) ->
    case flame_prof_attach:figures(Agent) of
        {ok, #{state := running, files := _} = Info} ->
            fetched(Target#target{info = Info});
        {ok, #{failure := _}} -> stopped(Target);
        {ok, _} -> lost("the session has ended by itself", Target);
        %% A remote writer that is busy.
        {error, {timeout, _}} -> Target;
        {error, Reason} -> lost(why(Reason), Target)
    end;
looked_after(Target) ->
    Target.

fetched(#target{fetching = Fetching, info = Info} = Target) ->
    case flame_prof_fetching:fetch(remote_files(Info), Fetching) of
        {ok, Local, Fetched} ->
            {Allocations, Files} = lists:partition(fun is_of_allocations/1, Local),
            Target#target{fetching = Fetched, files = Files, allocations = Allocations};
        {error, Reason, Fetched} -> lost(why(Reason), Target#target{fetching = Fetched})
    end.

remote_files(#{files := Files, allocations := #{files := More}}) -> Files ++ More;
remote_files(#{files := Files}) -> Files.

is_of_allocations(File) ->
    Name = unicode:characters_to_binary(filename:basename(File)),
    case flame_prof_log_name:parse(Name) of
        {ok, #{kind := Kind}} -> Kind =:= allocations;
        error -> false
    end.

lost(Text, #target{node = Node} = Target) ->
    ok = flame_prof_cli_out:say(io_lib:format("~ts: ~ts; the samples until then are kept",
        [Node, Text])),
    Target#target{state = {lost, Text}}.

stopped(#target{state = sampling, agent = Agent} = Target) ->
    ok = flame_prof_cli_out:progress(io_lib:format("fetching from ~ts", [Target#target.node])),
    case flame_prof_attach:stop(Agent) of
        {ok, #{files := _} = Run} -> whole(Run, fetched(Target#target{info = Run}));
        {error, Reason} -> lost(why(Reason), Target)
    end;
stopped(Target) ->
    Target.

whole(#{failure := Why}, #target{state = sampling} = Target) -> lost(Why, Target);
whole(_Run, Target) -> Target.

%% For texts that already name the node.
why({Class, #{reason := Why}}) when Class =:= node; Class =:= attach -> Why;
why(Reason) -> flame_prof:format_error(Reason).

%% 12 s of 30: 23,352 samples, 0 dropped, 0 ticks missed, native
%% ..., portable: it runs on musl (ld-musl-x86_64.so.1), and the library of flame_prof needs glibc
progress(Targets, Ms, Of) ->
    Counters = [Counters || #target{info = #{counters := Counters}} <- Targets],
    Sum = fun(Key) -> grouped(lists:sum([maps:get(Key, Had) || Had <- Counters])) end,
    Engines = lists:usort([engine(Info) || #target{info = #{engine := _} = Info} <- Targets]),
    [
        io_lib:format("~b s of ~b: ", [Ms div 1000, (Of + 999) div 1000]),
        [Sum(attempted), " samples, ", Sum(dropped), " dropped, ", Sum(missed), " ticks missed"],
        [io_lib:format(", ~b of ~b nodes", [length(Counters), length(Targets)])
            || length(Targets) > 1],
        [[", ", Engine] || Engine <- Engines]
    ].

%% Why it is not the native one.
engine(#{engine := native}) -> <<"native">>;
engine(#{engine_reason := Why}) -> Why.

%% Telling.

told(How, Targets, Parsed) ->
    ok = flame_prof_cli_out:progress_done(),
    ok =
        case Parsed of
            #{json := true} -> json(Targets);
            _ -> flame_prof_cli_out:put([target(Target) || Target <- Targets])
        end,
    Files = lists:append([Files || #target{files = Files} <- Targets]),
    ok = hot(Files, [Target || #target{files = [_ | _]} = Target <- Targets], Parsed),
    Reported = reported(Files, Parsed),
    case {How, [Text || #target{state = {lost, Text}} <- Targets]} of
        {interrupted, _} -> interrupted;
        {ok, []} -> Reported;
        {ok, [Text | _]} -> {error, Text}
    end.

reported([_ | _] = Files, #{report := Out}) -> flame_prof_cli_view:report(Files, Out);
reported(_, _) -> ok.

json(Targets) ->
    Nodes = [
        #{
            node => Node,
            files => [unicode:characters_to_binary(File) || File <- Files],
            allocations => [unicode:characters_to_binary(File) || File <- Allocations],
            engine => maps:get(engine, Info, undefined),
            engine_reason => maps:get(engine_reason, Info, undefined),
            lost => State =/= sampling,
            counters => maps:with(counters(), all_counters(Info))
        }
     || #target{node = Node, files = Files, allocations = Allocations, info = Info,
            state = State} <- Targets
    ],
    flame_prof_cli_out:put([flame_prof_json:encode(Nodes), "\n"]).

counters() -> [attempted, written, dropped, inconsistent, exited, missed, ticks, lost, bytes].

%% Of a run, which has ended, they are beside the other keys.
all_counters(Info) -> maps:merge(maps:get(counters, Info, #{}), Info).

target(#target{node = Node, files = Files, allocations = Allocations, info = Info}) ->
    Counters = all_counters(Info),
    Count = fun(Key) -> grouped(maps:get(Key, Counters, 0)) end,
    [
        [flame_prof_cli_out:bold(atom_to_list(Node)), ": "],
        [Count(written), " samples, ", Count(dropped), " dropped, "],
        [Count(inconsistent), " inconsistent, "],
        [flame_prof_losses:missed_ticks(Counters), "\n"],
        ["  ", maps:get(engine_reason, Info, <<"nothing was sampled">>), "\n"],
        [["  running stacks: ", running_stacks(maps:get(running_stacks, Info, on)), "\n"]],
        [["  ", File, "\n"] || File <- Files ++ Allocations],
        [["  allocations: ", Why, "\n"] || {ok, Why} <- [flame_prof_info:allocations(Info)]]
    ].

running_stacks(on) -> "yes";
running_stacks({off, Why}) -> ["no: ", Why];
running_stacks({lost, Why}) -> ["lost: ", Why].

hot([], _Targets, _Parsed) ->
    ok;
hot(_Files, _Targets, #{json := true}) ->
    ok;
hot(_Files, _Targets, #{quiet := true}) ->
    ok;
hot(Files, Targets, _Parsed) ->
    case flame_prof_profile:read(Files) of
        {ok, Profile} ->
            Report = hottest(Profile, #{node => length(Targets) > 1, top => 15, min => 4}),
            Verdict = verdict(Targets, Profile),
            ok = flame_prof_profile:close(Profile),
            ok = shown(Report),
            flame_prof_cli_out:put(["\n", Verdict]);
        {error, Reason} ->
            flame_prof_cli_out:say(flame_prof:format_error(Reason))
    end.

%% One profile has the processes of all nodes. Samples of a node that was lost do not show that
%% nothing is wrong with it.
verdict([#target{node = Node, state = State}], Profile) ->
    Name = atom_to_list(Node),
    case {flame_prof_doctor:of_profile(Profile, #{}), State} of
        {#{findings := []}, {lost, _}} ->
            "Nothing is judged: the session did not end as it should.\n";
        {Diagnosis, _} ->
            [flame_prof_doctor_text:format(Diagnosis, #{node => Name, few => ?FEW}),
                "\nOnly samples were judged: flame_prof doctor ", Name,
                " also looks at waits, mailboxes, memory and tables.\n"]
    end;
verdict([_ | _], _Profile) ->
    "Several nodes are not judged together: flame_prof doctor NODE looks at one.\n".

%% The active samples; without any, the waits.
hottest(Profile, Options) ->
    case flame_prof_tree:of_profile(Profile, Options) of
        {ok, #{samples := 0}} -> flame_prof_tree:of_profile(Profile, Options#{idle => true});
        Report -> Report
    end.

shown({ok, #{samples := 0}}) ->
    ok;
shown({ok, Report}) ->
    Columns = flame_prof_cli_out:columns(),
    flame_prof_cli_out:put(["\n", flame_prof_tree:format(Report, Columns, "hot --idle")]);
shown({error, Reason}) ->
    flame_prof_cli_out:say(flame_prof:format_error(Reason)).
