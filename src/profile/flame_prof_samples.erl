%% @doc Samples of files, one after the other, for analyses of your own.
%%
%% ```
%% 1> Count = fun(#{status := Status, period := N}, Counts) ->
%%        Counts#{Status => maps:get(Status, Counts, 0) + N}
%%    end.
%% 2> flame_prof:fold(Count, #{}, ["2026-11-21@0154.07.erl_perf.log"]).
%% {ok,#{<<"running">> => 310,<<"waiting">> => 9690},
%%     #{samples => 10000,bad => 0,bytes => 6812340,warnings => [],...}}
%% '''
%%
%% Files are plain, gzip or zstd, which their first bytes tell, and of three dialects:
%% flame_prof's, the original flame_prof's, and `perf script' of Linux. They may have any size: the
%% C library reads a file on dirty schedulers, in pieces of about a megabyte, and keeps nothing.
%%
%% A sample that violates doc/format.md, such as the last one of a file that was cut off, is left
%% out, counted as `bad', and named in `warnings' with its line.
-module(flame_prof_samples).

-export([fold/3, fold/4, own/1]).
-export([first/1, path/1, list/1]).

-export_type([sample/0, own/0, frame/0, counts/0, warning/0, files/0, options/0]).

-type frame() :: {Symbol :: binary(), Dso :: binary()}.
%% Leaf first, without the status.

-type sample() ::
    #{
        time_us := integer(),
        comm := binary(),
        pid := non_neg_integer(),
        tid := non_neg_integer(),
        event := binary(),
        period := pos_integer(),
        status := binary(),
        frames := [frame()],
        metrics := #{binary() => {Value :: integer(), Delta :: integer()}},
        words := #{binary() => binary()}
    }.
%% `pid' and `tid' are those of the header, 0 in files of the original; `comm' is
%% what stands before them, in files of the original the Erlang pid. `status' is
%% empty in files of perf. `words' are those of the process and of the sample (`message',
%% `waits_for' ...: doc/format.md, Words of a sample). In flame_prof's files `period' is how
%% many observations the sample stands for (doc/sampling.md, Unchanged waiting processes): add it
%% up to count samples. Symbols, names and calls are percent-encoded: see
%% {@link flame_prof_frames:decode/1}.

-type own() ::
    #{
        time_us := integer(),
        engine := binary(),
        mode => binary(),
        trigger => binary(),
        metrics := #{binary() => {Value :: integer(), Delta :: integer()}}
    }.
%% A sample that the profiler wrote of itself at a flush: its counters and the node metrics, each
%% with its change since the flush before. `trigger' is what started the session, decoded; the
%% first of these samples stands where it fired. `mode' is there where it is `schedulers'.

-type counts() ::
    #{
        samples := non_neg_integer(),
        bad := non_neg_integer(),
        damaged := non_neg_integer(),
        cut_off := non_neg_integer(),
        lost_text := non_neg_integer(),
        bytes := non_neg_integer(),
        warnings := [warning()]
    }.
%% `bytes' are those of the files, as they are compressed. `damaged', `cut_off' and `lost_text' are
%% as in {@link flame_prof_profile:info/1}. `warnings' has the first of each file.

-type warning() :: {File :: file:name_all(), Line :: non_neg_integer(), What :: binary()}.
%% Line 0 is the file as a whole.

-type files() :: file:name_all() | [file:name_all()].
%% One file, or several.

-type options() ::
    #{
        chunk => pos_integer() | flame_prof_options:left_out(),
        bad => count | stop | flame_prof_options:left_out()
    }.
%% An option that is left out, `undefined' or `nil' has its default, in brackets.
%%
%% <ul>
%% <li>`chunk': the most samples that are read at once (500)</li>
%% <li>`bad': on a damaged sample, `count' it, or `stop' with an
%%     error (`count')</li>
%% </ul>

-define(CHUNK, 500).
-define(CHUNK_MOST, 100000).

%% @private
-spec fold(fun((sample(), Acc) -> Acc), Acc, files()) ->
    {ok, Acc, counts()} | {error, flame_prof:reason()}.
