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
-export([checker/1]).

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
    case state() of
        #{verdicts := #{erlang := {wrong, Why}}} ->
            {error, <<"captures of Erlang code are wrong: ", Why/binary>>};
        #{checks := Checks, verdicts := Verdicts} ->
            check(Checks =:= none orelse open(Verdicts) =/= [], 0)
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
    #{at_ms := At, checks := Checks, verdicts := Verdicts} = state(),
    IsDue = Checks < ?CHECKS andalso now_ms() - At >= ?RETRY_MS,
    check(IsDue andalso open(Verdicts) =/= [], Checks).

-spec off() -> off().
off() ->
    off(state()).

off(#{verdicts := Verdicts, is_tested := IsTested}) ->
    off(Verdicts, IsTested).

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

%% @doc The library goes: ends a check that runs, behind its call of the library. That
%% has 16 captures, of 0.4 s each where schedulers get no CPU time.
-spec forget() -> ok.
forget() ->
    Checker = whereis(?MODULE),
    _ = [Checker ! stop || is_pid(Checker)],
    ok = await(Checker),
    application:unset_env(?ENVIRONMENT, ?KEY).

%% Written by the checker only. `none': no check has begun.
state() ->
    case application:get_env(?ENVIRONMENT, ?KEY) of
        {ok, State} -> State;
        undefined ->
            #{at_ms => now_ms(), checks => none, is_tested => is_tested(), verdicts => #{}}
    end.

keep(State) ->
    ok = flame_prof_nif:captures_off(maps:keys(off(State))),
    application:set_env(?ENVIRONMENT, ?KEY, State#{at_ms := now_ms()}).

open(Verdicts) ->
    [Class || Class <- flame_prof_capture_check:classes(), is_open(maps:find(Class, Verdicts))].

is_open({ok, {unseen, _}}) -> true;
is_open(Verdict) -> Verdict =:= error.

now_ms() ->
    erlang:monotonic_time(millisecond).

%% Returns when it is known what is off, and the checker and its probe have their names.
check(false, _) ->
    ok;
check(true, Checks) ->
    _ = proc_lib:start(?MODULE, checker, [Checks]),
    ok.

%% @private One at a time: the process that has the name.
checker(Checks) ->
    Probe = flame_prof_capture_check:start(),
    try register(?MODULE, self()) andalso register(?PROBE, Probe) of
        true ->
            ok = keep((state())#{checks := Checks}),
            proc_lib:init_ack(ok),
            settle(Probe)
    catch
        error:badarg ->
            ok = flame_prof_capture_check:stop(Probe),
            proc_lib:init_ack(ok)
    end.

settle(Probe) ->
    #{checks := Checks, verdicts := Before} = State = state(),
    Now = flame_prof_capture_check:verify(Probe, open(Before), fun snapshot/2),
    ok = flame_prof_capture_check:stop(Probe),
    ok = keep(State#{checks := Checks + 1, verdicts := maps:merge(Before, Now)}),
    log(off()).

snapshot(_Class, [Probe | _] = Pids) ->
    receive
        stop ->
            ok = flame_prof_capture_check:stop(Probe),
            exit(normal)
    after 0 -> flame_prof_nif:snapshot([check | Pids])
    end.

log(Off) when map_size(Off) =:= 0 ->
    ok;
log(Off) ->
    ?LOG_NOTICE(
        "flame_prof makes no captures of ~ts",
        [lists:join(", ", [[atom_to_binary(Class), ": ", Why] || {Class, Why} <-
            maps:to_list(Off)])],
        #{application => flame_prof, domain => [flame_prof]}
    ).
