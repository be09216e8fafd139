%% What a session says of running processes against what is known of them: which
%% share of their CPU time each leaf has, and which stack they have at any moment.
%% And that asking for it harms nobody.
%%
%% Shares are about counts, never about how fast something is. The truth comes
%% from who does the work, or from the VM's own microstate accounting. Ticks are of
%% elapsed time, so that is judged; where the machine lets the threads run, it is their
%% CPU time too, which is printed beside it.
%%
%% RUNNING_SECONDS (5) is the length of the storm of signals, RUNNING_CAPTURES
%% (10000) the number of captures from which shares are taken.
-module(flame_prof_running_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    shares_of_erlang_functions_are_true/1,
    shares_of_bif_nif_and_erlang_are_true/1,
    the_share_of_the_collector_is_true/1,
    stacks_of_running_processes_are_exact/1,
    stacks_are_exact_when_schedulers_are_asked/1,
    what_runs_has_the_number_of_its_scheduler/1,
    tracing_does_not_break_stacks/1,
    reductions_include_the_running_part/1,
    bursts_are_where_they_were/1,
    schedulers_come_and_go_while_it_samples/1,
    memory_and_status_of_processes_that_end_are_possible/1,
    without_running_stacks_nothing_is_installed/1,
    libraries_without_room_in_the_budget_are_told/1,
    signals_that_the_kernel_refuses_are_counted/1,
    a_signal_that_somebody_uses_is_left_alone/1,
    a_signal_that_is_taken_is_told_and_the_next_session_works/1,
    many_schedulers_take_no_more_descriptors/1,
    stray_signals_do_no_harm/1,
    ends_with_captures_in_flight_are_clean/1,
    a_storm_of_signals_is_not_noticed/1
]).

%% For peers.
-export([peer/1]).
%% A handler of the logger.
-export([log/2]).
%% Spawned.
-export([spawns/2, shuffles_dictionary/1]).

%% Points between a measured share and the truth; of captures that must be exact.
-define(POINTS, 1.5).
%% How often is measured before anything is found wrong, and with how many points off
%% that is wrong even on a machine that is busy with something else.
-define(ROUNDS, 5).
-define(MANY_POINTS, 10.0).
-define(EXACT_PERCENT, 97.0).
%% The most of a session. It has three: its directory and file, and the sampler's memfd.
-define(DESCRIPTORS, 8).

suite() ->
    [{timetrap, {minutes, 10}}].

all() ->
    [
        shares_of_erlang_functions_are_true,
        shares_of_bif_nif_and_erlang_are_true,
        the_share_of_the_collector_is_true,
        stacks_of_running_processes_are_exact,
        stacks_are_exact_when_schedulers_are_asked,
        what_runs_has_the_number_of_its_scheduler,
        tracing_does_not_break_stacks,
        reductions_include_the_running_part,
        bursts_are_where_they_were,
        schedulers_come_and_go_while_it_samples,
        memory_and_status_of_processes_that_end_are_possible,
        without_running_stacks_nothing_is_installed,
        libraries_without_room_in_the_budget_are_told,
        signals_that_the_kernel_refuses_are_counted,
        a_signal_that_somebody_uses_is_left_alone,
        a_signal_that_is_taken_is_told_and_the_next_session_works,
        many_schedulers_take_no_more_descriptors,
        stray_signals_do_no_harm,
        ends_with_captures_in_flight_are_clean,
        a_storm_of_signals_is_not_noticed
    ].

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

end_per_suite(_) ->
    ok.

init_per_testcase(_, Config) ->
    _ = flame_prof:stop(),
    Config.

end_per_testcase(_, _Config) ->
    _ = flame_prof:stop(),
    ok.

%%% ------------------------------------------------------------------ shares --

