%% @private The library of looks and of tracing, flame_prof_looks_nif: in a node while a process
%% uses it.
%%
%% A process that uses it holds it: {@link with/1} for one look, {@link hold/0} until the process
%% ends, as the owner of a tracing does. The first hold loads the library, and gives it what is
%% known of this VM: the layout, the allocators, the sites of waits. Some minutes after the last
%% hold it is purged.
%%
%% One process keeps the holds. It is started by the first of them, registered as this module, and
%% ends when the library has gone. In a node that {@link flame_prof_attach} has lent it to there is
%% none: the agent loads the library, and takes it away with all else.
-module(flame_prof_looks).

-export([with/1, while_held/1, hold/0, purge/0]).
-export([init/1, serve/1]).

-define(LIBRARY, flame_prof_looks_nif).
-define(IDLE_MS, 300000).
-define(PAUSE_MS, 100).

-record(holds, {
    %% By the monitor of the process.
    by = #{} :: #{reference() => pid()},
    idle_ms :: pos_integer(),
    %% When it goes if no process comes.
    until_ms = 0 :: integer()
}).

%% @doc The answer of Fun, while the library is loaded.
-spec with(fun(() -> Answer)) -> Answer | {error, flame_prof:reason()}.
with(Fun) ->
    case held() of
        {ok, Hold} -> run(Fun, Hold);
        {error, _} = Error -> Error
    end.

run(Fun, Hold) ->
    try Fun()
    after
        released(Hold)
    end.

%% @doc The same if another process holds it; it does not stay any longer for that.
-spec while_held(fun(() -> Answer)) -> Answer | not_held.
while_held(Fun) ->
    case {whereis(flame_prof_agent), whereis(?MODULE)} of
        {undefined, undefined} ->
            not_held;
        {undefined, Server} ->
            case asked(Server, join, fun() -> not_held end) of
                {ok, Hold} -> run(Fun, Hold);
                not_held -> not_held
            end;
        _ ->
            case erlang:module_loaded(?LIBRARY) of
                true -> Fun();
                false -> not_held
            end
    end.

%% @doc It is loaded until the calling process ends.
-spec hold() -> ok | {error, flame_prof:reason()}.
hold() ->
    case held() of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

%% @doc Purges it at once if no process holds it. True: it is not loaded any more.
-spec purge() -> boolean().
purge() ->
    case whereis(?MODULE) of
        undefined -> not is_loaded();
        Server -> asked(Server, purge, fun purge/0)
    end.

held() ->
    case {whereis(flame_prof_agent), whereis(?MODULE)} of
        {undefined, undefined} -> started();
        {undefined, Server} -> asked(Server, hold, fun held/0);
        {_Agent, _} -> of_agent(erlang:module_loaded(?LIBRARY))
    end.

of_agent(true) -> {ok, attached};
of_agent(false) -> {error, {library, #{reason => <<"the agent of this node has not loaded it">>}}}.

%% Another process may start it at the same moment, or it may end.
started() ->
    {Server, Monitor} = spawn_monitor(?MODULE, init, [?IDLE_MS]),
    true = demonitor(Monitor, [flush]),
    asked(Server, hold, fun held/0).

asked(Server, Request, Again) ->
    Monitor = monitor(process, Server),
    Server ! {Request, self(), Monitor},
    receive
        {Monitor, Answer} ->
            true = demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, _, _} ->
            Again()
    end.

released(attached) ->
    ok;
released({Server, Hold}) ->
    Server ! {release, Hold},
    ok.

%% @private
-spec init(pos_integer()) -> ok.
init(IdleMs) ->
    try register(?MODULE, self()) of
        true ->
            true = group_leader(whereis(init), self()),
            serve(#holds{idle_ms = IdleMs, until_ms = now_ms() + IdleMs})
    catch
        error:badarg -> ok
    end.

%% @private Called by its full name: a new version of this module takes over.
-spec serve(#holds{}) -> ok.
serve(#holds{by = By, until_ms = UntilMs} = Holds) ->
    Left = case map_size(By) of
        0 -> max(0, UntilMs - now_ms());
        _ -> infinity
    end,
    receive
        {hold, From, Tag} ->
            ?MODULE:serve(grant(From, Tag, loaded(), Holds));
        {join, From, Tag} when map_size(By) > 0 ->
            ?MODULE:serve(grant(From, Tag, ok, Holds));
        {join, From, Tag} ->
            From ! {Tag, not_held},
            ?MODULE:serve(Holds);
        {release, Hold} ->
            true = demonitor(Hold, [flush]),
            ?MODULE:serve(given_back(Hold, Holds));
        {'DOWN', Hold, process, _, _} ->
            ?MODULE:serve(given_back(Hold, Holds));
        {purge, From, Tag} when map_size(By) =:= 0 ->
            ok = unloaded(),
            %% After the answer a caller finds neither the library nor this process.
            true = unregister(?MODULE),
            From ! {Tag, true},
            ok;
        {purge, From, Tag} ->
            From ! {Tag, false},
            ?MODULE:serve(Holds)
    after Left ->
        unloaded()
    end.

now_ms() -> erlang:monotonic_time(millisecond).

given_back(Hold, #holds{by = By, idle_ms = IdleMs} = Holds) ->
    Holds#holds{by = maps:remove(Hold, By), until_ms = now_ms() + IdleMs}.

grant(From, Tag, ok, #holds{by = By} = Holds) ->
    Hold = monitor(process, From),
    From ! {Tag, {ok, {self(), Hold}}},
    Holds#holds{by = By#{Hold => From}};
grant(From, Tag, {error, _} = Error, Holds) ->
    From ! {Tag, Error},
    Holds.

%% An embedded system loads modules at its start only, unless they are asked for.
loaded() ->
    case is_loaded() of
        true -> ok;
        false -> load(erlang:module_loaded(?LIBRARY) orelse code:load_file(?LIBRARY))
    end.

is_loaded() ->
    try erlang:module_loaded(?LIBRARY) andalso ?LIBRARY:is_loaded()
    catch
        error:_ -> false
    end.

load({error, Why}) ->
    Text = unicode:characters_to_binary(io_lib:format("flame_prof_looks_nif.beam: ~ts", [Why])),
    {error, {library, #{reason => Text}}};
load(_) ->
    case ?LIBRARY:load() of
        ok -> informed();
        {error, {_, Text}} ->
            {error, {library, #{reason => unicode:characters_to_binary(Text)}}}
    end.

%% The agent's knowledge of this VM. Without the agent's library there is nothing.
informed() ->
    try
        _ = [?LIBRARY:value_take(Value) || Name <- [layout, allocators, sites],
            Value <- [flame_prof_nif:value(Name)], is_binary(Value)],
        ok
    catch
        error:_ -> ok
    end.

%% A process that calls it without a hold delays the purge until its call has returned.
unloaded() ->
    _ = code:delete(?LIBRARY),
    case code:soft_purge(?LIBRARY) of
        true -> ok;
        false ->
            timer:sleep(?PAUSE_MS),
            unloaded()
    end.
