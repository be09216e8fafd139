%% Sessions and the library, once with each engine. The native group is skipped, with the reason,
%% where the native engine refuses this VM. What a session does of itself:
%% test/unit/flame_prof_session_tests.
-module(flame_prof_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-export([all/0, groups/0, suite/0, init_per_group/2, end_per_group/2, init_per_testcase/2,
    end_per_testcase/2]).

%% With either engine.
-export([a_run_leaves_a_valid_file_and_balanced_counters/1, a_flush_makes_readable_what_was_taken/1,
    however_it_ends_its_threads_end_and_its_file_is_whole/1, the_busy_function_is_on_top/1,
    names_of_any_kind_keep_the_grammar/1, a_deep_stack_is_truncated/1,
    a_churning_node_keeps_the_grammar/1, a_hibernating_process_has_its_current_function/1,
    labels_are_in_the_file/1]).

%% With the portable engine.
-export([what_a_full_ring_refused_is_told_anew/1, a_malformed_item_is_refused/1]).

%% Of no engine.
-export([a_bad_directory_starts_nothing/1, auto_says_which_engine_and_why/1]).

-export([burn/1, even/2, odd/2]).

-import(waiting, [eventually/1]).

suite() -> [{timetrap, {minutes, 10}}].
all() -> [{group, portable}, {group, native}, {group, of_no_engine}].

groups() ->
    OfThePortable = [what_a_full_ring_refused_is_told_anew, a_malformed_item_is_refused],
    OfNone = [a_bad_directory_starts_nothing, auto_says_which_engine_and_why],
    OfEither = [F || {F, 1} <- ?MODULE:module_info(exports)]
        -- [module_info, burn | OfThePortable ++ OfNone],
    [{portable, [], OfEither ++ OfThePortable}, {native, [], OfEither}, {of_no_engine, [], OfNone}].

init_per_group(native, Config) ->
    case flame_prof:start(#{engine => native, dir => directory(probe, Config)}) of
        {ok, _} ->
            {ok, _} = flame_prof:stop(),
            [{engine, native} | Config];
        {error, Reason} -> {skip, unicode:characters_to_list(flame_prof:format_error(Reason))}
    end;
init_per_group(Engine, Config) -> [{engine, Engine} | Config].

end_per_group(_Group, _Config) -> ok.

init_per_testcase(Case, Config) ->
    %% ERTS starts none while it runs, but common_test may have just done.
    {ok, _} = application:ensure_all_started(flame_prof),
    [{directory, directory(Case, Config)} | Config].

end_per_testcase(_Case, Config) ->
    _ = application:stop(flame_prof),
    _ = [exit(Pid, kill) || Pid <- processes(), is_ours(Pid)],
    _ = file:del_dir_r(proplists:get_value(directory, Config)),
    ok.

directory(Case, Config) ->
    Engine = proplists:get_value(engine, Config, none),
    Unique = erlang:unique_integer([positive]),
    Name = io_lib:format("~s_~s_~b", [Engine, Case, Unique]),
    filename:join(proplists:get_value(priv_dir, Config), lists:flatten(Name)).

%% ---- with either engine ------------------------------------------------------

a_run_leaves_a_valid_file_and_balanced_counters(Config) ->
    _ = burner(),
    Pid = start(Config, #{cpu_budget => infinity}),
    ?assert(is_pid(Pid)),
    sampled(),
    Info = flame_prof:info(),
    ?assertMatch(#{state := running, options := #{sample_interval := 9}, rates := #{}}, Info),
    ?assertEqual(proplists:get_value(engine, Config), maps:get(engine, Info)),
    Run = #{files := [File], ticks := Ticks, missed := Missed} = stop(),
    ct:pal("~p", [Run]),
    ?assertEqual([<<File/binary, ".part">>], maps:get(files, Info)),
    ?assertMatch(#{error := <<>>, errors := 0, lost := 0}, Run),
    %% However late its thread is, every interval is a tick or a missed one.
    ?assert(Ticks >= 10),
    ?assert(Ticks + Missed =< maps:get(elapsed_ms, Run) div 9 + 1),
    {ok, Times, _} = reader_oracle:fold(fun(#{time_us := T}, Ts) -> [T | Ts] end, [], File),
    ?assert(Ticks + Missed >= (lists:max(Times) - lists:min(Times)) div 9000),
    #{samples := Samples, tids := Tids} = check(File),
    ?assertEqual(maps:get(written, Run) + maps:get(own_samples, Run), Samples),
    ?assert(map_size(Tids) > 10),
    ?assertEqual(#{state => stopped, last_run => Run}, flame_prof:info()),
    ?assertMatch({match, _},
        re:run(filename:basename(File),
            "^\\d{4}-\\d\\d-\\d\\d@\\d{4}\\.\\d\\d(\\.[^/]+@[^/]+)?\\.erl_perf\\.log\\.zst$")).

a_flush_makes_readable_what_was_taken(Config) ->
    _ = start(Config, #{}),
    sampled(),
    #{files := [File], counters := #{attempted := Attempted, inconsistent := Inconsistent,
        exited := Exited, dropped := Dropped}} = flame_prof:info(),
    ?assert(Attempted > 0),
    ?assertEqual(ok, flame_prof:flush()),
    {ok, Read, _} = reader_oracle:fold(fun(_, N) -> N + 1 end, 0, File),
    ?assert(Read >= Attempted - Inconsistent - Exited - Dropped),
    _ = stop().

%% Also when the session is killed and nobody is left to tell the thread to stop. Folders have any
%% name, files are for their owner only, and no two of a second have one name.
however_it_ends_its_threads_end_and_its_file_is_whole(Config) ->
    Folder = filename:join([proplists:get_value(directory, Config), "made too",
        "für 'alle' & 100% 🔥"]),
    Files = [begin
        Before = settled_threads(),
        Pid = start([{directory, Folder} | Config], #{}),
        ?assert(threads() > Before),
        sampled(),
        #{files := [Part]} = flame_prof:info(),
        _ = End(Pid),
        eventually(fun() -> threads() =:= Before end),
        eventually(fun() -> not is_open(Part) end),
        File = filename:rootname(Part, <<".part">>),
        _ = check(File),
        ?assertEqual({unicode:characters_to_binary(Folder), 8#600, 8#700},
            {filename:dirname(File), mode(File), mode(Folder)}),
        ok = flame_prof_sup:ensure_started(),
        File
    end
     || End <- [fun flame_prof:stop/1, fun flame_prof:stop/1, fun(Pid) -> exit(Pid, kill) end,
            fun(_) -> application:stop(flame_prof) end, fun(_) -> flame_prof:kill() end]],
    ?assertEqual(5, length(lists:usort(Files))).

mode(File) ->
    {ok, #file_info{mode = Mode}} = file:read_file_info(File),
    Mode band 8#7777.

%% What is known: this process does nothing but call this function.
the_busy_function_is_on_top(Config) ->
    Pid = burner(),
    true = register(flame_prof_suite_burner, Pid),
    _ = start(Config, #{select => {top, 5, 500}}),
    %% Chosen among others at least once, and then looked at.
    eventually(fun() -> maps:get(selections, maps:get(counters, flame_prof:info())) >= 3 end),
    #{counters := #{ticks := Ticks}} = flame_prof:info(),
    eventually(fun() -> maps:get(ticks, maps:get(counters, flame_prof:info())) >= Ticks + 50 end),
    #{files := [File]} = stop(),
    _ = check(File),
    {ok, Report} = flame_prof_tree:report(File, #{by => reductions}),
    #{by_process := [#{name := Process, share := Share} | _], functions := Functions} = Report,
    ?assertEqual(<<"flame_prof_suite_burner ", (pid_text(Pid))/binary>>, Process),
    ?assert(Share > 50),
    [#{total := Total}] = [F || #{name := <<"flame_prof_SUITE:burn/1">>} = F <- Functions],
    ?assert(Total > 50),
    {ok, Found, _} = reader_oracle:fold(
        fun(#{words := Words}, Acc) -> Acc#{maps:get(<<"erl_pid">>, Words) => Words} end, #{}, File
    ),
    ?assertMatch(#{<<"name">> := <<"flame_prof_suite_burner">>,
            <<"initial_call">> := <<"flame_prof_SUITE:burn/1">>},
        maps:get(pid_text(Pid), Found)).

%% Names that would break every reader.
names_of_any_kind_keep_the_grammar(Config) ->
    Waiters = nasty_names:start(),
    _ = start(Config, #{select => {top, 10000}}),
    sampled(),
    #{files := [File]} = stop(),
    ok = nasty_names:stop(Waiters),
    _ = check(File),
    ok = nasty_names:check(Waiters, File).

a_deep_stack_is_truncated(Config) ->
    Pid = spawn_ours(fun() -> ?MODULE:even(600, 0) end),
    _ = start(Config, #{select => {top, 10000}}),
    sampled(),
    #{files := [File]} = stop(),
    #{symbols := Symbols} = check(File),
    exit(Pid, kill),
    ?assert(is_map_key(<<"truncated">>, Symbols)).

%% Two functions, because ERTS shows neighbouring frames of one as one.
even(0, Sum) ->
    receive stop -> Sum end;
even(N, Sum) -> 1 + odd(N - 1, Sum).

odd(N, Sum) -> 2 + even(N - 1, Sum).

%% Processes come and go, and are chosen and left again, as fast as it goes.
a_churning_node_keeps_the_grammar(Config) ->
    Spawners = [spawn_ours(fun churn/0) || _ <- lists:seq(1, 4)],
    _ = start(Config, #{select => {top, 200, 100}, sample_interval => 2}),
    eventually(fun() ->
        #{exited := Seen, selections := Done} = maps:get(counters, flame_prof:info()),
        Seen > 0 andalso Done >= 5
    end),
    #{files := [File]} = stop(),
    [exit(Pid, kill) || Pid <- Spawners],
    #{tids := Tids} = check(File),
    ?assert(map_size(Tids) > 10).

churn() ->
    _ = [spawn(fun() -> timer:sleep(rand:uniform(30)) end) || _ <- lists:seq(1, 20)],
    timer:sleep(2),
    churn().

%% process_info(Pid, current_stacktrace) is [], but not current_function.
a_hibernating_process_has_its_current_function(Config) ->
    Pid = spawn(fun() -> erlang:hibernate(?MODULE, burn, [0]) end),
    eventually(fun() ->
        process_info(Pid, current_function) =:= {current_function, {erlang, hibernate, 3}}
            andalso process_info(Pid, status) =:= {status, waiting}
    end),
    _ = start(Config, #{include => [Pid], select => {top, 0}}),
    eventually(fun() -> maps:get(written, maps:get(counters, flame_prof:info())) >= 10 end),
    #{files := [File]} = stop(),
    _ = check(File),
    exit(Pid, kill),
    ?assertEqual([[<<"erlang:hibernate/3">>]], values_of(Pid, fun leaves/1, File)).

leaves(#{frames := Frames}) ->
    %% At the root stands the initial call.
    [hd([Symbol || {Symbol, _} <- Frames])].

%% Of a process's samples, in the order of the file; each once as long as it stays.
values_of(Pid, Fun, File) ->
    Text = pid_text(Pid),
    {ok, Values, _} = reader_oracle:fold(fun(#{words := Words} = Sample, Seen) ->
        Value = Fun(Sample),
        case Words of
            #{<<"erl_pid">> := Text} when Seen =:= []; hd(Seen) =/= Value -> [Value | Seen];
            _ -> Seen
        end
    end, [], File),
    lists:reverse(Values).

%% No term but atoms: of a tuple what it begins with.
labels_are_in_the_file(Config) ->
    case erlang:function_exported(proc_lib, set_label, 1) of
        true -> labels(Config);
        false -> {skip, "labels are of OTP 27 and later"}
    end.

labels(Config) ->
    Pid = spawn(fun() -> labelled('a label') end),
    Other = spawn(fun() -> labelled("secret") end),
    eventually(fun() -> flame_prof_names:label(Pid) =/= undefined end),
    %% The native engine reads a label once a second. By default the eighth of the flushes
    %% below closes the file, mostly within that second.
    _ = start(Config, #{include => [Pid, Other], select => {top, 2, 100},
        flushes_per_file => infinity}),
    sampled(),
    Pid ! {label, {worker, "secret"}},
    Label = fun(#{words := Words}) -> maps:get(<<"label">>, Words, none) end,
    #{files := [Part]} = flame_prof:info(),
    eventually(fun() ->
        ok = flame_prof:flush(),
        lists:member(<<"worker">>, values_of(Pid, Label, Part))
    end),
    #{files := [File]} = stop(),
    _ = check(File),
    [exit(P, kill) || P <- [Pid, Other]],
    ?assertEqual([<<"a%20label">>, <<"worker">>], values_of(Pid, Label, File)),
    ?assertEqual([none], values_of(Other, Label, File)).

%% Busy, so that it is one of the top where nothing is told of it any more.
labelled(Label) ->
    ok = apply(proc_lib, set_label, [Label]),
    labelled().

labelled() ->
    receive
        {label, Label} -> labelled(Label)
    after 1 -> labelled()
    end.

%% ---- with the portable engine --------------------------------------------------

%% Reading it means setting it.
depth() ->
    Depth = erlang:system_flag(backtrace_depth, 8),
    _ = erlang:system_flag(backtrace_depth, Depth),
    Depth.

%% A ring that holds less than one tick, so that every tick loses definitions
%% too: what is written nevertheless has the right stacks.
what_a_full_ring_refused_is_told_anew(Config) ->
    Pids = [spawn_ours(fun() -> ?MODULE:even(N rem 15 * 2, 0) end) || N <- lists:seq(1, 1000)],
    {ok, Session} = flame_prof_nif:session_start(small_session(Config)),
    {ok, Engine} = flame_prof_portable:start_link(#{
        transport => flame_prof_transport:library(Session), sample_interval_ms => 5,
        rules => flame_prof_selection:rules({top, 10000, 300}), growers => 0, status => all,
        exclude => []}),
    eventually(fun() -> maps:get(dropped, flame_prof_nif:session_info(Session)) > 0 end),
    eventually(fun() -> maps:get(written, flame_prof_nif:session_info(Session)) > 1000 end),
    true = unlink(flame_prof_portable:pid(Engine)),
    Monitor = erlang:monitor(process, flame_prof_portable:pid(Engine)),
    ok = flame_prof_portable:stop(Engine),
    receive {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason) end,
    ok = flame_prof_nif:session_stop(Session),
    receive {flame_prof_nif, Session, {stopped, Result}} -> ?assertEqual(ok, Result) end,
    #{path := Path} = Info = flame_prof_nif:session_info(Session),
    File = filename:rootname(Path, <<".part">>),
    ok = flame_prof_nif:session_close(Session),
    [exit(Pid, kill) || Pid <- Pids],
    #{attempted := Attempted, written := Written, dropped := Dropped, exited := Exited,
        inconsistent := 0} = Info,
    ct:pal("~p", [Info]),
    ?assertEqual(Attempted, Written + Dropped + Exited),
    ?assert(Dropped > 0),
    ?assertMatch(#{unresolved := 0}, Info),
    #{own_samples := Own} = Info,
    #{samples := Samples} = check(File),
    ?assertEqual(Written + Own, Samples),
    Expected = maps:from_list([{pid_text(Pid), N rem 15 * 2} || {N, Pid} <- enumerate(Pids)]),
    {ok, Wrong, _} = reader_oracle:fold(
        fun(Sample, Found) -> wrong_depth(Sample, Expected) ++ Found end, [], File),
    ?assertEqual([], Wrong).

%% Every kind of item; each with a part of a wrong type, one part less and one more.
a_malformed_item_is_refused(Config) ->
    {ok, Session} = flame_prof_nif:session_start(small_session(Config)),
    Mfa = {<<"m">>, <<"f">>, 1},
    Items = [{tick, 1, erlang:system_time(microsecond), -1},
        {process, 0, 1, 2, <<"name">>, Mfa, none, <<"label">>},
        {frame, 0, <<"m">>, <<"f">>, 1, 2, <<"m.erl">>},
        {stack, 0, [0, -1]},
        {sample, 0, 0, 0, list_to_tuple(lists:seq(1, 16))},
        {exited, 2},
        {inconsistent, 3},
        {cpu, 4},
        {selection, 5, 6, 2},
        {lost, 7, 8, 9}],
    ?assertEqual({15, 9}, flame_prof_nif:session_push(Session, Items)),
    Wrong =
        [setelement(N, Item, {}) || Item <- Items, N <- lists:seq(1, tuple_size(Item)),
            %% Without frames a stack is valid: no list is an empty one.
            {element(1, Item), N} =/= {stack, 3}] ++
        [erlang:delete_element(tuple_size(Item), Item) || Item <- Items] ++
        [erlang:append_element(Item, 0) || Item <- Items] ++
        [{stack, 0, [m]}, {unknown, 0}, {}, tick],
    _ = [?assertError(badarg, flame_prof_nif:session_push(Session, [Item])) || Item <- Wrong],
    #{attempted := 15, inconsistent := 3, exited := 2, dropped := 9, selected := 6,
        sampler_cpu_ns := 4} = flame_prof_nif:session_info(Session),
    ok = flame_prof_nif:session_close(Session),
    ?assertEqual({error, closed}, flame_prof_nif:session_push(Session, [])).

small_session(Config) ->
    library_session:options(proplists:get_value(directory, Config), #{engine => portable,
        compress => none, sync => close, sample_interval_us => 5000, flush_interval => 15000,
        collapse_recursion => false, rules => [{reductions, true, 10000, 1}],
        select_interval_ms => 300, ring_bytes => 65536}).

enumerate(List) -> lists:zip(lists:seq(1, length(List)), List).

wrong_depth(#{words := #{<<"erl_pid">> := Pid}, frames := Frames}, Expected) ->
    Depth = length([Symbol || {<<"flame_prof_SUITE:", F, _/binary>> = Symbol, _} <- Frames,
        lists:member(F, "eo")]),
    case Expected of #{Pid := N} when Depth =/= N + 1 -> [{Pid, N, Depth}]; _ -> [] end.

%% ---- of no engine ----------------------------------------------------------------

a_bad_directory_starts_nothing(Config) ->
    Threads = settled_threads(),
    File = proplists:get_value(directory, Config) ++ ".file",
    ok = file:write_file(File, "in the way"),
    [begin
        {error, {file, #{file := Where, reason := Reason}}} =
            flame_prof:start(#{dir => Basename, engine => portable}),
        ?assert(lists:member(Reason, [eexist, enotdir])),
        ?assertMatch({match, _}, re:run(Where, "\\.file"), Where),
        eventually(fun() -> threads() =:= Threads end),
        ?assertEqual(undefined, whereis(flame_prof_session)),
        ?assertEqual(8, depth())
    end || Basename <- [File, File ++ "/below", File ++ "/far/below"]],
    ?assertEqual({ok, <<"in the way">>}, file:read_file(File)),
    ok = file:delete(File).

auto_says_which_engine_and_why(Config) ->
    {ok, _} = flame_prof:start(#{dir => proplists:get_value(directory, Config)}),
    #{engine := Engine, engine_reason := Why, options := #{engine := auto}} = flame_prof:info(),
    ct:pal("~ts", [Why]),
    Begin = atom_to_list(Engine) ++ ": ",
    ?assertNotEqual(nomatch, string:prefix(Why, Begin)),
    ?assert(string:length(Why) > length(Begin)),
    sampled(),
    #{files := [File]} = stop(),
    _ = check(File).

start(Config, Options) ->
    Engine =
        case proplists:get_value(engine, Config) of of_no_engine -> portable; Name -> Name end,
    Directory = proplists:get_value(directory, Config),
    {ok, Pid} = flame_prof:start(Options#{engine => Engine, dir => Directory}),
    Pid.

%% There is something in the counters, however slow this machine is.
sampled() ->
    eventually(fun() -> maps:get(ticks, maps:get(counters, flame_prof:info())) >= 10 end),
    eventually(fun() -> maps:get(written, maps:get(counters, flame_prof:info())) >= 100 end).

stop() ->
    {ok, Run} = flame_prof:stop(),
    balance(Run),
    Run.

balance(Run) ->
    #{attempted := Attempted, written := Written, inconsistent := Inconsistent, dropped := Dropped,
        exited := Exited} = Run,
    ?assertEqual(Attempted, Written + Inconsistent + Dropped + Exited),
    ?assertMatch(#{pending := 0}, Run).

check(File) ->
    case perf_script_grammar:check(File) of
        {ok, Summary} -> Summary;
        {error, {Line, Why}} -> ct:fail("~ts:~b: ~ts", [File, Line, Why])
    end.

threads() ->
    {ok, Tasks} = file:list_dir("/proc/self/task"),
    length(Tasks).

%% Those of the session before may be on their way out.
settled_threads() ->
    eventually(fun() -> [] =:= [T || {ok, <<"flame_prof",
        _/binary>> = T} <- names_of_threads()] end),
    threads().

names_of_threads() ->
    [file:read_file(Comm) || Comm <- filelib:wildcard("/proc/self/task/*/comm")].

is_open(File) ->
    {ok, Descriptors} = file:list_dir("/proc/self/fd"),
    Links = [file:read_link_all(filename:join("/proc/self/fd", Fd)) || Fd <- Descriptors],
    lists:any(fun({ok, Path}) -> unicode:characters_to_binary(Path) =:= File; (_) -> false end,
        Links).

burner() ->
    Pid = spawn(?MODULE, burn, [0]),
    Pid ! ?MODULE,
    Pid.

%% The message marks the process as one of the suite's.
burn(N) -> burn(N + 1).

spawn_ours(Fun) ->
    Pid = spawn(Fun),
    Pid ! ?MODULE,
    Pid.

is_ours(Pid) -> process_info(Pid, messages) =:= {messages, [?MODULE]}.
pid_text(Pid) -> list_to_binary(pid_to_list(Pid)).
