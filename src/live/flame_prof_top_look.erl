%% @private What the live table shows, from the node that is watched: looks at its
%% busiest processes, added up and sent once an interval to who watches.
%%
%% The looks are those of pstack, at some processes: nobody is asked, and a running
%% process has the stack of that instant. Where the native engine is refused,
%% `process_info/2' is used, as by the portable engine.
%%
%% It ends with the process that watches, which it monitors, and never has more than one table on
%% its way: who does not take one gets no other.
-module(flame_prof_top_look).

-export([start/2, taken/1, stop/1]).
-export([init/2]).

-export_type([table/0, row/0, options/0]).

%% `every_ms': between two tables; `rows': processes to look at.
-type options() :: #{every_ms := pos_integer(), rows := pos_integer()}.

%% Rates are of this interval. `running' and the other shares are percent of the
%% `looks' at the process; `frame' is the leaf that was seen most often while it
%% was not waiting, else while it was.
-type row() ::
    #{
        pid := binary(),
        name := binary(),
        reductions := float(),
        running := float(),
        runnable := float(),
        waiting := float(),
        garbage_collecting := float(),
        queue := integer(),
        memory := integer(),
        growth := integer(),
        frame := binary(),
        looks := pos_integer()
    }.

-type table() ::
    #{
        node := node(),
        engine := native | portable,
        processes := non_neg_integer(),
        seconds := float(),
        rows := [row()]
    }.

-record(look, {
    watcher :: pid(),
    options :: options(),
    engine :: native | portable,
    selector :: reference() | none,
    totals = #{} :: #{pid() => integer()},
    chosen = [] :: [pid()],
    processes = 0 :: non_neg_integer(),
    seen = #{} :: #{pid() => [map()]},
    last = #{} :: #{pid() => map()},
    since :: integer(),
    may_send = true :: boolean()
}).

-define(LOOKS_A_TABLE, 5).
-define(LEAST_MS, 50).

