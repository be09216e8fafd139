%% No atom that the VM's table does not have gets out of the libraries. The table ends early for
%% the libraries of test/hooks/ (atom_count.c): all names of one process are of atoms made later.
-module(flame_prof_terms_out_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    an_atom_beyond_the_table_of_atoms_is_in_no_answer/1]).
%% In a VM of its own.
-export([answers/0]).

-define(LATE, "late_" ++ ?MODULE_STRING).

suite() -> [{timetrap, {minutes, 2}}].
all() -> native_node:cases(?MODULE).
init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_Config) -> ok.

an_atom_beyond_the_table_of_atoms_is_in_no_answer(_) ->
    Name = filename:join("/tmp", "terms_out_" ++ os:getpid()),
    Command = [os:find_executable("env"), "FLAME_PROF_TEST_ATOMS=" ++ Name,
        filename:join([code:root_dir(), "bin", "erl"])],
    Seen = try peer_vm:value(Command, ?MODULE, answers, []) after file:delete(Name) end,
    ?assertMatch([_ | _], Seen),
    %% With the whole table each way has such an atom.
    ?assertEqual([{Way, true, false} || {Way, _, _} <- Seen], Seen).

%% [{Way, whether it has a late atom with the whole table, and with the one that ends}]
answers() ->
    ok = hooked_library:use(),
    {ok, _} = application:ensure_all_started(flame_prof),
    {ok, _} = flame_prof_calibration:ensure(),
    ok = flame_prof_looks:hold(),
    ok = term_test_nif:load(),
    ok = flame_prof_wait_sites:ensure(),
    {ok, _} = flame_prof_tables:look(#{engine => native}),
    {ok, _} = flame_prof_binaries:look(),
    _ = compiled("earlier"),
    Atoms = erlang:system_info(atom_count),
    Ways = ways(),
    Whole = [{Way, waits_for_late(Run)} || {Way, Run} <- Ways],
    ok = file:write_file(os:getenv("FLAME_PROF_TEST_ATOMS"), integer_to_list(Atoms)),
    [{Way, HasLate, has_late(Run())} || {{Way, HasLate}, {Way, Run}} <- lists:zip(Whole, Ways)].

waits_for_late(Run) ->
    ok = waiting:eventually(fun() -> has_late(Run()) end),
    true.

has_late(Atom) when is_atom(Atom) -> lists:prefix(?LATE, atom_to_list(Atom));
has_late([Head | Tail]) -> has_late(Head) orelse has_late(Tail);
has_late(Tuple) when is_tuple(Tuple) -> has_late(tuple_to_list(Tuple));
has_late(Map) when is_map(Map) -> has_late(maps:to_list(Map));
has_late(_) -> false.

late(Name) -> list_to_atom(?LATE ++ "_" ++ Name).

%% A server whose call waits, and a loop that makes garbage.
compiled(Name) ->
    Texts = ["-module(" ++ Name ++ ").", "-export([init/1, handle_call/3, loop/1]).",
        "init(State) -> put(" ++ Name ++ "_key, {" ++ Name ++ "_value, lists:seq(1, 100)}), "
            "{ok, State}.",
        "handle_call(_, _, State) -> receive never -> {reply, State, State} end.",
        "loop(N) -> [_ | _] = lists:seq(1, 100 + N rem 7), loop(N + 1)."],
    {ok, Module, Code} = compile:forms([begin
        {ok, Tokens, _} = erl_scan:string(Text),
        {ok, Form} = erl_parse:parse_form(Tokens),
        Form
    end || Text <- Texts]),
    {module, Module} = code:load_binary(Module, "none", Code),
    Module.

ways() ->
    Module = compiled(?LATE),
    Table = ets:new(late("table"), [public]),
    true = ets:insert(Table, {key, binary:copy(<<0>>, 100000)}),
    {ok, Server} = gen_server:start(Module, {late("state"), late("more")}, []),
    Request = {late("request"), 1},
    spawn(fun() -> gen_server:call(Server, Request, infinity) end),
    Idle = spawn(fun() -> receive never -> ok end end),
    Idle ! {late("tag"), 1},
    true = register(late("name"), spawn(fun() -> receive never -> ok end end)),
    Watcher = spawn(fun() ->
        _ = monitor(process, {late("name"), node()}),
        receive never -> ok end
    end),
    _ = spawn(Module, loop, [1]),
    [
        {frames_and_slots, fun() -> flame_prof_looks_nif:stack_terms([Server]) end},
        {monitors, fun() -> flame_prof_looks_nif:monitor_terms(Watcher) end},
        {waits, fun() -> flame_prof_looks_nif:waits_look([]) end},
        {served, fun() -> flame_prof_looks_nif:waits_served([Server]) end},
        {mailbox, fun() ->
            {ok, Mailbox} = flame_prof_looks_nif:mailbox_open(Idle,
                #{rows => 9, oldest => 9, time_ms => 1000, millions => 1}),
            next(fun() -> flame_prof_looks_nif:mailbox_next(Mailbox, 1000) end)
        end},
        {xray, fun() ->
            {ok, Xray} = flame_prof_looks_nif:xray_open(Server,
                #{kilobytes => 16384, time_ms => 1000}),
            next(fun() -> flame_prof_looks_nif:xray_next(Xray, 100000) end)
        end},
        {tables, fun flame_prof_looks_nif:tables_read/0},
        {binaries, fun() -> flame_prof_looks_nif:binaries_look(all,
            #{kilobytes => 65536, time_ms => 10000, rows => 1000}) end},
        {terms, fun() -> term_test_nif:view({late("a"), [late("b")]}, 3) end},
        {messages, fun() -> term_test_nif:view(Request, message) end},
        {allocations, fun allocated/0},
        {wait_sites, fun() -> sites(Server) end}
    ].

next(Next) -> case Next() of more -> next(Next); Answer -> Answer end.

%% But for the names of processes, which Erlang knows.
allocated() ->
    {ok, Allocations} = flame_prof_allocations:measure(50, #{max_cpu_percent => infinity}),
    maps:remove(names, Allocations).

%% The return address into the module of the server as if it were a site of waits.
sites(Server) ->
    {ok, [{Server, {ok, Frames}}]} = flame_prof_looks_nif:stack_terms([Server]),
    [{Address, _, _} | _] = Frames,
    Known = flame_prof_looks_nif:value(sites),
    ok = waits_work:set_sites([{Address, only, 0}], 0),
    Sites = flame_prof_looks_nif:wait_sites(),
    ok = flame_prof_looks_nif:value_take(Known),
    Sites.
