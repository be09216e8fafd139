%% @doc All refc binaries of the node, by the processes that refer to them: how many, how large,
%% what is only theirs, what their mailbox has, and for the largest what they pin and do not use.
%%
%% ```
%% 1> {ok, #{memory := Bytes, found := Found, holders := [#{process := Pid} | _]} = Look} =
%%        flame_prof_binaries:look(#{for => 5000}).
%% 2> io:put_chars(flame_prof_binaries:format(Look)).
%% '''
%%
%% == Why it is safe in production ==
%% No process is asked, collected or stopped: `bin_leak' collects every process, and
%% `process_info(P, binary)' makes each build a list. Here the lists that the VM keeps of each
%% process are followed by safe reads, on a dirty scheduler, with at most `memory_budget'.
%%
%% == How exact it is ==
%% A binary counts once, by its address. Bytes are those of its block in the allocator, with all
%% headers, so they add up to `erlang:memory(binary)'. What the lists of a process have is told when
%% they began with the same objects and messages before and after, and it did not collect.
%% A process that was never so is read up to four times: then it is `partial', and counted in
%% `moved'.
%%
%% Tables, queues of ports, timers and literals are not looked through. What only they refer to is
%% in `no_holder'.
%%
%% Before it, two processes of flame_prof's own, whose binaries are known, are looked at. Where
%% these are not told as they are, the look is refused.
-module(flame_prof_binaries).

-include("flame_prof_internal.hrl").

-export([look/0, look/1, with_pins/1, format/1]).

-export_type([look/0, holder/0, pin/0, options/0]).

-type options() ::
    #{
        for => non_neg_integer() | flame_prof_options:left_out(),
        walked => 0..100 | flame_prof_options:left_out(),
        memory_budget => pos_integer() | flame_prof_options:left_out(),
        time_limit => pos_integer() | flame_prof_options:left_out()
    }.
%% `for': milliseconds between two looks, of which the second is told, with what has grown (0: one
%% look). `walked': holders whose heap is looked through for what they pin (5), each for at most a
%% second. `memory_budget': bytes that a look takes at most (64 MiB, for 390,000 binaries).
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
    process := pid(),
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
%% `alone': bytes that nothing else refers to. `message_*': what messages refer to, and the heap
%% does not. `function': what it runs or waits in. `grown': bytes since the first look; `unknown'
%% where that one had too many holders. `pinned': bytes of binaries that no term shows; `unknown'
%% for a process that did not stand still.

-type look() ::
    #{
        memory => non_neg_integer(),
        found := non_neg_integer(),
        no_holder => non_neg_integer(),
        binaries := non_neg_integer(),
        elsewhere := non_neg_integer(),
        elsewhere_bytes := non_neg_integer(),
        processes := non_neg_integer(),
        all_holders := non_neg_integer(),
        moved := non_neg_integer(),
        holders := [holder()],
        growing => [holder()],
        grown => #{ms := pos_integer(), memory => integer(), found := integer()},
        names := #{pid() => flame_prof_mailbox:name()},
        cpu_ns := non_neg_integer(),
        unknown := [binary()]
    }.
%% `memory': bytes that the VM has for binaries; `found': of those that have a holder, `binaries' of
%% them; `no_holder': the rest. `elsewhere': of the found ones, those that tables, ports or others
%% refer to, too. `holders': the 50 with the most bytes, of `all_holders'; `growing': the 20 that
%% have grown most.

-define(HOLDERS, 50).
-define(GROWING, 20).
%% What the first of two looks keeps.
-define(ROWS, 10000).
-define(WALK_MS, 1000).
-define(WALK_BYTES, 64 bsl 20).
-define(ATTEMPTS, 200).
-define(PROBE_KB, 16384).