%% @doc Called in the node that is watched; the watcher may be in another one. It
%% gets `{flame_prof_top_look, Pid, Table}'.
-spec start(pid(), options()) -> {ok, pid()}.
start(Watcher, Options) ->
    {ok, spawn(?MODULE, init, [Watcher, Options])}.

%% @doc The watcher is ready for another table.
-spec taken(pid()) -> ok.
taken(Looker) ->
    Looker ! {?MODULE, taken},
    ok.

-spec stop(pid()) -> ok.
stop(Looker) ->
    Looker ! {?MODULE, stop},
    ok.

-spec init(pid(), options()) -> ok.
init(Watcher, #{rows := Rows} = Options) ->
    true = group_leader(whereis(init), self()),
    _ = monitor(process, Watcher),
    {Engine, Selector} = engine(Rows),
    look(chosen(#look{
        watcher = Watcher,
        options = Options,
        engine = Engine,
        selector = Selector,
        since = now_ms()
    })).

engine(Rows) ->
    case flame_prof_engine:choose(auto) of
        {ok, #{engine := native}} ->
            _ = flame_prof_schedulers:ensure(),
            {ok, Selector} = flame_prof_nif:selector_new(Rows),
            {native, Selector};
        _ ->
            {portable, none}
    end.

now_ms() -> erlang:monotonic_time(millisecond).

%% One look, then wait for the next; a table when it is time.
look(#look{options = #{every_ms := Every}, since = Since} = State0) ->
    State = seen(State0),
    case now_ms() - Since >= Every of
        true -> wait(chosen(sent(State)));
        false -> wait(State)
    end.

wait(#look{options = #{every_ms := Every}} = State) ->
    wait_until(now_ms() + max(?LEAST_MS, Every div ?LOOKS_A_TABLE), State).

wait_until(Until, State) ->
    receive
        {?MODULE, taken} -> wait_until(Until, State#look{may_send = true});
        {?MODULE, stop} -> ok;
        {'DOWN', _, process, _, _} -> ok;
        _ -> wait_until(Until, State)
    after max(0, Until - now_ms()) -> look(State)
    end.

%% Choosing.

chosen(#look{engine = native, selector = Selector} = State) ->
    {Processes, Busy} = flame_prof_nif:selector_next(Selector),
    State#look{processes = Processes, chosen = [Pid || {Pid, _} <- Busy, Pid =/= self()]};
chosen(#look{engine = portable, totals = Before, options = #{rows := Rows}} = State) ->
    Totals = maps:from_list([
        {Pid, Reductions}
     || Pid <- processes(), {_, Reductions} <- [process_info(Pid, reductions)], Pid =/= self()
    ]),
    Busy = lists:sort([{maps:get(Pid, Before, 0) - R, Pid} || {Pid, R} <- maps:to_list(Totals)]),
    State#look{
        processes = map_size(Totals),
        totals = Totals,
        chosen = [Pid || {_, Pid} <- lists:sublist(Busy, Rows)]
    }.

%% Looking.

seen(#look{engine = native, chosen = Chosen, seen = Seen} = State) ->
    Looks =
        case flame_prof_nif:snapshot(Chosen) of
            {error, _} -> [];
            Snapshots -> [{Pid, native(Map)} || {Pid, Map} <- Snapshots, is_map(Map)]
        end,
    State#look{seen = added(Looks, Seen)};
seen(#look{engine = portable, chosen = Chosen, seen = Seen} = State) ->
    Looks = [{Pid, Map} || Pid <- Chosen, Map <- [portable(Pid)], is_map(Map)],
    State#look{seen = added(Looks, Seen)}.

added(Looks, Seen) ->
    lists:foldl(
        fun({Pid, Map}, Acc) -> maps:update_with(Pid, fun(More) -> [Map | More] end, [Map],
            Acc) end,
        Seen,
        Looks
    ).

native(#{stack := Stack} = Map) ->
    Named = maps:with([status, reductions, message_queue_len, memory], Map),
    Named#{name => name(Map), frame => frame(Stack)}.

name(#{registered_name := Name}) when Name =/= none -> Name;
name(#{proc_lib_initial_call := {_, _, _} = Call}) -> mfa(Call);
name(#{initial_call := {_, _, _} = Call}) -> mfa(Call);
name(_) -> <<>>.

%% C functions are a detail of the function that called them.
frame([{native, _, _} | Stack]) -> frame(Stack);
frame([{Kind, {_, _, _} = Call} | _]) when Kind =:= bif; Kind =:= nif -> mfa(Call);
frame([{Module, Function, Arity, _, _} | _]) -> mfa({Module, Function, Arity});
frame([gc | _]) -> <<"[gc]">>;
frame([Word | _]) when is_atom(Word) -> atom_to_binary(Word);
frame(_) -> <<>>.

mfa({Module, Function, Arity}) ->
    unicode:characters_to_binary(io_lib:format("~ts:~ts/~b", [Module, Function, Arity])).

portable(Pid) ->
    Items = [status, reductions, message_queue_len, memory, registered_name, initial_call,
        current_function],
    case process_info(Pid, Items) of
        undefined ->
            gone;
        List ->
            Map = maps:from_list(List),
            #{registered_name := Name, initial_call := Call, current_function := Current} = Map,
            (maps:with([status, reductions, message_queue_len, memory], Map))#{
                name => portable_name(Name, Call),
                frame => portable_frame(Current)
            }
    end.

portable_name([], Call) -> mfa(Call);
portable_name(Name, _) -> atom_to_binary(Name).

portable_frame({_, _, _} = Current) -> mfa(Current);
portable_frame(_) -> <<>>.

%% Telling.

sent(#look{may_send = false} = State) ->
    again(State);
sent(#look{watcher = Watcher} = State) ->
    Seconds = max(1, now_ms() - State#look.since) / 1000,
    Rows = [row(Pid, Looks, State#look.last, Seconds)
        || {Pid, Looks} <- maps:to_list(State#look.seen)],
    Watcher !
        {?MODULE, self(), #{
            node => node(),
            engine => State#look.engine,
            processes => State#look.processes,
            seconds => Seconds,
            rows => Rows
        }},
    (again(State))#look{may_send = false}.

again(#look{seen = Seen} = State) ->
    Last = maps:map(fun(_, [Latest | _]) -> Latest end, Seen),
    State#look{seen = #{}, last = Last, since = now_ms()}.

%% The last one of the interval before is the base of what changed.
row(Pid, [Latest | _] = Looks, Last, Seconds) ->
    Base = maps:get(Pid, Last, lists:last(Looks)),
    #{status := _, name := Name, message_queue_len := Queue, memory := Memory} = Latest,
    Share = fun(Status) ->
        100 * length([S || #{status := S} <- Looks, S =:= Status]) / length(Looks)
    end,
    #{
        pid => list_to_binary(pid_to_list(Pid)),
        name => Name,
        reductions => max(0, changed(reductions, Latest, Base)) / Seconds,
        running => Share(running),
        runnable => Share(runnable),
        waiting => Share(waiting),
        garbage_collecting => Share(garbage_collecting),
        queue => figure(Queue),
        memory => figure(Memory),
        growth => changed(memory, Latest, Base),
        frame => hottest(Looks),
        looks => length(Looks)
    }.

figure(Figure) when is_integer(Figure) -> Figure;
figure(_) -> 0.

changed(Key, Latest, Base) ->
    case {maps:get(Key, Latest), maps:get(Key, Base)} of
        {New, Old} when is_integer(New), is_integer(Old) -> New - Old;
        _ -> 0
    end.

hottest(Looks) ->
    case [Frame || #{status := Status, frame := Frame} <- Looks, Status =/= waiting] of
        [] -> most([Frame || #{frame := Frame} <- Looks]);
        Frames -> most(Frames)
    end.

most(Frames) ->
    Counts = lists:foldl(
        fun(Frame, Acc) -> maps:update_with(Frame, fun(N) -> N + 1 end, 1, Acc) end, #{}, Frames
    ),
    {_, Frame} = lists:max([{Count, F} || {F, Count} <- maps:to_list(Counts)]),
    Frame.
