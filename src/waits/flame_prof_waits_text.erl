%% @private A look of {@link flame_prof_waits} for a person, and as JSON.
%%
%% The problem comes first, in a sentence; then deadlocks, then the roots with the processes that
%% wait for them, then the work of the others. Trees are cut, and the lines that are left out are
%% counted.
-module(flame_prof_waits_text).

-export([format/1, json/1, tag/1, pid/1]).

-import(flame_prof_text, [grouped/1, plural/1]).

-define(CYCLE_EDGES, 12).
-define(FRAMES, 8).
-define(LABEL_CHARS, 60).
%% Forms of messages of one receive.
-define(FORMS, 8).
%% Elements of a tuple that are drawn.
-define(ARITY, 6).

-spec format(flame_prof_waits:look()) -> unicode:chardata().
format(Look) ->
    [
        [first(Look), "\n"],
        [["\n", deadlock(Held, "Deadlock", Look)] || Held <- maps:get(deadlocks, Look)],
        [["\n", suspect(Held, Look)] || Held <- maps:get(suspects, Look)],
        [["\n", ended(Ended, Look)] || Ended <- maps:get(ended, Look, [])],
        [["\n", Lines] || #{chain := Chain} <- [Look], Lines <- [chain(Chain, Look)], Lines =/= []],
        roots(Look),
        ["\n", [counts(Node, Counts, Look) || {Node, Counts} <- in_order(counts, Look)]],
        receives(Look),
        unknown(Look),
        [[atom_to_binary(Node), " was not asked: ", Why, "\n"]
            || {Node, Why} <- in_order(missing, Look)],
        [[Why, "; no requests are shown, and no deadlock is certain\n"]
            || #{engine := portable, engine_reason := Why} <- [Look]]
    ].

in_order(Key, Look) -> lists:sort(maps:to_list(maps:get(Key, Look))).

%% The first sentence.

first(#{unchecked := Count} = Look) when Count > 0 ->
    [
        first(Look#{unchecked := 0}), " There was no time to check ",
        each_of(Count, "cycle that is", "cycles that are"), " perhaps a deadlock."
    ];
first(#{chain := Chain} = Look) ->
    first_of_chain(Chain, Look);
first(#{deadlocks := [#{edges := Edges, all := All} | More]} = Look) ->
    [
        [each_of(length(Edges), "process is", "processes are"), " deadlocked"],
        [": ", those([From || #{from := From} <- Edges], Look), wait(" wait", Edges)],
        [["; ", each_of(All, "process more waits", "processes more wait"), " for them"] || All > 0],
        ".",
        [[" There is another deadlock."] || length(More) =:= 1],
        [[" There are ", grouped(length(More)), " other deadlocks."] || length(More) > 1]
    ];
first(#{ended := [#{edges := Edges, all := All} = Ended | _]} = Look) ->
    [
        each_of(length(Edges), "process was", "processes were"), " deadlocked for a time: ",
        those([From || #{from := From} <- Edges], of_ended(Ended, Look)), wait(" waited", Edges),
        [["; ", each_of(All, "process more waited", "processes more waited"), " for them"]
            || All > 0],
        "."
    ];
first(#{suspects := [#{edges := Edges} | _]} = Look) ->
    [
        each_of(length(Edges), "process is", "processes are"), " perhaps deadlocked: ",
        those([From || #{from := From} <- Edges], Look), wait(" seem", Edges), "."
    ];
first(#{roots := [#{process := Root, all := All} = First | _]} = Look) ->
    [
        each_of(All, "process waits", "processes wait"),
        [", directly or through others," || All > maps:get(direct, First)],
        [" for ", name(Root, Look), ", which ", doing(First, Look), "."]
    ];
first(_) ->
    "No process waits for another one.".

%% `waits for itself', `wait for each other'
wait(" wait", [_]) -> " waits for itself";
wait(" wait", _) -> " wait for each other";
wait(" waited", [_]) -> " waited for itself";
wait(" waited", _) -> " waited for each other";
wait(" seem", [_]) -> " seems to wait for itself";
wait(" seem", _) -> " seem to wait for each other".

first_of_chain(#{process := Pid, edges := [], all := All} = Chain, Look) ->
    [
        name(Pid, Look), " waits for no other process: it ", alone(Chain, Look), ".",
        [[" ", each_of(All, "process waits", "processes wait"), " for it."] || All > 0]
    ];
first_of_chain(#{process := Pid, ends := cycle}, #{deadlocks := []} = Look) ->
    [name(Pid, Look), " waits for processes that may wait for each other."];
first_of_chain(#{process := Pid, ends := cycle}, #{cycles := [Cycle | _]} = Look) ->
    case lists:member(Pid, Cycle) of
        true ->
            [name(Pid, Look), " is deadlocked: ", those(Cycle, Look), wait(" wait", Cycle), "."];
        false ->
            [name(Pid, Look), " waits for a deadlock: ", those(Cycle, Look), wait(" wait", Cycle),
                "."]
    end;
first_of_chain(#{process := Pid, edges := Edges, ends := {root, End}} = Chain, Look) ->
    [
        [name(Pid, Look), " waits"],
        [[", through ", each_of(length(Edges) - 1, "other process", "other processes"), ","]
            || length(Edges) > 1],
        [" for ", name(End, Look), ", which ", doing(Chain#{process := End}, Look), "."]
    ].

each_of(1, One, _Many) -> ["1 ", One];
each_of(Count, _One, Many) -> [grouped(Count), " ", Many].

those([One], Look) ->
    name(One, Look);
those(Pids, Look) when length(Pids) =< 4 ->
    Names = [name(Pid, Look) || Pid <- Pids],
    [lists:join(", ", lists:droplast(Names)), " and ", lists:last(Names)];
those([A, B, C | More], Look) ->
    [lists:join(", ", [name(Pid, Look) || Pid <- [A, B, C]]), " and ", grouped(length(More)),
        " more"].

%% Nobody waits for it: so no other process answers for it.
alone(#{process := Pid, all := 0} = Chain, #{processes := Processes} = Look) ->
    case Processes of
        #{Pid := #{status := waiting} = Told} when not is_map_key(waits, Chain) ->
            case is_idle(Told) of
                true -> "is idle";
                false -> doing(Chain, Look)
            end;
        #{} ->
            doing(Chain, Look)
    end;
alone(Chain, Look) ->
    doing(Chain, Look).

is_idle(#{takes := any}) ->
    true;
is_idle(Told) ->
    case calls(Told) of
        [Site | _] -> flame_prof_waits_portable:is_idle(Site);
        [] -> false
    end.

%% "which ...". Of one that waits, for what.
doing(#{waits := #{how := How, to := To}}, _Look) ->
    waits_for(How, To);
doing(#{process := {lock, global, _}}, _Look) ->
    "is held by an unknown process";
doing(#{process := {_, Node}}, Look) ->
    case Look of
        #{counts := #{Node := _}} -> "is not registered there any more";
        #{} -> not_asked(Node)
    end;
doing(#{process := Pid}, #{processes := Processes, counts := Counts}) ->
    case Processes of
        #{Pid := Told} -> does(Told);
        #{} when is_map_key(node(Pid), Counts) -> "has exited, or did not answer";
        #{} -> not_asked(node(Pid))
    end.

not_asked(Node) ->
    io_lib:format("is on ~ts, which was not asked (nodes)", [Node]).

waits_for(timer, _) -> "sleeps";
waits_for(port, Port) when is_port(Port) -> ["waits for ", port(Port)];
waits_for(port, _) -> "waits for a port";
waits_for(socket, _) -> "waits for a socket";
waits_for(lock, {lock, global, Name}) -> ["waits for the global lock ", atom(Name)];
waits_for(lock, _) -> "waits for a global lock".

does(#{status := running} = Told) -> in("runs", Told);
does(#{status := runnable} = Told) -> in("is ready to run", Told);
does(#{status := garbage_collecting} = Told) -> in("collects garbage", Told);
does(#{status := waiting} = Told) ->
    case {is_idle(Told), Told, calls(Told)} of
        {true, _, _} -> "waits for its next message; another process replies for it, or has just "
            "replied";
        {_, #{takes := Takes}, [Site | _]} -> ["waits in ", mfa(Site), takes(Takes)];
        {_, _, [Site | _]} -> ["waits in ", mfa(Site), takes(unknown)];
        {_, _, []} -> ["waits", takes(unknown)]
    end;
does(#{status := Status}) -> ["is ", atom_to_list(Status)].

takes(nothing) -> ", for a time to pass";
takes(#{forms := Forms}) -> [", for a message ", forms(Forms)];
takes(unknown) -> ", for an unknown message".

%% `{get,_}, stop or another one'; the forms with an atom first.
forms(Forms) ->
    {Any, Told} = lists:partition(fun(Form) -> Form =:= any end, Forms),
    {Tagged, Bare} = lists:partition(fun is_tagged/1, Told),
    Texts = [tag(Form) || Form <- Tagged ++ Bare] ++ ["another one" || Any =/= [], Told =/= []] ++
        ["that its guards and values take" || Told =:= []],
    Shown = lists:sublist(Texts, ?FORMS),
    Last = ["one of " ++ integer_to_list(length(Texts) - ?FORMS) ++ " more forms"
        || length(Texts) > ?FORMS],
    either(Shown ++ Last).

either([One]) -> One;
either(Several) -> [lists:join(", ", lists:droplast(Several)), " or ", lists:last(Several)].

is_tagged({tuple, any, _}) -> false;
is_tagged(_) -> true.

in(What, Told) ->
    case calls(Told) of
        [Call | _] when What =:= "runs" -> ["runs ", mfa(Call)];
        [Call | _] -> [What, ", in ", mfa(Call)];
        [] -> What
    end.

calls(#{stack := Stack}) -> lists:append([call(Frame) || Frame <- Stack]);
calls(#{}) -> [].

call({Kind, {_, _, _} = Call}) when Kind =:= bif; Kind =:= nif -> [Call];
call({Module, Function, Arity, _}) -> [{Module, Function, Arity}];
call(_) -> [].

%% Cycles.

deadlock(#{edges := Edges, all := All, waiters := Waiters, more := More}, Title, Look) ->
    Shown = lists:sublist(Edges, ?CYCLE_EDGES),
    [
        [Title, " of ", each_of(length(Edges), "process", "processes"), "\n"],
        [[indent(1), name(From, Look), " waits for ", name(To, Look), what(Edge), at(From, Look),
            "\n"] || #{from := From, to := To} = Edge <- Shown],
        and_more(length(Edges) - length(Shown), 1),
        [[indent(1), "waiting for these, directly or through others: ", grouped(All), "\n"]
            || All > 0],
        [tree(Tree, 2, Look) || Tree <- Waiters],
        and_more(More, 2)
    ].

%% With the names that its processes had: the last look may not find them any more.
ended(#{edges := Edges, all := All, exited := Exited} = Ended, Look) ->
    Then = of_ended(Ended, Look),
    Held = #{edges => Edges, all => All, waiters => [], more => 0},
    [
        deadlock(Held, "Ended deadlock", Then),
        [indent(1), case Exited of
            [] -> "It has ended, and none of these processes exited: a call has timed out.";
            _ -> ["It ended when ", those(Exited, Then), " exited: a call that times out exits "
                "its caller."]
        end, "\n"]
    ].

of_ended(#{processes := Then}, #{processes := Processes} = Look) ->
    Look#{processes := maps:merge(Then, Processes)}.

suspect(Held, Look) ->
    [
        deadlock(Held, "Perhaps a deadlock", Look),
        [indent(1), "It is not certain: ", uncertain(Held), ".\n"]
    ].

uncertain(#{checked := false}) ->
    "its requests were not searched at their servers in time";
uncertain(#{edges := Edges}) ->
    Hows = [How || #{how := How} <- Edges],
    ByHand = lists:member(monitor, Hows) orelse lists:member(named, Hows),
    case {ByHand, [E || #{ref := none, how := call} = E <- Edges]} of
        {true, _} -> "a receive of the program may take other messages";
        {_, [_ | _]} -> "the two looks may have seen different calls";
        _ -> "a server may have passed a request on to another process"
    end.

%% `: call {get,_}, for 3.2 s or more'
what(#{how := lock, to := {lock, _, _}} = Edge) ->
    what(Edge#{to := lock, tag := unknown});
what(#{how := How} = Edge) ->
    Tag = maps:get(tag, Edge),
    [
        [": ", how(How)],
        [[" ", tag(Tag)] || Tag =/= unknown],
        [[", for ", seconds(Ms), " or more"] || #{since_ms := Ms} <- [Edge], Ms >= 100]
    ].

%% The program's function that has called, not OTP's.
at(Pid, #{processes := Processes}) ->
    Frames =
        case Processes of
            #{Pid := #{stack := Stack}} -> lists:dropwhile(fun is_of_otp/1, Stack);
            #{} -> []
        end,
    case Frames of
        [Frame | _] -> [", in ", hd(flame_prof_pstack:lines(#{stack => [Frame]}))];
        [] -> ""
    end.

is_of_otp({Module, _, _, _}) ->
    lists:member(Module, [gen, gen_server, gen_statem, gen_event, supervisor, proc_lib, sys, erpc,
        rpc, io, file, 'Elixir.GenServer', 'Elixir.Task', 'Elixir.Agent']);
is_of_otp(_) ->
    true.

how(call) -> "call";
how(How) when How =:= monitor; How =:= monitor_only -> "monitor";
how(named) -> "a message with its pid";
how(start) -> "its start";
how(lock) -> "global lock";
how(How) -> atom_to_list(How).

seconds(Ms) -> io_lib:format("~.1f s", [Ms / 1000]).

%% Roots.

roots(#{roots := []}) ->
    [];
roots(#{roots := Roots, more_roots := More} = Look) ->
    [
        [["\n", root(Root, Look)] || Root <- Roots],
        [["\n", each_of(More, "process more is", "processes more are"), " waited for\n"]
            || More > 0]
    ].

root(#{process := Node, all := All, waiters := Waiters, more := More} = Root, Look) ->
    #{direct := Direct} = Root,
    [
        [name(Node, Look), ": ", each_of(All, "process waits", "processes wait"), " for it"],
        [[", ", grouped(Direct), " directly"] || Direct < All],
        ["\n", indent(2), "it ", doing(Root, Look), "\n"],
        [now(Node, Look)],
        [tree(Tree, 1, Look) || Tree <- Waiters],
        and_more(More, 1)
    ].

now(Node, #{processes := Processes} = Look) ->
    case Processes of
        #{Node := #{message_queue_len := Messages, memory := Memory, stack := _} = Told} ->
            [
                [indent(2), count(Messages), " message", plural(Messages), ", ", kilobytes(Memory),
                    "\n"],
                [[indent(2), served(Served, Look), "\n"] || #{serves := Served} <- [Told]],
                stack(flame_prof_pstack:lines(Told))
            ];
        #{} ->
            []
    end.

count(unknown) -> "?";
count(Figure) -> grouped(Figure).

kilobytes(unknown) -> "? KB";
kilobytes(Bytes) -> [grouped((Bytes + 1023) div 1024), " KB"].

served(#{kind := Kind, tag := Tag, from := From} = Served, Look) ->
    [
        ["in work: ", atom_to_list(Kind), [[":", tag(Tag)] || Tag =/= unknown]],
        [[" of ", name(From, Look)] || is_pid(From)],
        [[", by ", atom(Module)] || #{module := Module} <- [Served], Module =/= none]
    ].

stack(Lines) ->
    Shown = lists:sublist(Lines, ?FRAMES),
    [
        [[indent(3), Line, "\n"] || Line <- Shown],
        [[indent(3), "... and ", each_of(N, "frame more", "frames more"), "\n"]
            || N <- [length(Lines) - length(Shown)], N > 0]
    ].

%% In the order of waiting. One in a cycle was told there.
chain(#{process := Pid} = Chain, #{deadlocks := Dead, suspects := Maybe} = Look) ->
    case [From || #{edges := Edges} <- Dead ++ Maybe, #{from := From} <- Edges, From =:= Pid] of
        [] -> steps(Chain, Look);
        _ -> []
    end.

steps(#{process := Pid, edges := Edges, waiters := Waiters, more := More, all := All} = Chain,
    Look) ->
    Steps = lists:zip(lists:seq(1, length(Edges)), Edges),
    [
        [name(Pid, Look), "\n"],
        [[indent(min(N, 10)), "waits for ", name(To, Look), what(Edge), at(From, Look), "\n"]
            || {N, #{from := From, to := To} = Edge} <- Steps],
        [now(End, Look) || #{ends := {root, End}} <- [Chain]],
        [["waiting for ", name(Pid, Look), ", directly or through others: ", grouped(All), "\n"]
            || All > 0],
        [tree(Tree, 1, Look) || Tree <- Waiters],
        and_more(More, 1)
    ].

tree(#{edge := Edge, all := All, waiters := Waiters, more := More}, Level, Look) ->
    #{from := From} = Edge,
    [
        [indent(Level), name(From, Look), what(Edge)],
        [["; ", each_of(All, "waits", "wait"), " for it"] || All > 0],
        "\n",
        [tree(Tree, Level + 1, Look) || Tree <- Waiters],
        and_more(More, Level + 1)
    ].

and_more(0, _Level) -> [];
and_more(More, Level) -> [indent(Level), "... and ", grouped(More), " more\n"].

indent(Level) -> lists:duplicate(2 * Level, $\s).

%% The work of all processes.

counts(Node, Counts, #{node := Own}) ->
    Lines = [
        {sum([call, monitor, monitor_only, named, start], Counts), "waiting for another process"},
        {sum([lock], Counts), "waiting for a global lock"},
        {sum([idle], Counts), "idle: waiting for any message"},
        {sum([timer], Counts), "asleep in timer:sleep/1"},
        {sum([port], Counts), "waiting for a port, such as a TCP connection"},
        {sum([socket], Counts), "waiting for a socket"},
        {sum([message], Counts), "waiting for a message of a certain form"},
        {sum([unknown], Counts), "waiting in a receive that could not be read"},
        {sum([moved], Counts), "left out: changed while they were read"},
        {sum([unreadable], Counts), "left out: could not be read"},
        {sum([no_answer], Counts), "left out: no answer in time"},
        {sum([not_asked], Counts), "left out: not asked within the time limit"}
    ],
    [
        ["Of ", grouped(sum([processes], Counts)), " processes"],
        [[" of ", atom_to_binary(Node)] || Node =/= Own orelse Node =/= nonode@nohost],
        "\n",
        [[flame_prof_text:right(grouped(N), 9), " ", What, "\n"] || {N, What} <- Lines, N > 0]
    ].

sum(Keys, Counts) -> lists:sum([maps:get(Key, Counts, 0) || Key <- Keys]).

receives(#{receives := Receives}) ->
    [
        ["Receives for messages of a certain form\n" || Receives =/= []],
        [[flame_prof_text:right(grouped(N), 9), " ", mfa(Site), ": ", forms(Forms), "\n"]
            || {Site, #{forms := Forms}, N} <- Receives]
    ].

unknown(#{unknown := []}) ->
    [];
unknown(#{unknown := Sites}) ->
    [
        "Receives that could not be read\n",
        [[flame_prof_text:right(grouped(N), 9), " ", mfa(Site), "\n"] || {Site, N} <- Sites]
    ].

%% Names.

name({lock, global, Name}, _Look) ->
    ["the global lock ", atom(Name)];
name({Name, Node}, _Look) ->
    [atom(Name), " of ", atom_to_binary(Node)];
name(Pid, #{processes := Processes}) when is_pid(Pid) ->
    Name =
        case Processes of
            #{Pid := #{registered_name := Registered}} -> [atom(Registered), " "];
            #{Pid := #{label := Label}} -> [label(Label), " "];
            #{Pid := #{proc_lib_initial_call := Call}} -> [mfa(Call), " "];
            #{Pid := #{initial_call := Call}} -> [mfa(Call), " "];
            #{} -> ""
        end,
    [Name, pid(Pid)];
name(Port, _Look) when is_port(Port) ->
    port(Port);
name(Word, _Look) ->
    ["a ", atom_to_list(Word)].

label(Label) ->
    visible(flame_prof_text:fit(flame_prof_names:show_label(Label), ?LABEL_CHARS)).

atom(Atom) -> visible(flame_prof_names:printed(Atom)).

mfa(none) ->
    "code of no known function";
mfa(Call) ->
    visible(flame_prof_names:printed(Call)).

visible(Text) -> flame_prof_text:visible(unicode:characters_to_binary(Text)).

%% @doc Of another node: `shop@myhost/<0.71.0>', as it is called there.
-spec pid(pid()) -> unicode:chardata().
pid(Pid) when node(Pid) =:= node() -> pid_to_list(Pid);
pid(Pid) ->
    [_, Rest] = string:split(pid_to_list(Pid), "."),
    [atom_to_binary(node(Pid)), "/<0.", Rest].

port(Port) when node(Port) =:= node() -> erlang:port_to_list(Port);
port(Port) ->
    [_, Rest] = string:split(erlang:port_to_list(Port), "."),
    [atom_to_binary(node(Port)), "/#Port<0.", Rest].

%% @doc `get', `{get,_,_}', `_'.
-spec tag(flame_prof_waits_graph:tag()) -> unicode:chardata().
tag({atom, Atom}) -> visible(io_lib:format("~tw", [Atom]));
tag({tuple, _, 0}) -> "{}";
tag({tuple, Atom, Arity}) when Arity > ?ARITY -> [${, first_of(Atom), ",_,...}"];
tag({tuple, Atom, Arity}) -> [${, first_of(Atom), lists:duplicate(Arity - 1, ",_"), $}];
tag(_) -> "_".

first_of(any) -> "_";
first_of(Atom) -> tag({atom, Atom}).

%% JSON.

%% @doc For {@link flame_prof_json}.
-spec json(flame_prof_waits:look() | #{more_edges := non_neg_integer(), _ => _}) ->
    #{atom() => term()}.
json(#{edges := Edges, deadlocks := Dead, suspects := Maybe, roots := Roots} = Look) ->
    Plain = maps:with([node, engine, engine_reason, looks, more_roots, more_edges, unchecked,
        counts, missing], Look),
    Chain = [{chain, json_node(Chain)} || #{chain := Chain} <- [Look]],
    Map = maps:merge(Plain, maps:from_list(Chain)),
    Map#{
        edges => [json_edge(Edge) || Edge <- Edges],
        deadlocks => [json_node(Held) || Held <- Dead],
        suspects => [json_node(Held) || Held <- Maybe],
        ended => [json_ended(Ended) || Ended <- maps:get(ended, Look, [])],
        roots => [json_node(Root) || Root <- Roots],
        processes => json_all(maps:get(processes, Look)),
        receives => [#{function => text(mfa(Site)), takes => json_takes(Takes), processes => N}
            || {Site, Takes, N} <- maps:get(receives, Look)],
        unknown => [#{function => text(mfa(Site)), processes => N}
            || {Site, N} <- maps:get(unknown, Look)]
    }.

text(Text) -> unicode:characters_to_binary(Text).

json_node(What) ->
    maps:map(
        fun
            (process, Node) -> target(Node);
            (edges, Edges) -> [json_edge(Edge) || Edge <- Edges];
            (waiters, Trees) -> [json_tree(Tree) || Tree <- Trees];
            (waits, #{how := How, to := To}) -> #{how => How, to => target(To)};
            (ends, {root, Node}) -> target(Node);
            (_, Value) -> Value
        end,
        What
    ).

json_ended(#{exited := Exited, processes := Processes} = Ended) ->
    json_node(Ended#{exited := [target(Pid) || Pid <- Exited], processes := json_all(Processes)}).

json_all(Processes) ->
    maps:from_list([{text(pid(Pid)), json_told(Told)} || {Pid, Told} <- maps:to_list(Processes)]).

json_tree(#{edge := Edge} = Tree) ->
    maps:merge(json_node(maps:remove(edge, Tree)), maps:remove(to, json_edge(Edge))).

json_edge(Edge) ->
    maps:map(
        fun
            (site, Site) -> text(mfa(Site));
            (ref, Ref) -> ref(Ref);
            (tag, unknown) -> undefined;
            (tag, Tag) -> text(tag(Tag));
            (Key, Target) when Key =:= from; Key =:= to -> target(Target);
            (_, Value) -> Value
        end,
        Edge
    ).

ref(none) -> undefined;
ref({A, B, C}) -> text(io_lib:format("~b.~b.~b", [C, B, A])).

target(Pid) when is_pid(Pid) -> text(pid(Pid));
target({lock, global, Name}) -> text(["lock ", atom_to_binary(Name)]);
target({Name, Node}) -> text([atom_to_binary(Node), "/", atom_to_binary(Name)]);
target(Port) when is_port(Port) -> text(port(Port));
target(Word) -> Word.

json_takes(#{forms := Forms}) -> [text(tag(Form)) || Form <- Forms];
json_takes(unknown) -> undefined;
json_takes(Word) -> Word.

json_told(Told) ->
    maps:map(
        fun
            (stack, Stack) -> [text(Line) || Line <- flame_prof_pstack:lines(#{stack => Stack})];
            (label, Label) -> text(label(Label));
            (takes, Takes) -> json_takes(Takes);
            (Key, Call) when Key =:= initial_call; Key =:= proc_lib_initial_call ->
                text(mfa(Call));
            (serves, #{tag := Tag, ref := Ref, from := From} = Served) ->
                Served#{tag := text(tag(Tag)), ref := ref(Ref), from := served_by(From)};
            (_, Value) -> Value
        end,
        Told
    ).

served_by(none) -> undefined;
served_by(Pid) -> target(Pid).
