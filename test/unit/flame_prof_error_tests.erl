%% The sentences of errors.
-module(flame_prof_error_tests).

-include_lib("eunit/include/eunit.hrl").

every_class_has_its_sentence_test_() ->
    [?_assertEqual(Sentence, sentence(Reason))
     || {Reason, Sentence} <- [
            {{bad_option, #{option => sync, value => now, accepted => <<"none, flush or close">>}},
                <<"option sync => now is not accepted; it takes none, flush or close">>},
            {{bad_option, #{option => {select, by}, accepted => <<"a metric">>}},
                <<"option select, by takes a metric">>},
            {{bad_option, #{option => syn, value => now, accepted => <<"no such option">>}},
                <<"option syn: no such option">>},
            {{bad_option, #{option => options, accepted => <<"a map of options">>}},
                <<"options takes a map of options">>},
            {{bad_env, #{option => foo, accepted => <<"no such option">>}},
                <<"configuration of flame_prof (sys.config), foo: no such option">>},
            {{badarg, #{argument => timeout, value => foo, accepted => <<"milliseconds">>}},
                <<"argument timeout => foo is not accepted; it takes milliseconds">>},
            %% Values of the environment of the operating system are texts: not what they look like.
            {{bad_env,
                #{option => autostart, value => <<"true">>, accepted => <<"true or false">>}},
                <<"configuration of flame_prof (sys.config), autostart => \"true\" is not "
                    "accepted; "
                    "it takes true or false">>},
            {{bad_option, #{option => sample_interval, value => "20", accepted => <<"ms">>}},
                <<"option sample_interval => \"20\" is not accepted; it takes ms">>},
            {{bad_option, #{option => dir, value => <<"a\"b">>, accepted => <<"a folder">>}},
                <<"option dir => \"a\\\"b\" is not accepted; it takes a folder">>},
            {{not_started, #{}}, <<"no session is running">>},
            {{stopping, #{}}, <<"the session is ending">>},
            {{timeout, #{ms => 5, request => start}},
                <<"the session did not start within 5 ms and was given up">>},
            {{timeout, #{ms => 7, request => stop}},
                <<"no answer within 7 ms; stop goes on in the background">>},
            {{armed, #{}}, <<"no trigger has fired: nothing is written yet">>},
            {{engine, #{engine => native, reason => <<"no">>}},
                <<"the native engine cannot be used here: no">>},
            {{library, #{reason => <<"no">>}}, <<"the C library did not load: no">>},
            {{memory, #{reason => <<"too much">>}}, <<"too much">>},
            {{memory, #{file => "a", reason => <<"too much">>}}, <<"a: too much">>},
            {{file, #{file => "/a", reason => enoent}}, <<"/a: no such file or directory">>},
            {{file, #{file => "", reason => <<"no name">>}}, <<"\"\": no name">>},
            {{file, #{file => <<"/a">>, reason => <<"cut off">>, lost => 12}},
                <<"/a: cut off; 12 samples were lost">>},
            {{no_files, #{}}, <<"no files were given">>},
            {{closed, #{}}, <<"the profile is closed">>},
            {{busy, #{}}, <<"another process uses the profile">>},
            {{view, #{reason => <<"inets is missing">>}}, <<"inets is missing">>},
            {{attach, #{node => a@b, reason => <<"it runs OTP 24">>}}, <<"a@b: it runs OTP 24">>},
            {{process, #{target => my_server}}, <<"there is no process my_server">>},
            {{node, #{node => a@b, reason => <<"not reachable">>}}, <<"a@b: not reachable">>}]].

what_is_no_error_has_a_sentence_too_test_() ->
    [?_assertMatch(<<"not an error of flame_prof: ", _/binary>>, sentence(Reason))
     || Reason <- [eof, {a, b}, [improper | list], {badarg, not_a_map}, {no_class, #{}}, #{},
            {bad_option, #{option => x}}, {bad_option, #{option => x, accepted => {}}},
            {file, #{file => "x", reason => {a, b}}}, {view, #{reason => 5}}]].

a_long_value_is_cut_test() ->
    Refused = #{option => sync, value => lists:seq(1, 100000), accepted => <<"none">>},
    ?assert(byte_size(sentence({bad_option, Refused})) < 150).

names_of_files_need_not_be_text_test_() ->
    [?_assertMatch(<<_:Bytes/binary, ": no such file or directory">>,
            sentence({file, #{file => File, reason => enoent}}))
     || {File, Bytes} <- [{<<"/", 255, "x">>, 3}, {["/a", $b], 3}, {{}, 2}, {'/a', 2}, {[a | b], 2}]
    ].

the_same_failure_has_the_same_reason_test() ->
    Expected = {file, #{file => "/nofile", reason => enoent}},
    ?assertEqual(Expected, flame_prof_error:file("/nofile", enoent)),
    ?assertEqual(Expected, flame_prof_error:file("/nofile", {io, <<"No such file or directory">>})),
    ?assertEqual({file, #{file => <<"/x/y">>, reason => enospc}},
        flame_prof_error:of_library({io, <<"/x/y: No space left on device">>}, "/x")).

why_a_process_ended_is_no_term_test_() ->
    [?_assertEqual(nomatch, re:run(sentence(flame_prof_error:of_exit(Reason)), "[{}\\[]"))
     || Reason <- [killed, shutdown, {shutdown, {x, 1}}, {nodedown, a@b}, {badmatch, [{a, 1}]}]].

%% Of an exception only the place, as the reason and the arguments may be terms of the node.
an_exception_is_a_place_without_terms_test_() ->
    Stack = [{lists, nth, [7, [secret]], [{file, "lists.erl"}, {line, 3}]},
        {flame_prof_tree, branch, [secret], [{file, "x.erl"}, {line, 12}]},
        {flame_prof, hot, 2, []}],
    Own = <<"an internal error in flame_prof_tree:branch/1, line 12">>,
    [?_assertEqual(Text, flame_prof_error:exit_text(Reason))
     || {Reason, Text} <- [{{function_clause, Stack}, Own},
            {{{badmatch, secret}, Stack}, Own},
            {{exception, secret, Stack}, Own},
            {{exception, {secret, Stack}}, Own},
            {{signal, killed}, <<"it was killed">>},
            {normal, <<"it has ended">>},
            {{secret, [hd(Stack)]}, <<"an internal error in lists:nth/2, line 3">>},
            {{secret, [{m, f, 0, []}]}, <<"an internal error in m:f/0">>},
            {{secret, [{secret, secret, secret, secret}]}, <<"an internal error">>},
            {secret, <<"an internal error; the log has its report">>}]].

an_event_has_the_sentence_of_its_error_test() ->
    Event = #{event => [flame_prof, session, stop], measurements => #{written => 3},
        metadata => #{outcome => {error, {file, #{file => "/a", reason => enospc}}}}},
    ?assertEqual(<<"flame_prof.session.stop outcome=\"/a: no space left on device\" written=3">>,
        unicode:characters_to_binary(flame_prof_event:format(Event, #{}))).

why_an_application_does_not_start_is_no_term_test_() ->
    [?_assertEqual(Sentence, sentence(flame_prof_error:of_application({kernel, Reason})))
     || {Reason, Sentence} <- [{{"no such file or directory", "kernel.app"},
                <<"the application kernel did not start: kernel.app: no such file or directory">>},
            {{bad_return, {{a, start, []}, {'EXIT', x}}},
                <<"the application kernel did not start: the log has the reason">>}]].

sentence(Reason) -> unicode:characters_to_binary(flame_prof:format_error(Reason)).
