%% @private Collections that a process has asked for, by hibernation or erlang:garbage_collect, as
%% opposed to those of garbage that its code makes.
-module(flame_prof_doctor_asked).

-export([collections/2, part/1]).

-define(HIBERNATE, [<<"erlang:hibernate/*">>, <<"erts_internal:hibernate/*">>,
    <<"gen_server:loop_hibernate/*">>, <<"gen_statem:loop_hibernate/*">>,
    <<"proc_lib:hibernate/*">>, <<"proc_lib:wake_up/*">>, <<"gen_server:wake_hib/*">>,
    <<"gen_statem:wakeup_from_hibernate/*">>, <<"gen_event:wake_hib/*">>]).
-define(COLLECT, [<<"erlang:garbage_collect/*">>, <<"erts_internal:garbage_collect/*">>]).
-define(MOST, 0.5).

%% @doc What most of its collections are, and their part of all of them.
-spec collections(flame_prof_doctor_samples:process(), flame_prof_doctor_samples:samples()) ->
    {hibernate | asked, float()} | made.
collections(#{pid := Pid}, #{stacks := Stacks}) ->
    In = Stacks(Pid, [<<"garbage_collecting">>]),
    All = max(1, flame_prof_doctor_stacks:weight(In)),
    Part = fun(Names) ->
        flame_prof_doctor_stacks:weight(flame_prof_doctor_stacks:at_leaf(In, Names)) / All
    end,
    case {Part(?HIBERNATE), Part(?COLLECT)} of
        {Hibernates, _} when Hibernates > ?MOST -> {hibernate, Hibernates};
        {_, Asked} when Asked > ?MOST -> {asked, Asked};
        _ -> made
    end.

%% @doc That part; 0 where the code makes the garbage.
-spec part({hibernate | asked, float()} | made) -> number().
part({_, Part}) -> Part;
part(made) -> 0.
