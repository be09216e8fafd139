%% What a process-sample of the portable engine costs. It works on the program's
%% schedulers: on an idle node its cost is the CPU time of the whole VM above that of
%% the same VM left alone; on a saturated one, the time that its ticks take.
-module(bench_portable).

-export([run/3]).

-define(TOP, 100).
-define(HZ, 111).
-define(FRAMES, 20).
-define(SETTLE_MS, 1500).

%% Beside the native engine's, of the same nodes.
-spec run(pos_integer(), bench_results:result(), bench_results:result()) ->
    [bench_results:result()].
run(Ms, NativeSaturated, NativeIdle) ->
    Idle = bench_processes:waiting(2 * ?TOP, ?FRAMES, fun() -> of_vm(Ms) end),
    Elapsed = bench_processes:moving(2 * ?TOP, ?FRAMES, fun() ->
        bench_processes:saturated(fun() -> elapsed(Ms) end)
    end),
    %% The same work costs no less CPU where it has to wait for it.
    [
        Idle,
        Elapsed,
        times(<<"portable on an idle node / native on a saturated one">>, Idle, NativeSaturated),
        times(<<"portable / native, idle node">>, Idle, NativeIdle)
    ].

times(Name, #{value := Portable}, #{value := Native}) ->
    bench_results:tell(#{
        section => cost, name => Name, value => Portable / Native,
            unit => <<"x">>, bar => {at_least, 10}
    }).

options() ->
    (bench_session:options(?TOP, ?HZ))#{engine => portable}.

of_vm(Ms) ->
    Alone = vm_cpu_ns(fun() -> timer:sleep(Ms) end),
    {ok, _} = flame_prof:start(options()),
    timer:sleep(?SETTLE_MS),
    #{counters := #{written := Before}} = flame_prof:info(),
    With = vm_cpu_ns(fun() -> timer:sleep(Ms) end),
    #{counters := #{written := After}} = flame_prof:info(),
    {ok, #{files := Files}} = flame_prof:stop(),
    ok = bench_session:remove(Files),
    row(<<"portable, idle node: CPU of the whole VM for it">>, With - Alone, After - Before, Ms).

vm_cpu_ns(Fun) ->
    Threads = bench_threads:schedulers(),
    {_, Before} = bench_threads:cpu_ns(Threads),
    Fun(),
    {_, After} = bench_threads:cpu_ns(Threads),
    After - Before.

%% What a sample takes there is mostly waiting, and far fewer are taken than were
%% asked for.
elapsed(Ms) ->
    #{sampler_cpu_ns := Ns, written := Samples} = bench_session:measure(options(), Ms),
    row(<<"portable, saturated schedulers: time in its ticks">>, Ns, Samples, Ms).

row(Name, Ns, Samples, Ms) ->
    bench_results:tell(#{
        section => cost,
        name => Name,
        value => Ns div max(1, Samples),
        unit => <<"ns">>,
        counted => #{
            samples_per_second => Samples * 1000 div Ms,
            asked_per_second => ?TOP * 1000 div bench_session:interval(?HZ)
        }
    }).
