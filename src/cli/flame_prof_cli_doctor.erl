%% @private `flame_prof doctor': what is wrong with a node, or what files of a session say of it.
%%
%% The node collects; samples are read and all is judged here.
-module(flame_prof_cli_doctor).

-export([do/1, seen/2]).

-import(flame_prof_cli_out, [put/1, progress/1]).

%% More than the looks on the node take after their time.
-define(ANSWER_MS, 12000).
%% Beside the time of the look: what the whole command may take.
-define(COMMAND_MS, 18000).
-define(LEAVE_LEAST_MS, 1000).

-spec do(flame_prof_cli_args:parsed()) ->
    ok | found | interrupted | flame_prof_cli_args:failure().
do(#{arguments := [Name | _] = Names} = Parsed) ->
    case {options(Parsed), is_file(Name), Names} of
        {{error, _} = Error, _, _} -> Error;
        {{ok, Options}, true, _} -> of_files(Names, Options, Parsed);
        {{ok, Options}, false, [_]} -> of_node(Name, Options, Parsed);
        {{ok, _}, false, [_, Other | _]} ->
            {error, {usage, ["one node, or files: ", Other, " is one too many"]}}
    end.

%% A node's name has an @, or no folder.
is_file(Name) -> filelib:is_regular(Name).

options(Parsed) ->
    Given = maps:merge(maps:with([for, engine], Parsed),
        #{thresholds => maps:from_list(maps:get(threshold, Parsed, []))}),
    case flame_prof_doctor:options(Given) of
        {ok, _} = Ok -> Ok;
        {error, Reason} -> {error, {usage, flame_prof:format_error(Reason)}}
    end.

of_files(Names, #{thresholds := Thresholds}, Parsed) ->
    case flame_prof_profile:read(Names) of
        {ok, Profile} ->
            Diagnosis = flame_prof_doctor:of_profile(Profile, Thresholds),
            ok = flame_prof_profile:close(Profile),
            reported(Names, told(Diagnosis, none, Parsed), Parsed);
        {error, _} = Error ->
            Error
    end.

of_node(Name, #{for := Ms} = Options, Parsed) ->
    case flame_prof_remote:connect([Name], Parsed) of
        {ok, [Node]} ->
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            lending(Node, Ms, Timeout, fun() ->
                ok = progress(io_lib:format("looking at ~ts for ~b s", [Node, Ms div 1000])),
                collected(collect(Node, Options), Node, Options, Parsed)
            end);
        {error, _} = Error ->
            Error
    end.

%% As borrowing/5 of flame_prof_cli_attach, but for how long giving back is waited for: the node
%% goes on with it by itself, and one that is busy takes long. Someone waits for the answer.
lending(Node, Ms, Timeout, Fun) ->
    case flame_prof_remote:call(Node, code, which, [flame_prof_doctor_evidence], Timeout) of
        {ok, non_existing} ->
            ok = progress(io_lib:format("attaching to ~ts", [Node])),
            case flame_prof_attach:open(Node, bare) of
                {ok, Agent} -> try Fun() after left(Node, Agent, Ms) end;
                {error, _} = Error -> Error
            end;
        {ok, _} ->
            Fun();
        {error, _} = Error ->
            Error
    end.

left(Node, Agent, Ms) ->
    Started = erlang:convert_time_unit(erlang:system_info(start_time), native, millisecond),
    Until = Started + Ms + ?COMMAND_MS,
    Left = max(?LEAVE_LEAST_MS, Until - erlang:monotonic_time(millisecond)),
    Self = self(),
    Ref = make_ref(),
    _ = spawn(fun() -> Self ! {Ref, flame_prof_attach:close(Agent)} end),
    receive
        {Ref, {error, {Class, _} = Reason}} when Class =/= node ->
            flame_prof_cli_out:say(flame_prof:format_error(Reason));
        {Ref, _} ->
            ok
    after Left ->
        flame_prof_cli_out:say(io_lib:format(
            "~ts is busy, and has not yet given back all that it was lent; it goes on", [Node]))
    end.

collect(Node, #{for := Ms} = Options) ->
    Collected = maps:with([for, engine], Options),
    flame_prof_remote:call(Node, flame_prof_doctor_evidence, collect, [Collected],
        Ms + ?ANSWER_MS).

%% @doc For `flame_prof mcp': as text, and as JSON. The node has what the doctor needs.
-spec seen(node(), flame_prof_cli_args:parsed()) ->
    {ok, flame_prof_cli_looks:seen()} | {error, flame_prof:reason()}.
seen(Node, Parsed) ->
    {ok, #{thresholds := Thresholds} = Options} =
        flame_prof_doctor:options(maps:with([for], Parsed)),
    case collect(Node, Options) of
        {ok, {Evidence, Files}} ->
            Diagnosis = flame_prof_doctor:diagnosed(Evidence, Files, Thresholds),
            Text = text(Diagnosis, Node),
            {ok, #{text => unicode:characters_to_binary(Text), json => json(Diagnosis)}};
        {error, _} = Error ->
            Error
    end.

text(Diagnosis, Node) ->
    Named = #{node => atom_to_list(Node)},
    [atom_to_list(Node), "\n\n", flame_prof_doctor_text:format(Diagnosis, Named)].

json(Diagnosis) -> flame_prof_json:encode(flame_prof_doctor:json(Diagnosis)).

collected({ok, {Evidence, Files}}, Node, #{thresholds := Thresholds}, Parsed) ->
    ok = progress("judging"),
    Diagnosis = flame_prof_doctor:diagnosed(Evidence, Files, Thresholds),
    Told = told(Diagnosis, Node, Parsed),
    case Parsed of
        #{report := _} when Files =/= [] ->
            Report = fun(Paths) -> reported(Paths, Told, Parsed) end,
            case flame_prof_doctor_files:placed(Files, Report) of
                {ok, Reported} -> Reported;
                {error, _} = Error -> Error
            end;
        #{} ->
            Told
    end;
collected({error, _} = Error, _Node, _Options, _Parsed) ->
    Error.

told(#{findings := Findings} = Diagnosis, Node, Parsed) ->
    ok = flame_prof_cli_out:progress_done(),
    ok = case Parsed of
        #{json := true} ->
            put([json(Diagnosis), "\n"]);
        _ when Node =:= none ->
            put(flame_prof_doctor:format(Diagnosis));
        _ ->
            Named = #{node => atom_to_list(Node)},
            put([flame_prof_cli_out:bold(atom_to_list(Node)), "\n\n",
                flame_prof_doctor_text:format(Diagnosis, Named)])
    end,
    case Findings of [] -> ok; _ -> found end.

reported(Files, Told, #{report := Out}) ->
    case flame_prof_cli_view:report(Files, Out) of
        ok -> Told;
        Failed -> Failed
    end;
reported(_Files, Told, _Parsed) ->
    Told.
