%% What the program's own receives wait for, by the code of this module and of modules that are
%% made here; what is remembered beside the sites; who holds a lock.
-module(flame_prof_wait_receives_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    receives_are_told_by_the_code_of_their_module/1, what_is_loaded_without_its_file_is_not_known/1,
    a_receive_that_is_another_after_a_load_is_read_again/1,
    failed_probes_are_remembered_and_told/1, who_holds_a_global_lock_is_told/1,
    a_copy_of_gen_server_is_probed_as_gen_server/1]).
%% Of the copy.
-export([init/1, handle_call/3, handle_cast/2]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> suite_cases:list(?MODULE, [init]).

init_per_suite(Config) ->
    case native_node:why_not() of
        none -> ok = waits_work:know_sites(), Config;
        Why -> {skip, Why}
    end.

end_per_suite(_Config) -> ok.

mute() -> spawn_link(fun mute_loop/0).

mute_loop() ->
    receive _ -> mute_loop() end.

%% Those of this module, which has a file.
look_of(Process) ->
    {ok, Look} = flame_prof_waits:look(#{engine => native, process => Process}),
    Look.

receives_are_told_by_the_code_of_their_module(_Config) ->
    Server = mute(),
    {ok, Listening} = gen_tcp:listen(0, [{inet_backend, inet}, {ip, {127, 0, 0, 1}}]),
    Self = self(),
    Probes = [{spawn_link(fun() -> takes_any([]) end), idle},
        {spawn_link(fun() -> receive after infinity -> ok end end), {edge, timer, timer}},
        {spawn_link(fun() -> asks(Server) end), {edge, monitor_only, Server}},
        {spawn_link(fun() -> answer_of(Server) end), {edge, named, Server}},
        {spawn_link(fun() -> data_of(Listening) end), {edge, port, Listening}},
        {spawn_link(fun() -> keeps(monitor(process, Server), Self) end),
            {forms, [{atom, stop}, {tuple, get, 2}]}},
        {spawn_link(fun() -> answer_of(self()) end), {forms, [{tuple, any, 2}]}}],
    [waiting:found(fun() -> erlang:process_info(Pid, status) =:= {status, waiting} end)
        || {Pid, _} <- Probes],
    %% Their schedulers may not have put all of them down yet.
    waiting:eventually(fun() ->
        {ok, #{edges := Edges, receives := Receives}} =
            flame_prof_waits:look(#{engine => native, top => 1000}),
        Told = [{Pid, {edge, How, To}} || #{from := Pid, how := How, to := To} <- Edges],
        Wanted = [Probe || {_, {edge, _, _}} = Probe <- Probes],
        Wanted =:= [Probe || {Pid, _} <- Probes, {P, _} = Probe <- Told, P =:= Pid]
            andalso lists:any(
                fun({Mfa, _, N}) -> {Mfa, N} =:= {{?MODULE, keeps, 2}, 1} end, Receives)
    end),
    [takes(Pid, Forms) || {Pid, {forms, Forms}} <- Probes],
    [takes(Pid, any) || {Pid, idle} <- Probes],
    [begin unlink(Pid), exit(Pid, kill) end || {Pid, _} <- Probes],
    ok = gen_tcp:close(Listening).

takes(Pid, Wanted) ->
    waiting:eventually(fun() ->
        case look_of(Pid) of
            #{processes := #{Pid := #{takes := #{forms := Wanted}}}} -> true;
            #{processes := #{Pid := #{takes := Wanted}}} -> true;
            Other -> Other
        end
    end).

takes_any(Kept) ->
    receive
        {get, From} -> From ! Kept;
        Message -> takes_any([Message | Kept])
    end.

asks(Server) ->
    Ref = monitor(process, Server),
    Server ! {self(), Ref},
    receive
        {Ref, Answer} -> Answer;
        {'DOWN', Ref, _, _, Why} -> exit(Why)
    end.

answer_of(Server) ->
    receive {Server, Answer} -> answer(Server, Answer) end.

answer(Server, Answer) -> {Server, Answer}.

data_of(Port) ->
    receive
        {tcp, Port, Data} -> {Port, Data};
        {tcp_closed, Port} -> {Port, closed}
    end.

%% A loop that has a monitor, and waits for others.
keeps(Ref, Owner) ->
    receive
        {get, Message} ->
            Owner ! {Ref, Message},
            keeps(Ref, Owner);
        stop -> demonitor(Ref)
    end.

%% A file that is not what is loaded says nothing.
what_is_loaded_without_its_file_is_not_known(Config) ->
    Lines = ["-module(no_file_of_it).", "-export([f/0]).", "f() -> receive a -> b end."],
    Forms = [begin
        {ok, Tokens, _} = erl_scan:string(Line),
        {ok, Form} = erl_parse:parse_form(Tokens),
        Form
    end || Line <- Lines],
    {ok, Module, Beam} = compile:forms(Forms),
    {module, Module} = code:load_binary(Module, "no_such_file.beam", Beam),
    Pid = spawn_link(Module, f, []),
    waiting:found(fun() -> erlang:process_info(Pid, status) =:= {status, waiting} end),
    {ok, #{unknown := Unknown}} = flame_prof_waits:look(#{engine => native}),
    ?assert(lists:member({{Module, f, 0}, 1}, Unknown)),
    File = filename:join(proplists:get_value(priv_dir, Config), "no_file_of_it.beam"),
    ok = file:write_file(File, Beam),
    {module, Module} = code:load_binary(Module, File, Beam),
    %% The process is in the old code.
    {ok, #{unknown := Still}} = flame_prof_waits:look(#{engine => native}),
    ?assert(lists:member({{Module, f, 0}, 1}, Still)),
    unlink(Pid),
    exit(Pid, kill),
    waiting:found(fun() -> not is_process_alive(Pid) end),
    true = code:soft_purge(Module),
    Other = spawn_link(Module, f, []),
    waiting:found(fun() -> erlang:process_info(Other, status) =:= {status, waiting} end),
    {ok, #{receives := Receives}} = flame_prof_waits:look(#{engine => native}),
    ?assertMatch([{_, #{forms := [{atom, a}]}, 1}],
        [R || {{M, _, _}, _, _} = R <- Receives, M =:= Module]),
    unlink(Other),
    exit(Other, kill),
    true = code:delete(Module),
    code:purge(Module).

%% Loaded anew with the same function that waits for something else.
a_receive_that_is_another_after_a_load_is_read_again(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Module = two_versions,
    Load = fun(Clause) ->
        Source = filename:join(Folder, atom_to_list(Module) ++ ".erl"),
        ok = file:write_file(Source, ["-module(", atom_to_list(Module), ").\n-export([f/0]).\n",
            "f() -> receive ", Clause, " -> b end.\n"]),
        {ok, Module} = compile:file(Source, [{outdir, Folder}]),
        {module, Module} = code:load_abs(filename:join(Folder, atom_to_list(Module)))
    end,
    Look = fun() ->
        Pid = spawn(Module, f, []),
        waiting:found(fun() -> erlang:process_info(Pid, status) =:= {status, waiting} end),
        %% A file that was not read in time has no answer, instead of the code's before.
        Told = waiting:found(fun() ->
            #{processes := #{Pid := #{takes := Takes}}} = look_of(Pid),
            {ok, #{receives := Receives, unknown := Unknown}} =
                flame_prof_waits:look(#{engine => native, top => 1000}),
            [1 || {{M, f, 0}, 1} <- Unknown, M =:= Module] =:= [] andalso
                {Takes, [Of || {{M, f, 0}, Of, 1} <- Receives, M =:= Module]}
        end),
        exit(Pid, kill),
        waiting:found(fun() -> not is_process_alive(Pid) end),
        Told
    end,
    [begin
        Load(Clause),
        code:purge(Module),
        ?assertEqual(Truth, Look())
    end
     || Clauses <- [[{"a", forms([{atom, a}])}, {"b", forms([{atom, b}])}, {"_", {any, []}},
            {"{a, _}", forms([{tuple, a, 2}])}, {"{b, _}", forms([{tuple, b, 2}])}
        ]], _ <- [1, 2, 3], {Clause, Truth} <- Clauses],
    true = code:delete(Module),
    code:purge(Module).

forms(Forms) ->
    Takes = #{forms => Forms, only => [], some => []},
    {Takes, [Takes]}.

failed_probes_are_remembered_and_told(_Config) ->
    {Mark, true, _} = flame_prof_looks_nif:wait_sites(),
    Value = flame_prof_nif:value(sites),
    %% As a try that took too long leaves it, of the same modules.
    <<_:4, Probed:30, _:30>> = <<Mark:64>>,
    Failed = fun(Ago) ->
        Second = (erlang:monotonic_time(second) - Ago) band (1 bsl 26 - 1),
        <<Number:64>> = <<0:4, 1:4, Second:26, Probed:30>>,
        ok = flame_prof_looks_nif:wait_sites_learn([], Number)
    end,
    try
        Failed(7),
        {error, {wait_sites, Why}} = flame_prof_wait_sites:ensure(),
        ?assertMatch({match, _}, re:run(Why, "^the probes took longer than [0-9]+ ms, [0-9]+ s ago; "
            "the next try is 30 s after that$")),
        {ok, #{engine := portable, engine_reason := Reason}} = flame_prof_waits:look(#{}),
        ?assertMatch({match, _}, re:run(Reason, "the probes took longer")),
        waiting:eventually(fun() -> Failed(31), flame_prof_wait_sites:ensure() =:= ok end),
        true = is_binary(flame_prof_nif:value(sites))
    after ok = flame_prof_nif:value_take(Value)
    end.

who_holds_a_global_lock_is_told(_Config) ->
    Self = self(),
    Holder = spawn_link(fun() ->
        true = global:set_lock({a_held_resource, self()}, [node()]),
        Self ! {held, self()},
        receive free -> global:del_lock({a_held_resource, self()}, [node()]) end
    end),
    receive {held, Holder} -> ok end,
    Locker = spawn_link(fun() -> global:set_lock({a_held_resource, self()}, [node()]) end),
    #{edges := [Edge]} = waiting:found(fun() ->
        case look_of(Locker) of #{edges := [#{how := lock} | _]} = Look -> Look; _ -> false end
    end),
    ?assertMatch(#{to := Holder, tag := {atom, a_held_resource}}, Edge),
    Holder ! free,
    unlink(Locker),
    exit(Locker, kill).

%% The server of OTP under the name of a copy of it.
a_copy_of_gen_server_is_probed_as_gen_server(_Config) ->
    case beam_lib:chunks(code:which(gen_server), [abstract_code]) of
        {ok, {_, [{abstract_code, {raw_abstract_v1, Forms}}]}} -> copied(Forms);
        _ -> {skip, "gen_server has no debug information here"}
    end.

copied(Forms) ->
    {ok, p1_server, Beam} = compile:forms(renamed(Forms), [nowarn_unused_type]),
    {module, p1_server} = code:load_binary(p1_server, "p1_server.beam", Beam),
    try
        waiting:eventually(fun() ->
            ok = waits_work:know_sites(),
            has_copy(flame_prof_looks_nif:wait_sites())
        end),
        Self = self(),
        {ok, Server} = p1_server:start(?MODULE, Self, []),
        Caller = spawn(fun() -> {ok, p1_server:call(Server, {get, 1}, infinity)} end),
        receive {called, Server, Caller} -> ok end,
        #{edges := [Edge]} = waiting:found(fun() ->
            case look_of(Caller) of #{edges := [_]} = Look -> Look; _ -> false end
        end),
        ?assertMatch(#{how := call, to := Server, tag := {tuple, get, 2}, ref := {_, _, _}}, Edge),
        {ok, [Served]} = flame_prof_looks_nif:waits_served([Server]),
        %% Not in each release is the callback module in a slot.
        ?assertMatch({Server, call, {tuple, get, 2}, _, Caller, Module} when Module =:= ?MODULE;
            Module =:= none, Served),
        exit(Caller, kill),
        exit(Server, kill)
    after
        true = code:delete(p1_server),
        code:purge(p1_server)
    end.

has_copy({_, true, Sites}) ->
    lists:any(fun({Mfa, Roles, _, _}) ->
        is_tuple(Mfa) andalso element(1, Mfa) =:= p1_server andalso
            lists:keymember(serves, 1, Roles)
    end, Sites);
has_copy(_) -> false.

renamed(gen_server) -> p1_server;
renamed(List) when is_list(List) -> [renamed(Head) || Head <- List];
renamed(Tuple) when is_tuple(Tuple) -> list_to_tuple(renamed(tuple_to_list(Tuple)));
renamed(Other) -> Other.

init(Test) -> {ok, Test}.

handle_call(_, {Caller, _}, Test) ->
    Test ! {called, self(), Caller},
    ok = wait_for_ever(),
    {noreply, Test}.

handle_cast(_, Test) -> {noreply, Test}.

wait_for_ever() ->
    receive never -> ok end.
