%% @private Options as tables, a row an option. The rows are what validation, defaults, error
%% texts and the documentation are made from. Every function of flame_prof that takes a map of
%% options checks it here.
-module(flame_prof_schema).

-include("flame_prof_internal.hrl").

-export([checked/2, known/2, values/2, complete/2, names/1, row/2, refused/3, accepts/1]).
-export([as_map/1, aliases/1]).

-export_type([row/0, type/0, refused/0]).

%% `alias': an older name of the option or several: `{Alias, 1000}' is one whose values are
%% multiplied, as seconds are to milliseconds, and `{Alias, [{Old, New}]}' one with other values.
%% `also': a condition that depends on other options, for the text. `doc': one line of Markdown.
%% `word': what the command line calls the value, if it takes a text for it; `none': the command
%% line does not have the option. `reads': how it reads a value of the type `own', if not as a text:
%% a kind of {@link flame_prof_cli_values}.
-type row() :: #{
    key := atom(),
    type := type(),
    default => term() | {computed, fun((map()) -> term()), Text :: string()},
    alias => alias() | [alias(), ...],
    also => string(),
    doc => string(),
    word => string() | none,
    reads => atom()
}.

-type alias() :: atom() | {atom(), Factor :: pos_integer()}
    | {atom(), [{Old :: term(), New :: term()}]}.

%% `either': these terms, each with its normal form, or the type. `own': a value with a grammar
%% of its own; `error' refuses all of it, a refusal names the key inside of it.
-type type() ::
    boolean
    | {one_of, [atom(), ...]}
    | {whole, unit(), Least :: integer(), Most :: integer()}
    | {number, unit(), Least :: number(), Most :: number()}
    | {either, [{Given :: term(), Normal :: term()}, ...], type()}
    | {own, fun((term()) -> {ok, term()} | error | {error, refused()}), Accepted :: iodata()}.

-type unit() :: ms | bytes | words | count | percent | core_percent.

%% The details of `bad_option'.
-type refused() :: #{option := term(), accepted := binary(), value => term()}.

