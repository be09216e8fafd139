%% What the benchmarks find: a line on the terminal as soon as it is known, and
%% all of them as JSON, for doc/benchmarks.md, its chart and the history.
-module(bench_results).

-export([tell/1, record/2, meets_bar/1, number/1, append/2, load/1, save_json/2, machine/0]).

-export_type([result/0, bar/0]).

%% `section' and `name' together say what was measured, the same in each run;
%% `interval' is that of 95 %; `counted' is what was counted, not timed, beside it.
-type result() :: #{
    section := atom(),
    name := binary(),
    value := number(),
    unit := binary(),
    interval => {Low :: number(), High :: number()},
    bar => bar(),
    counted => #{atom() => number()},
    %% Of the overhead: to find a figure by, without taking the name apart.
    workload => atom(),
    tool => binary(),
    peer => binary(),
    measure => atom(),
    note => binary()
}.
%% `not_above' is met when the interval reaches down to the bar: it is not above by more
%% than noise.
-type bar() :: {at_least | at_most | not_above, number()}.

%% Prints it and answers it.
-spec tell(result()) -> result().
tell(#{name := Name, value := Value, unit := Unit} = Result) ->
    io:format("~ts ~12ts ~-8ts~ts~ts~ts~n", [
        string:pad(Name, 58), number(Value), Unit, interval(Result), bar(Result), counted(Result)
    ]),
    Result.

interval(#{interval := {Low, High}}) -> [" ", number(Low), " to ", number(High)];
interval(#{}) -> "".

bar(#{bar := {Kind, Bar}} = Result) ->
    Met = case meets_bar(Result) of true -> "met"; false -> "NOT MET" end,
    ["  (bar: ", words(Kind), " ", number(Bar), ") ", Met];
bar(#{}) ->
    "".

%% @doc For doc/dev/proof.md: lines of name, value, interval and bar, with tabs between them.
%% `false': to no file.
-spec record(file:filename() | false, [result()]) -> ok | {error, file:posix()}.
record(false, _) -> ok;
record(File, Results) ->
    Lines = [[Name, ", ", Unit, $\t, number(Value), $\t, string:trim(interval(Result)), $\t,
        words(Kind), " ", number(Bar), $\n]
        || #{name := Name, unit := Unit, value := Value, bar := {Kind, Bar}} = Result <- Results],
    file:write_file(File, unicode:characters_to_binary(Lines), [append]).

-spec meets_bar(result()) -> boolean().
meets_bar(#{bar := {not_above, Bar}, interval := {Low, _}}) -> Low =< Bar;
meets_bar(#{bar := {Kind, Bar}, value := Value}) -> meets(Kind, Value, Bar).

meets(at_least, Value, Bar) -> Value >= Bar;
meets(at_most, Value, Bar) -> Value =< Bar.

words(at_least) -> "at least";
words(at_most) -> "at most";
words(not_above) -> "within noise of".

counted(#{counted := Counted}) ->
    [["  ", atom_to_list(Key), " ", number(N)] || {Key, N} <- lists:sort(maps:to_list(Counted))];
counted(#{}) ->
    "".

-spec number(number()) -> string().
number(N) when is_integer(N) -> integer_to_list(N);
number(N) when abs(N) >= 100 -> float_to_list(N, [{decimals, 1}]);
number(N) -> float_to_list(N, [{decimals, 4}]).

%% A benchmark is more than one VM: each adds what it found to one file of terms.
-spec append(file:filename(), [result()]) -> ok.
append(File, Results) ->
    ok = filelib:ensure_dir(File),
    Terms = [io_lib:format("~tp.~n", [Result]) || Result <- Results],
    ok = file:write_file(File, unicode:characters_to_binary(Terms), [append]).

-spec load(file:filename()) -> {ok, [result()]} | {error, term()}.
load(File) -> file:consult(File).

%% As a JSON object: what it was measured on, and the results.
-spec save_json(file:filename(), [result()]) -> ok.
save_json(File, Results) ->
    ok = filelib:ensure_dir(File),
    Document = #{machine => machine(), results => [json(Result) || Result <- Results]},
    ok = file:write_file(File, flame_prof_json:encode(Document)).

json(Result) -> maps:map(fun value/2, Result).

value(interval, {Low, High}) -> [Low, High];
value(bar, {Kind, Bar}) -> #{Kind => Bar};
value(_, Value) -> Value.

-spec machine() -> #{atom() => binary() | integer()}.
machine() ->
    #{
        otp => list_to_binary(erlang:system_info(otp_release)),
        schedulers => erlang:system_info(schedulers_online),
        architecture => list_to_binary(erlang:system_info(system_architecture)),
        processor => processor()
    }.

processor() ->
    {ok, Text} = file:read_file("/proc/cpuinfo"),
    case re:run(Text, "model name\\s*: (.*)", [{capture, all_but_first, binary}]) of
        {match, [Name]} -> Name;
        nomatch -> <<"unknown">>
    end.
