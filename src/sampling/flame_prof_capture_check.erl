%% @private Verify what a capture of a running process means on this VM.
%%
%% The calibration verifies the process structure. A capture rests on more: on the
%% shape of the code that the JIT makes for a call of C. Each class of capture has a
%% probe here: a process whose stack is known and which spends its time in that class.
%% A class is verified when the library has captured it `?SIGHTINGS' times. It is wrong
%% when one capture shows what the probe does not do.
%%
%% One process is the probe of each class in turn, and takes its turns as any process: a
%% node whose schedulers are saturated may not show a class within its time. Such a
%% class is `unseen'; {@link flame_prof_capture_classes} decides what that means.
-module(flame_prof_capture_check).

-export([classes/0, start/0, verify/3, stop/1]).

-export_type([class/0, verdict/0, verdicts/0, snapshot/0]).

-type class() :: erlang | light_bif | heavy_bif | nif | gc.
-type verdict() :: verified | {wrong | unseen, Why :: binary()}.
-type verdicts() :: #{class() => verdict()}.
-type snapshot() :: fun((class(), [pid()]) -> [{pid(), map() | atom()}] | {error, atom()}).

-define(SIGHTINGS, 3).
%% A class that a core shows needs some 20 ms: the CPU time of a whole check is bounded too.
-define(CLASS_MS, 150).
-define(GC_MS, 300).
%% Captures in one call, which takes some 5 ms before the first.
-define(CAPTURES, 16).
%% How long one call of the NIF class lasts.
-define(SPIN_US, 300).

%% @doc In the order in which they are verified.
-spec classes() -> [class()].
classes() -> [erlang, light_bif, heavy_bif, nif, gc].

%% @doc The probe, linked: it ends with its caller. Each collection copies its whole heap.
-spec start() -> pid().
start() ->
    erlang:spawn_opt(fun() -> probe(none) end, [link, {fullsweep_after, 0}]).

-spec stop(pid()) -> ok.
stop(Probe) ->
    Monitor = monitor(process, Probe),
    _ = unlink(Probe),
    _ = exit(Probe, kill),
    receive
        {'DOWN', Monitor, process, Probe, _} -> ok
    end.

%% @doc Milliseconds on a node that has a core to spare, 0.9 s and one call at most.
-spec verify(pid(), [class()], snapshot()) -> verdicts().
verify(Probe, Classes, Snapshot) ->
    maps:from_list([{Class, verify_class(Probe, Class, Snapshot)} || Class <- Classes]).

verify_class(Probe, Class, Snapshot) ->
    _ = Probe ! {probe, Class},
    Until = erlang:monotonic_time(millisecond) + class_ms(Class),
    sight(Class, lists:duplicate(?CAPTURES, Probe), Snapshot, Until, 0).

class_ms(gc) -> ?GC_MS;
class_ms(_) -> ?CLASS_MS.

sight(_, _, _, _, Seen) when Seen >= ?SIGHTINGS ->
    verified;
sight(Class, Pids, Snapshot, Until, Seen) ->
    case erlang:monotonic_time(millisecond) > Until of
        true ->
            {unseen, <<"its probe was not seen at work in time">>};
        false ->
            case judge_all(Class, Snapshot(Class, Pids)) of
                {wrong, Frames} -> {wrong, shows(Frames)};
                {right, More} -> sight(Class, Pids, Snapshot, Until, Seen + More)
            end
    end.

shows(Frames) ->
    Stack = lists:join(" < ", [frame_text(Frame) || Frame <- Frames]),
    unicode:characters_to_binary(["a capture of its probe shows ", Stack]).

frame_text({Kind, Call}) -> [frame_text(Call), " (", atom_to_list(Kind), ")"];
frame_text({Module, Function, Arity}) -> [Module, $:, Function, $/, integer_to_list(Arity)];
frame_text(gc) -> "[gc]".

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
        false -> in_probe(Class, Frames)
    end.

%% What the probe of the collector prepares its work with is collected as well.
in_probe(Class, Frames) ->
    IsPreparing = Class =:= gc andalso lists:suffix(tl(chain(gc)), Frames),
    case Frames =:= [] orelse lists:last(Frames) =:= {<<?MODULE_STRING>>, <<"probe">>, 1} of
        true when IsPreparing, hd(Frames) =:= gc -> seen;
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

-spec probe(none | class()) -> no_return().
probe(none) ->
    receive
        {probe, Class} -> probe(Class)
    end;
probe(Class) ->
    [_] = probe_1(Class),
    receive
        {probe, Next} -> probe(Next)
    after 0 -> probe(Class)
    end.

probe_1(Class) -> [probe_2(Class)].
probe_2(Class) -> [probe_3(Class)].

%% Rounds enough that what comes before them is rarely seen, in some 10 ms.
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

%% Each collection copies the list.
work_gc(0, List) ->
    List;
work_gc(N, List) ->
    _ = erlang:make_tuple(1000, List),
    work_gc(N - 1, List).
