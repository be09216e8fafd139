%% @private Verify what a capture of a running process means on this VM, before a
%% session believes any.
%%
%% The calibration verifies the process structure. A capture rests on more: on the
%% shape of the code that the JIT makes for a call of C. Each class of capture has a
%% probe here: a process whose stack is known and which spends its time in that class.
%% A class is verified when {@link flame_prof_nif:snapshot/1} has shown it
%% `?SIGHTINGS' times and has never shown anything that the probe does not do. A class
%% that is not verified is off: a sample of it has the frame
%% `running_stack_not_sampled'.
%%
%% One probe runs at a time and takes its turns as any process: a node whose schedulers
%% are saturated may not show it within `?CLASS_MS'. Such a class is verified later
%% ({@link flame_prof_schedulers:refresh/1}).
-module(flame_prof_capture_check).

-export([verify/0, verify/1, classes/0]).

-export_type([class/0, verdict/0, verdicts/0]).

-type class() :: erlang | light_bif | heavy_bif | nif | gc.
-type verdict() :: verified | {unverified, Why :: binary()}.
-type verdicts() :: #{class() => verdict()}.

-define(SIGHTINGS, 3).
-define(CLASS_MS, 300).
%% Looks at the probe in one call, which takes some 5 ms before its first look.
-define(LOOKS, 4).
%% How long one call of the NIF class lasts.
-define(SPIN_US, 300).

%% @doc In the order in which they are verified.
-spec classes() -> [class()].
classes() -> [erlang, light_bif, heavy_bif, nif, gc].

%% @doc Takes some 0.1 s on a node that has a core to spare, 1.5 s at most.
-spec verify() -> verdicts().
verify() ->
    verify(fun(_, Pids) -> flame_prof_nif:snapshot(Pids) end).

%% @doc With another source of stacks, for tests.
-spec verify(fun((class(), [pid()]) -> [{pid(), map() | atom()}] | {error, atom()})) -> verdicts().
verify(Snapshot) ->
    maps:from_list([{Class, verify_class(Class, Snapshot)} || Class <- classes()]).

verify_class(Class, Snapshot) ->
    {Pid, Monitor} = erlang:spawn_opt(fun() -> probe(Class) end, [monitor]),
    Until = erlang:monotonic_time(millisecond) + ?CLASS_MS,
    try
        sight(Class, lists:duplicate(?LOOKS, Pid), Snapshot, Until, 0)
    after
        exit(Pid, kill),
        receive
            {'DOWN', Monitor, process, Pid, _} -> ok
        end
    end.

sight(_, _, _, _, Seen) when Seen >= ?SIGHTINGS ->
    verified;
sight(Class, Pids, Snapshot, Until, Seen) ->
    case erlang:monotonic_time(millisecond) > Until of
        true ->
            {unverified, <<"its probe was not seen at work in time">>};
        false ->
            case judge_all(Class, Snapshot(Class, Pids)) of
                {wrong, Frames} -> {unverified, text("a capture of its probe shows ~0tp",
                    [Frames])};
                {right, More} -> sight(Class, Pids, Snapshot, Until, Seen + More)
            end
    end.

judge_all(Class, Looks) when is_list(Looks) ->
    Judged = [judge(Class, Look) || Look <- Looks],
    case [Wrong || {wrong, _} = Wrong <- Judged] of
        [Wrong | _] -> Wrong;
        [] -> {right, length([seen || seen <- Judged])}
    end;
judge_all(_, {error, _}) ->
    {right, 0}.

%% A capture is the source of the stack of a process that is on a scheduler. A frame
%% that says that something is unknown contradicts nothing.
judge(Class, {_, #{status := Status, stack := Stack}})
  when is_list(Stack), Status =:= running orelse Status =:= garbage_collecting ->
    Erlang = [Frame || Frame <- lists:map(fun frame/1, Stack), Frame =/= native],
    case lists:member(unknown, Erlang) of
        true -> nothing;
        false -> judge_frames(Class, Erlang)
    end;
judge(_, _) ->
    nothing.

%% While the leaf is on the stack, the stack is exactly the chain with what the class
%% puts above it; before and after, it still begins in the probe.
judge_frames(Class, Frames) ->
    Chain = chain(Class),
    IsWorking = lists:member(hd(Chain), Frames),
    {Above, Below} = lists:split(max(0, length(Frames) - length(Chain)), Frames),
    case IsWorking andalso Below =:= Chain andalso above(Class, Above) of
        true -> seen;
        other -> nothing;
        false when IsWorking -> {wrong, Frames};
        false -> in_probe(Frames)
    end.

in_probe(Frames) ->
    case Frames =:= [] orelse lists:last(Frames) =:= {<<?MODULE_STRING>>, <<"probe">>, 1} of
        true -> nothing;
        false -> {wrong, Frames}
    end.

%% What stands above the probe's own functions: true where it shows the class, `other'
%% where it is true and shows another class, false where the probe never does that.
above(erlang, []) -> true;
above(light_bif, [{bif, {<<"lists">>, <<"keyfind">>, 3}}]) -> true;
above(heavy_bif, Above) -> lists:all(fun is_collect/1, Above) andalso is_heavy(Above);
above(nif, [{nif, {<<"flame_prof_nif">>, <<"capture_probe">>, 1}}]) -> true;
above(gc, [gc | Above]) -> lists:all(fun is_make_tuple/1, Above);
above(gc, Above) -> lists:all(fun is_make_tuple/1, Above) andalso other;
above(_, Above) -> (Above =:= [] orelse Above =:= [gc]) andalso other.

