%% @doc Where the memory of this node is: what the VM's allocators took from the system and what of
%% it is in use, and what the resident memory (RSS) of the OS process is.
%% {@link flame_prof:memory/0} prints it.
%%
%% ```
%% 1> {ok, #{process := #{rss := Rss}, allocators := [_ | _]}} = flame_prof:look(memory, #{}).
%% 2> flame_prof:memory().
%% RSS 514M bytes, 99.3% explained; peak 523M
%%
%%  92.9%   477M  carriers: memory of the VM's allocators
%%   1.7%   8.9M  malloc: what the VM's allocators do not manage
%% ...
%% '''
%%
%% == Cost ==
%% No scheduler and no process is asked, but by the first look in a VM's life, which finds the
%% counters ({@link flame_prof_allocators}). `explain' asks the kernel for the pages of each mapping
%% and follows the lists of carriers: on a dirty scheduler, some milliseconds and some more for each
%% gigabyte, and the kernel lets no thread map memory for parts of that time. Without it a look
%% takes a fraction of a millisecond.
%%
%% == What it does not say ==
%% The portable engine has what `erlang:memory/0' and /proc say: no carriers, no fragmentation.
-module(flame_prof_memory).

-include("flame_prof_internal.hrl").

-behaviour(flame_prof_look).

-export([look/0, look/1, format/1, json/1]).
-export([about/0, takes/0, run/2, text/2]).
-export([by_allocator/1, process/0, process_files/0, process/1, vm/0]).

-export_type([memory/0, options/0, process/0, explained/0, allocator/0, super_carrier/0]).

%% Longer than these files.
-define(PROC_BYTES, 8192).

-type options() ::
    #{
        node => node() | flame_prof_options:left_out(),
        explain => boolean() | flame_prof_options:left_out(),
        engine => auto | native | portable | flame_prof_options:left_out()
    }.
%% `explain': also what the resident memory is (`true'). `node': {@link flame_prof} takes it.

-type memory() ::
    #{
        engine := flame_prof_engine:name(),
        process := process(),
        allocators => [flame_prof_allocators:instance()],
        off => [atom()],
        super_carrier => super_carrier(),
        explained => explained(),
        vm => #{atom() => non_neg_integer()},
        unknown := [binary()]
    }.
%% `off': allocators that `+M' flags turned off; malloc has their memory. `vm': what
%% `erlang:memory/0' says, without the native engine. `unknown': missing values, with the reasons.

-type super_carrier() :: #{bytes := non_neg_integer(), used_bytes := non_neg_integer()}.
%% With `+MMscs' only: one mapping, made at the start, that holds carriers.
%% `used_bytes': what is taken of it.

-type process() :: #{
    rss => non_neg_integer(),
    peak => non_neg_integer(),
    anonymous => non_neg_integer(),
    files => non_neg_integer(),
    shared => non_neg_integer(),
    swapped => non_neg_integer(),
    page_tables => non_neg_integer(),
    threads => non_neg_integer(),
    minor_faults => non_neg_integer(),
    major_faults => non_neg_integer()
}.
%% Bytes, and numbers since the start, as the kernel has them; empty where there is no /proc. `rss'
%% is `anonymous', `files' and `shared' (of which the JIT's code is). A major fault waited for a
%% disk.

-type explained() :: #{
    executable := non_neg_integer(),
    files := non_neg_integer(),
    code := non_neg_integer(),
    stacks := non_neg_integer(),
    carriers => non_neg_integer(),
    cached => non_neg_integer(),
    malloc := non_neg_integer(),
    other := non_neg_integer(),
    walked => non_neg_integer(),
    counted => non_neg_integer()
}.
%% Resident bytes. `cached': carriers that were given back and whose memory the VM keeps. `other' is
%% not explained. `walked': bytes of the carriers whose places are known, resident or not, of the
%% bytes `counted'.

-type allocator() :: #{
    allocator := atom(),
    carriers := non_neg_integer(),
    carriers_bytes := non_neg_integer(),
    blocks := non_neg_integer(),
    blocks_bytes := non_neg_integer(),
    pool_bytes := non_neg_integer(),
    single_bytes := non_neg_integer(),
    largest_free => non_neg_integer(),
    fragmentation := float()
}.
%% All instances of one. `single_bytes': of carriers with one block. `fragmentation': 1 - blocks /
%% carriers.

