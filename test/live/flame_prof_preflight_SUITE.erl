%% Nodes that are short of something: they are refused before anything is sent, in words, and live
%% on. And what each command takes of a node that is short of nothing: less than the table has.
-module(flame_prof_preflight_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, a_node_that_is_short_of_something_is_refused_in_words/1,
    a_node_whose_last_process_is_the_connections_is_refused_in_words/1,
    little_memory_in_the_control_group_is_refused_in_words/1,
    a_full_super_carrier_is_refused_in_words/1, with_less_the_portable_engine_does/1,
    just_what_is_needed_is_enough/1, looks_take_less_than_the_table_has/1,
    the_other_commands_take_less_than_the_table_has/1,
    the_doctor_and_attach_take_less_than_the_table_has/1, without_the_library_less_is_taken/1]).

-import(command_line, [call/4, settled/1, traces/1, until/1]).

-define(MIB, 1048576).
%% What the connection of a command that has just ended still has.
-define(LINGERING, 4).

suite() -> [{timetrap, {minutes, 2}}].
all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

%% One shortage after the other, atoms last, as they do not come back. A whole refusal is asked for
%% each time: the text of the doctor, its status, and what of a look that is refused as well.
a_node_that_is_short_of_something_is_refused_in_words(_) ->
    #{node := Node, pid := Pid} = Given = start("ulimit -n 64;",
        ["+t", "16384", "+P", "1024", "+Q", "1024"]),
    %% What a first request leaves: the code of OTP that it runs.
    {10, Json} = json(Given, held(Node, processes, [13])),
    {match, _} = re:run(Json, "\"severity\":\"critical\".*\"title\":\"the node has 1[0-9] of "),
    Before = settled(Given),
    Atoms = call(Node, erlang, system_info, [atom_count]),
    Sentences = [refused(Given, limit, "1[0-9] of 1,024 processes free .*needs [0-9,]+",
            held(Node, processes, [14])),
        refused(Given, limit, "[0-9] of 1,024 ports free .*needs [0-9]+", held(Node, ports, [6])),
        refused(Given, limit, "[1-9] of 64 file descriptors free .*needs [0-9]+",
            held(Node, files, [5])),
        refused(Given, memory_limit, "[0-9.]+ MiB of [0-9.]+ [MG]iB address space free",
            {fun() -> shortage:limit_address_space(Pid, 20 * ?MIB) end,
                fun(ok) -> shortage:limit_address_space(Pid, infinity) end}),
        refused(Given, memory_limit, "heaps of at most 20,000 words .*needs [0-9,]+ words",
            {fun() -> call(Node, erlang, system_flag,
                [max_heap_size, #{size => 20000, kill => true, error_logger => true}]) end,
                fun(Old) -> call(Node, erlang, system_flag, [max_heap_size, Old]) end})],
    %% The name of each command's node, at most.
    ?assert(call(Node, erlang, system_info, [atom_count]) - Atoms =< 3 * (length(Sentences) + 1)),
    ok = same(Before, Given),
    Files = [
        %% The connection takes it. On 27 it stays taken for a while, to a node of 29 there is none.
        refused(Given, limit, "0 of 64 file descriptors free .*needs [0-9]+",
            held(Node, files, [1])) || is_before(27)],
    Last = Files ++ [refused(Given, limit, "[12],[0-9]+ of 16,384 atoms free .*needs [0-9,]+",
            {fun() -> call(Node, shortage, atoms, [2000]) end, fun(_) -> ok end})],
    ok = same(Before, Given),
    ct:pal("~ts", [lists:join("\n", Sentences ++ Last)]),
    command_line:stop_node(Given).

a_node_whose_last_process_is_the_connections_is_refused_in_words(_) ->
    #{node := Node} = Given = start("", ["+P", "1024"]),
    Holder = call(Node, shortage, processes, [1]),
    {Status, Text} = run(["doctor", Given]),
    ct:pal("~b ~ts", [Status, Text]),
    %% Of the node's own one may have ended.
    {10, {match, _}} = {Status, re:run(Text,
        "critical: limit: the node has (0|[0-9] of 1,024) processes free")},
    ok = call(Node, shortage, release, [Holder]),
    {0, _} = run(["mailbox", Given, "busy"]),
    command_line:stop_node(Given).

little_memory_in_the_control_group_is_refused_in_words(_) ->
    case control_group:make("preflight", 1024) of
        none -> {skip, "no control group with a memory limit can be made here"};
        Group ->
            Given = start("echo $$ > " ++ control_group:processes(Group) ++ ";", []),
            try
                ok = control_group:leave(Group, 12 * ?MIB),
                Before = settled(Given),
                ct:pal("~ts", [refused(Given, memory_limit,
                    "[0-9.]+ MiB of [0-9.]+ [MG]iB memory free in its control group",
                    {fun() -> ok end, fun(ok) -> ok end})]),
                ok = same(Before, Given),
                %% With just what each of them needs.
                #{memory := Bare} = flame_prof_preflight:needs(doctor, bare),
                ok = control_group:leave(Group, Bare + 2 * ?MIB),
                {Less, Text} = run(["doctor", Given, "--for", "1s"]),
                ?assert(lists:member(Less, [1, 10])),
                {match, _} = re:run(Text, "without the library .it has [0-9.]+ MiB of "),
                {match, _} = re:run(Text, "the portable engine"),
                ok = same(Before, Given),
                #{memory := Full} = flame_prof_preflight:needs(doctor, library),
                ok = control_group:leave(Group, Full + 2 * ?MIB),
                {Status, All} = run(["doctor", Given, "--for", "1s"]),
                ct:pal("~ts~n~ts", [Text, All]),
                %% A short look is no healthy one.
                ?assert(lists:member(Status, [0, 1, 10])),
                {match, _} = re:run(All, "the native engine"),
                ok = same(Before, Given)
            after
                command_line:stop_node(Given),
                control_group:remove(Group)
            end
    end.

a_full_super_carrier_is_refused_in_words(_) ->
    #{node := Node} = Given = start("", ["+MMscs", "128"]),
    #{carriers := Full} = flame_prof_preflight:needs(doctor, library),
    #{carriers := Bare} = flame_prof_preflight:needs(doctor, bare),
    Enough = call(Node, shortage, carriers, [Full + 2 * ?MIB]),
    {Status, Text} = run(["doctor", Given, "--for", "1s"]),
    ?assert(lists:member(Status, [0, 1, 10])),
    {match, _} = re:run(Text, "the native engine"),
    nomatch = re:run(Text, "without the library"),
    ok = call(Node, shortage, release, [Enough]),
    Holder = call(Node, shortage, carriers, [Bare div 4]),
    Before = settled(Given),
    ct:pal("~ts", [refused(Given, memory_limit,
        "[0-9.]+ MiB of 128\\.0 MiB memory free in its super carrier",
        {fun() -> ok end, fun(ok) -> ok end})]),
    ok = same(Before, Given),
    ok = call(Node, shortage, release, [Holder]),
    command_line:stop_node(Given).

%% Between what it takes with the library and what it takes without.
with_less_the_portable_engine_does(_) ->
    #{pid := Pid} = Given = start("", []),
    #{mapped := Full} = flame_prof_preflight:needs(mailbox, library),
    #{mapped := Bare} = flame_prof_preflight:needs(mailbox, bare),
    ?assert(Bare < Full),
    ok = shortage:limit_address_space(Pid, Bare + (Full - Bare) div 2),
    {0, Text} = run(["mailbox", Given, "busy"]),
    {match, _} = re:run(Text, "busy"),
    {1, Refused} = run(["xray", Given, "busy"]),
    {match, _} = re:run(Refused, "address space free .ulimit -v., and flame_prof xray needs "),
    command_line:stop_node(Given).

%% What is there once the first module is there is asked for by no other limit.
just_what_is_needed_is_enough(_) ->
    %% There something of the node takes more descriptors meanwhile, and attach goes on with less.
    is_before(29) andalso just_what_is_needed().

is_before(Release) -> list_to_integer(erlang:system_info(otp_release)) < Release.

just_what_is_needed() ->
    [begin
        #{atoms := Atoms, processes := Processes, ports := Ports, files := Files} =
            flame_prof_preflight:needs(Command, library),
        #{node := Node, pid := Pid} = Given =
            start("", ["+t", "16384", "+P", "1024", "+Q", "1024"]),
        _ = call(Node, shortage, processes, [Processes + ?LINGERING]),
        _ = call(Node, shortage, ports, [Ports + ?LINGERING]),
        ok = shortage:limit_files(Pid, Files + ?LINGERING),
        _ = call(Node, shortage, atoms, [Atoms + ?LINGERING]),
        {Status, Text} = run([case A of node -> Given; _ -> A end || A <- Arguments]),
        ct:pal("~b ~ts", [Status, Text]),
        ?assert(lists:member(Status, [0, 1, 10])),
        %% As each check of a limit says it, and the native engine has to.
        nomatch = re:run(Text, " free.* needs | leaves .* needs |system_limit|emfile"),
        {match, _} = re:run(Text, Wanted),
        command_line:stop_node(Given)
    end || {Command, Wanted, Arguments} <- [
        {doctor, "the native engine", ["doctor", node, "--for", "1s"]},
        {latency, "calls in", ["latency", node, "lists:sort/1", "--for", "1s"]},
        {waits, "No process waits", ["waits", node]}]].

%% The looks of one node, one after the other: atoms, which stay, are those of all of them.
looks_take_less_than_the_table_has(_) ->
    taken(mailbox, library, "", [
        ["pstack", "--node", node], ["memory", node], ["tables", node], ["mailbox", node, "busy"],
        ["xray", node, "busy"], ["binaries", node, "--time-limit", "1s"], ["waits", node]]).

the_other_commands_take_less_than_the_table_has(_) ->
    taken(top, library, "", [
        ["top", "--count", "1", "--node", node], ["latency", node, "lists:sort/1", "--for", "1s"],
        ["allocations", node, "--for", "1s"], ["trace", node, "lists:sort/1", "--events", "1"]]).

the_doctor_and_attach_take_less_than_the_table_has(Config) ->
    taken(doctor, library, "", [["doctor", node, "--for", "1s"],
        ["attach", node, "--for", "2s", "--output", ?config(priv_dir, Config)]]).

%% No folder takes a file.
without_the_library_less_is_taken(Config) ->
    taken(doctor, bare, "trap '' XFSZ; ulimit -f 0;", [["doctor", node, "--for", "1s"],
        ["attach", node, "--for", "1s", "--output", ?config(priv_dir, Config)]]).

%% ------------------------------------------------------------------ what is taken --

%% Processes, ports and descriptors come back: no more of them are free than the table has. Atoms
%% and memory are counted. With a node that is always busy no heap may be larger, too.
taken(Command, Library, Limits, Commands) ->
    Needs = flame_prof_preflight:needs(Command, Library),
    #{atoms := Atoms, processes := Processes, ports := Ports, files := Files, memory := Memory,
        mapped := Mapped, literals := Literals, heap := Heap} = Needs,
    #{node := Node, pid := Pid} = Given = start(Limits, ["+P", "1024", "+Q", "1024"]),
    _ = call(Node, shortage, processes, [Processes + ?LINGERING]),
    _ = call(Node, shortage, ports, [Ports + ?LINGERING]),
    ok = shortage:limit_files(Pid, Files + ?LINGERING),
    _ = call(Node, erlang, system_flag, [max_heap_size, #{size => Heap, kill => true}]),
    First = counts(Given),
    ok = file:write_file("/proc/" ++ Pid ++ "/clear_refs", "5"),
    Counts = fun() -> [call(Node, erlang, system_info, [Count])
        || Count <- [process_count, port_count]] end,
    Idle = Counts(),
    Answers = [begin
        until(fun() -> lists:all(fun({Now, Was}) -> Now =< Was + 1 end,
            lists:zip(Counts(), Idle)) end),
        {Arguments, run([case A of node -> Given; _ -> A end || A <- Arguments])}
    end || Arguments <- Commands],
    #{atoms := A, literals := L} = maps:map(fun(Key, Was) -> maps:get(Key, counts(Given)) - Was end,
        First),
    Rss = shortage:number(Pid, "status", "VmHWM") - maps:get(rss, First),
    Vm = shortage:number(Pid, "status", "VmPeak") - maps:get(size, First),
    ct:pal("~ts, ~ts: ~b of ~b atoms, ~b of ~b bytes resident, ~b of ~b mapped, ~b of ~b for "
        "literals~n~p",
        [Command, Library, A, Atoms, Rss, Memory, Vm, Mapped, L, Literals, Answers]),
    [?assert(lists:member(Status, [0, 10] ++ [1 || hd(Arguments) =:= "doctor"]))
        || {Arguments, {Status, _}} <- Answers],
    [?assertMatch({_, nomatch}, {Text, re:run(Text, "system_limit|enomem|emfile|killed")})
        || {_, {_, Text}} <- Answers],
    [?assertEqual({Text, Library}, {Text, case re:run(Text, "without the library") of
        {match, _} -> bare;
        nomatch -> library
    end}) || {_, {_, Text}} <- Answers],
    ?assert(A < Atoms),
    ?assert(Rss < Memory),
    ?assert(Vm < Mapped),
    ?assert(L < Literals),
    command_line:stop_node(Given).

counts(#{node := Node, pid := Pid}) ->
    Limits = call(Node, shortage, literals, []),
    #{atoms => call(Node, erlang, system_info, [atom_count]), literals => Limits,
        rss => shortage:number(Pid, "status", "VmRSS"),
        size => shortage:number(Pid, "status", "VmSize")}.

start(Commands, Args) ->
    Paths = ["-pa", filename:absname(filename:dirname(code:which(shortage)))],
    Given = #{node := Node} = command_line:start_limited_node(Commands, Args ++ Paths),
    {module, shortage} = call(Node, code, ensure_loaded, [shortage]),
    Given.

run(Arguments) ->
    {Status, Text} = shared_nodes:run([case A of #{name := Name} -> Name; _ -> A end
        || A <- Arguments] ++ ["--cookie", command_line:cookie()]),
    {Status, unicode:characters_to_list(Text)}.

held(Node, What, Args) ->
    {fun() -> call(Node, shortage, What, Args) end,
        fun(Holder) -> call(Node, shortage, release, [Holder]) end}.

json(Given, {Take, Give}) ->
    Taken = Take(),
    Answer = run(["doctor", Given, "--json"]),
    _ = Give(Taken),
    Answer.

%% What the doctor prints, and that a look is refused with the sentence.
refused(#{node := Node} = Given, Kind, Pattern, {Take, Give}) ->
    Taken = Take(),
    {Status, Text} = run(["doctor", Given]),
    {Refused, Look} = run(["mailbox", Given, "busy"]),
    _ = Give(Taken),
    true = is_pid(call(Node, erlang, whereis, [busy])),
    ct:pal("~b ~ts~n~b ~ts", [Status, Text, Refused, Look]),
    ?assertEqual({10, 1}, {Status, Refused}),
    {match, _} = re:run(Text, ["^1\\. critical: ", atom_to_list(Kind), ": the node (has|allows) ",
        Pattern], [multiline]),
    {match, _} = re:run(Look, Pattern),
    {match, [Sentence]} = re:run(Text, "^1\\. .*$", [multiline, {capture, first, list}]),
    Sentence.

same(Before, Given) ->
    Keys = [modules, old, registered, tables, environment, applications, descriptors, mappings,
        files],
    command_line:leaves_nothing(Keys, Given, Before).
