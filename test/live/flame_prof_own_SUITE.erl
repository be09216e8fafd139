%% No look reports flame_prof: each one runs beside all others, over and over, and a session. The
%% oracle is what the VM knows of a process, and the letters of names.
-module(flame_prof_own_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, no_look_reports_flame_prof/1]).

all() -> native_node:cases(?MODULE).

init_per_suite(Config) -> native_node:or_skip(Config).

end_per_suite(_) -> ok.

looks() ->
    [{doctor, #{for => 1000}}, {top, #{top => 1000, every => 200}}, {pstack, #{}},
        {blame, #{function => gc, for => 200}}, {waits, #{top => 1000}}, {memory, #{}},
        {waits, #{top => 1000, for => 200}}, {binaries, #{}}, {tables, #{top => infinity}}
        | tracing()].

%% One at a time.
tracing() ->
    [{latency, #{functions => ["lists:seq/2", "lists:map/2", "lists:foldl/3"], for => 200}},
        {trace, #{patterns => ["lists:map/2", "lists:foldl/3", "send", "spawn"], for => 200}},
        {allocations, #{for => 200, bytes => 4096}}].

no_look_reports_flame_prof(Config) ->
    {ok, _} = application:ensure_all_started(flame_prof),
    {ok, _} = flame_prof:start(#{dir => ?config(priv_dir, Config)}),
    Program = spawn(fun program/0),
    Beside = [spawn(fun() -> over_and_over(Look) end) || Look <- looks() -- tracing()] ++
        [spawn(fun() -> over_and_over(tracing()) end)],
    try
        [?assertEqual({Name, []}, {Name, own(answer(Name, Options), [])})
            || {Name, Options} <- looks()]
    after
        _ = [exit(Pid, kill) || Pid <- [Program | Beside]],
        {ok, _} = flame_prof:stop()
    end.

program() ->
    _ = lists:map(fun(N) -> binary:copy(<<"x">>, N) end, lists:seq(1, 200)),
    timer:sleep(1),
    program().

over_and_over(Looks) when is_list(Looks) ->
    _ = [begin flame_prof:look(Name, Options), timer:sleep(200) end || {Name, Options} <- Looks],
    over_and_over(Looks);
over_and_over(Look) ->
    over_and_over([Look]).

answer(Name, Options) ->
    waiting:eventually(fun() ->
        case flame_prof:look(Name, Options) of
            {ok, Answer} -> {true, Answer};
            {error, {tracing, _}} -> false
        end
    end).

%% Arguments and messages of the program may be of flame_prof, and so is the module of the format.
own(Map, Path) when is_map(Map) ->
    Shown = maps:without([args, message, format], Map),
    lists:append([own(K, Path) ++ own(V, [K | Path]) || {K, V} <- maps:to_list(Shown)]);
own([Head | Tail], Path) -> own(Head, Path) ++ own(Tail, Path);
own(Tuple, Path) when is_tuple(Tuple) -> own(tuple_to_list(Tuple), Path);
own(Pid, Path) when is_pid(Pid) -> [{Path, Pid, Of} || Of <- known(Pid), own(Of, Path) =/= []];
own(Atom, Path) when is_atom(Atom) -> own(atom_to_binary(Atom), Path);
own(Text, Path) when is_binary(Text) ->
    [{Path, Text} || nomatch =/= re:run(Text, "flame_prof_(?!.*(SUITE|tests))")];
own(_, _) -> [].

known(Pid) ->
    case process_info(Pid, [registered_name, initial_call, dictionary]) of
        undefined -> [];
        [{_, Name}, {_, Call}, {_, Dictionary}] ->
            [Name, Call, proplists:get_value('$initial_call', Dictionary)]
    end.
