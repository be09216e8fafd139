%% @private Large messages: a send copies all of the term.
%%
%% == False alarms ==
%% Of a small message the copy is the least part of a send; locks, the allocation and the wakeup
%% take more. So the share is that of the C functions that copy, in sends: above `share' the terms
%% are large, or there is nothing but sends of what is not small. A stage that does little else but
%% hand on what others make is as it should be: the copies have `node' of all that the node does.
%% Of a VM without symbols that is unseen.
-module(flame_prof_doctor_copies).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-define(SENDS, [<<"erlang:send/*">>, <<"erlang:!/2">>, <<"erlang:send_nosuspend/*">>,
    <<"erts_internal:dsend*">>]).
-define(COPY, [<<"copy_struct*">>, <<"size_object*">>, <<"copy_shared*">>, <<"memcpy*">>,
    <<"__memmove*">>, <<"__memcpy*">>]).

kind() -> copies.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.35, <<"share of its time on a CPU in copies of messages">>},
        {cpus, 0.08, <<"CPUs together">>},
        {node, 0.25, <<"share of the CPU time of all processes">>}
    ].

find(#{samples := Samples}, Limits) ->
    case flame_prof_doctor_calls:heavy(Samples, fun copies/1, Limits) of
        none ->
            flame_prof_doctor_vm:named([], Samples);
        #{processes := [{_, First} | _]} = Heavy ->
            [flame_prof_doctor_calls:finding(kind(), Heavy, "copying messages", #{
                sentences => ["The messages are large: a send copies all of the term, "
                    "and its receiver has it as garbage later."],
                command => ["flame_prof trace NODE send --rate 5 --process ",
                    flame_prof_doctor_samples:target(First)]
            })]
    end.

unseen(Evidence, _) -> flame_prof_doctor_rule:portable(Evidence).

copies(Stacks) ->
    [Stack || {Frames, _} = Stack <- flame_prof_doctor_stacks:at_leaf(Stacks, ?COPY),
        flame_prof_doctor_stacks:is_in(flame_prof_doctor_stacks:called(Frames), ?SENDS)].
