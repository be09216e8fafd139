%% @doc The hottest stacks of files, as a tree and as a list of functions.
%% {@link flame_prof:hot/2} prints both.
%%
%% ```
%% 1> flame_prof:hot(Files, #{by => reductions, status => running}).
%% 2> {ok, Report} = flame_prof_tree:report(Files, #{}).
%% 3> io:put_chars(flame_prof_tree:format(Report, 120)).
%% '''
%%
%% The tree goes from the root, the status, to the leaf. A function that takes
%% nothing itself and has one callee only shares a line with it, `caller > callee'.
%% What is less than `min' is left out.
%%
%% Functions are those of Erlang: BIFs, NIFs and `[gc]' included. C functions are
%% no functions of their own here, as on top of a busy VM's stacks would always be
%% the same few; they stand as a detail beside the function that called them.
-module(flame_prof_tree).

-export([report/2, of_profile/2, format/2]).

-import(flame_prof_text, [grouped/1, percent/1, plural/1, fit/2, right/2]).

-export_type([options/0, report/0, branch/0, hot_function/0, error/0]).

%% <ul>
%% <li>`by': what a share is a share of: `samples' (that is time), `period', a
%%     metric such as `reductions' (by how much it changed) or `{value, Metric}'
%%     (`samples')</li>
%% <li>`status': only samples with this one (`all')</li>
%% <li>`node': with more than one file, sort into files first (false)</li>
%% <li>`top': functions to list (20)</li>
%% <li>`min': percent of its root, the status, below which a branch is left out (1):
%%     processes wait most of the time, and what they do else is to be seen all the
%%     same. Also, of one function no more than 15 callees are shown.</li>
%% <li>`depth': frames of a branch at most (40)</li>
%% <li>`max_memory', `progress': {@link flame_prof_profile:options()}</li>
%% </ul>
-type options() ::
    #{
        by => flame_prof_profile:measure(),
        status => all | flame_prof:status(),
        node => boolean(),
        top => pos_integer(),
        min => number(),
        depth => pos_integer(),
        max_memory => pos_integer(),
        progress => fun()
    }.

%% Names are decoded, but for control characters. `share' is that of the root, a
%% root's that of everything. `detail' are the C functions
%% that were called, the heaviest first. `self' is what the function itself took.
-type branch() ::
    #{
        name := binary(),
        weight := non_neg_integer(),
        self := non_neg_integer(),
        samples := non_neg_integer(),
        share := float(),
        detail := [{binary(), float()}],
        children := [branch()]
    }.

%% `share' is that of the samples whose leaf it was, `total' that of those whose
%% stack it was on.
-type hot_function() ::
    #{
        name := binary(),
        weight := non_neg_integer(),
        samples := non_neg_integer(),
        share := float(),
        total := float(),
        detail := [{binary(), float()}]
    }.

%% `samples' are those that have the status and weigh something, `all_samples' those of
%% the files.
-type report() ::
    #{
        by := binary(),
        status := atom(),
        files := pos_integer(),
        seconds := float(),
        processes := non_neg_integer(),
        bad := non_neg_integer(),
        weight := non_neg_integer(),
        samples := non_neg_integer(),
        all_samples := non_neg_integer(),
        tree := [branch()],
        functions := [hot_function()],
        more_functions := non_neg_integer()
    }.

-type error() :: flame_prof_profile:error() | {atom(), binary()}.

