%% @private The schedulers whose running processes' stacks can be captured.
%%
%% A scheduler registers by running a process that calls the library there. That
%% process is bound to it; a scheduler that is busy with a long NIF, or that goes
%% offline at that moment, runs it later. Once registered, a scheduler stays so:
%% its thread lives as long as the VM.
-module(flame_prof_schedulers).

-include_lib("kernel/include/logger.hrl").

-export([ensure/0, refresh/1, state/2, log_loss/3, retire/0]).

-export_type([known/0, use/0, state/0]).

%% So many schedulers, from the first on, were told to register.
-type known() :: non_neg_integer().

%% Whether a session captures the stacks of running processes, or why not.
-type use() :: {on, known()} | {off, Why :: binary()}.
-type state() :: on | {off | lost, Why :: binary()}.

%% All that are not kept from it have registered by then.
-define(REGISTER_MS, 1000).
%% So many refusals are no accident: a signal that is handled makes room for the next one.
-define(REFUSED_IN_A_ROW, 10).

%% @doc Waits until all online schedulers have registered, or for a second; one
%% that registers later counts from then on. Returns how many have, and the first
%% refusal when none has. Repairs what an earlier session lost: a signal that
%% another library has taken is replaced by a free one. The check of the classes of
%% capture begins, and goes on in the background.
-spec ensure() -> {ok, Registered :: pos_integer(), known()} | {error, Why :: binary()}.
ensure() ->
    case register_all() of
        {ok, _, _} = Registered -> checked(Registered, flame_prof_capture_classes:ensure());
        {error, _} = Error -> Error
    end.

checked(Registered, ok) -> Registered;
checked(_, {error, _} = Error) -> Error.

register_all() ->
    Schedulers = erlang:system_info(schedulers),
    case flame_prof_nif:schedulers_prepare(Schedulers) of
        {ok, Schedulers} -> {ok, Schedulers, Schedulers};
        {ok, _} -> register_online();
        {error, {_, Why}} -> {error, Why}
    end.

register_online() ->
    Online = erlang:system_info(schedulers_online),
    Until = erlang:monotonic_time(millisecond) + ?REGISTER_MS,
    Results = [await(Registrar, Until) || Registrar <- spawn_registrars(1, Online)],
    case flame_prof_nif:schedulers_prepare(erlang:system_info(schedulers)) of
        {ok, 0} -> {error, hd([Why || {error, Why} <- Results] ++ [<<"no scheduler registered">>])};
        {ok, Registered} -> {ok, Registered, Online};
        %% A retirement has begun meanwhile.
        {error, {_, Why}} -> {error, Why}
    end.

%% @doc Schedulers that have come online since, and classes of capture that no check has
%% seen. Never waits.
-spec refresh(known()) -> known().
refresh(Known) ->
    ok = flame_prof_capture_classes:retry(),
    case erlang:system_info(schedulers_online) of
        Online when Online > Known ->
            _ = spawn_registrars(Known + 1, Online),
            Online;
        _ ->
            Known
    end.

%% @doc By the counters of the session.
-spec state(use(), flame_prof_run:counters() | none) -> state().
state({off, Why}, _Counters) ->
    {off, Why};
state({on, _}, #{lost_signal := Signal}) when Signal > 0 ->
    Text =
        "another program installed a handler for signal ~b, which interrupts the schedulers; the "
        "next session uses a free signal",
    {lost, text(Text, [Signal])};
state({on, _}, #{lost_schedulers := Schedulers}) when Schedulers > 0 ->
    Text =
        "~b of the schedulers did not handle their signal within a second of CPU time, as under "
        "a debugger; the next session uses another signal",
    {lost, text(Text, [Schedulers])};
state({on, _}, #{refused_in_a_row := Refused}) when Refused >= ?REFUSED_IN_A_ROW ->
    Text =
        "the kernel refused the last ~b signals to the schedulers: the user of the node has as "
        "many signals pending as RLIMIT_SIGPENDING allows; captures go on when there are fewer",
    {lost, text(Text, [Refused])};
state({on, _}, _Counters) ->
    on.

%% @doc One warning each time that the captures are lost.
-spec log_loss(use(), Before :: flame_prof_run:counters() | none, flame_prof_run:counters()) -> ok.
log_loss(Use, Before, Counters) ->
    case {state(Use, Before), state(Use, Counters)} of
        {on, {lost, Why}} ->
            ?LOG_WARNING(
                "flame_prof can no longer capture the stacks of running processes: ~ts",
                [Why],
                #{application => flame_prof}
            );
        _ ->
            ok
    end.

text(Format, Arguments) ->
    unicode:characters_to_binary(io_lib:format(Format, Arguments)).

%% @doc Takes the signal's handler and the slots back, so that the library can be
%% unmapped; c_src/erts/capture/sigcapture.h proves that this is safe. Refused during
%% a session or an inspection, and when a scheduler does not run a process within a
%% second; then all stays as it was.
-spec retire() -> ok | {error, Why :: binary()}.
retire() ->
    ok = flame_prof_capture_classes:forget(),
    case flame_prof_nif:schedulers_retire_begin() of
        {ok, Numbers} ->
            try
                Until = erlang:monotonic_time(millisecond) + ?REGISTER_MS,
                Bound = [spawn_bound(Number, fun retire_this/1) || Number <- Numbers],
                [await(One, Until) || One <- Bound]
            of
                _ -> retired(flame_prof_nif:schedulers_retire_end())
            catch
                error:system_limit ->
                    _ = flame_prof_nif:schedulers_retire_end(),
                    {error, <<"there is no room for a process on each scheduler">>}
            end;
        {error, _} = Error ->
            retired(Error)
    end.

retired(ok) -> ok;
retired({error, {_, Why}}) -> {error, Why}.

%% The types of OTP do not know the option `scheduler'.
-dialyzer({nowarn_function, [register_online/0, refresh/1, spawn_registrars/2, await/2]}).
-dialyzer({nowarn_function, [register_this/1, spawn_bound/2, retire/0, retire_this/1]}).

%% The exit reason of each is its result.
spawn_registrars(From, To) ->
    [spawn_bound(Number, fun register_this/1) || Number <- lists:seq(From, To)].

spawn_bound(Number, Fun) ->
    erlang:spawn_opt(fun() -> Fun(Number) end, [monitor, {scheduler, Number}, {priority, high}]).

-spec register_this(pos_integer()) -> no_return().
register_this(Number) ->
    report(flame_prof_nif:scheduler_register(Number)).

-spec retire_this(pos_integer()) -> no_return().
retire_this(Number) ->
    report(flame_prof_nif:scheduler_retire(Number)).

-spec report(ok | {error, {atom(), binary()}}) -> no_return().
report(ok) -> exit(normal);
report({error, {_, Why}}) -> exit({shutdown, {refused, Why}}).

await({_Pid, Monitor}, Until) ->
    receive
        {'DOWN', Monitor, process, _, normal} -> ok;
        {'DOWN', Monitor, process, _, {shutdown, {refused, Why}}} -> {error, Why}
    after max(0, Until - erlang:monotonic_time(millisecond)) ->
        _ = erlang:demonitor(Monitor, [flush]),
        {error, <<"a scheduler was too busy to register">>}
    end.
