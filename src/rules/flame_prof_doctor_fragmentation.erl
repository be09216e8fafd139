%% @private `fragmentation': an allocator keeps much more memory than is in use. The system cannot
%% have it back.
%%
%% == False alarms ==
%% After a burst an allocator has free memory for a while; heaps come and go. Told is what is unused
%% at the first and at the last look, both the larger part and much, also of what the node has in
%% memory: the least of both counts. It is a note, as nothing fails by it where memory is enough.
-module(flame_prof_doctor_fragmentation).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [bytes/1, seconds/1, share/1]).

-spec kind() -> flame_prof_doctor_rule:kind().
kind() -> fragmentation.

-spec needs() -> [flame_prof_doctor_rule:needs(), ...].
needs() -> [memory].

-spec thresholds() -> [flame_prof_doctor_rule:threshold()].
thresholds() ->
    [
        {share, 0.5, <<"part of an allocator's memory that is not in use">>},
        {bytes, 134217728, <<"bytes of it">>},
        {of_node, 0.25, <<"part of the node's resident memory">>}
    ].

-spec find(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) ->
    [flame_prof_doctor_rule:finding()].
find(#{memory := {#{allocators := First}, #{allocators := Last} = Memory}, span_us := Us},
    Thresholds) ->
    Before = sums(First),
    Least = least(Memory, Thresholds),
    [
        finding(Name, Carriers, Blocks, Memory, Us)
     || {Name, {Carriers, Blocks}} <- maps:to_list(sums(Last)),
        {WasCarriers, WasBlocks} <- [maps:get(Name, Before, {0, 0})],
        is_unused(Carriers, Blocks, Least, Thresholds),
        is_unused(WasCarriers, WasBlocks, Least, Thresholds)
    ];
find(_, _) ->
    {unseen, <<"the allocators are not known: that needs the native engine">>}.

sums(Instances) ->
    lists:foldl(
        fun(#{allocator := Name, carriers_bytes := Carriers, blocks_bytes := Blocks}, Sums) ->
            {C, B} = maps:get(Name, Sums, {0, 0}),
            Sums#{Name => {C + Carriers, B + Blocks}}
        end,
        #{},
        Instances
    ).

least(#{process := #{rss := Rss}}, #{bytes := Bytes, of_node := Part}) -> max(Bytes, Part * Rss);
least(_, #{bytes := Bytes}) -> Bytes.

is_unused(Carriers, Blocks, Least, #{share := Share}) ->
    Unused = Carriers - Blocks,
    Unused >= Least andalso Unused >= Share * Carriers.

finding(Name, Carriers, Blocks, Memory, Us) ->
    Unused = Carriers - Blocks,
    Rss = [{rss, Bytes} || #{process := #{rss := Bytes}} <- [Memory]],
    #{
        kind => fragmentation,
        severity => note,
        size => Unused,
        title => io_lib:format("~ts has ~ts that nothing uses", [Name, bytes(Unused)]),
        sentences => [
            io_lib:format("Its carriers take ~ts, and ~ts of that is not in use (~ts).",
                [bytes(Carriers), share(Unused / Carriers), bytes(Unused)])
        ] ++ [io_lib:format("The node has ~ts of resident memory.", [bytes(Bytes)])
            || {_, Bytes} <- Rss] ++
            [["Seen at the first look and at the last, ", seconds(Us), " apart."]],
        command => "flame_prof memory NODE",
        processes => [],
        numbers => maps:merge(maps:from_list(Rss), #{allocator => Name, span_us => Us,
            carriers_bytes => Carriers, blocks_bytes => Blocks, unused_bytes => Unused,
            share => Unused / Carriers})
    }.
