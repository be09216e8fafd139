%% One session of a soak: started, left to work, stopped, and everything that it
%% says of itself compared with what it wrote. Its files are deleted then.
%%
%% variants/1 are the ways in which sessions differ; run/3 answers what one did, and
%% what was wrong with it (`faults': [], or what and why).
-module(soak_session).

-export([variants/1, run/3, counts/0]).

-define(START_MS, 120000).
-define(STOP_MS, 180000).
-define(FIRES_MS, 120000).

%% Of the counters, what is added up over the sessions.
counts() ->
    [attempted, written, merged, inconsistent, inconsistent_moved, inconsistent_unfound,
     inconsistent_late, inconsistent_changed, dropped,
     exited, evicted, lost, missed, ticks, retried, recoded, unresolved, selections, signals,
     captures, handler_ns, sampler_cpu_ns, writer_cpu_ns, flushes, file_bytes, errors, own_samples].

%% {Name, Options, Milliseconds}; Hz is the rate of most of them. None is long: what
%% is begun and ended often is what leaks.
variants(Hz) ->
    [{top_100, at(Hz), 4000},
        {plain, (at(Hz))#{compress => none, coalesce_idle => true}, 3000},
        {schedulers, (at(Hz))#{mode => schedulers}, 3000},
        {at_once, at(Hz), 0},
        {as_is, #{}, 3000},
        {changes, (at(Hz))#{coalesce_idle => true, c_frames => false}, 3000},
        {looks_only, (at(Hz))#{running_stacks => false, select => {top, 1000, 500}}, 3000},
        {chosen, (at(Hz))#{select => [#{top => 50, by => memory, delta => true, interval => 200},
            #{top => 20, by => message_queue_len, interval => 300},
            #{top => 50, interval => 300, include => [{module, storm}, {module, storm_inside}]}
        ]}, 3000},
        {at_once, (at(Hz))#{mode => schedulers, compress => none}, 0},
        {every_ms, (at(1000))#{collapse_recursion => false}, 3000},
        {many_files, (at(Hz))#{flushes_per_file => 1, sync => flush}, 4000},
        {running, (at(Hz))#{process_options => #{status => running}}, 3000},
        {follow, (at(Hz))#{process_options => #{follow => true},
                          follow_limits => #{events => 2000, seconds => 2}}, 3000},
        {triggered, (at(Hz))#{lookback => 1000, triggers => [
            #{on => fun() -> true end, interval => 100, duration => 1500, cooldown => 3600000}
        ]}, fires},
        {each_second, (at(Hz))#{flush_interval => 60000, node_interval => 1000}, 4000},
        {portable, (at(99))#{engine => portable}, 3000},
        {small, (at(Hz))#{select => {top, 10, 250}, memory_budget => 50331648}, 2000}].

at(Hz) ->
    #{engine => native, sample_interval => max(1, 1000 div Hz), flush_interval => 2100,
        flushes_per_file => infinity, max_files => infinity, max_file_bytes => infinity,
        max_total_bytes => infinity, cpu_budget => infinity, select => {top, 100, 250}}.

%% #{variant, counts => #{atom() => Count}, files, faults => [{What, Detail}], took_ms}; the
%% last is of the start, the work, and the end with all that is checked there.
run({Name, Options, Length}, Directory, Deadline) ->
    ok = filelib:ensure_dir(filename:join(Directory, "x")),
    T0 = now_ms(),
    Outcome =
        try flame_prof:start(Options#{dir => Directory}, ?START_MS) of
            {ok, Session} ->
                T1 = now_ms(),
                Faults = work(Session, Length, Deadline),
                T2 = now_ms(),
                (ended(Session, Faults))#{took_ms => [T1 - T0, T2 - T1, now_ms() - T2]};
            {error, Reason} -> #{faults => [{start, said(Reason)}]}
        catch
            Class:Reason:Stack -> #{faults => [{start, {Class, Reason, Stack}}]}
        end,
    _ = file:del_dir_r(Directory),
    maps:merge(#{variant => Name, counts => #{}, files => 0, faults => [], took_ms => []}, Outcome).

now_ms() -> erlang:monotonic_time(millisecond).

said(Reason) -> unicode:characters_to_binary(flame_prof:format_error(Reason)).

%% Until its time is over, or the soak's; asked for its counters and told to flush on
%% the way. Answers what was wrong.
work(_Session, 0, _) -> [];
work(_Session, fires, _) -> fired(erlang:monotonic_time(millisecond) + ?FIRES_MS);
work(_Session, Ms, Deadline) ->
    Left = max(0, min(Ms, Deadline - erlang:monotonic_time(millisecond))),
    timer:sleep(Left div 2),
    Faults = flushed(flame_prof:flush(?STOP_MS)) ++ informed(flame_prof:info()),
    timer:sleep(Left div 2),
    Faults.

flushed(ok) -> [];
flushed({error, Reason}) -> [{flush, said(Reason)}].

informed(#{state := running, error := <<>>}) -> [];
informed(Info) -> [{info, maps:with([state, error], Info)}].

%% Its profile is over: it waits again, with the counters of what it wrote.
fired(Until) ->
    case {flame_prof:info(), now_ms() < Until} of
        {#{state := armed, profiling := false, triggers := [#{fired := 1}]}, _} -> [];
        {_, true} -> timer:sleep(100), fired(Until);
        {Info, false} -> [{never_fired, maps:with([state, profiling, triggers, error], Info)}]
    end.

ended(Session, Faults) ->
    case flame_prof:stop(Session, ?STOP_MS) of
        {ok, #{attempted := _, files := Files} = Run} ->
            #{counts => maps:with(counts(), Run), files => length(Files),
                faults => Faults ++ of_counters(Run) ++ of_files(Run)};
        {ok, Other} -> #{faults => Faults ++ [{no_books, maps:without([options], Other)}]};
        {error, Reason} -> #{faults => Faults ++ [{stop, said(Reason)}]}
    end.

%% To the sample.
of_counters(#{attempted := Attempted, written := Written, inconsistent := Inconsistent,
    dropped := Dropped} = Run) ->
    #{exited := Exited, evicted := Evicted, lost := Lost, signals := Signals} = Run,
    #{captures := Captures, errors := Errors, error := Error, engine := Engine} = Run,
    Sum = Written + Inconsistent + Dropped + Exited + Evicted,
    Causes = lists:sum([maps:get(K, Run)
        || K <- [inconsistent_moved, inconsistent_unfound, inconsistent_late,
            inconsistent_changed]]),
    [{counters, #{attempted => Attempted, accounted_for => Sum}} || Attempted =/= Sum] ++
        [{inconsistent, #{inconsistent => Inconsistent, causes => Causes}} || Engine =:= native,
         Inconsistent =/= Causes] ++
        [{captures, #{signals => Signals, captures => Captures}} || Captures > Signals] ++
        [{disk, #{lost => Lost, errors => Errors, error => Error}}
         || {Lost, Errors, Error} =/= {0, 0, <<>>}].

%% They are there, nothing else is, and the strict reader finds in them what the counters say.
of_files(#{files := Files, written := Written, options := #{dir := Directory}} = Run) ->
    {ok, Names} = file:list_dir(Directory),
    Named = lists:sort([filename:basename(unicode:characters_to_list(F)) || F <- Files]),
    Wrong = [{files, #{named => Named, there => lists:sort(Names)}} || Named =/= lists:sort(Names)],
    Wrong ++ read_back(Files, Written, Run) ++ lists:append([tested(F) || F <- Files]).

read_back([], 0, _Run) -> [];
read_back(Files, Written, #{merged := Merged} = Run) ->
    Count = fun(#{period := Period}, {Samples, Sum}) -> {Samples + 1, Sum + Period} end,
    case flame_prof:fold(Count, {0, 0}, Files, #{bad => stop}) of
        {ok, {Samples, Written}, #{bad := 0}} when
            Samples =:= Written - Merged; is_map_key(trigger, Run)
        -> [];
        {ok, {Samples, Sum}, Counts} ->
            Counters = #{written => Written, merged => Merged},
            [{read_back, #{
                counters => Counters, samples => Samples, periods => Sum, counts => Counts}}];
        {error, Reason} -> [{read_back, Reason}]
    end.

tested(File) ->
    case {filename:extension(File), os:find_executable("zstd")} of
        {<<".zst">>, Zstd} when Zstd =/= false -> tested(File, Zstd);
        _ -> []
    end.

tested(File, Zstd) ->
    Port = open_port({spawn_executable, Zstd},
        [{args, ["-tq", File]}, exit_status, stderr_to_stdout]),
    said_by(Port, File, []).

said_by(Port, File, Said) ->
    receive
        {Port, {data, More}} -> said_by(Port, File, [Said, More]);
        {Port, {exit_status, 0}} -> [];
        {Port, {exit_status, Status}} -> [{zstd, {File, Status, lists:flatten(Said)}}]
    end.
