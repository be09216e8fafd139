%% @private Which files of a directory are one profile: those that one session
%% wrote, one after the other.
%%
%% A file continues another when its first sample is of the same node and OS process and
%% was taken at most a minute after the other was written to. A day is the most that is
%% shown as one.
-module(flame_prof_view_series).

-export([add/2, paired/1]).

-export_type([heads/0]).

%% The data of the first sample of a file; before there is one, the version without a sample.
-type heads() :: #{{Inode :: integer(), Name :: binary()} => head() | {none, Version :: binary()}}.
-type head() :: {BeganUs :: integer(), OsPid :: non_neg_integer()}.

-define(GAP_US, 60000000).
-define(LONGEST_US, 86400000000).

%% Series of several files, and the files, of which it says whether they have samples.
-spec add([flame_prof_view_files:entry()], heads()) -> {[flame_prof_view_files:entry()], heads()}.
add(Entries, Heads) ->
    Found = [{head(Entry, Heads), Entry, {Node, Kind}}
        || #{state := file, name := Name, kind := Kind} = Entry <- Entries,
           {ok, #{node := Node}} <- [flame_prof_log_name:parse(Name)]],
    %% Files of several nodes, and of samples and allocations, may have been written at the same
    %% time.
    Begun = lists:sort([{{Writer, Pid}, Began, Entry}
        || {{Began, Pid}, Entry, Writer} <- Found, Began =/= none]),
    Series = [one(Members) || [_, _ | _] = Members <- runs(Begun)],
    Known = maps:from_list([{key(Entry), Head} || {Head, Entry, _} <- Found]),
    {Series ++ [known(Entry, Known) || Entry <- Entries], Known}.

%% A file that has just been begun may have bytes, but no sample yet.
known(Entry, Heads) ->
    case maps:get(key(Entry), Heads, unknown) of
        {none, _} -> Entry#{has_samples := false};
        _ -> Entry
    end.

key(#{inode := Inode, name := Name}) -> {Inode, Name}.

head(#{version := Version, paths := [Path]} = Entry, Heads) ->
    case maps:get(key(Entry), Heads, unknown) of
        {none, Version} = Head -> Head;
        {Began, _} = Head when Began =/= none -> Head;
        _ -> first_sample(Path, Version)
    end.

first_sample(Path, Version) ->
    case flame_prof_samples:first(Path) of
        {ok, #{time_us := Us, pid := Pid}} -> {Us, Pid};
        none -> {none, Version}
    end.

runs([]) ->
    [];
runs([{Writer, Began, Entry} | Others]) ->
    {Members, Rest} = continued(Writer, Began, Entry, Others),
    [[Entry | Members] | runs(Rest)].

continued(Writer, Began, #{modified := Modified}, [{Writer, Next, Entry} | Others]) when
    Next - Modified * 1000000 =< ?GAP_US, Next - Began =< ?LONGEST_US
->
    {Members, Rest} = continued(Writer, Began, Entry, Others),
    {[Entry | Members], Rest};
continued(_Writer, _Began, _Entry, Others) ->
    {[], Others}.

%% No file's name ends like this one's.
one([#{name := First} | _] = Members) ->
    Last = lists:last(Members),
    Last#{
        name := <<First/binary, "+">>,
        paths := lists:append([Paths || #{paths := Paths} <- Members]),
        bytes := lists:sum([Bytes || #{bytes := Bytes} <- Members]),
        version := integer_to_binary(erlang:phash2([V || #{version := V} <- Members], 1 bsl 32))
    }.

%% @doc Samples and allocations of one session have one beginning of their names: each knows the
%% other, and of a series and its first file the series.
-spec paired([flame_prof_view_files:entry()]) -> [flame_prof_view_files:entry()].
paired(Entries) ->
    Known = maps:from_list(lists:sort([{Id, Name} || #{state := file, name := Name} <- Entries,
        Id <- id(Name)])),
    [with_other(Entry, Known) || Entry <- Entries].

with_other(#{name := Name} = Entry, Known) ->
    case [Other || {Key, Node, Kind} <- id(Name),
            {ok, Other} <- [maps:find({Key, Node, another(Kind)}, Known)]] of
        [Other] -> Entry#{other => Other};
        [] -> Entry
    end.

id(Name) ->
    case flame_prof_log_name:parse(string:trim(Name, trailing, "+")) of
        {ok, #{key := Key, node := Node, kind := Kind}} -> [{Key, Node, Kind}];
        error -> []
    end.

another(samples) -> allocations;
another(allocations) -> samples.
