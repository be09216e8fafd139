%% Linux perf of this VM, in user space: record for a while, and what its samples of
%% the normal schedulers say. Functions have names where the VM writes perf's map
%% (+JPperf true).
-module(bench_perf).

-export([record/3, samples/1]).

-export_type([frame/0]).

%% Leaf first.
-type frame() :: {Symbol :: binary(), Dso :: binary()}.

%% What it said, and when it sampled, in microseconds of the system's clock.
-spec record(Data :: file:filename(), Hz :: pos_integer(), Seconds :: pos_integer()) ->
    {Begin :: integer(), End :: integer(), Said :: string()}.
record(Data, Hz, Seconds) ->
    Begin = os:system_time(microsecond),
    Said = os:cmd(
        "LC_ALL=C perf record -e cpu-clock:u -F " ++ integer_to_list(Hz) ++ " -p " ++
            os:getpid() ++ " -o " ++ Data ++ " -- sleep " ++ integer_to_list(Seconds) ++ " 2>&1"
    ),
    {Begin, os:system_time(microsecond), Said}.

%% The function on top of each, with how often it was.
-spec samples(Data :: file:filename()) -> #{frame() => pos_integer()}.
samples(Data) ->
    Text = os:cmd("LC_ALL=C perf script -f -F comm,ip,sym,dso -i " ++ Data ++ " 2>/dev/null"),
    lists:foldl(fun line/2, #{}, string:lexemes(Text, "\n")).

%% `comm  address symbol (dso)', the symbol with blanks or without any.
line(Line, Counts) ->
    case re:run(Line, "^\\s*(\\S+)\\s+[0-9a-f]+ (.*) \\((.*)\\)$",
        [{capture, all_but_first, binary}]) of
        {match, [Comm, Symbol, Dso]} -> scheduler(is_scheduler(Comm), {Symbol, Dso}, Counts);
        nomatch -> Counts
    end.

scheduler(true, Frame, Counts) -> bench_shares:add(Frame, 1, Counts);
scheduler(false, _, Counts) -> Counts.

%% Named by the VM: up to OTP 25 `1_scheduler', then `erts_sched_1'.
is_scheduler(Comm) ->
    re:run(Comm, "^([0-9]+_scheduler|erts_sched_[0-9]+)$", [{capture, none}]) =:= match.
