%% In place of flame_prof_clock: time stands until a test moves it. Whatever is due is done, in its
%% order, before the test goes on: no process of flame_prof has anything to do then.
-module(virtual_clock).

-compile({no_auto_import, [processes/0]}).

-export([start/0, stop/0, advance/1, skip/1, settle/0, due/1, processes/0]).
%% Of the stand-in.
-export([answer/2]).

-define(BEGIN_US, 1000000000).
%% That ends a hang, as that of waiting.
-define(BOUND_S, 30).

-spec start() -> ok.
start() ->
    ok = stand_in:open(?MODULE, [ordered_set]),
    true = ets:insert(?MODULE, {now, ?BEGIN_US}),
    stand_in:load(flame_prof_clock, {?MODULE, answer}).

-spec stop() -> ok.
stop() ->
    ok = stand_in:unload(flame_prof_clock),
    stand_in:close(?MODULE).

answer(now_us, []) -> now_us();
answer(now_ms, []) -> now_us() div 1000;
answer(send_after, [Ms, Message]) -> timer(now_us() + 1000 * Ms, Message);
answer(send_at, [Ms, Message]) -> timer(1000 * Ms, Message);
%% Of a process that is alone with the clock.
answer(sleep, [Ms]) -> skip(Ms);
answer(cancel, [Timer]) -> true = ets:match_delete(?MODULE, {{'_', Timer}, '_', '_'}), ok.

now_us() -> ets:lookup_element(?MODULE, now, 2).

%% References of one node are in the order in which they were made.
timer(AtUs, Message) ->
    Timer = make_ref(),
    true = ets:insert(?MODULE, {{max(AtUs, now_us()), Timer}, self(), Message}),
    Timer.

%% @doc Moves the time, from one timer to the next.
-spec advance(Ms :: non_neg_integer()) -> ok.
advance(Ms) ->
    ok = settle(),
    advance_to(now_us() + 1000 * Ms).

advance_to(EndUs) ->
    case first() of
        {{Us, _} = Key, Pid, Message} when Us =< EndUs ->
            true = ets:insert(?MODULE, {now, max(Us, now_us())}),
            true = ets:delete(?MODULE, Key),
            Pid ! Message,
            ok = settle(),
            advance_to(EndUs);
        _ ->
            true = ets:insert(?MODULE, {now, EndUs}),
            ok
    end.

%% @doc The time passes at once: what became due comes late.
-spec skip(Ms :: non_neg_integer()) -> ok.
skip(Ms) ->
    _ = ets:update_counter(?MODULE, now, 1000 * Ms),
    ok.

%% Atoms are less than tuples.
first() ->
    case ets:next(?MODULE, now) of
        '$end_of_table' -> none;
        Key -> hd(ets:lookup(?MODULE, Key))
    end.

%% @doc How long until this message, of any process, is due.
-spec due(Message :: term()) -> [Ms :: integer()].
due(Message) ->
    [(Us - now_us()) div 1000 || {{Us, _}, _, M} <- ets:tab2list(?MODULE), M =:= Message].

%% @doc Until each process of flame_prof waits, and has heard of all that have ended. Work that goes
%% from one to another while they are looked at is seen in one of three rounds.
-spec settle() -> ok.
settle() -> settle(0, erlang:monotonic_time(second) + ?BOUND_S).

settle(3, _Until) -> ok;
settle(Rounds, Until) ->
    case [P || P <- ?MODULE:processes(), not is_quiet(P)] of
        [] -> settle(Rounds + 1, Until);
        Busy ->
            erlang:monotonic_time(second) < Until orelse
                error({never_at_rest, [{P, process_info(P)} || P <- Busy]}),
            erlang:yield(),
            settle(0, Until)
    end.

%% @doc Those of flame_prof.
-spec processes() -> [pid()].
processes() -> [P || P <- erlang:processes(), is_ours(P)].

is_quiet(Pid) ->
    case process_info(Pid, [status, message_queue_len, current_function, links, monitors]) of
        %% The VM has not answered yet.
        [{status, waiting}, _, {_, {Module, Function, _}} | _]
            when Module =:= erlang, Function =/= hibernate; Module =:= erts_internal ->
            false;
        %% What plays its terminal has yet to answer, and may be the test that waits for this one.
        [{status, waiting}, _, {_, {io, execute_request, _}} | _] -> true;
        [{status, waiting}, {_, 0}, _, {links, Links}, {monitors, Monitors}] ->
            lists:all(fun is_there/1, Links ++ [P || {process, P} <- Monitors]);
        %% By sys:suspend/1, or by the VM.
        [{status, suspended} | _] -> true;
        [{status, waiting} | _] -> is_suspended(Pid);
        _ -> false
    end.

is_suspended(Pid) ->
    {current_stacktrace, Stack} = process_info(Pid, current_stacktrace),
    [F || {sys, F, _, _} <- Stack] =:= [suspend_loop].

is_there(Pid) when is_pid(Pid) -> node(Pid) =/= node() orelse is_process_alive(Pid);
%% A call of a server of OTP.
is_there({_Name, _Node}) -> false;
is_there(_Port) -> true.

is_ours(Pid) ->
    case process_info(Pid, [initial_call, dictionary]) of
        [{_, {M, _, _}}, {dictionary, Dictionary}] ->
            is_of_library(M) orelse case lists:keyfind('$initial_call', 1, Dictionary) of
                {_, {Module, _, _}} -> is_of_library(Module);
                _ -> false
            end;
        undefined -> false
    end.

is_of_library(Module) ->
    lists:prefix("flame_prof_", atom_to_list(Module))
        andalso not lists:suffix("_tests", atom_to_list(Module)).
