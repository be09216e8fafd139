%% @doc What was hot in files: a tree of stacks, a list of functions and one of processes.
%% {@link flame_prof:hot/2} prints them.
%%
%% ```
%% 1> flame_prof:hot(Files, #{by => reductions}).
%% 2> {ok, Report} = flame_prof:look(hot, #{files => Files}).
%% 3> io:put_chars(flame_prof_tree:format(Report, 120)).
%% '''
%%
%% By samples, which stand for time, the report has the active samples: those of processes that
%% run, collect garbage or are ready to run. The first line counts the idle ones; `idle => true'
%% shows them. By a metric the report has all samples, as a change happens before its sample.
%%
%% Of files with `mode => schedulers' a share is one of the CPU time that Erlang processes
%% used. In other files a sample is one process at one tick, and a share is one of these.
%%
%% The tree goes from the root, the status, to the leaf. A function that takes
%% nothing itself and has one callee only shares a line with it, `caller > callee'.
%% Branches below `min' are left out.
%%
%% Functions are those of Erlang: BIFs, NIFs and `[gc]' included. C functions stand as a detail
%% beside the function that called them, as the same few are on top of every stack. In files of
%% Linux perf, which have no status, they are functions as all others.
-module(flame_prof_tree).

-include("flame_prof.hrl").

-behaviour(flame_prof_look).

-export([report/2, of_profile/2, format/2, format/3]).
-export([about/0, takes/0, run/2, text/2, json/1]).
-export([checked/1, rows/0, is_selected/2, share/2]).

-import(flame_prof_text, [visible/1]).

-export_type([options/0, report/0, branch/0, hot_function/0, row/0]).

-type options() ::
    #{
        files => flame_prof_samples:files() | flame_prof_options:left_out(),
        by => flame_prof_profile:metric() | flame_prof_options:left_out(),
        idle => boolean() | flame_prof_options:left_out(),
        status => active | all | flame_prof:status() | flame_prof_options:left_out(),
        node => boolean() | flame_prof_options:left_out(),
        group_by => [flame_prof_profile:dimension()] | flame_prof_options:left_out(),
        chains => boolean() | flame_prof_options:left_out(),
        top => pos_integer() | flame_prof_options:left_out(),
        min => number() | flame_prof_options:left_out(),
        depth => pos_integer() | flame_prof_options:left_out(),
        event => flame_prof_profile:event() | flame_prof_options:left_out(),
        max_memory => pos_integer() | flame_prof_options:left_out(),
        progress => fun() | flame_prof_options:left_out()
    }.
%% An option that is left out, `undefined' or `nil' has its default, in brackets.
%%
%% <ul>
%% <li>`by': shares are shares of `samples' (that is time), `period', the changes of a metric
%%     such as `reductions', or its values, `{value, Metric}' (`samples'; of files of allocations
%%     their `words')</li>
%% <li>`idle': with the samples of processes that wait, are suspended or exit, and with those of
%%     idle schedulers (false; by a metric true)</li>
%% <li>`status': only samples with this one, whatever `idle' says; `all' is `idle => true',
%%     `active' is `idle => false'</li>
%% <li>`node': with more than one file, sort into files first (false)</li>
%% <li>`group_by': what the tree sorts by below the status, outermost first: `[process, message]'
%%     tells which requests a server spends its time on (`[]')</li>
%% <li>`chains': only samples of processes that wait for something, each with the stack of what it
%%     waits for below its own, down to a process that works (false)</li>
%% <li>`top': functions, processes and messages to list (20)</li>
%% <li>`min': percent of its root, the status, below which a branch is left out (1).
%%     Of one function no more than 15 callees are shown.</li>
%% <li>`depth': frames of a branch at most (40; with `chains' 400)</li>
%% <li>`files': {@link flame_prof} takes them</li>
%% <li>`event', `max_memory', `progress': {@link flame_prof_profile:options()}</li>
%% </ul>

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
%% Names are decoded, but for control characters, and Elixir's are as Elixir has them.
%% `share' is that of the root, a root's that of everything. `detail' are the C functions
%% that were called, the heaviest first. `self' is what the function itself took.

-type hot_function() ::
    #{
        name := binary(),
        weight := non_neg_integer(),
        samples := non_neg_integer(),
        share := float(),
        total := float(),
        detail := [{binary(), float()}]
    }.
%% `share' is that of the samples whose leaf it was, `total' that of those whose
%% stack it was on.

-type row() ::
    #{
        name := binary(),
        weight := non_neg_integer(),
        samples := non_neg_integer(),
        share := float()
    }.
