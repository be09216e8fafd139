%% @private What a readable trace is to show, from the text of a pattern to match specifications.
%% {@link flame_prof_trace} has the grammar.
%%
%% A text is scanned and parsed as Erlang is; no part of it is evaluated, and an atom that it has
%% is made. Heads and guards become those of a match specification.
-module(flame_prof_trace_spec).

-export([parse/1, fields/0]).

-export_type([spec/0, parsed/0, call/0, process_event/0]).

-type spec() :: pattern() | [pattern()].

-type pattern() ::
    string()
    | binary()
    | process_event()
    | send
    | 'receive'
    | procs
    | {module(), atom(), arity() | '_'}
    | fun()
    | #{
        call := {module(), atom(), arity() | '_'},
        match_spec => [tuple()],
        return => boolean(),
        stack => boolean()
    }.
%% A text; an event of processes, `procs' for all of these; a function; or a function with a match
%% specification of one's own, to which the actions are added. A `{message, Term}' of that becomes
%% `result' of the event.

-type process_event() :: spawn | exit | link | register.

-type call() :: {mfa() | {module(), atom(), '_'}, MatchSpec :: [tuple()]}.

-type parsed() :: #{
    calls := [call()],
    send := none | [tuple()],
    'receive' := none | [tuple()],
    procs := [process_event()],
    returns := boolean(),
    heads := boolean()
}.
%% `returns': some pattern shows returns. `heads': some pattern is about arguments.

-define(EVENTS, [spawn, exit, link, register]).
%% Of a stack that an event shows.
-define(FRAMES, 20).
-define(ACTIONS, "return, stack").
%% Its atoms stay.
-define(TEXT_MOST, 1000).
-define(NO_STACKS, "this release of Erlang/OTP has no bounded stacks for a trace; OTP 27 has").
-define(GUARDS, [
    is_atom, is_binary, is_bitstring, is_boolean, is_float, is_function, is_integer, is_list,
    is_map, is_number, is_pid, is_port, is_reference, is_tuple, is_map_key, is_record, abs,
    bit_size, byte_size, element, float, hd, length, map_get, map_size, node, round, self, size,
    tl, trunc, tuple_size
]).
-define(OPERATORS, [
    '>', '>=', '<', '=<', '=:=', '==', '=/=', '/=', '+', '-', '*', 'div', 'rem', 'band', 'bor',
    'bxor', 'bnot', 'bsl', 'bsr', 'and', 'or', 'xor', 'not', 'andalso', 'orelse', '/'
]).

%% @doc The keys of a pattern that is a map.
-spec fields() -> [atom()].
fields() -> [call, match_spec, return, stack].

