%% @private What this node is short of, asked before anything is started in it. On a node without
%% free processes a start of an application ends the VM, as a load of a library ends its code
%% server; without free atoms each new module ends it; memory beyond the limit of a control group
%% has the kernel kill it. So what a session or a look needs is there before, or is refused, with
%% numbers.
%%
%% Some 0.2 ms, of any process: reads of /proc and /sys, no process, no port, no server.
-module(flame_prof_shortage).

-export([check/1, check/2, facts/0, facts/1, reached/0]).

-export_type([work/0, facts/0]).

%% `native' and `portable': a look by this engine. `sampling': one with a session of its own.
%% `wait_sites': the probes of the receives of OTP.
-type work() :: session | doctor | native | portable | sampling | tracing | wait_sites.

-type facts() ::
    #{
        processes := {Free :: integer(), Limit :: pos_integer()},
        atoms := {Free :: integer(), Limit :: pos_integer()},
        %% A limit that cannot be read does not count.
        descriptors := {Free :: integer(), Limit :: pos_integer() | unknown} | infinity,
        %% Bytes: what the control groups leave, and what `ulimit -v' and `ulimit -d' leave.
        memory := non_neg_integer() | infinity,
        address_space := non_neg_integer() | infinity
    }.

-define(MIB, 1048576).
%% The table of descriptors is counted where so few may be free.
-define(FEW_DESCRIPTORS, 64).
%% Then something has just run out of it.
-define(USED_UP, 8).

%% @doc Whether this node has what the work needs.
-spec check(work()) -> ok | {error, flame_prof:reason()}.
check(Work) ->
    %% A command from outside has asked for the room of its work before it lent its agent.
    case Work =/= wait_sites andalso is_pid(whereis(flame_prof_agent)) of
        true -> ok;
        false -> check(Work, facts())
    end.

%% @doc The first of what is short.
-spec check(work(), facts()) -> ok | {error, flame_prof:reason()}.
check(Work, Facts) ->
    Needs = needs(Work),
    Limits = [processes, atoms, descriptors, memory, address_space],
    case [Limit || Limit <- Limits, is_short(maps:get(Limit, Facts), maps:get(Limit, Needs))] of
        [] -> ok;
        [Limit | _] -> {error, short(Limit, Work, maps:get(Limit, Facts), maps:get(Limit, Needs))}
    end.

is_short({Free, _Limit}, Needed) -> Free < Needed;
is_short(infinity, _Needed) -> false;
is_short(Free, Needed) -> Free < Needed.

%% As measured on OTP 25 (doc/dev/limits.md), with a margin of a half at least: the program takes
%% of the same meanwhile. Memory is that of a first look, which loads code and the library.
needs(session) -> needs(40, 4500, 12, 40, 144);
needs(doctor) -> needs(64, 9000, 20, 72, 160);
needs(sampling) -> needs(32, 2500, 12, 48, 144);
needs(native) -> needs(32, 2500, 10, 20, 48);
needs(tracing) -> needs(32, 2500, 6, 24, 128);
needs(portable) -> needs(16, 2000, code_descriptors(), 8, 16);
needs(wait_sites) -> needs(256, 0, 0, 0, 0).

needs(Processes, Atoms, Descriptors, MiB, AddressMiB) ->
    #{
        processes => Processes + erlang:system_info(schedulers_online),
        atoms => Atoms,
        descriptors => Descriptors,
        memory => MiB * ?MIB,
        address_space => AddressMiB * ?MIB
    }.

%% A file that code is loaded from: an embedded system has all of it.
code_descriptors() ->
    case init:get_argument(mode) of
        {ok, [["embedded"] | _]} -> 0;
        _ -> 4
    end.

%% Errors.

short(Limit, Work, Fact, Needed) ->
    {limit, #{limit => Limit, free => free(Fact), needed => Needed,
        reason => text(Limit, Fact, subject(Work), Needed)}}.

free({Free, _}) -> Free;
free(Free) -> Free.

text(processes, Fact, Subject, Needed) ->
    sentence(["the node has ", of_limit(Fact, "process", "es"), " (+P)"], Subject,
        flame_prof_text:grouped(Needed), "fewer processes, or a higher limit");
text(atoms, Fact, Subject, Needed) ->
    sentence(["the node has ", of_limit(Fact, "atom", "s"), " (+t)"], Subject,
        ["up to ", flame_prof_text:grouped(Needed)], "a higher limit");
text(descriptors, Fact, Subject, Needed) ->
    sentence(["the node has ", of_limit(Fact, "file descriptor", "s"), " (ulimit -n)"], Subject,
        integer_to_list(Needed), "fewer open files, or a higher limit");
