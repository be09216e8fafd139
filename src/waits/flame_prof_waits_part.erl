%% @private What one node's look sees, and what it tells of its processes: as the looks of other
%% nodes ask for it, too.
-module(flame_prof_waits_part).

-export([part/1, told/2, waits_served/1]).

-export_type([part/0]).

-type part() ::
    #{
        engine := flame_prof_engine:name(),
        engine_reason := binary(),
        edges := [flame_prof_waits_graph:edge()],
        counts := #{atom() => non_neg_integer()},
        unknown := #{mfa() => pos_integer()}
    }.
%% The result of one look at one node.

-define(TOLD, [status, stack, message_queue_len, memory, registered_name, label, initial_call,
    proc_lib_initial_call]).
-define(LOOKS_TO_LEARN, 4).

%% @private What this node sees. With `auto', by the portable engine where the native one fails.
-spec part(auto | native | portable) -> {ok, part()} | {error, flame_prof:reason()}.
part(Wanted) ->
    case flame_prof_engine:choose(Wanted) of
        {ok, #{engine := native} = Choice} ->
            native_or_not(Wanted, Choice, flame_prof_looks:with(fun read/0));
        {ok, Choice} ->
            {ok, portable(Choice)};
        %% To ask the processes needs no library.
        {error, {library, _}} when Wanted =/= native ->
            Why = <<"portable: the C library did not load">>,
            {ok, portable(#{engine => portable, engine_reason => Why})};
        {error, _} = Refusal ->
            Refusal
    end.

%% The next look uses the new knowledge.
read() -> read(?LOOKS_TO_LEARN, retry).

read(Left, IfLate) ->
    case flame_prof_wait_sites:ensure(IfLate) of
        ok -> learned(Left, flame_prof_looks_nif:waits_look(flame_prof_waits_portable:own()));
        {error, _} = Error -> Error
    end.

learned(Left, {ok, Waits, _} = Read) ->
    case flame_prof_wait_sites:learn(Waits) of
        known -> Read;
        _ when Left > 0 -> read(Left - 1, keep);
        more -> Read;
        changed -> {error, torn}
    end;
learned(_Left, Error) ->
    Error.

portable(Choice) -> maps:merge(Choice, flame_prof_waits_portable:part()).

native_or_not(_Wanted, Choice, {ok, Waits, Counts}) ->
    {ok, native(Waits, Counts, Choice)};
native_or_not(auto, Choice, {error, Error}) ->
    Why = <<"portable: ", (not_read(Error))/binary>>,
    {ok, portable(Choice#{engine := portable, engine_reason := Why})};
native_or_not(native, _Choice, {error, Error}) ->
    {error, {engine, #{engine => native, reason => not_read(Error), cause => Error}}}.

not_read({library, #{reason := Why}}) ->
    <<"the library of looks did not load: ", Why/binary>>;
not_read({wait_sites, Why}) ->
    <<"where processes wait was not found: ", Why/binary>>;
not_read(Error) ->
    Text = io_lib:format("the node's memory could not be looked at: ~0tp", [Error]),
    unicode:characters_to_binary(Text).

native(Waits, Counts, Choice) ->
    {Open, Known} = lists:partition(fun(Wait) -> element(2, Wait) =:= unknown end, Waits),
    {Idle, NotIdle} = lists:partition(
        fun(Wait) -> flame_prof_waits_portable:is_idle(element(6, Wait)) end, Open
    ),
    {Called, Unknown} = lists:partition(fun(Wait) -> called(Wait) =/= [] end, NotIdle),
    Choice#{
        edges => [edge(Wait) || Wait <- Known] ++ lists:append([called(Wait) || Wait <- Called]),
        counts => Counts#{
            idle => maps:get(idle, Counts, 0) + length(Idle),
            unknown => length(Unknown)
        },
        unknown => sites(Unknown)
    }.

called({Pid, unknown, _, _, _, {_, _, _} = Site, _}) ->
    [#{from => Pid, to => To, how => call, tag => unknown, ref => none, site => Site}
        || Name <- [flame_prof_wait_sites:called(Site)], Name =/= none,
        To <- [whereis(Name)], is_pid(To), To =/= Pid];
called(_) ->
    [].

sites(Waits) ->
    lists:foldl(
        fun(Wait, Sites) ->
            maps:update_with(element(6, Wait), fun(N) -> N + 1 end, 1, Sites)
        end,
        #{},
        Waits
    ).

edge({Pid, lock, Target, Ref, _, Site, _}) when is_atom(Target), Target =/= none ->
    Lock = {lock, global, Target},
    #{from => Pid, to => Lock, how => lock, tag => {atom, Target}, ref => Ref, site => Site};
edge({Pid, How, Target, Ref, Tag, Site, _}) ->
    #{from => Pid, to => to(Target, How), how => How, tag => Tag, ref => Ref, site => Site}.

to(none, How) -> How;
to({remote, Node, Number, Serial, Creation}, _How) -> pid(Node, Number, Serial, Creation);
to(Target, _How) -> Target.

%% As the external term format has it.
pid(Node, Number, Serial, Creation) ->
    <<131, Name/binary>> = term_to_binary(Node),
    binary_to_term(<<131, 88, Name/binary, Number:32, Serial:32, Creation:32>>).

%% @private What these have in work (flame_prof_looks_nif:waits_served/1).
-spec waits_served([pid()]) -> {ok, [tuple()]} | {error, term()}.
waits_served(Pids) ->
    flame_prof_looks:with(fun() -> flame_prof_looks_nif:waits_served(Pids) end).

%% @private These processes of this node, as far as they live.
-spec told([pid()], flame_prof_engine:name()) -> #{pid() => flame_prof_waits:told()}.
told(Pids, native) ->
    case flame_prof_pstack:processes(Pids) of
        {ok, Look} ->
            Found = maps:from_list([{Pid, maps:with(?TOLD, Seen)}
                || {_, #{pid := Pid} = Seen} <- Look]),
            with_takes(served(waits_served(Pids), Found));
        {error, _} ->
            told(Pids, portable)
    end;
told(Pids, portable) ->
    with_takes(flame_prof_waits_portable:told(Pids)).

with_takes(Told) ->
    Sites = maps:from_list([{Pid, {Module, Function, Arity}}
        || {Pid, #{status := waiting, stack := Stack}} <- maps:to_list(Told),
        {Module, Function, Arity, _} <- lists:sublist(Stack, 1)]),
    Takes = flame_prof_wait_learn:takes(lists:usort(maps:values(Sites))),
    maps:map(
        fun(Pid, Process) ->
            case Sites of
                #{Pid := Site} when is_map_key(Site, Takes) ->
                    Process#{takes => maps:get(Site, Takes)};
                #{} ->
                    Process
            end
        end,
        Told
    ).

served({ok, Served}, Found) ->
    lists:foldl(
        fun({Pid, Kind, Tag, Ref, From, Module}, All) ->
            case All of
                #{Pid := Process} ->
                    What = #{kind => Kind, tag => Tag, ref => Ref, from => From,
                        module => Module},
                    All#{Pid := Process#{serves => What}};
                #{} ->
                    All
            end
        end,
        Found,
        Served
    );
served({error, _}, Found) ->
    Found.
