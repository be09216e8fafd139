%% The live table: which processes are in it, and the one of a shell with a terminal that the test
%% holds. The processes are those of a scripted agent. Real ones:
%% test/live/flame_prof_top_live_tests.
-module(flame_prof_top_tests).

-include_lib("eunit/include/eunit.hrl").

-export([it_goes_on_when_its_code_is_loaded_anew/0]).

-import(virtual_clock, [advance/1]).

-export([quiet/0]).

%% What each process has in the first pass and what more in each later one. Each is the first by one
%% column, and by that one only.
-define(CROWD, [
    {large, #{memory => 900000000}, #{}},
    {mailbox, #{message_queue_len => 5000}, #{}},
    {growing, #{memory => 20}, #{memory => 500}},
    {burning, #{status => runnable}, #{reductions => 9000}},
    {on_cpu, #{status => running}, #{reductions => 50}},
    {first, #{}, #{reductions => 1}},
    {flame_prof_top, #{memory => 1 bsl 40, message_queue_len => 1 bsl 20, status => running},
        #{reductions => 1 bsl 20, memory => 1 bsl 20}}]).
-define(FIRST_BY, [{memory, large}, {queue, mailbox}, {growth, growing}, {reductions, burning},
    {running, on_cpu}, {name, burning}]).

quiet() -> receive never -> ok end.

%% The agent answers of these processes, and of no others.
with_crowd(Fun) ->
    fake_agent:run(fun() ->
        Crowd = [{spawn(?MODULE, quiet, []), Member} || Member <- ?CROWD],
        Later = counters:new(1, []),
        fake_agent:script(schedulers_prepare, {error, {unsupported, <<"not in the script">>}}),
        fake_agent:script(snapshot, fun(Asked) ->
            snapshot(Asked, Crowd, counters:get(Later, 1)) end),
        try
            Fun(fun() -> counters:add(Later, 1, 1) end)
        after [exit(Pid, kill) || {Pid, _} <- Crowd]
        end
    end).

snapshot(dirty, _, _) -> [];
snapshot(schedulers, Crowd, Later) ->
    [{1, {Pid, seen(Member, Later)}} || {Pid, {_, #{status := running}, _} = Member} <- Crowd];
snapshot(Pids, Crowd, Later) ->
    [{Pid, seen(Member, Later)} || {Pid, Member} <- Crowd, lists:member(Pid, Pids)].

seen({Name, Figures, Growth}, Later) ->
    Grown = maps:map(fun(_, N) -> N * Later end, Growth),
    maps:merge(
        maps:merge_with(fun(_, A, B) -> A + B end, maps:merge(#{reductions => 5, memory => 10,
            message_queue_len => 0}, maps:remove(status, Figures)), Grown),
        #{status => maps:get(status, Figures, waiting), registered_name => atom_to_binary(Name),
            stack => [{<<"m">>, <<"f">>, 0, <<"m.erl">>, 1}]}).

%% By each column, of all processes, with a filter and without.

the_first_of_all_processes_is_selected_test_() ->
    [{atom_to_list(By) ++ " " ++ binary_to_list(Filter), fun() -> with_crowd(fun(Grow) ->
        {#{pids := [Pid], processes := N}, _} = selected(By, Filter, Grow),
        ?assertMatch([{Pid, #{name := Expected}}],
            flame_prof_top_reader:read(native, named, [Pid])),
        ?assertEqual(length(?CROWD), N)
    end) end} || {By, Name} <- ?FIRST_BY, Filter <- [<<>>, <<"m:f/0">>],
        Expected <- [atom_to_binary(Name)]].

%% Of two passes.
selected(By, Filter, Grow) ->
    {_, First} = pass(flame_prof_top_ranking:new(native, By, Filter, 1)),
    Grow(),
    ok = virtual_clock:skip(200),
    pass(First).

pass(Ranking) -> steps(flame_prof_top_ranking:step(flame_prof_top_ranking:begin_pass(Ranking))).

steps({more, _, Ranking}) -> steps(flame_prof_top_ranking:step(Ranking));
steps({done, Selected, Ranking}) -> {Selected, Ranking}.

growth_and_its_time_are_told_of_what_grows_test() ->
    with_crowd(fun(Grow) ->
        {#{pids := [Pid], scores := Scores, interval_us := Us}, _} = selected(growth, <<>>, Grow),
        ?assertEqual({#{Pid => 500}, 200000}, {Scores, Us}),
        {#{scores := None}, _} = selected(memory, <<>>, Grow),
        ?assertEqual(#{}, None)
    end).

%% Without a filter the library ranks by one metric.
the_library_ranks_by_the_metric_of_the_column_test_() ->
    [{atom_to_list(By), fun() -> with_crowd(fun(_) ->
        Answer = {3, [{self(), 7}]},
        fake_agent:script(selector_new, {ok, make_ref()}),
        fake_agent:script(selector_next, fun(_, _) ->
            case length(fake_agent:calls(selector_next)) of 1 -> more; _ -> Answer end end),
        {#{pids := Pids, processes := 3, scores := Scores}, _} =
            pass(flame_prof_top_ranking:new(native, By, <<>>, 10)),
        ?assertEqual({[[Metric, IsDelta, 10, 0]], [self()]},
            {fake_agent:calls(selector_new), Pids}),
        ?assertEqual(case By of _ when By =:= growth; By =:= reductions -> #{self() => 7};
            _ -> #{} end, Scores)
    end) end} || {By, Metric, IsDelta} <- [{reductions, reductions, true},
        {running, reductions, true}, {memory, memory, false}, {growth, memory, true},
        {queue, message_queue_len, false}]].

%% A size is unknown while the collector exchanges the heaps: it is what it was before.
a_size_that_is_unknown_is_no_growth_test() ->
    with_crowd(fun(Grow) ->
        {_, First} = pass(flame_prof_top_ranking:new(native, growth, <<>>, 1)),
        Real = fake_agent:scripted(snapshot),
        fake_agent:script(snapshot, fun(Pids) ->
            [{Pid, Seen#{memory => unknown}} || {Pid, Seen} <- Real(Pids)] end),
        Grow(),
        {#{pids := []}, Second} = pass(First),
        fake_agent:script(snapshot, Real),
        Grow(),
        {#{pids := [Pid], scores := Scores}, _} = pass(Second),
        ?assertEqual(#{Pid => 1000}, Scores)
    end).

%% Tables of a sampler.

with_sampler(Options, Fun) ->
    with_crowd(fun(Grow) ->
        Defaults = #{every_ms => 1000, rows => 5, by => reductions, filter => <<>>},
        {ok, Sampler} = flame_prof_top_sampler:start(self(), maps:merge(Defaults, Options)),
        Monitor = monitor(process, Sampler),
        Fun(Sampler, Grow),
        ok = flame_prof_top_sampler:stop(Sampler),
        receive {'DOWN', Monitor, process, Sampler, Reason} -> ?assertEqual(normal, Reason) end
    end).

%% Of the next second; with what was to come after it.
table(Sampler) ->
    ok = advance(1000),
    receive
        {flame_prof_top_sampler, Sampler, Table} ->
            ok = flame_prof_top_sampler:taken(Sampler),
            Table
    after 0 -> none
    end.

names(#{rows := Rows}) -> [Name || #{name := Name} <- Rows].

%% The first is of two passes where it takes two; and has rates.
the_tables_of_each_column_have_the_first_process_test_() ->
    [{atom_to_list(By), fun() -> with_sampler(#{by => By, rows => 1}, fun(Sampler, Grow) ->
        ok = advance(0),
        Grow(),
        ok = advance(200),
        [begin
            Grow(),
            #{seconds := Seconds, processes := N} = Table = table(Sampler),
            ?assertEqual({[atom_to_binary(Name)], length(?CROWD)}, {names(Table), N}),
            ?assertEqual(1.0, Seconds)
        end || _ <- [1, 2, 3]]
    end) end} || {By, Name} <- ?FIRST_BY].

its_own_processes_and_its_watcher_are_left_out_test_() ->
    [{atom_to_list(By) ++ " " ++ binary_to_list(Filter), fun() ->
        with_sampler(#{by => By, filter => Filter, rows => 1000}, fun(Sampler, _) ->
            [Others, Watcher] = [fake_agent:scripted(snapshot), self()],
            fake_agent:script(snapshot, fun(Asked) ->
                [{Watcher, seen({watcher, #{}, #{}}, 0)} || is_list(Asked)] ++ Others(Asked) end),
            ok = advance(200),
            Names = names(table(Sampler)),
            ?assertEqual(length(?CROWD) - 1, length(Names)),
            ?assertEqual([], [N || N <- [<<"flame_prof_top">>, <<"watcher">>],
                lists:member(N, Names)])
        end)
    end} || By <- flame_prof_top:columns(), Filter <- [<<>>, <<"m:f">>]].

a_filter_is_of_all_processes_test() ->
    with_sampler(#{rows => 2}, fun(Sampler, _) ->
        ok = advance(200),
        ?assertMatch([_, _], names(table(Sampler))),
        ok = flame_prof_top_sampler:set_view(Sampler, #{filter => <<"mail">>}),
        ok = advance(200),
        ?assertEqual([<<"mailbox">>], names(table(Sampler)))
    end).

nothing_is_read_for_a_watcher_that_takes_no_table_test() ->
    with_sampler(#{}, fun(Sampler, _) ->
        ok = advance(10000),
        ok = fake_agent:forget(),
        ok = advance(60000),
        ?assertEqual([], fake_agent:calls(snapshot)),
        receive {flame_prof_top_sampler, Sampler, _} -> ok end,
        receive {flame_prof_top_sampler, Sampler, _} -> error(second) after 0 -> ok end,
        ok = flame_prof_top_sampler:taken(Sampler),
        ok = advance(200),
        ?assertMatch(#{rows := [_ | _]}, table(Sampler))
    end).

it_ends_with_its_watcher_test() ->
    with_crowd(fun(_) ->
        Watcher = spawn(?MODULE, quiet, []),
        {ok, Sampler} = flame_prof_top_sampler:start(Watcher,
            #{every_ms => 100, rows => 5, by => reductions, filter => <<>>}),
        Monitor = monitor(process, Sampler),
        exit(Watcher, kill),
        receive {'DOWN', Monitor, process, Sampler, Reason} -> ?assertEqual(normal, Reason) end
    end).

%% Rows.

what_was_seen_once_has_no_rate_test() ->
    Seen = [{5000000, observation(running, 700, 1000)}],
    ?assertMatch(#{reductions := unknown, growth := unknown, memory := 1000, running := 100.0},
        flame_prof_top_rows:row(self(), Seen, [], none, 0)),
    Last = [{4000000, observation(waiting, 200, 900)}],
    ?assertMatch(#{reductions := 500.0, growth := 100},
        flame_prof_top_rows:row(self(), Seen, Last, none, 0)).

a_size_that_is_unknown_is_that_before_test() ->
    Seen = [{3, observation(garbage_collecting, 9, unknown)}, {2, observation(waiting, 8, 50)}],
    ?assertMatch(#{memory := 50, growth := 20},
        flame_prof_top_rows:row(self(), Seen, [{1, observation(waiting, 1, 30)}], none, 0)),
    ?assertMatch(#{memory := unknown},
        flame_prof_top_rows:row(self(), lists:sublist(Seen, 1), [], none, 0)).

%% Who was not seen on a scheduler did not run.
the_share_of_running_is_of_all_ticks_test() ->
    Seen = [{2, observation(running, 9, 1)}],
    ?assertMatch(#{running := 25.0}, flame_prof_top_rows:row(self(), Seen, [], none, 4)).

observation(Status, Reductions, Memory) ->
    #{status => Status, reductions => Reductions, memory => Memory, message_queue_len => 0,
        name => <<"name">>, frame => <<"m:f/0">>, is_own => false}.

what_is_unknown_is_sorted_last_test() ->
    Rows = [#{pid => P, name => P, memory => M, reductions => 0}
        || {P, M} <- [{<<"a">>, 1}, {<<"b">>, unknown}, {<<"c">>, 2}]],
    ?assertEqual([<<"c">>, <<"a">>, <<"b">>],
        [P || #{pid := P} <- flame_prof_top_rows:sorted(memory, Rows)]).

%% Numbers, name and function, however large or long.
a_row_fits_80_columns_test() ->
    Row = #{pid => <<"<0.12345.0>">>, name => <<"my_application_cache:init/1">>,
        frame => <<"my_application_cache:loop/7">>, reductions => 123456789.0, queue => 1234567,
        memory => 9 bsl 30, growth => -(9 bsl 30), running => 100.0, runnable => 0.0,
        waiting => 0.0, garbage_collecting => 0.0},
    Table = #{node => node(), engine => native, processes => 1, seconds => 1.0, rows => [Row]},
    View = #{by => memory, filter => <<>>, rows => 5, width => 79},
    Lines = string:lexemes(unicode:characters_to_list(flame_prof_top:text([Table], View)), "\n"),
    [?assert(length(Line) =< 79) || Line <- Lines],
    ?assertMatch({match, _}, re:run(lists:last(Lines),
        "^ 123.5M  100    0   0    1.2M  9216M -9216M <0.12345.0> my_applicatio~  my_a")),
    Unknown = Row#{reductions := unknown, memory := unknown, growth := unknown},
    ?assertMatch({match, _}, re:run(flame_prof_top:text([Table#{rows := [Unknown]}], View),
        "      \\?  100    0   0    1.2M      \\?      \\? <0")).

elixirs_names_are_as_elixir_has_them_test() ->
    with_crowd(fun(_) ->
        Pid = spawn(?MODULE, quiet, []),
        true = register('Elixir.Shop.Cart', Pid),
        fake_agent:script(snapshot, fun([brief, P]) ->
            [{P, seen({'Elixir.Shop.Cart', #{}, #{}}, 0)}] end),
        [?assertMatch([{Pid, #{name := <<"Shop.Cart">>}}],
            flame_prof_top_reader:read(Engine, named, [Pid])) || Engine <- [native, portable]],
        exit(Pid, kill)
    end).

%% Options and keys.

every_wrong_option_is_refused_in_one_shape_test() ->
    [begin
        {error, {bad_option, #{option := Option, accepted := Accepted}} = Reason} =
            flame_prof:top(Given),
        ?assertEqual({Key, true}, {Option, is_binary(Accepted)}),
        ?assert(iolist_size(flame_prof:format_error(Reason)) > 0)
    end || {Key, Given} <- [{Key, #{Key => Value}} || {Key, Values} <- wrong(), Value <- Values] ++
            [{bye, [{bye, memory}]}, {by, [{by, 5}]}]].

wrong() ->
    [{by, [foo, 5, "memory"]}, {sort, [foo]}, {filter, [cache, 5, #{}, [a], <<255>>]},
        {every, [0, 99, 1.5, infinity, 1 bsl 40]}, {rows, [0, 1001, all]}, {count, [0, -1, none]},
        {node, ["name", 5]}, {no_such_key, [1]}].

the_keys_are_in_the_line_that_tells_them_test() ->
    Help = lists:flatten(flame_prof_top:help()),
    ?assert(length(Help) =< 79),
    View = #{by => memory, filter => <<>>},
    ?assertEqual(stop, flame_prof_top:command("q", View)),
    ?assertEqual(pause, flame_prof_top:command("p", View)),
    ?assertEqual(View#{filter := <<"q">>}, flame_prof_top:command("/q", View)),
    ?assertEqual(stop, flame_prof_top:command(<<"q">>, View)),
    ?assertEqual(View#{filter := <<"é"/utf8>>}, flame_prof_top:command(<<"/é"/utf8>>, View)),
    ?assertEqual(View#{by := name}, flame_prof_top:command(<<"name">>, View)),
    {match, Keys} = re:run(Help, "([a-z]):", [global, {capture, [1], list}]),
    [?assertNotEqual(View#{by := none}, (flame_prof_top:command(Key, View#{by := none})))
        || [Key] <- Keys],
    [?assertEqual(View#{by := Column}, flame_prof_top:command(atom_to_list(Column), View))
        || Column <- flame_prof_top:columns()].

%% A shell with a terminal.

%% The caller has nothing that it did not ask for, however its line comes: the shell of Elixir and a
%% remote shell hand out binaries.
the_callers_mailbox_is_as_it_was_test_() ->
    [{Name, fun() -> with_crowd(fun(_) ->
        ?assertEqual({ok, {messages, []}}, shell(Options, fun(_) -> Line end))
    end) end} || {Name, Options, Line} <- [{"count", #{count => 2}, "memory\n"}, {"q", #{}, "q\n"},
        {"q in a binary", #{}, <<"q\n">>}]].

%% A person who watches gets the sentence, not the exit of a process.
a_table_whose_sampler_is_killed_is_an_error_test() ->
    with_crowd(fun(_) ->
        {{error, {node, _} = Reason}, {messages, []}} = shell(#{}, fun(_) ->
            [exit(Pid, kill) || Pid <- processes(),
                proc_lib:translate_initial_call(Pid) =:= {flame_prof_top_sampler, init, 1}],
            none
        end),
        ?assertEqual(lists:concat([node(), ": the table ended: it was killed"]),
            lists:flatten(io_lib:format("~ts", [flame_prof:format_error(Reason)])))
    end).

%% Twice: the first time its processes go on in old code, the second time those are killed.
%% A test of the class live: what a purge kills, and when, is the VM's.
it_goes_on_when_its_code_is_loaded_anew() ->
    with_crowd(fun(_) ->
        ?assertEqual({ok, {messages, []}}, shell(#{}, fun
            (9) -> "q\n";
            (Tables) -> _ = [reload() || Tables rem 3 =:= 0], none
        end))
    end).

reload() ->
    [begin
        _ = code:purge(Module),
        {module, Module} = code:load_file(Module)
    end || Module <- [flame_prof_top, flame_prof_top_sampler, flame_prof_top_ranking,
        flame_prof_top_reader, flame_prof_top_rows]].

%% What the table answers, and the messages of its caller. Each line that is waited for is what Line
%% says once there have been so many tables.
shell(Options, Line) ->
    Test = self(),
    {_, Monitor} = spawn_monitor(fun() ->
        true = group_leader(Test, self()),
        exit({flame_prof:top(Options#{every => 100, rows => 5}), process_info(self(), messages)})
    end),
    terminal(Monitor, Line, none, 0).

terminal(Monitor, Line, Reading, Tables) ->
    receive
        {io_request, From, As, {get_geometry, _}} ->
            From ! {io_reply, As, 80},
            terminal(Monitor, Line, Reading, Tables);
        {io_request, From, As, Request} when element(1, Request) =:= put_chars ->
            From ! {io_reply, As, ok},
            typed(Line(Tables + 1), Monitor, Line, Reading, Tables + 1);
        {io_request, From, As, Request} when element(1, Request) =:= get_line ->
            terminal(Monitor, Line, {From, As}, Tables);
        {'DOWN', Monitor, process, _, Answer} ->
            Answer
    after 1 ->
        ok = advance(100),
        terminal(Monitor, Line, Reading, Tables)
    end.

typed(Text, Monitor, Line, {Reader, As}, Tables) when Text =/= none ->
    Reader ! {io_reply, As, Text},
    terminal(Monitor, Line, none, Tables);
typed(_, Monitor, Line, Reading, Tables) -> terminal(Monitor, Line, Reading, Tables).
