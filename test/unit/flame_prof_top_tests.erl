%% The live table: which processes are in it, and the one of a shell with a terminal that
%% the test holds.
-module(flame_prof_top_tests).

-include_lib("eunit/include/eunit.hrl").

-export([busy/1, quiet/1]).

-define(MODULES, [
    flame_prof_top, flame_prof_top_sampler, flame_prof_top_ranking, flame_prof_top_reader,
    flame_prof_top_rows
]).

%% By each column, of all processes: by both engines, with a filter and without.

the_first_of_all_processes_are_selected_test_() ->
    {setup, fun crowd/0, fun kill/1, fun(Crowd) ->
        [
            {timeout, 1200, {lists:concat([Engine, " ", By, " ", Filter]), fun() ->
                waiting:eventually(fun() -> hd(first(Engine, By, Filter)) =:= Name end)
            end}}
         || Engine <- engines(),
            {By, Name} <- [{memory, top_test_large}, {queue, top_test_mailbox},
                {growth, top_test_growing}, {reductions, top_test_burning},
                {running, top_test_burning}],
            Filter <- ["", "top_test_"],
            is_map_key(Name, Crowd)
        ]
    end}.

%% A hundred that do a little, and one for each column, among them one that does nothing.
crowd() ->
    Little = [{N, spawn(?MODULE, busy, [fun() -> timer:sleep(10) end])} || N <- lists:seq(1, 100)],
    Large = named(top_test_large, fun() -> lists:seq(1, 4000000) end),
    waiting:eventually(fun() -> is_large(process_info(Large, [memory, status])) end),
    Mailbox = named(top_test_mailbox, fun() -> ok end),
    _ = [Mailbox ! N || N <- lists:seq(1, 50000)],
    Growing = named(top_test_growing, fun() -> grow([]) end),
    Burning = named(top_test_burning, fun() -> busy(fun() -> ok end) end),
    maps:from_list(Little ++ [{top_test_large, Large}, {top_test_mailbox, Mailbox},
        {top_test_growing, Growing}, {top_test_burning, Burning}]).

is_large([{memory, Bytes}, {status, waiting}]) -> Bytes > 50000000.

kill(Crowd) when is_map(Crowd) ->
    kill(maps:values(Crowd));
kill(Pids) ->
    [
        begin
            Monitor = monitor(process, Pid),
            exit(Pid, kill),
            receive {'DOWN', Monitor, process, Pid, _} -> ok end
        end
     || Pid <- Pids
    ].

named(Name, Fun) ->
    Test = self(),
    Pid = spawn(fun() -> true = register(Name, self()), Test ! {Name, ready}, quiet(Fun()) end),
    receive {Name, ready} -> Pid end.

%% Keeps what it is given.
quiet(Term) ->
    receive
        never -> Term
    end.

busy(Fun) -> Fun(), lists:seq(1, 200), busy(Fun).

grow(Kept) when length(Kept) > 3000 -> grow([]);
grow(Kept) -> timer:sleep(1), grow([lists:seq(1, 1000) | Kept]).

engines() -> lists:usort([portable, flame_prof_top_reader:engine()]).

