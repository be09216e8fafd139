%% @private The documentation of the options, made of their table: doc/options.md, the comment of
%% the type `flame_prof:options()', and the command line's help for `--set'.
-module(flame_prof_options_doc).

-export([markdown/0, edoc/0, help/1]).

-define(COLUMNS, 100).
-define(KEY_COLUMNS, 22).

%% @doc doc/options.md, which `make options' writes.
-spec markdown() -> unicode:chardata().
markdown() ->
    [
        "# Options\n\n"
        "<!-- Made by `make options` of src/options/flame_prof_options.erl. -->\n\n"
        "`flame_prof:start/1,2` and `flame_prof:start_link/1,2` accept these options, the command\n"
        "line as `--set KEY=TERM`. Options in the environment of the application (`sys.config`)\n"
        "replace the defaults of every session.\n\n"
        "An option that is missing, `undefined` or `nil` has its default. For an unknown option or\n"
        "an invalid value `start` returns an error with the accepted values. A mistake in the\n"
        "environment is logged when the application starts.\n\n",
        table(flame_prof_options:rows()),
        "\nWith `messages` a session of the native engine spawns\n"
        "[probes](safety.md#probes-of-waits) for less than a second.\n"
        "\n## `select`\n\n"
        "`{top, N}` and `{top, N, Ms}` rank processes by reductions. A map has these keys. A list\n"
        "of maps selects each process that at least one map selects:\n\n",
        table(flame_prof_selection:rows()),
        "\nA process passes a filter if one of its conditions holds. With filters flame_prof calls\n"
        "`process_info/2` for all processes.\n\n"
        "```erlang\n"
        "#{select => [\n"
        "    #{top => 50, by => reductions, interval => 1000},\n"
        "    #{top => 20, by => memory, exclude => {application, kernel}}\n"
        "]}\n"
        "```\n"
        "\n## `process_options`\n\n"
        "The same map is the argument of `flame_prof:apply/2` and `flame_prof:profile_start/1`,\n"
        "where the default of `follow` is `spawn`.\n\n",
        table(flame_prof_options:process_rows()),
        "\n## `follow_limits`\n\n",
        table(flame_prof_options:limit_rows()),
        "\n## `allocations`\n\n"
        "The session traces garbage collections. One tracing runs at a time: `latency`, `trace` and\n"
        "`allocations` are refused while the session runs. If one of them runs already, the session\n"
        "starts without allocations, and `info/0` says why. `max_files` and `max_total_bytes` hold\n"
        "for these [files](format.md#allocations) separately.\n\n",
        table(flame_prof_options:allocation_rows()),
        "\n## `triggers`\n\n"
        "The table shows a trigger on `fragmentation`; others have no `allocator` and no\n"
        "`least_bytes`. [Triggers](guide/triggers.md) has examples. The unit of `above` and\n"
        "`below` is percent (`scheduler_utilisation`, `fragmentation`, `rss_percent`,\n"
        "`atom_percent`), bytes (`memory`, `binary_memory`, `rss`), bytes a second (`ets_growth`),\n"
        "words (`large_heap`), milliseconds (`long_gc`, `long_schedule`) or a count. `busy_port` has\n"
        "neither key, and the events `long_gc`, `long_schedule` and `large_heap` have no `below`.\n\n",
        table(flame_prof_trigger:rows()),
        "\n## Older names\n\n"
        "flame_prof accepts these names, too, but not both names of one option.\n\n"
        "| older name | name |\n|---|---|\n",
        [[older(Row) || Row <- Rows]
            || Rows <- [flame_prof_options:rows(), flame_prof_options:process_rows()]],
        "\n`follow` also takes the older values "
        "`true` (`spawn_and_send`), `false` and `self_only` (`none`).\n"
    ].

table(Rows) ->
    ["| option | default | accepted | |\n|---|---|---|---|\n", [line(Row) || Row <- Rows]].

line(#{key := Key, doc := Doc} = Row) ->
    Accepted = string:replace(flame_prof_schema:accepts(Row), "|", "\\|", all),
    ["| `", atom_to_binary(Key), "` | ", default(Row), " | ", Accepted, " | ", Doc, " |\n"].

default(#{default := {computed, _, Text}}) -> Text;
default(#{default := Default}) -> ["`", term(Default), "`"];
default(#{}) -> "".

older(#{key := Key, alias := {Alias, Values}}) ->
    Pairs = [["`", term(Old), "` is `", term(New), "`"] || {Old, New} <- Values],
    older(Alias, [atom_to_binary(Key), "`: ", lists:join(", ", Pairs)]);
older(#{key := Key, alias := Alias}) ->
    older(Alias, [atom_to_binary(Key), "`"]);
older(#{}) ->
    [].

older(Alias, Text) -> ["| `", atom_to_binary(Alias), "` | `", Text, " |\n"].

%% The same text on every release: those from 26 on print maps in another order.
term(Map) when is_map(Map) ->
    Pairs = [[term(K), " => ", term(V)] || {K, V} <- lists:sort(maps:to_list(Map))],
    ["#{", lists:join(", ", Pairs), "}"];
term(Tuple) when is_tuple(Tuple) ->
    ["{", lists:join(", ", [term(T) || T <- tuple_to_list(Tuple)]), "}"];
term(Term) ->
    io_lib:format("~0tp", [Term]).

%% @doc The comment that follows the type `flame_prof:options()'.
-spec edoc() -> unicode:chardata().
edoc() ->
    [
        comment("An option that is left out, `undefined` or `nil` has its default, in brackets. "
            "The same keys in the application's environment (`sys.config`) replace the defaults. "
            "doc/options.md has what each accepts, and the older names, which are accepted, too.",
            ""),
        "%%\n%% <ul>\n",
        [comment(["<li>`", atom_to_binary(Key), "`: ", Doc, " (", default(Row), ")</li>"], "    ")
            || #{key := Key, doc := Doc} = Row <- flame_prof_options:rows()],
        "%% </ul>\n"
    ].

comment(Text, Indent) ->
    Quoted = re:replace(Text, "`([^`]*)`", "`\\1'", [global, {return, binary}]),
    [["%% ", Line, "\n"] || Line <- wrapped(Quoted, Indent, ?COLUMNS - 3)].

%% @doc The options for `--set', without those that the command has no use for.
-spec help([atom()]) -> unicode:chardata().
help(Without) ->
    [option(Row) || #{key := Key} = Row <- flame_prof_options:rows(),
        not lists:member(Key, Without)].

option(#{key := Key, doc := Doc} = Row) ->
    Text = string:replace([Doc, " (", default(Row), ")"], "`", "", all),
    [First | Rest] = wrapped(Text, "", ?COLUMNS - ?KEY_COLUMNS - 2),
    ["  ", string:pad(atom_to_binary(Key), ?KEY_COLUMNS), First, "\n",
        [["  ", lists:duplicate(?KEY_COLUMNS, $\s), Line, "\n"] || Line <- Rest]].

%% Lines of at most so many columns; all but the first are indented.
wrapped(Text, Indent, Columns) ->
    [Word | Words] = string:lexemes(unicode:characters_to_list(Text), " \n"),
    {Line, Lines} = lists:foldl(
        fun(Next, {Line, Lines}) ->
            case length(Line) + 1 + length(Next) =< Columns of
                true -> {Line ++ " " ++ Next, Lines};
                false -> {Indent ++ Next, [Line | Lines]}
            end
        end,
        {Word, []},
        Words
    ),
    lists:reverse(Lines, [Line]).
