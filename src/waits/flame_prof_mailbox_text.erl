%% @private A mailbox as text and as JSON. {@link flame_prof_mailbox} has the shapes.
-module(flame_prof_mailbox_text).

-export([format/1, summary/1, json/1, tag/1, who/2]).

-import(flame_prof_text, [grouped/1, percent/1, plural/1, right/2, pad/2]).

%% A larger tuple has dots for its elements.
-define(ARITY, 6).

-spec format(flame_prof_mailbox:mailbox()) -> unicode:chardata().
format(#{process := Pid, length := Length} = Mailbox) ->
    [
        [who(Pid, Mailbox), io_lib:format(": ~ts message~ts", [grouped(Length), plural(Length)])],
        [figures(Mailbox), "\n"],
        [moved(Mailbox)],
        [["not known: ", Why, "\n"] || Why <- maps:get(unknown, Mailbox)],
        [table("Senders", [{who(S, Mailbox), N} || {S, N} <- Senders], All, Mailbox)
         || #{senders := Senders, all_senders := All} <- [Mailbox]],
        [table("Messages", [{tag(T), N} || {T, N} <- Tags], All, Mailbox)
         || #{tags := Tags, all_tags := All} <- [Mailbox]],
        [oldest(Oldest, Mailbox) || #{oldest := [_ | _] = Oldest} <- [Mailbox]]
    ].

figures(#{memory := Bytes, on_heap := OnHeap} = Mailbox) ->
    [
        [", ", flame_prof_text:bytes(Bytes), " bytes"],
        [[" and the terms of ", grouped(OnHeap), " on its heap"] || OnHeap > 0],
        [[", ", grouped(N), " signal", plural(N), " to be handled"]
         || #{signals := N} <- [Mailbox], N > 0],
        [[", ", grouped(N), " not decoded yet"] || #{undecoded := N} <- [Mailbox], N > 0]
    ];
figures(_) ->
    "".

moved(#{complete := false, counted := Counted, taken := Taken}) ->
    ["counted: ", grouped(Counted), [[", taken meanwhile: ", grouped(Taken)] || Taken > 0], "\n"];
moved(_) ->
    "".

table(_Title, [], _All, _Mailbox) ->
    "";
table(Title, Rows, All, #{counted := Counted}) ->
    Told = lists:sum([N || {_, N} <- Rows]),
    [
        ["\n", Title, "\n"],
        [row(N, Counted, Text) || {Text, N} <- Rows],
        [row(Counted - Told, Counted, ["(", grouped(max(1, All - length(Rows))), " more)"])
         || Counted > Told]
    ].

row(N, Counted, Text) ->
    [percent(100 * N / max(1, Counted)), right(grouped(N), 12), "  ", Text, "\n"].

oldest(Oldest, Mailbox) ->
    Lines = [["  ", pad(tag(T), 30), " ", who(S, Mailbox), "\n"] || {S, T} <- Oldest],
    ["\nOldest first\n" | Lines].

%% @doc A process with its names, of which `names' has some.
-spec who(flame_prof_mailbox:sender(), #{names := map(), _ => _}) -> unicode:chardata().
who(Pid, #{names := Names}) when map_get(Pid, Names) =:= exited ->
    [text(Pid), " (exited)"];
who(Pid, #{names := Names}) when is_map_key(Pid, Names) ->
    #{Pid := Name} = Names,
    Parts =
        [shown(flame_prof_names:function(atom_to_binary(N)))
         || #{registered_name := N} <- [Name]] ++
            [shown(flame_prof_names:call(Call)) || #{initial_call := Call} <- [Name]],
    lists:join($\s, [text(Pid) | Parts]);
who({node, Node}, _) ->
    ["node ", shown(atom_to_binary(Node))];
who(Sender, _) ->
    text(Sender).

text(Sender) -> shown(unicode:characters_to_binary(io_lib:format("~0tp", [Sender]))).

shown(Text) -> flame_prof_text:visible(Text).

%% @doc `97.6 % call:{get,_}, 51.0 % from <0.117.0> nightly_export demo:init/1'.
-spec summary(flame_prof_mailbox:mailbox()) -> binary().
summary(#{senders := [{Sender, Sent} | _], tags := [{Tag, Like} | _]} = Mailbox) ->
    #{counted := Counted} = Mailbox,
    Share = fun(N) -> string:trim(percent(100 * N / max(1, Counted))) end,
    line([Share(Like), $\s, tag(Tag), ", ", Share(Sent), " from ", who(Sender, Mailbox)]);
summary(_) ->
    <<>>.

%% @doc `call:{get,_}', `cast:refresh'; `_' for what has no tag.
-spec tag(flame_prof_mailbox:tag()) -> unicode:chardata().
tag({Kind, Shape}) -> [atom_to_list(Kind), $:, shape(Shape)].

shape({atom, Atom}) -> atom(Atom);
shape({tuple, Atom, Arity}) when Arity > ?ARITY -> [${, atom(Atom), ",_,...}"];
shape({tuple, Atom, Arity}) -> [${, atom(Atom), lists:duplicate(Arity - 1, ",_"), $}];
shape(_) -> "_".

atom(Atom) -> shown(unicode:characters_to_binary(io_lib:format("~tw", [Atom]))).

%% @doc The same for {@link flame_prof_json}.
-spec json(flame_prof_mailbox:mailbox()) -> #{atom() => term()}.
json(Mailbox) ->
    maps:map(fun(Key, Value) -> part(Key, Value, Mailbox) end, maps:without([names], Mailbox)).

part(senders, Senders, Mailbox) ->
    [(sender(S, Mailbox))#{messages => N} || {S, N} <- Senders];
part(tags, Tags, _) ->
    [#{tag => line(tag(T)), messages => N} || {T, N} <- Tags];
part(oldest, Oldest, Mailbox) ->
    [(sender(S, Mailbox))#{tag => line(tag(T))} || {S, T} <- Oldest];
part(process, Pid, Mailbox) ->
    sender(Pid, Mailbox);
part(_, Value, _) ->
    Value.

sender({node, Node}, _) ->
    #{node => Node};
sender(Pid, Mailbox) ->
    Name =
        case maps:get(names, Mailbox, #{}) of
            #{Pid := exited} -> #{exited => true};
            #{Pid := Known} -> Known;
            _ -> #{}
        end,
    maps:map(
        fun
            (initial_call, Call) -> flame_prof_names:call(Call);
            (_, Value) -> Value
        end,
        Name#{sender => line(text(Pid))}
    ).

line(Text) -> unicode:characters_to_binary(Text).
