%% The files of real sessions, and what can befall them: a node that is killed, a
%% disk that is full, read-only, gone, or does not answer. What needs root (a small
%% file system of its own) is skipped, with the reason, where we are not.
-module(flame_prof_files_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2,
    files_are_rotated_and_the_oldest_removed/1, compressed_or_not_the_samples_are_the_same/1,
    each_frame_can_be_read_alone/1, each_block_of_plain_text_can_be_read_alone/1,
    the_first_sample_of_itself_says_what_wrote_the_file/1, each_flush_certifies_itself/1,
    idle_processes_are_merged_with_their_weight/1, no_tick_is_lost_at_a_flush/1,
    a_killed_node_leaves_what_was_flushed/1, a_node_that_ends_leaves_finished_files/1,
    a_removed_directory_is_made_anew/1, a_full_disk_is_told_survived_and_healed/1,
    a_disk_that_is_read_only_for_a_while_heals/1, a_disk_that_hangs_is_not_waited_for/1, log/2]).

-import(waiting, [eventually/1]).

%% doc/format.md: about 256 KiB, and the sample that did not fit any more.
-define(PLAIN_BLOCK, 300 * 1024).

suite() -> [{timetrap, {minutes, 2}}].
all() -> native_node:cases(?MODULE).

init_per_testcase(Case, Config) ->
    Unique = atom_to_list(Case) ++ "_" ++ integer_to_list(erlang:unique_integer([positive])),
    Directory = filename:join(proplists:get_value(priv_dir, Config), Unique),
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => #{to => self()}, level => notice}),
    [{directory, Directory} | Config].

end_per_testcase(_Case, Config) ->
    _ = application:stop(flame_prof),
    _ = logger:remove_handler(?MODULE),
    _ = file:del_dir_r(proplists:get_value(directory, Config)),
    ok.

