%% @private Terms as JSON: maps with atom or binary keys, lists, binaries (UTF-8),
%% integers, true and false. OTP has a module for it from 27 on only.
-module(flame_prof_view_json).

-export([encode/1]).

-type json() :: #{atom() | binary() => json()} | [json()] | binary() | integer() | boolean().

-spec encode(json()) -> iodata().
encode(Map) when is_map(Map) ->
    [${, lists:join($,, [[key(K), $:, encode(V)] || {K, V} <- maps:to_list(Map)]), $}];
encode(List) when is_list(List) ->
    [$[, lists:join($,, [encode(V) || V <- List]), $]];
encode(Number) when is_integer(Number) ->
    integer_to_binary(Number);
encode(Atom) when Atom =:= true; Atom =:= false ->
    atom_to_binary(Atom);
encode(Text) when is_binary(Text) ->
    [$", [character(C) || C <- characters(Text)], $"].

key(Key) when is_atom(Key) -> encode(atom_to_binary(Key));
key(Key) -> encode(Key).

characters(Text) ->
    case unicode:characters_to_list(Text) of
        List when is_list(List) -> List;
        _ -> binary_to_list(Text)
    end.

%% `<' and its like, too: what stands in a page can not end its element.
character(C) when C < 32; C =:= $"; C =:= $\\; C =:= $<; C =:= $>; C =:= $&; C =:= 16#2028; C =:= 16#2029 ->
    io_lib:format("\\u~4.16.0b", [C]);
character(C) ->
    <<C/utf8>>.
