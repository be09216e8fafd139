%% @private What a session takes of this node beside its options, and what the
%% cgroup leaves for it. Looked at before anything is mapped: the kernel kills a VM
%% whose pages exceed `memory.max'.
-module(flame_prof_memory_budget).

-export([check/2, node_bytes/2]).
-export([available/1]).

%% A slot of the process table touches at most a cache line of each of these words.
-define(LINE_WORDS, 8).
-define(WORD_BYTES, 8).
-define(MIB, 1048576).
%% The slot of a scheduler that is registered for captures.
-define(SCHEDULER_BYTES, 83456).
%% Without a limit, version 1 says a number near 2^63.
-define(UNLIMITED, (1 bsl 62)).

%% @doc Whether the session fits into `memory_budget' on this node, and what it
%% maps at its start into the cgroup.
-spec check(flame_prof_engine:name(), flame_prof_options:options()) ->
    ok | {error, flame_prof:reason()}.
check(Engine, Options) ->
    Missing = node_bytes(Engine, Options) - flame_prof_options:spare_memory(Options),
    case Missing > 0 of
        true -> {error, too_small(Missing, Engine, Options)};
        false -> fits(flame_prof_config:start_bytes(Engine, Options), available("/"))
    end.

too_small(Missing, Engine, #{memory_budget := Budget} = Options) ->
    Accepted = text(
        "at least ~w bytes on this node, of which ~w for its processes and schedulers",
        [Budget + Missing, node_bytes(Engine, Options)]
    ),
    {bad_option, #{option => memory_budget, value => Budget, accepted => Accepted}}.

fits(Bytes, Available) when Bytes =< Available ->
    ok;
fits(Bytes, Available) ->
    Text = "the session needs ~.1f MiB at its start and the cgroup's memory limit leaves ~.1f "
        "MiB; raise the limit, or lower memory_budget or select",
    {error, {memory, #{reason => text(Text, [Bytes / ?MIB, Available / ?MIB])}}}.

%% @doc Bytes that depend on the node: the table of processes seen by the selection,
%% and what captures of running processes need.
-spec node_bytes(flame_prof_engine:name(), flame_prof_options:options()) -> non_neg_integer().
node_bytes(portable, _Options) ->
    0;
node_bytes(native, #{running_stacks := Captures} = Options) ->
    Schedulers = erlang:system_info(schedulers) * ?SCHEDULER_BYTES,
    seen_bytes(Options) + case Captures of true -> Schedulers; false -> 0 end.

%% One word for the pid, one for each ranking and one for the growers, of each slot in use.
seen_bytes(#{select := Select} = Options) ->
    Rules = flame_prof_selection:rules(Select),
    Rankings = [Rule || Rule <- Rules, not flame_prof_selection:is_filtered(Rule)],
    Slots = min(
        erlang:system_info(process_limit),
        ?LINE_WORDS * erlang:system_info(process_count)
    ),
    Growers = min(1, flame_prof_options:growers(Options)),
    ?WORD_BYTES * (1 + length(Rankings) + Growers) * Slots.

%% The cgroup.

%% @doc Bytes that the memory limits of the VM's cgroup and of those above it
%% leave. Page cache counts as free: the kernel drops it first. A limit that cannot be read does not
%% count. `Root' is the directory that has `proc' and `sys'.
-spec available(file:filename_all()) -> non_neg_integer() | infinity.
available(Root) ->
    Lines = binary:split(read([Root, "proc/self/cgroup"]), <<"\n">>, [global]),
    lists:min([infinity | [left(Root, Group) || Line <- Lines, Group <- group(Line)]]).

%% "0::/path" of version 2; "4:memory,hugetlb:/path" of version 1.
group(Line) ->
    case binary:split(Line, <<":">>, [global]) of
        [<<"0">>, <<>> | Path] ->
            [{v2, Mount, segments(Path)} || Mount <- ["", "unified"]];
        [_, Controllers | Path] ->
            Names = binary:split(Controllers, <<",">>, [global]),
            [{v1, "memory", segments(Path)} || lists:member(<<"memory">>, Names)];
        _ ->
            []
    end.

%% The deepest first. A path may hold colons.
segments(Path) ->
    Whole = iolist_to_binary(lists:join(<<":">>, Path)),
    lists:reverse(binary:split(Whole, <<"/">>, [global, trim_all])).

left(Root, {Version, Mount, Segments}) ->
    Directory = filename:join([Root, "sys/fs/cgroup", Mount | lists:reverse(Segments)]),
    Left = left_here(Version, Directory),
    case Segments of
        [] -> Left;
        [_ | Above] -> min(Left, left(Root, {Version, Mount, Above}))
    end.

left_here(Version, Directory) ->
    {Limit, Used, Cache} = names(Version),
    case {number([Directory, Limit]), number([Directory, Used])} of
        {Max, Now} when is_integer(Max), is_integer(Now), Max < ?UNLIMITED ->
            max(0, Max - max(0, Now - cache(Cache, read([Directory, "memory.stat"]))));
        _ ->
            infinity
    end.

names(v2) ->
    {"memory.max", "memory.current", [<<"active_file">>, <<"inactive_file">>]};
names(v1) ->
    {"memory.limit_in_bytes", "memory.usage_in_bytes", [
        <<"total_active_file">>, <<"total_inactive_file">>
    ]}.

cache(Names, Stat) ->
    Words = [binary:split(Line, <<" ">>) || Line <- binary:split(Stat, <<"\n">>, [global])],
    lists:sum([integer(Bytes) || [Name, Bytes] <- Words, lists:member(Name, Names)]).

number(Path) ->
    case string:to_integer(read(Path)) of
        {Number, _} when is_integer(Number), Number >= 0 -> Number;
        _ -> none
    end.

integer(Text) ->
    case string:to_integer(Text) of
        {Number, _} when is_integer(Number) -> max(0, Number);
        _ -> 0
    end.

read(Path) ->
    case prim_file:read_file(filename:join(Path)) of
        {ok, Bytes} -> Bytes;
        {error, _} -> <<>>
    end.

text(Format, Args) ->
    iolist_to_binary(io_lib:format(Format, Args)).
