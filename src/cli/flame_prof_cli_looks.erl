%% @private The commands that look at a node once. A look is a function from its options to what is
%% seen, apart from printing: `flame_prof mcp' asks the same.
%%
%% The answer is made text, and JSON, in the node that was looked at: there a pid has the numbers
%% that the node's own shell shows.
-module(flame_prof_cli_looks).

-export([do/2, seen/5]).

-export_type([seen/0]).

-type seen() :: #{text => iodata(), json => iodata()}.
%% `text': what the command prints below the name of the node. `json': what it prints with --json.

-spec do(module(), flame_prof_cli_args:parsed()) -> ok | flame_prof_cli_args:failure().
do(Look, #{node := Names} = Parsed) ->
    case flame_prof_remote:connect(Names, Parsed) of
        {ok, Nodes} ->
            {Without, Modules} = flame_prof_look:lent(Look),
            Timeout = flame_prof_cli_nodes:timeout(Parsed),
            flame_prof_cli_attach:borrowing(Nodes, {look, Modules}, Without, Timeout, fun() ->
                flame_prof_cli_nodes:first_error([Error || Node <- Nodes,
                    {error, _} = Error <- [printed(Look, Node, Parsed)]])
            end);
        {error, _} = Error ->
            Error
    end.

printed(Look, Node, Parsed) ->
    Given = flame_prof_cli_look_options:given(Look, Parsed),
    Form = case Parsed of
        #{json := true} -> json;
        _ -> {text, flame_prof_cli_out:columns()}
    end,
    case seen(Look, Node, Given, [Form], flame_prof_cli_nodes:timeout(Parsed)) of
        {ok, #{json := Json}} ->
            flame_prof_cli_out:put([Json, "\n"]);
        {ok, #{text := Text}} ->
            flame_prof_cli_out:put([flame_prof_cli_out:bold(atom_to_list(Node)), "\n", Text]);
        {error, _} = Error ->
            Error
    end.

%% @doc One look, in each of these forms. The node is connected and has what the look needs.
-spec seen(module(), node(), flame_prof_look:given(), [flame_prof_look:form()], pos_integer()) ->
    {ok, seen()} | {error, flame_prof:reason()}.
seen(Look, Node, Given, Forms, Timeout) ->
    Answer = case flame_prof_look:about(Look) of
        #{runs := here} ->
            {ok, flame_prof_look:seen(Look, Given#{node => Node}, Forms)};
        #{runs := there} ->
            Ms = Timeout + flame_prof_look:longest_ms(Look, Given),
            flame_prof_remote:call(Node, flame_prof_look, seen_there, [Look, Given, Forms], Ms)
    end,
    case flame_prof_cli_nodes:outcome(Node, Answer) of
        {ok, Seen} -> {ok, maps:from_list([part(Form, Part)
            || {Form, Part} <- lists:zip(Forms, Seen)])};
        {error, _} = Error -> Error
    end.

part(json, Json) -> {json, Json};
part({text, _}, Text) -> {text, demangled(Text)}.

%% Here: the node has no reader of files, which knows such names.
demangled(Text) ->
    Parts = re:split(Text, "(_Z[A-Za-z0-9_]+)"),
    unicode:characters_to_binary([symbol(Part) || Part <- Parts]).

symbol(<<"_Z", _/binary>> = Symbol) -> flame_prof_frames:function({Symbol, <<>>});
symbol(Text) -> Text.
