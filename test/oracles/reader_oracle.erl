%% What the files of flame_prof hold, read in the plainest way and in Erlang alone: the reader of
%% the library is held against it. It tells numbers from words by their looks, so that it takes
%% a process that is registered as '5/6' for a number. Compressed text it has from zstd itself.
-module(reader_oracle).

-export([fold/3, own/1]).

%% Leaf first, without the status.
-type frame() :: {Symbol :: binary(), Dso :: binary()}.

%% Symbols are percent-encoded as they are in the file.
-type sample() ::
    #{
        time_us := integer(),
        pid := integer(),
        tid := integer(),
        period := pos_integer(),
        status := binary(),
        frames := [frame()],
        metrics := #{binary() => {Value :: integer(), Delta :: integer()}},
        words := #{binary() => binary()}
    }.

%% A sample that the profiler took of itself at a flush: its counters and the
%% node's own figures, each with its change since the flush before. `trigger': what
%% has started the session; the first one of these stands where it fired.
-type own() ::
    #{
        time_us := integer(),
        engine := binary(),
        trigger => binary(),
        figures := #{binary() => {Value :: integer(), Delta :: integer()}}
    }.

-type counts() ::
    #{
        samples := non_neg_integer(),
        own := non_neg_integer(),
        bad := non_neg_integer(),
        bytes := non_neg_integer()
    }.

%% One file, or several.
-type files() :: file:name_all() | [file:name_all()].

-type error() :: {File :: file:name_all(), Reason :: term()}.

-define(CHUNK_BYTES, 262144).
%% The longest sample: 255 frames of two atoms of 255 characters, each of them
%% three times as long when it is encoded. What is longer is no sample.
-define(SAMPLE_MOST_BYTES, 4194304).

