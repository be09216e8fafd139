%% @private `flame_prof doctor': what is wrong with a node, or what files of a session say of it.
%%
%% The node collects; samples are read and all is judged here.
-module(flame_prof_cli_doctor).

-export([do/1, seen/2]).

-import(flame_prof_cli_out, [put/1, progress/1]).

%% More than the looks on the node take after their time.
-define(ANSWER_MS, 14000).
%% Beside the time of the look: what the whole command may take; of it what comes after the looks.
-define(COMMAND_MS, 19000).
-define(AFTER_MS, 2000).
-define(LEAVE_LEAST_MS, 1000).
-define(LEAVE_MOST_MS, 6000).

-spec do(flame_prof_cli_args:parsed()) ->
    ok | found | interrupted | flame_prof_cli_args:failure().
do(#{arguments := [Name | _] = Names} = Parsed) ->
    case {able(options(Parsed), Parsed), is_file(Name), Names} of
        {{error, _} = Error, _, _} -> Error;
        {{ok, Options}, true, _} -> of_files(Names, Options, Parsed);
        {{ok, Options}, false, [_]} -> of_node(Name, Options, Parsed);
        {{ok, _}, false, [_, Other | _]} ->
            {error, {usage, ["one node, or files: ", Other, " is one too many"]}}
    end.

%% Nobody is to wait for a page that cannot be written.
able({ok, _} = Options, Parsed) ->
    case flame_prof_cli_view:can_report(Parsed) of
        ok -> Options;
        {error, _} = Error -> Error
    end;
able({error, _} = Error, _Parsed) ->
    Error.

%% A node's name has no folder, and does not end as a profile's. One that is not there is told as a
%% file, then.
is_file(Name) ->
    filelib:is_regular(Name) orelse
        (not lists:member($@, Name) andalso
            (filename:dirname(Name) =/= "." orelse
                lists:member(filename:extension(Name), [".log", ".zst", ".gz"]))).

options(Parsed) ->
    Given = maps:merge(maps:with([for, engine], Parsed),
        #{thresholds => maps:from_list(maps:get(threshold, Parsed, []))}),
    case flame_prof_doctor:options(Given) of
        {ok, _} = Ok -> Ok;
        {error, Reason} -> {error, {usage, flame_prof:format_error(Reason)}}
    end.

of_files(Names, #{thresholds := Thresholds}, Parsed) ->
    Judged = flame_prof_file_losses:read(Names, #{}, fun(Profile) ->
        {ok, flame_prof_doctor:of_profile(Profile, Thresholds)}
    end),
    case Judged of
        {ok, Diagnosis} ->
            Told = told(Diagnosis, none, Parsed),
            reported(fun flame_prof_cli_view:report/3, Names, Diagnosis, Told, Parsed);
        {error, _} = Error ->
            Error
    end.

of_node(Name, #{for := Ms} = Options, Parsed) ->
    case flame_prof_remote:connect([Name], Parsed) of
        {ok, [Node]} ->
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            Outcome = lending(Node, Options, Timeout, fun(Agent) ->
                ok = progress(io_lib:format("looking at ~ts for ~b s", [Node, Ms div 1000])),
                Collected = flame_prof_remote_samples:beside(Agent, fun(More) ->
                    Within = min(left_ms(Ms), Ms + ?ANSWER_MS) - ?AFTER_MS,
                    collect(Node, maps:merge(Options, More), Within)
                end),
                collected(with_reason(Agent, Collected), Node, Options, Parsed)
            end),
            judged(Outcome, Node, Parsed);
        {error, _} = Error ->
            Error
    end.

%% A node that is short of what the doctor takes there has this finding.
judged({error, {attach, #{cause := short, short := Shortages}}}, Node, Parsed) ->
    Takers = flame_prof_doctor_owners:of_node(Node, [What || #{what := What} <- Shortages]),
    Diagnosis = flame_prof_doctor_refused:diagnosis(Node, Shortages, Takers),
    Told = told(Diagnosis, Node, Parsed),
    reported(fun flame_prof_cli_view:report_of/3, [], Diagnosis, Told, Parsed);
judged(Outcome, _Node, _Parsed) ->
    Outcome.

%% As borrowing/5 of flame_prof_cli_attach, but for how long giving back is waited for: the node
%% goes on with it by itself, and one that is busy takes long. Someone waits for the answer.
lending(Node, #{for := Ms, engine := Engine}, Timeout, Fun) ->
    case flame_prof_remote:lacks(Node, flame_prof_doctor_evidence, Timeout) of
        {ok, true} ->
            ok = progress(io_lib:format("attaching to ~ts", [Node])),
            case flame_prof_attach:open(Node, flame_prof_remote_samples:without(Engine), doctor) of
                {ok, Agent} ->
                    Consequence = ["; the portable engine samples it, and the samples are read here"
                        || flame_prof_attach:has_writer(Agent)],
                    ok = flame_prof_cli_attach:report_lack(Node, Agent, Consequence),
                    try Fun(Agent) after left(Node, Agent, Ms) end;
                {error, _} = Error -> Error
            end;
        %% It has flame_prof, of which the first look loads all modules.
        {ok, false} ->
            case flame_prof_preflight:ask(Node, doctor, true) of
                {error, _} = Error -> Error;
                _ -> Fun(none)
            end;
        {error, _} = Error ->
            Error
    end.

%% The node knows only that it has no library.
with_reason(none, Collected) ->
    Collected;
with_reason(Agent, {ok, {#{unseen := #{samples := _} = Unseen} = Evidence, Files}} = Collected) ->
    case not flame_prof_attach:has_writer(Agent) andalso flame_prof_attach:lacks(Agent) of
        {true, Why} ->
            Because = <<"it runs without the library: ", Why/binary>>,
            {ok, {Evidence#{unseen := Unseen#{samples := Because}}, Files}};
        false ->
            Collected
    end;
with_reason(_Agent, Collected) ->
    Collected.

left(Node, Agent, Ms) ->
    Left = max(?LEAVE_LEAST_MS, min(?LEAVE_MOST_MS, left_ms(Ms))),
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
            "~ts is busy; the removal of flame_prof from it goes on", [Node]))
    end.

%% Of the time that the command may take.
left_ms(Ms) ->
    Started = erlang:convert_time_unit(erlang:system_info(start_time), native, millisecond),
    Started + Ms + ?COMMAND_MS - erlang:monotonic_time(millisecond).

%% The node counts the time; an answer that comes late is better than none.
collect(Node, #{for := Ms} = Options, WithinMs) ->
    Collected = (maps:with([for, engine, samples], Options))#{
        within => max(1, WithinMs),
        caller => self()
    },
    flame_prof_remote:at_once(Node, flame_prof_doctor_evidence, collect, [Collected],
        Ms + ?ANSWER_MS).

%% @doc For `flame_prof mcp': as text, and as JSON. The node has what the doctor needs.
-spec seen(node(), flame_prof_cli_args:parsed()) ->
    {ok, flame_prof_cli_looks:seen()} | {error, flame_prof:reason()}.
