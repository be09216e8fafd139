%% @doc Which code allocates: words by stack and by process, what survives, and the collections of
%% garbage with their length and cause. {@link flame_prof:allocations/1} prints it.
%%
%% ```
%% 1> {ok, Allocations} = flame_prof:look(allocations, #{for => 10000}).
%% 2> #{words := Words, stacks := [{[{M, F, A, Line} | _Callers], OfThem} | _]} = Allocations.
%% 3> io:put_chars(flame_prof_allocations:format(Allocations)).
%% '''
%%
%% Nothing is patched and no function is traced: before a collection of garbage, the VM asks the
%% library whether it wants to know of it. The process stands still then, with the stack of the
%% code whose next term had no room. c_src/tracer/allocations.h has the estimator, its proof, and
%% what may not be concluded; doc/allocations.md says it for users.
%%
%% A word has eight bytes. Counted is what a process puts on its own heap, and what others sent it
%% once it is there; no binary of more than 64 bytes, which is elsewhere, and no table. A process
%% that exits before its first collection is not seen.
%%
%% The native engine alone does it.
-module(flame_prof_allocations).

-behaviour(flame_prof_look).

-export([measure/1, measure/2, finish/1, format/1, options/0, spec/2]).
-export([about/0, takes/0, run/2, text/2, json/1, longest_ms/1]).

-export_type([allocations/0, options/0, frame/0, collection/0, collected/0, group/0]).

-type options() ::
    #{
        bytes => pos_integer() | flame_prof_options:left_out(),
        long_gc_us => pos_integer() | flame_prof_options:left_out(),
        max_cpu => number() | infinity | flame_prof_options:left_out(),
        node => node() | flame_prof_options:left_out(),
        for => pos_integer() | flame_prof_options:left_out(),
        owner => pid()
    }.
%% `bytes': allocated by all processes from one sample to the next, in the mean (524288).
%% `long_gc_us': collections of this length or more are listed, the longest ones (1000).
%% `max_cpu': percent of what all schedulers can do; more ends it (5); `max_cpu_percent' is an older
%% name. `owner': the process with which it ends (the caller); it may be of another node. `node' and
%% `for' (10000): {@link flame_prof} takes them.

-type frame() :: {module(), atom(), arity(), Line :: non_neg_integer()}
    | truncated | unreadable | unknown | fragments.
%% `fragments', on top of a stack: messages that the process has got, and large terms that its heap
%% had no room for. Code below was met by the collection, and has not always made them.

-type collection() ::
    #{
        process := pid(),
        kind := minor | major,
        cause := heap | fragments | binaries | other | unknown,
        microseconds := non_neg_integer(),
        words := non_neg_integer() | unknown,
        stack := [frame()]
    }.
