%% @doc Reads the files that flame_prof writes, sample by sample.
%%
%% ```
%% 1> Count = fun(#{status := Status, period := N}, Counts) ->
%%        Counts#{Status => maps:get(Status, Counts, 0) + N}
%%    end.
%% 2> flame_prof_reader:fold(Count, #{}, ["2026-11-21@0154.07.erl_perf.log"]).
%% {ok,#{<<"running">> => 310,<<"waiting">> => 9690},
%%     #{bad => 0,bytes => 6812340,samples => 10000}}
%% '''
%%
%% It reads in chunks and keeps none, so files may be of any size; those of zstd
%% are known by their first bytes, whatever their name. A sample that is not what
%% doc/format.md says, such as the end of a file that was cut off, is left out and
%% counted as bad; the next one begins behind the next empty line. A damaged zstd
%% frame is counted as bad once, and reading goes on at the next frame.
-module(flame_prof_reader).

-export([fold/3, fold_raw/3]).
-export([own/1]).
-export([head/1, metrics/1, delta/2, stack/1, decode/1]).
-export([function/1, process/2]).

-export_type([sample/0, own/0, raw/0, frame/0, counts/0, files/0, error/0]).

%% Leaf first, without the status.
-type frame() :: {Symbol :: binary(), Dso :: binary()}.

%% Symbols are percent-encoded as they are in the file: see decode/1.
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

%% Header, metrics line (empty when there is none) and frame lines as they stand
%% in the file. They are parts of a chunk: copy what is kept.
-type raw() :: {binary(), binary(), binary()}.

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

%% @doc Call Fun with every good sample of every file, in order.
-spec fold(fun((sample(), Acc) -> Acc), Acc, files()) ->
    {ok, Acc, counts()} | {error, error()}.
fold(Fun, Acc, Files) ->
    fold_raw(
        fun(Raw, Acc0) ->
            case sample(Raw) of
                bad -> bad;
                Sample -> {ok, Fun(Sample, Acc0)}
            end
        end,
        Acc,
        Files
    ).

%% @doc The same for who does not need everything of every sample. Fun judges
%% what it looks at: it answers `bad' for a sample that makes no sense.
-spec fold_raw(fun((raw(), Acc) -> {ok, Acc} | bad), Acc, files()) ->
    {ok, Acc, counts()} | {error, error()}.
fold_raw(Fun, Acc, Files) ->
    Count = fun(Raw, Acc0) ->
        case is_own(Raw) of
            true -> own;
            false -> Fun(Raw, Acc0)
        end
    end,
    each_file(list(Files), Count, Acc, no_counts()).

no_counts() ->
    #{samples => 0, own => 0, bad => 0, bytes => 0}.