%% A logger handler: the events of flame_prof as messages.
log(#{msg := {Format, Args}, meta := #{application := flame_prof}}, #{config := #{to := To}}) when
    is_list(Args)
-> To ! {logged, unicode:characters_to_binary(io_lib:format(Format, Args))};
log(_, _) -> ok.

logged(Pattern) ->
    receive
        {logged, Text} ->
            case re:run(Text, Pattern, [{capture, none}]) of
                match -> Text;
                nomatch -> logged(Pattern)
            end
    after 300000 -> error({not_logged, Pattern})
    end.

%% ---- what a session writes ------------------------------------------------------

files_are_rotated_and_the_oldest_removed(Config) ->
    _ = start(Config, #{flushes_per_file => 2, max_files => 3}),
    [flush() || _ <- lists:seq(1, 9)],
    #{files := Files} = Info = flame_prof:info(),
    ?assertEqual(lists:sort(Files), Files),
    ?assertMatch([_, _, _], Files),
    ?assertEqual([<<".zst">>, <<".zst">>, <<".part">>], [filename:extension(F) || F <- Files]),
    ?assertEqual(lists:sort(Files), there(Config)),
    ?assertMatch(#{files_begun := 5, files_removed := 2}, maps:get(counters, Info)),
    #{files := Finished} = stop(),
    ?assertMatch([_, _, _], Finished),
    ?assertEqual(Finished, there(Config)),
    [check(File) || File <- Finished].

compressed_or_not_the_samples_are_the_same(Config) ->
    [begin
        _ = start(Config, #{compress => Compress, sync => Sync}),
        %% A file of a few ticks is hardly compressed.
        ticks(50),
        flush(),
        #{files := [File], written := Written, own_samples := Own, bytes := Bytes} = stop(),
        ?assertMatch(#{samples := S} when S =:= Written + Own, check(File)),
        Size = filelib:file_size(File),
        ?assertMatch({ok, Written, #{samples := Written, bad := 0, bytes := Size}}, count(File)),
        ?assertMatch({ok, _, #{samples := Own}}, flame_prof_samples:own(File)),
        ?assert((Compress =:= none andalso Size =:= Bytes) orelse 5 * Size < Bytes)
    end || {Compress, Sync} <- [{none, none}, {zstd, flush}]].

%% All numbers of each process, and whose they are.
each_frame_can_be_read_alone(Config) ->
    [begin
        _ = start(Config, #{engine => Engine}),
        [flush() || _ <- lists:seq(1, 5)],
        #{files := [File], written := Written, own_samples := Own} = stop(),
        {ok, Bytes} = file:read_file(File),
        Begins = [At || {At, 4} <- binary:matches(Bytes, <<16#fd2fb528:32/little>>)],
        Ends = tl(Begins) ++ [byte_size(Bytes)],
        ?assert(length(Begins) >= 5),
        Read = [read_alone(File, binary:part(Bytes, Begin, End - Begin))
            || {Begin, End} <- lists:zip(Begins, Ends)],
        ct:pal("~p: ~0p", [Engine, Read]),
        ?assertEqual({Written, Own}, {lists:sum([S || {S, _} <- Read]),
            lists:sum([O || {_, O} <- Read])})
    end || Engine <- engines()].

engines() -> [native || maps:get(native, flame_prof_nif:platform())] ++ [portable].

read_alone(File, Bytes) ->
    Alone = <<File/binary, ".alone">>,
    ok = file:write_file(Alone, Bytes),
    {ok, Samples, #{bad := 0, damaged := 0}} =
        flame_prof:fold(fun(Sample, All) -> [Sample | All] end, [], Alone),
    {ok, Owns, #{bad := 0}} = flame_prof_samples:own(Alone),
    ok = file:delete(Alone),
    [?assertMatch(#{metrics := M, words := #{<<"erl_pid">> := _}} when map_size(M) =:= 16, Sample)
        || Sample <- Samples],
    [?assert(map_size(Numbers) > 16) || #{metrics := Numbers} <- Owns],
    {length(Samples), length(Owns)}.

%% Its blocks end at flushes, and otherwise nothing shows where: text that begins anywhere has all
%% numbers from the second block on.
each_block_of_plain_text_can_be_read_alone(Config) ->
    [begin
        _ = start(Config, #{engine => Engine, compress => none, select => {top, 1000}}),
        #{files := [Part]} = flame_prof:info(),
        _ = flush(),
        Flushed = filelib:file_size(Part),
        eventually(fun() -> filelib:file_size(Part) > Flushed + 5 * ?PLAIN_BLOCK end),
        #{files := [File], written := Written, own_samples := Own} = stop(),
        {ok, Text} = file:read_file(File),
        {Samples1, Own1} = read_alone(File, binary:part(Text, 0, Flushed)),
        <<_:Flushed/binary, Second/binary>> = Text,
        {Samples2, Own2} = read_alone(File, Second),
        ?assertEqual({Written, Own}, {Samples1 + Samples2, Own1 + Own2}),
        ct:pal("~p: ~b and ~b bytes", [Engine, Flushed, byte_size(Second)]),
        ?assert(byte_size(Second) > 4 * ?PLAIN_BLOCK),
        [from_anywhere(File, Second, byte_size(Second) * N div 7) || N <- lists:seq(1, 6)]
    end || Engine <- engines()].

%% From the next sample on.
from_anywhere(File, Text, At) ->
    Alone = <<File/binary, ".alone">>,
    <<_:At/binary, Cut/binary>> = Text,
    [_, Rest] = binary:split(Cut, <<"\n\n">>),
    Pieces = [{byte_size(Piece) + 2, binary:match(Piece, <<"\tffffffff flame_prof_self ">>)}
        || Piece <- binary:split(Rest, <<"\n\n">>, [global, trim])],
    ok = file:write_file(Alone, Rest),
    {ok, Samples, #{bad := 0}} =
        flame_prof:fold(fun(#{metrics := M}, All) -> [map_size(M) | All] end, [], Alone),
    ok = file:delete(Alone),
    without_numbers(Pieces, lists:reverse(Samples), 0).

without_numbers([{Size, nomatch} | Pieces], [Numbers | Samples], At) ->
    ?assert(Numbers =:= 16 orelse (Numbers =:= 0 andalso At < ?PLAIN_BLOCK), {Numbers, At}),
    without_numbers(Pieces, Samples, At + Size);
without_numbers([{Size, _} | Pieces], Samples, At) ->
    without_numbers(Pieces, Samples, At + Size);
without_numbers([], [], _At) -> ok.

the_first_sample_of_itself_says_what_wrote_the_file(Config) ->
    {ok, Version} = application:get_key(flame_prof, vsn),
    [begin
        _ = start(Config, #{engine => Engine, compress => none, select => {top, 23}}),
        _ = flush(),
        #{files := [File]} = stop(),
        {ok, Text} = file:read_file(File),
        [First | _] = [hd(binary:split(Piece, <<"\n">>))
            || Piece <- binary:split(Text, <<"\n\n">>, [global]),
               nomatch =/= binary:match(Piece, <<"\n\tffffffff flame_prof_self ">>),
               nomatch =:= binary:match(Piece, <<" continues=">>)],
        ct:pal("~ts", [First]),
        [?assertMatch({match, _}, re:run(First, [" ", Key, "=", Pattern, "(?: |$)"]), Key)
         || {Key, Pattern} <- [{"node", ["\\Q", atom_to_list(node()), "\\E"]},
                {"otp", erlang:system_info(otp_release)},
                {"version", ["\\Q", Version, "\\E"]},
                {"options", "[a-z_0-9=,.]*compress=none[a-z_0-9=,.]*"},
                {"engine", atom_to_list(Engine)},
                {"clock_offset_us", "[0-9]{15,}/-?[0-9]+"},
                {"format", "3"}]]
    end || Engine <- engines()].

each_flush_certifies_itself(Config) ->
    _ = start(Config, #{}),
    %% What the node tells of itself comes when it has it.
    Before = eventually(fun() ->
        flush(),
        {ok, Owns, _} = reader_oracle:own(maps:get(files, flame_prof:info())),
        #{figures := Last} = lists:last(Owns),
        is_map_key(<<"node_processes">>, Last) andalso {true, length(Owns) - 1}
    end),
    [flush() || _ <- lists:seq(1, 2)],
    #{files := Files, engine := Engine, attempted := Attempted} = stop(),
    {ok, Own, #{bad := 0, own := Count}} = reader_oracle:own(Files),
    %% Beside those that the time brings.
    ?assert(Count >= Before + 4),
    Name = atom_to_binary(Engine),
    [?assertMatch(#{engine := Name, time_us := _, figures := #{}}, Sample) || Sample <- Own],
    Figures = [F || #{figures := F} <- Own],
    AttemptedOnes = [V || #{<<"attempted">> := {V, _}} <- Figures],
    ?assertEqual(lists:sort(AttemptedOnes), AttemptedOnes),
    ?assertEqual(Attempted, lists:last(AttemptedOnes)),
    [?assert(is_map_key(Key, F), Key) || F <- lists:nthtail(Before, Figures),
        Key <- [<<"missed">>, <<"inconsistent">>, <<"dropped">>, <<"exited">>, <<"sampler_cpu_ns">>,
            <<"writer_cpu_ns">>, <<"file_bytes">>, <<"rate_millihertz">>, <<"node_run_queues">>,
            <<"node_memory_total">>, <<"node_processes">>, <<"node_ports">>,
            <<"node_allocator_carriers">>, <<"node_allocator_blocks">>]],
    #{<<"node_processes">> := {Processes, _}} = lists:last(Figures),
    ?assert(Processes >= length([P || P <- processes(), lists:keymember(registered_name, 1,
        process_info(P, [registered_name]))]) div 2),
    #{<<"node_allocator_carriers">> := {Carriers, _}, <<"node_allocator_blocks">> := {Blocks, _}} =
        lists:last(Figures),
    ?assert(Carriers >= Blocks andalso Blocks > 1000000).

idle_processes_are_merged_with_their_weight(Config) ->
    Waiters = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 50)],
    _ = start(Config, #{coalesce_idle => true, select => {top, 1000}}),
    ticks(50),
    #{files := [File], written := Written, merged := Merged} = stop(),
    [Pid ! stop || Pid <- Waiters],
    ct:pal("~b looks, ~b of them merged", [Written, Merged]),
    _ = check(File),
    {ok, Looks, #{samples := Samples}} = reader_oracle:fold(
        fun(#{period := Period}, Sum) -> Sum + Period end, 0, File),
    ?assertEqual(Written, Looks),
    ?assertEqual(Written - Merged, Samples),
    ?assert(Merged > 0),
    ?assertMatch({ok, #{all_samples := Written}}, flame_prof_tree:report(File, #{})).

%% All samples of a tick have one time, so each tick that had a process to sample shows. The first
%% ones have none, until the selection has answered.
no_tick_is_lost_at_a_flush(Config) ->
    _ = start(Config, #{flushes_per_file => 3, engine => portable}),
    [#{ticks := Empty} | _] = [flush() || _ <- lists:seq(1, 10)],
    #{files := Files, ticks := Ticks, dropped := Dropped} = stop(),
    {ok, Times, _} = reader_oracle:fold(
        fun(#{time_us := Time}, Seen) -> Seen#{Time => []} end, #{}, Files),
    %% What was dropped for want of room is counted, and not the flush's doing.
    ?assert(Ticks > Empty),
    ?assert(map_size(Times) + Dropped >= Ticks - Empty).

%% ---- the end of a node ------------------------------------------------------------

%% At a random instant; at KILLS of them.
a_killed_node_leaves_what_was_flushed(Config) ->
    Kills = list_to_integer(os:getenv("KILLS", "1")),
    [begin
        Peers = [{Compress, begun(Config, Compress)} || Compress <- [zstd, none]],
        [killed(Config, Compress, Peer) || {Compress, Peer} <- Peers]
    end || _ <- lists:seq(1, Kills)].

begun(Config, Compress) ->
    quiet_peer("{ok, _} = flame_prof:start(#{dir => \"" ++ folder(Config, Compress) ++ "\","
        "    sample_interval => 1, select => {top, 10}, compress => " ++ atom_to_list(Compress) ++ ","
        "    flushes_per_file => 3, max_files => infinity, cpu_budget => infinity}),"
        "Loop = fun Loop() ->"
        "    timer:sleep(rand:uniform(100)),"
        "    #{counters := #{written := Written}} = flame_prof:info(),"
        "    ok = flame_prof:flush(60000),"
        "    Written > 0 andalso io:format(\"~b~n\", [Written]),"
        "    Loop()"
        "end, Loop().").

folder(Config, Compress) -> proplists:get_value(directory, Config) ++ atom_to_list(Compress).

killed(Config0, Compress, Peer) ->
    Config = [{directory, folder(Config0, Compress)} | Config0],
    %% It has flushed once, whenever that is; then at any instant.
    First = output_until(Peer, "\n", []),
    Instant = rand:uniform(700),
    timer:sleep(Instant),
    {os_pid, OsPid} = erlang:port_info(Peer, os_pid),
    [] = os:cmd("kill -9 " ++ integer_to_list(OsPid)),
    Lines = string:lexemes(First ++ rest(Peer), "\n"),
    Flushed = last_number(lists:reverse(Lines)),
    ?assert(Flushed > 0),
    %% As they were left, and as the next session leaves them.
    {ok, Read, _} = count(there(Config)),
    ?assert(Read >= Flushed),
    _ = start(Config, #{select => {top, 0}, compress => Compress, max_files => infinity}),
    #{files_recovered := Recovered} = stop(),
    ?assert(Recovered =< 1),
    Files = there(Config),
    ?assertEqual([], [File || File <- Files, filename:extension(File) =:= <<".part">>]),
    [check_whole(File) || File <- Files],
    ?assertMatch({ok, Again, #{bad := 0}} when Again >= Flushed, count(Files)),
    ct:pal("~p, ~b ms: ~b flushed, ~b read, ~b recovered",
        [Compress, Instant, Flushed, Read, Recovered]),
    ok = file:del_dir_r(proplists:get_value(directory, Config)).

%% All that it prints is numbers: what it would say of losses, on a slow machine, is none.
quiet_peer(Expressions) ->
    peer_vm:start([flame_prof, ?MODULE], Expressions, ["-kernel", "logger_level", "critical"]).

%% The last line may be cut off.
last_number([Line | Lines]) ->
    try list_to_integer(Line)
    catch
        error:badarg -> last_number(Lines)
    end.

a_node_that_ends_leaves_finished_files(Config) ->
    Directory = proplists:get_value(directory, Config),
    Peer = quiet_peer("{ok, _} = flame_prof:start(#{dir => \"" ++ Directory ++ "\"}),"
        "waiting:eventually(fun() -> "
        "    maps:get(written, maps:get(counters, flame_prof:info())) > 100 end),"
        "init:stop()."),
    _ = rest(Peer),
    [File] = there(Config),
    ?assertEqual(<<".zst">>, filename:extension(File)),
    _ = check(File).

%% ---- disks that fail ----------------------------------------------------------------

a_removed_directory_is_made_anew(Config) ->
    Directory = proplists:get_value(directory, Config),
    _ = start(Config, #{}),
    flush(),
    ok = file:del_dir_r(Directory),
    flush(),
    _ = logged("removed or replaced by another program"),
    _ = logged("can write again"),
    ?assertMatch(#{error := <<>>, counters := #{errors := 1}}, flame_prof:info()),
    #{files := Files} = stop(),
    ?assertEqual(there(Config), [lists:last(Files)]),
    _ = check(lists:last(Files)).

a_full_disk_is_told_survived_and_healed(Config) ->
    with_disk(Config, fun(Disk) ->
        Ballast = filename:join(Disk, "ballast"),
        {ok, _} = flame_prof:start(#{dir => filename:join(Disk, "logs"), compress => none,
            sample_interval => 3, cpu_budget => infinity,
            %% What may wait for the disk is soon full.
            memory_budget => 50777216}),
        flush(),
        fill(Ballast),
        Text = logged("no space left on device"),
        ?assertMatch({match, _}, re:run(Text, "\\.part: no space left on device")),
        %% What waits is bounded: then samples are lost, and counted.
        eventually(fun() -> maps:get(lost, counters()) > 0 end),
        {error, {file, #{file := Where, reason := enospc}} = Reason} = flame_prof:flush(60000),
        ?assertMatch({match, _}, re:run(Where, "logs/")),
        Why = unicode:characters_to_binary(flame_prof:format_error(Reason)),
        ?assertMatch(#{state := running, error := Why}, flame_prof:info()),
        ok = file:delete(Ballast),
        _ = logged("can write again"),
        ?assertMatch(#{error := <<>>}, flame_prof:info()),
        #{lost := Lost, errors := Errors, written := Written, own_samples := Own} = Run = stop(),
        ct:pal("~b lost, ~b errors", [Lost, Errors]),
        ?assert(Lost > 0),
        #{files := Files} = Run,
        ?assertEqual(Written + Own, lists:sum([maps:get(samples, check(File)) || File <- Files]))
    end).

fill(Ballast) ->
    {ok, Device} = file:open(Ballast, [write, raw]),
    fill_up(Device, binary:copy(<<0>>, 1048576)),
    fill_up(Device, binary:copy(<<0>>, 4096)),
    file:close(Device).

fill_up(Device, Bytes) ->
    case file:write(Device, Bytes) of ok -> fill_up(Device, Bytes); {error, enospc} -> ok end.

a_disk_that_is_read_only_for_a_while_heals(Config) ->
    case with_image(Config, fun read_only_for_a_while/1) of
        {skip, _} = Skip -> Skip;
        _ -> ok
    end.

read_only_for_a_while(Disk) ->
    %% Without a budget: what is merged to keep within one is written in fewer samples.
    {ok, _} = flame_prof:start(#{dir => filename:join(Disk, "logs"), flushes_per_file => 1,
        cpu_budget => infinity}),
    flush(),
    %% The file of the last flush is finished; the next one cannot be begun.
    %% Busy for as long as the finished file is being closed.
    eventually(fun() -> os:cmd("mount -o remount,ro " ++ Disk) =:= "" end),
    ?assertMatch({error, {file, #{reason := erofs}}}, flame_prof:flush(60000)),
    "" = os:cmd("mount -o remount,rw " ++ Disk),
    _ = logged("can write again"),
    #{lost := 0, files := Files, written := Written} = stop(),
    ?assertMatch({ok, Written, #{bad := 0}}, count(Files)),
    [check_whole(File) || File <- Files].

a_disk_that_hangs_is_not_waited_for(Config) ->
    case with_image(Config, fun hang/1) of {skip, _} = Skip -> Skip; _ -> ok end.

hang(Disk) ->
    {ok, _} = flame_prof:start(#{dir => filename:join(Disk, "logs")}),
    flush(),
    case os:cmd("fsfreeze -f " ++ Disk) of
        "" -> frozen(Disk);
        Why -> skip("this file system cannot be frozen: ", Why)
    end.

frozen(Disk) ->
    try
        ?assertEqual({error, {timeout, #{ms => 300, request => flush}}}, flame_prof:flush(300)),
        #{ticks := Before} = counters(),
        eventually(fun() -> maps:get(ticks, counters()) > Before + 20 end),
        ?assertEqual({error, {timeout, #{ms => 300, request => stop}}}, flame_prof:stop(300)),
        %% What would be lost if the node ended now.
        ?assertMatch(#{state := stopping, counters := #{pending := P}} when P > 0,
            flame_prof:info())
    after os:cmd("fsfreeze -u " ++ Disk)
    end,
    eventually(fun() -> maps:get(state, flame_prof:info()) =:= stopped end),
    #{last_run := #{lost := 0, pending := 0, files := [File]}} = flame_prof:info(),
    _ = check(File).

%% No flush but those of the test, and no governor: however slow this machine is.
start(Config, Options) ->
    Directory = proplists:get_value(directory, Config),
    Fixed = #{dir => Directory, flush_interval => 3600000, cpu_budget => infinity},
    {ok, Pid} = flame_prof:start(maps:merge(Fixed, Options)),
    Pid.

%% After some samples; the counters of before.
flush() ->
    #{written := Before} = counters(),
    eventually(fun() -> maps:get(written, counters()) > Before end),
    Counters = counters(),
    ?assertEqual(ok, flame_prof:flush(60000)),
    Counters.

counters() -> maps:get(counters, flame_prof:info()).

%% So many, however long they take.
ticks(N) ->
    #{ticks := Before} = counters(),
    eventually(fun() -> maps:get(ticks, counters()) >= Before + N end).

stop() ->
    {ok, Run} = flame_prof:stop(60000),
    #{attempted := Attempted, written := Written, inconsistent := Inconsistent, dropped := Dropped,
        exited := Exited} = Run,
    ?assertEqual(Attempted, Written + Inconsistent + Dropped + Exited),
    Run.

there(Config) ->
    Directory = unicode:characters_to_binary(proplists:get_value(directory, Config)),
    {ok, Names} = file:list_dir(Directory),
    lists:sort([filename:join(Directory, Name) || Name <- Names]).

count(Files) -> flame_prof:fold(fun(_, N) -> N + 1 end, 0, Files).

check(File) ->
    case perf_script_grammar:check(File) of
        {ok, Summary} -> Summary;
        {error, {Line, Why}} -> ct:fail("~ts:~b: ~ts", [File, Line, Why])
    end.

%% A file may have one sample, which is too little for the grammar.
check_whole(File) ->
    Counted = reader_oracle:fold(fun(_, N) -> N + 1 end, 0, File),
    case {filename:extension(File), Counted} of
        {_, {ok, _, #{samples := Samples, own := Own}}} when Samples + Own >= 2 -> check(File);
        {<<".zst">>, _} -> ?assertEqual("", os:cmd("zstd -tq -- '" ++ binary_to_list(File) ++ "'"));
        {<<".log">>, {ok, _, #{bad := Bad}}} -> ?assertEqual(0, Bad)
    end.

rest(Peer) ->
    {Status, Output} = peer_vm:output(Peer),
    true = is_integer(Status),
    Output.

output_until(Peer, End, Output) ->
    receive
        {Peer, {data, More}} ->
            Text = lists:flatten([Output | More]),
            case string:find(Text, End) of
                nomatch -> output_until(Peer, End, Text);
                _ -> Text
            end;
        {Peer, {exit_status, Status}} ->
            error({peer_ended, Status, Output})
    after 300000 -> error({peer_hangs, Output})
    end.

%% A file system in memory, with room for some seconds of plain text.
with_disk(Config, Test) ->
    Disk = proplists:get_value(directory, Config) ++ ".disk",
    ok = filelib:ensure_dir(filename:join(Disk, "x")),
    case os:cmd("mount -t tmpfs -o size=128m tmpfs '" ++ Disk ++ "' 2>&1") of
        "" -> on_disk(Disk, Test);
        Why -> skip("no file system of our own: ", Why)
    end.

%% One on a device, which can be frozen.
with_image(Config, Test) ->
    Disk = proplists:get_value(directory, Config) ++ ".disk",
    Image = Disk ++ ".image",
    ok = filelib:ensure_dir(filename:join(Disk, "x")),
    Make = ["PATH=$PATH:/usr/sbin:/sbin; truncate -s 64M '", Image, "' && mkfs.ext4 -q '", Image,
        "' && mount -o loop '", Image, "' '", Disk, "'"],
    case os:cmd(lists:flatten(["{ ", Make, "; } 2>&1"])) of
        "" -> on_disk(Disk, Test);
        Why -> skip("no file system of our own: ", Why)
    end.

on_disk(Disk, Test) ->
    try Test(Disk)
    after
        _ = application:stop(flame_prof),
        os:cmd("umount '" ++ Disk ++ "'")
    end.

skip(What, Why) ->
    io:format(user, "    skipped: ~ts~ts~n", [What, Why]),
    {skip, What ++ Why}.
