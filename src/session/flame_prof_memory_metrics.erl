%% @private The node's memory for {@link flame_prof_metrics}: what the kernel says of the OS
%% process, and what the allocators have where a session or a look at the memory has found their
%% counters before. Nobody is asked. Labels are names of allocators, kinds and calls: few.
-module(flame_prof_memory_metrics).

-export([all/0]).

-spec all() -> iodata().
all() ->
    Process = flame_prof_memory:process(),
    Limit = [{limit, Bytes} || {ok, Bytes} <- [flame_prof_cgroup:memory_limit()]],
    [of_process(maps:merge(Process, maps:from_list(Limit))),
        [of_sums(Sums) || {ok, Sums} <- [flame_prof_allocators:known_sums()]]].

of_process(Process) ->
    Plain = [
        {rss, "rss_bytes", "Resident memory of the OS process."},
        {anonymous, "rss_anonymous_bytes", "Anonymous resident memory."},
        {files, "rss_files_bytes", "Resident memory of mapped files."},
        {limit, "memory_limit_bytes", "Memory limit of the control group."}
    ],
    Faults = [{[{kind, Kind}], N} || {Key, Kind} <- [{minor_faults, minor}, {major_faults, major}],
        #{Key := N} <- [Process]],
    [
        [gauge(Name, Help, [{[], Bytes}])
         || {Key, Name, Help} <- Plain, #{Key := Bytes} <- [Process]],
        counter("page_faults_total", "Page faults; major ones read from a disk.", Faults)
    ].

of_sums(#{allocators := Allocators, taken := Taken, given_back := GivenBack} = Sums) ->
    #{super_carrier := Super} = Sums,
    [
        gauge("allocator_carriers_bytes", "Memory that the allocator took from the system.",
            of_each(2, Allocators)),
        gauge("allocator_blocks_bytes", "Memory of the allocator that is in use.",
            of_each(3, Allocators)),
        gauge("allocator_single_block_carriers_bytes", "Carriers with one block.",
            of_each(4, Allocators)),
        gauge("allocator_pool_bytes", "Carriers that no scheduler uses at present.",
            of_each(5, Allocators)),
        gauge("allocator_largest_free_bytes", "The largest free block, if its strategy keeps it.",
            of_each(6, Allocators)),
        gauge("allocator_mseg_bytes", "Carriers that the VM mapped.",
            of_each(7, Allocators)),
        gauge("allocator_sys_bytes", "Carriers from malloc.", of_each(8, Allocators)),
        gauge("allocator_single_block_blocks_bytes", "Memory in use in carriers with one block.",
            of_each(9, Allocators)),
        counter("carriers_total", "Calls that took a carrier from the system or gave it back.",
            [{[{call, taken}], Taken}, {[{call, given_back}], GivenBack}]),
        gauge("super_carrier_bytes", "The super carrier.",
            [{[{part, Part}], Bytes} || {Size, Used} <- [Super],
                {Part, Bytes} <- [{size, Size}, {used, Used}]]),
        gauge("memory_bytes", "Memory by kind, as erlang:memory/0 has it.",
            [{[{kind, Kind}], Bytes}
                || {Kind, Bytes} <- lists:sort(maps:to_list(flame_prof_node_memory:kinds(Sums)))])
    ].

of_each(N, Allocators) ->
    [{[{allocator, element(1, A)}], element(N, A)} || A <- Allocators, element(N, A) =/= none].

gauge(Name, Help, Values) -> metric(Name, gauge, Help, Values).

counter(Name, Help, Values) -> metric(Name, counter, Help, Values).

metric(_, _, _, []) -> [];
metric(Name, Type, Help, Values) -> flame_prof_metrics:metric(Name, Type, Help, Values).
