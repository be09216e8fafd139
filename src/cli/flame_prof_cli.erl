%% @private The command line: bin/flame_prof starts a node that runs main/0.
%%
%% flame_prof_cli_args knows the commands and their options, flame_prof_cli_files,
%% flame_prof_cli_looks and flame_prof_cli_nodes carry them out, flame_prof_cli_out writes.
-module(flame_prof_cli).

-export([main/0, command/1, was_interrupted/0, pause/1]).

-define(DONE, 0).
-define(FAILED, 1).
-define(USAGE, 2).
-define(UNREACHABLE, 3).
-define(DAMAGED, 4).
-define(FOUND, 10).
-define(INTERRUPTED, 130).

-spec main() -> no_return().
main() ->
    ok = flame_prof_cli_signals:install(self()),
    erlang:halt(command(init:get_plain_arguments())).

%% @doc The exit status of a command line, when all of its output is written.
-spec command([string()]) -> 0..255.
command(Words) ->
    ok = flame_prof_cli_out:open(),
    Status = status(run(Words)),
    ok = flame_prof_cli_out:progress_done(),
    whole(Status, flame_prof_cli_out:written()).

whole(?DONE, {error, Reason}) -> complain(["the output: ", file:format_error(Reason)], ?FAILED);
whole(Status, _) -> Status.

run(Words) ->
    try
        try_to(parsed(Words))
    catch
        throw:interrupted ->
            interrupted;
        throw:reader_gone ->
            ok;
        _:_:Stack ->
            {error, [flame_prof_error:internal(Stack), "; it is a bug of flame_prof ", version()]}
    end.

%% init returns a tuple for an argument that is not text in the encoding of file names; its type
%% does not say so.
-dialyzer({nowarn_function, parsed/1}).
parsed(Words) ->
    case [Begin || {_, Begin, _} <- Words] of
        [] -> flame_prof_cli_args:parse(Words);
        [Begin | _] -> {usage, ["the argument that begins with ", [$", Begin, $"],
            " is not UTF-8 text: names of files and nodes have to be"]}
    end.

try_to({ok, #{command := Command} = Parsed}) -> do(Command, Parsed);
try_to({help, Text}) -> flame_prof_cli_out:put(Text);
try_to({usage, _} = Usage) -> {error, Usage}.

do(version, _) ->
    flame_prof_cli_out:put([version(), "\n"]);
do(Command, Parsed) when Command =:= hot; Command =:= check; Command =:= export;
    Command =:= 'slow-calls'
->
    flame_prof_cli_files:do(Command, Parsed);
do(Command, Parsed) when Command =:= view; Command =:= report ->
    flame_prof_cli_view:do(Command, Parsed);
do(doctor, Parsed) ->
    flame_prof_cli_doctor:do(Parsed);
do(trace, Parsed) ->
    flame_prof_cli_trace:do(Parsed);
do(attach, Parsed) ->
    flame_prof_cli_attach:do(Parsed);
do(allocations, Parsed) ->
    flame_prof_cli_allocations:do(Parsed);
do(latency, Parsed) ->
    flame_prof_cli_latency:do(Parsed);
do(mcp, Parsed) ->
    flame_prof_cli_mcp:do(Parsed);
do(Command, Parsed) when Command =:= top; Command =:= info; Command =:= start; Command =:= flush;
    Command =:= stop
->
    flame_prof_cli_nodes:do(Command, Parsed);
do(Command, Parsed) ->
    {ok, Look} = flame_prof_cli_look_options:module(Command),
    flame_prof_cli_looks:do(Look, Parsed).

version() ->
    _ = application:load(flame_prof),
    {ok, Version} = application:get_key(flame_prof, vsn),
    Version.

status(ok) ->
    ?DONE;
status(damaged) ->
    ?DAMAGED;
status(found) ->
    ?FOUND;
status(interrupted) ->
    ?INTERRUPTED;
status({error, {usage, Text}}) ->
    complain(Text, ?USAGE);
status({error, {node, _} = Reason}) ->
    complain(flame_prof:format_error(Reason), ?UNREACHABLE);
status({error, {attach, #{cause := incompatible}} = Reason}) ->
    complain(flame_prof:format_error(Reason), ?UNREACHABLE);
status({error, Reason}) when is_tuple(Reason) ->
    complain(flame_prof:format_error(Reason), ?FAILED);
status({error, Text}) ->
    complain(Text, ?FAILED).

complain(Text, Status) ->
    ok = flame_prof_cli_out:say(Text),
    Status.

%% @doc Shorter when it is interrupted.
-spec pause(non_neg_integer()) -> ok.
pause(Ms) ->
    receive
        {?MODULE, interrupted} ->
            self() ! {?MODULE, interrupted},
            ok
    after Ms -> ok
    end.

%% @doc Was Ctrl-C pressed, or has the script that started the command ended? For the process
%% that runs main/0.
-spec was_interrupted() -> boolean().
was_interrupted() ->
    receive
        {?MODULE, interrupted} ->
            self() ! {?MODULE, interrupted},
            true
    after 0 -> flame_prof_cli_signals:is_orphan()
    end.
