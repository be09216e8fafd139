%% A soak: the storms of storm.erl, and beside them sessions, one after the other.
%%
%% ```
%% #{faults := [], deaths := []} = soak:run(#{seconds => 60, hz => 500, directory => "/tmp/soak"}).
%% '''
%%
%% Every so often, between two sessions, the storms are halted and soak_leaks looks
%% what has stayed. doc/dev/soak.md says what a failure means. The node has to be started
%% with test/soak/vm.args; test/soak/run.sh does it, for each release.
-module(soak).

-export([run/1, is_good/1, format/1]).
-export([main/1, sum/1]).

-define(CHECKPOINTS, 24).
-define(CHECKPOINT_LEAST_MS, 3000).
-define(CHECKPOINT_MOST_MS, 60000).

-record(soak, {options :: map(),
    storm :: pid(),
    deadline :: integer(),
    checkpoint_ms :: pos_integer(),
    checkpoint_at :: integer(),
    sessions = 0,
    counts = #{},
    variants = #{},
    files = 0,
    faults = [],
    checkpoints = []}).

%% #{seconds, hz, directory, seed} -> what is in the summary's file.
run(#{seconds := Seconds, directory := Directory} = Given) ->
    Options = maps:merge(#{hz => 500, seed => erlang:unique_integer([positive])}, Given),
    Ports = filename:join(filename:absname(Directory), "ports"),
    ok = filelib:ensure_dir(filename:join(Ports, "x")),
    true = os:putenv("SOAK_PORTS", Ports),
    ok = logger:set_primary_config(level, error),
    %% Code that the storm loads has to wait for its turn, and its atoms stay: those of a
    %% report of OTP's, about a distribution that took too long to end, look like a leak.
    ok = load([kernel, stdlib, compiler, flame_prof]),
    _ = rand:seed(exsss, maps:get(seed, Options)),
    Now = erlang:monotonic_time(millisecond),
    Every = max(?CHECKPOINT_LEAST_MS, min(?CHECKPOINT_MOST_MS, Seconds * 1000 div ?CHECKPOINTS)),
    {ok, Storm} = storm:start(storm:kinds()),
    Soak = #soak{options = Options, storm = Storm, deadline = Now + Seconds * 1000,
        checkpoint_ms = Every, checkpoint_at = Now + Every},
    Soaked = checkpoint(sessions([], Soak)),
    Report = storm:stop(Storm),
    summary(Report, Now, Soaked).

load(Applications) ->
    lists:foreach(fun(Application) ->
        _ = application:load(Application),
        {ok, Modules} = application:get_key(Application, modules),
        _ = code:ensure_modules_loaded(Modules)
    end, Applications).

%% Each variant once, in another order each time, and again.
sessions([], #soak{options = #{hz := Hz}} = Soak) ->
    Shuffled = [V || {_, V} <- lists:sort([{rand:uniform(), V} || V <- soak_session:variants(Hz)])],
    sessions(Shuffled, Soak);
sessions([Variant | Variants], #soak{deadline = Deadline, checkpoint_at = At} = Soak) ->
    case erlang:monotonic_time(millisecond) of
        Now when Now >= Deadline -> Soak;
        Now when Now >= At -> sessions([Variant | Variants], checkpoint(Soak));
        _ -> sessions(Variants, session(Variant, Soak))
    end.

session(Variant, #soak{sessions = N, options = #{directory := Directory}} = Soak) ->
    Scratch = filename:join(Directory, "session_" ++ integer_to_list(N)),
    Done = soak_session:run(Variant, Scratch, Soak#soak.deadline),
    #{variant := Name, counts := Counts, files := Files, faults := Faults, took_ms := Took} = Done,
    io:format("session ~b: ~w, ~w ms~n", [N, Name, Took]),
    _ = [io:format("session ~b (~w): ~0tP~n", [N, Name, Fault, 60]) || Fault <- Faults],
    Soak#soak{sessions = N + 1,
        counts = maps:merge_with(fun(_, A, B) -> A + B end, Soak#soak.counts, Counts),
        variants = maps:update_with(Name, fun(V) -> V + 1 end, 1, Soak#soak.variants),
        files = Soak#soak.files + Files,
        faults = Soak#soak.faults ++ [{N, Name, Fault} || Fault <- Faults]}.

checkpoint(#soak{storm = Storm, sessions = N, checkpoints = Checkpoints} = Soak) ->
    ok = storm:pause(Storm),
    ok = settle(erlang:monotonic_time(millisecond) + 30000, none, 0),
    Checkpoint = soak_leaks:measure(N),
    ok = storm:resume(Storm),
    Soak#soak{checkpoints = Checkpoints ++ [Checkpoint],
        checkpoint_at = erlang:monotonic_time(millisecond) + Soak#soak.checkpoint_ms}.

%% What exits, and what closes, does so a little later: until nothing moves.
settle(Until, Before, Same) ->
    Counts = maps:without([rss_kib, atoms, mappings], soak_leaks:measure(0)),
    case {Counts =:= Before, erlang:monotonic_time(millisecond) < Until} of
        {true, _} when Same >= 2 -> ok;
        {_, false} -> ok;
        {IsSame, true} ->
            timer:sleep(100),
            settle(Until, Counts, case IsSame of true -> Same + 1; false -> 0 end)
    end.

summary(#{steps := Steps, deaths := Deaths}, Began, #soak{options = Options} = Soak) ->
    #soak{checkpoints = Checkpoints, faults = Faults} = Soak,
    Leaks = soak_leaks:judge(Checkpoints),
    #{otp => erlang:system_info(otp_release),
        seconds => (erlang:monotonic_time(millisecond) - Began) div 1000,
        hz => maps:get(hz, Options), seed => maps:get(seed, Options),
        sessions => Soak#soak.sessions, variants => Soak#soak.variants, files => Soak#soak.files,
        counts => Soak#soak.counts, steps => Steps,
        deaths => [{Kind, text(Reason)} || {Kind, Reason} <- Deaths],
        faults => [{N, Variant, What, text(Detail)} || {N, Variant, {What, Detail}} <- Faults],
        idle => [Kind || {Kind, 0} <- lists:sort(maps:to_list(Steps))], leaks => Leaks,
        leaking => [What || {What, #{leaks := true}} <- lists:sort(maps:to_list(Leaks))],
        checkpoints => Checkpoints}.

%% Funs and pids cannot be read again.
text(Term) -> unicode:characters_to_binary(io_lib:format("~0tP", [Term, 60])).

%% A storm that never came to its first step did not take part.
is_good(#{deaths := [], faults := [], leaking := [], idle := [], sessions := N}) -> N > 0;
is_good(_) -> false.

%%% A page of it.

format(#{otp := Otp, seconds := Seconds, sessions := Sessions, counts := C} = Summary) ->
    #{steps := Steps, leaks := Leaks, deaths := Deaths, faults := Faults} = Summary,
    Get = fun(Key) -> maps:get(Key, C, 0) end,
    [io_lib:format("OTP ~s: ~s~n", [Otp, verdict(Summary)]),
        line("length", "~b s at ~b Hz, seed ~b",
            [Seconds, maps:get(hz, Summary), maps:get(seed, Summary)]),
        line("sessions", "~b, ~b files, ~b bytes of them",
            [Sessions, maps:get(files, Summary), Get(file_bytes)]),
        [io_lib:format("             ~w~n", [maps:to_list(maps:get(variants, Summary))])],
        line("samples",
            "attempted ~b = written ~b + inconsistent ~b + dropped ~b + exited ~b + evicted ~b",
             [Get(K) || K <- [attempted, written, inconsistent, dropped, exited, evicted]]),
        line("inconsistent by", "moved ~b, unfound ~b, late ~b, changed ~b",
             [Get(K) || K <- [inconsistent_moved, inconsistent_unfound, inconsistent_late,
              inconsistent_changed]]),
        line("captures", "~b of ~b signals, ~b ns of a scheduler each",
             [Get(captures), Get(signals), Get(handler_ns) div max(1, Get(captures))]),
        line("ticks", "~b, missed ~b; selections ~b; flushes ~b",
             [Get(K) || K <- [ticks, missed, selections, flushes]]),
        line("CPU", "~.1f s sampler, ~.1f s writer",
             [Get(sampler_cpu_ns) / 1.0e9, Get(writer_cpu_ns) / 1.0e9]),
        line("storms", "~w", [lists:sort(maps:to_list(Steps))]),
        line("checkpoints", "~b; first, last, slope a session:",
            [length(maps:get(checkpoints, Summary))]),
        [leak(What, maps:get(What, Leaks)) || {What, _, _} <- soak_leaks:limits()],
        line("deaths", "~b", [length(Deaths)]),
        [io_lib:format("             ~0tp~n", [D]) || D <- lists:sublist(Deaths, 10)],
        line("faults", "~b", [length(Faults)]),
        [io_lib:format("             ~0tp~n", [F]) || F <- lists:sublist(Faults, 10)]].

line(Name, Format, Arguments) ->
    io_lib:format("  ~-10s " ++ Format ++ "~n", [Name | Arguments]).

leak(What, #{first := First, last := Last, slope := Slope, leaks := IsLeak}) ->
    io_lib:format("             ~-12w ~10w ~10w ~10w~s~n",
                  [What, First, Last, Slope, [" LEAKS" || IsLeak]]).

verdict(#{deaths := Deaths, faults := Faults, leaking := Leaking, idle := Idle} = Summary) ->
    case is_good(Summary) of
        true -> "good";
        false ->
            io_lib:format("FAILED: ~b deaths, ~b faults, leaks ~w, storms that never came ~w",
                          [length(Deaths), length(Faults), Leaking, Idle])
    end.

%%% At the command line.

%% erl -s soak main SECONDS HZ SEED SCRATCH OUT: OUT.txt and OUT.term.
main(Arguments) ->
    [Seconds, Hz, Seed, Scratch, Out] = [atom_to_list(A) || A <- Arguments],
    Summary = run(#{seconds => list_to_integer(Seconds), hz => list_to_integer(Hz),
        seed => list_to_integer(Seed), directory => Scratch}),
    Page = format(Summary),
    ok = file:write_file(Out ++ ".term", io_lib:format("~tp.~n", [Summary])),
    ok = file:write_file(Out ++ ".txt", Page),
    io:put_chars(Page),
    halt(case is_good(Summary) of true -> 0; false -> 1 end).

%% erl -s soak sum FILE.term...: what they make together.
sum(Files) ->
    Summaries =
        [begin
            {ok, [Summary]} = file:consult(atom_to_list(File)),
            Summary
        end || File <- Files],
    Add = fun(Key) -> lists:sum([maps:get(Key, C, 0) || #{counts := C} <- Summaries]) end,
    Length = fun(Key) -> lists:sum([length(maps:get(Key, S)) || S <- Summaries]) end,
    Sum = fun(Key) -> lists:sum([maps:get(Key, S) || S <- Summaries]) end,
    io:format("Altogether, OTP ~s: ~b s, ~b sessions, ~b files~n"
        "  attempted ~b = written ~b + inconsistent ~b + dropped ~b + exited ~b + evicted ~b~n"
        "  captures ~b of ~b signals; deaths ~b, faults ~b, leaks ~b~n",
        [lists:join(" ", [Otp || #{otp := Otp} <- Summaries]), Sum(seconds), Sum(sessions),
            Sum(files)]
        ++ [Add(K) || K <- [attempted, written, inconsistent, dropped, exited, evicted, captures,
            signals]] ++ [Length(deaths), Length(faults), Length(leaking)]),
    halt(0).
