%% @private Text for people: numbers, and columns of tables.
-module(flame_prof_text).

-export([grouped/1, percent/1, plural/1]).
-export([fit/2, pad/2, right/2]).
-export([printable/1]).

%% @doc 1234567 is 1,234,567.
-spec grouped(integer()) -> string().
grouped(Number) when Number < 0 -> [$- | grouped(-Number)];
grouped(Number) -> lists:reverse(in_threes(lists:reverse(integer_to_list(Number)))).

in_threes([A, B, C, D | Digits]) -> [A, B, C, $, | in_threes([D | Digits])];
in_threes(Digits) -> Digits.

%% @doc Seven columns. Parts of a total that is nearly 0, as changes of a memory
%% may add up to, can be of any size.
-spec percent(float()) -> unicode:chardata().
percent(Share) when Share >= 9999 -> " >9999%";
percent(Share) when Share =< -999 -> " <-999%";
percent(Share) -> right(io_lib:format("~.1f%", [Share]), 7).

-spec plural(integer()) -> string().
plural(1) -> "";
plural(_) -> "s".

%% @doc Not wider than that.
-spec fit(unicode:chardata(), pos_integer()) -> unicode:chardata().
fit(Text, Width) ->
    case string:length(Text) =< Width of
        true -> Text;
        false -> [string:slice(Text, 0, Width - 3), "..."]
    end.

-spec pad(unicode:chardata(), non_neg_integer()) -> unicode:chardata().
pad(Text, Width) -> string:pad(Text, Width).

-spec right(unicode:chardata(), non_neg_integer()) -> unicode:chardata().
right(Text, Width) -> string:pad(Text, Width, leading).

%% @doc Bytes of any origin, for a terminal.
-spec printable(binary()) -> string().
printable(Bytes) ->
    [printable_byte(Byte) || <<Byte>> <= Bytes].

printable_byte(Byte) when Byte >= $\s, Byte < 16#7f -> Byte;
printable_byte(_) -> $?.
