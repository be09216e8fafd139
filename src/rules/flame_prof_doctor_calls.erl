%% @private Processes that spend their time on a CPU in some calls: what rules on a kind of call
%% share.
-module(flame_prof_doctor_calls).

-export([heavy/3, finding/4, ticks/1, on_cpu/2]).

-export_type([heavy/0]).

-type heavy() :: #{
    processes := [{Weight :: pos_integer(), flame_prof_doctor_samples:process()}, ...],
    weight := pos_integer(),
    on_cpu := pos_integer(),
    share := float(),
    cpus := float(),
    function := binary(),
    stacks := flame_prof_doctor_stacks:stacks()
}.
%% The process with the most first. `on_cpu' is of these processes, `cpus' how many CPUs the calls
%% keep busy.

-define(SEEN, 20).
-define(TICKS, 200).
-define(NAMED_MOST, 20).

%% @doc Processes that are in stacks that match for `share' of their time on a CPU, and together
%% keep `cpus' CPUs busy with it, and are so for `node' of the time on a CPU of all processes, where
%% that is given; or none.
-spec heavy(
    flame_prof_doctor_samples:samples(),
    fun((flame_prof_doctor_stacks:stacks()) -> flame_prof_doctor_stacks:stacks()),
    flame_prof_doctor_rule:thresholds()
) -> heavy() | none.
heavy(#{mode := processes, processes := Processes} = Samples, Match, Limits) ->
    #{share := Share, cpus := Cpus} = Limits,
    Node = lists:sum([flame_prof_doctor_samples:on_cpu(P) || P <- Processes]),
    Found = lists:reverse(lists:keysort(1, [
        {Weight, Process, Stacks}
     || Process <- Processes, OnCpu <- [flame_prof_doctor_samples:on_cpu(Process)], OnCpu > 0,
        Stacks <- [Match(on_cpu(Samples, Process))],
        Weight <- [flame_prof_doctor_stacks:weight(Stacks)], Weight >= Share * OnCpu, Weight > 0
    ])),
    Sum = lists:sum([Weight || {Weight, _, _} <- Found]),
    Ticks = ticks(Samples),
    case Ticks >= ?TICKS andalso Sum >= ?SEEN andalso Sum >= Cpus * Ticks
        andalso Sum >= maps:get(node, Limits, 0) * Node
    of
        true -> summed(Found, Sum, Samples);
        false -> none
    end;
heavy(_, _, _) ->
    none.

summed(Found, Sum, Samples) ->
    OnCpu = lists:sum([flame_prof_doctor_samples:on_cpu(P) || {_, P, _} <- Found]),
    Stacks = lists:append([Some || {_, _, Some} <- Found]),
    #{
        processes => [{Weight, Process} || {Weight, Process, _} <- Found],
        weight => Sum,
        on_cpu => OnCpu,
        share => Sum / OnCpu,
        cpus => Sum / ticks(Samples),
        function => flame_prof_doctor_stacks:caller(Stacks, []),
        stacks => Stacks
    }.

%% @doc Its stacks while it was on a CPU.
-spec on_cpu(flame_prof_doctor_samples:samples(), flame_prof_doctor_samples:process()) ->
    flame_prof_doctor_stacks:stacks().
on_cpu(#{stacks := Stacks}, #{pid := Pid}) ->
    Stacks(Pid, [<<"running">>, <<"garbage_collecting">>]).

%% @doc How often a process was looked at that was there all the time.
-spec ticks(flame_prof_doctor_samples:samples()) -> pos_integer().
ticks(#{processes := Processes}) ->
    lists:max([1 | [N || #{observations := N} <- Processes]]).

%% @doc A finding on them: `Doing' follows `spends 71 % of its time on a CPU'. `numbers' are those
%% of the sentences.
-spec finding(flame_prof_doctor_rule:kind(), heavy(), Doing :: unicode:chardata(),
    #{sentences := [unicode:chardata()], command := unicode:chardata(),
        numbers => #{atom() => number()}}) -> flame_prof_doctor_rule:finding().
finding(Kind, Heavy, Doing, #{sentences := Sentences, command := Command} = More) ->
    #{processes := [{_, First} | _] = All, share := Share, cpus := Cpus, weight := Weight} = Heavy,
    #{function := Function, on_cpu := OnCpu} = Heavy,
    Percent = flame_prof_doctor_rule:share(Share),
    Finding = flame_prof_doctor_samples:finding(Kind, First, #{
        severity => warning,
        size => Cpus,
        title => case length(All) of
            1 -> ["spends ", Percent, " of its time on a CPU ", Doing];
            N -> ["and ", flame_prof_doctor_rule:count(N - 1, "other"), " spend ", Percent,
                " of their time on a CPU ", Doing]
        end,
        sentences => Sentences ++ [
            case Function of
                <<>> -> "";
                _ -> ["It is done in ", Function, "."]
            end,
            ["It keeps ", io_lib:format("~.1f", [Cpus]), " CPUs busy, seen in ",
                flame_prof_doctor_rule:number(Weight), " of ",
                flame_prof_doctor_rule:number(OnCpu), " samples on a CPU in ",
                flame_prof_doctor_samples:time(First), "."]
        ],
        command => Command,
        numbers => maps:merge(maps:get(numbers, More, #{}), #{share => Share, cpus => Cpus,
            samples => Weight, on_cpu => OnCpu, processes => length(All)}),
        function => Function,
        range => {maps:get(first_us, First), maps:get(last_us, First)},
        view => #{measure => samples, show => busy, levels => [process, status], view => flame}
    }),
    Named = lists:sublist([flame_prof_doctor_samples:process(P) || {_, P} <- All], ?NAMED_MOST),
    Finding#{processes := Named}.
