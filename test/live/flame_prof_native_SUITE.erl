%% The native engine against what the VM says in public.
-module(flame_prof_native_SUITE).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, calibration_leaves_nothing/1,
    calibrations_at_once_agree/1, a_refused_calibration_tries_again/1,
    a_calibration_that_is_always_refused_tells_how_often/1,
    works_where_the_allocators_are_switched_off/1, idle_processes_equal_process_info/1,
    every_process_is_found_and_no_other/1, a_brief_snapshot_agrees_with_process_info/1,
    no_sample_has_a_size_that_its_process_never_had/1,
    new_code_resolves_and_purged_code_does_not_lie/1, wrong_layouts_never_fault/1,
    survives_the_storms/1, a_budget_is_kept_by_sampling_less/1,
    the_selection_of_many_processes_is_stretched/1]).
%% For peers.
-export([written/1, figures_of_the_node/0, soak/3, sample_with_wrong_layouts/1, kills_a_probe/0]).

-import(waiting, [eventually/1]).

-define(IDLE_MIN, 200).
-define(COMPARISONS, 500).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [written, sample_with_wrong_layouts]).

init_per_suite(Config) ->
    case flame_prof_nif:platform() of
        #{native := false, why := Why} -> {skip, {no_native_engine, Why}};
        #{native := true} ->
            erlang:system_flag(backtrace_depth, 255),
            case flame_prof_calibration:ensure() of
                {ok, _} -> Config;
                {error, Reason} -> skip_or_fail(Reason)
            end
    end.

%% Where this release should work natively, a refusal is a failure.
skip_or_fail(Reason) ->
    Text = lists:flatten(flame_prof_calibration:format_error(Reason)),
    case lists:member(erlang:system_info(otp_release), ["25", "27", "29"])
        andalso erlang:system_info(emu_flavor) =:= jit of
        true -> {fail, Text};
        false -> {skip, Text}
    end.

end_per_suite(_) -> ok.

calibration_leaves_nothing(_) ->
    Before = lists:sort(registered()),
    Count = erlang:system_info(process_count),
    %% In a fresh VM: here the layout is known already.
    Out = eval_in_peer("Before = erlang:processes(),"
        "{Us, {ok, #{tested := tested}}} = timer:tc(flame_prof_calibration, ensure, []),"
        "waiting:eventually(fun() -> flame_prof_looks:purge()"
        " andalso erlang:processes() -- Before =:= [] end),"
        "io:format(\"~w us\", [Us]), halt()."),
    {match, [Us]} = re:run(Out, "^([0-9]+) us", [{capture, all_but_first, list}]),
    say("calibration took ~s us~n", [Us]),
    Before = lists:sort(registered()),
    eventually(fun() -> erlang:system_info(process_count) =< Count + 1 end).

%% pstack/0 beside start/1, in a VM that has not calibrated yet.
calibrations_at_once_agree(_) ->
    Out = eval_in_peer("Self = self(),"
        "[spawn_link(fun() -> Self ! {calibrated, flame_prof_calibration:ensure()} end)"
        " || _ <- lists:seq(1, 8)],"
        "{ok, Info} = receive {calibrated, First} -> First end,"
        "[receive {calibrated, Other} -> {ok, Info} = Other end || _ <- lists:seq(1, 7)],"
        "io:format(\"agreed\"), halt()."),
    "agreed status 0" = Out.

%% A probe that has ended gives no answers: what is left of them disagrees.
a_refused_calibration_tries_again(_) ->
    Out = eval_in_peer("spawn_link(fun() -> " ++ ?MODULE_STRING ++ ":kills_a_probe() end),"
        "{ok, #{tested := tested}} = flame_prof_calibration:ensure(),"
        "io:format(\"calibrated\"), halt()."),
    "calibrated status 0" = Out.

%% The name of a probe is taken for good.
a_calibration_that_is_always_refused_tells_how_often(_) ->
    Out = eval_in_peer("register(flame_prof_probe_1, self()),"
        "{error, {probe, probes, Why}} = flame_prof_calibration:ensure(),"
        "io:format(\"~s\", [Why]), halt()."),
    {match, _} = re:run(Out, "refused 3 times, with new probes each status 0$").

kills_a_probe() ->
    case whereis(flame_prof_probe_1) of
        undefined ->
            erlang:yield(),
            kills_a_probe();
        Pid -> exit(Pid, kill)
    end.