%% The names of the first ten after two passes, in their order.
first(Engine, By, Filter) ->
    Ranking = flame_prof_top_ranking:new(Engine, By, list_to_binary(Filter), 10),
    {_, Second} = pass(Ranking),
    timer:sleep(200),
    {#{pids := Pids, scores := Scores}, _} = pass(Second),
    Observed = flame_prof_top_reader:read(Engine, named, Pids),
    Rows = [row(By, Pid, Seen, Scores) || {Pid, #{is_own := false} = Seen} <- Observed],
    [binary_to_atom(Name) || #{name := Name} <- flame_prof_top_rows:sorted(By, Rows)].

row(By, Pid, #{status := Status} = Observation, Scores) ->
    Score = maps:get(Pid, Scores, 0),
    #{
        pid => list_to_binary(pid_to_list(Pid)),
        name => maps:get(name, Observation),
        memory => maps:get(memory, Observation),
        queue => maps:get(message_queue_len, Observation),
        running => case Status of running -> 100; _ -> 0 end,
        growth => Score,
        reductions => case By of reductions -> Score; _ -> maps:get(reductions, Observation) end
    }.

pass(Ranking) -> steps(flame_prof_top_ranking:step(flame_prof_top_ranking:begin_pass(Ranking))).

steps({more, _, Ranking}) -> steps(flame_prof_top_ranking:step(Ranking));
steps({done, Selected, Ranking}) -> {Selected, Ranking}.

names_are_in_their_order_test_() ->
    {timeout, 1200, fun() ->
        Pids = [named(Name, fun() -> ok end) || Name <- ['!!b', '!!a', '!!c']],
        [
            begin
                Ranking = flame_prof_top_ranking:new(Engine, name, <<>>, 3),
                {#{pids := First}, _} = pass(Ranking),
                ?assertEqual(lists:sort(Pids), lists:sort(First))
            end
         || Engine <- engines()
        ],
        kill(Pids)
    end}.

%% Tables of a sampler.

with_sampler(Options, Fun) ->
    Defaults = #{every_ms => 100, rows => 5, by => reductions, filter => <<>>},
    {ok, Sampler} = flame_prof_top_sampler:start(self(), maps:merge(Defaults, Options)),
    Monitor = monitor(process, Sampler),
    try
        Fun(Sampler)
    after
        ok = flame_prof_top_sampler:stop(Sampler),
        receive
            {'DOWN', Monitor, process, Sampler, Reason} -> ?assertEqual(normal, Reason)
        end,
        flush(Sampler)
    end.

flush(Sampler) ->
    receive
        {flame_prof_top_sampler, Sampler, _} -> flush(Sampler)
    after 0 -> ok
    end.

table(Sampler) ->
    receive
        {flame_prof_top_sampler, Sampler, Table} ->
            ok = flame_prof_top_sampler:taken(Sampler),
            Table
    end.

an_idle_process_stays_first_by_memory_test_() ->
    {timeout, 1200, fun() ->
        Crowd = crowd(),
        with_sampler(#{by => memory, rows => 1}, fun(Sampler) ->
            [?assertMatch(#{rows := [#{name := <<"top_test_large">>}]}, table(Sampler))
                || _ <- lists:seq(1, 4)]
        end),
        kill(Crowd)
    end}.

the_first_table_has_rates_test_() ->
    {timeout, 1200, fun() ->
        Burning = named(top_test_burning, fun() -> busy(fun() -> ok end) end),
        with_sampler(#{}, fun(Sampler) ->
            #{rows := [#{reductions := Rate} | _], seconds := Seconds} = table(Sampler),
            ?assert(Rate > 1000),
            ?assert(Seconds >= 0.1)
        end),
        kill([Burning])
    end}.

%% Also where they are all that there is to show.
its_own_processes_are_left_out_test_() ->
    {timeout, 1200, fun() ->
        Own = named(flame_prof_top_own, fun() -> busy(fun() -> ok end) end),
        [
            with_sampler(#{by => By, filter => Filter, rows => 1000}, fun(Sampler) ->
                #{rows := Rows} = table(Sampler),
                Pids = [Pid || #{pid := Pid} <- Rows],
                [?assertNot(lists:member(list_to_binary(pid_to_list(Pid)), Pids))
                    || Pid <- [Own, Sampler, self()]],
                ?assertEqual([], [Name || #{name := <<"flame_prof", _/binary>> = Name} <- Rows])
            end)
         || By <- flame_prof_top:columns(), Filter <- [<<>>, <<"e">>]
        ],
        kill([Own])
    end}.

a_filter_is_of_all_processes_test_() ->
    {timeout, 1200, fun() ->
        Crowd = crowd(),
        with_sampler(#{rows => 2}, fun(Sampler) ->
            _ = table(Sampler),
            ok = flame_prof_top_sampler:set_view(Sampler, #{filter => <<"top_test_mail">>}),
            waiting:eventually(fun() ->
                #{rows := Rows} = table(Sampler),
                [<<"top_test_mailbox">>] =:= [Name || #{name := Name} <- Rows]
            end)
        end),
        kill(Crowd)
    end}.

nothing_is_read_for_a_watcher_that_takes_no_table_test_() ->
    {timeout, 1200, fun() ->
        with_sampler(#{}, fun(Sampler) ->
            receive
                {flame_prof_top_sampler, Sampler, _} -> ok
            end,
            waiting:eventually(fun() -> element(tuple_size(sys:get_state(Sampler)),
                sys:get_state(Sampler)) end),
            ok = flame_prof_top_sampler:taken(Sampler),
            _ = table(Sampler)
        end)
    end}.

it_ends_with_its_watcher_test_() ->
    {timeout, 1200, fun() ->
        Test = self(),
        Options = #{every_ms => 100, rows => 5, by => reductions, filter => <<>>},
        Watcher = spawn(fun() ->
            Test ! flame_prof_top_sampler:start(self(), Options),
            quiet(ok)
        end),
        Sampler = receive {ok, Pid} -> Pid end,
        Monitor = monitor(process, Sampler),
        exit(Watcher, kill),
        receive
            {'DOWN', Monitor, process, Sampler, Reason} ->
                ?assert(lists:member(Reason, [normal, noproc]))
        end
    end}.

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

elixirs_names_are_as_elixir_has_them_test_() ->
    {timeout, 1200, fun() ->
        Pid = named('Elixir.Shop.Cart', fun() -> ok end),
        [
            ?assertMatch([{Pid, #{name := <<"Shop.Cart">>}}],
                flame_prof_top_reader:read(Engine, named, [Pid]))
         || Engine <- engines()
        ],
        kill([Pid])
    end}.

%% Options and keys.

every_wrong_option_is_refused_in_one_shape_test() ->
    [
        begin
            {error, {bad_option, #{option := Option, accepted := Accepted}} = Reason} =
                flame_prof:top(Given),
            ?assertEqual({Key, true}, {Option, is_binary(Accepted)}),
            ?assert(iolist_size(flame_prof:format_error(Reason)) > 0)
        end
     || {Key, Given} <- [{Key, #{Key => Value}} || {Key, Values} <- wrong(), Value <- Values] ++
            [{options, 5}, {options, "memory"}, {options, [{by, memory}]}]
    ].

wrong() ->
    [
        {by, [foo, 5, "memory"]},
        {sort, [foo]},
        {filter, [cache, 5, #{}, [a], <<255>>]},
        {every, [0, 99, 1.5, infinity, 1 bsl 40]},
        {rows, [0, 1001, all]},
        {count, [0, -1, none]},
        {node, ["name", 5]},
        {no_such_key, [1]}
    ].

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

%% The caller has nothing that it did not ask for.
the_callers_mailbox_is_as_it_was_test_() ->
    {timeout, 1200, fun() ->
        {Top, Monitor} = shell(#{count => 2, rows => 5, every => 100}),
        ok = terminal(Top, Monitor, fun(_) -> "memory\n" end)
    end}.

a_line_q_ends_it_test_() ->
    {timeout, 1200, fun() ->
        {Top, Monitor} = shell(#{every => 100, rows => 5}),
        ok = terminal(Top, Monitor, fun(_) -> "q\n" end)
    end}.

%% As the shell of Elixir and a remote shell hand them out.
a_line_in_a_binary_is_a_line_test_() ->
    {timeout, 1200, fun() ->
        {Top, Monitor} = shell(#{every => 100, rows => 5}),
        ok = terminal(Top, Monitor, fun(_) -> <<"q\n">> end)
    end}.

%% A person who watches gets the sentence, not the exit of a process.
a_table_whose_sampler_is_killed_is_an_error_test_() ->
    {timeout, 1200, fun() ->
        {Shell, Monitor} = shell(#{every => 100, rows => 5}),
        {{error, {node, _} = Reason}, {messages, []}} = killed(Shell, Monitor),
        ?assertEqual(lists:concat([node(), ": the table ended: it was killed"]),
            lists:flatten(io_lib:format("~ts", [flame_prof:format_error(Reason)])))
    end}.

killed(Shell, Monitor) ->
    receive
        {io_request, From, As, {get_geometry, _}} ->
            From ! {io_reply, As, 80},
            killed(Shell, Monitor);
        {io_request, From, As, Request} when element(1, Request) =:= put_chars ->
            _ = [exit(Pid, kill) || Pid <- processes(),
                proc_lib:translate_initial_call(Pid) =:= {flame_prof_top_sampler, init, 1}],
            From ! {io_reply, As, ok},
            killed(Shell, Monitor);
        {io_request, _, _, _} ->
            killed(Shell, Monitor);
        {'DOWN', Monitor, process, Shell, Answer} ->
            Answer
    end.

%% Twice: the first time its processes go on in old code, the second time those are killed.
it_goes_on_when_its_code_is_loaded_anew_test_() ->
    {timeout, 1200, fun() ->
        {Top, Monitor} = shell(#{every => 100, rows => 5}),
        Reload = fun(Tables) ->
            case Tables of
                3 -> reload(), none;
                6 -> reload(), none;
                9 -> "q\n";
                _ -> none
            end
        end,
        ok = terminal(Top, Monitor, Reload)
    end}.

reload() ->
    [
        begin
            _ = code:purge(Module),
            {module, Module} = code:load_file(Module)
        end
     || Module <- ?MODULES
    ].

shell(Options) ->
    Test = self(),
    spawn_monitor(fun() ->
        true = group_leader(Test, self()),
        exit({flame_prof:top(Options), process_info(self(), messages)})
    end).

%% Answers what is asked of a terminal, until the shell ends: each line that is waited for
%% by what Line says once there have been so many tables.
terminal(Top, Monitor, Line) -> terminal(Top, Monitor, Line, none, 0).

terminal(Top, Monitor, Line, Reading, Tables) ->
    receive
        {io_request, From, As, {get_geometry, _}} ->
            From ! {io_reply, As, 80},
            terminal(Top, Monitor, Line, Reading, Tables);
        {io_request, From, As, Request} when element(1, Request) =:= put_chars ->
            From ! {io_reply, As, ok},
            typed(Line(Tables + 1), Top, Monitor, Line, Reading, Tables + 1);
        {io_request, From, As, Request} when element(1, Request) =:= get_line ->
            terminal(Top, Monitor, Line, {From, As}, Tables);
        {'DOWN', Monitor, process, Top, Reason} ->
            ?assertEqual({ok, {messages, []}}, Reason),
            ok
    end.

typed(Text, Top, Monitor, Line, {Reader, Read}, Tables) when Text =/= none ->
    Reader ! {io_reply, Read, Text},
    terminal(Top, Monitor, Line, none, Tables);
typed(_, Top, Monitor, Line, Reading, Tables) ->
    terminal(Top, Monitor, Line, Reading, Tables).
