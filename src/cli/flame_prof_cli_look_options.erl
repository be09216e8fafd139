%% @private The commands of the looks, out of their list: usage, arguments and options.
%%
%% A command takes the options that its look takes, by the same names. Beside these stand here what
%% only a command line has, and the older names.
-module(flame_prof_cli_look_options).

-export([command/1, module/1, is_of_files/1, options/1, older/1, given/2]).

-define(ANY, 100000).
-define(MIB, 1048576).

%% @doc Command, usage, fewest and most arguments beside the node, what it does.
-spec command(module()) -> flame_prof_cli_args:command().
command(Module) ->
    #{name := Look, sentence := Sentence} = About = flame_prof_look:about(Module),
    Name = list_to_atom(spelled(Look)),
    {Words, Counts} = arguments(About),
    {Name, lists:flatten([spelled(Look), Words, " [options]"]), Counts, Sentence}.

arguments(#{name := doctor}) -> {" NODE|FILE...", {1, ?ANY}};
arguments(#{runs := files, argument := {_, _, _, Word}}) -> {[" ", Word], {1, ?ANY}};
arguments(#{argument := {_, Need, _, Word}} = About) ->
    case {word(About), lists:suffix("...", Word)} of
        {none, _} -> {" NODE", {0, 0}};
        {_, false} -> {[" NODE ", word(Need, Word)], {least(Need), 1}};
        {_, true} -> {[" NODE ", word(Need, Word)], {least(Need), ?ANY}}
    end.

%% An argument that is the node, or an option of the command line, is no other argument.
word(#{argument := {node, _, _, _}}) -> none;
word(#{argument := {_, _, _, ""}}) -> none;
word(#{argument := {Key, _, _, _}}) -> Key.

word(required, Word) -> Word;
word(optional, Word) -> ["[", Word, "]"].

least(required) -> 1;
least(optional) -> 0.

%% @doc The look of a command.
-spec module(atom()) -> {ok, module()} | error.
module(Command) ->
    case [Module || Module <- flame_prof_look:modules(),
        #{name := Look} <- [flame_prof_look:about(Module)],
        spelled(Look) =:= atom_to_list(Command)] of
        [Module] -> {ok, Module};
        [] -> error
    end.

-spec is_of_files(module()) -> boolean().
is_of_files(Module) -> maps:get(runs, flame_prof_look:about(Module)) =:= files.

%% @doc The options of a look and of its command, without the options of the node.
-spec options(module()) -> [flame_prof_cli_args:option()].
options(Module) ->
    #{name := Look} = About = flame_prof_look:about(Module),
    [{name(Look, Key), takes(Row), [doc(Row), default(Row)]}
        || #{key := Key} = Row <- Module:takes(), Key =/= word(About),
            maps:get(word, Row, "") =/= none] ++ more(Look).

more(doctor) ->
    [{report, {"FILE", file}, "also make an HTML page of what was sampled"},
        {threshold, {"NAME=N", threshold}, "another threshold; again for several"}];
more(trace) ->
    [{output, {"FILE", file}, "to a new file on this machine, for its owner only"}];
more(latency) ->
    [{prometheus, flag, "print histograms in Prometheus' text form"}];
more(allocations) ->
    [{long_gc, {"TIME", duration}, "collections of this length or more are listed (1ms)"},
        {collapsed, flag, "print a line for each stack, for flamegraph.pl and others"}];
more(_) ->
    [].

%% `--node' is a node in each command.
name(hot, node) -> files;
name(_, Key) -> Key.

%% @doc Older names of the options of a command, with the name of today. They do the same.
-spec older(atom()) -> [{Older :: atom(), atom()}].
older(top) -> [{sort, by}, {rows, top}];
older(tables) -> [{sort, by}];
older(trace) -> [{events, max_events}, {rate, max_rate}, {cpu, max_cpu}];
older(latency) -> [{max_calls, max_events}];
older(export) -> [{levels, group_by}];
older(_) -> [].

takes(#{type := boolean} = Row) ->
    case maps:get(default, Row, false) of
        false -> flag;
        true -> {"BOOLEAN", {one_of, [true, false]}}
    end;
takes(#{key := Key, type := Type} = Row) ->
    {Word, Kind} = kind(Type, Key),
    {maps:get(word, Row, Word), maps:get(reads, Row, Kind)}.

kind({one_of, Atoms}, Key) -> {string:uppercase(spelled(Key)), {one_of, Atoms}};
kind({whole, ms, Least, Most}, _) -> {"TIME", {duration, Least, Most}};
kind({whole, bytes, Least, Most}, max_memory) ->
    {"MB", {megabytes, (Least + ?MIB - 1) div ?MIB, Most div ?MIB}};
kind({whole, bytes, Least, Most}, _) -> {"BYTES", {whole, Least, Most}};
kind({whole, _, Least, Most}, _) -> {"N", {whole, Least, Most}};
kind({number, _, Least, Most}, _) -> {"PERCENT", {number, Least, Most}};
kind({either, Values, Type}, Key) ->
    {Word, Kind} = kind(Type, Key),
    {Word, {either, [Value || {Value, _} <- Values], Kind}};
kind({own, _, _}, Key) -> {string:uppercase(spelled(Key)), text}.

doc(#{key := max_memory, doc := Doc}) -> ["megabytes ", Doc];
doc(#{doc := Doc}) -> Doc.

%% A value with a grammar of its own has its default in the text.
default(#{default := {computed, _, Text}}) -> [" (", Text, ")"];
default(#{type := boolean}) -> "";
default(#{key := for, default := 0}) -> " (once)";
default(#{default := infinity}) -> " (no limit)";
default(#{type := {whole, ms, _, _}, default := Ms}) ->
    [" (", flame_prof_cli_values:time(Ms), ")"];
default(#{key := max_memory, default := Bytes}) -> io_lib:format(" (~b)", [Bytes div ?MIB]);
default(#{default := Empty}) when Empty =:= <<>>; Empty =:= []; Empty =:= none -> " (none)";
default(#{default := every}) -> " (all)";
default(#{type := {own, _, _}}) -> "";
default(#{default := Default}) -> io_lib:format(" (~0tp)", [Default]);
default(#{}) -> "".

%% @doc The arguments of the command line as the options of the look. Texts are checked by the node
%% that is looked at, which makes no atom of one.
-spec given(module(), flame_prof_cli_args:parsed()) -> #{atom() => term()}.
given(Module, #{arguments := Arguments} = Parsed) ->
    #{name := Look, argument := {_, _, _, Word}} = About = flame_prof_look:about(Module),
    Options = [{Key, value(maps:get(name(Look, Key), Parsed), takes(Row))}
        || #{key := Key} = Row <- Module:takes(), Key =/= word(About),
            is_map_key(name(Look, Key), Parsed), maps:get(word, Row, "") =/= none],
    maps:from_list(argument(word(About), lists:suffix("...", Word), Arguments) ++ Options).

argument(none, _, _) -> [];
argument(_, _, []) -> [];
argument(files, _, Files) -> [{files, Files}];
argument(Key, false, [Text]) -> [{Key, text(Text)}];
argument(Key, true, Texts) -> [{Key, [text(Text) || Text <- Texts]}].

value(Megabytes, {_, {megabytes, _, _}}) -> Megabytes * ?MIB;
value(Names, {_, nodes}) -> [text(flame_prof_remote:full(Name)) || Name <- Names];
value(Names, {_, names}) -> [text(Name) || Name <- Names];
value(Text, {_, text}) -> text(Text);
value(Value, _) -> Value.

text(Text) -> unicode:characters_to_binary(Text).

spelled(Key) -> lists:flatten(string:replace(atom_to_list(Key), "_", "-", all)).
