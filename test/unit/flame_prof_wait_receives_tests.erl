%% What receives take, against receives that are written here, and the reading of code against the
%% compiler's own disassembler.
-module(flame_prof_wait_receives_tests).

-include_lib("eunit/include/eunit.hrl").

%% The receives of a module with these functions.
receives(Functions) ->
    {ok, Receives} = flame_prof_wait_receives:of_beam(beam(Functions)),
    Receives.

beam(Functions) ->
    Lines = ["-module(receives)." | ["-compile(export_all)." | Functions]],
    Forms = [begin
        {ok, Tokens, _} = erl_scan:string(Line),
        {ok, Form} = erl_parse:parse_form(Tokens),
        Form
    end || Line <- Lines],
    {ok, receives, Beam} = compile:forms(Forms),
    Beam.

takes(Function) ->
    [[Takes]] = maps:values(receives([Function])),
    Takes.

forms(Function) ->
    #{forms := Forms} = takes(Function),
    Forms.

a_receive_that_leaves_no_message_takes_any_test_() ->
    [?_assertEqual(any, takes(Function)) || Function <- ["f(S) -> receive M -> f([M | S]) end.",
        "f(S) -> receive M -> f([M | S]) after 1000 -> f(S) end.",
        "f(S) -> receive stop -> S; {get, F} -> F ! S, f(S); _ -> f(S) end.",
        "f(S) -> receive M when is_pid(M) -> S; {T, _} when T > 2 -> T; M -> [M | S] end."]].

a_receive_without_clauses_waits_for_its_time_out_test() ->
    ?assertEqual(nothing, takes("f() -> receive after 1000 -> ok end, f().")),
    ?assertEqual(nothing, takes("f() -> receive after infinity -> ok end.")).

