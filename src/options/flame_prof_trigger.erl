%% @doc A condition at which a profile starts by itself: what may be said of it, and
%% when it fires.
%%
%% ```
%% #{on => run_queue, above => 50}
%% #{on => message_queue_len, above => 10000, duration => 10000, max_per_hour => 2}
%% #{on => long_gc, above => 200}
%% #{on => fragmentation, allocator => eheap_alloc, above => 60}
%% #{on => rss_percent, above => 85}
%% #{on => fun my_app:is_in_trouble/0, interval => 5000}
%% '''
%%
%% <ul>
%% <li>`on': the condition. `scheduler_utilisation' (percent of the normal
%%     schedulers online), `run_queue' (all that wait for a normal scheduler), `memory'
%%     (bytes, all of the VM's), `process_count', `message_queue_len' (of any one
%%     process), `binary_memory' (bytes), `ets_growth' (bytes a second, of all tables),
%%     `atom_count', `atom_percent' (of the atoms that there may be), `rss' (resident bytes),
%%     `rss_percent' (of the memory that the control group allows), `fragmentation' (percent of
%%     what an allocator took from the system and does not use; needs the native engine);
%%     `long_gc' and `long_schedule' (milliseconds), `large_heap' (words) and
%%     `busy_port', events of the VM; or a fun without arguments, or `{Module,
%%     Function}', that answers true or false, or a number if `above' is given.</li>
%% <li>`allocator', `least_bytes': of `fragmentation', an allocator, or `all' of them, and the bytes
%%     that it has to have for the trigger to fire (`all', 104857600).</li>
%% <li>`above': fires at this value or a higher one. `busy_port' has none.</li>
%% <li>`below': hysteresis. Once it has fired the value has to be lower than this before
%%     it fires again (four fifths of `above'). After an event of the VM, or true, it
%%     fires again after a probe that found nothing.</li>
%% <li>`interval': milliseconds between two probes (1000). The VM reports events at
%%     once.</li>
%% <li>`duration': milliseconds that the profile lasts (30000)</li>
%% <li>`cooldown': milliseconds after its profile in which it does not fire (60000)</li>
%% <li>`max_per_hour': how often it fires in any hour (4)</li>
%% <li>`timeout': a probe that takes longer is given up, in milliseconds (1000)</li>
%% </ul>
-module(flame_prof_trigger).

-export([validate/1, accepts/0, rows/0]).
-export([new/1, spec/1, may_fire/3, step/4, ended/2, info/1]).
-export([name/1, is_event/1]).

-export_type([given/0, spec/0, event/0, level/0, user/0, trigger/0, suppressed/0]).

-type level() ::
    scheduler_utilisation | run_queue | memory | process_count | message_queue_len
    | binary_memory | ets_growth | atom_count | atom_percent | rss | rss_percent | fragmentation.
-type event() :: long_gc | long_schedule | large_heap | busy_port.
-type user() :: fun(() -> boolean() | number()) | {module(), atom()}.

-type given() ::
    #{
        on := level() | event() | user(),
        allocator => all | atom() | flame_prof_options:left_out(),
        least_bytes => pos_integer() | flame_prof_options:left_out(),
        above => number() | flame_prof_options:left_out(),
        below => number() | flame_prof_options:left_out(),
        interval => pos_integer() | flame_prof_options:left_out(),
        duration => pos_integer() | flame_prof_options:left_out(),
        cooldown => non_neg_integer() | flame_prof_options:left_out(),
        max_per_hour => pos_integer() | flame_prof_options:left_out(),
        timeout => pos_integer() | flame_prof_options:left_out()
    }.

-type spec() ::
    #{
        on := level() | event() | user(),
        allocator => all | atom(),
        least_bytes => pos_integer(),
        above => number(),
        below => number(),
        interval := pos_integer(),
        duration := pos_integer(),
        cooldown := non_neg_integer(),
        max_per_hour := pos_integer(),
        timeout := pos_integer()
    }.
%% Normal form: all keys but those that do not belong to what it is on.

-type suppressed() :: hysteresis | cooldown | maximum | profiling.
%% Why it did not fire although the condition held.

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

-define(LEVELS, [
    scheduler_utilisation, run_queue, memory, process_count, message_queue_len,
    binary_memory, ets_growth, atom_count, atom_percent, rss, rss_percent, fragmentation
]).
-define(LEAST_BYTES, 104857600).
-define(EVENTS, [long_gc, long_schedule, large_heap, busy_port]).
-define(TRIGGERS_MOST, 32).
-define(BELOW_BY, 0.2).
-define(HOUR_MS, 3600000).
-define(DAY_MS, 86400000).
-define(VALUE_MOST, 1152921504606846975).

%% @private One or a list of them. The normal form is accepted as it is.
-spec validate(term()) -> {ok, [spec()]} | error | {error, flame_prof_schema:refused()}.
validate(Given) when is_map(Given) ->
    validate([Given]);
validate(Given) when is_list(Given) ->
    try length(Given) =< ?TRIGGERS_MOST of
        true -> each(Given, []);
        false -> error
    catch
        error:badarg -> error
    end;
validate(_) ->
    error.

each([], Specs) ->
    {ok, lists:reverse(Specs)};
each([Given | Rest], Specs) when is_map(Given) ->
    case one(Given) of
        {ok, Spec} -> each(Rest, [Spec | Specs]);
        {error, _} = Error -> Error
    end;
each(_, _) ->
    error.

one(Given) ->
    On = maps:get(on, Given, undefined),
    case kind(On) of
        none -> {error, flame_prof_schema:refused(on, On, accepts_on())};
        Kind -> named(On, spec(Kind, On, Given))
    end.

spec(Kind, On, Given) ->
    Rows = rows(Kind, On, is_given(above, Given)),
    case flame_prof_schema:values(Rows, Given) of
        {ok, Values} -> bounds(Rows, Values);
        {error, _} = Error -> Error
    end.

bounds(Rows, Values) ->
    case {[Row || #{key := above} = Row <- Rows], Values} of
        {[Row], _} when not is_map_key(above, Values) ->
            {error, flame_prof_schema:refused(above, undefined, flame_prof_schema:accepts(Row))};
        {_, #{above := Above, below := Below}} when Below > Above ->
            Accepted = io_lib:format("a number up to above, ~w", [Above]),
            {error, flame_prof_schema:refused(below, Below, Accepted)};
        _ ->
            {ok, flame_prof_schema:complete(Rows, Values)}
    end.

named(On, {error, #{option := Key, accepted := Accepted} = Refused}) when Key =/= on ->
    case Accepted of
        <<"no such", _/binary>> -> {error, Refused};
        _ -> {error, Refused#{accepted := iolist_to_binary(["for ", name(On), ", ", Accepted])}}
    end;
named(_On, Result) ->
    Result.

is_given(Key, Given) -> not lists:member(maps:get(Key, Given, undefined), [undefined, nil]).

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

%% @private The keys of a trigger on fragmentation, which has all of them.
-spec rows() -> [flame_prof_schema:row(), ...].
rows() -> rows(level, fragmentation, true).

rows(moment, _, _) -> [on_row() | common()];
rows(event, On, _) -> [on_row(), above_row(event, On) | common()];
rows(level, fragmentation, _) ->
    [on_row(), above_row(level, fragmentation), below_row(fragmentation)] ++ fragmentation_rows() ++
        common();
rows(level, On, _) -> [on_row(), above_row(level, On), below_row(On) | common()];
rows(user, On, true) -> [on_row(), above_row(user, On), below_row(On) | common()];
rows(user, _, false) -> [on_row() | common()].

on_row() ->
    #{key => on, type => {own, fun(On) -> {ok, On} end, accepts_on()}, doc => "condition"}.

fragmentation_rows() ->
    [
        #{key => allocator, type => {one_of, [all | flame_prof_allocator_names:all()]},
            default => all, doc => "of `fragmentation`: the allocator, or all of them"},
        #{key => least_bytes, type => {whole, bytes, 1, ?VALUE_MOST}, default => ?LEAST_BYTES,
            doc => "of `fragmentation`: least number of bytes that the allocator has from the system"}
    ].

above_row(Kind, On) ->
    #{key => above, type => above(Kind, On), doc => "value from which it fires"}.

above(level, On) when On =:= scheduler_utilisation; On =:= atom_percent; On =:= rss_percent;
    On =:= fragmentation ->
    {own, fun(Percent) -> above_0(Percent, 100) end, "percent, a number above 0 and up to 100"};
above(user, _) ->
    {own, fun any_number/1, io_lib:format("a number of at most ~b", [?VALUE_MOST])};
above(_, On) ->
    {whole, unit(On), 1, ?VALUE_MOST}.

above_0(Value, Most) when is_number(Value), Value > 0, Value =< Most -> {ok, Value};
above_0(_, _) -> error.

any_number(Value) when is_number(Value), abs(Value) =< ?VALUE_MOST -> {ok, Value};
any_number(_) -> error.

below_row(_On) ->
    #{key => below, type => {own, fun any_number/1, "a number up to above"},
        default => {computed, fun(#{above := Above}) -> Above - abs(Above) * ?BELOW_BY end,
            "four fifths of above"},
        doc => "hysteresis: the value must fall below this before the trigger fires again"}.

common() ->
    [
        #{key => interval, type => {whole, ms, 100, ?HOUR_MS}, default => 1000,
            doc => "time between two checks, in milliseconds; the VM reports events at once"},
        #{key => duration, type => {whole, ms, 1000, ?DAY_MS}, default => 30000,
            doc => "time that the profile lasts, in milliseconds"},
        #{key => cooldown, type => {whole, ms, 0, ?DAY_MS}, default => 60000,
            doc => "time after its profile in which the trigger does not fire, in milliseconds"},
        #{key => max_per_hour, type => {whole, count, 1, 1000}, default => 4,
            doc => "maximum number of profiles that the trigger starts within an hour"},
        #{key => timeout, type => {whole, ms, 10, 60000}, default => 1000,
            doc => "maximum duration of a check, in milliseconds"}
    ].

unit(On) when On =:= memory; On =:= binary_memory; On =:= ets_growth; On =:= rss -> bytes;
unit(large_heap) -> words;
unit(On) when On =:= run_queue; On =:= process_count; On =:= message_queue_len;
    On =:= atom_count -> count;
unit(_) -> ms.

%% @private What the option `triggers' takes.
-spec accepts() -> string().
accepts() ->
    "a map or a list of up to 32, each #{on => Condition, above => Value, below => Value, "
    "allocator => Name, least_bytes => Bytes, interval => Ms, duration => Ms, cooldown => Ms, max_per_hour => Count, timeout => Ms}".

