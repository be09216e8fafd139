%% Receipts to JSON and back, in plain Erlang: deep recursion and short-lived lists.
-module(demo_encoder).

-export([start_link/1, init/1]).

-define(PAUSE_MS, 50).
-define(DEPTH, 6).
-define(WIDTH, 4).

start_link(N) ->
    proc_lib:start_link(?MODULE, init, [N]).

init(N) ->
    register(list_to_atom("encoder_" ++ integer_to_list(N)), self()),
    rand:seed(exsss, 2000 + N),
    proc_lib:init_ack({ok, self()}),
    loop(document(?DEPTH)).

loop(Document) ->
    Text = iolist_to_binary(encode(Document)),
    {Document, <<>>} = decode(Text),
    timer:sleep(?PAUSE_MS),
    loop(document(?DEPTH)).

document(0) ->
    case rand:uniform(3) of
        1 -> rand:uniform(1000000);
        2 -> integer_to_binary(rand:uniform(1000000000), 36);
        3 -> [rand:uniform(100) || _ <- lists:seq(1, 8)]
    end;
document(Depth) ->
    maps:from_list([{<<"key_", (integer_to_binary(N))/binary>>, document(Depth - 1)}
                    || N <- lists:seq(1, ?WIDTH)]).

encode(Map) when is_map(Map) ->
    Pairs = [[encode(Key), $:, encode(Value)] || {Key, Value} <- lists:sort(maps:to_list(Map))],
    [${, lists:join($,, Pairs), $}];
encode(List) when is_list(List) ->
    [$[, lists:join($,, lists:map(fun encode/1, List)), $]];
encode(Text) when is_binary(Text) ->
    [$", escape(Text), $"];
encode(Number) when is_integer(Number) ->
    integer_to_binary(Number).

escape(<<$", Rest/binary>>) -> [$\\, $" | escape(Rest)];
escape(<<Char, Rest/binary>>) -> [Char | escape(Rest)];
escape(<<>>) -> [].

decode(<<${, Rest/binary>>) -> decode_object(Rest, []);
decode(<<$[, Rest/binary>>) -> decode_array(Rest, []);
decode(<<$", Rest/binary>>) -> decode_string(Rest, []);
decode(Rest) -> decode_number(Rest, 0).

decode_object(<<$}, Rest/binary>>, Pairs) ->
    {maps:from_list(Pairs), Rest};
decode_object(<<$,, Rest/binary>>, Pairs) ->
    decode_object(Rest, Pairs);
decode_object(Text, Pairs) ->
    {Key, <<$:, Rest/binary>>} = decode(Text),
    {Value, Rest1} = decode(Rest),
    decode_object(Rest1, [{Key, Value} | Pairs]).

decode_array(<<$], Rest/binary>>, Values) ->
    {lists:reverse(Values), Rest};
decode_array(<<$,, Rest/binary>>, Values) ->
    decode_array(Rest, Values);
decode_array(Text, Values) ->
    {Value, Rest} = decode(Text),
    decode_array(Rest, [Value | Values]).

decode_string(<<$\\, Char, Rest/binary>>, Chars) -> decode_string(Rest, [Char | Chars]);
decode_string(<<$", Rest/binary>>, Chars) -> {list_to_binary(lists:reverse(Chars)), Rest};
decode_string(<<Char, Rest/binary>>, Chars) -> decode_string(Rest, [Char | Chars]).

decode_number(<<Digit, Rest/binary>>, N) when Digit >= $0, Digit =< $9 ->
    decode_number(Rest, N * 10 + Digit - $0);
decode_number(Rest, N) ->
    {N, Rest}.
