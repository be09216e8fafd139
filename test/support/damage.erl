%% Real files, damaged in ways that a seed decides, read by the library (fold/3 and profiles) and by
%% reader_oracle: all have the same samples, and count the same losses.
%%
%%      damage:main([Files, Seed])      (make fuzz-files)
-module(damage).

-export([main/1, run/3]).

-define(PIECE, 150).

-spec main([string()]) -> no_return().
main([Count, Seed]) ->
    case run(list_to_integer(Count), list_to_integer(Seed), "/tmp") of
        [] -> halt(0);
        _ -> halt(1)
    end.

%% The numbers of the files that are read differently; each of these stays in Directory.
-spec run(pos_integer(), integer(), file:name()) -> [{file:name(), term()}].
run(Count, Seed, Directory) ->
    io:format(user, "  ~b damaged files, seed ~b~n", [Count, Seed]),
    Text = real_text(),
    _ = rand:seed(exsss, Seed),
    Earlier = zstd(["-dcq", "test/corpus/format1.log.zst"]),
    Made = made_calls:run(#{seed => Seed, seconds => 1, clients => 6, servers => 3}),
    Calls = iolist_to_binary(made_calls:text(Made)),
    Pieces = list_to_tuple(pieces(samples(Text), 10) ++ pieces(samples(Earlier), 5) ++
        pieces(samples(Calls), 5)),
    Name = filename:join(Directory, lists:concat(["damage.", os:getpid(), "."])),
    Results = [one(lists:concat([Name, N]), Pieces) || N <- lists:seq(1, Count)],
    Good = lists:sum([Samples || {ok, Samples} <- Results]),
    Different = [{File, Why} || {different, File, Why} <- Results],
    io:format(user, "  ~b good samples, ~b files read differently~n", [Good, length(Different)]),
    [io:format(user, "  ~ts: ~tp~n", [File, Why]) || {File, Why} <- Different],
    Different.

%% What a session writes of this node: processes that work, wait, end and have names.
real_text() ->
    Directory = filename:join("/tmp", lists:concat(["damage_session.", os:getpid()])),
    ok = filelib:ensure_dir(filename:join(Directory, "x")),
    Workers = [spawn_link(fun() -> work(N) end) || N <- lists:seq(1, 40)],
    {ok, _} = application:ensure_all_started(flame_prof),
    {ok, _} = flame_prof:start(#{
        dir => Directory, flush_interval => 1100, sample_interval => 10, coalesce_idle => true}),
    timer:sleep(2500),
    {ok, #{files := Files}} = flame_prof:stop(),
    [begin unlink(Worker), exit(Worker, kill) end || Worker <- Workers],
    Text = [zstd(["-dcq", File]) || File <- Files],
    ok = file:del_dir_r(Directory),
    iolist_to_binary(Text).

work(N) ->
    N rem 3 =:= 0 andalso register(list_to_atom("damage worker " ++ integer_to_list(N)), self()),
    work(N, []).

work(N, Held) ->
    List = lists:sort([rand:uniform(1000) || _ <- lists:seq(1, 50 * N)]),
    receive after N -> work(N, lists:sublist(List ++ Held, 1000)) end.

zstd(Arguments) ->
    Port = open_port({spawn_executable, os:find_executable("zstd")}, [
        {args, Arguments}, binary, exit_status, hide]),
    collect(Port, []).

collect(Port, Got) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Got, Data]);
        {Port, {exit_status, 0}} -> iolist_to_binary(Got)
    end.

samples(Text) -> [[Sample, "\n\n"] || Sample <- binary:split(Text, <<"\n\n">>, [global, trim])].

%% Texts of some samples, with their compressed forms.
pieces(Samples, Count) ->
    Texts = cut(Samples, Count),
    File = lists:concat(["/tmp/damage_piece.", os:getpid()]),
    Frames = [begin ok = file:write_file(File, Text), zstd(["-1qc", File]) end || Text <- Texts],
    ok = file:delete(File),
    lists:zip(Texts, Frames).

cut(_Samples, 0) -> [];
cut(Samples, Left) when length(Samples) < ?PIECE -> [iolist_to_binary(Samples) || Left > 0];
cut(Samples, Left) ->
    {Piece, Rest} = lists:split(20 + rand:uniform(?PIECE - 20), Samples),
    [iolist_to_binary(Piece) | cut(Rest, Left - 1)].

%%% One file

one(File, Pieces) ->
    Some = [element(rand:uniform(size(Pieces)), Pieces) || _ <- lists:seq(1, rand:uniform(3))],
    ok = file:write_file(File, bytes(rand:uniform(10), Some)),
    Result = compared(File),
    case Result of {ok, _} -> ok = file:delete(File); _ -> kept end,
    Result.