accepts_on() ->
    Names = [atom_to_binary(On) || On <- ?LEVELS ++ ?EVENTS],
    iolist_to_binary([lists:join(", ", Names), ", a fun without arguments or {Module, Function}"]).

%% @private For a person.
-spec name(level() | event() | user()) -> binary().
name(On) when is_atom(On) -> atom_to_binary(On);
name(On) -> unicode:characters_to_binary(io_lib:format("~0tp", [On])).

%% @private Does the VM tell of it?
-spec is_event(term()) -> boolean().
is_event(On) ->
    lists:member(On, ?EVENTS).

%% When it fires. Times are milliseconds of one clock that only goes forward.

%% @private
-spec new(spec()) -> trigger().
new(Spec) ->
    #trigger{spec = Spec, quiet_until = -?VALUE_MOST}.

%% @private
-spec spec(trigger()) -> spec().
spec(#trigger{spec = Spec}) ->
    Spec.

%% @private Would the next probe make it fire, if the condition held?
-spec may_fire(NowMs :: integer(), IsFree :: boolean(), trigger()) -> boolean().
may_fire(NowMs, IsFree, #trigger{fired = Fired} = Trigger) ->
    reason(NowMs, IsFree, Trigger#trigger{fired = recent(NowMs, Fired)}) =:= none.

recent(NowMs, Fired) -> [Ms || Ms <- Fired, NowMs - Ms < ?HOUR_MS].

%% @private One probe: its value, or whether the condition holds. `IsFree': no profile is
%% running.
-spec step(number() | boolean(), NowMs :: integer(), IsFree :: boolean(), trigger()) ->
    {fire | rest, trigger()}.
step(Value, NowMs, IsFree, #trigger{fired = Fired} = Trigger0) ->
    Trigger = Trigger0#trigger{last = Value, fired = recent(NowMs, Fired)},
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

%% @private The profile that it has started is over.
-spec ended(NowMs :: integer(), trigger()) -> trigger().
ended(NowMs, #trigger{spec = #{cooldown := Cooldown}} = Trigger) ->
    Trigger#trigger{quiet_until = NowMs + Cooldown}.

%% @private How often it fired, how often it did not although the condition held, and why;
%% the last value seen.
-spec info(trigger()) -> map().
info(#trigger{spec = #{on := On}, times = Times, suppressed = Suppressed, last = Last}) ->
    #{on => On, fired => Times, suppressed => Suppressed, last => Last}.
