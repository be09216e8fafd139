%% @private Binaries that are made anew with more at their end: each time all of them is copied.
%%
%% == False alarms ==
%% Code that makes messages copies what is in them. Only where the copy alone takes `binary_share'
%% of the time of a process on a CPU, and `binary_node' of all that the node does, the binaries are
%% large and are made again and again. To append to a binary in the way that the VM knows copies
%% nothing.
-module(flame_prof_doctor_append_binary).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-define(BUILD, [<<"erts_new_bs_put_binary*">>, <<"erts_bs_append*">>,
    <<"erts_bs_private_append*">>]).

kind() -> append.

needs() -> [samples].

thresholds() ->
    [
        {binary_share, 0.6, <<"share of its time on a CPU in copies of binaries">>},
        {binary_cpus, 0.1, <<"CPUs together">>},
        {binary_node, 0.25, <<"share of the CPU time of all processes">>}
    ].

find(#{samples := Samples}, #{binary_share := Share, binary_cpus := Cpus, binary_node := Node}) ->
    Limits = #{share => Share, cpus => Cpus, node => Node},
    case flame_prof_doctor_calls:heavy(Samples, fun builds/1, Limits) of
        none ->
            [];
        #{processes := [{_, First} | _]} = Heavy ->
            [flame_prof_doctor_calls:finding(kind(), Heavy, "copying binaries into new ones", #{
                sentences => ["A binary that is not the first part of the new one is copied each time: "
                    "put it first, or keep a list of the parts."],
                command => ["flame_prof pstack --node NODE ",
                    flame_prof_doctor_samples:target(First)]
            })]
    end.

%% In the C function that a construction of a binary calls. iolist_to_binary is the remedy.
builds(Stacks) ->
    [Stack || {Frames, _} = Stack <- Stacks, builds_in(Frames)].

builds_in([{Function, native} | Frames]) ->
    flame_prof_doctor_stacks:is_in(Function, ?BUILD) orelse builds_in(Frames);
builds_in(_) ->
    false.
