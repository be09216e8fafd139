%% @private A report of {@link flame_prof_tree} as text.
-module(flame_prof_tree_text).

-export([format/3]).

-import(flame_prof_text, [grouped/1, percent/1, plural/1, fit/2, right/2]).

%% Of a share and what it is a share of.
-define(COLUMNS, (7 + 1 + 15)).

%% @doc In at most so many columns. `Idle' is the option that shows what is idle.
-spec format(flame_prof_tree:report(), pos_integer(), unicode:chardata()) -> unicode:chardata().
format(Report, Columns, Idle) ->
    #{tree := Tree, functions := Functions, more_functions := More} = Report,
    #{by_process := Processes, more_processes := MoreProcesses} = Report,
    [
        [[fit(Line, Columns), "\n"] || Line <- summary(Report, Idle)],
        statuses(Report),
        ["\n", columns(Report), "  (below ", root(Report), ")\n"],
        [lines(Branch, 0, Columns) || Branch <- Tree],
        ["\nFunctions", grown(Report), ": share of which it is the leaf, share that it is on the"
            " stack of\n"],
        "   leaf  on stack   samples\n",
        [function_line(Function, Columns) || Function <- Functions],
        [["                            ", grouped(More), " more\n"] || More > 0],
        ["\nProcesses", grown(Report), "\n", columns(Report), "\n"],
        [[numbers(Process), fit(Name, max(20, Columns - ?COLUMNS - 2)), "\n"]
            || #{name := Name} = Process <- Processes],
        [["                         ", grouped(MoreProcesses), " more\n"] || MoreProcesses > 0],
        messages(Report, Columns)
    ].

messages(#{by_message := []}, _Columns) ->
    [];
messages(#{by_message := Messages, more_messages := More} = Report, Columns) ->
    [
        "\nMessages", grown(Report), " in work\n", columns(Report), "\n",
        [[numbers(Message), fit(Name, max(20, Columns - ?COLUMNS - 2)), "\n"]
            || #{name := Name} = Message <- Messages],
        [["                         ", grouped(More), " more\n"] || More > 0]
    ].

root(#{unit := words}) -> "what was kept and what was garbage: of this";
root(_Report) -> "a status: of this status".

columns(#{by := By} = Report) -> [title(Report), " ", right(fit(By, 40), 15)].

title(Report) ->
    case is_cpu(Report) of
        true -> "    CPU";
        false -> "  share"
    end.

grown(#{growth := Growth, weight := Weight}) when Growth < Weight -> " that grew";
grown(_) -> "".

%% The number of samples shown and left out; the files; the sum of the metric.
summary(#{files := Files, processes := Processes, seconds := Seconds, notes := Notes} = Report,
    Idle) ->
    [
        shown_samples(Report, Idle),
        [
            [grouped(Processes), " process", [["es"] || Processes =/= 1], ", "],
            [io_lib:format("~.1f s, ~b file~ts", [Seconds, Files, plural(Files)])],
            left_out(Report)
        ]
        | metric(Report) ++ Notes
    ].

left_out(#{bad := Bad}) when Bad > 0 ->
    [", ", grouped(Bad), " damaged sample", plural(Bad), " left out"];
left_out(#{whole := true}) ->
    "";
left_out(#{whole := false}) ->
    ", damaged or cut off (`flame_prof check' shows where)".

