%% @private The values of options on a command line: how each kind is read, and what it accepts.
-module(flame_prof_cli_values).

-export([value/2, accepts/1, time/1]).

-export_type([kind/0]).

-type kind() ::
    text | file | nodes | names | duration | moment | metric | dimensions | setting
    | {whole, integer(), integer()} | {megabytes, integer(), integer()}
    | {number, number(), number()} | {duration, non_neg_integer(), non_neg_integer()}
    | percent | port | top | threshold
    | {one_of, [atom()]} | {either, [atom()], kind()}.
%% `duration': milliseconds.

-spec value(kind(), string()) -> {ok, term()} | error.
value(text, Text) ->
    {ok, Text};
value(file, Text) ->
    not_empty(Text);
value(nodes, Text) ->
    not_empty(string:lexemes(Text, ","));
value({whole, Least, Most}, Text) ->
    case string:to_integer(Text) of
        {N, ""} when is_integer(N), N >= Least, N =< Most -> {ok, N};
        _ -> error
    end;
value({megabytes, Least, Most}, Text) ->
    value({whole, Least, Most}, Text);
value(percent, Text) ->
    value({number, 0, 100}, Text);
value({number, Least, Most}, Text) ->
    case {string:to_float(Text), string:to_integer(Text)} of
        {{F, ""}, _} when is_float(F), F >= Least, F =< Most -> {ok, F};
        {_, {N, ""}} when is_integer(N), N >= Least, N =< Most -> {ok, N};
        _ -> error
    end;
value(duration, Text) ->
    case value(moment, Text) of
        {ok, Ms} when Ms > 0 -> {ok, Ms};
        _ -> error
    end;
value({duration, Least, Most}, Text) ->
    case value(moment, Text) of
        {ok, Ms} when Ms >= Least, Ms =< Most -> {ok, Ms};
        _ -> error
    end;
value(moment, Text) ->
    case string:to_integer(Text) of
        {N, Unit} when is_integer(N), N >= 0 -> duration(N, Unit);
        _ -> error
    end;
value({either, Values, Kind}, Text) ->
    case [Value || Value <- Values, atom_to_list(Value) =:= Text] of
        [Value] -> {ok, Value};
        [] -> value(Kind, Text)
    end;
value(names, Text) ->
    not_empty(string:lexemes(Text, ","));
value({one_of, Atoms}, Text) ->
    case [Atom || Atom <- Atoms, atom_to_list(Atom) =:= Text] of
        [Atom] -> {ok, Atom};
        [] -> error
    end;
value(Kind, Text) ->
    compound(Kind, Text).

%% Of several parts.
compound(port, Text) ->
    case string:split(Text, ":", trailing) of
        [Port] -> port(host, Port);
        [[_ | _] = Host, Port] -> port(string:trim(Host, both, "[]"), Port);
        _ -> error
    end;
compound(top, Text) ->
    case [string:to_integer(Part) || Part <- string:split(Text, ":")] of
        [{N, ""}] when is_integer(N) -> {ok, {top, N}};
        [{N, ""}, {Ms, ""}] when is_integer(N), is_integer(Ms) -> {ok, {top, N, Ms}};
        _ -> error
    end;
compound(threshold, Text) ->
    case string:split(Text, "=") of
        [Name, Value] -> threshold(Name, string:to_float(Value), string:to_integer(Value));
        _ -> error
    end;
compound(setting, Text) ->
    case string:split(Text, "=") of
        [[_ | _] = Key, [_ | _] = Value] -> setting(Key, Value);
        _ -> error
    end;
compound(Kind, Text) ->
    of_files(Kind, Text).

%% Options of the commands that read files.
of_files(metric, "value:" ++ [_ | _] = Text) ->
    {ok, {value, binary_part_after(":", Text)}};
of_files(metric, "delta:" ++ [_ | _] = Text) ->
    {ok, {delta, binary_part_after(":", Text)}};
of_files(metric, "samples") ->
    {ok, samples};
of_files(metric, "period") ->
    {ok, period};
of_files(metric, Text) ->
    case not_empty(Text) of
        {ok, _} -> {ok, unicode:characters_to_binary(Text)};
        error -> error
    end;
of_files(dimensions, Text) ->
    Levels = [[Dimension || Dimension <- flame_prof_query:dimensions(),
        atom_to_list(Dimension) =:= Word] || Word <- string:lexemes(Text, ",")],
    case lists:member([], Levels) of
        true -> error;
        false -> {ok, lists:append(Levels)}
    end.

%% An unknown name is refused with the list of the known ones.
threshold(Name, {Float, ""}, _) when is_float(Float) -> {ok, [{threshold_name(Name), Float}]};
threshold(Name, _, {N, ""}) when is_integer(N) -> {ok, [{threshold_name(Name), N}]};
threshold(_Name, _, _) -> error.

threshold_name(Text) ->
    Known = [Name || {Name, _, _} <- flame_prof_doctor:thresholds(), atom_to_list(Name) =:= Text],
    hd(Known ++ [unicode:characters_to_binary(Text)]).

port(Host, Text) ->
    case value({whole, 1, 65535}, Text) of
        {ok, Port} -> {ok, {Host, Port}};
        error -> error
    end.

binary_part_after(Separator, Text) ->
    [_, After] = string:split(Text, Separator),
    unicode:characters_to_binary(After).

not_empty([]) -> error;
not_empty(Value) -> {ok, Value}.

duration(N, Unit) when Unit =:= "s"; Unit =:= "" -> {ok, N * 1000};
duration(N, "m") -> {ok, N * 60000};
duration(N, "h") -> {ok, N * 3600000};
duration(N, "ms") -> {ok, N};
duration(_, _) -> error.

%% The options of flame_prof:start/1 by their own names; a term as in sys.config.
setting(Key, Value) ->
    Known = [Atom || Atom <- flame_prof_options:names(), atom_to_list(Atom) =:= Key],
    case {Known, erl_scan:string(Value ++ ".")} of
        {[Atom], {ok, Tokens, _}} ->
            case erl_parse:parse_term(Tokens) of
                {ok, Term} -> {ok, [{Atom, Term}]};
                {error, _} -> error
            end;
        _ ->
            error
    end.

%% @doc For an error message.
-spec accepts(kind()) -> unicode:chardata().
accepts(nodes) -> "a node's name, or several with commas";
accepts({whole, Least, Most}) -> io_lib:format("a whole number from ~b to ~b", [Least, Most]);
accepts(port) -> "a port, or HOST:PORT";
accepts({megabytes, Least, Most}) ->
    io_lib:format("megabytes, a whole number from ~b to ~b", [Least, Most]);
accepts(percent) -> accepts({number, 0, 100});
accepts({number, Least, Most}) -> io_lib:format("a number from ~w to ~w", [Least, Most]);
accepts(Time) when Time =:= duration; Time =:= moment -> "a time such as 500ms, 30s, 5m or 1h";
accepts({duration, Least, Most}) ->
    ["a time from ", time(Least), " to ", time(Most), ", such as 500ms, 30s, 5m or 1h"];
accepts({either, Values, Kind}) ->
    [accepts(Kind), [[", or ", atom_to_list(Value)] || Value <- Values]];
accepts(names) -> "a name, or several with commas";
accepts({one_of, Atoms}) -> ["one of: ", lists:join(", ", [atom_to_list(Atom) || Atom <- Atoms])];
accepts(top) -> "a number of processes, or with the interval of the choice, as in 100:5000";
accepts(metric) -> "samples, period, a metric, value:METRIC or delta:METRIC";
accepts(dimensions) ->
    Names = [atom_to_list(Dimension) || Dimension <- flame_prof_query:dimensions()],
    ["a list of ", lists:join(", ", Names)];
accepts(threshold) -> "NAME=N, as in limit_warning=0.7";
accepts(setting) ->
    Keys = [atom_to_list(Key) || Key <- flame_prof_options:keys()],
    ["KEY=TERM, KEY being one of: ", lists:join(", ", Keys)];
accepts(_) -> "a text that is not empty".

%% @doc Milliseconds as a command line takes them.
-spec time(non_neg_integer()) -> unicode:chardata().
time(0) -> "0";
time(Ms) when Ms rem 3600000 =:= 0 -> [integer_to_list(Ms div 3600000), "h"];
time(Ms) when Ms rem 60000 =:= 0 -> [integer_to_list(Ms div 60000), "m"];
time(Ms) when Ms rem 1000 =:= 0 -> [integer_to_list(Ms div 1000), "s"];
time(Ms) -> [integer_to_list(Ms), "ms"].
