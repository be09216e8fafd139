%% The programs that a node has started: of a /proc that is made up, and of this node.
-module(flame_prof_doctor_programs_tests).

-include_lib("eunit/include/eunit.hrl").

%% A process with its ticks (own and of children that have ended), and its children by its threads.
proc(Root, Pid, Name, {User, System, EndedUser, EndedSystem}, ByThread) ->
    [begin
        Folder = filename:join([Root, Pid, "task", Thread]),
        ok = filelib:ensure_dir(filename:join(Folder, "x")),
        ok = file:write_file(filename:join(Folder, "children"),
            [[integer_to_list(Child), " "] || Child <- Children])
     end || {Thread, Children} <- ByThread],
    ok = file:write_file(filename:join([Root, Pid, "comm"]), [Name, "\n"]),
    ok = file:write_file(filename:join([Root, Pid, "stat"]), io_lib:format(
        "7 (~ts) S 1 2 3 0 -1 4 98 0 0 0 ~b ~b ~b ~b 20 0 1 0 314024 3133440 366\n",
        [Name, User, System, EndedUser, EndedSystem])).

with_proc(Test) ->
    Root = "/tmp/flame_prof_programs." ++ os:getpid(),
    try Test(Root) after ok = file:del_dir_r(Root) end.

time_is_that_of_all_programs_also_of_those_that_have_ended_test() ->
    with_proc(fun(Root) ->
        ok = proc(Root, "self", "beam.smp", {5000, 5000, 1, 2}, [{"10", []}, {"11", [20]}]),
        ok = proc(Root, "20", "erl_child_setup", {3, 4, 100, 200}, [{"20", [21, 22, 99]}]),
        ok = proc(Root, "21", "df) (x", {10, 20, 0, 0}, [{"21", []}]),
        ok = proc(Root, "22", "sh", {30, 40, 1000, 2000}, [{"22", [23]}]),
        ok = proc(Root, "23", "gzip", {5, 6, 0, 0}, [{"23", []}]),
        ?assertEqual({ok, 10000 * (3 + 307 + 30 + 3070 + 11)},
            flame_prof_doctor_programs:time_us(Root)),
        %% The VM's own helper is no program of the node; 99 has just ended.
        ?assertEqual([<<"df) (x">>, <<"gzip">>, <<"sh">>],
            lists:sort(flame_prof_doctor_programs:seen(Root)))
    end).

a_kernel_that_lists_no_children_says_nothing_test() ->
    ?assertEqual(unknown, flame_prof_doctor_programs:time_us("/nonexistent")),
    ?assertEqual([], flame_prof_doctor_programs:seen("/nonexistent")).

%% A loop of the shell, which starts no program.
a_program_of_this_node_is_counted_and_named_test() ->
    {ok, Before} = flame_prof_doctor_programs:time_us(),
    Port = open_port({spawn_executable, "/bin/sh"},
        [{args, ["-c", "while :; do :; done"]}, exit_status]),
    {os_pid, OsPid} = erlang:port_info(Port, os_pid),
    try
        waiting:eventually(fun() ->
            {ok, Now} = flame_prof_doctor_programs:time_us(),
            Now >= Before + 200000
        end),
        Until = erlang:monotonic_time(millisecond),
        %% It runs all the time: nothing starts it.
        Running = flame_prof_doctor_programs:running(),
        ?assertEqual({#{}, 0}, flame_prof_doctor_programs:until(Running, Until)),
        Next = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", "read line"]}]),
        %% Until it is executed it has the name of the VM's helper, which is none of a program.
        waiting:eventually(fun() ->
            flame_prof_doctor_programs:until(Running, Until) =:= {#{<<"sh">> => 1}, 1}
        end),
        true = port_close(Next)
    after _ = os:cmd("kill -9 " ++ integer_to_list(OsPid))
    end,
    receive {Port, {exit_status, _}} -> ok end,
    %% It is in the time of erl_child_setup then.
    {ok, After} = flame_prof_doctor_programs:time_us(),
    ?assert(After >= Before + 200000).
