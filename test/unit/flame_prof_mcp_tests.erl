%% The Model Context Protocol without a node: what each line of a client is answered. The oracle is
%% the protocol's text: names and numbers are written here again.
-module(flame_prof_mcp_tests).

-include_lib("eunit/include/eunit.hrl").

initialize() ->
    #{jsonrpc => <<"2.0">>, id => 0, method => initialize,
    params => #{'protocolVersion' => <<"2025-06-18">>, capabilities => #{},
        'clientInfo' => #{name => x, version => <<"1">>}}}.

new() -> flame_prof_mcp:new(<<"0.0.1">>, [<<"shop@here">>, <<"shop@there">>]).
begun() -> begun(<<"2025-06-18">>).

begun(Protocol) ->
    #{params := Params} = initialize(),
    Asked = (initialize())#{params := Params#{'protocolVersion' := Protocol}},
    {_, State} = said(Asked, new()),
    State.

%% The answers, read, and the other actions.
said(Text, State) when is_binary(Text) -> read(flame_prof_mcp:received(Text, State));
said(Message, State) -> said(iolist_to_binary(flame_prof_json:encode(Message)), State).

read({Actions, State}) -> {[sent(Action) || Action <- Actions], State}.

sent({send, Text}) ->
    Line = iolist_to_binary(Text),
    %% One line.
    ?assertEqual([byte_size(Line) - 1], [At || {At, 1} <- binary:matches(Line, <<"\n">>)]),
    {ok, Answer} = flame_prof_json_reader:decode(Line),
    Answer;
sent(Action) -> Action.

