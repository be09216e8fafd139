%% @private Timers that are set and cancelled all the time.
%%
%% == False alarms ==
%% The timeout of a receive is none of these, and a timer for each request costs a microsecond: a
%% process is in these BIFs for `share' of its time on a CPU where it does little but set timers,
%% and `cpus' CPUs are some hundred thousand timers a second. One that is there to set them is as it
%% should be where that is less than `node' of what the node does.
-module(flame_prof_doctor_timers).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-define(TIMERS, [
    <<"erlang:send_after/*">>, <<"erlang:start_timer/*">>, <<"erlang:cancel_timer/*">>,
    <<"erlang:read_timer/*">>, <<"timer:*">>
]).
%% It waits in that module without a timer of these.
-define(SLEEP, <<"timer:sleep/1">>).

kind() -> timers.

needs() -> [samples].

thresholds() ->
    [
        {share, 0.4, <<"share of its time on a CPU in calls of timers">>},
        {cpus, 0.08, <<"CPUs together">>},
        {node, 0.25, <<"share of the CPU time of all processes">>}
    ].

find(#{samples := Samples}, Limits) ->
    Match = fun(Stacks) ->
        [Stack || {Frames, _} = Stack <- flame_prof_doctor_stacks:at_leaf(Stacks, ?TIMERS),
            flame_prof_doctor_stacks:called(Frames) =/= ?SLEEP]
    end,
    case flame_prof_doctor_calls:heavy(Samples, Match, Limits) of
        none ->
            [];
        #{processes := [{_, First} | _]} = Heavy ->
            [flame_prof_doctor_calls:finding(kind(), Heavy, "setting and cancelling timers", #{
                sentences => [],
                command => ["flame_prof pstack --node NODE ",
                    flame_prof_doctor_samples:target(First)]
            })]
    end.