%% @doc Every option: what was given in its normal form, and the defaults.
-spec checked([row()], term()) -> {ok, #{atom() => term()}} | {error, {bad_option, refused()}}.
checked(Rows, Given) ->
    case values(Rows, Given) of
        {ok, Values} -> {ok, complete(Rows, Values)};
        {error, Refused} -> {error, {bad_option, Refused}}
    end.

%% @doc The normal form of what was given. An option that is `undefined' or, for Elixir, `nil'
%% is left out.
-spec values([row()], term()) -> {ok, #{atom() => term()}} | {error, refused()}.
values(Rows, Given) ->
    case {known(Rows, Given), as_map(Given)} of
        {ok, {ok, Map}} -> each(Rows, Map, #{});
        {{error, _} = Error, _} -> Error
    end.

%% @doc Is it a map, or a list of pairs, and is there a row for each of its keys?
-spec known([row()], term()) -> ok | {error, refused()}.
known(Rows, Given) ->
    case as_map(Given) of
        {ok, Map} ->
            case lists:sort(maps:keys(Map)) -- names(Rows) of
                [] -> ok;
                [Unknown | _] -> {error, refused(Unknown, maps:get(Unknown, Map), no_such(Rows))}
            end;
        error ->
            {error, refused(options, Given, "a map of options, or a list of {Option, Value}")}
    end.

%% @doc Options as a map. A keyword list of Elixir is a list of pairs; of an option that is given
%% twice the first one counts there, too.
-spec as_map(term()) -> {ok, map()} | error.
as_map(Given) when is_map(Given) ->
    {ok, Given};
as_map(Given) when is_list(Given) ->
    try [{Key, Value} || {Key, Value} <- Given, is_atom(Key)] of
        Pairs when length(Pairs) =:= length(Given) -> {ok, maps:from_list(lists:reverse(Pairs))};
        _ -> error
    catch
        %% An improper list.
        error:_ -> error
    end;
as_map(_) ->
    error.

each([], _Given, Values) ->
    {ok, Values};
each([#{key := Key} = Row | Rows], Given, Values) ->
    case [{Name, maps:get(Name, Given)} || Name <- names([Row]), is_given(Name, Given)] of
        [] ->
            each(Rows, Given, Values);
        [{Name, Value}] ->
            case value(Name, Value, Row) of
                {ok, Normal} -> each(Rows, Given, Values#{Key => Normal});
                {error, _} = Error -> Error
            end;
        [_, {Alias, Value} | _] ->
            Text = io_lib:format("one of ~ts and ~ts, which is its older name", [Key, Alias]),
            {error, refused(Alias, Value, Text)}
    end.

is_given(Name, Given) ->
    not lists:member(maps:get(Name, Given, undefined), [undefined, nil]).

value(Name, Value, Row) ->
    case lists:keyfind(Name, 1, aliases(Row)) of
        {Name, Values} when is_list(Values) -> listed(Name, Value, Values, Row);
        {Name, Factor} -> scaled(Name, Value, Factor, Row);
        false -> plain(Name, Value, Row)
    end.

listed(Name, Value, Values, Row) ->
    case lists:keyfind(Value, 1, Values) of
        {Value, Normal} -> {ok, Normal};
        false -> {error, refused(Name, Value, accepts(Row#{type := one_of(Values)}))}
    end.

scaled(Name, Value, 1, Row) ->
    plain(Name, Value, Row);
scaled(Name, Value, Factor, #{type := {whole, _, Least, Most}} = Row) ->
    Scaled = {whole, count, (Least + Factor - 1) div Factor, Most div Factor},
    case plain(Name, Value, Row#{type := Scaled}) of
        {ok, Count} -> {ok, Count * Factor};
        {error, _} = Error -> Error
    end.

plain(Name, Value, #{type := Type} = Row) ->
    case normal(Type, Value) of
        {ok, _} = Ok -> Ok;
        error -> {error, refused(Name, Value, accepts(Row))};
        {error, #{option := Key} = Refused} -> {error, Refused#{option := {Name, Key}}}
    end.

one_of(Values) -> {one_of, [Old || {Old, _} <- Values]}.

normal(boolean, Value) when is_boolean(Value) ->
    {ok, Value};
normal({one_of, Atoms}, Value) ->
    case lists:member(Value, Atoms) of
        true -> {ok, Value};
        false -> error
    end;
normal({whole, _, Least, Most}, Value) when ?IS_WITHIN(Value, Least, Most) ->
    {ok, Value};
normal({number, _, Least, Most}, Value) when is_number(Value), Value >= Least, Value =< Most ->
    {ok, Value};
normal({either, Values, Type}, Value) ->
    case [Normal || {Given, Normal} <- Values, Given =:= Value] of
        [Normal] -> {ok, Normal};
        [] -> normal(Type, Value)
    end;
normal({own, Normal, _}, Value) ->
    Normal(Value);
normal(_, _) ->
    error.

%% @doc With the defaults of what was not given. A default can depend on the rows before it.
-spec complete([row()], #{atom() => term()}) -> #{atom() => term()}.
complete(Rows, Given) ->
    lists:foldl(fun with_default/2, Given, Rows).

with_default(#{key := Key}, Values) when is_map_key(Key, Values) -> Values;
with_default(#{key := Key, default := {computed, Default, _}}, Values) ->
    Values#{Key => Default(Values)};
with_default(#{key := Key, default := Default}, Values) -> Values#{Key => Default};
with_default(#{}, Values) -> Values.

%% @doc All names that are accepted: each option's, then its older ones.
-spec names([row()]) -> [atom()].
names(Rows) ->
    lists:append([[Key | [Name || {Name, _} <- aliases(Row)]] || #{key := Key} = Row <- Rows]).

%% @doc The older names of an option, each with the factor or the values that it has.
-spec aliases(row()) -> [{atom(), pos_integer() | [{Old :: term(), New :: term()}]}].
aliases(#{alias := Aliases}) when is_list(Aliases) -> [normal_alias(Alias) || Alias <- Aliases];
aliases(#{alias := Alias}) -> [normal_alias(Alias)];
aliases(#{}) -> [].

normal_alias({_, _} = Alias) -> Alias;
normal_alias(Alias) -> {Alias, 1}.

-spec row(atom(), [row()]) -> row().
row(Key, Rows) ->
    [Row] = [R || #{key := K} = R <- Rows, K =:= Key],
    Row.

-spec refused(term(), term(), iodata()) -> refused().
refused(Option, Value, Accepted) ->
    #{option => Option, value => Value, accepted => iolist_to_binary(Accepted)}.

no_such(Rows) ->
    Names = [atom_to_binary(Key) || #{key := Key} <- Rows],
    ["no such option; there are: ", lists:join(", ", Names)].

%% @doc What a row takes, for an error message or a help text.
-spec accepts(row()) -> binary().
accepts(#{type := Type} = Row) ->
    iolist_to_binary([text(Type), [[", ", Also] || #{also := Also} <- [Row]]]).

text(boolean) ->
    "true or false";
text({one_of, Atoms}) ->
    either([atom_to_binary(Atom) || Atom <- Atoms]);
text({whole, Unit, Least, Most}) ->
    io_lib:format("~ts from ~w to ~w", [whole(Unit), Least, Most]);
text({number, percent, Least, Most}) ->
    io_lib:format("percent, a number from ~w to ~w", [Least, Most]);
text({number, core_percent, Least, Most}) ->
    io_lib:format("percent of one core, a number from ~w to ~w", [Least, Most]);
text({either, Values, Type}) ->
    [text(Type), [[", or ", special(Value)] || Value <- Values]];
text({own, _, Accepted}) ->
    Accepted.

whole(ms) -> "whole milliseconds";
whole(bytes) -> "bytes";
whole(words) -> "words";
whole(count) -> "a count".

special({Value, Value}) -> io_lib:format("~tw", [Value]);
special({Value, Normal}) -> io_lib:format("~tw (means ~tw)", [Value, Normal]).

either([Text]) -> Text;
either(Texts) -> [lists:join(", ", lists:droplast(Texts)), " or ", lists:last(Texts)].
