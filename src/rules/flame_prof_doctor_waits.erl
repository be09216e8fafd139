%% @private What rules ask of a look at waits: names, and who stands at the end of what many wait
%% for.
-module(flame_prof_doctor_waits).

-export([process/2, short/1, text/1, fan/1, is_at_work/2, sampled/2, request/1, target/1]).

-export_type([fan/0]).

-type evidence() :: flame_prof_doctor_rule:evidence().
-type look() :: flame_prof_waits:look().

-type fan() :: #{
    process := pid(),
    direct := non_neg_integer(),
    path := [flame_prof_waits_graph:edge()],
    edges := [flame_prof_waits_graph:edge()]
}.
%% The process of a tree that most wait for directly; `path' leads from it to the root, the last
%% edge first. `edges': those who wait, as far as the tree has them.

%% @doc A pid as its own node writes it.
-spec text(pid()) -> binary().
text(Pid) ->
    iolist_to_binary(re:replace(pid_to_list(Pid), "^<[0-9]+", "<0")).

-spec process(flame_prof_waits_graph:vertex(),
    #{processes := #{pid() => flame_prof_waits:told()}, _ => _}) ->
    flame_prof_doctor_rule:process().
process(Pid, #{processes := Told}) when is_pid(Pid) ->
    #{pid => text(Pid), name => name(maps:get(Pid, Told, #{}))};
process({lock, _, Name}, _) ->
    #{pid => <<"lock">>, name => atom_to_binary(Name)};
process({Name, Node}, _) ->
    #{pid => atom_to_binary(Node), name => atom_to_binary(Name)}.

%% @doc Its name, else its pid.
-spec short(flame_prof_doctor_rule:process()) -> binary().
short(#{name := Name}) when Name =/= <<>> -> Name;
short(#{pid := Pid}) -> Pid.

name(#{registered_name := Name}) -> atom_to_binary(Name);
name(#{proc_lib_initial_call := Call}) -> call(Call);
name(#{initial_call := Call}) -> call(Call);
name(#{}) -> <<>>.

call({M, F, A}) -> unicode:characters_to_binary(io_lib:format("~ts:~ts/~b", [M, F, A])).

%% @doc As the word of a command.
-spec target(flame_prof_doctor_rule:process()) -> unicode:chardata().
target(#{pid := Pid} = Process) ->
    flame_prof_doctor_samples:target(#{name => maps:get(name, Process, <<>>), pid => Pid}).

%% @doc ` for {quote,_}', where the tag is known.
-spec request(flame_prof_waits_graph:tag()) -> unicode:chardata().
request(Tag) when is_tuple(Tag) -> [" for ", flame_prof_waits_text:tag(Tag)];
request(_) -> "".

%% @doc From the root on, the one process that waits for it or for the next one, to that which most
%% wait for.
-spec fan(flame_prof_waits:root() | flame_prof_waits_graph:tree()) -> fan().
fan(#{process := Root} = Tree) -> fan(Root, Tree, []).

fan(Node, #{direct := Direct, all := All, waiters := [#{edge := Edge, direct := D} = Next | _]},
    Path) when D > 0, D >= Direct orelse Direct =< 2, All > Direct
->
    fan(maps:get(from, Edge), Next#{process => Node}, [Edge | Path]);
fan(Node, #{direct := Direct, waiters := Waiters}, Path) ->
    #{process => Node, direct => Direct, path => Path, edges => [E || #{edge := E} <- Waiters]}.

%% @doc It does something, or has messages: a server that answers later is idle, and those who wait
%% for its answer have all that they ask for.
-spec is_at_work(pid(), look()) -> boolean().
is_at_work(Pid, #{processes := Told}) ->
    case maps:get(Pid, Told, #{}) of
        #{serves := _} -> true;
        #{message_queue_len := N} when is_integer(N), N > 0 -> true;
        #{status := Status} when Status =:= running; Status =:= runnable -> true;
        #{} -> false
    end.

-spec sampled(pid(), evidence()) -> flame_prof_doctor_samples:process() | none.
sampled(Pid, #{samples := #{processes := Processes}}) ->
    Text = text(Pid),
    case [P || #{pid := Of} = P <- Processes, Of =:= Text] of
        [Process | _] -> Process;
        [] -> none
    end;
sampled(_, _) ->
    none.
