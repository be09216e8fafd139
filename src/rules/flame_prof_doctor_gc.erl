%% @private A process that spends its time on collections: churn.
%%
%% == False alarms ==
%% Many small heaps collect often, and healthily, for up to a quarter of their time (lists that are
%% made, sorted and left): a share is one where it is above `share' with 95 %
%% certainty (Wilson's interval), and where the process costs the node `of_cpu' of a CPU for it. One
%% that was sampled a few times may have been met in its collections each time: `seen'.
-module(flame_prof_doctor_gc).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0, unseen/2]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

-define(CERTAIN, 1.96).

kind() -> gc.

needs() -> [samples].

%% Those make the garbage, or keep it.
explained_by() -> [long_gc, append, copies, formatting, mailbox, selective_receive].

thresholds() ->
    [
        {share, 0.33, <<"share of its time on a CPU in collections">>},
        {of_cpu, 0.1, <<"share of a CPU in collections">>},
        {seen, 20, <<"least number of samples in a collection">>}
    ].

find(#{samples := #{mode := processes, processes := Processes} = Samples}, Limits) ->
    [finding(Process, Samples) || Process <- Processes, is_churn(Process, Limits)];
find(_, _) ->
    [].

unseen(Evidence, _) -> flame_prof_doctor_rule:portable(Evidence).

is_churn(#{observations := All, gc := Gc} = Process, Limits) ->
    #{share := Share, of_cpu := OfCpu, seen := Seen} = Limits,
    Gc >= Seen andalso Gc >= OfCpu * All andalso
        at_least(Gc, flame_prof_doctor_samples:on_cpu(Process)) > Share.

at_least(Some, All) ->
    Square = ?CERTAIN * ?CERTAIN,
    Part = Some / All,
    Spread = ?CERTAIN * math:sqrt(Part * (1 - Part) / All + Square / (4 * All * All)),
    (Part + Square / (2 * All) - Spread) / (1 + Square / All).

cause({hibernate, Part}, _) ->
    ["For ", share(Part), " of that it hibernates, which collects all of its heap each time: hibernate "
        "after a pause (hibernate_after), not after each message."];
cause({asked, Part}, Function) ->
    [share(Part), " of that are collections that erlang:garbage_collect has asked for",
        [[", in ", Function] || Function =/= <<>>], ": it makes little garbage."];
cause(made, <<>>) -> "";
cause(made, Function) -> ["The garbage is made in ", Function, "."].

finding(#{gc := Gc, observations := All} = Process, Samples) ->
    OnCpu = flame_prof_doctor_samples:on_cpu(Process),
    Function = flame_prof_doctor_stacks:function(
        flame_prof_doctor_samples:busy(Samples, Process)),
    #{first_us := FromUs, last_us := ToUs, memory_range := {_, _, Most, _}} = Process,
    Asked = flame_prof_doctor_asked:collections(Process, Samples),
    flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => warning,
        size => Gc / All,
        title => ["collects garbage for ", share(Gc / OnCpu), " of its time on a CPU", case Asked of
            {hibernate, _} -> ", as it hibernates";
            _ -> ""
        end],
        sentences => [
            ["It collects for ", share(Gc / All), " of ",
                flame_prof_doctor_samples:time(Process), ", with up to ",
                flame_prof_doctor_rule:bytes(Most), " of memory."],
            cause(Asked, Function),
            ["Seen in ", number(Gc), " of ", number(OnCpu), " samples on a CPU."]
        ],
        command => "flame_prof allocations NODE",
        numbers => #{collecting => Gc, on_cpu => OnCpu, observations => All, memory => Most,
            share => Gc / OnCpu, of_time => Gc / All, asked => flame_prof_doctor_asked:part(Asked)},
        function => Function,
        range => {FromUs, ToUs},
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    }).
