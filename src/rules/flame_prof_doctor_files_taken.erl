%% @private File operations that take all dirty I/O schedulers: any other one, also to load a
%% module, waits for them. A file system that hangs does this, or a device that is too slow.
%%
%% == False alarms ==
%% Many short operations take them for a moment: at both looks, seconds apart, calls wait for one,
%% and as many processes as there are such schedulers are in calls of files both times.
-module(flame_prof_doctor_files_taken).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1]).

-define(PROCESSES_MOST, 20).

kind() -> file_io.

needs() -> [system].

%% Those of the kind are those of the other rule.
thresholds() -> [].

find(#{system := {#{files := #{waiting := Was} = First}, #{files := #{waiting := Is} = Last}},
    span_us := Us}, _) when Was > 0, Is > 0
->
    finding(maps:with(maps:keys(maps:get(calls, First)), maps:get(calls, Last)), Last, Us);
find(#{system := {#{files := _}, #{files := _}}}, _) ->
    [];
find(_, _) ->
    {unseen, <<"the processes on the dirty I/O schedulers are unknown">>}.

finding(Calls, #{schedulers := Schedulers}, _) when map_size(Calls) < Schedulers ->
    [];
finding(Calls, #{schedulers := Schedulers}, Us) ->
    Count = map_size(Calls),
    Stacks = [{[{call(Call), erlang} || Call <- Stack] ++ [{<<"root">>, pseudo}], 1}
        || Stack <- maps:values(Calls)],
    Function = flame_prof_doctor_stacks:caller(Stacks, [<<"prim_file:*">>]),
    Pids = lists:sublist(lists:sort(maps:keys(Calls)), ?PROCESSES_MOST),
    [#{
        kind => kind(),
        severity => critical,
        size => Count,
        title => ["all ", number(Schedulers), " dirty I/O schedulers are taken by calls of files"],
        sentences => [S || S <- [
            ["In calls of files at the first look and at the last, ",
                flame_prof_doctor_rule:seconds(Us), " apart: ", number(Count), " process",
                case Count of 1 -> ""; _ -> "es" end, "."],
            case Function of <<>> -> ""; _ -> ["Most are made by ", Function, "."] end,
            "All other calls that read or write files or load modules wait for these schedulers."
        ], S =/= ""],
        command => "flame_prof top --node NODE",
        processes => [#{pid => flame_prof_doctor_waits:text(Pid), name => <<>>} || Pid <- Pids],
        numbers => #{processes => Count, schedulers => Schedulers, span_us => Us},
        function => Function
    }].

call({M, F, A}) -> unicode:characters_to_binary(io_lib:format("~ts:~ts/~b", [M, F, A])).
