%% @private The schedulers that can be asked what they run.
%%
%% A scheduler registers by running a process that calls the library there. That
%% process is bound to it; a scheduler that is busy with a long NIF, or that goes
%% offline at that moment, runs it later. Once registered, a scheduler stays so:
%% its thread lives as long as the VM.
-module(flame_prof_schedulers).

-export([ensure/0, refresh/1, retire/0]).

-export_type([known/0]).

%% So many schedulers, from the first on, have been asked to register.
-type known() :: non_neg_integer().

%% All that are not kept from it have registered by then.
-define(REGISTER_MS, 1000).

%% @doc Waits until all online schedulers have registered, or for a second: who
%% comes later is welcome then. Answers how many have, and the first refusal when
%% none has.
-spec ensure() -> {ok, Registered :: pos_integer(), known()} | {error, Why :: binary()}.
ensure() ->
    Schedulers = erlang:system_info(schedulers),
    case flame_prof_nif:schedulers_prepare(Schedulers) of
        {ok, Schedulers} -> {ok, Schedulers, Schedulers};
        {ok, _} -> register_online();
        {error, {_, Why}} -> {error, Why}
    end.

register_online() ->
    Online = erlang:system_info(schedulers_online),
    Until = erlang:monotonic_time(millisecond) + ?REGISTER_MS,
    Answers = [await(Registrar, Until) || Registrar <- spawn_registrars(1, Online)],
    case flame_prof_nif:schedulers_prepare(erlang:system_info(schedulers)) of
        {ok, 0} -> {error, hd([Why || {error, Why} <- Answers] ++ [<<"no scheduler answered">>])};
        {ok, Registered} -> {ok, Registered, Online};
        %% Meanwhile somebody has begun to retire them.
        {error, {_, Why}} -> {error, Why}
    end.

%% @doc Schedulers that have come online since. Never waits.
-spec refresh(known()) -> known().
refresh(Known) ->
    case erlang:system_info(schedulers_online) of
        Online when Online > Known ->
            _ = spawn_registrars(Known + 1, Online),
            Online;
        _ ->
            Known
    end.

%% @doc Take it all back, the signal's handler included, so that the library can be
%% unmapped: c_src/erts/capture/sigcapture.h says how that is proven to be safe. Refused while a
%% session or a look uses them, and when a scheduler is kept from answering for a
%% second; then all stays as it was.
-spec retire() -> ok | {error, Why :: binary()}.
retire() ->
    case flame_prof_nif:schedulers_retire_begin() of
        {ok, Numbers} ->
            try
                Until = erlang:monotonic_time(millisecond) + ?REGISTER_MS,
                Asked = [spawn_bound(Number, fun retire_this/1) || Number <- Numbers],
                [await(One, Until) || One <- Asked]
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

%% The answer of each is its exit reason.
spawn_registrars(From, To) ->
    [spawn_bound(Number, fun register_this/1) || Number <- lists:seq(From, To)].

spawn_bound(Number, Fun) ->
    erlang:spawn_opt(fun() -> Fun(Number) end, [monitor, {scheduler, Number}, {priority, high}]).

-spec register_this(pos_integer()) -> no_return().
register_this(Number) ->
    answer(flame_prof_nif:scheduler_register(Number)).

-spec retire_this(pos_integer()) -> no_return().
retire_this(Number) ->
    answer(flame_prof_nif:scheduler_retire(Number)).

-spec answer(ok | {error, {atom(), binary()}}) -> no_return().
answer(ok) -> exit(normal);
answer({error, {_, Why}}) -> exit({shutdown, {refused, Why}}).

await({_Pid, Monitor}, Until) ->
    receive
        {'DOWN', Monitor, process, _, normal} -> ok;
        {'DOWN', Monitor, process, _, {shutdown, {refused, Why}}} -> {error, Why}
    after max(0, Until - erlang:monotonic_time(millisecond)) ->
        _ = erlang:demonitor(Monitor, [flush]),
        {error, <<"a scheduler was too busy to register">>}
    end.
