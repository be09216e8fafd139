%% Latency of functions. The truth is what the functions themselves log: they wait busily, by a
%% clock that they read.
-module(flame_prof_latency_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, end_per_testcase/2, each_call_is_in_the_histogram/1,
    calls_of_several_processes_add_up/1, exceptions_are_apart/1,
    of_a_recursion_the_outermost_call_counts/1, a_loop_of_tail_calls_has_one_frame/1,
    two_functions_that_call_each_other_in_the_tail_are_bounded/1,
    own_time_leaves_measured_functions_out/1, own_time_is_not_told_where_calls_were_lost/1,
    a_measurement_that_is_killed_is_an_error/1, callers_are_told/1,
    parts_have_the_times_of_their_calls/1, a_heatmap_has_each_call_in_its_row/1,
    groups_have_the_names_of_processes/1, a_process_that_ended_is_told_as_such/1,
    a_call_that_does_not_return_is_open/1, an_open_call_of_a_killed_process_is_forgotten/1,
    intervals_add_up_to_the_whole/1, every_arity_and_every_function_of_a_module_can_be_measured/1,
    what_cannot_be_measured_is_refused/1, too_many_calls_are_sampled_and_then_end_it/1,
    its_seconds_end_it/1, what_runs_is_told/1, parts_are_left_out_on_request/1,
    metrics_have_what_is_measured/1, a_page_reads_a_line_for_each_interval/1,
    a_line_of_few_functions_has_the_durations_of_their_callers/1,
    a_page_that_goes_ends_what_it_measures/1,
    a_page_that_asks_for_what_is_not_there_measures_nothing/1,
    a_page_measures_when_its_node_has_got_a_name/1]).
%% In a VM of its own.
-export([named_later/0]).
%% Measured.
-export([busy/1, outer/1, factorial/1, count_down/1, ping/1, pong/1, boom/1, wait/0, pass/1,
    many/0, many/1, called/1]).

-import(waiting, [eventually/1]).

-define(M, ?MODULE).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    suite_cases:list(?MODULE,
        [busy, outer, factorial, count_down, ping, pong, boom, pass, many, called]).

end_per_testcase(_, _) ->
    ok = flame_prof_tracing:stop_all(),
    eventually(fun() -> whereis(flame_prof_tracing) =:= undefined end),
    eventually(fun() -> whereis(flame_prof_latency) =:= undefined end).

%% What it took, in nanoseconds.
busy(Ns) ->
    Began = erlang:monotonic_time(nanosecond),
    spin(Began + Ns),
    erlang:monotonic_time(nanosecond) - Began.

spin(Until) ->
    case erlang:monotonic_time(nanosecond) of Now when Now < Until -> spin(Until); _ -> ok end.

outer(Ns) ->
    Inner = ?M:busy(Ns),
    spin(erlang:monotonic_time(nanosecond) + Ns),
    Inner.

factorial(0) -> 1;
factorial(N) -> N * ?M:factorial(N - 1).

%% The words of the stack at the end of the loop.
count_down(0) -> element(2, process_info(self(), stack_size));
count_down(N) -> ?M:count_down(N - 1).

ping(0) -> element(2, process_info(self(), stack_size));
ping(N) -> ?M:pong(N - 1).

pong(0) -> element(2, process_info(self(), stack_size));
pong(N) -> ?M:ping(N - 1).

boom(Class) ->
    _ = busy(10000),
    erlang:raise(Class, boom, []).

wait() -> receive go -> ok end.
pass(X) -> X.
many() -> 0.
many(_) -> 1.
started(Functions) -> started(Functions, #{}).

%% No call is lost when the machine does not run the tracing's process in time.
started(Functions, More) ->
    {ok, Measurement} = flame_prof_latency:start(Functions,
        maps:merge(#{max_cpu_percent => infinity, max_events_per_second => infinity,
            heartbeat_ms => 60000}, More)),
    Measurement.

stopped(Measurement) ->
    {ok, Answer} = flame_prof_latency:stop(Measurement),
    Answer.