%% erlang:memory/0 fails there.
works_where_the_allocators_are_switched_off(_) ->
    Out = eval_in_peer(
        "{ok, _} = flame_prof:start(#{dir => \"" ++ scratch() ++ "\", engine => native}),"
        "flame_prof_native_SUITE:written(1),"
        "Names = flame_prof_native_SUITE:figures_of_the_node(),"
        "false = is_map_key(<<\"node_memory_total\">>, Names),"
        "{ok, _} = flame_prof:stop(),"
        "io:format(\"works\"), halt().", ["+Mea", "min"]),
    "works status 0" = Out.

idle_processes_equal_process_info(_) ->
    Shapes = native_shapes:start(?IDLE_MIN + 40),
    try
        Shaped = [Pid || {_, Pid} <- Shapes],
        Others = erlang:processes() -- [self() | Shaped],
        Compared = [compare(Pid, ?COMPARISONS) || Pid <- Shaped ++ Others],
        Same = [Frames || {same, Frames} <- Compared],
        Different = [D || {different, _, _} = D <- Compared],
        say("compared ~w idle processes (~w of known shapes) in ~w figures each and "
            "~w frames: ~w differ~n",
            [length(Same) + length(Different), length(Shaped), length(metrics()) + 5,
                lists:sum(Same), length(Different)]),
        [say("differs: ~0tp~n", [D]) || D <- lists:sublist(Different, 5)],
        [] = Different,
        true = length([P || P <- Shaped, is_process_alive(P)]) >= ?IDLE_MIN,
        true = length(Same) >= ?IDLE_MIN
    after native_shapes:stop(Shapes)
    end.

%% What the VM says, then what we read. Asking makes a process run for a moment:
%% while it does, figures are in flight, so a difference is looked at again; one
%% that is real stays.
compare(Pid, Attempts) ->
    case public(Pid) of
        undefined -> gone;
        Public ->
            timer:sleep(if Attempts < ?COMPARISONS -> 2; true -> 0 end),
            [{Pid, Native}] = flame_prof_nif:snapshot([Pid]),
            case differences(Public, Native) of
                [] -> {same, length(maps:get(stack, Public))};
                [_ | _] when Attempts > 1 -> compare(Pid, Attempts - 1);
                Differences -> {different, Pid, Differences}
            end
    end.

metrics() ->
    [reductions, message_queue_len, total_heap_size, stack_size, heap_size,
        heap_block_size, old_heap_size, old_heap_block_size, recent_size, mbuf_size,
        bin_vheap_size, bin_vheap_block_size, bin_old_vheap_size,
        bin_old_vheap_block_size, minor_gcs].

public(Pid) ->
    Items = [current_stacktrace, registered_name, initial_call, {dictionary},
        status, message_queue_len, memory, total_heap_size, stack_size,
        garbage_collection, garbage_collection_info],
    case erlang:process_info(Pid, [case I of {dictionary} -> dictionary; _ -> I end
        || I <- Items]) of
        undefined -> undefined;
        List ->
            Gc = proplists:get_value(garbage_collection_info, List),
            Collection = proplists:get_value(garbage_collection, List),
            Dictionary = proplists:get_value(dictionary, List),
            %% Before the reductions: to ask for a current function adds one.
            Stack = stack(Pid, proplists:get_value(current_stacktrace, List)),
            case erlang:process_info(Pid, reductions) of
                {reductions, Reductions} ->
                    maps:merge(maps:from_list(Gc),
                        #{reductions => Reductions,
                            message_queue_len => proplists:get_value(message_queue_len, List),
                            total_heap_size => proplists:get_value(total_heap_size, List),
                            memory => proplists:get_value(memory, List),
                            minor_gcs => proplists:get_value(minor_gcs, Collection),
                            status => proplists:get_value(status, List),
                            registered_name => name(proplists:get_value(registered_name, List)),
                            initial_call => mfa(proplists:get_value(initial_call, List)),
                            proc_lib_initial_call =>
                                mfa(proplists:get_value('$initial_call', Dictionary)),
                            stack => Stack});
                undefined -> undefined
            end
    end.

%% One that hibernates has no stack, and yet a current function.
stack(Pid, []) ->
    case erlang:process_info(Pid, current_function) of
        {current_function, {erlang, hibernate, 3}} ->
            [{bif, {<<"erlang">>, <<"hibernate">>, 3}}];
        _ -> []
    end;
stack(_Pid, Trace) -> [frame(F) || F <- Trace].

name([]) -> none;
name(Name) -> atom_to_binary(Name).

mfa({M, F, A}) when is_atom(M), is_atom(F), is_integer(A) -> {text(M), text(F), A};
mfa(_) -> none.

text(Atom) -> atom_to_binary(Atom).

