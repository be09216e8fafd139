%% In place of the agent (flame_prof_nif): a session that takes what it is given, and answers as a
%% test says. Whatever of sessions, targets, triggers and looks is not the library runs with it,
%% without threads and files.
-module(fake_agent).

-export([run/1, each/1, options/1, profile/2, start/0, stop/0, script/2, scripted/1, hold/1,
    release/1, calls/1, forget/0, session/0, config/0, say/1, count/1, pushed/0]).
%% Of the stand-in.
-export([answer/2, library/2]).

%% base/counters.h, and what a session says beside them.
-define(COUNTERS, [
    ticks, missed, attempted, inconsistent, inconsistent_changed, inconsistent_moved,
    inconsistent_unfound, inconsistent_late, dropped, exited, retried, stacks, selections,
    selected, growers, processes, sampler_cpu_ns, budget_step, budget_changes, select_interval_ms,
    signals, refused_signals, refused_in_a_row, captures, handler_ns, missed_traces, lost_signal,
    lost_schedulers, written, unsaved, merged, lost, bytes, evicted, own_samples, flushes, errors,
    file_bytes, files_begun, files_removed, files_recovered, unresolved, broken_invariants,
    recoded, writer_cpu_ns, file_cpu_ns, compress_cpu_ns, code_ranges_left_out,
    libraries_left_out]).

%% @doc What the fun answers, with this agent, the virtual clock, and the application.
-spec run(fun(() -> Answer)) -> Answer.
run(Fun) ->
    _ = application:load(flame_prof),
    {ok, Modules} = application:get_key(flame_prof, modules),
    Libraries = [flame_prof_nif, flame_prof_looks_nif, flame_prof_looks, flame_prof_report_nif],
    ok = code:ensure_modules_loaded([M || M <- Modules -- Libraries,
        not lists:prefix("Elixir.", atom_to_list(M))]),
    _ = application:stop(flame_prof),
    ok = start(),
    ok = virtual_clock:start(),
    Before = application:get_all_env(flame_prof),
    try
        ok = application:start(flame_prof),
        Fun()
    after
        _ = application:stop(flame_prof),
        %% Of a test that has failed.
        _ = [begin
            Monitor = monitor(process, Pid),
            exit(Pid, kill),
            receive {'DOWN', Monitor, process, _, _} -> ok end
        end || Pid <- virtual_clock:processes()],
        _ = [application:unset_env(flame_prof, Key)
            || {Key, _} <- application:get_all_env(flame_prof) -- Before],
        ok = virtual_clock:stop(),
        ok = stop()
    end.

%% @doc The same with each of the two engines.
-spec each(fun((native | portable) -> term())) -> ok.
each(Fun) ->
    lists:foreach(fun(Engine) -> run(fun() -> Fun(Engine) end) end, [native, portable]).

%% @doc Of a session that needs nothing of the library but this agent.
-spec options(auto | native | portable) -> map().
options(Engine) ->
    #{engine => Engine, dir => "/tmp/flame_prof_fake", running_stacks => false, messages => false,
        sample_interval => 1000}.

%% @doc A session, once it has done all that it does at its start.
-spec profile(auto | native | portable, map()) -> pid().
profile(Engine, Options) ->
    {ok, Pid} = flame_prof:start(maps:merge(options(Engine), Options)),
    ok = virtual_clock:advance(0),
    Pid.

-spec start() -> ok.
start() ->
    ok = stand_in:open(?MODULE, []),
    ok = stand_in:load(flame_prof_nif, {?MODULE, answer}),
    ok = stand_in:load(flame_prof_looks_nif, {?MODULE, answer}),
    stand_in:load(flame_prof_looks, {?MODULE, library}).

-spec stop() -> ok.
stop() ->
    ok = lists:foreach(fun stand_in:unload/1, [flame_prof_nif, flame_prof_looks_nif,
        flame_prof_looks]),
    stand_in:close(?MODULE).

%% @doc The library of looks is there as long as this agent.
-spec library(atom(), [term()]) -> term().
library(with, [Fun]) -> Fun();
library(hold, []) -> ok;
library(while_held, [_]) -> not_held;
library(purge, []) -> false.

%% @doc This function answers that, or what the fun says of its arguments.
-spec script(atom(), term()) -> ok.
script(Function, Answer) -> put_value({script, Function}, Answer).

-spec scripted(atom()) -> term().
scripted(Function) -> value({script, Function}, none).

%% @doc `flush' or `stop' of a session is not answered before release/1.
-spec hold(flush | stop) -> ok.
hold(What) -> put_value({held, What}, []).

-spec release(flush | stop) -> ok.
release(What) ->
    Held = value({held, What}, []),
    true = ets:delete(?MODULE, {held, What}),
    lists:foreach(fun({Session, Messages}) -> say(Session, Messages) end, lists:reverse(Held)).

