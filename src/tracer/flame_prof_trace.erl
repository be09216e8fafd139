%% @doc Readable traces that cannot hurt: calls, returns, exceptions, messages and the lives of
%% processes, as text, bounded in rate, in number and in the size of terms.
%% {@link flame_prof:trace/2} prints one:
%%
%% ```
%% 1> flame_prof:trace("lists:seq(A, B) when B > 100 -> return", #{}).
%% % 09:41:07.123456 <0.188.0> my_server
%% % lists:seq(1, 200)
%% %   called by my_server:handle_call/3
%% ...
%% % 57 events in 12.3 s, 1,204 dropped (rate 100 a second), 0 lost; ended: max_seconds
%% '''
%%
%% doc/trace.md has the patterns with examples.
%%
%% == Patterns ==
%% A pattern is a text, or a list has several: `"Module"', `"Module:Function"',
%% `"Module:Function/2"', `"Module:Function(Arguments)"', the latter with `when' and guards, or of
%% Elixir `"Shop.Cart.add/2"', `"Shop.Cart.add(Arguments)"'; then `->' and actions:
%% `return' (and exceptions), `stack' (OTP 27). `"send(To, Message)"' and
%% `"receive(From, Message)"' with guards or without arguments, `"spawn"', `"exit"', `"link"',
%% `"register"', and `"procs"' for these four. Without quotes
%% {@link flame_prof_trace_spec:pattern()}.
%%
%% == Cost and limits ==
%% The VM calls a function of the library at each event; no message is sent, and the traced process
%% does not wait. Beyond the rate an event is dropped: counted, not copied, in 0.4 us.
%% The limits of all tracings hold: `max_cpu', `for'; it ends, too, when the process that asked for
%% it ends.
%%
%% A function with `return' keeps a frame on the stack until it returns: a loop by tail calls grows
%% its stack, by one frame for each call that is shown.
%%
%% == What is left out ==
%% <code>'...'</code> stands for it; a list that is cut ends with it. A tuple, map or binary that is
%% cut is <code>{'...', tuple | map, Size, Elements | Pairs}</code>,
%% <code>{'...', binary, Size, Bytes}</code>; references, funs, and pids of other nodes are
%% <code>{'...', text, Text}</code>.
-module(flame_prof_trace).

-behaviour(gen_server).
-behaviour(flame_prof_look).

-export([run/2, start/2, await/1, stop/1]).
-export([about/0, takes/0, text/2, json/1, live/1, longest_ms/1]).
-export([start/3, taken/1, end_now/1]).
-export([init/1, handle_call/3, handle_info/2, handle_cast/2, terminate/2]).

-export_type([options/0, summary/0]).

-type options() ::
    #{
        node => node(),
        patterns => flame_prof_trace_spec:spec(),
        process => every | flame_prof_target:target() | [flame_prof_target:target()],
        first => flame_prof_trace_spec:spec(),
        follow => none | spawn | send | spawn_and_send,
        max_rate => pos_integer(),
        burst => pos_integer(),
        max_events => pos_integer(),
        for => pos_integer(),
        max_cpu => number() | infinity,
        depth => non_neg_integer(),
        bytes => pos_integer(),
        items => pos_integer(),
        to => shell | {file, file:name_all()} | fun((flame_prof_trace_format:event()) -> term()),
        format => module()
    }.
%% <ul>
%% <li>`process': those that are traced, by pid or name (`every': also new ones)</li>
%% <li>`first': of a call, a send or a receive: only processes that did this, from then on
%%     (none)</li>
%% <li>`follow': trace also processes that a traced process spawns, sends to, or both (`none')</li>
%% <li>`max_rate', `burst': events a second in the long run, and at once (100, 100)</li>
%% <li>`max_events', `for' (milliseconds), `max_cpu' (percent of the node's CPU time): it ends then
%%     (1000, 60000, 5)</li>
%% <li>`depth', `bytes', `items': of each term: nesting, size of its copy, elements of a list,
%%     tuple or map (8, 1024, 100)</li>
%% <li>`to': where it is written (`shell'). A file is new, for its owner only. A process of the
%%     trace calls a fun with each event</li>
%% <li>`format': a module with `format/1', see {@link flame_prof_trace_format}</li>
%% <li>`node', `patterns': {@link flame_prof} takes them</li>
%% </ul>
%%
%% Older names: `processes', `rate', `max_seconds' (seconds), `max_cpu_percent'.

-type summary() ::
    #{
        ended := asked | {limit, atom()} | {down, pid()} | {output, term()},
        seconds := float(),
        seen := non_neg_integer(),
        written := non_neg_integer(),
        dropped := non_neg_integer(),
        lost := non_neg_integer(),
        late := non_neg_integer(),
        not_followed := non_neg_integer(),
        functions := non_neg_integer(),
        processes := non_neg_integer(),
        left_alone := non_neg_integer()
    }.
%% seen = written + dropped + lost. Dropped by the rate or the number, calls before their arguments
%% are compared. Lost: more than their memory at once. Beside these `late', events that were let go:
%% the node was too busy to run its tracing. `not_followed': messages by which a process might have
%% been followed: dropped, lost, or beyond 1,000 processes. `left_alone': processes of another
%% tracer (OTP 25, 26).

-record(trace, {
    %% `none' until it is switched on.
    ref = none :: none | reference(),
    plan :: flame_prof_trace_plan:plan(),
    options :: map(),
    asker :: {pid(), reference()},
    %% Who called start: another process than the asker where that is of another node.
    caller :: pid(),
    namer :: pid(),
    output :: output(),
    %% The offset from the library's clock to Unix time.
    offset = none :: none | integer(),
    shown = 0 :: non_neg_integer(),
    names = #{} :: flame_prof_trace_events:names(),
    followed = #{} :: #{term() => true},
    beyond = 0 :: non_neg_integer(), % messages to others than those
    told = 0 :: non_neg_integer(),
    told_at = 0 :: integer(),
    since = 0 :: integer(),
    summary = none :: none | summary(),
    waiting = [] :: [gen_server:from()],
    %% For the asker, who takes one at a time.
    text = [] :: iodata(),
    text_bytes = 0 :: non_neg_integer(),
    is_taken = true :: boolean()
}).

-type output() ::
    {shell, pid()} | {file, file:name_all(), file:io_device()} | {call, fun((map()) -> term())}
    | sent | over.

-define(POLL_MS, 20).
-define(READ, 100).
%% For the last events, whose schedulers may have lost their CPU.
-define(LAST_MS, 200).
-define(TOLD_MS, 1000).
-define(EXCLUDED_MOST, 16). % c_src/agent_nif/trace_nif.c
-define(KEPT_MS, 10000).
-define(TEXT_BYTES, 1048576). % that the asker has not taken
-define(RINGS_BYTES, 16777216).
-define(FOLLOWED, 1000).
%% The state between two events.
-define(MODULES, [flame_prof_clock, flame_prof_trace_events, flame_prof_trace_format,
    flame_prof_target, flame_prof_text, calendar, io_lib, io_lib_format, io_lib_pretty, filename,
    proplists]).

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => trace,
        group => calls,
        asks => "calls, returns, messages as text",
        sentence => "Calls, returns, exceptions, messages and the lives of processes as text: "
            "limited in rate, number and size.",
        cost => "Traces, within limits; an event beyond the rate is dropped in 0.4 microseconds.",
        shows => "Arguments, results and messages, cut to a size.",
        argument => {patterns, required, "flame_prof_trace_spec:spec()", "PATTERN..."},
        runs => there,
        lends => [flame_prof_trace_format],
        library => needed,
        examples => ["trace shop@myhost 'lists:seq(A, B) when B > 100 -> return'",
            "trace shop@myhost send receive --first 'my_conn:init(#{user := anna})' "
            "--follow spawn"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() ->
    [
        #{key => patterns, word => "PATTERN", doc => "what is traced",
            type => {own, fun(Patterns) -> {ok, Patterns} end, "a pattern, or a list of patterns"}}
        | rows()
    ].

%% @doc Traces until it ends by itself. The calling process waits; when it ends, so does the trace.
-spec run(flame_prof_trace_spec:spec(), options()) ->
    {ok, summary()} | {error, flame_prof:reason()}.
%% As a look: a node is no pattern.
run(Node, #{patterns := Patterns} = Options) when Node =:= node() ->
    collected(Patterns, maps:without([node, patterns], Options));
run(Spec, Options) ->
    case prepared(self(), Spec, Options) of
        {ok, Trace} -> call(Trace, run);
        {error, _} = Error -> Error
    end.

%% Events are the answer, and not text.
collected(Patterns, #{format := Format, max_rate := Rate} = Options) ->
    Self = self(),
    Ref = make_ref(),
    case run(Patterns, Options#{to := fun(Event) -> Self ! {Ref, Event} end}) of
        {ok, Summary} ->
            {ok, #{events => received(Ref), summary => Summary, format => Format,
                max_rate => Rate}};
        {error, _} = Error ->
            Error
    end.

received(Ref) ->
    receive {Ref, Event} -> [Event | received(Ref)]
    after 0 -> []
    end.

%% @private
-spec text(map(), pos_integer()) -> unicode:chardata().
text(#{events := Events, summary := Summary, format := Format, max_rate := Rate}, _Columns) ->
    [[Format:format(Event) || Event <- Events], flame_prof_trace_format:summary(Summary, Rate)].

%% @private
-spec json(map()) -> #{atom() => term()}.
json(#{events := Events, summary := #{ended := Ended} = Summary, format := Format}) ->
    #{
        events => [unicode:characters_to_binary(Format:format(Event)) || Event <- Events],
        summary => Summary#{ended := json_ended(Ended)}
    }.

json_ended({limit, Name}) -> Name;
json_ended({Why, _}) -> Why;
json_ended(Why) -> Why.

%% @private
-spec live(map()) -> {ok, summary()} | {error, flame_prof:reason()}.
live(#{patterns := Patterns} = Options) -> run(Patterns, maps:without([node, patterns], Options)).

%% @private
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{for := Ms}) -> Ms.

%% @doc Returns when it is switched on: a trace of `receive' has this answer.
-spec start(flame_prof_trace_spec:spec(), options()) ->
    {ok, pid()} | {error, flame_prof:reason()}.
start(Spec, Options) -> start(self(), Spec, Options).

%% @private Asked for by a process, of any node: when it ends, so does the trace. With `to => sent'
%% it gets `{flame_prof_trace, Trace, {more | over, Text}}', and answers each with {@link taken/1}.
-spec start(pid(), flame_prof_trace_spec:spec(), options() | map()) ->
    {ok, pid()} | {error, flame_prof:reason()}.
start(Asker, Spec, Given) ->
    case prepared(Asker, Spec, Given) of
        {ok, Trace} ->
            case call(Trace, start) of
                ok -> {ok, Trace};
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

%% The reader, and nothing is traced yet.
prepared(Asker, Spec, Given) ->
    case flame_prof_schema:checked(rows(), Given) of
        {ok, #{first := First, process := Processes} = Options} ->
            case {flame_prof_trace_plan:plan(Spec, First), unknown(Processes)} of
                {{ok, Plan}, []} ->
                    flame_prof_tracing:start_asker(?MODULE,
                        {Asker, self(), group_leader(), Plan, limited(Options)});
                {{ok, _}, [Unknown | _]} ->
                    {error, {process, #{target => Unknown}}};
                {{error, _} = Error, _} ->
                    Error
            end;
        {error, _} = Error ->
            Error
    end.

limited(#{for := Ms, max_rate := Rate, process := Processes} = Options) ->
    (flame_prof_tracing:as_limits(maps:without([for, max_rate, process], Options)))#{
        max_seconds => (Ms + 999) div 1000, rate => Rate, processes => Processes}.

%% @doc Waits for its end.
-spec await(pid()) -> {ok, summary()} | {error, flame_prof:reason()}.
await(Trace) -> call(Trace, await).

%% @doc Ends it; what was written in the meantime is shown before.
-spec stop(pid()) -> {ok, summary()} | {error, flame_prof:reason()}.
stop(Trace) -> call(Trace, stop).

%% @private By the asker, of any node. No process is spawned in that of the trace.
-spec taken(pid()) -> ok.
taken(Trace) ->
    Trace ! {?MODULE, taken},
    ok.

%% @private As {@link stop/1}, and the text follows.
-spec end_now(pid()) -> ok.
end_now(Trace) ->
    Trace ! {?MODULE, end_now},
    ok.

call(Trace, Request) ->
    try gen_server:call(Trace, Request, infinity)
    catch
        exit:_ -> {error, {session_ended, #{reason => <<"the trace has ended">>}}}
    end.

bounds() ->
    [
        #{key => for, alias => {max_seconds, 1000}, type => {whole, ms, 1, 86400000},
            default => 60000, doc => "how long at most"},
        #{key => max_events, alias => events, type => {whole, count, 1, 1000000}, default => 1000,
            doc => "how many at most"},
        #{key => max_rate, alias => rate, type => {whole, count, 1, 10000}, default => 100,
            doc => "events a second in the long run"},
        #{key => burst, type => {whole, count, 1, 10000}, default => 100, doc => "events at once"},
        #{key => depth, type => {whole, count, 0, 30}, default => 8,
            doc => "depth of terms"},
        #{key => bytes, type => {whole, bytes, 64, 8192}, default => 1024,
            doc => "bytes of a term"},
        #{key => items, type => {whole, count, 1, 1000}, default => 100,
            doc => "elements of a list, tuple or map"}
    ].

rows() ->
    [#{alias := Older} = Cpu | Heartbeat] = flame_prof_tracing:look_rows([max_cpu, heartbeat_ms]),
    bounds() ++ [Cpu#{alias := [cpu | Older]} | Heartbeat] ++ [
        #{key => process, alias => processes, default => every, word => "NAMES", reads => names,
            type => {either, [{every, every}],
                {own, fun processes/1, flame_prof_target:accepts()}},
            doc => "only these processes: names or pids, with commas"},
        #{key => first, default => none, word => "PATTERN",
            type => {own, fun(First) -> {ok, First} end, "a pattern"},
            doc => "a call, send or receive; only processes that did it are traced, from then on"},
        #{key => follow, default => none, type => {one_of, [none, spawn, send, spawn_and_send]},
            doc => "also processes that a traced process spawns, sends to, or both"},
        #{key => to, default => shell, word => none,
            type => {own, fun to/1, "shell, {file, Name} or a fun of one argument"}},
        #{key => format, word => none, default => flame_prof_trace_format,
            type => {own, fun format/1, "a module that exports format/1"}}
    ].

