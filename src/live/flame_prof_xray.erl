%% @doc What a process holds: its memory by the ways that lead to it, from its stack, registers,
%% dictionary and mailbox; by type; and the binaries that it pins. {@link flame_prof:xray/1} prints
%% it.
%%
%% ```
%% 1> {ok, Xray} = flame_prof:look(xray, #{process => my_server}).
%% 2> #{memory := Bytes, reached := Reached, garbage := Garbage, paths := Paths} = Xray.
%% 3> io:put_chars(flame_prof_xray:format(Xray)).
%% <0.95.0> my_server my_server:init/1: 812M bytes, and 64M of binaries
%% ...
%% What holds it
%%   98.9%   867M  gen_server:loop/7 slot 3 > #state{}/7
%%   90.6%   794M    element 4 > map > key sessions > map > values > {session,_,_}
%% '''
%%
%% Told are shapes, and atoms: those that tuples begin with, and those that are keys of maps and of
%% the dictionary. No other part of a term leaves the memory in which it lies.
%%
%% == Why it is safe in production ==
%% The process is not asked, does not stop and does not notice; nothing of its heap is copied into
%% the VM's memory. (`sys:get_state' copies all of it, and the process does that itself;
%% `garbage_collect' stops it.) The heap is read from the outside, on a dirty scheduler, in steps of
%% some 10 ms, with at most `max_memory' of memory: some 2 s for a heap of 1 GB.
%%
%% == When there is an answer ==
%% It is exact: the process stood still from the beginning of the look to its end. If the process
%% ran, the look begins again until `time_limit'; then there is an error. So a process with a small
%% heap can be read while it works; one with a heap of a GB must wait for some seconds.
%%
%% Before it, two processes of flame_prof's own, whose terms are known, are looked at. If these are
%% reported wrongly, the look is refused.
-module(flame_prof_xray).

-include("flame_prof_internal.hrl").

-behaviour(flame_prof_look).

-export([look/1, look/2, format/1]).
-export([about/0, takes/0, run/2, text/2, json/1, longest_ms/1]).
%% In a process of its own.
-export([hibernated/1]).

-export_type([xray/0, path/0, step/0, shape/0, binaries/0, options/0]).

-type options() ::
    #{
        node => node() | flame_prof_options:left_out(),
        process => flame_prof_target:target() | flame_prof_options:left_out(),
        max_memory => pos_integer() | flame_prof_options:left_out(),
        time_limit => pos_integer() | flame_prof_options:left_out()
    }.
%% `max_memory': bytes that the look takes at most (64 MiB, from 16 MiB on: a heap takes 1/64 of its
%% size, and 30 MiB); `memory_budget' is an older name. `time_limit': milliseconds (10,000). `node'
%% and `process': {@link flame_prof} takes them.

-type key() :: {atom, atom()} | other.
%% `other': a key that is no atom, or one of too many.

-type step() ::
    {stack, mfa() | unknown, Line :: non_neg_integer(), Slot :: non_neg_integer()}
    | {register, non_neg_integer()}
    | {dictionary, key()}
    | message
    | own
    | {element, non_neg_integer()}
    | member
    | tail
    | keys
    | {value, key()}
    | {variable, non_neg_integer()}.
%% A step from a place to the next one. A slot is a variable of the function, as the compiler has
%% placed it. `own': the group leader, an exit reason or a token of the process itself. `member' of
%% a list, `variable' of a fun; an `element' of a tuple counts from 1, 0 is one behind the last that
%% is told.

-type shape() ::
    {tuple | record, key(), arity() | non_neg_integer()}
    | list
    | map
    | 'fun'
    | binary
    | heap_binary
    | number
    | identifier
    | none.
%% A tuple has the atom that it begins with, a native record its name. `number': floats and large
%% integers; `identifier': references, and pids and ports of other nodes; `heap_binary': of at most
%% 64 bytes, on the heap itself.

-type path() :: #{
    id := pos_integer(),
    parent := non_neg_integer(),
    step := step(),
    shape := shape(),
    heap := non_neg_integer(),
    objects := non_neg_integer(),
    binaries := non_neg_integer(),
    binary_bytes := non_neg_integer(),
    shown_bytes := non_neg_integer()
}.
%% Of all that this way leads to, each object once, at the first way that was found: bytes of the
%% heap, objects there, refc binaries that these refer to, their bytes, and how many of these bytes
%% the terms show. The others are pinned. `parent' is the `id' of a path before it, 0 for the
%% process. Paths with less than 0.3 % of the whole are left out.