%% Slices of a few ms, in an order that changes: several samples each, so that what
%% chance does to where a slice ends is small against it, and many of them, so
%% that the times when this machine does something else do not meet one leaf.
shares_of_erlang_functions_are_true(Config) ->
    Slices = sized([{leaf_a, 60}, {leaf_b, 30}, {leaf_c, 10}], 20000000),
    all_told([
        shares(Config, Options, Slices, fun({Leaf, _}) -> Leaf end)
     || Options <- [#{mode => processes}, #{mode => schedulers}, #{engine => portable}]
    ]).

%% By what the sample says it is, not by the Erlang function.
shares_of_bif_nif_and_erlang_are_true(Config) ->
    Slices = sized([{light_bif, 1}, {nif, 1}, {erlang, 1}], 18000000),
    Leaf = fun
        ({light_bif, bif}) -> light_bif;
        ({nif, nif}) -> nif;
        ({erlang, erlang}) -> erlang;
        ({Leaf, _}) -> {rest_of, Leaf}
    end,
    all_told([
        shares(Config, Options, Slices, Leaf)
     || Options <- [#{mode => processes}, #{mode => schedulers}]
    ]).

%% Weights to rounds, so that all slices together take so many nanoseconds.
sized(Weights, Ns) ->
    Sum = lists:sum([Weight || {_, Weight} <- Weights]),
    [
        {Leaf, max(1, Ns * Weight * 1000 div (Sum * running_work:calibrate(Leaf)))}
     || {Leaf, Weight} <- Weights
    ].

%% Ten thousand samples are off by half a point with ease, and by 1.5 once in some
%% hundred times; where the machine stops its processors for a while, by any number of
%% points. So a measure that is off is taken again, and judged by all samples together,
%% and by each round: what is wrong with us is wrong in all of them, to the same side,
%% what the machine does is not. But for one thing: a process that waits for its
%% scheduler is seen at each tick, one that runs once for all ticks for which the machine
%% keeps that from its processor. Who stops at the first good one is lenient: a bias
%% near the bar passes now and then. Each round is printed.
shares(Config, Options, Slices, Leaf) ->
    shares(Config, Options, Slices, Leaf, #{}, #{}, []).

shares(Config, Options, Slices, Leaf, Counts0, Times0, Rounds0) ->
    {Counters, Samples, NewTimes} = running_profile:record(Options, directory(Config), fun() ->
        Workers = [running_work:start(S, {slices, Slices}) || S <- online()],
        enough(Options),
        Stopped = [running_work:stop(W) || W <- Workers],
        {sum(Stopped), [Pid || {Pid, _, _} <- Workers]}
    end),
    NewCounts = counts(Leaf, Samples),
    Elapsed = maps:filter(fun(Key, _) -> is_atom(Key) end, NewTimes),
    Counts = sum([Counts0, NewCounts]),
    Times = sum([Times0, Elapsed]),
    Cpu = maps:from_list([{Key, Ns} || {{cpu, Key}, Ns} <- maps:to_list(NewTimes)]),
    say("CPU time: ~0p percent", [maps:map(fun(_, Ns) -> round(1000 * Ns / total(Cpu)) / 10 end,
        Cpu)]),
    Known = maps:with(maps:keys(Times), Counts),
    Total = total(Known),
    say("~0p: ~w samples in slices, ~w elsewhere; ~s", [
        Options, Total, total(Counts) - Total, counters(Counters)
    ]),
    _ = [tell_off(L, Known, Times) || L <- lists:sort(maps:keys(Times))],
    Off = lists:max([abs(D) || D <- maps:values(off(Known, Times))]),
    Round = off(maps:with(maps:keys(Elapsed), NewCounts), Elapsed),
    Rounds = [{Round, is_quiet(Counters) andalso total(Cpu) >= 0.95 * total(Elapsed)} | Rounds0],
    %% A thread that the machine kept from its CPU answers once for many ticks.
    IsGood = Off =< ?POINTS andalso Total >= total(Counts) * 0.95
        andalso Total >= captures() div 10,
    case maps:get(engine, Options, native) of
        portable ->
            %% Shown, not judged: it looks where a process can be interrupted.
            ok;
        native when IsGood ->
            ok;
        native when length(Rounds) < ?ROUNDS ->
            shares(Config, Options, Slices, Leaf, Counts, Times, Rounds);
        native ->
            ?assert(Total > 0),
            ?assert(Total >= total(Counts) * 0.5),
            judged_by_rounds(Off, Rounds)
    end.

%% It lets the sampler tick, which needs little.
is_quiet(#{captures := Captures, missed := Missed}) -> Missed * 20 =< Captures.

%% Off in all rounds together, but not in each, or once to this side and once to that:
%% this machine does not let anybody tell.
judged_by_rounds(Off, _) when Off =< ?POINTS ->
    ok;
judged_by_rounds(Off, Rounds) ->
    ?assertEqual({off_in_every_round, []}, {off_in_every_round, biased(Rounds)}),
    not_told("shares are off by ~.2f points, but not alike in ~w rounds", [Off, length(Rounds)]).

%% Leaves that every round has too often, or every round too seldom.
biased([{Round, _} | _] = Rounds) ->
    Most = case lists:all(fun({_, IsQuiet}) -> IsQuiet end, Rounds) of
        true -> ?POINTS;
        false -> ?MANY_POINTS
    end,
    [Leaf || Leaf <- maps:keys(Round), Side <- [1, -1],
        lists:all(fun({Offs, _}) -> Side * maps:get(Leaf, Offs, 0.0) > Most end, Rounds)].

not_told(Format, Args) ->
    Why = lists:flatten(io_lib:format(Format, Args)),
    say("NOT TOLD: ~s", [Why]),
    {skip, "this machine is too noisy to tell: " ++ Why}.

%% Skipped, where one of them could not be told.
all_told(Outcomes) ->
    hd([Skip || {skip, _} = Skip <- Outcomes] ++ [ok]).

%% Points by which each leaf is seen too often.
off(Known, Times) ->
    maps:map(
        fun(Leaf, Ns) ->
            100 * maps:get(Leaf, Known, 0) / max(1, total(Known)) - 100 * Ns / max(1, total(Times))
        end,
        Times
    ).

tell_off(Leaf, Known, Times) ->
    True = 100 * maps:get(Leaf, Times) / total(Times),
    Off = maps:get(Leaf, off(Known, Times)),
    say("  ~-10s true ~5.2f %  seen ~5.2f %  off by ~.2f points", [Leaf, True, True + Off, Off]).

%% Of the samples of a process that has something to do.
counts(Leaf, Samples) ->
    maps:fold(
        fun
            ({Status, Frames}, N, Acc) when Status =/= <<"waiting">> ->
                add(Leaf(running_profile:leaf_of(Frames)), N, Acc);
            (_, _, Acc) ->
                Acc
        end,
        #{},
        Samples
    ).

%% The VM's own accounting of its schedulers says how long they collected.
%% This is weak: other work, with shorter turns, was off by 2.0 points in 28,000
%% samples, and why is not known (doc/dev/internals.md).
the_share_of_the_collector_is_true(Config) ->
    collector(Config, #{}, #{}, []).

collector(Config, Counts0, Times0, Rounds0) ->
    {Counters, Samples, NewTimes} = running_profile:record(#{}, directory(Config), fun() ->
        Workers = [running_work:start(S, {leaf, garbage}) || S <- online()],
        timer:sleep(300),
        _ = erlang:system_flag(microstate_accounting, true),
        _ = erlang:system_flag(microstate_accounting, reset),
        enough(#{}),
        Accounted = accounted(),
        _ = erlang:system_flag(microstate_accounting, false),
        _ = [running_work:stop(W) || W <- Workers],
        {Accounted, [Pid || {Pid, _, _} <- Workers]}
    end),
    Running = maps:filter(
        fun({Status, _}, _) -> lists:member(Status, running()) end, Samples
    ),
    Kind = fun
        ({_, gc}) -> collector;
        (_) -> program
    end,
    NewCounts = counts(Kind, Running),
    Counts = sum([Counts0, NewCounts]),
    Times = sum([Times0, NewTimes]),
    say("~w samples; ~s", [total(Counts), counters(Counters)]),
    ok = tell_off(collector, Counts, Times),
    Rounds = [{off(NewCounts, NewTimes), is_quiet(Counters)} | Rounds0],
    case abs(maps:get(collector, off(Counts, Times))) of
        Off when Off > ?POINTS, length(Rounds) < ?ROUNDS ->
            collector(Config, Counts, Times, Rounds);
        Off ->
            ?assert(total(Counts) > 0),
            %% Enough of it to be a test.
            ?assert(maps:get(collector, Times) * 20 > total(Times)),
            judged_by_rounds(Off, Rounds)
    end.

accounted() ->
    Counters = [
        C
     || #{type := scheduler, counters := C} <- erlang:statistics(microstate_accounting)
    ],
    #{
        collector => lists:sum([maps:get(gc, C) + maps:get(gc_full, C, 0) || C <- Counters]),
        program => lists:sum([maps:get(emulator, C) || C <- Counters])
    }.

enough(#{engine := portable}) -> timer:sleep(3000);
enough(_) -> running_profile:until(captures(), 60000).

%%% ------------------------------------------------------------------ stacks --

stacks_of_running_processes_are_exact(Config) ->
    Leaves = maps:keys(running_work:leaves()) -- [leaf_a, leaf_b, leaf_c],
    exact_of_all(Config, #{mode => processes}, Leaves, 1000).

stacks_are_exact_when_schedulers_are_asked(Config) ->
    exact_of_all(Config, #{mode => schedulers}, [erlang, garbage, mixed], 1000).

exact_of_all(Config, Options, Leaves, Captures) ->
    exact_of_all(Config, Options, Leaves, Captures, ?EXACT_PERCENT).

exact_of_all(Config, Options, Leaves, Captures, Bar) ->
    say("~0p: of ~w captures", [Options, Captures]),
    Short = [Leaf || Leaf <- Leaves, exact(Config, Options, Leaf, Captures,
        bar(Leaf, Bar)) =:= short],
    ?assertEqual([], Short).

%% A worker is bound to its scheduler. In the files of the session, and in the export.
what_runs_has_the_number_of_its_scheduler(Config) ->
    [scheduler_numbers(Config, Mode) || Mode <- [processes, schedulers]],
    ok.

scheduler_numbers(Config, Mode) ->
    Workers = [{S, running_work:start(S, {leaf, leaf_a})} || S <- online()],
    {ok, _} = flame_prof:start(#{dir => directory(Config), sample_interval => 1, mode => Mode,
        cpu_budget => infinity, select => {top, 2, 100}, compress => none}),
    running_profile:until(500, 60000),
    {ok, #{files := [File]}} = flame_prof:stop(),
    _ = [running_work:stop(Worker) || {_, Worker} <- Workers],
    {ok, Profile} = flame_prof_profile:read(File),
    Export = <<File/binary, ".perf">>,
    {ok, _} = flame_prof_profile:export(Profile, perf, Export, #{by => samples}),
    [
        begin
            Found = cpus(Path),
            [
                begin
                    Cpus = maps:get(tid(File, Pid), Found),
                    ?assertEqual([Scheduler], maps:keys(Cpus)),
                    say("~w: scheduler ~w: ~w samples", [Mode, Scheduler, maps:values(Cpus)])
                end
             || {Scheduler, {Pid, _, _}} <- Workers
            ]
        end
     || Path <- [File, Export]
    ],
    _ = [file:delete(Path) || Path <- [File, Export]].

%% By tid: the numbers in brackets of samples whose stacks were captured as they ran.
cpus(File) ->
    {ok, Text} = file:read_file(File),
    lists:foldl(
        fun(Piece, All) ->
            Captured = binary:match(Piece, <<"running_stack_not_sampled">>) =:= nomatch,
            case re:run(Piece, "^[^ ]+ [0-9]+/([0-9]+) \\[([0-9]+)\\] .*\n\tffffffff "
                "running \\(status\\)$", [dotall, {capture, all_but_first, binary}])
            of
                {match, [Tid, Cpu]} when Captured ->
                    maps:update_with(Tid, fun(Cpus) -> add(binary_to_integer(Cpu), 1, Cpus) end,
                        #{binary_to_integer(Cpu) => 1}, All);
                _ ->
                    All
            end
        end,
        #{}, binary:split(Text, <<"\n\n">>, [global])).

tid(File, Pid) ->
    Wanted = list_to_binary(pid_to_list(Pid)),
    {ok, Tid, _} = flame_prof:fold(
        fun(#{tid := T, words := #{<<"erl_pid">> := P}}, _) when P =:= Wanted -> T;
           (_, Found) -> Found
        end, none, File),
    integer_to_binary(Tid).

%% Half of the time of a process that waits for each answer is that of coming and
%% going, when there is a moment without a place.
bar(ping_pong, _) -> 90.0;
bar(_, Bar) -> Bar.

%% Percent of the captures of two workers that are right to the last frame. One
%% that met another process than it was sent for (inconsistent_moved) is no capture of a
%% running process; where it is sought and not found (inconsistent_unfound), or said not
%% to be known (ambiguous), is not exact.
%% On a machine that is busy elsewhere many captures meet nobody that is judged: then
%% it samples again, until there are enough together, or ten times.
%% So it does where too few are exact: when the machine stops a scheduler, that may be
%% at a moment without a place.
exact(Config, Options, Leaf, Captures, Bar) ->
    exact(Config, Options, Leaf, Captures, Bar, {#{}, 0}, 10).

exact(Config, Options, Leaf, Captures, Bar, {Counts0, Unfound0}, Attempts) ->
    Workers = [running_work:start(S, {leaf, Leaf}) || S <- online()],
    timer:sleep(50),
    {Counters, Samples, _} = running_profile:record(Options, directory(Config), fun() ->
        running_profile:until(Captures, 60000),
        {ok, [Pid || {Pid, _, _} <- Workers]}
    end),
    _ = [running_work:stop(W) || W <- Workers],
    {NewCounts, Examples} = running_profile:judged(
        Leaf, running(), Samples
    ),
    Counts = sum([Counts0, NewCounts]),
    NewUnfound = maps:get(inconsistent_unfound, Counters),
    Unfound = Unfound0 + NewUnfound,
    {Stopped, StoppedExamples} = running_profile:judged(Leaf, [<<"runnable">>], Samples),
    Judged = total(Counts) + Unfound,
    Percent = percent_exact(Counts, Unfound),
    Wrong = lists:sum([N || {{wrong, _}, N} <- maps:to_list(Counts)]),
    say("  ~-12s ~6.2f % of ~5w exact; not: ~0p; ~s", [
        Leaf, Percent, Judged, maps:to_list(maps:remove(exact, Counts)), counters(Counters)
    ]),
    _ = [example(V, S) || {V, S} <- maps:to_list(maps:remove(exact, Examples))],
    _ = [example(V, S) || {V, S} <- maps:to_list(maps:remove(exact, StoppedExamples))],
    ?assertEqual([], maps:keys(maps:remove(exact, Stopped))),
    %% All rounds together, or this one.
    IsGood = fun(C, U) -> total(C) + U >= 50 andalso percent_exact(C, U) >= Bar end,
    IsEnough = IsGood(Counts, Unfound) orelse IsGood(NewCounts, NewUnfound),
    %% What is not known says so; a stack that lies is another matter. One capture may serve
    %% several ticks of a busy machine: over few captures that is no share.
    case IsEnough andalso Wrong * 200 =< Judged of
        false when Attempts > 1 ->
            exact(Config, Options, Leaf, Captures, Bar, {Counts, Unfound}, Attempts - 1);
        _ ->
            ?assert(Judged > 0),
            ?assert(Wrong * 200 =< Judged),
            exact_or_short(IsEnough, Leaf, Judged)
    end.

exact_or_short(true, _, _) ->
    exact;
exact_or_short(false, Leaf, Judged) when Judged < 50 ->
    _ = not_told("only ~w captures met ~p", [Judged, Leaf]),
    not_told;
exact_or_short(false, _, _) ->
    short.

%% Of none there is nothing to be known.
percent_exact(Counts, Unfound) ->
    100 * maps:get(exact, Counts, 0) / max(1, total(Counts) + Unfound).

example(Verdict, {Status, Frames}) ->
    Top = [[Symbol, $\s] || {Symbol, _} <- lists:sublist(Frames, 6)],
    say("      ~0p: ~s, ~w frames: ~ts...", [Verdict, Status, length(Frames), Top]).

%%% ----------------------------------------------------------------- tracing --

%% Breakpoints put other code before a function and other words on its stack. While
%% C decides what a breakpoint is to do, the function that has it is in no place
%% that is copied (instr_trace.cpp generic_bp_local takes its addresses off the
%% stack): its frame is `ambiguous' then, and below are its callers. So fewer are
%% exact, but none may be wrong.
tracing_does_not_break_stacks(Config) ->
    %% A pattern is for what is loaded.
    {module, running_work} = code:ensure_loaded(running_work),
    All = {running_work, '_', '_'},
    [
        begin
            say("breakpoints: ~w", [Flag]),
            true = erlang:trace_pattern(All, true, [Flag]) > 20,
            try
                exact_of_all(Config, #{}, [erlang, mixed, exceptions], 300, 50.0)
            after
                erlang:trace_pattern(All, false, [Flag])
            end
        end
     || Flag <- [local, call_count, call_time]
    ],
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
    [
        erlang:trace_pattern(F, [{'_', [], [{return_trace}]}], [Scope])
     || F <- returning()
    ],
    _ = erlang:trace(new_processes, true, [{tracer, Tracer} | Flags]),
    try
        traced(Config)
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
    exact_of_all(Config, Options, [funs, exceptions, dictionary], 150, 0.0).

in_trace_session(Config, Tracer, {module, trace}) ->
    say("a trace session", []),
    Session = apply(trace, session_create, [running, Tracer, []]),
    [apply(trace, function, [Session, F, true, [local]]) || F <- returning()],
    _ = apply(trace, process, [Session, new_processes, true, [call]]),
    try
        traced(Config)
    after
        apply(trace, session_destroy, [Session])
    end;
in_trace_session(_, _, {error, _}) ->
    say("there are no trace sessions in OTP ~s", [erlang:system_info(otp_release)]).

swallow() ->
    receive
        _ -> swallow()
    end.

%%% -------------------------------------------------------------- reductions --

%% The figures of one process never go down; what it has used when it is stopped
%% is hardly more than what the last sample of it says.
reductions_include_the_running_part(Config) ->
    Worker = {Pid, _, _} = running_work:start(lists:last(online()), {leaf, erlang}),
    timer:sleep(50),
    {ok, _} = flame_prof:start(#{
        dir => directory(Config), sample_interval => 1, cpu_budget => infinity,
            select => {top, 1, 100}
    }),
    ok = running_profile:until(300, 60000),
    true = waiting:suspend(Pid),
    Name = list_to_binary(pid_to_list(Pid)),
    {reductions, Public} = erlang:process_info(Pid, reductions),
    {ok, #{files := Files}} = flame_prof:stop(),
    true = erlang:resume_process(Pid),
    _ = running_work:stop(Worker),
    {ok, Seen, _} = reader_oracle:fold(
        fun
            (#{status := Status, metrics := M, words := #{<<"erl_pid">> := P}}, Acc)
                when P =:= Name ->
                {Value, _} = maps:get(<<"reductions">>, M),
                [{Status, Value} | Acc];
            (_, Acc) ->
                Acc
        end,
        [],
        Files
    ),
    Values = [V || {_, V} <- lists:reverse(Seen)],
    Running = [V || {<<"running">>, V} <- lists:reverse(Seen)],
    ?assertEqual(lists:sort(Values), Values),
    ?assert(length(Running) > 100),
    %% The VM's own figure moves by turns of 4000 and says nothing in between. Where the
    %% machine keeps the scheduler from its CPU there is no move, or no answer.
    Moves = [B - A || {A, B} <- lists:zip(lists:droplast(Running), tl(Running)), B > A],
    Fine = length([1 || Move <- Moves, Move rem 4000 =/= 0]),
    say("~w running samples, ~w moves, ~w of them no whole turns; ~w at the end, the VM says ~w", [
        length(Running), length(Moves), Fine, lists:last(Values), Public
    ]),
    ?assert(Fine * 10 > length(Moves)),
    ?assert(Public >= lists:max(Running) - 4000),
    %% The register has counted the call at which the process yields; the VM's figure has not.
    ?assert(lists:last(Values) =< Public + 1).

%%% ---------------------------------------------------------------- timing --

%% A process records begin and end of each of its bursts by the system's clock; what
%% a sample's stack says must have been so at the sample's time. Judged is the share
%% of samples that are right to a tick.
%% Where the machine takes the processor from who answers, a capture is late: so that is
%% tried again.
bursts_are_where_they_were(Config) ->
    bursts_are_where_they_were(Config, ?ROUNDS).

bursts_are_where_they_were(Config, Attempts) ->
    TickUs = 2000,
    {Burster, Monitor} = spawn_monitor(fun() ->
        receive begin_ -> exit({shutdown, [burst_of(20000) || _ <- lists:seq(1, 20)]}) end
    end),
    {ok, _} = flame_prof:start(#{
        dir => directory(Config), sample_interval => TickUs div 1000, cpu_budget => infinity,
        include => [Burster]
    }),
    waiting:eventually(fun() -> maps:get(ticks, maps:get(counters, flame_prof:info())) > 10 end),
    Burster ! begin_,
    Recorded = receive {'DOWN', Monitor, process, Burster, {shutdown, Bursts}} -> Bursts end,
    {ok, #{files := Files}} = flame_prof:stop(),
    {ok, Times, _} = reader_oracle:fold(
        fun(#{time_us := Us, frames := Frames}, Acc) ->
            [Us || is_in_burst(Frames)] ++ Acc end, [], Files
    ),
    _ = [file:delete(File) || File <- Files],
    Right = [T || T <- Times, {Begin, End} <- Recorded, T >= Begin - TickUs, T =< End + TickUs],
    say("~w of ~w samples of a burst within a tick of it", [length(Right), length(Times)]),
    case Times =/= [] andalso length(Right) * 10 >= length(Times) * 9 of
        true -> ok;
        false when Attempts > 1 -> bursts_are_where_they_were(Config, Attempts - 1);
        %% Most are right even where most is late, or it is not the machine.
        false when length(Right) * 2 >= length(Times), Times =/= [] ->
            not_told("~w of ~w samples of a burst are within a tick of it",
                [length(Right), length(Times)]);
        false ->
            ct:fail("~w of ~w samples of a burst are within a tick of it",
                [length(Right), length(Times)])
    end.

burst_of(Us) ->
    timer:sleep(50),
    Begin = os:system_time(microsecond),
    End = burst(Begin + Us),
    {Begin, End}.

burst(Until) ->
    _ = lists:seq(1, 200),
    case os:system_time(microsecond) of
        Now when Now >= Until -> Now;
        _ -> burst(Until)
    end.

is_in_burst(Frames) ->
    lists:any(fun({Symbol, _}) ->
        running_profile:plain(Symbol) =:= <<"flame_prof_running_SUITE:burst/1">> end, Frames).

%%% ------------------------------------------------------- short-lived processes --

%% Their dictionaries are reallocated and given back while a capture is on its way. No
%% process here has more than the bound: each holds some hundred small tuples.
memory_and_status_of_processes_that_end_are_possible(Config) ->
    Bound = 10000000,
    {ok, _} = flame_prof:start(#{
        dir => directory(Config),
        mode => schedulers,
        sample_interval => 1,
        cpu_budget => infinity
    }),
    Spawners = [spawn_link(?MODULE, spawns, [0, self()]) || _ <- online()],
    ok = running_profile:until(3000, 60000),
    [begin Pid ! {stop, self()}, receive {stopped, Pid} -> ok end end || Pid <- Spawners],
    {ok, #{files := Files, attempted := T, written := W, inconsistent := N, dropped := D,
        exited := G}} =
        flame_prof:stop(),
    ?assertEqual(T, W + N + D + G),
    {ok, Seen, #{bad := 0}} = reader_oracle:fold(fun status_and_memory/2, #{}, Files),
    say("statuses and the most memory: ~0tp; ~w gone", [Seen, G]),
    ?assert(maps:size(Seen) > 0),
    ?assertEqual(#{}, maps:filter(fun(_, Memory) -> Memory > Bound end, Seen)),
    ?assertEqual([], maps:keys(Seen) -- [atom_to_binary(Status) || Status <- statuses()]).

status_and_memory(#{words := #{<<"erl_pid">> := _}, status := Status, metrics := Metrics}, Seen) ->
    #{<<"memory">> := {Memory, _}} = Metrics,
    Seen#{Status => max(Memory, maps:get(Status, Seen, 0))};
status_and_memory(_, Seen) ->
    Seen.

%% doc/format.md
statuses() ->
    [waiting, runnable, running, garbage_collecting, suspended, exiting].

%% @private
spawns(N, Parent) ->
    receive
        {stop, Parent} -> Parent ! {stopped, self()}
    after 0 ->
        {_, Monitor} = spawn_monitor(?MODULE, shuffles_dictionary, [5 + N rem 300]),
        receive
            {'DOWN', Monitor, process, _, normal} -> spawns(N + 1, Parent)
        end
    end.

%% @private
shuffles_dictionary(N) ->
    [put({key, K}, K) || K <- lists:seq(1, N)],
    [erase({key, K}) || K <- lists:seq(1, N)],
    ok.

%%% -------------------------------------------------------------- schedulers --

schedulers_come_and_go_while_it_samples(Config) ->
    All = erlang:system_info(schedulers_online),
    Stop = atomics:new(1, []),
    Work = fun Burn(N) ->
        case atomics:get(Stop, 1) of
            0 -> Burn((N * 5 + 1) band 16#ffffff);
            _ -> ok
        end
    end,
    Burners = [spawn_monitor(fun() -> Work(1) end) || _ <- lists:seq(1, 3)],
    [
        begin
            {ok, _} = flame_prof:start(#{
                dir => directory(Config), sample_interval => 1, cpu_budget => infinity,
                    mode => Mode
            }),
            [
                begin
                    _ = erlang:system_flag(schedulers_online, 1 + N rem All),
                    timer:sleep(60)
                end
             || N <- lists:seq(1, 12)
            ],
            _ = erlang:system_flag(schedulers_online, All),
            waiting:eventually(fun() -> maps:get(captures,
                maps:get(counters, flame_prof:info())) > 50 end),
            {ok, #{captures := Captures, inconsistent := Inconsistent, attempted := T, written := W,
                dropped := D,
                exited := G}} =
                flame_prof:stop(),
            ?assertEqual(T, W + Inconsistent + D + G),
            say("~w: ~w captures with schedulers going off and on", [Mode, Captures]),
            ok
        end
     || Mode <- [processes, schedulers]
    ],
    atomics:put(Stop, 1, 1),
    [receive {'DOWN', M, process, P, normal} -> ok end || {P, M} <- Burners],
    ok.

%%% ----------------------------------------------------------------- signals --

%% What is left of the least budget goes to the ring and to the texts of stacks.
libraries_without_room_in_the_budget_are_told(Config) ->
    {ok, #{memory_budget := Default} = Options} = flame_prof_options:validate(#{}),
    Spare = flame_prof_options:spare_memory(Options) -
        flame_prof_memory_budget:node_bytes(native, Options),
    Least = Default - Spare + 65536,
    ?assert(left_out(#{memory_budget => Least}, Config) > 2),
    ?assertEqual(0, left_out(#{}, Config)).

left_out(Options, Config) ->
    {ok, _} = flame_prof:start(Options#{
        engine => native, dir => directory(Config), sample_interval => 1,
        cpu_budget => infinity
    }),
    burn_until_captured(),
    #{counters := #{libraries_left_out := N}} = flame_prof:info(),
    {ok, #{captures := Captures}} = flame_prof:stop(),
    ?assert(Captures > 0),
    N.

%% In a fresh VM: what is installed stays.
without_running_stacks_nothing_is_installed(Config) ->
    [[Before, During, After, Pending, Captures]] = in_peer(
        without_running_stacks, [directory(Config)]
    ),
    ?assertEqual({Before, Before}, {During, After}),
    ?assertEqual({0, 0}, {Pending, Captures}),
    %% With them there is exactly one more.
    [[Without, With, Signals]] = in_peer(with_running_stacks, [directory(Config)]),
    ?assertMatch([_], With -- Without),
    ?assert(Signals > 0).

%% Samples go on without a stack, and with one when the kernel takes signals again.
signals_that_the_kernel_refuses_are_counted(Config) ->
    case os:find_executable("prlimit") of
        false ->
            {skip, "no prlimit"};
        _ ->
            [[Before, Refused, Sampled, Again]] = in_peer(refused_signals, [directory(Config)]),
            ?assertEqual(0, Before),
            ?assert(Refused > 0 andalso Sampled > 0 andalso Again > 0)
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
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1,
        cpu_budget => infinity}),
    Burner = spawn_link(fun() -> burn(86400000) end),
    burn_until_captured(),
    Before = Counter(refused_signals),
    [Usual] = string:lexemes(os:cmd("prlimit --pid " ++ os:getpid()
        ++ " --sigpending --noheadings --output=SOFT"), " \n"),
    _ = Limit("0"),
    Refused = More(refused_signals),
    Sampled = More(attempted),
    _ = Limit(Usual),
    Again = More(captures),
    exit(unlink(Burner) andalso Burner, kill),
    {ok, #{refused_signals := All}} = flame_prof:stop(),
    [Before, min(Refused, All), Sampled, Again];
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
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1,
        cpu_budget => infinity}),
    burn_until_captured(),
    {ok, #{signals := Signals}} = flame_prof:stop(),
    [Without, caught(), Signals];
peer([used_signal, Directory]) ->
    {_, Most} = running_test_nif:real_time_signals(),
    ok = running_test_nif:take_signal(Most),
    ok = running_test_nif:take_signal(Most - 1),
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1,
        cpu_budget => infinity}),
    burn_until_captured(),
    {ok, #{captures := Captures}} = flame_prof:stop(),
    Actions = [running_test_nif:signal_action(S) || S <- [Most, Most - 1, Most - 2, Most - 3]],
    [Actions, running_test_nif:signals_arrived(), Captures];
peer([all_signals_used, Directory]) ->
    {Least, Most} = running_test_nif:real_time_signals(),
    [ok = running_test_nif:take_signal(S) || S <- lists:seq(Least, Most)],
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1,
        cpu_budget => infinity}),
    burn_until(written),
    #{running_stacks := Running} = flame_prof:info(),
    {ok, #{signals := Signals, written := Written}} = flame_prof:stop(),
    Refused = flame_prof:start(#{dir => Directory, mode => schedulers}),
    [Running, Signals, Written > 0, element(1, Refused), running_test_nif:signals_arrived()];
peer([taken_signal, Directory]) ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{level => warning, config => self()}),
    Options = #{
        dir => Directory, sample_interval => 1, cpu_budget => infinity,
        flush_interval => 1100, compress => none
    },
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
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1,
        cpu_budget => infinity}),
    burn_until_captured(),
    During = readings_of_descriptors(Before),
    {ok, _} = flame_prof:stop(),
    _ = flame_prof_pstack:processes([self()]),
    After = readings_of_descriptors(Before),
    [erlang:system_info(schedulers), lists:min(During), most(During), lists:min(After)];
peer([stray, Directory]) ->
    {ok, _} = flame_prof:start(#{dir => Directory, sample_interval => 1,
        cpu_budget => infinity}),
    Signal = our_signal(),
    burn_until_captured(),
    stray(Signal),
    {ok, #{captures := C1}} = flame_prof:stop(),
    stray(Signal),
    true = code:delete(flame_prof_nif),
    _ = code:purge(flame_prof_nif),
    stray(Signal),
    burn(100),
    [C1 > 0, still_computes()];
peer([{in_flight, How}, Directory]) ->
    {ok, Pid} = flame_prof:start(#{dir => Directory, sample_interval => 1,
        cpu_budget => infinity}),
    %% When captures are on their way: calibration is not held up by these.
    [
        spawn(fun() -> burn(100000) end)
     || _ <- lists:seq(1, erlang:system_info(schedulers_online))
    ],
    waiting:eventually(fun() -> maps:get(captures, maps:get(counters, flame_prof:info())) > 0 end),
    timer:sleep(rand:uniform(40)),
    in_flight(How, Pid).

in_flight(stop, _) ->
    {ok, #{attempted := T, written := W, inconsistent := N, dropped := D,
        exited := G}} = flame_prof:stop(),
    T = W + N + D + G,
    erlang:halt(0);
in_flight(purge, Pid) ->
    true = code:delete(flame_prof_nif),
    _ = code:purge(flame_prof_nif),
    exit(Pid, kill),
    timer:sleep(20),
    erlang:halt(0);
in_flight(upgrade, _) ->
    {error, on_load_failure} = code:load_file(flame_prof_nif),
    {ok, _} = flame_prof:stop(),
    erlang:halt(0);
in_flight(halt, _) ->
    erlang:halt(0);
in_flight(abrupt_halt, _) ->
    erlang:halt(0, [{flush, false}]);
in_flight(init_stop, _) ->
    init:stop(),
    timer:sleep(infinity).

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
    ?assertMatch({match, _}, re:run(Why, "another handler was installed for signal")),
    ?assertEqual({0, [true, true], 1}, {Captures, InFile, Warnings}),
    ?assert(Arrived =< erlang:system_info(schedulers)),
    ?assertEqual({0, 0}, {Later, Lost}).

many_schedulers_take_no_more_descriptors(Config) ->
    [Few, Many] = [
        hd(in_peer(descriptors, [directory(Config)], ["+S", S ++ ":" ++ S]))
     || S <- ["2", "200"]
    ],
    say("schedulers, descriptors in a session, in nine of ten readings, after it: ~w and ~w",
        [Few, Many]),
    [2, InSession, _, After] = Few,
    ?assertMatch([200, InSession, _, After], Many),
    [?assert(Most =< ?DESCRIPTORS) || [_, _, Most, _] <- [Few, Many]].

in_files(Directory, Signal) ->
    Text = iolist_to_binary([
        element(2, {ok, _} = file:read_file(File))
     || File <- filelib:wildcard(filename:join(Directory, "*")), filelib:is_regular(File)
    ]),
    [
        binary:match(Text, Part) =/= nomatch
     || Part <- [<<"running_stack_not_sampled">>,
         <<"lost_signal=", (integer_to_binary(Signal))/binary>>]
    ].

%% Without the few highest: a check of the captures and other readers of /proc have some for an
%% instant.
most(Readings) -> lists:nth(length(Readings) * 9 div 10, lists:sort(Readings)).

readings_of_descriptors(Before) ->
    [
        begin
            timer:sleep(20),
            descriptors() - Before
        end
     || _ <- lists:seq(1, 50)
    ].

descriptors() ->
    {ok, Names} = file:list_dir("/proc/self/fd"),
    length(Names).

log(#{msg := {Format, Arguments}}, #{config := Pid}) when is_list(Arguments) ->
    case string:find(io_lib:format(Format, Arguments), "lost the stacks") of
        nomatch -> ok;
        Found -> Pid ! {warning, Found}
    end;
log(_, _) ->
    ok.

%% With values that are no scheduler's, old numbers, to other threads, by kill(1),
%% while it runs, when it has stopped and when the library is gone.
stray_signals_do_no_harm(Config) ->
    ?assertEqual([[true, true]], in_peer(stray, [directory(Config)])).

stray(Signal) ->
    Threads = threads(),
    Values = [0, 1, 16#100000001, 16#7fffffff00000003, 16#ffffffffffffffff],
    [
        running_test_nif:queue_signal(Thread, Signal, Value)
     || Thread <- Threads, Value <- Values
    ],
    _ = os:cmd("kill -s " ++ integer_to_list(Signal) ++ " " ++ os:getpid()),
    timer:sleep(20).

still_computes() ->
    lists:sum(lists:seq(1, 1000)) =:= 500500.

%% Exit status 0 of twenty VMs, ended in each way while signals are on their way.
ends_with_captures_in_flight_are_clean(Config) ->
    Hows = [stop, purge, upgrade, halt, abrupt_halt, init_stop],
    Rounds = [lists:nth(1 + N rem length(Hows), Hows) || N <- lists:seq(0, 19)],
    Ends = [{How, run_peer({in_flight, How}, [directory(Config)])} || How <- Rounds],
    say("20 ends: ~0p", [lists:usort([{How, Status} || {How, {Status, _}} <- Ends])]),
    ?assertEqual([], [E || {_, {Status, _}} = E <- Ends, Status =/= 0]).

%%% ------------------------------------------------------------------- storm --

%% 2 kHz a scheduler, beside programs that read, write, wait and count. Each checks
%% its own results; a wrong one, or an EINTR, is a crash.
a_storm_of_signals_is_not_noticed(Config) ->
    Ms = 1000 * list_to_integer(os:getenv("RUNNING_SECONDS", "5")),
    Quiet = running_harm:run(directory(Config), Ms div 5),
    {Counters, Stormy} = under_storm(Config, fun() -> running_harm:run(directory(Config), Ms) end),
    #{captures := Captures, signals := Signals, handler_ns := Ns} = Counters,
    say("~w ms, ~w signals (~w a second and scheduler), ~w captures, ~w ns of handler each", [
        Ms, Signals, Signals * 1000 div Ms div length(online()), Captures, Ns div max(1, Captures)
    ]),
    [
        say("  ~-12s ~8w done in ~w ms without, ~8w in ~w ms with: ~0p", [
            Kind, maps:get(done, maps:get(Kind, Quiet)), Ms div 5, Done, Ms, maps:remove(done, What)
        ])
     || {Kind, #{done := Done} = What} <- lists:sort(maps:to_list(Stormy))
    ],
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
    {ok, Options} = flame_prof_options:validate(#{
        dir => Directory,
        mode => schedulers,
        compress => none,
        cpu_budget => infinity,
        flush_interval => 2000
    }),
    Session = flame_prof_config:session(native, Options, true, []),
    {ok, Ref} = flame_prof_nif:session_start(Session#{sample_interval_us => 500}),
    Result = Fun(),
    ok = flame_prof_nif:session_stop(Ref),
    receive
        {flame_prof_nif, Ref, {stopped, ok}} -> ok
    after 300000 -> error(session_does_not_stop)
    end,
    Counters = #{attempted := T, written := W, inconsistent := N, dropped := D, lost := L,
        exited := G} =
        flame_prof_nif:session_info(Ref),
    ok = flame_prof_nif:session_close(Ref),
    _ = file:del_dir_r(Directory),
    ?assertEqual(T, W + N + D + L + G),
    {Counters, Result}.

%%% ------------------------------------------------------------------- peers --

%% What a fresh VM answers; it must end well.
in_peer(Case, Args) -> in_peer(Case, Args, []).

in_peer(Case, Args, Flags) ->
    case run_peer(Case, Args, Flags) of
        {0, Out} -> answers(Out);
        {Status, Out} -> error({peer, Case, Status, Out})
    end.

answers(Out) ->
    [
        binary_to_term(base64:decode(Answer))
     || Line <- string:lexemes(Out, "\n"), [_, Answer] <- [string:split(Line, "answer:")]
    ].

run_peer(Case, Args) -> run_peer(Case, Args, []).

run_peer(Case, Args, Flags) ->
    Call = base64:encode_to_string(term_to_binary([Case | Args])),
    Code =
        "ok = running_test_nif:load(),"
        "A = flame_prof_running_SUITE:peer(binary_to_term(base64:decode(\"" ++ Call ++ "\"))),"
        "io:format(\"~nanswer:~s~n\", [base64:encode(term_to_binary(A))]), erlang:halt(0).",
    peer_vm:output(peer_vm:start([flame_prof, ?MODULE], Code, Flags)).

%%% ----------------------------------------------------------------- helpers --

%% The statuses of a process that a scheduler runs.
running() ->
    [<<"running">>, <<"garbage_collecting">>].

online() ->
    lists:seq(1, min(2, erlang:system_info(schedulers_online))).

captures() ->
    list_to_integer(os:getenv("RUNNING_CAPTURES", "10000")).

directory(Config) ->
    proplists:get_value(priv_dir, Config).

add(Key, N, Counts) ->
    maps:update_with(Key, fun(M) -> M + N end, N, Counts).

total(Counts) ->
    lists:sum(maps:values(Counts)).

sum(Maps) ->
    lists:foldl(fun(M, Acc) -> maps:fold(fun add/3, Acc, M) end, #{}, Maps).

counters(Counters) ->
    Keys = [captures, inconsistent_moved, inconsistent_unfound, inconsistent_late,
        inconsistent_changed, missed],
    lists:join(" ", [io_lib:format("~w ~w", [K, maps:get(K, Counters, 0)]) || K <- Keys]).

burn_until_captured() -> burn_until(captures).

%% Beside others: whoever is asked about a slow machine answers late.
burn_until(Book) ->
    Burners = [spawn_link(fun() -> burn(86400000) end) || _ <- online()],
    waiting:eventually(fun() -> maps:get(Book, maps:get(counters, flame_prof:info())) > 0 end),
    [begin unlink(B), exit(B, kill) end || B <- Burners],
    ok.

burn(Ms) ->
    burn(erlang:monotonic_time(millisecond) + Ms, 1).

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
    lists:foldl(
        fun(Thread, Acc) ->
            File = "/proc/self/task/" ++ integer_to_list(Thread) ++ "/status",
            Acc bor (status_mask(File, "SigPnd") bsr 33)
        end,
        0,
        threads()
    ).

status_mask(File, Key) ->
    case file:read_file(File) of
        {ok, Text} ->
            {match, [Mask]} = re:run(Text, Key ++ ":\\s*([0-9a-f]+)",
                [{capture, all_but_first, list}]),
            list_to_integer(Mask, 16);
        {error, _} ->
            0
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
