-module(flame_prof_stacks_tests).

-ifdef(PROPER).
-include_lib("proper/include/proper.hrl").
-endif.
-include_lib("eunit/include/eunit.hrl").

a_stack_is_told_once_test() ->
    Trace = [frame(a, 1), frame(b, 2)],
    {0, Items, Stacks} = flame_prof_stacks:intern(Trace, [], flame_prof_stacks:new()),
    ?assertEqual([{frame, 0, <<"m">>, <<"a">>, 1, 1, <<"m.erl">>},
            {frame, 1, <<"m">>, <<"b">>, 1, 2, <<"m.erl">>},
            {stack, 0, [0, 1]}],
        lists:reverse(Items)),
    ?assertMatch({0, Items, _}, flame_prof_stacks:intern(Trace, Items, Stacks)).

a_frame_is_told_once_test() ->
    {0, _, Stacks} = flame_prof_stacks:intern([frame(a, 1)], [], flame_prof_stacks:new()),
    ?assertMatch({1, [{stack, 1, [0, 0]}], _},
        flame_prof_stacks:intern([frame(a, 1), frame(a, 1)], [], Stacks)).

a_frame_without_a_place_has_neither_line_nor_file_test() ->
    ?assertMatch({0, [{stack, 0, [0]}, {frame, 0, <<"erlang">>, <<"++">>, 2, 0, <<>>}], _},
        flame_prof_stacks:intern([{erlang, '++', 2, []}], [], flame_prof_stacks:new())).

a_file_that_is_no_text_is_left_out_test() ->
    [?assertMatch({0, [_, {frame, 0, _, _, _, 7, <<>>}], _},
            flame_prof_stacks:intern(
                [{m, f, 0, [{file, File}, {line, 7}]}], [], flame_prof_stacks:new()))
     || File <- [[16#d800], [a | b], lists:duplicate(256, $a), foo]].

a_function_may_have_an_empty_name_but_no_module_test() ->
    ?assertMatch({0, [{stack, 0, [0]}, {frame, 0, <<"''">>, <<>>, 0, 0, <<>>}], _},
        flame_prof_stacks:intern([{'', '', 0, []}], [], flame_prof_stacks:new())).

a_truncated_stack_ends_in_its_mark_test() ->
    ?assertMatch({0, [{stack, 0, [0, -1]} | _], _},
        flame_prof_stacks:intern([frame(a, 1), truncated], [], flame_prof_stacks:new())).

an_empty_stack_is_a_stack_test() ->
    ?assertMatch({0, [{stack, 0, []}], _}, flame_prof_stacks:intern([], [], flame_prof_stacks:new())
    ).

frame(Function, Line) -> {m, Function, 1, [{file, "m.erl"}, {line, Line}]}.

-ifdef(PROPER).

%% Whatever came before, and however small the tables: who does as the items say
%% has, in the slot that is answered, the stack that was asked for.
the_listener_always_knows_the_stack_test_() ->
    Property = ?FORALL({Traces, StacksMax, FramesMax}, {list(trace()), range(1, 5), range(6, 12)},
        follow(Traces, flame_prof_stacks:new(StacksMax, FramesMax), #{})),
    seeded:property(Property, 1000).

trace() ->
    Frame = ?LET({F, L}, {oneof([a, b, c, d]), range(0, 3)}, frame(F, L)),
    ?LET(Trace, list(oneof([truncated, Frame])), lists:sublist(Trace, 6)).

follow([], _Stacks, _Known) -> true;
follow([Trace | Traces], Stacks0, Known0) ->
    {Slot, Items, Stacks} = flame_prof_stacks:intern(Trace, [], Stacks0),
    Known = lists:foldr(fun listen/2, Known0, Items),
    Heard = [resolve(Id, Known) || Id <- maps:get({stack, Slot}, Known)],
    Heard =:= [said(Frame) || Frame <- Trace] andalso follow(Traces, Stacks, Known).

listen({frame, Id, _Module, Function, _Arity, Line, _File}, Known) ->
    Known#{{frame, Id} => {Function, Line}};
listen({stack, Slot, Ids}, Known) -> Known#{{stack, Slot} => Ids}.

resolve(-1, _Known) -> truncated;
resolve(Id, Known) -> maps:get({frame, Id}, Known).

said(truncated) -> truncated;
said({m, Function, 1, [_, {line, Line}]}) -> {atom_to_binary(Function), Line}.

-endif.
