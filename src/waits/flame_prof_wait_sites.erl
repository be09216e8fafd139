%% @private Finds the code addresses at which processes wait for others, or work on
%% messages, and the stack slots that say for which (c_src/waits/sites.h).
%%
%% Probe processes do what the node's processes do: they call, start, sleep, serve.
%% The required content of each stack is known: the reference that the helper got, the request that
%% was sent, the port. The C library tells the shapes of the slots; a slot that agrees in every
%% probe at an address is taken, one that does not is left out: processes there wait for something
%% unknown, which is the answer.
%%
%% Made when a look is asked for, and again when one of the modules was loaded anew; a second
%% at most. The probes are linked to the driver, which kills them however far it gets.
-module(flame_prof_wait_sites).

-export([ensure/0, ensure/1, are_all/0, again_ms/0, learn/1, find/0, called/1]).
%% For tests.
-export([drive/0]).

-import(flame_prof_wait_probe, [attempt/1]).

-export_type([row/0, reason/0]).

-type row() :: {Address :: pos_integer(), flame_prof_nif:site_role(), Slot :: non_neg_integer()}.
-type reason() :: {wait_sites, Why :: binary()}.

%% Milliseconds: for all; until probes have told, and until they wait.
-define(ALL, 900).
-define(TELL, 400).
-define(SETTLE, 250).
%% The driver ends the probes in that time; it is killed after it, and they end by themselves.
-define(STOP, 2000).
-define(DRIVER, [monitor, {priority, high}, {max_heap_size, #{size => 0}}]).

%% On a node that is too busy for some probes there are too few sites: each of so many calls of
%% ensure/0 tries again. Where they have failed, the next try is half a minute later.
-define(TRIES, 4).
-define(ALL_FOUND, 15).
-define(AGAIN_S, 30).

%% What is kept beside the sites: which try it was, and the versions of the modules that were
%% probed, and of those that were learned. Or that the probes have failed, and when.
-type mark() ::
    {found, Try :: 1..15, Probed :: non_neg_integer(), Learned :: non_neg_integer()}
    | {failed, why(), Second :: non_neg_integer(), Probed :: non_neg_integer()}.
-type why() :: too_long | monitors | crash.
-define(VERSION_BITS, 30).
-define(SECOND_BITS, 26).

%% Addresses (c_src/erts/sites.h).
-define(SITES_MOST, 1024).

%% The modules whose code the sites are in.
-define(MODULES, [
    gen,
    gen_server,
    gen_statem,
    gen_event,
    proc_lib,
    timer,
    io,
    sys,
    supervisor,
    global,
    prim_inet,
    'Elixir.GenServer',
    'Elixir.Task',
    gen_server2,
    p1_server
]).

%% @doc The sites are known to the library, now if they were not.
-spec ensure() -> ok | {error, reason() | flame_prof_calibration:reason()}.
ensure() -> ensure(retry).

%% @doc `keep': where probes have been late, they are not tried again.
-spec ensure(retry | keep) -> ok | {error, reason() | flame_prof_calibration:reason()}.
ensure(IfLate) -> with_library(fun() -> ensured(IfLate) end).

with_library(Fun) ->
    case flame_prof_looks:with(Fun) of
        {error, {library, #{reason := Why}}} -> refused(Why);
        Answer -> Answer
    end.

ensured(IfLate) ->
    Probed = version(?MODULES),
    case known() of
        {{failed, Why, Second, Probed}, _} ->
            case (second() - Second) band (1 bsl ?SECOND_BITS - 1) of
                Ago when Ago < ?AGAIN_S -> still(Why, Ago);
                _ -> renew(Probed, 1, [])
            end;
        {{found, Try, Of, Learned}, Sites} ->
            {FromFiles, FromProbes} = lists:partition(fun is_learned/1, Sites),
            case lists:all(fun is_valid/1, FromProbes) of
                true when Of =/= Probed ->
                    %% A module is loaded that was not: what is known of the others is as true as
                    %% before.
                    renew(Probed, 1, rows_of(FromProbes));
                true when Try < ?TRIES, IfLate =:= retry ->
                    renew(Probed, Try + 1, rows_of(FromProbes));
                true ->
                    kept(FromFiles, FromProbes, {found, Try, Probed, Learned});
                false ->
                    renew(Probed, 1, [])
            end;
        _ ->
            renew(Probed, 1, [])
    end.

%% @doc No probe was late, or ensure/0 has tried as often as it does.
-spec are_all() -> boolean().
are_all() ->
    case with_library(fun known/0) of {{found, Try, _, _}, _} -> Try >= ?TRIES; _ -> false end.

%% @doc After the probes have failed, ensure/0 tries again from then on: the time is kept in whole
%% seconds.
-spec again_ms() -> pos_integer().
again_ms() -> 1000 * (?AGAIN_S + 1).

%% The results for modules that have been replaced are dropped.
kept(FromFiles, FromProbes, {found, Try, Probed, Learned}) ->
    case version(modules_of(FromFiles)) =:= Learned andalso lists:all(fun is_valid/1, FromFiles) of
        true -> ok;
        false -> learned(rows_of(FromProbes), {found, Try, Probed, version([])})
    end.

%% If the probes fail, the known sites stay.
renew(Probed, Try, Known) ->
    case search() of
        {ok, Rows, AreAll} ->
            Number = case AreAll of true -> ?ALL_FOUND; false -> Try end,
            set(fun publish/2, Rows, {found, Number, Probed, version([])});
        %% A node that is busy now does not use up the tries.
        {failed, _, _} when Known =/= [] ->
            learned(Known, {found, max(1, Try - 1), Probed, version([])});
        {failed, Why, Text} ->
            _ = learned([], {failed, Why, second(), Probed}),
            refused(Text);
        {error, _} = Error ->
            Error
    end.

still(Why, Ago) ->
    refused(text("~ts, ~b s ago; the next try is ~b s after that", [why(Why), Ago, ?AGAIN_S])).

why(too_long) -> text("the probes took longer than ~b ms", [?ALL]);
why(monitors) -> "monitors are not at the expected place";
why(crash) -> "the probes failed".

%% To samples, and to looks, whose library may go.
publish(Rows, Mark) ->
    case flame_prof_looks_nif:wait_sites_value(Rows, Mark) of
        {ok, Value} -> take(Value);
        {error, _} = Error -> Error
    end.

take(Value) ->
    case flame_prof_nif:value_take(Value) of
        ok -> flame_prof_looks_nif:value_take(Value);
        {error, _} = Error -> Error
    end.

learned(Rows, Mark) -> set(fun flame_prof_looks_nif:wait_sites_learn/2, Rows, Mark).

set(Set, Rows, Mark) ->
    case Set(Rows, encoded(Mark)) of
        ok -> ok;
        {error, Error} -> refused(text("the library refuses the sites: ~tp", [Error]))
    end.

%% @doc Learns the receives of the program's own in which processes wait. `more': another look
%% returns more. `changed': it has to be, from ensure/0 on, as there is other code.
-spec learn([flame_prof_looks_nif:wait()]) -> known | more | changed.
learn(Waits) ->
    case known() of
        {{found, Try, Probed, Learned}, Sites} ->
            FromFiles = lists:filter(fun is_learned/1, Sites),
            Modules = modules_of(FromFiles),
            case version(Modules) of
                Learned -> learn(new(Waits, Sites), Modules, Sites, {found, Try, Probed, Learned});
                _ -> changed
            end;
        _ ->
            changed
    end.

learn([], _Modules, _Sites, _Mark) ->
    known;
learn(New, Modules, Sites, {found, Try, Probed, _}) ->
    %% Before the files are read: a module that is loaded meanwhile is another one then.
    Versions = versions(Modules ++ [Module || {_, {Module, _, _}} <- New]),
    Takes = flame_prof_wait_learn:takes(lists:usort([Mfa || {_, Mfa} <- New])),
    case flame_prof_wait_learn:rows(New, Takes) of
        [] ->
            known;
        Rows ->
            Read = Modules ++ [Module || {Module, _, _} <- maps:keys(Takes)],
            Learned = version_of([Of || {Module, _} = Of <- Versions, lists:member(Module, Read)]),
            case learned(rows_of(Sites) ++ Rows, {found, Try, Probed, Learned}) of
                ok -> more;
                {error, _} -> known
            end
    end.

new(Waits, Sites) ->
    Known = maps:from_list([{Address, true} || {_, _, Address, _} <- Sites]),
    New = lists:usort([{Address, Mfa} || {_, How, _, _, _, {_, _, _} = Mfa, Address} <- Waits,
        How =:= unknown orelse How =:= monitor, not is_map_key(Address, Known)]),
    lists:sublist(New, max(0, ?SITES_MOST - map_size(Known))).

known() ->
    case flame_prof_looks_nif:wait_sites() of
        none -> none;
        {Mark, _, Sites} -> {decoded(<<Mark:64>>), Sites}
    end.

is_learned({_, Roles, _, _}) -> lists:keymember(read, 1, Roles).

is_valid({_, _, _, IsValid}) -> IsValid.

rows_of(Sites) ->
    [{Address, Role, Slot} || {_, Roles, Address, _} <- Sites, {Role, Slot} <- Roles].

modules_of(Sites) ->
    [Module || {{Module, _, _}, _, _, _} <- Sites].

-spec decoded(binary()) -> mark().
decoded(<<0:4, Why:4, Second:?SECOND_BITS, Probed:?VERSION_BITS>>) ->
    {failed, element(Why, {too_long, monitors, crash}), Second, Probed};
decoded(<<Try:4, Probed:?VERSION_BITS, Learned:?VERSION_BITS>>) ->
    {found, Try, Probed, Learned}.

encoded(Mark) ->
    Bits = case Mark of
        {found, Try, Probed, Learned} ->
            <<Try:4, Probed:?VERSION_BITS, Learned:?VERSION_BITS>>;
        {failed, Why, Second, Probed} ->
            #{Why := N} = #{too_long => 1, monitors => 2, crash => 3},
            <<0:4, N:4, Second:?SECOND_BITS, Probed:?VERSION_BITS>>
    end,
    <<Number:64>> = Bits,
    Number.

second() -> erlang:monotonic_time(second) band (1 bsl ?SECOND_BITS - 1).

%% Of the code as it is loaded: which modules, which versions; and, as one that is loaded
%% again has new addresses, whether there is old code.
version(Modules) -> version_of(versions(Modules)).

versions(Modules) ->
    [{M, flame_prof_wait_learn:version(M)} || M <- lists:usort(Modules), erlang:module_loaded(M)].

version_of(Versions) ->
    <<Version:?VERSION_BITS, _/bits>> = erlang:md5(term_to_binary(Versions)),
    Version.

%% @doc Where to look. Spawns the probes; leaves nothing behind.
-spec find() -> {ok, [row()]} | {error, reason() | flame_prof_calibration:reason()}.
find() -> with_library(fun found/0).

found() ->
    case search() of
        {ok, Rows, _AreAll} -> {ok, Rows};
        {failed, _Why, Text} -> refused(Text);
        {error, _} = Error -> Error
    end.

%% AreAll: each probe was ready in time.
search() ->
    case {flame_prof_calibration:ensure(), flame_prof_shortage:check(wait_sites)} of
        {{ok, _}, ok} -> in_driver();
        {{ok, _}, {error, Reason}} -> refused(flame_prof_error:format(Reason));
        {{error, _} = Error, _} -> Error
    end.

in_driver() ->
    {Tag, Self} = {make_ref(), self()},
    %% A driver that the VM killed for its heap (`+hmax') would leave reports of its probes.
    {Driver, Monitor} = spawn_opt(fun() -> Self ! {Tag, drive()} end, ?DRIVER),
    receive
        {'DOWN', Monitor, process, Driver, normal} ->
            receive {Tag, Answer} -> Answer end;
        {'DOWN', Monitor, process, Driver, Crash} ->
            failed(crash, flame_prof_error:exit_text(Crash))
    after ?ALL ->
        Driver ! stop,
        receive
            {'DOWN', Monitor, process, Driver, _} -> ok
        after ?STOP ->
            exit(Driver, kill),
            receive {'DOWN', Monitor, process, Driver, _} -> ok end
        end,
        receive {Tag, Answer} -> Answer after 0 -> {failed, too_long, why(too_long)} end
    end.

%% Some hundred processes of little work each, which a busy node would keep waiting for seconds.
linked(Fun) -> spawn_opt(Fun, [link, {priority, high}]).

failed(Why, Detail) -> {failed, Why, text("~ts: ~ts", [why(Why), Detail])}.

refused(Text) -> {error, {wait_sites, unicode:characters_to_binary(Text)}}.

text(Format, Args) -> io_lib:format(Format, Args).

%% @private All probes are started before the first is looked at.
-spec drive() -> {ok, [row()], boolean()} | {failed, why(), unicode:chardata()}.
drive() ->
    process_flag(trap_exit, true),
    try
        case monitors_agree() of
            true -> rows_of_all(findings());
            {false, Detail} -> failed(monitors, Detail)
        end
    catch
        throw:stop -> {failed, too_long, why(too_long)};
        %% A crash would be in the node's log.
        Class:Reason:Stack ->
            failed(crash, flame_prof_error:exit_text({{Class, Reason}, Stack}))
    after
        kill_probes()
    end.

rows_of_all({Findings, AreAll}) ->
    {ok, flame_prof_wait_claims:rows(Findings), AreAll}.

%% Again until there is none: some start others, which link themselves later. One that does so only
%% once the driver has gone ends by itself.
kill_probes() ->
    {links, Links} = process_info(self(), links),
    Monitors = [{erlang:monitor(process, P), exit(P, kill)} || P <- Links, is_pid(P)],
    lists:foreach(
        fun({M, true}) ->
            receive
                {'DOWN', M, process, _, _} -> ok
            end
        end,
        Monitors
    ),
    Close = fun(P) -> attempt(fun() -> port_close(P) end) end,
    lists:foreach(Close, [P || P <- Links, is_port(P)]),
    case Links of
        [] -> ok;
        _ -> kill_probes()
    end.

findings() ->
    Self = self(),
    Probes =
        callers(Self) ++
            [
                {{idle, Modules}, attempt(fun() -> Start(Self) end)}
             || {Modules, Start} <- flame_prof_wait_probe:idles()
            ] ++
            [{{sleeper, Mfa}, linked(Fun)} || {Mfa, Fun} <- flame_prof_wait_probe:sleepers()] ++
            [{{starter, none}, linked(fun() -> Start(Self) end)}
             || Start <- flame_prof_wait_probe:starters(), _ <- [1, 2]] ++
            busy(Self) ++ ports() ++ lockers(),
    Telling = maps:from_keys([Pid || {Kind, Pid} <- Probes, is_pid(Pid), tells(Kind)], []),
    Told = told(#{}, Telling, deadline(?TELL)),
    Known = [{truth(Kind, Pid, Told), Pid} || {Kind, Pid} <- Probes, is_pid(Pid)],
    Wanted = [{Truth, Pid} || {Truth, Pid} <- Known, Truth =/= none],
    {Seen, HaveSettled} = looked(Wanted, [], deadline(?SETTLE)),
    HaveTold = [] =:= [Pid || Pid <- maps:keys(maps:without(maps:keys(Told), Telling)),
        is_process_alive(Pid)],
    {Seen, HaveTold andalso HaveSettled}.

tells(caller) -> true;
tells({starter, _}) -> true;
tells({busy, _, _, _}) -> true;
tells(_) -> false.

%%% -------------------------------------------------------- the kinds of probe --

%% Requests that differ in tag and in shape.
requests() ->
    [{flame_prof_probe_a, 1}, flame_prof_probe_b, {flame_prof_probe_c, 2, 3}].

callers(Self) ->
    Helper = linked(fun() -> flame_prof_wait_probe:helper(Self) end),
    Name = flame_prof_wait_helper,
    Names =
        case attempt(fun() -> register(Name, Helper) end) of
            true -> #{pid => Helper, name => Name, node => {Name, node()}};
            _ -> #{pid => Helper}
        end,
    [
        {caller(Probe), linked(fun() ->
            attempt(fun() -> Call(maps:get(By, Names), Request) end)
        end)}
     || {Probe, Bys, Call} <- flame_prof_wait_probe:callers(),
        By <- Bys,
        maps:is_key(By, Names),
        Request <- requests()
    ].

%% In OTP 25 another process makes these calls.
caller(gen_statem_call_3) -> proxied;
caller(gen_statem_clean) -> proxied;
caller(_) -> caller.

busy(Self) ->
    [
        {{busy, Kind, Request, Caller}, Server}
     || {Kind, Start} <- flame_prof_wait_probe:busy(),
        Request <- requests(),
        {Server, Caller} <- [attempt(fun() -> Start(Self, Request) end)]
    ].

%% An accept and a receive on a socket of this host, which nobody else can reach: none
%% where sockets are not to be had.
ports() ->
    Options = [{inet_backend, inet}, binary, {active, false}, {ip, {127, 0, 0, 1}}],
    try
        {ok, Listening} = gen_tcp:listen(0, Options),
        accepts(Listening)
    catch
        _:_ -> []
    end.

accepts(Listening) ->
    {ok, Number} = inet:port(Listening),
    Receiving = [receiving(Listening, Number) || _ <- [1, 2]],
    Accept = fun() -> attempt(fun() -> gen_tcp:accept(Listening) end) end,
    Accepting = [linked(Accept) || _ <- [1, 2]],
    [{{port, Listening}, Pid} || Pid <- Accepting] ++ [R || {_, Pid} = R <- Receiving, is_pid(Pid)].

%% One end of a connection is the driver's.
receiving(Listening, Number) ->
    Options = [{inet_backend, inet}, binary, {active, false}],
    {ok, _} = gen_tcp:connect({127, 0, 0, 1}, Number, Options, 100),
    {ok, Socket} = gen_tcp:accept(Listening, 100),
    Pid = linked(fun() ->
        receive
            go -> attempt(fun() -> gen_tcp:recv(Socket, 0) end)
        end
    end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    {{port, Socket}, Pid}.

%% A lock of this node that one has and the others try to get.
lockers() ->
    Ids = [flame_prof_lock_a, flame_prof_lock_b],
    Hold = fun(Id) ->
        linked(fun() ->
            attempt(fun() -> global:set_lock({Id, self()}, [node()], 0) end),
            receive never -> ok end
        end)
    end,
    _ = [Hold(Id) || Id <- Ids],
    [
        {{locker, Id}, linked(fun() ->
            timer:sleep(20),
            attempt(fun() -> global:set_lock({Id, self()}, [node()]) end)
        end)}
     || Id <- Ids
    ].

%%% --------------------------------------------------------------- the truth --

deadline(Milliseconds) -> erlang:monotonic_time(millisecond) + Milliseconds.

left(Deadline) -> max(0, Deadline - erlang:monotonic_time(millisecond)).

%% What the helper and the servers were handed, by who sent it: until all have told.
told(Told, Telling, _Deadline) when map_size(Telling) =:= 0 ->
    Told;
told(Told, Telling, Deadline) ->
    receive
        {got, _, {io_request, Pid, Ref, Request}} ->
            told(Told#{Pid => {Ref, Request}}, maps:remove(Pid, Telling), Deadline);
        {got, _, {_, {Pid, Ref}, Request}} ->
            told(Told#{Pid => {Ref, Request}}, maps:remove(Pid, Telling), Deadline);
        {got, _, _} ->
            told(Told, Telling, Deadline);
        {child, Child, Starter} ->
            told(Told#{Starter => {child, Child}}, maps:remove(Starter, Telling), Deadline);
        stop ->
            throw(stop);
        {works, Server, From} ->
            told(Told#{Server => {works, From}}, maps:remove(Server, Telling), Deadline);
        %% It refuses the name, or does not exist here: no probe.
        {'EXIT', Pid, _} ->
            told(Told, maps:remove(Pid, Telling), Deadline)
    after left(Deadline) ->
        Told
    end.

%% `none': it never was a probe.
truth(caller, Pid, Told) ->
    case Told of
        #{Pid := {Ref, Request}} -> {caller, ref_view(Ref), view(Request)};
        #{} -> none
    end;
truth(proxied, Pid, Told) ->
    truth(caller, Pid, Told);
truth({starter, _}, Pid, Told) ->
    case Told of
        #{Pid := {child, Child}} -> {starter, {pid, Child}};
        #{} -> none
    end;
truth({busy, Kind, Request, _}, Server, Told) ->
    case Told of
        #{Server := {works, From}} -> {busy, Kind, view(Request), from_view(From)};
        #{} -> none
    end;
truth(Other, _, _) ->
    Other.

%% As stack_terms/1 tells it.
view(Atom) when is_atom(Atom) -> {atom, Atom};
view(Pid) when is_pid(Pid) -> {pid, Pid};
view(Ref) when is_reference(Ref) -> {ref, numbers(Ref)};
view(Tuple) when is_tuple(Tuple) ->
    {tuple, tuple_size(Tuple), [view(E) || E <- lists:sublist(tuple_to_list(Tuple), 4)]};
view([Head | Tail]) -> {list, view(Head), view(Tail)};
view(_) -> other.

%% The last three of those that are printed: an alias's has five from OTP 26 on.
numbers(Ref) ->
    ["#Ref", "0" | Numbers] = string:lexemes(ref_to_list(Ref), "<.>"),
    [A, B, C | _] = lists:reverse(Numbers),
    {list_to_integer(A), list_to_integer(B), list_to_integer(C)}.

%% Of gen's tag, Ref or [alias|Ref]: the reference; a slot may hold either.
ref_view([alias | Ref]) -> view(Ref);
ref_view(Ref) -> view(Ref).

from_view(none) -> none;
from_view({Pid, Tag}) -> view({Pid, Tag}).

%%% ------------------------------------------------------- what stacks hold --

%% [{Truth, Frames}] of those that wait in time; a few milliseconds after they have told.
looked([], Seen, _) ->
    {Seen, true};
looked(Wanted, Seen, Deadline) ->
    {ok, Stacks} = flame_prof_looks_nif:stack_terms([Pid || {_, Pid} <- Wanted]),
    Now = maps:from_list(Stacks),
    IsThere = fun({Truth, Pid}) -> is_there(Truth, maps:get(Pid, Now)) end,
    {Done, Rest} = lists:partition(IsThere, Wanted),
    More = [{Truth, element(2, maps:get(Pid, Now))} || {Truth, Pid} <- Done] ++ Seen,
    case left(Deadline) of
        0 ->
            {More, Rest =:= []};
        _ ->
            ok = pause(3),
            looked([W || {_, Pid} = W <- Rest, is_process_alive(Pid)], More, Deadline)
    end.

pause(Milliseconds) ->
    receive
        stop -> throw(stop)
    after Milliseconds -> ok
    end.

%% A locker may be on its way still.
is_there({locker, _}, {ok, [{_, {global, random_sleep, 1}, _} | _]}) -> true;
is_there({locker, _}, _) -> false;
is_there({sleeper, Mfa}, {ok, [{_, Mfa, _} | _]}) -> true;
is_there({sleeper, _}, _) -> false;
is_there({idle, Modules}, {ok, [{_, Mfa, _} | _]}) -> lists:member(module_of(Mfa), Modules);
is_there({starter, _}, {ok, [{_, {proc_lib, _, _}, _} | _]}) -> true;
is_there({starter, _}, _) -> false;
is_there({port, _}, {ok, [{_, {prim_inet, _, _}, _} | _]}) -> true;
is_there({port, _}, _) -> false;
is_there(_, {ok, _}) -> true;
is_there(_, {error, _}) -> false.

module_of({Module, _, _}) -> Module;
module_of(none) -> none.

%%% --------------------------------------------------------------- monitors --

%% A process with monitors of each kind: the tree that the library reads is the one that
%% the VM tells of.
monitors_agree() ->
    Self = self(),
    Name = flame_prof_wait_monitored,
    Pids = [linked(fun() -> flame_prof_wait_probe:helper(Self) end) || _ <- [1, 2, 3, 4, 5]],
    Named = attempt(fun() -> register(Name, hd(Pids)) end) =:= true,
    Probe = linked(fun() ->
        Refs = [{erlang:monitor(process, P), {pid, P}} || P <- Pids],
        Ports = [{erlang:monitor(port, P), {port, P}} || P <- lists:sublist(erlang:ports(), 1)],
        Names = [{erlang:monitor(process, Name), {pid, hd(Pids)}} || Named],
        Aliases = [{erlang:monitor(process, P, [{alias, demonitor}]), {pid, P}} || P <- Pids],
        Self ! {monitors, self(), Refs ++ Ports ++ Names ++ Aliases},
        receive
            never -> ok
        end
    end),
    receive
        {monitors, Probe, Truth} -> monitors_agree(Probe, Truth, deadline(?SETTLE))
    after ?TELL -> {false, "the probe did not start"}
    end.

monitors_agree(Probe, Truth, Deadline) ->
    Expected = lists:sort([{numbers(Ref), Target} || {Ref, Target} <- Truth]),
    case flame_prof_looks_nif:monitor_terms(Probe) of
        {ok, Found} ->
            case lists:sort([{Ref, Target} || {Ref, _, true, Target, _} <- Found]) of
                Expected -> true;
                _ -> {false, "a probe's tree has other ones"}
            end;
        {error, Error} ->
            case left(Deadline) of
                0 ->
                    {false, atom_to_list(Error)};
                _ ->
                    ok = pause(3),
                    monitors_agree(Probe, Truth, Deadline)
            end
    end.

%%% ---------------------------------------------------------- by the function --

%% @doc The process of OTP that answers who waits in this function, in the function's only receive,
%% and has no monitor: by its registered name. Read in the sources of 25, 27 and 29.
-spec called(mfa()) -> Registered :: atom() | none.
called({init, request, 1}) -> init;
called({erts_code_purger, purge, 1}) -> erts_code_purger;
called({erts_code_purger, soft_purge, 1}) -> erts_code_purger;
called(_) -> none.