%% `words': of the process before it: all of its heaps. `cause': the heap is full; messages, or
%% large terms that it had no room for; binaries off the heap; another one, such as
%% `erlang:garbage_collect/0'.

-type collected() ::
    #{
        process := pid(),
        minor := non_neg_integer(),
        major := non_neg_integer(),
        microseconds := non_neg_integer(),
        longest_microseconds := non_neg_integer()
    }.
%% Of a process: how many collections it had, and what they took together. A process is left out if
%% another one has taken its place in the VM's table.

-type group() :: pid() | frame().
%% A process; or all short-lived processes that begin with this function.

-type allocations() ::
    #{
        stacks := [{[frame()], Words :: non_neg_integer()}],
        survived := [{[frame()], Words :: non_neg_integer(), Of :: pos_integer()}],
        processes := [{pid(), Words :: non_neg_integer()}],
        messages := [{flame_prof_mailbox:tag(), Words :: non_neg_integer()}],
        messages_off => Why :: binary(),
        names := #{pid() => flame_prof_mailbox:name()},
        words := non_neg_integer(),
        words_error := non_neg_integer(),
        share := pos_integer(),
        samples := non_neg_integer(),
        bytes := pos_integer(),
        milliseconds := non_neg_integer(),
        in_step := [{group(), Words :: non_neg_integer()}],
        collections := #{
            minor := non_neg_integer(),
            major := non_neg_integer(),
            milliseconds := non_neg_integer(),
            longest_microseconds := non_neg_integer(),
            longest := [collection()],
            processes := [collected()],
            causes := #{heap | fragments | binaries | other | unknown => non_neg_integer()},
            lengths := #{minor | major => flame_prof_histogram:histogram()}
        },
        lost := #{
            dropped_words := non_neg_integer(),
            unreadable := non_neg_integer(),
            other_stacks_words := non_neg_integer(),
            events := non_neg_integer(),
            left_alone := non_neg_integer()
        },
        looks := non_neg_integer(),
        look_ns := non_neg_integer(),
        ended := asked | {limit, atom()} | {down, pid()}
    }.
%% Stacks: leaf first, the largest one first. Their words add up to `words', but for chance and for
%% what is lost. `left_alone': processes that another tracer had when they
%% were to be traced.
%%
%% `messages': by the message that a server of OTP had in work, as far as its stack tells; words
%% without one are in none. `messages_off': why none is known of any server.
%%
%% `words': of all processes; its standard error is `words_error'. `share': one process in so many
%% was traced, and stands for the others. `survived': of the words that the minor collections of the
%% stack's samples have looked at (`Of'), those that were kept.
%%
%% `in_step': where the collections of a process, or of all processes of one kind, come after few
%% different numbers of words, they may come at the same places of the program each time. Then the
%% stacks of these words are wrong; their sum is right.

-define(POLL_MS, 50).
%% Collections that are looked at, of a scheduler and a second of its CPU time: 0.3 % of it. So many
%% times that where more samples are asked for.
-define(LOOKS, 1000).
-define(MORE_LOOKS, 4).
-define(BYTES, 524288).
%% It ends by itself so long after it should have.
-define(GRACE_S, 15).
-define(PROCESSES, 20).
%% Records of one drain: DRAIN_MAX of c_src/agent_nif/allocations_nif.c. There may be more.
-define(DRAINED, 4096).

%% @private
-spec measure(pos_integer()) -> {ok, allocations()} | {error, flame_prof:reason()}.
measure(Ms) ->
    measure(Ms, #{}).

%% @private
%% Measures for so many milliseconds. The caller itself is left out. Ends early, and says so
%% in `ended', where a limit is reached.
-spec measure(pos_integer(), options()) -> {ok, allocations()} | {error, flame_prof:reason()}.
measure(Ms, Options) when is_integer(Ms), Ms > 0, Ms =< 3600000 ->
    case {flame_prof_schema:checked(options(), Options), flame_prof_engine:choose(native)} of
        {{ok, Checked}, {ok, _}} -> start(Ms, flame_prof_tracing:as_limits(Checked));
        {{error, _} = Error, _} -> Error;
        {_, {error, _} = Error} -> Error
    end;
