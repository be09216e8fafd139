%% What the file of a session says of workers of running_work: how many of their
%% samples have exactly the stack that they had, and which share of them stands
%% in which leaf.
-module(running_profile).

-export([record/3, until/1, judge/2, judged/3, judged_of/5, leaf_of/1, plain/1, running/0,
    counters/1]).

-export_type([sample/0, verdict/0]).

%% Status and frames of a sample, leaf first, symbols without lines.
-type sample() :: {Status :: binary(), [{Symbol :: binary(), Dso :: binary()}]}.

%% Right to the last frame; said to be not known; or wrong.
-type verdict() :: exact | ambiguous | before | {wrong, Why :: atom()}.

%% @doc A session around Fun. Its counters, and the samples of the processes that
%% Fun answers, with how often each was seen.
-spec record(map(), file:name_all(), fun(() -> {Result, [pid()]})) ->
    {map(), #{sample() => pos_integer()}, Result}.
record(Options, Directory, Fun) ->
    {ok, _} = flame_prof:start(maps:merge(
        #{dir => Directory, sample_interval => 1, cpu_budget => infinity,
            select => {top, 2, 100}}, Options)),
    {Result, Pids} = Fun(),
    {ok, #{files := Files} = Counters} = flame_prof:stop(),
    #{attempted := T, written := W, inconsistent := N, dropped := D, exited := G} = Counters,
    {balanced, T} = {balanced, W + N + D + G},
    Wanted = [list_to_binary(pid_to_list(Pid)) || Pid <- Pids],
    {ok, Samples, #{bad := 0}} = flame_prof:fold(
        fun(Sample, Acc) -> count(Sample, Wanted, Acc) end, #{}, Files),
    _ = [file:delete(File) || File <- Files],
    {Counters, Samples, Result}.

%% @doc Workers of one leaf, one on each of these schedulers, until so many captures were made.
%% The counters of the session, and of its samples of running and of ready workers how many have
%% each verdict, with an example.
-spec judged_of(atom(), map(), file:name_all(), [pos_integer()], pos_integer()) ->
    {map(), Verdicts, Verdicts} when Verdicts :: #{verdict() => {pos_integer(), sample()}}.
judged_of(Leaf, Options, Directory, Schedulers, Captures) ->
    %% A session begins sooner while no scheduler is busy.
    Workers = [running_work:start(S, {leaf_at_go, Leaf}) || S <- Schedulers],
    {Counters, Samples, _} = record(Options, Directory, fun() ->
        _ = [Pid ! go || {Pid, _, _} <- Workers],
        ok = until(Captures),
        {ok, [Pid || {Pid, _, _} <- Workers]}
    end),
    _ = [running_work:stop(W) || W <- Workers],
    [Running, Ready] = [with_examples(judged(Leaf, Statuses, Samples))
        || Statuses <- [running(), [<<"runnable">>]]],
    {Counters, Running, Ready}.

with_examples({Counts, Examples}) ->
    maps:map(fun(Verdict, N) -> {N, maps:get(Verdict, Examples, none)} end, Counts).

%% @doc The statuses of a process that a scheduler runs.
-spec running() -> [binary()].
running() -> [<<"running">>, <<"garbage_collecting">>].

%% @doc What has become of the captures, as text.
-spec counters(map()) -> iolist().
counters(Counters) ->
    Keys = [captures, inconsistent_moved, inconsistent_unfound, inconsistent_late,
        inconsistent_changed, missed],
    lists:join(" ", [io_lib:format("~w ~w", [K, maps:get(K, Counters, 0)]) || K <- Keys]).

count(#{status := Status, frames := Frames, words := Words}, Wanted, Samples) ->
    case lists:member(maps:get(<<"erl_pid">>, Words, none), Wanted) of
        true ->
            Key = {Status, [{plain(Symbol), Dso} || {Symbol, Dso} <- Frames]},
            maps:update_with(Key, fun(N) -> N + 1 end, 1, Samples);
        false -> Samples
    end.

%% @doc Waits until so many captures were made. The caller's timetrap ends it.
-spec until(pos_integer()) -> ok.
until(Captures) ->
    case flame_prof:info() of
        #{counters := #{captures := N}} when N >= Captures -> ok;
        #{} -> timer:sleep(20), until(Captures)
    end.

%% @doc module:function/arity of module:function/arity:line.
-spec plain(binary()) -> binary().
plain(Symbol) ->
    case binary:matches(Symbol, <<"/">>) of
        [] -> Symbol;
        Slashes ->
            {At, 1} = lists:last(Slashes),
            case binary:match(Symbol, <<":">>, [{scope, {At, byte_size(Symbol) - At}}]) of
                {Colon, 1} -> binary:part(Symbol, 0, Colon);
                nomatch -> Symbol
            end
    end.

%% @doc Counts by verdict, and an example of each that is not exact.
-spec judged(atom(), [binary()], #{sample() => pos_integer()}) ->
    {#{verdict() => pos_integer()}, #{verdict() => sample()}}.
judged(Leaf, Statuses, Samples) ->
    maps:fold(fun({Status, Frames} = Sample, N, {Counts, Examples} = Acc) ->
        case lists:member(Status, Statuses) of
            true ->
                Verdict = judge(Leaf, Frames),
                {maps:update_with(Verdict, fun(M) -> M + N end, N, Counts),
                    Examples#{Verdict => Sample}};
            false -> Acc
        end
    end, {#{}, #{}}, Samples).

%% @doc From the leaf on: C, what the leaf may call, the leaf, the whole chain, and
%% nothing else.
-spec judge(atom(), [{binary(), binary()}]) -> verdict().
judge(Leaf, Frames) ->
    Symbol = maps:get(Leaf, running_work:leaves()),
    Below = running_work:chain() ++ running_work:root(),
    case lists:any(fun is_cut/1, Frames) of
        true -> ambiguous;
        false ->
            {Above, FromLeaf} = lists:splitwith(fun({S, _}) -> S =/= Symbol end, Frames),
            judge(Leaf, Above, FromLeaf, Below)
    end.

%% Before: it is put on its scheduler and has not yet begun.
judge(_Leaf, Above, [], _Below) ->
    case [S || {S, _} = Frame <- Above, not is_native(S), not is_pseudo(Frame)] of
        [Root] -> before_if([Root] =:= running_work:root());
        _ -> {wrong, no_leaf}
    end;
judge(Leaf, Above, [_ | Under], Below) ->
    case {[S || {S, _} <- Under], [F || F <- Above, not may_stand_above(Leaf, F)]} of
        {Below, []} -> exact;
        {Below, [_ | _]} -> {wrong, above_the_leaf};
        {_, _} -> {wrong, chain}
    end.

before_if(true) -> before;
before_if(false) -> {wrong, no_leaf}.

is_pseudo({_, Dso}) -> Dso =:= <<"flame_prof">>.

is_cut({Symbol, <<"flame_prof">>}) ->
    lists:member(Symbol, [<<"ambiguous">>, <<"truncated">>, <<"stack_unreadable">>, <<"no_frames">>,
        <<"running_stack_not_sampled">>]);
is_cut(_) -> false.

may_stand_above(_, {<<"[gc]">>, <<"flame_prof">>}) -> true;
may_stand_above(_, {<<"atomics:get/2">>, <<"bif">>}) -> true;
may_stand_above(Leaf, {Symbol, Dso}) ->
    is_native(Symbol) orelse
        (Dso =/= <<"flame_prof">> andalso lists:member(Symbol, running_work:called_by(Leaf))).

%% C has no modules and no arity.
is_native(Symbol) ->
    binary:match(Symbol, <<":">>) =:= nomatch orelse binary:match(Symbol, <<"/">>) =:= nomatch.

%% @doc In which leaf a sample is, and in what that is: `gc', `bif', `nif', or
%% `erlang' for what is neither.
-spec leaf_of([{binary(), binary()}]) -> {atom(), gc | bif | nif | erlang}.
leaf_of(Frames) ->
    Leaves = [{Symbol, Leaf} || {Leaf, Symbol} <- maps:to_list(running_work:leaves())],
    Found = [Leaf || {Symbol, _} <- Frames, {S, Leaf} <- Leaves, S =:= Symbol],
    Kinds = [kind(F) || F <- Frames],
    {case Found of
        [Leaf | _] -> Leaf;
        [] -> none
    end, hd([K || K <- [gc, bif, nif], lists:member(K, Kinds)] ++ [erlang])}.

kind({<<"[gc]">>, <<"flame_prof">>}) -> gc;
kind({_, <<"bif">>}) -> bif;
kind({_, <<"nif">>}) -> nif;
kind(_) -> erlang.
