%% A module of flame_prof replaced while a test runs: each of its functions asks Stand:Function/N.
-module(stand_in).

-export([load/2, unload/1, open/2, close/1]).

-spec load(module(), Answer :: {module(), atom()}) -> ok.
load(Module, Answer) ->
    Code = case persistent_term:get({?MODULE, Module, Answer}, none) of
        none -> compiled(Module, Answer);
        Known -> Known
    end,
    _ = code:purge(Module),
    {module, Module} = code:load_binary(Module, "stand_in", Code),
    _ = code:purge(Module),
    ok.

compiled(Module, Answer) ->
    {ok, {_, [{exports, Exports}]}} = beam_lib:chunks(code:which(Module), [exports]),
    Forms = [{attribute, 1, module, Module}, {attribute, 1, compile, export_all} |
        [function(F, Arity, Answer) || {F, Arity} <- Exports, F =/= module_info]],
    {ok, Module, Code} = compile:forms(Forms, [nowarn_export_all]),
    ok = persistent_term:put({?MODULE, Module, Answer}, Code),
    Code.

%% Module:F(A1, A2) -> Stand:Answer(F, [A1, A2]).
function(F, Arity, {Stand, Answer}) ->
    Arguments = [{var, 1, list_to_atom("A" ++ integer_to_list(N))} || N <- lists:seq(1, Arity)],
    List = lists:foldr(fun(A, Tail) -> {cons, 1, A, Tail} end, {nil, 1}, Arguments),
    Call = {call, 1, {remote, 1, {atom, 1, Stand}, {atom, 1, Answer}}, [{atom, 1, F}, List]},
    {function, 1, F, Arity, [{clause, 1, Arguments, [], [Call]}]}.

%% The module itself is loaded when it is called again.
-spec unload(module()) -> ok.
unload(Module) ->
    _ = code:purge(Module),
    _ = code:delete(Module),
    _ = code:purge(Module),
    ok.

%% @doc A table of what the stand-in knows, until close/1 or the end of the calling test. One that a
%% killed test has left is gone.
-spec open(atom(), list()) -> ok.
open(Table, Options) ->
    ok = close(Table),
    Test = self(),
    Keeper = spawn(fun() ->
        Table = ets:new(Table, [named_table, public | Options]),
        Test ! {self(), ready},
        Monitor = monitor(process, Test),
        receive {'DOWN', Monitor, process, _, _} -> ok end
    end),
    receive {Keeper, ready} -> ok end.

-spec close(atom()) -> ok.
close(Table) ->
    case ets:info(Table, owner) of
        undefined -> ok;
        Keeper ->
            Monitor = monitor(process, Keeper),
            true = exit(Keeper, kill),
            receive {'DOWN', Monitor, process, _, _} -> ok end
    end.