measure(Ms, _Options) ->
    Accepted = <<"whole milliseconds, from 1 to 3600000">>,
    {error, {badarg, #{argument => milliseconds, value => Ms, accepted => Accepted}}}.

%% @private Ends the measurement of this owner, if there is one: measure/2 answers what there is.
-spec finish(pid()) -> ok | {error, flame_prof:reason()}.
finish(Owner) ->
    case flame_prof_tracing:info() of
        #{kind := allocations, owner := Owner, ref := Ref} -> flame_prof_tracing:off(Ref);
        _ -> ok
    end.

%% @private
-spec options() -> [flame_prof_schema:row()].
options() ->
    [
        #{key => bytes, type => {whole, bytes, 8, 1 bsl 32}, default => ?BYTES,
            doc => "mean number of bytes between two samples"},
        #{key => long_gc_us, type => {whole, count, 1, 1000000000}, default => 1000, word => none},
        #{key => owner, type => {own, fun owner/1, "a process"}, default => self(), word => none}
        | flame_prof_tracing:look_rows([max_cpu, heartbeat_ms])
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => allocations,
        group => memory,
        asks => "which code allocates, for 5 s",
        sentence => "Which code allocates, by stack and by process, how much survives, and the "
            "garbage collections.",
        cost => "Traces the collections of some processes, within max_cpu.",
        shows => "The tag atom of the message in work; no contents.",
        argument => {for, optional, "pos_integer()", ""},
        runs => there,
        lends => [flame_prof_allocations_text],
        library => needed,
        examples => ["allocations shop@myhost --for 30s",
            "allocations shop@myhost --collapsed | flamegraph.pl > allocations.svg"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() ->
    [#{key => for, type => {whole, ms, 1, 3600000}, default => 10000, doc => "how long"}
        | options()].

%% @private
-spec run(node(), map()) -> {ok, allocations()} | {error, flame_prof:reason()}.
run(_Node, #{for := Ms} = Options) -> measure(Ms, maps:without([node, for], Options)).

%% @private
-spec text(allocations(), pos_integer()) -> unicode:chardata().
text(Allocations, _Columns) -> format(Allocations).

%% @private
-spec json(allocations()) -> #{atom() => term()}.
json(Allocations) -> flame_prof_allocations_text:json(Allocations).

%% @private
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{for := Ms}) -> Ms.

owner(Pid) when is_pid(Pid) -> {ok, Pid};
owner(_) -> error.

%% @private The tracing of a measurement, by the process that is left out. Seconds after which it
%% ends by itself, if it does.
-spec spec(map(), pos_integer() | infinity) -> flame_prof_tracing:spec().
spec(Options, Seconds) ->
    #{bytes := Bytes, long_gc_us := LongUs, owner := Owner} = Options,
    Config = #{
        mean_words => max(1, Bytes div erlang:system_info(wordsize)),
        looks => ?LOOKS * max(1, min(?MORE_LOOKS, ?BYTES div Bytes)),
        long_us => LongUs,
        threads => threads(),
        except => self()
    },
    Limits = (maps:with([max_cpu_percent, heartbeat_ms], Options))#{
        max_events_per_second => infinity,
        max_seconds => Seconds
    },
    #{
        kind => allocations,
        flags => [garbage_collection],
        processes => chosen,
        owner => Owner,
        limits => Limits,
        config => Config
    }.

