%% @private Looks for a person at a shell: their functions of flame_prof print, and
%% flame_prof:look/2 has terms. The node is this one, or another one, which gets what it lacks for
%% as long as the look lasts.
-module(flame_prof_shell).

-export([print/2, look/2, columns/0]).

-define(CALL_MS, 10000).
-define(COLUMNS, 100).

%% @doc Prints a look; the arguments are those of its function.
-spec print(module(), [term()]) -> ok | {ok, term()} | {error, flame_prof:reason()}.
print(Module, Arguments) ->
    case flame_prof_look:given(Module, Arguments) of
        {ok, Given} -> printed(Module, flame_prof_look:about(Module), Given);
        {error, _} = Error -> Error
    end.

printed(Module, #{runs := Runs}, Given) ->
    case erlang:function_exported(Module, live, 1) andalso is_printed_live(Runs, Given) of
        true -> live(Module, flame_prof_look:checked(Module, Given));
        false -> put_text(seen(Module, Runs, Given, [{text, columns()}]))
    end.

%% A look that runs there cannot print here while it runs.
is_printed_live(there, #{node := Node}) -> Node =:= node();
is_printed_live(_, _) -> true.

live(Module, {ok, Options}) -> Module:live(Options);
live(_Module, {error, _} = Error) -> Error.

put_text({ok, [Text]}) -> io:put_chars(Text);
put_text({error, _} = Error) -> Error.

-spec columns() -> pos_integer().
columns() ->
    case io:columns() of
        {ok, Columns} -> Columns;
        {error, _} -> ?COLUMNS
    end.

%% @doc The answer of a look, as terms.
-spec look(atom(), flame_prof_look:given()) -> {ok, term()} | {error, flame_prof:reason()}.
look(Name, Given) ->
    case {flame_prof_look:find(Name), flame_prof_schema:as_map(Given)} of
        {{ok, Module}, {ok, Map}} ->
            case flame_prof_look:given(Module, [Map]) of
                {ok, Options} ->
                    #{runs := Runs} = flame_prof_look:about(Module),
                    answer(seen(Module, Runs, Options, [terms]));
                {error, _} = Error ->
                    Error
            end;
        {error, _} ->
            Names = lists:join(", ", [atom_to_list(Known) || Known <- flame_prof_look:names()]),
            refused(look, Name, ["one of: ", Names]);
        {_, error} ->
            refused(options, Given, "a map of options, or a list of {Option, Value}")
    end.

answer({ok, [Answer]}) -> {ok, Answer};
answer({error, _} = Error) -> Error.

refused(Argument, Value, Accepted) ->
    {error, {badarg, #{argument => Argument, value => Value,
        accepted => unicode:characters_to_binary(Accepted)}}}.

%% Files are read by a process of their own: a shell may have a limited heap.
seen(Module, files, Given, [{text, _}] = Forms) ->
    flame_prof_temporary:in_process(fun(_CallerMonitor) ->
        flame_prof_look:seen(Module, Given, Forms)
    end);
seen(Module, there, #{node := Node} = Given, Forms) when
    is_atom(Node), Node =/= node(), Node =/= undefined, Node =/= nil
->
    flame_prof_lending:with(Node, flame_prof_look:lent(Module), fun() ->
        asked(Module, Node, Given, Forms)
    end);
seen(Module, _Runs, Given, Forms) ->
    flame_prof_look:seen(Module, Given, Forms).

asked(Module, Node, Given, Forms) ->
    Ms = ?CALL_MS + flame_prof_look:longest_ms(Module, Given),
    case flame_prof_remote:call(Node, flame_prof_look, seen_there, [Module, Given, Forms], Ms) of
        {ok, Outcome} -> Outcome;
        {error, _} = Error -> Error
    end.