%% Neither a receive that has not to wait nor a function without one is told.
a_receive_that_never_waits_is_none_test() ->
    ?assertEqual(#{}, receives(["f() -> receive a -> b after 0 -> c end.", "g() -> ok."])).

forms_are_the_first_atom_and_the_size_test() ->
    ?assertEqual([{atom, stop}, {tuple, 'EXIT', 3}, {tuple, get, 3}],
        forms("f(S) -> receive {get, F, _} -> F ! S, f(S); stop -> S; "
            "{'EXIT', _, R} when R =/= normal -> exit(R) end.")),
    ?assertEqual([{atom, a}, {atom, b}, {atom, c}, {atom, d}, {atom, e}],
        forms("f() -> receive A when A =:= a; A =:= b; A =:= c -> A; d -> d; e -> f() end.")),
    ?assertEqual([{tuple, tcp, 3}, {tuple, tcp_closed, 2}],
        forms("f() -> receive {tcp, _, <<A, B:A/binary, _/binary>>} -> B; "
            "{tcp_closed, _} -> ok end.")).

a_form_without_an_atom_is_told_as_that_test() ->
    ?assertEqual([any], forms("f() -> receive 5 -> ok; \"abc\" -> no; #{a := 1} -> f() end.")),
    ?assertEqual([{tuple, any, 0}, {tuple, any, 2}],
        forms("f() -> receive {1, _} -> ok; {} -> no end.")).

%% A message may be taken for what is outside of it: this is a form, and not that it takes all.
a_guard_on_something_else_leaves_messages_test() ->
    ?assertEqual([any], forms("f(S) -> receive _ when S -> ok end.")),
    ?assertEqual([any, {atom, a}], forms("f(S) -> receive a -> b; _ when S > 3 -> c end.")).

%% `only': the one slot that all its messages have something of.
a_reference_in_each_message_is_a_slot_test() ->
    Both = takes("f(P) -> R = monitor(process, P), P ! {R, self()}, "
        "receive {R, X} -> X; {'DOWN', R, _, _, W} -> exit(W) end."),
    ?assertMatch(#{forms := [{tuple, 'DOWN', 5}, {tuple, any, 2}], only := [_], some := [_]}, Both),
    One = takes("f(P) -> R = monitor(process, P), P ! get, "
        "receive {got, X} -> X; {'DOWN', R, _, _, W} -> exit(W) end."),
    ?assertMatch(#{only := [], some := [_]}, One),
    None = takes("f(P) -> R = monitor(process, P), P ! get, "
        "X = receive {got, Y} -> Y end, {R, X}."),
    ?assertMatch(#{only := [], some := []}, None).

a_reference_deep_in_the_message_is_a_slot_test() ->
    ?assertMatch(#{only := [_]},
        takes("f(R) -> self() ! x, receive {ok, {_, R}} -> f(R); [R | _] -> R end.")),
    ?assertMatch(#{only := []},
        takes("f(R) -> self() ! x, receive {ok, {_, R}} -> f(R); [_ | _] -> R end.")).

several_receives_of_a_function_are_told_each_test() ->
    #{{f, 1} := Each} = receives(["f(A) -> receive {a, A} -> receive {b, A} -> ok end end, "
        "receive c -> A end."]),
    ?assertEqual([[{atom, c}], [{tuple, a, 2}], [{tuple, b, 2}]],
        lists:sort([Forms || #{forms := Forms} <- Each])).

where_a_process_may_be_in_any_of_them_only_what_all_say_is_true_test() ->
    A = #{forms => [{atom, a}], only => [1], some => [1, 2]},
    B = #{forms => [{atom, b}], only => [1, 3], some => [1, 3]},
    Merged = fun flame_prof_wait_receives:merged/1,
    ?assertEqual(#{forms => [{atom, a}, {atom, b}], only => [1], some => [1, 2, 3]},
        Merged([A, B])),
    ?assertEqual(any, Merged([any, any])),
    ?assertEqual(unknown, Merged([any, A])),
    ?assertEqual(unknown, Merged([A, nothing])),
    ?assertEqual(A, Merged([A])).

%% What a message may look like, without end.
too_many_ways_are_not_known_test() ->
    Guards = lists:join("; ", [io_lib:format("is_tuple(M), element(~b, M) > 1, "
        "element(~b, M) =/= S", [I, J]) || I <- lists:seq(1, 9), J <- lists:seq(1, 9)]),
    ?assertEqual(unknown, takes(lists:flatten(["f(S) -> receive M when ", Guards, " -> ok end."]))).

%% As many receives as the disassembler finds, in the same functions.
all_modules_of_otp_are_read_test() ->
    Files = lists:append([filelib:wildcard(filename:join(code:lib_dir(App, ebin), "*.beam"))
        || App <- [kernel, stdlib, compiler], is_list(code:lib_dir(App))]),
    ?assert(length(Files) > 150),
    [?assertEqual({File, disassembled(Beam)}, {File, read(Beam)})
        || File <- Files, {ok, Beam} <- [file:read_file(File)]].

read(Beam) ->
    {ok, Functions, _} = flame_prof_wait_code:functions(Beam),
    lists:sort([{F, A, length([x || {23, _} <- Code]), length([x || {Op, _} <- Code,
        Op =:= 25 orelse Op =:= 26])} || {F, A, Code} <- Functions]).

disassembled(Beam) ->
    {beam_file, _, _, _, _, Functions} = beam_disasm:file(Beam),
    lists:sort([{F, A, length([x || {loop_rec, _, _} <- Code]), Waits}
        || {function, F, A, _, Code} <- Functions,
        Waits <- [length([x || Op <- Code, is_tuple(Op), element(1, Op) =:= wait orelse
            element(1, Op) =:= wait_timeout])], Waits > 0]).

what_is_no_code_is_refused_test() ->
    ?assertEqual(error, flame_prof_wait_receives:of_beam(<<"no module">>)),
    Beam = beam(["f() -> receive a -> b end."]),
    {ok, _, Chunks} = beam_lib:all_chunks(Beam),
    Altered = fun(Change) ->
        {ok, Other} = beam_lib:build_module([{Name, case Name of "Code" -> Change(Chunk);
            _ -> Chunk end} || {Name, Chunk} <- Chunks]),
        flame_prof_wait_receives:of_beam(Other)
    end,
    ?assertMatch({ok, #{{f, 0} := [_]}}, Altered(fun(Code) -> Code end)),
    ?assertEqual(error, Altered(fun(Code) -> binary:part(Code, 0, byte_size(Code) - 9) end)),
    %% Another set of instructions.
    ?assertEqual(error, Altered(fun(<<Head:4/binary, _:32, Rest/binary>>) ->
        <<Head/binary, 1:32, Rest/binary>> end)),
    %% An operation that no release has.
    ?assertEqual(error, Altered(fun(<<Size:32, Head:Size/binary, _, Rest/binary>>) ->
        <<Size:32, Head/binary, 255, Rest/binary>> end)).
