%% @private Who holds the binaries that grow.
-module(flame_prof_doctor_holders).

-export([most/3]).

-export_type([held/0]).

-type held() :: flame_prof_binaries:holder() | #{share := float()}.
%% As a look at all binaries has it; of samples, its part of the growth.

%% @doc The process whose binaries grow most, where that is `holder_share' of the growth. By the
%% looks: also one that holds what others hold, too, or has it in its mailbox. By samples: one whose
%% binaries grow without a fall for `span_us'.
-spec most(Grown :: number(), flame_prof_doctor_rule:evidence(),
    flame_prof_doctor_rule:thresholds()) -> {flame_prof_doctor_rule:process(), held()} | none.
most(Grown, #{binaries := #{growing := [#{grown := Most, process := Pid} = Holder | _]} = Look},
    #{holder_share := Share}) when Most >= Share * Grown
->
    #{names := Names} = Look,
    {#{pid => flame_prof_doctor_rule:pid(Pid), name => named(maps:get(Pid, Names, #{}))}, Holder};
most(Grown, #{samples := #{processes := Processes}}, Limits) ->
    #{holder_share := Share, span_us := LeastUs} = Limits,
    Growing = [
        {To - From, flame_prof_doctor_samples:process(Process)}
     || #{bin_vheap := [_ | _] = Series} = Process <- Processes,
        #{from := From, to := To} <- [flame_prof_doctor_series:growth(Series, LeastUs)],
        To - From >= Share * Grown
    ],
    case lists:reverse(lists:keysort(1, Growing)) of
        [{Most, Process} | _] -> {Process, #{share => min(1.0, Most / Grown)}};
        [] -> none
    end.

named(#{registered_name := Name}) -> flame_prof_doctor_rule:text(Name);
named(#{initial_call := Call}) -> flame_prof_doctor_rule:text(Call);
named(_) -> <<>>.
