%% What the library says of a map that flame_prof_config does not make.
-module(flame_prof_config_tests).

-include_lib("eunit/include/eunit.hrl").

%% The keys that the library reads.
-define(KEYS, [
    engine, ring_bytes, libraries_bytes, schedulers_online, mode, running_stacks, c_frames,
    messages, sample_interval_us, cpu_permille, select_interval_ms, rules, growers, status, exclude,
    flush_interval, node_interval, note, os_pid, pid_number_bits, collapse_recursion, coalesce_idle,
    text_bytes, directory, node, compress, sync, lookback_ms, flushes_per_file, max_files,
    max_file_bytes, max_total_bytes]).

-define(DIRECTORY, "/nonexistent/flame_prof_config_tests").

config() ->
    {ok, Options} = flame_prof_options:validate(#{dir => ?DIRECTORY}),
    flame_prof_config:session(portable, Options, false, []).

a_key_that_is_missing_is_named_test_() ->
    [{atom_to_list(Key), ?_test(names(Key, <<"is missing">>, maps:remove(Key, config())))}
     || Key <- ?KEYS].

a_value_of_another_kind_is_named_test_() ->
    [{atom_to_list(Key), ?_test(names(Key, <<"has a wrong value">>, (config())#{Key := {1}}))}
     || Key <- ?KEYS].

a_value_that_does_not_fit_is_named_test_() ->
    [{lists:flatten(io_lib:format("~s", [Key])),
      ?_test(names(Key, <<"has a wrong value">>, (config())#{Key := Value}))}
     || {Key, Value} <- [{sample_interval_us, 1 bsl 32},
         {max_files, 1 bsl 64},
         {max_files, -1},
         {note, <<0>>},
         {note, binary:copy(<<"n">>, 512)},
         {directory, binary:copy(<<"d">>, 4096)},
         {exclude, [self() | self()]},
         {exclude, lists:duplicate(33, self())},
         {rules, lists:duplicate(9, {reductions, true, 1, 1})},
         {rules, [{heap, true, 1, 1}]},
         {node, <<"../a@b">>},
         {node, <<"no_host">>},
         {node, <<"a@", (binary:copy(<<"b">>, 158))/binary>>},
         {status, free},
         {sync, always}]].

the_error_lists_the_names_that_are_accepted_test() ->
    {error, {einval, Text}} = flame_prof_nif:session_start((config())#{sync := often}),
    ?assertEqual(<<"the session's `sync` has a wrong value; accepted: one of none flush close">>,
        Text).

%% Also in a node to which it is attached, where the application is not known.
the_words_of_a_session_have_the_version_of_the_application_test() ->
    {ok, [{application, flame_prof, Keys}]} = file:consult("src/flame_prof.app.src"),
    #{about := About} = config(),
    Words = binary:split(About, <<" ">>, [global]),
    ?assert(lists:member(list_to_binary("version=" ++ proplists:get_value(vsn, Keys)), Words)).

no_file_is_made_test() ->
    _ = flame_prof_nif:session_start((config())#{sync := often}),
    ?assertNot(filelib:is_file(?DIRECTORY)).

names(Key, Problem, Config) ->
    {error, {einval, Text}} = flame_prof_nif:session_start(Config),
    Expected = iolist_to_binary(["the session's `", atom_to_list(Key), "` ", Problem]),
    ?assertEqual(Expected, binary:part(Text, 0, min(byte_size(Expected), byte_size(Text)))).
