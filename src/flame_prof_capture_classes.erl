%% @private Which classes of capture are off, and why: by what {@link
%% flame_prof_capture_check} has seen of the library that is loaded.
%%
%% | verdict | on a release of the tested matrix | on another |
%% |---|---|---|
%% | verified | on | on |
%% | wrong | off for good | off for good |
%% | unseen, or not checked yet | on: the tests have verified it | off until a check sees it |
%%
%% A check runs in the background, in a process of its own. One that leaves a class
%% unseen is repeated while a session runs, `?CHECKS' times at most after its start.
-module(flame_prof_capture_classes).

-include_lib("kernel/include/logger.hrl").

-export([ensure/0, await/0, retry/0, off/0, off/2, forget/0]).
-export([checker/0]).

-export_type([off/0]).

-type off() :: #{flame_prof_capture_check:class() => Why :: binary()}.

%% An environment of its own: that of the application holds the user's options.
-define(ENVIRONMENT, flame_prof_nif).
-define(KEY, capture_classes).
%% A name of the probe, so that no session samples it.
-define(PROBE, flame_prof_capture_probe).
-define(CHECKS, 5).
-define(RETRY_MS, 10000).

%% @doc Starts a check of what is neither verified nor wrong. An error when captures of
%% Erlang code are wrong: then each stack is.
-spec ensure() -> ok | {error, Why :: binary()}.
ensure() ->
    {_, _, Verdicts} = state(),
    case Verdicts of
        #{erlang := {wrong, Why}} ->
            {error, <<"captures of Erlang code are wrong: ", Why/binary>>};
        _ ->
            ok = keep(0, Verdicts),
            check(open(Verdicts))
    end.

%% @doc Waits for the check that runs, where a class is off until its end.
-spec await() -> ok.
await() ->
    case map_size(off()) of
        0 -> ok;
        _ -> await(whereis(?MODULE))
    end.

await(undefined) ->
    ok;
await(Checker) ->
    Monitor = monitor(process, Checker),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    end.

%% @doc The next check, when it is due.
-spec retry() -> ok.
retry() ->
    {At, Checks, Verdicts} = state(),
    IsDue = Checks < ?CHECKS andalso now_ms() - At >= ?RETRY_MS,
    check([Class || IsDue, Class <- open(Verdicts)]).

-spec off() -> off().
off() ->
    {_, _, Verdicts} = state(),
    off(Verdicts, is_tested()).

%% @doc `IsTested': by the layout table, which names the releases of the tested matrix.
-spec off(flame_prof_capture_check:verdicts(), IsTested :: boolean()) -> off().
off(Verdicts, IsTested) ->
    NotChecked = {unseen, <<"its check has not ended yet">>},
    All = [{Class, maps:get(Class, Verdicts, NotChecked)} || Class <-
        flame_prof_capture_check:classes()],
    maps:from_list([{Class, Why} || {Class, {How, Why}} <- All,
        How =:= wrong orelse not IsTested]).

is_tested() ->
    case flame_prof_nif:layout_info() of
        #{tested := tested} -> true;
        _ -> false
    end.

%% @doc The library goes: ends a check that runs, when its capture is over.
-spec forget() -> ok.
forget() ->
    Checker = whereis(?MODULE),
    _ = [Checker ! stop || is_pid(Checker)],
    ok = await(Checker),
    application:unset_env(?ENVIRONMENT, ?KEY).

state() ->
    application:get_env(?ENVIRONMENT, ?KEY, {now_ms(), 0, #{}}).

keep(Checks, Verdicts) ->
    ok = flame_prof_nif:captures_off(maps:keys(off(Verdicts, is_tested()))),
    application:set_env(?ENVIRONMENT, ?KEY, {now_ms(), Checks, Verdicts}).

open(Verdicts) ->
    [Class || Class <- flame_prof_capture_check:classes(), is_open(maps:find(Class, Verdicts))].

is_open({ok, {unseen, _}}) -> true;
is_open(Verdict) -> Verdict =:= error.

now_ms() ->
    erlang:monotonic_time(millisecond).

%% Returns when the checker and its probe have their names.
check([]) ->
    ok;
check([_ | _]) ->
    _ = proc_lib:start(?MODULE, checker, []),
    ok.

%% @private One at a time.
checker() ->
    try register(?MODULE, self()) of
        true ->
            Probe = flame_prof_capture_check:start(),
            true = register(?PROBE, Probe),
            proc_lib:init_ack(ok),
            settle(Probe)
    catch
        error:badarg -> proc_lib:init_ack(ok)
    end.

settle(Probe) ->
    {_, Checks, Before} = state(),
    Now = flame_prof_capture_check:verify(Probe, open(Before), fun snapshot/2),
    ok = flame_prof_capture_check:stop(Probe),
    ok = keep(Checks + 1, maps:merge(Before, Now)),
    log(off()).

snapshot(_Class, Pids) ->
    receive
        stop -> exit(normal)
    after 0 -> flame_prof_nif:snapshot([check | Pids])
    end.

log(Off) when map_size(Off) =:= 0 ->
    ok;
log(Off) ->
    ?LOG_NOTICE(
        "flame_prof does without captures of ~ts",
        [lists:join(", ", [[atom_to_binary(Class), ": ", Why] || {Class, Why} <-
            maps:to_list(Off)])],
        #{application => flame_prof, domain => [flame_prof]}
    ).
