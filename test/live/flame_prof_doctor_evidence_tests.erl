%% What the doctor looks at on a node, and what it leaves there.
-module(flame_prof_doctor_evidence_tests).

-behaviour(supervisor).

-export([init/1, child/0, is_socket_loaded/0]).

-include_lib("eunit/include/eunit.hrl").

folders() ->
    lists:sort(filelib:wildcard(filename:join(os:getenv("TMPDIR", "/tmp"),
        "flame_prof*." ++ os:getpid() ++ ".*"))).

a_node_is_looked_at_and_as_it_was_test() ->
    Folders = folders(),
    {Evidence, _Files} = flame_prof_doctor_evidence:collect(#{for => 1000, engine => auto}),
    ?assertMatch(#{seconds := [_ | _], os := {_, _}, system := {_, _}, tables := #{}}, Evidence),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    ?assertEqual({monitors, []}, process_info(self(), monitors)),
    ?assertEqual(undefined, whereis(flame_prof_session)),
    ?assertEqual(Folders, folders()).

%% What it finds depends on the machine: all of it has the same form.
the_shell_s_doctor_prints_what_is_wrong_test() ->
    [begin
        {ok, Text} = native_node:printed(Doctor),
        ?assertMatch({_, {match, _}}, {Text, re:run(Text, "^(" ++ Healthy ++ "|1\\. (critical|"
            "warning|note): [a-z_]+: )", [])}),
        ?assertMatch({_, {match, _}}, {Text, re:run(Text, ["looked for ", Time, " s: "])})
    end || {Doctor, Healthy, Time} <- [
            %% A busy machine may leave most of it out.
            {fun flame_prof:doctor/0, "nothing (is wrong|was found, and most was not seen): ",
                "1[0-9]"},
        {fun() -> flame_prof:doctor(#{for => 1000}) end,
            "nothing was found, and (much|most) was not seen: ", "1\\.[0-9]"}]],
    ?assertMatch({error, {bad_option, #{option := for}}}, flame_prof:doctor(#{for => 1})).

%% Nothing waits for the end of the time.
a_caller_that_goes_leaves_nothing_test() ->
    leaves_nothing(fun() ->
        flame_prof_doctor_evidence:collect(#{for => 600000, engine => auto})
    end),
    waiting:eventually(fun() -> looks() =:= [] end).

%% Its call goes on where it ends, as that of a command on another node.
nothing_is_looked_at_for_a_caller_elsewhere_that_goes_test() ->
    {Asker, Monitor} = spawn_monitor(fun() ->
        receive Caller ->
            flame_prof_doctor_evidence:collect(#{for => 600000, engine => auto, caller => Caller})
        end
    end),
    leaves_nothing(fun() -> Asker ! self(), receive never -> ok end end),
    receive {'DOWN', Monitor, process, Asker, Reason} -> ?assertEqual(normal, Reason) end,
    ?assertEqual([], looks()).

a_recording_whose_caller_is_killed_leaves_nothing_test() ->
    leaves_nothing(fun() -> flame_prof_recording:record(600000, #{}, self()) end),
    Until = erlang:monotonic_time(millisecond) + 600000,
    leaves_nothing(fun() -> flame_prof_recording:until(Until, #{}) end).

leaves_nothing(Fun) ->
    Folders = folders(),
    Caller = spawn(Fun),
    waiting:eventually(fun() -> folders() =/= Folders andalso is_pid(whereis(flame_prof_session))
        end),
    true = exit(Caller, kill),
    waiting:eventually(fun() -> whereis(flame_prof_session) =:= undefined end),
    waiting:eventually(fun() -> folders() =:= Folders end).

looks() ->
    [Pid || Pid <- processes(),
        {initial_call, {flame_prof_doctor_evidence, _, _}} <- [process_info(Pid, initial_call)]].

the_arguments_of_a_program_stay_in_the_node_test() ->
    Port = open_port({spawn, "/usr/bin/env PASSWORD=opensesame sleep 60"}, []),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    %% More than a pipe has: the rest waits in the port.
    true = port_command(Port, binary:copy(<<0>>, 1000000)),
    try
        {ok, #{ports := Ports}} = flame_prof_doctor_system:look(portable),
        ?assertMatch([#{name := <<"env">>, queued := N}] when N > 0,
            [Told || #{port := Of} = Told <- Ports, Of =:= Port])
    after
        true = unlink(Port),
        os:cmd("kill " ++ integer_to_list(Pid))
    end.

with_the_portable_engine_no_memory_is_read_test() ->
    {ok, System} = flame_prof_doctor_system:look(portable),
    ?assertEqual([], maps:keys(System) -- [handlers, ports, connections, pending, files,
        sockets]).

%% By the module socket, whose ports are none of the VM.
who_waits_to_write_by_the_module_socket_is_told_test() ->
    {ok, Listener} = socket:open(inet, stream, tcp),
    ok = socket:bind(Listener, #{family => inet, addr => {127, 0, 0, 1}, port => 0}),
    ok = socket:listen(Listener),
    {ok, Address} = socket:sockname(Listener),
    Self = self(),
    Writer = spawn_link(fun() ->
        {ok, Socket} = socket:open(inet, stream, tcp),
        ok = socket:connect(Socket, Address),
        Self ! connected,
        socket:send(Socket, binary:copy(<<0>>, 100000000))
    end),
    receive connected -> ok end,
    {ok, _} = socket:accept(Listener),
    waiting:eventually(fun() ->
        {ok, #{sockets := Sockets}} = flame_prof_doctor_system:look(portable),
        [1] =:= [N || #{owner := Of, writers := N} <- Sockets, Of =:= Writer]
    end),
    true = unlink(Writer),
    true = exit(Writer, kill),
    ok = socket:close(Listener).

a_node_without_sockets_does_not_get_their_module_test() ->
    {Before, After} = peer_vm:value(?MODULE, is_socket_loaded, []),
    ?assertEqual(Before, After).

is_socket_loaded() ->
    Before = erlang:module_loaded(socket),
    {ok, #{sockets := []}} = flame_prof_doctor_system:look(portable),
    {Before, erlang:module_loaded(socket)}.

%% Read in memory: by the native engine only.
of_memory() ->
    case flame_prof_top_reader:engine() of
        native ->
            [{timeout, 60, Test} || Test <- [fun owners_of_ports/0, fun restarts/0,
                fun restarts_without_a_name/0, fun restarts_of_a_busy_one/0,
                fun restarts_of_a_dynamic_supervisor/0]];
        portable ->
            ?debugMsg("skipped: ports and restarts of before need the native engine"),
            []
    end.

ports_and_restarts_of_before_are_known_test_() -> of_memory().

owners_of_ports() ->
    true = register(?MODULE, self()),
    Ports = [open_port({spawn, "cat"}, []) || _ <- lists:seq(1, 3)],
    By = waiting:eventually(fun() ->
        {ok, #{port_owners := Owners}} = flame_prof_doctor_system:look(native),
        {true, Owners}
    end),
    [true = port_close(Port) || Port <- Ports],
    true = unregister(?MODULE),
    ?assertEqual(Ports, [Port || Port <- Ports,
        lists:member(Port, maps:get(self(), maps:get(atom_to_binary(?MODULE), By)))]),
    All = lists:append([Of || Owners <- maps:values(By), Of <- maps:values(Owners)]),
    ?assertEqual(lists:sort(All), lists:usort(All)).

restarts() -> restarts(fun() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []) end).
restarts_without_a_name() -> restarts(fun() -> supervisor:start_link(?MODULE, []) end).

%% It is busy at each look: what it has to do is short, and there is always more of it.
restarts_of_a_busy_one() ->
    restarts(fun() ->
        {ok, Supervisor} = supervisor:start_link(?MODULE, []),
        _ = spawn_link(fun() -> counts(Supervisor) end),
        {ok, Supervisor}
    end).

%% Of Elixir: its state is a struct, its times are those of the VM in seconds.
restarts_of_a_dynamic_supervisor() ->
    Now = erlang:monotonic_time(1),
    Child = {{job, start_link, undefined}, transient, 5000, worker, [job]},
    {ok, Pid} = gen_server:start_link(?MODULE, #{'__struct__' => 'Elixir.DynamicSupervisor',
        mod => jobs_sup, max_restarts => 3, max_seconds => 60, children => #{self() => Child},
        restarts => [Now, Now - 1, Now - 50]}, []),
    #{supervisors := [One]} = a_second_later(Pid),
    ?assertMatch(#{name := {supervisor, jobs_sup, 1}, intensity := 3}, One),
    ?assertEqual({2, #{self() => {job, start_link, 0}}},
        {lists:sum(maps:values(maps:get(restarts, One))), maps:get(children, One)}),
    ok = gen_server:stop(Pid).

counts(Supervisor) ->
    try supervisor:count_children(Supervisor) of
        _ -> counts(Supervisor)
    catch exit:_ -> ok
    end.

%% A crash of two children, then nothing, then another one of two.
restarts(Start) ->
    {ok, Supervisor} = Start(),
    crash(Supervisor),
    First = a_second_later(Supervisor),
    Quiet = a_second_later(Supervisor),
    ?assertEqual([], loops(First, Quiet)),
    crash(Supervisor),
    Last = a_second_later(Supervisor),
    ?assertMatch([#{kind := restart_loop, numbers := #{restarts := 2}}], loops(First, Last)),
    true = unlink(Supervisor),
    ok = gen_server:stop(Supervisor).

init(#{mod := Module} = State) ->
    _ = put('$initial_call', {supervisor, Module, 1}),
    {ok, State};
init([]) ->
    {ok, {#{intensity => 100, period => 60}, [#{id => N, start => {?MODULE, child, []},
        shutdown => brutal_kill} || N <- [1, 2]]}}.

child() -> {ok, spawn_link(fun() -> receive never -> ok end end)}.

crash(Supervisor) ->
    Children = [Pid || {_, Pid, _, _} <- supervisor:which_children(Supervisor)],
    [true = exit(Pid, kill) || Pid <- Children],
    waiting:eventually(fun() ->
        New = [Pid || {_, Pid, _, _} <- supervisor:which_children(Supervisor), is_pid(Pid)],
        length(New) =:= 2 andalso New -- Children =:= New
    end).

a_second_later(Pid) ->
    timer:sleep(1100),
    %% One that gives no answer in time is not told.
    waiting:eventually(fun() ->
        {ok, #{supervisors := All}} = flame_prof_doctor_system:look(native),
        Own = [One || #{process := Of} = One <- All, Of =:= Pid],
        Own =/= [] andalso {true, #{supervisors => Own}}
    end).

loops(#{supervisors := [_]} = First, #{supervisors := [_]} = Last) ->
    Limits = maps:from_list([{Name, Default}
        || {Name, Default, _} <- flame_prof_doctor_restart_loop:thresholds()]),
    flame_prof_doctor_restart_loop:find(#{system => {First, Last}}, Limits).

files_that_cannot_be_placed_are_told_as_not_seen_test() ->
    Evidence = #{node => node(), engine => portable, span_us => 1, unseen => #{}},
    %% The second is where the first is.
    #{findings := [], unseen := Unseen} =
        flame_prof_doctor:diagnosed(Evidence, lists:duplicate(2, {<<"a.log">>, <<>>}), #{}),
    ?assertMatch({match, _}, re:run(proplists:get_value(mailbox, Unseen), "a.log: .*exists")).