request(Id, Method) -> request(Id, Method, #{}).
request(Id, Method, Params) ->
    #{jsonrpc => <<"2.0">>, id => Id, method => Method, params => Params}.

call(Id) -> call(Id, #{}).
call(Id, Arguments) -> request(Id, 'tools/call', #{name => memory, arguments => Arguments}).

cancel(Id) ->
    #{jsonrpc => <<"2.0">>, method => 'notifications/cancelled', params => #{'requestId' => Id}}.

%% What a message is refused with, and of which request.
refused(Message) -> refused(Message, begun()).
refused(Message, State) ->
    {[#{<<"id">> := Id, <<"error">> := #{<<"code">> := Code, <<"message">> := Why}}], _} =
        said(Message, State),
    {Id, Code, Why}.

answered(Id, Answer, State) -> read(flame_prof_mcp:answered(Id, Answer, State)).

the_version_is_negotiated_test_() ->
    [{Asked, fun() ->
        #{params := Params} = initialize(),
        {[#{<<"id">> := 0, <<"result">> := Result}], _} =
            said((initialize())#{params := Params#{'protocolVersion' := list_to_binary(Asked)}},
                new()),
        ?assertMatch(#{<<"protocolVersion">> := Got, <<"capabilities">> := #{<<"tools">> := _},
            <<"serverInfo">> := #{<<"name">> := <<"flame_prof">>, <<"version">> := <<"0.0.1">>}}
            when Got =:= Told, Result)
    end}
     || {Asked, Told} <- [{"2024-11-05", <<"2024-11-05">>}, {"2025-03-26", <<"2025-03-26">>},
            {"2025-06-18", <<"2025-06-18">>}, {"2099-01-01", <<"2025-06-18">>}]].

initialize_comes_first_and_once_test() ->
    ?assertMatch({1, -32600, _}, refused(request(1, 'tools/list'), new())),
    ?assertMatch({1, -32600, _}, refused(call(1), new())),
    ?assertMatch({1, -32602, _}, refused(request(1, initialize), new())),
    ?assertMatch({0, -32600, _}, refused(initialize())),
    ?assertMatch({[#{<<"id">> := 1, <<"result">> := Empty}], _} when Empty =:= #{},
        said(request(1, ping), new())).

what_is_no_request_is_refused_test_() ->
    [{lists:flatten(io_lib:format("~p", [Text])), fun() ->
        {Of, With, Why} = refused(Text),
        ?assertEqual({Id, Code}, {Of, With}),
        ?assertNotEqual(<<>>, Why)
    end}
     || {Text, Id, Code} <- [{<<"{">>, undefined, -32700},
            {<<"nix">>, undefined, -32700},
            {<<"\"", 255, "\"">>, undefined, -32700},
            {<<255>>, undefined, -32700},
            {<<"1">>, undefined, -32600},
            {<<"[]">>, undefined, -32600},
            {<<"{}">>, undefined, -32600},
            {<<"{\"id\":1,\"method\":\"ping\"}">>, undefined, -32600},
            {<<"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}">>, undefined, -32600},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":2}">>, undefined, -32600},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}">>, undefined, -32600},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}">>, undefined, -32600},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}">>, undefined, -32600},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nix\"}">>, 1, -32601},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"prompts/list\"}">>, <<"a">>, -32601},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":[]}">>, 1,
                -32602},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}">>, 1, -32602},
            {<<"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":[\"top\"]}">>, 1,
                -32602}]].

no_answer_to_what_asks_nothing_test() ->
    [?assertMatch({[], _}, said(Text, begun()))
     || Text <- [<<>>, <<" \r">>,
            <<"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}">>,
            <<"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/nix\"}">>,
            <<"{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}">>,
            <<"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}">>,
            <<"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}">>]],
    ?assertMatch({[], _}, said(cancel(77), begun())),
    ?assertMatch({[], _}, said(cancel(#{}), begun())).

every_tool_reads_only_and_describes_its_arguments_test() ->
    {[#{<<"result">> := #{<<"tools">> := Tools}}], _} = said(request(1, 'tools/list'), begun()),
    ?assertEqual([<<"binaries">>, <<"doctor">>, <<"hot">>, <<"mailbox">>, <<"memory">>,
        <<"pstack">>, <<"tables">>, <<"top">>, <<"waits">>, <<"xray">>], lists:sort([Name || #{<<"name">> := Name} <- Tools])),
    [begin
        #{<<"description">> := About, <<"inputSchema">> := Schema,
            <<"annotations">> := Annotations} = Tool,
        ?assertMatch(#{<<"readOnlyHint">> := true, <<"destructiveHint">> := false}, Annotations),
        ?assertMatch({match, _}, re:run(About, "Costs ")),
        #{<<"type">> := <<"object">>, <<"properties">> := Properties,
            <<"required">> := Required, <<"additionalProperties">> := false} = Schema,
        ?assertEqual([], Required -- maps:keys(Properties)),
        [?assertMatch(#{<<"type">> := _, <<"description">> := _}, Property)
            || Property <- maps:values(Properties)]
    end || Tool <- Tools].

a_node_is_needed_where_none_was_given_test() ->
    {ok, #{node := "shop@here"}} =
        flame_prof_mcp_tools:checked(<<"memory">>, #{}, [<<"shop@here">>]),
    {ok, #{node := "a@b"}} =
        flame_prof_mcp_tools:checked(<<"memory">>, #{<<"node">> => <<"a@b">>}, []),
    {error, Missing} = flame_prof_mcp_tools:checked(<<"memory">>, #{}, []),
    ?assertEqual(<<"node is missing">>, iolist_to_binary(Missing)),
    {error, Other} = flame_prof_mcp_tools:checked(<<"memory">>, #{<<"node">> => <<"a@b">>},
        [<<"shop@here">>, <<"shop@there">>]),
    ?assertEqual(<<"node: it takes one of: shop@here, shop@there">>, iolist_to_binary(Other)).

arguments_are_options_of_the_command_test() ->
    Checked = fun(Name, Arguments) ->
        {ok, #{arguments := Of, options := Options}} =
            flame_prof_mcp_tools:checked(Name, Arguments, [<<"n@h">>]),
        {Of, Options}
    end,
    ?assertEqual({["my_server"], #{senders => 3, time_limit => 1500}},
        Checked(<<"mailbox">>, #{<<"process">> => <<"my_server">>, <<"senders">> => 3,
            <<"seconds">> => 1.5})),
    ?assertEqual({[], #{for => 6500}}, Checked(<<"doctor">>, #{<<"seconds">> => 6.5})),
    ?assertEqual({["a", "<0.1.0>"], #{}},
        Checked(<<"pstack">>, #{<<"processes">> => [<<"a">>, <<"<0.1.0>">>]})),
    ?assertEqual({[], #{by => memory, filter => [16#e4], every => 2000}},
        Checked(<<"top">>, #{<<"by">> => <<"memory">>, <<"filter">> => <<16#e4/utf8>>,
            <<"seconds">> => 2})),
    ?assertEqual({[], #{for => 5000, mode => cpu, by => <<"reductions">>, idle => true}},
        Checked(<<"hot">>, #{<<"seconds">> => 5, <<"mode">> => <<"cpu">>,
            <<"by">> => <<"reductions">>, <<"idle">> => true})),
    ?assertEqual({[], #{by => samples}}, Checked(<<"hot">>, #{<<"by">> => <<"samples">>})).

wrong_arguments_are_named_with_what_is_accepted_test_() ->
    [{Wanted, fun() ->
        {1, -32602, Why} =
            refused(request(1, 'tools/call', #{name => Name, arguments => Arguments})),
        ?assertMatch({match, _}, re:run(Why, Wanted))
    end}
     || {Name, Arguments, Wanted} <- [{nix, #{}, "there is no tool nix"},
            {top, [], "arguments is an object"},
            {top, #{nix => 1}, "nix: unknown argument; there are: node, seconds, by"},
            {top, #{top => 0}, "top: it takes a whole number from 1 to 200"},
            {top, #{top => 1.5}, "top: it takes a whole number"},
            {top, #{top => <<"3">>}, "top: it takes a whole number"},
            {top, #{by => <<"age">>}, "by: it takes one of: reductions, memory"},
            {top, #{by => 1}, "by: it takes one of"},
            {top, #{filter => binary:copy(<<"x">>, 501)}, "filter: it takes a text of at most 500"},
            {mailbox, #{}, "process is missing"},
            {mailbox, #{process => <<>>}, "process: it takes a text"},
            {mailbox, #{process => undefined}, "process: it takes a text"},
            {pstack, #{processes => <<"a">>}, "processes: it takes a list of at most 100"},
            {pstack, #{processes => [1]}, "processes: it takes a list"},
            {pstack, #{processes => lists:duplicate(101, <<"a">>)}, "a list of at most 100"},
            {doctor, #{seconds => 5}, "seconds: it takes a number from 6 to 30"},
            {doctor, #{engine => 1}, "engine: unknown argument; there are: node, seconds"},
            {hot, #{seconds => 31}, "seconds: it takes a number from 1 to 30"},
            {hot, #{seconds => -1}, "seconds: it takes a number"},
            {xray, #{process => <<"a">>, max_memory => 201}, "max_memory: .* from 16 to 200"},
            {hot, #{idle => 1}, "idle: it takes true or false"},
            {hot, #{mode => <<"trace">>}, "mode: it takes one of: processes, schedulers, cpu"},
            {memory, #{node => <<"other@here">>}, "node: it takes one of: shop@here, shop@there"}]].

%% What a tool answers, and what its command refuses with.
a_look_is_text_and_json_and_an_error_its_sentence_test() ->
    {[{start, 1, #{command := memory, node := "shop@here"}}], State} = said(call(1), begun()),
    {[#{<<"id">> := 1, <<"result">> := Result}], _} =
        answered(1, {ok, #{text => ["a\n", <<"b">>], json => "{\"c\":[1]}"}}, State),
    ?assertEqual(#{<<"content">> => [#{<<"type">> => <<"text">>, <<"text">> => <<"a\nb">>}],
        <<"structuredContent">> => #{<<"c">> => [1]}, <<"isError">> => false}, Result),
    {[#{<<"result">> := Error}], _} = answered(1, {error, "no node"}, State),
    ?assertEqual(#{<<"content">> => [#{<<"type">> => <<"text">>, <<"text">> => <<"no node">>}],
        <<"isError">> => true}, Error).

%% Four run, the others wait in their order, and there is an end to that.
calls_are_bounded_test() ->
    {Begun, Full} = many(lists:seq(1, 36), begun()),
    ?assertEqual([1, 2, 3, 4], [Id || {start, Id, _} <- Begun]),
    ?assertEqual(4, length(Begun)),
    {[#{<<"id">> := 37, <<"result">> := #{<<"isError">> := true}}], _} = said(call(37), Full),
    {[#{<<"id">> := 38, <<"result">> := _}], _} = said(request(38, ping), Full),
    {[#{<<"id">> := 2}, {start, 5, _}], Next} = answered(2, {error, "x"}, Full),
    {[#{<<"id">> := 5}, {start, 6, _}], _} = answered(5, {error, "x"}, Next).

many(Ids, State) ->
    lists:foldl(fun(Id, {Before, Between}) ->
        {Actions, After} = said(call(Id), Between),
        {Before ++ Actions, After}
    end, {[], State}, Ids).

an_id_is_of_one_call_test() ->
    {[{start, 1, _}], State} = said(call(1), begun()),
    ?assertMatch({1, -32600, _}, refused(call(1), State)),
    {_, Free} = answered(1, {error, "x"}, State),
    ?assertMatch({[{start, 1, _}], _}, said(call(1), Free)),
    %% Not the same.
    ?assertMatch({[{start, <<"1">>, _}], _}, said(call(<<"1">>), State)).

what_is_cancelled_ends_and_makes_room_test() ->
    {_, State} = many(lists:seq(1, 6), begun()),
    {Stopped, Next} = said(cancel(2), State),
    ?assertMatch([{stop, 2}, {start, 5, _}], Stopped),
    %% One that waited has nothing to be stopped.
    {[], Fewer} = said(cancel(6), Next),
    {[#{<<"id">> := 1}], Last} = answered(1, {error, "x"}, Fewer),
    ?assertMatch({[], _}, said(cancel(2), Last)),
    ?assertMatch({[{start, 2, _}], _}, said(call(2), Last)).

%% Of the one version that has them: one answer with all, when all are there.
a_batch_is_answered_at_once_test() ->
    State = begun(<<"2025-03-26">>),
    {[[#{<<"id">> := 1}, #{<<"id">> := undefined}, #{<<"id">> := 2}]], _} =
        said([request(1, ping), #{}, cancel(9), request(2, ping)], State),
    {[], _} = said([cancel(9)], State),
    {Begun, Waits} = said([call(1), request(2, ping), call(3), call(4)], State),
    ?assertMatch([{start, 1, _}, {start, 3, _}, {start, 4, _}], Begun),
    {[], Fewer} = answered(3, {error, "x"}, Waits),
    {[{stop, 4}], One} = said(cancel(4), Fewer),
    {[Answers], _} = answered(1, {error, "x"}, One),
    ?assertEqual([1, 2, 3], lists:sort([Id || #{<<"id">> := Id} <- Answers])),
    ?assertMatch({undefined, -32600, _}, refused([request(1, ping)], begun())),
    ?assertMatch({undefined, -32600, _}, refused(lists:duplicate(33, request(1, ping)), State)).

a_line_that_is_not_kept_is_refused_test() ->
    ?assertMatch({[#{<<"id">> := undefined, <<"error">> := #{<<"code">> := -32700}}], _},
        read(flame_prof_mcp:too_long(begun()))).