-type binaries() :: #{
    count := non_neg_integer(), bytes := non_neg_integer(), shared_bytes := non_neg_integer()
}.
%% `shared_bytes': of those that others refer to, too.

-type xray() ::
    #{
        process := pid(),
        names := #{pid() => flame_prof_mailbox:name()},
        memory := non_neg_integer(),
        reached := non_neg_integer(),
        by_stack := non_neg_integer(),
        by_registers := non_neg_integer(),
        by_dictionary := non_neg_integer(),
        by_messages := non_neg_integer(),
        garbage := non_neg_integer(),
        free := non_neg_integer(),
        stack := non_neg_integer(),
        dictionary := non_neg_integer(),
        messages := non_neg_integer(),
        message_bytes := non_neg_integer(),
        undecoded := non_neg_integer(),
        literals := non_neg_integer(),
        binaries := binaries(),
        garbage_binaries := binaries(),
        paths := [path()],
        types := [{shape(), Bytes :: non_neg_integer(), Objects :: non_neg_integer()}],
        complete := boolean(),
        unknown := [binary()]
    }.
%% In bytes: `memory' as process_info/2 counts it, but for links and monitors. `reached': terms that
%% a way leads to, and by the root that it begins at. `garbage': terms that none leads to; the next
%% collection lets them go. `free': of the heap's blocks. `dictionary': its array. `message_bytes':
%% the structures of messages. `literals': references to literals and persistent terms, which belong
%% to no process and are in no other number.

%% Of which a purge is felt.
-define(LARGE_BYTES, 256 bsl 20).
-define(LEAVING,
    "\nWhen flame_prof leaves this node, the VM looks through this heap once for each module that\n"
    "it purges. The process is held up for a moment each time, for seconds in all.\n").

%% Some 10 ms.
-define(OBJECTS, 300000).
%% That what is known may take to come to where it waits, on a node that is busy.
%% Of one attempt.
-define(PROBE_MS, 300).
-define(PROBE_PAUSE_MS, 2).
-define(PROBE_BYTES, 64 bsl 20).

%% @private
-spec look(flame_prof_target:target()) -> {ok, xray()} | {error, flame_prof:reason()}.
look(Process) ->
    look(Process, #{}).

%% @private Looks at a process of this node, by pid, name, or the text of a pid.
-spec look(flame_prof_target:target(), options()) -> {ok, xray()} | {error, flame_prof:reason()}.
look(Process, Options) ->
    Self = self(),
    case {flame_prof_mailbox:target(Process), flame_prof_schema:checked(rows(), Options)} of
        {{ok, Self}, {ok, _} = Checked} -> elsewhere(Self, Checked);
        {Target, Checked} -> maybe_look(Target, Checked)
    end.

%% A process that looks does not stand still.
elsewhere(Self, Checked) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        Self ! {?MODULE, self(), maybe_look({ok, Self}, Checked)}
    end),
    receive
        {?MODULE, Pid, Answer} ->
            true = demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Pid, Reason} ->
            exit(Reason)
    end.

maybe_look({ok, Pid}, {ok, #{max_memory := Bytes, time_limit := Ms} = Options}) ->
    case flame_prof_engine:choose(native) of
        {ok, _} ->
            flame_prof_looks:with(fun() ->
                case verify() of
                    ok -> looked(Pid, Options, read(Pid, Bytes, Ms));
                    {error, Why} -> refused(Why, terms)
                end
            end);
        {error, _} = Refusal ->
            Refusal
    end;
maybe_look({error, _} = Error, _) -> Error;
maybe_look(_, {error, _} = Error) -> Error.

rows() ->
    [
        flame_prof_look_options:max_memory(64 bsl 20),
        flame_prof_look_options:time_limit(10000, 600000)
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => xray,
        group => memory,
        asks => "what one process holds, by path",
        sentence => "What a process holds: its memory by path and by type, and the binaries that "
            "it keeps.",
        cost => "Costs up to the time limit and max_memory on a dirty scheduler; the process goes "
            "on.",
        shows => "Shapes, the atoms that tuples begin with, the atoms that are keys; no values.",
        argument => {process, required, "flame_prof_target:target()", "PROCESS"},
        runs => there,
        library => needed,
        assistant => #{
            title => "What a process holds",
            tells => [
                "Memory by the paths from stack, dictionary and mailbox, by type, garbage, and "
                "the ",
                "binaries that it pins, with shapes and atoms but no values. A process that never ",
                "stands still is refused. Needs the native engine (Linux on x86_64)."],
            seconds => {time_limit, 0.1, 30, "of the reading (10)"},
            options => [max_memory]
        },
        examples => ["xray shop@myhost my_server",
            "xray shop@myhost '<0.85.0>' --time-limit 1m --max-memory 256"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> [flame_prof_look_options:process(one) | rows()].

%% @private
-spec run(node(), map()) -> {ok, xray()} | {error, flame_prof:reason()}.
run(_Node, #{process := Process} = Options) ->
    look(Process, maps:without([node, process], Options)).

%% @private
-spec text(xray(), pos_integer()) -> unicode:chardata().
text(Xray, _Columns) -> format(Xray).

%% @private
-spec json(xray()) -> #{atom() => term()}.
json(Xray) -> flame_prof_xray_text:json(Xray).

%% @private
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{time_limit := Ms}) -> Ms.

refused(Why, Cause) ->
    {error, {engine, #{engine => native, reason => iolist_to_binary(Why), cause => Cause}}}.

read(Pid, Bytes, Ms) ->
    case flame_prof_looks_nif:xray_open(Pid, #{kilobytes => Bytes bsr 10, time_ms => Ms}) of
        {ok, Xray} -> next(Xray);
        {error, Error} -> #{error => Error}
    end.

next(Xray) ->
    case flame_prof_looks_nif:xray_next(Xray, ?OBJECTS) of
        more -> next(Xray);
        Answer -> Answer
    end.

looked(Pid, _Options, #{error := none} = Answer) ->
    {ok, answered(Pid, Answer)};
looked(Pid, _Options, #{error := gone}) ->
    {error, {process, #{target => Pid}}};
looked(Pid, #{time_limit := Ms}, #{error := torn}) ->
    {error, {moved, #{target => Pid, ms => Ms}}};
looked(_Pid, #{max_memory := Bytes}, #{error := full, bytes_needed := Needed}) when
    Needed > Bytes
->
    Why = io_lib:format(
        "its heap needs ~b bytes of max_memory, which is ~b", [Needed, Bytes]),
    {error, {memory, #{reason => iolist_to_binary(Why)}}};
looked(_Pid, _Options, #{error := {unsupported, Why}}) ->
    refused(Why, queues);
looked(_Pid, _Options, #{error := Error}) ->
    refused(["the heap could not be read: ", atom_to_binary(Error)], Error).

answered(Pid, Answer) ->
    #{young := Young, old := Old, fragments := Fragments, message_terms := Messages} = Answer,
    #{stack := Stack, blocks := Blocks, reached := Reached, paths := Paths} = Answer,
    #{binaries := Binaries, garbage_binaries := Garbage, types := Types} = Answer,
    Plain = [memory, reached, by_stack, by_registers, by_dictionary, by_messages, stack,
        dictionary, messages, message_bytes, undecoded, literals, complete],
    (maps:with(Plain, Answer))#{
        process => Pid,
        names => flame_prof_mailbox:names([Pid]),
        garbage => Young + Old + Fragments + Messages - Reached,
        free => Blocks - Young - Old - Stack,
        binaries => binaries(Binaries),
        garbage_binaries => binaries(Garbage),
        paths => [path(Path) || Path <- Paths],
        types => lists:reverse(lists:keysort(2, Types)),
        unknown => unknown(Answer)
    }.

binaries({Count, Bytes, Shared}) ->
    #{count => Count, bytes => Bytes, shared_bytes => Shared}.

path({Id, Parent, Step, Shape, Heap, Objects, Binaries, Bytes, Shown}) ->
    #{
        id => Id,
        parent => Parent,
        step => Step,
        shape => Shape,
        heap => Heap,
        objects => Objects,
        binaries => Binaries,
        binary_bytes => Bytes,
        shown_bytes => Shown
    }.

unknown(#{left_out := LeftOut, binaries_untold := Untold, undecoded := Undecoded} = Answer) ->
    Told = [
        {LeftOut, " objects with all that they hold: nested too deep for max_memory"},
        {Untold, " references to binaries: too many for max_memory"},
        {Undecoded, " messages of other nodes, which are not decoded yet"}
    ],
    [iolist_to_binary([integer_to_list(N), Why]) || {N, Why} <- Told, N > 0] ++
        [<<"messages in the buffers of its senders">>
         || #{complete := false, left_out := 0, binaries_untold := 0} <- [Answer]].

%% @doc As text.
-spec format(xray()) -> unicode:chardata().
format(Xray) -> [flame_prof_xray_text:format(Xray), leaving(Xray)].

%% An agent's modules are purged at its end, and the VM looks through each heap once for each module
%% that has literals (erts_literal_area_collector): beam_bif_load.c.
leaving(#{memory := Bytes}) when Bytes >= ?LARGE_BYTES ->
    case whereis(flame_prof_agent) of
        undefined -> "";
        _ -> ?LEAVING
    end;
leaving(_) ->
    "".

%%% ------------------------------------------------------------------- probes --

%% What is known of this VM's terms is what c_src/xray says, or there is no answer: of a process
%% that hibernates each word on its heap is reached from the registers, and a message that a process
%% has taken lies in a fragment until it collects.
verify() -> flame_prof_term_probes:verify("terms", fun attempt/0).

attempt() ->
    {Hibernated, M1} = spawn_opt(fun() -> hibernating(terms(1)) end, [monitor, {priority, high}]),
    {Holding, M2} = spawn_opt(fun hold/0,
        [monitor, {priority, high}, {message_queue_data, off_heap}]),
    Message = {terms, terms(2)},
    Holding ! Message,
    Size = 8 * erts_debug:flat_size(Message),
    try
        case is_seen(Hibernated, fun hibernates/1) andalso
            is_seen(Holding, fun(Answer) -> holds(Answer, Size) end)
        of
            true ->
                ok;
            false ->
                %% A purge collects the message out of its fragment: there is nothing to see then.
                IsCollected = maps:get(fragments, read(Holding, ?PROBE_BYTES, 1000), 0) =:= 0,
                case not IsCollected andalso
                    flame_prof_term_probes:is_at_rest(Hibernated, {erlang, hibernate, 3}) andalso
                    flame_prof_term_probes:is_at_rest(Holding, {?MODULE, hold, 1}) of
                    true -> wrong;
                    false -> unsure
                end
        end
    after
        _ = [exit(Pid, kill) || Pid <- [Hibernated, Holding]],
        _ = [erlang:demonitor(M, [flush]) || M <- [M1, M2]]
    end.

%% None of them is a literal.
terms(N) ->
    Large = binary:copy(<<N>>, 1000),
    {
        flame_prof_xray,
        lists:seq(N, 50),
        #{N => [N], key => {N}},
        maps:from_list([{{K, N}, [K]} || K <- lists:seq(1, 100)]),
        N bsl 100,
        N / 3,
        fun(X) -> {X, N, Large} end,
        <<N, 1, 2, 3>>,
        binary:part(Large, 100, 100),
        make_ref()
    }.

hibernating(Terms) -> erlang:hibernate(?MODULE, hibernated, [Terms]).

%% @private
-spec hibernated(term()) -> no_return().
hibernated(Terms) -> hibernating(Terms).

hold() ->
    receive
        {terms, Terms} -> hold(Terms)
    end.

hold(Terms) ->
    receive
        never -> ok
    end,
    hold(Terms).

%% It may not have come to where it waits.
is_seen(Pid, Is) -> is_seen(Pid, Is, erlang:monotonic_time(millisecond) + ?PROBE_MS).

is_seen(Pid, Is, Until) ->
    IsLast = erlang:monotonic_time(millisecond) >= Until,
    case Is(read(Pid, ?PROBE_BYTES, 1000)) of
        true ->
            true;
        false when IsLast ->
            false;
        false ->
            timer:sleep(?PROBE_PAUSE_MS),
            is_seen(Pid, Is, Until)
    end.

%% Before its first turn it has other terms.
hibernates(#{error := none, young := Young, old := 0, reached := Young, binaries := {1, 1000, _},
    paths := Paths}) ->
    lists:any(fun(Path) -> element(2, Path) =:= 0 andalso is_register(element(3, Path)) end, Paths);
hibernates(_) ->
    false.

is_register({register, _}) -> true;
is_register(_) -> false.

%% The fragment has the message; the process holds but the terms in it. In 27 flat_size/1 counts the
%% three words of a fun's reference, which is a literal and stays where it is.
holds(#{error := none, fragments := Words, reached := Reached, memory := Memory} = Answer, Size) ->
    #{binaries := {Binaries, _, _}} = Answer,
    Words >= Size - 24 andalso Reached >= Size - 48 andalso Memory > Words andalso Binaries >= 1;
holds(_, _) ->
    false.
