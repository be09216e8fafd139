%% @private `fragmentation': an allocator keeps much more memory than is in use. The system cannot
%% have it back.
%%
%% == False alarms ==
%% After a burst an allocator has free memory for a while; heaps come and go. Told is what is unused
%% at the first and at the last look, both the larger part and much: the least of both counts. It is
%% a note, as nothing fails by it where memory is enough.
-module(flame_prof_doctor_fragmentation).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [bytes/1, share/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> fragmentation.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [memory].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {share, 0.5, <<"part of an allocator's memory that is not in use">>},
        {bytes, 268435456, <<"bytes of it">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{memory := {#{allocators := First}, #{allocators := Last} = Memory}}, Thresholds) ->
    Before = sums(First),
    [
        finding(Name, Carriers, Blocks, Memory)
     || {Name, {Carriers, Blocks}} <- maps:to_list(sums(Last)),
        {WasCarriers, WasBlocks} <- [maps:get(Name, Before, {0, 0})],
        is_unused(Carriers, Blocks, Thresholds),
        is_unused(WasCarriers, WasBlocks, Thresholds)
    ];
find(_, _) ->
    [].

sums(Instances) ->
    maps:from_list([{Name, {Carriers, Blocks}}
        || #{allocator := Name, carriers_bytes := Carriers, blocks_bytes := Blocks} <-
            flame_prof_memory:by_allocator(Instances)]).

is_unused(Carriers, Blocks, #{share := Share, bytes := Bytes}) ->
    Unused = Carriers - Blocks,
    Unused >= Bytes andalso Unused >= Share * Carriers.

finding(Name, Carriers, Blocks, Memory) ->
    Unused = Carriers - Blocks,
    #{
        kind => fragmentation,
        severity => note,
        size => Unused,
        title => io_lib:format("~ts has ~ts that nothing uses", [Name, bytes(Unused)]),
        sentences => [
            io_lib:format("Its carriers take ~ts, and ~ts of that is not in use (~ts).",
                [bytes(Carriers), share(Unused / Carriers), bytes(Unused)])
        ] ++ [io_lib:format("The node has ~ts of resident memory.", [bytes(Rss)])
            || #{process := #{rss := Rss}} <- [Memory]] ++
            ["Seen at the first and at the last look."],
        command => "flame_prof memory NODE",
        processes => [],
        numbers => #{allocator => Name, carriers_bytes => Carriers, blocks_bytes => Blocks}
    }.
