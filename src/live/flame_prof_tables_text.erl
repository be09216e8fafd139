%% @private The tables of a node as text and as JSON. {@link flame_prof_tables} has the shapes.
-module(flame_prof_tables_text).

-export([format/1, json/1]).

-import(flame_prof_text, [grouped/1, percent/1, plural/1, right/2, pad/2, bytes/1]).

-define(NAME, 26).
-define(COUNTED, [atoms, code, persistent_terms, ports, processes]).

-spec format(flame_prof_tables:tables()) -> unicode:chardata().
format(#{tables := Tables, all := All, unknown := Unknown} = Look) ->
    [
        all(All),
        growth(Look),
        [["not known: ", Why, "\n"] || Why <- Unknown],
        table(Tables, Look),
        more(Tables, All),
        "\n",
        [counted(Kind, maps:get(Kind, Look)) || Kind <- ?COUNTED]
    ].

all(#{tables := Count, objects := Objects, bytes := Bytes, deleting := Deleting} = All) ->
    [
        [grouped(Count), " table", plural(Count), ", ", grouped(Objects), " object",
            plural(Objects), ", ", bytes(Bytes), " bytes"],
        [[": ", string:trim(percent(100 * Share)), " of memory(ets), ", bytes(Memory)]
         || #{share := Share, memory := Memory} <- [All]],
        [["; ", grouped(Deleting), " being deleted"] || Deleting > 0],
        "\n"
    ].

growth(#{ms := Ms, all := #{growth := Growth, made := Made, deleted := Deleted}}) ->
    #{objects_per_s := Objects, bytes_per_s := Bytes} = Growth,
    ["in ", grouped(Ms), " ms: ", signed_bytes(Bytes), " bytes/s, ", signed(Objects),
        " objects/s, ", grouped(Made), " made, ", grouped(Deleted), " deleted\n"];
growth(_) ->
    "".

table([], _) ->
    "";
table(Tables, #{all := #{bytes := Sum}} = Look) ->
    HasGrowth = is_map_key(ms, Look),
    [
        ["\n", right("bytes", 8), "  share", right("objects", 13),
            [[right("bytes/s", 10), right("objects/s", 11)] || HasGrowth],
            "  ", pad("type", 15), pad("name", ?NAME), "owner\n"],
        [row(Table, Sum, HasGrowth) || Table <- Tables]
    ].

row(#{type := Type, name := Name, owner := Owner} = Table, Sum, HasGrowth) ->
    [
        figures(Table, Sum),
        [rates(Table) || HasGrowth],
        "  ", pad(atom_to_list(Type), 15), pad(shown(Name), ?NAME),
        [" " || string:length(shown(Name)) >= ?NAME],
        text(Owner), [[" ", Who] || Who <- owner(maps:get(owner_name, Table))],
        marks(Table), "\n"
    ].

figures(#{bytes := Bytes, objects := Objects} = Table, Sum) ->
    [right(bytes(Bytes), 8), percent(100 * share(Table, Sum)), right(grouped(Objects), 13)];
figures(_, _) ->
    [right("?", 8), right("?", 7), right("?", 13)].

%% Of all tables where memory(ets) is not known.
share(#{share := Share}, _) -> Share;
share(#{bytes := Bytes}, Sum) -> Bytes / max(1, Sum).

rates(#{growth := #{bytes_per_s := Bytes, objects_per_s := Objects}}) ->
    [right(signed_bytes(Bytes), 10), right(signed(Objects), 11)];
rates(_) ->
    [right("?", 10), right("?", 11)].

signed(Rate) -> plus(Rate, grouped(round(Rate))).

signed_bytes(Rate) -> plus(Rate, bytes(round(Rate))).

plus(Rate, Text) when Rate >= 0.5 -> [$+ | Text];
plus(_, Text) -> Text.

owner(undefined) -> [];
owner(exited) -> ["(exited)"];
owner({_, _, _} = Call) -> [flame_prof_text:visible(flame_prof_names:call(Call))];
owner(Name) -> [flame_prof_text:visible(flame_prof_names:function(atom_to_binary(Name)))].

%% Unusual properties of a table.
marks(#{protection := Protection, compressed := Compressed, deleting := Deleting} = Table) ->
    Marks =
        ["private" || Protection =:= private] ++ ["compressed" || Compressed] ++
            ["being deleted" || Deleting] ++ ["new" || #{is_new := true} <- [Table]],
    [[" (", lists:join(", ", Marks), ")"] || Marks =/= []].

more(Tables, #{tables := Count}) when Count > length(Tables) ->
    ["(", grouped(Count - length(Tables)), " more)\n"];
more(_, _) ->
    "".

counted(Kind, #{count := Count} = Counted) ->
    [
        pad(string:replace(atom_to_list(Kind), "_", " "), 17),
        right(grouped(Count), 12),
        [[" of ", grouped(Limit), " (", string:trim(percent(100 * Count / Limit)), ")"]
         || #{limit := Limit} <- [Counted]],
        [[", ", bytes(Bytes), " bytes"] || #{bytes := Bytes} <- [Counted]],
        [[", ", signed(Rate), "/s"]
         || #{growth := #{per_s := Rate}} <- [Counted], abs(Rate) >= 0.5],
        "\n"
    ].

shown(Name) -> flame_prof_text:visible(flame_prof_names:function(atom_to_binary(Name))).

text(Term) -> unicode:characters_to_binary(io_lib:format("~0tp", [Term])).

%% @doc The same for {@link flame_prof_json}.
-spec json(flame_prof_tables:tables()) -> #{atom() => term()}.
json(#{tables := Tables} = Look) ->
    Look#{tables := [json_table(Table) || Table <- Tables]}.

json_table(#{id := Id, owner := Owner, owner_name := Name} = Table) ->
    Table#{
        id := case is_atom(Id) of true -> Id; false -> text(Id) end,
        owner := text(Owner),
        owner_name := case owner(Name) of [Who] -> unicode:characters_to_binary(Who); [] -> null end
    }.
