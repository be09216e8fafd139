%% @private Which processes the portable engine samples: the busiest.
%%
%% A process of its own walks all processes in chunks with pauses, so that
%% neither the sampler nor the schedulers notice. It remembers each process's
%% reductions until the next walk, some 60 bytes each: a fiftieth of what the
%% process itself weighs. Of what it compares it never keeps more than N.
%%
%% At the first walk nothing is known, so it goes by what processes have done in
%% their lives; a second one soon after corrects that. A process that was born
%% since the last walk competes with all it has done.
-module(flame_prof_selector).

-export([start_link/1]).
-export([busiest/2]).
-export([loop/1]).

-export_type([config/0, selected/0, names/0]).

-type config() ::
    #{
        top := non_neg_integer(),
        interval_ms := pos_integer(),
        exclude := [pid()]
    }.

%% Registered name (empty: none), initial call, $initial_call of proc_lib.
-type names() :: {binary(), none | flame_prof_nif:mfa_text(), none | flame_prof_nif:mfa_text()}.
-type selected() :: #{pid() => names()}.

-record(selector, {
    engine :: pid(),
    top :: non_neg_integer(),
    interval_ms :: pos_integer(),
    exclude :: #{pid() => []},
    reductions = #{} :: #{pid() => non_neg_integer()},
    selected = #{} :: selected(),
    walks = 0 :: non_neg_integer()
}).

%% 500 processes take 1.5 ms of an idle node.
-define(CHUNK, 500).
-define(PAUSE_MS, 2).
-define(SECOND_WALK_MS, 1000).
%% Before 26.2 one key of a dictionary can not be asked for alone. A dictionary
%% is on its process's heap, so this bounds what asking for all of it copies.
-define(DICTIONARY_MOST_BYTES, 262144).

%% @doc The caller gets {selected, Selector, Processes, #{Pid => Names}}, where
%% Processes is how many there are, at once and then at each interval.
-spec start_link(config()) -> pid().
start_link(#{top := Top, interval_ms := Interval, exclude := Exclude}) ->
    State = #selector{
        engine = self(),
        top = Top,
        interval_ms = Interval,
        exclude = maps:from_list([{Pid, []} || Pid <- Exclude])
    },
    proc_lib:spawn_link(?MODULE, loop, [State]).

-spec loop(#selector{}) -> no_return().
loop(#selector{exclude = Exclude} = State0) ->
    Begun = erlang:monotonic_time(millisecond),
    Others = maps:without([self() | maps:keys(Exclude)], maps:from_keys(processes(), [])),
    Reductions = walk(maps:keys(Others), 0, []),
    State = select(Reductions, State0),
    pause(Begun, State),
    ?MODULE:loop(State).

%% A walk that takes longer than the interval is followed by a rest of the same
%% length.
pause(Begun, #selector{walks = Walks, interval_ms = Interval}) ->
    Wanted =
        case Walks of
            1 -> min(?SECOND_WALK_MS, Interval);
            _ -> Interval
        end,
    Took = erlang:monotonic_time(millisecond) - Begun,
    timer:sleep(max(Took, Wanted - Took)).

walk([], _, Reductions) ->
    Reductions;
walk(Pids, ?CHUNK, Reductions) ->
    timer:sleep(?PAUSE_MS),
    walk(Pids, 0, Reductions);
walk([Pid | Pids], Done, Reductions) ->
    case erlang:process_info(Pid, reductions) of
        {reductions, Now} -> walk(Pids, Done + 1, [{Pid, Now} | Reductions]);
        undefined -> walk(Pids, Done + 1, Reductions)
    end.

select(Now, #selector{reductions = Before, selected = Known} = State) ->
    Deltas = [{Pid, R - maps:get(Pid, Before, 0)} || {Pid, R} <- Now],
    Selected = named(busiest(State#selector.top, Deltas), Known, #{}),
    State#selector.engine ! {selected, self(), length(Now), Selected},
    State#selector{
        reductions = maps:from_list(Now),
        selected = Selected,
        walks = State#selector.walks + 1
    }.

%% @doc The N processes with the highest figures, in no particular order.
-spec busiest(non_neg_integer(), [{pid(), integer()}]) -> [pid()].
busiest(0, _) ->
    [];
busiest(N, Figures) ->
    {First, Others} = split(N, Figures, []),
    Set = gb_sets:from_list([{Figure, Pid} || {Pid, Figure} <- First]),
    [Pid || {_, Pid} <- gb_sets:to_list(lists:foldl(fun challenge/2, Set, Others))].

split(N, Rest, First) when N =:= 0; Rest =:= [] -> {First, Rest};
split(N, [Figure | Rest], First) -> split(N - 1, Rest, [Figure | First]).

challenge({Pid, Figure}, Set) ->
    case gb_sets:smallest(Set) of
        {Lowest, _} = Loser when Figure > Lowest ->
            gb_sets:add({Figure, Pid}, gb_sets:delete(Loser, Set));
        _ ->
            Set
    end.

%% Names are asked for once, when a process enters the set.
named([], _Known, Selected) ->
    Selected;
named([Pid | Pids], Known, Selected) ->
    case Known of
        #{Pid := Names} -> named(Pids, Known, Selected#{Pid => Names});
        _ -> named(Pids, Known, add_named(Pid, names(Pid), Selected))
    end.

add_named(_Pid, undefined, Selected) -> Selected;
add_named(Pid, Names, Selected) -> Selected#{Pid => Names}.

names(Pid) ->
    case erlang:process_info(Pid, [registered_name, initial_call, memory]) of
        [{_, Name}, {_, Call}, {_, Memory}] ->
            {registered_name(Name), mfa_text(Call), mfa_text(proc_lib_call(Pid, Call, Memory))};
        undefined ->
            undefined
    end.

registered_name([]) -> <<>>;
registered_name(Name) -> atom_to_binary(Name).

%% The types of OTP before 26.2 do not know the item.
-dialyzer({nowarn_function, proc_lib_call/3}).
proc_lib_call(Pid, {proc_lib, init_p, _}, Memory) ->
    try erlang:process_info(Pid, [{dictionary, '$initial_call'}]) of
        [{_, Call}] -> Call;
        undefined -> none
    catch
        error:badarg -> search_dictionary(Pid, Memory)
    end;
proc_lib_call(_, _, _) ->
    none.

search_dictionary(Pid, Memory) when Memory =< ?DICTIONARY_MOST_BYTES ->
    case erlang:process_info(Pid, dictionary) of
        {dictionary, Dictionary} -> proplists:get_value('$initial_call', Dictionary, none);
        undefined -> none
    end;
search_dictionary(_, _) ->
    none.

mfa_text({Module, Function, Arity}) when
    is_atom(Module), is_atom(Function), is_integer(Arity), Arity >= 0, Arity =< 255
->
    {flame_prof_stacks:module(Module), atom_to_binary(Function), Arity};
mfa_text(_) ->
    none.
