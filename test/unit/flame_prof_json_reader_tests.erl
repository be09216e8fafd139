%% JSON that is read: what RFC 8259 takes is taken, what it does not is refused with the place.
%% The cases are written after the ideas of JSONTestSuite; none of its files is here.
-module(flame_prof_json_reader_tests).

-include_lib("eunit/include/eunit.hrl").

-import(flame_prof_json_reader, [decode/1, decode/2]).

what_the_rfc_has_is_read_test_() ->
    [{Text, ?_assertEqual({ok, Wanted}, decode(unicode:characters_to_binary(Text)))}
     || {Text, Wanted} <- [{"null", undefined}, {" true\n", true}, {"\t[ ]\r\n", []}, {"{}", #{}},
            {"[false,[[]],{}]", [false, [[]], #{}]},
            {"{\"a\" : 1 , \"b\":[2]}", #{<<"a">> => 1, <<"b">> => [2]}},
            {"{\"\":0}", #{<<>> => 0}}, {"{\"a\":1,\"a\":2}", #{<<"a">> => 2}}, {"\"\"", <<>>},
            {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", <<"\"\\/\b\f\n\r\t">>},
            {"\"\\u0041\\u00e9\\u20AC\"", <<"A", 16#e9/utf8, 16#20ac/utf8>>},
            {"\"\\uD834\\uDD1E\"", <<16#1d11e/utf8>>}, {"\"\\u0000\"", <<0>>},
            {[$", 16#e4, 16#20ac, 16#1d11e, 127, $"],
                <<16#e4/utf8, 16#20ac/utf8, 16#1d11e/utf8, 127>>},
            {"[0,-0,10,-12]", [0, 0, 10, -12]},
            {"123456789012345678901234567890", 123456789012345678901234567890},
            {"[1.5,-0.25,1e2,1E+2,2e-1,0e0,1.5e3]", [1.5, -0.25, 100.0, 100.0, 0.2, 0.0, 1500.0]},
            {"1e-400", 0.0}]].

what_it_does_not_have_is_refused_with_the_place_test_() ->
    [{lists:flatten(io_lib:format("~p", [Text])), fun() ->
        {error, Why} = decode(Text),
        ?assertMatch({match, _}, re:run(Why, Wanted))
    end}
     || {Text, Wanted} <- [{<<>>, "^byte 0: a value"}, {<<"  ">>, "^byte 2: a value"},
            {<<16#ef, 16#bb, 16#bf, "1">>, "^byte 0: a value"}, {<<"[1,]">>, "^byte 3: a value"},
            {<<"[,1]">>, "^byte 1: a value"}, {<<"[1 2]">>, "^byte 3: a comma or ]"},
            {<<"[1">>, "^byte 2: a comma or ]"}, {<<"1 2">>, "^byte 2: nothing may follow"},
            {<<"[]]">>, "^byte 2: nothing may follow"}, {<<"nullx">>, "nothing may follow"},
            {<<"nul">>, "a value"}, {<<"True">>, "a value"}, {<<"NaN">>, "a value"},
            {<<"Infinity">>, "a value"}, {<<"{">>, "a name in quotation marks"},
            {<<"{a:1}">>, "^byte 1: a name in quotation marks"},
            {<<"{'a':1}">>, "a name in quotation marks"},
            {<<"{\"a\":1,}">>, "^byte 7: a name in quotation marks"}, {<<"{\"a\" 1}">>, "a colon"},
            {<<"{\"a\":1 \"b\":2}">>, "a comma or }"}, {<<"[1]// x">>, "nothing may follow"},
            {<<"\"a">>, "a string does not end"}, {<<"\"a\\">>, "a string does not end"},
            {<<"\"a\nb\"">>, "^byte 2: a control character"}, {<<"\"\\x41\"">>, "no such escape"},
            {<<"\"\\u12\"">>, "four hexadecimal"}, {<<"\"\\u12g4\"">>, "four hexadecimal"},
            {<<"\"\\u+123\"">>, "four hexadecimal"}, {<<"\"\\ud800\"">>, "half of a surrogate"},
            {<<"\"\\udc00\\ud800\"">>, "half of a surrogate"},
            {<<"\"\\ud800\\u0041\"">>, "half of a surrogate"},
            {<<"\"", 255, "\"">>, "^byte 1: it is not UTF-8"},
            {<<"\"", 16#c0, 16#80, "\"">>, "not UTF-8"},
            {<<"\"", 16#ed, 16#a0, 16#80, "\"">>, "not UTF-8"}, {<<"-">>, "a digit"},
            {<<"+1">>, "a value"}, {<<"01">>, "^byte 1: nothing may follow"},
            {<<"-01">>, "nothing may follow"}, {<<".5">>, "a value"}, {<<"1.">>, "a digit"},
            {<<"1.e1">>, "a digit"}, {<<"1e">>, "a digit"}, {<<"1e+">>, "a digit"},
            {<<"0x1">>, "nothing may follow"}, {<<"1e400">>, "a number is too large"},
            {<<0>>, "a value"}, {<<"[1]", 0>>, "nothing may follow"},
            {<<"[1,", 16#a0/utf8, "2]">>, "a value"}]].

what_is_too_much_is_refused_test() ->
    Deep = fun(N) -> iolist_to_binary([lists:duplicate(N, $[), lists:duplicate(N, $])]) end,
    ?assertMatch({ok, [[_]]}, decode(Deep(64))),
    ?assertMatch({error, <<"byte 64: it is nested", _/binary>>}, decode(Deep(65))),
    ?assertMatch({error, <<"byte 64: it is nested", _/binary>>},
        decode(binary:copy(<<"[">>, 1000000))),
    ?assertMatch({error, _}, decode(<<"{\"a\":{}}">>, #{depth => 1})),
    ?assertMatch({ok, _}, decode(<<"[1]">>, #{bytes => 3})),
    ?assertMatch({error, <<"it has 4 bytes", _/binary>>}, decode(<<"[12]">>, #{bytes => 3})),
    ?assertMatch({error, <<"byte 0: a number has too many", _/binary>>},
        decode(binary:copy(<<"9">>, 1000000))).

%% Whatever is written is read again.
what_is_written_is_read_test() ->
    Term = #{<<"a">> => [1, -2.5e100, <<"x\n\"\\", 0, 16#1d11e/utf8>>, true, undefined, []],
        <<>> => #{<<"b">> => #{}}},
    Text = iolist_to_binary(flame_prof_json:encode(Term)),
    ?assertEqual({ok, Term}, decode(Text)),
    Whole = byte_size(Text),
    [?assertMatch({error, _}, decode(binary:part(Text, 0, N))) || N <- lists:seq(0, Whole - 1)].