shown_samples(#{chains := true, samples := Count, all_samples := All}, _Idle) ->
    [
        [grouped(Count), " of ", samples(All), " wait for something ("],
        [string:trim(percent(flame_prof_tree:share(Count, All))), ")"]
    ];
shown_samples(#{unit := words, by := <<"words">>, weight := Words, samples := Count}, _Idle) ->
    [
        flame_prof_text:bytes(8 * Words), " bytes allocated (", grouped(Words), " words), by ",
        samples(Count)
    ];
shown_samples(#{status := all, all_samples := All}, _Idle) ->
    [samples(All)];
shown_samples(#{status := Status, by_status := ByStatus, all_samples := All} = Report, Idle) ->
    Shown = [Row || #{name := Name} = Row <- ByStatus, flame_prof_tree:is_selected(Name, Status)],
    Count = lists:sum([N || #{samples := N} <- Shown]),
    Share = string:trim(percent(flame_prof_tree:share(Count, All))),
    [
        [grouped(Count), " of ", samples(All), " ", atom_to_list(Status)],
        [" (", Share, [" CPU" || is_cpu(Report)], ")"],
        left_out(Status, [Row#{name := status_name(Row, Report)} || Row <- ByStatus -- Shown], Idle)
    ].

samples(Count) -> [grouped(Count), " sample", plural(Count)].

is_cpu(#{unit := Unit, by := By}) -> Unit =:= cpu andalso By =:= <<"samples">>.

left_out(active, [_ | _] = Rows, Idle) ->
    [";", [[" ", grouped(N), " ", Name, ","] || #{name := Name, samples := N} <- Rows],
        " not shown (", Idle, ")"];
left_out(_, _, _) ->
    [].

metric(#{by := <<"samples">>}) ->
    [];
metric(#{unit := words, by := <<"words">>}) ->
    [];
metric(#{by := By, samples := Samples, weight := Weight, growth := Growth}) ->
    [[
        [grouped(Weight), " ", By, " in ", samples(Samples)],
        [[": ", grouped(Growth), " grown, ", grouped(Weight - Growth), " released"]
            || Growth < Weight]
    ]].

%% Where all are shown, the tree has the same in its roots.
statuses(#{status := Status, by_status := Rows} = Report) ->
    case lists:all(fun(#{name := Name}) -> flame_prof_tree:is_selected(Name, Status) end, Rows) of
        true -> [];
        false ->
            ["\n  share         samples  (of all samples)\n",
             [[numbers(Row), status_name(Row, Report), "\n"] || Row <- Rows]]
    end.

%% The status of a scheduler that has nothing to run is waiting.
status_name(#{name := <<"waiting">>}, #{unit := cpu}) -> "idle";
status_name(#{name := <<>>}, _Report) -> "(no status)";
status_name(#{name := Name}, _Report) -> Name.

numbers(#{share := Share, weight := Weight}) ->
    [percent(Share), " ", number(Weight, 15), "  "].

%% Where it does not find room, by its magnitude.
number(Number, Width) ->
    case grouped(Number) of
        Text when length(Text) =< Width -> right(Text, Width);
        _ -> right(io_lib:format("~.3e", [float(Number)]), Width)
    end.

%% A status has a line of its own. Below it, a function with one callee and without samples of its
%% own shares the line of its callee.
lines(#{children := Children} = Branch, Indent, Columns) ->
    {Names, Last, Rest} =
        case Indent of
            0 -> {[], Branch, Children};
            _ -> chain(Branch, [])
        end,
    Room = max(20, Columns - ?COLUMNS - 2 - Indent),
    [
        [numbers(Branch), lists:duplicate(Indent, $\s)],
        [joined(Names, [name(Last) | detail(Last)], Room), "\n"],
        [lines(Child, Indent + 2, Columns) || Child <- Rest]
    ].

name(#{name := <<>>}) -> "(no status)";
name(#{name := Name}) -> Name.

chain(#{name := Name, weight := Weight, children := [#{weight := Weight} = Child]}, Names) ->
    chain(Child, [Name | Names]);
chain(#{children := Children} = Branch, Names) ->
    {lists:reverse(Names), Branch, Children}.

%% As many as find room, the first and the last in any case.
joined([], Last, Room) ->
    fit(Last, Room);
joined([First | Between], Last, Room) ->
    Text = lists:join(" > ", [First | Between] ++ [Last]),
    case {string:length(Text) > Room, Between} of
        {false, _} -> Text;
        {true, []} -> fit(Text, Room);
        {true, [<<"...">>]} -> fit(Text, Room);
        {true, [<<"...">>, _ | Nearer]} -> joined([First, <<"...">> | Nearer], Last, Room);
        {true, [_ | Nearer]} -> joined([First, <<"...">> | Nearer], Last, Room)
    end.

detail(#{detail := []}) -> [];
detail(#{detail := Details}) -> ["  (", lists:join(", ", [one_detail(D) || D <- Details]), ")"].

one_detail({Name, Share}) -> [Name, " ", io_lib:format("~.1f%", [Share])].

function_line(#{name := Name, share := Share, total := Total, samples := Samples} = F, Columns) ->
    [
        [percent(Share), "   ", percent(Total), number(Samples, 10)],
        ["  ", fit([Name | detail(F)], max(20, Columns - 29)), "\n"]
    ].
