%% @private Makes the functions of looks in src/flame_prof.erl, and the text of flame_prof:help/0,
%% from the list of looks.
-module(flame_prof_look_doc).

-export([exports/0, functions/0, help/0]).

-define(COLUMNS, 97).
-define(CALL_COLUMNS, 25).

%% @doc The export attribute of the functions of looks.
-spec exports() -> unicode:chardata().
exports() ->
    Names = [[Name, "/", integer_to_list(Arity)]
        || Module <- flame_prof_look:modules(), {Name, Arity} <- calls(Module)],
    ["-export([\n    ", lists:join(",\n    ", lines(Names)), "\n]).\n"].

%% Several in a line.
lines(Names) ->
    {Line, Lines} = lists:foldl(
        fun(Name, {Line, Lines}) ->
            Longer = [Line, ", ", Name],
            case string:length(Longer) < ?COLUMNS - 6 of
                true -> {Longer, Lines};
                false -> {Name, [Line | Lines]}
            end
        end,
        {hd(Names), []},
        tl(Names)
    ),
    lists:reverse(Lines, [Line]).

calls(Module) ->
    #{name := Name, argument := {Key, Need, _, _}} = flame_prof_look:about(Module),
    [{atom_to_list(Name), Arity} || Arity <- arities(Key, Need)].

arities(node, optional) -> [0, 1];
arities(_, optional) -> [0, 1, 2];
arities(_, required) -> [1, 2].

%% @doc The functions of all looks.
-spec functions() -> unicode:chardata().
functions() ->
    lists:join("\n", [functions(Module, flame_prof_look:about(Module))
        || Module <- flame_prof_look:modules()]).

functions(Module, #{name := Look, argument := {Key, Need, Type, _}} = About) ->
    Name = atom_to_list(Look),
    Options = [atom_to_list(Module), ":options() | [{atom(), term()}]"],
    lists:join("\n", [function(Arity, Key, Name, Module, Type, Options, About)
        || Arity <- arities(Key, Need)]).

function(0, _Key, Name, Module, _Type, _Options, _About) ->
    [
        "%% @equiv ", Name, "(#{})\n",
        spec(Name, [], Module),
        Name, "() -> flame_prof_shell:print(", atom_to_list(Module), ", []).\n"
    ];
function(1, Key, Name, Module, Type, Options, About) ->
    [
        comment(["@doc ", maps:get(sentence, About), " It is printed; {@link look/2} has terms. ",
            maps:get(cost, About), " {@link ", atom_to_list(Module), "} has the options."]),
        spec(Name, [[Type, " | ", Options]], Module),
        Name, "(", variable(Key), ") -> flame_prof_shell:print(", atom_to_list(Module), ", [",
        variable(Key), "]).\n"
    ];
function(2, Key, Name, Module, Type, Options, _About) ->
    [
        "%% @doc The same, with options beside the argument.\n",
        spec(Name, [Type, Options], Module),
        Name, "(", variable(Key), ", Options) ->\n    flame_prof_shell:print(",
        atom_to_list(Module), ", [", variable(Key), ", Options]).\n"
    ].

variable(node) -> "NodeOrOptions";
variable(Key) -> string:titlecase(atom_to_list(Key)).

spec(Name, Types, Module) ->
    Answer = case erlang:function_exported(Module, live, 1) of
        true -> "ok | {ok, term()} | {error, reason()}.";
        false -> "ok | {error, reason()}."
    end,
    Line = ["-spec ", Name, "(", lists:join(", ", Types), ") -> ", Answer],
    case string:length(Line) =< ?COLUMNS of
        true ->
            [Line, "\n"];
        false ->
            ["-spec ", Name, "(\n    ", lists:join(",\n    ", Types), "\n) -> ", Answer, "\n"]
    end.

comment(Text) ->
    [["%% ", Line, "\n"] || Line <- flame_prof_text:wrapped(Text, ?COLUMNS)].

%% @doc The functions that answer most questions, by question.
-spec help() -> unicode:chardata().
help() ->
    Looks = [flame_prof_look:about(Module) || Module <- flame_prof_look:modules()],
    [
        "flame_prof, by question. h(flame_prof) and h(flame_prof, doctor) have the details.\n",
        [
            [Title, "\n", [help_line(usage(Look), Asks) || #{asks := Asks} = Look <- Of], Others]
         || {Group, Title, Others} <- groups(),
            Of <- [[Look || #{group := Named} = Look <- Looks, Named =:= Group]]
        ]
    ].

groups() ->
    [
        {wrong, "What is wrong?", []},
        {cpu, "What uses the CPU?",
            help_line("profile(5000)", "sample for 5 s, print what was active")},
        {waiting, "What waits, and for what?", []},
        {calls, "What does this function do?", []},
        {memory, "What takes the memory?", []},
        {background, "In the background, in files, in a browser",
            [
                help_line("start(#{dir => Dir})", "a session; i(): rates and file; stop() ends it"),
                help_line("view(Dir)", "files in a browser; report(Files, \"x.html\"): one page"),
                help_line("look(Name, Options)", "any of the above as terms; node => Node: there"),
                help_line("format_error(Reason)", "the sentence of {error, Reason}")
            ]}
    ].

help_line(Call, About) ->
    ["  ", string:pad(Call, ?CALL_COLUMNS), About, "\n"].

usage(#{name := Name, argument := {Key, Need, _, _}}) ->
    [atom_to_list(Name), "(", [example(Key) || Need =:= required orelse Key =:= for], ")"].

example(process) -> "Process";
example(functions) -> "{M, F, A}";
example(function) -> "gc";
example(patterns) -> "\"m:f/1 -> return\"";
example(files) -> "Files";
example(for) -> "5000".
