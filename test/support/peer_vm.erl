%% Another VM of this release that evaluates something, for tests that would harm or
%% end the one that they run in. It does not live on when that ends.
-module(peer_vm).

-export([start/2, start/3, value/3, value/4, values/2, output/1, output/2, end_with_us/0]).

-define(PATIENCE_MS, 300000).

%% With the code of these modules on its path. The port is the caller's.
start(Modules, Expressions) -> start(Modules, Expressions, []).

%% And with more arguments of `erl'.
start(Modules, Expressions, Arguments) ->
    Paths = lists:append([["-pa", filename:dirname(code:which(M))] || M <- Modules]),
    open_port({spawn_executable, filename:join([code:root_dir(), "bin", "erl"])}, [
        exit_status, stderr_to_stdout, use_stdio, hide,
        {args, Arguments ++ ["-noinput" | Paths] ++ ["-eval", end_with_us(), "-eval", Expressions]}
    ]).

%% What Module:Function() answers in a VM that is started with these arguments.
value(Module, Function, Arguments) ->
    value([filename:join([code:root_dir(), "bin", "erl"])], Module, Function, Arguments).

%% And by this command, which runs erl at its end.
value(Command, Module, Function, Arguments) ->
    case answers(Command, [{Module, Function}], Arguments) of
        [Answer] -> Answer;
        Died -> Died
    end.

%% What each of [{Module, Function}] answers there, one after the other in one VM.
values(Calls, Arguments) ->
    answers([filename:join([code:root_dir(), "bin", "erl"])], Calls, Arguments).

answers([Program | Before], Calls, Arguments) ->
    Modules = [flame_prof | [Module || {Module, _} <- Calls]],
    Paths = lists:usort([filename:dirname(code:which(M)) || M <- Modules]),
    Expression = lists:flatten(io_lib:format(
        "Answers = [try M:F() catch C:R:S -> {died, C, {R, S}} end || {M, F} <- ~w], "
        "io:format(\"~~n<answer ~~s>~~n\", [base64:encode(term_to_binary(Answers))]), halt().",
        [Calls])),
    Port = open_port({spawn_executable, Program}, [exit_status, stderr_to_stdout, use_stdio, hide,
        {args, Before ++ Arguments ++ ["-noinput", "-pa" | Paths]
            ++ ["-eval", end_with_us(), "-eval", Expression]}]),
    {Status, Output} = output(Port),
    case re:run(Output, "<answer (.*)>", [{capture, [1], list}]) of
        {match, [Text]} when Status =:= 0 -> binary_to_term(base64:decode(Text));
        _ -> {died, Status, Output}
    end.

%% All that it prints until it ends, and its exit status.
output(Port) -> output(Port, ?PATIENCE_MS).

%% Which may be silent for so long (or infinity).
output(Port, PatienceMs) -> output(Port, PatienceMs, []).

output(Port, PatienceMs, Output) ->
    receive
        {Port, {data, More}} -> output(Port, PatienceMs, [Output | More]);
        {Port, {exit_status, Status}} -> {Status, lists:flatten(Output)}
    after PatienceMs -> {hangs, lists:flatten(Output)}
    end.

%% Expressions for the VM behind a port: its standard input is that port, which
%% closes when the VM that opened it ends, in any way.
end_with_us() ->
    "spawn(fun() -> Input = open_port({fd, 0, 0}, [in, eof]), "
    "(fun F() -> receive {Input, eof} -> halt(0, [{flush, false}]); _ -> F() end end)() end).".
