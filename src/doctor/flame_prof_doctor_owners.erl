%% @private Who has most of what a node is short of, by OTP's functions only: of processes the one
%% that spawned them, of ports and tables their owner. Of many, some are looked at.
-module(flame_prof_doctor_owners).

-export([of_node/2]).

-define(SOME, 500).
-define(MS, 3000).

%% @doc Nothing for what cannot be had, or is not had in time.
-spec of_node(node(), [flame_prof_limits:resource()]) -> [flame_prof_doctor_refused:taker()].
of_node(Node, Resources) ->
    [Taker || What <- Resources, Taker <- most(What, Node)].

most(processes, Node) ->
    owner(Node, processes, fun erlang:processes/0, "spawned by ", fun(Pids) ->
        [Parent || {parent, Parent} <- ask(Node, fun erlang:process_info/2, [[Pid, parent]
            || Pid <- Pids])]
    end);
most(ports, Node) ->
    owner(Node, ports, fun erlang:ports/0, "owned by ", fun(Ports) ->
        [Owner || {connected, Owner} <- ask(Node, fun erlang:port_info/2, [[Port, connected]
            || Port <- Ports])]
    end);
most(_What, _Node) ->
    [].

owner(Node, What, All, How, Owners) ->
    case ask(Node, All, [[]]) of
        [[_ | _] = Found] ->
            Some = some(Found),
            ranked(Node, What, How, length(Some), Owners(Some));
        _ ->
            []
    end.

%% Spread over all: of those that are looked at no kind is preferred.
some(Found) ->
    Step = max(1, length(Found) div ?SOME),
    every(Step, Found).

every(_Step, []) -> [];
every(Step, [First | _] = Found) ->
    [First | every(Step, lists:nthtail(min(Step, length(Found)), Found))].

ranked(Node, What, How, Of, Owners) ->
    Counts = maps:to_list(maps:groups_from_list(fun(Owner) -> Owner end, Owners)),
    case lists:reverse(lists:keysort(2, [{Pid, length(All)} || {Pid, All} <- Counts])) of
        %% One that has few is no cause.
        [{Pid, N} | _] when is_pid(Pid), 2 * N >= Of ->
            Process = #{pid => flame_prof_doctor_rule:pid(Pid), name => name(Node, Pid)},
            [#{what => What, looked_at => Of, have => N, process => Process,
                text => ["were ", How, flame_prof_doctor_rule:name(Process)]}];
        _ ->
            []
    end.

name(Node, Pid) ->
    case ask(Node, fun erlang:process_info/2, [[Pid, registered_name], [Pid, initial_call]]) of
        [{registered_name, Name}, _] when is_atom(Name) -> flame_prof_doctor_rule:text(Name);
        [_, {initial_call, Call}] -> flame_prof_doctor_rule:text(Call);
        _ -> <<>>
    end.

ask(Node, Fun, Calls) ->
    case flame_prof_remote:in_time(Node, [{Fun, Args} || Args <- Calls], ?MS) of
        {ok, Answers} -> Answers;
        _ -> []
    end.
