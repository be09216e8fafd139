%% @private Who may have what others wait for: the processes that an idle server monitors, else
%% those of the same module that have stood still.
-module(flame_prof_doctor_kept).

-export([function/2, holders/3]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1]).

%% Who waits for less may be a consumer.
-define(STILL_MS, 2500).

-type evidence() :: flame_prof_doctor_rule:evidence().

%% @doc The application's function that most of these are in; empty where it is not known.
-spec function([pid()], evidence()) -> binary().
function(Pids, Evidence) ->
    flame_prof_doctor_stacks:caller(lists:append([stacks(Pid, Evidence) || Pid <- Pids]),
        [<<"*">>]).

%% Of its samples, else of the stack of one that has stood still.
stacks(Pid, Evidence) ->
    case flame_prof_doctor_waits:sampled(Pid, Evidence) of
        #{pid := Text} ->
            #{samples := #{stacks := Stacks}} = Evidence,
            [{flame_prof_doctor_places:with_root(Frames), 1}
                || {Frames, _} <- lists:sublist(lists:reverse(lists:keysort(2,
                    Stacks(Text, [<<"waiting">>]))), 1)];
        none ->
            [{flame_prof_doctor_places:frames(Stack), 1}
                || #{pid := Of, stack := Stack} <- standing(Evidence), Of =:= Pid]
    end.

standing(#{standing := #{processes := Processes}}) -> Processes;
standing(_) -> [].

%% @doc A sentence on them, the function that they are in, who they are, and the numbers.
-spec holders(pid(), Waiters :: [pid()], evidence()) ->
    {unicode:chardata(), binary(), [flame_prof_doctor_rule:process()], #{atom() => number()}}.
holders(Server, Waiters, #{waits := Look} = Evidence) ->
    case Look of
        #{monitored := #{Server := Told}} when map_size(Told) > 0 -> monitored(Told);
        #{} -> of_module(Waiters, Evidence)
    end.

monitored(Told) ->
    Look = #{processes => Told},
    By = maps:groups_from_list(
        fun(Pid) ->
            Stack = [flame_prof_doctor_rule:text({M, F, A})
                || {M, F, A, _} <- maps:get(stack, maps:get(Pid, Told), []), is_atom(M)],
            flame_prof_doctor_stacks:caller([{flame_prof_doctor_places:frames(Stack), 1}],
                [<<"*">>])
        end, lists:sort(maps:keys(Told))),
    {_, Function} = lists:max([{length(Pids), F} || {F, Pids} <- maps:to_list(By)]),
    Processes = [flame_prof_doctor_waits:process(Pid, Look) || Pid <- maps:get(Function, By)],
    {["It monitors ", flame_prof_doctor_rule:count(map_size(Told), "process"),
        " that do not wait for it and may have it: ", first(Processes),
        [[", in ", Function] || Function =/= <<>>], "."],
        Function, Processes, numbers(Processes, #{monitored => map_size(Told)})}.

numbers(Processes, Numbers) ->
    Numbers#{holders => length(Processes), other_holders => length(Processes) - 1}.

first([First]) -> name(First);
first([First | Others]) -> [name(First), " and ", number(length(Others)), " more"].

%% Processes of the same module as the waiters that stand still and do not wait for the server.
of_module(Waiters, Evidence) ->
    Wait = maps:from_list([{Pid, true} || Pid <- Waiters]),
    Modules = [M || M <- [module(function(Waiters, Evidence))], M =/= <<>>],
    Others = [{Function, Process}
     || #{pid := Pid, stack := Stack, since_ms := Ms} = Process <- standing(Evidence),
        Ms >= ?STILL_MS, not is_map_key(Pid, Wait),
        Frames <- [flame_prof_doctor_places:frames(Stack)],
        Function <- [flame_prof_doctor_stacks:function([{Frames, 1}])],
        lists:member(module(Function), Modules)],
    By = maps:groups_from_list(fun({Function, _}) -> Function end, fun({_, P}) -> P end, Others),
    case lists:reverse(lists:sort([{length(Of), F} || {F, Of} <- maps:to_list(By)])) of
        [{_, Function} | _] -> stand_still(Function, maps:get(Function, By));
        [] -> {"The holder of what they wait for is unknown.", <<>>, [], #{}}
    end.

stand_still(Function, Standing) ->
    Processes = [#{pid => flame_prof_doctor_waits:text(Pid), name => Name}
        || #{pid := Pid, name := Name} <- lists:sort(Standing)],
    Ms = lists:min([Since || #{since_ms := Since} <- Standing]),
    {[first(Processes), " may have it: in ", Function, ", where nothing has moved for ",
        seconds(1000 * Ms), "."],
        Function, Processes, numbers(Processes, #{still_ms => Ms})}.

module(Function) -> hd(binary:split(Function, <<":">>)).