%% @doc The samples that the profiler took of itself, which fold/3 leaves out: one
%% for each flush, in order.
-spec own(files()) -> {ok, [own()], counts()} | {error, error()}.
own(Files) ->
    Collect = fun(Raw, Found) ->
        case is_own(Raw) andalso own_sample(Raw) of
            false -> own;
            bad -> bad;
            Own -> {ok, [Own | Found]}
        end
    end,
    case each_file(list(Files), Collect, [], no_counts()) of
        {ok, Found, #{samples := Own, own := Samples} = Counts} ->
            {ok, lists:reverse(Found), Counts#{samples := Samples, own := Own}};
        {error, _} = Error ->
            Error
    end.

is_own({_Header, _Metrics, <<"\tffffffff flame_prof_self (flame_prof)\n", _/binary>>}) -> true;
is_own(_) -> false.

own_sample(Raw) ->
    case sample(Raw) of
        #{time_us := Time, metrics := Figures, words := #{<<"engine">> := Engine} = Words} ->
            Own = #{time_us => Time, engine => Engine, figures => Figures},
            case Words of
                #{<<"trigger">> := Trigger} -> Own#{trigger => decode(Trigger)};
                #{} -> Own
            end;
        _ ->
            bad
    end.

list(File) when is_binary(File) -> [File];
list([Character | _] = File) when is_integer(Character) -> [File];
list(Files) when is_list(Files) -> Files.

each_file([], _Fun, Acc, Counts) ->
    {ok, Acc, Counts};
each_file([File | Files], Fun, Acc0, Counts0) ->
    case each_chunk(File, Fun, Acc0, Counts0) of
        {ok, Acc, Counts} -> each_file(Files, Fun, Acc, Counts);
        {error, Reason} -> {error, {File, Reason}}
    end.

each_chunk(File, Fun, Acc, Counts) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Device} ->
            try
                read(Device, <<>>, kind(file:pread(Device, 0, 4)), Fun, Acc, Counts)
            after
                file:close(Device)
            end;
        {error, _} = Error ->
            Error
    end.

%% A frame, or one of the skippable ones.
kind({ok, <<?ZSTD_MAGIC:32/little>>}) -> {zstd, flame_prof_report_nif:unzst_open()};
kind({ok, <<Low, 16#2a4d18:24/little>>}) when Low >= 16#50 -> kind({ok, <<?ZSTD_MAGIC:32/little>>});
kind(_) -> plain.

%% Carried is the beginning of a sample whose end has not been read yet.
read(Device, Carried, Kind, Fun, Acc0, Counts0) ->
    case file:read(Device, ?CHUNK_BYTES) of
        {ok, Chunk} ->
            {Rest, Acc, Counts} = text(Kind, Chunk, Carried, Fun, Acc0, Counts0),
            read(Device, Rest, Kind, Fun, Acc, Counts);
        eof ->
            {ok, Acc0, at_end(Carried, Kind, Counts0)};
        {error, _} = Error ->
            Error
    end.

at_end(<<>>, plain, Counts) ->
    Counts;
at_end(<<>>, {zstd, Stream}, Counts) ->
    case flame_prof_report_nif:unzst_read(Stream, <<>>, 0) of
        {ok, _, _, true} -> Counts;
        _ -> one_bad(Counts)
    end;
at_end(_Carried, _Kind, Counts) ->
    one_bad(Counts).

text(plain, Chunk, Carried, Fun, Acc, Counts) ->
    samples(Chunk, Carried, Fun, Acc, Counts);
text({zstd, Stream}, Chunk, Carried, Fun, Acc, Counts) ->
    frames(Stream, Chunk, 0, Carried, Fun, Acc, Counts).

frames(Stream, Chunk, From, Carried, Fun, Acc0, Counts0) ->
    case flame_prof_report_nif:unzst_read(Stream, Chunk, From) of
        {ok, <<>>, _Next, _IsBetween} ->
            {Carried, Acc0, Counts0};
        {ok, Text, Next, _IsBetween} ->
            {Rest, Acc, Counts} = samples(Text, Carried, Fun, Acc0, Counts0),
            frames(Stream, Chunk, Next, Rest, Fun, Acc, Counts);
        {error, _Why} ->
            %% Each frame begins with a whole sample.
            Next = next_frame(Chunk, From + 1),
            frames(Stream, Chunk, Next, <<>>, Fun, Acc0, one_bad(Counts0))
    end.

next_frame(Chunk, From) when From >= byte_size(Chunk) ->
    byte_size(Chunk);
next_frame(Chunk, From) ->
    Scope = {From, byte_size(Chunk) - From},
    case binary:match(Chunk, <<?ZSTD_MAGIC:32/little>>, [{scope, Scope}]) of
        {At, _} -> At;
        nomatch -> byte_size(Chunk)
    end.

samples(Chunk, Carried, Fun, Acc, #{bytes := Bytes} = Counts) ->
    Text = <<Carried/binary, Chunk/binary>>,
    each_sample(Text, Fun, Acc, Counts#{bytes := Bytes + byte_size(Chunk)}).

each_sample(Text, Fun, Acc0, Counts0) ->
    case binary:split(Text, <<"\n\n">>) of
        [Sample, Rest] ->
            {Acc, Counts} = one_sample(split(Sample), Fun, Acc0, Counts0),
            each_sample(Rest, Fun, Acc, Counts);
        [Rest] when byte_size(Rest) > ?SAMPLE_MOST_BYTES ->
            %% Its end, up to the next empty line, will be a bad sample.
            {<<"?">>, Acc0, Counts0};
        [Rest] ->
            {Rest, Acc0, Counts0}
    end.

one_sample(bad, _Fun, Acc, Counts) ->
    {Acc, one_bad(Counts)};
one_sample(Raw, Fun, Acc0, #{samples := Samples, own := Own} = Counts) ->
    case Fun(Raw, Acc0) of
        {ok, Acc} -> {Acc, Counts#{samples := Samples + 1}};
        own -> {Acc0, Counts#{own := Own + 1}};
        bad -> {Acc0, one_bad(Counts)}
    end.

one_bad(#{bad := Bad} = Counts) ->
    Counts#{bad := Bad + 1}.

split(Sample) ->
    case binary:split(Sample, <<"\n">>) of
        [Header, <<"#", _/binary>> = Rest] ->
            case binary:split(Rest, <<"\n">>) of
                [Metrics, Stack] -> {Header, Metrics, Stack};
                _ -> bad
            end;
        [Header, Stack] ->
            {Header, <<>>, Stack};
        _ ->
            bad
    end.

sample({Header, Metrics, Stack}) ->
    case {head(Header), metrics(Metrics), stack(Stack)} of
        {{Time, Pid, Tid, Period}, {Values, Words}, {Status, Frames}} ->
            #{
                time_us => Time,
                pid => Pid,
                tid => Tid,
                period => Period,
                status => Status,
                frames => Frames,
                metrics => Values,
                words => Words
            };
        _ ->
            bad
    end.

%% @doc Of a header line.
-spec head(binary()) ->
    {TimeUs :: integer(), Pid :: integer(), Tid :: integer(), Period :: pos_integer()} | bad.
head(Header) ->
    try
        case binary:split(Header, <<" ">>, [global]) of
            [_Comm, Ids, _Cpu, Time, _Event] -> head(Ids, Time, <<"1">>);
            [_Comm, Ids, _Cpu, Time, Period, _Event] -> head(Ids, Time, Period);
            _ -> bad
        end
    catch
        error:_ -> bad
    end.

head(Ids, Time, Period) ->
    [Pid, Tid] = binary:split(Ids, <<"/">>),
    [Seconds, <<Micros:6/binary, ":">>] = binary:split(Time, <<".">>),
    Us = binary_to_integer(Seconds) * 1000000 + binary_to_integer(Micros),
    {Us, binary_to_integer(Pid), binary_to_integer(Tid), binary_to_integer(Period)}.

%% @doc Of a metrics line: figures, and words such as `name'.
-spec metrics(binary()) ->
    {#{binary() => {integer(), integer()}}, #{binary() => binary()}} | bad.
metrics(<<>>) ->
    {#{}, #{}};
metrics(<<"# ", Fields/binary>>) ->
    try
        lists:foldl(fun field/2, {#{}, #{}}, binary:split(Fields, <<" ">>, [global]))
    catch
        error:_ -> bad
    end;
metrics(_) ->
    bad.

field(<<"(metrics)">>, Found) ->
    Found;
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

%% @doc One delta of a metrics line, without looking at the others. Pattern is
%% `<<" Key=">>'; 0 when there is no such key.
-spec delta(binary(), Pattern :: binary()) -> integer() | bad.
delta(Metrics, Pattern) ->
    case binary:split(Metrics, Pattern) of
        [_, Found] -> delta_of(Found);
        [_] -> 0
    end.

delta_of(Found) ->
    [Field | _] = binary:split(Found, <<" ">>),
    case figures(Field) of
        {_, Delta} -> Delta;
        none -> bad
    end.

%% @doc Of the frame lines of a sample.
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

%% @doc The function of a frame, for people: `m:f/1:23' is `m:f/1'. No function's
%% name ends in `/' and a number followed by `:' and another, unless it wants to be
%% mistaken.
-spec function(frame()) -> binary().
function({Symbol, _Dso}) ->
    case re:run(Symbol, "/[0-9]+(:[0-9]+)$", [{capture, [1], index}]) of
        {match, [{At, _}]} -> decode(binary:part(Symbol, 0, At));
        nomatch -> decode(Symbol)
    end.

%% @doc What a sample is of, for people: a process by its pid with its name or its
%% initial call, by the metrics line of a sample.
-spec process(Tid :: integer(), Metrics :: binary()) -> binary().
process(Tid, Metrics) ->
    case metrics(Metrics) of
        {_, Words} -> binary:copy(process_name(Tid, Words));
        bad -> integer_to_binary(Tid)
    end.

process_name(_Tid, #{<<"erl_pid">> := Pid, <<"name">> := Name}) ->
    <<(shown(Name))/binary, " ", Pid/binary>>;
process_name(_Tid, #{<<"erl_pid">> := Pid, <<"proc_lib_initial_call">> := Call}) ->
    <<Pid/binary, " ", (shown(Call))/binary>>;
process_name(_Tid, #{<<"erl_pid">> := Pid, <<"initial_call">> := Call}) ->
    <<Pid/binary, " ", (shown(Call))/binary>>;
process_name(_Tid, #{<<"erl_pid">> := Pid}) ->
    Pid;
process_name(_Tid, #{<<"scheduler">> := Number}) ->
    <<"scheduler ", Number/binary>>;
process_name(Tid, _) ->
    integer_to_binary(Tid).

%% As its author writes it.
shown(Text) ->
    flame_prof_names:function(decode(Text)).

%% @doc Undo the percent-encoding of a symbol, for people. What is not printable
%% stays encoded: a function may have an escape sequence for a name.
-spec decode(binary()) -> binary().
decode(Symbol) ->
    case binary:match(Symbol, <<"%">>) of
        nomatch -> Symbol;
        _ -> printable(decode(Symbol, <<>>), Symbol)
    end.

decode(<<$%, High, Low, Rest/binary>>, Decoded) ->
    try binary_to_integer(<<High, Low>>, 16) of
        Byte -> decode(Rest, <<Decoded/binary, Byte>>)
    catch
        error:badarg -> decode(<<High, Low, Rest/binary>>, <<Decoded/binary, $%>>)
    end;
decode(<<Byte, Rest/binary>>, Decoded) ->
    decode(Rest, <<Decoded/binary, Byte>>);
decode(<<>>, Decoded) ->
    Decoded.

printable(Decoded, Encoded) ->
    case unicode:characters_to_list(Decoded) of
        Characters when is_list(Characters) ->
            case lists:all(fun is_printable/1, Characters) of
                true -> Decoded;
                false -> Encoded
            end;
        _ ->
            Encoded
    end.

%% Neither controls nor what turns the direction of the line around.
is_printable(Point) ->
    Point >= $\s andalso (Point < 16#7f orelse Point > 16#a0) andalso
        (Point < 16#2000 orelse Point > 16#200f) andalso
        (Point < 16#2028 orelse Point > 16#202e) andalso
        (Point < 16#2066 orelse Point > 16#2069) andalso
        Point =/= 16#feff.
