%% `flame_prof mcp' as a program that starts it sees it: lines in, lines out, processes and what is
%% left behind. What it answers is tested in flame_prof_mcp_tests, and by tools/test_mcp.sh.
-module(flame_prof_mcp_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    every_line_is_answered_by_lines_of_the_protocol/1, it_ends_with_its_input/1,
    it_is_refused_on_its_command_line/1, a_node_is_as_it_was_when_it_has_ended/1,
    what_runs_ends_with_it/1, a_node_with_flame_prof_of_its_own/1,
    a_node_that_goes_is_told_and_tried_again/1, a_node_that_cannot_be_reached_is_told/1]).

-import(command_line, [shell/1, script/0, start_node/1, stop_node/1, until/1, call/4]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> native_node:cases(?MODULE).

init_per_suite(Config) ->
    case flame_prof_engine:choose(native) of
        {ok, _} -> Config;
        {error, Reason} -> {skip, unicode:characters_to_list(flame_prof:format_error(Reason))}
    end.

end_per_suite(_Config) -> ok.

server(Args) ->
    Port = open_port({spawn_executable, script()},
        [{args, ["mcp" | Args]}, {line, 1 bsl 24}, binary, exit_status,
            {env, [{"ERL_LIBS", false}, {"ERL_FLAGS", false}, {"LC_ALL", "C.UTF-8"}]}]),
    #{<<"serverInfo">> := #{<<"name">> := <<"flame_prof">>}} = result(ask(Port, 0, initialize,
        #{'protocolVersion' => <<"2025-06-18">>, capabilities => #{},
            'clientInfo' => #{name => <<"suite">>, version => <<"1">>}})),
    Port.

server_of(#{name := Name}) -> server([Name, "--cookie", command_line:cookie()]).

%% As a program ends it: its input is closed.
ended(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    true = port_close(Port),
    until(fun() -> not filelib:is_dir("/proc/" ++ integer_to_list(Pid)) end).

send(Port, Id, Method, Params) ->
    Request = #{jsonrpc => <<"2.0">>, id => Id, method => Method, params => Params},
    line(Port, flame_prof_json:encode(Request)).

line(Port, Text) ->
    true = port_command(Port, [Text, "\n"]),
    ok.

%% Whatever else is on its output fails here.
read(Port) ->
    receive
        {Port, {data, {eol, Line}}} ->
            {ok, #{<<"jsonrpc">> := <<"2.0">>} = Answer} = flame_prof_json_reader:decode(Line),
            Answer;
        {Port, Other} -> error({not_a_line, Other})
    end.

ask(Port, Id, Method, Params) ->
    ok = send(Port, Id, Method, Params),
    read(Port).

result(#{<<"result">> := Result}) -> Result.

tool(Port, Id, Name, Arguments) ->
    result(ask(Port, Id, 'tools/call', #{name => Name, arguments => Arguments})).

text(#{<<"content">> := [#{<<"type">> := <<"text">>, <<"text">> := Text}]}) -> Text.
with_plain(Fun) -> command_line:with_shared({start_node, [[]]}, Fun).

with_prepared(Fun) ->
    command_line:with_node(start_node, [["-pa", command_line:ebin()]],
        fun(Node, _) -> Fun(Node) end).

recordings(#{pid := Pid}) -> filelib:wildcard("/tmp/flame_prof." ++ Pid ++ ".*").

every_line_is_answered_by_lines_of_the_protocol(_) ->
    Port = server([]),
    [begin
        ok = line(Port, Text),
        ?assertMatch(#{<<"error">> := #{<<"code">> := Code}}, read(Port))
    end
     || {Text, Code} <- [{"{", -32700}, {<<255, 254>>, -32700}, {"[]", -32600}, {"{}", -32600},
            {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nix\"}", -32601},
            {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}", -32602}]],
    %% With the other end of a line.
    ok = line(Port, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\"}\r"),
    ?assertMatch(#{<<"id">> := <<"x">>, <<"result">> := _}, read(Port)),
    %% Of any length.
    ok = line(Port, binary:copy(<<"[">>, 900000)),
    ?assertMatch(#{<<"error">> := #{<<"code">> := -32700}}, read(Port)),
    ok = line(Port, binary:copy(<<"x">>, 5000000)),
    #{<<"error">> := #{<<"message">> := <<"the line is too long">>}} = read(Port),
    ?assertMatch(#{<<"id">> := 7, <<"result">> := _}, ask(Port, 7, ping, #{})),
    ok = ended(Port).

it_ends_with_its_input(_) ->
    {0, <<>>} = shell([script(), " mcp </dev/null"]),
    {0, Pong} = shell(["echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}' | ", script(), " mcp"]),
    ?assertEqual({ok, #{<<"jsonrpc">> => <<"2.0">>, <<"id">> => 1, <<"result">> => #{}}},
        flame_prof_json_reader:decode(Pong)).

it_is_refused_on_its_command_line(_) ->
    {2, _} = shell([script(), " mcp --port 9100 </dev/null 2>&1"]),
    {2, _} = shell([script(), " mcp --nix </dev/null 2>&1"]).

a_node_is_as_it_was_when_it_has_ended(_) ->
    with_plain(fun(Node) ->
        Port = server_of(Node),
        [?assertMatch(#{<<"isError">> := false}, tool(Port, Id, Name, Arguments))
            || {Id, Name, Arguments} <- [{1, top, #{}}, {2, pstack, #{processes => [<<"busy">>]}},
                {3, waits, #{}}, {4, mailbox, #{process => <<"busy">>}}, {5, memory, #{}},
                {6, xray, #{process => <<"code_server">>}}, {7, doctor, #{seconds => 6}}]],
        Hot = tool(Port, 8, hot, #{seconds => 1}),
        {match, _} = re:run(text(Hot), "samples"),
        #{<<"structuredContent">> := #{<<"all_samples">> := All}} = Hot,
        ?assert(All > 0),
        %% A recording is removed at once: what is lent has a folder, and no file is in it.
        ?assertEqual([], [F || Folder <- recordings(Node), F <- filelib:wildcard(Folder ++ "/*")]),
        ok = ended(Port)
    end).

%% Its program ends in the middle of a recording.
what_runs_ends_with_it(_) ->
    with_plain(fun(#{node := Name} = Node) ->
        Port = server_of(Node),
        ok = send(Port, 1, 'tools/call', #{name => hot, arguments => #{seconds => 30}}),
        until(fun() -> is_pid(call(Name, erlang, whereis, [flame_prof_session])) end),
        ok = ended(Port)
    end).

%% A recording is refused beside its session, which goes on. Without one it is recorded as any node.
a_node_with_flame_prof_of_its_own(Config) ->
    with_prepared(fun(#{node := Name} = Node) ->
        Options = #{dir => filename:join(proplists:get_value(priv_dir, Config), "own")},
        {ok, Session} = call(Name, flame_prof, start, [Options]),
        Port = server_of(Node),
        ?assertMatch(#{<<"isError">> := true}, tool(Port, 1, hot, #{seconds => 1})),
        ?assertMatch(#{<<"isError">> := false}, tool(Port, 2, waits, #{})),
        %% Of that session's files.
        #{<<"isError">> := false, <<"structuredContent">> := #{<<"looked_at">> := Looked}} =
            tool(Port, 3, doctor, #{seconds => 6}),
        ?assertMatch(#{<<"node">> := _, <<"observations">> := N} when N > 0, Looked),
        ?assertEqual(Session, call(Name, erlang, whereis, [flame_prof_session])),
        ?assertEqual([], recordings(Node)),
        {ok, #{files := [_]}} = call(Name, flame_prof, stop, []),
        ?assertMatch(#{<<"isError">> := false}, tool(Port, 4, hot, #{seconds => 1})),
        ?assertEqual([], recordings(Node)),
        ?assertEqual(undefined, call(Name, erlang, whereis, [flame_prof_session])),
        %% One that is cancelled goes, too.
        ok = send(Port, 5, 'tools/call', #{name => hot, arguments => #{seconds => 30}}),
        until(fun() -> is_pid(call(Name, erlang, whereis, [flame_prof_session])) end),
        ok = line(Port, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
            "\"params\":{\"requestId\":5}}"),
        until(fun() -> recordings(Node) =:= []
            andalso call(Name, erlang, whereis, [flame_prof_session]) =:= undefined end),
        ?assertMatch(#{<<"id">> := 6, <<"result">> := _}, ask(Port, 6, ping, #{})),
        ok = ended(Port)
    end).

a_node_that_goes_is_told_and_tried_again(_) ->
    #{name := Name} = First = start_node([]),
    Port = server_of(First),
    ?assertMatch(#{<<"isError">> := false}, tool(Port, 1, memory, #{})),
    stop_node(First),
    #{<<"isError">> := true} = Gone = tool(Port, 2, memory, #{}),
    {match, _} = re:run(text(Gone), Name),
    Second = command_line:start_again(First),
    try
        until(fun() -> maps:get(<<"isError">>, tool(Port, erlang:unique_integer([positive]) + 10,
            memory, #{})) =:= false end)
    after stop_node(Second)
    end,
    ok = ended(Port).

a_node_that_cannot_be_reached_is_told(_) ->
    ok = command_line:is_distributed(),
    Port = server(["--cookie", "x"]),
    Answer = tool(Port, 1, memory, #{node => <<"nobody@127.0.0.1">>}),
    ?assertMatch(#{<<"isError">> := true}, Answer),
    {match, _} = re:run(text(Answer), "nobody@127.0.0.1"),
    ?assertMatch(#{<<"isError">> := true}, tool(Port, 2, memory, #{node => <<"no body">>})),
    Short = tool(Port, 3, memory, #{node => <<"nobody@here">>}),
    {match, _} = re:run(text(Short), "nobody@here: it has a short name"),
    ok = ended(Port).
