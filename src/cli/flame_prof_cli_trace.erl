%% @private `flame_prof trace': events of a node as text, until its limits or Ctrl-C end it. The
%% trace runs in the node, and ends there, too, when this command is gone.
-module(flame_prof_cli_trace).

-export([do/1]).

-define(EVERY_MS, 100).

-spec do(flame_prof_cli_args:parsed()) -> ok | interrupted | flame_prof_cli_args:failure().
do(#{node := [Name], arguments := Patterns} = Parsed) ->
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
            try started(Node, Patterns, Timeout, Parsed) of
                {ok, Trace} ->
                    followed(Trace, Write, Timeout, Node);
                {error, _} = Error ->
                    %% A second attempt may have the same name.
                    _ = file:delete(Name),
                    Error
            after
                file:close(File)
            end;
        {error, Reason} ->
            {error, flame_prof_error:file(Name, Reason)}
    end;
to(Node, Patterns, Timeout, Parsed) ->
    case started(Node, Patterns, Timeout, Parsed) of
        {ok, Trace} -> followed(Trace, fun flame_prof_cli_out:put/1, Timeout, Node);
        {error, _} = Error -> Error
    end.

started(Node, Patterns, Timeout, Parsed) ->
    Given = flame_prof_cli_look_options:given(flame_prof_trace, Parsed),
    Args = [self(), Patterns, (maps:remove(patterns, Given))#{to => sent}],
    Answer = flame_prof_remote:call(Node, flame_prof_trace, start, Args, Timeout),
    case flame_prof_cli_nodes:outcome(Node, Answer) of
        {ok, Trace} ->
            _ = [flame_prof_cli_out:say("traces, until its limits or Ctrl-C")
                || flame_prof_cli_out:is_terminal(err)],
            {ok, Trace};
        {error, _} = Error -> Error
    end.

%% By messages only: a call would spawn a process in the node, and be an event there.
followed(Trace, Write, Timeout, Node) ->
    Monitor = monitor(process, Trace),
    How = follow(Trace, Monitor, Write, infinity),
    true = demonitor(Monitor, [flush]),
    case How of
        interrupted ->
            ok = flame_prof_trace:end_now(Trace),
            _ = follow(Trace, monitor(process, Trace), Write, now_ms() + Timeout),
            interrupted;
        gone ->
            gone(Node, Timeout);
        over ->
            ok
    end.

gone(Node, Timeout) ->
    case flame_prof_remote:call(Node, erlang, node, [], Timeout) of
        {ok, _} -> {error, {attach, #{node => Node, cause => refused,
            reason => <<"the process of the trace was killed there">>}}};
        {error, _} = Error -> Error
    end.

%% Until Ctrl-C, or after that until a time.
follow(Trace, Monitor, Write, Until) ->
    case stopped(Until) of
        no ->
            receive
                {flame_prof_trace, Trace, {More, Text}} ->
                    _ = [ok = Write(Text) || Text =/= <<>>],
                    ok = flame_prof_trace:taken(Trace),
                    case More of more -> follow(Trace, Monitor, Write, Until); over -> over end;
                {'DOWN', Monitor, process, Trace, _} ->
                    gone
            after ?EVERY_MS ->
                follow(Trace, Monitor, Write, Until)
            end;
        Why ->
            Why
    end.

stopped(infinity) ->
    case flame_prof_cli:was_interrupted() of
        true -> interrupted;
        false -> no
    end;
stopped(Until) ->
    case now_ms() < Until of
        true -> no;
        false -> gone
    end.

now_ms() -> erlang:monotonic_time(millisecond).