%% @doc The arguments of all calls of a function, the first one first.
-spec calls(atom()) -> [[term()]].
calls(Function) ->
    [A || [_, A] <- lists:sort(ets:match(?MODULE, {{call, '$1'}, Function, '$2'}))].

-spec forget() -> ok.
forget() -> true = ets:match_delete(?MODULE, {{call, '_'}, '_', '_'}), ok.

%% @doc The last one that was started, and what it was started with.
session() -> value(session, none).
config() -> value(config, #{}).

%% @doc To the owner of the last session.
-spec say(term()) -> ok.
say(Message) -> say(session(), [Message]).

say(Session, Messages) ->
    #{owner := Owner} = value(Session, #{}),
    lists:foreach(fun(Message) -> Owner ! {flame_prof_nif, Session, Message} end, Messages).

%% @doc So many more.
-spec count(#{atom() => integer()}) -> ok.
count(More) ->
    put_value(counters, maps:merge_with(fun(_, N, M) -> N + M end, value(counters, #{}), More)).

%% @doc All items of the portable engine, in their order.
pushed() -> lists:append([Items || [_, Items] <- calls(session_push)]).

answer(Function, Arguments) ->
    Call = erlang:unique_integer([monotonic]),
    true = ets:insert(?MODULE, {{call, Call}, Function, Arguments}),
    case scripted(Function) of
        none -> usual(Function, Arguments);
        Fun when is_function(Fun) -> apply(Fun, Arguments);
        Answer -> Answer
    end.

usual(platform, []) ->
    #{native => true, why => <<>>, arch => <<"x86_64">>, libuv => <<"1">>, zstd => <<"1">>};
usual(layout_info, []) ->
    #{tested => tested, otp => true, reads => <<"own">>, process_size => 1};
usual(session_start, [#{lookback_ms := HoldMs} = Config]) ->
    Session = make_ref(),
    Path = case HoldMs of 0 -> path(Config); _ -> <<>> end,
    [put_value(Key, Value) || {Key, Value} <- [{session, Session}, {config, Config},
        {counters, maps:from_keys(?COUNTERS, 0)}, {selected, []},
        {Session, #{owner => self(), config => Config, path => Path}}]],
    {ok, Session};
usual(session_info, [Session]) ->
    #{path := Path} = value(Session, #{}),
    (value(counters, #{}))#{state => running, reads => <<"own">>, path => Path};
usual(session_commit, [Session, _]) ->
    #{config := Config} = Of = value(Session, #{}),
    Path = path(Config),
    put_value(Session, Of#{path := Path}),
    say(Session, [{file, begun, Path}]);
usual(session_push, [_, Items]) ->
    ok = lists:foreach(fun taken/1, Items),
    {length([s || {sample, _, _, _, _} <- Items]), 0};
usual(session_flush, [Session]) ->
    Ticket = erlang:unique_integer([positive]),
    ok = later(flush, Session, [{flushed, Ticket, ok}]),
    Ticket;
usual(session_stop, [Session]) ->
    #{path := Path} = value(Session, #{}),
    later(stop, Session, [{file, finished, filename:rootname(Path, <<".part">>)}
        || Path =/= <<>>] ++ [{stopped, ok}]);
usual(session_selected, [_]) -> value(selected, []);
usual(session_pin, [_, Pinned]) -> put_value(selected, [Pid || {Pid, _, _} <- Pinned]);
usual(sends_open, [_]) -> make_ref();
usual(sends_seen, [_]) -> 0;
usual(selector_new, _) -> {error, unsupported};
usual(Function, _) when Function =:= allocators_read; Function =:= memory_rss;
    Function =:= allocators_solve; Function =:= snapshot ->
    {error, {unsupported, <<"not in the script">>}};
usual(_, _) -> ok.

path(#{directory := Directory}) ->
    N = integer_to_binary(erlang:unique_integer([positive, monotonic])),
    <<Directory/binary, "/", N/binary, ".erl_perf.log.zst.part">>.

later(What, Session, Messages) ->
    case value({held, What}, none) of
        none -> say(Session, Messages);
        Held -> put_value({held, What}, [{Session, Messages} | Held])
    end.

taken({sample, _, _, _, _}) -> count(#{attempted => 1, written => 1});
taken({tick, Missed, _, _}) -> count(#{ticks => 1, missed => Missed});
taken({exited, N}) -> count(#{attempted => N, exited => N});
taken({selection, _, _, _}) -> count(#{selections => 1});
taken(_) -> ok.

put_value(Key, Value) -> true = ets:insert(?MODULE, {Key, Value}), ok.

value(Key, Default) ->
    case ets:lookup(?MODULE, Key) of [{Key, Value}] -> Value; [] -> Default end.
