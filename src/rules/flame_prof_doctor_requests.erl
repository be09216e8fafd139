%% @private What a request asks for, by its tag, and what servers of well-known libraries are.
-module(flame_prof_doctor_requests).

-export([asks_for/2, has_work/2, library/1]).

%% Words of a request for work or for news, and of one for something that is given out.
-define(WORK, ["accept", "ask", "await", "changes", "consume", "demand", "dequeue", "event",
    "events", "fetch", "idle", "job", "jobs", "listen", "message", "messages", "next", "notify",
    "poll", "pop", "pull", "receive", "recv", "register", "subscribe", "tail", "task",
    "tasks", "updates", "wait", "watch", "work"]).
-define(GIVEN_OUT, ["acquire", "borrow", "checkout", "claim", "conn", "connection", "lock",
    "locks", "member", "permit", "reserve", "semaphore", "slot", "transaction", "worker"]).

%% Libraries, by the name of the module or process.
-define(KNOWN, [
    {"poolboy", "a pool of poolboy"}, {"pooler", "a pool of pooler"},
    {"hackney_pool", "hackney's pool of connections"}, {"pgapp", "pgapp's pool of connections"},
    {"Elixir.DBConnection", "DBConnection's pool of connections to the database"},
    {"Elixir.NimblePool", "a pool of NimblePool"}, {"Elixir.Finch", "Finch's pool of connections"},
    {"global_name_server", "global, which registers names in all nodes"},
    {"pg", "pg, which keeps groups of processes"}
]).

%% @doc `work': work or news, for which those wait who have nothing to do. `given_out': what only
%% some can have at a time. Some libraries ask in ways whose requests are not known.
-spec asks_for(Server :: #{atom() => term()}, flame_prof_waits_graph:tag()) ->
    work | given_out | other.
asks_for(Server, unknown) -> case library(Server) of none -> other; _ -> given_out end;
asks_for(_, Tag) -> asks_for(Tag).

asks_for({atom, Name}) -> asks_for({tuple, Name, 1});
asks_for({tuple, Name, _}) ->
    Words = string:lexemes(atom_to_list(Name), "_"),
    case {Words -- (Words -- ?GIVEN_OUT), Words -- (Words -- ?WORK)} of
        {[_ | _], []} -> given_out;
        %% Also next_worker, accept_connection: who asks so has nothing to do.
        {_, [_ | _]} -> work;
        {[], []} -> other
    end;
asks_for(_) -> other.

%% @doc Has one that waits work itself: messages, a request that it serves, or who waits for it?
-spec has_work(pid(), flame_prof_doctor_rule:evidence()) -> boolean().
has_work(Pid, #{waits := #{edges := Edges, processes := Told}} = Evidence) ->
    lists:any(fun(#{to := To}) -> To =:= Pid end, Edges) orelse
        case Told of
            #{Pid := #{serves := _}} -> true;
            #{Pid := #{message_queue_len := N}} when is_integer(N), N > 0 -> true;
            #{} -> has_messages(flame_prof_doctor_waits:sampled(Pid, Evidence))
        end.

has_messages(#{queue_range := {_, _, _, Last}}) -> Last > 0;
has_messages(none) -> false.

%% @doc What the server is, if its name or its module is that of a library.
-spec library(#{atom() => term()}) -> string() | none.
library(Process) ->
    Names = [flame_prof_doctor_rule:text(Name) || #{registered_name := Name} <- [Process]] ++
        [atom_to_binary(Module) || Key <- [proc_lib_initial_call, initial_call],
            #{Key := {Module, _, _}} <- [Process]],
    case [What || {Module, What} <- ?KNOWN, Name <- Names, is_of(Module, Name)] of
        [What | _] -> What;
        [] -> none
    end.

is_of(Module, Name) ->
    Name =:= list_to_binary(Module) orelse string:prefix(Name, Module ++ ".") =/= nomatch.