%% A sample may stand for several looks, and counts as so many.
-define(ALL_LOOKS, #{measure => samples, levels => [], lines => false}).
-define(DETAILS, 3).
-define(CHILDREN, 15).
-define(MEASURE_COLUMNS, (7 + 1 + 15)).

%% @doc Read files and report of them.
-spec report(flame_prof_samples:files(), options()) -> {ok, report()} | {error, error()}.
report(Files, Given) ->
    case checked(Given) of
        {ok, Options} -> read(Files, Options);
        {error, _} = Error -> Error
    end.

read(Files, Options) ->
    case flame_prof_profile:read(Files, maps:with([max_memory, progress], Options)) of
        {ok, Profile} ->
            try
                of_profile(Profile, Options)
            after
                flame_prof_profile:close(Profile)
            end;
        {error, _} = Error ->
            Error
    end.

%% @doc Of a profile that has been read already.
-spec of_profile(flame_prof_profile:profile(), options()) -> {ok, report()} | {error, error()}.
of_profile(Profile, Given) ->
    case checked(Given) of
        {ok, #{by := By} = Options} ->
            Query = #{measure => By, levels => levels(Options), lines => false},
            stacks(flame_prof_profile:stacks(Profile, Query), Profile, Options);
        {error, _} = Error ->
            Error
    end.

levels(#{node := true}) -> [file, status];
levels(_) -> [status].

stacks({error, _} = Error, _Profile, _Options) ->
    Error;
stacks({ok, #{stacks := Stacks}}, Profile, Options) ->
    #{processes := Processes, bad := Bad, files := Files} = Info = flame_prof_profile:info(Profile),
    #{first_us := First, last_us := Last} = Info,
    #{by := By, status := Status, top := Top} = Options,
    Rows = [row(Stack) || Stack <- unsigned(Stacks), is_wanted(Stack, Status)],
    Total = lists:sum([Weight || {_, _, _, Weight, _} <- Rows]),
    {Functions, More} = functions(Rows, Total, Top),
    {ok, #{
        by => measure_text(By),
        status => Status,
        files => length(Files),
        seconds => (Last - First) / 1.0e6,
        processes => Processes,
        bad => Bad,
        weight => Total,
        samples => lists:sum([Samples || {_, _, _, _, Samples} <- Rows]),
        all_samples => looks(flame_prof_profile:stacks(Profile, ?ALL_LOOKS)),
        tree => tree(Rows, Total, Options),
        functions => Functions,
        more_functions => More
    }}.

looks({ok, #{stacks := Stacks}}) -> lists:sum([Samples || {_, _, _, Samples} <- Stacks]).

is_wanted(_Stack, all) -> true;
is_wanted({Levels, _, _, _}, Status) -> lists:member(atom_to_binary(Status), Levels).

%% Of changes, a level says which are negative; where none is, it says nothing.
unsigned(Stacks) ->
    case lists:any(fun({Levels, _, _, _}) -> lists:member(<<"negative">>, Levels) end, Stacks) of
        true -> Stacks;
        false -> [setelement(1, Stack, element(1, Stack) -- [<<"positive">>]) || Stack <- Stacks]
    end.

%% Root first, without the C functions, which are apart: leaf first.
row({Levels, Symbols, Weight, Samples}) ->
    {Native, Frames} = lists:splitwith(fun is_native/1, Symbols),
    {Levels, lists:reverse(erlang_frames(Frames)), named(Native), Weight, Samples}.

erlang_frames([]) -> [<<"no_frames">>];
erlang_frames(Frames) -> [shown(Frame) || Frame <- Frames].

%% A library's name says nothing where a function's is there.
named(Native) ->
    case [Symbol || Symbol <- Native, binary:first(Symbol) =/= $[] of
        [] -> lists:sublist(Native, 1);
        Functions -> Functions
    end.

%% Functions of Erlang end in `/Arity', and what we made up is listed.
is_native(Symbol) ->
    not lists:member(Symbol, pseudo()) andalso
        re:run(Symbol, "/[0-9]+$", [{capture, none}]) =:= nomatch.

pseudo() ->
    [<<"[gc]">>, <<"[idle]">>, <<"ambiguous">>, <<"truncated">>, <<"stack_unreadable">>] ++
        [<<"no_frames">>, <<"running_stack_not_sampled">>].

shown(Symbol) ->
    << <<(visible(C))/utf8>> || <<C/utf8>> <= flame_prof_reader:decode(Symbol) >>.

visible(C) when C < 32; C >= 16#7f, C < 16#a0 -> $?;
visible(C) -> C.

measure_text({Kind, Metric}) -> iolist_to_binary(io_lib:format("~s of ~s", [Kind, text(Metric)]));
measure_text(Metric) -> text(Metric).

text(Metric) when is_atom(Metric) -> atom_to_binary(Metric);
text(Metric) -> Metric.

%% The tree: {Weight, Samples, Self, Details, Children by name}.

tree(Rows, Total, #{min := Min, depth := Depth}) ->
    Empty = {0, 0, 0, #{}, #{}},
    {_, _, _, _, Roots} = lists:foldl(
        fun({Levels, Frames, Native, Weight, Samples}, Node) ->
            add(Levels ++ cut(Frames, Depth), Native, Weight, Samples, Node)
        end,
        Empty,
        Rows
    ),
    Sorted = lists:sort([{rank(Name), -W, Name, Node}
        || {Name, {W, _, _, _, _} = Node} <- maps:to_list(Roots)]),
    [root(Name, Node, Total, Min) || {_, W, Name, Node} <- Sorted, W =/= 0].

%% Below a root, shares are shares of the root.
root(Name, {Weight, _, _, _, _} = Node, Total, Min) ->
    (branch(Name, Node, Weight, Min * Weight / 100))#{share := share(Weight, Total)}.

%% What costs CPU first.
rank(<<"running">>) -> 1;
rank(<<"garbage_collecting">>) -> 2;
rank(<<"runnable">>) -> 3;
rank(<<"waiting">>) -> 5;
rank(_) -> 4.

cut(Frames, Depth) when length(Frames) > Depth -> lists:sublist(Frames, Depth) ++ [<<"...">>];
cut(Frames, _Depth) -> Frames.

add([], Native, Weight, Samples, {W, S, Self, Details, Children}) ->
    {W + Weight, S + Samples, Self + Weight, detailed(Native, Weight, Details), Children};
add([Name | Names], Native, Weight, Samples, {W, S, Self, Details, Children}) ->
    Child = maps:get(Name, Children, {0, 0, 0, #{}, #{}}),
    Added = add(Names, Native, Weight, Samples, Child),
    {W + Weight, S + Samples, Self, Details, Children#{Name => Added}}.

detailed([], _Weight, Details) ->
    Details;
detailed([Leaf | _], Weight, Details) ->
    maps:update_with(shown(Leaf), fun(Before) -> Before + Weight end, Weight, Details).

branches(Children, Total, Least) ->
    Sorted = lists:sort([{-W, Name, Node}
        || {Name, {W, _, _, _, _} = Node} <- maps:to_list(Children)]),
    Most = lists:sublist(Sorted, ?CHILDREN),
    [branch(Name, Node, Total, Least) || {W, Name, Node} <- Most, -W >= Least, W =/= 0].

branch(Name, {Weight, Samples, Self, Details, Children}, Total, Least) ->
    #{
        name => Name,
        weight => Weight,
        self => Self,
        samples => Samples,
        share => share(Weight, Total),
        detail => details(Details, Total),
        children => branches(Children, Total, Least)
    }.

details(Details, Total) ->
    Sorted = lists:sort([{-Weight, Name} || {Name, Weight} <- maps:to_list(Details)]),
    [{Name, share(-Weight, Total)} || {Weight, Name} <- lists:sublist(Sorted, ?DETAILS)].

share(_, 0) -> 0.0;
share(Weight, Total) -> 100 * Weight / Total.

%% The list.

functions(Rows, Total, Top) ->
    Leaves = lists:foldl(fun add_leaf/2, #{}, Rows),
    Totals = lists:foldl(fun add_totals/2, #{}, Rows),
    Sorted = lists:sort([{-W, Name} || {Name, {W, _, _}} <- maps:to_list(Leaves)]),
    Shown = [function(Name, Leaves, Totals, Total) || {_, Name} <- lists:sublist(Sorted, Top)],
    {Shown, max(0, length(Sorted) - Top)}.

add_leaf({_, Frames, Native, Weight, Samples}, Leaves) ->
    Leaf = lists:last(Frames),
    {W, S, Details} = maps:get(Leaf, Leaves, {0, 0, #{}}),
    Leaves#{Leaf => {W + Weight, S + Samples, detailed(Native, Weight, Details)}}.

%% A function that calls itself is on the stack once.
add_totals({_, Frames, _, Weight, _}, Totals) ->
    lists:foldl(
        fun(Name, Sums) -> maps:update_with(Name, fun(W) -> W + Weight end, Weight, Sums) end,
        Totals,
        lists:usort(Frames)
    ).

function(Name, Leaves, Totals, Total) ->
    #{Name := {Weight, Samples, Details}} = Leaves,
    #{
        name => Name,
        weight => Weight,
        samples => Samples,
        share => share(Weight, Total),
        total => share(maps:get(Name, Totals), Total),
        detail => details(Details, Total)
    }.

%% Text.

%% @doc As text of at most so many columns.
-spec format(report(), pos_integer()) -> unicode:chardata().
format(Report, Columns) ->
    #{tree := Tree, functions := Functions, more_functions := More, by := By} = Report,
    [
        summary(Report),
        ["\n  share ", right(fit(By, 15), 15), "  (below a status: of this status)\n"],
        [lines(Branch, 0, Columns) || Branch <- Tree],
        ["\nFunctions: share of which it is the leaf, share that it is on the stack of\n"],
        "   leaf  on stack   samples\n",
        [function_line(Function, Columns) || Function <- Functions],
        [["                            ", grouped(More), " more\n"] || More > 0]
    ].

summary(#{files := Files, bad := Bad, all_samples := All} = Report) ->
    #{processes := Processes, seconds := Seconds} = Report,
    [
        [grouped(All), " sample", plural(All), " of ", grouped(Processes), " process",
            [["es"] || Processes =/= 1], ", "],
        [io_lib:format("~.1f s, ~b file~ts", [Seconds, Files, plural(Files)])],
        [[", ", grouped(Bad), " bad sample", plural(Bad), " left out"] || Bad > 0],
        considered(Report),
        "\n"
    ].

%% What the shares are shares of, where that is not all of it.
considered(#{by := <<"samples">>, status := all}) ->
    [];
considered(#{by := By, status := Status, samples := Samples, weight := Weight}) ->
    [
        [": "],
        [[grouped(Weight), " ", By, " in "] || By =/= <<"samples">>],
        [grouped(Samples), [[" ", atom_to_list(Status)] || Status =/= all], " sample",
            plural(Samples)]
    ].

%% A status has a line of its own; below it, who has nothing beside it and takes
%% nothing itself shares one with its callees.
lines(#{children := Children, weight := Weight, share := Share} = Branch, Indent, Columns) ->
    {Names, Last, Rest} =
        case Indent of
            0 -> {[], Branch, Children};
            _ -> chain(Branch, [])
        end,
    Room = max(20, Columns - ?MEASURE_COLUMNS - 2 - Indent),
    [
        [percent(Share), " ", right(grouped(Weight), 15), "  ", lists:duplicate(Indent, $\s)],
        [joined(Names, [maps:get(name, Last) | detail(Last)], Room), "\n"],
        [lines(Child, Indent + 2, Columns) || Child <- Rest]
    ].

chain(#{name := Name, weight := Weight, children := [#{weight := Weight} = Child]}, Names) ->
    chain(Child, [Name | Names]);
chain(#{children := Children} = Branch, Names) ->
    {lists:reverse(Names), Branch, Children}.

%% As many as find room, the first and the last in any case.
joined([], Last, Room) ->
    fit(Last, Room);
joined([First | Between], Last, Room) ->
    Text = lists:join(" > ", [First | Between] ++ [Last]),
    case {string:length(Text) > Room, Between} of
        {false, _} -> Text;
        {true, []} -> fit(Text, Room);
        {true, [<<"...">>]} -> fit(Text, Room);
        {true, [<<"...">>, _ | Nearer]} -> joined([First, <<"...">> | Nearer], Last, Room);
        {true, [_ | Nearer]} -> joined([First, <<"...">> | Nearer], Last, Room)
    end.

detail(#{detail := []}) -> [];
detail(#{detail := Details}) -> ["  (", lists:join(", ", [one_detail(D) || D <- Details]), ")"].

one_detail({Name, Share}) -> [Name, " ", io_lib:format("~.1f%", [Share])].

function_line(#{name := Name, share := Share, total := Total, samples := Samples} = F, Columns) ->
    [
        [percent(Share), "   ", percent(Total), right(grouped(Samples), 10)],
        ["  ", fit([Name | detail(F)], max(20, Columns - 29)), "\n"]
    ].

%% Options.

checked(Given) when is_map(Given) ->
    Defaults = #{by => samples, status => all, node => false, top => 20, min => 1, depth => 40},
    Options = maps:merge(Defaults, Given),
    case [Key || {Key, Value} <- lists:sort(maps:to_list(Options)), not is_option(Key, Value)] of
        [] -> {ok, Options};
        [Key | _] -> {error, {bad_option, Key, accepts(Key)}}
    end;
checked(_) ->
    {error, {bad_option, options, <<"a map of options">>}}.

is_option(by, {Kind, Metric}) -> lists:member(Kind, [value, delta]) andalso is_metric(Metric);
is_option(by, Metric) -> is_metric(Metric);
is_option(status, Status) -> Status =:= all orelse lists:member(Status, statuses());
is_option(node, Is) -> is_boolean(Is);
is_option(top, Top) -> is_integer(Top) andalso Top >= 1;
is_option(min, Min) -> is_number(Min) andalso Min >= 0 andalso Min =< 100;
is_option(depth, Depth) -> is_integer(Depth) andalso Depth >= 1;
%% Checked by flame_prof_profile.
is_option(Key, _) -> Key =:= max_memory orelse Key =:= progress.

is_metric(Metric) -> is_atom(Metric) orelse is_binary(Metric).

accepts(by) -> <<"samples, period, a metric, {value, Metric} or {delta, Metric}">>;
accepts(status) -> iolist_to_binary(["all or one of: ", lists:join(", ", names(statuses()))]);
accepts(node) -> <<"true or false">>;
accepts(min) -> <<"percent, 0 to 100">>;
accepts(Count) when Count =:= top; Count =:= depth -> <<"a whole number from 1 on">>;
accepts(_) ->
    <<"no such option; there are: by, depth, max_memory, min, node, progress, status, top">>.

names(Atoms) ->
    [atom_to_binary(Atom) || Atom <- Atoms].

statuses() ->
    [waiting, runnable, running, garbage_collecting, suspended, exiting].
