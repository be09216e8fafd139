%% @private What samples tell of the VM itself: does it lack CPUs, have its C functions names?
-module(flame_prof_doctor_vm).

-export([is_starved/2, named/2]).

-define(STARVED, 0.5).
%% Of the time in C functions that Erlang code called.
-define(UNNAMED, 0.5).
%% In fewer samples of C functions nothing is known.
-define(SEEN, 20).

%% @doc Did the operating system give the VM's threads much less CPU time than its processes seem to
%% have had? What takes long then may be short. Without those observations, which may have waited or
%% spun. Unknown is false.
-spec is_starved(
    flame_prof_doctor_rule:evidence() | #{samples := flame_prof_doctor_samples:samples(), _ => _},
    Without :: non_neg_integer()
) -> boolean().
is_starved(#{samples := #{processes := Processes} = Samples, seconds := Seconds}, Without) ->
    OnCpu = lists:sum([flame_prof_doctor_samples:on_cpu(P) || P <- Processes]),
    case [{TimeUs, Ms} || #{time_us := TimeUs, node_runtime_ms := Ms} <- Seconds] of
        [{FirstUs, FirstMs}, _ | _] = Times ->
            {LastUs, LastMs} = lists:last(Times),
            Had = 1000 * (LastMs - FirstMs) / max(1, LastUs - FirstUs),
            Had < ?STARVED * (OnCpu - Without) / flame_prof_doctor_calls:ticks(Samples);
        _ ->
            false
    end;
is_starved(_, _) ->
    false.

%% @doc Of rules that look for C functions: these findings; but none are unseen, where the C
%% functions that Erlang code called have no names.
-spec named([flame_prof_doctor_rule:finding()], flame_prof_doctor_samples:samples()) ->
    [flame_prof_doctor_rule:finding()] | {unseen, binary()}.
named([], #{stacks := Stacks}) ->
    Called = [{outermost(Frames), Weight} || {[{_, native} | _] = Frames, Weight}
        <- Stacks(all, [<<"running">>, <<"garbage_collecting">>])],
    Unnamed = lists:sum([Weight || {<<"[beam", _/binary>>, Weight} <- Called]),
    case lists:sum([Weight || {_, Weight} <- Called]) of
        Sum when Sum >= ?SEEN, Unnamed >= ?UNNAMED * Sum ->
            {unseen, iolist_to_binary([flame_prof_doctor_rule:share(Unnamed / Sum),
                " of the time in C functions is in functions without a name"])};
        _ ->
            []
    end;
named(Findings, _) ->
    Findings.

%% The C function that is called by what is none.
outermost([{_, native}, {_, native} = Next | Frames]) -> outermost([Next | Frames]);
outermost([{Function, native} | _]) -> Function.
