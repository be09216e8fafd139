%% @private What else the rule `hot_function' knows: one innermost function that has most of the CPU
%% time of a node, over all processes; regular expressions; and where a process is.
%%
%% == False alarms ==
%% All work of a node is below one function of its application; so the innermost function counts, a
%% BIF too, together with who calls it: many use lists. A node that computes one thing with CPUs to
%% spare does what it is meant to do: nothing is said unless processes are ready for a CPU for
%% `node_ready' of that time. A batch that has the machine never waits, and is judged by itself:
%% those who wait in between are told. A VM that lacks CPUs stands still in one function for many
%% samples, and all of its processes wait: nothing is said of it.
-module(flame_prof_doctor_hottest).

-export([numbers/3, thresholds/0, find/3, matches/2, expressions/2, where/2]).

-import(flame_prof_doctor_rule, [share/1]).

-define(EXPRESSION, [<<"re:run/2">>, <<"re:run/3">>, <<"erlang:re_run_trap/3">>]).

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {node, 0.6, <<"share of the node's CPU time in one innermost function">>},
        {node_cpus, 0.6, <<"CPUs that this function keeps busy">>},
        {node_ready, 0.15, <<"share of that time in which processes wait for a CPU">>},
        {node_waits, 0.05,
            <<"share of its time in which one of the processes waits: without waits it is a batch job">>}
    ].

-spec find(atom(), flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(Kind, #{samples := #{processes := Processes} = Samples} = Evidence, Limits) ->
    #{node := Node, node_cpus := Cpus, node_ready := Least, node_waits := Waits} = Limits,
    Stacks = lists:append([flame_prof_doctor_calls:on_cpu(Samples, P) || P <- Processes]),
    {Site, Part} = most(Stacks),
    Ready = lists:sum([N || #{runnable := N} <- Processes]) /
        max(1, flame_prof_doctor_stacks:weight(Stacks)),
    Match = fun(Some) -> at(Site, Some) end,
    case Part >= Node andalso Ready >= Least andalso
        not flame_prof_doctor_vm:is_starved(Evidence, 0) andalso
        flame_prof_doctor_calls:heavy(Samples, Match, #{share => Node / 2, cpus => Cpus})
    of
        #{processes := [{_, First} | _] = Some} = Heavy ->
            [finding(Kind, First, by_caller(Heavy, Site), {element(1, Site), Part}, Ready)
                || waits(Some, Waits)];
        _ ->
            []
    end.

by_caller(#{function := F} = Heavy, {F, By}) when By =/= none -> Heavy#{function := By};
by_caller(Heavy, _) -> Heavy.

%% The innermost function of most, with the function of the application that calls it most.
most(Stacks) ->
    {Leaf, _} = flame_prof_doctor_stacks:most_called(Stacks),
    At = [Stack || {Frames, _} = Stack <- Stacks,
        flame_prof_doctor_stacks:called(Frames) =:= Leaf],
    ByCaller = maps:groups_from_list(fun({Frames, _}) -> caller(Frames) end, At),
    {Weight, Caller} = lists:max([{0, none}
        | [{flame_prof_doctor_stacks:weight(Of), Own} || {Own, Of} <- maps:to_list(ByCaller)]]),
    {{Leaf, Caller}, Weight / max(1, flame_prof_doctor_stacks:weight(Stacks))}.

at({Leaf, Caller}, Stacks) ->
    [Stack || {Frames, _} = Stack <- Stacks,
        flame_prof_doctor_stacks:called(Frames) =:= Leaf, caller(Frames) =:= Caller].

caller(Frames) ->
    case lists:search(fun flame_prof_doctor_stacks:is_own/1, Frames) of
        {value, {Function, _}} -> Function;
        false -> none
    end.

waits(Some, Share) ->
    lists:any(fun({_, #{observations := All, waiting := N}}) -> N >= Share * All end, Some).

finding(Kind, First, Heavy, {Leaf, Part}, Ready) ->
    flame_prof_doctor_calls:finding(Kind, Heavy, ["in ", Leaf], #{
        sentences => [["It takes ", share(Part), " of all the CPU time of the node, and for each "
            "second of it processes wait ", flame_prof_doctor_rule:seconds(Ready * 1.0e6),
            " for a CPU."]],
        command => ["flame_prof pstack --node NODE ", flame_prof_doctor_samples:target(First)],
        numbers => #{of_node => Part, wait_us_per_second => Ready * 1.0e6}
    }).

%% @doc The part of its time in which it matches a regular expression.
-spec matches(flame_prof_doctor_samples:process(), flame_prof_doctor_samples:samples()) -> float().
matches(#{observations := All} = Process, Samples) ->
    Stacks = flame_prof_doctor_samples:busy(Samples, Process),
    flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:at_leaf(Stacks, ?EXPRESSION)) /
        max(1, All).

%% @doc A sentence where that is most of its time.
-spec expressions(flame_prof_doctor_samples:process(), flame_prof_doctor_samples:samples()) ->
    unicode:chardata().
expressions(Process, Samples) ->
    case matches(Process, Samples) of
        Part when Part > 0.5 ->
            ["A regular expression takes ", share(Part), " of the time: it may backtrack."];
        _ ->
            ""
    end.

%% @doc Those of a finding on a process that keeps a CPU.
-spec numbers(flame_prof_doctor_samples:process(), binary(),
    flame_prof_doctor_samples:samples()) -> #{atom() => number()}.
numbers(#{observations := All, runnable := Ready} = Process, Function, Samples) ->
    OnCpu = flame_prof_doctor_samples:on_cpu(Process),
    #{on_cpu => OnCpu, ready => Ready, share => OnCpu / All, ready_share => Ready / All,
        in_function => part(Function, flame_prof_doctor_samples:busy(Samples, Process)),
        in_expressions => matches(Process, Samples)}.

part(Function, Stacks) ->
    flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:within(Stacks, Function)) /
        max(1, flame_prof_doctor_stacks:weight(Stacks)).

%% @doc A sentence on the function that explains these stacks.
-spec where(binary(), flame_prof_doctor_stacks:stacks()) -> unicode:chardata().
where(<<>>, _Stacks) ->
    "";
where(Function, Stacks) ->
    ["It is in ", Function, " for ", share(part(Function, Stacks)), " of it."].
