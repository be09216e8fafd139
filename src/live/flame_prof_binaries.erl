%% @doc All refc binaries of the node, by the processes and ETS tables that refer to them: how many,
%% how large, what is only theirs, what mailboxes have, and for the largest processes what they pin
%% and do not use.
%%
%% ```
%% 1> {ok, #{memory := Bytes, found := Found, holders := [Holder | _]} = Look} =
%%        flame_prof:look(binaries, #{for => 5000}).
%% 2> io:put_chars(flame_prof_binaries:format(Look)).
%% '''
%%
%% == Why it is safe in production ==
%% No process is asked, collected or stopped: `bin_leak' collects every process, and
%% `process_info(P, binary)' makes each build a list. Here the lists that the VM keeps of each
%% process, and the objects of tables, are followed by safe reads, on a dirty scheduler, with at
%% most `max_memory'. No table is locked, fixed or asked.
%%
%% == How exact it is ==
%% A binary counts once, by its address. Bytes are those of its block in the allocator, with all
%% headers, so they add up to `erlang:memory(binary)'. What the lists of a process have is told when
%% they began with the same objects and messages before and after, and it did not collect.
%% A process that was never so is read up to four times: then it is `partial', and counted in
%% `moved'.
%%
%% An object of a table is told when it is linked as before after its binaries were read. Tables
%% with objects of which that is not so, that shrank or went meanwhile, or of which fewer objects
%% were met than they have, are `partial', too, and counted in `tables_moved'. `alone' of a table
%% that grows meanwhile is an upper bound.
%%
%% `not_looked_in' names what is not read: queues of ports, timers, literals. Binaries that only
%% these hold are in `no_holder'.
%%
%% Before it, two processes of flame_prof's own, whose binaries are known, are looked at. If these
%% are reported wrongly, the look is refused.
-module(flame_prof_binaries).

-include("flame_prof_internal.hrl").

-behaviour(flame_prof_look).

-export([look/0, look/1, with_pins/1, format/1]).
-export([about/0, takes/0, run/2, text/2, json/1, longest_ms/1]).

-export_type([look/0, holder/0, pin/0, options/0]).

-type options() ::
    #{
        node => node() | flame_prof_options:left_out(),
        for => non_neg_integer() | flame_prof_options:left_out(),
        walked => 0..100 | flame_prof_options:left_out(),
        max_memory => pos_integer() | flame_prof_options:left_out(),
        time_limit => pos_integer() | flame_prof_options:left_out()
    }.
%% `for': milliseconds between two looks, of which the second is told, with what has grown (0: one
%% look). `walked': holders whose heap is looked through for what they pin (5), each for at most a
%% second. `max_memory': bytes that a look takes at most (64 MiB, for 390,000 binaries);
%% `memory_budget' is an older name. `node': of which node; {@link flame_prof} takes it.
%% `time_limit': milliseconds of a look (10,000).

-type pin() :: #{
    path := binary(),
    binaries := pos_integer(),
    bytes := non_neg_integer(),
    shown_bytes := non_neg_integer()
}.
%% The way to terms that show a part of larger binaries, as in {@link flame_prof_xray}: it begins
%% with the function on the stack that holds them.

-type holder() :: #{
    kind := process | table,
    process => pid(),
    table => atom(),
    owner => pid(),
    binaries := pos_integer(),
    bytes := non_neg_integer(),
    alone := non_neg_integer(),
    message_binaries := non_neg_integer(),
    message_bytes := non_neg_integer(),
    partial := boolean(),
    function => binary(),
    grown => integer() | unknown,
    pinned => non_neg_integer() | unknown,
    pins => [pin()]
}.
%% A process has `process'; a table its name in `table', and `owner'. `alone': bytes that nothing
%% else refers to. `message_*': what messages refer to, and the heap does not; 0 of a table.
%% `function': what a process runs or waits in. `grown': bytes since the first look; `unknown' where
%% that one had too many holders. `pinned': bytes of binaries that no term of a process shows;
%% `unknown' for one that did not stand still.

-type look() ::
    #{
        memory => non_neg_integer(),
        found := non_neg_integer(),
        no_holder => non_neg_integer(),
        binaries := non_neg_integer(),
        elsewhere := non_neg_integer(),
        elsewhere_bytes := non_neg_integer(),
        processes := non_neg_integer(),
        tables => non_neg_integer(),
        tables_moved := non_neg_integer(),
        not_looked_in := [binary()],
        all_holders := non_neg_integer(),
        own_bytes => non_neg_integer(),
        moved := non_neg_integer(),
        holders := [holder()],
        growing => [holder()],
        grown => #{ms := pos_integer(), memory => integer(), found := integer()},
        names := #{pid() => flame_prof_mailbox:name()},
        cpu_ns := non_neg_integer(),
        unknown := [binary()]
    }.
%% `memory': bytes that the VM has for binaries; `found': of those that have a holder, `binaries' of
%% them; `no_holder': the rest, of `not_looked_in' or of nothing. `elsewhere': of the
%% found ones, those that one of these refers to, too. `own_bytes': of the found ones, those that
%% processes of flame_prof hold, which are not among the holders. `tables': of the node; none where
%% they cannot be looked through. `holders': the 50 with the most bytes, of `all_holders';
%% `growing': the 20 that have grown most.

-define(HOLDERS, 50).
-define(GROWING, 20).
%% The state that the first of two looks keeps.
-define(ROWS, 10000).
-define(WALK_MS, 1000).
-define(WALK_BYTES, 64 bsl 20).
-define(ATTEMPTS, 200).
-define(PROBE_KB, 16384).
-define(NOT_LOOKED_IN, [<<"queues of ports">>, <<"timers">>, <<"literals">>, <<"objects of NIFs">>,
    <<"undecoded messages">>]).

%% @private
-spec look() -> {ok, look()} | {error, flame_prof:reason()}.
look() ->
    look(#{}).

%% @private Looks at all processes and tables of this node.
-spec look(options()) -> {ok, look()} | {error, flame_prof:reason()}.
look(Options) ->
    case flame_prof_schema:checked(rows(), Options) of
        {ok, Checked} ->
            case flame_prof_engine:choose(native) of
                {ok, _} -> flame_prof_looks:with(fun() -> verified(verify(), Checked) end);
                {error, _} = Refusal -> Refusal
            end;
        {error, _} = Error ->
            Error
    end.

rows() ->
    [
        #{key => for, type => {whole, ms, 0, 600000}, default => 0,
            doc => "time between two looks, for growth"},
        #{key => walked, type => {whole, count, 0, 100}, default => 5,
            doc => "holders whose heaps are read"},
        flame_prof_look_options:max_memory(64 bsl 20),
        flame_prof_look_options:time_limit(10000, 600000)
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => binaries,
        group => memory,
        asks => "the processes and tables that hold the binaries",
        sentence => "Processes and ETS tables that hold the refc binaries, their growth, and "
            "binaries kept by small parts.",
        cost => "Costs 50 ms of CPU for 100,000 binaries in 1,000 processes, 0.3 s for 100,000 "
            "processes. No process is asked, stopped or collected, no table is locked.",
        shows => "The paths to binaries, with the atoms of records and map keys; no values.",
        argument => {node, optional, "node()", "NODE"},
        runs => there,
        library => needed,
        assistant => #{
            title => "Who holds the refc binaries",
            tells => [
                "Binaries of more than 64 bytes; a small part of a large binary keeps all of it: ",
                "shows a binary leak. Queues of ports, timers and literals are one sum. ",
                "Needs the native engine (Linux on x86_64)."],
            seconds => {for, 0.1, 30, "time between two looks, for growth (one look)"},
            options => [max_memory]
        },
        examples => ["binaries shop@myhost", "binaries shop@myhost --for 10s"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> rows().

%% @private
-spec run(node(), map()) -> {ok, look()} | {error, flame_prof:reason()}.
run(_Node, Options) -> look(maps:remove(node, Options)).

%% @private
-spec text(look(), pos_integer()) -> unicode:chardata().
text(Look, _Columns) -> format(Look).

%% @private
-spec json(look()) -> #{atom() => term()}.
json(Look) -> flame_prof_binaries_text:json(Look).

%% @private Two looks, and the heaps of the largest holders.
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{for := For, time_limit := Ms, walked := Walked}) ->
    For + 2 * Ms + Walked * ?WALK_MS.

verified(ok, Options) ->
    looked(flame_prof_binaries_tables:ensure(), Options);
verified({error, Why}, _) ->
    refused(Why, terms).

looked(Tables, #{for := 0} = Options) ->
    told(read(Tables, Options), Options);
looked(Tables, #{for := Ms} = Options) ->
    case read(Tables, Options) of
        {ok, Before} ->
            timer:sleep(Ms),
            grown(Before, read(Tables, Options), Options);
        {error, _} = Error ->
            failed(Error, Options)
    end.

read(Tables, #{max_memory := Bytes, time_limit := Ms}) ->
    Limits = #{kilobytes => Bytes bsr 10, time_ms => Ms, rows => ?ROWS},
    case flame_prof_looks_nif:binaries_look(all, Limits) of
        {ok, Read} -> {ok, (maps:merge(Read, memory()))#{layout => Tables}};
        {error, _} = Error -> Error
    end.

memory() ->
    case flame_prof_allocators:look() of
        {ok, Instances} ->
            Blocks = [Bytes || #{allocator := binary_alloc, blocks_bytes := Bytes} <- Instances],
            maps:from_list([{memory, lists:sum(Blocks)} || Blocks =/= []]);
        {error, _} ->
            #{}
    end.

failed({error, full}, #{max_memory := Bytes}) ->
    Why = io_lib:format("there are more binaries, or holders of some, than max_memory, ~b"
        " bytes, has room for", [Bytes]),
    {error, {memory, #{reason => iolist_to_binary(Why)}}};
failed({error, {unsupported, Why}}, _) ->
    refused(Why, queues);
failed({error, Error}, _) ->
    refused(["the binaries could not be read: ", atom_to_binary(Error)], Error).

refused(Why, Cause) ->
    {error, {engine, #{engine => native, reason => iolist_to_binary(Why), cause => Cause}}}.

told({ok, Read}, Options) ->
    {#{rows := Rows} = Of, Own} = without_own(Read),
    Holders = [holder(Row) || Row <- lists:sublist(Rows, ?HOLDERS)],
    {ok, with_names(Of, Own#{holders => walked(Holders, Options)})};
told(Error, Options) ->
    failed(Error, Options).

%% What flame_prof has for itself, as the library that is lent to a node, is no finding on the node.
%% The sums have it.
without_own(#{rows := Rows, holders := All} = Read) ->
    Pids = [case Who of {_, _, Owner} -> Owner; Pid -> Pid end || {Who, _, _, _, _, _, _} <- Rows],
    Names = flame_prof_mailbox:names(lists:usort(Pids)),
    {Own, Others} = lists:partition(fun
        ({{_, Name, Owner}, _, _, _, _, _, _}) ->
            flame_prof_own:is_module(Name) orelse
                flame_prof_own:is_own(maps:get(Owner, Names, #{}));
        ({Pid, _, _, _, _, _, _}) ->
            flame_prof_own:is_own(maps:get(Pid, Names, #{}))
    end, Rows),
    {Read#{rows := Others, holders := All - length(Own)}, maps:from_list(
        [{own_bytes, lists:sum([element(3, Row) || Row <- Own])} || Own =/= []])}.

holder({Who, Binaries, Bytes, Alone, MessageBinaries, MessageBytes, IsPartial}) ->
    (who(Who))#{
        binaries => Binaries,
        bytes => Bytes,
        alone => Alone,
        message_binaries => MessageBinaries,
        message_bytes => MessageBytes,
        partial => IsPartial
    }.

who({_, Name, Owner}) -> #{kind => table, table => Name, owner => Owner};
who(Pid) -> #{kind => process, process => Pid}.

%% A table may get another name or owner.
key({Numbers, _, _}) -> Numbers;
key(Pid) -> Pid.

%% Two looks.

grown(#{rows := First, bytes := Found} = Before, {ok, AllRead}, Options) ->
    {Read, Own} = without_own(AllRead),
    Had = maps:from_list([{key(Who), Was} || {Who, _, Was, _, _, _, false} <- First]),
    Process = had(Before, [moved, late]),
    Table = had(Before, [tables_moved, tables_late, tables_unread, tables_left_out]),
    Holders = [growth(Holder, maps:get(key(element(1, Row)), Had, Other))
        || Row <- maps:get(rows, Read),
           #{kind := Kind} = Holder <- [holder(Row)],
           Other <- [case Kind of process -> Process; table -> Table end]],
    Grown = lists:reverse(lists:keysort(1,
        [{Bytes, Row} || #{grown := Bytes} = Row <- Holders, is_integer(Bytes), Bytes > 0])),
    Sums = maps:from_list(
        [{memory, maps:get(memory, Read) - Was} || #{memory := Was} <- [Before],
            is_map_key(memory, Read)]),
    {ok, with_names(Read, Own#{
        holders => walked(lists:sublist(Holders, ?HOLDERS), Options),
        growing => [Row || {_, Row} <- lists:sublist(Grown, ?GROWING)],
        grown => Sums#{ms => maps:get(for, Options), found => maps:get(bytes, Read) - Found}
    })};
grown(_, Error, Options) ->
    failed(Error, Options).

%% One that is not among them: it had none, if all of its kind could be looked at.
had(#{rows := First, holders := All} = Before, Counted) ->
    Unseen = lists:sum([maps:get(Key, Before) || Key <- Counted]),
    case length(First) < All orelse Unseen > 0 of true -> unknown; false -> 0 end.

growth(Holder, unknown) -> Holder#{grown => unknown};
growth(#{bytes := Bytes} = Holder, Was) -> Holder#{grown => Bytes - Was}.

%% The binaries that the first processes of them pin.

walked([Holder | Rest], #{walked := N} = Options) when N > 0 ->
    Left = case Holder of #{kind := process} -> N - 1; _ -> N end,
    [with_pins(Holder) | walked(Rest, Options#{walked := Left})];
walked(Holders, _) ->
    Holders.

%% @private The heap of a process is looked through, for a second at most.
-spec with_pins(holder()) -> holder().
with_pins(#{kind := table} = Holder) ->
    Holder;
with_pins(#{process := Pid} = Holder) ->
    case flame_prof_xray:look(Pid, #{time_limit => ?WALK_MS, max_memory => ?WALK_BYTES}) of
        {ok, Xray} ->
            Pins = flame_prof_xray_text:pinned(Xray),
            Holder#{
                pinned => lists:sum([Bytes - Shown
                    || #{bytes := Bytes, shown_bytes := Shown} <- Pins]),
                pins => lists:sublist([Pin || #{bytes := Bytes, shown_bytes := Shown} = Pin <- Pins,
                    Bytes >= 2 * Shown], 3)
            };
        {error, _} ->
            Holder#{pinned => unknown}
    end.

%% Names and functions.

with_names(Read, #{holders := Holders} = Told) ->
    Named = Holders ++ maps:get(growing, Told, []),
    Pids = lists:usort([Pid || #{process := Pid} <- Named]),
    Owners = [Pid || #{owner := Pid} <- Named],
    Functions = functions(Pids),
    Look = (with_tables(Read, Told))#{
        found => maps:get(bytes, Read),
        binaries => maps:get(binaries, Read),
        elsewhere => maps:get(elsewhere, Read),
        elsewhere_bytes => maps:get(elsewhere_bytes, Read),
        processes => maps:get(processes, Read),
        all_holders => maps:get(holders, Read),
        moved => maps:get(moved, Read),
        cpu_ns => maps:get(cpu_ns, Read),
        names => flame_prof_mailbox:names(lists:usort(Pids ++ Owners)),
        unknown => unknown(Read)
    },
    with_memory(Read, maps:map(
        fun
            (Key, Rows) when Key =:= holders; Key =:= growing ->
                [maps:merge(Row, maps:get(maps:get(process, Row, none), Functions, #{}))
                    || Row <- Rows];
            (_, Value) ->
                Value
        end,
        Look)).

with_memory(#{memory := Memory, bytes := Found}, Look) ->
    Look#{memory => Memory, no_holder => max(0, Memory - Found)};
with_memory(_, Look) ->
    Look.

with_tables(#{layout := {error, _}} = Read, Told) ->
    not_looked_in([<<"ETS tables">>], Read, Told);
with_tables(#{tables := Tables, tables_unread := Unread} = Read, Told) ->
    In = [iolist_to_binary([integer_to_list(Unread),
        " ordered_set table", flame_prof_text:plural(Unread),
        " with write_concurrency, split by its writers"])
        || Unread > 0],
    not_looked_in(In, Read, Told#{tables => Tables}).

not_looked_in(Tables, #{tables_moved := Moved}, Told) ->
    Told#{tables_moved => Moved, not_looked_in => Tables ++ ?NOT_LOOKED_IN}.

functions(Pids) ->
    maps:from_list([{Pid, #{function => Frame}}
        || {Pid, #{frame := Frame}} <- flame_prof_top_reader:read(native, bare, Pids),
        Frame =/= <<>>, not flame_prof_own:is_in([Frame])]).

unknown(#{moved := Moved, late := Late, undecoded := Undecoded} = Read) ->
    #{buffers_unknown := Buffers, tables_moved := TablesMoved, tables_late := TablesLate} = Read,
    #{tables_left_out := LeftOut, inconsistent_objects := Changed} = Read,
    Told = [
        {Moved, " processes, in part: they collected or took messages at each of four attempts"},
        {Late, " processes: the time_limit was over"},
        {Undecoded, " messages of other nodes, which are not decoded yet"},
        {Buffers, " processes, in part: messages in the buffers of their senders"},
        {TablesMoved, " tables, in part: they were written during the look"},
        {Changed, " objects of tables, or paths to them: they changed while they were read"},
        {TablesLate, " tables, wholly or in part: the time_limit was over"},
        {LeftOut, " tables, or lists of them: they changed while they were read, or max_memory"
            " has no room for any"}
    ],
    [iolist_to_binary([integer_to_list(N), Why]) || {N, Why} <- Told, N > 0] ++
        [<<"the size of binary_alloc: it was not found">>
         || not is_map_key(memory, Read)] ++
        [<<"tables: ", Why/binary>> || #{layout := {error, Why}} <- [Read]].

%% @doc As text.
-spec format(look()) -> unicode:chardata().
format(Look) -> flame_prof_binaries_text:format(Look).

%%% ------------------------------------------------------------------- probes --

%% One has binaries on its heap, of one of them only a part, and one that it appends to, which has
%% room for more; the other has them in a message.
verify() -> flame_prof_term_probes:verify("binaries", fun attempt/0).

attempt() ->
    {Holding, M1} = spawn_opt(fun() ->
        Part = binary:part(binary:copy(<<2>>, 70000), 100, 100),
        hold([binary:copy(<<1>>, 1000), Part, appended(1000, <<>>)])
    end, [monitor, {priority, high}]),
    {Sent, M2} = spawn_opt(fun() -> hold([]) end,
        [monitor, {priority, high}, {message_queue_data, off_heap}]),
    Sent ! [binary:copy(<<3>>, 2000), binary:copy(<<4>>, 3000)],
    try
        case is_seen(Holding, {3, 0}, 72000, ?ATTEMPTS) andalso
            is_seen(Sent, {2, 2}, 5000, ?ATTEMPTS)
        of
            true -> ok;
            false ->
                case lists:all(fun(Pid) ->
                    flame_prof_term_probes:is_at_rest(Pid, {?MODULE, hold, 1})
                end, [Holding, Sent]) of
                    true -> wrong;
                    false -> unsure
                end
        end
    after
        _ = [exit(Pid, kill) || Pid <- [Holding, Sent]],
        _ = [erlang:demonitor(M, [flush]) || M <- [M1, M2]]
    end.

appended(0, Bytes) -> Bytes;
appended(N, Bytes) -> appended(N - 1, <<Bytes/binary, N>>).

hold(Terms) ->
    receive
        never -> hold(Terms)
    end.

%% It may not have come to where it waits. A block has some headers.
is_seen(_Pid, _Binaries, _Bytes, 0) ->
    false;
is_seen(Pid, {All, Messages} = Binaries, Bytes, Attempts) ->
    Limits = #{kilobytes => ?PROBE_KB, time_ms => 1000, rows => 1},
    case flame_prof_looks_nif:binaries_look([Pid], Limits) of
        {ok, #{rows := [{Pid, All, Has, _, Messages, _, false}]}} when
            Has >= Bytes, Has =< Bytes + All * 1024
        ->
            true;
        _ ->
            timer:sleep(1),
            is_seen(Pid, Binaries, Bytes, Attempts - 1)
    end.
