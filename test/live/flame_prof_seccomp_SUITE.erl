%% A node under seccomp filters: a session starts, natively where it can, and the node
%% never dies of it.
-module(flame_prof_seccomp_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1,
    a_filter_that_kills_process_vm_readv_leaves_the_native_engine/1,
    a_filter_that_kills_pwritev_leaves_the_native_engine/1,
    a_filter_that_kills_rt_tgsigqueueinfo_takes_running_stacks_alone/1,
    a_filter_that_kills_all_of_them_leaves_the_native_engine/1,
    a_filter_that_answers_eperm_leaves_the_native_engine/1,
    a_list_that_allows_the_documented_calls_alone_takes_nothing_away/1,
    a_list_without_the_calls_that_are_tried_leaves_the_native_engine/1,
    the_portable_engine_needs_none_of_them/1, docker_s_default_filter_leaves_running_stacks/1]).
%% For peers.
-export([auto/0, portable/0]).

-import(waiting, [eventually/1]).

-define(ALL, ["process_vm_readv", "pwritev", "rt_tgsigqueueinfo", "mincore"]).
%% What the guide's chapter names besides: options and fields.
-define(NO_CALLS, ["pstack", "running_stacks", "fork"]).
%% The VM itself takes it where it can.
-define(VM_S_OWN, "memfd_create").

all() -> suite_cases:list(?MODULE, []).

init_per_suite(Config) ->
    case {native_node:why_not(), os:find_executable(os:getenv("CC", "cc"))} of
        {none, false} -> {skip, "there is no C compiler (cc) to build with_seccomp with"};
        {none, Cc} -> build(Cc, Config);
        {Why, _} -> {skip, Why}
    end.

build(Cc, Config) ->
    C = checkout:path("test/nif/with_seccomp.c"),
    "" = os:cmd(lists:flatten(lists:join(" ", [Cc, "-O1 -Wall -o", program(), C, "2>&1"]))),
    case os:cmd(program() ++ " eperm -- /bin/true; echo $?") of
        "0\n" -> Config;
        Said -> {skip, "no filter can be installed here: " ++ Said}
    end.

end_per_suite(_) -> ok.

a_filter_that_kills_process_vm_readv_leaves_the_native_engine(_) ->
    #{engine := native} = under("kill", ["process_vm_readv"], auto).

a_filter_that_kills_pwritev_leaves_the_native_engine(_) ->
    #{engine := native, captures := true, reads := Reads} = under("kill", ["pwritev"], auto),
    <<"process_vm_readv">> = Reads.

a_filter_that_kills_rt_tgsigqueueinfo_takes_running_stacks_alone(_) ->
    #{engine := native, captures := false, running_stacks := {off, Why}} =
        under("kill", ["rt_tgsigqueueinfo"], auto),
    <<"a seccomp filter refuses rt_tgsigqueueinfo">> = Why.

a_filter_that_kills_all_of_them_leaves_the_native_engine(_) ->
    #{engine := native, captures := false, reads := <<"/proc/self/mem">>} =
        under("kill", ?ALL, auto).

a_filter_that_answers_eperm_leaves_the_native_engine(_) ->
    #{engine := native, captures := false, reads := <<"/proc/self/mem">>} =
        under("eperm", [?VM_S_OWN | ?ALL], auto).

%% What kills is all that neither the VM nor the documents name.
a_list_that_allows_the_documented_calls_alone_takes_nothing_away(_) ->
    #{engine := native, captures := true, reads := <<"pwritev", _/binary>>} =
        under("allow", documented(), auto).

a_list_without_the_calls_that_are_tried_leaves_the_native_engine(_) ->
    #{engine := native, captures := false, reads := <<"/proc/self/mem">>} =
        under("allow", documented() -- ?ALL, auto).

the_portable_engine_needs_none_of_them(_) ->
    #{engine := portable} = under("kill", ?ALL, portable),
    #{engine := portable} = under("allow", documented() -- ?ALL, portable).

docker_s_default_filter_leaves_running_stacks(_) ->
    #{engine := native, captures := true} = under("docker", [], auto).

under(Action, Calls, Function) ->
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    peer_vm:value([program(), Action] ++ Calls ++ ["--", Erl], ?MODULE, Function, []).

%% The calls that the guide names: each word that is set as code.
documented() ->
    {ok, Guide} = file:read_file(checkout:path("doc/guide/production.md")),
    [_, Rest] = string:split(Guide, "\n## System calls\n"),
    [Chapter | _] = string:split(Rest, "\n## "),
    {match, Words} = re:run(Chapter, "`([a-z][a-z0-9_]+)`", [global, {capture, [1], list}]),
    lists:usort([Word || [Word] <- Words, not lists:member(Word, ?NO_CALLS)]).

program() -> filename:join(filename:dirname(code:which(?MODULE)), "with_seccomp").

auto() -> session(auto).
portable() -> session(portable).

session(Wanted) ->
    Directory = filename:join("/tmp", "flame_prof_seccomp_" ++ os:getpid()),
    Worker = spawn_link(fun Work() -> lists:sort(lists:seq(1, 1000)), Work() end),
    {ok, _} = flame_prof:start(#{engine => Wanted, dir => Directory}),
    eventually(fun() -> maps:get(written, maps:get(counters, flame_prof:info())) > 100 end),
    #{engine := Engine, counters := Counters} = Info = flame_prof:info(),
    {ok, _} = flame_prof:stop(),
    unlink(Worker),
    exit(Worker, kill),
    ok = file:del_dir_r(Directory),
    #{engine => Engine, captures => maps:get(captures, Counters) > 0,
        reads => maps:get(reads, Counters), running_stacks => maps:get(running_stacks, Info, none),
        engine_reason => maps:get(engine_reason, Info)}.