row(Function, #{functions := Rows}) ->
    [Row] = [R || #{function := F} = R <- Rows, F =:= {?M, Function, 1}],
    Row.

is_traced(MFA) ->
    Trace = trace,
    case code:ensure_loaded(trace) of
        {module, trace} -> Trace:session_info(MFA) =/= [];
        _ -> not lists:member(erlang:trace_info(MFA, meta), [{meta, false}, {meta, undefined}])
    end.

in_process(Fun) ->
    {_, Monitor} = spawn_monitor(Fun),
    receive {'DOWN', Monitor, _, _, normal} -> ok end.

%% How right its quantiles are: test/proof/latency_proof_SUITE.
each_call_is_in_the_histogram(_) ->
    M = started({?M, busy, 1}),
    Lengths = [100000 + 3000 * N || N <- lists:seq(1, 300)],
    True = lists:sort([?M:busy(Ns) || Ns <- Lengths]),
    Answer = stopped(M),
    ?assertMatch(#{calls := 300, exceptions := 0, open := 0, sampled_of := 1}, Answer),
    ?assert(maps:get(max_ns, Answer) >= lists:last(True)),
    ?assert(maps:get(total_ns, Answer) >= lists:sum(True)),
    ?assertEqual(300, lists:sum([N || {_, _, N} <- maps:get(histogram, Answer)])).

calls_of_several_processes_add_up(_) ->
    M = started({?M, pass, 1}),
    Monitors = [element(2, spawn_monitor(fun() -> [?M:pass(X) || X <- lists:seq(1, 1000)] end))
     || _ <- lists:seq(1, 50)],
    _ = [receive {'DOWN', Monitor, _, _, _} -> ok end || Monitor <- Monitors],
    ?assertMatch(#{calls := 50000, open := 0}, stopped(M)).

exceptions_are_apart(_) ->
    M = started({?M, boom, 1}),
    _ = [catch ?M:boom(Class) || Class <- [error, exit, throw]],
    #{exceptions := 3, exceptions_ns := Ns} = Answer = stopped(M),
    ?assertMatch(#{calls := 0, histogram := [], open := 0}, Answer),
    ?assert(Ns >= 30000).

of_a_recursion_the_outermost_call_counts(_) ->
    M = started({?M, factorial, 1}),
    _ = [?M:factorial(20) || _ <- lists:seq(1, 7)],
    ?assertMatch(#{calls := 7, open := 0}, stopped(M)).

a_loop_of_tail_calls_has_one_frame(_) ->
    M = started({?M, count_down, 1}),
    Short = ?M:count_down(1),
    ?assertEqual(Short, ?M:count_down(1000000)),
    ?assertMatch(#{calls := 2, open := 0}, stopped(M)).

two_functions_that_call_each_other_in_the_tail_are_bounded(_) ->
    M = started([{?M, ping, 1}, {?M, pong, 1}]),
    Short = ?M:ping(2),
    ?assertEqual(Short, ?M:ping(1000000)),
    Answer = stopped(M),
    ?assertMatch(#{calls := 2}, row(ping, Answer)),
    ?assertMatch(#{calls := 2}, row(pong, Answer)).

own_time_leaves_measured_functions_out(_) ->
    M = started([{?M, outer, 1}, {?M, busy, 1}]),
    Inner = lists:sum([?M:outer(200000) || _ <- lists:seq(1, 20)]),
    Answer = stopped(M),
    #{total_ns := Total, own_ns := Own} = row(outer, Answer),
    #{total_ns := Of, own_ns := Of} = row(busy, Answer),
    ?assertEqual(Total - Of, Own),
    ?assert(Of >= Inner),
    ?assert(Own >= 20 * 200000).

%% An inner call that was lost is part of the outer one's own time.
own_time_is_not_told_where_calls_were_lost(_) ->
    M = started([{?M, outer, 1}, {?M, busy, 1}], #{heartbeat_ms => 100}),
    _ = ?M:outer(1000),
    {ok, #{functions := [#{own_ns := _} | _]}} = flame_prof_latency:interval(M),
    Owner = whereis(flame_prof_tracing),
    true = erlang:suspend_process(Owner),
    %% For longer than its heartbeat may be late, by the library's clock.
    Until = erlang:monotonic_time(millisecond) + 200,
    eventually(fun() -> _ = ?M:outer(1000), erlang:monotonic_time(millisecond) > Until end),
    true = erlang:resume_process(Owner),
    #{lost := #{calls_while_the_heartbeat_was_late := Late}, functions := Rows} = stopped(M),
    ?assert(Late > 0),
    [?assertNot(is_map_key(own_ns, Row)) || Row <- Rows].

callers_are_told(_) ->
    M = started([{?M, busy, 1}]),
    _ = [{?M:outer(1000), 1} || _ <- lists:seq(1, 5)],
    #{callers := Callers, calls := 5} = stopped(M),
    ?assertMatch([#{caller := {?M, outer, 1}, calls := 5}], Callers).

%% 20 calls of 0.1 ms by outer/1 and one of 5 ms by this function: told apart.
parts_have_the_times_of_their_calls(_) ->
    M = started({?M, busy, 1}),
    _ = [{?M:outer(100000), 1} || _ <- lists:seq(1, 20)],
    {_, 1} = {?M:busy(5000000), 1},
    #{callers := Callers, groups := [Group], histogram := All} = stopped(M),
    [Outer] = [C || #{caller := {?MODULE, outer, 1}} = C <- Callers],
    [Own] = [C || #{caller := {?MODULE, parts_have_the_times_of_their_calls, 1}} = C <- Callers],
    ?assertMatch(#{calls := 1, p50_ns := Ns, max_ns := Ns} when Ns >= 5000000, Own),
    #{calls := 20, p50_ns := P50, max_ns := Max, histogram := Short} = Outer,
    ?assert(P50 >= 99000 andalso P50 =< Max),
    ?assertEqual(20, lists:sum([N || {_, _, N} <- Short])),
    ?assertEqual(lists:sort(All), lists:sort(maps:get(histogram, Group))).

a_heatmap_has_each_call_in_its_row(_) ->
    M = started([{?M, busy, 1}, {?M, pass, 1}], #{heatmap => true}),
    _ = [?M:busy(Ns) || Ns <- [100000, 100000, 3000000]],
    timer:sleep(1100),
    _ = ?M:busy(3000000),
    {ok, #{functions := [Interval, _]}} = flame_prof_latency:interval(M),
    ?assertNot(is_map_key(heatmap, Interval)),
    Answer = #{functions := [#{histogram := Histogram}, _]} = stopped(M),
    #{heatmap := #{interval_ms := 500, rows := Rows, columns := Columns}} = row(busy, Answer),
    ?assert(length(Columns) >= 3),
    Counts = [lists:sum(Row) || Row <- transposed(Columns)],
    [?assertEqual(Calls, lists:sum([N || {From, To, N} <- Histogram, From >= Low, To =< End]))
     || {{Low, End}, Calls} <- lists:zip(Rows, Counts)],
    ?assertEqual(4, lists:sum(Counts)),
    ?assertEqual(1, lists:sum(lists:last(Columns -- [lists:duplicate(length(Rows), 0)
        || _ <- Columns]))),
    ?assertMatch(#{heatmap := #{rows := [], columns := [[] | _]}}, row(pass, Answer)).

transposed([[] | _]) -> [];
transposed(Lists) -> [[hd(L) || L <- Lists] | transposed([tl(L) || L <- Lists])].

groups_have_the_names_of_processes(_) ->
    Self = self(),
    Named = spawn(fun() -> true = register(latency_named, self()), called(Self) end),
    Other = proc_lib:spawn(?M, called, [Self]),
    M = started({?M, pass, 1}),
    _ = [Pid ! 30 || Pid <- [Named, Other]],
    _ = [receive done -> ok end || _ <- [Named, Other]],
    #{groups := Groups} = stopped(M),
    ?assertEqual([{<<"flame_prof_latency_SUITE:called/1">>, 30}, {<<"latency_named">>, 30}],
        lists:sort([{Group, Calls} || #{group := Group, calls := Calls} <- Groups])),
    _ = [exit(Pid, kill) || Pid <- [Named, Other]].

called(Self) ->
    receive N -> _ = [?M:pass(X) || X <- lists:seq(1, N)] end,
    Self ! done,
    called(Self).

a_process_that_ended_is_told_as_such(_) ->
    M = started({?M, pass, 1}),
    in_process(fun() -> ?M:pass(1) end),
    ?assertMatch(#{groups := [#{group := <<"(ended)">>, calls := 1}]}, stopped(M)).

a_call_that_does_not_return_is_open(_) ->
    M = started({?M, wait, 0}),
    Pid = spawn(?M, wait, []),
    eventually(fun() -> {ok, #{open := Open}} = flame_prof_latency:interval(M), Open =:= 1 end),
    Pid ! go,
    eventually(fun() -> {ok, #{open := Open}} = flame_prof_latency:interval(M), Open =:= 0 end),
    ?assertMatch(#{calls := 1, open := 0}, stopped(M)).

an_open_call_of_a_killed_process_is_forgotten(_) ->
    M = started({?M, wait, 0}),
    Pids = [spawn(?M, wait, []) || _ <- lists:seq(1, 1000)],
    eventually(fun() -> {ok, #{open := Open}} = flame_prof_latency:interval(M), Open =:= 1000 end),
    _ = [exit(Pid, kill) || Pid <- Pids],
    eventually(fun() -> {ok, #{open := Open}} = flame_prof_latency:interval(M), Open =:= 0 end),
    ?assertMatch(#{calls := 0, exceptions := 0}, stopped(M)).

intervals_add_up_to_the_whole(_) ->
    M = started([{?M, pass, 1}, {?M, boom, 1}]),
    Parts = [begin
        _ = [?M:pass(X) || X <- lists:seq(1, N)],
        _ = catch ?M:boom(error),
        {ok, #{ended := running} = Interval} = flame_prof_latency:interval(M),
        #{calls := N} = row(pass, Interval),
        Interval
    end || N <- [10, 0, 300]],
    Whole = stopped(M),
    Pass = #{calls := All = 310} = row(pass, Whole),
    ?assertMatch(#{exceptions := 3, calls := 0}, row(boom, Whole)),
    [?assertEqual(maps:get(Key, Pass), lists:sum([maps:get(Key, row(pass, P)) || P <- Parts]))
     || Key <- [calls, total_ns]],
    ?assertEqual(All, lists:sum([N || P <- Parts, #{calls := N} <- maps:get(callers,
        row(pass, P))])),
    ?assertEqual(All, lists:sum([N || #{calls := N} <- maps:get(groups, Pass)])).

every_arity_and_every_function_of_a_module_can_be_measured(_) ->
    Any = started({?M, many, '_'}),
    _ = {?M:many(), ?M:many(1)},
    ?assertMatch(#{functions := [#{function := {?M, many, 0}, calls := 1},
        #{function := {?M, many, 1}, calls := 1}]}, stopped(Any)),
    All = started({base64, '_', '_'}),
    _ = base64:encode(<<"latency">>),
    #{functions := Rows} = stopped(All),
    ?assertMatch([#{calls := 1}], [R || #{function := {base64, encode, 1}} = R <- Rows]).

what_cannot_be_measured_is_refused(_) ->
    Why = fun(Functions, Options) ->
        {error, Reason} = flame_prof_latency:start(Functions, Options),
        unicode:characters_to_binary(flame_prof:format_error(Reason))
    end,
    [?assertMatch({_, {_, _}}, {Text, binary:match(Why(Functions, Options), Text)})
     || {Functions, Options, Text} <- [
        {{?M, no_such_function, 3}, #{}, <<"no_such_function/3: there is no such function">>},
        {{no_such_module, '_', '_'}, #{}, <<"no_such_module:_">>},
        {{lists, '_', '_'}, #{}, <<"at most 64">>},
        {{'_', '_', '_'}, #{}, <<"{Module, Function">>},
        {[], #{}, <<"{Module, Function">>},
        {{?M, pass, 1}, #{seconds => 0}, <<"seconds">>},
        {{?M, pass, 1}, #{max_cpu_percent => 0}, <<"0.01 to 100">>},
        {{?M, pass, 1}, #{max_events_per_second => 0}, <<"max_events_per_second">>},
        {{?M, pass, 1}, #{no_such_option => 1}, <<"no_such_option">>}]],
    ?assertNot(is_traced({?M, pass, 1})).

too_many_calls_are_sampled_and_then_end_it(_) ->
    M = started({?M, pass, 1}, #{max_events_per_second => 1000}),
    _ = [?M:pass(X) || X <- lists:seq(1, 200000)],
    #{calls := Calls, sampled_of := Of, lost := Lost} = Answer = stopped(M),
    ?assert(Of > 1),
    #{calls_left_out_by_sampling := LeftOut} = Lost,
    ?assert(LeftOut > 0),
    ?assertNot(is_map_key(own_ns, Answer)),
    ?assert(Calls + LeftOut =< 200000),
    %% One of 4,096, the least, is more than so few.
    Few = started({?M, pass, 1}, #{max_events_per_second => 10}),
    eventually(fun() ->
        _ = [?M:pass(X) || X <- lists:seq(1, 10000)],
        not is_traced({?M, pass, 1})
    end),
    Ended = stopped(Few),
    ?assertMatch(#{ended := {limit, max_events_per_second}, off_after_ms := _}, Ended),
    ?assertMatch({match, _}, re:run(flame_prof_latency:format(Ended),
        "too many calls in a second [^;]*; [0-9.]+ ms later nothing was traced")).

its_seconds_end_it(_) ->
    M = started({?M, pass, 1}, #{seconds => 1}),
    _ = ?M:pass(1),
    eventually(fun() ->
        {ok, #{ended := Ended}} = flame_prof_latency:interval(M),
        Ended =:= {limit, max_seconds}
    end),
    ?assertNot(is_traced({?M, pass, 1})),
    ?assertMatch(#{calls := 1, ended := {limit, max_seconds}}, stopped(M)),
    {ok, Measured} = flame_prof_latency:measure({?M, pass, 1}, #{seconds => 1}),
    ?assertMatch(#{calls := 0, ended := seconds}, Measured),
    ?assertNot(is_map_key(p50_ns, Measured) orelse is_map_key(max_ns, Measured)).

a_measurement_that_is_killed_is_an_error(_) ->
    Self = self(),
    Pid = spawn(fun() ->
        Self ! {self(), flame_prof_latency:measure({?M, pass, 1}, #{seconds => 100})}
    end),
    eventually(fun() -> is_pid(whereis(flame_prof_latency)) end),
    exit(whereis(flame_prof_latency), kill),
    ?assertMatch({error, {tracing, _}}, receive {Pid, Answer} -> Answer after 20000 -> nothing end).

what_runs_is_told(_) ->
    ?assertEqual(none, flame_prof_latency:running()),
    M = started({?M, pass, 1}),
    _ = ?M:pass(1),
    ?assertMatch({ok, #{calls := 1, ended := running}}, flame_prof_latency:running()),
    {ok, #{calls := 1}} = flame_prof_latency:interval(M),
    ?assertMatch({ok, #{calls := 1}}, flame_prof_latency:running()),
    _ = stopped(M),
    ?assertEqual(none, flame_prof_latency:running()).

metrics_have_what_is_measured(_) ->
    Name = <<"flame_prof_call_duration_seconds_count{function="
        "\"flame_prof_latency_SUITE:pass/1\"} ">>,
    ?assertEqual(nomatch, binary:match(flame_prof:metrics(), Name)),
    M = started({?M, pass, 1}),
    _ = [?M:pass(X) || X <- [1, 2, 3]],
    Metrics = flame_prof:metrics(),
    ?assertMatch({_, _}, binary:match(Metrics, <<Name/binary, "3\n">>)),
    ?assertMatch({_, _}, binary:match(Metrics, <<"\nflame_prof_up ">>)),
    _ = stopped(M),
    ?assertEqual(nomatch, binary:match(flame_prof:metrics(), Name)).

a_page_reads_a_line_for_each_interval(_) ->
    viewing(#{}, fun(Url) ->
        Socket = asked(Url, "GET", "functions=flame_prof_latency_SUITE:pass/1&seconds=60"),
        eventually(fun() -> is_traced({?M, pass, 1}) end),
        _ = [?M:pass(X) || X <- lists:seq(1, 7)],
        {Head, Lines} = head(read_until(Socket, <<"\"calls\":7">>, <<>>)),
        ?assertMatch({match, _}, re:run(Head, "^HTTP/1.1 200 OK\r\n")),
        ?assertMatch({match, _}, re:run(Head, "Content-Security-Policy: ")),
        ?assertMatch(#{<<"ended">> := <<"running">>,
            <<"functions">> := [#{<<"function">> := <<"flame_prof_latency_SUITE:pass/1">>}]},
            foreign_formats:json(lists:last(Lines))),
        ok = gen_tcp:close(Socket)
    end).

a_line_of_few_functions_has_the_durations_of_their_callers(_) ->
    Caller = spawn_link(fun call_lists/0),
    viewing(#{}, fun(Url) ->
        [?assertEqual({Count, Has}, {Count, lists:usort(details(Url, Count))})
            || {Count, Has} <- [{8, [true]}, {9, [false]}]]
    end),
    unlink(Caller),
    exit(Caller, kill).

%% Of all parts in the first line in which so many functions were called.
details(Url, Count) ->
    All = ["nth/2", "last/1", "sum/1", "max/1", "min/1", "droplast/1", "seq/2", "sublist/2",
        "split/2"],
    Names = ["lists:" ++ Name || Name <- lists:sublist(All, Count)],
    Socket = asked(Url, "GET", ["functions=", lists:join("%0A", Names)]),
    Functions = line_of(Socket, Count, <<>>),
    ok = gen_tcp:close(Socket),
    eventually(fun() -> whereis(flame_prof_tracing) =:= undefined end),
    [is_map_key(<<"histogram">>, Part) || #{<<"groups">> := Groups, <<"callers">> := Callers}
        <- Functions, Part <- Groups ++ Callers].

line_of(Socket, Count, Read) ->
    More = read_until(Socket, <<"\"functions\":">>, Read),
    {_, Lines} = head(More),
    case foreign_formats:json(lists:last(Lines)) of
        #{<<"functions">> := Functions} when length(Functions) =:= Count -> Functions;
        _ ->
            {ok, Bytes} = gen_tcp:recv(Socket, 0),
            line_of(Socket, Count, <<More/binary, Bytes/binary>>)
    end.

call_lists() ->
    Numbers = lists:seq(1, 9),
    _ = [lists:F(Numbers) || F <- [last, sum, max, min, droplast]],
    _ = [lists:F(3, Numbers) || F <- [nth, split]],
    _ = lists:sublist(Numbers, 3),
    timer:sleep(1),
    call_lists().

%% By its end, and by that of its sending side only.
a_page_that_goes_ends_what_it_measures(_) ->
    viewing(#{}, fun(Url) ->
        [left(Url, Leave)
            || Leave <- [fun gen_tcp:close/1, fun(S) -> gen_tcp:shutdown(S, write) end]]
    end).

left(Url, Leave) ->
    Socket = asked(Url, "GET", "functions=flame_prof_latency_SUITE:pass/1"),
    eventually(fun() -> is_traced({?M, pass, 1}) end),
    ok = Leave(Socket),
    eventually(fun() -> not is_traced({?M, pass, 1}) end),
    %% Until then the next page is refused.
    eventually(fun() -> whereis(flame_prof_tracing) =:= undefined end),
    gen_tcp:close(Socket).

a_page_that_asks_for_what_is_not_there_measures_nothing(_) ->
    viewing(#{}, fun(Url) ->
        Get = fun(Query) -> answered(asked(Url, "GET", Query)) end,
        ?assertMatch({match, _}, re:run(Get("functions=no_module_of_this_name:f/1"),
            "the node has no module no_module_of_this_name")),
        %% Tried once: it does not pass.
        Start = {flame_prof_latency, start, 2},
        1 = erlang:trace_pattern(Start, true, [call_count]),
        ?assertMatch({match, _}, re:run(Get("functions=flame_prof_latency_SUITE:pass/9"),
            "there is no such function")),
        ?assertEqual({call_count, 1}, erlang:trace_info(Start, call_count)),
        1 = erlang:trace_pattern(Start, false, [call_count]),
        ?assertMatch({match, _}, re:run(Get("functions=flame_prof_latency_SUITE:pass/1&seconds=0"),
            "seconds: a whole number")),
        ?assertMatch({match, _}, re:run(Get("functions="), "it takes module:function/arity")),
        ?assertMatch({match, _}, re:run(Get("seconds=5"), "^HTTP/1.1 404 ")),
        Head = answered(asked(Url, "HEAD", "functions=flame_prof_latency_SUITE:pass/1")),
        ?assertMatch({match, _}, re:run(Head, "^HTTP/1.1 404 ")),
        ?assertNot(is_traced({?M, pass, 1}))
    end),
    %% A page of no node.
    viewing(#{measured => none}, fun(Url) ->
        Answer = answered(asked(Url, "GET", "functions=flame_prof_latency_SUITE:pass/1")),
        ?assertMatch({match, _}, re:run(Answer, "^HTTP/1.1 404 "))
    end),
    ?assertNot(is_traced({?M, pass, 1})).

a_page_measures_when_its_node_has_got_a_name(_) ->
    case peer_vm:value(?MODULE, named_later, []) of
        {skip, Why} -> {skip, Why};
        Answer -> ?assertEqual(measured, Answer)
    end.

named_later() ->
    viewing(#{}, fun(Url) ->
        _ = os:cmd("epmd -daemon"),
        case net_kernel:start([latency_suite, shortnames]) of
            {ok, _} ->
                Socket = asked(Url, "GET", "functions=flame_prof_latency_SUITE:pass/1"),
                _ = read_until(Socket, <<"\"ended\":\"running\"">>, <<>>),
                measured;
            {error, _} -> {skip, "no epmd"}
        end
    end).

viewing(Options, Run) ->
    {ok, #{url := Url, pid := Pid}} = flame_prof_view:start(checkout:path("test/corpus"), Options),
    try Run(uri_string:parse(Url))
    after flame_prof_view:stop(Pid)
    end.

asked(#{port := Port, path := Path}, Method, Query) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, [Method, " ", Path, "api/latency?", Query, " HTTP/1.1\r\n",
        "Host: 127.0.0.1\r\nConnection: close\r\n\r\n"]),
    Socket.

answered(Socket) -> answered(Socket, <<>>).

answered(Socket, Read) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> answered(Socket, <<Read/binary, Bytes/binary>>);
        {error, closed} -> Read
    end.

read_until(Socket, Wanted, Read) ->
    case binary:match(Read, Wanted) =/= nomatch andalso binary:last(Read) =:= $\n of
        true -> Read;
        false ->
            {ok, Bytes} = gen_tcp:recv(Socket, 0),
            read_until(Socket, Wanted, <<Read/binary, Bytes/binary>>)
    end.

head(Read) ->
    [Head, Body] = binary:split(Read, <<"\r\n\r\n">>),
    {Head, binary:split(Body, <<"\n">>, [global, trim])}.

parts_are_left_out_on_request(_) ->
    M = started({?M, pass, 1}, #{groups => false, callers => false}),
    _ = [?M:pass(X) || X <- lists:seq(1, 10)],
    #{calls := 10} = Answer = stopped(M),
    ?assertNot(is_map_key(groups, Answer)),
    ?assertNot(is_map_key(callers, Answer)).
