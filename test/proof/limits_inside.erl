%% The node of one combination of limits.erl: it fills what the VM limits, runs functions of
%% flame_prof, and answers the controller, line by line, through its standard input and output.
%%
%% It loads nothing of flame_prof by itself, and all that it needs is there before a limit is
%% reached: processes, code and the port.
-module(limits_inside).

-export([main/0, init/0, work/1, hold/0, hold_files/2]).

-define(WORKERS, 24).
-define(LINE_BYTES, 65536).
-define(MARK, "@@").
-define(STEP_MS, 100).
-define(LEFT_MS, 20000).

-spec main() -> pid().
main() -> spawn(?MODULE, init, []).

-spec init() -> no_return().
init() ->
    %% The limits are those of the processes that run flame_prof's functions.
    _ = process_flag(max_heap_size, #{size => 0}),
    _ = process_flag(priority, high),
    {module, _} = code:ensure_loaded(prim_file),
    _ = [code:ensure_loaded(M) || M <- [io_lib, io_lib_format, io_lib_pretty, unicode_util, string,
        base64, lists, maps, logger_formatter, error_logger, proc_lib, gen, erl_error, re, timer]],
    _ = text("~0p ~0P ~ts", [{a, ["b"], <<1>>}, {error, undef, []}, 40, "c"]),
    Port = open_port({fd, 0, 1}, [{line, ?LINE_BYTES}, eof, binary]),
    Workers = [spawn(?MODULE, work, [self()]) || _ <- lists:seq(1, ?WORKERS)],
    answer(Port, ready),
    loop(#{port => Port, workers => Workers, fills => #{}}).

loop(#{port := Port} = State) ->
    receive
        {Port, {data, {eol, Line}}} ->
            {Answer, Next} = request(binary_to_term(base64:decode(Line)), State),
            answer(Port, Answer),
            loop(Next);
        {Port, eof} -> erlang:halt(0, [{flush, false}]);
        _ -> loop(State)
    end.

answer(Port, Answer) ->
    true = port_command(Port, [?MARK, base64:encode(term_to_binary(Answer)), $\n]).

request(os_pid, State) -> {os:getpid(), State};
request(load, State) ->
    %% As a release has its code.
    {ok, Names} = file:list_dir(filename:dirname(code:which(flame_prof))),
    Modules = [list_to_atom(filename:rootname(N)) || N <- Names, lists:suffix(".beam", N)],
    %% One after the other: the loader's heap is limited, too.
    {[M || M <- Modules, code:load_file(M) =:= none], State};
request({fill, What, Free}, #{fills := Fills} = State) ->
    {Kept, Left} = fill(What, Free),
    {Left, State#{fills := Fills#{What => Kept}}};
request(lift, #{fills := Fills} = State) ->
    _ = [empty(What, Kept) || {What, Kept} <- maps:to_list(Fills)],
    {ok, State#{fills := #{}}};
request({run, What, Directory, Ms}, #{workers := [Worker | Workers]} = State) ->
    Monitor = monitor(process, Worker),
    Worker ! {run, What, Directory},
    {awaited(Worker, Monitor, Ms), State#{workers := Workers}};
request({left, Before}, State) -> {left(Before, ?LEFT_MS), State};
request(census, State) -> {census(), State}.

awaited(Worker, Monitor, Ms) ->
    receive
        {done, Worker, Answer} ->
            _ = demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, _, Reason} ->
            {ended, text("~0p", [Reason])}
    after Ms -> {hangs, text("~0p", [process_info(Worker, current_stacktrace)])}
    end.

%% Limits.

fill(processes, Free) ->
    Pids = spawn_until(Free),
    {Pids, erlang:system_info(process_limit) - erlang:system_info(process_count)};
fill(ports, Free) ->
    Ports = ports_until(Free),
    {Ports, erlang:system_info(port_limit) - erlang:system_info(port_count)};
fill(files, Free) ->
    Holder = spawn(?MODULE, hold_files, [self(), Free]),
    receive {Holder, Taken} -> {Holder, Taken} end;
fill(atoms, Free) ->
    atoms_until(Free),
    {none, erlang:system_info(atom_limit) - erlang:system_info(atom_count)}.

spawn_until(Free) ->
    case erlang:system_info(process_limit) - erlang:system_info(process_count) > Free of
        true ->
            try spawn(?MODULE, hold, []) of
                Pid -> [Pid | spawn_until(Free)]
            catch
                error:system_limit -> []
            end;
        false -> []
    end.

-spec hold() -> stop.
hold() ->
    receive stop -> stop end.

ports_until(Free) ->
    case erlang:system_info(port_limit) - erlang:system_info(port_count) > Free of
        true ->
            try open_port({spawn_driver, "ram_file_drv"}, [binary]) of
                Port -> [Port | ports_until(Free)]
            catch
                error:_ -> []
            end;
        false -> []
    end.

-spec hold_files(pid(), non_neg_integer()) -> ok.
hold_files(Parent, Free) ->
    _ = process_flag(max_heap_size, #{size => 0}),
    All = files(),
    {Given, Kept} = lists:split(min(Free, length(All)), All),
    _ = [prim_file:close(File) || File <- Given],
    Parent ! {self(), length(Kept)},
    receive stop -> ok end,
    _ = [prim_file:close(File) || File <- Kept],
    Parent ! {self(), closed},
    ok.

files() ->
    case prim_file:open("/dev/null", [read]) of
        {ok, File} -> [File | files()];
        {error, _} -> []
    end.

atoms_until(Free) ->
    case erlang:system_info(atom_limit) - erlang:system_info(atom_count) > Free of
        true ->
            N = erlang:unique_integer([positive]),
            _ = list_to_atom("limits_" ++ integer_to_list(N, 36)),
            atoms_until(Free);
        false -> ok
    end.

empty(processes, Pids) -> [Pid ! stop || Pid <- Pids];
empty(ports, Ports) -> [catch port_close(Port) || Port <- Ports];
empty(files, Holder) ->
    Holder ! stop,
    receive {Holder, closed} -> ok end;
empty(atoms, none) -> ok.

%% One function of flame_prof.

-spec work(pid()) -> term().
work(Parent) ->
    receive
        {run, What, Directory} ->
            Parent ! {done, self(), judged(fun() -> run(What, Directory) end)},
            %% A process that ended would be one that is free.
            receive stop -> stop end
    end.

judged(Fun) ->
    try Fun() of
        {error, Reason} -> {refused, text("~ts", [flame_prof:format_error(Reason)])};
        _ -> ok
    catch
        Class:Reason:Stack -> {raised, text("~0P", [{Class, Reason, Stack}, 40])}
    end.

run({start, Options}, Directory) ->
    case flame_prof:start(Options#{dir => Directory}) of
        {ok, _} -> session();
        {error, _} = Error -> Error
    end;
run(profile, Directory) -> flame_prof:profile(300, #{dir => Directory});
run(profile_default, _) -> flame_prof:profile(300);
run(start_default, _) ->
    case flame_prof:start() of {ok, _} -> session(); {error, _} = Error -> Error end;
run(pstack, _) -> flame_prof:pstack();
run(waits, _) -> flame_prof:waits();
run(memory, _) -> flame_prof:memory();
run(blame, _) -> flame_prof:blame(gc, 200);
run(doctor, _) -> flame_prof:doctor(#{for => 1000});
run(top, _) -> flame_prof:top(#{count => 2, every => 100, rows => 5});
run(latency, _) -> flame_prof:latency({lists, seq, 2}, #{seconds => 1});
run(allocations, _) -> flame_prof:allocations(500);
run(trace, _) -> flame_prof:trace("lists:seq/2", #{max_seconds => 1});
run(xray, _) -> flame_prof:xray(logger);
run(mailbox, _) -> flame_prof:mailbox(logger);
run(tables, _) -> flame_prof_tables:look();
run(binaries, _) -> flame_prof_binaries:look();
run(info, _) -> flame_prof:i().

session() ->
    Answers = [flame_prof:i(), flushed(flame_prof:flush()), flame_prof:stop()],
    hd([Error || {error, _} = Error <- Answers] ++ [ok]).

%% Of a session that waits for a trigger.
flushed({error, {armed, _}}) -> ok;
flushed(Answer) -> Answer.

%% What stays.

census() ->
    #{ports => length(erlang:ports()), tables => length(ets:all()),
        descriptors => count("/proc/self/fd"), threads => threads(),
        %% A server of the node that ends by what we do is harm, too.
        names => registered()}.

count(Folder) ->
    case prim_file:list_dir(Folder) of {ok, Names} -> length(Names); {error, _} -> 0 end.

%% Of flame_prof: those of the VM come and go.
threads() ->
    {ok, Tasks} = prim_file:list_dir("/proc/self/task"),
    length([Task || Task <- Tasks,
        {ok, <<"flame_prof", _/binary>>} <- [prim_file:read_file("/proc/self/task/" ++ Task ++
            "/comm")]]).

left(Before, Ms) ->
    _ = application:stop(flame_prof),
    _ = erlang:module_loaded(flame_prof_looks) andalso flame_prof_looks:purge(),
    Now = census(),
    Left = ours() ++ [{What, maps:get(What, Now) - maps:get(What, Before)}
        || What <- [ports, tables, descriptors, threads],
        maps:get(What, Now) > maps:get(What, Before)] ++
        [{ended, Name} || Name <- maps:get(names, Before) -- maps:get(names, Now)],
    case Left of
        [] -> none;
        _ when Ms > 0 -> timer:sleep(?STEP_MS), left(Before, Ms - ?STEP_MS);
        _ -> text("~0p", [Left])
    end.

ours() ->
    [{Name, Module} || Pid <- processes(), {Name, Module} <- [named(Pid)], is_ours(Module)].

named(Pid) ->
    case process_info(Pid, [registered_name, initial_call, dictionary]) of
        [{_, Name}, {_, {M, _, _}}, {_, Dictionary}] ->
            {Module, _, _} = proplists:get_value('$initial_call', Dictionary, {M, none, 0}),
            {Name, Module};
        undefined -> none
    end.

is_ours(Module) -> lists:prefix("flame_prof", atom_to_list(Module)).
text(Format, Arguments) -> unicode:characters_to_binary(io_lib:format(Format, Arguments)).
