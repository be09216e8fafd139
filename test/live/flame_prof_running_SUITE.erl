%% What a session says of running processes against what is known of them: which stack they
%% have at any moment. And that asking for it harms nobody. Which share of their CPU time each
%% leaf has: test/proof/running_proof_SUITE.
%%
%% RUNNING_SECONDS (2) is the length of the storm of signals.
-module(flame_prof_running_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
    end_per_testcase/2, stacks_of_running_processes_are_exact/1,
    stacks_are_exact_when_schedulers_are_asked/1, what_runs_has_the_number_of_its_scheduler/1,
    tracing_does_not_break_stacks/1, reductions_include_the_running_part/1,
    schedulers_come_and_go_while_it_samples/1,
    memory_and_status_of_processes_that_end_are_possible/1,
    without_running_stacks_nothing_is_installed/1, libraries_without_room_in_the_budget_are_told/1,
    signals_that_the_kernel_refuses_are_counted/1, a_signal_that_somebody_uses_is_left_alone/1,
    a_signal_that_is_taken_is_told_and_the_next_session_works/1,
    many_schedulers_take_no_more_descriptors/1, stray_signals_do_no_harm/1,
    ends_with_captures_in_flight_are_clean/1, a_storm_of_signals_is_not_noticed/1]).

%% For peers.
-export([peer/1]).
%% A handler of the logger.
-export([log/2]).
%% Spawned.
-export([spawns/2, shuffles_dictionary/1]).

%% The most of a session. It has three: its directory and file, and the sampler's memfd.
-define(DESCRIPTORS, 8).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [peer, shuffles_dictionary]).

init_per_suite(Config) ->
    case flame_prof_nif:platform() of
        #{native := false, why := Why} -> {skip, {no_native_engine, Why}};
        #{native := true} -> built(running_test_nif:build(), Config)
    end.

built({skip, Why}, _Config) ->
    say("skipped: ~s", [Why]),
    {skip, Why};
built(ok, Config) ->
    {ok, _} = flame_prof_calibration:ensure(),
    %% Workers have a scheduler each; what is left is the session's and ours.
    Config.

end_per_suite(_) -> ok.

init_per_testcase(_, Config) ->
    _ = flame_prof:stop(),
    Config.

end_per_testcase(_, _Config) ->
    _ = flame_prof:stop(),
    ok.

