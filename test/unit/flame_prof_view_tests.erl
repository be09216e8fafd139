%% The viewer's server, by its sockets: who is answered, with what, and what can
%% not be reached.
-module(flame_prof_view_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CORPUS, "test/corpus/").

%%% Who is answered

the_link_shows_the_page_test() ->
    viewing(fun(#{token := Token} = V) ->
        ?assertMatch({200, _, <<"<!doctype html>", _/binary>>}, get(V, [Token, "/"])),
        ?assertMatch({200, _, _}, get(V, [Token, "/viewer.js"])),
        ?assertMatch({200, _, _}, get(V, [Token, "/viewer.css"]))
    end).

a_link_without_its_last_slash_leads_to_the_page_test() ->
    viewing(fun(#{token := Token} = V) ->
        {301, Headers, <<>>} = get(V, Token),
        ?assertEqual("/" ++ binary_to_list(Token) ++ "/", maps:get("location", Headers)),
        ?assertMatch({403, _, _}, get(V, [Token, "0"]))
    end).

nothing_is_shown_without_the_token_test() ->
    viewing(fun(#{token := Token} = V) ->
        Last = binary:last(Token),
        Other = case Last of $0 -> $1; _ -> $0 end,
        Almost = [binary:part(Token, 0, byte_size(Token) - 1), Other],
        [?assertMatch({403, _, _}, get(V, Path))
         || Given <- ["", "x", Almost, [Token, "0"], binary:part(Token, 0, 47), [Token, "g"]],
            Rest <- ["/", "/viewer.js", "/api/profiles", "/api/first",
                "/api/prepare?name=ours.log"],
            Path <- [[Given, Rest]]]
    end).

every_session_has_a_token_of_its_own_test() ->
    Tokens = [viewing(fun(#{token := Token}) -> Token end) || _ <- lists:seq(1, 3)],
    ?assertEqual(3, length(lists:usort(Tokens))),
    [?assertMatch({match, _}, re:run(Token, "^[0-9a-f]{48}$")) || Token <- Tokens].

another_host_s_name_is_refused_test() ->
    viewing(fun(#{token := Token, port := Port} = V) ->
        Number = integer_to_list(Port),
        Ask = fun(Headers) -> element(1, ask(V, "GET", [Token, "/"], Headers)) end,
        [?assertEqual(403, Ask([["Host: ", Host]]))
         || Host <- ["evil.example", "evil.example:" ++ Number, "localhost.evil.example:" ++ Number,
                     "127.0.0.1:" ++ Number ++ ".evil.example", "127.0.0.2:" ++ Number,
                     "10.0.0.1:" ++ Number, "127.0.0.1:x", ""]],
        ?assertEqual(403, Ask([["Host: localhost:", Number], ["Host: localhost:", Number]]))
    end).

%% As that of the browser's end of an ssh tunnel.
any_port_of_this_machine_is_answered_test() ->
    viewing(fun(#{token := Token} = V) ->
        [?assertMatch({200, _, _}, ask(V, "GET", [Token, "/"],
                [["Host: ", Host], ["Origin: http://", Host]]))
         || Host <- ["127.0.0.1:1", "127.0.0.1", "localhost:8080", "localhost", "[::1]:8080"]],
        ?assertMatch({403, _, _}, ask(V, "GET", ["0", Token, "/"], ["Host: 127.0.0.1:8080"]))
    end).

%% As `ssh -L' does: the browser speaks to one port, and it comes to another.
the_page_is_seen_through_a_tunnel_test() ->
    viewing(fun(#{port := Port} = V) ->
        tcp_tunnel:through(Port, fun(Local) ->
            ?assertNotEqual(Port, Local),
            #{<<"state">> := <<"ready">>} = ready(V#{port := Local}, "ours.log")
        end)
    end).

another_page_s_requests_are_refused_test() ->
    viewing(fun(#{token := Token, port := Port} = V) ->
        Ask = fun(Header) -> element(1, ask(V, "GET", [Token, "/api/profiles"],
            [host(V), Header])) end,
        [?assertEqual(403, Ask(Header))
         || Header <- ["Origin: http://evil.example", "Origin: null", "Origin: http://127.0.0.1:1",
                       "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"]],
        [?assertEqual(200, Ask(Header))
         || Header <- [["Origin: http://127.0.0.1:", integer_to_list(Port)],
                       "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"]]
    end).

only_reading_is_possible_test() ->
    viewing(fun(#{token := Token} = V) ->
        [begin
            {Code, _, _} = ask(V, Method, [Token, "/api/profiles"], [host(V), "Content-Length: 0"]),
            ?assert(lists:member(Code, [400, 405, 501]))
        end || Method <- ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"]],
        ?assertMatch({200, _, <<>>}, ask(V, "HEAD", [Token, "/"], [host(V)]))
    end).

the_second_part_of_an_answer_waits_for_no_acknowledgement_test() ->
    viewing(fun(#{port := Port, token := Token} = V) ->
        {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
        {ok, Own} = inet:port(Socket),
        ok = gen_tcp:send(Socket, ["GET /", Token, "/viewer.css HTTP/1.1\r\n", host(V),
            "\r\n\r\n"]),
        {ok, <<"HTTP/1.1 200", _/binary>>} = gen_tcp:recv(Socket, 0, 10000),
        ?assertEqual([{ok, [{nodelay, true}]}], [inet:getopts(Served, [nodelay])
            || Served <- erlang:ports(), {ok, {_, Own1}} <- [inet:peername(Served)], Own1 =:= Own]),
        gen_tcp:close(Socket)
    end).

it_listens_on_this_machine_only_test() ->
    viewing(fun(#{port := Port}) ->
        {ok, Interfaces} = inet:getifaddrs(),
        Others = [A || {_, Options} <- Interfaces, {addr, {_, _, _, _} = A} <- Options,
            element(1, A) =/= 127],
        [?assertMatch({error, _}, gen_tcp:connect(A, Port, [], 1000)) || A <- Others]
    end).

every_answer_has_a_strict_policy_test() ->
    viewing(fun(#{token := Token} = V) ->
        [begin
            {_, Headers, _} = get(V, Path),
            Policy = maps:get("content-security-policy", Headers),
            ?assertMatch("default-src 'none';" ++ _, Policy),
            ?assertEqual(nomatch, re:run(Policy, "unsafe|\\*|https?:")),
            ?assertMatch(#{"x-content-type-options" := "nosniff",
                "referrer-policy" := "no-referrer",
                           "x-frame-options" := "DENY", "cache-control" := "no-store"},
                               Headers),
            ?assertNot(maps:is_key("server", Headers)),
            ?assertNot(maps:is_key("access-control-allow-origin", Headers))
        end
         || Path <- [[Token, "/"], [Token, "/viewer.js"], [Token, "/api/profiles"], "wrong/",
             [Token, "/none"]]]
    end).

%%% What cannot be reached

no_path_leads_elsewhere_test() ->
    viewing(fun(#{token := Token, dir := Dir} = V) ->
        ok = file:write_file(filename:join(filename:dirname(Dir), "secret.log"), "a secret\n"),
        Games = ["../secret.log", "..%2fsecret.log", "%2e%2e/secret.log", "..%252fsecret.log",
            "..\\secret.log", "/etc/passwd", "//etc/passwd", "file:///etc/passwd", "./ours.log",
                     "ours.log%00.log",
                 "ours.log/", "ours.log/../ours.log", "..", ".", "", "%c0%ae%c0%ae/secret.log",
                 [filename:join(filename:dirname(Dir), "secret.log")]],
        [begin
            {Code, _, Body} = get(V, [Token, How, Game]),
            ?assertEqual(nomatch, binary:match(Body, [<<"a secret">>, <<"root:">>])),
            ?assert(lists:member(Code, [200, 400, 403, 404, 410])),
            Code =:= 200 andalso ?assertMatch({match, _},
                re:run(Body, "\"state\":\"failed\"|<!doctype"))
        end
         || Game <- Games, How <- ["/api/prepare?name=", "/api/index?version=1-1-1&name=",
                                   "/api/index?name=ours.log&version=", "/", "/api/", "/../"]]
    end).

links_and_other_users_files_are_not_shown_test() ->
    viewing(fun(#{dir := Dir} = V) ->
        ok = file:make_symlink("/etc/passwd", filename:join(Dir, "link.log")),
        ok = file:make_symlink(filename:join(Dir, "ours.log"), filename:join(Dir, "inner.log")),
        ok = file:write_file(filename:join(Dir, "theirs.log"), "x"),
        %% Root of a container may have nobody else to give it to.
        IsTheirs = is_root() andalso file:change_owner(filename:join(Dir, "theirs.log"),
            12345) =:= ok,
        Profiles = profiles(V),
        States = maps:from_list([{N, {S, W}}
            || #{<<"name">> := N, <<"state">> := S, <<"why">> := W} <- Profiles]),
        ?assertMatch(#{<<"link.log">> := {<<"refused">>, <<"a link">>},
                       <<"inner.log">> := {<<"refused">>, <<"a link">>},
                       <<"ours.log">> := {<<"file">>, <<>>}}, States),
        [?assertEqual({<<"refused">>, <<"another user's">>}, maps:get(<<"theirs.log">>, States))
         || IsTheirs],
        [?assertMatch(#{<<"state">> := <<"failed">>}, prepare(V, Name))
         || Name <- ["link.log", "inner.log"] ++ ["theirs.log" || IsTheirs]]
    end).

a_directory_that_others_may_write_is_refused_test() ->
    in_directory(fun(Dir) ->
        ok = file:change_mode(Dir, 8#777),
        {error, Reason} = flame_prof:view(Dir),
        ?assertMatch({match, _}, re:run(flame_prof:format_error(Reason), "written by others"))
    end).

what_is_not_there_is_an_error_test() ->
    [begin
        {error, {Class, Details} = Reason} = flame_prof:view(Path),
        ?assertEqual(Expected, Class),
        ?assert(is_map(Details)),
        ?assertMatch({match, _}, re:run(flame_prof:format_error(Reason), Text))
    end
     || {Path, Expected, Text} <- [
         {"/nonexistent/directory", file, "^/nonexistent/directory: no such file"},
         {"/dev/null", view, "neither a directory nor a file"},
         {some_atom_with_no_file, file, "no such file"}]].

%%% Its life

it_ends_with_the_application_test() ->
    in_directory(fun(Dir) ->
        {ok, #{pid := Pid, url := Url}} = flame_prof:view(Dir),
        #{port := Port} = uri_string:parse(Url),
        Monitor = monitor(process, Pid),
        ok = applications:stop([flame_prof]),
        receive {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(shutdown, Reason) end,
        ?assertEqual({error, econnrefused}, gen_tcp:connect({127, 0, 0, 1}, Port, []))
    end).

a_viewer_whose_application_ends_meanwhile_is_an_error_test() ->
    ok = applications:stop([flame_prof]),
    ?assertMatch({error, {noproc, _}}, flame_prof_sup:start_child(#{id => x, start => {x, x, []}})),
    ?assertEqual(ok, flame_prof:view_stop()).

pages_that_were_not_built_are_an_error_test() ->
    in_directory(fun(Dir) ->
        Ebin = filename:dirname(code:which(flame_prof_report)),
        Bare = filename:join(Dir, "ebin"),
        ok = file:make_dir(Bare),
        {ok, _} = file:copy(filename:join(Ebin, "flame_prof_report.beam"),
            filename:join(Bare, "flame_prof_report.beam")),
        true = code:add_patha(Bare),
        _ = code:purge(flame_prof_report),
        {module, _} = code:load_file(flame_prof_report),
        Expected = {error, {view, #{reason => <<"this flame_prof was built without its viewer">>}}},
        try
            ?assertEqual(Expected, flame_prof:view(Dir)),
            ?assertEqual(Expected, flame_prof:report([filename:join(Dir, "ours.log")], "x.html")),
            ?assertMatch({error, "--report: " ++ _},
                flame_prof_cli_view:can_report(#{report => "/tmp/page.html"}))
        after
            true = code:del_path(Bare),
            _ = code:purge(flame_prof_report),
            {module, _} = code:load_file(flame_prof_report)
        end
    end).

a_lost_viewer_can_be_ended_test() ->
    in_directory(fun(Dir) ->
        ok = flame_prof:view_stop(),
        {ok, #{pid := First}} = flame_prof:view(Dir),
        {ok, #{pid := Second}} = flame_prof:view(filename:join(Dir, "ours.log")),
        ok = flame_prof:view_stop(),
        ?assertNot(is_process_alive(First) orelse is_process_alive(Second)),
        ok = flame_prof_view:stop(First)
    end).

what_is_shown_already_has_the_same_link_test() ->
    in_directory(fun(Dir) ->
        {ok, Started} = flame_prof:view(Dir),
        ?assertEqual({ok, Started}, flame_prof:view(Dir ++ "/")),
        ok = flame_prof:view_stop()
    end).

%% A page that offers tracing is not what one without is asked for.
a_page_that_measures_nothing_is_another_one_test() ->
    in_directory(fun(Dir) ->
        {ok, Measures} = flame_prof:view(Dir),
        {ok, Nothing} = flame_prof:view(Dir, #{measured => none}),
        ?assertNotEqual(maps:get(url, Measures), maps:get(url, Nothing)),
        ?assertEqual({ok, Nothing}, flame_prof:view(Dir, #{measured => none})),
        ?assertEqual({ok, Measures}, flame_prof:view(Dir)),
        [?assertEqual(Node, measured(Url))
            || {#{url := Url}, Node} <- [{Measures, atom_to_binary(node())}, {Nothing, null}]],
        ok = flame_prof:view_stop(),
        [?assertNot(is_process_alive(Pid)) || #{pid := Pid} <- [Measures, Nothing]]
    end).

measured(Url) ->
    #{port := Port, path := <<"/", Token:48/binary, _/binary>>} = uri_string:parse(Url),
    {200, _, Json} = get(#{port => Port}, [Token, "/api/profiles"]),
    maps:get(<<"measured">>, foreign_formats:json(Json)).

the_port_can_be_chosen_test() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    in_directory(fun(Dir) ->
        {error, {view, _} = Taken} = flame_prof:view(Dir, #{port => Port}),
        ?assertEqual(iolist_to_binary(io_lib:format(
            "the page cannot be served: port ~b: address already in use", [Port])),
            unicode:characters_to_binary(flame_prof:format_error(Taken))),
        ok = gen_tcp:close(Socket),
        {ok, #{url := Url}} = flame_prof:view(Dir, #{port => Port}),
        ?assertMatch(#{port := Port}, uri_string:parse(Url)),
        ok = flame_prof:view_stop(),
        {ok, _} = flame_prof:view(Dir, #{port => nil}),
        ok = flame_prof:view_stop(),
        [?assertMatch({error, {bad_option, #{option := Option}}}, flame_prof:view(Dir, Options))
         || {Option, Options} <- [{port, #{port => -1}}, {port, #{port => "80"}},
                {prot, #{prot => 80}}, {options, [port]}]]
    end).

%% As a service has it in a container.
no_home_is_needed_test() ->
    in_directory(fun(Dir) ->
        View = "flame_prof:view(\"" ++ Dir ++ "\")",
        Temporary = filename:dirname(Dir),
        [?assertMatch({match, _}, re:run(elsewhere(Environment ++ " TMPDIR=" ++ Temporary, View),
                "{ok,#{pid => .*http://127"))
         || Environment <- ["-u HOME -u XDG_CACHE_HOME", "-u XDG_CACHE_HOME HOME=/proc/x"]],
        ?assertEqual([], filelib:wildcard("flame_prof-view-*", Temporary)),
        Text = elsewhere("-u HOME -u XDG_CACHE_HOME TMPDIR=/proc/x",
            "unicode:characters_to_binary(flame_prof:format_error(element(2, " ++ View ++ ")))"),
        ?assertMatch({match, _}, re:run(Text, "/proc/x/flame_prof-view-.*: no such file"))
    end).

%% As in a release that does not have it.
without_inets_it_says_what_is_missing_test() ->
    Text = elsewhere("", "begin code:del_path(inets), flame_prof:format_error(element(2,"
        "flame_prof:view(\"/tmp\"))) end"),
    ?assertMatch({match, _}, re:run(Text, "add inets to the release's applications")).

%% What an expression is in another VM, printed.
elsewhere(Environment, Expression) ->
    os:cmd("env " ++ Environment ++ " erl -noinput -pa "
        ++ filename:absname(filename:dirname(code:which(flame_prof)))
        ++ " -eval 'io:format(\"~0tp~n\", [" ++ Expression ++ "]), init:stop().' 2>&1").

one_file_is_shown_alone_test() ->
    in_directory(fun(Dir) ->
        viewing(filename:join(Dir, "ours.log"), fun(V) ->
            ?assertMatch([#{<<"name">> := <<"ours.log">>}], profiles(V)),
            ?assertMatch(#{<<"state">> := <<"failed">>}, prepare(V, "damaged.log"))
        end)
    end).

%%% What is served

the_index_comes_in_ranges_test() ->
    viewing(fun(V) ->
        #{<<"version">> := Version, <<"size">> := Size} = ready(V, "ours.log"),
        #{rows := Rows} = foreign_formats:index(index(V, "ours.log", Version, Size)),
        ?assertMatch(#{rows := Rows}, foreign_formats:index(corpus_index("ours.log")))
    end).

%% Of a small index, and of one whose middle is left out.
the_first_answer_has_what_the_others_have_test() ->
    in_directory(fun(Dir) ->
        {ok, Bytes} = file:read_file(?CORPUS ++ "trouble/table.log.zst"),
        ok = file:write_file(filename:join(Dir, "large.log.zst"), lists:duplicate(3, Bytes)),
        viewing(Dir, fun(#{token := Token} = V) ->
            First = fun(Query) ->
                {200, _, Body} = get(V, [Token, "/api/first", Query]),
                [Line | Sent] = binary:split(Body, <<"\n">>),
                {foreign_formats:json(Line), Sent}
            end,
            {200, _, Modules} = get(V, [Token, "/api/modules"]),
            [true, false] = [begin
                #{<<"version">> := Version, <<"size">> := Size} = Prepared = ready(V, Name),
                {#{<<"prepared">> := Prepared, <<"profiles">> := Profiles, <<"begin">> := Begin,
                    <<"modules">> := Known, <<"name">> := Name}, [Sent]} = First(["?name=", Name]),
                ?assertEqual({profiles(V), foreign_formats:json(Modules)}, {Profiles, Known}),
                <<FromBegin:Begin/binary, FromEnd/binary>> = Sent,
                ?assertEqual(FromBegin, index(V, Name, Version, 0, Begin)),
                _ = [?assertEqual(FromEnd, index(V, Name, Version, Size - End, Size))
                    || End <- [byte_size(FromEnd)], End > 0],
                byte_size(Sent) =:= Size
            end || Name <- [<<"ours.log">>, <<"large.log.zst">>]],
            {#{<<"prepared">> := #{<<"state">> := <<"failed">>}}, []} = First("?name=nope"),
            [#{<<"name">> := Newest} | _] = profiles(V),
            ?assertMatch({#{<<"name">> := Newest}, _}, First(""))
        end)
    end).

a_range_that_is_none_is_refused_test() ->
    viewing(fun(#{token := Token} = V) ->
        #{<<"version">> := Version, <<"size">> := Size} = ready(V, "ours.log"),
        Path = [Token, "/api/index?name=ours.log&version=", Version],
        [?assertMatch({416, _, _}, ask(V, "GET", Path, [host(V) | Range]))
         || Range <- [[], ["Range: bytes=0-"], ["Range: bytes=-5"], ["Range: bytes=5-1"],
                      ["Range: bytes=0-99999999999"], ["Range: bytes=0-1,3-4"],
                          ["Range: lines=0-1"], [["Range: bytes=0-", integer_to_list(Size)]]]],
        ?assertMatch({410, _, _}, get(V, [Token, "/api/index?name=ours.log&version=0-0-0"]))
    end).

broken_files_are_shown_as_such_test() ->
    in_directory(fun(Dir) ->
        Broken = [{"zeros.log", binary:copy(<<0>>, 100000)}, {"empty.log", <<>>},
                  {"noise.log.zst", <<16#28, 16#B5, 16#2F, 16#FD,
                      (binary:copy(<<7>>, 5000))/binary>>},
                  {"noise.log.gz", <<31, 139, 8, (binary:copy(<<9>>, 5000))/binary>>},
                  {"prose.txt", binary:copy(<<"this is no profile\n\n">>, 1000)}],
        [ok = file:write_file(filename:join(Dir, Name), Text) || {Name, Text} <- Broken],
        viewing(Dir, fun(V) ->
            [case finished(V, Name) of
                #{<<"state">> := <<"failed">>, <<"why">> := Why} -> ?assertNotEqual(<<>>, Why);
                #{<<"state">> := <<"ready">>, <<"version">> := Version, <<"size">> := Size} ->
                    Bytes = index(V, Name, Version, Size),
                    #{rows := Rows, header := Header} = foreign_formats:index(Bytes),
                    ?assertEqual([], Rows),
                    Name =:= "empty.log" orelse ?assert(maps:get(<<"warning_count">>, Header) > 0)
            end || {Name, _} <- Broken],
            ?assertMatch(#{<<"state">> := <<"ready">>}, finished(V, "ours.log"))
        end)
    end).

a_file_that_has_grown_is_read_again_test() ->
    in_directory(fun(Dir) ->
        {ok, Text} = file:read_file(?CORPUS "ours.log"),
        Path = filename:join(Dir, "grows.log"),
        ok = file:write_file(Path, Text),
        viewing(Dir, fun(V) ->
            #{<<"version">> := First} = ready(V, "grows.log"),
            ok = file:write_file(Path, Text, [append]),
            #{<<"version">> := Second, <<"size">> := Size} = another(V, "grows.log", First),
            #{rows := Rows} = foreign_formats:index(index(V, "grows.log", Second, Size)),
            #{rows := Before} = foreign_formats:index(corpus_index("ours.log")),
            ?assertEqual(2 * length(Before), length(Rows))
        end)
    end).

what_the_doctor_finds_comes_with_the_profile_test() ->
    in_directory(fun(Dir) ->
        viewing(Dir, fun(V) ->
            _ = ready(V, "ours.log"),
            {ok, Profile} = flame_prof_profile:read(?CORPUS "ours.log"),
            #{samples := Samples} = flame_prof_profile:info(Profile),
            ?assertMatch(#{<<"state">> := <<"judged">>, <<"samples">> := Samples},
                judged(V, "ours.log")),
            ?assertMatch(#{<<"state">> := <<"none">>}, findings(V, "no.log"))
        end)
    end).

%% A judging that took long asks for a rest that is longer than the reader waits for a page.
what_waits_to_be_judged_is_judged_before_the_reader_ends_test() ->
    in_directory(fun(Dir) ->
        {ok, Text} = file:read_file(?CORPUS "ours.log"),
        [Path, Index, Piece] = [filename:join(Dir, Name)
            || Name <- ["grows.log.part", "index", "piece"]],
        ok = file:write_file(Path, Text),
        Reader = flame_prof_view_reader:start_link([list_to_binary(Path)], Index),
        Monitor = monitor(process, Reader),
        Before = told_judged(Reader),
        ok = file:write_file(Path, Text, [append]),
        ok = flame_prof_view_reader:extend(Reader, [list_to_binary(Path)], Piece, none),
        Reader ! timeout,
        receive {'DOWN', Monitor, process, Reader, Why} -> ?assertEqual(normal, Why) end,
        ?assertEqual(2 * Before, told_judged(Reader))
    end).

told_judged(Reader) ->
    receive {'$gen_cast', {judged, Reader, Json}} ->
        map_get(<<"samples">>, foreign_formats:json(Json))
    end.

a_report_has_what_the_doctor_finds_test() ->
    in_directory(fun(Dir) ->
        Out = filename:join(Dir, "report.html"),
        {ok, #{samples := Samples}} = flame_prof:report(?CORPUS "ours.log", Out),
        {ok, Html} = file:read_file(Out),
        #{<<"profile-about">> := About} = report_parts:of_page(Html),
        #{<<"findings">> := Findings} = foreign_formats:json(About),
        ?assertMatch(#{<<"state">> := <<"judged">>, <<"samples">> := Samples}, Findings)
    end).

a_piece_of_a_growing_file_comes_with_the_answer_that_names_it_test() ->
    in_directory(fun(Dir) ->
        {ok, Text} = file:read_file(?CORPUS "ours.log"),
        Path = filename:join(Dir, "grows.log.part"),
        ok = file:write_file(Path, Text),
        viewing(Dir, fun(V) ->
            #{<<"version">> := First} = ready(V, "grows.log"),
            ok = file:write_file(Path, Text, [append]),
            {Version, Size, Bytes} = piece(V, "grows.log", First),
            ?assertEqual(Size, byte_size(Bytes)),
            ?assertEqual(index(V, "grows.log", Version, Size), Bytes)
        end)
    end).

%% Once there is one: the reader rests between two.
piece(#{token := Token} = V, Name, Version) ->
    waiting:eventually(fun() ->
        {200, _, Answer} = get(V, [Token, "/api/append?name=", Name, "&version=", Version]),
        [Line, Piece] = binary:split(Answer, <<"\n">>),
        #{<<"pieces">> := [#{<<"version">> := New, <<"size">> := Size}]} =
            foreign_formats:json(Line),
        {true, {New, Size, Piece}}
    end).

files_of_one_session_are_one_profile_test() ->
    in_directory(fun(Dir) ->
        First = written(Dir, "2026-11-21@1000.00.erl_perf.log", 77, 1000),
        Second = written(Dir, "2026-11-21@1002.00.erl_perf.log.part", 77, 1120),
        Third = written(Dir, "2026-11-21@1010.00.erl_perf.log", 77, 1600),
        _ = written(Dir, "2026-11-21@1010.30.erl_perf.log", 78, 1630),
        [ok = file:change_time(File, calendar:system_time_to_local_time(T, second))
         || {File, T} <- [{First, 1119}, {Second, 1180}, {Third, 1620}]],
        viewing(Dir, fun(V) ->
            Name = "2026-11-21@1000.00.erl_perf.log%2B",
            Profiles = profiles(V),
            ?assertEqual([{<<"2026-11-21@1000.00.erl_perf.log+">>, 2}],
                         [{N, Files} || #{<<"name">> := N, <<"files">> := Files} <- Profiles,
                             Files > 1]),
            ?assertEqual([], [N || #{<<"name">> := N} <- Profiles,
                binary:match(N, <<".part">>) =/= nomatch]),
            #{<<"version">> := Version, <<"size">> := Size} = ready(V, Name),
            #{rows := Rows} = foreign_formats:index(index(V, Name, Version, Size)),
            ?assertEqual([1000000001, 1120000001], [T || #{time_us := T} <- Rows])
        end)
    end).

%% As attach writes those of two nodes to one folder, and a session several in a second.
files_of_one_attach_are_one_profile_test() ->
    in_directory(fun(Dir) ->
        Files = [{"2026-11-21@1000.00.a@host.erl_perf.log", 77, 1000},
                 {"2026-11-21@1000.01.b@host.erl_perf.log", 78, 1001},
                 {"2026-11-21@1000.30.a@host.erl_perf.log", 77, 1030},
                 {"2026-11-21@1000.31.b@host.erl_perf.log", 78, 1031},
                 {"2026-11-21@1000.30_001.a@host.erl_perf.log", 77, 1032},
                 {"2026-11-21@1000.33.c@other.erl_perf.log", 77, 1033}],
        [ok = file:change_time(written(Dir, Name, Pid, T),
            calendar:system_time_to_local_time(T + 1, second)) || {Name, Pid, T} <- Files],
        viewing(Dir, fun(V) ->
            Profiles = profiles(V),
            ?assertEqual([{<<"2026-11-21@1000.00.a@host.erl_perf.log+">>, 3},
                          {<<"2026-11-21@1000.01.b@host.erl_perf.log+">>, 2}],
                         lists:sort([{N, Count} || #{<<"name">> := N, <<"files">> := Count} <-
                             Profiles, Count > 1]))
        end)
    end).

what_a_session_writes_is_told_apart_test() ->
    in_directory(fun(Dir) ->
        [written(Dir, Name, Pid, 1000)
         || {Name, Pid} <- [{"2026-11-21@1000.00.a@host.erl_perf.log.part", 77},
                            {"2026-11-21@1000.00.b@host.erl_perf.log", 78}]],
        viewing(Dir, fun(#{token := Token} = V) ->
            {200, _, List} = get(V, [Token, "/api/profiles"]),
            #{<<"profiles">> := Profiles, <<"now_us">> := Now} = foreign_formats:json(List),
            ?assertEqual([<<"2026-11-21@1000.00.a@host.erl_perf.log">>],
                [Name || #{<<"name">> := Name, <<"live">> := true} <- Profiles]),
            ?assert(Now =< os:system_time(microsecond))
        end)
    end).

%% The newest comes first, since that is what a page without a choice shows.
a_file_without_a_sample_is_not_what_is_shown_first_test() ->
    in_directory(fun(Dir) ->
        Begun = [{"2026-11-21@1000.00.erl_perf.log.zst.part", <<>>},
                 {"2026-11-21@1000.01.erl_perf.log.zst.part", <<16#28, 16#B5, 16#2F, 16#FD>>}],
        [ok = file:write_file(filename:join(Dir, Name), Text) || {Name, Text} <- Begun],
        viewing(Dir, fun(V) ->
            Profiles = profiles(V),
            ?assertEqual([<<"2026-11-21@1000.00.erl_perf.log.zst">>,
                <<"2026-11-21@1000.01.erl_perf.log.zst">>],
                         lists:sort([N || #{<<"name">> := N} <- lists:nthtail(2, Profiles)]))
        end)
    end).

a_file_that_is_finished_meanwhile_stays_in_view_test() ->
    in_directory(fun(Dir) ->
        Part = written(Dir, "2026-11-21@1000.00.erl_perf.log.part", 77, 1000),
        viewing(Part, fun(V) ->
            #{<<"version">> := First} = ready(V, "2026-11-21@1000.00.erl_perf.log"),
            ok = file:rename(Part, filename:rootname(Part)),
            ?assertMatch([#{<<"state">> := <<"file">>}], profiles(V)),
            #{<<"version">> := _} = another(V, "2026-11-21@1000.00.erl_perf.log", First)
        end)
    end).

%% The first file takes longer to read than the second one takes to be finished.
a_file_that_is_finished_while_those_before_it_are_read_is_shown_test() ->
    in_directory(fun(Dir) ->
        First = written(Dir, "2026-11-21@1000.00.erl_perf.log", 77, 1000),
        {ok, Sample} = file:read_file(First),
        ok = file:write_file(First, binary:copy(Sample, 300000)),
        Part = written(Dir, "2026-11-21@1002.00.erl_perf.log.part", 77, 1120),
        [ok = file:change_time(File, calendar:system_time_to_local_time(T, second))
         || {File, T} <- [{First, 1119}, {Part, 1180}]],
        viewing(Dir, fun(V) ->
            Name = "2026-11-21@1000.00.erl_perf.log%2B",
            #{<<"state">> := <<"reading">>} = prepare(V, Name),
            ok = file:rename(Part, filename:rootname(Part)),
            ?assertMatch(#{<<"state">> := <<"ready">>}, finished(V, Name))
        end)
    end).

many_requests_at_once_are_survived_test() ->
    viewing(fun(#{token := Token, pid := Pid} = V) ->
        Self = self(),
        _ = ready(V, "ours.log"),
        Before = resources(),
        Paths = [[Token, "/"], "wrong/", [Token, "/api/profiles"],
            [Token, "/api/prepare?name=ours.log"]],
        Ask = fun(N) ->
            try ask(V, "GET", lists:nth(N rem 4 + 1, Paths), [host(V)]) of
                {Code, _, _} -> Code
            catch _:_ -> refused
            end
        end,
        Workers = [spawn_link(fun() -> Self ! {self(), [Ask(N) || N <- lists:seq(1, 50)]} end)
                   || _ <- lists:seq(1, 200)],
        Codes = lists:append([receive {W, Some} -> Some end || W <- Workers]),
        ?assertEqual(10000, length(Codes)),
        ?assertEqual([], lists:usort(Codes) -- [200, 403, 503, refused]),
        ?assert(is_process_alive(Pid)),
        waiting:eventually(fun() -> element(1, get(V, [Token, "/"])) =:= 200 end),
        waiting:eventually(fun() -> lists:all(fun({Was, Is}) -> Is =< Was + 5 end,
            lists:zip(Before, resources())) end)
    end).

it_leaves_nothing_behind_test() ->
    with_cache(fun(Cache) ->
        Port = viewing(fun(#{port := Port} = V) ->
            _ = ready(V, "ours.log"),
            ?assertMatch(["view-" ++ _], filelib:wildcard("*", Cache)),
            Port
        end),
        ?assertEqual([], filelib:wildcard("*", Cache)),
        ?assertMatch({error, _}, gen_tcp:connect({127, 0, 0, 1}, Port, [], 1000))
    end).

%% As SIGTERM ends it.
an_orderly_end_of_the_node_leaves_nothing_behind_test() ->
    in_directory(fun(Dir) ->
        Text = elsewhere("XDG_CACHE_HOME=" ++ Dir, "begin {ok, _} = flame_prof:view(\"" ++ Dir
            ++ "\"), filelib:wildcard(\"view-*\", \"" ++ Dir ++ "/flame_prof\") end"),
        ?assertMatch({match, _}, re:run(Text, "^\\[\"view-", [multiline])),
        ?assertEqual([], filelib:wildcard("flame_prof/*", Dir))
    end).

what_a_dead_node_has_left_is_removed_test() ->
    with_cache(fun(Cache) ->
        {House, Pid} = viewing(fun(_) -> house(Cache) end),
        Dead = "4194305", % above what Linux gives away
        Month = 31 * 24 * 3600,
        Gone = [left(Cache, House, Dead, 0), left(Cache, "other.1", Pid, Month),
            left(Cache, "0", Dead, Month)],
        Kept = [left(Cache, House, Pid, Month), left(Cache, "other.1", Dead, 0),
            left(Cache, "other.1", Pid, 0), left(Cache, "0", Dead, 0)],
        viewing(fun(_) ->
            ?assertEqual([], [Dir || Dir <- Gone, filelib:is_dir(Dir)]),
            ?assertEqual([], [Dir || Dir <- Kept, not filelib:is_dir(Dir)])
        end)
    end).

an_index_that_is_cleaned_away_is_made_again_test() ->
    with_cache(fun(Cache) ->
        viewing(fun(V) ->
            Removals = [fun file:delete/1, fun(Index) ->
                file:del_dir_r(filename:dirname(Index)) end],
            [made_again(V, Cache, Remove) || Remove <- Removals]
        end)
    end).

made_again(#{token := Token} = V, Cache, Remove) ->
    #{<<"version">> := Version, <<"size">> := Size} = ready(V, "ours.log"),
    [Index] = filelib:wildcard(filename:join(Cache, "view-*/*")),
    ok = Remove(Index),
    Headers = [host(V), "Range: bytes=0-3"],
    Path = [Token, "/api/index?name=ours.log&version=", Version],
    ?assertMatch({410, _, _}, ask(V, "GET", Path, Headers)),
    #{<<"version">> := Again, <<"size">> := Size} = ready(V, "ours.log"),
    ?assertEqual(Size, byte_size(index(V, "ours.log", Again, Size))),
    {ok, Info} = file:read_file_info(filename:dirname(Index)),
    ?assertEqual(8#700, element(8, Info) band 8#777).

an_index_that_is_cleaned_away_ends_its_reader_test() ->
    with_cache(fun(Cache) ->
        viewing(fun(#{token := Token, pid := Pid, dir := Dir} = V) ->
            {ok, _} = file:copy(?CORPUS "ours.log", filename:join(Dir, "a.log.part")),
            #{<<"version">> := Version} = ready(V, "a.log"),
            {links, Links} = process_info(Pid, links),
            [Reader] = [P || P <- Links, is_pid(P), {dictionary, D} <- [process_info(P,
                dictionary)], {flame_prof_view_reader, init, 1} =:=
                    proplists:get_value('$initial_call', D)],
            Monitor = monitor(process, Reader),
            [Index] = filelib:wildcard(filename:join(Cache, "view-*/*")),
            ok = file:delete(Index),
            Path = [Token, "/api/index?name=a.log&version=", Version],
            ?assertMatch({410, _, _}, get(V, Path)),
            receive {'DOWN', Monitor, process, Reader, Reason} ->
                ?assertEqual(normal, Reason)
            end,
            ?assertEqual([], filelib:wildcard(filename:join(Cache, "view-*/*")))
        end)
    end).

it_writes_nothing_beside_the_profiles_test() ->
    in_directory(fun(Dir) ->
        {ok, Before} = file:list_dir(Dir),
        viewing(Dir, fun(V) -> ready(V, "ours.log") end),
        {ok, After} = file:list_dir(Dir),
        ?assertEqual(lists:sort(Before), lists:sort(After))
    end).

%%% The report

a_report_is_one_private_file_test() ->
    in_directory(fun(Dir) ->
        Out = filename:join(Dir, "report.html"),
        {ok, #{bytes := Bytes, samples := Samples, observations := Samples, coarse_us := 0}} =
            flame_prof:report(?CORPUS "ours.log", Out),
        {ok, Html} = file:read_file(Out),
        ?assertEqual(Bytes, byte_size(Html)),
        ?assert(Samples > 0),
        ?assertEqual(nomatch, re:run(Html, "(src|href)=[\"']?(https?:)?//")),
        ?assertEqual(["report.html"], filelib:wildcard("report*", Dir)),
        {ok, Info} = file:read_file_info(Out),
        ?assertEqual(8#600, element(8, Info) band 8#777)
    end).

%% The browser runs and applies only what the policy names by its hash.
a_report_has_the_page_that_its_policy_names_test() ->
    in_directory(fun(Dir) ->
        Out = filename:join(Dir, "report.html"),
        {ok, _} = flame_prof:report(?CORPUS "ours.log", Out),
        {ok, Html} = file:read_file(Out),
        {match, [Scripts, Styles]} = re:run(Html, "script-src ([^;]*); style-src ([^;]*);",
            [{capture, all_but_first, binary}]),
        {match, [Boot]} = re:run(Html, "<script>(.*?)</script>",
            [dotall, {capture, all_but_first, binary}]),
        Parts = report_parts:of_page(Html),
        #{<<"page-script">> := Script, <<"page-style">> := Style, <<"profile-data">> := Data
        } = Parts,
        ?assertEqual(lists:sort([named(Boot), named(Script)]),
            lists:sort(binary:split(Scripts, <<" ">>, [global]))),
        ?assertEqual(named(Style), Styles),
        ?assertMatch(<<"FPINDEX1", _/binary>>, Data)
    end).

named(Text) -> <<"'sha256-", (base64:encode(crypto:hash(sha256, Text)))/binary, "'">>.

a_name_can_not_end_the_report_s_data_test() ->
    in_directory(fun(Dir) ->
        {ok, Text} = file:read_file(?CORPUS "ours.log"),
        Nasty = filename:join(Dir, "a<script>alert(1)<!--&.log"),
        ok = file:write_file(Nasty, Text),
        Out = filename:join(Dir, "out.html"),
        {ok, _} = flame_prof:report(Nasty, Out),
        {ok, Html} = file:read_file(Out),
        ?assertEqual(nomatch, binary:match(Html, <<"alert(1)<">>)),
        ?assertEqual(nomatch, binary:match(Html, <<"a<script">>))
    end).

a_report_gives_its_memory_back_at_once_test() ->
    in_directory(fun(Dir) ->
        [begin
            Calls = closes(fun() -> flame_prof:report(?CORPUS "ours.log",
                filename:join(Dir, Out)) end),
            ?assertMatch([_], Calls)
        end || Out <- ["report.html", "no/report.html"]]
    end).

a_report_leaves_other_files_alone_test() ->
    in_directory(fun(Dir) ->
        Out = filename:join(Dir, "report.html"),
        Theirs = [Out ++ Suffix || Suffix <- [".packed", ".new"]],
        [ok = file:write_file(File, "theirs") || File <- Theirs],
        {ok, _} = flame_prof:report(?CORPUS "ours.log", Out),
        [?assertEqual({ok, <<"theirs">>}, file:read_file(File)) || File <- Theirs],
        ?assertEqual(3, length(filelib:wildcard("report*", Dir)))
    end).

a_report_to_no_name_reads_nothing_test() ->
    ?assertEqual([], closes(fun() -> {error, {file, #{file := <<0>>}}} =
        flame_prof:report(?CORPUS "ours.log", <<0>>) end)).

%% Profiles that a fun closes.
closes(Fun) ->
    Close = {flame_prof_report_nif, profile_close, 1},
    {Pid, Monitor} = spawn_monitor(fun() -> receive go -> Fun() end end),
    1 = erlang:trace(Pid, true, [call]),
    1 = erlang:trace_pattern(Close, true, []),
    Pid ! go,
    receive {'DOWN', Monitor, process, _, Reason} -> ?assertEqual(normal, Reason) end,
    Delivered = erlang:trace_delivered(Pid),
    receive {trace_delivered, Pid, Delivered} -> ok end,
    _ = erlang:trace_pattern(Close, false, []),
    traced(Pid).

traced(Pid) ->
    receive
        {trace, Pid, call, Call} -> [Call | traced(Pid)]
    after 0 -> []
    end.

is_root() -> os:cmd("id -u") =:= "0\n".
viewing(Test) -> in_directory(fun(Dir) -> viewing(Dir, Test) end).

viewing(What, Test) ->
    {ok, #{pid := Pid, url := Url}} = flame_prof:view(What),
    #{port := Port, path := <<"/", Path/binary>>} = uri_string:parse(Url),
    [Token, <<>>] = binary:split(Path, <<"/">>),
    try Test(#{pid => Pid, port => Port, token => Token, dir => What})
    after flame_prof_view:stop(Pid)
    end.

%% With profiles in it, inside of another one.
in_directory(Test) ->
    text_file:folder(fun(Outer) ->
        Dir = filename:join(Outer, "profiles"),
        ok = file:make_dir(Dir),
        ok = file:change_mode(Dir, 8#700),
        [{ok, _} = file:copy(?CORPUS ++ Name, filename:join(Dir, Name))
            || Name <- ["ours.log", "damaged.log"]],
        try Test(Dir)
        after ok = applications:stop([flame_prof, inets])
        end
    end).

%% One that no other suite uses.
with_cache(Test) ->
    in_directory(fun(Dir) ->
        Home = filename:join(filename:dirname(Dir), "cache"),
        Before = os:getenv("XDG_CACHE_HOME"),
        true = os:putenv("XDG_CACHE_HOME", Home),
        try Test(filename:basedir(user_cache, "flame_prof"))
        after
            case Before of
                false -> os:unsetenv("XDG_CACHE_HOME");
                _ -> os:putenv("XDG_CACHE_HOME", Before)
            end
        end
    end).

%% As the one server that runs has named its own.
house(Cache) ->
    [Name] = filelib:wildcard("view-*", Cache),
    ["view", House, Pid, _] = string:split(Name, "-", all),
    ?assertEqual(os:getpid(), Pid),
    {House, Pid}.

%% A server's folder with an index in it.
left(Cache, House, Pid, Age) ->
    Dir = filename:join(Cache, lists:flatten(lists:join("-",
        ["view", House, Pid, integer_to_list(Age)]))),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    ok = file:write_file(filename:join(Dir, "1"), "an index"),
    Time = calendar:system_time_to_local_time(os:system_time(second) - Age, second),
    ok = file:change_time(Dir, Time),
    Dir.

host(#{port := Port}) -> ["Host: 127.0.0.1:", integer_to_list(Port)].
get(V, Path) -> ask(V, "GET", Path, [host(V)]).

%% As bytes on a socket: no client that mends what is asked.
ask(#{port := Port}, Method, Path, Headers) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}], 10000),
    ok = gen_tcp:send(Socket, [Method, " /", Path, " HTTP/1.1\r\nConnection: close\r\n",
                               [[H, "\r\n"] || H <- Headers], "\r\n"]),
    Answer = received(Socket, <<>>),
    [Head, Body] = binary:split(Answer, <<"\r\n\r\n">>),
    [<<"HTTP/1.1 ", Code:3/binary, _/binary>> | Lines] = binary:split(Head, <<"\r\n">>, [global]),
    {binary_to_integer(Code), maps:from_list([header(Line) || Line <- Lines]), Body}.

received(Socket, Text) ->
    case gen_tcp:recv(Socket, 0, 20000) of
        {ok, More} -> received(Socket, <<Text/binary, More/binary>>);
        {error, _} -> gen_tcp:close(Socket), Text
    end.

header(Line) ->
    [Key, Value] = binary:split(Line, <<":">>),
    {string:lowercase(binary_to_list(Key)), string:trim(binary_to_list(Value))}.

profiles(#{token := Token} = V) ->
    {200, _, List} = get(V, [Token, "/api/profiles"]),
    maps:get(<<"profiles">>, foreign_formats:json(List)).

prepare(#{token := Token} = V, Name) ->
    {200, _, Body} = get(V, [Token, "/api/prepare?name=", Name]),
    foreign_formats:json(Body).

findings(#{token := Token} = V, Name) ->
    {200, _, Body} = get(V, [Token, "/api/findings?name=", Name]),
    foreign_formats:json(Body).

judged(V, Name) -> settled(<<"judging">>, fun() -> findings(V, Name) end).
finished(V, Name) -> settled(<<"reading">>, fun() -> prepare(V, Name) end).

settled(Busy, Ask) ->
    waiting:eventually(fun() ->
        #{<<"state">> := State} = Answer = Ask(),
        {State =/= Busy, Answer}
    end).

ready(V, Name) ->
    #{<<"state">> := <<"ready">>} = Answer = finished(V, Name),
    Answer.

another(V, Name, Version) ->
    waiting:eventually(fun() ->
        #{<<"version">> := Now} = Answer = ready(V, Name),
        {Now =/= Version, Answer}
    end).

index(V, Name, Version, Size) -> index(V, Name, Version, 0, Size).

index(#{token := Token} = V, Name, Version, From, To) ->
    Headers = [host(V), io_lib:format("Range: bytes=~b-~b", [From, To - 1])],
    {206, _, Bytes} = ask(V, "GET", [Token, "/api/index?name=", Name, "&version=", Version],
        Headers),
    Bytes.

corpus_index(Name) ->
    in_directory(fun(Dir) ->
        {ok, Profile} = flame_prof_profile:read(?CORPUS ++ Name),
        Path = filename:join(Dir, "index"),
        {ok, _} = flame_prof_profile:index(Profile, Path),
        {ok, Bytes} = file:read_file(Path),
        Bytes
    end).

%% What a server could forget to give back.
resources() ->
    {ok, Files} = file:list_dir("/proc/self/fd"),
    [length(Files), length(erlang:ports()), erlang:system_info(process_count)].

%% A file of one sample.
written(Dir, Name, OsPid, Second) ->
    Path = filename:join(Dir, Name),
    ok = file:write_file(Path, io_lib:format(
        "beam ~b/5 [000] ~b.000001: cpu-clock:\n# reductions=1/0 erl_pid=<0.5.0> (metrics)\n"
        "\tffffffff a:b/0 (a.erl)\n\tffffffff waiting (status)\n\n", [OsPid, Second])),
    Path.