%% @doc One pattern or a list. A refusal has the column, of a text, at which it is wrong.
-spec parse(term()) -> {ok, parsed()} | {error, flame_prof_error:reason()}.
parse(Given) ->
    try
        Patterns = [pattern(Pattern) || Pattern <- list(Given)],
        Patterns =/= [] orelse throw({refused, Given, none, <<"there is no pattern">>}),
        {ok, together(Patterns)}
    catch
        throw:{refused, Pattern, Column, Why} ->
            Details = #{pattern => shown(Pattern), reason => unicode:characters_to_binary(Why)},
            {error, {trace_pattern,
                case Column of none -> Details; _ -> Details#{column => Column} end}}
    end.

shown(Text) when is_binary(Text) -> Text;
shown(Pattern) ->
    case io_lib:printable_unicode_list(Pattern) of
        true when Pattern =/= [] -> unicode:characters_to_binary(Pattern);
        _ -> unicode:characters_to_binary(io_lib:format("~0tP", [Pattern, 20]))
    end.

list([Character | _] = Text) when is_integer(Character) -> [Text];
list(Patterns) when is_list(Patterns) ->
    try length(Patterns) of
        _ -> Patterns
    catch
        error:badarg -> throw({refused, Patterns, none, <<"it is not a proper list">>})
    end;
list(Pattern) -> [Pattern].

pattern(send) -> {send, everything(send)};
pattern('receive') -> {'receive', everything('receive')};
pattern(procs) -> {procs, ?EVENTS};
pattern(Event) when Event =:= spawn; Event =:= exit; Event =:= link; Event =:= register ->
    {procs, [Event]};
pattern(Module) when is_atom(Module) -> call(Module, '_', '_', [], #{});
pattern({M, F, A}) -> function({M, F, A}, #{});
pattern(Fun) when is_function(Fun) ->
    case flame_prof_mfa:parse(Fun) of
        {ok, Function} -> pattern(Function);
        {error, Why} -> refuse(Fun, none, "~ts", [Why])
    end;
pattern(#{call := MFA} = Map) ->
    case maps:keys(Map) -- fields() of
        [] -> function(MFA, Map);
        [Key | _] -> refuse(Map, none, "~tp is not a key of a pattern; the keys are ~ts",
            [Key, lists:join(", ", [atom_to_list(K) || K <- fields()])])
    end;
pattern(Text) when is_binary(Text) ->
    case unicode:characters_to_list(Text) of
        Characters when is_list(Characters) -> text(Characters);
        _ -> refuse(Text, none, "it is no UTF-8", [])
    end;
pattern([Character | _] = Text) when is_integer(Character) ->
    case io_lib:printable_unicode_list(Text) of
        true -> text(Text);
        false -> refuse(Text, none, "it has characters that are not printable", [])
    end;
pattern(Pattern) ->
    refuse(Pattern, none, "it is not a pattern; patterns are texts such as "
        "\"lists:seq/2 -> return\", "
        "{Module, Function, Arity}, send, 'receive', spawn, exit, link, register, procs", []).

-spec refuse(term(), none | pos_integer(), string(), [term()]) -> no_return().
refuse(Pattern, Column, Format, Args) ->
    throw({refused, Pattern, Column, io_lib:format(Format, Args)}).

function({M, F, A} = MFA, Map) when is_atom(M), is_atom(F) ->
    is_arity(A) orelse refuse(MFA, none, "~tp is not an arity", [A]),
    Actions = [Action || Action <- [return, stack], maps:get(Action, Map, false) =:= true],
    lists:member(stack, Actions) andalso not has_stacks() andalso
        refuse(MFA, none, ?NO_STACKS, []),
    case Map of
        #{match_spec := Given} -> call(M, F, A, given(Given, Actions, Map), #{});
        #{} -> call(M, F, A, [], maps:from_list([{Action, true} || Action <- Actions]))
    end;
function(MFA, _) ->
    refuse(MFA, none, "it is not {Module, Function, Arity}", []).

is_arity(A) -> A =:= '_' orelse (is_integer(A) andalso A >= 0 andalso A =< 255).

given([], _Actions, Map) ->
    refuse(Map, none, "its match_spec is empty", []);
given(Given, Actions, Map) ->
    Returning = returning(Actions),
    try lists:map(fun
        ({Head, Guards, Body}) when is_list(Body) -> {Head, Guards, Body ++ Returning};
        (Other) -> Other
    end, Given) of
        Spec -> tested(Map, none, Spec)
    catch
        error:_ -> refuse(Map, none, "its match_spec is not a list of {Head, Guards, Body}", [])
    end.

returning(Actions) -> [{exception_trace} || lists:member(return, Actions)].

%% A call: heads and guards, or none.

call('_', _, _, _, _) ->
    refuse('_', none, "the module cannot be '_'", []);
call(M, F, A, [], Actions) ->
    call(M, F, A, [{'_', [], body(Actions)}], Actions#{no_heads => true});
call(M, F, A, MatchSpec, Actions) ->
    {call, {{M, F, A}, MatchSpec}, maps:is_key(return, Actions) orelse returns(MatchSpec),
        not maps:is_key(no_heads, Actions)}.

returns(MatchSpec) ->
    lists:any(fun({_, _, Body}) ->
        lists:member({exception_trace}, Body) orelse lists:member({return_trace}, Body)
    end, MatchSpec).

body(Actions) ->
    Stack = case Actions of #{stack := true} -> {current_stacktrace, ?FRAMES}; #{} -> [] end,
    [{message, {{flame_prof_trace, {caller}, Stack}}}]
        ++ returning(maps:keys(Actions)).

%% process_dump is of the whole stack, whatever its size, with the terms in it.
has_stacks() ->
    Spec = [{'_', [], [{message, {current_stacktrace, 1}}]}],
    element(1, erlang:match_spec_test([], Spec, trace)) =:= ok.

%% The sender is not told by the VM otherwise.
everything(send) -> [{['_', '_'], [], []}];
everything('receive') -> [{['_', '$1', '_'], [], [{message, '$1'}]}].

%% Those of one function are clauses of one match specification.
together(Patterns) ->
    Calls = [Call || {call, Call, _, _} <- Patterns],
    MFAs = lists:foldl(fun({MFA, _}, Seen) -> (Seen -- [MFA]) ++ [MFA] end, [], Calls),
    #{
        calls => [{MFA, lists:append([Spec || {M, Spec} <- Calls, M =:= MFA])} || MFA <- MFAs],
        send => clauses(send, Patterns),
        'receive' => clauses('receive', Patterns),
        procs => lists:usort(lists:append([Events || {procs, Events} <- Patterns])),
        returns => lists:any(fun(P) -> is_returning(P) end, Patterns),
        heads => lists:any(fun(P) -> has_heads(P) end, Patterns)
    }.

is_returning({call, _, Returns, _}) -> Returns;
is_returning(_) -> false.

has_heads({call, _, _, Heads}) -> Heads;
has_heads(_) -> false.

clauses(Event, Patterns) ->
    case [Spec || {E, Spec} <- Patterns, E =:= Event] of
        [] -> none;
        Specs -> lists:append(Specs)
    end.

%%% ------------------------------------------------------------------ texts --

text(Text) when length(Text) > ?TEXT_MOST ->
    refuse(Text, ?TEXT_MOST, "it is longer than ~b characters", [?TEXT_MOST]);
text(Text) ->
    case erl_scan:string(Text, {1, 1}, []) of
        {ok, [], _} -> refuse(Text, 1, "it is empty", []);
        {ok, Tokens, {_, End}} -> tokens(Text, Tokens, End);
        {error, {{_, Column}, Module, Why}, _} ->
            refuse(Text, Column, "~ts", [Module:format_error(Why)])
    end.

tokens(Text, Tokens, End) ->
    {Rest, ActionTokens} = cut('->', Tokens),
    {Head, GuardTokens} = cut('when', Rest),
    Actions = actions(Text, ActionTokens, End),
    case head(Text, Head, End) of
        {events, Event} ->
            GuardTokens =:= none orelse refuse(Text, column(GuardTokens, End),
                "a guard needs arguments, as in \"send(To, Message) when is_pid(To)\"", []),
            no_actions(Text, ActionTokens, End),
            pattern(Event);
        {messages, Event, Args} ->
            no_actions(Text, ActionTokens, End),
            messages(Text, Event, Args, GuardTokens, End);
        {M, F, A} ->
            GuardTokens =:= none orelse refuse(Text, column(GuardTokens, End),
                "a guard needs arguments, as in \"lists:seq(A, B) when A < B\"", []),
            call(M, F, A, [], Actions);
        {M, F, Args, _} ->
            {Match, Variables} = head_terms(Text, Args),
            Spec = [{Match, Guards, body(Actions)}
                || Guards <- guards(Text, GuardTokens, Variables, End)],
            Tested = tested(Text, column(GuardTokens, 1), Spec),
            call(M, F, length(Args), Tested, Actions)
    end.

%% Before and behind a token that is not inside of brackets.
cut(Symbol, Tokens) ->
    case lists:splitwith(fun(T) -> element(1, T) =/= Symbol end, Tokens) of
        {_, []} -> {Tokens, none};
        {Before, [_ | Behind]} -> {Before, Behind}
    end.

column(Tokens, End) ->
    case Tokens of
        [Token | _] when is_tuple(Token) ->
            {_, Column} = erl_scan:location(Token),
            Column;
        _ -> End
    end.

no_actions(_Text, none, _End) -> ok;
no_actions(Text, Tokens, End) ->
    refuse(Text, column(Tokens, End), "only calls have actions", []).

actions(_Text, none, _End) ->
    #{};
actions(Text, Tokens, End) ->
    case Tokens of
        [{atom, _, Action} | Rest] when Action =:= return; Action =:= stack ->
            Action =:= return orelse has_stacks() orelse
                refuse(Text, column(Tokens, End), ?NO_STACKS, []),
            case Rest of
                [] -> #{Action => true};
                [{Separator, _} | More] when Separator =:= ','; Separator =:= ';' ->
                    (actions(Text, More, End))#{Action => true};
                _ -> refuse(Text, column(Rest, End), "a comma is expected between actions", [])
            end;
        _ ->
            refuse(Text, column(Tokens, End), "an action is expected: ~ts", [?ACTIONS])
    end.

%% mod, mod:fun, mod:fun/2, mod:fun(Args), send, send(Args)
head(Text, [{'receive', Place} | Rest], End) ->
    head(Text, [{atom, Place, 'receive'} | Rest], End);
%% As Elixir captures a function.
head(Text, [{'&', _} | Rest], End) ->
    head(Text, Rest, End);
head(_Text, [{atom, _, Event}], _End) when
    Event =:= send; Event =:= 'receive'; Event =:= procs; Event =:= spawn; Event =:= exit;
    Event =:= link; Event =:= register
->
    {events, Event};
head(Text, [{atom, _, Event}, {'(', _} | _] = Tokens, End) when
    Event =:= send; Event =:= 'receive'
->
    {messages, Event, args(Text, Tokens, End)};
head(Text, Tokens, End) ->
    case module(Tokens) of
        {M, []} -> {M, '_', '_'};
        {M, [{':', _}, {var, _, '_'} | Rest]} -> arity(Text, M, '_', Rest, End);
        {M, [{':', _}, {atom, _, F} | Rest]} -> arity(Text, M, F, Rest, End);
        {M, [{':', _}, {Word, _} | Rest]} when is_atom(Word) ->
            %% A word of the language, as in erlang:'and'/2 without its quotes.
            is_word(Word) orelse refuse(Text, column(tl(tl(Tokens)), End),
                "the name of a function is expected", []),
            arity(Text, M, Word, Rest, End);
        {_, [{':', _} | Rest]} ->
            refuse(Text, column(Rest, End), "the name of a function is expected", []);
        {_, [Token | _] = Rest} ->
            refuse(Text, column(Rest, End), "unexpected ~ts; a `:' is expected behind the module",
                [quoted(Token)]);
        none ->
            refuse(Text, column(Tokens, End), "the name of a module is expected", [])
    end.

is_word(Word) -> lists:all(fun(C) -> C >= $a andalso C =< $z end, atom_to_list(Word)).

quoted(Token) -> ["`", erl_scan_text(Token), "'"].

erl_scan_text({_, _, Value}) -> io_lib:format("~tp", [Value]);
erl_scan_text({Symbol, _}) -> atom_to_list(Symbol).

%% Elixir's modules, too: MyApp.Server.handle_call/3, Elixir.MyApp.Server:handle_call/3; and modules
%% as Elixir writes them, :lists.seq/2. The text behind the module is Erlang.
module([{':', _} = Colon, {atom, _, M}, {'.', _} | Rest]) -> {M, [Colon | function(Rest)]};
module([{atom, _, M} | Rest]) -> {M, Rest};
module([{var, _, 'Elixir'}, {'.', _}, {var, _, Name} | Rest]) -> elixir([name(Name)], Rest);
module([{var, _, Name} | Rest]) when Name =/= '_' -> elixir([name(Name)], Rest);
module(_) -> none.

elixir(Names, [{'.', _}, {var, _, Name} | Rest]) when Name =/= '_' ->
    elixir([name(Name) | Names], Rest);
elixir(Names, Rest) ->
    try list_to_atom(lists:flatten(lists:join(".", ["Elixir" | lists:reverse(Names)]))) of
        Module -> {Module, elixir_function(Rest)}
    catch
        error:system_limit -> none
    end.

elixir_function([{'.', Place} | Rest]) -> [{':', Place} | function(Rest)];
elixir_function(Rest) -> Rest.

%% Names of Elixir end in marks that Erlang has for itself.
function([{atom, Place, Name}, {Mark, _} | Rest]) when Mark =:= '!'; Mark =:= '?' ->
    [{atom, Place, list_to_atom(name(Name) ++ name(Mark))} | Rest];
function(Tokens) ->
    Tokens.

name(Name) -> atom_to_list(Name).

arity(_Text, M, F, [], _End) ->
    {M, F, '_'};
arity(_Text, M, F, [{'/', _}, {integer, _, A}], _End) when A =< 255 ->
    {M, F, A};
arity(Text, _M, _F, [{'/', _}, {integer, _, _}, Token | _], _End) ->
    refuse(Text, column([Token], 1), "unexpected ~ts behind the arity; conditions begin with `when', "
        "actions with `->'", [quoted(Token)]);
arity(Text, _M, _F, [{'/', _} | Rest], End) ->
    refuse(Text, column(Rest, End), "an arity is expected, from 0 to 255", []);
arity(Text, M, F, [{'(', _} | _] = Rest, End) ->
    {M, F, args(Text, [{atom, {1, 1}, f} | Rest], End), args};
arity(Text, _M, _F, [Token | _] = Rest, End) ->
    refuse(Text, column(Rest, End), "unexpected ~ts; behind the function there may be an arity "
        "as `/2', arguments as `(A, _)', `when' or `->'", [quoted(Token)]).

args(Text, Tokens, End) ->
    case erl_parse:parse_exprs(Tokens ++ [{dot, {1, End}}]) of
        {ok, [{call, _, {atom, _, _}, Args}]} -> Args;
        {ok, _} -> refuse(Text, column(tl(Tokens), End), "arguments are expected here", []);
        {error, {{_, Column}, Module, Why}} ->
            syntax(Text, Column, End, Module:format_error(Why))
    end.

%% The parser says that a full stop is in its way: where the text ends.
-spec syntax(string(), pos_integer(), pos_integer(), unicode:chardata()) -> no_return().
syntax(Text, Column, End, _Why) when Column >= End -> refuse(Text, End, "it ends too early", []);
syntax(Text, Column, _End, Why) -> refuse(Text, Column, "~ts", [Why]).

messages(Text, send, Args, Guards, End) when length(Args) =< 2, Args =/= [] ->
    {Match, Variables} = head_terms(Text, Args),
    Head = lists:duplicate(2 - length(Args), '_') ++ Match,
    {send, tested(Text, column(Guards, 1),
        [{Head, G, []} || G <- guards(Text, Guards, Variables, End)])};
messages(Text, 'receive', Args, Guards, End) when length(Args) =< 2, Args =/= [] ->
    {Match, Variables} = head_terms(Text, Args),
    {From, Sender} =
        case Match of
            [_] -> {['$255' | Match], '$255'};
            ['_', Message] -> {['$255', Message], '$255'};
            [Variable, _] when is_atom(Variable) -> {Match, Variable};
            _ -> refuse(Text, 1, "the sender can be a variable only", [])
        end,
    Head = ['_' | From],
    {'receive', tested(Text, column(Guards, 1),
        [{Head, G, [{message, Sender}]} || G <- guards(Text, Guards, Variables, End)])};
messages(Text, Event, _Args, _Guards, _End) ->
    refuse(Text, 1, "it is ~ts(Message) or ~ts(Process, Message)", [Event, Event]).

%% The VM's own opinion, for what is left: types of constants, say; and all of a specification that
%% was given. Its first condition is false: the test runs what it compiles.
tested(Text, Column, Spec) ->
    Never = [never(Clause) || Clause <- Spec],
    try erlang:match_spec_test([], Never, trace) of
        {ok, _, _, _} -> Spec;
        {error, Errors} -> refuse(Text, Column, "~ts", [lists:join("; ",
            [Why || {error, Why} <- Errors])])
    catch
        error:_ -> refuse(Text, Column, "it is not a match specification", [])
    end.

never({Head, Guards, Body}) -> {Head, [false | Guards], Body};
never(Other) -> Other.

%%% ------------------------------------------------- heads and guards, as terms --

head_terms(Text, Args) ->
    lists:mapfoldl(fun(Arg, Variables) -> head_term(Text, Arg, Variables) end, #{}, Args).

head_term(_Text, {var, _, '_'}, Variables) ->
    {'_', Variables};
head_term(_Text, {var, _, Name}, Variables) when is_map_key(Name, Variables) ->
    {maps:get(Name, Variables), Variables};
head_term(_Text, {var, _, Name}, Variables) ->
    Variable = list_to_atom("$" ++ integer_to_list(map_size(Variables) + 1)),
    {Variable, Variables#{Name => Variable}};
head_term(Text, {tuple, _, Elements}, Variables) ->
    {Terms, All} = head_all(Text, Elements, Variables),
    {list_to_tuple(Terms), All};
head_term(Text, {cons, _, Head, Tail}, Variables) ->
    {H, With} = head_term(Text, Head, Variables),
    {T, All} = head_term(Text, Tail, With),
    {[H | T], All};
head_term(Text, {map, _, Fields}, Variables) ->
    {Pairs, All} = lists:mapfoldl(fun(Field, V) -> head_field(Text, Field, V) end, Variables,
        Fields),
    {maps:from_list(Pairs), All};
head_term(Text, Form, Variables) ->
    Value = literal(Text, Form, "a head has variables, constants, tuples, lists and maps"),
    is_special(Value) andalso
        refuse(Text, place(Form), "~tp has a meaning of its own in a match specification", [Value]),
    {Value, Variables}.

head_all(Text, Forms, Variables) ->
    lists:mapfoldl(fun(Form, V) -> head_term(Text, Form, V) end, Variables, Forms).

head_field(Text, {map_field_exact, _, Key, Value}, Variables) ->
    {Term, All} = head_term(Text, Value, Variables),
    {{literal(Text, Key, "a key is a constant"), Term}, All};
head_field(Text, {map_field_assoc, Place, _, _}, _Variables) ->
    refuse(Text, erl_column(Place), "a field of a head is `Key := Value'", []).

is_special('_') -> true;
is_special(Atom) when is_atom(Atom) ->
    case atom_to_list(Atom) of
        "$" ++ [_ | _] -> true;
        _ -> false
    end;
is_special(_) -> false.

place(Form) -> erl_column(element(2, Form)).

erl_column(Place) ->
    {_, Column} = erl_anno:location(Place),
    Column.

literal(_Text, {Type, _, Value}, _) when
    Type =:= atom; Type =:= integer; Type =:= float; Type =:= char; Type =:= string
->
    Value;
literal(_Text, {nil, _}, _) ->
    [];
literal(Text, Form, Otherwise) ->
    try erl_parse:normalise(Form)
    catch
        error:_ -> refuse(Text, place(Form), "~ts", [Otherwise])
    end.

%% A list for each of the alternatives.
guards(_Text, none, _Variables, _End) ->
    [[]];
guards(Text, Tokens, Variables, End) ->
    [guard(Text, Alternative, Variables, End) || Alternative <- alternatives(Tokens, [], 0)].

alternatives([], Now, _) -> [lists:reverse(Now)];
alternatives([{';', _} | Rest], Now, 0) -> [lists:reverse(Now) | alternatives(Rest, [], 0)];
alternatives([{Open, _} = Token | Rest], Now, N) when Open =:= '('; Open =:= '{'; Open =:= '[' ->
    alternatives(Rest, [Token | Now], N + 1);
alternatives([{Close, _} = T | Rest], Now, N) when Close =:= ')'; Close =:= '}'; Close =:= ']' ->
    alternatives(Rest, [T | Now], N - 1);
alternatives([Token | Rest], Now, N) -> alternatives(Rest, [Token | Now], N).

guard(Text, [], _Variables, End) ->
    refuse(Text, End, "a condition is expected behind `when'", []);
guard(Text, Tokens, Variables, End) ->
    case erl_parse:parse_exprs(Tokens ++ [{dot, {1, End}}]) of
        {ok, Forms} -> [test(Text, Form, Variables) || Form <- Forms];
        {error, {{_, Column}, Module, Why}} ->
            syntax(Text, Column, End, Module:format_error(Why))
    end.

test(Text, {var, Place, Name}, Variables) ->
    case Variables of
        #{Name := Variable} -> Variable;
        #{} -> refuse(Text, erl_column(Place), "~ts is not one of the arguments", [Name])
    end;
test(Text, {op, Place, Operator, A, B}, Variables) ->
    is_operator(Text, Place, Operator),
    {Operator, test(Text, A, Variables), test(Text, B, Variables)};
test(Text, {op, Place, Operator, A}, Variables) ->
    is_operator(Text, Place, Operator),
    case Operator of
        '-' -> {'-', 0, test(Text, A, Variables)};
        '+' -> test(Text, A, Variables);
        _ -> {Operator, test(Text, A, Variables)}
    end;
test(Text, {call, Place, Function, Args}, Variables) ->
    Name = guard_name(Text, Place, Function),
    list_to_tuple([Name | [test(Text, Arg, Variables) || Arg <- Args]]);
test(Text, {tuple, _, Elements}, Variables) ->
    {list_to_tuple([test(Text, E, Variables) || E <- Elements])};
test(Text, {cons, _, H, T}, Variables) ->
    [test(Text, H, Variables) | test(Text, T, Variables)];
test(Text, Form, _Variables) ->
    case literal(Text, Form, "it is not a condition of a guard") of
        Value when is_atom(Value), Value =/= true, Value =/= false -> {const, Value};
        Value -> Value
    end.

is_operator(Text, Place, Operator) ->
    lists:member(Operator, ?OPERATORS) orelse
        refuse(Text, erl_column(Place), "`~ts' cannot be used in a guard", [Operator]).

guard_name(Text, Place, {remote, _, {atom, _, erlang}, Function}) ->
    guard_name(Text, Place, Function);
guard_name(Text, Place, {atom, _, Name}) ->
    lists:member(Name, ?GUARDS) orelse
        refuse(Text, erl_column(Place), "~ts cannot be called in a guard", [Name]),
    Name;
guard_name(Text, Place, _) ->
    refuse(Text, erl_column(Place), "only functions of guards can be called", []).
