%% @private The option `select' and its rankings.
%%
%% A ranking selects the N processes with the highest value of a metric, of those that pass its
%% filters, again at every interval. The native engine ranks by itself where there are no
%% filters (c_src/session/top_processes.h); {@link flame_prof_selector} does all others.
-module(flame_prof_selection).

-include("flame_prof_internal.hrl").

-export([validate/1, accepts/0, rows/0]).
-export([rules/1, top/1, interval/1, is_filtered/1, every/2]).
-export([metrics/0]).

-export_type([given/0, normal/0, rule/0, metric/0, filter/0, condition/0]).

-type metric() ::
    reductions
    | memory
    | message_queue_len
    | bin_vheap_size
    | mbuf_size
    | total_heap_size
    | minor_gcs.

-type condition() ::
    {registered_name, atom()}
    | {initial_call, module() | {module(), atom()} | mfa()}
    | {module, module()}
    | {application, atom()}.
%% A name of a process: the registered name; the function it was spawned with, or that proc_lib
%% has called for it (`M', `{M, F}' or `{M, F, A}'); a module on its stack; its application.

-type filter() :: condition() | [condition()].
%% A process passes when any of the conditions holds.

-type ranking() ::
    #{
        top => non_neg_integer() | flame_prof_options:left_out(),
        by => metric() | flame_prof_options:left_out(),
        delta => boolean() | flame_prof_options:left_out(),
        interval => pos_integer() | flame_prof_options:left_out(),
        include => filter() | flame_prof_options:left_out(),
        exclude => filter() | flame_prof_options:left_out()
    }.

-type given() ::
    {top, Processes :: non_neg_integer()}
    | {top, Processes :: non_neg_integer(), IntervalMs :: pos_integer()}
    | ranking()
    | [ranking()].

-type rule() ::
    #{
        top := non_neg_integer(),
        by := metric(),
        delta := boolean(),
        interval := pos_integer(),
        %% All processes, unless there are conditions.
        include := [condition()],
        exclude := [condition()]
    }.

-type normal() :: {top, non_neg_integer(), pos_integer()} | rule() | [rule()].

-define(TOP, 100).
-define(INTERVAL_MS, 5000).
-define(INTERVAL_LEAST_MS, 100).
-define(DAY_MS, 86400000).
%% Each selected process costs at every tick. The writer has room for 16384.
-define(TOP_MOST, 10000).
-define(CONDITIONS_MOST, 100).
%% Those go through the hands of flame_prof_targets, which has room for 1024 in
%% all.
-define(FILTERED_TOP_MOST, 500).

%% @doc The normal form is accepted as it is.
-spec validate(term()) -> {ok, normal()} | error | {error, flame_prof_schema:refused()}.
validate({top, Top}) ->
    validate({top, Top, ?INTERVAL_MS});
validate({top, Top, Ms}) when
    ?IS_WITHIN(Top, 0, ?TOP_MOST), ?IS_WITHIN(Ms, ?INTERVAL_LEAST_MS, ?DAY_MS)
->
    {ok, {top, Top, Ms}};
validate(Given) when is_map(Given) ->
    case validate([Given]) of
        {ok, [Rule]} -> {ok, Rule};
        Error -> Error
    end;
validate([_ | _] = Given) ->
    each(Given, []);
validate(_) ->
    error.

each([], Rules) ->
    case {top(Rules), top([Rule || Rule <- Rules, is_filtered(Rule)])} of
        {All, _} when All > ?TOP_MOST ->
            {error, too_many(All, ?TOP_MOST, "all rankings together")};
        {_, Filtered} when Filtered > ?FILTERED_TOP_MOST ->
            {error, too_many(Filtered, ?FILTERED_TOP_MOST, "those with filters together")};
        _ ->
            {ok, rounded(lists:reverse(Rules))}
    end;
each([Given | Rest], Rules) when is_map(Given), length(Rules) < ?FP_RANKINGS_MAX ->
    case flame_prof_schema:values(rows(), Given) of
        {ok, Values} -> each(Rest, [flame_prof_schema:complete(rows(), Values) | Rules]);
        {error, _} = Error -> Error
    end;
each(_, _) ->
    error.

%% Passes over all processes serve several rules: an interval is a multiple of the shortest one. The
%% normal form has the interval that is used, as info/0 shows it.
rounded(Rules) ->
    Shortest = lists:min([?DAY_MS | [Ms || #{top := Top, interval := Ms} <- Rules, Top > 0]]),
    [Rule#{interval := rounded(Ms, Shortest)} || #{interval := Ms} = Rule <- Rules].

rounded(Ms, Shortest) when Ms < Shortest -> Ms;
rounded(Ms, Shortest) -> min(round(Ms / Shortest), ?DAY_MS div Shortest) * Shortest.

too_many(Top, Most, Which) ->
    flame_prof_schema:refused(top, Top, io_lib:format("at most ~w of ~ts", [Most, Which])).

%% @doc The keys of a map in `select'.
-spec rows() -> [flame_prof_schema:row(), ...].
rows() ->
    [
        #{key => top, type => {whole, count, 0, ?TOP_MOST}, default => ?TOP,
            doc => "processes to sample; 0 is none. All maps together select up to 10000, those "
            "with filters up to 500"},
        #{key => by, type => {one_of, metrics()}, default => reductions,
            doc => "metric that processes are ranked by"},
        %% A counter says something by its growth; a size by itself.
        #{key => delta, type => boolean,
            default => {computed, fun(#{by := By}) -> By =:= reductions orelse By =:= minor_gcs end,
                "true for reductions and minor_gcs"},
            doc => "rank by the change of the metric since the previous selection"},
        #{key => interval, type => {whole, ms, ?INTERVAL_LEAST_MS, ?DAY_MS},
            default => ?INTERVAL_MS, doc => "time between two selections, in milliseconds; in a list "
            "rounded to a multiple of the shortest interval"},
        #{key => include, type => {own, fun filter/1, accepts_filter()}, default => [],
            doc => "only processes for which a condition holds"},
        #{key => exclude, type => {own, fun filter/1, accepts_filter()}, default => [],
            doc => "no process for which a condition holds"}
    ].

