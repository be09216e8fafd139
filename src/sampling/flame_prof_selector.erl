%% @private Which processes are sampled, where the library does not choose them
%% itself: all rules of the portable engine, and those with filters of the native.
%%
%% A process of its own walks all processes in chunks with pauses, so that
%% neither the sampler nor the schedulers notice. It remembers each process's
%% figures until the next walk, some 150 bytes each: a twentieth of what the
%% process itself weighs.
%%
%% At the first walk nothing is known, so what goes by change goes by what
%% processes have done in their lives; a second one soon after corrects that. A
%% process that was born since the last walk competes with all it has done.
%%
%% Beside the rules, some places are for processes that grow: {@link flame_prof_growers}.
%%
%% Between the chunks it is in gen_server's loop, so that this module can be
%% loaded anew while it works.
-module(flame_prof_selector).

-behaviour(gen_server).

-export([start_link/1]).
-export([busiest/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([config/0, selected/0, counts/0]).

-type config() ::
    #{
        rules := [flame_prof_selection:rule()],
        %% Places beside those of the rules.
        growers := non_neg_integer(),
        exclude := [pid()]
    }.

%% `processes': how many there are. `growers': of the selected, those that no rule selected.
-type counts() :: #{processes := non_neg_integer(), growers := non_neg_integer()}.

-type selected() :: #{pid() => flame_prof_names:names()}.

%% A rule at work. Figures are remembered where it goes by change.
-record(ranking, {
    rule :: flame_prof_selection:rule(),
    every :: pos_integer(),
    is_due = true :: boolean(),
    before = #{} :: #{pid() => integer()},
    figures = [] :: [{pid(), integer()}],
    selected = [] :: [pid()]
}).

-record(selector, {
    engine :: pid(),
    rankings :: [#ranking{}],
    growers :: flame_prof_growers:growers(),
    items = [] :: [atom()],
    interval_ms :: pos_integer(),
    exclude :: #{pid() => []},
    %% Of the walk in hand.
    begun_ms = 0 :: integer(),
    processes = 0 :: non_neg_integer(),
    masters = #{} :: #{pid() => atom()},
    selected = #{} :: selected(),
    walks = 0 :: non_neg_integer()
}).

%% 500 processes take 1.5 ms of an idle node.
-define(CHUNK, 500).
-define(PAUSE_MS, 2).
-define(SECOND_WALK_MS, 1000).

%% @doc The caller gets {selected, Selector, counts(), #{Pid => Names}} at once and then at each
%% interval.
-spec start_link(config()) -> pid().
start_link(Config) ->
    {ok, Pid} = gen_server:start_link(?MODULE, {self(), Config}, []),
    Pid.

-spec init({pid(), config()}) -> {ok, #selector{}}.
init({Engine, #{rules := Rules, growers := Growers, exclude := Exclude}}) ->
    %% So that it ends with its parent, also when that ends normally: by the link it ends
    %% without a crash to report.
    _ = monitor(process, Engine),
    self() ! walk,
    {ok, #selector{
        engine = Engine,
        rankings = [
            #ranking{rule = Rule, every = flame_prof_selection:every(Rule, Rules)}
         || Rule <- Rules
        ],
        growers = flame_prof_growers:new(Growers),
        items = [Item || Growers > 0, Item <- flame_prof_growers:items()],
        interval_ms = flame_prof_selection:interval(Rules),
        exclude = maps:from_list([{Pid, []} || Pid <- [self() | Exclude]])
    }}.

-spec handle_call(term(), gen_server:from(), #selector{}) ->
    {reply, {error, unknown_call}, #selector{}}.
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #selector{}) -> {noreply, #selector{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #selector{}) -> {noreply, #selector{}} | {stop, normal, #selector{}}.
handle_info(walk, State0) ->
    State = begin_walk(State0),
    Pids = [Pid || Pid <- processes(), not is_map_key(Pid, State#selector.exclude)],
    {noreply, chunk(Pids, State)};
handle_info({'DOWN', _, process, Engine, _}, #selector{engine = Engine} = State) ->
    {stop, normal, State};
handle_info({chunk, Pids}, State) ->
    {noreply, chunk(Pids, State)};
handle_info(_, State) ->
    {noreply, State}.

%% The first two walks follow each other closely, and are for all rules.
begin_walk(#selector{rankings = Rankings, walks = Walks} = State) ->
    Pass = max(0, Walks - 1),
    State#selector{
        begun_ms = flame_prof_clock:now_ms(),
        processes = 0,
        masters = masters(Rankings),
        rankings = [
            Ranking#ranking{is_due = Pass rem Ranking#ranking.every =:= 0, figures = []}
         || Ranking <- Rankings
        ]
    }.

chunk(Pids, State) ->
    case split(?CHUNK, Pids, []) of
        {Chunk, []} ->
            end_walk(lists:foldl(fun look/2, State, Chunk));
        {Chunk, Rest} ->
            _ = flame_prof_clock:send_after(?PAUSE_MS, {chunk, Rest}),
            lists:foldl(fun look/2, State, Chunk)
    end.

%% A walk that takes longer than the interval is followed by a rest of the same
%% length.
end_walk(#selector{begun_ms = Begun, interval_ms = Interval, walks = Walks} = State0) ->
    State = select(State0#selector{walks = Walks + 1}),
    Wanted =
        case Walks of
            0 -> min(?SECOND_WALK_MS, Interval);
            _ -> Interval
        end,
    Took = flame_prof_clock:now_ms() - Begun,
    _ = flame_prof_clock:send_after(max(Took, Wanted - Took), walk),
    State.

%% One process: its figure in every ranking that it may take part in.

look(Pid, #selector{rankings = Rankings, processes = Processes, masters = Masters} = State) ->
    Due = [Ranking || #ranking{is_due = true} = Ranking <- Rankings],
    case erlang:process_info(Pid, items(Due, State#selector.items)) of
        undefined ->
            State;
        Info ->
            State#selector{
                processes = Processes + 1,
                growers = flame_prof_growers:see(Pid, Info, State#selector.growers),
                rankings = [rank(Pid, Info, Masters, Ranking) || Ranking <- Rankings]
            }
    end.

rank(_Pid, _Info, _Masters, #ranking{is_due = false} = Ranking) ->
    Ranking;
rank(Pid, Info, Masters, #ranking{rule = #{by := By} = Rule, figures = Figures} = Ranking) ->
    case is_eligible(Pid, Info, Masters, Rule) of
        true -> Ranking#ranking{figures = [{Pid, figure(By, Info)} | Figures]};
        false -> Ranking
    end.

items(Rankings, More) ->
    Rules = [Rule || #ranking{rule = Rule} <- Rankings],
    Of = [item(By) || #{by := By} <- Rules],
    For = [
        condition_item(Kind)
     || #{include := Include, exclude := Exclude} <- Rules, {Kind, _} <- Include ++ Exclude
    ],
    lists:usort(More ++ Of ++ [Item || Item <- For, Item =/= none]).

item(bin_vheap_size) -> garbage_collection_info;
item(mbuf_size) -> garbage_collection_info;
item(minor_gcs) -> garbage_collection;
item(Metric) -> Metric.

condition_item(registered_name) -> registered_name;
condition_item(module) -> current_stacktrace;
condition_item(application) -> group_leader;
%% Asked for when it is needed: it may be in the dictionary.
condition_item(initial_call) -> none.

figure(Metric, Info) ->
    case {item(Metric), lists:keyfind(item(Metric), 1, Info)} of
        {Metric, {_, Figure}} -> Figure;
        {_, {_, Figures}} -> proplists:get_value(Metric, Figures, 0)
    end.

%% Filters.

is_eligible(Pid, Info, Masters, #{include := Include, exclude := Exclude}) ->
    Holds = fun(Condition) -> holds(Condition, Pid, Info, Masters) end,
    (Include =:= [] orelse lists:any(Holds, Include)) andalso not lists:any(Holds, Exclude).

holds({registered_name, Name}, _Pid, Info, _Masters) ->
    lists:member({registered_name, Name}, Info);
holds({module, Module}, _Pid, Info, _Masters) ->
    {_, Trace} = lists:keyfind(current_stacktrace, 1, Info),
    lists:keymember(Module, 1, Trace);
holds({application, Application}, _Pid, Info, Masters) ->
    {_, Leader} = lists:keyfind(group_leader, 1, Info),
    maps:get(Leader, Masters, undefined) =:= Application;
holds({initial_call, Wanted}, Pid, _Info, _Masters) ->
    lists:any(fun(Call) -> is_call(Wanted, Call) end, flame_prof_names:initial_calls(Pid)).

is_call({M, F, A}, Call) -> Call =:= {M, F, A};
is_call({M, F}, {Module, Function, _}) -> M =:= Module andalso F =:= Function;
is_call(M, {Module, _, _}) -> M =:= Module.

%% An application's processes have its master as their group leader.
masters(Rankings) ->
    Wanted = [
        Application
     || #ranking{rule = #{include := Include, exclude := Exclude}} <- Rankings,
        {application, Application} <- Include ++ Exclude
    ],
    maps:from_list([
        {Master, Application}
     || Application <- lists:usort(Wanted),
        Master <- [application_controller:get_master(Application)],
        is_pid(Master)
    ]).

%% The selected.

select(#selector{rankings = Rankings0, processes = Processes} = State) ->
    Rankings = [decide(Ranking) || Ranking <- Rankings0],
    Ranked = lists:usort(lists:append([P || #ranking{selected = P} <- Rankings])),
    {Grown, Growers} = flame_prof_growers:select(Ranked, State#selector.growers),
    Selected = named(Grown ++ Ranked, State#selector.selected, #{}),
    Counts = #{processes => Processes, growers => length(Grown)},
    State#selector.engine ! {selected, self(), Counts, Selected},
    State#selector{rankings = Rankings, growers = Growers, selected = Selected}.

decide(#ranking{is_due = false} = Ranking) ->
    Ranking;
decide(#ranking{rule = #{delta := false, top := Top}, figures = Figures} = Ranking) ->
    Ranking#ranking{selected = busiest(Top, Figures), figures = []};
decide(#ranking{rule = #{by := By, top := Top}, figures = Figures, before = Before} = Ranking) ->
    Grown = [{Pid, grown(By, maps:get(Pid, Before, 0), Now)} || {Pid, Now} <- Figures],
    Ranking#ranking{
        selected = busiest(Top, Grown),
        before = maps:from_list(Figures),
        figures = []
    }.

%% Minor collections are counted anew after each full sweep.
grown(minor_gcs, Before, Now) when Now < Before -> Now;
grown(_, Before, Now) -> Now - Before.

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
        _ -> named(Pids, Known, add_named(Pid, flame_prof_names:names(Pid), Selected))
    end.

add_named(_Pid, undefined, Selected) -> Selected;
add_named(Pid, Names, Selected) -> Selected#{Pid => Names}.
