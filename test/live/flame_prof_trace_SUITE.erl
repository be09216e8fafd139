%% Readable traces: what each kind of event is shown as, that each limit is reached on purpose, what
%% ends a trace, and that nothing is on afterwards. What is to be seen is counted by the processes
%% that do it.
-module(flame_prof_trace_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, end_per_testcase/2, a_call_has_its_arguments_and_its_caller/1,
    a_return_has_its_value/1, an_exception_has_class_and_reason/1, guards_choose/1,
    messages_have_both_ends/1, messages_are_chosen_by_a_pattern/1,
    a_message_to_no_process_is_told/1, lives_of_processes_are_shown/1,
    events_of_a_process_are_in_their_order/1, a_stack_is_shown/1,
    a_match_specification_of_ones_own/1, only_the_processes_given_are_traced/1,
    new_processes_are_traced/1, children_are_followed/1, receivers_are_followed/1,
    from_the_first_call_on/1, from_the_first_send_on_with_children/1,
    from_the_first_receive_on/1, receivers_that_are_not_followed_are_counted/1,
    messages_beyond_those_that_are_followed_are_counted/1, terms_are_cut/1,
    a_return_is_shown_with_its_call/1,
    a_loop_that_is_traced_with_returns_does_not_fill_the_memory/1,
    a_flood_is_survived_and_counted/1, what_floods_the_rings_is_lost_and_counted/1,
    text_goes_to_the_shell/1, a_file_is_the_owners_alone/1, a_format_of_ones_own/1,
    a_fun_that_fails_ends_it/1, what_is_not_there_is_refused/1, what_is_no_option_is_refused/1,
    nothing_of_its_own_is_traced/1, what_the_vm_puts_around_terms_is_not_cut/1,
    a_process_that_is_not_there_is_told/1, a_refused_trace_leaves_no_file/1]).
%% Traced.
-export([f/1, g/2, boom/1, outer/1, spin/1, child/2]).
%% In a VM of its own.
-export([on_an_idle_node/0]).
%% As a format.
-export([format/1]).

-import(waiting, [eventually/1]).

-define(WIDE, #{rate => 10000, burst => 10000, max_events => 1000000, max_cpu_percent => infinity,
    heartbeat_ms => 60000}).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [f, boom, outer, spin, format]).

end_per_testcase(_, _) ->
    ok = flame_prof_tracing:stop_all(),
    eventually(fun() -> whereis(flame_prof_tracing) =:= undefined end).

f(X) -> X.
g(X, Y) -> {X, Y}.
boom(X) -> error({boom, X}).

%% No tail call.
outer(X) ->
    Y = ?MODULE:f(X),
    {outer, Y}.

spin(0) -> done;
spin(N) -> ?MODULE:spin(N - 1).

child(Parent, N) ->
    Y = ?MODULE:f({child, N}),
    Parent ! {self(), Y}.

has_sessions() -> code:ensure_loaded(trace) =:= {module, trace}.

