%% @private The limits of a node, and how much of each is in use: what the VM counts, and what the
%% kernel allows its OS process. Asked by OTP's functions only, before anything of flame_prof is
%% there. A limit that is not known, or is none, is left out.
-module(flame_prof_limits).

-export([of_node/1, by/1]).
-export([of_vm/1, of_files/1]).

-export_type([limit/0, resource/0, asking/0]).

-type resource() ::
    atoms
    | processes
    | ports
    | files
    | heap
    | heap_with_binaries
    | control_group
    | machine
    | address_space
    | data
    | super_carrier
    | literals.
%% `files': descriptors. Then memory: `heap' is that of one process, in words, and `data' what
%% `ulimit -d' counts; `literals' is the area in which modules have their constants.

-type limit() :: {resource(), Used :: non_neg_integer(), Limit :: pos_integer()}.

-type calls() :: [{fun((...) -> term()), [term()]}].
-type asking() :: fun((calls(), Ms :: pos_integer()) ->
    {ok, [term()]} | late | {error, flame_prof:reason()}).

-define(CALL_MS, 15000).
%% Files of /proc take less than a millisecond.
-define(ENOUGH_DESCRIPTORS, 64).
-define(FILES_MS, 3000).
-define(KB, 1024).

%% @doc Three small requests, or four. A node whose dirty I/O schedulers are all taken reads no
%% file in time: then the limits of the VM are known alone.
-spec of_node(node()) -> {ok | late, [limit()]} | {error, flame_prof:reason()}.
of_node(Node) ->
    by(fun(Calls, Ms) -> flame_prof_remote:in_time(Node, Calls, Ms) end).

