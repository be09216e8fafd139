%% @private Weighed stacks: how much of them has a function, and which function explains them.
-module(flame_prof_doctor_stacks).

-export([weight/1, at_leaf/2, most_called/1, anywhere/2, within/2, function/1, caller/2, called/1]).
-export([is_in/2, is_own/1]).

-export_type([frame/0, stacks/0]).

-type frame() :: {Function :: binary(), erlang | called | pseudo | native}.
%% Without a line, decoded. `called': a BIF or NIF; `native': a C function.
-type stacks() :: [{[frame()], Weight :: pos_integer()}].

-define(MOST_SHARE, 0.5).
%% A list comprehension, or a fun, is told as the function around it.
-define(GENERATED, "^([^:]*:)-(.*?/[0-9]+)-(?:lc|lbc|mc|blc|fun|inlined|anonymous)").
%% Of Elixir, where its applications are not in the code path.
-define(ELIXIR, [
    "Access", "Agent", "Agent.Server", "Application", "DynamicSupervisor", "Enum", "Enumerable",
    "File", "GenServer", "IO", "Integer", "Kernel", "Keyword", "List", "Logger", "Map", "MapSet",
    "Module.ParallelChecker", "Path", "Process", "Range", "Regex", "Registry", "Stream", "String",
    "String.Chars", "Supervisor", "System", "Task", "Task.Supervised", "Task.Supervisor", "URI"
]).

-spec weight(stacks()) -> non_neg_integer().
weight(Stacks) -> lists:sum([Weight || {_, Weight} <- Stacks]).

