%% What the doctor looks at on a node, and what it leaves there.
-module(flame_prof_doctor_evidence_tests).

-include_lib("eunit/include/eunit.hrl").

folders() ->
    lists:sort(filelib:wildcard(filename:join(os:getenv("TMPDIR", "/tmp"),
        "flame_prof_doctor." ++ os:getpid() ++ ".*"))).

a_node_is_looked_at_and_as_it_was_test_() ->
    {timeout, 60, fun() ->
        Folders = folders(),
        {Evidence, _Files} = flame_prof_doctor_evidence:collect(#{for => 1000, engine => auto}),
        ?assertMatch(#{seconds := [_ | _], os := {_, _}, system := {_, _}, tables := #{}},
            Evidence),
        ?assertEqual({messages, []}, process_info(self(), messages)),
        ?assertEqual({monitors, []}, process_info(self(), monitors)),
        ?assertEqual(undefined, whereis(flame_prof_session)),
        ?assertEqual(Folders, folders())
    end}.

the_arguments_of_a_program_stay_in_the_node_test() ->
    Port = open_port({spawn, "/usr/bin/env PASSWORD=opensesame sleep 60"}, []),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    %% More than a pipe has: the rest waits in the port.
    true = port_command(Port, binary:copy(<<0>>, 1000000)),
    try
        {ok, #{ports := Ports}} = flame_prof_doctor_system:look(portable),
        ?assertMatch([#{name := <<"env">>, queued := N}] when N > 0,
            [Told || #{port := Of} = Told <- Ports, Of =:= Port])
    after
        true = unlink(Port),
        os:cmd("kill " ++ integer_to_list(Pid))
    end.

with_the_portable_engine_no_memory_is_read_test() ->
    {ok, System} = flame_prof_doctor_system:look(portable),
    ?assertEqual([], maps:keys(System) -- [handlers, ports, connections]).

files_that_cannot_be_placed_are_told_as_not_seen_test() ->
    Before = os:getenv("TMPDIR"),
    true = os:putenv("TMPDIR", "/proc/nowhere"),
    try
        Evidence = #{node => node(), engine => portable, span_us => 1, unseen => #{}},
        #{findings := [], unseen := Unseen} =
            flame_prof_doctor:diagnosed(Evidence, [{<<"a.log">>, <<>>}], #{}),
        ?assertMatch({match, _}, re:run(proplists:get_value(mailbox, Unseen), "/proc/nowhere"))
    after
        case Before of
            false -> os:unsetenv("TMPDIR");
            _ -> os:putenv("TMPDIR", Before)
        end
    end.
