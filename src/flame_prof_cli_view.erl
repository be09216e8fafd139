%% @private `flame_prof view' and `flame_prof report': the viewer's pages.
%%
%% The viewer is not in every build of flame_prof: it needs more to be built.
-module(flame_prof_cli_view).

-export([do/2, has_reports/0, report/2]).

-import(flame_prof_cli_out, [put/1]).

-define(LOOK_MS, 1000).

-spec do(view | report, flame_prof_cli_args:parsed()) -> ok | {error, unicode:chardata()}.
do(view, #{arguments := [Path]}) ->
    %% That prints the link.
    case viewer(view, [Path]) of
        {ok, #{url := _}} -> until_interrupted();
        {error, _} = Error -> Error
    end;
do(report, #{arguments := [First | _] = Files} = Parsed) ->
    report(Files, maps:get(output, Parsed, First ++ ".html")).

until_interrupted() ->
    case flame_prof_cli:was_interrupted() of
        true ->
            ok;
        false ->
            ok = flame_prof_cli:pause(?LOOK_MS),
            until_interrupted()
    end.

-spec has_reports() -> boolean().
has_reports() -> is_there(report, 2).

%% @doc Several files are one profile.
-spec report([file:filename()], file:filename()) -> ok | {error, unicode:chardata()}.
report(Files, Out) ->
    ok = flame_prof_cli_out:progress(["writing ", Out]),
    case viewer(report, [Files, Out]) of
        {ok, #{bytes := Bytes}} ->
            ok = flame_prof_cli_out:progress_done(),
            put([Out, ": ", flame_prof_text:grouped(Bytes), " bytes\n"]);
        {error, _} = Error ->
            Error
    end.

viewer(Function, Arguments) ->
    case is_there(Function, length(Arguments)) of
        true ->
            case apply(flame_prof, Function, Arguments) of
                {error, Reason} -> {error, flame_prof:format_error(Reason)};
                Answer -> Answer
            end;
        false ->
            {error, "this flame_prof was built without its viewer"}
    end.

is_there(Function, Arity) ->
    {module, flame_prof} = code:ensure_loaded(flame_prof),
    erlang:function_exported(flame_prof, Function, Arity).
