%% @private A process that waits for the disk or for a slow file for most of its time, while others
%% wait for it.
%%
%% == False alarms ==
%% A process that reads or writes files is in the file system's calls, as it should be. It is a
%% finding where it is there for most of its time, and its queue is never empty or others wait for
%% it all the time.
-module(flame_prof_doctor_file_io).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, explained_by/0]).

-import(flame_prof_doctor_rule, [name/1, number/1, share/1]).

-define(FILES, [<<"prim_file:*">>, <<"file:*">>, <<"erts_internal:dirty_nif_finalizer/1">>]).
-define(IN_FILES, [<<"prim_file:*">>, <<"raw_file_io*">>, <<"file_io_server:*">>, <<"file:*">>]).

kind() -> file_io.

needs() -> [samples, waits].

explained_by() -> [deadlock, logger].

thresholds() ->
    [
        {share, 0.5, <<"share of its time in which a process is in file calls">>},
        {waiting, 3, <<"processes and messages that wait for it all the time">>}
    ].

find(#{samples := #{processes := Processes} = Samples, waits := Look} = Evidence, Limits) ->
    #{edges := Edges} = Look,
    #{share := Least, waiting := Waiting} = Limits,
    Targets = lists:usort([To || #{to := To} <- Edges, is_pid(To)]),
    [
        finding(Process, Stacks, Share, flame_prof_doctor_does:waiters(Pid, Evidence), Evidence)
     || #{observations := All} = Process <- Processes, All > 0,
        Stacks <- [in_files(Process, Samples)],
        Share <- [flame_prof_doctor_stacks:weight(Stacks) / All], Share >= Least,
        Pid <- [target(Process, Targets)],
        flame_prof_doctor_lasting:is_waited_for(Process, Waiting, Evidence) orelse
            is_pid(Pid) andalso flame_prof_doctor_lasting:lasting(Pid, Waiting, Evidence)
    ].

%% At the last look nobody may wait for it.
target(#{pid := Text}, Targets) ->
    hd([Pid || Pid <- Targets, flame_prof_doctor_waits:text(Pid) =:= Text] ++ [none]).

in_files(Process, Samples) ->
    flame_prof_doctor_stacks:anywhere(
        flame_prof_doctor_stacks:at_leaf(flame_prof_doctor_samples:busy(Samples, Process), ?FILES),
        ?IN_FILES).

finding(Process, Stacks, Share, {Waiting, Waiters}, Evidence) ->
    Function = flame_prof_doctor_stacks:caller(Stacks, ?FILES),
    Calls = lists:reverse(lists:keysort(2, maps:to_list(lists:foldl(
        fun({Frames, W}, By) ->
            maps:update_with(flame_prof_doctor_stacks:called(Frames), fun(N) -> N + W end, W, By)
        end, #{}, Stacks)))),
    [{Call, _} | _] = Calls,
    Mean = flame_prof_doctor_lasting:waited_for(maps:get(pid, Process), Evidence),
    flame_prof_doctor_samples:finding(kind(), Process, #{
        severity => warning,
        size => Waiting,
        title => ["waits for files, and others wait for it"],
        sentences => [
            ["For ", share(Share), " of ", flame_prof_doctor_samples:time(Process),
                " it is in calls of files, most in ", Call, "."],
            case Function of <<>> -> ""; _ -> ["These are made by ", Function, "."] end,
            case Waiting of
                0 -> ["In the mean ", number(Mean), " sampled processes wait for ", name(Process),
                    "."];
                1 -> ["1 process waits for ", name(Process), "."];
                _ -> [number(Waiting), " processes wait for ", name(Process), "."]
            end,
            ["Seen in ", number(maps:get(observations, Process)), " samples."]
        ],
        command => ["flame_prof waits NODE ", flame_prof_doctor_samples:target(Process)],
        numbers => #{share => Share, waiting => Waiting, mean_waiting => Mean},
        waiters => Waiters,
        function => Function
    }).
