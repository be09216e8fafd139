%% @private What a process holds as text and as JSON. {@link flame_prof_xray} has the shapes.
-module(flame_prof_xray_text).

-export([format/1, json/1, pinned/1]).

-import(flame_prof_text, [grouped/1, percent/1, plural/1, right/2, bytes/1]).

%% Of the whole, what a line has at least; lines; how far in.
-define(SHARE_MIN, 0.01).
%% Of the memory, what a part has at least.
-define(SMALL_MOST, 0.001).
-define(LINES, 30).
-define(INDENT_MOST, 12).
%% A path without a branch is one line: if all but this share goes on.
-define(ON, 0.95).
-define(TYPES, 12).
-define(PINS, 5).
-define(ARITY, 6).

-spec format(flame_prof_xray:xray()) -> unicode:chardata().
format(#{process := Pid, memory := Memory, binaries := #{bytes := Binaries}} = Xray) ->
    [
        [flame_prof_mailbox_text:who(Pid, Xray), ": ", bytes(Memory), " bytes"],
        [[", and ", bytes(Binaries), " of binaries"] || Binaries > 0],
        "\n",
        [["not known: ", Why, "\n"] || Why <- maps:get(unknown, Xray)],
        parts(Xray),
        holds(Xray),
        pins(Xray),
        types(Xray)
    ].

%% Where the memory is.

parts(#{memory := Memory, reached := Reached, garbage := Garbage, free := Free} = Xray) ->
    #{stack := Stack, dictionary := Dictionary, literals := Literals} = Xray,
    #{messages := Messages, message_bytes := MessageBytes} = Xray,
    #{binaries := Binaries, garbage_binaries := Lost} = Xray,
    Roots = [
        {maps:get(by_stack, Xray), "by its stack"},
        {maps:get(by_registers, Xray), "by its registers"},
        {maps:get(by_dictionary, Xray), "by its dictionary"},
        {maps:get(by_messages, Xray), "by its mailbox"}
    ],
    Own = [
        {Garbage, "garbage, which the next collection frees"},
        {Free, "free, in the blocks of its heap"},
        {Stack, "stack"},
        {Dictionary, "the table of its dictionary"},
        {MessageBytes, ["structures of ", grouped(Messages), " message", plural(Messages)]}
    ],
    Beside = [
        {maps:get(bytes, Binaries), refers("beside it: ", Binaries)},
        {maps:get(bytes, Lost), refers("beside it, by garbage: ", Lost)}
    ],
    [
        ["\nMemory\n", held(Reached, [Root || {N, _} = Root <- Roots, N >= ?SMALL_MOST * Reached])],
        [part(Part) || {N, _} = Part <- Own, N >= ?SMALL_MOST * Memory, N > 0],
        [part(Part) || {N, _} = Part <- Beside, N > 0],
        [["           ", grouped(Literals), " reference", plural(Literals),
            " to literals, which belong to no process\n"] || Literals > 0]
    ].

held(Reached, [{_, By}]) -> part({Reached, ["terms, held ", By]});
held(Reached, Roots) ->
    [part({Reached, "terms, held"}) | [part({N, ["  ", By]}) || {N, By} <- Roots]].

part({N, Text}) -> [right(bytes(N), 9), "  ", Text, "\n"].

refers(Why, #{count := Count, shared_bytes := Shared}) ->
    [Why, grouped(Count), " binar", ies(Count),
        [[", ", bytes(Shared), " of them shared with others"] || Shared > 0]].

ies(1) -> "y";
ies(_) -> "ies".

%% The paths as a tree, in which a path without a branch is one line.

holds(#{paths := []}) ->
    "";
holds(#{paths := Paths} = Xray) ->
    Whole = max(1, whole(Xray)),
    Below = below(Paths),
    Lines = lists:sublist(branches(0, 0, Whole, Below), ?LINES),
    ["\nWhat holds it\n" | [line(Line, Whole) || Line <- Lines]].

whole(#{reached := Reached, binaries := #{bytes := Binaries}}) -> Reached + Binaries.

size_of(#{heap := Heap, binary_bytes := Binaries}) -> Heap + Binaries.

below(Paths) ->
    maps:map(
        fun(_, Below) -> lists:sort(fun(A, B) -> size_of(A) >= size_of(B) end, Below) end,
        lists:foldr(
            fun(#{parent := Parent} = Path, Of) ->
                Of#{Parent => [Path | maps:get(Parent, Of, [])]}
            end,
            #{},
            Paths
        )
    ).

branches(Id, Indent, Whole, Below) ->
    lists:append([
        begin
            {Chain, #{id := Last}} = chain(Path, Below),
            [{Indent, Path, Chain} | branches(Last, min(Indent + 1, ?INDENT_MOST), Whole, Below)]
        end
     || Path <- maps:get(Id, Below, []), size_of(Path) >= ?SHARE_MIN * Whole
    ]).

chain(#{id := Id} = Path, Below) ->
    case maps:get(Id, Below, []) of
        [Next | _] ->
            case size_of(Next) >= ?ON * size_of(Path) of
                true ->
                    {Chain, Last} = chain(Next, Below),
                    {[Path | Chain], Last};
                false ->
                    {[Path], Path}
            end;
        [] ->
            {[Path], Path}
    end.

line({Indent, First, Chain}, Whole) ->
    Size = size_of(First),
    [
        percent(100 * Size / Whole), right(bytes(Size), 8), lists:duplicate(2 + 2 * Indent, $\s),
        lists:join(" > ", lists:append([steps(Path) || Path <- Chain])), "\n"
    ].

steps(#{step := member, shape := Shape}) -> [shape(Shape)];
steps(#{step := Step, shape := Shape}) -> [step(Step), shape(Shape)].

step({stack, unknown, _, Slot}) -> ["stack slot ", integer_to_list(Slot)];
step({stack, Function, _, Slot}) ->
    [shown(flame_prof_names:call(Function)), " slot ", integer_to_list(Slot)];
step({register, N}) -> ["register ", integer_to_list(N)];
step({dictionary, {atom, Key}}) -> ["dictionary ", atom(Key)];
step({dictionary, other}) -> "dictionary";
step(message) -> "messages";
step(own) -> "the process itself";
step({element, 0}) -> "other elements";
step({element, N}) -> ["element ", integer_to_list(N)];
step(member) -> "members";
step(tail) -> "tail";
step(keys) -> "keys";
step({value, {atom, Key}}) -> ["key ", atom(Key)];
step({value, other}) -> "values";
step({variable, 0}) -> "other variables";
step({variable, N}) -> ["variable ", integer_to_list(N)].

shape({tuple, {atom, Tag}, Arity}) when Arity > 2 ->
    [$#, atom(Tag), "{}/", integer_to_list(Arity)];
shape({tuple, {atom, Tag}, Arity}) ->
    [${, lists:join($,, [atom(Tag) | lists:duplicate(Arity - 1, $_)]), $}];
shape({tuple, other, 0}) ->
    "tuples";
shape({tuple, other, Arity}) when Arity > ?ARITY ->
    ["tuple/", integer_to_list(Arity)];
shape({tuple, other, Arity}) ->
    [${, lists:join($,, lists:duplicate(Arity, "_")), $}];
shape({record, {atom, Name}, _}) ->
    ["native record #", atom(Name), "{}"];
shape({record, other, _}) ->
    "native record";
shape('fun') ->
    "fun";
shape(heap_binary) ->
    "small binary";
shape(none) ->
    "other shapes";
shape(Shape) ->
    atom_to_list(Shape).

atom(Atom) -> shown(unicode:characters_to_binary(io_lib:format("~tw", [Atom]))).

shown(Text) -> flame_prof_text:visible(Text).

%% Binaries of which little is shown.

pins(#{paths := Paths} = Xray) ->
    Pinning = [
        {Bytes - Shown, Path}
     || #{shape := binary, binary_bytes := Bytes, shown_bytes := Shown} = Path <- Paths,
        Bytes >= 2 * Shown, Bytes >= ?SHARE_MIN * whole(Xray)
    ],
    Largest = lists:sublist(lists:reverse(lists:keysort(1, Pinning)), ?PINS),
    [
        ["\nParts of larger binaries (binary:copy/1 frees the rest)\n"
            | [pin(Path, Paths) || {_, Path} <- Largest]]
     || Largest =/= []
    ].

%% @doc The ways to binaries of which not all is shown, those that pin most first.
-spec pinned(flame_prof_xray:xray()) -> [flame_prof_binaries:pin()].
pinned(#{paths := Paths}) ->
    Pinning = [
        {Bytes - Shown, Path}
     || #{shape := binary, binary_bytes := Bytes, shown_bytes := Shown} = Path <- Paths,
        Bytes > Shown
    ],
    [
        #{path => line(way(Path, Paths)), binaries => Count, bytes => Bytes, shown_bytes => Shown}
     || {_, Path} <- lists:reverse(lists:keysort(1, Pinning)),
        #{binaries := Count, binary_bytes := Bytes, shown_bytes := Shown} <- [Path]
    ].

pin(#{binaries := Count, binary_bytes := Bytes, shown_bytes := Shown} = Path, Paths) ->
    [
        right(bytes(Bytes), 9), " held for ", bytes(Shown), " that are shown: ", grouped(Count),
        " binar", ies(Count), " at ", way(Path, Paths), "\n"
    ].

way(Path, Paths) ->
    ById = maps:from_list([{Id, P} || #{id := Id} = P <- Paths]),
    lists:join(" > ", way(Path, ById, [])).

way(#{parent := Parent} = Path, ById, After) ->
    Way = steps(Path) ++ After,
    case ById of
        #{Parent := Above} -> way(Above, ById, Way);
        _ -> Way
    end.

%% By type.

types(#{types := Types, reached := Reached}) ->
    Told = lists:sublist(
        [Type || {_, Bytes, _} = Type <- Types, Bytes >= ?SHARE_MIN * Reached], ?TYPES),
    [
        ["\nTerms by type, each once\n" | [type(Type, Reached) || Type <- Told]]
     || Told =/= []
    ].

type({Shape, Bytes, Objects}, Reached) ->
    [
        percent(100 * Bytes / max(1, Reached)), right(bytes(Bytes), 8), "  ", shape(Shape),
        [[", ", grouped(Objects)] || Objects > 0], "\n"
    ].

%% @doc The same for {@link flame_prof_json}.
-spec json(flame_prof_xray:xray()) -> #{atom() => term()}.
json(#{process := Pid, paths := Paths, types := Types} = Xray) ->
    (maps:without([names], Xray))#{
        process => line(flame_prof_mailbox_text:who(Pid, Xray)),
        paths => [(maps:without([step, shape], Path))#{path => line(way(Path, Paths))}
            || Path <- Paths],
        types => [#{type => line(shape(Shape)), heap => Bytes, objects => Objects}
            || {Shape, Bytes, Objects} <- Types]
    }.

line(Text) -> unicode:characters_to_binary(Text).