%% @doc Asked in this way: what the functions answer there, in time.
-spec by(asking()) -> {ok | late, [limit()]} | {error, flame_prof:reason()}.
by(Ask) ->
    case Ask([{fun erlang:system_info/1, [Item]} || Item <- items()], ?CALL_MS) of
        {ok, Answers} ->
            Vm = of_vm(lists:zip(items(), Answers)),
            case with_files(Ask) of
                {error, _} = Error -> Error;
                late -> {late, Vm};
                Files -> {ok, Vm ++ Files}
            end;
        late ->
            {error, {timeout, #{ms => ?CALL_MS}}};
        {error, _} = Error ->
            Error
    end.

items() ->
    [
        atom_count,
        atom_limit,
        process_count,
        process_limit,
        port_count,
        port_limit,
        max_heap_size,
        {allocator, erts_mmap}
    ].

%% @doc By what erlang:system_info/1 answers for each of items/0.
-spec of_vm([{term(), term()}]) -> [limit()].
of_vm(Answers) ->
    Of = fun(Item) -> proplists:get_value(Item, Answers) end,
    [
        {atoms, Of(atom_count), Of(atom_limit)},
        {processes, Of(process_count), Of(process_limit)},
        {ports, Of(port_count), Of(port_limit)}
        | heap(Of(max_heap_size)) ++ carriers(Of({allocator, erts_mmap}))
    ].

%% Each process has it that does not set its own.
heap(#{size := Words, kill := true, include_shared_binaries := true}) when Words > 0 ->
    [{heap_with_binaries, 0, Words}];
heap(#{size := Words, kill := true}) when Words > 0 ->
    [{heap, 0, Words}];
heap(_) ->
    [].

%% Resources with a size and a limit.
carriers(Areas) when is_list(Areas) ->
    [
        {Resource, Used, Total}
     || {Area, Resource} <- [{default_mmap, super_carrier}, {literal_mmap, literals}],
        {_, Facts} <- [lists:keyfind(Area, 1, Areas)],
        proplists:get_value(sco, proplists:get_value(options, Facts, [])) =:= true,
        Sizes <- [proplists:get_value(sizes, proplists:get_value(supercarrier, Facts, []), [])],
        {total, Total} <- [lists:keyfind(total, 1, Sizes)],
        {used, Used} <- [lists:keyfind(used, 1, Sizes)]
    ];
carriers(_) ->
    [].

%% Files.

with_files(Ask) ->
    case Ask([{fun prim_file:read_file/1, [File]} || File <- files()], ?FILES_MS) of
        {ok, Texts} ->
            Found = maps:from_list([{File, Text}
                || {File, {ok, Text}} <- lists:zip(files(), Texts)]),
            with_descriptors(Ask, Found, no_descriptor(Texts) orelse descriptors(Ask, Found));
        late ->
            late;
        {error, _} = Error ->
            Error
    end.

with_descriptors(_Ask, _Found, late) ->
    late;
with_descriptors(_Ask, _Found, {request, Error}) ->
    Error;
with_descriptors(Ask, Found, Descriptors) ->
    case Descriptors =:= true orelse no_descriptor([Descriptors]) of
        true -> all_taken(Ask([{fun erlang:system_info/1, [check_io]}], ?CALL_MS));
        false -> with_groups(of_files(Found#{descriptors => Descriptors}), groups(Ask, Found))
    end.

%% By the size of their table if that leaves enough: a list of all of them is large in a node with
%% a million sockets.
descriptors(Ask, Found) ->
    Number = fun(Pattern, File) -> number(Pattern, maps:get(File, Found, <<>>)) end,
    case {Number("^Max open files\\s+([0-9]+)\\s", "/proc/self/limits"),
        Number("^FDSize:\\s*([0-9]+)", "/proc/self/status")} of
        {[Most], [Size]} when Most - Size >= ?ENOUGH_DESCRIPTORS ->
            {slots, Size};
        _ ->
            case Ask([{fun prim_file:list_dir/1, ["/proc/self/fd"]}], ?FILES_MS) of
                {ok, [Answer]} -> Answer;
                late -> late;
                {error, _} = Error -> {request, Error}
            end
    end.

with_groups(_OfFiles, {error, _} = Error) -> Error;
with_groups(OfFiles, Groups) -> OfFiles ++ Groups.

files() ->
    ["/proc/self/limits", "/proc/self/status", "/proc/meminfo", "/proc/self/mountinfo",
        "/proc/self/cgroup"].

%% The error is the evidence: nothing can be read then.
no_descriptor(Answers) ->
    lists:any(fun(Answer) -> Answer =:= {error, emfile} orelse Answer =:= {error, enfile} end,
        Answers).

%% The limits of the VM at its start.
all_taken({ok, [Polls]}) ->
    case [Most || Poll <- Polls, {max_fds, Most} <- Poll, is_integer(Most), Most > 0] of
        [] -> [{files, 1, 1}];
        All -> [{files, lists:max(All), lists:max(All)}]
    end;
all_taken(late) ->
    [{files, 1, 1}];
all_taken({error, _} = Error) ->
    Error.

%% @doc By the texts of files of /proc, and what list_dir answered for the descriptors, or the size
%% of their table, which is as many or more.
-spec of_files(#{string() => binary(),
    descriptors := {slots, pos_integer()} | {ok, [string()]} | {error, term()}}) -> [limit()].
of_files(#{descriptors := Descriptors} = Found) ->
    [Limits, Status, Machine] = [maps:get(File, Found, <<>>) || File <- lists:sublist(files(), 3)],
    Kilobytes = fun(Text, Name) ->
        [?KB * N || N <- number(["^", Name, ":\\s*([0-9]+) kB"], Text)]
    end,
    Allowed = fun(Name) -> number(["^", Name, "\\s+([0-9]+)\\s"], Limits) end,
    %% One of them is that by which they were counted.
    [{files, length(Names) - 1, Most} || {ok, Names} <- [Descriptors],
        Most <- Allowed("Max open files")] ++
        [{files, Size, Most} || {slots, Size} <- [Descriptors],
            Most <- Allowed("Max open files")] ++
        [{address_space, Used, Most} || Most <- Allowed("Max address space"),
            Used <- Kilobytes(Status, "VmSize")] ++
        [{data, Used, Most} || Most <- Allowed("Max data size"),
            Used <- Kilobytes(Status, "VmData")] ++
        [{machine, Total - Available, Total} || Total <- Kilobytes(Machine, "MemTotal"),
            Available <- Kilobytes(Machine, "MemAvailable")].

number(Pattern, Text) ->
    case re:run(Text, Pattern, [multiline, {capture, all_but_first, binary}]) of
        {match, [Digits]} -> [binary_to_integer(Digits)];
        nomatch -> []
    end.

%% That with the least room.
groups(Ask, #{"/proc/self/mountinfo" := Mounts, "/proc/self/cgroup" := Groups}) ->
    Files = flame_prof_cgroup:memory_files(Mounts, Groups),
    Calls = [{fun prim_file:read_file/1, [File]} || {_, Names} <- Files, File <- Names],
    case Ask(Calls, ?FILES_MS) of
        {ok, Answers} -> least(Files, [text(Answer) || Answer <- Answers]);
        late -> [];
        {error, _} = Error -> Error
    end;
groups(_Ask, _Found) ->
    [].

text({ok, Text}) -> Text;
text({error, _}) -> <<>>.

least(Files, Texts) ->
    Rooms = lists:sort([{Limit - Used, Used, Limit} || {Used, Limit} <- of_groups(Files, Texts)]),
    [{control_group, Used, Limit} || {_, Used, Limit} <- lists:sublist(Rooms, 1)].

of_groups([], []) ->
    [];
of_groups([{Version, Names} | Files], Texts) ->
    {Own, Others} = lists:split(length(Names), Texts),
    case flame_prof_cgroup:memory(Version, Own) of
        none -> of_groups(Files, Others);
        Room -> [Room | of_groups(Files, Others)]
    end.