%% A trace whose events come to this process.
start(Spec, Options) ->
    Self = self(),
    To = fun(Event) -> Self ! {traced, Event} end,
    {ok, Trace} = flame_prof_trace:start(Spec, maps:merge(?WIDE#{to => To}, Options)),
    Trace.

%% Its end, and what it has shown.
stop(Trace) ->
    {ok, Summary} = flame_prof_trace:stop(Trace),
    balanced(Summary),
    {events(), Summary}.

balanced(#{seen := Seen, written := Written, dropped := Dropped, lost := Lost}) ->
    ?assertEqual(Seen, Written + Dropped + Lost).

events() ->
    receive
        {traced, Event} -> [Event | events()]
    after 0 -> []
    end.

%% In another process, to the end.
elsewhere(Fun) ->
    Self = self(),
    Pid = spawn(fun() -> Self ! {self(), Fun()} end),
    receive {Pid, Answer} -> {Pid, Answer} end.

%% Another one, that does what it is told.
worker() ->
    spawn_link(fun Loop() ->
        receive
            {From, Fun} when is_function(Fun) -> From ! {self(), Fun()}, Loop();
            stop -> ok;
            _ -> Loop()
        end
    end).

do(Worker, Fun) ->
    Worker ! {self(), Fun},
    receive {Worker, Answer} -> Answer end.

is_traced(MFA) ->
    Trace = trace,
    case has_sessions() of
        true -> Trace:session_info(MFA) =/= [];
        false ->
            {traced, Traced} = erlang:trace_info(MFA, traced),
            Traced =/= false
    end.

is_off() -> not is_traced({?MODULE, f, 1}) andalso whereis(flame_prof_tracing) =:= undefined.
of_kind(Kind, Events) -> [E || #{event := K} = E <- Events, K =:= Kind].

a_call_has_its_arguments_and_its_caller(_) ->
    Trace = start("flame_prof_trace_SUITE:f/1", #{}),
    Before = erlang:system_time(nanosecond),
    {Pid, _} = elsewhere(fun() -> outer([1, #{a => "b"}]) end),
    {[Event], #{written := 1, dropped := 0, lost := 0, functions := 1}} = stop(Trace),
    Read = erlang:system_time(nanosecond),
    #{event := call, mfa := {?MODULE, f, 1}, args := [[1, #{a := "b"}]], process := Pid,
        caller := {?MODULE, outer, 1}, time := Time} = Event,
    ?assert(Time >= Before andalso Time =< Read),
    ?assert(is_off()).

a_return_has_its_value(_) ->
    Trace = start("flame_prof_trace_SUITE:g/2 -> return", #{}),
    {Pid, _} = elsewhere(fun() -> ?MODULE:g(a, <<"b">>) end),
    {[Call, Return], _} = stop(Trace),
    #{event := call, args := [a, <<"b">>], process := Pid} = Call,
    #{event := return, mfa := {?MODULE, g, 2}, value := {a, <<"b">>}, process := Pid} = Return.

an_exception_has_class_and_reason(_) ->
    Trace = start("flame_prof_trace_SUITE:boom/1 -> return", #{}),
    _ = elsewhere(fun() -> catch ?MODULE:boom(x) end),
    {[_, #{event := exception, class := error, reason := {boom, x}} = Exception], _} = stop(Trace),
    #{mfa := {?MODULE, boom, 1}} = Exception.

guards_choose(_) ->
    Trace = start("flame_prof_trace_SUITE:g(A, B) when A < B; B =:= b", #{}),
    _ = elsewhere(fun() -> [?MODULE:g(A, B) || {A, B} <- [{1, 2}, {2, 1}, {x, b}, {3, 4}]] end),
    {Events, _} = stop(Trace),
    ?assertEqual([[1, 2], [x, b], [3, 4]], [Args || #{args := Args} <- Events]).

messages_have_both_ends(_) ->
    Worker = worker(),
    Self = self(),
    Trace = start([send, 'receive'], #{processes => Worker}),
    ok = do(Worker, fun() -> ok end),
    {Events, _} = stop(Trace),
    [#{from := Self, message := {Self, {'...', text, <<"#Fun", _/binary>>}}}] =
        of_kind('receive', Events),
    [#{to := Self, message := {Worker, ok}, process := Worker}] = of_kind(send, Events).

messages_are_chosen_by_a_pattern(_) ->
    Worker = worker(),
    Self = self(),
    Trace = start(["send({ping, N}) when N > 1", "receive({_, twice})"], #{processes => Worker}),
    Sink = spawn_link(fun() -> receive stop -> ok end end),
    ok = do(Worker, fun() -> [Sink ! {ping, N} || N <- [1, 2, 3]], Sink ! other, ok end),
    Worker ! {Self, twice},
    ok = do(Worker, fun() -> ok end),
    {Events, _} = stop(Trace),
    ?assertEqual([{ping, 2}, {ping, 3}], [M || #{message := M} <- of_kind(send, Events)]),
    ?assertEqual([{Self, twice}], [M || #{message := M} <- of_kind('receive', Events)]).

a_message_to_no_process_is_told(_) ->
    Worker = worker(),
    {Gone, _} = elsewhere(fun() -> ok end),
    eventually(fun() -> not is_process_alive(Gone) end),
    Trace = start("send(To, hello)", #{processes => Worker}),
    _ = do(Worker, fun() -> Gone ! hello end),
    {[#{event := send, to := Gone, exists := false, message := hello}], _} = stop(Trace).

lives_of_processes_are_shown(_) ->
    Worker = worker(),
    Trace = start(procs, #{processes => Worker}),
    Child = do(Worker, fun() ->
        Pid = spawn_link(?MODULE, f, [[1]]),
        register(trace_suite_name, self()),
        unregister(trace_suite_name),
        Pid
    end),
    unlink(Worker),
    Worker ! stop,
    eventually(fun() -> not is_process_alive(Worker) end),
    {Events, _} = stop(Trace),
    [#{other := Child, mfa := {?MODULE, f, 1}, args := [[1]]}] = of_kind(spawn, Events),
    [#{registered_name := trace_suite_name}] = of_kind(register, Events),
    [#{registered_name := trace_suite_name}] = of_kind(unregister, Events),
    [#{other := Child}] = of_kind(link, Events),
    [#{reason := normal, process := Worker}] = of_kind(exit, Events).

events_of_a_process_are_in_their_order(_) ->
    Trace = start("flame_prof_trace_SUITE:f/1", #{}),
    Self = self(),
    Pids = [spawn(fun() -> [?MODULE:f(N) || N <- lists:seq(1, 300)], Self ! {done, self()} end)
        || _ <- lists:seq(1, 8)],
    [receive {done, Pid} -> ok end || Pid <- Pids],
    {Events, #{written := 2400}} = stop(Trace),
    [?assertEqual(lists:seq(1, 300), [N || #{process := P, args := [N]} <- Events, P =:= Pid])
        || Pid <- Pids],
    Times = [T || #{time := T} <- Events],
    ?assertEqual(lists:sort(Times), Times).

a_stack_is_shown(_) ->
    case has_sessions() of
        true ->
            Trace = start("flame_prof_trace_SUITE:f/1 -> stack", #{}),
            _ = elsewhere(fun() -> outer(1) end),
            {[#{stack := [{?MODULE, outer, 1, Place} | _]} = Event], _} = stop(Trace),
            {line, Line} = lists:keyfind(line, 1, Place),
            ?assert(Line > 1),
            Text = unicode:characters_to_list(flame_prof_trace_format:format(Event)),
            ?assertMatch({match, _}, re:run(Text, "outer/1 flame_prof_trace_SUITE.erl:[0-9]+"));
        false ->
            {error, {trace_pattern, #{column := 31}}} =
                flame_prof_trace:start("flame_prof_trace_SUITE:f/1 -> stack", #{})
    end.

a_match_specification_of_ones_own(_) ->
    Spec = [{['$1', '$2'], [{'>', '$1', 1}], [{message, {{twice, '$1'}}}]}],
    Trace = start(#{call => {?MODULE, g, 2}, match_spec => Spec, return => true}, #{}),
    _ = elsewhere(fun() -> ?MODULE:g(1, 1), ?MODULE:g(2, 2) end),
    {[#{event := call, args := [2, 2], result := {twice, 2}}, #{event := return}], _} = stop(Trace).

only_the_processes_given_are_traced(_) ->
    Worker = worker(),
    true = register(trace_suite_worker, worker()),
    Trace = start("flame_prof_trace_SUITE:f/1", #{processes => [Worker, trace_suite_worker]}),
    _ = elsewhere(fun() -> ?MODULE:f(elsewhere) end),
    _ = do(Worker, fun() -> ?MODULE:f(there) end),
    _ = do(whereis(trace_suite_worker), fun() -> ?MODULE:f(named) end),
    {Events, #{processes := 2}} = stop(Trace),
    ?assertEqual([[named], [there]], lists:sort([Args || #{args := Args} <- Events])),
    [trace_suite_worker] = [Name || #{name := Name, args := [named]} <- Events],
    whereis(trace_suite_worker) ! stop.

new_processes_are_traced(_) ->
    Worker = worker(),
    Trace = start("flame_prof_trace_SUITE:f/1", #{}),
    _ = do(Worker, fun() -> ?MODULE:f(old) end),
    _ = elsewhere(fun() -> ?MODULE:f(new) end),
    {Events, _} = stop(Trace),
    ?assertEqual([[old], [new]], [Args || #{args := Args} <- Events]).

children_are_followed(_) ->
    Worker = worker(),
    Trace = start("flame_prof_trace_SUITE:f/1", #{processes => Worker, follow => spawn}),
    Self = self(),
    _ = elsewhere(fun() -> ?MODULE:f(elsewhere) end),
    Child = do(Worker, fun() -> spawn(?MODULE, child, [Self, 1]) end),
    receive {Child, _} -> ok end,
    {[#{args := [{child, 1}], process := Child}], _} = stop(Trace).

receivers_are_followed(_) ->
    Worker = worker(),
    Other = worker(),
    Self = self(),
    Trace = start("flame_prof_trace_SUITE:f/1", #{processes => Worker, follow => send}),
    %% Until it is known that there was a send.
    Seen = fun() ->
        _ = do(Worker, fun() -> Other ! {Self, fun() -> ?MODULE:f(other) end} end),
        receive {Other, other} -> ok end,
        receive {traced, #{event := call, process := Other}} -> true after 20 -> false end
    end,
    eventually(Seen),
    _ = stop(Trace),
    ok.

from_the_first_call_on(_) ->
    [A, B] = [worker(), worker()],
    Trace = start(["flame_prof_trace_SUITE:f/1", send],
        #{first => "flame_prof_trace_SUITE:g(user, _)", processes => [A, B]}),
    Self = self(),
    [_ = do(W, fun() -> ?MODULE:f(before), ?MODULE:g(other, 1) end) || W <- [A, B]],
    _ = do(B, fun() -> ?MODULE:g(user, 1), ?MODULE:f(afterwards), ok end),
    _ = do(A, fun() -> ?MODULE:f(never), ok end),
    {Events, _} = stop(Trace),
    [#{process := B, args := [user, 1]}, #{process := B, args := [afterwards]},
        #{event := send, to := Self}] = Events.

from_the_first_send_on_with_children(_) ->
    [A, B] = [worker(), worker()],
    Self = self(),
    Trace = start("flame_prof_trace_SUITE:f/1",
        #{first => "send({login, anna})", processes => [A, B], follow => spawn}),
    Start = fun(Who) ->
        fun() ->
            Self ! {login, Who},
            spawn(?MODULE, child, [Self, Who])
        end
    end,
    [receive {Child, _} -> ok end
        || {W, Who} <- [{A, bob}, {B, anna}], Child <- [do(W, Start(Who))]],
    {Events, _} = stop(Trace),
    ?assertEqual([[{child, anna}]], [Args || #{args := Args} <- of_kind(call, Events)]),
    [#{message := {login, anna}} | _] = of_kind(send, Events).

%% The process is followed when the trace has read the event.
from_the_first_receive_on(_) ->
    [A, B] = [worker(), worker()],
    Trace = start("flame_prof_trace_SUITE:f/1",
        #{first => "receive({_, {login, _}})", processes => [A, B]}),
    _ = [do(W, fun() -> ?MODULE:f(before) end) || W <- [A, B]],
    _ = B ! {self(), {login, anna}},
    receive {traced, #{event := 'receive', process := B, message := {_, {login, anna}}}} -> ok end,
    Seen = fun() ->
        _ = do(B, fun() -> ?MODULE:f(afterwards) end),
        receive {traced, #{event := call, process := B}} -> true after 20 -> false end
    end,
    ok = eventually(Seen),
    _ = do(A, fun() -> ?MODULE:f(never) end),
    {Events, #{not_followed := 0}} = stop(Trace),
    ?assertEqual([], [Args || #{args := Args} <- of_kind(call, Events), Args =/= [afterwards]]),
    {error, Both} = flame_prof_trace:start(['receive'], #{first => "receive(_, {login, _})"}),
    ?assertMatch({match, _}, re:run(flame_prof:format_error(Both), "calls or of sends where")).

%% Beyond the rate nothing is known of a message: it is counted, and told.
receivers_that_are_not_followed_are_counted(_) ->
    [Worker, Other] = [worker(), worker()],
    Trace = start("flame_prof_trace_SUITE:f/1",
        #{processes => Worker, follow => send, rate => 1, burst => 1}),
    _ = do(Worker, fun() -> [Other ! ignored || _ <- lists:seq(1, 50)], ok end),
    {_, #{not_followed := Missed, dropped := Dropped} = Summary} = stop(Trace),
    ?assert(Missed > 0 andalso Missed =< Dropped),
    ?assertMatch({match, _}, re:run(flame_prof_trace_format:summary(Summary, 1),
        integer_to_list(Missed) ++ " messages not followed")).

%% Each of them, also where two to the same process are read at once.
messages_beyond_those_that_are_followed_are_counted(_) ->
    Worker = worker(),
    Others = [spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, 1000 + 10)],
    Trace = start("flame_prof_trace_SUITE:f/1", #{processes => Worker, follow => send}),
    _ = do(Worker, fun() -> [Other ! {N, Other} || Other <- Others, N <- [1, 2]], ok end),
    {_, #{not_followed := Missed, dropped := 0, lost := Lost}} = stop(Trace),
    _ = [exit(Other, kill) || Other <- Others],
    %% With the worker's answer. Those that were let go may have been any of them.
    ?assert(Missed >= 21 andalso Missed =< 21 + Lost, {Missed, Lost}).

terms_are_cut(_) ->
    Trace = start("flame_prof_trace_SUITE:f/1 -> return", #{depth => 2, bytes => 200, items => 3}),
    Terms = [{{{deep}}}, lists:seq(1, 1000000), binary:copy(<<"x">>, 10000000),
        maps:from_list([{N, N} || N <- lists:seq(1, 1000)]), 1 bsl 1000000],
    _ = elsewhere(fun() -> [?MODULE:f(T) || T <- Terms], ok end),
    {Events, _} = stop(Trace),
    [{{'...'}}, [1, 2, 3 | '...'], {'...', binary, 10000000, Begin}, {'...', map, 1000, [_, _, _]},
        '...'] = [V || #{event := return, value := V} <- Events],
    ?assert(byte_size(Begin) =< 200),
    %% The same of the arguments, but that these share the bytes with what is around them.
    [{{'...'}}, [1, 2, 3 | '...'], {'...', binary, 10000000, _}, {'...', map, 1000, _}, '...'] =
        [A || #{event := call, args := [A]} <- Events].

a_return_is_shown_with_its_call(_) ->
    Trace = start("flame_prof_trace_SUITE:f/1 -> return", #{rate => 1, burst => 20}),
    _ = elsewhere(fun() -> [?MODULE:f(N) || N <- lists:seq(1, 1000)], ok end),
    {Events, _} = stop(Trace),
    Calls = [N || #{event := call, args := [N]} <- Events],
    ?assertEqual(Calls, [N || #{event := return, value := N} <- Events]),
    ?assertEqual(lists:seq(1, 10), lists:sublist(Calls, 10)).

a_loop_that_is_traced_with_returns_does_not_fill_the_memory(_) ->
    Trace = start("flame_prof_trace_SUITE:spin/1 -> return", #{rate => 1, burst => 100}),
    Self = self(),
    Pid = spawn(fun() ->
        done = ?MODULE:spin(1000000),
        Self ! {self(), process_info(self(), [total_heap_size])}
    end),
    Size = fun Size(Most) ->
        receive {Pid, _} -> Most
        after 1 ->
            case process_info(Pid, stack_size) of
                {stack_size, Words} -> Size(max(Words, Most));
                undefined -> Size(Most)
            end
        end
    end,
    ?assert(Size(0) < 10000),
    _ = stop(Trace),
    ok.

a_flood_is_survived_and_counted(_) ->
    Trace = start("flame_prof_trace_SUITE:spin/1", #{rate => 100, burst => 100}),
    Self = self(),
    Each = 1000000,
    Pids = [spawn(fun() -> done = ?MODULE:spin(Each - 1), Self ! {self(), done} end)
        || _ <- [1, 2, 3]],
    [receive {Pid, done} -> ok end || Pid <- Pids],
    {Events, #{seen := Seen, written := Written, seconds := Seconds}} = stop(Trace),
    ?assertEqual(3 * Each, Seen),
    ?assertEqual(Written, length(Events)),
    ?assert(Written =< 100 + 100 * Seconds + 1),
    ?assert(is_off()).

%% More than the rings take while the reader is held up.
what_floods_the_rings_is_lost_and_counted(_) ->
    Self = self(),
    To = fun(Event) -> Self ! {traced, Event}, receive {Self, go_on} -> ok after 300 -> ok end end,
    Trace = start("flame_prof_trace_SUITE:f/1", #{to => To, bytes => 8192, items => 1000}),
    Long = lists:seq(1000000, 1001000),
    _ = elsewhere(fun() -> [?MODULE:f(Long) || _ <- lists:seq(1, 3000)], ok end),
    ok = gen_server:cast(Trace, nothing),
    [Trace ! {Self, go_on} || _ <- lists:seq(1, 3000)],
    {Events, #{seen := 3000, lost := Lost, written := Written}} = stop(Trace),
    ?assert(Lost > 0),
    ?assertEqual(Written, length(Events)).

text_goes_to_the_shell(_) ->
    {Leader, Read} = group_leader_of_text(),
    Self = self(),
    Pid = spawn(fun() ->
        true = group_leader(Leader, self()),
        Self ! {self(), flame_prof:trace("flame_prof_trace_SUITE:f/1 -> return",
            #{max_events => 2, rate => 1})}
    end),
    eventually(fun() -> is_traced({?MODULE, f, 1}) end),
    %% The flags of processes come after the breakpoint.
    eventually(fun() ->
        _ = elsewhere(fun() -> ?MODULE:f(seen) end),
        receive {Pid, {ok, #{ended := {limit, max_events}}}} -> true after 10 -> false end
    end),
    Text = Read(),
    [?assertMatch({match, _}, re:run(Text, Pattern)) || Pattern <- [
        "flame_prof_trace_SUITE:f\\(seen\\)\n", "flame_prof_trace_SUITE:f/1 -> seen\n",
        "% 2 events in .* dropped \\(rate 1 a second\\), 0 lost[^;]*; ended: max_events\n"]].

group_leader_of_text() ->
    Pid = spawn_link(fun() -> texts([]) end),
    {Pid, fun() -> Pid ! {self(), text}, receive {Pid, Text} -> Text end end}.

texts(Texts) ->
    receive
        {io_request, From, As, {put_chars, unicode, Text}} ->
            From ! {io_reply, As, ok},
            texts([Texts, unicode:characters_to_binary(Text)]);
        {io_request, From, As, _} ->
            From ! {io_reply, As, {error, request}},
            texts(Texts);
        {From, text} ->
            From ! {self(), iolist_to_binary(Texts)},
            texts(Texts)
    end.

a_file_is_the_owners_alone(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "trace.txt"),
    Trace = start("flame_prof_trace_SUITE:f/1", #{to => {file, File}}),
    _ = elsewhere(fun() -> ?MODULE:f(into_a_file) end),
    {[], _} = stop(Trace),
    {ok, Text} = file:read_file(File),
    ?assertMatch({match, _}, re:run(Text, "f\\(into_a_file\\)")),
    ?assertMatch({match, _}, re:run(Text, "% 1 event in ")),
    {ok, Info} = file:read_file_info(File),
    ?assertEqual(8#600, element(8, Info) band 8#777),
    {error, {file, #{file := File, reason := eexist}}} =
        flame_prof_trace:start("flame_prof_trace_SUITE:f/1", #{to => {file, File}}),
    ?assert(is_off()).

format(#{event := call, args := Args}) -> io_lib:format("CALL ~tp~n", [Args]).

a_format_of_ones_own(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "own.txt"),
    Trace = start("flame_prof_trace_SUITE:f/1", #{to => {file, File}, format => ?MODULE}),
    _ = elsewhere(fun() -> ?MODULE:f({'æ', 1}) end),
    _ = stop(Trace),
    {ok, Text} = file:read_file(File),
    ?assertMatch({match, _}, re:run(Text, <<"^CALL \\[{æ,1}\\]\n"/utf8>>, [unicode])).

a_fun_that_fails_ends_it(_) ->
    Trace = start("flame_prof_trace_SUITE:f/1", #{to => fun(_) -> throw(enough) end}),
    _ = elsewhere(fun() -> ?MODULE:f(1) end),
    {ok, #{ended := {output, {throw, enough}}}} = flame_prof_trace:await(Trace),
    ?assert(is_off()).

what_is_not_there_is_refused(_) ->
    [?assertMatch({Spec, {error, {trace_pattern, _}}}, {Spec, flame_prof_trace:start(Spec, #{})})
        || Spec <- ["no_such_module_:f/1", "lists:no_such_function", "lists:seq/9", "lists:seq(",
            [], 17, #{call => {lists, seq, 2}, match_spec => [{head, [], []}]},
            #{call => {lists, seq, 2}, match_spec => [{'_', [], [{no_such, 1}]}]},
            #{call => {lists, seq, 2}, match_spec => [{'_', guards, []}]}]],
    ?assert(is_off()).

what_is_no_option_is_refused(_) ->
    [?assertMatch({Options, {error, {bad_option, _}}},
        {Options, flame_prof_trace:start(send, Options)}) || Options <- [
            #{rate => 0}, #{burst => x}, #{max_events => 0}, #{depth => 31}, #{bytes => 1},
            #{processes => []}, #{processes => 17}, #{to => x}, #{format => lists},
            #{max_cpu_percent => 0}, #{max_seconds => 0},
            #{first => "lists:seq/2 -> return"}, #{first => "exit"}, #{follow => x}, #{x => 1}, x]],
    {error, {trace_pattern, _}} = flame_prof_trace:start(send, #{first => "lists:"}).

%% What is traced wakes up and spawns: without that no name is asked for.
nothing_of_its_own_is_traced(_) ->
    {Summary, Events} = peer_vm:value(?MODULE, on_an_idle_node, []),
    N = length(Events),
    ?assertMatch(#{seen := N, written := N, dropped := 0, lost := 0}, Summary),
    %% In OTP 29 supervisors hibernate when they have been idle for a second.
    Supervisors = [kernel_sup, kernel_safe_sup, logger_sup],
    Kinds = [Kind || #{event := Kind, name := Name} <- Events, not lists:member(Name, Supervisors)],
    %% It receives the time-out, and answers to its own questions.
    ?assertMatch({['receive' | _], [spawn, spawned, exit]},
        lists:splitwith(fun(Kind) -> Kind =:= 'receive' end, Kinds)).

on_an_idle_node() ->
    Table = ets:new(?MODULE, [public, ordered_set]),
    To = fun(Event) -> ets:insert(Table, {erlang:unique_integer([monotonic]), Event}) end,
    HasSessions = has_sessions(),
    Worker = spawn(fun() ->
        true = runs_until_traced(HasSessions),
        receive after 50 -> ok end,
        _ = spawn(fun() -> ok end),
        receive never -> ok end
    end),
    %% Whatever a VM does when it has just begun.
    receive after 300 -> ok end,
    {ok, Summary} = flame_prof_trace:run([procs, send, 'receive'],
        ?WIDE#{max_seconds => 2, to => To}),
    true = is_process_alive(Worker),
    {Summary, [Event || {_, Event} <- ets:tab2list(Table)]}.

%% Without an event.
runs_until_traced(HasSessions) ->
    Trace = trace,
    case HasSessions of
        true -> Trace:session_info(self()) =/= [];
        false -> erlang:trace_info(self(), flags) =/= {flags, []}
    end orelse runs_until_traced(HasSessions).

what_the_vm_puts_around_terms_is_not_cut(_) ->
    Worker = worker(),
    lists:foreach(fun(Limits) ->
        Trace = start(["flame_prof_trace_SUITE:g/2 -> return",
            "flame_prof_trace_SUITE:boom/1 -> return", spawn], Limits#{processes => Worker}),
        _ = do(Worker, fun() ->
            _ = spawn(?MODULE, g, [1, 2]),
            catch ?MODULE:boom(?MODULE:g(a, b))
        end),
        {Events, _} = stop(Trace),
        ?assertMatch({_, [#{event := spawn, mfa := {?MODULE, g, 2}, args := [1, 2]},
            #{event := call, mfa := {?MODULE, g, 2}, args := [a, b]},
            #{event := return, mfa := {?MODULE, g, 2}},
            #{event := call, mfa := {?MODULE, boom, 1}, args := [_]},
            #{event := exception, mfa := {?MODULE, boom, 1}, class := error}
        ]}, {Limits, Events}),
        _ = [unicode:characters_to_binary(flame_prof_trace_format:format(E)) || E <- Events]
    end, [#{items => 1}, #{items => 2}, #{depth => 0}, #{items => 1, depth => 0, bytes => 64}]).

a_process_that_is_not_there_is_told(Config) ->
    {error, {process, #{target := no_such_name_}}} = flame_prof_trace:start(
        "flame_prof_trace_SUITE:f/1", #{processes => [self(), no_such_name_]}),
    {Gone, _} = elsewhere(fun() -> ok end),
    eventually(fun() -> not is_process_alive(Gone) end),
    File = filename:join(proplists:get_value(priv_dir, Config), "nobody.txt"),
    Trace = start("flame_prof_trace_SUITE:f/1", #{processes => Gone, to => {file, File}}),
    {[], #{processes := 0, left_alone := 0}} = stop(Trace),
    {ok, Text} = file:read_file(File),
    ?assertMatch({match, _}, re:run(Text, "no process was traced")).

a_refused_trace_leaves_no_file(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "refused.txt"),
    Trace = start("flame_prof_trace_SUITE:f/1", #{}),
    {error, {tracing, _}} = flame_prof_trace:start(send, #{to => {file, File}}),
    ?assertEqual({error, enoent}, file:read_file_info(File)),
    _ = stop(Trace),
    _ = stop(start(send, #{to => {file, File}})),
    {ok, _} = file:read_file_info(File).
