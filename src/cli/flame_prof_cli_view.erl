%% @private `flame_prof view' and `flame_prof report': the viewer's pages.
%%
%% The viewer is not in every build of flame_prof: it needs more to be built.
-module(flame_prof_cli_view).

-export([do/2, can_report/1, report/2, report/3, report_of/3]).

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
    report(Files, maps:get(output, Parsed, First ++ ".html"), flame_prof_cli_files:reading(Parsed)).

%% That prints the link.
view(#{arguments := [Path]} = Parsed, Measured) ->
    Options = maps:with([port], Parsed),
    case viewer(flame_prof, view, [Path, Options#{measured => Measured}]) of
        {ok, #{url := _}} ->
            ok = until_interrupted(),
            %% The node ends with halt/1, which would leave the indexes.
            viewer(flame_prof_view, stop, []);
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

%% @doc Where `--report' is given: can a page be written there? To be asked before it is waited for.
-spec can_report(flame_prof_cli_args:parsed()) -> ok | {error, unicode:chardata()}.
can_report(#{report := Out}) ->
    HasPages = is_there(flame_prof_report, write, 3) andalso flame_prof_report:built() =:= ok,
    case HasPages andalso filelib:ensure_dir(Out) of
        false -> {error, "--report: this flame_prof was built without its viewer"};
        ok -> ok;
        {error, Reason} -> {error, flame_prof_error:file(filename:dirname(Out), Reason)}
    end;
can_report(_) ->
    ok.

%% @doc Several files are one profile. To its end, also when it is interrupted.
-spec report([file:filename()], file:filename()) -> ok | damaged | {error, unicode:chardata()}.
report(Files, Out) ->
    report(Files, Out, #{}).

%% @doc With options of {@link flame_prof_report:write/3}.
-spec report([file:filename()], file:filename(), map()) ->
    ok | damaged | {error, unicode:chardata()}.
report(Files, Out, Options) ->
    ok = flame_prof_cli_out:progress(["writing ", Out]),
    reported(Out, viewer(flame_prof_report, write, [Files, Out, Options])).

%% @doc The same of files that a node sent.
-spec report_of([flame_prof_recording:file()], file:filename(), map()) ->
    ok | damaged | {error, unicode:chardata() | flame_prof:reason()}.
report_of(Sent, Out, Options) ->
    ok = flame_prof_cli_out:progress(["writing ", Out]),
    %% This process prints, because it has the output.
    Written = flame_prof_temporary:with_files(Sent, fun(Files) ->
        viewer(flame_prof_report, write, [Files, Out, Options])
    end),
    reported(Out, Written).

reported(Out, {ok, #{bytes := Bytes, whole := Whole, losses := Losses, coarse_us := CoarseUs}}) ->
    ok = flame_prof_cli_out:progress_done(),
    ok = put([Out, ": ", flame_prof_text:grouped(Bytes), " bytes", coarse(CoarseUs), "\n"]),
    lists:foreach(fun flame_prof_cli_out:say/1, Losses),
    case Whole of
        true -> ok;
        false -> damaged
    end;
reported(_Out, {error, _} = Error) ->
    Error.

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
