%% @private `flame_prof allocations': which code of a node allocates.
%%
%% This process is the one that asked for it: when it ends, or its node does, the node measures
%% nothing any more, and what was lent to it is removed.
-module(flame_prof_cli_allocations).

-export([do/1]).

-import(flame_prof_cli_out, [put/1]).

-define(FOR_MS, 10000).
-define(LOOK_MS, 100).

-spec do(flame_prof_cli_args:parsed()) -> ok | interrupted | flame_prof_cli_args:failure().
do(#{json := true, collapsed := true}) ->
    {error, {usage, "--json and --collapsed: one of them"}};
do(#{node := [Name]} = Parsed) ->
    case flame_prof_remote:connect([Name], Parsed) of
        {ok, [Node]} ->
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            flame_prof_cli_attach:borrowing([Node], flame_prof_allocations, refused, Timeout,
                fun() -> measured(Node, Parsed) end);
        {error, _} = Error ->
            Error
    end.

measured(Node, Parsed) ->
    Ms = maps:get(for, Parsed, ?FOR_MS),
    Given = flame_prof_cli_look_options:given(flame_prof_allocations, Parsed),
    Long = maps:from_list([{long_gc_us, 1000 * Longest} || #{long_gc := Longest} <- [Parsed]]),
    Args = [Ms, (maps:merge(maps:remove(for, Given), Long))#{owner => self()}],
    Timeout = Ms + flame_prof_cli_nodes:timeout(Parsed),
    Command = self(),
    Caller = spawn_link(fun() -> Command ! {self(), call(Node, measure, Args, Timeout)} end),
    watched(Node, Caller, erlang:monotonic_time(millisecond), Ms, Parsed).

watched(Node, Caller, Since, Ms, Parsed) ->
    ok = flame_prof_cli:pause(?LOOK_MS),
    case flame_prof_cli:was_interrupted() of
        true ->
            finished(Node, Caller, Parsed);
        false ->
            receive
                {Caller, Answer} -> answered(Node, Answer, ok, Parsed)
            after 0 ->
                Passed = min(Ms, erlang:monotonic_time(millisecond) - Since),
                ok = flame_prof_cli_out:progress(
                    io_lib:format("~b s of ~b", [Passed div 1000, (Ms + 999) div 1000])),
                watched(Node, Caller, Since, Ms, Parsed)
            end
    end.

%% The measurement may not have begun yet.
finished(Node, Caller, Parsed) ->
    _ = call(Node, finish, [self()], flame_prof_cli_nodes:timeout(Parsed)),
    receive
        {Caller, Answer} -> answered(Node, Answer, interrupted, Parsed)
    after ?LOOK_MS -> finished(Node, Caller, Parsed)
    end.

call(Node, Function, Args, Timeout) ->
    flame_prof_remote:call(Node, flame_prof_allocations, Function, Args, Timeout).

answered(Node, {ok, {ok, Allocations}}, How, Parsed) ->
    %% There: its pids have the numbers that its own shell shows.
    {Module, Function} = format(Parsed),
    Timeout = flame_prof_cli_nodes:timeout(Parsed),
    case flame_prof_remote:call(Node, Module, Function, [Allocations], Timeout) of
        {ok, Formatted} ->
            ok = told(Node, Formatted, Parsed),
            How;
        {error, _} = Error ->
            Error
    end;
answered(Node, {ok, {error, Reason}}, _How, _Parsed) ->
    Why = unicode:characters_to_binary(flame_prof:format_error(Reason)),
    {error, {attach, #{node => Node, reason => Why, cause => refused}}};
answered(_Node, {error, _} = Error, _How, _Parsed) ->
    Error.

format(#{json := true}) -> {flame_prof_allocations_text, json};
format(#{collapsed := true}) -> {flame_prof_allocations_text, collapsed};
format(_) -> {flame_prof_allocations, format}.

told(Node, Json, #{json := true}) ->
    put([flame_prof_json:encode(flame_prof_look:envelope(flame_prof_allocations, Node, Json)),
        "\n"]);
told(_Node, Lines, #{collapsed := true}) ->
    put(Lines);
told(Node, Text, _Parsed) ->
    put([flame_prof_cli_out:bold(atom_to_list(Node)), "\n", Text]).
