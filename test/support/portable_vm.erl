%% A profile by the portable engine, in a VM that the native engine cannot read: of
%% another architecture, or with another libc. For tools/portability.sh:
%%
%%   erl -noinput -pa EBIN -pa TESTS -s portable_vm main FOLDER WORD
%%
%% where the native engine's refusal is to say WORD. Leaves its files in FOLDER, and
%% ends with status 0 if all was as it should be.
-module(portable_vm).

-include_lib("stdlib/include/assert.hrl").

-export([main/1, burn/1]).

main([Folder, Word]) ->
    try
        ok = native_is_refused(atom_to_list(Word), atom_to_list(Folder)),
        ok = portable_profiles(atom_to_list(Folder)),
        halt(0)
    catch
        Class:Reason:Stack ->
            io:format("~p: ~p~n~p~n", [Class, Reason, Stack]),
            halt(1)
    end.

native_is_refused(Word, Folder) ->
    {error, {engine, #{engine := native, cause := platform, reason := Why}} = Reason} =
        flame_prof:start(#{engine => native, dir => Folder}),
    io:format("~ts ~ts: ~ts~n", [
        erlang:system_info(system_architecture), erlang:system_info(emu_flavor),
            flame_prof:format_error(Reason)]),
    ?assertNotEqual(nomatch, string:find(Why, Word)),
    ?assertEqual([], filelib:wildcard(filename:join(Folder, "*"))),
    ok.

portable_profiles(Folder) ->
    Busy = spawn_link(fun() -> burn(0) end),
    {ok, _} = flame_prof:start(#{dir => Folder, sample_interval => 20, cpu_budget => infinity}),
    ok = until_sampled(),
    {ok, #{engine := portable, engine_reason := Why} = Counters} = flame_prof:stop(),
    io:format("~ts; ~p~n", [Why, maps:with([attempted, written, dropped, exited, inconsistent,
        missed], Counters)]),
    #{attempted := Attempted, written := Written, inconsistent := Inconsistent, dropped := Dropped,
        exited := Exited, evicted := Evicted} = Counters,
    ?assertEqual(Attempted, Written + Inconsistent + Dropped + Exited + Evicted),
    [File] = maps:get(files, Counters),
    {ok, #{functions := Functions}} = flame_prof_tree:report(File, #{top => 1000}),
    ?assert(lists:any(fun(#{name := Name}) ->
        string:prefix(Name, "portable_vm:depth/1") =/= nomatch end, Functions)),
    true = exit(Busy, kill),
    ok.

until_sampled() ->
    case flame_prof:info() of
        #{counters := #{written := Written}} when Written > 500 -> ok;
        #{state := running} ->
            timer:sleep(100),
            until_sampled()
    end.

burn(N) ->
    _ = depth(1000),
    burn(N + 1).

%% On top of its stack itself: it calls nobody else.
depth(0) -> 0;
depth(N) -> 1 + depth(N - 1).
