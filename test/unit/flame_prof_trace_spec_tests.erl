%% Patterns of readable traces: what they become, what calls they match in the VM's own eyes, and
%% where a refusal points.
-module(flame_prof_trace_spec_tests).

-include_lib("eunit/include/eunit.hrl").

parsed(Spec) ->
    {ok, Parsed} = flame_prof_trace_spec:parse(Spec),
    Parsed.

calls(Spec) -> maps:get(calls, parsed(Spec)).
body(Extra) -> [{message, {{flame_prof_trace, {caller}, []}}} | Extra].

functions_test() ->
    Any = fun(MFA, Extra) -> [{MFA, [{'_', [], body(Extra)}]}] end,
    ?assertEqual(Any({lists, seq, 2}, []), calls("lists:seq/2")),
    ?assertEqual(Any({lists, seq, '_'}, []), calls("lists:seq")),
    ?assertEqual(Any({lists, '_', '_'}, []), calls("lists")),
    ?assertEqual(Any({lists, '_', '_'}, []), calls(lists)),
    ?assertEqual(Any({lists, '_', 2}, []), calls("lists:_/2")),
    ?assertEqual(Any({lists, seq, 2}, [{exception_trace}]), calls(<<"lists:seq/2->return">>)),
    ?assertEqual(Any({lists, seq, 2}, []), calls({lists, seq, 2})),
    ?assertEqual(Any({lists, seq, 2}, [{exception_trace}]),
        calls(#{call => {lists, seq, 2}, return => true})),
    ?assertEqual(Any({'Elixir.My.App', run, 1}, []), calls("Elixir.My.App:run/1")),
    ?assertEqual(Any({'Elixir.My', 'ok?', 1}, []), calls("'Elixir.My':'ok?'/1")),
    ?assertEqual(Any({erlang, 'and', 2}, []), calls("erlang:and/2")),
    ?assertEqual(Any({lists, seq, 2}, []), calls(fun lists:seq/2)).

%% As flame_prof prints them, and as Elixir's captures.
functions_of_elixir_test() ->
    Any = fun(MFA, Extra) -> [{MFA, [{'_', [], body(Extra)}]}] end,
    [?assertEqual({Text, Any(MFA, [])}, {Text, calls(Text)}) || {Text, MFA} <- [
        {"Shop.Cart.add/2", {'Elixir.Shop.Cart', add, 2}},
        {"Elixir.Shop.Cart.add/2", {'Elixir.Shop.Cart', add, 2}},
        {"Shop.Cart:add/2", {'Elixir.Shop.Cart', add, 2}},
        {"Shop.add", {'Elixir.Shop', add, '_'}},
        {"Shop.Cart", {'Elixir.Shop.Cart', '_', '_'}},
        {"Shop.Cart._", {'Elixir.Shop.Cart', '_', '_'}},
        {"Shop.Cart._/2", {'Elixir.Shop.Cart', '_', 2}},
        {"Shop.Cart.add!/2", {'Elixir.Shop.Cart', 'add!', 2}},
        {"Shop.Cart.empty?/1", {'Elixir.Shop.Cart', 'empty?', 1}},
        {"&Shop.Cart.add/2", {'Elixir.Shop.Cart', add, 2}},
        {"&:lists.seq/2", {lists, seq, 2}},
        {fun 'Elixir.Shop.Cart':add/2, {'Elixir.Shop.Cart', add, 2}}]],
    ?assertEqual(Any({'Elixir.Shop.Cart', 'add!', 2}, [{exception_trace}]),
        calls("Shop.Cart.add!/2 -> return")),
    ?assertEqual(calls("'Elixir.Shop.Cart':add(A, 1) when A > 1"),
        calls("Shop.Cart.add(A, 1) when A > 1")),
    [?assertEqual({Text, Column}, {Text, refused_at(Text)}) || {Text, Column} <- [
        {"Shop.Cart add", 11}, {"Shop.2", 6}, {"Shop.Cart.add/300", 15}]].

%% OTP 25 has the whole stack only, whatever its size.
has_stacks() -> list_to_integer(erlang:system_info(otp_release)) >= 27.

a_stack_is_bounded_test() -> has_stacks() andalso a_stack_is_bounded().

a_stack_is_bounded() ->
    [{_, [{_, _, [{message, {{flame_prof_trace, {caller}, {current_stacktrace, 20}}}}]}]}] =
        calls("a:b/1 -> stack"),
    ?assertEqual(calls("a:b/1 -> stack, return"), calls("a:b/1->return;stack")).

%% What the VM matches of some arguments.
matches(Text, Args) ->
    [{{m, f, _}, Spec}] = calls(Text),
    %% The match is asked for, not the actions.
    Plain = [{Head, Guards, [true]} || {Head, Guards, _} <- Spec],
    {ok, Answer, _, _} = erlang:match_spec_test(Args, Plain, trace),
    Answer.

heads_and_guards_match_as_erlang_does_test() ->
    [?assertEqual({Text, Args, Expected}, {Text, Args, matches(Text, Args)})
        || {Text, Args, Expected} <- [{"m:f(A, B) when A < B", [1, 2], true},
            {"m:f(A, B) when A < B", [2, 1], false},
            {"m:f(A, A)", [1, 1], true},
            {"m:f(A, A)", [1, 2], false},
            {"m:f(_, _)", [1, 2], true},
            {"m:f({ok, X}) when is_pid(X)", [{ok, self()}], true},
            {"m:f({ok, X}) when is_pid(X)", [{ok, a}], false},
            {"m:f(#{k := V}) when V =:= v", [#{k => v, other => 1}], true},
            {"m:f(#{k := V}) when V =:= v", [#{k => w}], false},
            {"m:f([H | _]) when H > 1; H =:= one", [[one, x]], true},
            {"m:f([H | _]) when H > 1; H =:= one", [[2, x]], true},
            {"m:f([H | _]) when H > 1; H =:= one", [[0, x]], false},
            {"m:f(<<\"abc\">>, \"str\", $a, -1)", [<<"abc">>, "str", 97, -1], true},
            {"m:f(X) when X =:= {a, [b, 1.5]}", [{a, [b, 1.5]}], true},
            {"m:f(X) when X =:= {a, [b, 1.5]}", [{a, [b, 2.5]}], false},
            {"m:f(X) when element(1, X) =:= user, length(element(2, X)) > 2",
                [{user, "anna"}], true},
            {"m:f(X) when not is_atom(X) andalso (X rem 2 =:= 0 orelse X < -3)", [-5], true},
            {"m:f(X) when not is_atom(X) andalso (X rem 2 =:= 0 orelse X < -3)", [-1], false},
            {"m:f(X) when X =:= '$1'", ['$1'], true},
            {"m:f(X) when X =:= '$1'", [x], false},
            {"m:f(X) when erlang:is_map_key(a, X)", [#{a => 1}], true}]].

many_patterns_are_one_test() ->
    Parsed = parsed(["a:b(1)", "a:b(2) -> return", send, "receive", "exit", link, {c, d, 0}]),
    #{calls := [{{a, b, 1}, [{[1], [], _}, {[2], [], _}]}, {{c, d, 0}, _}], send := [_],
        'receive' := [_], procs := [exit, link], returns := true} = Parsed,
    #{calls := [], send := none, procs := [exit, link, register, spawn], returns := false} =
        parsed(procs).

%% It is the VM that takes them.
messages_test() ->
    ok = tracing(send, "send"),
    ok = tracing(send, "send({ping, N}) when N > 1"),
    ok = tracing(send, "send(To, {ping, _}) when is_pid(To)"),
    ok = tracing('receive', "receive"),
    ok = tracing('receive', "receive({ping, N}) when N > 1; N =:= none"),
    ok = tracing('receive', "receive(From, {ping, X}) when X =:= From"),
    ok = tracing('receive', "receive(_, ping)").

tracing(Event, Text) ->
    #{Event := Spec} = parsed(Text),
    1 = erlang:trace_pattern(Event, Spec, []),
    1 = erlang:trace_pattern(Event, true, []),
    ok.

calls_are_taken_by_the_vm_test() ->
    Stacks = ["lists:seq/2 -> return, stack", "lists:seq(A, B) when A < B -> stack"],
    [begin
        [{MFA, Spec}] = calls(Text),
        ?assert(erlang:trace_pattern(MFA, Spec, [local]) > 0),
        _ = erlang:trace_pattern(MFA, false, [local])
    end || Text <- ["lists:seq/2 -> return", "lists:seq(A, B) when A < B", "lists:nth"]
        ++ [Stack || has_stacks(), Stack <- Stacks]].

without_stacks_they_are_refused_test() ->
    has_stacks() orelse ?assertEqual(14, refused_at("lists:seq -> stack")),
    has_stacks() orelse ?assertEqual(22, refused_at("lists:seq -> return, stack")).

a_match_spec_of_ones_own_test() ->
    Spec = [{['$1'], [], [{message, '$1'}]}],
    ?assertEqual([{{a, b, 1}, Spec}], calls(#{call => {a, b, 1}, match_spec => Spec})),
    ?assertEqual([{{a, b, 1}, [{['$1'], [], [{message, '$1'}, {exception_trace}]}]}],
        calls(#{call => {a, b, 1}, match_spec => Spec, return => true})).

refusals_point_at_the_column_test() ->
    [?assertEqual({Text, Column}, {Text, refused_at(Text)}) || {Text, Column} <- [
        {"lists:seq(A) when B > 1", 19}, {"lists:seq(A -> return", 22}, {"lists:seq/2 foo", 13},
        {"lists:seq/2 -> retrn", 16}, {"lists:seq/2 -> return stack", 23},
        {"lists:seq/2 -> return,", 23}, {"lists:seq/999", 11}, {"lists seq", 7}, {"lists:", 7},
        {"lists:2", 7}, {":seq", 1}, {"_:seq/2", 1}, {"f:g(X) when foo(X)", 13},
        {"f:g(X) when X ! 1", 15}, {"f:g(X) when", 12}, {"f:g(X) when ; X", 16}, {"f:g(X) ->", 10},
        {"f:g(\"abc", unfinished_text()}, {"f:g(X = 1)", 5}, {"f:g(#r{})", 5},
        {"f:g(#{k => X})", 9}, {"f:g('$1')", 5}, {"f:g(h(X))", 5}, {"f:g/1 when X > 1", 12},
        {"send when X", 11}, {"send -> return", 9}, {"send(a, b, c)", 1}]].

refused_at(Text) ->
    {error, {trace_pattern, #{column := Column, pattern := Pattern}} = Reason} =
        flame_prof_trace_spec:parse(Text),
    ?assertEqual(unicode:characters_to_binary(Text), Pattern),
    %% The caret stands below it.
    Lines = string:split(unicode:characters_to_list(flame_prof:format_error(Reason)), "\n", all),
    [_, "  " ++ Text, "  " ++ Caret] = Lines,
    ?assertEqual(lists:duplicate(Column - 1, $\s) ++ "^", Caret),
    Column.

%% Where the scanner says that a text without its end is.
unfinished_text() ->
    case has_stacks() of true -> 6; false -> 5 end.

what_is_no_pattern_is_refused_test() ->
    [?assertMatch({Spec, {error, {trace_pattern, #{reason := _}}}},
        {Spec, flame_prof_trace_spec:parse(Spec)}) || Spec <- [
        "", [], 17, [17], {a, b, c}, {a, b, 256}, {'_', b, 1}, '_', #{},
        #{call => {a, b, 1}, x => 1}, #{call => {a, b, 1}, match_spec => []},
        #{call => {a, b, 1}, match_spec => [x]}, #{call => {a, b, 1}, match_spec => x},
        #{call => {a, b, 1}, match_spec => [{'_', foo, []}]},
        #{call => {a, b, 1}, match_spec => [{'_', [], []}, {'_', []}]},
        #{call => {a, b, 1}, match_spec => [{head, [], []}]},
        #{call => {a, b, 1}, match_spec => [{'_', [], foo}]},
        #{call => {a, b, 1}, match_spec => [{'_', [], [{no_such, 1}]}]},
        #{call => {a, b, 1}, match_spec => [{['$1'], [], [{message, '$2'}]}], return => true},
        lists:append(["Elixir" | lists:duplicate(60, ".Abcde")]) ++ ":f/1",
        "lists:seq(" ++ lists:duplicate(2000, $1) ++ ", 2)",
        #{call => {a, b, 1}, match_spec => [{['$1'], [{no_such, 1}], []}]}, <<255>>,
        ["a:b" | c], [1, 2, 3], fun() -> ok end, "a:b(X) when element(a, b, c)"]].

%% What it would do is not done by the test of it.
a_match_spec_is_not_run_when_it_is_parsed_test() ->
    Spec = [{'_', [], [{silent, true}, {trace, [], [procs]}]}],
    {ok, _} = flame_prof_trace_spec:parse(#{call => {a, b, 1}, match_spec => Spec}),
    ?assertEqual({flags, []}, erlang:trace_info(self(), flags)).

any_text_is_parsed_or_refused_test() ->
    _ = rand:seed(exsss, {10, 11, 12}),
    Parts = ["lists", ":", "seq", "(", ")", "A", "B", ",", "when", "->", "return", "stack", "<",
        "1", "{", "}", "[", "]", "|", "send", "receive", "/", "2", ";", "#", "=", ":=", "\"",
        "'", "is_pid(A)", ".", "<<", "_", "fun", "end", "%", "$", "é"],
    [begin
        Text = lists:append([lists:nth(rand:uniform(length(Parts)), Parts) ++ " "
            || _ <- lists:seq(1, rand:uniform(12))]),
        case flame_prof_trace_spec:parse(Text) of
            {ok, #{calls := _}} -> ok;
            {error, Reason} -> true = is_binary(unicode:characters_to_binary(
                flame_prof:format_error(Reason)))
        end
    end || _ <- lists:seq(1, 20000)].
