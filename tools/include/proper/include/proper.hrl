%% What our properties use of PropEr's header, written anew for machines whose
%% PropEr comes without it (Debian's erlang-proper has the beams only). The test
%% runner puts this on the include path there and nowhere else.
-ifndef(PROPER_HRL).
-define(PROPER_HRL, true).

-import(proper, [
    aggregate/2, collect/2, conjunction/1, equals/2, measure/3, numtests/2
]).
-import(proper_types, [
    any/0, arity/0, atom/0, binary/0, binary/1, bitstring/0, bool/0, boolean/0,
    byte/0, char/0, choose/2, default/2, elements/1, exactly/1, fixed_list/1,
    float/0, frequency/1, int/0, integer/0, integer/2, largeint/0, list/0,
    list/1, loose_tuple/1, nat/0, neg_integer/0, non_empty/1, non_neg_integer/0,
    noshrink/1, number/0, oneof/1, orderedlist/1, pos_integer/0, range/2, real/0,
    resize/2, return/1, string/0, term/0, tuple/0, tuple/1, union/1, vector/2,
    weighted_union/1
]).
-import(proper_unicode, [utf8/0, utf8/1, utf8/2]).

-define(FORALL(X, Type, Property), proper:forall(Type, fun(X) -> Property end)).
-define(IMPLIES(Condition, Property), proper:implies(Condition, fun() -> Property end)).
-define(WHENFAIL(Action, Property),
    proper:whenfail(fun() -> Action end, fun() -> Property end)).
-define(TRAPEXIT(Property), proper:trapexit(fun() -> Property end)).
-define(TIMEOUT(Ms, Property), proper:timeout(Ms, fun() -> Property end)).
-define(LET(X, Type, Generator), proper_types:bind(Type, fun(X) -> Generator end, false)).
-define(SUCHTHAT(X, Type, Condition),
    proper_types:add_constraint(Type, fun(X) -> Condition end, true)).
-define(SIZED(Size, Generator), proper_types:sized(fun(Size) -> Generator end)).
-define(LAZY(Generator), proper_types:lazy(fun() -> Generator end)).
-define(SHRINK(Generator, Alternatives),
    proper_types:shrinkwith(fun() -> Generator end, fun() -> Alternatives end)).

-endif.
