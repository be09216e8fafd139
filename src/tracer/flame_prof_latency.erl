%% @doc How long calls of functions take: counts, quantiles, a histogram, by process group and by
%% caller. {@link flame_prof:latency/2} prints it.
%%
%% ```
%% 1> {ok, Answer} = flame_prof:look(latency, #{functions => "shop:buy/2"}).
%% 2> #{calls := Calls, p50_ns := P50, p99_ns := P99, max_ns := Max} = Answer.
%% 3> flame_prof:latency({shop, buy, 2}, #{for => 10000}).
%% '''
%%
%% == What is measured ==
%% The time by the clock from a call to its return. A recursion, or a loop of tail calls, counts as
%% one call: the outermost one in its process. A call that has not returned is
%% `open', and in no histogram. `exceptions' are the calls that an exception has left, with
%% `exceptions_ns' for their time; `calls', quantiles and parts are of those that have returned.
%% No call has no quantiles and no longest time: these keys are not there then.
%%
%% `own_ns' is the time without that of other measured functions that the call has called. Of one
%% function, and once calls were left out, it is not known and not there.
%%
%% == Cost ==
%% The library measures where the call runs, without a message and without a lock. Limits always
%% stand (see {@link options()}): where calls come too fast, one of 2^k is measured, and beyond
%% that, the measurement ends. `sampled_of' is the greatest 2^k; `lost' has how many calls were left
%% out. A function that calls itself is not sampled.
%%
%% One tracing of this library runs in a node at a time. It ends when the process that asked for
%% it does, or its node.
-module(flame_prof_latency).

-behaviour(gen_server).
-behaviour(flame_prof_look).

-export([measure/2, page/2, format/1]).
-export([about/0, takes/0, run/2, text/2, json/1, longest_ms/1]).
-export([start/2, interval/1, stop/1, running/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([functions/0, options/0, measurement/0, answer/0, row/0, part/0, ended/0]).

-type functions() :: function_() | [function_(), ...].
-type function_() :: flame_prof_mfa:pattern() | string() | binary() | fun().
%% A text as `"lists:seq/2"' or `"Shop.Cart.add/2"', or an external fun.

%% `for': milliseconds, 10000, 60000 of {@link start/2}. `max_cpu' (5): percent
%% of all schedulers. `max_rate' (1,000,000): measured calls a second. `max_events': measured calls
%% in all (100,000,000). `infinity' takes one of these three away. `groups', `callers' (true):
%% whether these are measured. `heatmap' (true, but false of {@link start/2}): latency over time.
%% `owner' (the caller): it ends with this process. `node' and `functions': {@link flame_prof} takes
%% them. Older names: `seconds', `max_cpu_percent', `max_events_per_second'.
-type options() ::
    #{
        node => node(),
        functions => functions(),
        for => pos_integer(),
        max_cpu => number() | infinity,
        max_rate => pos_integer() | infinity,
        max_events => pos_integer() | infinity,
        groups => boolean(),
        callers => boolean(),
        heatmap => boolean(),
        owner => pid()
    }.

-type measurement() :: pid().

-type ended() :: running | asked | seconds | {limit, atom()} | {down, pid()}.

%% Of one function the keys of its row are in the answer itself, too. `off_after_ms': from a limit
%% that has ended it until no function was traced.
-type answer() ::
    #{
        functions := [row()],
        ms := non_neg_integer(),
        sampled_of := pos_integer(),
        open := non_neg_integer(),
        lost := #{atom() => non_neg_integer()},
        ended := ended(),
        off_after_ms => float(),
        atom() => term()
    }.

%% With p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns. `heatmap' is of the whole: `interval/1'
%% answers none.
-type row() ::
    #{
        function := mfa(),
        calls := non_neg_integer(),
        total_ns := non_neg_integer(),
        own_ns => non_neg_integer(),
        max_ns => non_neg_integer(),
        exceptions := non_neg_integer(),
        exceptions_ns := non_neg_integer(),
        open := non_neg_integer(),
        histogram := [flame_prof_histogram:bucket()],
        groups => [part()],
        callers => [part()],
        heatmap => flame_prof_latency_heatmap:data(),
        atom() => non_neg_integer()
    }.

