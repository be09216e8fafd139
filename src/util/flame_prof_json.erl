%% @private Terms to JSON text: OTP has that only from release 27 on.
%%
%% Maps, lists, binaries, numbers and atoms are what they look like; a list of
%% characters is an array, so texts have to be binaries. Everything else (pids,
%% tuples, functions) is a string of how the shell would show it.
-module(flame_prof_json).

-export([encode/1, encode_for_page/1]).

-spec encode(term()) -> iodata().
encode(Term) ->
    value(Term).

%% @doc The same text for a JSON reader, with nothing in it that could end the
%% element of a page in which it stands.
-spec encode_for_page(term()) -> binary().
encode_for_page(Term) ->
    lists:foldl(
        fun(Character, Json) ->
            Escape = io_lib:format("\\u~4.16.0b", [Character]),
            binary:replace(Json, <<Character/utf8>>, iolist_to_binary(Escape), [global])
        end,
        iolist_to_binary(encode(Term)),
        [$<, $>, $&, 16#2028, 16#2029]
    ).

value(true) -> <<"true">>;
value(false) -> <<"false">>;
value(undefined) -> <<"null">>;
value(Atom) when is_atom(Atom) -> string(atom_to_binary(Atom));
value(Integer) when is_integer(Integer) -> integer_to_binary(Integer);
value(Float) when is_float(Float) -> io_lib:format("~w", [Float]);
value(Text) when is_binary(Text) -> string(Text);
value(Map) when is_map(Map) -> object(lists:sort(maps:to_list(Map)));
value(List) when is_list(List) -> array(List);
value(Other) -> string(unicode:characters_to_binary(io_lib:format("~0tp", [Other]))).

object(Pairs) ->
    Members = [[string(key(Key)), $:, value(Value)] || {Key, Value} <- Pairs],
    [${, lists:join($,, Members), $}].

key(Key) when is_binary(Key) -> Key;
key(Key) when is_atom(Key) -> atom_to_binary(Key);
key(Key) -> unicode:characters_to_binary(io_lib:format("~0tp", [Key])).

array(List) ->
    try [value(Element) || Element <- List] of
        Values -> [$[, lists:join($,, Values), $]]
    catch
        %% An improper list.
        error:_ -> string(unicode:characters_to_binary(io_lib:format("~0tp", [List])))
    end.

string(Text) ->
    [$", escape(Text, <<>>), $"].

escape(<<>>, Acc) -> Acc;
escape(<<$", Rest/binary>>, Acc) -> escape(Rest, <<Acc/binary, "\\\"">>);
escape(<<$\\, Rest/binary>>, Acc) -> escape(Rest, <<Acc/binary, "\\\\">>);
escape(<<C, Rest/binary>>, Acc) when C < 32; C =:= 127 ->
    escape(Rest, <<Acc/binary, (iolist_to_binary(io_lib:format("\\u~4.16.0b", [C])))/binary>>);
escape(<<C/utf8, Rest/binary>>, Acc) -> escape(Rest, <<Acc/binary, C/utf8>>);
%% No text can hold this byte.
escape(<<_, Rest/binary>>, Acc) -> escape(Rest, <<Acc/binary, 16#fffd/utf8>>).
