%% Callers that call servers, beside what makes processes move: messages, collections, exits. Each
%% edge that a look tells is one that the callee has had.
-module(waits_storm).

-export([edges/1, blocked/1, noise/1]).

%% @doc Looks until so many edges were told. `moved': processes that no look could tell.
-spec edges(pos_integer()) -> #{edges := integer(), moved := integer(), wrong := [tuple()]}.
edges(Wanted) ->
    Seed = seeded:seed(),
    Table = ets:new(had, [public, set, {write_concurrency, true}]),
    Servers = [spawn_link(fun() -> keep(Table, []) end) || _ <- lists:seq(1, 8)],
    Callers = [spawn_link(fun() -> rand:seed(exsss, Seed + N), calls(N, list_to_tuple(Servers)) end)
     || N <- lists:seq(1, 400)],
    Noise = noise(8),
    Ours = sets:from_list(Callers, [{version, 2}]),
    {Edges, Moved, Wrong} = read_edges(Wanted, Ours, Table, {0, 0, []}),
    ended(Callers ++ Noise ++ Servers),
    #{edges => Edges, moved => Moved, wrong => Wrong}.

read_edges(Wanted, _, _, {Edges, _, _} = Sum) when Edges >= Wanted -> Sum;
read_edges(Wanted, Ours, Table, {Edges, Moved, Wrong}) ->
    {ok, Waits, #{moved := M}} = flame_prof_looks_nif:waits_look([self()]),
    Told = [Wait || Wait <- Waits, element(2, Wait) =:= call,
        sets:is_element(element(1, Wait), Ours)],
    Bad = [Wait || Wait <- Told, not had(Table, Wait)],
    read_edges(Wanted, Ours, Table, {Edges + length(Told), Moved + M, Bad ++ Wrong}).

%% An edge's call is with the callee, or on the way to it: the callee notes it before long.
had(Table, {Pid, call, Callee, Ref, Tag, _, _}) ->
    Noted = waiting:eventually(fun() ->
        case ets:lookup(Table, {Pid, Ref}) of
            [{_, Value}] -> {true, Value};
            [] -> not is_process_alive(Callee) andalso {true, none}
        end
    end),
    Noted =:= {Callee, Tag}.

%% Keeps up to three calls for a moment.
keep(Table, Kept) ->
    receive
        {'$gen_call', {Pid, Tag} = From, Request} ->
            true = ets:insert(Table, {{Pid, ref_of(Tag)}, {self(), tag_of(Request)}}),
            case Kept of
                [First, Second, Third] ->
                    gen:reply(Third, ok),
                    keep(Table, [From, First, Second]);
                _ -> keep(Table, [From | Kept])
            end
    after 2 ->
        [gen:reply(From, ok) || From <- Kept],
        keep(Table, [])
    end.

ref_of([alias | Ref]) -> ref_of(Ref);
ref_of(Ref) ->
    ["#Ref", "0" | Numbers] = string:lexemes(ref_to_list(Ref), "<.>"),
    [A, B, C | _] = lists:reverse(Numbers),
    {list_to_integer(A), list_to_integer(B), list_to_integer(C)}.

tag_of(Request) when is_atom(Request) -> {atom, Request};
tag_of(Request) when is_atom(element(1, Request)) ->
    {tuple, element(1, Request), tuple_size(Request)};
tag_of(_) -> other.

calls(N, Servers) ->
    Server = element(1 + rand:uniform(tuple_size(Servers)) rem tuple_size(Servers), Servers),
    Requests = {get, {put, N}, {1, N}, {delete, N, lists:seq(1, N)}},
    Request = element(rand:uniform(4), Requests),
    case rand:uniform(3) of
        1 -> gen_server:call(Server, Request, 600000);
        2 -> gen_server:call(Server, Request, infinity);
        3 -> other_monitors(Server, Request)
    end,
    calls(N, Servers).

%% In a tree with others.
other_monitors(Server, Request) ->
    Refs = [erlang:monitor(process, Server) || _ <- lists:seq(1, rand:uniform(20))],
    gen_server:call(Server, Request, 500000),
    [erlang:demonitor(R, [flush]) || R <- Refs].

%% @doc So many linked processes that never rest.
-spec noise(pos_integer()) -> [pid()].
noise(Count) -> [spawn_link(fun() -> never_rest(N) end) || N <- lists:seq(1, Count)].

never_rest(N) ->
    Pid = spawn(fun() ->
        receive L -> erlang:garbage_collect(), length(L) end
    end),
    Pid ! lists:seq(1, 100 * N),
    [erlang:garbage_collect(P) || P <- lists:sublist(processes(), rand:uniform(400), 3)],
    never_rest(N).

%% @doc So many callers that are blocked, beside noise: how many of them one look names.
-spec blocked(pos_integer()) -> {non_neg_integer(), map()}.
blocked(Count) ->
    Server = spawn_link(fun() -> receive never -> ok end end),
    Blocked = [spawn_link(fun() -> call(N rem 3, Server, {get, N}) end)
        || N <- lists:seq(1, Count)],
    ok = waits_work:all_in_calls(Blocked),
    Noise = noise(4),
    {ok, Waits, Counts} = flame_prof_looks_nif:waits_look([]),
    ended(Blocked ++ Noise ++ [Server]),
    {length([x || {_, call, S, {_, _, _}, {tuple, get, 2}, _, _} <- Waits, S =:= Server]), Counts}.

call(0, Server, Request) -> gen_server:call(Server, Request, infinity);
call(1, Server, Request) -> gen_server:call(Server, Request, 600000);
call(2, Server, Request) -> gen_statem:call(Server, Request, 600000).

ended(Pids) -> lists:foreach(fun(P) -> unlink(P), exit(P, kill) end, Pids).