processes(Given) ->
    case flame_prof_target:parse(Given) of
        {ok, [_ | _] = Targets} -> {ok, Targets};
        _ -> error
    end.

to(To) when To =:= shell; To =:= sent; is_function(To, 1) -> {ok, To};
to({file, Name} = To) when is_list(Name); is_binary(Name) -> {ok, To};
to(_) -> error.

format(Module) when is_atom(Module) ->
    case code:ensure_loaded(Module) of
        {module, _} ->
            case erlang:function_exported(Module, format, 1) of
                true -> {ok, Module};
                false -> error
            end;
        {error, _} -> error
    end;
format(_) -> error.

%%% ----------------------------------------------------------- switching it on --

%% The trace's own processes and what writes it, which else would trace itself: each event would
%% make another one. Those that serve the command line, too.
excluded(#trace{asker = {Asker, _}, caller = Caller, namer = Namer, output = Output}) ->
    Names = [user, user_drv, user_drv_writer | flame_prof_own:names()],
    Pids = [self(), Namer] ++ [Caller || Caller =/= Asker]
        ++ [Leader || {shell, Leader} <- [Output]]
        ++ [Pid || Name <- Names, Pid <- [whereis(Name)], is_pid(Pid)],
    lists:sublist([Pid || Pid <- Pids, node(Pid) =:= node()], ?EXCLUDED_MOST).

config(#trace{plan = Plan, options = Options} = Trace) ->
    #{rate := Rate, burst := Burst, max_events := Events, follow := Follow} = Options,
    Threads = erlang:system_info(schedulers) + erlang:system_info(dirty_cpu_schedulers)
        + erlang:system_info(dirty_io_schedulers),
    (maps:with([depth, bytes, items], Options))#{
        rate => Rate,
        burst => Burst,
        events => Events,
        threads => Threads,
        ring_bytes => min(1048576, max(65536, ?RINGS_BYTES div Threads)),
        tags => flame_prof_trace_plan:tags(Plan, Follow),
        follows => flame_prof_trace_plan:follows(Plan, Follow),
        is_following => flame_prof_trace_plan:is_following(Plan),
        exclude => excluded(Trace)
    }.

spec(#trace{plan = Plan, options = Options, asker = {Asker, _}} = Trace) ->
    #{processes := Processes, follow := Follow} = Options,
    (flame_prof_trace_plan:tracing(Plan, Follow))#{
        kind => trace,
        owner => self(),
        asked_by => Asker,
        follows => #{follow => Follow, flags => flame_prof_trace_plan:flags(Plan, Follow)},
        processes => pids(Processes),
        limits => maps:with([max_seconds, max_cpu_percent, heartbeat_ms], Options),
        config => config(Trace)
    }.

%% Names without a process. A pid may have ended.
unknown(every) -> [];
unknown(Targets) ->
    [Target || Target <- Targets, flame_prof_target:find(Target) =:= undefined].

%% One that has ended has no events.
pids(every) -> every;
pids(Targets) ->
    [Pid || Target <- Targets, Pid <- [flame_prof_target:find(Target)], is_pid(Pid)].

switched_on(#trace{options = #{format := Format}} = Trace) ->
    %% A module that is loaded meanwhile would be events of the code server.
    _ = [code:ensure_loaded(Module) || Module <- [Format | ?MODULES]],
    case flame_prof_tracing:start(spec(Trace)) of
        {ok, Ref} ->
            {ok, polling(Trace#trace{ref = Ref, since = erlang:monotonic_time(nanosecond)})};
        {error, _} = Error ->
            Error
    end.

polling(Trace) ->
    _ = flame_prof_clock:send_after(?POLL_MS, poll),
    Trace.

%%% ---------------------------------------------------------------- the reader --

%% @private
-spec init({pid(), pid(), pid(), flame_prof_trace_plan:plan(), map()}) ->
    {ok, #trace{}} | {stop, term()}.
init({Asker, Caller, GroupLeader, Plan, #{to := To} = Options}) ->
    case output(To, GroupLeader) of
        {ok, Output} ->
            {ok, #trace{
                plan = Plan,
                options = Options,
                asker = {Asker, monitor(process, Asker)},
                caller = Caller,
                namer = flame_prof_trace_events:start_namer(),
                output = Output
            }};
        {error, Reason} ->
            {stop, {shutdown, {refused, Reason}}}
    end.

output(shell, GroupLeader) -> {ok, {shell, GroupLeader}};
output(sent, _) -> {ok, sent};
output({file, Name}, _) ->
    case file:open(Name, [write, exclusive, raw]) of
        {ok, File} ->
            %% Empty until then.
            case file:change_mode(Name, 8#600) of
                ok -> {ok, {file, Name, File}};
                {error, Reason} -> {error, flame_prof_error:file(Name, Reason)}
            end;
        {error, Reason} ->
            {error, flame_prof_error:file(Name, Reason)}
    end;
output(Fun, _) -> {ok, {call, Fun}}.

close({file, _, File}) -> _ = file:close(File), ok;
close(_) -> ok.

%% Of a trace that was refused: the next one may have the same name.
discard({file, Name, _}) -> _ = file:delete(Name), ok;
discard(_) -> ok.

%% @private
handle_call(How, From, #trace{ref = none, output = Output} = Trace0) when
    How =:= start; How =:= run
->
    case switched_on(Trace0) of
        {ok, Trace} when How =:= start ->
            {reply, ok, Trace};
        {ok, Trace} ->
            {noreply, Trace#trace{waiting = [From]}};
        {error, _} = Error ->
            ok = discard(Output),
            {stop, normal, Error, Trace0}
    end;
handle_call(await, From, #trace{summary = none, waiting = Waiting} = Trace) ->
    {noreply, Trace#trace{waiting = [From | Waiting]}};
handle_call(await, _From, #trace{summary = Summary} = Trace) ->
    {reply, {ok, Summary}, Trace};
handle_call(stop, _From, Trace0) ->
    Trace = ended(asked, Trace0),
    {reply, {ok, Trace#trace.summary}, Trace}.

%% @private
handle_cast(_, Trace) ->
    {noreply, Trace}.

%% @private
handle_info(poll, #trace{summary = none} = Trace0) ->
    case work(Trace0) of
        {more, Trace} -> {noreply, sent(polling(Trace))};
        {over, Why, Trace} -> {noreply, ended(Why, Trace)}
    end;
handle_info({flame_prof_tracing, Ref, {ended, Why}}, #trace{ref = Ref, summary = none} = Trace) ->
    {noreply, ended(Why, Trace)};
handle_info({'DOWN', Monitor, process, Asker, _}, #trace{asker = {Asker, Monitor}} = Trace) ->
    case Trace of
        #trace{ref = none, output = Output} -> ok = discard(Output), {stop, normal, Trace};
        #trace{} -> {stop, normal, ended({down, Asker}, Trace)}
    end;
handle_info({?MODULE, taken}, #trace{output = over} = Trace) ->
    {stop, normal, Trace};
handle_info({?MODULE, taken}, Trace) ->
    {noreply, sent(Trace#trace{is_taken = true})};
handle_info({?MODULE, end_now}, Trace) ->
    {noreply, ended(asked, Trace)};
handle_info(forget, Trace) ->
    {stop, normal, Trace};
handle_info(_, Trace) ->
    {noreply, Trace}.

%% @private
terminate(_Reason, #trace{ref = Ref, namer = Namer, output = Output}) ->
    _ = [flame_prof_tracing:stop(Ref) || Ref =/= none],
    true = exit(Namer, kill),
    close(Output).

%% All that is there now, in slices.
work(#trace{text_bytes = Bytes} = Trace) when Bytes > ?TEXT_BYTES ->
    {more, Trace};
work(#trace{ref = Ref} = Trace0) ->
    case flame_prof_tracing:read(Ref, {?READ, settled}) of
        {ok, {Now, Events}} ->
            case shown(Events, clocked(Now, Trace0)) of
                {ok, Trace} when length(Events) =:= ?READ -> work(Trace);
                {ok, Trace} -> dropped(Trace);
                {error, Why, Trace} -> {over, {output, Why}, Trace}
            end;
        {error, _} ->
            {over, {down, self()}, Trace0}
    end.

clocked(Now, #trace{offset = none} = Trace) ->
    Trace#trace{offset = erlang:system_time(nanosecond) - Now};
clocked(_Now, Trace) ->
    Trace.

%% The last one is the first.
shown(Backwards, #trace{shown = Shown} = Trace0) ->
    Events = lists:reverse(Backwards),
    Trace = Trace0#trace{shown = Shown + length(Events)},
    Names = flame_prof_trace_events:names(Events, Trace#trace.namer, Trace#trace.names),
    Of = flame_prof_trace_events:of_program(Events, Names),
    write(Of, followed(Events, Trace#trace{names = Names})).

write([], Trace) ->
    {ok, Trace};
write(Raw, #trace{offset = Offset, names = Names, output = Output} = Trace) ->
    #{format := Format} = Trace#trace.options,
    Events = [flame_prof_trace_events:event(Event, Offset, Names) || Event <- Raw],
    try
        case Output of
            {call, Fun} ->
                _ = [Fun(Event) || Event <- Events],
                {ok, Trace};
            _ ->
                put_text([Format:format(Event) || Event <- Events], Trace)
        end
    catch
        Class:Reason -> {error, {Class, Reason}, Trace}
    end.

put_text(Text, #trace{output = {shell, GroupLeader}} = Trace) ->
    try io:put_chars(GroupLeader, Text) of
        ok -> {ok, Trace}
    catch
        error:Reason -> {error, Reason, Trace}
    end;
put_text(Text, #trace{output = {file, _, File}} = Trace) ->
    case file:write(File, unicode:characters_to_binary(Text)) of
        ok -> {ok, Trace};
        {error, Reason} -> {error, Reason, Trace}
    end;
put_text(Text, #trace{output = sent, text = Before, text_bytes = Bytes} = Trace) ->
    Encoded = unicode:characters_to_binary(Text),
    {ok, Trace#trace{text = [Before, Encoded], text_bytes = Bytes + byte_size(Encoded)}};
put_text(_Text, Trace) ->
    {ok, Trace}.

%% To the asker, when it has taken what came before. It does not wait for a connection that is slow.
sent(#trace{output = sent, is_taken = true, text = Text, summary = Summary} = Trace) when
    Text =/= []; Summary =/= none
->
    #trace{asker = {Asker, _}} = Trace,
    More = case Summary of none -> more; _ -> over end,
    case erlang:send(Asker, {?MODULE, self(), {More, iolist_to_binary(Text)}}, [nosuspend]) of
        ok when More =:= over ->
            Trace#trace{text = [], output = over};
        ok ->
            Trace#trace{text = [], text_bytes = 0, is_taken = false};
        nosuspend ->
            _ = flame_prof_clock:send_after(?POLL_MS, {?MODULE, taken}),
            Trace#trace{is_taken = false}
    end;
sent(Trace) ->
    Trace.

%% Once a second, where some were dropped or lost since.
dropped(#trace{ref = Ref, told = Told, told_at = At} = Trace) ->
    Now = flame_prof_clock:now_ms(),
    case flame_prof_tracing:read(Ref, counters) of
        {ok, #{is_full := true}} ->
            {over, {limit, max_events}, Trace};
        {ok, #{dropped := Dropped, lost := Lost}} when
            Dropped + Lost > Told, Now - At >= ?TOLD_MS
        ->
            New = Trace#trace{told = Dropped + Lost, told_at = Now},
            Line = ["% ... ", flame_prof_text:grouped(Dropped + Lost - Told),
                " events dropped\n\n"],
            case put_text(Line, New) of
                {ok, Written} -> {more, Written};
                {error, Why, Failed} -> {over, {output, Why}, Failed}
            end;
        {ok, _} ->
            {more, Trace};
        {error, _} ->
            {over, {down, self()}, Trace}
    end.

%%% --------------------------------------------------------------------- its end --

ended(_Why, #trace{summary = #{}} = Trace) ->
    Trace;
ended(Why0, #trace{ref = Ref, since = Since} = Trace0) ->
    Why = case flame_prof_tracing:off(Ref) of
        {error, {Class, _}} when Why0 =:= asked, Class =/= timeout -> {down, self()};
        _ -> Why0
    end,
    Trace1 = rest(Trace0, Why),
    Counters =
        case flame_prof_tracing:read(Ref, counters) of
            {ok, #{missed := Missed} = Read} ->
                (maps:with([seen, written, dropped, lost], Read))#{
                    not_followed => Missed + Trace1#trace.beyond};
            {error, _} -> #{seen => 0, written => 0, dropped => 0, lost => 0, not_followed => 0}
        end,
    Stopped =
        case flame_prof_tracing:stop(Ref) of
            {ok, #{lost := Late} = Of} ->
                (maps:with([functions, processes, left_alone], Of))#{late => Late};
            {error, _} -> #{functions => 0, processes => 0, left_alone => 0, late => 0}
        end,
    Ns = erlang:monotonic_time(nanosecond) - Since,
    Summary = maps:merge(Stopped, Counters#{ended => Why, seconds => Ns / 1.0e9}),
    Text = flame_prof_trace_format:summary(Summary, maps:get(rate, Trace1#trace.options)),
    Trace2 =
        case Why of
            {What, _} when What =:= output; What =:= down -> Trace1;
            _ -> element(2, put_last(Text, Trace1))
        end,
    _ = [gen_server:reply(From, {ok, Summary}) || From <- Trace2#trace.waiting],
    _ = flame_prof_clock:send_after(?KEPT_MS, forget),
    sent(Trace2#trace{summary = Summary, waiting = []}).

%% Nothing is added any more, but for callbacks that run now.
rest(Trace, {output, _}) ->
    Trace;
rest(Trace, _Why) ->
    rest_until(flame_prof_clock:now_ms() + ?LAST_MS, Trace).

rest_until(Until, #trace{ref = Ref} = Trace0) ->
    case flame_prof_tracing:read(Ref, {?READ, all}) of
        {ok, {Now, Events}} ->
            case shown(Events, clocked(Now, Trace0)) of
                {ok, Trace} when Events =/= [] -> rest_until(Until, Trace);
                {ok, Trace} -> settled(Until, Trace);
                {error, _, Trace} -> Trace
            end;
        {error, _} ->
            Trace0
    end.

settled(Until, #trace{ref = Ref, shown = Shown} = Trace) ->
    IsLate = flame_prof_clock:now_ms() > Until,
    case flame_prof_tracing:read(Ref, counters) of
        {ok, #{seen := Seen, written := Shown, dropped := Dropped, lost := Lost}} when
            Seen =:= Shown + Dropped + Lost -> Trace;
        {ok, #{}} when not IsLate -> timer:sleep(1), rest_until(Until, Trace);
        _ -> Trace
    end.

put_last(Line, Trace) ->
    case put_text(Line, Trace) of
        {ok, Written} -> {ok, Written};
        {error, _, Failed} -> {error, Failed}
    end.

%% The receivers of messages that are shown; those who got the first message.
followed(Events, #trace{options = #{follow := Follow}, followed = Before} = Trace) ->
    #trace{ref = Ref, plan = Plan} = Trace,
    New = [To || To <- flame_prof_trace_plan:followed(Events, Plan, Follow),
        not is_map_key(To, Before)],
    Some = lists:sublist(lists:usort(New), ?FOLLOWED - map_size(Before)),
    Flags = flame_prof_trace_plan:flags(Plan, Follow),
    _ = [flame_prof_tracing:add(Ref, pids(Some), Flags) || Some =/= []],
    Followed = maps:merge(Before, maps:from_list([{To, true} || To <- Some])),
    Beyond = [To || To <- New, not is_map_key(To, Followed)],
    Trace#trace{followed = Followed, beyond = Trace#trace.beyond + length(Beyond)}.
