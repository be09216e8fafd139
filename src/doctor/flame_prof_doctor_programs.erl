%% @private The programs that this node has started, by os:cmd/1 and as ports: how much CPU time
%% they have had, and what they are called. Files of /proc alone.
%%
%% The VM starts all of them through one process of its own, erl_child_setup. A program that has
%% ended is in the time of its parent; only the names of those that live are known.
-module(flame_prof_doctor_programs).

-export([time_us/0, time_us/1, until/1, seen/1]).
%% For tests.
-export([running/0, until/2]).

%% USER_HZ.
-define(TICK_US, 10000).
%% More programs than that are not followed.
-define(MOST, 1000).
-define(PAUSE_MS, 300).
-define(SETUP, <<"erl_child_setup">>).

%% @doc CPU time of all programs that this OS process has started, also of those that have ended. A
%% kernel that does not list children answers `unknown'.
-spec time_us() -> {ok, non_neg_integer()} | unknown.
time_us() -> time_us("/proc").

%% @private
-spec time_us(Proc :: string()) -> {ok, non_neg_integer()} | unknown.
time_us(Proc) ->
    case children(Proc, "self") of
        unknown -> unknown;
        Children ->
            {ok, ended_us(Proc, "self") +
                lists:sum([used_us(Proc, Pid) || Pid <- descendants(Proc, Children, ?MOST)])}
    end.

%% @doc The names of programs that start until then, and how often each was met; and how many they
%% were. Programs that run at the beginning are left out: nothing has started them now. The VM's
%% children that it starts without its helper are those of the beginning.
-spec until(UntilMs :: integer()) -> {#{Name :: binary() => pos_integer()}, non_neg_integer()}.
until(UntilMs) -> until(running(), UntilMs).

%% @private
-spec running() -> {Children :: unknown | [string()], #{Pid :: string() => Name :: binary()}}.
running() ->
    Children = children("/proc", "self"),
    {Children, maps:from_list(programs("/proc", Children))}.

%% @private
until({Children, First}, UntilMs) -> until(Children, First, UntilMs, #{}).

until(Children, First, UntilMs, Met) ->
    %% A program that executes another one has its first name.
    Now = lists:foldl(
        fun({Pid, Name}, Map) -> maps:update_with(Pid, fun({Of, N}) -> {Of, N + 1} end,
            {Name, 1}, Map) end,
        Met, [Program || {Pid, _} = Program <- programs("/proc", Children),
            not is_map_key(Pid, First)]),
    case UntilMs - erlang:monotonic_time(millisecond) of
        Left when Left =< 0 ->
            Names = maps:groups_from_list(fun({Name, _}) -> Name end, fun({_, N}) -> N end,
                maps:values(Now)),
            {maps:map(fun(_, Times) -> lists:sum(Times) end, Names), map_size(Now)};
        Left ->
            ok = timer:sleep(min(Left, ?PAUSE_MS)),
            until(Children, First, UntilMs, Now)
    end.

%% @private The programs that live: one name for each.
-spec seen(Proc :: string()) -> [binary()].
seen(Proc) -> [Name || {_, Name} <- programs(Proc, children(Proc, "self"))].

programs(_Proc, unknown) ->
    [];
programs(Proc, Children) ->
    [{Pid, Name} || Pid <- descendants(Proc, Children, ?MOST),
        Name <- [name(Proc, Pid)], Name =/= <<>>, Name =/= ?SETUP].

descendants(_Proc, [], _Most) ->
    [];
descendants(_Proc, _Pids, Most) when Most =< 0 ->
    [];
descendants(Proc, Pids, Most) ->
    Next = lists:append([Of || Pid <- Pids, Of <- [children(Proc, Pid)], is_list(Of)]),
    Pids ++ descendants(Proc, Next, Most - length(Pids)).

%% A child is listed at the thread that has started it.
children(Proc, Pid) ->
    Folder = filename:join([Proc, Pid, "task"]),
    Tasks = case prim_file:list_dir(Folder) of {ok, Names} -> Names; {error, _} -> [] end,
    Lists = [prim_file:read_file(filename:join([Folder, Task, "children"])) || Task <- Tasks],
    case [Text || {ok, Text} <- Lists] of
        [] -> unknown;
        Texts -> [binary_to_list(Of) || Text <- Texts, Of <- string:lexemes(Text, " \n")]
    end.

used_us(Proc, Pid) -> times(Proc, Pid, [12, 13, 14, 15]).
ended_us(Proc, Pid) -> times(Proc, Pid, [14, 15]).

%% utime stime cutime cstime, behind the name, which may have anything in it.
times(Proc, Pid, Places) ->
    case prim_file:read_file(filename:join([Proc, Pid, "stat"])) of
        {ok, Stat} ->
            [_, Behind] = string:split(Stat, ") ", trailing),
            Fields = string:lexemes(Behind, " "),
            ?TICK_US * lists:sum([binary_to_integer(lists:nth(N, Fields)) || N <- Places]);
        {error, _} ->
            0
    end.

name(Proc, Pid) ->
    case prim_file:read_file(filename:join([Proc, Pid, "comm"])) of
        {ok, Name} -> string:trim(Name, trailing, "\n");
        {error, _} -> <<>>
    end.
