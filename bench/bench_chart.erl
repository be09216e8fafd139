%% The overhead as a picture: a panel for each workload, a dot with its interval for each
%% tool. It brings its own background, so that it can be read on light and dark pages.
-module(bench_chart).

-export([svg/1]).

-define(MEASURE, work_per_vm_second).

%% In pixels.
-define(COLUMNS, 2).
-define(PANEL_WIDTH, 470).
-define(LABELS, 214).
-define(FIGURES, 52).
-define(ROW, 18).
-define(TITLE, 30).
-define(AXIS, 26).
-define(MARGIN, 16).
-define(HEADER, 58).

%% Ratios of the axis.
-define(MOST, 1.2).
-define(TICKS, [0, 0.25, 0.5, 0.75, 1]).

-spec svg([bench_results:result()]) -> iodata().
svg(Results) ->
    Panels = panels(Results),
    Tallest = lists:max([0 | [length(Rows) || {_, Rows} <- Panels]]),
    PanelHeight = ?TITLE + Tallest * ?ROW + ?AXIS + ?MARGIN,
    Width = 2 * ?MARGIN + ?COLUMNS * ?PANEL_WIDTH,
    Height = ?HEADER + ceil(length(Panels) / ?COLUMNS) * PanelHeight + ?MARGIN,
    unicode:characters_to_binary([
        io_lib:format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ~b ~b\" width=\"~b\" "
                      "height=\"~b\" font-family=\"system-ui, sans-serif\" font-size=\"12\">~n",
                      [Width, Height, Width, Height]),
        style(),
        io_lib:format("<rect class=\"page\" width=\"~b\" height=\"~b\"/>~n", [Width, Height]),
        text(?MARGIN, 26, "heading", "start",
            "Work done for each CPU second of the VM: with the tool / without"),
        text(?MARGIN, 45, "quiet", "start",
             "1 costs nothing; further to the left costs more. The VM's CPU includes the profiler's threads. "
             "Bars are 95 % intervals."),
        [panel(Panel, place(I, PanelHeight))
            || {I, Panel} <- lists:zip(lists:seq(0, length(Panels) - 1), Panels)],
        "</svg>\n"
    ]).

style() ->
    "<style>\n"
    ".page { fill: #ffffff } .ink { fill: #1f2328 } .heading { fill: #1f2328; font-size: 15px; font-weight: 600 }\n"
    ".title { fill: #1f2328; font-weight: 600; font-size: 13px } .quiet { fill: #59636e }\n"
    ".grid { stroke: #d1d9e0 } .one { stroke: #59636e } .dot-own { fill: #0969da } .bar-own { stroke: #0969da }\n"
    ".dot-other { fill: #bc4c00 } .bar-other { stroke: #bc4c00 } .dot-none { fill: #59636e } .bar-none { stroke: #59636e }\n"
    "@media (prefers-color-scheme: dark) {\n"
    ".page { fill: #0d1117 } .ink, .heading, .title { fill: #f0f6fc } .quiet { fill: #9198a1 }\n"
    ".grid { stroke: #3d444d } .one { stroke: #9198a1 } .dot-own { fill: #4493f8 } .bar-own { stroke: #4493f8 }\n"
    ".dot-other { fill: #f0883e } .bar-other { stroke: #f0883e } .dot-none { fill: #9198a1 } .bar-none { stroke: #9198a1 }\n"
    "}\n</style>\n".

panels(Results) ->
    Shown = [R || #{section := overhead, measure := ?MEASURE} = R <- Results],
    Workloads = lists:foldl(
        fun(#{workload := W}, Seen) -> Seen ++ [W || not lists:member(W, Seen)] end, [], Shown),
    [{W, [R || #{workload := X} = R <- Shown, X =:= W]} || W <- Workloads].

place(I, PanelHeight) ->
    {?MARGIN + (I rem ?COLUMNS) * ?PANEL_WIDTH, ?HEADER + (I div ?COLUMNS) * PanelHeight}.

panel({Workload, Rows}, {X, Y}) ->
    Bottom = Y + ?TITLE + length(Rows) * ?ROW,
    [
        text(X, Y + 20, "title", "start", atom_to_list(Workload)),
        [tick(Tick, X, Y + ?TITLE, Bottom) || Tick <- ?TICKS],
        [row(Row, X, Y + ?TITLE + I * ?ROW + ?ROW div 2)
         || {I, Row} <- lists:zip(lists:seq(0, length(Rows) - 1), Rows)]
    ].

tick(Tick, X, Top, Bottom) ->
    At = at(Tick, X),
    Class = case Tick of 1 -> "one"; _ -> "grid" end,
    [
        line(Class, 1, {At, Top}, {At, Bottom + 4}),
        text(At, Bottom + 18, "quiet", "middle", io_lib:format("~w", [Tick]))
    ].

row(#{tool := Tool, value := Value, interval := {Low, High}}, X, Y) ->
    Kind = kind(Tool),
    [
        text(X, Y + 4, "ink", "start", Tool),
        line("bar-" ++ Kind, 3, {at(Low, X), Y}, {at(High, X), Y}),
        io_lib:format("<circle class=\"dot-~s\" cx=\"~.1f\" cy=\"~b\" r=\"4\"/>~n",
            [Kind, at(Value, X), Y]),
        text(X + ?PANEL_WIDTH - ?MARGIN, Y + 4, "quiet", "end",
            io_lib:format("~.3f", [Value * 1.0]))
    ].

kind(Tool) ->
    Kinds = [bench_peers:kind(Name) || Name <- bench_peers:names(),
        bench_peers:title(Name) =:= Tool],
    case Kinds of
        [own] -> "own";
        [none] -> "none";
        _ -> "other"
    end.

at(Ratio, X) ->
    Span = ?PANEL_WIDTH - ?LABELS - ?FIGURES - ?MARGIN,
    X + ?LABELS + Span * max(0, min(?MOST, Ratio)) / ?MOST.

line(Class, Width, {X1, Y1}, {X2, Y2}) ->
    io_lib:format("<line class=\"~s\" stroke-width=\"~b\" x1=\"~.1f\" y1=\"~b\" x2=\"~.1f\" y2=\"~b\"/>~n",
                  [Class, Width, X1, Y1, X2, Y2]).

text(X, Y, Class, Anchor, Text) ->
    io_lib:format("<text class=\"~s\" x=\"~.1f\" y=\"~b\" text-anchor=\"~s\">~ts</text>~n",
                  [Class, X * 1.0, Y, Anchor, escaped(Text)]).

escaped(Text) ->
    lists:foldl(
        fun({From, To}, Acc) -> string:replace(Acc, From, To, all) end,
        unicode:characters_to_list(Text), [{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}]
    ).