frame({M, F, A, Location}) ->
    case Location of
        [] -> {text(M), text(F), A, none, 0};
        _ ->
            File = proplists:get_value(file, Location),
            {text(M), text(F), A, unicode:characters_to_binary(File),
                proplists:get_value(line, Location)}
    end.

native_frame({M, F, A, none, 0}) -> {M, F, A, none, 0};
native_frame({M, F, A, none, Line}) -> {M, F, A, <<M/binary, ".erl">>, Line};
native_frame(Frame) -> Frame.

differences(Public, #{stack := Stack} = Native) ->
    Exact = [status, registered_name, initial_call, proc_lib_initial_call | metrics()],
    [{Key, maps:get(Key, Public), maps:get(Key, Native)}
     || Key <- Exact, maps:get(Key, Public) =/= maps:get(Key, Native)]
    ++ [{memory, maps:get(memory, Public), maps:get(memory, Native)}
        || abs(maps:get(memory, Public) - maps:get(memory, Native)) > 2048]
    ++ stack_differences(maps:get(stack, Public), Stack);
differences(_, Native) -> [{unreadable, Native}].

%% Of a deep stack process_info shows the upper 64 frames (MAX_BACKTRACE_SIZE,
%% whatever backtrace_depth says), we both ends of it.
stack_differences(Public, Stack) when is_list(Stack) ->
    Upper = lists:takewhile(fun(F) -> F =/= truncated end, Stack),
    Native = [native_frame(F) || F <- Upper],
    Seen = case length(Public) of 64 -> lists:sublist(Native, 64); _ -> Native end,
    case Seen of Public -> []; _ -> [{stack, Public, Seen}] end;
stack_differences(Public, Stack) -> [{stack, Public, Stack}].

%% Those that lived all the time are found, and others are of before or after; one that lived only
%% in between is in no other listing.
every_process_is_found_and_no_other(_) ->
    Idle = [spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, 5000)],
    eventually(fun() ->
        Before = erlang:processes(),
        {Count, Chosen} = top(10000),
        After = erlang:processes(),
        Native = [Pid || {Pid, _} <- Chosen],
        {Count, Count} = {Count, length(lists:usort(Native))},
        {[], []} =:= {(Before -- (Before -- After)) -- Native, Native -- (Before ++ After)}
    end),
    [exit(P, kill) || P <- Idle].

top(N) ->
    {ok, Selector} = flame_prof_looks_nif:selector_new(reductions, true, N, 0),
    selected(Selector).

%% In chunks, as the live table does.
selected(Selector) ->
    case flame_prof_looks_nif:selector_next(Selector, 10000) of
        more -> selected(Selector);
        Selected -> Selected
    end.

%% The first three metrics, the names, and the current function: of processes that wait.
a_brief_snapshot_agrees_with_process_info(_) ->
    Waiting = spawn(fun() -> true = register(brief_snapshot, self()), receive never -> ok end end),
    Hibernating = spawn(fun() -> erlang:hibernate(?MODULE, is_waiting, [self()]) end),
    {Gone, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, process, Gone, _} -> ok end,
    _ = [Waiting ! N || N <- lists:seq(1, 3)],
    eventually(fun() -> is_waiting(Waiting) andalso is_waiting(Hibernating) end),
    %% To answer process_info costs the process reductions.
    {reductions, Before} = process_info(Waiting, reductions),
    Found = maps:from_list(flame_prof_nif:snapshot([brief, Waiting, Hibernating, Gone])),
    #{Waiting := Brief, Hibernating := #{stack := Stack}, Gone := {error, gone}} = Found,
    {current_function, {M, F, A}} = process_info(Waiting, current_function),
    [Module, Function] = [atom_to_binary(Name) || Name <- [M, F]],
    #{status := waiting, registered_name := <<"brief_snapshot">>, message_queue_len := 3,
        stack := [{Module, Function, A, _, _}], scheduler := none} = Brief,
    {reductions, After} = process_info(Waiting, reductions),
    #{reductions := Reductions, memory := Memory} = Brief,
    true = Before =< Reductions andalso Reductions =< After,
    true = is_integer(Memory),
    false = is_map_key(heap_size, Brief),
    [{bif, {<<"erlang">>, <<"hibernate">>, 3}}] = Stack,
    [exit(P, kill) || P <- [Waiting, Hibernating]].

burn(0) -> ok;
burn(N) -> burn(N - 1).