%% @doc Those whose innermost function, or a C function that it is in, is one of these: names, with
%% arities those of functions, or beginnings of them that end in `*'.
-spec at_leaf(stacks(), [binary()]) -> stacks().
at_leaf(Stacks, Names) ->
    [Stack || {Frames, _} = Stack <- Stacks, is_at_leaf(Frames, Names)].

is_at_leaf([{Function, Kind} | _], Names) when Kind =:= erlang; Kind =:= called ->
    is_in(Function, Names);
is_at_leaf([{Function, _} | Frames], Names) ->
    is_in(Function, Names) orelse is_at_leaf(Frames, Names);
is_at_leaf([], _) ->
    false.

%% @doc Those that have such a function in any frame.
-spec anywhere(stacks(), [binary()]) -> stacks().
anywhere(Stacks, Names) ->
    [Stack || {Frames, _} = Stack <- Stacks, lists:any(fun({F, _}) -> is_in(F, Names) end, Frames)].

%% @doc Those that have this function of function/1 in any frame, also as a fun of it: what is
%% printed as that function.
-spec within(stacks(), binary()) -> stacks().
within(Stacks, Function) ->
    Frames = lists:usort(lists:append([Some || {Some, _} <- Stacks])),
    Of = maps:from_list([{F, true} || {Name, _} = F <- Frames, shown(Name) =:= Function]),
    [Stack || {Some, _} = Stack <- Stacks, lists:any(fun(F) -> is_map_key(F, Of) end, Some)].

-spec is_in(binary(), [binary()]) -> boolean().
is_in(Function, Names) ->
    lists:any(fun(Name) -> Function =:= Name orelse begins(Function, Name) end, Names).

begins(Function, Name) ->
    Size = byte_size(Name) - 1,
    case {Name, Function} of
        {<<Begin:Size/binary, "*">>, <<Begin:Size/binary, _/binary>>} -> true;
        _ -> false
    end.

%% @doc The innermost function, BIFs and NIFs too; empty where there is none.
-spec called([frame()]) -> binary().
called([{Function, Kind} | _]) when Kind =:= erlang; Kind =:= called -> Function;
called([_ | Frames]) -> called(Frames);
called([]) -> <<>>.

%% @doc The innermost function of most of them, and its part of all, of 1.
-spec most_called(stacks()) -> {Function :: binary(), Share :: float()}.
most_called(Stacks) ->
    ByLeaf = maps:groups_from_list(fun({Frames, _}) -> called(Frames) end, Stacks),
    Weighed = [{weight(Of), Leaf} || {Leaf, Of} <- maps:to_list(ByLeaf), Leaf =/= <<>>],
    {Most, Function} = lists:max([{0, <<>>} | Weighed]),
    {Function, Most / max(1, weight(Stacks))}.

%% @doc The function that explains it: the innermost one of the application that is on more than
%% half of the stacks that have any; else of OTP. Empty where no function is on so many.
-spec function(stacks()) -> binary().
function(Stacks) ->
    case innermost(Stacks, fun is_own/1) of
        <<>> -> innermost(Stacks, fun({_, Kind}) -> Kind =:= erlang orelse Kind =:= called end);
        Function -> Function
    end.

%% @doc Who makes the calls with these names, in which these stacks are: as function/1, but never
%% one of the calls themselves.
-spec caller(stacks(), [binary()]) -> binary().
caller(Stacks, Names) ->
    case innermost(Stacks, fun is_own/1) of
        <<>> ->
            innermost(Stacks, fun({Function, Kind}) ->
                Kind =:= erlang andalso not is_in(Function, Names)
            end);
        Function -> Function
    end.

innermost(Stacks, IsWanted) ->
    Frames = lists:usort(lists:append([Some || {Some, _} <- Stacks])),
    Wanted = maps:from_list([{F, shown(Name)} || {Name, _} = F <- Frames, IsWanted(F)]),
    {Total, Found} = lists:foldl(
        fun({Stack, Weight}, {Sum, Map}) ->
            case depths(without_root(Stack), Wanted) of
                Depths when map_size(Depths) =:= 0 -> {Sum, Map};
                Depths -> {Sum + Weight, maps:fold(added(Weight), Map, Depths)}
            end
        end, {0, #{}}, Stacks),
    Often = [{Depth / Weight, F} || {F, {Weight, Depth}} <- maps:to_list(Found),
        Weight > ?MOST_SHARE * Total],
    case lists:reverse(lists:sort(Often)) of
        [{_, Function} | _] -> Function;
        [] -> <<>>
    end.

%% The initial call, which is on all stacks of a process.
without_root([]) -> [];
without_root(Frames) -> lists:droplast(Frames).

%% Of a recursive function the one nearest to the leaf.
depths(Frames, Wanted) ->
    maps:from_list([
        {maps:get(F, Wanted), Depth}
     || {Depth, F} <- lists:zip(lists:seq(1, length(Frames)), lists:reverse(Frames)),
        is_map_key(F, Wanted)
    ]).

added(Weight) ->
    fun(F, Depth, Map) ->
        maps:update_with(F, fun({W, D}) -> {W + Weight, D + Weight * Depth} end,
            {Weight, Weight * Depth}, Map)
    end.

%% What a person knows it by.
shown(Function) ->
    case re:run(Function, ?GENERATED, [{capture, all_but_first, binary}]) of
        {match, [Module, Around]} -> <<Module/binary, Around/binary>>;
        nomatch -> Function
    end.

%% @doc Neither OTP's nor Elixir's, nor a BIF, NIF or C function.
-spec is_own(frame()) -> boolean().
is_own({Function, erlang}) ->
    [Module | _] = binary:split(Function, <<":">>),
    not is_library(Module, modules());
is_own(_) ->
    false.

is_library(Module, Known) ->
    case Known of
        #{Module := [_, 1]} -> true;
        #{Module := [Application, 0]} -> lists:member(Application, [<<"elixir">>, <<"logger">>]);
        #{} -> is_elixir(Module)
    end.

is_elixir(<<"Elixir.", Name/binary>>) -> lists:member(binary_to_list(Name), ?ELIXIR);
is_elixir(_) -> false.

%% Of this node's code path. Asked often while a profile is judged, by one process.
modules() ->
    case get(?MODULE) of
        undefined ->
            Known = flame_prof_view_modules:known(),
            _ = put(?MODULE, Known),
            Known;
        Known ->
            Known
    end.
