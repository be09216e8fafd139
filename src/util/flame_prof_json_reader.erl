%% @private JSON text to terms, strictly as RFC 8259 has it; bounded, as the text may come from
%% anywhere. The same on each release: OTP has a reader of its own from 27 on.
%%
%% Objects are maps with binaries for keys, of equal keys the last counts; strings are binaries of
%% UTF-8; `true', `false', and `undefined' for null, as {@link flame_prof_json} writes it. A number
%% without fraction and exponent is an integer. No atom is made. Refused are also: half of a
%% surrogate pair, a byte order mark, a number that no float holds, and what exceeds the limits.
-module(flame_prof_json_reader).

-export([decode/1, decode/2]).

-export_type([json/0, limits/0]).

-type json() ::
    undefined | boolean() | number() | binary() | [json()] | #{binary() => json()}.
-type limits() :: #{bytes => pos_integer(), depth => pos_integer()}.
%% `bytes': of the text (1 MiB). `depth': of lists and objects in each other (64).

-define(BYTES, 1048576).
-define(DEPTH, 64).
%% Of a number: more take time that grows with their square.
-define(DIGITS, 400).
-define(IS_SPACE(C), (C =:= $\s orelse C =:= $\t orelse C =:= $\n orelse C =:= $\r)).
-define(IS_DIGIT(C), (C >= $0 andalso C =< $9)).