%% A group has the registered name of a process, or the atom of its label, or its initial call;
%% `<<"(ended)">>': it did not live long enough to be asked. A caller is `undefined' where the VM
%% does not know it. `other': those for which there was no room. Its quantiles are not there once
%% `lost' has a time that found no room in the histograms of callers, or of groups.
-type part() ::
    #{
        group => binary(),
        caller => mfa() | undefined | other,
        calls := pos_integer(),
        total_ns := non_neg_integer(),
        own_ns => non_neg_integer(),
        max_ns := non_neg_integer(),
        histogram := [flame_prof_histogram:bucket()],
        atom() => non_neg_integer()
    }.

-record(measuring, {
    tracing :: reference(),
    asker :: reference(),
    tracer :: reference(),
    functions :: [mfa()],
    parts :: [groups | callers],
    since :: integer(),
    interval :: integer(),
    ended = running :: ended(),
    off = #{} :: #{off_after_ms => float()},
    until :: undefined | integer(),
    %% Kept from the end on: of all time, and of the last interval.
    rows = none :: none | {[map()], [map()] | told},
    all = flame_prof_latency_parts:new() :: flame_prof_latency_parts:sums(),
    new = flame_prof_latency_parts:new() :: flame_prof_latency_parts:sums(),
    looks = 0 :: non_neg_integer(),
    heatmap :: none | flame_prof_latency_heatmap:heatmap(),
    shift = {0, 0} :: {All :: non_neg_integer(), New :: non_neg_integer()},
    lost = {#{}, #{}} :: {Now :: map(), Before :: map()},
    names = #{} :: #{pid() => binary()},
    waiting = [] :: [gen_server:from()]
}).

-define(FUNCTIONS_MOST, 64).
-define(FUNCTIONS, "{Module, Function, Arity | '_'}, a text as \"lists:seq/2\" or "
    "\"Enum.map/2\", an external fun, or a list of these").
-define(LOOK_MS, 500).
%% Names of processes, which one that does not answer may hold up.
-define(NAMES_MS, 200).
-define(GRACE_S, 5).
-define(CALL_MS, 30000).
%% The results after the end.
-define(KEPT_MS, 60000).
-define(THREADS_MORE, 16).
%% Calls that were not measured.
-define(LOST_CALLS, [calls_of_too_many_processes, calls_nested_too_deep, calls_of_too_many_threads,
    calls_while_the_heartbeat_was_late]).

%% @private Waits for so many seconds, or until a limit ends it.
-spec measure(functions(), options()) -> {ok, answer()} | {error, flame_prof:reason()}.
measure(Functions, Options) ->
    case flame_prof_schema:checked(options(10000, true), Options) of
        {ok, #{for := Ms} = Checked} ->
            case begin_with(Functions, Checked#{max_seconds => seconds(Ms) + ?GRACE_S}) of
                {ok, Pid} ->
                    case call(Pid, {wait, Ms}, infinity) of
                        ok -> call(Pid, {stop, seconds});
                        {error, _} = Error -> Error
                    end;
                {error, _} = Error ->
                    Error
            end;
        {error, _} = Error ->
            Error
    end.

%% @private The same as a text.
-spec page(functions(), options()) -> {ok, unicode:chardata()} | {error, flame_prof:reason()}.
page(Functions, Options) ->
    case measure(Functions, Options) of
        {ok, Answer} -> {ok, format(Answer)};
        {error, _} = Error -> Error
    end.

-spec format(answer()) -> unicode:chardata().
format(Answer) ->
    flame_prof_latency_text:format(Answer).

%% @doc Measures until {@link stop/1}, a limit, or the end of `owner'. The results stay for a minute
%% after a limit.
-spec start(functions(), options()) -> {ok, measurement()} | {error, flame_prof:reason()}.
start(Functions, Options) ->
    case flame_prof_schema:checked(options(60000, false), Options) of
        {ok, #{for := Ms} = Checked} ->
            begin_with(Functions, Checked#{max_seconds => seconds(Ms)});
        {error, _} = Error ->
            Error
    end.

seconds(Ms) -> (Ms + 999) div 1000.

%% @private
%% What came since the last interval, or the start. After the end the rest, and then nothing,
%% each time with why it has ended.
-spec interval(measurement()) -> {ok, answer()} | {error, flame_prof:reason()}.
interval(Measurement) ->
    call(Measurement, interval).

%% @doc The whole.
-spec stop(measurement()) -> {ok, answer()} | {error, flame_prof:reason()}.
stop(Measurement) ->
    call(Measurement, {stop, asked}).

%% @private The whole so far of what is measured now.
-spec running() -> {ok, answer()} | none.
running() ->
    case call(?MODULE, so_far) of
        {ok, _} = Answer -> Answer;
        {error, _} -> none
    end.

call(Measurement, Request) ->
    call(Measurement, Request, ?CALL_MS).

call(Measurement, Request, Timeout) ->
    try gen_server:call(Measurement, Request, Timeout)
    catch exit:_ -> {error, gone()}
    end.

gone() ->
    {tracing, #{reason => <<"this measurement has ended, and its results are gone">>}}.

options(Ms, Heatmap) ->
    [
        #{key => for, alias => {seconds, 1000}, type => {whole, ms, 1, 86400000}, default => Ms,
            doc => "how long"},
        #{key => groups, type => boolean, default => true, doc => "also by process"},
        #{key => callers, type => boolean, default => true, doc => "also by caller"},
        #{key => heatmap, type => boolean, default => Heatmap, word => none},
        #{key => owner, type => {own, fun owner/1, "a pid"}, default => self(), word => none}
        | flame_prof_tracing:look_rows([max_cpu, max_rate, max_events, heartbeat_ms])
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => latency,
        group => calls,
        asks => "how long calls of a function take",
        sentence => "How long calls of functions take: quantiles, a histogram, by process and by "
            "caller.",
        cost => "Traces the functions, within limits: at more than max_cpu or max_rate it ends.",
        shows => "No arguments and no results.",
        argument => {functions, required, "flame_prof_latency:functions()", "FUNCTION..."},
        runs => there,
        lends => [flame_prof_mfa],
        library => needed,
        examples => ["latency shop@myhost shop_db:query/2",
            "latency shop@myhost shop_db:query/2 ets:lookup/2 --for 1m --json",
            "latency shop@myhost shop_db:_ --prometheus"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() ->
    [
        #{key => functions, word => "FUNCTION", type => {own, fun patterns/1, ?FUNCTIONS},
            doc => "module:function/arity; without an arity any, and module:_ all of a module"}
        | options(10000, true)
    ].

patterns([_ | _] = Given) -> {ok, Given};
patterns(Given) when is_binary(Given), Given =/= <<>>; is_function(Given) -> {ok, Given};
patterns({M, F, _} = Given) when is_atom(M), is_atom(F) -> {ok, Given};
patterns(_) -> error.

%% @private
-spec run(node(), map()) -> {ok, answer()} | {error, flame_prof:reason()}.
run(_Node, #{functions := Functions} = Options) ->
    measure(Functions, maps:without([node, functions], Options)).

%% @private
-spec text(answer(), pos_integer()) -> unicode:chardata().
text(Answer, _Columns) -> format(Answer).

%% @private
-spec json(answer()) -> #{atom() => term()}.
json(Answer) -> flame_prof_latency_text:json(Answer).

%% @private
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{for := Ms}) -> Ms.

owner(Pid) when is_pid(Pid) -> {ok, Pid};
owner(_) -> error.

begin_with(Patterns, Checked) ->
    try functions(Patterns) of
        Functions ->
            flame_prof_tracing:start_asker(?MODULE,
                {Functions, flame_prof_tracing:as_limits(Checked)})
    catch
        throw:{refused, Why} -> {error, {tracing, #{reason => unicode:characters_to_binary(Why)}}}
    end.

%% Which functions.

functions([Character | _] = Text) when is_integer(Character), Character >= $\s ->
    functions([Text]);
functions([_ | _] = Patterns) ->
    case lists:usort(lists:append([matching(Pattern) || Pattern <- Patterns])) of
        Functions when length(Functions) =< ?FUNCTIONS_MOST ->
            Functions;
        Functions ->
            throw({refused, io_lib:format("these are ~b functions; at most ~b are measured at once",
                [length(Functions), ?FUNCTIONS_MOST])})
    end;
functions(Pattern) ->
    functions([Pattern]).

matching(Pattern) ->
    case flame_prof_mfa:find(Pattern) of
        {ok, Functions} -> Functions;
        {error, {_, _, _} = Missing} ->
            throw({refused, [shown(Missing), ": there is no such function here"]});
        {error, Why} -> throw({refused, Why})
    end.

shown({M, '_', _}) -> [flame_prof_names:printed(M), ":_"];
shown({M, F, '_'}) -> flame_prof_names:printed({M, F});
shown(MFA) -> flame_prof_names:printed(MFA).

%% The process of a measurement.

%% @private
-spec init({[mfa()], map()}) -> {ok, #measuring{}} | {stop, term()}.
init({Functions, Checked}) ->
    #{owner := Asker, groups := Groups, callers := Callers, heatmap := Heatmap} = Checked,
    Monitor = monitor(process, Asker),
    Limits = [Key || #{key := Key} <- flame_prof_tracing:limits()],
    Spec = #{
        kind => latency,
        owner => self(),
        asked_by => Asker,
        patterns => [{Function, match_spec(Callers), [meta]} || Function <- Functions],
        limits => maps:with(Limits, Checked),
        config => #{
            functions => length(Functions),
            threads => threads(),
            by_caller => Callers,
            by_process => Groups
        }
    },
    case flame_prof_tracing:start(Spec) of
        {ok, Tracing} ->
            _ = catch register(?MODULE, self()),
            Now = now_ms(),
            {ok, next_look(#measuring{
                tracing = Tracing,
                tracer = monitor(process, flame_prof_tracing),
                asker = Monitor,
                functions = Functions,
                heatmap = case Heatmap of
                    true -> flame_prof_latency_heatmap:new(length(Functions), ?LOOK_MS);
                    false -> none
                end,
                parts = [groups || Groups] ++ [callers || Callers],
                since = Now,
                interval = Now
            })};
        {error, Reason} ->
            {stop, {shutdown, {refused, Reason}}}
    end.

match_spec(true) -> [{'_', [], [{exception_trace}, {message, {caller}}]}];
match_spec(false) -> [{'_', [], [{exception_trace}, {message, false}]}].

threads() ->
    Kinds = [schedulers, dirty_cpu_schedulers, dirty_io_schedulers],
    min(1024, lists:sum([erlang:system_info(Kind) || Kind <- Kinds]) + ?THREADS_MORE).

now_ms() -> flame_prof_clock:now_ms().

%% At whole intervals since the beginning. Missed calls are left out.
next_look(#measuring{since = Since} = State) ->
    Looks = (now_ms() - Since) div ?LOOK_MS + 1,
    _ = flame_prof_clock:send_at(Since + Looks * ?LOOK_MS, look),
    State#measuring{looks = Looks}.

%% The calls since the look before, as it is their column.
seen(#measuring{heatmap = none} = State, _Rows) ->
    State;
seen(#measuring{heatmap = Heatmap, looks = Looks} = State, {ok, Rows}) ->
    Histograms = [Buckets || #{histogram := Buckets} <- Rows],
    State#measuring{heatmap = flame_prof_latency_heatmap:add(Looks - 1, Histograms, Heatmap)};
seen(State, {error, _}) ->
    State.

%% @private
handle_call({wait, _Ms}, _From, #measuring{ended = Ended} = State) when Ended =/= running ->
    {reply, ok, State};
handle_call({wait, Ms}, From, #measuring{waiting = Waiting} = State) ->
    _ = flame_prof_clock:send_after(Ms, {waited, From}),
    {noreply, State#measuring{waiting = [From | Waiting]}};
handle_call(interval, _From, State) ->
    answered(fun interval_of/1, fun next_interval/1, look(State));
handle_call(so_far, _From, State) ->
    answered(fun whole/1, fun(Same) -> Same end, look(State));
handle_call({stop, Why}, From, State0) ->
    {reply, Answer, State} = answered(fun whole/1, fun(Same) -> Same end, ended(Why, State0)),
    gen_server:reply(From, Answer),
    {stop, normal, State}.

%% Nothing can be read any more where the tracing's owner was killed.
answered(Answer, Next, State) ->
    try Answer(State) of
        Answered -> {reply, {ok, Answered}, Next(State)}
    catch
        throw:gone -> {reply, {error, gone()}, State}
    end.

%% @private
handle_cast(_, State) ->
    {noreply, State}.

%% @private
handle_info(look, #measuring{ended = running, heatmap = none} = State) ->
    {noreply, next_look(look(State))};
handle_info(look, #measuring{ended = running} = State) ->
    {noreply, next_look(seen(look(State), read(total, State)))};
handle_info({waited, From}, #measuring{waiting = Waiting} = State) ->
    _ = [gen_server:reply(From, ok) || lists:member(From, Waiting)],
    {noreply, State#measuring{waiting = Waiting -- [From]}};
handle_info({flame_prof_tracing, Tracing, {ended, Why}}, #measuring{tracing = Tracing} = State) ->
    {noreply, ended(Why, State)};
handle_info({'DOWN', Asker, process, _, _}, #measuring{asker = Asker} = State) ->
    {stop, normal, State};
handle_info(forget, State) ->
    {stop, normal, State};
handle_info({'DOWN', Tracer, process, Pid, _}, #measuring{tracer = Tracer} = State) ->
    {noreply, over({down, Pid}, State)};
handle_info(_, State) ->
    {noreply, State}.

%% The results to keep are read before the library frees them.
ended(Why, #measuring{ended = running, tracing = Tracing, tracer = Tracer} = State0) ->
    State = look(State0),
    case {read(interval, State), read(total, State)} of
        {{ok, New}, {ok, All}} ->
            true = demonitor(Tracer, [flush]),
            {Limit, Off} = limit(flame_prof_tracing:stop(Tracing), Why),
            over(Limit, seen(State#measuring{rows = {All, New}, off = Off}, {ok, All}));
        _ ->
            State
    end;
ended(_Why, State) ->
    State.

%% It may have come before who asked for the end.
limit({ok, #{ended := {limit, _} = Limit} = Of}, _) -> {Limit, maps:with([off_after_ms], Of)};
limit(_, Why) -> {Why, #{}}.

over(Why, #measuring{waiting = Waiting} = State) ->
    _ = catch unregister_own(),
    _ = [gen_server:reply(From, ok) || From <- Waiting],
    _ = flame_prof_clock:send_after(?KEPT_MS, forget),
    State#measuring{ended = Why, until = now_ms(), waiting = []}.

unregister_own() ->
    whereis(?MODULE) =:= self() andalso unregister(?MODULE).

read(What, #measuring{tracing = Tracing}) ->
    flame_prof_tracing:read(Tracing, What).

%% Parts come often: of a process that ends nothing but its pid is known.
look(#measuring{ended = running} = State) ->
    case read(parts, State) of
        {ok, #{processes := Processes, shift := Shift, lost := Lost} = Read} ->
            #measuring{all = All, new = New, shift = {Most, Last}, lost = {_, Before}} = State,
            Named = named(lists:usort([Pid || {_, Pid, _, _, _, _} <- Processes, is_pid(Pid)]),
                State),
            {Parts, Times} = of_names(Read, Named),
            State#measuring{
                all = flame_prof_latency_parts:add(Parts, Times, All),
                new = flame_prof_latency_parts:add(Parts, Times, New),
                shift = {max(Most, Shift), max(Last, Shift)},
                lost = {Lost, Before},
                names = maps:filter(fun(Pid, _) -> is_process_alive(Pid) end, Named)
            };
        {error, _} ->
            State
    end;
look(State) ->
    State.

of_names(Read, Named) ->
    #{callers := Callers, caller_times := CallerTimes, processes := Processes,
        process_times := ProcessTimes} = Read,
    {
        [{{callers, N, Caller}, {Calls, Total, Own, Max}}
            || {N, Caller, Calls, Total, Own, Max} <- Callers,
                not flame_prof_own:is_in([Caller])] ++
        [{{groups, N, group(Key, Named)}, {Calls, Total, Own, Max}}
            || {N, Key, Calls, Total, Own, Max} <- Processes, group(Key, Named) =/= own],
        [{{callers, N, Caller}, {Low, End, Count}}
            || {N, Caller, Low, End, Count} <- CallerTimes, not flame_prof_own:is_in([Caller])] ++
        [{{groups, N, group(Key, Named)}, {Low, End, Count}}
            || {N, Key, Low, End, Count} <- ProcessTimes, group(Key, Named) =/= own]
    }.

group(other, _Named) -> other;
group(Pid, Named) -> maps:get(Pid, Named, <<"(ended)">>).

%% By another process: one that does not answer holds up who asks.
named(Pids, #measuring{names = Known}) ->
    case [Pid || Pid <- Pids, not is_map_key(Pid, Known)] of
        [] ->
            Known;
        New ->
            Alias = alias(),
            Asker = spawn(fun() -> [Alias ! {Alias, Pid, name(Pid)} || Pid <- New] end),
            Named = collect(Alias, length(New), now_ms() + ?NAMES_MS, Known),
            _ = unalias(Alias),
            _ = exit(Asker, kill),
            collect(Alias, length(New), now_ms(), Named)
    end.

collect(_Alias, 0, _Until, Named) ->
    Named;
collect(Alias, Left, Until, Named) ->
    receive
        {Alias, _Pid, none} -> collect(Alias, Left - 1, Until, Named);
        {Alias, Pid, Name} -> collect(Alias, Left - 1, Until, Named#{Pid => Name})
    after max(0, Until - now_ms()) -> Named
    end.

name(Pid) ->
    case flame_prof_own:is_live(Pid) of
        true -> own;
        false -> name_of_program(Pid)
    end.

name_of_program(Pid) ->
    case flame_prof_names:names(Pid) of
        undefined -> none;
        {<<_, _/binary>> = Registered, _, _, _} -> flame_prof_names:function(Registered);
        {_, _, _, <<_, _/binary>> = Label} -> Label;
        {_, _, {_, _, _} = Call, _} -> flame_prof_names:call(Call);
        {_, {_, _, _} = Call, _, _} -> flame_prof_names:call(Call);
        _ -> <<"(unknown)">>
    end.

%% Answers.

interval_of(#measuring{rows = none, new = New} = State) ->
    answer(rows(interval, State), New, interval, State);
interval_of(#measuring{rows = {All, told}} = State) ->
    answer([nothing(Row) || Row <- All], flame_prof_latency_parts:new(), interval, State);
interval_of(#measuring{rows = {_, Rows}, new = New} = State) ->
    answer(Rows, New, interval, State).

rows(What, State) ->
    case read(What, State) of
        {ok, Rows} -> Rows;
        {error, _} -> throw(gone)
    end.

nothing(#{open := Open} = Row) ->
    (maps:map(fun(_, _) -> 0 end, Row))#{histogram := [], open := Open}.

next_interval(#measuring{shift = {All, _}, lost = {Lost, _}} = State) ->
    Next = State#measuring{interval = now_ms(), new = flame_prof_latency_parts:new(),
        shift = {All, 0}, lost = {Lost, Lost}},
    case State of
        #measuring{rows = {Rows, _}} -> Next#measuring{rows = {Rows, told}};
        #measuring{} -> Next
    end.

whole(#measuring{rows = none, all = All} = State) ->
    answer(rows(total, State), All, whole, State);
whole(#measuring{rows = {Rows, _}, all = All} = State) ->
    answer(Rows, All, whole, State).

answer(Given, Sums, Which, #measuring{functions = Functions, shift = {Most, Last}} = State) ->
    Lost = lost_of(Which, Sums, State),
    %% A call that was left out is not subtracted from that around it.
    LeftOut = maps:with(?LOST_CALLS, element(1, State#measuring.lost)),
    Has = #{
        own => length(Functions) > 1 andalso Most + lists:sum(maps:values(LeftOut)) =:= 0,
        callers => maps:get(times_by_caller, Lost, 0) =:= 0,
        groups => maps:get(times_by_group, Lost, 0) =:= 0
    },
    Numbered = lists:zip3(lists:seq(1, length(Functions)), Functions, Given),
    Rows = [
        maps:merge(row(N, Function, Row, Has, Sums, State), heatmap(Which, N, State))
     || {N, Function, Row} <- Numbered
    ],
    Answer = (State#measuring.off)#{
        functions => Rows,
        ms => ms(Which, State),
        sampled_of => 1 bsl (case Which of whole -> Most; interval -> Last end),
        open => sum(open, Given),
        lost => Lost#{calls_left_out_by_sampling => sum(left_out, Given)},
        ended => State#measuring.ended
    },
    case Rows of
        [Row] -> maps:merge(Row, Answer);
        _ -> Answer
    end.

sum(Key, Rows) -> lists:sum([maps:get(Key, Row) || Row <- Rows]).

ms(Which, #measuring{since = Since, interval = Interval, until = Until}) ->
    To = case Until of undefined -> now_ms(); _ -> Until end,
    max(0, To - case Which of whole -> Since; interval -> Interval end).

%% Of parts: times that found no room in their buckets, there or here.
lost_of(Which, Sums, #measuring{lost = {Lost, Before}}) ->
    New = case Which of
        whole -> Lost;
        interval -> maps:map(fun(Key, N) -> N - maps:get(Key, Before, 0) end, Lost)
    end,
    lists:foldl(
        fun({Key, Kind}, All) ->
            More = flame_prof_latency_parts:missing(Kind, Sums),
            maps:update_with(Key, fun(N) -> N + More end, More, All)
        end,
        New,
        [{times_by_caller, callers}, {times_by_group, groups}]
    ).

heatmap(whole, N, #measuring{heatmap = Heatmap}) when Heatmap =/= none ->
    #{heatmap => flame_prof_latency_heatmap:of_function(N, Heatmap)};
heatmap(_, _, _) ->
    #{}.

row(N, Function, Given, #{own := HasOwn} = Has, Sums, #measuring{parts = Kinds}) ->
    #{histogram := Buckets} = Given,
    Row = with_quantiles(true, Buckets, with_own(HasOwn, maps:remove(left_out, Given))),
    Parts = [{Kind, parts(Kind, N, Has, Sums)} || Kind <- Kinds],
    maps:merge(Row#{function => Function}, maps:from_list(Parts)).

with_own(true, Map) -> Map;
with_own(false, Map) -> maps:remove(own_ns, Map).

with_quantiles(false, _Buckets, Map) -> Map;
with_quantiles(true, Buckets, #{total_ns := Total, max_ns := Max} = Map) ->
    Quantiles = flame_prof_histogram:quantiles(flame_prof_histogram:new(Buckets, Total, Max)),
    maps:merge(maps:remove(max_ns, Map), Quantiles).

parts(Kind, N, #{own := HasOwn} = Has, Sums) ->
    [
        with_quantiles(maps:get(Kind, Has), Buckets, with_own(HasOwn, #{
            name_of(Kind) => shown(Kind, Name), calls => Calls, total_ns => Total, own_ns => Own,
            max_ns => Max, histogram => Buckets
        }))
     || {Name, {Calls, Total, Own, Max}, Buckets}
            <- flame_prof_latency_parts:of_function(Kind, N, Sums)
    ].

name_of(groups) -> group;
name_of(callers) -> caller.

shown(groups, other) -> <<"(other)">>;
shown(_, Key) -> Key.