%% The tracing ends with this process, and this process ends it when `owner' has ended.
start(Ms, #{bytes := Bytes, owner := Owner} = Options) ->
    Off = messages_off(flame_prof_wait_sites:ensure()),
    Spec = spec(Options#{owner := self()}, ?GRACE_S + Ms div 1000),
    case flame_prof_tracing:start(Spec#{asked_by => Owner}) of
        {ok, Ref} ->
            Monitor = monitor(process, Owner),
            Answer = measured(Ref, Monitor, Ms, Bytes),
            true = demonitor(Monitor, [flush]),
            with(Off, Answer);
        {error, _} = Error ->
            Error
    end.

messages_off(ok) -> #{};
messages_off({error, {wait_sites, Why}}) -> #{messages_off => Why};
messages_off({error, {_Error, _Field, Why}}) -> #{messages_off => Why}.

with(Off, {ok, Allocations}) -> {ok, maps:merge(Allocations, Off)};
with(_Off, Error) -> Error.

measured(Ref, Monitor, Ms, Bytes) ->
    Begin = erlang:monotonic_time(millisecond),
    case flame_prof_tracing:read(Ref, open_words) of
        {ok, {Words, _Processes}} ->
            Sum = flame_prof_allocations_sum:new(Words),
            run({Ref, Monitor}, Begin, Begin + Ms, Sum, Bytes);
        {error, _} = Error ->
            given_up(Ref, Error)
    end.

%% Schedulers of each kind, and threads that are none but have run a process.
threads() ->
    lists:sum([
        erlang:system_info(Key)
     || Key <- [schedulers, dirty_cpu_schedulers, dirty_io_schedulers]
    ]) + 8.

run({Ref, Monitor} = Of, Begin, End, Sum0, Bytes) ->
    _ = receive
        {'DOWN', Monitor, process, _, _} -> flame_prof_tracing:stop(Ref)
    after ?POLL_MS -> ok
    end,
    case {drained(Ref, Sum0), flame_prof_tracing:counters(Ref)} of
        {{ok, Sum}, {ok, #{ended := no}}} ->
            case erlang:monotonic_time(millisecond) < End of
                true -> run(Of, Begin, End, Sum, Bytes);
                false -> stop(Ref, Begin, Sum, Bytes)
            end;
        {{ok, Sum}, {ok, _Ended}} ->
            stop(Ref, Begin, Sum, Bytes);
        {{error, _} = Error, _} ->
            given_up(Ref, Error);
        {_, {error, _} = Error} ->
            given_up(Ref, Error)
    end.

given_up(Ref, Error) ->
    _ = flame_prof_tracing:stop(Ref),
    ok = forget(Ref),
    Error.

drained(Ref, Sum) ->
    case flame_prof_tracing:read(Ref, drain) of
        {ok, {Records, Counters}} when length(Records) < ?DRAINED ->
            {ok, flame_prof_allocations_sum:add(Records, Counters, Sum)};
        {ok, {Records, Counters}} ->
            drained(Ref, flame_prof_allocations_sum:add(Records, Counters, Sum));
        {error, _} = Error ->
            Error
    end.

stop(Ref, Begin, Sum0, Bytes) ->
    Ms = erlang:monotonic_time(millisecond) - Begin,
    Open = flame_prof_tracing:read(Ref, open_words),
    Drained = drained(Ref, Sum0),
    Collected = flame_prof_tracing:read(Ref, collections),
    Stopped = flame_prof_tracing:stop(Ref),
    ok = forget(Ref),
    case {Open, Drained, Collected, Stopped} of
        {{ok, {Words, _}}, {ok, Sum}, {ok, {Minor, Major, Collectors}},
            {ok, #{ended := Ended, lost := Lost, left_alone := Left}}} ->
            Answer = flame_prof_allocations_sum:answer(Words, Sum),
            #{processes := Processes, lost := Others} = Answer,
            Largest = [Pid || {Pid, _} <- lists:sublist(Processes, ?PROCESSES)] ++
                [element(1, Collector) || Collector <- Collectors],
            Names = flame_prof_mailbox:names(lists:usort(Largest)),
            #{collections := Collections} = Program = of_program(Answer, Names),
            {ok, Program#{
                collections := Collections#{
                    lengths => #{minor => histogram(Minor), major => histogram(Major)},
                    processes => [collected(Collector) || Collector <- Collectors,
                        not is_own(element(1, Collector), Names)]
                },
                bytes => Bytes,
                milliseconds => Ms,
                names => maps:filter(fun(Pid, _) -> not is_own(Pid, Names) end, Names),
                lost => Others#{events => Lost, left_alone => Left},
                ended => Ended
            }};
        _ ->
            hd([Error || {error, _} = Error <- [Drained, Collected, Stopped, Open]])
    end.

%% Sums have what flame_prof allocates, too.
of_program(#{processes := Processes, collections := Collections} = Answer, Names) ->
    #{longest := Longest} = Collections,
    Answer#{
        processes := [Row || {Pid, _} = Row <- Processes, not is_own(Pid, Names)],
        collections := Collections#{
            longest := [Row || #{process := Pid} = Row <- Longest, not is_own(Pid, Names)]
        }
    }.

is_own(Pid, Names) ->
    flame_prof_own:is_own(maps:get(Pid, Names, #{})) orelse
        lists:member(Pid, flame_prof_own:pids()).

collected({Pid, Minor, Major, Ns, LongestNs}) ->
    #{
        process => Pid,
        minor => Minor,
        major => Major,
        microseconds => Ns div 1000,
        longest_microseconds => LongestNs div 1000
    }.

histogram({Buckets, SumNs, MaxNs}) -> flame_prof_histogram:new(Buckets, SumNs, MaxNs).

%% An end without a request.
forget(Ref) ->
    receive
        {flame_prof_tracing, Ref, _} -> ok
    after 0 -> ok
    end.

%% @doc As text.
-spec format(allocations()) -> unicode:chardata().
format(Allocations) -> flame_prof_allocations_text:format(Allocations).
