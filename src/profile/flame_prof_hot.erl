%% @doc What was hot: tables from the files that flame_prof writes.
%%
%% ```
%% 1> {ok, #{files := Files}} = flame_prof:stop().
%% 2> flame_prof_hot:print(Files).
%% 3> flame_prof_hot:print(Files, #{by => reductions, top => 5}).
%% 4> flame_prof_hot:print(Files, #{by => memory, status => running}).
%% '''
%%
%% `by' says what a share is a share of: the samples themselves, that is time; or
%% by how much a figure of the process changed since its sample before, such as
%% `reductions' or `memory'. Such a change is put down to the stack at its end.
%%
%% Lines do not count: two places in one function are the same frame here.
-module(flame_prof_hot).

-export([print/1, print/2]).
-export([hot/2, format/1]).
-export([fold/3]).

-export_type([options/0, report/0, figures/0, reason/0]).

%% <ul>
%% <li>`by': `samples' or a metric ({@link metric()}; `samples')</li>
%% <li>`status': count only samples with this status (`all')</li>
%% <li>`top': rows of each table (20)</li>
%% <li>`depth': callers to show of a stack, where they find room (6)</li>
%% </ul>
-type options() ::
    #{
        by => samples | metric(),
        status => all | flame_prof:status(),
        top => pos_integer(),
        depth => pos_integer()
    }.

-type metric() ::
    reductions
    | message_queue_len
    | memory
    | total_heap_size
    | stack_size
    | heap_size
    | heap_block_size
    | old_heap_size
    | old_heap_block_size
    | recent_size
    | mbuf_size
    | bin_vheap_size
    | bin_vheap_block_size
    | bin_old_vheap_size
    | bin_old_vheap_block_size
    | minor_gcs.

-type figures() :: #{samples := non_neg_integer(), value := integer(), share := float()}.

%% Each list has the hottest first. Stacks are leaf first; the names in `stacks',
%% `leaves' and `processes' are for people (see {@link flame_prof_reader:decode/1}).
-type report() ::
    #{
        options := options(),
        files := pos_integer(),
        read := flame_prof_reader:counts(),
        seconds := float(),
        total := figures(),
        statuses := [{binary(), figures()}],
        stacks := [{{Status :: binary(), [binary(), ...]}, figures()}],
        leaves := [{binary(), figures()}],
        processes := [{binary(), figures()}],
        distinct := #{stacks | leaves | processes => non_neg_integer()}
    }.

-type reason() ::
    {bad_option, Key :: term(), Accepted :: binary()} | flame_prof_reader:error().

%% Samples and value.
-type sums() :: {non_neg_integer(), integer()}.

