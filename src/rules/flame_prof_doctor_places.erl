%% @private Processes that wait in certain functions: by the samples of each, and by its stack where
%% it has stood still and was not sampled.
-module(flame_prof_doctor_places).

-export([in/2, function/1, standing/2, standing/3, frames/1, with_root/1]).

-export_type([found/0]).

%% A wait that is shorter may be a moment.
-define(STILL_MS, 2500).

-type found() :: #{
    process := flame_prof_doctor_rule:process(),
    share := float(),
    stacks := flame_prof_doctor_stacks:stacks(),
    since_ms => pos_integer()
}.
%% `share': of its time it waits there. `since_ms': it has run nothing since then.

-type evidence() :: #{standing => #{processes := [map()], _ => _}, _ => _}.
%% What stands still is all that is needed.

%% @doc All that do so at all, those with the largest share first.
-spec in([binary()], flame_prof_doctor_rule:evidence()) -> [found()].
in(Functions, Evidence) ->
    Sampled = sampled(Functions, Evidence),
    Known = maps:from_list([{Pid, true} || #{processes := Processes} <- samples(Evidence),
        #{pid := Pid} <- Processes]),
    Standing = [Found || #{process := #{pid := Pid}} = Found <- standing(Functions, Evidence),
        not is_map_key(Pid, Known)],
    lists:reverse(lists:sort(fun(#{share := A}, #{share := B}) -> A =< B end,
        Sampled ++ Standing)).

samples(#{samples := #{mode := processes} = Samples}) -> [Samples];
samples(_) -> [].

sampled(Functions, Evidence) ->
    [
        #{process => flame_prof_doctor_samples:process(Process), stacks => In,
            share => flame_prof_doctor_stacks:weight(In) / max(1, All)}
     || #{processes := Processes, stacks := Stacks} <- samples(Evidence),
        #{pid := Pid, observations := All} = Process <- Processes,
        In <- [flame_prof_doctor_stacks:anywhere(Stacks(Pid, [<<"waiting">>]), Functions)],
        In =/= []
    ].

%% @doc The processes that have waited there for all of the last seconds.
-spec standing([binary()], evidence()) -> [found()].
standing(Functions, Evidence) -> standing(Functions, ?STILL_MS, Evidence).

%% @doc The same for at least so many milliseconds.
-spec standing([binary()], pos_integer(), evidence()) -> [found()].
standing(Functions, Least, #{standing := #{processes := Processes}}) ->
    [
        #{process => #{pid => flame_prof_doctor_waits:text(Pid), name => Name}, share => 1.0,
            stacks => In, since_ms => Ms}
     || #{pid := Pid, name := Name, stack := Stack, since_ms := Ms} <- Processes,
        Ms >= Least,
        In <- [flame_prof_doctor_stacks:anywhere([{frames(Stack), 1}], Functions)], In =/= []
    ];
standing(_, _, _) ->
    [].

%% @doc Of functions, the innermost first.
-spec frames([binary()]) -> [flame_prof_doctor_stacks:frame()].
frames(Stack) -> with_root([{Function, erlang} || Function <- Stack]).

%% @doc Where the program calls from may be the first function of the process: that explains a wait,
%% and is left out of a stack as its root.
-spec with_root([flame_prof_doctor_stacks:frame()]) -> [flame_prof_doctor_stacks:frame()].
with_root(Frames) -> Frames ++ [{<<"root">>, pseudo}].

%% @doc The application's function that most of them wait in.
-spec function([#{stacks := flame_prof_doctor_stacks:stacks(), _ => _}]) -> binary().
function(Found) ->
    flame_prof_doctor_stacks:caller([{with_root(Frames), Weight}
        || #{stacks := Stacks} <- Found, {Frames, Weight} <- Stacks], [<<"*">>]).
