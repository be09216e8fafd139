%% The data of a page that `flame_prof report' writes, as a browser unpacks it.
-module(report_parts).

-export([read/1, of_page/1]).

read(File) ->
    {ok, Html} = file:read_file(File),
    of_page(Html).

%% By their ids.
of_page(Html) ->
    {match, Found} = re:run(Html,
        "<script type=\"application/octet-stream\" id=\"([a-z-]+)\">([^<]*)</script>",
        [global, {capture, all_but_first, binary}]),
    maps:from_list([{Id, zlib:gunzip(from_text(Text))} || [Id, Text] <- Found]).

%% Seven bits a character; one beyond ASCII is one of three that HTML changes, and the next seven.
from_text(Text) ->
    Sevens = lists:append([sevens(C) || C <- unicode:characters_to_list(Text)]),
    Bits = << <<Seven:7>> || Seven <- Sevens >>,
    <<Whole:(bit_size(Bits) div 8)/binary, _/bits>> = Bits,
    Whole.

sevens(C) when C < 128 -> [C];
sevens(C) when C < 512 -> [element(C div 128, {0, 13, 60}), C rem 128];
sevens(C) -> [element(C - 511, {0, 13, 60})].
