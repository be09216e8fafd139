%% Terms as readable traces copy them, against a model that is written in Erlang.
-module(flame_prof_term_copy_tests).

-include_lib("eunit/include/eunit.hrl").

-define(WIDE, #{depth => 32, bytes => 8192, items => 1000}).
-define(ROUNDS, 3000).

copy(Term, Limits) ->
    ok = term_test_nif:load(),
    term_test_nif:copy(Term, maps:merge(?WIDE, Limits)).

what_fits_comes_back_as_it_was_test() ->
    [Port | _] = erlang:ports(),
    [?assertEqual(Term, copy(Term, #{})) || Term <- [
        ok, 'æ', '', [], {}, #{}, <<>>, 0, 255, 256, -1, 1 bsl 59, -(1 bsl 59), 1 bsl 62,
        -(1 bsl 63), (1 bsl 64) - 1, 0.0, -1.5, 1.0e300, self(), Port, "text", [a | b],
        [1, [2, [3]] | c], {{{{{}}}}}, <<"bytes">>, #{a => #{b => [c]}, {1, 2} => "x"},
        maps:from_list([{N, N} || N <- lists:seq(1, 200)]), lists:seq(1, 1000),
        list_to_tuple(lists:seq(1, 64)), binary:part(<<"a part of it">>, 2, 4)]].

a_bitstring_that_begins_within_a_byte_is_read_test() ->
    <<_:3, Rest:24/bitstring, _/bitstring>> = <<16#f0f1f2f3f4:40>>,
    ?assertEqual(Rest, copy(Rest, #{})).

what_has_no_bytes_of_its_own_is_a_text_test() ->
    Ref = make_ref(),
    ?assertEqual({'...', text, list_to_binary(ref_to_list(Ref))}, copy(Ref, #{})),
    ?assertEqual({'...', text, <<"fun lists:map/2">>}, copy(fun lists:map/2, #{})),
    {'...', text, <<"#Fun<", _/binary>>} = copy(fun() -> Ref end, #{}).

what_no_number_of_64_bits_holds_is_left_out_test() ->
    [?assertEqual('...', copy(Term, #{})) || Term <- [1 bsl 64, -(1 bsl 63) - 1, <<1:7>>]],
    ?assertEqual([1, '...', 2], copy([1, 1 bsl 100, 2], #{})).

%% In a VM of its own, which a wrong question about such a term ends.
a_native_record_of_otp_29_is_left_out_test_() ->
    case code:ensure_loaded(records) of
        {module, records} -> {timeout, 60, fun a_native_record_is_left_out/0};
        {error, _} -> {"skipped: this release has no native records", []}
    end.

a_native_record_is_left_out() ->
    Expression = "Record = records:create(a_module, a_name, [{a, 1}], #{is_exported => false}), "
        "Limits = #{depth => 32, bytes => 8192, items => 1000}, "
        "Term = [Record, {Record}, #{Record => Record}, fun() -> Record end], "
        "ok = term_test_nif:load(), [A, B, C, {'...', text, _}] = term_test_nif:copy(Term, Limits), "
        "io:format(\"~w\", [{A, B, C}]), halt().",
    Port = peer_vm:start([flame_prof_nif, term_test_nif], Expression),
    ?assertEqual({0, "{'...',{'...'},#{'...' => '...'}}"}, peer_vm:output(Port)).

a_number_of_a_million_bits_takes_no_time_test() ->
    Large = 1 bsl 1000000,
    ?assertEqual(lists:duplicate(1000, '...'), copy(lists:duplicate(1000, Large), #{})).

a_term_as_deep_as_memory_is_bounded_test() ->
    Deep = lists:foldl(fun(_, T) -> {T} end, bottom, lists:seq(1, 1000000)),
    Copy = copy(Deep, #{}),
    ?assertEqual(32, depth(Copy)).

depth({T}) -> 1 + depth(T);
depth('...') -> 0.

a_wide_tuple_that_is_complete_is_a_tuple_test() ->
    [begin
        Tuple = list_to_tuple([N rem 100 || N <- lists:seq(1, Size)]),
        ?assertEqual(Tuple, copy(Tuple, #{}))
    end || Size <- [16, 17, 64, 65, 1000]].

bytes_are_a_limit_test() ->
    {'...', binary, 100000, Begin} = copy(binary:copy(<<"a">>, 100000), #{bytes => 100}),
    ?assert(byte_size(Begin) =< 100 andalso byte_size(Begin) > 80),
    ?assertEqual('...', copy(a, #{bytes => 0})),
    Long = copy(lists:seq(1, 100000), #{bytes => 64}),
    ?assert(length(proper(Long)) < 64).

proper([H | T]) when is_list(T) -> [H | proper(T)];
proper([H | _]) -> [H].

keys_that_are_cut_to_the_same_are_told_as_pairs_test() ->
    Map = #{{{a}, 1} => x, {{b}, 1} => y},
    {'...', map, 2, Pairs} = copy(Map, #{depth => 2}),
    ?assertEqual([{{'...', 1}, x}, {{'...', 1}, y}], lists:sort(Pairs)).

random_terms_within_the_limits_are_whole_test() ->
    _ = rand:seed(exsss, {1, 2, 3}),
    [begin
        Term = small(3),
        ?assertEqual(told(Term, 33, 1001), copy(Term, #{}))
    end || _ <- lists:seq(1, ?ROUNDS)].

random_terms_are_cut_where_the_model_cuts_them_test() ->
    _ = rand:seed(exsss, {4, 5, 6}),
    [begin
        Term = small(5),
        Depth = rand:uniform(5) - 1,
        Items = rand:uniform(4) - 1,
        ?assertEqual(told(Term, Depth, Items), copy(Term, #{depth => Depth, items => Items}))
    end || _ <- lists:seq(1, ?ROUNDS)].

%% Whatever the number of bytes, it is a term, and what there is of it is right.
random_terms_are_cut_anywhere_test() ->
    _ = rand:seed(exsss, {7, 8, 9}),
    [begin
        Term = term(6),
        Bytes = rand:uniform(200) - 1,
        Copy = copy(Term, #{bytes => Bytes}),
        ?assert(begins(Copy, Term)),
        ?assert(erlang:external_size(Copy) < 40 * (Bytes + 20))
    end || _ <- lists:seq(1, ?ROUNDS)].

%% The model.

told(Term, _, _) when is_function(Term); is_reference(Term) -> text(Term);
told(Term, _, _) when is_bitstring(Term), not is_binary(Term) -> '...';
told(Term, _, _) when is_integer(Term), Term >= 1 bsl 64 -> '...';
told(Term, _, _) when is_integer(Term), Term < -(1 bsl 63) -> '...';
told([], _, _) -> [];
told(Term, 0, _) when is_tuple(Term); is_list(Term); is_map(Term) -> '...';
told(Term, Depth, Items) when is_tuple(Term) ->
    case lists:sublist(tuple_to_list(Term), Items) of
        Here when length(Here) =:= tuple_size(Term) ->
            list_to_tuple([told(T, Depth - 1, Items) || T <- Here]);
        Here -> {'...', tuple, tuple_size(Term), [told(T, Depth - 1, Items) || T <- Here]}
    end;
told(Term, Depth, Items) when is_list(Term) -> cells(Term, Items, Depth, Items);
told(Term, Depth, Items) when is_map(Term) ->
    I = maps:iterator(Term),
    Pairs = [{told(K, Depth - 1, Items), told(V, Depth - 1, Items)} || {K, V} <- some(I, Items)],
    Map = maps:from_list(Pairs),
    case map_size(Map) =:= map_size(Term) of
        true -> Map;
        false -> {'...', map, map_size(Term), Pairs}
    end;
told(Term, _, _) -> Term.

cells([H | T], N, Depth, Items) when N > 0 ->
    [told(H, Depth - 1, Items) | cells(T, N - 1, Depth, Items)];
cells([_ | _], 0, _, _) -> '...';
cells(Tail, _, Depth, Items) -> told(Tail, Depth - 1, Items).

some(_, 0) -> [];
some(I, N) ->
    case maps:next(I) of none -> []; {K, V, Next} -> [{K, V} | some(Next, N - 1)] end.

text(Term) -> {'...', text, list_to_binary(io_lib:format("~w", [Term]))}.

begins('...', _) -> true;
begins({'...', text, Text}, Term) -> {'...', text, Text} =:= text(Term);
begins({'...', tuple, N, Here}, Term) ->
    tuple_size(Term) =:= N andalso length(Here) =< N andalso all(Here, tuple_to_list(Term));
begins({'...', map, N, Pairs}, Term) -> map_size(Term) =:= N andalso length(Pairs) =< N;
begins({'...', binary, N, Here}, Term) ->
    byte_size(Term) =:= N andalso binary:longest_common_prefix([Here, Term]) =:= byte_size(Here);
begins([H | T], [Head | Tail]) -> begins(H, Head) andalso begins(T, Tail);
begins(Copy, Term) when is_tuple(Copy), is_tuple(Term) ->
    tuple_size(Copy) =:= tuple_size(Term) andalso all(tuple_to_list(Copy), tuple_to_list(Term));
begins(Copy, Term) when is_map(Copy) -> map_size(Copy) =:= map_size(Term);
begins(Copy, Term) -> Copy =:= Term.

all(Here, Terms) ->
    lists:all(fun({C, T}) -> begins(C, T) end, lists:zip(Here, lists:sublist(Terms, length(Here)))).

%% Of which the bytes are no limit.
small(N) ->
    Term = term(N),
    case erlang:external_size(Term) < 1500 of true -> Term; false -> small(N) end.

term(0) -> leaf(rand:uniform(12));
term(N) ->
    case rand:uniform(8) of
        1 -> list_to_tuple(terms(N - 1));
        2 -> terms(N - 1);
        3 -> terms(N - 1) ++ leaf(rand:uniform(12));
        4 -> maps:from_list([{term(N - 1), term(N - 1)} || _ <- lists:seq(1, rand:uniform(4))]);
        5 -> maps:from_list([{I, leaf(1)} || I <- lists:seq(1, rand:uniform(40))]);
        6 -> terms(N - 1);
        7 -> {term(N - 1), term(N - 1)};
        _ -> leaf(rand:uniform(12))
    end.

terms(N) -> [term(N) || _ <- lists:seq(1, rand:uniform(5) - 1)].

leaf(1) -> rand:uniform(1000) - 500;
leaf(2) -> (rand:uniform(1 bsl 64) - (1 bsl 63)) bsl rand:uniform(3);
leaf(3) -> lists:nth(rand:uniform(4), [a, 'B c', true, 'æøå']);
leaf(4) -> self();
leaf(5) -> rand:normal();
leaf(6) -> rand:bytes(rand:uniform(100) - 1);
leaf(7) -> make_ref();
leaf(8) -> fun lists:append/1;
leaf(9) -> fun() -> ok end;
leaf(10) -> [];
leaf(11) -> <<1:3>>;
leaf(12) -> <<_:1, Part:16/bitstring, _/bitstring>> = rand:bytes(4), Part.