%% RFC 8878, 3.1.1.
-define(ZSTD_MAGIC, 16#fd2fb528).

%% Calls Fun with every good sample of every file, in order.
-spec fold(fun((sample(), Acc) -> Acc), Acc, files()) ->
    {ok, Acc, counts()} | {error, error()}.
fold(Fun, Acc, Files) ->
    Count = fun
        (next_file, {Acc0, _}, Bad) -> {Acc0, {Bad, #{}}};
        (Raw, {Acc0, Carried0}, Bad) ->
            case not is_own(Raw) andalso sample(Raw, since(Bad, Carried0)) of
                false when element(2, Raw) =:= <<>> -> goes_on(Raw, {Acc0, Carried0});
                false -> own;
                bad -> bad;
                {Sample, Carried} -> {ok, {Fun(Sample, Acc0), {Bad, Carried}}}
            end
    end,
    case each_file(list(Files), Count, {Acc, {0, #{}}}, no_counts()) of
        {ok, {Found, _}, Counts} -> {ok, Found, maps:remove(formats, Counts)};
        {error, _} = Error -> Error
    end.

%% The profiler's own sample is one, of however many lines.
goes_on({Header, _, _}, State) ->
    case binary:match(Header, <<" continues=">>) of nomatch -> own; _ -> {part, State} end.

%% What processes had in their samples before, of those since the last bad one.
since(Bad, {Bad, Carried}) -> Carried;
since(_, _) -> #{}.

%% Formats that a file's own samples tell: known ones, and later ones.
no_counts() -> #{samples => 0, own => 0, bad => 0, bytes => 0, formats => {0, 0}}.

%% The samples that the profiler took of itself, which fold/3 leaves out.
-spec own(files()) -> {ok, [own()], counts()} | {error, error()}.
own(Files) ->
    Collect = fun
        (next_file, {Found, _, _}, Bad) -> {Found, #{}, Bad};
        (Raw, {Found, Begun0, Since}, Bad) ->
            Begun = case Since of Bad -> Begun0; _ -> #{} end,
            case is_own(Raw) andalso own_sample(Raw) of
                false -> own;
                bad -> bad;
                {goes_on, Figures} -> {part, {Found, maps:merge(Begun, Figures), Bad}};
                #{figures := Figures} = Own ->
                    {ok, {[Own#{figures := maps:merge(Begun, Figures)} | Found], #{}, Bad}}
            end
    end,
    case each_file(list(Files), Collect, {[], #{}, 0}, no_counts()) of
        {ok, {Found, _, _}, #{samples := Own, own := Samples} = Counts} ->
            {ok, lists:reverse(Found),
                maps:remove(formats, Counts#{samples := Samples, own := Own})};
        {error, _} = Error -> Error
    end.

is_own({_Header, _Metrics, <<"\tffffffff flame_prof_self (flame_prof)\n", _/binary>>}) -> true;
is_own(_) -> false.

own_sample(Raw) ->
    case sample(Raw, #{}) of
        {#{metrics := Figures, words := #{<<"continues">> := _}}, _} -> {goes_on, Figures};
        {#{time_us := Time, metrics := Figures, words := #{<<"engine">> := Engine} = Words}, _} ->
            Own = #{time_us => Time, engine => Engine, figures => Figures},
            case Words of
                #{<<"trigger">> := Trigger} -> Own#{trigger => flame_prof_frames:decode(Trigger)};
                #{} -> Own
            end;
        _ -> bad
    end.

list(File) when is_binary(File) -> [File];
list([Character | _] = File) when is_integer(Character) -> [File];
list(Files) when is_list(Files) -> Files.

each_file([], _Fun, Acc, Counts) -> {ok, Acc, Counts};
each_file([File | Files], Fun, Acc0, #{bad := Bad} = Counts0) ->
    Begun = Counts0#{formats := {0, 0}},
    case each_chunk(File, Fun, Fun(next_file, Acc0, Bad), Begun) of
        {ok, _, #{formats := {0, Later}}} when Later > 0 -> {error, {File, newer_format}};
        {ok, Acc, Counts} -> each_file(Files, Fun, Acc, Counts);
        {error, Reason} -> {error, {File, Reason}}
    end.

each_chunk(File, Fun, Acc, Counts) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Device} ->
            try read(source(Device, File), <<>>, Fun, Acc, Counts)
            after file:close(Device)
            end;
        {error, _} = Error -> Error
    end.

%% A frame, or one of the skippable ones; a member of gzip.
source(Device, File) ->
    case file:pread(Device, 0, 4) of
        {ok, <<?ZSTD_MAGIC:32/little>>} -> zstd(File);
        {ok, <<Low, 16#2a4d18:24/little>>} when Low >= 16#50 -> zstd(File);
        {ok, <<16#1f8b:16, _/binary>>} -> gzip(File);
        _ -> Device
    end.

zstd(File) ->
    case unzstd(File, "-tqf") of
        {0, _} ->
            open_port({spawn_executable, os:find_executable("zstd")}, [
                {args, ["-dcqf", "--", File]}, binary, exit_status, hide]);
        {_, _} ->
            {ok, Bytes} = file:read_file(File),
            in_memory(frames(Bytes, [File, ".frame"], none))
    end.

unzstd(File, Flags) ->
    Port = open_port({spawn_executable, os:find_executable("zstd")}, [
        {args, [Flags, "--", File]}, binary, exit_status, hide, stderr_to_stdout]),
    collect(Port, []).

collect(Port, Got) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Got, Data]);
        {Port, {exit_status, Status}} -> {Status, Got}
    end.

%% The text of the frames that are good, as zstd has it; behind a damaged one those from the next
%% magic number on. Of frames of 24 MiB and more the library reads what it can; not here. Cut is the
%% first one since the last good one that the end of the file cuts off: zstd has some of its text.
frames(Bytes, Scratch, Cut) ->
    case frame_size(Bytes) of
        {frame, Size} when Size =< byte_size(Bytes) ->
            <<Frame:Size/binary, Rest/binary>> = Bytes,
            case unzstd_of(Frame, Scratch, "-dcqf") of
                {0, Text} -> [Text | frames(Rest, Scratch, none)];
                {_, _} -> next_frame(Bytes, Scratch, Cut)
            end;
        {skip, Size} when Size =< byte_size(Bytes) ->
            <<_:Size/binary, Rest/binary>> = Bytes,
            frames(Rest, Scratch, none);
        _ when Cut =:= none ->
            Begun = case is_cut(Bytes, Scratch) of true -> Bytes; false -> none end,
            next_frame(Bytes, Scratch, Begun);
        _ -> next_frame(Bytes, Scratch, Cut)
    end.

%% zstd says so, and of other damage something else.
is_cut(Bytes, Scratch) ->
    {_, Says} = unzstd_of(Bytes, Scratch, "-tq"),
    nomatch =/= string:find(iolist_to_binary(Says), "premature end").

unzstd_of(Bytes, Scratch, Flags) ->
    ok = file:write_file(Scratch, Bytes),
    Result = unzstd(Scratch, Flags),
    ok = file:delete(Scratch),
    Result.

next_frame(<<_, Rest/binary>>, Scratch, Cut) ->
    Magics = [<<?ZSTD_MAGIC:32/little>> | [<<N, 16#2a4d18:24/little>> || N <- lists:seq(80, 95)]],
    case binary:match(Rest, Magics) of
        {At, 4} ->
            <<_:At/binary, Found/binary>> = Rest,
            frames(Found, Scratch, Cut);
        nomatch when is_binary(Cut) ->
            {_, Text} = unzstd_of(Cut, Scratch, "-dcqqf"),
            [Text];
        nomatch -> []
    end;
next_frame(<<>>, _Scratch, _Cut) -> [].

%% RFC 8878, 3.1.1 and 3.1.2.
frame_size(<<?ZSTD_MAGIC:32/little, Sizes:2, Single:1, _:2, Checksum:1, Dictionary:2, _/binary>> =
    Bytes) ->
    Content = element(Sizes + 1, {Single, 2, 4, 8}),
    Header = 5 + 1 - Single + element(Dictionary + 1, {0, 1, 2, 4}) + Content,
    case blocks(Bytes, Header) of none -> none; End -> {frame, End + 4 * Checksum} end;
frame_size(<<Low, 16#2a4d18:24/little, Size:32/little, _/binary>>) when Low >= 80, Low < 96 ->
    {skip, 8 + Size};
frame_size(_) -> none.

blocks(Bytes, At) ->
    case Bytes of
        <<_:At/binary, Head:24/little, _/binary>> ->
            Next = At + 3 + element(1 + (Head bsr 1) band 3, {Head bsr 3, 1, Head bsr 3, 1 bsl 30}),
            case Head band 1 of 1 -> Next; 0 -> blocks(Bytes, Next) end;
        _ -> none
    end.

%% The first member: nothing where a byte or its checksum makes no sense, the text up to the end of
%% a file that is cut off.
gzip(File) ->
    {ok, Bytes} = file:read_file(File),
    Z = zlib:open(),
    ok = zlib:inflateInit(Z, 16 + 15, cut),
    Text = try zlib:inflate(Z, Bytes) catch error:_ -> [] end,
    zlib:close(Z),
    in_memory(Text).

in_memory(Text) ->
    {ok, Device} = file:open(iolist_to_binary(Text), [ram, read, binary]),
    Device.

%% Carried is the beginning of a sample whose end has not been read yet.
read(Source, Carried, Fun, Acc0, Counts0) ->
    case chunk(Source) of
        {ok, Chunk} ->
            {Rest, Acc, Counts} = samples(Chunk, Carried, Fun, Acc0, Counts0),
            read(Source, Rest, Fun, Acc, Counts);
        eof when Carried =:= <<>> -> {ok, Acc0, Counts0};
        eof when binary_part(Carried, byte_size(Carried), -10) =:= <<" (status)\n">> ->
            %% Only its empty line is missing.
            {<<>>, Acc, Counts} = each_sample(<<Carried/binary, "\n">>, Fun, Acc0, Counts0),
            {ok, Acc, Counts};
        End when End =:= eof; End =:= damaged -> {ok, Acc0, one_bad(Counts0)};
        {error, _} = Error -> Error
    end.

chunk(Port) when is_port(Port) ->
    receive
        {Port, {data, Chunk}} -> {ok, Chunk};
        {Port, {exit_status, 0}} -> eof;
        {Port, {exit_status, _}} -> damaged
    end;
chunk(Device) -> file:read(Device, ?CHUNK_BYTES).

samples(Chunk, Carried, Fun, Acc, #{bytes := Bytes} = Counts) ->
    Text = <<Carried/binary, Chunk/binary>>,
    each_sample(Text, Fun, Acc, Counts#{bytes := Bytes + byte_size(Chunk)}).

%% One empty line more is nothing.
each_sample(<<"\n", Text/binary>>, Fun, Acc, Counts) -> each_sample(Text, Fun, Acc, Counts);
each_sample(Text, Fun, Acc0, Counts0) ->
    case binary:split(Text, <<"\n\n">>) of
        [Text0, Rest] ->
            {Sample, Counts1} = last_sample(Text0, Counts0),
            {Acc, Counts} = one_sample(split(Sample), Fun, Acc0, Counts1),
            each_sample(Rest, Fun, Acc, Counts);
        [Rest] when byte_size(Rest) > ?SAMPLE_MOST_BYTES ->
            %% Its end, up to the next empty line, will be a bad sample.
            {<<"?">>, Acc0, Counts0};
        [Rest] -> {Rest, Acc0, Counts0}
    end.

%% Samples before the last one have no empty line behind them.
last_sample(Text, #{bad := Bad} = Counts) ->
    case re:run(Text, "\n[^\t #]", [global]) of
        {match, Begins} ->
            [{At, 2}] = lists:last(Begins),
            <<_:(At + 1)/binary, Sample/binary>> = Text,
            {Sample, Counts#{bad := Bad + length(Begins)}};
        nomatch -> {Text, Counts}
    end.

one_sample(bad, _Fun, Acc, Counts) -> {Acc, one_bad(Counts)};
one_sample(Raw, Fun, Acc, #{formats := {Known, Later}} = Counts) ->
    case is_own(Raw) andalso format_of(Raw) of
        Version when is_integer(Version), Version > 3 ->
            {Acc, one_bad(Counts#{formats := {Known, Later + 1}})};
        Version when is_integer(Version) ->
            good_sample(Raw, Fun, Acc, Counts#{formats := known_format(Known, Later)});
        bad -> {Acc, one_bad(Counts)};
        _ -> good_sample(Raw, Fun, Acc, Counts)
    end.

%% Two of a later format are believed, whatever follows.
known_format(0, Later) when Later > 1 -> {0, Later};
known_format(Known, Later) -> {Known + 1, Later}.

%% Of a sample of the profiler itself.
format_of({Header, Metrics, _}) ->
    case re:run([Header, "\n", Metrics], " format=([^ ]*)(?: |$)",
            [{capture, all_but_first, binary}]) of
        {match, [Text]} ->
            try binary_to_integer(Text) of
                Version when Version >= 0 -> Version;
                _ -> bad
            catch
                error:_ -> bad
            end;
        nomatch -> none
    end.

good_sample(Raw, Fun, Acc0, #{samples := Samples, own := Own, bad := Bad} = Counts) ->
    case Fun(Raw, Acc0, Bad) of
        {ok, Acc} -> {Acc, Counts#{samples := Samples + 1}};
        {part, Acc} -> {Acc, Counts};
        own -> {Acc0, Counts#{own := Own + 1}};
        bad -> {Acc0, one_bad(Counts)}
    end.

one_bad(#{bad := Bad} = Counts) -> Counts#{bad := Bad + 1}.

split(Sample) ->
    Raw =
        case binary:split(Sample, <<"\n">>) of
            [Header, <<"#", _/binary>> = Rest] ->
                case binary:split(Rest, <<"\n">>) of
                    [Metrics, Stack] -> {Header, Metrics, Stack};
                    _ -> bad
                end;
            [Header, Stack] -> {Header, <<>>, Stack};
            _ -> bad
        end,
    case Raw =/= bad andalso keeps_grammar(Raw) of true -> Raw; false -> bad end.

%% doc/format.md, Grammar.
keeps_grammar({Header, Metrics, Stack}) ->
    is_header(Header) andalso (Metrics =:= <<>> orelse is_metrics(Metrics)) andalso
        nomatch =:= re:run(Stack, "^(?!\t[0-9a-f]+ [^ \n]+ \\([^ \n]+\\)$)", [multiline]).

is_header(Header) ->
    Pattern = "^[^ ]+ ([0-9]+)/([0-9]+) \\[[0-9]{3,}\\] ([0-9]+)\\.[0-9]{6}: (?:.* )?[^ ]+:$",
    case re:run(Header, Pattern, [{capture, all_but_first, binary}, dotall, dollar_endonly]) of
        {match, [_, _, Seconds] = Numbers} ->
            lists:all(fun is_small/1, Numbers) andalso
                (binary_to_integer(Seconds) + 1) * 1000000 < 1 bsl 63 andalso
                nomatch =:= re:run(Header, " (?:0+|[0-9]{20,}) [^ ]+$");
        nomatch -> false
    end.

%% All numbers stand before all words; only a known word begins like a number.
is_metrics(Line) ->
    Number = "[a-z_]+=-?[0-9]+/-?[0-9]+",
    Word = "(?:(?:erl_pid|name|label|node|scheduler|initial_call|proc_lib_initial_call|format|otp"
        "|version|message|serves|waits_for|call|request|trace|span|collection_us|collection|cause)"
        "=[^ ]*"
        "|[a-z_]+=(?:[^-0-9 ][^ ]*)?)",
    Fields = "^# (?=[^(])((?:" ++ Number ++ " )*+)((?:" ++ Word ++ " )*)\\(metrics\\)$",
    case re:run(Line, Fields, [{capture, all_but_first, binary}, dollar_endonly]) of
        {match, [Numbers, Words]} ->
            lists:all(fun is_once/1, [Numbers, Words]) andalso
                lists:all(fun is_small/1, re:split(Numbers, "[^0-9]+", [trim]) -- [<<>>]);
        nomatch -> false
    end.

is_once(Fields) ->
    Keys = [hd(binary:split(Field, <<"=">>)) || Field <- binary:split(Fields, <<" ">>, [global])],
    length(lists:usort(Keys)) =:= length(Keys).

is_small(Digits) -> Digits =:= <<>> orelse binary_to_integer(Digits) < 1 bsl 63.

sample({Header, Metrics, Stack} = Raw, Carried0) ->
    case {head(Header), metrics(Metrics), stack(Stack)} of
        {{Time, Pid, Tid, Period, Fields}, {_, _} = Line, {Status, Frames}} ->
            Process = {first_words(Raw), Pid, Tid},
            case carry(Fields, Metrics, Line, Process, Carried0) of
                {{Values, Words}, Carried} ->
                    Sample = #{time_us => Time, pid => Pid, tid => Tid, period => Period,
                        status => Status, frames => Frames, metrics => Values, words => Words},
                    {Sample, Carried};
                bad -> bad
            end;
        _ -> bad
    end.

%% Format 2: the fields of a header, with what they leave out. A sample with words has all.
carry([], Metrics, Line, _Process, Carried) when Metrics =/= <<>> -> {Line, Carried};
carry(_Fields, Metrics, _Line, _Process, _Carried) when Metrics =/= <<>> -> bad;
carry(Fields, <<>>, _, {First, _, _} = Process, Carried) ->
    Add = fun(Field, Found) -> header_field(Field, Found, First) end,
    try carry(lists:foldl(Add, {[], #{}}, Fields), Process, Carried)
    catch
        error:_ -> bad
    end.

carry({Numbers, Words}, {First, _, _} = Process, Carried) ->
    OfSample = of_sample(Words, First),
    {{Values, OfProcess}, Known} =
        carry({Numbers, maps:without(maps:keys(OfSample), Words)}, OfSample, Process, Carried),
    {{Values, maps:merge(OfProcess, OfSample)}, Known}.

carry({Numbers, Words}, _OfSample, Process, Carried) when map_size(Words) > 0 ->
    Values = maps:from_list([{Key, {V, D}} || {Key, V, D} <- Numbers, V =/= change]),
    true = map_size(Values) =:= length(Numbers),
    {{Values, Words}, Carried#{Process => {Values, Words}}};
carry({Numbers, _}, _OfSample, Process, Carried) when is_map_key(Process, Carried) ->
    {Before, Words} = map_get(Process, Carried),
    Same = maps:map(fun(_, {V, _}) -> {V, 0} end, Before),
    Values = lists:foldr(fun changed/2, Same, Numbers),
    {{Values, Words}, Carried#{Process := {Values, Words}}};
carry({_, _}, _OfSample, _Process, Carried) -> {{#{}, #{}}, Carried}.

%% Words that hold for one sample. The profiler's own samples have none.
of_sample(_Words, [<<"name">>]) -> #{};
of_sample(Words, _First) -> maps:with(sample_keys(), Words).

sample_keys() ->
    [<<"message">>, <<"serves">>, <<"waits_for">>, <<"call">>, <<"request">>, <<"trace">>,
        <<"span">>].

changed({Key, change, Delta}, Values) ->
    {Value, 0} = map_get(Key, Values),
    Values#{Key := {Value + Delta, Delta}};
changed({Key, Value, Delta}, Values) ->
    {_, 0} = map_get(Key, Values),
    Values#{Key := {Value, Delta}}.

%% A colon is encoded in a word.
header_field(Field, {Numbers, Words}, First) ->
    case re:run(Field, "^([a-z_]+)([=+-])(.+)$", [{capture, all_but_first, binary}]) of
        {match, [Key, <<"=">>, Text]} ->
            case figures(Text) of
                {Value, Delta} when Words =:= #{} -> {[{Key, Value, Delta} | Numbers], Words};
                _ -> {Numbers, word(Key, Text, Words, First)}
            end;
        {match, [Key, Sign, Digits]} when Words =:= #{} ->
            Change = binary_to_integer(<<Sign/binary, Digits/binary>>),
            {[{Key, change, Change} | Numbers], Words}
    end.

%% Each once. The first one tells whose a whole sample is; a damaged number is none.
word(Key, Text, Words, First) ->
    Known = lists:member(Key, [
        <<"erl_pid">>, <<"name">>, <<"label">>, <<"node">>, <<"scheduler">>, <<"initial_call">>,
        <<"proc_lib_initial_call">>, <<"format">>, <<"otp">>, <<"version">> | sample_keys()]),
    IsOfSample = First =/= [<<"name">>] andalso lists:member(Key, sample_keys()),
    true = map_size(Words) > 0 orelse IsOfSample orelse lists:member(Key, First),
    false = is_map_key(Key, Words),
    %% Those of the sample stand behind those of the process, and have a text.
    true = IsOfSample orelse map_size(of_sample(Words, First)) =:= 0,
    true = not IsOfSample orelse is_of_sample(Key, Text),
    true = Known orelse nomatch =:= re:run(Text, "^[-0-9]"),
    Words#{Key => binary:replace(Text, <<"%3A">>, <<":">>, [global])}.

is_of_sample(Key, Text) when Key =:= <<"serves">>; Key =:= <<"call">> ->
    Parts = binary:split(Text, <<".">>, [global]),
    length(Parts) =:= 3 andalso
        lists:all(fun(Part) -> match =:= re:run(Part, "^[0-9]+$", [{capture, none}, dollar_endonly])
            andalso binary_to_integer(Part) < 1 bsl 32 end, Parts);
is_of_sample(_Key, _Text) -> true.

first_words(Raw) ->
    case is_own(Raw) of true -> [<<"name">>]; false -> [<<"erl_pid">>, <<"scheduler">>] end.

%% Of a header line.
-spec head(binary()) ->
    {integer(), Pid :: integer(), Tid :: integer(), Period :: pos_integer(), [binary()]} | bad.
head(Header) ->
    try
        [_Comm, Ids, _Cpu, Time | Rest] = binary:split(Header, <<" ">>, [global]),
        case lists:droplast(Rest) of
            [] -> head(Ids, Time, <<"1">>, []);
            [<<Digit, _/binary>> = Period] when Digit >= $0, Digit =< $9 ->
                head(Ids, Time, Period, []);
            Fields -> head(Ids, Time, <<"1">>, Fields)
        end
    catch
        error:_ -> bad
    end.

head(Ids, Time, Period, Fields) ->
    [Pid, Tid] = binary:split(Ids, <<"/">>),
    [Seconds, <<Micros:6/binary, ":">>] = binary:split(Time, <<".">>),
    Us = binary_to_integer(Seconds) * 1000000 + binary_to_integer(Micros),
    {Us, binary_to_integer(Pid), binary_to_integer(Tid), binary_to_integer(Period), Fields}.

%% Of a metrics line: figures, and words such as `name'.
-spec metrics(binary()) ->
    {#{binary() => {integer(), integer()}}, #{binary() => binary()}} | bad.
metrics(<<>>) -> {#{}, #{}};
metrics(<<"# ", Fields/binary>>) ->
    try
        lists:foldl(fun field/2, {#{}, #{}}, binary:split(Fields, <<" ">>, [global]))
    catch
        error:_ -> bad
    end;
metrics(_) -> bad.

field(<<"(metrics)">>, Found) -> Found;
field(Field, {Values, Words}) ->
    [Key, Word] = binary:split(Field, <<"=">>),
    case figures(Word) of
        none -> {Values, Words#{Key => Word}};
        Figures -> {Values#{Key => Figures}, Words}
    end.

%% A word may well have a slash in it, as in initial_call=proc_lib:init_p/5.
figures(Word) ->
    try
        [Value, Delta] = binary:split(Word, <<"/">>),
        {binary_to_integer(Value), binary_to_integer(Delta)}
    catch
        error:_ -> none
    end.

%% Of the frame lines of a sample.
-spec stack(binary()) -> {Status :: binary(), [frame()]} | bad.
stack(Text) ->
    try
        Frames = [frame(Line) || Line <- binary:split(Text, <<"\n">>, [global])],
        {Status, <<"status">>} = lists:last(Frames),
        {Status, lists:droplast(Frames)}
    catch
        error:_ -> bad
    end.

frame(<<"\t", Line/binary>>) ->
    [_Address, Symbol, InBrackets] = binary:split(Line, <<" ">>, [global]),
    Size = byte_size(InBrackets) - 2,
    <<"(", Dso:Size/binary, ")">> = InBrackets,
    {Symbol, Dso}.