%% A stack is taken apart once: `text' is what stands in the file, and the key.
-record(stack, {
    text :: binary(),
    status :: binary(),
    frames :: [binary(), ...],
    sums = {0, 0} :: sums()
}).

-record(hot, {
    by :: samples | {delta, Pattern :: binary()},
    status :: all | binary(),
    first_us = none :: none | integer(),
    last_us = none :: none | integer(),
    stacks = #{} :: #{binary() => #stack{}},
    processes = #{} :: #{Tid :: integer() => {Name :: binary(), sums()}}
}).

-import(flame_prof_text, [grouped/1, percent/1, plural/1, fit/2, pad/2, right/2]).

-define(COLUMNS, 100).
-define(VALUE_COLUMNS, 22).
-define(TOP, 20).
-define(DEPTH, 6).

%% @equiv print(Files, #{})
-spec print(flame_prof_reader:files()) -> ok | {error, reason()}.
print(Files) ->
    print(Files, #{}).

%% @doc Print the tables, in at most 100 columns.
-spec print(flame_prof_reader:files(), options()) -> ok | {error, reason()}.
print(Files, Options) ->
    case hot(Files, Options) of
        {ok, Report} -> io:put_chars(format(Report));
        {error, _} = Error -> Error
    end.

%% @doc The tables as data.
-spec hot(flame_prof_reader:files(), options()) -> {ok, report()} | {error, reason()}.
hot(Files, Given) ->
    case options(Given) of
        {ok, Options} -> read(Files, Options);
        {error, _} = Error -> Error
    end.

%% @equiv flame_prof_reader:fold(Fun, Acc, Files)
-spec fold(fun((flame_prof_reader:sample(), Acc) -> Acc), Acc, flame_prof_reader:files()) ->
    {ok, Acc, flame_prof_reader:counts()} | {error, flame_prof_reader:error()}.
fold(Fun, Acc, Files) ->
    flame_prof_reader:fold(Fun, Acc, Files).

%% Options.

options(Given) when is_map(Given) ->
    Options = maps:merge(#{by => samples, status => all, top => ?TOP, depth => ?DEPTH}, Given),
    case [Key || {Key, Value} <- lists:sort(maps:to_list(Options)), not is_option(Key, Value)] of
        [] -> {ok, Options};
        [Key | _] -> {error, {bad_option, Key, accepts(Key)}}
    end;
options(_) ->
    {error, {bad_option, options, <<"a map of options">>}}.

is_option(by, By) -> By =:= samples orelse lists:member(By, metrics());
is_option(status, Status) -> Status =:= all orelse lists:member(Status, statuses());
is_option(top, Top) -> is_integer(Top) andalso Top >= 1;
is_option(depth, Depth) -> is_integer(Depth) andalso Depth >= 1;
is_option(_, _) -> false.

accepts(by) -> one_of([samples | metrics()]);
accepts(status) -> one_of([all | statuses()]);
accepts(Count) when Count =:= top; Count =:= depth -> <<"a whole number from 1 on">>;
accepts(_) -> <<"no such option; there are: by, depth, status, top">>.

one_of(Atoms) ->
    iolist_to_binary(["one of: ", lists:join(", ", [atom_to_binary(Atom) || Atom <- Atoms])]).

statuses() ->
    [waiting, runnable, running, garbage_collecting, suspended, exiting].

metrics() ->
    [reductions, message_queue_len, memory, total_heap_size, stack_size, heap_size] ++
        [heap_block_size, old_heap_size, old_heap_block_size, recent_size, mbuf_size] ++
        [bin_vheap_size, bin_vheap_block_size, bin_old_vheap_size] ++
        [bin_old_vheap_block_size, minor_gcs].

%% Reading.

read(Files, #{by := By, status := Status} = Options) ->
    Hot = #hot{by = pattern(By), status = status_text(Status)},
    case flame_prof_reader:fold_raw(fun add/2, Hot, Files) of
        {ok, Read, Counts} -> {ok, report(Read, Counts, count_files(Files), Options)};
        {error, _} = Error -> Error
    end.

count_files([Character | _]) when is_integer(Character) -> 1;
count_files(Files) when is_list(Files) -> length(Files);
count_files(_) -> 1.

pattern(samples) -> samples;
pattern(Metric) -> {delta, <<" ", (atom_to_binary(Metric))/binary, "=">>}.

status_text(all) -> all;
status_text(Status) -> atom_to_binary(Status).

add({Header, Metrics, Text}, #hot{by = By} = Hot) ->
    case flame_prof_reader:head(Header) of
        {Time, _Pid, Tid, Period} ->
            Value = value(Metrics, Period, By),
            add(Time, Tid, Metrics, {Period, Value}, known_stack(Text, Hot), Hot);
        bad ->
            bad
    end.

add(Time, Tid, Metrics, {_, Value} = Sums, #stack{text = Text} = Stack, Hot0) when
    is_integer(Value)
->
    #hot{stacks = Stacks} = Hot = timed(Time, Hot0),
    Added = Stack#stack{sums = added(Sums, Stack#stack.sums)},
    Counted = Hot#hot{stacks = Stacks#{Text => Added}},
    {ok, add_process(Tid, Metrics, Stack#stack.status, Sums, Counted)};
add(_Time, _Tid, _Metrics, _Sums, _Stack, _Hot) ->
    bad.

value(_Metrics, Period, samples) -> Period;
value(Metrics, _Period, {delta, Pattern}) -> flame_prof_reader:delta(Metrics, Pattern).

known_stack(Text, #hot{stacks = Stacks}) ->
    case Stacks of
        #{Text := Known} -> Known;
        _ -> new_stack(binary:copy(Text))
    end.

%% Of a copy, because a part of a chunk would keep all of it.
new_stack(Text) ->
    case flame_prof_reader:stack(Text) of
        {Status, []} -> #stack{text = Text, status = Status, frames = [<<"no_frames">>]};
        {Status, Frames} -> #stack{text = Text, status = Status, frames = functions(Frames)};
        bad -> bad
    end.

functions(Frames) ->
    [flame_prof_names:function(flame_prof_reader:function(Frame)) || Frame <- Frames].

timed(Time, #hot{first_us = none} = Hot) ->
    Hot#hot{first_us = Time, last_us = Time};
timed(Time, #hot{first_us = First, last_us = Last} = Hot) ->
    Hot#hot{first_us = min(First, Time), last_us = max(Last, Time)}.

add_process(Tid, Metrics, Status, Sums, #hot{status = Wanted, processes = Processes} = Hot) when
    Wanted =:= all; Wanted =:= Status
->
    {Name, Before} =
        case Processes of
            #{Tid := Known} -> Known;
            _ -> {flame_prof_reader:process(Tid, Metrics), {0, 0}}
        end,
    Hot#hot{processes = Processes#{Tid => {Name, added(Sums, Before)}}};
add_process(_Tid, _Metrics, _Status, _Sums, Hot) ->
    Hot.

added({Samples, Value}, {MoreSamples, MoreValue}) ->
    {Samples + MoreSamples, Value + MoreValue}.

%% The report.

report(#hot{stacks = Stacks, status = Wanted} = Hot, Counts, Files, #{top := Top} = Options) ->
    All = maps:values(Stacks),
    Selected = [S || S <- All, Wanted =:= all orelse S#stack.status =:= Wanted],
    ByStack = summed([{{S#stack.status, S#stack.frames}, S#stack.sums} || S <- Selected]),
    ByLeaf = summed([{hd(S#stack.frames), S#stack.sums} || S <- Selected]),
    ByProcess = maps:values(Hot#hot.processes),
    ByStatus = summed([{S#stack.status, S#stack.sums} || S <- All]),
    Total = total(ByStack),
    #{
        options => Options,
        files => Files,
        read => Counts,
        seconds => seconds(Hot),
        total => figures(Total, Total),
        statuses => ranked(length(ByStatus), ByStatus, total(ByStatus)),
        stacks => ranked(Top, ByStack, Total),
        leaves => ranked(Top, ByLeaf, Total),
        processes => ranked(Top, ByProcess, Total),
        distinct => #{
            stacks => length(ByStack),
            leaves => length(ByLeaf),
            processes => length(ByProcess)
        }
    }.

seconds(#hot{first_us = none}) -> 0.0;
seconds(#hot{first_us = First, last_us = Last}) -> (Last - First) / 1.0e6.

total(Pairs) ->
    lists:foldl(fun added/2, {0, 0}, [Sums || {_, Sums} <- Pairs]).

summed(Pairs) ->
    Add = fun({Key, Sums}, Map) ->
        maps:update_with(Key, fun(Before) -> added(Sums, Before) end, Sums, Map)
    end,
    maps:to_list(lists:foldl(Add, #{}, Pairs)).

ranked(Top, Pairs, Total) ->
    Sorted = lists:sort(fun is_hotter/2, Pairs),
    [{Key, figures(Sums, Total)} || {Key, Sums} <- lists:sublist(Sorted, Top)].

%% The name decides last, so that a report never depends on a map's order.
is_hotter({KeyA, {SamplesA, ValueA}}, {KeyB, {SamplesB, ValueB}}) ->
    {-ValueA, -SamplesA, KeyA} =< {-ValueB, -SamplesB, KeyB}.

figures({Samples, Value}, {_, Total}) ->
    #{samples => Samples, value => Value, share => share(Value, Total)}.

share(_, 0) -> 0.0;
share(Value, Total) -> 100 * Value / Total.

%% The tables.

%% @doc A report as text.
-spec format(report()) -> unicode:chardata().
format(#{options := #{by := By, depth := Depth}} = Report) ->
    #{statuses := Statuses, stacks := Stacks, leaves := Leaves, processes := Processes} = Report,
    [
        summary(Report),
        table("By status", By, none, [{status(Key), F} || {Key, F} <- Statuses]),
        stack_table(By, Depth, Stacks, left_out(stacks, Stacks, Report)),
        table("Hottest functions", By, left_out(leaves, Leaves, Report), Leaves),
        table("Hottest processes", By, left_out(processes, Processes, Report), Processes)
    ].

summary(#{options := #{by := By, status := Status}, read := Read, files := Files} = Report) ->
    #{total := #{samples := Samples, value := Value}, seconds := Seconds} = Report,
    #{distinct := #{processes := Processes}} = Report,
    #{bad := Bad} = Read,
    [
        [grouped(Samples), " samples", of_status(Status)],
        [" of ", grouped(Processes), " processes, "],
        [io_lib:format("~.1f s, ~b file~ts", [Seconds, Files, plural(Files)])],
        [[", ", grouped(Value), " ", atom_to_list(By)] || By =/= samples],
        [[", ", grouped(Bad), " bad sample", plural(Bad), " left out"] || Bad > 0],
        "\n"
    ].

of_status(all) -> "";
of_status(Status) -> [" ", atom_to_list(Status)].

left_out(Kind, Shown, #{distinct := Distinct}) ->
    case maps:get(Kind, Distinct) - length(Shown) of
        0 -> none;
        More -> [grouped(More), " more"]
    end.

table(Title, By, More, Rows) ->
    [
        ["\n", Title, "\n", columns(By)],
        [[numbers(By, F), fit(Name, ?COLUMNS - numbers_width(By)), "\n"] || {Name, F} <- Rows],
        more(By, More)
    ].

stack_table(By, Depth, Rows, More) ->
    Width = ?COLUMNS - numbers_width(By) - 10,
    [
        ["\nHottest stacks: leaf < caller < ... < root\n", columns(By)],
        [
            [numbers(By, F), pad(status(Status), 10), chain(Frames, Depth, Width), "\n"]
         || {{Status, Frames}, F} <- Rows
        ],
        more(By, More)
    ].

more(_By, none) -> [];
more(By, More) -> [lists:duplicate(numbers_width(By), $\s), More, "\n"].

%% A share, what it is a share of, and the samples beside it where that is
%% something else.
columns(samples) -> "  share      samples\n";
columns(By) -> ["  share ", right(atom_to_list(By), ?VALUE_COLUMNS), right("samples", 13), "\n"].

numbers(samples, #{share := Share, value := Value}) ->
    [percent(Share), number(Value, 13), "  "];
numbers(_By, #{share := Share, value := Value, samples := Samples}) ->
    [percent(Share), " ", number(Value, ?VALUE_COLUMNS), number(Samples, 13), "  "].

numbers_width(samples) -> 7 + 13 + 2;
numbers_width(_) -> 7 + 1 + ?VALUE_COLUMNS + 13 + 2.

number(Number, Width) ->
    Text = grouped(Number),
    case length(Text) < Width of
        true -> right(Text, Width);
        false -> right(io_lib:format("~.3e", [float(Number)]), Width)
    end.

%% As long as the others.
status(<<"garbage_collecting">>) -> <<"gc">>;
status(Status) -> Status.

%% As many callers as find room, the root in any case.
chain([Leaf], _Depth, Width) ->
    fit(Leaf, Width);
chain([Leaf | Callers], Depth, Width) ->
    chain(Leaf, Callers, min(Depth, length(Callers)), Width).

chain(Leaf, _Callers, 0, Width) ->
    fit([Leaf, " < ..."], Width);
chain(Leaf, Callers, Count, Width) ->
    Text = lists:join(" < ", [Leaf | shortened(Callers, Count)]),
    case string:length(Text) =< Width of
        true -> Text;
        false -> chain(Leaf, Callers, Count - 1, Width)
    end.

%% Count callers, the root among them.
shortened(Callers, Count) when Count =:= length(Callers) -> Callers;
shortened(Callers, Count) -> lists:sublist(Callers, Count - 1) ++ ["...", lists:last(Callers)].
