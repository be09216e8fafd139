%% @doc A condition at which a profile starts by itself: what may be said of it, and
%% when it fires.
%%
%% ```
%% #{on => run_queue, above => 50}
%% #{on => message_queue_len, above => 10000, duration => 10000, max_per_hour => 2}
%% #{on => long_gc, above => 200}
%% #{on => fun my_app:is_in_trouble/0, interval => 5000}
%% '''
%%
%% <ul>
%% <li>`on': what is looked at. `scheduler_utilisation' (percent of the normal
%%     schedulers online), `run_queue' (all that wait for a normal scheduler), `memory'
%%     (bytes, all of the VM's), `process_count', `message_queue_len' (of any one
%%     process); `long_gc' and `long_schedule' (milliseconds), `large_heap' (words) and
%%     `busy_port', which the VM tells of; or a fun without arguments, or `{Module,
%%     Function}', that answers true or false, or a number if `above' is given.</li>
%% <li>`above': fires at this value or a higher one. `busy_port' has none.</li>
%% <li>`below': hysteresis. Once it has fired the value has to be lower than this before
%%     it fires again (four fifths of `above'). For what the VM tells of, and for true
%%     and false, it is one look at which there was nothing.</li>
%% <li>`interval': milliseconds between two looks (1000). What the VM tells of is not
%%     waited for.</li>
%% <li>`duration': milliseconds that the profile lasts (30000)</li>
%% <li>`cooldown': milliseconds after its profile in which it does not fire (60000)</li>
%% <li>`max_per_hour': how often it fires in any hour (4)</li>
%% <li>`timeout': a look that takes longer is given up, in milliseconds (1000)</li>
%% </ul>
-module(flame_prof_trigger).

-export([validate/1, accepts/0]).
-export([new/1, spec/1, step/4, ended/2, info/1]).
-export([name/1, is_event/1]).

-export_type([given/0, spec/0, event/0, level/0, user/0, error/0, trigger/0, suppressed/0]).

-type level() :: scheduler_utilisation | run_queue | memory | process_count | message_queue_len.
-type event() :: long_gc | long_schedule | large_heap | busy_port.
-type user() :: fun(() -> boolean() | number()) | {module(), atom()}.

-type given() ::
    #{
        on := level() | event() | user(),
        above => number(),
        below => number(),
        interval => pos_integer(),
        duration => pos_integer(),
        cooldown => non_neg_integer(),
        max_per_hour => pos_integer(),
        timeout => pos_integer()
    }.

%% Normal form: all keys but those that do not belong to what it is on.
-type spec() ::
    #{
        on := level() | event() | user(),
        above => number(),
        below => number(),
        interval := pos_integer(),
        duration := pos_integer(),
        cooldown := non_neg_integer(),
        max_per_hour := pos_integer(),
        timeout := pos_integer()
    }.

%% The key of a trigger that is refused, `{triggers, Key}'.
-type error() :: {bad_option, {triggers, Key :: term()} | triggers, Accepted :: binary()}.

%% Why it did not fire although the condition held.
-type suppressed() :: hysteresis | cooldown | maximum | profiling.

-record(trigger, {
    spec :: spec(),
    %% It has not fired since the value was low.
    is_ready = true :: boolean(),
    quiet_until :: integer(),
    %% When it fired in the last hour, the latest first.
    fired = [] :: [integer()],
    times = 0 :: non_neg_integer(),
    suppressed = #{} :: #{suppressed() => pos_integer()},
    last = none :: none | number() | boolean()
}).

-opaque trigger() :: #trigger{}.

-define(LEVELS, [scheduler_utilisation, run_queue, memory, process_count, message_queue_len]).
-define(EVENTS, [long_gc, long_schedule, large_heap, busy_port]).
-define(TRIGGERS_MOST, 32).
-define(BELOW_BY, 0.2).
-define(HOUR_MS, 3600000).
-define(DAY_MS, 86400000).
-define(VALUE_MOST, 1152921504606846975).

-define(IS_WITHIN(Value, Least, Most),
    (is_integer(Value) andalso Value >= Least andalso Value =< Most)
).

%% @doc One or a list of them. The normal form is accepted as it is.
-spec validate(term()) -> {ok, [spec()]} | {error, error()}.
validate(Given) when is_map(Given) ->
    validate([Given]);
