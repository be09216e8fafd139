%% Servers in work and their clients, and whether the words of samples of them (sampled_words) are
%% what the servers have logged (served).
-module(served_words).

-export([work/0, pids/1, judged/2]).

-opaque work() :: #{log := ets:table(), clients := [pid()], servers := [pid()]}.
-export_type([work/0]).

%% @doc Servers that wait, compute, allocate (with each collection a major one, too), and ask others
%% while they serve.
-spec work() -> work().
work() ->
    Log = served:log(),
    Last = [served:server(Log, [{fullsweep_after, F}]) || F <- [0, 1, 20, 65535]],
    First = [served:server(Log, [{fullsweep_after, 0}]) || _ <- Last],
    Work = [{call, {alloc, 200}}, {call, {busy, 5000, x, y}}, {timed_call, {sleep, 1}},
        {cast, refresh}, {call, {nap, 2, x}}, {info, tick}],
    Clients = [served:client(S, Work, 1) || S <- Last, _ <- [a, b]] ++
        [served:client(F, [{call, {ask, S, {nap, 1, x}}}, {call, {alloc, 20}}], 0)
            || {F, S} <- lists:zip(First, Last), _ <- [a, b, c]],
    #{log => Log, clients => Clients, servers => First ++ Last}.

-spec pids(work()) -> [pid()].
pids(#{clients := Clients, servers := Servers}) -> Clients ++ Servers.

%% @doc Samples with words, how many words, and those that are wrong. References of calls that the
%% log does not know: not in work yet when the session ended, at most one of a process.
-spec judged(work(), [tuple()]) -> #{told := [tuple()], words := integer(), wrong := [tuple()]}.
judged(#{log := Log} = Work, Samples) ->
    Told = [Sample || {_, _, _, _, Words} = Sample <- Samples, Words =/= #{}],
    References = lists:usort([R || {_, _, _, _, W} <- Told, Key <- [<<"serves">>, <<"call">>],
        {ok, R} <- [maps:find(Key, W)]]),
    Unknown = [R || R <- References, not ets:member(Log, R)],
    Wrong = lists:append([wrong(Log, Sample) || Sample <- Told]) ++
        [{unknown, Unknown} || length(Unknown) > length(pids(Work))],
    #{told => Told, words => lists:sum([map_size(W) || {_, _, _, _, W} <- Told]), wrong => Wrong}.

wrong(Log, {Pid, _, _, _, Words}) ->
    served_wrong(Log, Pid, Words) ++ called_wrong(Log, Pid, Words) ++ message_wrong(Words).

served_wrong(Log, Pid, #{<<"serves">> := Reference} = Words) ->
    case ets:lookup(Log, Reference) of
        [{_, Server, _, Request}] ->
            Expected = iolist_to_binary(["call/", tag(Request)]),
            Said = {Pid, maps:get(<<"message">>, Words)},
            [{Pid, Words} || Said =/= {sampled_words:pid(Server), Expected}];
        %% It is counted.
        [] -> []
    end;
served_wrong(_Log, _Pid, _Words) -> [].

called_wrong(Log, Pid, #{<<"call">> := Reference} = Words) ->
    case ets:lookup(Log, Reference) of
        [{_, Server, Caller, Request}] ->
            Right = {sampled_words:pid(Caller), sampled_words:pid(Server),
                iolist_to_binary(tag(Request))},
            {_, Awaited, Tag} = Right,
            Said = {Pid, maps:get(<<"waits_for">>, Words, Awaited),
                maps:get(<<"request">>, Words, Tag)},
            [{Pid, Words, Right} || Said =/= Right];
        [] -> []
    end;
called_wrong(_Log, _Pid, _Words) -> [].

message_wrong(#{<<"message">> := Message} = Words) ->
    [Words || not lists:member(Message, [
        <<"call/{alloc,_}">>, <<"call/{busy,_,_,_}">>, <<"call/{sleep,_}">>, <<"cast/refresh">>,
        <<"call/{nap,_,_}">>, <<"info/tick">>, <<"call/{ask,_,_}">>])];
message_wrong(_) -> [].

tag(Request) ->
    [${, atom_to_list(element(1, Request)), lists:duplicate(tuple_size(Request) - 1, ",_"), $}].