seen(Node, Parsed) ->
    {ok, #{thresholds := Thresholds} = Options} =
        flame_prof_doctor:options(maps:with([for], Parsed)),
    #{for := Ms} = Options,
    case collect(Node, Options, Ms + ?ANSWER_MS - ?AFTER_MS) of
        {ok, {Evidence, Files}} ->
            Diagnosis = flame_prof_doctor:diagnosed(Evidence, Files, Thresholds),
            Text = text(Diagnosis, Node),
            {ok, #{text => unicode:characters_to_binary(Text), json => json(Diagnosis, Node)}};
        {error, _} = Error ->
            Error
    end.

text(Diagnosis, Node) ->
    Named = #{node => atom_to_list(Node)},
    [atom_to_list(Node), "\n\n", flame_prof_doctor_text:format(Diagnosis, Named)].

json(Diagnosis, Node) ->
    Json = flame_prof_doctor:json(Diagnosis),
    flame_prof_json:encode(flame_prof_look:envelope(flame_prof_doctor, Node, Json)).

collected({ok, {Evidence, Files}}, Node, #{thresholds := Thresholds}, Parsed) ->
    ok = progress("judging"),
    Diagnosis = flame_prof_doctor:diagnosed(Evidence, Files, Thresholds),
    Told = told(Diagnosis, Node, Parsed),
    reported(fun flame_prof_cli_view:report_of/3, Files, Diagnosis, Told, Parsed);
collected({error, _} = Error, _Node, _Options, _Parsed) ->
    Error.

%% A node that could not be examined is not healthy.
told(#{findings := [], looked_at := #{seen := []}, unseen := [{_, Why} | _] = Unseen}, _, _) ->
    Reasons = [Reason || {hot_function, Reason} <- Unseen] ++ [Why],
    {error, ["nothing was seen, and nothing is judged: ", hd(Reasons)]};
told(#{findings := Findings} = Diagnosis, Node, Parsed) ->
    ok = flame_prof_cli_out:progress_done(),
    ok = case Parsed of
        #{json := true} ->
            put([json(Diagnosis, Node), "\n"]);
        _ when Node =:= none ->
            put(flame_prof_doctor:format(Diagnosis));
        _ ->
            Named = #{node => atom_to_list(Node)},
            put([flame_prof_cli_out:bold(atom_to_list(Node)), "\n\n",
                flame_prof_doctor_text:format(Diagnosis, Named)])
    end,
    case {Findings, flame_prof_doctor_text:why_not_judged(Diagnosis)} of
        {[], none} -> ok;
        {[], too_short} -> {error, "many kinds are not judged: they need six seconds or more"};
        {[], not_sampled} ->
            {error, ["most kinds are not judged, because nothing was sampled: ", why(Diagnosis)]};
        _ -> found
    end.

why(#{unseen := Unseen}) ->
    hd([Reason || {hot_function, Reason} <- Unseen] ++ [<<"no sample was taken">>]).

%% The page has the findings of this look, and not what its samples alone would tell.
reported(_Write, [], Diagnosis, _Told, #{report := Out}) ->
    {error, [Out, ": not written, because a page shows samples: ", why(Diagnosis)]};
reported(Write, Files, Diagnosis, Told, #{report := Out}) ->
    done(Write(Files, Out, #{diagnosis => Diagnosis}), Told);
reported(_Write, _Files, _Diagnosis, Told, _Parsed) ->
    Told.

done(ok, Told) -> Told;
done(Failed, _Told) -> Failed.
