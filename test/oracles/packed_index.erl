%% A packed index, as the same index unpacked, by doc/viewer_index.md alone: slow and plain.
%% Columns become #{"type" => "numbers", "numbers" => List}.
-module(packed_index).

-export([unpacked/1]).

-define(WORD, 16#ffffffff).
-define(GOLDEN, 16#9e3779b1).
-define(BEFORE_ALL, 16#ffffffff).

unpacked(<<"FPINDEX1", Size:32/little, 0:32, Json:Size/binary, Data/binary>>) ->
    #{<<"packed">> := 1, <<"data_bytes">> := Bytes} = Header = foreign_formats:json(Json),
    <<Arrays:Bytes/binary, _, Code:32, Rest/binary>> = Data,
    Table = ets:new(?MODULE, [private]),
    put(?MODULE, {Table, 16#7fffffff, Code, Rest}),
    try unpack(arrays(Header), Arrays)
    after ets:delete(Table), erase(?MODULE)
    end.

unpack(#{<<"tables">> := Tables, <<"columns">> := Columns, <<"metrics">> := Metrics} = Header,
        Arrays) ->
    Counts = foreign_formats:numbers_of(maps:get(<<"process_samples">>, Tables), Arrays),
    Rows = rows(Header, Counts),
    Cell = fun(N) -> numbers([element(N, Cells) || {_, Cells} <- Rows]) end,
    Given = fun(Name, N) ->
        case maps:get(Name, Columns) of
            #{<<"type">> := <<"packed">>} -> Cell(N);
            Column -> Column
        end
    end,
    Named = [{<<"status">>, 1}, {<<"node">>, 2}, {<<"period">>, 3}, {<<"schema">>, 4},
        {<<"event">>, 5}, {<<"file">>, 6}, {<<"scheduler">>, 7}],
    Models = lists:zip(models(Header), lists:seq(8, 7 + length(models(Header)))),
    Packed = maps:from_list([{{M, D}, [element(N, Cells) || {_, Cells} <- Rows]}
        || {[_, M, D], N} <- Models]),
    {Header#{
        <<"columns">> => maps:from_list([
            {<<"process">>, numbers([P || {{_, _, P, _, _}, _} <- Rows])},
            {<<"time_us">>, numbers([T || {{_, _, _, _, T}, _} <- Rows])}
            | [{Name, Given(Name, N)} || {Name, N} <- Named]]),
        <<"metrics">> => [metric(N, M, Packed)
            || {N, M} <- lists:zip(lists:seq(0, length(Metrics) - 1), Metrics)]
    }, Arrays}.

numbers(Numbers) -> #{<<"type">> => <<"numbers">>, <<"numbers">> => Numbers}.

models(#{<<"models">> := Models}) -> Models.

metric(N, Metric, Packed) ->
    Replace = fun(Key, D, M) ->
        case Packed of
            #{{N, D} := Rest} -> M#{Key => numbers(summed(Rest, D, M, Packed))};
            #{} -> M
        end
    end,
    case Replace(<<"delta">>, 1, Replace(<<"value">>, 0, Metric)) of
        #{<<"differences">> := 1, <<"delta">> := Delta} = Whole ->
            Whole#{<<"delta">> => Delta#{<<"more">> => true}};
        Whole ->
            Whole
    end.

summed(Rest, D, #{<<"sum">> := Terms}, Packed) ->
    lists:foldl(
        fun([M, Factor], Sum) ->
            case Packed of
                #{{M, D} := Term} -> lists:zipwith(fun(A, B) -> A + Factor * B end, Sum, Term);
                #{} -> Sum
            end
        end, Rest, Terms);
summed(Rest, _, _, _) ->
    Rest.

%%% Arrays, wherever they are described.

arrays(Header) ->
    Places = lists:usort(coded(Header)),
    Known = maps:from_list([{Place, array(Place, Count)} || {Place, Count} <- Places]),
    replaced(Header, Known).

coded(#{<<"type">> := <<"coded">>, <<"place">> := Place, <<"count">> := Count}) ->
    [{Place, Count}];
coded(Map) when is_map(Map) -> lists:append([coded(V) || V <- maps:values(Map)]);
coded(List) when is_list(List) -> lists:append([coded(V) || V <- List]);
coded(_) -> [].

replaced(#{<<"type">> := <<"coded">>, <<"place">> := Place}, Known) ->
    numbers(maps:get(Place, Known));
replaced(Map, Known) when is_map(Map) -> maps:map(fun(_, V) -> replaced(V, Known) end, Map);
replaced(List, Known) when is_list(List) -> [replaced(V, Known) || V <- List];
replaced(Value, _) -> Value.

array(Place, Count) ->
    {Numbers, _} = lists:mapfoldl(
        fun(_, {Last, Change}) ->
            New = signed(context(33, Place, size_of(Change), 0, 0), 4),
            Now = real(Last + New),
            {Now, {Now, New}}
        end, {0, 0}, lists:seq(1, Count)),
    Numbers.

%%% Rows: [{{Tick, Later, Process, Number, Time}, Cells}], sorted.

rows(#{<<"rows">> := 0}, _Counts) ->
    [];
rows(#{<<"columns">> := Columns} = Header, Counts) ->
    Count = number(context(1, 0, 0, 0, 0), 4),
    {Ticks, _} = lists:mapfoldl(
        fun(_, Last) -> Now = Last + signed(context(2, 0, 0, 0, 0), 4), {Now, Now} end, 0,
        lists:seq(1, Count)),
    HasPeriod = is_packed(<<"period">>, Columns),
    Times = [times(trunc(C), {0, 0, 0, 0, 1}, HasPeriod) || C <- Counts],
    lists:sort(lists:append([process(P, list_to_tuple(Ticks), Mine, Header)
        || {P, Mine} <- lists:zip(lists:seq(0, length(Times) - 1), Times)])).

is_packed(Name, Columns) ->
    maps:get(<<"type">>, maps:get(Name, Columns)) =:= <<"packed">>.

%% [{Tick, Gap, Later, Period}]
times(0, _, _HasPeriod) ->
    [];
times(N, {Tick, Later, Before, Last, Period}, HasPeriod) ->
    Gap = number(context(3, min(Last, 2), min(Before, 2), min(max(Period, 0), 2), 0), 4),
    Behind = case Gap of
        0 -> Later + number(context(4, 0, 0, 0, 0), 4);
        _ -> 0
    end,
    Weight = case HasPeriod of
        true -> real(1 + signed(context(5, min(Gap, 9), min(Last, 2), 0, 0), 4));
        false -> 1
    end,
    [{Tick + Gap, Gap, Behind, Weight}
        | times(N - 1, {Tick + Gap, Behind, Last, Gap, Weight}, HasPeriod)].

process(P, Ticks, Times, #{<<"columns">> := Columns, <<"models">> := Models}) ->
    Zeros = [{0, 0, 0} || _ <- Models],
    Is = fun(Name) -> is_packed(Name, Columns) end,
    First = fun(Name) -> case Is(Name) of true -> ?BEFORE_ALL; false -> 0 end end,
    Start = #{process => P, status => First(<<"status">>), node => ?BEFORE_ALL,
        before => ?BEFORE_ALL, run => 0, last_run => 0, metrics => Zeros,
        others => [0, 0, 0, 0], is => Is, models => [M || [M, _, _] <- Models]},
    {Rows, _} = lists:mapfoldl(
        fun({Tick, Gap, Later, Period}, {N, State0}) ->
            State = row(min(Gap, 2), State0),
            #{status := Status, node := Node, others := Others, metrics := Metrics} = State,
            Values = [V || {V, _, _} <- Metrics],
            {{{Tick, Later, P, N, element(Tick + 1, Ticks) + Later},
                list_to_tuple([Status, Node, Period] ++ Others ++ Values)}, {N + 1, State}}
        end, {0, Start}, Times),
    Rows.

row(Gap, #{process := P, node := From, before := Before, run := Run, last_run := LastRun,
        status := Status0, others := Others0, is := Is} = State) ->
    Any = decide(context(6, From, Gap, Run, LastRun)),
    Status = case Is(<<"status">>) andalso decide(context(7, Any, From, Gap, Status0)) of
        0 -> number(context(8, Any, From, Gap, Status0), 4);
        _ -> Status0
    end,
    Node = case Is(<<"node">>) of
        true -> node(Any, From, Before, Status, Gap, P);
        false -> 0
    end,
    Others = [case Is(Name) andalso decide(context(15, Cell, Status, Last, 0)) of
        0 -> number(context(16, Cell, Status, 0, 0), 4);
        _ -> Last
    end || {Name, Cell, Last} <- lists:zip3(
        [<<"schema">>, <<"event">>, <<"file">>, <<"scheduler">>], [3, 4, 5, 6], Others0)],
    New = State#{status => Status, node => Node, others => Others,
        before => case Node of From -> Before; _ -> From end},
    case Any of
        1 -> (metrics(From, New))#{run => 0, last_run => min(Run, 2)};
        0 -> New#{run => min(Run + 1, 5)}
    end.

node(Any, From, Before, Status, Gap, P) ->
    case decide(context(9, Any, From, Status, Gap)) of
        1 -> From;
        0 ->
            guessed(context(11, 0, 0, 0, 0), [context(12, From, Before, Status, 0),
                context(13, From, Status, 0, 0), context(14, P, Status, 0, 0)], From,
                fun() -> number(context(10, Status, P, 0, 0), 20) end)
    end.

%% Each is {Value, its last change, did it change in the last row that changed}.
metrics(From, #{node := To, process := P, models := Models, metrics := Metrics} = State) ->
    Row = #{from => From, to => To, process => P, gc => 0, work => 0, recent => 0,
        block => none, flags => 0},
    {New, _} = lists:mapfoldl(fun changed/2, Row,
        lists:zip3(Models, lists:seq(0, length(Models) - 1), Metrics)),
    State#{metrics => New}.

changed({Model, M, {Last, OldChange, Did}}, #{from := From, to := To, gc := Gc,
        flags := Flags} = Row) ->
    Place = if
        Model =:= 1; Model =:= 2 -> context(17, M, From, To, Did);
        Model =:= 4 -> context(18, Gc, From, To, 0);
        true -> context(19, M, Flags, Gc, Did)
    end,
    {Is, Change} = case decide(Place) of
        1 -> {1, change(Model, M, Last, OldChange, Row)};
        0 -> {0, 0}
    end,
    Now = real(Last + Change),
    Next = Row#{flags => (Flags * 2 + Is) band ?WORD},
    {{Now, case Is of 1 -> Change; 0 -> OldChange end, Is}, noted(Model, Now, Change, Next)}.

noted(1, _, Change, Row) when Change < 0 -> Row#{gc => 3};
noted(1, _, Change, Row) -> Row#{gc => min(Change, 2)};
noted(2, _, Change, Row) -> Row#{work => Change};
noted(3, Now, _, #{block := none} = Row) -> Row#{block => Now};
noted(5, Now, _, Row) -> Row#{recent => Now};
noted(_, _, _, Row) -> Row.

change(4, M, Last, OldChange, #{to := To, process := P} = Row) ->
    Keys = [context(23, To, P, 0, 0), context(24, To, 0, 0, 0), context(25, To, Last, 0, 0)],
    guessed(context(20, M, 0, 0, 0), Keys, Last,
        fun() -> Last + spelled(4, M, Last, OldChange, Row) end) - Last;
change(Model, M, Last, OldChange, #{from := From, to := To, process := P, gc := Gc,
        work := Work} = Row) ->
    Keys = case Model of
        3 -> [context(21, M, Last, P, Gc), context(22, M, Last, Gc, 0), context(22, M, Last, 4, 0)];
        _ -> [context(26, M * 256 + Gc, From, To, Work), context(27, M, From, To, Gc),
            context(28, M, P, Gc, 0)]
    end,
    guessed(context(20, M, 0, 0, 0), Keys, 0,
        fun() -> spelled(Model, M, Last, OldChange, Row) end).

spelled(3, M, Last, _, _Row) ->
    signed(context(30, M, Last, 0, 0), 20);
spelled(7, _M, Last, _, #{gc := Gc, block := Block, recent := Recent})
        when Gc > 0, Block =/= none ->
    Recent + signed(context(32, Gc, size_of(Block - Recent), 0, 0), 4) - Last;
spelled(2, M, _Last, OldChange, #{gc := Gc}) ->
    signed(context(29, M, Gc, size_of(OldChange), 0), 4);
spelled(7, M, _Last, _, #{gc := Gc, work := Work}) ->
    signed(context(29, M, Gc, size_of(Work), 0), 4);
spelled(6, M, _Last, _, #{gc := 1, recent := Recent}) ->
    signed(context(31, M, 1, size_of(Recent), 0), 4);
spelled(_, M, Last, _, #{gc := Gc}) ->
    signed(context(29, M, Gc, size_of(Last), 0), 4).

%%% The decoder.

context(Kind, A, B, C, D) ->
    lists:foldl(
        fun(N, Hash) ->
            Product = ((Hash bxor (N band ?WORD)) * 16#2c1b3c6d) band ?WORD,
            Product bxor (Product bsr 15)
        end, Kind, [A, B, C, D]).

%% What a double holds.
real(N) when abs(N) < 1 bsl 53 -> N;
real(N) -> trunc(float(N)).

bits(0) -> 0;
bits(N) -> 1 + bits(N bsr 1).

size_of(N) when abs(N) < 2 -> abs(N);
size_of(N) -> 2 * bits(abs(N)) + (abs(N) bsr (bits(abs(N)) - 2)) band 1.

decide(Place) ->
    {Table, Range, Code, Bytes} = get(?MODULE),
    Key = {chance, Place band 16#fffff},
    {Chance, Uses} = known(Table, Key, {32768, 0}),
    Rate = 131072 div (2 * Uses + 3),
    Bound = (Range bsr 12) * ((Chance bsr 4) bor 1),
    More = min(Uses + 1, 30),
    case Code < Bound of
        true ->
            true = ets:insert(Table, {Key, {Chance + (65535 - Chance) * Rate div 65536, More}}),
            widened(Table, Bound, Code, Bytes),
            1;
        false ->
            true = ets:insert(Table, {Key, {Chance - Chance * Rate div 65536, More}}),
            widened(Table, Range - Bound, Code - Bound, Bytes),
            0
    end.

widened(Table, Range, Code, <<Byte, Bytes/binary>>) when Range < 1 bsl 23 ->
    widened(Table, Range bsl 8, Code bsl 8 bor Byte, Bytes);
widened(Table, Range, Code, Bytes) when Range >= 1 bsl 23 ->
    put(?MODULE, {Table, Range, Code, Bytes}).

known(Table, Key, Default) ->
    case ets:lookup(Table, Key) of
        [{_, Value}] -> Value;
        [] -> Default
    end.

raw(Count) ->
    {Table, Range0, Code, Bytes} = get(?MODULE),
    Range = Range0 bsr Count,
    widened(Table, Range, Code rem Range, Bytes),
    Code div Range.

number(Place, Depth) ->
    case length_at(Place, 0) of
        Length when Length < 2 -> Length;
        Length -> bits(Place + 72 + 16 * Length, Length - 1, Depth, 1)
    end.

length_at(Place, Length) ->
    case decide(Place + Length) of
        1 -> length_at(Place, Length + 1);
        0 -> Length
    end.

bits(_Place, 0, _Depth, Number) ->
    Number;
bits(_Place, Left, 0, Number) ->
    Count = min(Left, 16),
    bits(none, Left - Count, 0, Number bsl Count + raw(Count));
bits(Place, Left, Depth, Number) when Number < 16 ->
    bits(Place, Left - 1, Depth - 1, 2 * Number + decide(Place + Number));
bits(Place, Left, Depth, Number) ->
    bits(Place, Left - 1, Depth - 1, 2 * Number + decide(Place + Number * ?GOLDEN)).

signed(Place, Depth) ->
    case decide(Place + 70) of
        1 -> real(-number(bnot Place band ?WORD, Depth) - 1);
        0 -> number(Place, Depth)
    end.

guessed(Place, Keys, Not, Spell) ->
    {Table, _, _, _} = get(?MODULE),
    Guesses = [{guess, Key band 16#3ffff} || Key <- Keys],
    Number = first(Table, Place, Guesses, 0, [Not], Spell),
    lists:foreach(fun(Key) -> learn(Table, Key, Number) end, Guesses),
    Number.

first(_Table, _Place, [], _K, _Tried, Spell) ->
    Spell();
first(Table, Place, [Key | Keys], K, Tried, Spell) ->
    {Guess, Hits} = known(Table, Key, {0, 0}),
    case not lists:member(Guess, Tried) andalso
        decide(Place + 64 * K + 4 * Hits + length(Tried)) of
        1 -> Guess;
        0 -> first(Table, Place, Keys, K + 1, [Guess | Tried], Spell);
        false -> first(Table, Place, Keys, K + 1, Tried, Spell)
    end.

learn(Table, Key, Number) ->
    New = case known(Table, Key, {0, 0}) of
        {Number, Hits} -> {Number, min(Hits + 1, 7)};
        {Guess, Hits} when Hits > 1 -> {Guess, Hits div 2};
        _ -> {Number, 0}
    end,
    true = ets:insert(Table, {Key, New}).
