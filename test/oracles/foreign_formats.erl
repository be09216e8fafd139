%% What other tools make of the files that we export, by decoders that share
%% nothing with the code that writes them: JSON, pprof's protobuf, the index.
-module(foreign_formats).

-export([json/1, collapsed/1, pprof/1, firefox/1, index/1, joined/1, unpacked/1, numbers_of/2]).

%%% JSON: objects are maps, null, true and false are atoms.

json(Text) ->
    {Value, Rest} = value(blank(Text)),
    <<>> = blank(Rest),
    Value.

value(<<"{", Rest/binary>>) -> members(blank(Rest), #{});
value(<<"[", Rest/binary>>) -> elements(blank(Rest), []);
value(<<"\"", Rest/binary>>) -> string(Rest, <<>>);
value(<<"true", Rest/binary>>) -> {true, Rest};
value(<<"false", Rest/binary>>) -> {false, Rest};
value(<<"null", Rest/binary>>) -> {null, Rest};
value(Text) ->
    {match, [{0, Size}, _ | Fraction]} = re:run(Text, "^-?(0|[1-9][0-9]*)(\\.[0-9]+)?(?![0-9.eE])"),
    <<Number:Size/binary, Rest/binary>> = Text,
    case Fraction of
        [] -> {binary_to_integer(Number), Rest};
        [_] -> {binary_to_float(Number), Rest}
    end.

members(<<"}", Rest/binary>>, Map) -> {Map, Rest};
members(<<"\"", Text/binary>>, Map) ->
    {Key, AtColon} = string(Text, <<>>),
    <<":", AtValue/binary>> = blank(AtColon),
    {Value, Behind} = value(blank(AtValue)),
    false = maps:is_key(Key, Map),
    case blank(Behind) of
        <<",", Rest/binary>> ->
            <<"\"", _/binary>> = Next = blank(Rest),
            members(Next, Map#{Key => Value});
        <<"}", Rest/binary>> -> {Map#{Key => Value}, Rest}
    end.

elements(<<"]", Rest/binary>>, []) -> {[], Rest};
elements(Text, List) ->
    {Value, Behind} = value(Text),
    case blank(Behind) of
        <<",", Rest/binary>> -> elements(blank(Rest), [Value | List]);
        <<"]", Rest/binary>> -> {lists:reverse([Value | List]), Rest}
    end.

string(<<"\"", Rest/binary>>, Text) -> {Text, Rest};
string(<<"\\u", Hex:4/binary, Rest/binary>>, Text) ->
    string(Rest, <<Text/binary, (binary_to_integer(Hex, 16))/utf8>>);
string(<<"\\", Character, Rest/binary>>, Text) ->
    true = Character =:= $\\ orelse Character =:= $",
    string(Rest, <<Text/binary, Character>>);
string(<<Point/utf8, Rest/binary>>, Text) when Point >= 32 ->
    string(Rest, <<Text/binary, Point/utf8>>).

blank(<<Blank, Rest/binary>>) when Blank =:= $\s; Blank =:= $\n -> blank(Rest);
blank(Text) -> Text.

%%% Collapsed: [{[Frame], Weight}], as flamegraph.pl reads it: the number behind
%%% the last blank.

collapsed(Text) ->
    [begin
        {match, [Stack, Weight]} = re:run(Line, "^(.*) ([0-9]+)$", [{capture, all_but_first, binary}
        ]),
        {binary:split(Stack, <<";">>, [global]), binary_to_integer(Weight)}
    end || Line <- binary:split(Text, <<"\n">>, [global, trim])].

%%% pprof: #{types => [{Type, Unit}], samples => [{Frames, Values, Labels}]},
%%% frames {Name, File, Line}, leaf first. Numbers of fields are profile.proto's.

pprof(Gzip) ->
    Fields = fields(zlib:gunzip(Gzip)),
    Strings = list_to_tuple([Text || {6, Text} <- Fields]),
    <<>> = element(1, Strings),
    Text = fun(Id) -> element(Id + 1, Strings) end,
    Functions = maps:from_list([function(fields(F), Text) || {5, F} <- Fields]),
    Locations = maps:from_list([location(fields(L), Functions) || {4, L} <- Fields]),
    #{types => [value_type(fields(T), Text) || {1, T} <- Fields],
        samples => [sample(fields(S), Locations, Text) || {2, S} <- Fields],
        time_nanos => hd([N || {9, N} <- Fields]), duration_nanos => hd([N || {10, N} <- Fields]),
        default => Text(hd([N || {14, N} <- Fields]))}.

value_type(Fields, Text) -> {Text(one(1, Fields)), Text(one(2, Fields))}.

%% pprof demangles a name that is also the system's: those of Erlang are as they should be.
function(Fields, Text) ->
    false = lists:member({3, one(2, Fields)}, Fields),
    {one(1, Fields), {Text(one(2, Fields)), Text(one(4, Fields))}}.

location(Fields, Functions) ->
    [Line] = [fields(L) || {4, L} <- Fields],
    {Name, File} = maps:get(one(1, Line), Functions),
    {one(1, Fields), {Name, File, one(2, Line)}}.

sample(Fields, Locations, Text) ->
    Labels = [fields(L) || {3, L} <- Fields],
    {[maps:get(Id, Locations) || {1, Packed} <- Fields, Id <- varints(Packed)],
        [signed(N) || {2, Packed} <- Fields, N <- varints(Packed)],
        maps:from_list([{Text(one(1, L)), Text(one(2, L))} || L <- Labels])}.

one(Number, Fields) ->
    [Value] = [V || {N, V} <- Fields, N =:= Number],
    Value.

fields(<<>>) -> [];
fields(Bytes) ->
    {Tag, Rest} = varint(Bytes),
    {Value, Behind} =
        case Tag band 7 of
            0 -> varint(Rest);
            2 ->
                {Size, Data} = varint(Rest),
                <<Inside:Size/binary, After/binary>> = Data,
                {Inside, After}
        end,
    [{Tag bsr 3, Value} | fields(Behind)].

varints(<<>>) -> [];
varints(Bytes) ->
    {Number, Rest} = varint(Bytes),
    [Number | varints(Rest)].

varint(<<1:1, Bits:7, Rest/binary>>) ->
    {More, Behind} = varint(Rest),
    {More bsl 7 bor Bits, Behind};
varint(<<0:1, Bits:7, Rest/binary>>) -> {Bits, Rest}.

signed(N) when N >= 1 bsl 63 -> N - (1 bsl 64);
signed(N) -> N.

%%% The Firefox Profiler's processed profile: by tid, each sample's time, weight and stack, root
%%% first, with its category; and the markers. Every column is as long as its table says.

firefox(Text) ->
    #{<<"meta">> := Meta, <<"threads">> := Threads, <<"shared">> := Shared} = json(Text),
    #{<<"preprocessedProfileVersion">> := 70, <<"categories">> := Categories} = Meta,
    Strings = list_to_tuple(maps:get(<<"stringArray">>, Shared)),
    Named = [Name || #{<<"name">> := Name} <- Categories],
    Tables = maps:map(fun(_, Table) -> columns(Table) end, maps:remove(<<"stringArray">>, Shared)),
    Stacks = firefox_stacks(Tables, Strings, list_to_tuple(Named)),
    #{meta => Meta, order => [Tid || #{<<"tid">> := Tid} <- Threads],
        threads => maps:from_list([{Tid, firefox_thread(Thread, Stacks, Strings)}
            || #{<<"tid">> := Tid} = Thread <- Threads])}.

columns(#{<<"length">> := Length} = Table) ->
    maps:map(fun(_, Column) when is_list(Column) ->
            Length = length(Column),
            list_to_tuple(Column);
        (_, Value) -> Value
    end, Table).

cell(Column, Row, Table) -> element(Row + 1, maps:get(Column, Table)).

%% {[{Name, File, Line}], Category}; a frame without a category has that of its caller.
firefox_stacks(#{<<"stackTable">> := #{<<"length">> := Length} = Table} = Tables, Strings,
        Categories) ->
    lists:foldl(fun(Stack, Known) ->
        {Callers, Inherited} =
            case cell(<<"prefixOffset">>, Stack, Table) of
                0 -> {[], <<"Other">>};
                Offset when Offset > 0 -> maps:get(Stack - Offset, Known)
            end,
        Frame = cell(<<"frame">>, Stack, Table),
        #{<<"frameTable">> := Frames, <<"funcTable">> := Functions, <<"sources">> := Sources} =
            Tables,
        Function = cell(<<"func">>, Frame, Frames),
        Source = cell(<<"source">>, Function, Functions),
        File = cell(<<"filename">>, Source, Sources),
        Category =
            case cell(<<"category">>, Frame, Frames) of
                null -> Inherited;
                Number -> element(Number + 1, Categories)
            end,
        Shown = {element(cell(<<"name">>, Function, Functions) + 1, Strings),
            element(File + 1, Strings), cell(<<"line">>, Frame, Frames)},
        Known#{Stack => {Callers ++ [Shown], Category}}
    end, #{null => {[], <<"Other">>}}, lists:seq(0, Length - 1)).

firefox_thread(#{<<"samples">> := Given, <<"markers">> := Marked} = Thread, Stacks, Strings) ->
    #{<<"length">> := Count} = Samples = columns(Given),
    #{<<"length">> := MarkerCount} = Markers = columns(Marked),
    #{name => maps:get(<<"name">>, Thread), pid => maps:get(<<"pid">>, Thread),
        unit => maps:get(<<"weightType">>, Samples),
        samples => [{cell(<<"time">>, I, Samples), cell(<<"weight">>, I, Samples),
            maps:get(cell(<<"stack">>, I, Samples), Stacks)} || I <- lists:seq(0, Count - 1)],
        markers => [{element(cell(<<"name">>, I, Markers) + 1, Strings),
            cell(<<"startTime">>, I, Markers), cell(<<"endTime">>, I, Markers),
            cell(<<"phase">>, I, Markers), cell(<<"data">>, I, Markers)}
            || I <- lists:seq(0, MarkerCount - 1)]}.

%%% The index, by doc/dev/viewer_index.md: the header, and every row as a map.

index(<<"FPINDEX1", Size:32/little, 0:32, Json:Size/binary, Data/binary>>) ->
    0 = Size rem 8,
    Header = #{<<"data_bytes">> := DataSize} = json(Json),
    DataSize = byte_size(Data),
    index(Header, Data);
index({Header, Data}) -> index(Header, Data).

index(#{<<"format">> := <<"flame_prof index">>, <<"version">> := 4} = Header, Data) ->
    #{<<"tables">> := Tables, <<"columns">> := Columns} = Header,
    Strings = strings(column(maps:get(<<"string_end">>, Tables), Data),
                      list_to_binary(column(maps:get(<<"string_bytes">>, Tables), Data))),
    Table = fun(Name) -> list_to_tuple(column(maps:get(Name, Tables), Data)) end,
    #{header => Header, processes => texts(Table(<<"process_erl_pid">>), Strings),
      names => texts(Table(<<"process_name">>), Strings),
      own_rows => column(maps:get(<<"own_rows">>, Header), Data),
      rows => rows(Header, Columns, Data, Strings, Table)}.

texts(Ids, Strings) -> [element(Id + 1, Strings) || Id <- tuple_to_list(Ids)].

strings(Ends, Bytes) ->
    Begins = [0 | lists:droplast(Ends)],
    list_to_tuple([binary:part(Bytes, B, E - B) || {B, E} <- lists:zip(Begins, Ends)]).

rows(Header, Columns, Data, Strings, Table) ->
    #{<<"start_us">> := Start, <<"statuses">> := Statuses, <<"schemas">> := Schemas} = Header,
    #{<<"metrics">> := Metrics} = Header,
    Column = fun(Name) -> column(maps:get(Name, Columns), Data) end,
    Parents = Table(<<"node_parent">>),
    Frames = Table(<<"node_frame">>),
    Symbols = Table(<<"frame_symbol">>),
    Processes = Column(<<"process">>),
    Values = [column(maps:get(<<"value">>, M), Data) || M <- Metrics],
    Deltas = [deltas(maps:get(<<"delta">>, M), V, Processes, Column(<<"schema">>), Schemas, N, Data)
              || {N, M, V} <- lists:zip3(lists:seq(0, length(Metrics) - 1), Metrics, Values)],
    Names = [maps:get(<<"name">>, M) || M <- Metrics],
    Word = fun(Name) ->
        Numbers = case Header of
            #{Name := Sparse} -> column(Sparse, Data);
            #{} -> [0 || _ <- Processes]
        end,
        [element(Text + 1, Strings) || Text <- Numbers]
    end,
    Rows = zip_rows(#{message => Word(<<"message">>), waits_for => Word(<<"waits_for">>),
               request => Word(<<"request">>), time_us => [Start + T || T <- Column(<<"time_us">>)],
               process => Processes, period => Column(<<"period">>),
               scheduler => Column(<<"scheduler">>),
               status => [lists:nth(S + 1, Statuses) || S <- Column(<<"status">>)],
               frames => [frames(N, Parents, Frames, Symbols, Strings) || N <- Column(<<"node">>)],
               metrics => metric_maps(Names, Column(<<"schema">>), Schemas, Values, Deltas)}),
    [maps:filter(fun(Key, Value) ->
         Value =/= <<>> orelse not lists:member(Key, [message, waits_for, request])
     end, Row) || Row <- Rows].

zip_rows(#{time_us := []}) -> [];
zip_rows(Columns) ->
    [maps:map(fun(_, [H | _]) -> H end, Columns)
     | zip_rows(maps:map(fun(_, [_ | T]) -> T end, Columns))].

frames(0, _Parents, _Frames, _Symbols, _Strings) -> [];
frames(Node, Parents, Frames, Symbols, Strings) ->
    Symbol = element(element(Node + 1, Frames) + 1, Symbols),
    [element(Symbol + 1, Strings)
     | frames(element(Node + 1, Parents), Parents, Frames, Symbols, Strings)].

metric_maps(_Names, [], _Schemas, _Values, _Deltas) -> [];
metric_maps(Names, [Schema | More], Schemas, Values, Deltas) ->
    Has = lists:nth(Schema + 1, Schemas),
    Numbers = lists:zip3(lists:seq(0, length(Names) - 1), Names,
                         lists:zip([hd(V) || V <- Values], [hd(D) || D <- Deltas])),
    [maps:from_list([{Name, Both} || {N, Name, Both} <- Numbers, lists:member(N, Has)])
     | metric_maps(Names, More, Schemas, [tl(V) || V <- Values], [tl(D) || D <- Deltas])].

%% The difference to the process' value before, where its row has the metric,
%% and 0 at its first; but for the rows that are listed.
deltas(#{<<"type">> := <<"derived">>} = Delta, Values, Processes, Schemas, Sets, Metric, Data) ->
    Odd = maps:from_list(lists:zip(column(maps:get(<<"rows">>, Delta), Data),
              column(maps:get(<<"deltas">>, Delta), Data))),
    derive(0, Values, Processes, Schemas, Sets, Metric, Odd, #{});
%% Packed: what it is more than that.
deltas(#{<<"more">> := true} = Delta, Values, Processes, Schemas, Sets, Metric, Data) ->
    Plain = derive(0, Values, Processes, Schemas, Sets, Metric, #{}, #{}),
    lists:zipwith(fun(A, B) -> A + B end, column(maps:remove(<<"more">>, Delta), Data), Plain);
deltas(Column, _Values, _Processes, _Schemas, _Sets, _Metric, Data) -> column(Column, Data).

derive(_Row, [], [], [], _Sets, _Metric, _Odd, _Before) -> [];
derive(Row, [V | Vs], [P | Ps], [S | Ss], Sets, Metric, Odd, Before) ->
    case lists:member(Metric, lists:nth(S + 1, Sets)) of
        true ->
            Plain = V - maps:get(P, Before, V),
            [maps:get(Row, Odd, Plain)
             | derive(Row + 1, Vs, Ps, Ss, Sets, Metric, Odd, Before#{P => V})];
        false -> [0 | derive(Row + 1, Vs, Ps, Ss, Sets, Metric, Odd, Before)]
    end.

column(#{<<"type">> := <<"numbers">>, <<"numbers">> := Numbers}, _Data) -> Numbers;
column(#{<<"type">> := <<"const">>, <<"value">> := Value, <<"count">> := Count}, _Data) ->
    lists:duplicate(Count, Value);
column(#{<<"type">> := <<"runs">>, <<"count">> := Count} = Runs, Data) ->
    #{<<"values">> := Values, <<"ends">> := Ends} = Runs,
    {Numbers, Count} = lists:foldl(
        fun({V, End}, {Sum, Begin}) -> {Sum ++ lists:duplicate(End - Begin, V), End} end,
        {[], 0}, lists:zip(column(Values, Data), column(Ends, Data))),
    Numbers;
column(#{<<"type">> := <<"sparse">>, <<"count">> := Count} = Sparse, Data) ->
    #{<<"rows">> := Rows, <<"values">> := Values} = Sparse,
    There = maps:from_list(lists:zip(column(Rows, Data), column(Values, Data))),
    From = maps:get(<<"from">>, Sparse, 0),
    [maps:get(Row, There, 0) || Row <- lists:seq(From, From + Count - 1)];
column(#{<<"type">> := Type, <<"offset">> := Offset, <<"count">> := Count}, Data) ->
    0 = Offset rem 8,
    <<_:Offset/binary, Rest/binary>> = Data,
    {Numbers, _} = numbers(Type, Count, Rest),
    Numbers.

numbers(Type, Count, Data) ->
    Bytes = Count * size_of(Type),
    <<Mine:Bytes/binary, Rest/binary>> = Data,
    {decode(Type, Mine), Rest}.

size_of(<<"u8">>) -> 1;
size_of(<<"i8">>) -> 1;
size_of(<<"u16">>) -> 2;
size_of(<<"i16">>) -> 2;
size_of(<<"u32">>) -> 4;
size_of(<<"i32">>) -> 4;
size_of(<<"f64">>) -> 8.

decode(<<"u8">>, B) -> [N || <<N:8/little>> <= B];
decode(<<"i8">>, B) -> [N || <<N:8/signed-little>> <= B];
decode(<<"u16">>, B) -> [N || <<N:16/little>> <= B];
decode(<<"i16">>, B) -> [N || <<N:16/signed-little>> <= B];
decode(<<"u32">>, B) -> [N || <<N:32/little>> <= B];
decode(<<"i32">>, B) -> [N || <<N:32/signed-little>> <= B];
decode(<<"f64">>, B) -> [trunc(N) || <<N:64/float-little>> <= B].

%%% An index in pieces, as one: each column is a list of numbers.

joined(Pieces) ->
    Parts = [part(Piece) || Piece <- Pieces],
    Rows = lists:sum([maps:get(<<"rows">>, Header) || {Header, _, _} <- Parts]),
    {#{<<"tables">> := Tables, <<"columns">> := Columns, <<"metrics">> := Metrics} = Header,
     LastData, _} = lists:last(Parts),
    Join = fun(Of) -> numbers(lists:append([Of(Part) || Part <- Parts])) end,
    Own = Join(fun({H, Data, _}) -> column(maps:get(<<"own_rows">>, H), Data) end),
    index({Header#{<<"rows">> => Rows, <<"own_rows">> => Own,
        <<"tables">> => maps:map(
            fun (<<"process_", _/binary>>, Table) -> numbers(column(Table, LastData));
                (Name, _) -> Join(fun({#{<<"tables">> := T}, Data, _}) ->
                    column(maps:get(Name, T), Data) end)
            end, Tables),
        <<"columns">> => maps:map(fun(Name, _) -> Join(fun({#{<<"columns">> := C}, Data, _}) ->
            column(maps:get(Name, C), Data) end)
        end, Columns),
        <<"metrics">> => [joined_metric(Metric, Join) || Metric <- Metrics]
    }, <<>>}).

part(<<"FPINDEX1", Size:32/little, 0:32, Json:Size/binary, Data/binary>>) ->
    Header = json(Json),
    {Header, Data, maps:get(<<"rows">>, maps:get(<<"from">>, Header, #{<<"rows">> => 0}))}.

%% A metric may be newer than a piece. Where the deltas are there, all rows are exceptions.
joined_metric(#{<<"name">> := Name} = Metric, Join) ->
    Value = fun({#{<<"metrics">> := Metrics, <<"rows">> := Rows}, Data, From}) ->
        case [V || #{<<"name">> := N, <<"value">> := V} <- Metrics, N =:= Name] of
            [V] -> column(V#{<<"from">> => From}, Data);
            [] -> lists:duplicate(Rows, 0)
        end
    end,
    #{<<"numbers">> := Exceptions} = Join(fun({#{<<"metrics">> := Metrics}, Data, From}) ->
        lists:append([odd(D, From, Data)
            || #{<<"name">> := N, <<"delta">> := D} <- Metrics, N =:= Name])
    end),
    {OddRows, OddDeltas} = lists:unzip(Exceptions),
    Metric#{<<"value">> => Join(Value),
        <<"delta">> => #{<<"type">> => <<"derived">>, <<"rows">> => numbers(OddRows),
            <<"deltas">> => numbers(OddDeltas)}}.

odd(#{<<"type">> := <<"derived">>, <<"rows">> := Rows, <<"deltas">> := Deltas}, _From, Data) ->
    lists:zip(column(Rows, Data), column(Deltas, Data));
odd(#{<<"type">> := <<"sparse">>, <<"rows">> := Rows, <<"values">> := Deltas}, _From, Data) ->
    lists:zip(column(Rows, Data), column(Deltas, Data));
odd(Column, From, Data) ->
    Deltas = column(Column, Data),
    lists:zip(lists:seq(From, From + length(Deltas) - 1), Deltas).

numbers(Numbers) -> #{<<"type">> => <<"numbers">>, <<"numbers">> => Numbers}.

%%% A packed index, as the same index unpacked.

unpacked(Index) -> packed_index:unpacked(Index).

numbers_of(Column, Data) -> column(Column, Data).
