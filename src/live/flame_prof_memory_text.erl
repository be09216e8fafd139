%% @private Where the memory of a node is, as text. {@link flame_prof_memory} has the shapes.
-module(flame_prof_memory_text).

-export([format/1]).

-import(flame_prof_text, [grouped/1, percent/1, right/2, pad/2, bytes/1]).

%% In this order; a kind of no bytes has no line.
-define(KINDS, [
    {carriers, "carriers: memory of the VM's allocators"},
    {cached, "free carriers that the VM keeps"},
    {malloc, "malloc: C code, and memory outside of the allocators"},
    {code, "machine code of the JIT"},
    {executable, "the VM's executable"},
    {files, "libraries and other mapped files"},
    {stacks, "stacks of threads"},
    {other, "not explained"}
]).

%% `erlang:memory/0'. The others are parts of these.
-define(VM, [processes, binary, ets, code, atom, system, total]).

-spec format(flame_prof_memory:memory()) -> unicode:chardata().
format(#{process := Process, unknown := Unknown} = Memory) ->
    [
        rss(Process, Memory),
        [["not known: ", Why, "\n"] || Why <- Unknown],
        [kinds(Kinds) || #{explained := Kinds} <- [Memory]],
        [allocators(Instances, Off) || #{allocators := Instances, off := Off} <- [Memory]],
        [super_carrier(Super) || #{super_carrier := Super} <- [Memory]],
        [vm(Vm) || #{vm := Vm} <- [Memory]],
        [next() || #{allocators := _} <- [Memory]]
    ].

next() ->
    "\nMore: top --by memory and xray for eheap_alloc, binaries for binary_alloc, tables for\n"
    "ets_alloc. Unused memory often comes from a burst that has passed.\n".

rss(#{rss := Rss} = Process, Memory) ->
    [
        ["RSS ", bytes(Rss), " bytes"],
        [[", ", share(Sum - Other, Sum), " explained"]
         || #{explained := #{other := Other} = Kinds} <- [Memory], Sum <- [sum(Kinds)]],
        [["; peak ", bytes(Peak)] || #{peak := Peak} <- [Process]],
        [["; swapped out ", bytes(Swapped)] || #{swapped := Swapped} <- [Process], Swapped > 0],
        [["; page faults ", grouped(Minor), ", of which ", grouped(Major), " waited for a disk"]
         || #{minor_faults := Minor, major_faults := Major} <- [Process]],
        "\n"
    ];
rss(_, _) ->
    "RSS not known: no /proc/self/status\n".

sum(Kinds) -> lists:sum([maps:get(Kind, Kinds, 0) || {Kind, _} <- ?KINDS]).

share(Part, All) -> string:trim(percent(100 * Part / max(1, All))).

kinds(Kinds) ->
    Sum = sum(Kinds),
    [
        "\n"
        | [
            [percent(100 * Bytes / max(1, Sum)), right(bytes(Bytes), 8), "  ", Text, "\n"]
         || {Kind, Text} <- ?KINDS, Bytes <- [maps:get(Kind, Kinds, 0)], Bytes > 0
        ]
    ].

allocators(Instances, Off) ->
    Rows = flame_prof_memory:by_allocator(Instances),
    Of = fun(Key) -> lists:sum([maps:get(Key, Row) || Row <- Rows]) end,
    Keys = [carriers, carriers_bytes, blocks, blocks_bytes, pool_bytes],
    Sum = maps:from_list([{Key, Of(Key)} || Key <- Keys]),
    Unused = 1 - Of(blocks_bytes) / max(1, Of(carriers_bytes)),
    Largest = [Bytes || #{largest_free := Bytes} <- Rows],
    All = Sum#{allocator => all, fragmentation => Unused, largest_free => lists:max([0 | Largest])},
    [
        ["\n", pad("Allocator", 14), right("allocated", 11), right("used", 9), right("unused", 9),
            right("carriers", 11), right("blocks", 13), right("in pool", 9),
            right("largest free", 14), "\n"],
        [allocator(Row) || Row <- Rows ++ [All]],
        [["off by +M flags, malloc has their memory: ",
            lists:join(", ", [atom_to_list(Name) || Name <- Off]), "\n"] || Off =/= []]
    ].

allocator(#{allocator := Name, carriers := Carriers, carriers_bytes := Allocated, blocks := Blocks,
    blocks_bytes := Used, pool_bytes := Pool, fragmentation := Fragmentation} = Row) ->
    [
        pad(atom_to_list(Name), 14),
        right(bytes(Allocated), 11),
        right(bytes(Used), 9),
        right(string:trim(percent(100 * Fragmentation)), 9),
        right(grouped(Carriers), 11),
        right(grouped(Blocks), 13),
        right(bytes(Pool), 9),
        right(largest_free(Row), 14),
        "\n"
    ].

%% Some strategies do not keep it.
largest_free(#{largest_free := Bytes}) -> bytes(Bytes);
largest_free(#{}) -> "-".

super_carrier(#{bytes := Bytes, used_bytes := Used}) ->
    [
        "super carrier (+MMscs): ", bytes(Bytes), ", ", bytes(Used), " used, ",
        share(Bytes - Used, Bytes), " unused\n"
    ].

vm(Vm) ->
    [
        ["\nerlang:memory()\n"],
        [[right(bytes(Bytes), 15), "  ", atom_to_list(Kind), "\n"]
         || Kind <- ?VM, {ok, Bytes} <- [maps:find(Kind, Vm)]]
    ].