text(memory, Bytes, Subject, Needed) ->
    sentence(["the memory limit of the node's control group leaves ", mib(Bytes)], Subject,
        mib(Needed), "a higher limit");
text(address_space, Bytes, Subject, Needed) ->
    sentence(["the limit of the node's address space (ulimit -v, -d) leaves ", mib(Bytes)], Subject,
        mib(Needed), "a higher limit").

sentence(Has, Subject, Needed, Accepted) ->
    unicode:characters_to_binary([Has, "; ", Subject, " needs ", Needed, ". Accepted is ",
        Accepted]).

of_limit({Free, unknown}, One, More) ->
    [count(max(0, Free), One, More), " free"];
of_limit({Free, Limit}, One, More) ->
    [count(max(0, Free), One, More), " free of ", flame_prof_text:grouped(Limit)].

count(1, One, _More) -> ["1 ", One];
count(0, One, More) -> ["no ", One, More];
count(N, One, More) -> [flame_prof_text:grouped(N), $\s, One, More].

mib(Bytes) -> io_lib:format("~.1f MiB", [Bytes / ?MIB]).

subject(session) -> "a session";
subject(doctor) -> "the doctor";
subject(wait_sites) -> "the search for the receives of OTP";
subject(_) -> "this look".

%% @doc Why the VM raised `system_limit' just now.
-spec reached() -> binary().
reached() ->
    #{processes := Processes, atoms := Atoms} = facts(),
    Ports = erlang:system_info(port_limit),
    Counts = [{Processes, "process", "es", "+P"}, {Atoms, "atom", "s", "+t"},
        {{Ports - erlang:system_info(port_count), Ports}, "port", "s", "+Q"}],
    Texts = [["the node has ", of_limit(Count, One, More), " (", Flag, ")"]
        || {{Free, _} = Count, One, More, Flag} <- Counts, Free =< ?USED_UP],
    unicode:characters_to_binary(
        lists:join(", and ", Texts ++ ["a limit of the VM was reached" || Texts =:= []])).

%% Facts.

-spec facts() -> facts().
facts() ->
    facts("/").

%% @doc `Root' is the directory that has `proc' and `sys'.
-spec facts(file:filename()) -> facts().
facts(Root) ->
    Processes = erlang:system_info(process_limit),
    Atoms = erlang:system_info(atom_limit),
    Proc = filename:join(Root, "proc/self"),
    Limits = read(Proc, "limits"),
    Status = read(Proc, "status"),
    #{
        processes => {Processes - erlang:system_info(process_count), Processes},
        atoms => {Atoms - erlang:system_info(atom_count), Atoms},
        descriptors => descriptors(Limits, Status, Proc),
        memory => flame_prof_memory_budget:available(Root),
        address_space => min(
            left(<<"Max address space">>, Limits, <<"VmSize:">>, Status),
            left(<<"Max data size">>, Limits, <<"VmData:">>, Status)
        )
    }.

read(Proc, Name) -> prim_file:read_file(filename:join(Proc, Name)).

%% Of a process, and of the whole machine.
descriptors({error, Full}, _Status, _Proc) when Full =:= emfile; Full =:= enfile ->
    {0, unknown};
descriptors(Limits, Status, Proc) ->
    case {number(<<"Max open files">>, Limits), number(<<"FDSize:">>, Status)} of
        {Limit, Size} when is_integer(Limit), is_integer(Size), Limit - Size > ?FEW_DESCRIPTORS ->
            {Limit - Size, Limit};
        {Limit, _} when is_integer(Limit) ->
            counted(prim_file:list_dir(filename:join(Proc, "fd")), Limit);
        _ ->
            infinity
    end.

%% The descriptor of the list itself is free again.
counted({ok, Names}, Limit) -> {Limit - length(Names) + 1, Limit};
counted({error, Full}, Limit) when Full =:= emfile; Full =:= enfile -> {0, Limit};
counted({error, _}, _Limit) -> infinity.

left(Limit, Limits, Used, Status) ->
    case {number(Limit, Limits), number(Used, Status)} of
        {Bytes, KiB} when is_integer(Bytes), is_integer(KiB) -> max(0, Bytes - 1024 * KiB);
        _ -> infinity
    end.

%% The first number behind a name at the beginning of a line: the soft limit.
number(Name, {ok, Text}) ->
    case [Rest || Line <- binary:split(Text, <<"\n">>, [global]),
        Rest <- [string:prefix(Line, Name)], Rest =/= nomatch] of
        [Rest | _] -> element(1, string:to_integer(string:trim(Rest, leading)));
        [] -> none
    end;
number(_Name, {error, _}) ->
    none.
