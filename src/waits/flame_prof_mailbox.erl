%% @doc Who fills a mailbox, and with what: the messages that wait in it by sender and by tag, the
%% oldest ones, how much memory they take. {@link flame_prof:mailbox/1} prints it.
%%
%% ```
%% 1> {ok, Mailbox} = flame_prof:look(mailbox, #{process => my_server}).
%% 2> #{length := N, senders := [{Pid, Count} | _], tags := [{{Kind, Tag}, _} | _]} = Mailbox.
%% 3> io:put_chars(flame_prof_mailbox:format(Mailbox)).
%% <0.95.0> my_server my_server:init/1: 1,204,331 messages, 128M bytes
%%
%% Senders
%%   98.1%   1,181,449  <0.102.0> my_feed my_feed:run/1
%%    1.9%      22,882  node shop@host2
%%
%% Messages
%%   98.1%   1,181,449  cast:{update,_,_}
%%    1.9%      22,882  call:{get,_}
%% ...
%% '''
%%
%% A tag is the atom that a message is or begins with, behind the envelope of a behaviour: `{get,
%% _}' of a `gen_server:call(S, {get, Key})'. No other part of a message is told, or leaves the
%% memory in which it lies.
%%
%% == Why it is safe in production ==
%% The process is not asked, does not stop and does not notice; no message is copied into the VM.
%% (`process_info(Pid, messages)' copies all of them, and the process does that itself.) Its
%% queues are read from the outside, on a dirty scheduler, in steps of some 10 ms: some 200 ns a
%% message, 4 bytes a message and 6 MB while it lasts.
%%
%% == A queue that moves ==
%% The answer is about the moment at which the look began. Later messages are not in it. `taken'
%% counts the messages that the process takes during the look. `complete' says that the counts are
%% all messages of that moment. It is `false' where messages were taken just while they were read
%% (`doubtful'), where the time limit came, where the process moved faster than it could be
%% followed, and where the process ran at all: messages are told apart by their addresses, and the
%% memory of one that it takes may come to be that of another one.
%%
%% The portable engine has the length only: to ask a process for its messages copies them.
-module(flame_prof_mailbox).

-include("flame_prof_internal.hrl").

-behaviour(flame_prof_look).

-export([look/1, look/2, summary/2, format/1]).
-export([about/0, takes/0, run/2, text/2, json/1, longest_ms/1]).
-export([target/1, names/1, oldest/3]).

-export_type([mailbox/0, sender/0, tag/0, options/0, name/0]).

-type options() ::
    #{
        node => node() | flame_prof_options:left_out(),
        process => flame_prof_target:target() | flame_prof_options:left_out(),
        senders => pos_integer() | flame_prof_options:left_out(),
        tags => pos_integer() | flame_prof_options:left_out(),
        oldest => non_neg_integer() | flame_prof_options:left_out(),
        time_limit => pos_integer() | flame_prof_options:left_out(),
        engine => auto | native | portable | flame_prof_options:left_out()
    }.
%% How many of each are shown (20, at most 1,000 and 100); milliseconds (2,000). `node' and
%% `process': {@link flame_prof} takes them.

-type sender() :: pid() | port() | {node, node()} | atom().
%% `{node, Node}': some process of another node. An atom is what the VM writes for a sender:
%% `clock_service', `system', `undefined'; `unknown' where it has none.

-type tag() :: {kind(), {atom, atom()} | {tuple, atom(), arity()} | other | unknown}.
%% `other': a message without such an atom. `unknown': it is still as it came from another node, or
%% could not be read.

-type kind() ::
    call | cast | event | system | io | down | exit | timer | reply | info | unknown.
%% By the envelope: `call' and `cast' of gen_server and gen_statem, `event' of gen_event, `system'
%% of sys, `info' for all other messages.

-type name() :: #{registered_name => atom(), initial_call => mfa()} | exited.

-type mailbox() ::
    #{
        process := pid(),
        engine := flame_prof_engine:name(),
        length := non_neg_integer(),
        unknown := [binary()],
        counted => non_neg_integer(),
        complete => boolean(),
        moved => boolean(),
        taken => non_neg_integer(),
        doubtful => non_neg_integer(),
        senders => [{sender(), pos_integer()}],
        all_senders => non_neg_integer(),
        names => #{pid() => name()},
        tags => [{tag(), pos_integer()}],
        all_tags => non_neg_integer(),
        oldest => [{sender(), tag()}],
        signals => non_neg_integer(),
        undecoded => non_neg_integer(),
        memory => non_neg_integer(),
        on_heap => non_neg_integer()
    }.
%% `length' is what was counted, or the process's own counter where that is more. `unknown': missing
%% values, with the reasons. Senders and tags are the largest ones of `all_senders', `all_tags'.
%% `signals': exits, monitors, replies to an alias that wait to be handled; no messages. `memory':
%% bytes of the messages outside of the heap; those `on_heap' are in that of the process.

%% Some 10 ms.
-define(NODES, 65536).
%% In the table of the library.
-define(MILLIONS, 50).

%% @private
-spec look(flame_prof_target:target()) -> {ok, mailbox()} | {error, flame_prof:reason()}.
look(Process) ->
    look(Process, #{}).

%% @private Looks at the mailbox of a process of this node, by pid, name, or the text of a pid.
-spec look(flame_prof_target:target(), options()) ->
    {ok, mailbox()} | {error, flame_prof:reason()}.
look(Process, Options) ->
    case {target(Process), flame_prof_schema:checked(rows(), Options)} of
        {{ok, Pid}, {ok, #{engine := Engine} = Checked}} ->
            by(flame_prof_engine:choose(Engine), Pid, Checked);
        {{error, _} = Error, _} -> Error;
        {_, {error, _} = Error} -> Error
    end.

%% @private A part of a sentence: what a mailbox mostly has, and who sent it, found within so many
%% milliseconds. Empty where the native engine is not calibrated: this would take longer.
-spec summary(pid(), Ms :: non_neg_integer()) -> binary().
summary(Pid, Ms) when Ms > 0 ->
    Options = #{senders => 1, tags => 1, oldest => 0, time_limit => Ms, engine => native},
    try flame_prof_nif:layout_info() of
        #{} ->
            case look(Pid, Options) of
                {ok, Mailbox} -> flame_prof_mailbox_text:summary(Mailbox);
                {error, _} -> <<>>
            end;
        _ ->
            <<>>
    catch
        %% The library is not loaded.
        error:_ -> <<>>
    end;
summary(_, _) ->
    <<>>.

%% @private So many messages, from the oldest on, in so many milliseconds: without names and by the
%% native engine, which is calibrated. For many processes one after the other; the caller holds the
%% library.
-spec oldest(pid(), Most :: 1..100, Ms :: pos_integer()) ->
    {ok, [{sender(), tag()}]} | {error, term()}.
oldest(Pid, Most, Ms) ->
    Limits = #{rows => 1, oldest => Most, time_ms => Ms, millions => ?MILLIONS},
    case opened(Pid, Limits) of
        {ok, Answer} -> {ok, oldest(Answer)};
        {error, _} = Error -> Error
    end.

oldest(#{oldest := Oldest}) -> [{sender(Sender), Tag} || {Sender, Tag} <- Oldest].

rows() ->
    [
        #{key => senders, type => {whole, count, 1, 1000}, default => 20,
            doc => "senders to show"},
        #{key => tags, type => {whole, count, 1, 1000}, default => 20,
            doc => "kinds of messages to show"},
        #{key => oldest, type => {whole, count, 0, 100}, default => 20,
            doc => "of the oldest messages to show"},
        flame_prof_look_options:time_limit(2000, 60000),
        flame_prof_look_options:engine()
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => mailbox,
        group => waiting,
        asks => "senders and messages in the mailbox of a process",
        sentence => "The mailbox of a process: messages by sender and by tag, the oldest "
            "messages, and their memory.",
        cost => "Costs up to the time limit on a dirty scheduler; the process is not "
            "interrupted, and no message is copied.",
        shows => "The tag atom of each message, and its sender; no contents.",
        argument => {process, required, "flame_prof_target:target()", "PROCESS"},
        runs => there,
        library => useful,
        assistant => #{
            title => "A mailbox",
            tells => ["Only the tag atom of a message and its sender are read: no contents."],
            seconds => {time_limit, 0.1, 30, "of the reading (2)"},
            options => [senders, tags, oldest]
        },
        examples => ["mailbox shop@myhost my_server",
            "mailbox shop@myhost '<0.85.0>' --oldest 100 --json"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> [flame_prof_look_options:process(one) | rows()].

%% @private
-spec run(node(), map()) -> {ok, mailbox()} | {error, flame_prof:reason()}.
run(_Node, #{process := Process} = Options) ->
    look(Process, maps:without([node, process], Options)).

%% @private
-spec text(mailbox(), pos_integer()) -> unicode:chardata().
text(Mailbox, _Columns) -> format(Mailbox).

%% @private
-spec json(mailbox()) -> #{atom() => term()}.
json(Mailbox) -> flame_prof_mailbox_text:json(Mailbox).

%% @private
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{time_limit := Ms}) -> Ms.

%% @private The process of this node that is meant.
-spec target(term()) -> {ok, pid()} | {error, flame_prof:reason()}.
target(Process) ->
    case flame_prof_target:parse(Process) of
        {ok, [Target]} ->
            flame_prof_target:found(Target);
        _ ->
            Accepted = flame_prof_target:accepts(),
            {error, {badarg, #{argument => process, value => Process, accepted => Accepted}}}
    end.

%% The length needs no library.
by({error, {library, _}}, Pid, #{engine := Wanted}) when Wanted =/= native ->
    portable(Pid, <<"the C library did not load">>);
by({error, _} = Refusal, _Pid, _Options) ->
    Refusal;
by({ok, #{engine := portable, engine_reason := Why}}, Pid, _Options) ->
    portable(Pid, Why);
by({ok, #{engine := native}}, Pid, #{engine := Wanted} = Options) ->
    #{senders := Senders, tags := Tags, oldest := Oldest, time_limit := Ms} = Options,
    Limits = #{
        rows => max(Senders, Tags), oldest => Oldest, time_ms => Ms, millions => ?MILLIONS
    },
    case flame_prof_looks:with(fun() -> opened(Pid, Limits) end) of
        {ok, Read} ->
            native(Pid, Read, Options);
        {error, {library, #{reason := Why}}} when Wanted =:= auto ->
            portable(Pid, Why);
        {error, {library, _}} = Error ->
            Error;
        {error, gone} ->
            gone(Pid);
        {error, {unsupported, Why}} when Wanted =:= auto ->
            portable(Pid, Why);
        {error, {unsupported, Why}} ->
            {error, {engine, #{engine => native, reason => Why, cause => queues}}};
        {error, Error} ->
            Why = iolist_to_binary(["the mailbox could not be read: ", atom_to_binary(Error)]),
            {error, {engine, #{engine => native, reason => Why, cause => Error}}}
    end.

opened(Pid, Limits) ->
    case flame_prof_looks_nif:mailbox_open(Pid, Limits) of
        {ok, Mailbox} -> {ok, read(Mailbox)};
        {error, _} = Error -> Error
    end.

read(Mailbox) ->
    case flame_prof_looks_nif:mailbox_next(Mailbox, ?NODES) of
        more -> read(Mailbox);
        Answer -> Answer
    end.

gone(Pid) ->
    {error, {process, #{target => Pid}}}.

%% The results of the library are returned, and its gaps are named.

native(Pid, #{error := gone, messages := 0}, _Options) ->
    gone(Pid);
native(Pid, Answer, Options) ->
    #{messages := Counted, expected := Expected, senders := Senders, tags := Tags} = Answer,
    Told = [{sender(S), N} || {S, N} <- lists:sublist(Senders, maps:get(senders, Options))],
    Oldest = oldest(Answer),
    Pids = lists:usort([S || {S, _} <- Told ++ Oldest, is_pid(S)]),
    Plain = [complete, moved, taken, doubtful, signals, undecoded, on_heap],
    {ok, (maps:with(Plain, Answer))#{
        process => Pid,
        engine => native,
        length => longest(Counted, Expected, Answer),
        counted => Counted,
        senders => Told,
        all_senders => maps:get(all_senders, Answer),
        tags => lists:sublist(Tags, maps:get(tags, Options)),
        all_tags => maps:get(all_tags, Answer),
        oldest => Oldest,
        names => names(lists:usort([Pid | Pids])),
        memory => maps:get(bytes, Answer),
        unknown => unknown(Answer)
    }}.

longest(Counted, _, #{complete := true}) -> Counted;
longest(Counted, Expected, _) when is_integer(Expected) -> max(Counted, Expected);
longest(Counted, unknown, _) -> Counted.

%% Names of nodes have an @, other atoms are the VM's own.
sender(Atom) when is_atom(Atom) ->
    case lists:member($@, atom_to_list(Atom)) of
        true -> {node, Atom};
        false -> Atom
    end;
sender(Sender) ->
    Sender.

unknown(Answer) ->
    lists:append([
        [<<"messages in the buffers of its senders">> || #{buffers_unknown := true} <- [Answer]],
        [moved(Answer) || #{complete := false, buffers_unknown := false} <- [Answer]],
        [
            <<"senders of ", (integer_to_binary(N))/binary, " messages: too many different ones">>
         || #{untold_senders := N} <- [Answer], N > 0
        ],
        [
            <<"tags of ", (integer_to_binary(N))/binary, " messages: too many different ones">>
         || #{untold_tags := N} <- [Answer], N > 0
        ]
    ]).

moved(#{error := gone}) -> <<"the rest: the process has exited">>;
moved(#{error := torn}) -> <<"the rest: the queue changed faster than it could be read">>;
moved(#{error := none, ended := false}) ->
    <<"the rest: the look reached its limit of time or of messages">>;
moved(#{error := none, doubtful := 0}) ->
    <<"whether all of them were there when the look began: the process ran during the look">>;
moved(#{error := none}) -> <<"messages that were taken while they were read">>;
moved(#{error := Error}) -> <<"the rest: ", (atom_to_binary(Error))/binary>>.

%% @private Read out of memory, too; a process may have exited.
-spec names([pid()]) -> #{pid() => name()}.
names(Pids) ->
    case flame_prof_nif:snapshot([brief | Pids]) of
        Seen when is_list(Seen) ->
            maps:from_list([{Pid, name(Process)} || {Pid, Process} <- Seen]);
        {error, _} ->
            #{}
    end.

name({error, gone}) ->
    exited;
name({error, _}) ->
    #{};
name(Seen) ->
    maps:from_list(
        [{registered_name, binary_to_atom(N)} || #{registered_name := N} <- [Seen], is_binary(N)] ++
            lists:sublist([
                {initial_call, {binary_to_atom(M), binary_to_atom(F), A}}
             || Key <- [proc_lib_initial_call, initial_call], {M, F, A} <- [maps:get(Key, Seen)]
            ], 1)
    ).

portable(Pid, Why) ->
    case erlang:process_info(Pid, [message_queue_len, registered_name]) of
        [{message_queue_len, Length}, {registered_name, Registered}] ->
            %% [] for none.
            Name = [{registered_name, Registered} || is_atom(Registered)],
            {ok, #{
                process => Pid,
                names => #{Pid => maps:from_list(Name)},
                engine => portable,
                length => Length,
                unknown => [
                    <<"senders, tags, memory: without the native engine the messages would be "
                        "copied (",
                        Why/binary, ")">>
                ]
            }};
        undefined ->
            gone(Pid)
    end.

%% @doc As text.
-spec format(mailbox()) -> unicode:chardata().
format(Mailbox) -> flame_prof_mailbox_text:format(Mailbox).
