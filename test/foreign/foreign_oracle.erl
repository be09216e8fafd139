%% What FlameGraph's stackcollapse-perf.pl and speedscope have to make of a file,
%% counted from the samples that flame_prof:fold/3 gives.
%%
%%     foreign_oracle:main(["DIRECTORY"])
%%
%% checks each text DIRECTORY/*/*.log strictly, and as Perfetto reads it, and writes beside it
%%
%% - TEXT.collapsed: the very lines that stackcollapse-perf.pl prints. It sums
%%   periods by command and symbols, root first. It also turns `;' to `:', cuts at
%%   `(' and at the end at `+0x1f', drops quotes, splits at `->', takes `[unknown]'
%%   for the dso's name, and of Java the first `L' away. None of these is done here:
%%   in our symbols there must be nothing that they find.
%% - TEXT.speedscope: lines `profile COMMAND PID TID SAMPLES UNIT TOTAL', each with
%%   its `frame SYMBOL DSO SELF TOTAL' behind it. To speedscope each process is a
%%   profile, of time, not of samples or periods: a sample lasts from the middle
%%   between it and the one before to the middle between it and the next. Weights
%%   are half microseconds, so that they are whole. A lone sample has the weight 1
%%   and no unit.
%%
%% What zstdcat made of a file of zst is counted from that file itself.
-module(foreign_oracle).

-export([main/1]).

main([Directory]) ->
    Texts = lists:sort(filelib:wildcard(filename:join(Directory, "*/*.log"))),
    [_ | _] = Texts,
    lists:foreach(fun text/1, Texts).

text(Text) ->
    #{samples := Strict, parts := Parts, pid := Pid} = strict(Text),
    ok = perfetto(Text, Strict + Parts),
    Sources = sources(Text),
    {ok, Samples, #{samples := Folded, bad := 0}} =
        flame_prof:fold(fun sample/2, {#{}, #{}}, Sources),
    {ok, _, #{samples := Owned, bad := 0}} = flame_prof_samples:own(Sources),
    Folded + Owned =:= Strict orelse error({Text, Folded, Owned, Strict}),
    Own = parts(Text),
    length(Own) =:= Owned + Parts orelse error({Text, length(Own), Owned, Parts}),
    {Stacks, Processes} = lists:foldl(fun(O, Acc) -> own(O, Pid, Acc) end, Samples, Own),
    ok = file:write_file(Text ++ ".collapsed", [[Stack, $\s, integer_to_binary(Weight), $\n]
     || {Stack, Weight} <- lists:sort(maps:to_list(Stacks))]),
    ok = file:write_file(Text ++ ".speedscope", [profile(Key, lists:reverse(Timed))
     || {Key, Timed} <- lists:sort(maps:to_list(Processes))]).

%% One sample of the profiler itself may be several to others.
parts(Text) ->
    {ok, Bytes} = file:read_file(Text),
    Header = "^flame_prof [0-9]+/2147483647 \\[000\\] ([0-9]+)\\.([0-9]{6}): ",
    case re:run(Bytes, Header, [multiline, global, {capture, all_but_first, list}]) of
        {match, Times} -> [#{time_us => list_to_integer(Seconds ++ Us)} || [Seconds, Us] <- Times];
        nomatch -> []
    end.

%% To those who do not know it, the profiler's sample of itself is a process'.
own(#{time_us := Us}, Pid, Acc) ->
    Sample = #{comm => <<"flame_prof">>, pid => Pid, tid => 16#7fffffff, period => 1, time_us => Us,
        status => <<"waiting">>, frames => [{<<"flame_prof_self">>, <<"flame_prof">>}]},
    sample(Sample, Acc).

strict(Text) ->
    case perf_script_grammar:check(Text) of
        {ok, #{pid := Pid} = Summary} -> Summary#{pid := binary_to_integer(Pid)};
        {error, {Line, Why}} -> error({Text, Line, Why})
    end.

%% All samples, and no line that is no frame; but for the metrics line of the weighted export.
perfetto(Text, Strict) ->
    {ok, Bytes} = file:read_file(Text),
    Samples = perfetto_oracle:samples(Bytes),
    IsWeighted = filename:basename(filename:dirname(Text)) =:= "weighted",
    Extra = fun
        (#{frames := [<<"# ", _/binary>> | Frames]}) when IsWeighted -> Frames;
        (#{frames := Frames}) -> Frames
    end,
    case [Line || Sample <- Samples, Line <- Extra(Sample), not is_tuple(Line)] of
        [] when length(Samples) =:= Strict -> ok;
        Lines -> error({Text, length(Samples), Strict, lists:sublist(Lines, 3)})
    end.

%% all.log is the whole series.
sources(Text) ->
    Directory = filename:dirname(Text),
    case {filename:basename(Text), filelib:is_regular(Text ++ ".zst")} of
        {"all.log", _} -> lists:sort(filelib:wildcard(filename:join(Directory, "*.zst")));
        {_, true} -> Text ++ ".zst";
        {_, false} -> Text
    end.

sample(#{comm := Comm, status := Status, frames := Frames} = Sample, {Stacks, Processes}) ->
    #{pid := Pid, tid := Tid, time_us := Us, period := Period} = Sample,
    Rooted = [{Status, <<"status">>} | lists:reverse(Frames)],
    Stack = iolist_to_binary(lists:join($;, [Comm | [Symbol || {Symbol, _} <- Rooted]])),
    {maps:update_with(Stack, fun(Weight) -> Weight + Period end, Period, Stacks),
        maps:update_with({Comm, Pid, Tid}, fun(T) -> [{Us, Rooted} | T] end, [{Us, Rooted}],
            Processes)}.

profile(Key, [{_, Frames}]) -> profile(Key, 1, "none", [{1, Frames}]);
profile(Key, [{First, Frames}, {Second, _} | _] = Timed) ->
    profile(Key, length(Timed), "seconds", [{Second - First, Frames} | between(Timed)]).

between([{Before, _}, {Us, Frames}]) -> [{Us - Before, Frames}];
between([{Before, _} | [{_, Frames}, {Behind, _} | _] = Timed]) ->
    [{Behind - Before, Frames} | between(Timed)].

profile({Comm, Pid, Tid}, Samples, Unit, Weighted) ->
    Weights = lists:foldl(fun weigh/2, #{}, Weighted),
    Total = lists:sum([Weight || {Weight, _} <- Weighted]),
    [io_lib:format("profile ~s ~b ~b ~b ~s ~b~n", [Comm, Pid, Tid, Samples, Unit, Total])
        | [[<<"frame ">>, Symbol, $\s, Dso, io_lib:format(" ~b ~b~n", [Self, All])]
         || {{Symbol, Dso}, {Self, All}} <- lists:sort(maps:to_list(Weights))]].

%% A frame that is on a stack twice is counted once.
weigh({Weight, Frames}, Weights) ->
    Leaf = lists:last(Frames),
    lists:foldl(fun(Frame, Acc) ->
        {Self, All} = maps:get(Frame, Acc, {0, 0}),
        Mine =
            case Frame of Leaf -> Weight; _ -> 0 end,
        Acc#{Frame => {Self + Mine, All + Weight}}
    end, Weights, lists:usort(Frames)).