validate(Given) when is_list(Given) ->
    case is_proper(Given) andalso length(Given) =< ?TRIGGERS_MOST of
        true -> each(Given, []);
        false -> {error, {bad_option, triggers, accepts()}}
    end;
validate(_) ->
    {error, {bad_option, triggers, accepts()}}.

is_proper(List) ->
    try length(List) of
        _ -> true
    catch
        error:badarg -> false
    end.

each([], Specs) ->
    {ok, lists:reverse(Specs)};
each([Given | Rest], Specs) when is_map(Given) ->
    case one(Given) of
        {ok, Spec} -> each(Rest, [Spec | Specs]);
        {error, Key, Accepted} -> {error, {bad_option, {triggers, Key}, Accepted}}
    end;
each(_, _) ->
    {error, {bad_option, triggers, accepts()}}.

one(#{on := On} = Given) ->
    case kind(On) of
        none -> {error, on, accepts_on()};
        Kind -> one(keys(Kind, Given), Given)
    end;
one(_) ->
    {error, on, accepts_on()}.

one(Keys, Given) ->
    case lists:sort(maps:keys(maps:without(Keys, Given))) of
        [] -> parts(Keys, Given, #{});
        [Unknown | _] -> {error, Unknown, no_such_key(Keys, Given)}
    end.

no_such_key(Keys, #{on := On}) ->
    Names = [atom_to_binary(Key) || Key <- Keys],
    iolist_to_binary(["no such key for ", name(On), "; there are: ", lists:join(", ", Names)]).

kind(On) when is_function(On, 0) -> user;
kind({Module, Function}) when is_atom(Module), is_atom(Function) -> user;
kind(busy_port) -> moment;
kind(On) when is_atom(On) ->
    case {lists:member(On, ?LEVELS), is_event(On)} of
        {true, _} -> level;
        {_, true} -> event;
        _ -> none
    end;
kind(_) -> none.

keys(moment, _) -> [on | common()];
keys(event, _) -> [on, above | common()];
keys(level, _) -> [on, above, below | common()];
keys(user, #{above := _}) -> [on, above, below | common()];
keys(user, _) -> [on | common()].

common() -> [interval, duration, cooldown, max_per_hour, timeout].

parts([], _Given, Spec) ->
    {ok, Spec};
parts([Key | Keys], #{on := On} = Given, Spec) ->
    case part(Key, maps:get(Key, Given, undefined), Spec) of
        {ok, Value} -> parts(Keys, Given, Spec#{Key => Value});
        {error, Accepted} -> {error, Key, iolist_to_binary(["for ", name(On), ", ", Accepted])}
    end.

part(on, On, _) -> {ok, On};
part(above, Value, #{on := On}) -> above(kind(On), On, Value);
part(below, undefined, #{above := Above}) -> {ok, Above - abs(Above) * ?BELOW_BY};
part(below, Value, #{above := Above}) when is_number(Value), Value =< Above -> {ok, Value};
part(below, _, #{above := Above}) -> {error, io_lib:format("a number up to above, ~w", [Above])};
part(Key, undefined, _) -> {ok, default(Key)};
part(Key, Value, _) ->
    {Least, Most} = range(Key),
    case ?IS_WITHIN(Value, Least, Most) of
        true -> {ok, Value};
        false -> {error, io_lib:format("~ts from ~b to ~b", [unit(Key), Least, Most])}
    end.

above(level, scheduler_utilisation, Percent) when is_number(Percent), Percent > 0, Percent =< 100 ->
    {ok, Percent};
above(level, scheduler_utilisation, _) ->
    {error, "percent, a number above 0 and up to 100"};
above(user, _, Value) when is_number(Value), abs(Value) =< ?VALUE_MOST ->
    {ok, Value};
above(user, _, _) ->
    {error, io_lib:format("a number of at most ~b", [?VALUE_MOST])};
above(_, _, Value) when ?IS_WITHIN(Value, 1, ?VALUE_MOST) ->
    {ok, Value};
above(_, On, _) ->
    {error, io_lib:format("~ts from 1 to ~b", [unit(On), ?VALUE_MOST])}.

default(interval) -> 1000;
default(duration) -> 30000;
default(cooldown) -> 60000;
default(max_per_hour) -> 4;
default(timeout) -> 1000.

range(interval) -> {100, ?HOUR_MS};
range(duration) -> {1000, ?DAY_MS};
range(cooldown) -> {0, ?DAY_MS};
range(max_per_hour) -> {1, 1000};
range(timeout) -> {10, 60000}.

unit(memory) -> "bytes";
unit(large_heap) -> "words";
unit(max_per_hour) -> "a count";
unit(On) when On =:= run_queue; On =:= process_count; On =:= message_queue_len -> "a count";
unit(_) -> "whole milliseconds".

-spec accepts() -> binary().
accepts() ->
    <<"a map or a list of up to 32, each #{on => Condition, above => Value, below => Value, "
        "interval => Ms, duration => Ms, cooldown => Ms, max_per_hour => Count, timeout => Ms}">>.

accepts_on() ->
    Names = [atom_to_binary(On) || On <- ?LEVELS ++ ?EVENTS],
    iolist_to_binary([lists:join(", ", Names), ", a fun without arguments or {Module, Function}"]).

%% @doc For a person.
-spec name(level() | event() | user()) -> binary().
name(On) when is_atom(On) -> atom_to_binary(On);
name(On) -> unicode:characters_to_binary(io_lib:format("~0tp", [On])).

%% @doc Does the VM tell of it?
-spec is_event(term()) -> boolean().
is_event(On) ->
    lists:member(On, ?EVENTS).

%% When it fires. Times are milliseconds of one clock that only goes forward.

-spec new(spec()) -> trigger().
new(Spec) ->
    #trigger{spec = Spec, quiet_until = -?VALUE_MOST}.

-spec spec(trigger()) -> spec().
spec(#trigger{spec = Spec}) ->
    Spec.

%% @doc One look: its value, or whether the condition holds. `IsFree': no profile is
%% running.
-spec step(number() | boolean(), NowMs :: integer(), IsFree :: boolean(), trigger()) ->
    {fire | rest, trigger()}.
step(Value, NowMs, IsFree, #trigger{fired = Fired} = Trigger0) ->
    Recent = [Ms || Ms <- Fired, NowMs - Ms < ?HOUR_MS],
    Trigger = Trigger0#trigger{last = Value, fired = Recent},
    case level(Value, Trigger) of
        low -> {rest, Trigger#trigger{is_ready = true}};
        between -> {rest, Trigger};
        high -> high(reason(NowMs, IsFree, Trigger), NowMs, Trigger)
    end.

level(true, _) -> high;
level(false, _) -> low;
level(Value, #trigger{spec = #{above := Above}}) when Value >= Above -> high;
level(Value, #trigger{spec = #{below := Below}}) when Value >= Below -> between;
level(_, _) -> low.

reason(_NowMs, _IsFree, #trigger{is_ready = false}) -> hysteresis;
reason(_NowMs, false, _) -> profiling;
reason(NowMs, _, #trigger{quiet_until = Until}) when NowMs < Until -> cooldown;
reason(_, _, #trigger{fired = Fired, spec = #{max_per_hour := Most}}) when length(Fired) >= Most ->
    maximum;
reason(_, _, _) -> none.

high(none, NowMs, #trigger{fired = Fired, times = Times} = Trigger) ->
    {fire, Trigger#trigger{is_ready = false, fired = [NowMs | Fired], times = Times + 1}};
high(Why, _NowMs, #trigger{suppressed = Suppressed} = Trigger) ->
    More = maps:update_with(Why, fun(N) -> N + 1 end, 1, Suppressed),
    {rest, Trigger#trigger{suppressed = More}}.

%% @doc The profile that it has started is over.
-spec ended(NowMs :: integer(), trigger()) -> trigger().
ended(NowMs, #trigger{spec = #{cooldown := Cooldown}} = Trigger) ->
    Trigger#trigger{quiet_until = NowMs + Cooldown}.

%% @doc How often it fired, how often it did not although the condition held, and why;
%% the last value seen.
-spec info(trigger()) -> map().
info(#trigger{spec = #{on := On}, times = Times, suppressed = Suppressed, last = Last}) ->
    #{on => On, fired => Times, suppressed => Suppressed, last => Last}.
