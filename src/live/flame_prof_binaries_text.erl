%% @private Binaries by holder as text and as JSON. {@link flame_prof_binaries} has the shapes.
-module(flame_prof_binaries_text).

-export([format/1, json/1]).

-import(flame_prof_text, [grouped/1, percent/1, plural/1, right/2, bytes/1]).

-define(LINES, 20).

-spec format(flame_prof_binaries:look()) -> unicode:chardata().
format(#{binaries := Binaries, found := Found, all_holders := All, holders := Holders} = Look) ->
    [
        grouped(Binaries), " binar", ies(Binaries), " with ", bytes(Found), " bytes, held by ",
        grouped(All), " holder", plural(All), "\n",
        memory(Look),
        [[bytes(Own), " bytes are held by processes of flame_prof, which are left out\n"]
            || #{own_bytes := Own} <- [Look]],
        [["not known: ", Why, "\n"] || Why <- maps:get(unknown, Look)],
        table(["\nHolders", more(All, Holders)], lists:sublist(Holders, ?LINES), Look),
        [table(["\nGrown in ", integer_to_list(Ms), " ms: ", signed(all(Grown)), " bytes"],
            lists:sublist(Rows, ?LINES), Look)
         || #{grown := #{ms := Ms} = Grown, growing := Rows} <- [Look]],
        pins(Holders, Look)
    ].

%% The memory of the VM, of which a part may not be found.
all(#{memory := Bytes}) -> Bytes;
all(#{found := Bytes}) -> Bytes.

memory(#{memory := Memory, found := Found, no_holder := None} = Look) ->
    #{elsewhere := Elsewhere, elsewhere_bytes := ElsewhereBytes, not_looked_in := In} = Look,
    [
        "the VM has ", bytes(Memory), " for binaries: ",
        string:trim(percent(100 * min(Memory, Found) / max(1, Memory))), " found\n",
        [[bytes(None), " without a holder: unreferenced, or held by what is not read: ",
            lists:join(", ", In), "\n"] || None > 0],
        [[grouped(Elsewhere), " of those found, ", bytes(ElsewhereBytes),
            ", are held there, too\n"] || Elsewhere > 0]
    ];
memory(_) ->
    "".

ies(1) -> "y";
ies(_) -> "ies".

more(All, Holders) ->
    case All > min(?LINES, length(Holders)) of
        true -> [", the first ", integer_to_list(min(?LINES, length(Holders)))];
        false -> ""
    end.

table(_, [], _) ->
    "";
table(Title, Rows, Look) ->
    [
        Title, "\n    bytes     alone  messages  binaries",
        [["     grown"] || is_map_key(grown, Look)], "  process or table\n"
        | [line(Row, Look) || Row <- Rows]
    ].

line(Row, Look) ->
    #{binaries := Binaries, bytes := Bytes, alone := Alone} = Row,
    #{message_bytes := MessageBytes, partial := IsPartial} = Row,
    [
        right(bytes(Bytes), 9), right(bytes(Alone), 10), right(bytes(MessageBytes), 10),
        right(grouped(Binaries), 10), [right(signed(Grown), 10) || #{grown := Grown} <- [Row]],
        "  ", holder(Row, Look),
        [[" in ", flame_prof_text:visible(Function)] || #{function := Function} <- [Row]],
        [" (in part)" || IsPartial], "\n"
    ].

signed(unknown) -> "?";
signed(N) when N < 0 -> [$-, bytes(-N)];
signed(N) -> [$+, bytes(N)].

holder(#{kind := process, process := Pid}, Look) -> who(Pid, Look);
holder(#{kind := table, table := Name, owner := Owner}, Look) ->
    ["table ", flame_prof_text:visible(atom_to_binary(Name)), " of ", who(Owner, Look)].

who(Pid, Look) -> flame_prof_mailbox_text:who(Pid, Look).

%% Binaries that are pinned and not used.

pins(Holders, Look) ->
    Lines = [pin(Pin, Pid, Look) || #{process := Pid, pins := Pins} <- Holders, Pin <- Pins] ++
        [["          ? of ", who(Pid, Look), ", which ran during the look\n"]
         || #{process := Pid, pinned := unknown} <- Holders],
    [["\nKept by small parts (binary:copy/1 of the part frees the rest)\n" | Lines]
     || Lines =/= []].

pin(#{path := Path, binaries := N, bytes := Bytes, shown_bytes := Shown}, Pid, Look) ->
    [
        right(bytes(Bytes - Shown), 9), " of ", bytes(Bytes), ": ", grouped(N), " binar", ies(N),
        " for ", bytes(Shown), " byte", plural(Shown), " at ", who(Pid, Look), "\n            ",
        Path, "\n"
    ].

%% @doc The same for {@link flame_prof_json}.
-spec json(flame_prof_binaries:look()) -> #{atom() => term()}.
json(#{holders := Holders} = Look) ->
    Growing = [{growing, [row(Row, Look) || Row <- Rows]} || #{growing := Rows} <- [Look]],
    maps:merge(
        (maps:without([names], Look))#{holders => [row(Row, Look) || Row <- Holders]},
        maps:from_list(Growing)).

row(Row, Look) ->
    maps:map(
        fun
            (Key, Pid) when Key =:= process; Key =:= owner ->
                unicode:characters_to_binary(who(Pid, Look));
            (_, Value) ->
                Value
        end,
        Row).
