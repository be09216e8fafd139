%% @private The allocations of a session: who allocates, in a file of their own.
%%
%% ```
%%   flame_prof_session --link--> this process --owns--> flame_prof_tracing, of kind allocations
%%                                     |       --owns--> a session of the library, for the file
%%                                     v
%%          each 100 ms: what was measured into the library's ring; its writer writes it
%% '''
%%
%% The tracing ends with the session, with this process, and when it reaches its limit. Then the
%% file is finished, and the session goes on without. It sends its state to the session, which never
%% waits for this process while it runs.
-module(flame_prof_session_allocations).

-behaviour(gen_server).

-include("flame_prof_internal.hrl").
-include_lib("kernel/include/logger.hrl").

-export([start/2, commit/2, flush/1, follow/2, end_soon/1, told/2, ended/2]).
-export([function_of/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([allocations/0, info/0]).

%% `ended': `no', or why: `asked', `{limit, Limit}' of the tracing, `{down, Pid}' of its own
%% processes, or `{file, Text}'. Words are of all processes, by the estimate of {@link
%% flame_prof_allocations}; `in_step' are those whose stacks cannot be believed. `lost': of what is
%% not in the file.
-type info() ::
    #{
        state := running | ended,
        ended := no | asked | {limit, atom()} | {down, pid()} | {file, binary()},
        files := [binary()],
        error := binary(),
        bytes := pos_integer(),
        words := non_neg_integer(),
        words_error := non_neg_integer(),
        share := pos_integer(),
        samples := non_neg_integer(),
        in_step := [{flame_prof_allocations:group(), Words :: non_neg_integer()}],
        in_step_words := non_neg_integer(),
        collections := #{atom() => non_neg_integer()},
        looks := non_neg_integer(),
        look_ns := non_neg_integer(),
        lost := #{atom() => non_neg_integer()}
    }.

-type allocations() :: {none | pid(), {off, Why :: binary()} | info()}.

