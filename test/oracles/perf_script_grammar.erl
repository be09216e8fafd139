%% The grammar of doc/format.md as a program: strict, slow, and written from that
%% text alone. It shares nothing with the writer (C), nor with the readers: a file
%% of zstd is read by the zstd command, which has to find nothing wrong with it.
-module(perf_script_grammar).

-export([check/1, check_text/1]).

-export_type([summary/0]).

-type summary() ::
    #{
        samples := pos_integer(),
        %% Samples of the profiler itself that go on in the next one, beside `samples'.
        parts := non_neg_integer(),
        tids := #{integer() => Samples :: pos_integer()},
        statuses := #{binary() => Samples :: pos_integer()},
        symbols := #{binary() => Samples :: pos_integer()},
        keys := [binary()],
        comm := binary(),
        pid := binary(),
        event := binary(),
        first_us := integer(),
        last_us := integer()
    }.

-define(HEADER_MOST_BYTES, 127).
-define(FRAMES_MOST, 255).
-define(OWN_TID, 16#7fffffff).
-define(PERIOD_MOST, 9223372036854775807).
-define(HEADER,
    "^([A-Za-z_][A-Za-z_.@-]{1,30}) ([0-9]+)/([0-9]+) \\[[0-9]{3,4}\\] "
    "([0-9]+)\\.([0-9]{6}): (?:([0-9]+) |((?:[a-z_]+[=+-][^ :]+ )+))?([^ :=]+):$").
-define(FRAME, "^\\t(?:[0-9a-f]{8}|[0-9a-f]{16}) ([^ ]+) \\(([^ ]+)\\)$").
-define(NUMBER, "^[a-z_]+=-?[0-9]+/-?[0-9]+$").
-define(CHANGE, "^[a-z_]+[+-][1-9][0-9]*$").
-define(WORD, "^[a-z_]+=[^ \\t]+$").
%% Words of a sample, in this order, behind all others.
-define(ATOM, "(?!_)[^ {},]+").
-define(TAG, "(?:_|" ?ATOM "|\\{" ?ATOM "(?:,_){0,5}\\}|\\{" ?ATOM ",_,\\.\\.\\.\\})").
-define(REFERENCE, "[0-9]+\\.[0-9]+\\.[0-9]+").
-define(PID, "<[0-9]+\\.[0-9]+\\.[0-9]+>").
-define(SAMPLE_WORDS, [
    {<<"message">>, "[a-z_]+/" ?TAG},
    {<<"serves">>, ?REFERENCE},
    {<<"waits_for">>, ?PID "|#Port<[0-9.]+>|lock|socket|[^ ]+/(?:" ?PID "|[^ ]+)"},
    {<<"call">>, ?REFERENCE},
    {<<"request">>, ?TAG},
    {<<"trace">>, "[0-9a-f]{32}"},
    {<<"span">>, "[0-9a-f]{16}"}]).
-define(FUNCTION, "^.+:.*/([0-9]+)(?::([1-9][0-9]*))?$").
-define(PSEUDO, "^(?:[a-z_]+|\\[[a-z_]+\\])$").
-define(LIBRARY, "^(beam[.a-z]*|\\[vdso\\]|.*\\.so(\\..*)?)$").

-record(seen, {samples = 0 :: non_neg_integer(),
    last_us = -1 :: integer(),
    first_us :: undefined | integer(),
    event :: undefined | binary(),
    comm :: undefined | binary(),
    %% By tid: the keys of its whole sample, in order.
    known = #{} :: #{integer() => [binary()]},
    pid :: undefined | binary(),
    keys = #{} :: #{binary() => []},
    parts = 0 :: non_neg_integer(),
    tids = #{} :: #{integer() => pos_integer()},
    tid_us = #{} :: #{integer() => integer()},
    statuses = #{} :: #{binary() => pos_integer()},
    symbols = #{} :: #{binary() => pos_integer()}}).

-spec check(file:name_all()) -> {ok, summary()} | {error, {pos_integer(), string()}}.
check(File) ->
    case filename:extension(unicode:characters_to_binary(File)) of
        <<".zst">> -> check_text(unzst(File));
        _ -> check_text(element(2, {ok, _} = file:read_file(File)))
    end.

unzst(File) ->
    Port = open_port({spawn_executable, os:find_executable("zstd")}, [
        {args, ["-dcq", "--", File]}, binary, exit_status, hide]),
    unzst(Port, []).

unzst(Port, Text) ->
    receive
        {Port, {data, More}} -> unzst(Port, [Text | More]);
        {Port, {exit_status, 0}} -> iolist_to_binary(Text);
        {Port, {exit_status, Status}} -> error({zstd, Status})
    end.

-spec check_text(binary()) -> {ok, summary()} | {error, {pos_integer(), string()}}.
check_text(Text) ->
    try
        whole(Text),
        Lines = binary:split(Text, <<"\n">>, [global]),
        [must(byte_size(Line) < 4096, N, "a line that the Firefox Profiler refuses", [])
            || {N, Line} <- lists:zip(lists:seq(1, length(Lines)), Lines)],
        {ok, summary(samples(Lines, 1, patterns(), #seen{}))}
    catch
        throw:{broken, Line, Why} -> {error, {Line, lists:flatten(Why)}}
    end.

broken(Line, Format, Args) -> throw({broken, Line, io_lib:format(Format, Args)}).

must(true, _Line, _Format, _Args) -> ok;
must(false, Line, Format, Args) -> broken(Line, Format, Args).

whole(<<16#ef, 16#bb, 16#bf, _/binary>>) -> broken(1, "byte order mark", []);
whole(Text) ->
    case unicode:characters_to_binary(Text) of
        Text -> ok;
        {_, Good, _} -> broken(line_of(Text, byte_size(Good)), "not UTF-8", [])
    end,
    case binary:match(Text, <<"\r">>) of
        nomatch -> ok;
        {At, _} -> broken(line_of(Text, At), "carriage return", [])
    end.

line_of(Text, At) -> 1 + length(binary:matches(binary:part(Text, 0, At), <<"\n">>)).

patterns() ->
    Sources = #{header => ?HEADER, frame => ?FRAME, number => ?NUMBER, change => ?CHANGE,
        word => ?WORD, function => ?FUNCTION, pseudo => ?PSEUDO, library => ?LIBRARY},
    maps:map(fun(_, Source) -> element(2, {ok, _} = re:compile(Source, [dollar_endonly])) end,
        Sources).

%% The text behind the last line feed is empty, and nothing else may be.
samples([<<>>], Line, _Patterns, #seen{samples = Samples} = Seen) ->
    must(Samples >= 2, Line, "~b samples, at least 2 are needed", [Samples]),
    must(Seen#seen.last_us rem 1000000 =/= 0, Line, "the last sample is on a whole second", []),
    Seen;
samples([Header | Rest], Line, Patterns, Seen0) ->
    {Tid, Fields, Seen1} = header(Header, Line, Patterns, Seen0),
    Seen2 = header_fields(Tid, Fields, Line, Patterns, Seen1),
    {Frames, FramesLine, Seen3} = metrics(Rest, Line + 1, Fields, Patterns, Seen2),
    {Lines, Behind, Seen} = frames(Frames, FramesLine, Patterns, Seen3),
    allocation(Tid, Header, Rest, Line, Seen),
    %% One of the profiler itself may be several.
    Part = case binary:match(Fields, <<" continues=">>) of nomatch -> 0; _ -> 1 end,
    must(Part =:= 0 orelse Tid =:= ?OWN_TID, Line, "a process' sample that goes on", []),
    samples(Lines, Behind, Patterns, Seen#seen{samples = Seen#seen.samples + 1 - Part,
        parts = Seen#seen.parts + Part, tids = count(Tid, Seen#seen.tids)}).

%% A sample of allocations weighs the words that it tells, which became one of three.
allocation(?OWN_TID, _Header, _Rest, _Line, _Seen) -> ok;
allocation(_Tid, Header, [Metrics | Frames], Line, #seen{event = <<"alloc-words">>}) ->
    {match, [Period]} = re:run(Header, ": (?:([0-9]+) )?alloc-words:$", [{capture, [1], binary}]),
    Words = case Period of <<>> -> <<"1">>; _ -> Period end,
    Wanted = iolist_to_binary(["# words=", Words, "/", Words, " erl_pid="]),
    must(string:prefix(Metrics, Wanted) =/= nomatch, Line + 1, "other words than the period: ~ts",
        [Metrics]),
    [Status, Fate | _] = lists:reverse(lists:takewhile(fun(Text) -> Text =/= <<>> end, Frames)),
    must(Status =:= <<"\tffffffff garbage_collecting (status)">>, Line, "~ts", [Status]),
    must(lists:member(Fate, [<<"\tffffffff kept (heap)">>, <<"\tffffffff garbage (heap)">>,
        <<"\tffffffff not_known (heap)">>]), Line, "not what became of the words: ~ts", [Fate]),
    collection(Metrics, Line + 1);
allocation(_Tid, _Header, _Rest, _Line, _Seen) -> ok.

%% Of a long one, in this order, behind those of the process. A cause may be unknown.
collection(Metrics, Line) ->
    IsLong = re:run(Metrics, " (collection_us|collection|cause)=", [{capture, none}]) =:= match,
    IsWhole = re:run(Metrics, " collection_us=[1-9][0-9]* collection=(minor|major)"
        "( cause=(heap|fragments|binaries|other))? \\(metrics\\)$", [{capture, none}]) =:= match,
    must(IsLong =:= IsWhole, Line, "words of a collection: ~ts", [Metrics]).

count(Key, Counts) -> maps:update_with(Key, fun(N) -> N + 1 end, 1, Counts).

%% Headers.

header(Text, Line, #{header := Pattern}, Seen) ->
    case re:run(Text, Pattern, [{capture, all_but_first, binary}]) of
        {match, [Comm, Pid, Tid, Seconds, Micros, Period, Fields, Event]} ->
            Size = byte_size(Text) - byte_size(Fields),
            must(Size =< ?HEADER_MOST_BYTES, Line, "a header of ~b bytes", [Size]),
            period(Period, Line),
            Us = binary_to_integer(<<Seconds/binary, Micros/binary>>),
            one_word(Line, "process", Pid, Seen#seen.pid),
            one_word(Line, "event", Event, Seen#seen.event),
            First = case Seen#seen.comm of undefined -> Comm; Before -> Before end,
            Named = Seen#seen{comm = First, pid = Pid, event = Event},
            {Number, Timed} = timed(binary_to_integer(Tid), Us, Line, Named),
            {Number, Fields, Timed};
        nomatch -> broken(Line, "no header: ~tp", [Text])
    end.

period(<<>>, _Line) -> ok;
period(Text, Line) ->
    Period = binary_to_integer(Text),
    must(Period >= 1 andalso Period =< ?PERIOD_MOST, Line, "a period of ~b", [Period]).

one_word(_Line, _What, _Word, undefined) -> ok;
one_word(_Line, _What, Word, Word) -> ok;
one_word(Line, What, Word, Other) -> broken(Line, "a second ~s, ~ts after ~ts",
    [What, Word, Other]).

timed(Tid, Us, Line, #seen{last_us = Last, tid_us = TidUs} = Seen) ->
    must(Us >= Last, Line, "time runs backwards", []),
    must(Us > maps:get(Tid, TidUs, -1), Line, "two samples of ~b at one time", [Tid]),
    First =
        case Seen#seen.first_us of undefined -> Us; Earlier -> Earlier end,
    {Tid, Seen#seen{first_us = First, last_us = Us, tid_us = TidUs#{Tid => Us}}}.

%% Format 2: the fields of a header.

header_fields(_Tid, <<>>, _Line, _Patterns, Seen) -> Seen;
header_fields(Tid, Text, Line, Patterns, #seen{known = Known, keys = AllKeys} = Seen) ->
    Fields = [{kind(Field, Line, Patterns), key(Field)}
        || Field <- binary:split(Text, <<" ">>, [global, trim_all])],
    Keys = [Key || {_, Key} <- Fields],
    must(length(lists:usort(Keys)) =:= length(Keys), Line, "a key twice", []),
    Numbers = [Key || {Kind, Key} <- Fields, Kind =/= word],
    case sample_words(Text, Keys, Numbers, Line) of
        true ->
            must(not lists:keymember(change, 1, Fields), Line, "a change in a whole sample", []),
            Seen#seen{known = Known#{Tid => Numbers},
                keys = maps:merge(AllKeys, maps:from_keys(Keys, []))};
        false ->
            Order = maps:get(Tid, Known, []),
            must(Numbers =:= [Key || Key <- Order, lists:member(Key, Numbers)], Line,
                "numbers that the whole sample does not have so: ~tp", [Numbers]),
            Seen
    end.

%% Is the sample a whole one? It has a word of its process.
sample_words(Text, Keys, Numbers, Line) ->
    must(lists:prefix(Numbers, Keys), Line, "a number behind a word", []),
    Words = Keys -- Numbers,
    OfSample = [Key || {Key, _} <- ?SAMPLE_WORDS, lists:member(Key, Words)],
    OfProcess = Words -- OfSample,
    must(Words =:= OfProcess ++ OfSample, Line, "words in another order: ~tp", [Words]),
    must(OfProcess =:= [] orelse
            lists:member(hd(OfProcess), [<<"erl_pid">>, <<"scheduler">>, <<"name">>]),
        Line, "words without the process that they are of: ~tp", [OfProcess]),
    [must(match =:= re:run(Text, ["(?:^| )", Key, "=(?:", Pattern, ") "], [{capture, none}]),
            Line, "no ~ts: ~ts", [Key, Text])
     || {Key, Pattern} <- ?SAMPLE_WORDS, lists:member(Key, OfSample)],
    OfProcess =/= [].

kind(Field, Line, #{number := Number, change := Change, word := Word}) ->
    case [Kind || {Kind, Pattern} <- [{number, Number}, {change, Change}, {word, Word}],
            matches(Field, Pattern)] of
        [Kind | _] -> Kind;
        [] -> broken(Line, "no field: ~tp", [Field])
    end.

key(Field) -> hd(re:split(Field, "[=+-]", [{parts, 2}])).

%% Format 1: the metrics line, when there is one.

metrics([<<"#", _/binary>> = Text | Rest], Line, Fields0, Patterns, Seen) ->
    must(Fields0 =:= <<>>, Line, "numbers twice", []),
    End = byte_size(Text) - byte_size(<<"#  (metrics)">>),
    case Text of
        <<"# ", Fields:End/binary, " (metrics)">> when End > 0 ->
            Keys = fields(binary:split(Fields, <<" ">>, [global]), Line, Patterns, #{}),
            {Rest, Line + 1, Seen#seen{keys = maps:merge(Seen#seen.keys, Keys)}};
        _ -> broken(Line, "no metrics line: ~tp", [Text])
    end;
metrics(Lines, Line, _Fields, _Patterns, Seen) -> {Lines, Line, Seen}.

fields([], _Line, _Patterns, Keys) -> Keys;
fields([Field | Fields], Line, #{number := Number, word := Word} = Patterns, Keys) ->
    must(matches(Field, Number) orelse matches(Field, Word), Line, "no field: ~tp", [Field]),
    [Key | _] = binary:split(Field, <<"=">>),
    must(not is_map_key(Key, Keys), Line, "~ts twice", [Key]),
    fields(Fields, Line, Patterns, Keys#{Key => []}).

matches(Text, Pattern) -> re:run(Text, Pattern, [{capture, none}]) =:= match.

%% Frames, leaf first, then one empty line.

frames(Lines, Line, Patterns, Seen) ->
    {Frames, Rest} = lists:splitwith(fun(Text) -> Text =/= <<>> end, Lines),
    Count = length(Frames),
    must(Rest =/= [] andalso tl(Rest) =/= [], Line + Count, "no empty line ends the sample", []),
    must(Count >= 1, Line, "an empty stack", []),
    must(Count =< ?FRAMES_MOST, Line, "~b frames", [Count]),
    Parsed = [frame(Text, At, Patterns) || {At, Text} <- lists:zip(lists:seq(Line,
        Line + Count - 1), Frames)],
    [{Status, Dso} | Callees] = lists:reverse(Parsed),
    must(Dso =:= <<"status">>, Line + Count - 1, "the root frame is not a status", []),
    must(lists:member(Status, statuses()), Line + Count - 1, "no status: ~ts", [Status]),
    lists:foreach(
        fun({Symbol, In}) -> must(In =/= <<"status">>, Line, "~ts is no root", [Symbol]) end,
            Callees),
    Symbols = lists:foldl(fun count/2, Seen#seen.symbols, lists:usort([S || {S, _} <- Callees])),
    Statuses = count(Status, Seen#seen.statuses),
    {tl(Rest), Line + Count + 1, Seen#seen{statuses = Statuses, symbols = Symbols}}.

statuses() ->
    [<<"waiting">>, <<"runnable">>, <<"running">>, <<"garbage_collecting">>, <<"suspended">>,
        <<"exiting">>].

frame(Text, Line, #{frame := Pattern} = Patterns) ->
    case re:run(Text, Pattern, [{capture, all_but_first, binary}]) of
        {match, [Symbol, Dso]} ->
            encoded(Symbol, Line),
            encoded(Dso, Line),
            beginning(Symbol, matches(Symbol, maps:get(function, Patterns)), Line),
            demangler(Symbol, Line),
            symbol(Symbol, Dso, Line, Patterns),
            {Symbol, Dso};
        nomatch -> broken(Line, "no frame: ~tp", [Text])
    end.

symbol(Symbol, Dso, Line, #{pseudo := Pseudo}) when
    Dso =:= <<"status">>; Dso =:= <<"flame_prof">>; Dso =:= <<"sign">>
-> must(matches(Symbol, Pseudo), Line, "no pseudo frame: ~ts", [Symbol]);
symbol(Symbol, <<"heap">>, Line, _Patterns) ->
    Known = [<<"kept">>, <<"garbage">>, <<"not_known">>, <<"fragments">>],
    must(lists:member(Symbol, Known), Line, "nothing of a heap: ~ts", [Symbol]);
%% Of exported chains.
symbol(<<"waits%20for%20", _/binary>>, <<"waits_for">>, _Line, _Patterns) -> ok;
symbol(Symbol, Dso, Line, #{function := Function, library := Library}) ->
    case re:run(Symbol, Function, [{capture, [1], binary}]) of
        {match, [Arity]} -> must(binary_to_integer(Arity) =< 255, Line, "arity of ~ts", [Symbol]);
        %% A C function has any name.
        nomatch -> must(matches(Dso, Library), Line, "no function: ~ts", [Symbol])
    end.

encoded(<<>>, _Line) -> ok;
encoded(<<$%, High, Low, Rest/binary>>, Line) ->
    must(is_hex(High) andalso is_hex(Low), Line, "a %% without two digits", []),
    encoded(Rest, Line);
encoded(<<Point/utf8, Rest/binary>>, Line) ->
    must(not is_reserved(Point), Line, "U+~4.16.0B has to be encoded", [Point]),
    encoded(Rest, Line).

is_hex(Digit) -> (Digit >= $0 andalso Digit =< $9) orelse (Digit >= $A andalso Digit =< $F).

is_reserved(Point) ->
    lists:member(Point, "\"'()+;<>&%") orelse
        Point =< $\s orelse (Point >= 16#7f andalso Point =< 16#a0) orelse
        (Point >= 16#2000 andalso Point =< 16#200f) orelse
        (Point >= 16#2028 andalso Point =< 16#202f) orelse
        (Point >= 16#2066 andalso Point =< 16#2069) orelse
        lists:member(Point, [16#61c, 16#1680, 16#205f, 16#3000, 16#feff]).

%% A C function has its own name, which readers demangle.
beginning(Symbol, IsErlang, Line) ->
    Begins = fun(Prefix) -> string:prefix(Symbol, Prefix) =/= nomatch end,
    must(not lists:any(Begins, ["0x", "[unknown]"]) andalso
            not (IsErlang andalso lists:any(Begins, ["_Z", "__Z", "_R"])), Line,
        "~ts begins like something else", [Symbol]).

demangler(Symbol, Line) when byte_size(Symbol) >= 17 ->
    Byte = binary:at(Symbol, byte_size(Symbol) - 17),
    must(Byte < 128, Line, "the 17th byte from the end of ~ts is not ASCII", [Symbol]);
demangler(_, _) -> ok.

summary(Seen) ->
    #{samples => Seen#seen.samples, parts => Seen#seen.parts, tids => Seen#seen.tids,
        statuses => Seen#seen.statuses, symbols => Seen#seen.symbols,
        keys => lists:sort(maps:keys(Seen#seen.keys)), comm => Seen#seen.comm, pid => Seen#seen.pid,
        event => Seen#seen.event, first_us => Seen#seen.first_us, last_us => Seen#seen.last_us}.
