%% @private What an export or a table is asked of a profile: the options of
%% {@link flame_prof_profile:export/4} and {@link flame_prof_profile:stacks/2}, checked, as the
%% queries that the library takes.
-module(flame_prof_query).

-include("flame_prof.hrl").

-export([checked/1, make/4]).
-export([group_by/1, names/0]).
-export([formats/0, metric/1, dimensions/0, selections/0, statuses/1]).
-export([is_of_allocations/1, weight/2]).

-type options() :: #{atom() => term()}.

%% Of any time.
-define(FIRST_US, -(1 bsl 63)).
-define(LAST_US, ((1 bsl 63) - 1)).
-define(MS_MOST, ((1 bsl 53) - 1)).

%% @doc With defaults. No file is needed for it.
-spec checked(term()) -> {ok, options()} | {error, flame_prof:reason()}.
checked(Given) ->
    case flame_prof_schema:checked(rows(), Given) of
        {ok, #{from := From, to := To}} when From =/= start, To =/= 'end', To =< From ->
            {error, flame_prof_error:option(to, To, <<"a time after that of `from'">>)};
        Checked ->
            Checked
    end.

%% @doc A query for each metric. The function returns the profile's processes.
-spec make(options(), flame_prof_profile:format() | none, flame_prof_profile:info(),
    fun(() -> [flame_prof_profile:process()] | {error, flame_prof:reason()})) ->
    {ok, [flame_prof_report_nif:query()]} | {error, flame_prof:reason()}.
make(#{by := By, group_by := Given} = Options, Format, Info, Processes) ->
    Metrics = listed(weight(By, Info)),
    Dimensions = dimensions(Given, Info),
    case {refused(Metrics, Options, Format, Info), filter(Options, Info, Processes)} of
        {none, {ok, Filter}} ->
            Frames = frames(Options, Format),
            {ok, [{Metric, Dimensions, Frames, Filter} || Metric <- Metrics]};
        {none, {error, _} = Error} ->
            Error;
        {Error, _} ->
            Error
    end.

refused(_Metrics, #{chains := true}, firefox, _Info) ->
    {error, flame_prof_error:option(chains, true, <<"false for firefox; collapsed, speedscope, "
        "pprof and perf have chains">>)};
refused([_, _ | _] = Metrics, _Options, Format, _Info) when
    Format =/= speedscope, Format =/= none
->
    {error, flame_prof_error:option(by, Metrics, <<"one metric; speedscope takes several">>)};
refused(Metrics, _Options, _Format, #{metrics := InFiles}) ->
    case [Name || {_, Name} <- Metrics, not lists:member(Name, InFiles)] of
        [] ->
            none;
        [Name | _] ->
            Known = lists:join(<<", ">>, [<<"samples">>, <<"period">> | InFiles]),
            Accepted = iolist_to_binary(["one of ", Known, " of these files"]),
            {error, flame_prof_error:option(by, Name, Accepted)}
    end.

%% @doc Whether the files tell who allocates: doc/format.md, Allocations.
-spec is_of_allocations(#{events := [binary()], atom() => term()}) -> boolean().
is_of_allocations(#{events := [<<"alloc-words">> | _]}) -> true;
is_of_allocations(#{}) -> false.

%% @doc What samples weigh where nothing was asked for.
-spec weight(by_event | Metric, flame_prof_profile:info()) -> Metric | flame_prof_profile:metric().
weight(by_event, Info) ->
    case is_of_allocations(Info) of
        true -> {value, <<"words">>};
        false -> samples
    end;
weight(Metric, _Info) ->
    Metric.

%% Allocations have one status.
dimensions(by_event, Info) ->
    case is_of_allocations(Info) of
        true -> [];
        false -> [status]
    end;
dimensions(Given, _Info) ->
    Given.

listed(Several) when is_list(Several) -> [query(Metric) || Metric <- Several];
listed(One) -> [query(One)].

query(Plain) when Plain =:= samples; Plain =:= period -> Plain;
query({Kind, Name}) -> {Kind, text(Name)};
query(Name) -> {delta, text(Name)}.

text(Metric) when is_atom(Metric) -> atom_to_binary(Metric);
text(Metric) -> Metric.

%% Sums without stacks are for tables: these formats have a stack in each sample. speedscope lists a
%% function once for each of its frames.
frames(#{stacks := false} = Options, Format) when Format =:= perf; Format =:= pprof ->
    frames(Options#{stacks := true}, Format);
frames(#{stacks := false, chains := true}, _Format) -> chains;
frames(#{stacks := false}, _Format) -> none;
frames(#{chains := true} = Options, Format) -> chains(frames(Options#{chains := false}, Format));
frames(#{lines := by_format}, speedscope) -> functions;
frames(#{lines := false}, _Format) -> functions;
frames(_, _Format) -> lines.

chains(lines) -> line_chains;
chains(functions) -> function_chains.

%% Samples.

filter(#{from := From, to := To, status := Status, process := Name}, Info, Processes) ->
    #{first_sample_us := First, last_us := Last} = Info,
    case {us(From, ?FIRST_US, First), us(To, ?LAST_US, First)} of
        {FromUs, _} when FromUs > Last ->
            Accepted = io_lib:format("at most ~b ms, the time of the last sample",
                [(Last - First) div 1000]),
            {error, flame_prof_error:option(from, From, iolist_to_binary(Accepted))};
        {FromUs, ToUs} ->
            selected(Name, Processes, {FromUs, ToUs, statuses(Status)})
    end.

us(Ms, _Any, First) when is_integer(Ms) -> min(First + Ms * 1000, ?LAST_US);
us(_, Any, _First) -> Any.

selected(all, _Processes, {From, To, Statuses}) ->
    {ok, {From, To, Statuses, all}};
selected(Name, Processes, {From, To, Statuses}) ->
    case Processes() of
        {error, _} = Error ->
            Error;
        Known ->
            Selected = << <<(is_called(Name, Process))>> || Process <- Known >>,
            case binary:match(Selected, <<1>>) of
                nomatch ->
                    {error, flame_prof_error:option(process, Name, <<"the pid, registered name, "
                        "label or initial call of a process in these files">>)};
                _ ->
                    {ok, {From, To, Statuses, Selected}}
            end
    end.

%% Every name that a file or a table has for it.
is_called(Name, #{erl_pid := Pid, name := Registered, label := Label, initial_call := Call,
        proc_lib_initial_call := ProcLibCall, comm := Comm} = Process) ->
    Texts = [Text || Text <- [Registered, Label, Call, ProcLibCall], Text =/= <<>>],
    Shown = [flame_prof_frames:process(Process)
        | [flame_prof_names:function(flame_prof_frames:decode(Text)) || Text <- Texts]],
    Decoded = [flame_prof_frames:decode(Text) || Text <- Texts],
    Thread = [Comm || Pid =:= <<>>],
    case lists:member(Name, [Pid | Shown ++ Decoded ++ Texts ++ Thread]) of
        true -> 1;
        false -> 0
    end.

%% @doc The texts of a file that a selection stands for; none: any.
-spec statuses(active | all | flame_prof:status()) -> [binary()].
statuses(all) -> [];
%% Samples of perf are of running threads and have no status.
statuses(active) -> [<<"running">>, <<"garbage_collecting">>, <<"runnable">>, <<>>];
statuses(Status) -> [atom_to_binary(Status)].

%% @doc What the option `status' takes.
-spec selections() -> [active | all | flame_prof:status(), ...].
selections() -> [all, active | ?FLAME_PROF_STATUSES].

%% Options.

rows() ->
    [
        #{key => by, alias => [measure, measures], default => by_event,
            type => {own, fun metrics/1,
                "samples, period, {value, Metric}, {delta, Metric}, a metric, or a list of such"}},
        #{key => group_by, alias => levels, default => by_event,
            type => {own, fun group_by/1, ["a list, each at most once, of: ", names()]}},
        #{key => lines, type => boolean, default => by_format},
        #{key => stacks, type => boolean, default => true},
        #{key => chains, type => boolean, default => false},
        #{key => from, type => {whole, ms, 0, ?MS_MOST}, default => start},
        #{key => to, type => {whole, ms, 1, ?MS_MOST}, default => 'end'},
        #{key => status, type => {one_of, selections()}, default => all},
        #{key => process, default => all,
            type => {own, fun process/1, "a pid, or a name, label or initial call as text"}},
        #{key => top, default => all,
            type => {either, [{all, all}], {whole, count, 1, (1 bsl 60) - 1}}}
    ].

metrics([_ | _] = Metrics) ->
    case is_proper(Metrics) andalso length(Metrics) =< 128 andalso
        lists:all(fun is_metric/1, Metrics) of
        true -> {ok, Metrics};
        false -> error
    end;
metrics(Metric) -> metric(Metric).

%% @doc One metric, as it was given.
-spec metric(term()) -> {ok, flame_prof_profile:metric()} | error.
metric(Metric) ->
    case is_metric(Metric) of
        true -> {ok, Metric};
        false -> error
    end.

is_metric({Kind, Name}) when Kind =:= value; Kind =:= delta -> is_name(Name);
is_metric(Name) -> is_name(Name).

is_name(Name) -> is_atom(Name) orelse is_binary(Name).

is_proper(List) when length(List) >= 0 -> true;
is_proper(_) -> false.

%% @doc Dimensions, each once.
-spec group_by(term()) -> {ok, [flame_prof_profile:dimension()]} | error.
group_by(Given) ->
    case is_proper(Given) andalso Given -- dimensions() =:= [] andalso
        length(lists:usort(Given)) =:= length(Given) of
        true -> {ok, Given};
        false -> error
    end.

process(Pid) when is_pid(Pid) -> {ok, list_to_binary(pid_to_list(Pid))};
process(Name) when is_atom(Name) -> {ok, atom_to_binary(Name)};
process(Text) ->
    try unicode:characters_to_binary(Text) of
        <<_, _/binary>> = Name -> {ok, Name};
        _ -> error
    catch
        error:badarg -> error
    end.

%% @doc Every format.
-spec formats() -> [flame_prof_profile:format(), ...].
formats() -> [collapsed, perf, speedscope, pprof, firefox].

%% @doc Every dimension.
-spec dimensions() -> [flame_prof_profile:dimension(), ...].
dimensions() ->
    [status, process, pid, node, memory, queue, sign, message, trace, span, event, file].

%% @doc For the text of an error.
-spec names() -> iolist().
names() ->
    lists:join(", ", [atom_to_binary(Dimension) || Dimension <- dimensions()]).