%% The million of them: make soak-sizes.
no_sample_has_a_size_that_its_process_never_had(_) ->
    Dir = scratch(),
    Found = size_storm:run(#{for_ms => 500, dir => Dir}),
    ok = file:del_dir_r(Dir),
    #{samples := Samples, collecting := Collecting, kinds := Kinds, wrong := Wrong} = Found,
    say("~b samples, ~b in a collection", [Samples, Collecting]),
    [] = maps:to_list(Wrong),
    [] = size_storm:kinds() -- maps:keys(Kinds).

is_waiting(Pid) -> erlang:process_info(Pid, status) =:= {status, waiting}.

new_code_resolves_and_purged_code_does_not_lie(_) ->
    [begin
        Module = list_to_atom("native_generation"),
        load_generation(Module, Generation),
        Pid = spawn(Module, wait_here, [Generation]),
        eventually(fun() ->
            is_waiting(Pid) andalso
                {current_function, {Module, wait_here, 1}} =:= erlang:process_info(Pid,
                    current_function)
        end),
        Line = 100 + Generation,
        [{Pid, #{stack := [{<<"native_generation">>, <<"wait_here">>, 1, _, Got} | _]}}] =
            flame_prof_nif:snapshot([Pid]),
        {Generation, Line} = {Generation, Got},
        exit(Pid, kill),
        code:purge(Module)
    end || Generation <- lists:seq(1, 8)],
    code:purge(native_generation),
    code:delete(native_generation),
    ok.

load_generation(Module, Generation) ->
    L = erl_anno:new(100 + Generation),
    Forms = [{attribute, 1, module, Module},
        {attribute, 2, export, [{wait_here, 1}]},
        {function, L, wait_here, 1, [{clause, L, [{var, L, 'X'}], [], [{tuple, L, [{var, L, 'X'},
                    {'receive', L, [{clause, L, [{atom, L, never}], [], [{atom, L, ok}]}]}]}]}]}],
    {ok, Module, Code} = compile:forms(Forms, []),
    {module, Module} = code:load_binary(Module, "native_generation.erl", Code).

%% Every field in turn at offsets that are something else: the worst is wrong
%% data. (That the calibration refuses such layouts: test/c/test_layout_solve.)
wrong_layouts_never_fault(Config) ->
    Directory = proplists:get_value(priv_dir, Config),
    Out = eval_in_peer(lists:flatten(io_lib:format(
        "ok = hooked_library:use(), ~s:sample_with_wrong_layouts(~p).", [?MODULE, Directory]))),
    {match, [Layouts, Attempted]} =
        re:run(Out, "^([0-9]+) ([0-9]+) status 0$", [{capture, all_but_first, list}]),
    say("~s wrong layouts, ~s process-samples taken with them, no fault~n", [Layouts, Attempted]).

%% In a peer, which ends.
sample_with_wrong_layouts(Directory) ->
    {ok, _} = flame_prof_calibration:ensure(),
    _ = [spawn(fun Loop() -> lists:sort(lists:seq(1, 500)), Loop() end) || _ <- [1, 2]],
    Wrong = [{Field, At} || Field <- lists:seq(0, 23), At <- wrong_offsets(Field)],
    Counters = [sample_wrongly([{priv_dir, Directory}], Field, At) || {Field, At} <- Wrong],
    Attempted = lists:sum([maps:get(attempted, B) || B <- Counters]),
    true = Attempted > 0,
    io:format("~w ~w", [length(Wrong), Attempted]),
    halt().

wrong_offsets(Field) -> [8 * (erlang:phash2({Field, N}, 75)) || N <- lists:seq(1, 3)].

sample_wrongly(Config, Field, At) ->
    Note = iolist_to_binary(io_lib:format("layout ~w ~w", [Field, At])),
    {ok, Ref} = flame_prof_nif:session_start((config(Config))#{
        note => Note, sample_interval_us => 1000}),
    timer:sleep(40),
    stop_session(Ref).

config(Config) -> library_session:options(proplists:get_value(priv_dir, Config), #{}).

stop_session(Ref) ->
    ok = flame_prof_nif:session_stop(Ref),
    receive
        {flame_prof_nif, Ref, {stopped, ok}} -> ok
    after 300000 -> error(not_stopped)
    end,
    Counters = flame_prof_nif:session_info(Ref),
    %% A session that took no sample leaves no file.
    _ = file:delete(filename:rootname(maps:get(path, Counters), <<".part">>)),
    ok = flame_prof_nif:session_close(Ref),
    balanced(Counters),
    Counters.

balanced(#{attempted := T, written := W, lost := L, inconsistent := N, dropped := D,
    exited := G}) ->
    {T, T} = {T, W + L + N + D + G},
    ok.

%% `make soak' for a moment: all of it, in a node of its own. What stays behind takes
%% longer to be seen.
survives_the_storms(Config) ->
    Seconds = list_to_integer(os:getenv("STORM_SECONDS", "3")),
    Arguments = checkout:path("test/soak/vm.args"),
    Directory = filename:join(proplists:get_value(priv_dir, Config), "soak"),
    %% A node that we would speak to over its standard output cannot be it: what is under
    %% way while its distribution comes up or goes down comes back to a pid of another
    %% node's name, to nobody.
    Port = peer_vm:start([soak, flame_prof],
        lists:flatten(io_lib:format("~s:soak(~p, ~p, ~p).",
            [?MODULE, Seconds, Arguments, Directory])),
        ["-args_file", Arguments]),
    {0, _} = peer_vm:output(Port, infinity),
    {ok, [Summary]} = file:consult(summary_file(Directory)),
    say("~ts", [soak:format(Summary)]),
    #{deaths := [], faults := [], leaking := []} = Summary,
    ok.

%% By that node.
soak(Seconds, Arguments, Directory) ->
    true = os:putenv("SOAK_VM_ARGS", Arguments),
    true = os:putenv("SOAK_MEMORY_MIB", "256"),
    Summary = soak:run(#{seconds => Seconds, hz => 500, directory => Directory}),
    ok = file:write_file(summary_file(Directory), io_lib:format("~tp.~n", [Summary])),
    halt(0).

summary_file(Directory) -> filename:join(Directory, "summary.term").

written(Least) ->
    eventually(fun() ->
        #{counters := #{written := Written}} = flame_prof:info(),
        Written >= Least
    end).

%% They are asked for beside the session: the first flush may come before the answer.
figures_of_the_node() ->
    eventually(fun() ->
        ok = flame_prof:flush(60000),
        #{files := Files} = flame_prof:info(),
        {ok, Own, _} = reader_oracle:own(Files),
        #{<<"node_processes">> := _} = Named =
            maps:from_list([F || #{figures := Figures} <- Own, F <- maps:to_list(Figures)]),
        {true, Named}
    end).

scratch() ->
    Dir = filename:join([filename:basedir(user_cache, "flame_prof_test"),
        integer_to_list(erlang:unique_integer([positive])) ++ os:getpid()]),
    ok = filelib:ensure_dir(Dir),
    Dir.

%% What a fresh VM prints, and "status N" behind it.
eval_in_peer(Expressions) -> eval_in_peer(Expressions, []).

eval_in_peer(Expressions, Arguments) ->
    %% What it says of losses, on a slow machine, is not what is asked of it.
    Quiet = ["-kernel", "logger_level", "critical" | Arguments],
    {Status, Output} = peer_vm:output(peer_vm:start([flame_prof, ?MODULE], Expressions, Quiet)),
    Output ++ lists:flatten(io_lib:format(" status ~w", [Status])).

say(Format, Args) ->
    io:format(user, "    " ++ Format, Args),
    ct:pal(Format, Args).

%% A hundredth of what it would take.
a_budget_is_kept_by_sampling_less(Config) ->
    Workers = [spawn(fun() -> burn(1 bsl 60) end) || _ <- [1, 2]],
    {ok, _} = flame_prof:start(#{engine => native,
        dir => filename:join(proplists:get_value(priv_dir, Config), "budget"), sample_interval => 1,
        cpu_budget => 0.1}),
    %% As many steps at once as it needs.
    #{budget_changes := Changes} = counters_when(fun(#{budget_step := Now}) -> Now >= 3 end),
    {ok, #{files := Files, budget_step := Step}} = flame_prof:stop(),
    [exit(Worker, kill) || Worker <- Workers],
    true = Changes >= 1 andalso Step >= 1,
    {ok, Own, _} = reader_oracle:own(Files),
    #{figures := #{<<"budget_step">> := {Last, _}}} = lists:last(Own),
    %% Others may come between the last sample and the end.
    true = Last >= 1.

%% The pass over so many costs more than half of the budget, and goes first.
the_selection_of_many_processes_is_stretched(Config) ->
    Idle = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 100000)],
    {ok, _} = flame_prof:start(#{engine => native,
        dir => filename:join(proplists:get_value(priv_dir, Config), "stretched"),
        sample_interval => 500, cpu_budget => 0.3}),
    _ = counters_when(fun(#{select_interval_ms := Ms}) -> Ms > 5000 end),
    {ok, #{selected := 100, processes := Processes}} = flame_prof:stop(),
    [exit(Pid, kill) || Pid <- Idle],
    true = Processes >= 100000.

counters_when(IsSo) ->
    eventually(fun() ->
        #{counters := Counters} = flame_prof:info(),
        IsSo(Counters) andalso {true, Counters}
    end).
