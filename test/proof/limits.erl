%% Nodes at their limits: generated combinations of limits, under which sessions and looks start.
%%
%% A combination starts a node of plain Erlang, sets its limits, runs functions of flame_prof in it
%% (`local') or the command on it (`outside'), lifts what can be lifted, and runs again what was
%% refused. limits_inside runs in the node. What is judged:
%%
%% <ul>
%% <li>`death': the node ended, and lives without flame_prof under the same limits</li>
%% <li>`hang', `killed', `raised': no answer; its caller was killed; an exception is no answer</li>
%% <li>`internal', `raw': the reason is an internal error, or has a term</li>
%% <li>`unsaid': the reason is not in the sentence</li>
%% <li>`report': the node's log has a crash report of a process of flame_prof</li>
%% <li>`lockout': refused although the limits are lifted</li>
%% <li>`left': processes, threads, tables, ports or descriptors of flame_prof stay</li>
%% </ul>
%%
%% doc/dev/limits.md has the command.
-module(limits).

-export([main/0, run/3, combination/2, sentence/1]).

-define(BOOT_MS, 60000).
-define(STEP_MS, 45000).
-define(MIB, 1048576).
-define(COOKIE, "limits").

%% All of a run: SEED, COUNT, PLACES, ONLY (one combination), PLACE (local or outside), OUT.
-spec main() -> no_return().
main() ->
    [Seed, Count, Places] = [list_to_integer(os:getenv(Name)) || Name <- ["SEED", "COUNT",
        "PLACES"]],
    Out = os:getenv("OUT"),
    {ok, File} = file:open(filename:join(Out, "limits.jsonl"), [write, {encoding, utf8}]),
    Results = case os:getenv("ONLY", "") of
        "" -> all(Seed, Count, Places, Out, File);
        Only -> [told(combination(Seed, list_to_integer(Only)), list_to_integer(Only), Out, File)]
    end,
    ok = io:put_chars(summary(Seed, Results)),
    ok = file:write_file(filename:join(Out, "summary.txt"),
        unicode:characters_to_binary(summary(Seed, Results))),
    halt(case [R || #{violations := [_ | _]} = R <- Results] of [] -> 0; _ -> 1 end).

all(Seed, Count, Places, Out, File) ->
    Parent = self(),
    Next = fun(N) -> told(combination(Seed, N), N, Out, File) end,
    Workers = [spawn_monitor(fun() -> worker(Parent, Next) end) || _ <- lists:seq(1, Places)],
    given(1, Count, length(Workers), []).

worker(Parent, Next) ->
    Parent ! {next, self()},
    receive
        {number, N} -> Parent ! {result, Next(N)}, worker(Parent, Next);
        over -> ok
    end.

%% Combinations under which plain Erlang does not start do not count.
given(_N, _Left, 0, Results) -> Results;
given(N, Left, Workers, Results) ->
    receive
        {next, Pid} when Left > 0 -> Pid ! {number, N}, given(N + 1, Left - 1, Workers, Results);
        {next, Pid} -> Pid ! over, given(N, Left, Workers, Results);
        {result, #{outcome := skipped} = R} -> given(N, Left + 1, Workers, [R | Results]);
        {result, R} -> given(N, Left, Workers, [R | Results]);
        {'DOWN', _, process, _, normal} -> given(N, Left, Workers - 1, Results);
        {'DOWN', _, process, _, Reason} -> error({worker, Reason})
    end.

told(Combination, N, Out, File) ->
    Folder = filename:join(Out, integer_to_list(N)),
    Result = (run(Combination, N, Folder))#{n => N},
    ok = io:format(File, "~ts~n", [flame_prof_json:encode(as_json(Result))]),
    ok = io:format("~ts~n", [sentence(Result)]),
    Result.

%% Combinations.

%% The N-th of a seed. The same again with the same numbers.
-spec combination(integer(), integer()) -> map().
combination(Seed, N) ->
    _ = rand:seed(exsss, erlang:phash2({Seed, N}, 1 bsl 32)),
    Place = case os:getenv("PLACE", "") of
        "" -> one_of([local, local, outside]);
        Name -> _ = rand:uniform(), list_to_atom(Name)
    end,
    Kinds = some(rand:uniform(3), [processes, files, ports, atoms, heap, memory_group, threads,
        address_space, super_carrier, file_size, folder, temporary, library, home, flags, tables]),
    Limits = [reachable(Place, limit(Kind)) || Kind <- Kinds],
    %% Without a descriptor no code is loaded: then a node that has all of it.
    IsFull = [Free || {files, _, Free} <- Limits, Free < 4] =/= [],
    #{place => Place,
        %% A node to attach to has no flame_prof.
        code => one_of([interactive || Place =:= outside orelse not IsFull] ++
            [embedded || Place =:= local]),
        limits => Limits, steps => steps(Place, lists:member({home, none}, Limits))}.

%% On a node without a free process, or one that cannot load dist_util, a connection of any kind
%% ends net_kernel, and the VM with it.
reachable(outside, {processes, Free}) -> {processes, max(3, Free)};
reachable(outside, {files, Limit, Free}) -> {files, Limit, max(6, Free)};
reachable(_, Limit) -> Limit.

one_of(All) -> lists:nth(rand:uniform(length(All)), All).

some(0, _) -> [];
some(N, All) ->
    One = one_of(All),
    [One | some(N - 1, All -- [One])].

limit(processes) -> {processes, one_of([0, 1, 2, 3, 4, 6, 8, 12, 20, 40])};
limit(files) -> {files, one_of([40, 64, 128, 256]), one_of([0, 1, 2, 3, 4, 6, 8, 12, 20])};
limit(ports) -> {ports, one_of([0, 1, 2, 5])};
limit(atoms) -> {atoms, one_of([50, 200, 500, 1000, 2000, 4000, 8000])};
limit(heap) -> {heap, one_of([50000, 100000, 200000, 500000, 1000000]), one_of([true,
    true, false])};
limit(memory_group) -> {memory_group, one_of([4, 8, 16, 24, 32, 48, 64, 96, 128])};
limit(threads) -> {threads, one_of([0, 1, 2, 3, 4, 8])};
limit(address_space) -> {address_space, one_of([4, 8, 16, 32, 64, 96, 128, 256])};
limit(super_carrier) -> {super_carrier, one_of([40, 48, 64, 96, 128, 256])};
limit(file_size) -> {file_size, one_of([0, 1, 8, 64, 512, 4096])};
limit(folder) -> {folder, one_of([read_only, full, no_parent, is_file, noexec])};
limit(temporary) -> {temporary, one_of([read_only, full, missing, noexec])};
limit(library) -> {library, noexec};
limit(home) -> {home, none};
limit(flags) -> {flags, one_of(["+S 1:1", "+S 4:1", "+SDcpu 1:1 +SDio 1", "+A 1", "+S 1:1 +SDcpu "
    "1:1 +SDio 1", "+sss 64 +sssdcpu 40"])};
limit(tables) -> {tables, one_of([256, 1024])}.

steps(local, true) -> [start_default, profile_default, one_of(looks())];
steps(local, false) -> [{start, options()} | some(2, looks())];
steps(outside, _) -> some(2, [doctor, attach, waits, pstack, memory, latency, allocations, trace]).

looks() ->
    [profile, pstack, waits, memory, blame, doctor, top, latency, allocations, trace, xray, mailbox,
        tables, binaries].

options() ->
    one_of([#{}, #{}, #{engine => portable}, #{mode => cpu}, #{allocations => #{}},
        #{lookback => 1000, triggers => [#{on => run_queue, above => 1000}]},
        #{select => #{by => memory, top => 10, include => {initial_call, '_'}}},
        #{process_options => #{follow => spawn}}]).

%% One combination.

%% Folder is new, and the run's own. The answer is the combination with `outcome', `answers' and
%% `violations'.
-spec run(map(), integer(), file:filename()) -> map().
run(#{limits := Limits} = Combination, N, Folder) ->
    ok = filelib:ensure_dir(filename:join(Folder, "home/x")),
    _ = [ok = filelib:ensure_dir(filename:join([Folder, Name, "x"])) || Name <- ["tmp", "good"]],
    Groups = groups(Limits, N),
    try
        case [Why || {error, Why} <- Groups] of
            [] -> in_groups(Combination, N, Folder, maps:from_list(Groups));
            [Why | _] -> Combination#{outcome => skipped, why => Why, answers => [],
                violations => []}
        end
    after
        _ = [removed(Path) || {_, Path} <- Groups],
        _ = os:cmd("rm -rf --one-file-system " ++ Folder)
    end.

in_groups(Combination, N, Folder, Groups) ->
    case tried(Combination, N, Folder, Groups) of
        #{violations := [_ | _] = Violations} = Tried ->
            case [V || {death, _, _} = V <- Violations] of
                [] -> Tried;
                _ -> controlled(Tried, tried(Combination#{steps := []}, N, Folder, Groups))
            end;
        Tried -> Tried
    end.

%% Did the node die of its limits alone?
controlled(Tried, #{violations := Violations}) ->
    case [V || {death, _, _} = V <- Violations] of
        [] -> Tried;
        _ -> Tried#{outcome := skipped, why => <<"the node dies without flame_prof, too">>,
            violations := []}
    end.

tried(#{steps := Steps} = Combination, N, Folder, Groups) ->
    Name = lists:flatten(io_lib:format("limits_~s_~b@localhost", [os:getpid(), N])),
    Port = boot(Combination, Name, Folder, Groups),
    Node = #{port => Port, name => Name, folder => Folder, groups => Groups},
    case answer(Node, ?BOOT_MS, <<>>) of
        {ready, _} -> measured(Combination, Steps, Node);
        {_, Output} ->
            ended(Node),
            Combination#{outcome => skipped, why => <<"plain Erlang does not start">>,
                answers => [], violations => [], output => Output}
    end.

measured(#{code := Code} = Combination, Steps, Node0) ->
    {OsPid, _} = ask(Node0, os_pid),
    Node = Node0#{os_pid => OsPid},
    _ = [ask(Node, load) || Code =:= embedded],
    case ask(Node, census) of
        {#{} = Before, _} -> measured(Combination, Steps, Before, Node);
        _ ->
            _ = ended(Node),
            Combination#{outcome => skipped, why => <<"the node dies of its own code">>,
                answers => [], violations => []}
    end.

measured(#{limits := Limits, place := Place} = Combination, Steps, Before, Node) ->
    %% Processes last: what fills the others is one.
    {Processes, Others} = lists:partition(fun(L) -> element(1, L) =:= processes end, Limits),
    _ = [limit(Node, Limit) || Limit <- Others ++ Processes],
    First = answers(Steps, Place, "dir", Node),
    _ = [ask(Node, lift)],
    _ = [lift(Node, Limit) || Limit <- Limits],
    Again = answers([Step || {Step, Answer} <- First, Answer =/= ok, Answer =/= died], Place,
        "good", Node),
    {Left, _} = ask(Node, {left, Before}),
    Output = ended(Node),
    Violations = lists:usort(lists:append([
        [V || {Step, Answer} <- First ++ Again, V <- violation(Step, Answer)],
        [{death, Step, output_end(Output)} || {Step, died} <- First ++ Again],
        [{death, left, output_end(Output)} || Left =:= died],
        [{lockout, Step, element(2, Answer)} || can_be_lifted(Limits), {Step, Answer} <- Again,
            is_tuple(Answer)],
        [{left, none, Left} || is_binary(Left)], reports(Output)])),
    Combination#{outcome => outcome(Violations, First), violations => Violations,
        answers => First, again => Again, output => Output}.

outcome([_ | _], _) -> harmed;
outcome([], First) ->
    case [Step || {Step, Answer} <- First, Answer =/= ok] of [] -> ok; _ -> refused end.

violation(Step, {raised, Text}) -> [{raised, Step, Text}];
violation(Step, {hangs, Text}) -> [{hang, Step, Text}];
violation(Step, {ended, Text}) -> [{killed, Step, Text}];
violation(Step, {refused, Text}) ->
    [{internal, Step, Text} || is_in(Text, "internal error|is a bug")] ++
        [{raw, Step, Text} || is_in(Text, "[{#\\[]\\{?[a-z_]+,|badmatch|_clause|badarg|"
            "\\bundef\\b|system_limit|<<\"")] ++
        [{unsaid, Step, Text} || is_in(Text, "the log has|operation failed|^enomem$|: io$")];
violation(_, _) -> [].

%% Crash reports, and what a look prints of its own errors.
reports(Output) ->
    Reports = re:split(Output, "\n(?==[A-Z ]+REPORT=)", [{return, binary}]),
    [{report, none, binary:part(R, 0, min(600, byte_size(R)))} || R <- Reports,
        is_in(R, "CRASH REPORT|ERROR REPORT"), is_in(R, "flame_prof"),
        is_in(R, "rash|Error in process|terminating|Supervisor")] ++
        [{internal, none, L} || {match, All} <- [re:run(Output, ".*internal error.*", [global,
            {capture, first, binary}])], [L] <- All].

is_in(Text, Pattern) -> re:run(Text, Pattern, [{capture, none}]) =:= match.

output_end(Output) ->
    Size = byte_size(Output),
    binary:part(Output, max(0, Size - 600), min(600, Size)).

%% Each step until the node is dead.
answers([], _Place, _Directory, _Node) -> [];
answers([Step | Steps], Place, Directory, Node) ->
    case step(Step, Place, Directory, Node) of
        died -> [{Step, died}];
        Answer -> [{Step, Answer} | answers(Steps, Place, Directory, Node)]
    end.

step(Step, local, Directory, #{folder := Folder} = Node) ->
    Request = {run, Step, filename:join(Folder, Directory), ?STEP_MS},
    element(1, ask(Node, Request, 2 * ?STEP_MS));
step(Step, outside, Directory, #{folder := Folder, name := Name} = Node) ->
    Arguments = arguments(Step, Name, filename:join(Folder, Directory)),
    Answer = command(Arguments),
    case ask(Node, os_pid) of {died, _} -> died; _ -> Answer end.

arguments(doctor, Name, _) -> ["doctor", Name, "--for", "1s"];
arguments(attach, Name, Directory) -> ["attach", Name, "--for", "1s", "--output", Directory];
arguments(latency, Name, _) -> ["latency", Name, "lists:seq/2", "--for", "1s"];
arguments(allocations, Name, _) -> ["allocations", Name, "--for", "1s"];
arguments(trace, Name, _) -> ["trace", Name, "lists:seq/2", "--for", "1s"];
arguments(pstack, Name, _) -> ["pstack", "--node", Name];
arguments(Look, Name, _) -> [atom_to_list(Look), Name].

command(Arguments) ->
    Port = open_port({spawn_executable, os:find_executable("timeout")}, [exit_status, binary,
        stderr_to_stdout, {args, [integer_to_list(?STEP_MS div 1000), checkout:path(
            "bin/flame_prof") | Arguments ++ ["--cookie", ?COOKIE]]}]),
    case printed(Port, <<>>) of
        {Status, _} when Status =:= 0; Status =:= 10; Status =:= 4 -> ok;
        {124, Text} -> {hangs, Text};
        {Status, Text} ->
            %% A short look of the doctor that has not seen all is an answer.
            case Status =:= 1 andalso is_in(Text, "(?m)^nothing was found, and m") of
                true -> ok;
                false -> {refused, Text}
            end
    end.

printed(Port, Text) ->
    receive
        {Port, {data, More}} -> printed(Port, <<Text/binary, More/binary>>);
        {Port, {exit_status, Status}} -> {Status, Text}
    end.

%% The node.

boot(#{place := Place, code := Code, limits := Limits}, Name, Folder, Groups) ->
    Own = case Place of
        local -> ["-pa", filename:dirname(code:which(flame_prof))];
        outside -> ["-sname", Name, "-setcookie", ?COOKIE]
    end,
    Erl = ["erl", flags(Limits), "-noinput", "-mode", atom_to_list(Code)] ++ Own ++ ["-pa",
        filename:dirname(code:which(?MODULE)),
        %% Which `-s' would not load in embedded mode.
        "-eval", "'code:load_file(limits_inside), limits_inside:main().'"],
    Lines = [["echo $$ > ", Group, "/cgroup.procs"] || Group <- maps:values(Groups)] ++
        [Line || Limit <- Limits, Line <- before(Limit, Folder)] ++
        [lists:join(" ", ["exec" | Erl])],
    Script = lists:flatten(lists:join(" && ", Lines)),
    Command = case lists:any(fun has_mount/1, Limits) of
        true -> ["unshare", "--mount", "sh", "-c", Script];
        false -> ["sh", "-c", Script]
    end,
    Home = case lists:member({home, none}, Limits) of
        true -> false;
        false -> filename:join(Folder, "home")
    end,
    Temporary = case lists:member({temporary, missing}, Limits) of
        true -> filename:join(Folder, "nothing");
        false -> filename:join(Folder, "tmp")
    end,
    open_port({spawn_executable, os:find_executable(hd(Command))}, [{args, tl(Command)},
        exit_status, stderr_to_stdout, binary, {cd, Folder},
        {env, [{"HOME", Home}, {"TMPDIR", Temporary}, {"ERL_LIBS", false},
            {"ERL_CRASH_DUMP_BYTES", "0"}]}]).

flags(Limits) -> lists:join(" ", [Flag || Limit <- Limits, Flag <- flag(Limit)]).

flag({processes, _}) -> ["+P 1024"];
flag({ports, _}) -> ["+Q 1024"];
flag({atoms, _}) -> ["+t 40000"];
flag({heap, Words, Kill}) -> [io_lib:format("+hmax ~b +hmaxk ~s +hmaxel false", [Words, Kill])];
flag({super_carrier, MiB}) -> [io_lib:format("+MMscs ~b +MMsco true", [MiB])];
flag({flags, Flags}) -> [Flags];
flag({tables, Number}) -> [io_lib:format("+e ~b", [Number])];
flag(_) -> [].

has_mount({folder, Kind}) -> lists:member(Kind, [read_only, full, noexec]);
has_mount({temporary, Kind}) -> Kind =/= missing;
has_mount({library, noexec}) -> true;
has_mount(_) -> false.

before({files, Limit, _}, _) -> [["ulimit -n ", integer_to_list(Limit)]];
before({folder, no_parent}, Folder) -> [["rm -rf ", Folder, "/dir"]];
before({folder, is_file}, Folder) -> [["rm -rf ", Folder, "/dir"], ["touch ", Folder, "/dir"]];
before({folder, Kind}, Folder) -> mounted(Kind, Folder ++ "/dir");
before({temporary, missing}, _) -> [];
before({temporary, Kind}, Folder) -> mounted(Kind, Folder ++ "/tmp");
before({library, noexec}, _) ->
    Priv = filename:join(code:lib_dir(flame_prof), "priv"),
    [["mount --bind ", Priv, " ", Priv], ["mount -o remount,bind,noexec ", Priv]];
before(_, _) -> [].

mounted(read_only, Path) -> tmpfs("ro", Path);
mounted(full, Path) -> tmpfs("size=4k", Path);
mounted(noexec, Path) -> tmpfs("noexec", Path).

tmpfs(Options, Path) -> [["mkdir -p ", Path], ["mount -t tmpfs -o ", Options, " tmpfs ", Path]].

%% What is set when the node runs.
limit(Node, {processes, Free}) -> ask(Node, {fill, processes, Free});
limit(Node, {files, _, Free}) -> ask(Node, {fill, files, Free});
limit(Node, {ports, Free}) -> ask(Node, {fill, ports, Free});
limit(Node, {atoms, Free}) -> ask(Node, {fill, atoms, Free});
limit(#{groups := #{memory := Group}}, {memory_group, MiB}) ->
    Limit = max(0, used(Group)) + MiB * ?MIB,
    written(Group, memory_files(), integer_to_list(Limit));
limit(#{groups := #{pids := Group}}, {threads, Free}) ->
    {ok, Now} = file:read_file(filename:join(Group, "pids.current")),
    {Number, _} = string:to_integer(Now),
    written(Group, ["pids.max"], integer_to_list(Number + Free));
limit(#{os_pid := OsPid}, {address_space, MiB}) ->
    {ok, Statm} = file:read_file("/proc/" ++ OsPid ++ "/statm"),
    {Pages, _} = string:to_integer(Statm),
    Bytes = Pages * 4096 + MiB * ?MIB,
    os:cmd(lists:flatten(io_lib:format("prlimit --pid ~s --as=~b:unlimited", [OsPid, Bytes])));
%% Not from the start: the VM's own code lies in a file of memory.
limit(#{os_pid := OsPid}, {file_size, KiB}) ->
    os:cmd(lists:flatten(io_lib:format("prlimit --pid ~s --fsize=~b:unlimited", [OsPid,
        1024 * KiB])));
limit(_, _) -> ok.

lift(#{groups := #{memory := Group}}, {memory_group, _}) ->
    written(Group, ["memory.max"], "max"),
    written(Group, ["memory.limit_in_bytes"], "-1");
lift(#{groups := #{pids := Group}}, {threads, _}) -> written(Group, ["pids.max"], "max");
lift(#{os_pid := OsPid}, {address_space, _}) ->
    os:cmd("prlimit --pid " ++ OsPid ++ " --as=unlimited:unlimited");
lift(#{os_pid := OsPid}, {file_size, _}) ->
    os:cmd("prlimit --pid " ++ OsPid ++ " --fsize=unlimited:unlimited");
lift(_, _) -> ok.

can_be_lifted(Limits) ->
    lists:all(fun({Kind, _}) -> lists:member(Kind, [processes, ports, memory_group, threads,
            address_space, file_size, folder, flags, tables]);
        ({files, _, _}) -> true;
        (_) -> false
    end, Limits).

ask(Node, Request) -> ask(Node, Request, ?BOOT_MS).

ask(#{port := Port} = Node, Request, Ms) ->
    try port_command(Port, [base64:encode(term_to_binary(Request)), $\n]) of
        true -> answer(Node, Ms, <<>>)
    catch
        error:badarg -> {died, <<>>}
    end.

%% {Answer, Output until then}. Output is kept for the end, too.
answer(#{port := Port} = Node, Ms, Output) ->
    receive
        {Port, {data, Bytes}} ->
            All = <<Output/binary, Bytes/binary>>,
            case re:run(All, "@@([A-Za-z0-9+/=]+)\n", [{capture, [1], binary}]) of
                {match, [Text]} ->
                    kept(All),
                    {binary_to_term(base64:decode(Text)), All};
                nomatch -> answer(Node, Ms, All)
            end;
        {Port, {exit_status, Status}} ->
            kept(<<Output/binary, (io_lib_text("~n(ended with status ~b)~n", [Status]))/binary>>),
            put(ended, true),
            {died, Output}
    after Ms ->
        kept(Output),
        {silent, Output}
    end.

io_lib_text(Format, Arguments) -> iolist_to_binary(io_lib:format(Format, Arguments)).
kept(Output) -> put(output, [get_output() | Output]).

get_output() ->
    case get(output) of undefined -> []; Output -> Output end.

%% All that it printed, without answers.
ended(#{port := Port} = Node) ->
    _ = erase(ended) =:= true orelse begin
        %% Of a shell, where that is not the node itself. Its end may wait in the mailbox.
        Pids = [Pid || #{os_pid := Pid} <- [Node]] ++
            [integer_to_list(Pid) || {os_pid, Pid} <- [erlang:port_info(Port, os_pid)]],
        _ = [os:cmd("kill -9 " ++ Pid) || Pid <- Pids],
        closed(Port)
    end,
    Output = iolist_to_binary(erase_output()),
    re:replace(Output, "@@[A-Za-z0-9+/=]+\n", "", [global, {return, binary}]).

closed(Port) ->
    receive
        {Port, {data, Bytes}} -> kept(Bytes), closed(Port);
        {Port, {exit_status, _}} -> ok
    after ?BOOT_MS -> error({does_not_end, Port})
    end.

erase_output() ->
    Output = get_output(),
    _ = erase(output),
    Output.

%% Control groups.

groups(Limits, N) ->
    [made(memory, N) || {memory_group, _} <- Limits] ++ [made(pids, N) || {threads, _} <- Limits].

made(Controller, N) ->
    {ok, Text} = file:read_file("/proc/self/cgroup"),
    Lines = [string:split(Line, ":", all) || Line <- string:split(Text, "\n", all)],
    Name = lists:flatten(io_lib:format("flame_prof_limits_~s_~b", [os:getpid(), N])),
    made(Controller, Name, lists:append([tops(Controller, Line) || Line <- Lines])).

tops(Controller, [_, Names, Path]) ->
    Named = binary_to_list(Path),
    case lists:member(atom_to_list(Controller), string:lexemes(binary_to_list(Names), ",")) of
        true -> [Top ++ Below || Top <- ["/sys/fs/cgroup/" ++ atom_to_list(Controller)],
            Below <- [Named, ""]];
        false when Names =:= <<>> -> ["/sys/fs/cgroup" ++ Named, "/sys/fs/cgroup"];
        false -> []
    end;
tops(_, _) -> [].

made(Controller, _Name, []) ->
    {error, io_lib_text("no control group of ~s can be made here", [Controller])};
made(Controller, Name, [Top | Tops]) ->
    Group = filename:join(Top, Name),
    _ = file:make_dir(Group),
    File = case Controller of memory -> memory_files(); pids -> ["pids.max"] end,
    case [F || F <- File, filelib:is_file(filename:join(Group, F))] of
        [] -> _ = file:del_dir(Group), made(Controller, Name, Tops);
        _ -> {Controller, Group}
    end.

memory_files() -> ["memory.max", "memory.limit_in_bytes"].

written(Group, Files, Text) ->
    [file:write_file(filename:join(Group, File), Text) || File <- Files,
        filelib:is_file(filename:join(Group, File))].

%% Without its cache, in bytes.
used(Group) ->
    Used = hd([N || File <- ["memory.current", "memory.usage_in_bytes"],
        {ok, Text} <- [file:read_file(filename:join(Group, File))], {N, _} <- [string:to_integer(
            Text)]]),
    {ok, Stat} = file:read_file(filename:join(Group, "memory.stat")),
    Lines = [binary:split(Line, <<" ">>) || Line <- binary:split(Stat, <<"\n">>, [global])],
    Used - lists:sum([binary_to_integer(Bytes) || [Name, Bytes] <- Lines,
        lists:member(Name, [<<"inactive_file">>, <<"active_file">>])]).

removed(Group) when is_list(Group) -> file:del_dir(Group);
removed(_) -> ok.

%% Text.

describe(#{limits := Limits, code := Code, place := Place}) ->
    io_lib:format("~s, ~s: ~s", [Place, Code, lists:join(", ", [io_lib:format("~0p", [L])
        || L <- Limits])]).

-spec sentence(map()) -> unicode:chardata().
sentence(#{outcome := Outcome, violations := Violations} = Result) ->
    [io_lib:format("~4w ~-8s ~ts", [maps:get(n, Result, 0), Outcome, describe(Result)]),
        [io_lib:format("~n       ~s ~0p: ~ts", [Kind, Step, first_line(Text)])
            || {Kind, Step, Text} <- Violations]].

first_line(Text) -> hd(binary:split(string:trim(Text), <<"\n">>)).

as_json(#{outcome := Outcome, answers := Answers, violations := Violations} = Result) ->
    #{n => maps:get(n, Result), combination => iolist_to_binary(describe(Result)),
        outcome => Outcome, why => maps:get(why, Result, <<>>),
        answers => [answer_as_json(A) || A <- Answers],
        lifted => [answer_as_json(A) || A <- maps:get(again, Result, [])],
        violations => [#{kind => Kind, step => io_lib_text("~0p", [Step]), text => Text}
            || {Kind, Step, Text} <- Violations],
        output => case Violations of [] -> <<>>; _ -> maps:get(output, Result, <<>>) end}.

answer_as_json({Step, {Kind, Text}}) ->
    #{step => io_lib_text("~0p", [Step]), answer => Kind, text => Text};
answer_as_json({Step, Kind}) -> #{step => io_lib_text("~0p", [Step]), answer => Kind}.

summary(Seed, Results) ->
    Kinds = [death, lockout, hang, internal, raw, unsaid, raised, killed, report, left],
    Count = fun(Kind) -> length([1 || #{violations := Vs} <- Results,
        lists:keymember(Kind, 1, Vs)]) end,
    Outcomes = [{O, length([1 || #{outcome := Is} <- Results, Is =:= O])}
        || O <- [ok, refused, harmed, skipped]],
    [io_lib:format("seed ~b: ~b combinations", [Seed, length([1 || #{outcome := O} <- Results,
        O =/= skipped])]),
        [io_lib:format(", ~b ~s", [N, O]) || {O, N} <- Outcomes], "\n",
        [io_lib:format("  ~-9s ~b~n", [Kind, Count(Kind)]) || Kind <- Kinds]].
