%% Taking away what a node has: processes, ports, descriptors, memory, atoms. Evaluated on that
%% node but for what the kernel limits.
-module(shortage).

-export([processes/1, ports/1, files/1, atoms/1, carriers/1, literals/0, release/1, hold/2,
    limit_files/2, limit_address_space/2, number/3]).

-define(MIB, 1048576).

%% Until so many are free. What is taken goes with the process that they answer.
processes(Free) -> held(fun() -> take({process_count, process_limit}, Free,
    fun() -> spawn_link(fun parked/0) end) end).

ports(Free) ->
    held(fun() -> take({port_count, port_limit}, Free,
        fun() -> open_port({spawn_driver, "udp_inet"}, []) end) end).

%% Of the process: what it opens, and what the kernel allows.
files(Free) ->
    held(fun() -> taken(fun free_files/0, Free, fun() ->
        {ok, File} = prim_file:open("/dev/null", [read]),
        File
    end) end).

%% One of them is that by which they are counted.
free_files() ->
    {ok, Names} = prim_file:list_dir("/proc/self/fd"),
    {ok, Text} = prim_file:read_file("/proc/self/limits"),
    {match, [Most]} = re:run(Text, "Max open files\\s+([0-9]+)", [{capture, [1], list}]),
    list_to_integer(Most) - length(Names) + 1.

%% Never given back.
atoms(Free) -> take({atom_count, atom_limit}, Free, fun() ->
    list_to_atom("shortage_" ++ integer_to_list(erlang:unique_integer([positive]))) end).

%% In bytes, of the super carrier.
carriers(Free) ->
    Take = fun() -> binary:copy(<<1>>, ?MIB) end,
    held(fun() -> taken(fun free_carriers/0, Free + ?MIB, Take) end).

free_carriers() ->
    Sizes = sizes(default_mmap),
    proplists:get_value(total, Sizes) - proplists:get_value(used, Sizes).

%% In bytes that are used.
literals() -> proplists:get_value(used, sizes(literal_mmap)).

sizes(Area) ->
    {_, Facts} = lists:keyfind(Area, 1, erlang:system_info({allocator, erts_mmap})),
    {_, Super} = lists:keyfind(supercarrier, 1, Facts),
    {_, Sizes} = lists:keyfind(sizes, 1, Super),
    Sizes.

take({Count, Limit}, Free, Take) ->
    taken(fun() -> erlang:system_info(Limit) - erlang:system_info(Count) end, Free, Take).

taken(Left, Free, Take) ->
    case Left() > Free of true -> [Take() | taken(Left, Free, Take)]; false -> [] end.

held(Take) ->
    {Holder, Monitor} = spawn_monitor(?MODULE, hold, [self(), Take]),
    receive
        {Holder, held} -> Holder;
        {'DOWN', Monitor, process, Holder, Reason} -> error(Reason)
    end.

hold(Caller, Take) ->
    Taken = Take(),
    Caller ! {self(), held},
    receive {release, From} -> From ! {self(), length(Taken)} end.

parked() -> receive after infinity -> ok end.

%% What is taken is free again when this returns but for processes, which end a moment later.
release(Holder) ->
    Monitor = monitor(process, Holder),
    true = exit(Holder, kill),
    receive {'DOWN', Monitor, process, Holder, _} -> ok end.

%% By the kernel, from outside. Of descriptors so many are left.
limit_files(Pid, infinity) -> prlimit(Pid, "--nofile=20000:20000");
limit_files(Pid, Free) ->
    {ok, Names} = file:list_dir("/proc/" ++ Pid ++ "/fd"),
    prlimit(Pid, "--nofile=" ++ integer_to_list(length(Names) + Free) ++ ":20000").

limit_address_space(Pid, infinity) -> prlimit(Pid, "--as=unlimited:unlimited");
limit_address_space(Pid, Free) ->
    Most = number(Pid, "status", "VmSize") + Free,
    prlimit(Pid, "--as=" ++ integer_to_list(Most) ++ ":unlimited").

prlimit(Pid, Limit) ->
    "" = os:cmd("prlimit --pid " ++ Pid ++ " " ++ Limit),
    ok.

%% In bytes.
number(Pid, File, Name) ->
    {ok, Text} = file:read_file("/proc/" ++ Pid ++ "/" ++ File),
    {match, [Digits]} = re:run(Text, "^" ++ Name ++ ":\\s*([0-9]+) kB",
        [multiline, {capture, [1], list}]),
    1024 * list_to_integer(Digits).
