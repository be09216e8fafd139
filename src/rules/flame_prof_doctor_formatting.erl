%% @private Terms that are formatted as text: crash reports of servers with large states, or
%% messages of the log.
%%
%% == False alarms ==
%% Each program formats texts. A finding needs processes that do so for `share' of their time on a
%% CPU, and together for `node' of the node's; collections of the texts count. It is a warning if a
%% report on the end of a process is formatted, and else a note.
-module(flame_prof_doctor_formatting).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

-define(FORMAT, [<<"io_lib:*">>, <<"io_lib_pretty:*">>, <<"io_lib_format:*">>,
    <<"logger_formatter:*">>, <<"Elixir.Inspect*">>, <<"Elixir.Logger.Formatter:*">>]).
%% Of processes that end.
-define(REPORT, [<<"gen_server:terminate/*">>, <<"gen_server:error_info/*">>,
    <<"gen_server:client_stacktrace/*">>, <<"gen_statem:terminate/*">>,
    <<"gen_statem:error_info/*">>, <<"gen_event:report_*">>, <<"gen_event:terminate/*">>,
    <<"proc_lib:crash_report/*">>, <<"proc_lib:exit_p/*">>, <<"proc_lib:exit_reason/*">>,
    <<"supervisor:report_error/*">>, <<"Elixir.Task.Supervised:log/*">>]).

kind() -> formatting.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.4, <<"share of its time on a CPU in formatting of terms">>},
        {cpus, 0.05, <<"CPUs together">>},
        {node, 0.25, <<"share of the CPU time of all processes">>},
        {reports, 0.5, <<"share of that time in reports of processes that end: a warning">>}
    ].

find(#{samples := Samples}, Limits) ->
    Match = fun(Stacks) -> flame_prof_doctor_stacks:anywhere(Stacks, ?FORMAT) end,
    case flame_prof_doctor_calls:heavy(Samples, Match, Limits) of
        none -> [];
        #{} = Heavy -> [finding(Heavy, Samples, Limits)]
    end.

finding(#{processes := [{_, First} | _] = All, stacks := Stacks} = Heavy, Samples, Limits) ->
    Reports = flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:anywhere(Stacks, ?REPORT))
        / max(1, flame_prof_doctor_stacks:weight(Stacks)),
    Gc = lists:sum([N || {_, #{gc := N}} <- All]),
    #{on_cpu := OnCpu} = Heavy,
    Same = namesakes(First, Samples),
    AreReports = Reports >= maps:get(reports, Limits),
    Finding = flame_prof_doctor_calls:finding(kind(), Heavy#{function := function(Stacks)},
        case AreReports of
            true -> "formatting reports of its crash";
            false -> "formatting terms as text"
        end, #{
        sentences => [
            [case AreReports andalso Same > 1 of
                true -> [number(Same), " processes of that name were seen, as it ends and is started "
                    "again; "];
                false -> ""
            end, share(Gc / OnCpu), " of that time are collections of what this makes."],
            case AreReports of
                true -> "Leave the state out by format_status, or set a depth and a chars_limit of "
                    "the logger's formatter.";
                false -> "Log less, or set a depth and a chars_limit."
            end
        ],
        command => "flame_prof allocations NODE",
        numbers => #{collections => Gc / OnCpu, namesakes => Same, reports => Reports}
    }),
    Finding#{severity := case AreReports of true -> warning; false -> note end}.

%% Those who ended and those who came for them have one name.
namesakes(#{name := <<>>}, _) -> 1;
namesakes(#{name := Name}, #{processes := Processes}) ->
    length([1 || #{name := Of} <- Processes, Of =:= Name]).

%% Of the program, or of OTP where it has ended in OTP's code.
function(Stacks) -> flame_prof_doctor_stacks:caller(Stacks, [<<"logger*">> | ?FORMAT]).
