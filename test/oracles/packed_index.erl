%% A packed index, as the same index unpacked, by doc/dev/viewer_index.md alone: slow and plain.
%% Columns become #{"type" => "numbers", "numbers" => List}.
-module(packed_index).

-export([unpacked/1]).

-define(GROUP, 28).

unpacked(<<"FPINDEX1", Size:32/little, 0:32, Json:Size/binary, Data/binary>>) ->
    #{<<"packed">> := 1, <<"data_bytes">> := Bytes} = Header0 = foreign_formats:json(Json),
    <<Arrays:Bytes/binary, Stream0/binary>> = Data,
    {Header, Stream1} = arrays(Header0, Stream0),
    #{<<"runs">> := Runs, <<"tables">> := Tables} = Header,
    {Times, Stream2} = array(Runs, Stream1),
    Counts = [trunc(C) || C <- foreign_formats:numbers_of(
        maps:get(<<"process_samples">>, Tables), Arrays)],
    {RunsOf, Stream} = lists:mapfoldl(fun runs/2, Stream2, Counts),
    {Columns, <<>>} = groups(packed(Header), RunsOf, Stream),
    Keys = [{Run, P, N} || {P, Of} <- numbered(RunsOf), {N, Run} <- numbered(Of)],
    InOrder = fun(Numbers) -> [Number || {_, Number} <- lists:sort(lists:zip(Keys, Numbers))] end,
    Given = maps:map(fun(_, Numbers) -> InOrder(lists:append(Numbers)) end, Columns),
    {with_columns(Header, Given#{<<"process">> => [P || {_, P, _} <- lists:sort(Keys)],
        <<"time_us">> => [lists:nth(Run + 1, Times) || {Run, _, _} <- lists:sort(Keys)]
    }), Arrays}.

with_columns(#{<<"columns">> := Columns, <<"metrics">> := Metrics} = Header, Given) ->
    Numbers = fun(Key, Column) ->
        case Given of #{Key := Found} -> numbers(Found); #{} -> Column end
    end,
    Header#{<<"columns">> => maps:map(Numbers, Columns),
        <<"metrics">> => [metric(Metric#{<<"value">> => Numbers({M, <<"value">>}, Value),
            <<"delta">> => Numbers({M, <<"delta">>}, Delta)
        }, Given) || {M, #{<<"value">> := Value, <<"delta">> := Delta} = Metric}
            <- numbered(Metrics)]}.

metric(#{<<"base">> := [Of, Factor], <<"value">> := #{<<"numbers">> := Rest}} = Metric, Given) ->
    Base = maps:get({Of, <<"value">>}, Given),
    Values = lists:zipwith(fun(A, B) -> A + Factor * B end, Rest, Base),
    metric((maps:remove(<<"base">>, Metric))#{<<"value">> => numbers(Values)}, Given);
metric(#{<<"differences">> := 1, <<"delta">> := Delta} = Metric, _Given) ->
    Metric#{<<"delta">> => Delta#{<<"more">> => true}};
metric(Metric, _Given) -> Metric.

numbers(Numbers) -> #{<<"type">> => <<"numbers">>, <<"numbers">> => Numbers}.

numbered(List) -> lists:zip(lists:seq(0, length(List) - 1), List).

%%% Arrays, wherever they are described.

arrays(Header, Stream0) ->
    {Known, Stream} = lists:mapfoldl(fun({Place, Count}, Rest0) ->
        {Array, Rest} = array(Count, Rest0),
        {{Place, Array}, Rest}
    end, Stream0, lists:usort(coded(Header))),
    {replaced(Header, maps:from_list(Known)), Stream}.

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

array(Count, Stream) -> sums(lists:duplicate(Count, 1), Stream).

%% The sums so far, of a change where there is one.
sums(Changed, Stream0) ->
    {Numbers, {_, Stream}} = lists:mapfoldl(fun
        (0, {Last, Rest}) -> {Last, {Last, Rest}};
        (1, {Last, Rest0}) ->
            {Change, Rest} = change(Rest0),
            Now = real(Last + Change),
            {Now, {Now, Rest}}
    end, {0, Stream0}, Changed),
    {Numbers, Stream}.

%%% Rows.

runs(Count, Stream0) ->
    {Runs, {_, Stream}} = lists:mapfoldl(fun(_, {Last, Rest0}) ->
        {Gap, Rest} = number(Rest0),
        {Last + Gap, {Last + Gap, Rest}}
    end, {0, Stream0}, lists:duplicate(Count, row)),
    {Runs, Stream}.

packed(#{<<"columns">> := Columns, <<"metrics">> := Metrics}) ->
    [Name || Name <- [<<"status">>, <<"node">>, <<"period">>, <<"schema">>, <<"event">>,
        <<"file">>, <<"scheduler">>], is_packed(maps:get(Name, Columns))] ++
        [{M, Kind} || {M, Metric} <- numbered(Metrics), Kind <- [<<"value">>, <<"delta">>],
            is_packed(maps:get(Kind, Metric))].

is_packed(#{<<"type">> := Type}) -> Type =:= <<"packed">>.

%% By column the numbers of each process.
groups([], _RunsOf, Stream) -> {#{}, Stream};
groups(Columns, RunsOf, Stream0) ->
    {Group, More} = lists:split(min(?GROUP, length(Columns)), Columns),
    {Masks, Stream1} = lists:mapfoldl(
        fun(Runs, Rest) -> lists:mapfoldl(fun(_, R) -> number(R) end, Rest, Runs) end,
        Stream0, RunsOf),
    {Found, Stream2} = lists:mapfoldl(fun({Bit, Column}, Rest0) ->
        {Numbers, Rest} = lists:mapfoldl(
            fun(Mine, R) -> sums([(Mask bsr Bit) band 1 || Mask <- Mine], R) end, Rest0, Masks),
        {{Column, Numbers}, Rest}
    end, Stream1, numbered(Group)),
    {Others, Stream} = groups(More, RunsOf, Stream2),
    {maps:merge(maps:from_list(Found), Others), Stream}.

%%% Numbers.

number(<<0:1, Low:7, Rest/binary>>) -> {Low, Rest};
number(<<1:1, Low:7, Rest0/binary>>) ->
    {High, Rest} = number(Rest0),
    {(High bsl 7) bor Low, Rest}.

change(Stream0) ->
    {Number, Stream} = number(Stream0),
    case Number band 1 of 0 -> {Number bsr 1, Stream}; 1 -> {-(Number bsr 1), Stream} end.

%% What a double holds.
real(N) when abs(N) < 1 bsl 53 -> N;
real(N) -> trunc(float(N)).
