%% A program with OpenTelemetry, as far as the dictionary of its processes shows it. There is no
%% package registry where the tests run, so opentelemetry_api is not here. The terms are those that
%% its sources make, of two releases:
%%
%%   otel_ctx.erl          put('$__current_otel_ctx', Ctx); Ctx#{Key => Value}; attach, detach
%%   otel_tracer.erl       the key {otel_tracer, span_ctx}
%%   otel_baggage.erl      another key, an atom
%%   opentelemetry.hrl     #span_ctx{}: 9 elements to 1.4, 11 from 1.5 on
%%   otel_span_utils.erl   the record is made with its ids, and updated three times
%%   otel_id_generator.erl random integers below 2^128 and 2^64
%%
%% A process logs each change of its current span into a table before and after the change, so that
%% a moment between the two may have either.
-module(otel_app).

-export([log/0, worker/3, possible/3, span_ctx/3, context/2, new_ids/0, hex/1]).

-define(CURRENT_CTX, '$__current_otel_ctx').
-define(CURRENT_SPAN_CTX, {otel_tracer, span_ctx}).
-define(BAGGAGE, '$__otel_baggage_ctx_key').

%% @doc A table: {{Pid, Microseconds}, Ids | none, before | after}.
log() -> ets:new(?MODULE, [public, ordered_set, {write_concurrency, true}]).

%% @doc A process that works in traces, one after the other, until it is killed. `Release': 9 or 11.
worker(Log, Release, Options) ->
    Seed = seeded:seed(),
    spawn_opt(fun() ->
        %% Others of the same test have other ids.
        _ = rand:seed(exsss, erlang:phash2({Seed, Release, Options})),
        _ = [put({other, N}, N) || N <- lists:seq(1, rand:uniform(40))],
        requests(Log, Release)
    end, Options).

requests(Log, Release) ->
    put(?BAGGAGE, none),
    trace(Log, Release, rand:uniform(3)),
    work(rand:uniform(4)),
    requests(Log, Release).

%% A root span, with others inside; the context of before is attached again behind each.
trace(Log, Release, Depth) ->
    {Trace, Span} = new_ids(),
    _ = rand:uniform(2) =:= 1 andalso set_value(?BAGGAGE, #{<<"user">> => {<<"x">>, []}}),
    in_span(Log, Release, {Trace, Span}, none, Depth),
    _ = rand:uniform(2) =:= 1 andalso erase(?CURRENT_CTX),
    ok.

in_span(Log, Release, {Trace, _} = Ids, Outer, Depth) ->
    Token = get(?CURRENT_CTX),
    changed(Log, Outer, Ids, fun() -> set_span(Release, Ids) end),
    work(rand:uniform(4)),
    Depth > 0 andalso begin
        {_, Inner} = new_ids(),
        in_span(Log, Release, {Trace, Inner}, Ids, Depth - 1)
    end,
    work(rand:uniform(4)),
    changed(Log, Ids, Outer, fun() -> put(?CURRENT_CTX, Token) end).

changed(Log, Before, After, Change) ->
    true = ets:insert(Log, {{self(), now_us()}, both, {Before, After}}),
    _ = Change(),
    true = ets:insert(Log, {{self(), now_us()}, one, After}).

set_span(Release, Ids) -> set_value(?CURRENT_SPAN_CTX, span_ctx(Release, Ids, [])).
set_value(Key, Value) -> put(?CURRENT_CTX, set_value(get(?CURRENT_CTX), Key, Value)).

set_value(Ctx, Key, Value) when is_map(Ctx) -> Ctx#{Key => Value};
set_value(_, Key, Value) -> #{Key => Value}.

%% @doc The record of the release; its last fields are `State', `true', `false', `true', `Sdk'.
span_ctx(9, {Trace, Span}, State) ->
    Root = {span_ctx, Trace, Span, 0, State, true, false, undefined, undefined},
    setelement(9, setelement(8, setelement(4, Root, 1), true), {otel_span_ets, fun(_) -> ok end});
span_ctx(11, {Trace, Span}, State) ->
    Root = {span_ctx, Trace, hex(<<Trace:128>>), Span, hex(<<Span:64>>), 0, State, true, false,
        undefined, undefined},
    setelement(11, setelement(10, setelement(6, Root, 1), true), {otel_span_ets, fun(_) -> ok end}).

%% @doc A context with this span, and some other keys.
context(SpanCtx, Others) -> maps:put(?CURRENT_SPAN_CTX, SpanCtx, Others).

%% @doc As otel_id_generator makes them.
new_ids() ->
    ok = seeded:once(),
    {rand:uniform(1 bsl 128 - 1), rand:uniform(1 bsl 64 - 1)}.

hex(Bytes) -> list_to_binary([io_lib:format("~2.16.0b", [Byte]) || <<Byte>> <= Bytes]).

%% Computes, allocates with collections, or waits.
work(1) -> _ = lists:foldl(fun erlang:'+'/2, 0, lists:seq(1, 20000)), ok;
work(2) -> _ = [garbage(50) || _ <- lists:seq(1, 20)], ok;
work(3) -> timer:sleep(rand:uniform(5));
work(4) -> _ = garbage_collect(), receive nothing -> ok after 1 -> ok end.

garbage(N) -> [integer_to_binary(X) || X <- lists:seq(1, N)].
now_us() -> os:system_time(microsecond).

%% @doc The ids, or `none', that a process may have had at some moment of [From, To].
possible(Log, Pid, {From, To}) ->
    First = case ets:prev(Log, {Pid, From}) of
        {Pid, _} = Key -> ids(ets:lookup(Log, Key));
        _ -> [none]
    end,
    lists:usort(First ++ between(Log, Pid, ets:next(Log, {Pid, From - 1}), To)).

between(Log, Pid, {Pid, At} = Key, To) when At =< To ->
    ids(ets:lookup(Log, Key)) ++ between(Log, Pid, ets:next(Log, Key), To);
between(_, _, _, _) -> [].

ids([{_, both, {Before, After}}]) -> [Before, After];
ids([{_, one, Ids}]) -> [Ids].
