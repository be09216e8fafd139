%% @private Text for people: numbers, and columns of tables.
-module(flame_prof_text).

-export([grouped/1, percent/1, plural/1]).
-export([fit/2, pad/2, right/2, wrapped/2]).
-export([bytes/1, duration/1, printable/1, visible/1, is_visible/1]).

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

%% @doc Lines of at most so many columns.
-spec wrapped(unicode:chardata(), pos_integer()) -> [string()].
wrapped(Text, Columns) ->
    case string:lexemes(unicode:characters_to_list(Text), " \n") of
        [] -> [];
        [Word | Words] -> wrapped(Words, Word, Columns)
    end.

wrapped([], Line, _Columns) -> [Line];
wrapped([Word | Words], Line, Columns) when length(Line) + 1 + length(Word) =< Columns ->
    wrapped(Words, Line ++ " " ++ Word, Columns);
wrapped([Word | Words], Line, Columns) ->
    [Line | wrapped(Words, Word, Columns)].

%% @doc In at most five digits and a unit.
-spec bytes(integer()) -> iodata().
bytes(N) when N < 0 -> [$- | bytes(-N)];
bytes(N) when N < 10000 -> integer_to_list(N);
bytes(N) when N < 10000 bsl 10 -> [integer_to_list(N bsr 10), "K"];
bytes(N) when N < 10000 bsl 20 -> [integer_to_list(N bsr 20), "M"];
bytes(N) -> [integer_to_list(N bsr 30), "G"].

%% @doc Three digits and a unit, of nanoseconds: 428 ns, 1.23 us, 12.3 ms, 1.50 s.
-spec duration(number()) -> iodata().
duration(Ns) when Ns < 1000 -> [integer_to_list(round(Ns)), " ns"];
duration(Ns) when Ns < 1000000 -> scaled(Ns / 1000, " us");
duration(Ns) when Ns < 1000000000 -> scaled(Ns / 1000000, " ms");
duration(Ns) -> scaled(Ns / 1000000000, " s").

scaled(Number, Unit) when Number < 10 -> io_lib:format("~.2f~s", [Number, Unit]);
scaled(Number, Unit) when Number < 100 -> io_lib:format("~.1f~s", [Number, Unit]);
scaled(Number, Unit) -> [grouped(round(Number)), Unit].

%% @doc A text of any origin, for a terminal: without what a terminal obeys.
-spec visible(binary()) -> binary().
visible(Text) -> << <<(visible_character(C))/utf8>> || <<C/utf8>> <= Text >>.

visible_character(C) ->
    case is_visible(C) of
        true -> C;
        false -> $?
    end.

%% @doc Neither a control character, nor without a width, nor one that changes the direction of
%% a line.
-spec is_visible(char()) -> boolean().
is_visible(Point) ->
    Point >= $\s andalso (Point < 16#7f orelse Point > 16#9f) andalso Point =/= 16#61c andalso
        (Point < 16#200b orelse Point > 16#200f) andalso
        (Point < 16#2028 orelse Point > 16#202e) andalso
        (Point < 16#2066 orelse Point > 16#2069) andalso
        Point =/= 16#feff.

%% @doc Bytes of any origin, for a terminal.
-spec printable(binary()) -> string().
printable(Bytes) ->
    [printable_byte(Byte) || <<Byte>> <= Bytes].

printable_byte(Byte) when Byte >= $\s, Byte < 16#7f -> Byte;
printable_byte(_) -> $?.
