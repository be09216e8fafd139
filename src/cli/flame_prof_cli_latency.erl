%% @private `flame_prof latency': calls of a node are measured for as long as this runs.
%%
%% This process is the one that asked for it: when it ends, or its node does, the node measures
%% nothing any more, and what was lent to it is removed.
-module(flame_prof_cli_latency).

-export([do/1]).

-import(flame_prof_cli_out, [put/1]).
-import(flame_prof_text, [grouped/1, plural/1]).

-define(FOR_MS, 10000).
-define(LOOK_MS, 1000).
%% The node ends it by itself so long after the command should have.
-define(GRACE_MS, 5000).
%% Of a measurement.
-define(MOST_MS, 86400000).

-spec do(flame_prof_cli_args:parsed()) -> ok | interrupted | flame_prof_cli_args:failure().
do(#{json := true, prometheus := true}) ->
    {error, {usage, "--json and --prometheus: one of them"}};
do(#{node := [Name], arguments := Functions} = Parsed) ->
    case flame_prof_remote:connect([Name], Parsed) of
        {ok, [Node]} ->
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            flame_prof_cli_attach:borrowing([Node], flame_prof_latency, refused, Timeout,
                fun() -> measured(Node, Functions, Parsed) end);
        {error, _} = Error ->
            Error
    end.

measured(Node, Texts, Parsed) ->
    case parsed(Node, Texts, [], Parsed) of
        {ok, Functions} -> started(Node, Functions, Parsed);
        {error, _} = Error -> Error
    end.

%% There: an atom that the node has not is no function of it.
parsed(_Node, [], Functions, _Parsed) ->
    {ok, lists:reverse(Functions)};
parsed(Node, [Text | Texts], Functions, Parsed) ->
    case call(Node, flame_prof_mfa, parse, [unicode:characters_to_binary(Text)], Parsed) of
        {ok, Function} -> parsed(Node, Texts, [Function | Functions], Parsed);
        {error, _} = Error -> Error
    end.

started(Node, Functions, Parsed) ->
    Ms = maps:get(for, Parsed, ?FOR_MS),
    Given = flame_prof_cli_look_options:given(flame_prof_latency, Parsed),
    Options = (maps:remove(functions, Given))#{owner => self(),
        for => min(?MOST_MS, Ms + ?GRACE_MS),
        heatmap => maps:get(json, Parsed, false)},
    case call(Node, flame_prof_latency, start, [Functions, Options], Parsed) of
        {ok, Ref} ->
            Since = now_ms(),
            watched(Node, Ref, Since, Since + Ms, 0, Parsed);
        {error, _} = Error ->
            Error
    end.

now_ms() -> erlang:monotonic_time(millisecond).

watched(Node, Ref, Since, Until, Calls, Parsed) ->
    Left = Until - now_ms(),
    case flame_prof_cli:was_interrupted() of
        true ->
            ended(Node, Ref, interrupted, Parsed);
        false when Left =< 0 ->
            ended(Node, Ref, ok, Parsed);
        false ->
            ok = flame_prof_cli:pause(min(?LOOK_MS, Left)),
            case call(Node, flame_prof_latency, interval, [Ref], Parsed) of
                {ok, #{ended := running, functions := Functions}} ->
                    More = Calls + lists:sum([N || #{calls := N} <- Functions]),
                    ok = flame_prof_cli_out:progress(
                        progress(now_ms() - Since, Until - Since, More)),
                    watched(Node, Ref, Since, Until, More, Parsed);
                {ok, _} ->
                    ended(Node, Ref, ok, Parsed);
                {error, _} = Error ->
                    Error
            end
    end.

progress(Ms, Of, Calls) ->
    io_lib:format("~b s of ~b: ~ts call~ts",
        [Ms div 1000, (Of + 999) div 1000, grouped(Calls), plural(Calls)]).

ended(Node, Ref, How, Parsed) ->
    case call(Node, flame_prof_latency, stop, [Ref], Parsed) of
        {ok, Answer} ->
            ok = told(Node, Answer, Parsed),
            How;
        {error, _} = Error ->
            Error
    end.

told(Node, Answer, #{json := true}) ->
    Json = flame_prof_latency_text:json(Answer),
    put([flame_prof_json:encode(flame_prof_look:envelope(flame_prof_latency, Node, Json)), "\n"]);
told(_Node, Answer, #{prometheus := true}) ->
    put(flame_prof_latency_text:prometheus(Answer));
told(Node, Answer, _Parsed) ->
    Name = flame_prof_cli_out:bold(atom_to_list(Node)),
    put([Name, "\n", flame_prof_latency_text:format(Answer)]).

%% The result of the function, or why it was not called.
call(Node, Module, Function, Args, Parsed) ->
    Timeout = flame_prof_cli_nodes:timeout(Parsed),
    case flame_prof_remote:call(Node, Module, Function, Args, Timeout) of
        {ok, {ok, _} = Answer} -> Answer;
        {ok, {error, Why}} when is_binary(Why) -> refused(Node, Why);
        {ok, {error, Reason}} -> refused(Node, flame_prof:format_error(Reason));
        {error, _} = Error -> Error
    end.

refused(Node, Why) ->
    {error, {attach, #{node => Node, reason => unicode:characters_to_binary(Why),
        cause => refused}}}.
