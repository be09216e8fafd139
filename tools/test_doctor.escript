#!/usr/bin/env escript
%% Does the doctor find the faults of examples/trouble, and nothing in the healthy loads?
%%
%%   tools/test_doctor.escript [NAME ...]    without names: all of them
%%
%% Each is a node of its own that has nothing of flame_prof. `bin/flame_prof doctor' beside it says
%% what is wrong, and the fault's truth is looked for in its findings. Prints for each: first (the
%% first finding names it), mentioned (another one does), missed; of healthy ones quiet or false
%% alarm; and the seconds from the command's start. Where the finding has another function than the
%% truth, both are printed. What other programs do to the machine is no finding of the node
%% (stolen_cpu, throttled, memory_limit, losses) unless the truth has it: it is printed apart.
%% DOCTOR_FOR is how long it looks (10s), DOCTOR_WARM_UP_MS how long the node runs before,
%% DOCTOR_RUNS how often each healthy load is looked at (1). DOCTOR_TEXT=1 prints the findings.
%%
%% The last line is `N passed, N failed'. A fault is failed that is critical and missed, a healthy
%% load that has a finding, and what took more than 30 s; one more where of ten faults or more fewer
%% than 90 % are first.
-mode(compile).

-define(EBIN, "_build/examples/trouble/ebin").
-define(READY_MS, 60000).
-define(COMMAND_MS, 90000).
-define(SECONDS_MOST, 30).
-define(FIRST_LEAST, 0.9).
-define(FAULTS_LEAST, 10).
%% Of the machine, not of the node.
-define(OF_MACHINE, [<<"stolen_cpu">>, <<"throttled">>, <<"memory_limit">>, <<"losses">>]).

main(Names) ->
    ok = file:set_cwd(filename:join(filename:dirname(escript:script_name()), "..")),
    true = code:add_patha(?EBIN),
    Problems = asked_for(Names, trouble:faults() ++ trouble:healthy()),
    Verdicts = [{Problem, tested(Problem)} || Problem <- Problems, _ <- runs(Problem)],
    Counts = [{V, length([1 || {_, {Of, _, _}} <- Verdicts, Of =:= V])}
        || V <- [first, mentioned, missed, quiet, 'false alarm', failed]],
    io:format("~n~ts~n", [lists:join(", ", [io_lib:format("~b ~s", [N, V]) || {V, N} <- Counts])]),
    Slowest = lists:max([Seconds || {_, {_, Seconds, _}} <- Verdicts]),
    io:format("the slowest took ~.1f s~n", [Slowest]),
    Failures = [failed || {Problem, {Verdict, Seconds, _}} <- Verdicts,
        is_failed(Problem, Verdict) orelse Seconds > ?SECONDS_MOST] ++ too_few_first(Verdicts),
    Failed = length(Failures),
    io:format("~b passed, ~b failed~n", [max(0, length(Verdicts) - Failed), Failed]),
    halt(min(1, Failed)).

%% A healthy load is quiet now and noisy then.
runs(Problem) ->
    case trouble:truth(Problem) of
        #{kind := []} -> lists:seq(1, number("DOCTOR_RUNS", 1));
        #{} -> [once]
    end.

too_few_first(Verdicts) ->
    Faults = [Verdict || {Problem, {Verdict, _, _}} <- Verdicts,
        maps:get(kind, trouble:truth(Problem)) =/= []],
    First = length([first || first <- Faults]),
    case length(Faults) of
        All when All >= ?FAULTS_LEAST, First < ?FIRST_LEAST * All ->
            io:format("only ~b of ~b faults are first~n", [First, All]),
            [failed];
        _ ->
            []
    end.

asked_for([], All) -> All;
asked_for(Names, All) ->
    [case [Problem || Problem <- All, atom_to_list(Problem) =:= Name] of
        [Problem] -> Problem;
        [] ->
            io:format(standard_error, "unknown: ~ts; there are: ~ts~n",
                [Name, lists:join(" ", [atom_to_list(P) || P <- All])]),
            halt(2)
    end || Name <- Names].

is_failed(Problem, missed) -> maps:get(severity, trouble:truth(Problem)) =:= critical;
is_failed(_, Verdict) -> lists:member(Verdict, ['false alarm', failed]).

