%% One part of the benchmarks in a VM of its own: bench/run.sh starts one for each.
%%
%% A part is a module bench_PART with run(Seconds) -> [bench_results:result()], which
%% tells what it finds as it goes; Seconds (about 5) is how long a thing is measured.
-module(bench).

-export([main/1]).

-define(RESULTS, "_build/bench/results").

-spec main([atom()]) -> no_return().
main([Part, Seconds]) ->
    %% What the portable engine and pollers see of a stack.
    _ = erlang:system_flag(backtrace_depth, 1000),
    ok = load_all_of(flame_prof),
    {ok, _} = application:ensure_all_started(flame_prof),
    io:format("~n~w: OTP ~s, ~w schedulers~n~n", [
        Part, erlang:system_info(otp_release), erlang:system_info(schedulers_online)
    ]),
    _ = flame_prof_calibration:ensure(),
    Results = (module(Part)):run(list_to_integer(atom_to_list(Seconds))),
    ok = bench_results:append(?RESULTS, Results),
    halt(0).

module(Part) ->
    Module = list_to_atom("bench_" ++ atom_to_list(Part)),
    case code:ensure_loaded(Module) of
        {module, Module} -> Module;
        {error, Reason} -> error({no_such_part, Part, Reason})
    end.

%% Nothing is loaded in the middle of a measurement.
load_all_of(Application) ->
    ok = ensure(application:load(Application)),
    {ok, Modules} = application:get_key(Application, modules),
    _ = [code:ensure_loaded(M) || M <- Modules],
    ok.

ensure(ok) -> ok;
ensure({error, {already_loaded, _}}) -> ok.