-spec decode(binary()) -> {ok, json()} | {error, Why :: binary()}.
decode(Text) ->
    decode(Text, #{}).

%% @doc `Why' has the place: bytes from the beginning.
-spec decode(binary(), limits()) -> {ok, json()} | {error, Why :: binary()}.
decode(Text, Limits) ->
    case maps:get(bytes, Limits, ?BYTES) of
        Most when byte_size(Text) > Most ->
            {error, text("it has ~b bytes, at most ~b are read", [byte_size(Text), Most])};
        _ ->
            whole(Text, maps:get(depth, Limits, ?DEPTH))
    end.

whole(Text, Depth) ->
    try value(space(Text), Depth) of
        {Value, Rest} ->
            case space(Rest) of
                <<>> -> {ok, Value};
                More -> {error, at(Text, More, "nothing may follow the value")}
            end
    catch
        throw:{?MODULE, Rest, Why} -> {error, at(Text, Rest, Why)}
    end.

at(Text, Rest, Why) ->
    text("byte ~b: ~ts", [byte_size(Text) - byte_size(Rest), Why]).

text(Format, Args) -> unicode:characters_to_binary(io_lib:format(Format, Args)).

-spec bad(binary(), string()) -> no_return().
bad(Rest, Why) -> throw({?MODULE, Rest, Why}).

space(<<C, Rest/binary>>) when ?IS_SPACE(C) -> space(Rest);
space(Rest) -> Rest.

value(<<C, _/binary>> = Rest, 0) when C =:= ${; C =:= $[ -> bad(Rest, "it is nested too deeply");
value(<<"null", Rest/binary>>, _) -> {undefined, Rest};
value(<<"true", Rest/binary>>, _) -> {true, Rest};
value(<<"false", Rest/binary>>, _) -> {false, Rest};
value(<<$", Rest/binary>>, _) -> string(Rest, <<>>);
value(<<$[, Rest/binary>>, Depth) -> array(space(Rest), Depth - 1);
value(<<${, Rest/binary>>, Depth) -> object(space(Rest), Depth - 1);
value(<<C, _/binary>> = Rest, _) when C =:= $-; ?IS_DIGIT(C) -> number(Rest);
value(Rest, _) -> bad(Rest, "a value is missing").

array(<<$], Rest/binary>>, _Depth) -> {[], Rest};
array(Rest, Depth) -> elements(value(Rest, Depth), Depth, []).

elements({Value, Rest0}, Depth, Before) ->
    case space(Rest0) of
        <<$,, Rest/binary>> -> elements(value(space(Rest), Depth), Depth, [Value | Before]);
        <<$], Rest/binary>> -> {lists:reverse(Before, [Value]), Rest};
        Rest -> bad(Rest, "a comma or ] is missing")
    end.

object(<<$}, Rest/binary>>, _Depth) -> {#{}, Rest};
object(Rest, Depth) -> members(Rest, Depth, #{}).

members(<<$", Rest0/binary>>, Depth, Before) ->
    {Key, Rest1} = string(Rest0, <<>>),
    case space(Rest1) of
        <<$:, Rest2/binary>> ->
            {Value, Rest3} = value(space(Rest2), Depth),
            more_members(space(Rest3), Depth, Before#{Key => Value});
        Rest ->
            bad(Rest, "a colon is missing")
    end;
members(Rest, _Depth, _Before) ->
    bad(Rest, "a name in quotation marks is missing").

more_members(<<$,, Rest/binary>>, Depth, Members) -> members(space(Rest), Depth, Members);
more_members(<<$}, Rest/binary>>, _Depth, Members) -> {Members, Rest};
more_members(Rest, _Depth, _Members) -> bad(Rest, "a comma or } is missing").

string(<<$", Rest/binary>>, Text) -> {Text, Rest};
string(<<$\\, Rest/binary>>, Text) -> escaped(Rest, Text);
string(<<C, _/binary>> = Rest, _) when C < 32 -> bad(Rest, "a control character is not escaped");
string(<<C/utf8, Rest/binary>>, Text) -> string(Rest, <<Text/binary, C/utf8>>);
string(<<>>, _) -> bad(<<>>, "a string does not end");
string(Rest, _) -> bad(Rest, "it is not UTF-8").

escaped(<<$u, Rest/binary>>, Text) -> unicode(hex(Rest), Rest, Text);
escaped(<<C, Rest/binary>> = All, Text) ->
    case C of
        $b -> string(Rest, <<Text/binary, $\b>>);
        $f -> string(Rest, <<Text/binary, $\f>>);
        $n -> string(Rest, <<Text/binary, $\n>>);
        $r -> string(Rest, <<Text/binary, $\r>>);
        $t -> string(Rest, <<Text/binary, $\t>>);
        _ when C =:= $"; C =:= $\\; C =:= $/ -> string(Rest, <<Text/binary, C>>);
        _ -> bad(All, "there is no such escape")
    end;
escaped(<<>>, _) ->
    bad(<<>>, "a string does not end").

%% The second half of a pair follows the first at once.
unicode({High, <<"\\u", Rest/binary>>}, At, Text) when High >= 16#d800, High =< 16#dbff ->
    case hex(Rest) of
        {Low, More} when Low >= 16#dc00, Low =< 16#dfff ->
            C = 16#10000 + (High - 16#d800) * 16#400 + Low - 16#dc00,
            string(More, <<Text/binary, C/utf8>>);
        _ ->
            bad(At, "half of a surrogate pair")
    end;
unicode({C, _}, At, _Text) when C >= 16#d800, C =< 16#dfff -> bad(At, "half of a surrogate pair");
unicode({C, Rest}, _At, Text) -> string(Rest, <<Text/binary, C/utf8>>).

hex(<<Digits:4/binary, Rest/binary>> = At) ->
    case << <<D>> || <<D>> <= Digits, is_hex(D) >> of
        Digits -> {binary_to_integer(Digits, 16), Rest};
        _ -> bad(At, "four hexadecimal digits are missing")
    end;
hex(Rest) ->
    bad(Rest, "four hexadecimal digits are missing").

is_hex(D) -> ?IS_DIGIT(D) orelse (D >= $a andalso D =< $f) orelse (D >= $A andalso D =< $F).

number(All) ->
    {Sign, Rest0} = sign(All),
    {Whole, Rest1} = whole_part(Rest0),
    {Fraction, Rest2} = fraction(Rest1),
    {Exponent, Rest} = exponent(Rest2),
    byte_size(All) - byte_size(Rest) > ?DIGITS andalso bad(All, "a number has too many digits"),
    {figure(<<Sign/binary, Whole/binary>>, Fraction, Exponent, All), Rest}.

sign(<<$-, Rest/binary>>) -> {<<"-">>, Rest};
sign(Rest) -> {<<>>, Rest}.

whole_part(<<$0, Rest/binary>>) -> {<<"0">>, Rest};
whole_part(Rest) -> digits(Rest).

fraction(<<$., Rest/binary>>) -> digits(Rest);
fraction(Rest) -> {none, Rest}.

exponent(<<E, S, Rest/binary>>) when (E =:= $e orelse E =:= $E), (S =:= $- orelse S =:= $+) ->
    {Digits, More} = digits(Rest),
    {<<S, Digits/binary>>, More};
exponent(<<E, Rest/binary>>) when E =:= $e; E =:= $E -> digits(Rest);
exponent(Rest) -> {none, Rest}.

digits(Rest) -> digits(Rest, 0, Rest).

digits(<<C, Rest/binary>>, N, All) when ?IS_DIGIT(C) -> digits(Rest, N + 1, All);
digits(Rest, 0, _All) -> bad(Rest, "a digit is missing");
digits(Rest, N, All) -> {binary:part(All, 0, N), Rest}.

figure(Whole, none, none, _At) ->
    binary_to_integer(Whole);
figure(Whole, Fraction0, Exponent0, At) ->
    Fraction = case Fraction0 of none -> <<"0">>; _ -> Fraction0 end,
    Exponent = case Exponent0 of none -> <<"0">>; _ -> Exponent0 end,
    try
        binary_to_float(<<Whole/binary, $., Fraction/binary, $e, Exponent/binary>>)
    catch
        error:badarg -> bad(At, "a number is too large")
    end.
