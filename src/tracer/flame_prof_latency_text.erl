%% @private The answer of {@link flame_prof_latency:measure/2} for a person, as JSON and as
%% Prometheus' histograms. Answers of intervals have the same shape.
-module(flame_prof_latency_text).

-export([format/1, json/1, prometheus/1, limits/1]).

-import(flame_prof_text, [duration/1, grouped/1, plural/1, right/2, pad/2]).

%% Of the bars in text.
-define(BAR, 30).
%% Functions with a page of their own; the table has all.
-define(PAGES, 8).
-define(PARTS, 10).
-define(TABLE, 50).

-spec format(map()) -> unicode:chardata().
format(#{functions := Functions} = Answer) ->
    Sorted = by_total(Functions),
    [
        [[Limit, "\n"] || Limit <- limits(Answer)],
        [table(Sorted, Answer) || length(Sorted) > 1],
        [["\n" || length(Sorted) > 1] ++ page(Function, Answer)
            || Function <- lists:sublist(Sorted, ?PAGES), was_called(Function)],
        ["no call of the measured functions has ended\n" || not lists:any(fun was_called/1,
            Functions)],
        [[grouped(N), " had not returned\n"] || #{open := N} <- [Answer], N > 0,
            not lists:any(fun was_called/1, Functions)]
    ].

was_called(#{calls := Calls} = Function) ->
    Calls + maps:get(exceptions, Function, 0) > 0.

by_total(Functions) ->
    lists:reverse(lists:sort(fun(A, B) -> order(A) =< order(B) end, Functions)).

order(#{total_ns := Total, calls := Calls}) -> {Total, Calls}.

%% @doc What a reader has to know of an answer before its numbers, a sentence each.
-spec limits(map()) -> [binary()].
limits(Answer) ->
    [iolist_to_binary(Text) || Text <- ended(Answer) ++ sampled(Answer) ++ lost(Answer)].

ended(#{ended := {limit, Name}} = Answer) -> [["a limit ended it: ", limit(Name), off(Answer)]];
ended(#{ended := {down, _}}) -> ["a process that guards it was killed"];
ended(_) -> [].

off(#{off_after_ms := Ms}) -> io_lib:format("; ~.1f ms later nothing was traced", [Ms]);
off(_) -> "".

limit(max_events_per_second) -> "too many calls in a second (max_events_per_second)";
limit(max_cpu_percent) -> "too much CPU time (max_cpu_percent)";
limit(max_seconds) -> "max_seconds are over";
limit(max_events) -> "the limit of calls (max_events)";
limit(broken_invariant) -> "an invariant of the library is broken (broken_invariant)";
limit(Name) -> atom_to_binary(Name).

sampled(#{sampled_of := Of}) when Of > 1 ->
    [["calls came too fast: down to 1 of ", grouped(Of),
        " was measured; counts and sums are of these"]];
sampled(_) ->
    [].

lost(#{lost := Lost}) ->
    [[grouped(N), $\s, string:replace(atom_to_binary(What), "_", " ", all), ": not measured"]
        || {What, N} <- lists:sort(maps:to_list(Lost)), is_integer(N), N > 0];
lost(_) ->
    [].

%% A line for each function.

table(Functions, Answer) ->
    [
        "     calls   exceptions       total         own        p50        p99        max\n",
        [row(Function) || Function <- lists:sublist(Functions, ?TABLE)],
        [[grouped(length(Functions) - ?TABLE), " more\n"] || length(Functions) > ?TABLE],
        rate(Functions, Answer)
    ].

row(#{function := Function, calls := Calls} = Row) ->
    Times = known(Row),
    [
        right(grouped(Calls), 10),
        right(grouped(maps:get(exceptions, Row, 0)), 13),
        [right(of_known(Key, Times), 12) || Key <- [total_ns, own_ns]],
        [right(of_known(Key, Times), 11) || Key <- [p50_ns, p99_ns, max_ns]],
        "  ", name(Function), "\n"
    ].

%% No call has no time, a sum of 0 neither.
known(#{calls := 0}) -> #{};
known(Row) -> quantiles(Row).

rate(Functions, #{ms := Ms}) when Ms > 0 ->
    Calls = lists:sum([N || #{calls := N} <- Functions]),
    [grouped(Calls), " call", plural(Calls), " in ", duration(Ms * 1000000), "\n"];
rate(_, _) ->
    "".

of_known(Key, Map) ->
    case Map of
        #{Key := Ns} -> duration(Ns);
        #{} -> "-"
    end.

%% A function with its histogram.

page(#{function := Function, calls := Calls} = Page, Answer) ->
    [
        [flame_prof_text:visible(iolist_to_binary(name(Function))), "\n"],
        ["  ", grouped(Calls), " call", plural(Calls), per_second(Calls, Answer)],
        [[", and ", grouped(N), " that ended with an exception"]
            || #{exceptions := N} <- [Page], N > 0],
        [[", ", grouped(N), " had not returned"] || #{open := N} <- [Page], N > 0],
        "\n",
        [times(Page) || Calls > 0],
        bars(Page),
        parts("By process group", groups(Page), Page),
        parts("By caller", callers(Page), Page)
    ].

times(#{total_ns := Total} = Page) ->
    Quantiles = quantiles(Page),
    Named = [{"p50", p50_ns}, {"p90", p90_ns}, {"p99", p99_ns}, {"p99.9", p999_ns},
        {"p99.99", p9999_ns}, {"max", max_ns}],
    [
        ["  total ", duration(Total)],
        [[", own ", duration(Own)] || #{own_ns := Own} <- [Page]],
        "\n  ",
        lists:join("   ", [[Title, $\s, of_known(Key, Quantiles)] || {Title, Key} <- Named]),
        "\n"
    ].

per_second(Calls, #{ms := Ms}) when Ms > 0 ->
    [" in ", duration(Ms * 1000000), " (", grouped(round(Calls * 1000 / Ms)), " a second)"];
per_second(_, _) ->
    "".

%% An octave a line, those between the shortest and the longest.
bars(#{histogram := []}) ->
    "";
bars(#{histogram := Buckets}) ->
    Octaves = lists:foldl(
        fun({Low, End, N}, Sums) ->
            maps:update_with(octave(Low, End), fun(Sum) -> Sum + N end, N, Sums)
        end,
        #{},
        Buckets
    ),
    Most = lists:max(maps:values(Octaves)),
    All = lists:sum(maps:values(Octaves)),
    Keys = lists:sort(maps:keys(Octaves)),
    [bar(Octave, maps:get(Octave, Octaves, 0), Most, All)
        || Octave <- lists:seq(hd(Keys), lists:last(Keys))].

octave(_Low, infinity) -> 40;
octave(Low, _End) -> trunc(math:log2(max(1, Low))).

bar(Octave, N, Most, All) ->
    [
        ["  ", right(duration(1 bsl Octave), 8), " ", pad(hashes(N, Most), ?BAR + 1)],
        [right(grouped(N), 11), flame_prof_text:percent(100 * N / All), "\n"]
    ].

hashes(0, _Most) -> "";
hashes(N, Most) -> lists:duplicate(max(1, round(?BAR * N / Most)), $#).

groups(#{groups := Groups}) -> [{text(Group), Part} || #{group := Group} = Part <- Groups];
groups(_) -> [].

callers(#{callers := Callers}) -> [{caller(Caller), Part} || #{caller := Caller} = Part <- Callers];
callers(_) -> [].

text(Group) when is_binary(Group) -> Group;
text(Group) -> iolist_to_binary(io_lib:format("~0tP", [Group, 8])).

caller(undefined) -> <<"(unknown)">>;
caller(other) -> <<"(other)">>;
caller(Caller) -> name(Caller).

parts(_Title, [], _Page) ->
    "";
parts(Title, Parts, #{total_ns := Total}) ->
    More = length(Parts) - ?PARTS,
    [
        ["  ", pad(Title, 18), [right(Column, 11) || Column <- ["calls", "p50", "p99", "max"]],
            "\n"],
        [["  ", flame_prof_text:percent(100 * Ns / max(1, Total)), right(duration(Ns), 11),
            right(grouped(Calls), 11),
            [right(of_known(Key, Part), 11) || Key <- [p50_ns, p99_ns, max_ns]],
            "  ", flame_prof_text:visible(Name), "\n"]
            || {Name, #{calls := Calls, total_ns := Ns} = Part} <- lists:sublist(Parts, ?PARTS)],
        [["  ", grouped(More), " more\n"] || More > 0]
    ].

name({_, _, Arity} = Function) when is_integer(Arity) -> flame_prof_names:call(Function).

%% What an answer has not is made of its histogram.
quantiles(Row) ->
    maps:merge(flame_prof_histogram:quantiles(histogram(Row)), Row).

histogram(#{histogram := Buckets} = Row) ->
    Last = lists:max([0 | [End - 1 || {_, End, _} <- Buckets, is_integer(End)]]),
    flame_prof_histogram:new(Buckets, maps:get(total_ns, Row, 0), maps:get(max_ns, Row, Last)).

%% @doc For flame_prof_json.
-spec json(map()) -> map().
json(#{functions := Functions} = Answer) ->
    Json = #{
        functions => [json_of(Function) || Function <- by_total(Functions)],
        limits => limits(Answer)
    },
    Plain = maps:with([ms, sampled_of, open, lost], Answer),
    maps:merge(Plain, Json#{ended => json_ended(maps:get(ended, Answer, asked))}).

json_ended({limit, Name}) -> Name;
json_ended({down, _}) -> down;
json_ended(Ended) -> Ended.

json_of(#{function := Function} = Row) ->
    Parts = [{Key, [json_of_part(Part) || Part <- maps:get(Key, Row)]}
        || Key <- [groups, callers], is_map_key(Key, Row)],
    maps:merge(json_of_part(maps:without([groups, callers], Row)),
        maps:from_list([{function, name(Function)} | Parts])).

json_of_part(Part) ->
    maps:map(fun json_value/2, maps:merge(with_quantiles(Part), Part)).

with_quantiles(#{histogram := _} = Part) ->
    flame_prof_histogram:quantiles(histogram(Part));
with_quantiles(_) ->
    #{}.

json_value(histogram, Buckets) -> flame_prof_histogram:json(Buckets);
json_value(heatmap, Heatmap) -> flame_prof_latency_heatmap:json(Heatmap);
json_value(caller, Caller) -> caller(Caller);
json_value(group, Group) -> text(Group);
json_value(_, Value) -> Value.

%% @doc Of each function that was called, in seconds.
-spec prometheus(map()) -> iodata().
prometheus(#{functions := Functions} = Answer) ->
    [
        flame_prof_histogram:prometheus("flame_prof_call_duration_seconds",
            "Time from a call to its return, outermost calls of recursion.",
            [{[{function, name(Function)}], histogram(Row)} || #{function := Function} = Row
                <- Functions]),
        "# HELP flame_prof_call_exceptions_total Calls that ended with an exception.\n"
        "# TYPE flame_prof_call_exceptions_total counter\n",
        [["flame_prof_call_exceptions_total",
            flame_prof_metrics:labels([{function, name(Function)}]), $\s, integer_to_list(N), $\n]
            || #{function := Function, exceptions := N} <- Functions],
        "# HELP flame_prof_call_sampled_of One of so many calls was measured.\n"
        "# TYPE flame_prof_call_sampled_of gauge\n",
        ["flame_prof_call_sampled_of ", integer_to_list(maps:get(sampled_of, Answer, 1)), $\n]
    ].