filter(Conditions) when is_list(Conditions) ->
    try length(Conditions) =< ?CONDITIONS_MOST andalso lists:all(fun is_condition/1, Conditions) of
        true -> {ok, Conditions};
        false -> error
    catch
        error:badarg -> error
    end;
filter(Condition) ->
    filter([Condition]).

is_condition({registered_name, Name}) -> is_atom(Name);
is_condition({module, Module}) -> is_atom(Module);
is_condition({application, Application}) -> is_atom(Application);
is_condition({initial_call, {M, F, A}}) ->
    is_atom(M) andalso is_atom(F) andalso ?IS_WITHIN(A, 0, 255);
is_condition({initial_call, {M, F}}) ->
    is_atom(M) andalso is_atom(F);
is_condition({initial_call, M}) ->
    is_atom(M);
is_condition(_) ->
    false.

accepts_filter() ->
    "{registered_name, Name}, {initial_call, M | {M, F} | {M, F, A}}, {module, Module}, "
    "{application, Application}, or a list of up to 100 of these".

%% @doc What `select' takes.
-spec accepts() -> string().
accepts() ->
    "{top, N} or {top, N, Ms}, N from 0 (none) to 10000, Ms from 100 to 86400000; or a map with "
    "the keys top, by, delta, interval, include and exclude; or a list of up to 8 such maps".

-spec metrics() -> [metric(), ...].
metrics() ->
    [reductions, memory, message_queue_len, bin_vheap_size, mbuf_size, total_heap_size, minor_gcs].

%% @doc The rules of a selection; none where it selects no process.
-spec rules(normal()) -> [rule()].
rules({top, Top, Ms}) ->
    rules(flame_prof_schema:complete(rows(), #{top => Top, interval => Ms}));
rules(Rule) when is_map(Rule) ->
    rules([Rule]);
rules(Rules) when is_list(Rules) ->
    [Rule || #{top := Top} = Rule <- Rules, Top > 0].

-spec top([rule()]) -> non_neg_integer().
top(Rules) ->
    lists:sum([Top || #{top := Top} <- Rules]).

%% @doc Of the passes over all processes, so that each rule takes part in some of them exactly.
-spec interval([rule()]) -> pos_integer().
interval([]) -> ?INTERVAL_MS;
interval([#{interval := Ms} | Rules]) -> lists:foldl(fun common/2, Ms, Rules).

%% The greatest common divisor: of some rules of a list the shortest one may be elsewhere.
common(#{interval := Ms}, Common) -> divisor(Ms, Common).

divisor(A, 0) -> A;
divisor(A, B) -> divisor(B, A rem B).

%% @doc Every which pass a rule takes part in.
-spec every(rule(), [rule()]) -> pos_integer().
every(#{interval := Ms}, Rules) ->
    Ms div interval(Rules).

-spec is_filtered(rule()) -> boolean().
is_filtered(#{include := [], exclude := []}) -> false;
is_filtered(#{}) -> true.