%% @equiv look(#{})
-spec look() -> {ok, look()} | {error, flame_prof:reason()}.
look() ->
    look(#{}).

%% @doc Looks at all processes of this node.
-spec look(options()) -> {ok, look()} | {error, flame_prof:reason()}.
look(Options) ->
    case flame_prof_schema:checked(rows(), Options) of
        {ok, Checked} ->
            case flame_prof_engine:choose(native) of
                {ok, _} -> verified(verify(), Checked);
                {error, _} = Refusal -> Refusal
            end;
        {error, _} = Error ->
            Error
    end.

rows() ->
    [
        #{key => for, type => {whole, ms, 0, 600000}, default => 0},
        #{key => walked, type => {whole, count, 0, 100}, default => 5},
        #{key => memory_budget, type => {whole, bytes, 16 bsl 20, 1 bsl 40}, default => 64 bsl 20},
        #{key => time_limit, type => {whole, ms, 1, 600000}, default => 10000}
    ].

verified(ok, #{for := 0} = Options) ->
    told(read(all, Options), Options);
verified(ok, #{for := Ms} = Options) ->
    case read(all, Options) of
        {ok, Before} ->
            timer:sleep(Ms),
            grown(Before, read(all, Options), Options);
        {error, _} = Error ->
            failed(Error, Options)
    end;
verified({error, Why}, _) ->
    refused(Why, terms).

read(Pids, #{memory_budget := Bytes, time_limit := Ms}) ->
    Limits = #{kilobytes => Bytes bsr 10, time_ms => Ms, rows => ?ROWS},
    case flame_prof_nif:binaries_look(Pids, Limits) of
        {ok, Read} -> {ok, maps:merge(Read, memory())};
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

failed({error, full}, #{memory_budget := Bytes}) ->
    Why = io_lib:format("there are more binaries, or processes that hold some, than a memory_budget"
        " of ~b bytes has room for", [Bytes]),
    {error, {memory, #{reason => iolist_to_binary(Why)}}};
failed({error, {unsupported, Why}}, _) ->
    refused(Why, queues);
failed({error, Error}, _) ->
    refused(["the binaries could not be read: ", atom_to_binary(Error)], Error).

refused(Why, Cause) ->
    {error, {engine, #{engine => native, reason => iolist_to_binary(Why), cause => Cause}}}.

told({ok, #{rows := Rows} = Read}, Options) ->
    Holders = [holder(Row) || Row <- lists:sublist(Rows, ?HOLDERS)],
    {ok, with_names(Read, #{holders => walked(Holders, Options)})};
told(Error, Options) ->
    failed(Error, Options).

holder({Pid, Binaries, Bytes, Alone, MessageBinaries, MessageBytes, IsPartial}) ->
    #{
        process => Pid,
        binaries => Binaries,
        bytes => Bytes,
        alone => Alone,
        message_binaries => MessageBinaries,
        message_bytes => MessageBytes,
        partial => IsPartial
    }.

%% Two looks.

grown(#{rows := First, holders := All, bytes := Found} = Before, {ok, Read}, Options) ->
    Had = maps:from_list([{Pid, Was} || {Pid, _, Was, _, _, _, false} <- First]),
    %% A process that is not among all of them had none, if all could be looked at.
    Unseen = maps:get(moved, Before) + maps:get(late, Before),
    Other = case length(First) < All orelse Unseen > 0 of true -> unknown; false -> 0 end,
    Holders = [growth(holder(Row), Had, Other) || Row <- maps:get(rows, Read)],
    Grown = lists:reverse(lists:keysort(1,
        [{Bytes, Row} || #{grown := Bytes} = Row <- Holders, is_integer(Bytes), Bytes > 0])),
    Sums = maps:from_list(
        [{memory, maps:get(memory, Read) - Was} || #{memory := Was} <- [Before],
            is_map_key(memory, Read)]),
    {ok, with_names(Read, #{
        holders => walked(lists:sublist(Holders, ?HOLDERS), Options),
        growing => [Row || {_, Row} <- lists:sublist(Grown, ?GROWING)],
        grown => Sums#{ms => maps:get(for, Options), found => maps:get(bytes, Read) - Found}
    })};
grown(_, Error, Options) ->
    failed(Error, Options).

growth(#{process := Pid, bytes := Bytes} = Holder, Had, Other) ->
    case maps:get(Pid, Had, Other) of
        unknown -> Holder#{grown => unknown};
        Was -> Holder#{grown => Bytes - Was}
    end.

%% What the first of them pin.

walked(Holders, #{walked := N}) ->
    {First, Rest} = lists:split(min(N, length(Holders)), Holders),
    [with_pins(Holder) || Holder <- First] ++ Rest.

%% @private Its heap is looked through, for a second at most.
-spec with_pins(holder()) -> holder().
with_pins(#{process := Pid} = Holder) ->
    case flame_prof_xray:look(Pid, #{time_limit => ?WALK_MS, memory_budget => ?WALK_BYTES}) of
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
    Functions = functions(Pids),
    Look = Told#{
        found => maps:get(bytes, Read),
        binaries => maps:get(binaries, Read),
        elsewhere => maps:get(elsewhere, Read),
        elsewhere_bytes => maps:get(elsewhere_bytes, Read),
        processes => maps:get(processes, Read),
        all_holders => maps:get(holders, Read),
        moved => maps:get(moved, Read),
        cpu_ns => maps:get(cpu_ns, Read),
        names => flame_prof_mailbox:names(Pids),
        unknown => unknown(Read)
    },
    with_memory(Read, maps:map(
        fun
            (Key, Rows) when Key =:= holders; Key =:= growing ->
                [maps:merge(Row, maps:get(Pid, Functions, #{})) || #{process := Pid} = Row <- Rows];
            (_, Value) ->
                Value
        end,
        Look)).

with_memory(#{memory := Memory, bytes := Found}, Look) ->
    Look#{memory => Memory, no_holder => max(0, Memory - Found)};
with_memory(_, Look) ->
    Look.

functions(Pids) ->
    maps:from_list([{Pid, #{function => Frame}}
        || {Pid, #{frame := Frame}} <- flame_prof_top_reader:read(native, bare, Pids),
        Frame =/= <<>>]).

unknown(Read) ->
    #{moved := Moved, late := Late, undecoded := Undecoded, buffers_unknown := Buffers} = Read,
    Told = [
        {Moved, " processes, in part: they collected or took messages at each of four attempts"},
        {Late, " processes: the time_limit was over"},
        {Undecoded, " messages of other nodes, which are not decoded yet"},
        {Buffers, " processes, in part: messages in the buffers of their senders"}
    ],
    [iolist_to_binary([integer_to_list(N), Why]) || {N, Why} <- Told, N > 0] ++
        [<<"what the VM has for binaries: binary_alloc was not found">>
         || not is_map_key(memory, Read)].

%% @doc As text.
-spec format(look()) -> unicode:chardata().
format(Look) -> flame_prof_binaries_text:format(Look).

%%% ------------------------------------------------------------------- probes --

%% One has binaries on its heap, of one of them only a part, and one that it appends to, which has
%% room for more; the other has them in a message.
verify() ->
    {Holding, M1} = spawn_monitor(fun() ->
        Part = binary:part(binary:copy(<<2>>, 70000), 100, 100),
        hold([binary:copy(<<1>>, 1000), Part, appended(1000, <<>>)])
    end),
    {Sent, M2} = spawn_opt(fun() -> hold([]) end, [monitor, {message_queue_data, off_heap}]),
    Sent ! [binary:copy(<<3>>, 2000), binary:copy(<<4>>, 3000)],
    try
        case is_seen(Holding, {3, 0}, 72000, ?ATTEMPTS) andalso
            is_seen(Sent, {2, 2}, 5000, ?ATTEMPTS)
        of
            true -> ok;
            false -> {error, <<"binaries are not laid out as this release's sources say">>}
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
    case flame_prof_nif:binaries_look([Pid], Limits) of
        {ok, #{rows := [{Pid, All, Has, _, Messages, _, false}]}} when
            Has >= Bytes, Has =< Bytes + All * 1024
        ->
            true;
        _ ->
            timer:sleep(1),
            is_seen(Pid, Binaries, Bytes, Attempts - 1)
    end.
