%% @private What the samples do not show for reasons of flame_prof's own.
%%
%% == False alarms ==
%% A loaded machine misses up to a third of the ticks, and a busy process changes while it is read:
%% the shares in a profile stay right. Above these thresholds pictures have holes. From `step' on
%% the CPU budget leaves out processes, not only ticks. Of a node it is no finding: the doctor's own
%% samples are not what is wrong with it. Then it is among what was not seen.
-module(flame_prof_doctor_losses).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [share/1]).

kind() -> losses.

needs() -> [samples].

thresholds() ->
    [
        {missed, 0.5, <<"share of the ticks">>},
        {dropped, 0.001, <<"share of the samples">>},
        {inconsistent, 0.05, <<"share of the samples">>},
        {damaged, 0.001, <<"share of the samples">>},
        {step, 6, <<"step of the CPU budget">>}
    ].

find(#{samples := #{losses := Losses} = Samples} = Evidence, Limits) ->
    Said = [
        {said(Key, Lost), weight(Key, Lost)}
     || Key <- [missed, dropped, inconsistent, damaged, step],
        #{Key := Lost} <- [Losses], is_lost(Key, Lost, maps:get(Key, Limits))
    ],
    case Evidence of
        _ when Said =:= [] -> [];
        #{node := none} -> [finding(Said, Losses, maps:get(span_us, Samples))];
        _ -> {unseen, iolist_to_binary(text(Said))}
    end.

text(Said) ->
    ["flame_prof ", lists:join(", ", [Text || {Text, _} <- Said])].

is_lost(step, Step, Most) -> Step >= Most;
is_lost(_, Lost, Most) -> Lost > Most.

weight(step, _) -> 0.5;
weight(_, Lost) -> Lost.

said(missed, Lost) -> ["missed ", share(Lost), " of its ticks"];
said(dropped, Lost) -> ["dropped ", percent(Lost), " of the samples"];
said(inconsistent, Lost) -> ["discarded ", share(Lost), " of the samples as inconsistent"];
said(damaged, Lost) -> ["left ", percent(Lost), " of the samples as damaged"];
said(step, Step) ->
    ["sampled fewer processes to stay within the CPU budget (step ", integer_to_list(Step), ")"].

percent(Part) -> io_lib:format("~.1f %", [100.0 * Part]).

finding([{First, _} | _] = Said, Losses, Us) ->
    #{
        kind => kind(),
        severity => note,
        size => lists:max([Size || {_, Size} <- Said]),
        title => ["flame_prof ", First],
        sentences => [["In ", flame_prof_doctor_rule:seconds(Us), " ", text(Said), "."],
            "The samples do not show that time."],
        command => "flame_prof info --node NODE",
        processes => [],
        numbers => Losses#{span_us => Us},
        view => #{measure => samples, show => all, view => flame}
    }.