is_heavy(Above) ->
    case lists:member({bif, {<<"erts_internal">>, <<"garbage_collect">>, 1}}, Above) of
        true -> true;
        false -> other
    end.

%% A heavy BIF is a function as well: before its code jumps and after it was trapped.
is_collect(gc) -> true;
is_collect({bif, {<<"erts_internal">>, <<"garbage_collect">>, 1}}) -> true;
is_collect({<<"erts_internal">>, <<"garbage_collect">>, 1}) -> true;
is_collect(Frame) -> Frame =:= {<<"erlang">>, <<"garbage_collect">>, 0}.

is_make_tuple(Frame) -> Frame =:= {bif, {<<"erlang">>, <<"make_tuple">>, 2}}.

frame({M, F, A, _, _}) -> {M, F, A};
frame({bif, _} = Bif) -> Bif;
frame({nif, _} = Nif) -> Nif;
frame(gc) -> gc;
frame({native, _, _}) -> native;
frame(_) -> unknown.

%% ------------------------------------------------------------------ probes --

%% The probe's stack below what the class puts there, leaf first. Each function returns a
%% list of what it calls, so that its frame stays.
chain(Class) ->
    Functions = [leaf(Class), probe_3, probe_2, probe_1, probe],
    [{<<?MODULE_STRING>>, atom_to_binary(F), arity(F)} || F <- Functions].

arity(probe) -> 1;
arity(F) when F =:= probe_1; F =:= probe_2; F =:= probe_3 -> 1;
arity(_) -> 2.

leaf(erlang) -> work_erlang;
leaf(light_bif) -> work_light_bif;
leaf(heavy_bif) -> work_heavy_bif;
leaf(nif) -> work_nif;
leaf(gc) -> work_gc.

-spec probe(class()) -> no_return().
probe(Class) ->
    [_] = probe_1(Class),
    probe(Class).

probe_1(Class) -> [probe_2(Class)].
probe_2(Class) -> [probe_3(Class)].

%% Rounds enough that what comes before them is rarely seen.
probe_3(erlang) -> [work_erlang(1500000, 7)];
probe_3(light_bif) -> [work_light_bif(1000, [{K} || K <- lists:seq(1, 2000)])];
probe_3(heavy_bif) -> [work_heavy_bif(1000, ok)];
probe_3(nif) -> [work_nif(15, ?SPIN_US)];
probe_3(gc) -> [work_gc(1000, lists:seq(1, 10000))].

work_erlang(0, X) -> X;
work_erlang(N, X) -> work_erlang(N - 1, (X * 5 + 1) band 16#ffffff).

work_light_bif(0, List) ->
    List;
work_light_bif(N, List) ->
    false = lists:keyfind(0, 1, List),
    work_light_bif(N - 1, List).

work_heavy_bif(0, X) ->
    X;
work_heavy_bif(N, X) ->
    true = erlang:garbage_collect(),
    work_heavy_bif(N - 1, X).

work_nif(0, Us) ->
    Us;
work_nif(N, Us) ->
    ok = flame_prof_nif:capture_probe(Us),
    work_nif(N - 1, Us).

%% The list stays, so that each collection copies it.
work_gc(0, List) ->
    List;
work_gc(N, List) ->
    _ = erlang:make_tuple(1000, List),
    work_gc(N - 1, List).

text(Format, Values) ->
    unicode:characters_to_binary(io_lib:format(Format, Values)).