tested(Problem) ->
    Truth = trouble:truth(Problem),
    {Verdict, Seconds, Findings} = with_node(Problem, Truth, fun(Node, Cookie) ->
        timer:sleep(number("DOCTOR_WARM_UP_MS", 4000)),
        Begun = erlang:monotonic_time(millisecond),
        Said = doctor(Node, Cookie),
        Took = (erlang:monotonic_time(millisecond) - Begun) / 1000,
        ok = unseen(Said),
        judged(Truth, without_machine(Said, Truth), Took)
    end),
    io:format("~-18s ~-11s ~5.1f s  ~ts~n", [Problem, Verdict, Seconds, brief(Findings)]),
    ok = function(Truth, [F || F <- Findings, is_named(Truth, F)]),
    os:getenv("DOCTOR_TEXT") =/= false andalso text(Findings),
    {Verdict, Seconds, Findings}.

number(Name, Default) ->
    list_to_integer(os:getenv(Name, integer_to_list(Default))).

without_machine({10, #{<<"findings">> := Findings} = Said}, #{kind := Kinds}) ->
    Meant = [atom_to_binary(Kind) || Kind <- Kinds],
    {Of, Left} = lists:partition(fun(#{<<"kind">> := Kind}) ->
        lists:member(Kind, ?OF_MACHINE -- Meant) end, Findings),
    Of =:= [] orelse io:format("  of the machine: ~ts~n", [brief(Of)]),
    {case Left of [] -> 0; _ -> 10 end, Said#{<<"findings">> := Left}};
without_machine(Said, _) ->
    Said.

%% The function of the finding that names it, if that is another one than the truth's.
function(#{function := Function}, [#{<<"function">> := Function} | _]) ->
    ok;
function(#{function := Function}, [Finding | _]) ->
    io:format("  function: ~ts, told: ~ts~n",
        [Function, maps:get(<<"function">>, Finding, "none")]);
function(_, _) ->
    ok.

judged(#{kind := []}, {Status, #{<<"findings">> := Findings}}, Took) ->
    {case {Findings, Status} of {[], 0} -> quiet; _ -> 'false alarm' end, Took, Findings};
judged(Truth, {10, #{<<"findings">> := [First | Rest] = Findings}}, Took) ->
    case {is_named(Truth, First), lists:any(fun(F) -> is_named(Truth, F) end, Rest)} of
        {true, _} -> {first, Took, Findings};
        {_, true} -> {mentioned, Took, Findings};
        _ -> {missed, Took, Findings}
    end;
judged(_, {Status, #{<<"findings">> := []}}, Took) when Status =:= 0; Status =:= 1 ->
    {missed, Took, []};
judged(_, {_, Text}, Took) ->
    io:format("~ts~n", [Text]),
    {failed, Took, []}.

%% The kind, and one of the processes; where the truth has none, the kind alone.
is_named(#{kind := Kinds, process := Process}, #{<<"kind">> := Kind} = Finding) ->
    Wanted = [atom_to_binary(Name) || Name <- lists:flatten([Process])],
    Named = [Name || #{<<"name">> := Name} <- maps:get(<<"processes">>, Finding, [])],
    lists:member(binary_to_atom(Kind), Kinds) andalso
        (Wanted =:= [] orelse [N || N <- lists:sublist(Named, 1), lists:member(N, Wanted)] =/= []).

%% What could not be judged may be what is missed.
unseen({_, #{<<"unseen">> := [_ | _] = Unseen}}) ->
    io:format("  not seen: ~ts~n", [lists:join("; ", [[Kind, ": ", Why]
        || #{<<"kind">> := Kind, <<"why">> := Why} <- Unseen])]);
unseen(_) ->
    ok.

brief(Findings) ->
    lists:join(", ", [[Severity, " ", Kind, [[" ", Name] || #{<<"name">> := Name} <-
        lists:sublist(maps:get(<<"processes">>, Finding, []), 1)]]
        || #{<<"severity">> := Severity, <<"kind">> := Kind} = Finding <- Findings]).

text(Findings) ->
    [io:format("    ~ts: ~ts: ~ts~n~ts", [Severity, Kind, Title,
        [["      ", Sentence, "\n"] || Sentence <- Sentences]])
     || #{<<"severity">> := Severity, <<"kind">> := Kind, <<"title">> := Title,
        <<"sentences">> := Sentences} <- Findings].

%% The command; its answer as JSON, or as it is.

doctor(Node, Cookie) ->
    Args = ["doctor", Node, "--for", os:getenv("DOCTOR_FOR", "10s"), "--json", "--cookie", Cookie],
    Port = open_port({spawn_executable, "bin/flame_prof"}, [{args, Args}, binary, exit_status,
        stream, use_stdio]),
    {Status, Text} = collected(Port, [], erlang:monotonic_time(millisecond) + ?COMMAND_MS),
    try {Status, json(Text)} catch error:_ -> {Status, Text} end.

collected(Port, Said, Until) ->
    receive
        {Port, {data, Bytes}} -> collected(Port, [Said, Bytes], Until);
        {Port, {exit_status, Status}} -> {Status, iolist_to_binary(Said)}
    after max(0, Until - erlang:monotonic_time(millisecond)) ->
        kill(Port),
        {timeout, iolist_to_binary([Said, "no end\n"])}
    end.

%% The node.

with_node(Problem, Truth, Do) ->
    Cookie = "cookie" ++ integer_to_list(erlang:unique_integer([positive])) ++ os:getpid(),
    %% Two runs in folders of other releases have the same process ids, and one epmd.
    Node = "trouble_" ++ integer_to_list(rand:uniform(1 bsl 60), 36) ++ "@127.0.0.1",
    Args = ["-noinput", "-name", Node, "-setcookie", Cookie, "-pa", ?EBIN, "-s", "trouble", "hold"
        | maps:get(flags, Truth, [])],
    Env = [{"TROUBLE", atom_to_list(Problem)}, {"ERL_LIBS", false},
        {"ERL_CRASH_DUMP", "_build/examples/trouble/erl_crash.dump"}],
    Port = open_port({spawn_executable, os:find_executable("erl")},
        [{args, Args}, {env, Env}, binary, exit_status, stream, use_stdio, stderr_to_stdout]),
    try
        ok = ready(Port, <<>>),
        %% What it logs is taken, and left out.
        Do(Node, Cookie)
    catch
        throw:{failed, Why} ->
            io:format("~s: ~ts~n", [Problem, Why]),
            {failed, 0.0, []}
    after
        kill(Port)
    end.

ready(Port, Said) ->
    receive
        {Port, {data, Bytes}} ->
            Now = <<Said/binary, Bytes/binary>>,
            case binary:match(Now, <<"ready">>) of
                nomatch -> ready(Port, Now);
                _ -> ok
            end;
        {Port, {exit_status, _}} -> throw({failed, ["the node ended: ", Said]})
    after ?READY_MS -> throw({failed, ["the node is not ready: ", Said]})
    end.

kill(Port) ->
    case erlang:port_info(Port, os_pid) of
        {os_pid, Pid} ->
            _ = os:cmd("kill -9 " ++ integer_to_list(Pid)),
            ended(Port);
        undefined -> ok
    end.

ended(Port) ->
    receive
        {Port, {exit_status, _}} -> ok;
        {Port, {data, _}} -> ended(Port)
    after 5000 -> ok
    end.

%% JSON, which OTP reads from release 27 on only.

json(Text) ->
    {Value, Rest} = value(skip(Text)),
    <<>> = skip(Rest),
    Value.

value(<<"{", Rest/binary>>) -> object(skip(Rest), #{});
value(<<"[", Rest/binary>>) -> array(skip(Rest), []);
value(<<$", Rest/binary>>) -> string(Rest, []);
value(<<"true", Rest/binary>>) -> {true, Rest};
value(<<"false", Rest/binary>>) -> {false, Rest};
value(<<"null", Rest/binary>>) -> {null, Rest};
value(Text) ->
    {match, [{0, Length}]} = re:run(Text, "^-?[0-9.eE+-]+"),
    <<Number:Length/binary, Rest/binary>> = Text,
    case string:to_float(Number) of
        {error, _} -> {binary_to_integer(Number), Rest};
        {Float, _} -> {Float, Rest}
    end.

object(<<"}", Rest/binary>>, Map) -> {Map, Rest};
object(<<",", Rest/binary>>, Map) -> object(skip(Rest), Map);
object(Text, Map) ->
    {Key, Rest} = value(Text),
    <<":", Behind/binary>> = skip(Rest),
    {Value, More} = value(skip(Behind)),
    object(skip(More), Map#{Key => Value}).

array(<<"]", Rest/binary>>, List) -> {lists:reverse(List), Rest};
array(<<",", Rest/binary>>, List) -> array(skip(Rest), List);
array(Text, List) ->
    {Value, Rest} = value(Text),
    array(skip(Rest), [Value | List]).

string(<<$", Rest/binary>>, Said) -> {unicode:characters_to_binary(lists:reverse(Said)), Rest};
string(<<"\\u", Hex:4/binary, Rest/binary>>, Said) ->
    string(Rest, [binary_to_integer(Hex, 16) | Said]);
string(<<"\\n", Rest/binary>>, Said) -> string(Rest, [$\n | Said]);
string(<<"\\", C, Rest/binary>>, Said) -> string(Rest, [C | Said]);
string(<<C/utf8, Rest/binary>>, Said) -> string(Rest, [C | Said]).

skip(<<C, Rest/binary>>) when C =< 32 -> skip(Rest);
skip(Rest) -> Rest.