%% All kinds of work, and ten times as many captures: running_proof_SUITE.
stacks_of_running_processes_are_exact(Config) ->
    Leaves = [erlang, light_bif, process_info, nif, exceptions, garbage],
    stacks_are_right(Config, #{mode => processes}, Leaves, 100).

stacks_are_exact_when_schedulers_are_asked(Config) ->
    stacks_are_right(Config, #{mode => schedulers}, [erlang, garbage], 60).

%% A capture that met another process than it was sent for, or found no place, is counted; a
%% sample that is not sure of its stack says `ambiguous'. Others are the worker's to the last frame.
stacks_are_right(Config, Options, Leaves, Captures) ->
    say("~0p: of ~w captures", [Options, Captures]),
    Judged = [judge(Config, Options, Leaf, Captures) || Leaf <- Leaves],
    ?assertEqual([], [Wrong || Of <- Judged, {{wrong, _}, _} = Wrong <- maps:to_list(Of)]).

judge(Config, Options, Leaf, Captures) ->
    {Counters, Running, Stopped} = running_profile:judged_of(Leaf, Options, directory(Config),
        online(), Captures),
    say("  ~-12s ~0p; ~s", [Leaf, maps:map(fun(_, {N, _}) -> N end, Running),
        running_profile:counters(Counters)]),
    ?assertEqual(#{}, maps:without([exact, before], Stopped)),
    ?assert(map_size(Running) > 0),
    Running.

%% A worker is bound to its scheduler. In the files of the session, and in the export.
what_runs_has_the_number_of_its_scheduler(Config) ->
    [scheduler_numbers(Config, Mode) || Mode <- [processes, schedulers]],
    ok.

scheduler_numbers(Config, Mode) ->
    Workers = [{S, running_work:start(S, {leaf, leaf_a})} || S <- online()],
    {ok, _} = flame_prof:start(#{dir => directory(Config), sample_interval => 1, mode => Mode,
        cpu_budget => infinity, select => {top, 2, 100}, compress => none}),
    running_profile:until(500),
    {ok, #{files := [File]}} = flame_prof:stop(),
    _ = [running_work:stop(Worker) || {_, Worker} <- Workers],
    {ok, Profile} = flame_prof_profile:read(File),
    Export = <<File/binary, ".perf">>,
    {ok, _} = flame_prof_profile:export(Profile, perf, Export, #{by => samples}),
    [begin
        Found = cpus(Path),
        [begin
            Cpus = maps:get(tid(File, Pid), Found),
            ?assertEqual([Scheduler], maps:keys(Cpus)),
            say("~w: scheduler ~w: ~w samples", [Mode, Scheduler, maps:values(Cpus)])
        end || {Scheduler, {Pid, _, _}} <- Workers]
    end || Path <- [File, Export]],
    _ = [file:delete(Path) || Path <- [File, Export]].

%% By tid: the numbers in brackets of samples whose stacks were captured as they ran.
cpus(File) ->
    {ok, Text} = file:read_file(File),
    lists:foldl(fun(Piece, All) ->
        Captured = binary:match(Piece, <<"running_stack_not_sampled">>) =:= nomatch,
        case re:run(Piece, "^[^ ]+ [0-9]+/([0-9]+) \\[([0-9]+)\\] .*\n\tffffffff "
            "running \\(status\\)$", [dotall, {capture, all_but_first, binary}])
        of
            {match, [Tid, Cpu]} when Captured ->
                maps:update_with(Tid, fun(Cpus) -> add(binary_to_integer(Cpu), 1, Cpus) end,
                    #{binary_to_integer(Cpu) => 1}, All);
            _ -> All
        end
    end, #{}, binary:split(Text, <<"\n\n">>, [global])).

tid(File, Pid) ->
    Wanted = list_to_binary(pid_to_list(Pid)),
    {ok, Tid, _} = flame_prof:fold(
        fun(#{tid := T, words := #{<<"erl_pid">> := P}}, _) when P =:= Wanted -> T;
           (_, Found) -> Found
        end, none, File),
    integer_to_binary(Tid).

%% Breakpoints put other code before a function and other words on its stack. While
%% C decides what a breakpoint is to do, the function that has it is in no place
%% that is copied (instr_trace.cpp generic_bp_local takes its addresses off the
%% stack): its frame is `ambiguous' then, and below are its callers. None may be wrong.
tracing_does_not_break_stacks(Config) ->
    %% A pattern is for what is loaded.
    {module, running_work} = code:ensure_loaded(running_work),
    All = {running_work, '_', '_'},
    [begin
        say("breakpoints: ~w", [Flag]),
        true = erlang:trace_pattern(All, true, [Flag]) > 20,
        try stacks_are_right(Config, #{}, [exceptions], 50)
        after erlang:trace_pattern(All, false, [Flag])
        end
    end || Flag <- [local, call_count, call_time]],
    Tracer = spawn_link(fun swallow/0),
    call_traced(Config, Tracer, global, [call]),
    call_traced(Config, Tracer, local, [call]),
    call_traced(Config, Tracer, local, [call, return_to]),
    in_trace_session(Config, Tracer, code:ensure_loaded(trace)),
    unlink(Tracer),
    exit(Tracer, kill),
    ok.

%% With return traces, each of which stays on the stack until its function returns:
%% of functions that return, so that stacks do not grow for ever.
call_traced(Config, Tracer, Scope, Flags) ->
    say("call trace: ~w ~w", [Scope, Flags]),
    [erlang:trace_pattern(F, [{'_', [], [{return_trace}]}], [Scope]) || F <- returning()],
    _ = erlang:trace(new_processes, true, [{tracer, Tracer} | Flags]),
    try traced(Config)
    after
        _ = erlang:trace(all, false, [all]),
        _ = erlang:trace_pattern({'_', '_', '_'}, false, [Scope])
    end.

returning() ->
    %% None with large arguments: a trace message has them all, and the tracer is not
    %% waited for.
    [{running_work, work, 1}, {running_work, thrower, 1}, {erlang, put, 2}, {erlang, get, 1}
        | [{running_work, F, 2} || F <- [c05, c10, c20, bytes]]].

%% Tracer and workers are busy alike. How much of the time is the tracing itself says
%% nothing of us; that no stack is wrong does.
traced(Config) ->
    Options = #{select => {top, 4, 100}},
    stacks_are_right(Config, Options, [exceptions], 50).

in_trace_session(Config, Tracer, {module, trace}) ->
    say("a trace session", []),
    Session = apply(trace, session_create, [running, Tracer, []]),
    [apply(trace, function, [Session, F, true, [local]]) || F <- returning()],
    _ = apply(trace, process, [Session, new_processes, true, [call]]),
    try traced(Config)
    after apply(trace, session_destroy, [Session])
    end;
in_trace_session(_, _, {error, _}) ->
    say("there are no trace sessions in OTP ~s", [erlang:system_info(otp_release)]).

swallow() ->
    receive _ -> swallow() end.

%% The figures of one process never go down; what it has used when it is stopped
%% is hardly more than what the last sample of it says.
reductions_include_the_running_part(Config) ->
    Worker = {Pid, _, _} = running_work:start(lists:last(online()), {leaf, erlang}),
    {ok, _} = flame_prof:start(#{
        dir => directory(Config), sample_interval => 1, cpu_budget => infinity,
            select => {top, 1, 100}}),
    ok = running_profile:until(300),
    true = waiting:suspend(Pid),
    Name = list_to_binary(pid_to_list(Pid)),
    {reductions, Public} = erlang:process_info(Pid, reductions),
    {ok, #{files := Files}} = flame_prof:stop(),
    true = erlang:resume_process(Pid),
    _ = running_work:stop(Worker),
    {ok, Seen, _} = reader_oracle:fold(fun
        (#{status := Status, metrics := M, words := #{<<"erl_pid">> := P}}, Acc)
            when P =:= Name ->
            {Value, _} = maps:get(<<"reductions">>, M),
            [{Status, Value} | Acc];
        (_, Acc) -> Acc
    end, [], Files),
    Values = [V || {_, V} <- lists:reverse(Seen)],
    Running = [V || {<<"running">>, V} <- lists:reverse(Seen)],
    ?assertEqual(lists:sort(Values), Values),
    %% The VM's own figure moves by turns of 4000 and says nothing in between.
    Moves = [B - A || {A, B} <- lists:zip(lists:droplast(Running), tl(Running)), B > A],
    Fine = length([1 || Move <- Moves, Move rem 4000 =/= 0]),
    say("~w running samples, ~w moves, ~w of them no whole turns; ~w at the end, the VM says ~w", [
        length(Running), length(Moves), Fine, lists:last(Values), Public]),
    ?assert(Fine > 0),
    ?assert(Public >= lists:max(Running) - 4000),
    %% The register has counted the call at which the process yields; the VM's figure has not.
    ?assert(lists:last(Values) =< Public + 1).

%% Their dictionaries are reallocated and given back while a capture is on its way. No
%% process here has more than the bound: each holds some hundred small tuples.
memory_and_status_of_processes_that_end_are_possible(Config) ->
    Bound = 10000000,
    {ok, _} = flame_prof:start(#{dir => directory(Config), mode => schedulers, sample_interval => 1,
        cpu_budget => infinity}),
    Spawners = [spawn_link(?MODULE, spawns, [0, self()]) || _ <- online()],
    ok = running_profile:until(500),
    [begin Pid ! {stop, self()}, receive {stopped, Pid} -> ok end end || Pid <- Spawners],
    {ok, #{files := Files, attempted := T, written := W, inconsistent := N, dropped := D,
        exited := G}} = flame_prof:stop(),
    ?assertEqual(T, W + N + D + G),
    {ok, Seen, #{bad := 0}} = reader_oracle:fold(fun status_and_memory/2, #{}, Files),
    say("statuses and the most memory: ~0tp; ~w gone", [Seen, G]),
    ?assert(maps:size(Seen) > 0),
    ?assertEqual(#{}, maps:filter(fun(_, Memory) -> Memory > Bound end, Seen)),
    ?assertEqual([], maps:keys(Seen) -- [atom_to_binary(Status) || Status <- statuses()]).

status_and_memory(#{words := #{<<"erl_pid">> := _}, status := Status, metrics := Metrics}, Seen) ->
    #{<<"memory">> := {Memory, _}} = Metrics,
    Seen#{Status => max(Memory, maps:get(Status, Seen, 0))};
status_and_memory(_, Seen) -> Seen.

%% doc/format.md
statuses() -> [waiting, runnable, running, garbage_collecting, suspended, exiting].

spawns(N, Parent) ->
    receive
        {stop, Parent} -> Parent ! {stopped, self()}
    after 0 ->
        {_, Monitor} = spawn_monitor(?MODULE, shuffles_dictionary, [5 + N rem 300]),
        receive {'DOWN', Monitor, process, _, normal} -> spawns(N + 1, Parent) end
    end.

shuffles_dictionary(N) ->
    [put({key, K}, K) || K <- lists:seq(1, N)],
    [erase({key, K}) || K <- lists:seq(1, N)],
    ok.

schedulers_come_and_go_while_it_samples(Config) ->
    All = erlang:system_info(schedulers_online),
    Stop = atomics:new(1, []),
    Work = fun Burn(N) ->
        case atomics:get(Stop, 1) of 0 -> Burn((N * 5 + 1) band 16#ffffff); _ -> ok end
    end,
    Burners = [spawn_monitor(fun() -> Work(1) end) || _ <- lists:seq(1, 3)],
    [begin
        {ok, _} = flame_prof:start(#{
            dir => directory(Config), sample_interval => 1, cpu_budget => infinity, mode => Mode}),
        [begin
            _ = erlang:system_flag(schedulers_online, 1 + N rem All),
            timer:sleep(60)
        end || N <- lists:seq(1, 12)],
        _ = erlang:system_flag(schedulers_online, All),
        waiting:eventually(fun() -> maps:get(captures,
            maps:get(counters, flame_prof:info())) > 50 end),
        {ok, #{captures := Captures, inconsistent := Inconsistent, attempted := T, written := W,
            dropped := D, exited := G}} = flame_prof:stop(),
        ?assertEqual(T, W + Inconsistent + D + G),
        say("~w: ~w captures with schedulers going off and on", [Mode, Captures]),
        ok
    end || Mode <- [processes, schedulers]],
    atomics:put(Stop, 1, 1),
    [receive {'DOWN', M, process, P, normal} -> ok end || {P, M} <- Burners],
    ok.

%% What is left of the least budget goes to the ring and to the texts of stacks.
libraries_without_room_in_the_budget_are_told(Config) ->
    {ok, #{memory_budget := Default} = Options} = flame_prof_options:validate(#{}),
    Spare = flame_prof_options:spare_memory(Options) -
        flame_prof_memory_budget:node_bytes(native, Options),
    Least = Default - Spare + 65536,
    ?assert(left_out(#{memory_budget => Least}, Config) > 0),
    ?assertEqual(0, left_out(#{}, Config)).

left_out(Options, Config) ->
    {ok, _} = flame_prof:start(Options#{
        engine => native, dir => directory(Config), sample_interval => 1, cpu_budget => infinity}),
    burn_until_captured(),
    #{counters := #{libraries_left_out := N}} = flame_prof:info(),
    {ok, #{captures := Captures}} = flame_prof:stop(),
    ?assert(Captures > 0),
    N.

%% In a fresh VM: what is installed stays.
without_running_stacks_nothing_is_installed(Config) ->
    [[Before, During, After, Pending, Captures]] = in_peer(
        without_running_stacks, [directory(Config)]),
    ?assertEqual({Before, Before}, {During, After}),
    ?assertEqual({0, 0}, {Pending, Captures}),
    %% With them there is exactly one more.
    [[Without, With, Signals]] = in_peer(with_running_stacks, [directory(Config)]),
    ?assertMatch([_], With -- Without),
    ?assert(Signals > 0).

%% Samples go on without a stack, and with one when the kernel takes signals again.
signals_that_the_kernel_refuses_are_counted(Config) ->
    case os:find_executable("prlimit") of
        false -> {skip, "no prlimit"};
        _ ->
            [[Before, Refused, Sampled, Again, Lost]] =
                in_peer(refused_signals, [directory(Config)]),
            ?assertEqual(0, Before),
            ?assert(Refused > 0 andalso Sampled > 0 andalso Again > 0),
            %% It says so, once in the log, and takes it back.
            {Why, Warning} = Lost,
            ?assertMatch({match, _}, re:run(Why, "RLIMIT_SIGPENDING")),
            ?assertMatch({match, _}, re:run(Warning, "can no longer capture the stacks.*RLIMIT_SIGPENDING"))
    end.

peer([refused_signals, Directory]) ->
    Limit = fun(Soft) ->
        "" = os:cmd("prlimit --pid " ++ os:getpid() ++ " --sigpending=" ++ Soft ++ ": 2>&1")
    end,
    Counter = fun(Name) -> maps:get(Name, maps:get(counters, flame_prof:info())) end,
    More = fun(Name) ->
        Least = Counter(Name),
        waiting:eventually(fun() -> Counter(Name) > Least end),
        Counter(Name) - Least
    end,
    Running = fun(State) ->
        waiting:eventually(fun() -> maps:get(running_stacks, flame_prof:info()) =:= State end)
    end,
    ok = logger:add_handler(?MODULE, ?MODULE, #{level => warning, config => self()}),
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1, flush_interval => 1100,
        cpu_budget => infinity}),
    Burner = spawn_link(fun() -> burn(86400000) end),
    burn_until_captured(),
    Running(on),
    Before = Counter(refused_signals),
    [Usual] = string:lexemes(os:cmd("prlimit --pid " ++ os:getpid()
        ++ " --sigpending --noheadings --output=SOFT"), " \n"),
    _ = Limit("0"),
    Refused = More(refused_signals),
    Sampled = More(attempted),
    waiting:eventually(fun() -> maps:get(running_stacks, flame_prof:info()) =/= on end),
    #{running_stacks := {lost, Why}} = flame_prof:info(),
    Warning = receive {warning, Text} -> Text after 60000 -> error(no_warning) end,
    _ = Limit(Usual),
    Again = More(captures),
    Running(on),
    exit(unlink(Burner) andalso Burner, kill),
    {ok, #{refused_signals := All}} = flame_prof:stop(),
    [Before, min(Refused, All), Sampled, Again, {Why, Warning}];
peer([without_running_stacks, Directory]) ->
    Before = caught(),
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1,
        cpu_budget => infinity, running_stacks => false}),
    burn(300),
    During = caught(),
    Pending = pending(),
    #{running_stacks := {off, _}} = flame_prof:info(),
    {ok, #{signals := 0, captures := Captures}} = flame_prof:stop(),
    [Before, During, caught(), Pending, Captures];
peer([with_running_stacks, Directory]) ->
    Without = caught(),
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1, cpu_budget => infinity}),
    burn_until_captured(),
    {ok, #{signals := Signals}} = flame_prof:stop(),
    [Without, caught(), Signals];
peer([used_signal, Directory]) ->
    {_, Most} = running_test_nif:real_time_signals(),
    ok = running_test_nif:take_signal(Most),
    ok = running_test_nif:take_signal(Most - 1),
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1, cpu_budget => infinity}),
    burn_until_captured(),
    {ok, #{captures := Captures}} = flame_prof:stop(),
    Actions = [running_test_nif:signal_action(S) || S <- [Most, Most - 1, Most - 2, Most - 3]],
    [Actions, running_test_nif:signals_arrived(), Captures];
peer([all_signals_used, Directory]) ->
    {Least, Most} = running_test_nif:real_time_signals(),
    [ok = running_test_nif:take_signal(S) || S <- lists:seq(Least, Most)],
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1, cpu_budget => infinity}),
    burn_until(written),
    #{running_stacks := Running} = flame_prof:info(),
    {ok, #{signals := Signals, written := Written}} = flame_prof:stop(),
    Refused = flame_prof:start(#{dir => Directory, mode => schedulers}),
    [Running, Signals, Written > 0, element(1, Refused), running_test_nif:signals_arrived()];
peer([taken_signal, Directory]) ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{level => warning, config => self()}),
    Options = #{dir => Directory, sample_interval => 1, cpu_budget => infinity,
        flush_interval => 1100, compress => none},
    {ok, _} = flame_prof:start(Options),
    Signal = our_signal(),
    burn_until_captured(),
    ok = running_test_nif:take_signal(Signal),
    Burner = spawn_link(fun() -> burn(86400000) end),
    waiting:eventually(fun() -> maps:get(running_stacks, flame_prof:info()) =/= on end),
    #{counters := #{captures := Before}} = flame_prof:info(),
    %% Where the machine is busy the first samples after it are of others.
    Told = fun() -> in_files(Directory, Signal) end,
    waiting:eventually(fun() -> lists:all(fun(Is) -> Is end, Told()) end),
    receive {warning, _} -> ok after 60000 -> error(no_warning) end,
    {ok, #{captures := After, lost_signal := Signal} = Run} = flame_prof:stop(),
    {lost, Why} = maps:get(running_stacks, Run),
    InFile = Told(),
    Warnings = (fun Count(N) -> receive {warning, _} -> Count(N + 1) after 0 -> N end end)(1),
    Arrived = running_test_nif:signals_arrived(),
    {ok, _} = flame_prof:start(Options),
    on = maps:get(running_stacks, flame_prof:info()),
    waiting:eventually(fun() -> maps:get(captures, maps:get(counters, flame_prof:info())) > 0 end),
    exit(unlink(Burner) andalso Burner, kill),
    {ok, #{lost_signal := Lost}} = flame_prof:stop(),
    [Why, After - Before, InFile, Warnings, Arrived, running_test_nif:signals_arrived() - Arrived,
        Lost];
peer([descriptors, Directory]) ->
    {ok, _} = application:ensure_all_started(flame_prof),
    Before = descriptors(),
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1, cpu_budget => infinity}),
    burn_until_captured(),
    During = least_descriptors(Before),
    {ok, _} = flame_prof:stop(),
    _ = flame_prof_pstack:processes([self()]),
    [erlang:system_info(schedulers), During, least_descriptors(Before)];
peer([stray, Directory]) ->
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1, cpu_budget => infinity}),
    Signal = our_signal(),
    burn_until_captured(),
    stray(Signal),
    {ok, #{captures := C1}} = flame_prof:stop(),
    stray(Signal),
    true = code:delete(flame_prof_nif),
    _ = code:purge(flame_prof_nif),
    stray(Signal),
    burn(100),
    [C1 > 0, still_computes()].

a_signal_that_somebody_uses_is_left_alone(Config) ->
    [[Actions, Arrived, Captures]] = in_peer(used_signal, [directory(Config)]),
    ?assertEqual([ours, ours, other, default], Actions),
    ?assertEqual(0, Arrived),
    ?assert(Captures > 0),
    %% Where all are taken it says so, and goes on without.
    [[{off, Why}, Signals, Written, Refused, Others]] =
        in_peer(all_signals_used, [directory(Config)]),
    say("all signals in use: ~s", [Why]),
    ?assertMatch({match, _}, re:run(Why, "real-time signal is in use")),
    ?assertEqual({0, true, error, 0}, {Signals, Written, Refused, Others}).

%% Told by info/0, in the log and in the file; nothing that runs vanishes, and no
%% signal is sent to the other owner but such as were on their way.
a_signal_that_is_taken_is_told_and_the_next_session_works(Config) ->
    [[Why, Captures, InFile, Warnings, Arrived, Later, Lost]] =
        in_peer(taken_signal, [directory(Config)]),
    say("taken: ~ts; ~w signals went to its new owner", [Why, Arrived]),
    ?assertMatch({match, _}, re:run(Why, "another program installed a handler for signal")),
    ?assertEqual({0, [true, true], 1}, {Captures, InFile, Warnings}),
    ?assert(Arrived =< erlang:system_info(schedulers)),
    ?assertEqual({0, 0}, {Later, Lost}).

many_schedulers_take_no_more_descriptors(Config) ->
    [Few, Many] = [hd(in_peer(descriptors, [directory(Config)], ["+S", S ++ ":" ++ S]))
     || S <- ["2", "200"]],
    say("schedulers, descriptors in a session, after it: ~w and ~w", [Few, Many]),
    [2, InSession, After] = Few,
    ?assertEqual([200, InSession, After], Many),
    ?assert(InSession =< ?DESCRIPTORS).

in_files(Directory, Signal) ->
    Text = iolist_to_binary([element(2, {ok, _} = file:read_file(File))
     || File <- filelib:wildcard(filename:join(Directory, "*")), filelib:is_regular(File)]),
    [binary:match(Text, Part) =/= nomatch
     || Part <- [<<"running_stack_not_sampled">>,
         <<"lost_signal=", (integer_to_binary(Signal))/binary>>]].

%% Of some readings: a check of the captures and other readers of /proc have some for an instant.
least_descriptors(Before) ->
    lists:min([begin timer:sleep(20), descriptors() - Before end || _ <- lists:seq(1, 20)]).

descriptors() ->
    {ok, Names} = file:list_dir("/proc/self/fd"),
    length(Names).

log(#{msg := {Format, Arguments}}, #{config := Pid}) when is_list(Arguments) ->
    case string:find(io_lib:format(Format, Arguments), "can no longer capture the stacks") of
        nomatch -> ok;
        Found -> Pid ! {warning, Found}
    end;
log(_, _) -> ok.

%% With values that are no scheduler's, old numbers, to other threads, by kill(1),
%% while it runs, when it has stopped and when the library is gone.
stray_signals_do_no_harm(Config) ->
    ?assertEqual([[true, true]], in_peer(stray, [directory(Config)])).

stray(Signal) ->
    Threads = threads(),
    Values = [0, 1, 16#100000001, 16#7fffffff00000003, 16#ffffffffffffffff],
    [running_test_nif:queue_signal(Thread, Signal, Value) || Thread <- Threads, Value <- Values],
    _ = os:cmd("kill -s " ++ integer_to_list(Signal) ++ " " ++ os:getpid()),
    timer:sleep(20).

still_computes() -> lists:sum(lists:seq(1, 1000)) =:= 500500.

%% VMs, ended in each way while signals are on their way.
ends_with_captures_in_flight_are_clean(Config) ->
    ?assertEqual([], ends_in_flight:not_clean(directory(Config), 1)).

%% 2 kHz a scheduler, beside programs that read, write, wait and count. Each checks
%% its own results; a wrong one, or an EINTR, is a crash.
a_storm_of_signals_is_not_noticed(Config) ->
    Ms = 1000 * list_to_integer(os:getenv("RUNNING_SECONDS", "2")),
    Quiet = running_harm:run(directory(Config), Ms div 5),
    {Counters, Stormy} = under_storm(Config, fun() -> running_harm:run(directory(Config), Ms) end),
    #{captures := Captures, signals := Signals, handler_ns := Ns} = Counters,
    say("~w ms, ~w signals (~w a second and scheduler), ~w captures, ~w ns of handler each", [
        Ms, Signals, Signals * 1000 div Ms div length(online()), Captures, Ns div max(1, Captures)
    ]),
    [say("  ~-12s ~8w done in ~w ms without, ~8w in ~w ms with: ~0p", [
            Kind, maps:get(done, maps:get(Kind, Quiet)), Ms div 5, Done, Ms, maps:remove(done, What)
        ]) || {Kind, #{done := Done} = What} <- lists:sort(maps:to_list(Stormy))],
    ?assertEqual(lists:sort(maps:keys(Quiet)), lists:sort(maps:keys(Stormy))),
    %% All that is not a count is a result: the same, and not one EINTR.
    Results = fun(Run) -> maps:map(fun(_, What) -> maps:remove(done, What) end, Run) end,
    ?assertEqual(Results(Quiet), Results(Stormy)),
    ?assert(lists:all(fun(#{done := Done}) -> Done > 0 end, maps:values(Stormy))),
    %% How many there are is the machine's affair.
    ?assert(Captures > 0).

%% The library's own session: intervals below a millisecond are not for users.
under_storm(Config, Fun) ->
    {ok, _} = application:ensure_all_started(flame_prof),
    {ok, _, _} = flame_prof_schedulers:ensure(),
    Directory = iolist_to_binary(directory(Config)),
    {ok, Options} = flame_prof_options:validate(#{dir => Directory, mode => schedulers,
        compress => none, cpu_budget => infinity, flush_interval => 2000}),
    Session = flame_prof_config:session(native, Options, true, []),
    {ok, Ref} = flame_prof_nif:session_start(Session#{sample_interval_us => 500}),
    Result = Fun(),
    ok = flame_prof_nif:session_stop(Ref),
    receive
        {flame_prof_nif, Ref, {stopped, ok}} -> ok
    after 300000 -> error(session_does_not_stop)
    end,
    Counters = #{attempted := T, written := W, inconsistent := N, dropped := D, lost := L,
        exited := G} = flame_prof_nif:session_info(Ref),
    ok = flame_prof_nif:session_close(Ref),
    _ = file:del_dir_r(Directory),
    ?assertEqual(T, W + N + D + L + G),
    {Counters, Result}.

%% What a fresh VM answers; it must end well.
in_peer(Case, Args) -> in_peer(Case, Args, []).

in_peer(Case, Args, Flags) ->
    case run_peer(Case, Args, Flags) of
        {0, Out} -> answers(Out);
        {Status, Out} -> error({peer, Case, Status, Out})
    end.

answers(Out) ->
    [binary_to_term(base64:decode(Answer))
     || Line <- string:lexemes(Out, "\n"), [_, Answer] <- [string:split(Line, "answer:")]].

run_peer(Case, Args, Flags) ->
    Call = base64:encode_to_string(term_to_binary([Case | Args])),
    Code = "ok = running_test_nif:load(),"
        "A = flame_prof_running_SUITE:peer(binary_to_term(base64:decode(\"" ++ Call ++ "\"))),"
        "io:format(\"~nanswer:~s~n\", [base64:encode(term_to_binary(A))]), erlang:halt(0).",
    peer_vm:output(peer_vm:start([flame_prof, ?MODULE], Code, Flags)).

online() -> lists:seq(1, min(2, erlang:system_info(schedulers_online))).
directory(Config) -> proplists:get_value(priv_dir, Config).
add(Key, N, Counts) -> maps:update_with(Key, fun(M) -> M + N end, N, Counts).
burn_until_captured() -> burn_until(captures).

%% Beside others: whoever is asked about a slow machine answers late.
burn_until(Book) ->
    Burners = [spawn_link(fun() -> burn(86400000) end) || _ <- online()],
    waiting:eventually(fun() -> maps:get(Book, maps:get(counters, flame_prof:info())) > 0 end),
    [begin unlink(B), exit(B, kill) end || B <- Burners],
    ok.

burn(Ms) -> burn(erlang:monotonic_time(millisecond) + Ms, 1).

burn(Until, N) ->
    case erlang:monotonic_time(millisecond) >= Until of
        true -> ok;
        false -> burn(Until, (N * 5 + 1) band 16#ffffff)
    end.

%% Signals with a handler, of the whole process.
caught() ->
    [Bit || Bit <- lists:seq(0, 63), (status_mask("/proc/self/status",
        "SigCgt") bsr Bit) band 1 =:= 1].

%% Real-time signals that wait on any thread.
pending() ->
    lists:foldl(fun(Thread, Acc) ->
        File = "/proc/self/task/" ++ integer_to_list(Thread) ++ "/status",
        Acc bor (status_mask(File, "SigPnd") bsr 33)
    end, 0, threads()).

status_mask(File, Key) ->
    case file:read_file(File) of
        {ok, Text} ->
            {match, [Mask]} = re:run(Text, Key ++ ":\\s*([0-9a-f]+)",
                [{capture, all_but_first, list}]),
            list_to_integer(Mask, 16);
        {error, _} -> 0
    end.

threads() ->
    {ok, Threads} = file:list_dir("/proc/self/task"),
    [list_to_integer(T) || T <- Threads].

our_signal() ->
    {Least, Most} = running_test_nif:real_time_signals(),
    hd([S || S <- lists:seq(Most, Least, -1), running_test_nif:signal_action(S) =:= other]).

say(Format, Args) ->
    io:format(user, "    " ++ Format ++ "~n", Args),
    ct:log(Format, Args).
