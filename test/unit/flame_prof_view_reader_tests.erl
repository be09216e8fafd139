%% The index of a file that grows: its pieces together are the index of the whole file, which is
%% read at once.
-module(flame_prof_view_reader_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/").
-define(ZSTD, <<16#28, 16#B5, 16#2F, 16#FD>>).

%%% Pieces

plain_text_comes_in_pieces_test() ->
    Text = iolist_to_binary([text("ours.log"), text("changes.log"), text("ours.log")]),
    grows(".log", pieces_of(Text, 997), fun whole_samples/1).

zstd_frames_come_in_pieces_test() ->
    Earlier = lists:reverse(frames(text("two_frames.log.zst"))),
    Frames = lists:append(lists:duplicate(4, Earlier)),
    Chunks = pieces_of(iolist_to_binary(Frames), 331),
    grows(".log.zst", Chunks, fun(Bytes) -> whole_frames(Frames, byte_size(Bytes)) end).

files_of_a_session_come_in_pieces_test() ->
    in_directory(fun(Dir) ->
        Names = [filename:join(Dir, N) || N <- ["1.log", "2.log", "3.log"]],
        Texts = [text("ours.log"), text("changes.log"), text("changes.log")],
        Steps = lists:append([[{write, N, binary:part(T, 0, byte_size(T) div 2)},
            {write, N, T}, {finish, N}] || {N, T} <- lists:zip(Names, Texts)]),
        Reader = lists:foldl(fun(Step, Before) ->
            done(Step),
            Files = [F || N <- Names, F <- [N, part(N)], filelib:is_regular(F)],
            After = step(Files, Before, Dir),
            case Step of {finish, _} -> same(After, Files, Dir); _ -> ok end,
            After
        end, none, Steps),
        ended(Reader)
    end).

%% What a session does where the disk was full: a block is cut off again.
a_file_that_is_cut_back_goes_on_test() ->
    in_directory(fun(Dir) ->
        Text = text("changes.log"),
        Path = filename:join(Dir, "a.log"),
        Grown = lists:foldl(fun(Bytes, Before) ->
            ok = file:write_file(part(Path), Bytes),
            step([part(Path)], Before, Dir)
        end, none, [<<Text/binary, "beam 1/5 [000] 9.0">>, Text, <<Text/binary, Text/binary>>]),
        same(Grown, [part(Path)], Dir),
        ended(Grown)
    end).

%%% What is read anew

another_file_of_the_name_is_read_anew_test() ->
    in_directory(fun(Dir) ->
        Path = filename:join(Dir, "a.log"),
        ok = file:write_file(part(Path), text("ours.log")),
        {Reader, _} = step([part(Path)], none, Dir),
        ok = file:rename(part(Path), filename:join(Dir, "moved")),
        ok = file:write_file(part(Path), text("changes.log")),
        ?assertEqual(changed, extended(Reader, [part(Path)], Dir))
    end).

a_series_without_its_first_file_is_read_anew_test() ->
    in_directory(fun(Dir) ->
        [First, Second] = Paths = [filename:join(Dir, N) || N <- ["1.log", "2.log"]],
        ok = file:write_file(First, text("ours.log")),
        ok = file:write_file(part(Second), text("ours.log")),
        {Reader, _} = step([First, part(Second)], none, Dir),
        ?assertEqual(2, length(Paths)),
        ?assertEqual(changed, extended(Reader, [part(Second)], Dir))
    end).

a_file_that_was_cut_before_what_was_read_is_read_anew_test() ->
    in_directory(fun(Dir) ->
        Path = filename:join(Dir, "a.log"),
        Text = text("ours.log"),
        Cut = binary:part(Text, 0, byte_size(Text) div 2),
        [begin
            ok = file:write_file(part(Path), Text),
            {Reader, _} = step([part(Path)], none, Dir),
            ok = file:write_file(part(Path), Bytes),
            ?assertEqual(changed, extended(Reader, [part(Path)], Dir))
        end
         %% Shorter, and as long again, with samples at other places.
         || Bytes <- [Cut, <<"x\n", Text/binary, Text/binary>>]]
    end).

%% Times count from the first sample.
a_sample_of_before_the_first_is_read_anew_test() ->
    in_directory(fun(Dir) ->
        Path = filename:join(Dir, "a.log"),
        ok = file:write_file(part(Path), sample(<<"1000">>)),
        {Reader, _} = step([part(Path)], none, Dir),
        ok = file:write_file(part(Path), sample(<<"999">>), [append]),
        ?assertEqual(changed, extended(Reader, [part(Path)], Dir))
    end).

nothing_is_kept_behind_damage_test() ->
    in_directory(fun(Dir) ->
        Path = filename:join(Dir, "a.log.zst.part"),
        {ok, _} = file:copy(?CORPUS "damaged_frame.log.zst", Path),
        Reader = flame_prof_view_reader:start_link([Path], filename:join(Dir, "index")),
        ?assertMatch({ok, #{is_kept := false}}, answer(Reader))
    end).

what_is_no_profile_is_refused_test() ->
    in_directory(fun(Dir) ->
        Path = filename:join(Dir, "a.log"),
        ok = file:write_file(Path, "main;a 3\nmain;b 4\n"),
        Reader = flame_prof_view_reader:start_link([unicode:characters_to_binary(Path)],
            filename:join(Dir, "index")),
        ?assertMatch({error, {file, #{reason := <<"no sample of it can be read: it has collapsed ",
            _/binary>>}}}, answer(Reader))
    end).

%% Grows a file by these chunks; `Whole' says what of its bytes is to be seen.
grows(Extension, Chunks, Whole) ->
    in_directory(fun(Dir) ->
        Path = iolist_to_binary([filename:join(Dir, "grows"), Extension]),
        Seen = iolist_to_binary([filename:join(Dir, "seen"), Extension]),
        {_, Last} = lists:foldl(fun(Chunk, {Before, Reader}) ->
            Bytes = <<Before/binary, Chunk/binary>>,
            ok = file:write_file(part(Path), Bytes),
            ok = file:write_file(Seen, Whole(Bytes)),
            Grown = step([part(Path)], Reader, Dir),
            same(Grown, [Seen], Dir),
            {Bytes, Grown}
        end, {<<>>, none}, Chunks),
        ended(Last)
    end).

%% {Reader, Pieces so far, the newest first}
step(Files, none, Dir) ->
    Path = filename:join(Dir, "index"),
    Reader = flame_prof_view_reader:start_link(Files, Path),
    {ok, #{is_kept := true}} = answer(Reader),
    {Reader, [Path]};
step(Files, {Reader, [Last | _] = Pieces}, Dir) ->
    {ok, #{bytes := Bytes}} = extended(Reader, Files, Dir),
    Piece = filename:join(Dir, "piece" ++ integer_to_list(length(Pieces))),
    ok = file:rename(filename:join(Dir, "piece"), Piece),
    ?assertEqual(Bytes, filelib:file_size(Piece)),
    ?assertNotEqual(Last, Piece),
    {Reader, [Piece | Pieces]}.

extended(Reader, Files, Dir) ->
    ok = flame_prof_view_reader:extend(Reader, Files, filename:join(Dir, "piece"), none),
    answer(Reader).

answer(Reader) ->
    receive
        {'$gen_cast', {built, Reader, Result}} -> Result;
        {'$gen_cast', {progress, Reader, _}} -> answer(Reader)
    end.

ended({Reader, _}) ->
    Monitor = monitor(process, Reader),
    ok = flame_prof_view_reader:stop(Reader),
    receive {'DOWN', Monitor, process, Reader, Reason} -> ?assertEqual(normal, Reason) end.

same({_, Pieces}, Files, Dir) ->
    Read = [begin {ok, Bytes} = file:read_file(P), Bytes end || P <- lists:reverse(Pieces)],
    Whole = filename:join(Dir, "whole"),
    {ok, Profile} = flame_prof_profile:read(Files),
    {ok, _} = flame_prof_profile:index(Profile, Whole),
    {ok, Bytes} = file:read_file(Whole),
    #{header := Expected} = Index = foreign_formats:index(Bytes),
    #{header := Header} = Joined = foreign_formats:joined(Read),
    ?assertEqual(maps:remove(header, Index), maps:remove(header, Joined)),
    ?assertEqual(facts(Expected), facts(Header)).

facts(#{<<"files">> := Files, <<"metrics">> := Metrics} = Header) ->
    {maps:without([<<"data_bytes">>, <<"from">>, <<"tables">>, <<"columns">>, <<"own_rows">>,
            <<"files">>, <<"metrics">>], Header),
        %% Without text the compression is not known.
        [maps:without([<<"path">>, <<"compression">>], File) || File <- Files],
        [maps:with([<<"name">>, <<"unit">>, <<"samples">>], Metric) || Metric <- Metrics]}.

done({write, Name, Bytes}) -> ok = file:write_file(part(Name), Bytes);
done({finish, Name}) -> ok = file:rename(part(Name), Name).

part(Path) -> iolist_to_binary([Path, ".part"]).

text(Name) ->
    {ok, Text} = file:read_file(?CORPUS ++ Name),
    Text.

pieces_of(Bytes, Size) when byte_size(Bytes) =< Size -> [Bytes];
pieces_of(Bytes, Size) ->
    <<Piece:Size/binary, Rest/binary>> = Bytes,
    [Piece | pieces_of(Rest, Size)].

whole_samples(Text) ->
    case binary:matches(Text, <<"\n\n">>) of
        [] -> <<>>;
        Found -> {At, 2} = lists:last(Found), binary:part(Text, 0, At + 2)
    end.

frames(Bytes) ->
    [<<>> | Frames] = binary:split(Bytes, ?ZSTD, [global]),
    [<<?ZSTD/binary, Frame/binary>> || Frame <- Frames].

whole_frames([Frame | Frames], Size) when byte_size(Frame) =< Size ->
    [Frame | whole_frames(Frames, Size - byte_size(Frame))];
whole_frames(_, _) -> [].

sample(Second) ->
    <<"beam 7/5 [000] ", Second/binary, ".000001: cpu-clock:\n"
      "# reductions=1/0 erl_pid=<0.5.0> (metrics)\n"
      "\tffffffff a:b/0 (a.erl)\n\tffffffff waiting (status)\n\n">>.

in_directory(Test) -> text_file:folder(Test).
