%% @private `flame_prof trace': events of a node as text, until its limits or Ctrl-C end it. The
%% trace runs in the node, and ends there, too, when this command is gone.
-module(flame_prof_cli_trace).

-export([do/1]).

-define(EVERY_MS, 100).

-spec do(flame_prof_cli_args:parsed()) -> ok | interrupted | flame_prof_cli_args:failure().
do(#{arguments := [Name | Patterns]} = Parsed) ->
    case flame_prof_remote:connect([Name], Parsed) of
        {ok, [Node]} ->
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            flame_prof_cli_attach:borrowing([Node], flame_prof_trace, refused, Timeout,
                fun() -> to(Node, Patterns, Timeout, Parsed) end);
        {error, _} = Error ->
            Error
    end.

to(Node, Patterns, Timeout, #{output := Name} = Parsed) ->
    case file:open(Name, [write, exclusive, raw]) of
        {ok, File} ->
            ok = file:change_mode(Name, 8#600),
            Write = fun(Text) -> ok = file:write(File, Text) end,
            try trace(Node, Patterns, Write, Timeout, Parsed)
            after file:close(File)
            end;
        {error, Reason} ->
            {error, flame_prof_error:file(Name, Reason)}
    end;
to(Node, Patterns, Timeout, Parsed) ->
    trace(Node, Patterns, fun flame_prof_cli_out:put/1, Timeout, Parsed).

trace(Node, Patterns, Write, Timeout, Parsed) ->
    Args = [self(), Patterns, options(Parsed)],
    case flame_prof_remote:call(Node, flame_prof_trace, start, Args, Timeout) of
        {ok, {ok, Trace}} ->
            _ = [flame_prof_cli_out:say("traces, until its limits or Ctrl-C")
                || flame_prof_cli_out:is_terminal(err)],
            follow(Node, Trace, Write, Timeout);
        {ok, {error, _} = Error} -> Error;
        {error, _} = Error -> Error
    end.

follow(Node, Trace, Write, Timeout) ->
    ok = flame_prof_cli:pause(?EVERY_MS),
    case flame_prof_cli:was_interrupted() of
        true ->
            _ = flame_prof_remote:call(Node, flame_prof_trace, stop, [Trace], Timeout),
            _ = next(Node, Trace, Write, Timeout),
            interrupted;
        false ->
            case next(Node, Trace, Write, Timeout) of
                more -> follow(Node, Trace, Write, Timeout);
                Over -> Over
            end
    end.

next(Node, Trace, Write, Timeout) ->
    case flame_prof_remote:call(Node, flame_prof_trace, next, [Trace], Timeout) of
        {ok, {More, Text}} when is_binary(Text) ->
            _ = [ok = Write(Text) || Text =/= <<>>],
            case More of more -> more; over -> ok end;
        {ok, {error, _} = Error} -> Error;
        {error, _} = Error -> Error
    end.

options(Parsed) ->
    Same = maps:with([rate, burst, depth, bytes, items, follow, first], Parsed),
    maps:merge(Same, maps:from_list(
        [{to, fetched}]
            ++ [{max_events, N} || #{events := N} <- [Parsed]]
            ++ [{max_cpu_percent, N} || #{cpu := N} <- [Parsed]]
            ++ [{max_seconds, max(1, Ms div 1000)} || #{for := Ms} <- [Parsed]]
            ++ [{processes, processes(Names)} || #{process := Names} <- [Parsed]])).

processes(Names) -> [unicode:characters_to_binary(Name) || Name <- string:lexemes(Names, ",")].
