%% @private Code that raises exceptions as others return values.
%%
%% == False alarms ==
%% An exception takes a microsecond and more with its stacktrace: a process that spends `share' of
%% its time on a CPU with them raises hundreds of thousands a second. Errors of a healthy node are
%% far below `cpus', and a process that does little but check has no `node' of all that the node
%% does. Of a VM without symbols the BIFs alone are known: without a finding it is
%% unseen.
-module(flame_prof_doctor_exceptions).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

%% The BIFs, and functions of the VM that look for the handler and make the stacktrace.
-define(RAISES, [
    <<"erlang:throw/1">>, <<"erlang:error/*">>, <<"erlang:exit/1">>, <<"erlang:raise/3">>,
    <<"erlang:nif_error/*">>, <<"handle_error">>, <<"build_stacktrace">>, <<"save_stacktrace">>,
    <<"erts_save_stacktrace">>, <<"erts_build_mfa_item">>, <<"erts_sanitize_freason">>
]).

kind() -> exceptions.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.3, <<"share of its time on a CPU in exceptions">>},
        {cpus, 0.08, <<"CPUs together">>},
        {node, 0.25, <<"share of the CPU time of all processes">>}
    ].

find(#{samples := Samples}, Limits) ->
    Match = fun(Stacks) -> flame_prof_doctor_stacks:at_leaf(Stacks, ?RAISES) end,
    case flame_prof_doctor_calls:heavy(Samples, Match, Limits) of
        none ->
            flame_prof_doctor_vm:named([], Samples);
        #{processes := [{_, First} | _]} = Heavy ->
            [flame_prof_doctor_calls:finding(kind(), Heavy, "raising exceptions", #{
                sentences => [],
                command => ["flame_prof pstack --node NODE ",
                    flame_prof_doctor_samples:target(First)]
            })]
    end.

unseen(Evidence, _) -> flame_prof_doctor_rule:portable(Evidence).