bytes(Kind, Pieces) when Kind < 5 -> damaged(iolist_to_binary([Text || {Text, _} <- Pieces]));
bytes(Kind, Pieces) when Kind < 10 ->
    damaged(iolist_to_binary([Frame || {_, Frame} <- Pieces]));
bytes(10, [{Text, _} | _]) -> damaged(zlib:gzip(Text)).

damaged(Bytes) ->
    lists:foldl(fun(_, Now) -> damage(rand:uniform(9), Now) end, Bytes,
        lists:seq(1, rand:uniform(4))).

damage(_, Bytes) when byte_size(Bytes) < 100 -> Bytes;
damage(1, Bytes) ->
    {Before, <<Byte, After/binary>>} = at(Bytes),
    <<Before/binary, (Byte bxor (1 bsl (rand:uniform(8) - 1))), After/binary>>;
damage(2, Bytes) ->
    {Before, <<_, After/binary>>} = at(Bytes),
    <<Before/binary, (rand:uniform(256) - 1), After/binary>>;
damage(3, Bytes) ->
    {Before, After} = at(Bytes),
    <<Before/binary, (rand:bytes(rand:uniform(20)))/binary, After/binary>>;
damage(4, Bytes) ->
    {Before, _} = at(Bytes),
    case rand:uniform(3) of 1 -> Before; _ -> Bytes end;
damage(5, Bytes) ->
    {Before, _, After} = block(Bytes),
    <<Before/binary, After/binary>>;
damage(6, Bytes) ->
    {Before, Block, After} = block(Bytes),
    <<Before/binary, Block/binary, Block/binary, After/binary>>;
damage(7, Bytes) ->
    {Before, Block, After} = block(Bytes),
    <<Before/binary, 0:(8 * byte_size(Block)), After/binary>>;
damage(8, Bytes) ->
    {Before, _, After} = line(Bytes),
    iolist_to_binary([Before, After]);
damage(9, Bytes) ->
    {Before, Line, After} = line(Bytes),
    iolist_to_binary([Before, Line, Line, After]).

at(Bytes) ->
    At = rand:uniform(byte_size(Bytes)) - 1,
    <<Before:At/binary, After/binary>> = Bytes,
    {Before, After}.

block(Bytes) ->
    {Before, Rest} = at(Bytes),
    Size = min(byte_size(Rest), rand:uniform(1 bsl rand:uniform(13))),
    <<Block:Size/binary, After/binary>> = Rest,
    {Before, Block, After}.

%% The first whole line behind a random place.
line(Bytes) ->
    {Before0, Rest0} = at(Bytes),
    case binary:split(Rest0, <<"\n">>) of
        [Rest, Behind] ->
            Before = [Before0, Rest, "\n"],
            case binary:split(Behind, <<"\n">>) of
                [Line, After] -> {Before, [Line, "\n"], After};
                [Line] -> {Before, Line, <<>>}
            end;
        [Line] -> {Before0, Line, <<>>}
    end.

%%% Two readers

compared(File) ->
    Keep = fun(Sample, Samples) -> [Sample | Samples] end,
    {ok, Expected, _} = reader_oracle:fold(Keep, [], File),
    {ok, Full, Counts} = flame_prof:fold(Keep, [], File),
    {ok, Profile} = flame_prof_profile:read(File),
    %% Damage can make a header one of another tool, whose samples have no status.
    Read = [maps:without([comm, event], S) || #{status := Status} = S <- Full, Status =/= <<>>],
    Info = flame_prof_profile:info(Profile),
    {ok, #{stacks := Stacks}} = flame_prof_profile:stacks(Profile, #{}),
    ok = flame_prof_profile:close(Profile),
    Keys = [samples, bad, damaged, cut_off, lost_text],
    case {Read =:= Expected, maps:with(Keys, Counts)} of
        {true, Numbers} ->
            Same = [{numbers, maps:with(Keys, Info), Numbers},
                {stacks, of_profile(Stacks), of_samples(Full)}],
            case [Different || {_, A, B} = Different <- Same, A =/= B] of
                [] -> {ok, length(Read)};
                [Different | _] -> {different, File, Different}
            end;
        {false, _} ->
            {different, File, {samples, length(Read), length(Expected),
                hd((Read -- Expected) ++ (Expected -- Read))}}
    end.

of_profile(Stacks) ->
    lists:sort([{Status, Frames, Count} || {[Status], Frames, _, Count} <- Stacks]).

of_samples(Samples) ->
    Add = fun(#{status := Status, frames := Frames, period := Period}, Sums) ->
        maps:update_with({Status, Frames}, fun(N) -> N + Period end, Period, Sums)
    end,
    Sums = lists:foldl(Add, #{}, Samples),
    lists:sort([{Status, Frames, N} || {{Status, Frames}, N} <- maps:to_list(Sums)]).
