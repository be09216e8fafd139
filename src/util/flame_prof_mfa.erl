%% @private Functions of this node, as a person writes them: `lists:seq/2', `lists:seq' (of any
%% arity), `lists:_' (all of the module), `Enum.map/2', `MyApp.Repo._'.
%%
%% Only atoms that exist are named, so that no text of a page makes new ones.
-module(flame_prof_mfa).

-export([parse/1]).

-export_type([pattern/0]).

-type pattern() :: {module(), Function :: atom() | '_', arity() | '_'}.

-define(ARITY_MOST, 255).
-define(SHAPES, "it takes module:function/arity, as lists:seq/2 or Enum.map/2; without an "
    "arity it is any, and module:_ is all functions").

-spec parse(unicode:chardata()) -> {ok, pattern()} | {error, Why :: binary()}.
parse(Given) ->
    case unicode:characters_to_binary(Given) of
        <<_, _/binary>> = Text -> parsed(string:trim(Text));
        _ -> {error, <<?SHAPES>>}
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
        {{match, [<<"Elixir.", _/binary>> = Module, Function]}, _} -> {Module, Function};
        {{match, [Module, Function]}, _} -> {<<"Elixir.", Module/binary>>, Function};
        {nomatch, [Module, Function]} -> {Module, Function};
        {nomatch, [_]} -> error
    end.

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
            {error, <<Text/binary, ": the node has no module ", Module/binary>>};
        {_, error} ->
            {error, <<Text/binary, ": the node has no function of this name">>}
    end.

existing(Name) ->
    try
        {ok, binary_to_existing_atom(Name)}
    catch
        error:_ -> error
    end.
