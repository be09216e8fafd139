%% A file of a session that tells of the memory of the node, with a known truth: a burst of binaries
%% comes and goes, its carriers stay, and RSS comes near the limit.
%%
%% It shares nothing with the writer, the reader or the page: what they should show is in the story.
-module(made_memory).

-export([story/0, write/1]).

-export_type([reading/0]).

-type reading() :: #{at_us := non_neg_integer(), figures := [{Name :: string(), integer()}]}.

-define(START_US, 1795237782100001).
-define(MIB, 1048576).

%% @doc A reading a second for twelve seconds. `eheap' tells no largest free block.
-spec story() -> [reading(), ...].
story() -> [#{at_us => 1000000 * I, figures => figures(I)} || I <- lists:seq(0, 12)].

figures(I) ->
    %% In MiB: the burst is used from second 3 to 7, and what was allocated for it stays.
    Used = if I >= 3, I =< 7 -> 40 * (I - 2); true -> 8 end,
    Binary = lists:max([10 | [40 * (min(I, 7) - 2) + 4 || I >= 3]]),
    Taken = lists:min([max(0, I - 2), 5]),
    GivenBack = if I >= 11 -> 2; true -> 0 end,
    Rss = 120 + Binary,
    in_bytes([{"node_alloc_binary_carriers", Binary}, {"node_alloc_binary_blocks", Used},
        {"node_alloc_binary_sbc_carriers", 0}, {"node_alloc_binary_pool", I},
        {"node_alloc_binary_largest_free", Binary - Used},
        {"node_alloc_binary_mseg", Binary - I - 1}, {"node_alloc_binary_sys", 1},
        {"node_alloc_eheap_carriers", 60}, {"node_alloc_eheap_blocks", 50 - I},
        {"node_alloc_eheap_sbc_carriers", 4}, {"node_alloc_eheap_pool", 0},
        {"node_alloc_ets_carriers", 20}, {"node_alloc_ets_blocks", 15},
        {"node_alloc_ets_sbc_carriers", 1}, {"node_alloc_ets_pool", 2},
        {"node_alloc_ets_largest_free", 3},
        {"node_allocator_carriers", Binary + 80}, {"node_allocator_blocks", Used + 65 - I},
        {"node_rss", Rss}, {"node_rss_anonymous", Rss - 20}, {"node_rss_files", 20},
        {"node_rss_limit", 400},
        {"node_memory_total", Used + 100}, {"node_memory_processes", 50 - I},
        {"node_memory_binary", Used}, {"node_memory_ets", 15}, {"node_memory_code", 20},
        {"node_memory_atom", 1}
    ]) ++ [{"node_carriers_taken", 100 + Taken}, {"node_carriers_given_back", 10 + GivenBack},
        {"node_page_faults", 1000 * I}, {"node_major_faults", 0}].

in_bytes(Figures) -> [{Name, MiB * ?MIB} || {Name, MiB} <- Figures].

%% @doc With a process that is sampled ten times a second.
-spec write(file:name_all()) -> [reading(), ...].
write(Path) ->
    Story = story(),
    ok = file:write_file(Path, [second(Reading) || Reading <- Story]),
    Story.

second(#{at_us := At, figures := Figures}) ->
    [own(At, Figures) | [sample(At + 100000 * N) || N <- lists:seq(1, 9)]].

own(At, Figures) ->
    ["flame_prof 77/2147483647 [000] ", time(At), ": cpu-clock:\n# ticks=1/1 ",
        [[Name, "=", integer_to_list(N), "/0 "] || {Name, N} <- Figures],
        "name=flame_prof engine=native node=shop@host otp=27 (metrics)\n"
        "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"].

sample(At) ->
    ["beam 77/5 [001] ", time(At), ": cpu-clock:\n"
        "# reductions=5/0 memory=4096/0 message_queue_len=0/0 erl_pid=<0.5.0> name=burst (metrics)\n"
        "\tffffffff burst:loop/1:7 (burst.erl)\n\tffffffff running (status)\n\n"].

time(At) ->
    Us = ?START_US + At,
    io_lib:format("~b.~6..0b", [Us div 1000000, Us rem 1000000]).
