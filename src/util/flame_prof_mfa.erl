%% @private Functions of this node, as a person writes them: `lists:seq/2', `lists:seq' (of any
%% arity), `lists:_' (all of the module), `Enum.map/2', `MyApp.Repo._'; as Elixir captures them,
%% `&Enum.map/2', `&:lists.seq/2'; or such a capture itself, which is an external fun.
%%
%% Only atoms that exist are named, so that no text of a page makes new ones.
-module(flame_prof_mfa).

-export([parse/1, find/1]).

-export_type([pattern/0]).

-type pattern() :: {module(), Function :: atom() | '_', arity() | '_'}.

-define(ARITY_MOST, 255).
-define(SHAPES, "it takes module:function/arity, as lists:seq/2 or Enum.map/2; without an "
    "arity it is any, and module:_ is all functions").

-spec parse(unicode:chardata() | fun()) -> {ok, pattern()} | {error, Why :: binary()}.
parse(Fun) when is_function(Fun) ->
    case erlang:fun_info(Fun, type) of
        {type, external} ->
            {module, Module} = erlang:fun_info(Fun, module),
            {name, Name} = erlang:fun_info(Fun, name),
            {arity, Arity} = erlang:fun_info(Fun, arity),
            {ok, {Module, Name, Arity}};
        {type, local} ->
            {error, <<"of funs it takes external ones, as fun lists:seq/2 or &Enum.map/2">>}
    end;
parse(Given) ->
    try unicode:characters_to_binary(Given) of
        <<$&, Text/binary>> -> parsed(string:trim(Text));
        <<_, _/binary>> = Text -> parsed(string:trim(Text));
        _ -> {error, <<?SHAPES>>}
    catch
        error:_ -> {error, <<?SHAPES>>}
    end.

%% @doc The functions of a module, which is loaded for it, in any of these forms; an error has the
%% pattern that none matches.
-spec find(pattern() | unicode:chardata() | fun()) ->
    {ok, [mfa(), ...]} | {error, pattern() | (Why :: binary())}.
find({M, F, A}) when is_atom(M), M =/= '_', is_atom(F) ->
    Found = [
        {M, Name, Arity}
     || {Name, Arity} <- functions(M),
        F =:= '_' orelse F =:= Name,
        A =:= '_' orelse A =:= Arity,
        F =/= '_' orelse Name =/= module_info
    ],
    case Found of
        [] -> {error, {M, F, A}};
        [_ | _] -> {ok, Found}
    end;
find(Other) when is_tuple(Other); Other =:= [] ->
    {error, <<"functions are {Module, Function, Arity | '_'}, {Module, '_', '_'}, a text as "
        "\"lists:seq/2\" or \"Enum.map/2\", or an external fun">>};
find(Given) ->
    case parse(Given) of
        {ok, Pattern} -> find(Pattern);
        {error, _} = Error -> Error
    end.

functions(M) ->
    _ = code:ensure_loaded(M),
    try M:module_info(functions)
    catch error:undef -> []
    end.

parsed(Text) ->
    {Name, Arity} = arity(Text),
    case {module(Name), Arity} of
        {{Module, Function}, {ok, A}} when Module =/= <<>>, Function =/= <<>> ->
            known(Text, unquoted(Module), unquoted(Function), A);
        _ ->
            {error, <<Text/binary, ": ", ?SHAPES>>}
    end.

%% A function's name can have a slash, as that of a fun: `lists:-map/2-fun-0-/1'.
arity(Text) ->
    case re:run(Text, <<"^(.+)/([0-9]{1,3}|_)$">>, [dotall, {capture, all_but_first, binary}]) of
        {match, [Name, <<"_">>]} -> {Name, {ok, '_'}};
        {match, [Name, Digits]} -> {Name, number(binary_to_integer(Digits))};
        nomatch -> {Text, {ok, '_'}}
    end.

number(Arity) when Arity =< ?ARITY_MOST -> {ok, Arity};
number(_) -> error.

%% A module of Elixir has dots in its name, and one in front of the function.
module(Name) ->
    Elixir = re:run(Name, <<"^([A-Z][^:]*)\\.([^.A-Z:].*)$">>, [dotall,
        {capture, all_but_first, binary}]),
    case {Elixir, binary:split(Name, <<":">>)} of
        {nomatch, [<<>>, Erlang]} -> of_erlang(binary:split(Erlang, <<".">>));
        {{match, [<<"Elixir.", _/binary>> = Module, Function]}, _} -> {Module, Function};
        {{match, [Module, Function]}, _} -> {<<"Elixir.", Module/binary>>, Function};
        {nomatch, [<<C, _/binary>> = Module, Function]} when C >= $A, C =< $Z ->
            {<<"Elixir.", (without_elixir(Module))/binary>>, Function};
        {nomatch, [Module, Function]} -> {Module, Function};
        {nomatch, [_]} -> error
    end.

%% As Elixir writes a call of an Erlang module.
of_erlang([Module, Function]) -> {Module, Function};
of_erlang([_]) -> error.

without_elixir(<<"Elixir.", Module/binary>>) -> Module;
without_elixir(Module) -> Module.

unquoted(<<$', Rest/binary>> = Name) when byte_size(Rest) > 1 ->
    case binary:last(Rest) of
        $' -> binary:part(Rest, 0, byte_size(Rest) - 1);
        _ -> Name
    end;
unquoted(Name) ->
    Name.

known(Text, Module, Function, Arity) ->
    case {existing(Module), existing(Function)} of
        {{ok, M}, {ok, F}} ->
            {ok, {M, F, Arity}};
        {error, _} ->
            {error, <<Text/binary, ": the node has no module ", (without_elixir(Module))/binary>>};
        {_, error} ->
            {error, <<Text/binary, ": the node has no function of this name">>}
    end.

existing(Name) ->
    try
        {ok, binary_to_existing_atom(Name)}
    catch
        error:_ -> error
    end.
