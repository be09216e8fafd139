%% The library of looks comes with the first look and goes after the last one, beside a session.
-module(flame_prof_looks_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([it_comes_and_goes_beside_a_session/1, it_stays_while_somebody_holds_it/1,
    it_goes_with_who_held_it/1, a_tracing_holds_it/1,
    a_handle_of_an_earlier_load_ends_no_tracing/1, what_is_known_of_the_vm_outlives_it/1,
    a_value_of_another_vm_or_build_is_refused/1, at_the_applications_end_it_goes/1]).

-define(LIBRARY, flame_prof_looks_nif).

all() -> native_node:cases(?MODULE).

init_per_suite(Config) -> native_node:or_skip(Config).

end_per_suite(_) -> ok.

init_per_testcase(_, Config) ->
    gone(),
    Config.

end_per_testcase(_, _) -> ok.

%% Loaded, used and unmapped: the session's samples go on. Of the memory: test/proof.
it_comes_and_goes_beside_a_session(Config) ->
    {ok, _} = application:ensure_all_started(flame_prof),
    {ok, _} = flame_prof:start(#{dir => ?config(priv_dir, Config), engine => native}),
    try
        _ = [begin
            ?assertMatch(#{executable := _}, flame_prof_looks:with(fun ?LIBRARY:memory_rss/0)),
            gone()
        end || _ <- lists:seq(1, 30)],
        waiting:eventually(fun() ->
            #{counters := #{written := Written}} = flame_prof:info(),
            Written > 0
        end)
    after {ok, _} = flame_prof:stop()
    end.

it_stays_while_somebody_holds_it(_) ->
    Self = self(),
    Inside = spawn_link(fun() ->
        flame_prof_looks:with(fun() ->
            Self ! {inside, self()},
            receive go_on -> ok end
        end),
        Self ! {outside, self()},
        receive never -> ok end
    end),
    receive {inside, Inside} -> ok end,
    ?assertNot(flame_prof_looks:purge()),
    ?assertMatch(#{}, flame_prof_looks:while_held(fun ?LIBRARY:memory_rss/0)),
    Inside ! go_on,
    receive {outside, Inside} -> ok end,
    ?assertEqual(not_held, flame_prof_looks:while_held(fun ?LIBRARY:memory_rss/0)),
    gone().

it_goes_with_who_held_it(_) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        ok = flame_prof_looks:hold(),
        receive stop -> exit(stopped) end
    end),
    waiting:eventually(fun is_mapped/0),
    ?assertNot(flame_prof_looks:purge()),
    Pid ! stop,
    receive {'DOWN', Monitor, process, Pid, stopped} -> ok end,
    gone().

a_tracing_holds_it(_) ->
    {ok, Tracing} = flame_prof_latency:start([{lists, seq, 2}], #{heartbeat_ms => 60000}),
    ?assertNot(flame_prof_looks:purge()),
    ?assert(is_mapped()),
    {ok, _} = flame_prof_latency:stop(Tracing),
    gone().

%% The handle keeps the earlier instance mapped, and its end unloads that one only.
a_handle_of_an_earlier_load_ends_no_tracing(_) ->
    {ok, _} = flame_prof_calibration:ensure(),
    Self = self(),
    Keeper = spawn(fun() ->
        {ok, Handle} = flame_prof_looks:with(fun() ->
            ?LIBRARY:xray_open(Self, #{kilobytes => 65536, time_ms => 1000})
        end),
        Self ! {opened, self()},
        receive stop -> ok end,
        exit({done, Handle})
    end),
    receive {opened, Keeper} -> ok end,
    waiting:eventually(fun flame_prof_looks:purge/0),
    ?assert(is_mapped()),
    {ok, Tracing} = flame_prof_latency:start([{lists, seq, 2}], #{heartbeat_ms => 60000}),
    exit(Keeper, kill),
    waiting:eventually(fun() -> not is_process_alive(Keeper) end),
    %% Handles of a process that has ended go by and by.
    _ = [begin garbage_collect(), timer:sleep(1) end || _ <- lists:seq(1, 50)],
    _ = [lists:seq(1, N) || N <- lists:seq(1, 100)],
    {ok, #{ended := asked, functions := [#{calls := Calls} | _]}} =
        flame_prof_latency:stop(Tracing),
    ?assert(Calls >= 100),
    gone().

%% Found once: calibration does not begin anew, the allocators are not asked again.
what_is_known_of_the_vm_outlives_it(_) ->
    {ok, _} = flame_prof_calibration:ensure(),
    {ok, [_ | _]} = flame_prof_allocators:look(),
    ok = flame_prof_wait_sites:ensure(),
    gone(),
    Names = [layout, allocators, sites],
    Values = flame_prof_looks:with(fun() -> [?LIBRARY:value(Name) || Name <- Names] end),
    ?assertEqual([flame_prof_nif:value(Name) || Name <- Names], Values),
    [?assert(is_binary(Value)) || Value <- Values],
    ?assertMatch({ok, #{allocators := [_ | _]}}, flame_prof_allocators:sums()).

%% Each byte of the head is compared: its name, the build, the process.
a_value_of_another_vm_or_build_is_refused(_) ->
    {ok, _} = flame_prof_calibration:ensure(),
    Layout = flame_prof_nif:value(layout),
    Wrong = [<<>>, <<"layout">>, binary:part(Layout, 0, byte_size(Layout) - 1),
        <<Layout/binary, 0>>] ++ [changed(Layout, At) || At <- [0, 4, 8, 12, 16, 20, 40]],
    flame_prof_looks:with(fun() ->
        [?assertEqual({N, {error, einval}}, {N, Take(Value)})
         || Take <- [fun flame_prof_nif:value_take/1, fun ?LIBRARY:value_take/1],
            {N, Value} <- lists:zip(lists:seq(1, length(Wrong)), Wrong)],
        ?assertEqual(ok, flame_prof_nif:value_take(Layout))
    end).

changed(Binary, At) ->
    <<Before:At/binary, Byte, After/binary>> = Binary,
    <<Before/binary, (Byte bxor 1), After/binary>>.

at_the_applications_end_it_goes(_) ->
    {ok, _} = application:ensure_all_started(flame_prof),
    ok = flame_prof_looks:with(fun() -> ok end),
    ok = application:stop(flame_prof),
    ?assertEqual(undefined, whereis(flame_prof_looks)),
    ?assertNot(is_mapped()).

%% A hold ends a moment after the message that ends it was sent.
gone() ->
    waiting:eventually(fun flame_prof_looks:purge/0),
    waiting:eventually(fun() -> not is_mapped() end).

is_mapped() ->
    {ok, Maps} = file:read_file("/proc/self/maps"),
    string:find(Maps, "flame_prof_looks_nif") =/= nomatch.
