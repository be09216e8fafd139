%% @private Which messages a receive takes, by its compiled code.
%%
%% From the instruction that begins a receive every way through its tests is gone, until the message
%% is taken or left. What the tests on such a way say of the message is what a message has to look
%% like at least: a way may need more (a guard, a value), so more forms may be told than are taken,
%% never fewer. If no path leaves a message, the receive takes any message.
%%
%% Values are not returned: only the first atom and the size of a message. Pure.
-module(flame_prof_wait_receives).

-export([of_beam/1, merged/1]).

-export_type([takes/0, form/0]).

-type form() :: {atom, atom()} | {tuple, atom() | any, arity()} | any.
%% `any': one that is no atom and no tuple, or not known to be one.

-type takes() ::
    any
    | nothing
    | #{forms := [form(), ...], only := [slot()], some := [slot()]}
    | unknown.
%% `any': each message. `nothing': it waits for the time-out alone. `only': slots of the frame that
%% hold a term that each message has to have in it, `some': at least one of the forms.

-type slot() :: non_neg_integer().

%% Instructions that are gone through for one receive.
-define(STEPS, 5000).

%% Operations (the compiler's genop.tab).
-define(LABEL, 1).
-define(REMOVE_MESSAGE, 21).
-define(LOOP_REC, 23).
-define(LOOP_REC_END, 24).
-define(WAIT, 25).
-define(WAIT_TIMEOUT, 26).
-define(IS_EQ, 41).
-define(IS_EQ_EXACT, 43).
-define(IS_NE_EXACT, 44).
-define(TEST_ARITY, 58).
-define(SELECT_VAL, 59).
-define(SELECT_TUPLE_ARITY, 60).
-define(JUMP, 61).
-define(MOVE, 64).
-define(GET_LIST, 65).
-define(GET_TUPLE_ELEMENT, 66).
-define(IS_TAGGED_TUPLE, 159).
-define(GET_HD, 162).
-define(GET_TL, 163).
%% label, line, executable_line, debug_line, test_heap, recv_marker_*.
-define(IS_MUTE(Op),
    (Op =:= ?LABEL orelse Op =:= 153 orelse Op =:= 183 orelse Op =:= 184 orelse Op =:= 16 orelse
        Op >= 173 andalso Op =< 176)
).
%% Tests of other things that leave all registers as they were: is_lt, is_ge, is_ne, is_integer to
%% is_tuple, is_function, is_boolean, is_function2, is_bitstr, is_map, has_map_fields,
%% is_any_native_record.
-define(IS_TEST(Op),
    (Op =:= 39 orelse Op =:= 40 orelse Op =:= 42 orelse Op >= 45 andalso Op =< 57 orelse
        Op =:= 77 orelse Op =:= 114 orelse Op =:= 115 orelse Op =:= 129 orelse Op =:= 156 orelse
        Op =:= 157 orelse Op =:= 186)
).
%% Operations that set registers, and jump to their first operand if that is a label that is not 0:
%% BIFs of guards, parts of lists, maps, records and binaries, terms that are made.
-define(IS_PLAIN(Op),
    (Op >= 9 andalso Op =< 11 orelse Op =:= 69 orelse Op >= 116 andalso Op =< 121
        orelse Op =:= 124 orelse Op =:= 125 orelse Op =:= 131 orelse Op =:= 132 orelse
        Op >= 138 andalso Op =< 143 orelse Op =:= 152 orelse Op =:= 158 orelse
        Op >= 164 andalso Op =< 170 orelse Op =:= 172 orelse Op =:= 182 orelse Op =:= 185 orelse
        Op =:= 187 orelse Op =:= 188)
).

%% The knowledge on a path. `is': of parts of the message, by their path. `in': slots whose terms
%% are in it. `holds': registers; `{part, Path}' of the message, `{slot, N}' of the frame.
-record(way, {
    at :: pos_integer(),
    holds :: #{{x | y, integer()} => {part, path()} | {slot, integer()} | {atom, atom()} | other},
    is = #{} :: #{path() => {atom, atom()} | {tuple, arity()} | other},
    in = [] :: [slot()]
}).

-type path() :: [non_neg_integer() | head | tail].

-record(code, {
    at :: tuple(),
    labels :: #{integer() => pos_integer()},
    atoms :: #{integer() => atom()}
}).

%% @doc The receives of each function that may wait in one, in no order.
-spec of_beam(binary()) -> {ok, #{{atom(), arity()} => [takes(), ...]}} | error.
of_beam(Beam) ->
    case flame_prof_wait_code:functions(Beam) of
        {ok, Functions, Atoms} ->
            Found = [{{Name, Arity}, of_function(Code, Atoms)} || {Name, Arity, Code} <- Functions],
            {ok, maps:from_list([One || {_, [_ | _]} = One <- Found])};
        error ->
            error
    end.

%% @doc What is known of a process in one of these, which may be any of them.
-spec merged([takes(), ...]) -> takes().
merged([First | More]) -> lists:foldl(fun merged/2, First, More).

merged(Takes, Takes) -> Takes;
merged(#{forms := A, only := OnlyA, some := SomeA}, #{forms := B, only := OnlyB, some := SomeB}) ->
    #{
        forms => lists:usort(A ++ B),
        only => ordsets:intersection(OnlyA, OnlyB),
        some => ordsets:union(SomeA, SomeB)
    };
merged(_, _) -> unknown.

%% A process waits at the label that its wait goes back to. `after 0' never waits.
of_function(Operations, Atoms) ->
    Code = #code{
        at = list_to_tuple(Operations),
        labels = maps:from_list([{Label, At} || {At, {?LABEL, [{u, Label}]}}
            <- lists:zip(lists:seq(1, length(Operations)), Operations)]),
        atoms = Atoms
    },
    Labels = lists:usort([Label || {Op, [{f, Label} | _]} <- Operations,
        Op =:= ?WAIT orelse Op =:= ?WAIT_TIMEOUT]),
    [of_receive(maps:get(Label, Code#code.labels), Code) || Label <- Labels].

of_receive(At, #code{at = Operations} = Code) ->
    case element(At, Operations) of
        {Op, _} when ?IS_MUTE(Op) -> of_receive(At + 1, Code);
        {Op, _} when Op =:= ?WAIT; Op =:= ?WAIT_TIMEOUT -> nothing;
        {?LOOP_REC, [_, {x, _} = Message]} ->
            First = #way{at = At + 1, holds = #{Message => {part, []}}},
            taken(ways([First], Code, [], false, ?STEPS));
        _ -> unknown
    end.

taken(unknown) -> unknown;
taken({_, false}) -> any;
taken({[], true}) -> unknown;
taken({Ways, true}) ->
    Slots = [lists:usort(In) || #way{in = In} <- Ways],
    #{
        forms => lists:usort([form(Is) || #way{is = Is} <- Ways]),
        only => ordsets:intersection(Slots),
        some => ordsets:union(Slots)
    }.

form(#{[] := {atom, Atom}}) -> {atom, Atom};
form(#{[] := {tuple, Arity}, [0] := {atom, Atom}}) -> {tuple, Atom, Arity};
form(#{[] := {tuple, Arity}}) -> {tuple, any, Arity};
form(_) -> any.

%% Taken: the ways that end in a message that is taken. IsLeft: one is left.
ways([], _Code, Taken, IsLeft, _Steps) ->
    {Taken, IsLeft};
ways(_, _Code, _Taken, _IsLeft, 0) ->
    unknown;
ways([Way | Ways], #code{at = Operations} = Code, Taken, IsLeft, Steps) ->
    case element(Way#way.at, Operations) of
        {?REMOVE_MESSAGE, []} ->
            ways(Ways, Code, [Way | Taken], IsLeft, Steps - 1);
        {?LOOP_REC_END, _} ->
            ways(Ways, Code, Taken, true, Steps - 1);
        {Op, Operands} ->
            case step(Op, Operands, Way, Code) of
                unknown -> unknown;
                Next -> ways(Next ++ Ways, Code, Taken, IsLeft, Steps - 1)
            end
    end.

step(Op, _Operands, Way, _Code) when ?IS_MUTE(Op) ->
    [next(Way)];
step(?JUMP, [To], Way, Code) ->
    jump(To, Way, Code);
step(Op, [Else, A, B], Way, Code) when Op =:= ?IS_EQ_EXACT; Op =:= ?IS_EQ ->
    equal(A, B, next(Way), Code) ++ jump(Else, Way, Code);
step(?IS_NE_EXACT, [Else, A, B], Way, Code) ->
    [next(Way)] ++ [W || Equal <- equal(A, B, Way, Code), W <- jump(Else, Equal, Code)];
step(?TEST_ARITY, [Else, A, {u, Arity}], Way, Code) ->
    is(value(A, Way, Code), {tuple, Arity}, next(Way)) ++ jump(Else, Way, Code);
step(?IS_TAGGED_TUPLE, [Else, A, {u, Arity}, Tag], Way, Code) ->
    Part = value(A, Way, Code),
    [Tagged || Tuple <- is(Part, {tuple, Arity}, next(Way)),
        Tagged <- is(element_of(Part, 0), value(Tag, Way, Code), Tuple)] ++ jump(Else, Way, Code);
step(?SELECT_VAL, [A, Else, {list, Choices}], Way, Code) ->
    chosen(fun(Value) -> equal(A, Value, Way, Code) end, Choices, Code) ++ jump(Else, Way, Code);
step(?SELECT_TUPLE_ARITY, [A, Else, {list, Choices}], Way, Code) ->
    Part = value(A, Way, Code),
    chosen(fun({u, Arity}) -> is(Part, {tuple, Arity}, Way) end, Choices, Code) ++
        jump(Else, Way, Code);
step(?GET_TUPLE_ELEMENT, [A, {u, N}, To], Way, Code) ->
    [put(To, element_of(value(A, Way, Code), N), next(Way))];
step(?GET_LIST, [A, Head, Tail], Way, Code) ->
    List = value(A, Way, Code),
    [put(Tail, element_of(List, tail), put(Head, element_of(List, head), next(Way)))];
step(?GET_HD, [A, To], Way, Code) ->
    [put(To, element_of(value(A, Way, Code), head), next(Way))];
step(?GET_TL, [A, To], Way, Code) ->
    [put(To, element_of(value(A, Way, Code), tail), next(Way))];
step(?MOVE, [A, To], Way, Code) ->
    [put(To, value(A, Way, Code), next(Way))];
step(Op, [Else | _], Way, Code) when ?IS_TEST(Op) ->
    [next(Way) | jump(Else, Way, Code)];
step(Op, Operands, Way, Code) when ?IS_PLAIN(Op) ->
    Changed = changed(Operands, Way),
    [next(Changed) | failed(Operands, Changed, Code)];
step(_Op, _Operands, _Way, _Code) ->
    unknown.

next(#way{at = At} = Way) -> Way#way{at = At + 1}.

jump({f, Label}, Way, #code{labels = Labels}) -> [Way#way{at = maps:get(Label, Labels)}].

failed([{f, Label} = To | _], Way, Code) when Label > 0 -> jump(To, Way, Code);
failed(_, _, _) -> [].

chosen(Is, [Value, To | More], Code) ->
    [W || Way <- Is(Value), W <- jump(To, Way, Code)] ++ chosen(Is, More, Code);
chosen(_Is, [], _Code) ->
    [].

%% Which of the operands are set is not looked at: the tests before have told what there is.
changed(Operands, Way) ->
    lists:foldl(
        fun
            ({Kind, _} = Register, W) when Kind =:= x; Kind =:= y -> put(Register, other, W);
            ({list, More}, W) -> changed(More, W);
            (_, W) -> W
        end,
        Way,
        Operands
    ).

put(Register, Value, #way{holds = Holds} = Way) ->
    Way#way{holds = Holds#{Register => Value}}.

element_of({part, Path}, N) -> {part, Path ++ [N]};
element_of(_, _N) -> other.

value({Kind, _} = Register, #way{holds = Holds}, _Code) when Kind =:= x; Kind =:= y ->
    case {Holds, Register} of
        {#{Register := Value}, _} -> Value;
        {_, {y, Slot}} -> {slot, Slot};
        _ -> other
    end;
value({a, Index}, _Way, #code{atoms = Atoms}) when Index > 0 ->
    {atom, maps:get(Index, Atoms)};
value(_, _Way, _Code) ->
    other.

%% No way: it cannot be.
equal(A, B, Way, Code) ->
    case {value(A, Way, Code), value(B, Way, Code)} of
        {{part, _}, {slot, Slot}} -> [Way#way{in = [Slot | Way#way.in]}];
        {{slot, Slot}, {part, _}} -> [Way#way{in = [Slot | Way#way.in]}];
        {{part, _} = Part, {atom, _} = Atom} -> is(Part, Atom, Way);
        {{atom, _} = Atom, {part, _} = Part} -> is(Part, Atom, Way);
        _ -> [Way]
    end.

is({part, Path}, What, #way{is = Is} = Way) ->
    case Is of
        #{Path := What} -> [Way];
        #{Path := _} -> [];
        #{} -> [Way#way{is = Is#{Path => What}}]
    end;
is(_, _What, Way) ->
    [Way].