%% @private
-spec look() -> {ok, memory()} | {error, flame_prof:reason()}.
look() ->
    look(#{}).

%% @private What the node has now.
-spec look(options()) -> {ok, memory()} | {error, flame_prof:reason()}.
look(Options) ->
    case flame_prof_schema:checked(rows(), Options) of
        {ok, #{engine := portable}} -> {ok, portable(<<"asked for">>)};
        {ok, #{engine := Engine} = Checked} -> native(Engine, Checked);
        {error, _} = Error -> Error
    end.

rows() ->
    [
        #{key => explain, type => boolean, default => true,
            doc => "also what the resident memory consists of"},
        flame_prof_look_options:engine()
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => memory,
        group => memory,
        asks => "the memory of the node: RSS, allocators",
        sentence => "The parts of the node's resident memory, and the size, use and "
            "fragmentation of each allocator.",
        cost => "Costs some milliseconds, more for each gigabyte. Only the first look asks the "
            "schedulers.",
        shows => "No terms.",
        argument => {node, optional, "node()", "NODE"},
        runs => there,
        library => useful,
        assistant => #{
            title => "Memory of the node",
            tells => ["For processes use top by memory, then xray."]
        },
        examples => ["memory shop@myhost", "memory shop@myhost --json"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> rows().

%% @private
-spec run(node(), map()) -> {ok, memory()} | {error, flame_prof:reason()}.
run(_Node, Options) -> look(maps:remove(node, Options)).

%% @private
-spec text(memory(), pos_integer()) -> unicode:chardata().
text(Memory, _Columns) -> format(Memory).

native(Engine, #{explain := Explain}) ->
    case flame_prof_allocators:look() of
        {ok, Instances} ->
            Look = (super_carrier())#{
                engine => native,
                process => process(),
                allocators => Instances,
                off => flame_prof_allocators:off(Instances),
                unknown => []
            },
            {ok, case Explain of true -> explain(Look); false -> Look end};
        {error, _} = Error when Engine =:= native ->
            Error;
        {error, {limit, _}} = Shortage ->
            Shortage;
        {error, {_, #{reason := Why}}} ->
            {ok, portable(Why)}
    end.

super_carrier() ->
    case flame_prof_allocators:known_sums() of
        {ok, #{super_carrier := {Size, Used}}} ->
            #{super_carrier => #{bytes => Size, used_bytes => Used}};
        _ ->
            #{}
    end.

explain(#{process := #{rss := _}} = Look) ->
    case flame_prof_looks:with(fun flame_prof_looks_nif:memory_rss/0) of
        #{carriers := _, walked := Walked, counted := Counted} = Kinds ->
            Missing = max(0, Counted - Walked),
            Look#{explained => Kinds, unknown => walked(Missing)};
        #{} = Kinds ->
            Why = <<"carriers in malloc and other: their lists were not found">>,
            Look#{explained => Kinds, unknown => [Why]};
        {error, Error} ->
            Look#{unknown => [<<"parts of the RSS: ", (error_text(Error))/binary>>]}
    end;
explain(Look) ->
    Look#{unknown => [<<"parts of the RSS: /proc/self/status cannot be read">>]}.

error_text({_, Why}) -> Why;
error_text(Error) -> atom_to_binary(Error).

walked(0) ->
    [];
walked(Missing) ->
    [<<(iolist_to_binary(flame_prof_text:bytes(Missing)))/binary,
        " bytes of carriers, which changed during the look: malloc and other include them">>].

portable(Why) ->
    #{
        engine => portable,
        process => process(),
        vm => vm(),
        unknown => [
            <<"carriers, fragmentation, parts of the RSS: they need the native engine (",
                Why/binary, ")">>
        ]
    }.

%% @private Asks the schedulers. Without some allocators (`+Mea min', say) the VM has no figures,
%% and says so by an exception.
-spec vm() -> #{atom() => non_neg_integer()}.
vm() ->
    try maps:from_list(erlang:memory())
    catch error:notsup -> #{}
    end.

%% The kernel's.

%% @private
-spec process() -> process().
process() ->
    Files = process_files(),
    Process = process(Files),
    _ = [file:close(File) || {ok, File} <- Files],
    Process.

%% @private Of the calling process, for {@link process/1}. Not by the file server, which may have
%% work.
-spec process_files() -> [{ok, file:fd()} | {error, term()}].
process_files() ->
    [file:open(["/proc/self/", Name], [read, raw, binary]) || Name <- ["status", "stat"]].

%% @private The kernel writes such a file anew for each reading from its begin.
-spec process([{ok, file:fd()} | {error, term()}]) -> process().
process([Status, Stat]) ->
    maps:merge(status(read(Status)), stat(read(Stat))).

read({ok, File}) -> file:pread(File, 0, ?PROC_BYTES);
read({error, _} = Error) -> Error.

status({ok, Text}) ->
    Lines = [binary:split(Line, <<":">>) || Line <- binary:split(Text, <<"\n">>, [global])],
    Values = maps:from_list([{Key, Value} || [Key, Value] <- Lines]),
    maps:from_list([{Name, number(Value) * Unit}
        || {Key, Name, Unit} <- [
            {<<"VmRSS">>, rss, 1024},
            {<<"VmHWM">>, peak, 1024},
            {<<"RssAnon">>, anonymous, 1024},
            {<<"RssFile">>, files, 1024},
            {<<"RssShmem">>, shared, 1024},
            {<<"VmSwap">>, swapped, 1024},
            {<<"VmPTE">>, page_tables, 1024},
            {<<"Threads">>, threads, 1}
        ],
        Value <- [maps:get(Key, Values, none)], Value =/= none]);
status(_) ->
    #{}.

number(Text) ->
    {Number, _} = string:to_integer(string:trim(Text)),
    Number.

%% The name, in parentheses, may hold spaces. Behind it: state, ppid, pgrp, session, tty, tpgid,
%% flags, minflt, cminflt, majflt.
stat({ok, Text}) ->
    [_, Behind] = string:split(Text, ") ", trailing),
    Fields = string:lexemes(Behind, " "),
    #{
        minor_faults => binary_to_integer(lists:nth(8, Fields)),
        major_faults => binary_to_integer(lists:nth(10, Fields))
    };
stat(_) ->
    #{}.

%% @private Sums over the instances, the largest first.
-spec by_allocator([flame_prof_allocators:instance()]) -> [allocator()].
by_allocator(Instances) ->
    Names = lists:usort([Name || #{allocator := Name} <- Instances]),
    Sums = [sum(Name, [I || #{allocator := N} = I <- Instances, N =:= Name]) || Name <- Names],
    lists:sort(
        fun(#{carriers_bytes := A}, #{carriers_bytes := B}) -> A >= B end,
        Sums
    ).

sum(Name, Instances) ->
    Of = fun(Key) -> lists:sum([maps:get(Key, Instance) || Instance <- Instances]) end,
    Allocated = Of(carriers_bytes),
    largest_free(Instances, #{
        allocator => Name,
        carriers => Of(carriers),
        carriers_bytes => Allocated,
        blocks => Of(blocks),
        blocks_bytes => Of(blocks_bytes),
        pool_bytes => lists:sum([Bytes || #{pool := #{bytes := Bytes}} <- Instances]),
        single_bytes => lists:sum([M + S
            || #{single := #{mseg_bytes := M, sys_bytes := S}} <- Instances]),
        fragmentation => 1 - Of(blocks_bytes) / max(1, Allocated)
    }).

largest_free(Instances, Sum) ->
    case [Bytes || #{largest_free := Bytes} <- Instances] of
        All when length(All) =:= length(Instances) -> Sum#{largest_free => lists:max(All)};
        _ -> Sum
    end.

%% @doc As text.
-spec format(memory()) -> unicode:chardata().
format(Memory) -> flame_prof_memory_text:format(Memory).

%% @private The same for {@link flame_prof_json}: with the sums over instances.
-spec json(memory()) -> #{atom() => term()}.
json(#{allocators := Instances} = Memory) ->
    Memory#{allocators => by_allocator(Instances), instances => Instances};
json(Memory) ->
    Memory.