fold(Fun, Acc, Files) ->
    fold(Fun, Acc, Files, #{}).

%% @private Call Fun with every good sample of every file, in order.
-spec fold(fun((sample(), Acc) -> Acc), Acc, files(), options()) ->
    {ok, Acc, counts()} | {error, flame_prof:reason()}.
fold(Fun, Acc, Files, Given) when is_function(Fun, 2) ->
    case flame_prof_schema:checked(rows(), Given) of
        {ok, Options} ->
            all_files(list(Files), Fun, Acc, Options#{whose => processes});
        {error, _} = Error ->
            Error
    end;
fold(Fun, _Acc, _Files, _Given) ->
    Accepted = <<"a function of a sample and an accumulator">>,
    {error, {badarg, #{argument => function, value => Fun, accepted => Accepted}}}.

%% @doc The samples that the profiler wrote of itself, which fold/3 leaves out: one a flush, in
%% order. `samples' of the counts are these.
-spec own(files()) -> {ok, [own()], counts()} | {error, flame_prof:reason()}.
own(Files) ->
    Collect = fun(Sample, All) -> [own_sample(Sample) | All] end,
    Options = #{chunk => ?CHUNK, bad => count, whose => profiler},
    case all_files(list(Files), Collect, [], Options) of
        {ok, Found, Counts} -> {ok, lists:reverse(Found), Counts};
        {error, _} = Error -> Error
    end.

own_sample(#{time_us := Time, metrics := Metrics, words := Words}) ->
    Texts = [{Key, flame_prof_frames:decode(Text)}
        || {Key, Word} <- [{engine, <<"engine">>}, {mode, <<"mode">>}, {trigger, <<"trigger">>}],
           {ok, Text} <- [maps:find(Word, Words)]],
    maps:merge(#{time_us => Time, engine => <<>>, metrics => Metrics}, maps:from_list(Texts)).

no_counts() ->
    #{samples => 0, bad => 0, damaged => 0, cut_off => 0, lost_text => 0, bytes => 0,
      warnings => []}.

rows() ->
    [
        #{key => chunk, type => {whole, count, 1, ?CHUNK_MOST}, default => ?CHUNK},
        #{key => bad, type => {one_of, [count, stop]}, default => count}
    ].

%% @private The first good sample of a file.
-spec first(file:name_all()) -> {ok, sample()} | none.
first(File) ->
    case open(path(File), processes) of
        {ok, Reader} ->
            try
                first_of(Reader)
            after
                flame_prof_report_nif:reader_close(Reader)
            end;
        {error, _} ->
            none
    end.

first_of(Reader) ->
    case flame_prof_report_nif:reader_next(Reader, 1) of
        {_, [Sample | _]} -> {ok, Sample};
        {more, []} -> first_of(Reader);
        _ -> none
    end.

%% @private A file's name as the system has it, with `~' for `$HOME'.
-spec path(file:name_all()) -> {ok, binary()} | {error, {einval, binary()}}.
path(File) ->
    try flame_prof_options:in_home(native(filename:flatten(File))) of
        Path -> checked(Path)
    catch
        error:_ -> checked(none)
    end.

native(Name) when is_binary(Name) -> Name;
native(Name) -> unicode:characters_to_binary(Name, unicode, file:native_name_encoding()).

checked(Path) when is_binary(Path), Path =/= <<>>, byte_size(Path) < 4096 ->
    case binary:match(Path, <<0>>) of
        nomatch -> {ok, Path};
        _ -> checked(none)
    end;
checked(_) ->
    {error, {einval, <<"not the name of a file">>}}.

%% @private
-spec list(files()) -> [file:name_all()].
list(File) when is_binary(File) -> [File];
list([Character | _] = File) when is_integer(Character) -> [File];
list(Files) when is_list(Files) -> Files;
list(File) -> [File].

all_files([], _Fun, _Acc, _Options) -> {error, {no_files, #{}}};
all_files(Files, Fun, Acc, Options) -> each_file(Files, Fun, Acc, no_counts(), Options).

each_file([], _Fun, Acc, Counts, _Options) ->
    {ok, Acc, Counts};
each_file([File | Files], Fun, Acc0, Counts0, Options) ->
    case one_file(File, Fun, Acc0, Options) of
        {ok, Acc, Info} -> each_file(Files, Fun, Acc, counted(File, Info, Counts0), Options);
        {error, Reason} -> {error, flame_prof_error:file(File, Reason)}
    end.

one_file(File, Fun, Acc, #{whose := Whose} = Options) ->
    case open(path(File), Whose) of
        {ok, Reader} ->
            try
                each_chunk(Reader, Fun, Acc, Options)
            after
                flame_prof_report_nif:reader_close(Reader)
            end;
        {error, _} = Error -> Error
    end.

open({error, _} = Error, _Whose) -> Error;
open({ok, Path}, Whose) -> flame_prof_report_nif:reader_open(Path, Whose).

each_chunk(Reader, Fun, Acc0, #{chunk := Chunk} = Options) ->
    case flame_prof_report_nif:reader_next(Reader, Chunk) of
        {error, _} = Error ->
            Error;
        {More, Samples} ->
            Acc = lists:foldr(Fun, Acc0, Samples),
            case {More, stopped(Reader, Options)} of
                {_, {error, _} = Error} -> Error;
                {more, no} -> each_chunk(Reader, Fun, Acc, Options);
                {done, no} -> {ok, Acc, flame_prof_report_nif:reader_info(Reader)}
            end
    end.

stopped(_Reader, #{bad := count}) ->
    no;
stopped(Reader, #{bad := stop}) ->
    case losses(flame_prof_report_nif:reader_info(Reader)) of
        [] -> no;
        [{Line, What} | _] -> {error, {bad_sample, in_line(Line, What)}}
    end.

in_line(0, What) -> What;
in_line(Line, What) -> <<"line ", (integer_to_binary(Line))/binary, ": ", What/binary>>.

losses(#{warnings := Warnings, cut_off := CutOff, damaged := Damaged}) ->
    [{0, <<"the compressed file is cut off: its end is missing">>} || CutOff] ++
        [{0, <<"the compressed file is damaged: text is missing">>} || Damaged > 0] ++
        Warnings.

counted(File, #{cut_off := CutOff} = Info, #{warnings := Warnings} = Counts) ->
    Add = fun(_Key, One, Another) -> One + Another end,
    Numbers = maps:with([samples, bad, damaged, lost_text, bytes], Info),
    Cut = case CutOff of true -> 1; false -> 0 end,
    Sums = maps:merge_with(Add, maps:remove(warnings, Counts), Numbers#{cut_off => Cut}),
    Sums#{warnings => Warnings ++ [{File, Line, What} || {Line, What} <- losses(Info)]}.
