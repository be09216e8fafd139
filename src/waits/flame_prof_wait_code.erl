%% @private The compiled code of a module's receives, out of its BEAM file.
%%
%% The compiler's own disassembler is not part of most releases. What is read here is the `Code'
%% chunk: operations with their operands, which the format of the file fixes. An operation that is
%% not known, as a later release may have, ends the reading: nothing is known of the module then.
%% Pure; a large module takes some 100 ms.
-module(flame_prof_wait_code).

-export([functions/1]).

-export_type([code/0, operation/0, operand/0]).

-type operand() ::
    {u | i | a | x | y | f | h | literal | float, integer()} | {list, [operand()]}.
%% `u' a number, `i' an integer of the program, `a' an atom by its index (0: `[]'), `x' and `y'
%% registers, `f' a label (0: none).

-type operation() :: {Code :: pos_integer(), [operand()]}.

-type code() :: {atom(), arity(), [operation()]}.

-define(LABEL, 1).
-define(FUNC_INFO, 2).
-define(END, 3).
-define(WAIT, 25).
-define(WAIT_TIMEOUT, 26).

%% The number of operands of operation 1 and those after it. No release changes one; a new
%% operation gets a new number.
-define(OPERANDS, {
    1,3,0,2,3,2,2,3,2,4,5,2,3,2,3,2,1,1,0,0,0,0,2,1,1,2,4,4,4,4,4,4,4,4,4,4,4,3,3,3,3,3,3,3,2,
    2,2,2,2,2,2,2,2,2,2,2,2,3,3,3,1,2,1,2,3,3,3,3,3,2,1,1,0,1,1,3,2,2,2,5,5,5,4,2,1,1,2,2,5,5,
    5,2,1,0,1,2,2,4,4,4,4,3,1,2,1,1,1,2,6,3,5,1,2,2,3,5,7,7,7,5,3,2,2,5,6,2,2,2,2,1,3,4,0,8,6,
    2,6,5,4,5,4,5,4,3,3,3,3,3,0,1,1,7,1,5,5,2,3,3,4,0,0,2,2,2,3,4,3,2,2,4,3,1,2,1,1,1,6,3,0,1,
    5,3,2,4,6,2,4,3,6,3
}).

%% @doc The functions that wait in a receive, and the atoms by their index.
-spec functions(Beam :: binary()) -> {ok, [code()], #{pos_integer() => atom()}} | error.
functions(Beam) ->
    try
        {ok, {_, [{"Code", Chunk}, {atoms, Atoms}]}} = beam_lib:chunks(Beam, ["Code", atoms]),
        <<Size:32, Head:Size/binary, Code/binary>> = Chunk,
        <<0:32, _/binary>> = Head,
        Names = maps:from_list(Atoms),
        {ok, of_module(Code, none, [], [], Names), Names}
    catch
        error:_ -> error
    end.

%% `Last': the label before, which belongs to the function that begins with it.
of_module(Code, Function, Operations, Found, Names) ->
    case operation(Code) of
        {{?END, _}, _} ->
            found(Function, Operations, Found);
        {{?FUNC_INFO, [_, {a, Name}, {u, Arity}]}, Rest} ->
            of_module(Rest, {maps:get(Name, Names), Arity}, [],
                found(Function, Operations, Found), Names);
        {Operation, Rest} ->
            of_module(Rest, Function, [Operation | Operations], Found, Names)
    end.

found(none, _Operations, Found) ->
    Found;
found({Name, Arity}, Operations, Found) ->
    case lists:any(fun({Op, _}) -> Op =:= ?WAIT orelse Op =:= ?WAIT_TIMEOUT end, Operations) of
        true -> [{Name, Arity, lists:reverse(Operations)} | Found];
        false -> Found
    end.

operation(<<Code, Rest/binary>>) ->
    {Operands, After} = operands(element(Code, ?OPERANDS), Rest, []),
    {{Code, Operands}, After}.

operands(0, Rest, Operands) ->
    {lists:reverse(Operands), Rest};
operands(N, Code, Operands) ->
    {Operand, Rest} = operand(Code),
    operands(N - 1, Rest, [Operand | Operands]).

%% Three bits are the kind. A number of four bits, of eleven, or of so many bytes.
operand(<<Kind:4, 0:1, 7:3, Rest/binary>>) ->
    extended(Kind, Rest);
operand(<<Value:4, 0:1, Kind:3, Rest/binary>>) ->
    {{kind(Kind), Value}, Rest};
operand(<<High:3, 1:2, Kind:3, Low, Rest/binary>>) ->
    {{kind(Kind), High bsl 8 bor Low}, Rest};
operand(<<7:3, 3:2, Kind:3, Code/binary>>) ->
    {{u, More}, Rest} = operand(Code),
    signed(kind(Kind), More + 9, Rest);
operand(<<Bytes:3, 3:2, Kind:3, Rest/binary>>) ->
    signed(kind(Kind), Bytes + 2, Rest).

signed(Kind, Bytes, Code) ->
    <<Value:Bytes/signed-unit:8, Rest/binary>> = Code,
    {{Kind, Value}, Rest}.

kind(0) -> u;
kind(1) -> i;
kind(2) -> a;
kind(3) -> x;
kind(4) -> y;
kind(5) -> f;
kind(6) -> h.

extended(1, Code) ->
    {{u, Number}, Rest} = operand(Code),
    {Operands, After} = operands(Number, Rest, []),
    {{list, Operands}, After};
extended(2, Code) ->
    {{u, Register}, Rest} = operand(Code),
    {{float, Register}, Rest};
extended(3, Code) ->
    {{u, Number}, Rest} = operand(Code),
    {Operands, After} = operands(2 * Number, Rest, []),
    {{list, Operands}, After};
extended(4, Code) ->
    {{u, Index}, Rest} = operand(Code),
    {{literal, Index}, Rest};
%% A register, and what its type is.
extended(5, Code) ->
    {Register, Rest} = operand(Code),
    {{u, _}, After} = operand(Rest),
    {Register, After}.
