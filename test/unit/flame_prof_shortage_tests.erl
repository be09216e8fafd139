%% What the node is short of: the facts of made-up files, and what is refused for which work.
-module(flame_prof_shortage_tests).

-include_lib("eunit/include/eunit.hrl").

-define(MIB, 1048576).

a_node_with_room_is_refused_nothing_test() ->
    [?assertEqual(ok, flame_prof_shortage:check(Work, facts(#{}))) || Work <- works()].

each_shortage_is_refused_with_numbers_test() ->
    Cases = [{#{processes => {3, 1024}}, processes,
            "the node has 3 processes free of 1,024 (+P); a session needs "},
        {#{processes => {1, 1024}}, processes, "the node has 1 process free of 1,024"},
        {#{atoms => {1204, 1048576}}, atoms,
            "the node has 1,204 atoms free of 1,048,576 (+t); a session needs up to "},
        {#{descriptors => {0, 64}}, descriptors,
            "the node has no file descriptors free of 64 (ulimit -n); a session needs "},
        {#{descriptors => {0, unknown}}, descriptors,
            "the node has no file descriptors free (ulimit -n); a session needs "},
        {#{memory => 3727360}, memory,
            "the memory limit of the node's control group leaves 3.6 MiB; a session needs "},
        {#{address_space => 4 * ?MIB}, address_space,
            "the limit of the node's address space (ulimit -v, -d) leaves 4.0 MiB; a session "}],
    [begin
        {error, {limit, #{limit := Limit, needed := Needed}} = Reason} =
            flame_prof_shortage:check(session, facts(Short)),
        true = Needed > 0,
        Sentence = unicode:characters_to_list(flame_prof:format_error(Reason)),
        ?assertEqual({Short, Text}, {Short, lists:sublist(Sentence, length(Text))}),
        ?assertNotEqual(nomatch, string:find(Sentence, ". Accepted is "))
    end || {Short, Limit, Text} <- Cases].

%% The limits of one work, and one less: `free' is enough where it is what is needed.
what_is_needed_is_enough_test() ->
    [begin
        {error, {limit, #{needed := Needed, free := 0}}} =
            flame_prof_shortage:check(Work, facts(#{processes => {0, 1024}})),
        Enough = facts(#{processes => {Needed, 1024}}),
        Less = facts(#{processes => {Needed - 1, 1024}}),
        ?assertEqual(ok, flame_prof_shortage:check(Work, Enough)),
        ?assertMatch({error, {limit, _}}, flame_prof_shortage:check(Work, Less))
    end || Work <- works()].

the_portable_engine_needs_fewer_descriptors_test() ->
    Facts = facts(#{descriptors => {4, 64}}),
    ?assertEqual(ok, flame_prof_shortage:check(portable, Facts)),
    ?assertMatch({error, {limit, #{limit := descriptors}}},
        flame_prof_shortage:check(native, Facts)).

facts_are_read_from_the_files_test() ->
    in_root(fun(Root) ->
        ok = write(Root, "limits", [
            "Limit                     Soft Limit           Hard Limit           Units     \n",
            "Max data size             unlimited            unlimited            bytes     \n",
            "Max open files            64                   4096                 files     \n",
            "Max address space         4294967296           unlimited            bytes     \n"]),
        ok = write(Root, "status", "Name:\tbeam\nFDSize:\t64\nVmSize:\t 4190208 kB\n"
            "VmData:\t  100000 kB\n"),
        [ok = write(Root, filename:join("fd", integer_to_list(N)), "") || N <- lists:seq(0, 59)],
        Facts = flame_prof_shortage:facts(Root),
        %% The descriptor of the list is one of the sixty.
        ?assertEqual({5, 64}, maps:get(descriptors, Facts)),
        ?assertEqual(4 * ?MIB, maps:get(address_space, Facts)),
        ?assertEqual(infinity, maps:get(memory, Facts))
    end).

a_large_table_of_descriptors_is_not_counted_test() ->
    in_root(fun(Root) ->
        ok = write(Root, "limits", "Max open files            1048576   1048576   files     \n"),
        ok = write(Root, "status", "FDSize:\t262144\n"),
        #{descriptors := Free, address_space := infinity} = flame_prof_shortage:facts(Root),
        ?assertEqual({786432, 1048576}, Free)
    end).

without_proc_nothing_is_limited_test() ->
    ?assertMatch(#{descriptors := infinity, memory := infinity, address_space := infinity},
        flame_prof_shortage:facts("/nowhere")).

a_node_that_has_an_agent_was_asked_before_test() ->
    true = register(flame_prof_agent, self()),
    try [?assertEqual(ok, flame_prof_shortage:check(Work)) || Work <- works()]
    after unregister(flame_prof_agent)
    end.

this_node_is_short_of_nothing_test() ->
    [?assertEqual(ok, flame_prof_shortage:check(Work)) || Work <- works()].

works() -> [session, doctor, sampling, native, portable, tracing, wait_sites].

facts(Short) ->
    maps:merge(#{processes => {200000, 262144}, atoms => {1000000, 1048576},
        descriptors => {1000, 1024}, memory => infinity, address_space => infinity}, Short).

in_root(Fun) -> text_file:folder(Fun).

write(Root, Name, Text) ->
    Path = filename:join([Root, "proc/self", Name]),
    ok = filelib:ensure_dir(Path),
    file:write_file(Path, Text).
