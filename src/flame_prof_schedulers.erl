%% @private The schedulers that can be asked what they run.
%%
%% A scheduler registers by running a process that calls the library there. That
%% process is bound to it; a scheduler that is busy with a long NIF, or that goes
%% offline at that moment, runs it later. Once registered, a scheduler stays so:
%% its thread lives as long as the VM.
-module(flame_prof_schedulers).

-export([ensure/0, refresh/1]).

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
        {ok, Registered} -> {ok, Registered, Online}
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

%% The types of OTP do not know the option `scheduler'.
-dialyzer({nowarn_function, [register_online/0, refresh/1, spawn_registrars/2, await/2]}).
-dialyzer({nowarn_function, [register_this/1]}).

%% The answer of each is its exit reason.
spawn_registrars(From, To) ->
    [
        erlang:spawn_opt(fun() -> register_this(Number) end, [
            monitor, {scheduler, Number}, {priority, high}
        ])
     || Number <- lists:seq(From, To)
    ].

-spec register_this(pos_integer()) -> no_return().
register_this(Number) ->
    case flame_prof_nif:scheduler_register(Number) of
        ok -> exit(normal);
        {error, {_, Why}} -> exit({shutdown, {refused, Why}})
    end.

await({_Pid, Monitor}, Until) ->
    receive
        {'DOWN', Monitor, process, _, normal} -> ok;
        {'DOWN', Monitor, process, _, {shutdown, {refused, Why}}} -> {error, Why}
    after max(0, Until - erlang:monotonic_time(millisecond)) ->
        _ = erlang:demonitor(Monitor, [flush]),
        {error, <<"a scheduler was too busy to register">>}
    end.
