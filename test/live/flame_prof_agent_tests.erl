%% What an agent leaves where file systems hang, in VMs of their own: its last module goes.
-module(flame_prof_agent_tests).

-include_lib("eunit/include/eunit.hrl").

%% In a VM of its own.
-export([hangs/0, does_not_hang/0]).

-define(LENT, flame_prof_mfa).

%% The modules go all the same, the caller of close has an answer, and that folder is told.
folders_that_hang_are_told_and_keep_no_module_test() ->
    ?assertEqual({{error, {left, ["/tmp/flame_prof_of_hangs"]}}, false},
        peer_vm:value(?MODULE, hangs, ["+SDio", "1"])).

%% Also those that were too late when the library was written.
all_folders_are_removed_in_the_end_test() ->
    ?assertEqual({ok, false, []}, peer_vm:value(?MODULE, does_not_hang, [])).

hangs() ->
    hung_files:with(2, [file, flame_prof_agent, ?LENT], fun() ->
        closed(["/tmp/flame_prof_of_hangs"])
    end).

does_not_hang() ->
    Folders = [lists:concat(["/tmp/flame_prof_", N, "_", os:getpid()]) || N <- [one, other, none]],
    [ok = filelib:ensure_path(filename:join(Folder, "below")) || Folder <- Folders,
        Folder =/= lists:last(Folders)],
    [ok = file:write_file(filename:join(Folder, "file"), <<"samples">>)
        || Folder <- lists:droplast(Folders)],
    {Outcome, IsLoaded} = closed(Folders),
    {Outcome, IsLoaded, [Folder || Folder <- Folders, filelib:is_file(Folder)]}.

%% The answer of the cleanup process of an agent that ends, and whether it has left a module.
closed(Folders) ->
    {module, ?LENT} = code:ensure_loaded(?LENT),
    Agent = spawn(fun() -> receive done -> ok end end),
    Cleanup = spawn(flame_prof_agent, cleanup, [Agent, [?LENT]]),
    [Cleanup ! {folder, Folder} || Folder <- Folders],
    Ref = make_ref(),
    Cleanup ! {tell, {self(), Ref}},
    Agent ! done,
    receive
        {Ref, Outcome} -> {Outcome, erlang:module_loaded(?LENT)}
    after 60000 -> no_answer
    end.

%% A report in the log of a node that is attached to would have no reader.
what_fails_in_a_file_operation_is_an_answer_test_() ->
    [?_assertMatch({error, Text} when is_list(Text), tried(Fun))
     || Fun <- [fun() -> error(badarg) end, fun() -> exit(gone) end, fun() -> throw(other) end,
            fun() -> throw({error, eacces}) end]].

tried(Fun) ->
    {Pid, Monitor} = spawn_monitor(flame_prof_agent, tried, [Fun]),
    receive {'DOWN', Monitor, process, Pid, {flame_prof_agent, Answer}} -> Answer end.
