%% @private What `auto_select' may say, and which rules that comes to.
%%
%% A rule is a contest: the N processes with the highest figure, of those that its
%% filters let take part, held anew every so many milliseconds. The native engine
%% holds those without filters itself (c_src/session/top_processes.h); all others are held by
%% {@link flame_prof_selector}.
-module(flame_prof_selection).

-export([validate/1, accepts/0]).
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

%% One of a process' names: as it is registered; the function it was spawned with,
%% or that proc_lib has called for it (`M', `{M, F}' or `{M, F, A}'); a module on
%% its stack; the application it belongs to.
-type condition() ::
    {registered_name, atom()}
    | {initial_call, module() | {module(), atom()} | mfa()}
    | {module, module()}
    | {application, atom()}.

%% A process passes when any of the conditions holds.
-type filter() :: condition() | [condition()].

-type contest() ::
    #{
        top => non_neg_integer(),
        by => metric(),
        delta => boolean(),
        interval => pos_integer(),
        include => filter(),
        exclude => filter()
    }.

-type given() ::
    {top, Processes :: non_neg_integer()}
    | {top, Processes :: non_neg_integer(), IntervalMs :: pos_integer()}
    | contest()
    | [contest()].

-type rule() ::
    #{
        top := non_neg_integer(),
        by := metric(),
        delta := boolean(),
        interval := pos_integer(),
        %% Everybody, unless there are conditions.
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
%% FP_RULES_MAX of c_src/session/top_processes.h.
-define(RULES_MOST, 8).
-define(CONDITIONS_MOST, 100).
%% Those go through the hands of flame_prof_targets, which has room for 1024 in
%% all.
-define(FILTERED_TOP_MOST, 500).

-define(IS_WITHIN(Value, Least, Most),
    (is_integer(Value) andalso Value >= Least andalso Value =< Most)
).

%% @doc The normal form is accepted as it is.
-spec validate(term()) -> {ok, normal()} | error.
validate({top, Top}) ->
    validate({top, Top, ?INTERVAL_MS});
validate({top, Top, Ms}) when
    ?IS_WITHIN(Top, 0, ?TOP_MOST), ?IS_WITHIN(Ms, ?INTERVAL_LEAST_MS, ?DAY_MS)
->
    {ok, {top, Top, Ms}};
validate(Contest) when is_map(Contest) ->
    case contests([Contest], [], 0) of
        {ok, [Rule]} -> {ok, Rule};
        error -> error
    end;
validate([_ | _] = Contests) ->
    contests(Contests, [], 0);
validate(_) ->
    error.

contests([], Rules, Top) when Top =< ?TOP_MOST ->
    case top([Rule || Rule <- Rules, is_filtered(Rule)]) =< ?FILTERED_TOP_MOST of
        true -> {ok, lists:reverse(Rules)};
        false -> error
    end;
contests([Contest | Contests], Rules, Top) when is_map(Contest), length(Rules) < ?RULES_MOST ->
    case contest(Contest) of
        {ok, #{top := More} = Rule} -> contests(Contests, [Rule | Rules], Top + More);
        error -> error
    end;
contests(_, _, _) ->
    error.

contest(Contest) ->
    Keys = [top, by, interval, delta, include, exclude],
    case maps:size(maps:without(Keys, Contest)) of
        0 -> contest(Keys, Contest, #{});
        _ -> error
    end.

contest([], _Contest, Rule) ->
    {ok, Rule};
contest([Key | Keys], Contest, Rule) ->
    case part(Key, maps:get(Key, Contest, undefined), Rule) of
        {ok, Value} -> contest(Keys, Contest, Rule#{Key => Value});
        error -> error
    end.

part(top, undefined, _) ->
    {ok, ?TOP};
part(top, Top, _) when ?IS_WITHIN(Top, 0, ?TOP_MOST) ->
    {ok, Top};
part(by, undefined, _) ->
    {ok, reductions};
part(by, By, _) when is_atom(By) ->
    case lists:member(By, metrics()) of
        true -> {ok, By};
        false -> error
    end;
%% What only ever grows says something by how much it has; a size by itself.
part(delta, undefined, #{by := By}) ->
    {ok, By =:= reductions orelse By =:= minor_gcs};
part(delta, Delta, _) when is_boolean(Delta) ->
    {ok, Delta};
part(interval, undefined, _) ->
    {ok, ?INTERVAL_MS};
part(interval, Ms, _) when ?IS_WITHIN(Ms, ?INTERVAL_LEAST_MS, ?DAY_MS) ->
    {ok, Ms};
part(Filter, Given, _) when Filter =:= include; Filter =:= exclude ->
    filter(Given);
part(_, _, _) ->
    error.

filter(undefined) ->
    {ok, []};
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

-spec accepts() -> binary().
accepts() ->
    <<"{top, Processes} or {top, Processes, IntervalMs}, Processes from 0 (none) to 10000, "
        "IntervalMs from 100 to 86400000; or #{top => Processes, by => reductions | memory | "
        "message_queue_len | bin_vheap_size | mbuf_size | total_heap_size | minor_gcs, "
        "delta => true | false, interval => IntervalMs, include => Filter, exclude => Filter}, "
        "where Filter is one or a list of {registered_name, Name}, {initial_call, M | {M, F} | "
        "{M, F, A}}, {module, Module} and {application, Application}; or a list of 1 to 8 such "
        "maps, of 10000 processes together, those with filters of 500">>.

-spec metrics() -> [metric(), ...].
metrics() ->
    [reductions, memory, message_queue_len, bin_vheap_size, mbuf_size, total_heap_size, minor_gcs].

%% @doc The rules to go by; none where nobody is to be chosen.
-spec rules(normal()) -> [rule()].
rules({top, Top, Ms}) ->
    {ok, Rule} = contest(#{top => Top, interval => Ms}),
    rules(Rule);
rules(Rule) when is_map(Rule) ->
    rules([Rule]);
rules(Rules) when is_list(Rules) ->
    [Rule || #{top := Top} = Rule <- Rules, Top > 0].

-spec top([rule()]) -> non_neg_integer().
top(Rules) ->
    lists:sum([Top || #{top := Top} <- Rules]).

%% @doc Of the passes over all processes: the shortest there is.
-spec interval([rule()]) -> pos_integer().
interval([]) -> ?INTERVAL_MS;
interval(Rules) -> lists:min([Ms || #{interval := Ms} <- Rules]).

%% @doc Every which pass a rule takes part in.
-spec every(rule(), [rule()]) -> pos_integer().
every(#{interval := Ms}, Rules) ->
    round(Ms / interval(Rules)).

-spec is_filtered(rule()) -> boolean().
is_filtered(#{include := [], exclude := []}) -> false;
is_filtered(#{}) -> true.
