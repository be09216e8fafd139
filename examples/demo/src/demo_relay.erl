%% Images on their way: large, reference-counted binaries are handed through a
%% chain of processes, each of which looks at them and keeps a small part (and so
%% the whole) of the last few.
-module(demo_relay).

-export([start_link/1, init/1, hop/2]).

-define(PAUSE_MS, 10).
-define(BYTES, 128 * 1024).
-define(KEPT, 20).
-define(TILE, 4096).

start_link(Hops) ->
    proc_lib:start_link(?MODULE, init, [Hops]).

init(Hops) ->
    register(?MODULE, self()),
    First = lists:foldl(
        fun(N, Next) -> proc_lib:spawn_link(?MODULE, hop, [N, Next]) end,
        none, lists:seq(Hops, 1, -1)),
    proc_lib:init_ack({ok, self()}),
    source(First, 0).

source(First, N) ->
    Size = ?BYTES + (N rem 16) * 8192,
    Image = binary:copy(<<N:32, (erlang:phash2(N)):32>>, Size div 8),
    First ! {image, self(), Image},
    %% One acknowledgement for each image: at most a few are on their way.
    receive done -> ok end,
    timer:sleep(?PAUSE_MS),
    source(First, N + 1).

hop(N, Next) ->
    register(list_to_atom("relay_" ++ integer_to_list(N)), self()),
    hop(Next, [], 0).

hop(Next, Kept, Sum) ->
    receive
        {image, Source, Image} ->
            Tiles = tiles(Image),
            Sum1 = (Sum + lists:foldl(fun checksum/2, 0, Tiles)) band 16#ffffffff,
            pass_on(Next, Source, Image),
            Part = binary:part(Image, byte_size(Image) div 2, 64),
            hop(Next, lists:sublist([Part | Kept], ?KEPT), Sum1)
    end.

pass_on(none, Source, _Image) -> Source ! done;
pass_on(Next, Source, Image) -> Next ! {image, Source, Image}.

tiles(<<Tile:?TILE/binary, Rest/binary>>) -> [Tile | tiles(Rest)];
tiles(<<>>) -> [];
tiles(Tail) -> [Tail].

checksum(Tile, Sum) ->
    erlang:adler32(Sum band 16#ffff, Tile).