%% A process, a status, or a message of a server: `my_server call:{get,_}'.

-type report() ::
    #{
        by := binary(),
        unit := samples | cpu | words,
        status := active | all | flame_prof:status(),
        files := pos_integer(),
        seconds := float(),
        processes := non_neg_integer(),
        bad := non_neg_integer(),
        whole := boolean(),
        weight := non_neg_integer(),
        samples := non_neg_integer(),
        all_samples := non_neg_integer(),
        by_status := [row()],
        tree := [branch()],
        growth := non_neg_integer(),
        functions := [hot_function()],
        more_functions := non_neg_integer(),
        by_process := [row()],
        more_processes := non_neg_integer(),
        by_message := [row()],
        more_messages := non_neg_integer(),
        chains := boolean(),
        notes := [binary()]
    }.
%% `samples' are those that have the status and weigh something, `all_samples' those of the
%% files, and `by_status' counts these. `unit' is `cpu' where samples are of schedulers, and `words'
%% where they tell who has allocated: words of 8 bytes; the roots of the tree are then what was
%% kept, what was garbage, and what is not known to be either. Of a
%% metric that also falls, the tree has growth and release apart, and functions and processes
%% are those that grew: their shares are shares of `growth', which is `weight' elsewhere. `notes'
%% say which event is shown, if the files have several, and whether periods differ that are not
%% used.

%% Between two files of a session, which may write a process that waits once a second.
-define(GAP_US, 2000000).

-define(DETAILS, 3).
-define(CHILDREN, 15).
-define(COUNT_MOST, 1000000).

%% @private Read files and report of them.
-spec report(flame_prof_samples:files(), options()) ->
    {ok, report()} | {error, flame_prof:reason()}.
report(Files, Given) ->
    case checked(Given) of
        {ok, Options} -> read(Files, Options);
        {error, _} = Error -> Error
    end.

read(Files, Options) ->
    Limits = maps:with([event, max_memory, progress], Options),
    flame_prof_file_losses:read(Files, Limits, fun(Profile) -> measured(Profile, Options) end).

%% @private Of a profile that has been read already.
-spec of_profile(flame_prof_profile:profile(), options()) ->
    {ok, report()} | {error, flame_prof:reason()}.
of_profile(Profile, Given) ->
    case checked(Given) of
        {ok, Options} -> measured(Profile, Options);
        {error, _} = Error -> Error
    end.

measured(Profile, #{by := By} = Given) ->
    case {flame_prof_profile:processes(Profile), flame_prof_profile:info(Profile)} of
        {{error, _} = Error, _} -> Error;
        {_, {error, _} = Error} -> Error;
        {Known, Info} ->
            Options = Given#{by := flame_prof_query:weight(By, Info)},
            case answers(Profile, queries(Options) ++ message_queries(Info, Options)) of
                {ok, Answers} -> {ok, report_of(Info#{known => Known}, Answers, Options)};
                {error, _} = Error -> Error
            end
    end.

%% The stacks; the statuses of all samples, also of those that are not shown; the processes.
queries(#{by := By, node := ByFile, group_by := Dimensions, chains := Chains}) ->
    [
        #{by => By, group_by => [file || ByFile] ++ [status | Dimensions], lines => false,
            chains => Chains},
        #{group_by => [status], stacks => false},
        #{by => By, group_by => [status, node, pid], stacks => false, chains => Chains}
    ].

%% Few files have messages.
message_queries(#{messages := Count}, #{by := By, chains := false}) when Count > 0 ->
    [#{by => By, group_by => [status, process, message], stacks => false}];
message_queries(_Info, _Options) ->
    [].

answers(_Profile, []) ->
    {ok, []};
answers(Profile, [Query | Queries]) ->
    case flame_prof_profile:stacks(Profile, Query) of
        {ok, #{stacks := Stacks}} -> and_more(Stacks, answers(Profile, Queries));
        {error, _} = Error -> Error
    end.

and_more(Stacks, {ok, More}) -> {ok, [Stacks | More]};
and_more(_Stacks, {error, _} = Error) -> Error.

report_of(Info, [Stacks, Statuses, Sums | Messages], Options) ->
    #{by := By, top := Top, node := ByFile} = Options,
    #{processes := Processes, bad := Bad, files := Files, known := Known} = Info,
    Status = selected(Options),
    At = 1 + length([file || ByFile]),
    Rows = [row(S, shown_levels(At, under_heap(At, Stack)))
        || {Groups, _, _, _} = Stack <- unsigned(Stacks),
        S <- [lists:nth(At, Groups)], is_selected(S, Status)],
    Grown = [Row || {Groups, _, _, _, _} = Row <- Rows, lists:last(Groups) =/= <<"negative">>],
    Growth = weight(Grown),
    {Functions, MoreFunctions} = functions(Grown, Growth, Top),
    {ByMessage, MoreMessages} = by_message(lists:append(Messages), Status, Growth, Options),
    {ByProcess, MoreProcesses} = by_process(Sums, Known, Status, Growth, Top),
    ByStatus = by_status(Statuses),
    #{
        by => metric_text(By),
        unit => unit(Info),
        status => Status,
        files => length(Files),
        seconds => length_us(Files) / 1.0e6,
        processes => Processes,
        bad => Bad,
        whole => lists:all(fun flame_prof_file_losses:is_whole/1, Files),
        weight => weight(Rows),
        samples => lists:sum([Samples || {_, _, _, _, Samples} <- Rows]),
        all_samples => lists:sum([Samples || #{samples := Samples} <- ByStatus]),
        by_status => ByStatus,
        tree => tree(Rows, weight(Rows), Options),
        growth => Growth,
        functions => Functions,
        more_functions => MoreFunctions,
        by_process => ByProcess,
        more_processes => MoreProcesses,
        by_message => ByMessage,
        more_messages => MoreMessages,
        chains => maps:get(chains, Options),
        notes => [unicode:characters_to_binary(Note)
            || Note <- flame_prof_file_losses:events(Info)
                ++ [Note || By =:= samples, Note <- flame_prof_file_losses:periods(Info)]]
    }.

weight(Rows) -> lists:sum([Weight || {_, _, _, Weight, _} <- Rows]).

%% Without the time between files, which may be days, or a step of the clock.
length_us(Files) ->
    Spans = [{First, Last} || #{dialect := Dialect, first_us := First, last_us := Last} <- Files,
        Dialect =/= none],
    lists:sum([Last - First || {First, Last} <- joined(lists:sort(Spans))]).

joined([{First, Last}, {Next, Later} | Spans]) when Next =< Last + ?GAP_US ->
    joined([{First, max(Last, Later)} | Spans]);
joined([Span | Spans]) ->
    [Span | joined(Spans)];
joined([]) ->
    [].

selected(#{status := Status}) -> Status;
selected(#{chains := true}) -> all;
selected(#{idle := true}) -> all;
selected(#{idle := false}) -> active;
selected(#{by := By}) when By =:= samples; By =:= period -> active;
selected(_) -> all.

%% @private Whether samples with this status, a text of the file, are among those that are shown.
-spec is_selected(binary(), active | all | flame_prof:status()) -> boolean().
is_selected(_Status, all) -> true;
is_selected(Status, Selected) -> lists:member(Status, flame_prof_query:statuses(Selected)).

%% Of changes, a level says which are negative; where none is, it says nothing.
unsigned(Stacks) ->
    case lists:any(fun({Levels, _, _, _}) -> lists:last(Levels) =:= <<"negative">> end, Stacks) of
        true -> Stacks;
        false -> [setelement(1, Stack, element(1, Stack) -- [<<"positive">>]) || Stack <- Stacks]
    end.

%% Below the status. Most samples have no message.
shown_levels(At, {Groups, Frames, Weight, Samples}) ->
    {Above, Below} = lists:split(At, Groups),
    {Above ++ [level(Text) || Text <- Below, Text =/= <<>>], Frames, Weight, Samples}.

%% All allocations have one status. What became of the memory stands in its place.
under_heap(At, {Groups, [_ | _] = Frames, Weight, Samples} = Stack) ->
    case lists:last(Frames) of
        {Fate, <<"heap">>} when Fate =/= <<"fragments">> ->
            {Above, [_Status | Below]} = lists:split(At - 1, Groups),
            {Above ++ [Fate | Below], lists:droplast(Frames), Weight, Samples};
        _ ->
            Stack
    end;
under_heap(_At, Stack) ->
    Stack.

level(Text) -> flame_prof_names:function(visible(flame_prof_frames:decode(Text))).

%% Root first. A stack of perf, which has no status, is one of C functions; elsewhere they are
%% apart, leaf first.
row(<<>>, {Levels, Stack, Weight, Samples}) ->
    {Levels, lists:reverse(erlang_frames(Stack)), [], Weight, Samples};
row(_Status, {Levels, Stack, Weight, Samples}) ->
    IsNative = fun(Frame) -> flame_prof_frames:kind(Frame) =:= native end,
    {Native, Frames} = lists:splitwith(IsNative, Stack),
    {Levels, lists:reverse(erlang_frames(Frames)), named(Native), Weight, Samples}.

erlang_frames([]) -> [?FLAME_PROF_NO_FRAMES];
erlang_frames(Frames) -> [shown(Frame) || Frame <- Frames].

%% The name of a library says nothing where there is one of a function.
named(Native) ->
    case [Frame || {Symbol, _} = Frame <- Native, binary:first(Symbol) =/= $[] of
        [] -> lists:sublist(Native, 1);
        Functions -> Functions
    end.

shown(Frame) ->
    case {Frame, visible(flame_prof_frames:function(Frame))} of
        {{_, <<"waits_for">>}, <<"waits for ", What/binary>>} ->
            <<"waits for ", (flame_prof_names:function(What))/binary>>;
        {_, Name} ->
            flame_prof_names:function(Name)
    end.

metric_text({value, <<"words">>}) -> <<"words">>;
metric_text({Kind, Metric}) -> iolist_to_binary(io_lib:format("~s of ~s", [Kind, text(Metric)]));
metric_text(Metric) -> text(Metric).

text(Metric) when is_atom(Metric) -> atom_to_binary(Metric);
text(Metric) -> Metric.

%% Statuses and processes: sums without stacks.

by_status(Sums) ->
    Total = lists:sum([Samples || {_, _, _, Samples} <- Sums]),
    Ranked = lists:sort([{rank(Status), Status, Samples} || {[Status], _, _, Samples} <- Sums]),
    [
        #{name => Status, weight => N, samples => N, share => share(N, Total)}
     || {_, Status, N} <- Ranked
    ].

%% Statuses that cost CPU come first.
rank(<<"running">>) -> 1;
rank(<<"garbage_collecting">>) -> 2;
rank(<<"runnable">>) -> 3;
rank(<<"waiting">>) -> 5;
rank(_) -> 4.

%% Processes of two nodes can have the same pid.
by_process(Sums, Known, Status, Total, Top) ->
    Selected = [Sum || {[S | Groups], _, _, _} = Sum <- Sums, is_selected(S, Status),
        lists:last(Groups) =/= <<"negative">>],
    Added = lists:foldl(
        fun({[_, Node, Pid | _], _, Weight, Samples}, All) ->
            {W, S} = maps:get({Node, Pid}, All, {0, 0}),
            All#{{Node, Pid} => {W + Weight, S + Samples}}
        end,
        #{},
        Selected
    ),
    Sorted = lists:sort([{-W, Key, S} || {Key, {W, S}} <- maps:to_list(Added)]),
    Listed = lists:sublist(Sorted, Top),
    Names = names(Known, [Key || {_, Key, _} <- Listed]),
    {[#{name => maps:get(Key, Names), weight => -W, samples => Samples, share => share(-W, Total)}
        || {W, Key, Samples} <- Listed], max(0, length(Sorted) - Top)}.

%% What servers had in work, of the samples that are shown.
by_message(Sums, Status, Total, #{top := Top}) ->
    Added = lists:foldl(
        fun({[_, Process, Message | _], _, Weight, Samples}, All) ->
            {W, S} = maps:get({Process, Message}, All, {0, 0}),
            All#{{Process, Message} => {W + Weight, S + Samples}}
        end,
        #{},
        [Sum || {[S, _, Message | _] = Groups, _, _, _} = Sum <- Sums, Message =/= <<>>,
            is_selected(S, Status), lists:last(Groups) =/= <<"negative">>]
    ),
    Sorted = lists:sort([{-W, Key, S} || {Key, {W, S}} <- maps:to_list(Added)]),
    {[#{name => <<(level(Process))/binary, " ", (level(Message))/binary>>, weight => -W,
            samples => Samples, share => share(-W, Total)}
        || {W, {Process, Message}, Samples} <- lists:sublist(Sorted, Top)],
        max(0, length(Sorted) - Top)}.

names(Known, Keys) ->
    Wanted = maps:from_list([{Key, []} || Key <- Keys]),
    maps:from_list([{Key, visible(flame_prof_frames:process(Process))}
        || Process <- Known, Key <- [key(Process)], is_map_key(Key, Wanted)]).

%% As the dimensions `node' and `pid' have it.
key(#{pid := Os, erl_pid := <<>>, tid := Tid}) -> {node_text(Os), number_text(Os, Tid)};
key(#{pid := Os, erl_pid := Pid}) -> {node_text(Os), Pid}.

node_text(Os) -> iolist_to_binary(["os_pid_", integer_to_list(Os)]).

number_text(Os, Tid) -> iolist_to_binary([integer_to_list(Os), "/", integer_to_list(Tid)]).

%% A file says its mode in the profiler's own sample; older ones in the rows of idle schedulers.
unit(#{files := Files, known := Known} = Info) ->
    IsOfSchedulers = lists:all(fun is_of_schedulers/1, Files) orelse
        (length(Files) =:= 1 andalso lists:any(fun is_scheduler/1, Known)),
    case flame_prof_query:is_of_allocations(Info) of
        true -> words;
        false when IsOfSchedulers -> cpu;
        false -> samples
    end.

is_of_schedulers(#{own := Own}) -> binary:match(Own, <<" mode=schedulers">>) =/= nomatch.

is_scheduler(#{words := <<"scheduler=", _/binary>>}) -> true;
is_scheduler(_) -> false.

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

%% @private In percent.
-spec share(non_neg_integer(), non_neg_integer()) -> float().
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

%% @equiv format(Report, Columns, "idle => true")
-spec format(report(), pos_integer()) -> unicode:chardata().
format(Report, Columns) ->
    format(Report, Columns, "idle => true").

%% @doc As text of at most so many columns. `Idle' is the option that shows what is idle.
-spec format(report(), pos_integer(), unicode:chardata()) -> unicode:chardata().
format(Report, Columns, Idle) ->
    flame_prof_tree_text:format(Report, Columns, Idle).

%% Options.

%% @private
-spec checked(term()) -> {ok, options()} | {error, flame_prof:reason()}.
checked(Given) ->
    flame_prof_schema:checked(rows(), Given).

%% @private
-spec rows() -> [flame_prof_schema:row(), ...].
rows() ->
    [
        #{key => by, type => {own, fun flame_prof_query:metric/1,
            "samples, period, a metric, {value, Metric} or {delta, Metric}"}, default => by_event,
            word => "METRIC", reads => metric,
            doc => "samples, a metric such as reductions, value:METRIC"},
        #{key => idle, type => boolean,
            doc => "with what waits, and idle schedulers: status all"},
        #{key => status, type => {one_of, [active, all | ?FLAME_PROF_STATUSES]},
            doc => "only samples of this status, as running (active; by a metric all)"},
        #{key => node, type => boolean, default => false,
            doc => "sort into files first: one for each node"},
        #{key => chains, type => boolean, default => false,
            doc => "what processes wait for: its stack below theirs, down to the process that "
                "runs"},
        #{key => group_by, default => [], word => "LIST", reads => dimensions,
            doc => "below the status, as in process,message",
            type => {own, fun below_status/1, ["a list, each at most once, of: ",
                flame_prof_query:names(), "; not status"]}},
        #{key => top, type => {whole, count, 1, ?COUNT_MOST}, default => 20,
            doc => "functions to list"},
        #{key => min, type => {number, percent, 0, 100}, default => 1,
            doc => "leave out branches below it"},
        #{key => depth, doc => "frames of a branch", type => {whole, count, 1, ?COUNT_MOST},
            default => {computed, fun depth/1, "40, with chains 400"}}
        | flame_prof_profile:read_rows()
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => hot,
        group => cpu,
        asks => "what was active, in files of a session",
        sentence => "What was active in files of a session: stacks as a tree, functions and "
            "processes.",
        cost => "Takes memory of the node in which the files are read: at most max_memory.",
        shows => "The tag atom of a message, if it is grouped by message; no contents.",
        argument => {files, required, "flame_prof_samples:files()", "FILE..."},
        runs => files,
        examples => ["hot /tmp/prof/*.erl_perf.log.zst --by reductions --status running"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> [flame_prof_profile:files_row() | rows()].

%% @private
-spec run(node(), map()) -> {ok, report()} | {error, flame_prof:reason()}.
run(_Node, #{files := Files} = Options) -> report(Files, maps:remove(files, Options)).

%% @private
-spec text(report(), pos_integer()) -> unicode:chardata().
text(Report, Columns) -> format(Report, Columns).

%% @private
-spec json(report()) -> report().
json(Report) -> Report.

depth(#{chains := true}) -> 400;
depth(#{}) -> 40.

below_status(Given) ->
    case flame_prof_query:group_by(Given) of
        {ok, Dimensions} ->
            case lists:member(status, Dimensions) of
                true -> error;
                false -> {ok, Dimensions}
            end;
        error -> error
    end.
