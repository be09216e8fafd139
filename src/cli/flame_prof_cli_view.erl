%% @private `flame_prof view' and `flame_prof report': the viewer's pages.
%%
%% The viewer is not in every build of flame_prof: it needs more to be built.
-module(flame_prof_cli_view).

-export([do/2, has_reports/0, report/2]).

-import(flame_prof_cli_out, [put/1]).

-define(LOOK_MS, 1000).

-spec do(view | report, flame_prof_cli_args:parsed()) ->
    ok | damaged | flame_prof_cli_args:failure().
do(view, #{node := [_, _ | _]}) ->
    {error, {usage, "--node: the page measures one node"}};
do(view, #{node := Names} = Parsed) ->
    %% --port is the page's.
    case flame_prof_remote:connect(Names, maps:remove(port, Parsed)) of
        {ok, [Node]} ->
            flame_prof_cli_attach:borrowing([Node], flame_prof_latency, refused,
                flame_prof_cli_nodes:timeout(Parsed), fun() -> view(Parsed, Node) end);
        {error, _} = Error ->
            Error
    end;
do(view, Parsed) ->
    view(Parsed, none);
do(report, #{arguments := [First | _] = Files} = Parsed) ->
    Reading = #{progress => fun flame_prof_cli_files:progress/3},
    report(Files, maps:get(output, Parsed, First ++ ".html"), Reading).

%% That prints the link.
view(#{arguments := [Path]} = Parsed, Measured) ->
    Options = maps:with([port], Parsed),
    case viewer(flame_prof, view, [Path, Options#{measured => Measured}]) of
        {ok, #{url := _}} -> until_interrupted();
        {error, _} = Error -> Error
    end.

until_interrupted() ->
    case flame_prof_cli:was_interrupted() of
        true ->
            ok;
        false ->
            ok = flame_prof_cli:pause(?LOOK_MS),
            until_interrupted()
    end.

-spec has_reports() -> boolean().
has_reports() ->
    is_there(flame_prof_report, write, 3) andalso flame_prof_report:built() =:= ok.

%% @doc Several files are one profile. To its end, also when it is interrupted.
-spec report([file:filename()], file:filename()) -> ok | damaged | {error, unicode:chardata()}.
report(Files, Out) ->
    report(Files, Out, #{}).

report(Files, Out, Reading) ->
    ok = flame_prof_cli_out:progress(["writing ", Out]),
    case viewer(flame_prof_report, write, [Files, Out, Reading]) of
        {ok, #{bytes := Bytes, whole := Whole, losses := Losses, coarse_us := CoarseUs}} ->
            ok = flame_prof_cli_out:progress_done(),
            ok = put([Out, ": ", flame_prof_text:grouped(Bytes), " bytes", coarse(CoarseUs), "\n"]),
            lists:foreach(fun flame_prof_cli_out:say/1, Losses),
            case Whole of
                true -> ok;
                false -> damaged
            end;
        {error, _} = Error ->
            Error
    end.

coarse(0) -> "";
coarse(Us) when Us < 1000000 -> io_lib:format(", in cells of ~b ms", [Us div 1000]);
coarse(Us) -> io_lib:format(", in cells of ~b s", [Us div 1000000]).

viewer(Module, Function, Arguments) ->
    case is_there(Module, Function, length(Arguments)) of
        true ->
            case apply(Module, Function, Arguments) of
                {error, Reason} -> {error, flame_prof:format_error(Reason)};
                Answer -> Answer
            end;
        false ->
            {error, "this flame_prof was built without its viewer"}
    end.

is_there(Module, Function, Arity) ->
    _ = code:ensure_loaded(Module),
    erlang:function_exported(Module, Function, Arity).