-record(state, {
    session :: pid(),
    bytes :: pos_integer(),
    tracing :: reference(),
    library :: flame_prof_nif:session(),
    sum :: flame_prof_allocations_sum:sum(),
    counters = #{} :: #{atom() => number()},
    %% That the writer had no room for.
    weights = <<>> :: binary(),
    %% Of the sums before this one, which is since `summed_ms'.
    in_step = #{} :: #{flame_prof_allocations:group() => non_neg_integer()},
    summed_ms :: integer(),
    told_ms :: integer(),
    %% The latest long collections: {Process, Leaf}.
    long = [] :: [{pid(), flame_prof_allocations:frame()}],
    events_lost = 0 :: non_neg_integer(),
    files = [] :: [binary()],
    trouble = <<>> :: binary(),
    phase = running :: running | closing | closed,
    ended = no :: no | asked | {limit, atom()} | {down, pid() | atom()} | {file, binary()},
    %% The session waits for the end.
    is_asked = false :: boolean()
}).

-define(TICK_MS, 100).
-define(TELL_MS, 1000).
%% What is in step is told of a time in which programs do not change much.
-define(SUM_MS, 60000).
-define(IN_STEP, 20).
-define(LONG, 50).
%% For the writer to make room, at the end.
-define(LAST_MOVES, 100).
-define(ROOM_MS, 20).
-define(FUNCTION_MS, 300).
-define(RING_BYTES, 1048576).
-define(TEXT_BYTES, 4194304).

%% @doc By the session. `How' as for {@link flame_prof_session:start_link/2}. If that is impossible,
%% the session has no allocations.
-spec start(flame_prof_options:options(), map()) -> allocations().
start(#{allocations := off}, _How) ->
    {none, {off, <<"not asked for">>}};
start(Options, How) ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, {self(), Options, How}, []) of
        {ok, Pid} -> {Pid, receive {?MODULE, Pid, {info, Info}} -> Info end};
        {error, {shutdown, {refused, Reason}}} -> without(flame_prof_error:format(Reason));
        {error, Reason} -> without(flame_prof_error:exit_text(Reason))
    end.

without(Text) ->
    Why = unicode:characters_to_binary(Text),
    ?LOG_NOTICE("flame_prof does not measure allocations: ~ts", [Why], #{
        application => flame_prof, domain => [flame_prof]
    }),
    {none, {off, Why}}.

%% @doc As the session: what it holds is written from now on.
-spec commit(allocations(), Note :: binary()) -> ok.
commit(Allocations, Note) -> cast(Allocations, {commit, Note}).

-spec flush(allocations()) -> ok.
flush(Allocations) -> cast(Allocations, flush).

-spec follow(allocations(), Name :: binary()) -> ok.
follow(Allocations, Name) -> cast(Allocations, {follow, Name}).

-spec end_soon(allocations()) -> ok.
end_soon(Allocations) -> cast(Allocations, stop).

cast({none, _}, _Request) -> ok;
cast({Pid, _}, Request) -> gen_server:cast(Pid, Request).

%% @doc By the session, of a message that it got: `{flame_prof_session_allocations, Pid, _}', or
%% the 'EXIT' of that process.
-spec told(term(), allocations()) -> allocations().
told({?MODULE, Pid, {info, Info}}, {Pid, _}) ->
    {Pid, Info};
told({?MODULE, Pid, {ended, Info}}, {Pid, _}) ->
    {none, Info};
told({'EXIT', Pid, Reason}, {Pid, #{} = Info}) ->
    Why = flame_prof_error:exit_text(Reason),
    ?LOG_ERROR("flame_prof goes on without allocations, whose process ended: ~ts", [Why],
        ?LOG_META),
    {none, Info#{state := ended, ended := {down, Pid}}};
told(_, Allocations) ->
    Allocations.

%% @doc By the session, after end_soon/1: waits for the end, at most so many milliseconds. The
%% library finishes the file in any case.
-spec ended(allocations(), Ms :: non_neg_integer()) -> allocations().
ended({none, _} = Allocations, _Ms) ->
    Allocations;
ended({Pid, Info} = Allocations, Ms) ->
    receive
        {?MODULE, Pid, {ended, _}} = Message -> told(Message, Allocations);
        {'EXIT', Pid, _} = Message -> told(Message, Allocations)
    after Ms ->
        true = unlink(Pid),
        true = exit(Pid, kill),
        {none, Info#{state := ended, ended := {down, Pid}}}
    end.

%% @doc The function whose term had no room when the latest long collection of this process began;
%% `none': nothing is traced, or that collection was not seen.
-spec function_of(pid()) -> mfa() | none.
function_of(Process) ->
    try
        gen_server:call(?MODULE, {function_of, Process}, ?FUNCTION_MS)
    catch
        exit:_ -> none
    end.

%% The process.

-spec init({pid(), flame_prof_options:options(), map()}) -> {ok, #state{}} | {stop, term()}.
init({Session, #{allocations := Given} = Options, How}) ->
    #{limits := Limits} = Spec = flame_prof_allocations:spec(Given#{owner => self()}, infinity),
    %% It ends with the session.
    case flame_prof_tracing:start(Spec#{limits := Limits#{max_events => infinity}}) of
        {ok, Tracing} ->
            %% If it is killed, no other process reports it.
            _ = erlang:monitor(process, flame_prof_tracing),
            opened(flame_prof_nif:session_start(config(Options, How)), Tracing, Session, Given);
        {error, Reason} ->
            {stop, {shutdown, {refused, Reason}}}
    end.

config(Options, How) ->
    Config = flame_prof_config:session(portable, Options, false, []),
    Given = maps:with([lookback_ms, note], How),
    maps:merge(Config#{
        event := alloc_words,
        node_interval := ?TELL_MS,
        ring_bytes := ?RING_BYTES,
        libraries_bytes := 0,
        text_bytes := ?TEXT_BYTES
    }, Given).

opened({ok, Library}, Tracing, Session, #{bytes := Bytes}) ->
    #{path := Path} = flame_prof_nif:session_info(Library),
    Now = now_ms(),
    State = #state{
        session = Session,
        bytes = Bytes,
        tracing = Tracing,
        library = Library,
        sum = flame_prof_allocations_sum:windows(),
        summed_ms = Now,
        told_ms = Now,
        files = [Path || Path =/= <<>>]
    },
    _ = flame_prof_clock:send_after(?TICK_MS, tick),
    {ok, tell(State)};
opened({error, {_, Text}}, Tracing, _Session, _Given) ->
    _ = flame_prof_tracing:stop(Tracing),
    {stop, {shutdown, {refused, {tracing, #{reason => Text}}}}}.

now_ms() ->
    flame_prof_clock:now_ms().

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({function_of, Process}, _From, State0) ->
    State = #state{long = Long} = moved(State0),
    Answer =
        case lists:keyfind(Process, 1, Long) of
            {_, {M, F, A, _Line}} -> {M, F, A};
            _ -> none
        end,
    {reply, Answer, State};
handle_call(_, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_cast(stop, #state{phase = closed} = State) ->
    said_ended(State);
handle_cast(stop, State) ->
    {noreply, finish(asked, State#state{is_asked = true})};
handle_cast({commit, Note}, #state{phase = running, library = Library} = State) ->
    _ = flame_prof_nif:session_commit(Library, Note),
    {noreply, State};
handle_cast(flush, #state{phase = running, library = Library} = State) ->
    Moved = moved(State),
    _ = flame_prof_nif:session_flush(Library),
    {noreply, Moved};
handle_cast({follow, Name}, #state{phase = running, files = [Path | _]} = State) ->
    _ = filename:basename(Path) =:= Name andalso
        flame_prof_nif:session_follow(State#state.library),
    {noreply, State};
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info(tick, #state{phase = running} = State) ->
    _ = flame_prof_clock:send_after(?TICK_MS, tick),
    {noreply, told_in_time(moved(State))};
handle_info({flame_prof_tracing, Tracing, {ended, Ended}}, #state{tracing = Tracing} = State) ->
    ?LOG_NOTICE("flame_prof goes on without allocations: ~0tp", [Ended], ?LOG_META),
    {noreply, finish(Ended, State)};
handle_info({'DOWN', _, process, {flame_prof_tracing, _}, _}, #state{phase = running} = State) ->
    ?LOG_NOTICE("flame_prof goes on without allocations: the process of the tracing ended", [],
        ?LOG_META),
    {noreply, finish({down, flame_prof_tracing}, State)};
handle_info({flame_prof_nif, Library, {file, Event, Text}}, #state{library = Library} = State) ->
    {noreply, file(Event, Text, State)};
handle_info({flame_prof_nif, Library, {stopped, Result}}, #state{library = Library} = State) ->
    closed(Result, State);
handle_info(_, State) ->
    {noreply, State}.

%% The results.

moved(#state{phase = running} = State) ->
    case move(State) of
        {_, Moved} -> Moved
    end;
moved(State) ->
    State.

%% And whether nothing is left.
move(#state{weights = <<>>, tracing = Tracing, sum = Sum, long = Long} = State) ->
    case flame_prof_tracing:read(Tracing, move) of
        {ok, {Records, Counters, IsAll, Weights}} ->
            ok = tell_file(Counters, State),
            written(IsAll, State#state{
                sum = flame_prof_allocations_sum:add(Records, Counters, Sum),
                counters = Counters,
                long = lists:sublist(long(Records) ++ Long, ?LONG),
                weights = Weights
            });
        {error, _} ->
            {true, State}
    end;
move(State) ->
    written(false, State).

%% What the writer has no room for is given to it again before more is read.
written(IsAll, #state{library = Library, weights = Weights} = State) ->
    case flame_prof_nif:session_weights(Library, Weights) of
        {ok, Taken} ->
            <<_:Taken/binary, Rest/binary>> = Weights,
            {IsAll andalso Rest =:= <<>>, State#state{weights = Rest}};
        {error, closed} ->
            {true, State#state{weights = <<>>}}
    end.

%% The latest first, as the records are.
long(Records) ->
    [{Pid, Leaf} || {Pid, _, _, _, _, _, _, _, true, [Leaf | _], _} <- Records].

%% The numbers of the profiler's own samples (doc/format.md).
tell_file(Counters, #state{library = Library, in_step = InStep}) ->
    Count = fun(Key) -> round(maps:get(Key, Counters, 0)) end,
    _ = flame_prof_nif:session_node_metrics(Library, [
        {looks, Count(looks)},
        {words, max(0, Count(words))},
        {dropped_words, Count(dropped_words)},
        {minor, Count(minor) - Count(failed)},
        {major, Count(major)},
        {collection_ns, Count(collection_ns)},
        {longest_ns, Count(longest_ns)},
        {in_step_words, lists:sum(maps:values(InStep))}
    ]),
    ok.

told_in_time(#state{told_ms = Told, summed_ms = Summed} = State) ->
    case now_ms() of
        Now when Now - Summed >= ?SUM_MS -> tell(summed(State));
        Now when Now - Told >= ?TELL_MS -> tell(State);
        _ -> State
    end.

summed(#state{sum = Sum, in_step = Before} = State) ->
    State#state{
        sum = flame_prof_allocations_sum:windows(),
        in_step = largest(in_step(Sum, Before)),
        summed_ms = now_ms()
    }.

in_step(Sum, Before) ->
    InStep = flame_prof_allocations_sum:in_step(Sum),
    Add = fun({Group, Words}, All) ->
        maps:update_with(Group, fun(N) -> N + Words end, Words, All)
    end,
    lists:foldl(Add, Before, InStep).

largest(Groups) ->
    maps:from_list(lists:sublist(by_words(Groups), ?IN_STEP)).

by_words(Groups) ->
    lists:reverse(lists:keysort(2, maps:to_list(Groups))).

%% The end.

finish(Ended, #state{phase = running, tracing = Tracing, library = Library} = State0) ->
    ok = off(Tracing),
    State = summed(last_moves(?LAST_MOVES, State0)),
    ok = tell_file(State#state.counters, State),
    Lost =
        case flame_prof_tracing:stop(Tracing) of
            {ok, #{lost := Events}} -> Events;
            {error, _} -> 0
        end,
    _ = flame_prof_nif:session_stop(Library),
    State#state{phase = closing, ended = Ended, events_lost = Lost};
finish(_Ended, State) ->
    State.

off(Tracing) ->
    _ = flame_prof_tracing:off(Tracing),
    ok.

last_moves(0, State) ->
    State;
last_moves(Left, State0) ->
    case move(State0) of
        {true, State} ->
            State;
        {false, #state{weights = <<>>} = State} ->
            last_moves(Left - 1, State);
        {false, State} ->
            ok = timer:sleep(?ROOM_MS),
            last_moves(Left - 1, State)
    end.

%% The file is finished. By itself, too, when the library could not go on.
closed(Result, #state{phase = running} = State) ->
    _ = flame_prof_tracing:stop(State#state.tracing),
    closed(Result, State#state{phase = closing, ended = {file, why(Result)}});
closed(_Result, #state{is_asked = true} = State) ->
    said_ended(close(State));
closed(_Result, State) ->
    {noreply, tell(close(State))}.

why({error, {_, Text}}) -> Text;
why(ok) -> <<"the library has ended it">>.

close(#state{library = Library} = State) ->
    Lost = #{lost := _} = flame_prof_nif:session_info(Library),
    ok = flame_prof_nif:session_close(Library),
    State#state{phase = closed, counters = maps:merge(State#state.counters, samples_lost(Lost))}.

samples_lost(#{dropped := Dropped, lost := Lost}) -> #{samples_lost => Dropped + Lost}.

said_ended(#state{session = Session} = State) ->
    %% The next session may begin at once.
    true = unregister(?MODULE),
    Session ! {?MODULE, self(), {ended, info(State)}},
    {stop, normal, State}.

file(failed, Text, State) ->
    ?LOG_WARNING("flame_prof cannot write: ~ts. It keeps trying", [Text], ?LOG_META),
    State#state{trouble = Text};
file(healed, _Path, State) ->
    State#state{trouble = <<>>};
file(Event, Path, #state{files = Files} = State) ->
    State#state{files = flame_prof_run:files(Event, Path, Files)}.

%% Its own state.

tell(#state{session = Session} = State) ->
    Session ! {?MODULE, self(), {info, info(State)}},
    State#state{told_ms = now_ms()}.

info(#state{sum = Sum, counters = Counters, in_step = Before, ended = Ended} = State) ->
    Count = fun(Key) -> maps:get(Key, Counters, 0) end,
    InStep = in_step(Sum, Before),
    #{
        state => case State#state.phase of running -> running; _ -> ended end,
        ended => Ended,
        files => lists:reverse(State#state.files),
        error => State#state.trouble,
        bytes => State#state.bytes,
        words => max(0, round(Count(words))),
        words_error => round(math:sqrt(max(0.0, Count(variance)))),
        share => maps:get(share, Counters, 1),
        samples => Count(samples) - Count(dropped),
        in_step => lists:sublist(by_words(InStep), ?IN_STEP),
        in_step_words => lists:sum(maps:values(InStep)),
        collections => #{
            minor => Count(minor) - Count(failed),
            major => Count(major),
            milliseconds => Count(collection_ns) div 1000000,
            longest_microseconds => Count(longest_ns) div 1000
        },
        looks => Count(looks),
        look_ns => Count(look_ns),
        lost => #{
            dropped_words => Count(dropped_words),
            unreadable => Count(unreadable),
            samples => Count(samples_lost),
            events => State#state.events_lost
        }
    }.
