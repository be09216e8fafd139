%% bin/flame_prof as people and scripts use it: from any folder, through a link,
%% in pipes, and in a real terminal (tmux; skipped where it is not installed).
-module(flame_prof_cli_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_group/2, end_per_group/2, exit_codes_tell_scripts/1,
    the_doctor_s_exit_codes_tell_scripts/1, a_bug_is_told_by_its_place/1,
    it_works_from_any_folder_and_through_links/1, it_works_in_the_layout_of_a_release/1,
    an_erlang_of_another_release_is_used/1, an_argument_that_is_no_text_is_told/1,
    a_reader_that_goes_away_is_no_error/1, results_that_find_no_room_are_told/1,
    exports_go_to_files_and_pipes/1, of_several_events_one_is_read/1, json_is_read_by_others/1,
    sessions_are_started_flushed_and_stopped/1, elixir_starts_it_and_is_attached_to/1,
    a_viewer_that_a_signal_ends_leaves_no_index/1,
    terminal_top_follows_the_window_and_keys/1, terminal_top_ends_by_control_c_and_by_a_hangup/1,
    terminal_attach_shows_progress_and_ends_by_control_c/1,
    terminal_attach_keeps_all_of_it_when_it_goes_away/1,
    terminal_shows_nothing_but_the_answer_of_what_is_lent/1, terminal_files_by_hand/1,
    terminal_reading_ends_by_control_c/1, terminal_colours/1, terminal_top_of_a_shell/1]).

-import(command_line, [run/1, shell/1, until/1, script/0, expect/1, matches/2, cookie/0, ebin/0]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> [{group, plain}, {group, terminal}].

groups() ->
    Cases = [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info],
    {Terminal, Plain} = lists:partition(fun(Case) ->
        lists:prefix("terminal_", atom_to_list(Case)) end, Cases),
    [{plain, [], Plain}, {terminal, [], Terminal}].

init_per_group(terminal, Config) ->
    case os:find_executable("tmux") of false -> {skip, "tmux is not installed"}; _ -> Config end;
init_per_group(_, Config) -> Config.

end_per_group(_, _Config) -> ok.

corpus(Name) ->
    filename:join([filename:dirname(filename:dirname(script())), "test", "corpus", Name]).

the_doctor_s_exit_codes_tell_scripts(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "doctor"),
    ok = file:make_dir(Folder),
    Of = fun(Name, More) -> ["doctor", corpus("trouble/" ++ Name ++ ".log.zst") | More] end,
    {0, Healthy} = run(Of("none", [])),
    matches(Healthy, ["\\Anothing is wrong: looked for 13 s: 104 of 5,146 processes "
        "sampled \\(36,499 observations\\)\nnot seen: "]),
    {10, Wrong} = run(Of("mailbox", [])),
    matches(Wrong, ["\\A1. critical: mailbox: audit_log \\(<0.5861.0>\\) has 11,501 "]),
    {10, Finding} = shared_nodes:run(Of("mailbox", ["--json"])),
    ?assertMatch(#{<<"findings">> := [#{<<"kind">> := <<"mailbox">>}]},
        foreign_formats:json(Finding)),
    %% Thresholds are those of the page, too.
    Page = filename:join(Folder, "page.html"),
    {0, NoFinding} = shared_nodes:run(Of("mailbox", ["--json", "--report", Page])
        ++ lists:append([["--threshold", Name ++ "=99999"]
            || Name <- ["mailbox_very_long", "mailbox_long", "mailbox_grown"]])),
    {match, [Json]} = re:run(NoFinding, "^\\{.*$", [multiline, {capture, first, binary}]),
    ?assertMatch(#{<<"findings">> := []}, foreign_formats:json(Json)),
    #{<<"profile-about">> := About} = report_parts:read(Page),
    ?assertMatch(#{<<"findings">> := #{<<"state">> := <<"judged">>, <<"findings">> := []}},
        foreign_formats:json(About)),
    NoProfile = filename:join(Folder, "package.json"),
    ok = file:write_file(NoProfile, "{\"name\": 1}\n"),
    expect([{10, Of("mailbox", ["--report", Page]), []},
        %% Before anybody waits for the look.
        {1, ["doctor", "nobody@127.0.0.1", "--report",
            filename:join(corpus("ours.log"), "page.html")], ["ours.log"]},
        {2, ["doctor", corpus("ours.log"), "--threshold", "limit_warning=much"], []},
        {1, ["doctor", "/nonexistent/file.log"], ["/nonexistent/file.log: no such file"]},
        %% Samples of perf are of no Erlang process.
        {1, ["doctor", corpus("perf.txt")],
            ["nothing is judged: no sample of an Erlang process is in "]},
        {1, ["doctor", NoProfile], ["package.json: no sample of it can be read"]},
        %% Two are good, and eleven are not.
        {10, ["doctor", corpus("damaged.log")],
            ["losses: flame_prof left 84.6 % of the samples as damaged"]}]),
    #{<<"profile-about">> := Again} = report_parts:read(Page),
    ?assertMatch(#{<<"findings">> := #{<<"findings">> := [#{<<"kind">> := <<"mailbox">>}]}},
        foreign_formats:json(Again)).

%% Each of them once by the script.
exit_codes_tell_scripts(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "codes"),
    ok = file:make_dir(Folder),
    {0, <<"0.1.0\n">>} = run(["--version"]),
    {1, <<"flame_prof: /nofile: no such file or directory\n">>} = run(["report", "/nofile"]),
    {2, _} = run([]),
    {3, _} = run(["info", "--node", "nobody@127.0.0.1", "--cookie", "x"]),
    {4, Damaged} = run(["check", corpus("damaged.log")]),
    matches(Damaged, ["damaged.log:8: no time in the header"]),
    Allocated = filename:join(Folder, "2026-11-21@0154.07.erl_alloc.log"),
    _ = made_allocations:write(Allocated),
    Json = filename:join(Folder, "package.json"),
    ok = file:write_file(Json, "{\"name\": 1}\n"),
    Page = filename:join(Folder, "x.html"),
    Read = [["hot"], ["export", "--as", "collapsed", "--output", "-"],
        ["report", "--output", Page]],
    Info = fun(Node, Cookie) -> ["info", "--node", Node, "--cookie", Cookie] end,
    expect([{0, ["check", corpus("ours.log")], []},
        {4, ["check", corpus("cut.log.gz")], []},
        {0, ["check", corpus("ours.log"), Allocated], []},
        {1, ["hot", corpus("ours.log"), Allocated], []},
        {4, ["check", corpus("ours.log"), Json],
            ["ours.log: whole$", "package.json: no profile\n  it is JSON: [^\n]*\n[0-9]+ process",
                "package.json:1: no time in the header\n\\z"]},
        {1, ["check", "--json", corpus("ours.log"), Allocated], ["takes files of one kind"]}
    ] ++ [
        %% No sample is damaged where a frame is: it is text that is missing.
        {4, Words ++ [corpus(File)], [Loss]} || Words <- Read, {File, Loss} <- [
            {"damaged.log", "^flame_prof: .*damaged.log: 11 damaged samples left out$"},
            {"cut.log.gz", "its end is cut off"},
            {"damaged_frame.log.zst", "text is missing at 1 place"}]
    ] ++ [{1, Words ++ [Json], ["^flame_prof: .*package.json: no sample of it can be read"]}
            || Words <- [["hot"], ["export", "--as", "pprof"], ["report"]]
    ] ++ [{4, ["hot", corpus("ours.log"), Json], ["package.json: no sample of it can be read"]},
        {1, ["check", "/nonexistent"], ["/nonexistent: no such file"]},
        {2, ["hot", corpus("ours.log"), "--by", "nix"],
            ["no metric nix; it takes one of samples, "]},
        {2, ["hot"], []},
        {3, Info("nobody@no.such.host.invalid", "x"),
            ["the host no.such.host.invalid cannot be found: "]},
        {1, Info("nobody@127.0.0.1", lists:duplicate(256, $x)),
            ["argument cookie .* it takes at most 255 characters"]},
        {1, Info("no body@x", "x"), []},
        {0, ["--help"], []}]),
    ok = file:delete(Allocated),
    ?assertEqual(["package.json", "x.html"], lists:sort(filelib:wildcard("*", Folder))).

%% Its terms may be of a profile: what is told has none of them.
a_bug_is_told_by_its_place(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "broken"),
    Source = filename:join(Folder, "flame_prof_cli_files.erl"),
    ok = filelib:ensure_dir(Source),
    {0, _} = shell(["cp -L ", ebin(), "/* ", Folder]),
    ok = file:write_file(Source, ["-module(flame_prof_cli_files).\n-export([do/2]).\n"
        "do(check, #{arguments := [never]}) -> ok.\n"]),
    {ok, flame_prof_cli_files} = compile:file(Source, [{outdir, Folder}]),
    {1, Text} = shell(["FLAME_PROF_EBIN=", Folder, " ", script(), " check ", corpus("ours.log")]),
    ?assertEqual(<<"flame_prof: an internal error in flame_prof_cli_files:do/2, line 3; "
        "it is a bug of flame_prof 0.1.0\n">>, Text).

it_works_from_any_folder_and_through_links(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "a b"),
    ok = filelib:ensure_dir(filename:join(Folder, "x")),
    ok = file:make_symlink(script(), filename:join(Folder, "one")),
    ok = file:make_symlink("one", filename:join(Folder, "two")),
    {0, Text} = shell(["cd '", Folder, "' && PATH=\"$PWD:$PATH\" two hot ", corpus("ours.log")]),
    {match, _} = re:run(Text, "^2 of 6 samples active").

%% Of a release only lib/ and bin/ are there.
it_works_in_the_layout_of_a_release(Config) ->
    Root = filename:join(proplists:get_value(priv_dir, Config), "release"),
    Application = filename:join(Root, "lib/flame_prof-0.1.0"),
    Built = filename:dirname(filename:dirname(filename:absname(code:which(flame_prof)))),
    {0, _} = shell(["mkdir -p ", Root, "/bin ", Application, " && cp -rL ", Built, "/ebin ", Built,
        "/priv ", Application, " && cp ", script(), " ", Root, "/bin"]),
    [begin
        {0, Text} = shell(["cd / && ", Folder, "/bin/flame_prof check ", corpus("ours.log")]),
        {match, _} = re:run(Text, "whole")
    end || Folder <- [Root, filename:join(Application, "priv")]].

%% As `mix release' makes it: an erl that takes the release for its root, which has no boot file of
%% the default name.
an_erlang_of_another_release_is_used(Config) ->
    Root = filename:join(proplists:get_value(priv_dir, Config), "of mix"),
    Erts = "erts-" ++ erlang:system_info(version),
    Bin = filename:join([Root, Erts, "bin"]),
    Start = filename:join([Root, "releases", "0.1.0", "start_clean.boot"]),
    [ok = filelib:ensure_dir(File) || File <- [filename:join(Bin, "erl"), Start]],
    ok = file:make_symlink(code:lib_dir(), filename:join(Root, "lib")),
    [ok = file:make_symlink(filename:join([code:root_dir(), Erts, "bin", Program]),
        filename:join(Bin, Program)) || Program <- ["beam.smp", "erl_child_setup", "erlexec",
            "inet_gethost"]],
    {ok, _} = file:copy(filename:join([code:root_dir(), "bin", "start_clean.boot"]), Start),
    Erl = filename:join(Bin, "erl"),
    ok = file:write_file(Erl, "#!/bin/sh\n"
        "BINDIR=$(cd \"$(dirname \"$0\")\" && pwd -P)\n"
        "ROOTDIR=$(dirname \"$(dirname \"$BINDIR\")\") EMU=beam PROGNAME=erl\n"
        "export BINDIR ROOTDIR EMU PROGNAME\n"
        "exec \"$BINDIR/erlexec\" \"$@\"\n"),
    ok = file:change_mode(Erl, 8#755),
    {_, Alone} = shell(["'", Erl, "' -noinput -eval 'halt(0).'"]),
    {match, _} = re:run(Alone, "cannot get bootfile"),
    {0, Text} = shell(["FLAME_PROF_ERL='", Erl, "' ", script(), " hot ", corpus("ours.log")]),
    {match, _} = re:run(Text, "^2 of 6 samples active").

%% By the script, as a shell passes bytes.
an_argument_that_is_no_text_is_told(_Config) ->
    [begin
        {Status, Text} = shell([script(), " ", Command, " $'/tmp/caf\\xe9'"]),
        ?assertEqual({2, <<"flame_prof: the argument that begins with \"/tmp/caf\" is not UTF-8 "
            "text: names of files and nodes have to be\n">>},
            {Status, Text})
    end || Command <- ["attach nobody@nohost --output", "hot"]],
    %% There Erlang would not end.
    [{Status, Text} = shell(["d=$(mktemp -d); mkdir \"$d\"/$'caf", Bytes, "'; cd \"$d\"/caf*; ",
        script(), " --version 2>&1; s=$?; rm -r \"$d\"; exit $s"])
     || {Bytes, Status, Text} <- [{"\\xe9", 1, <<"flame_prof: the name of the current folder is not "
            "UTF-8 text: Erlang does not start there\n">>}, {"\\xc3\\xa9 +", 0, <<"0.1.0\n">>}]].

a_reader_that_goes_away_is_no_error(_) ->
    Files = lists:join(" ", lists:duplicate(100, corpus("damaged.log"))),
    {0, Text} = shell(["set -o pipefail; ", script(), " check ", Files, " 2>&1 | head -1; ",
        "test ${PIPESTATUS[0]} = 0 -o ${PIPESTATUS[0]} = 4"]),
    ?assertEqual(1, length(binary:split(Text, <<"\n">>, [global, trim]))).

results_that_find_no_room_are_told(_) ->
    [begin
        {1, Text} = shell([script(), Words, corpus("ours.log"), " >/dev/full"]),
        {match, _} = re:run(Text, "^flame_prof: the output: no space left on device$", [multiline])
    end || Words <- [" hot ", " export --as perf --output - "]].

exports_go_to_files_and_pipes(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "ours.log"),
    {ok, _} = file:copy(corpus("ours.log"), File),
    Export = fun(As, More) -> ["export", File, "--as", As | More] end,
    expect([{0, Export(As, []), []}
        || As <- ["collapsed", "perf", "speedscope", "pprof", "firefox"]]),
    [true = filelib:file_size(File ++ E) > 0 ||
        E <- [".collapsed.txt", ".perf.txt", ".speedscope.json", ".pb.gz", ".firefox.json.gz"]],
    {0, Piped} = run(Export("collapsed", ["--output", "-"])),
    {ok, Piped} = file:read_file(File ++ ".collapsed.txt"),
    %% As FlameGraph adds it up.
    Weights = [binary_to_integer(lists:last(binary:split(L, <<" ">>, [global]))) ||
        L <- binary:split(Piped, <<"\n">>, [global, trim])],
    6 = lists:sum(Weights),
    expect([{0, Export("collapsed", ["--output", "-", "--lines", "false", "--process", "worker",
            "--status", "waiting", "--from", "1ms", "--to", "1s"]),
            ["\\Awaiting;worker:init/1;proc_lib:init_p_do_apply/3;gen_server:loop/7 1\n\\z"]},
        {2, Export("collapsed", ["--process", "nobody"]),
            ["--process: no process nobody; it takes the pid"]},
        {2, Export("collapsed", ["--from", "2s"]), ["--from: it takes at most 1017 ms"]},
        {1, Export("perf", ["--output", "/nonexistent/x"]), ["/nonexistent/x"]}
    ] ++ [
        %% A metric that is 0 in all of them.
        {0, Export(As, ["--by", "mbuf_size", "--output", "-"]), ["\\Aflame_prof: the export is "
            "empty: no sample that was selected weighs anything by mbuf_size\n\\z"]}
        || As <- ["perf", "collapsed"]]).

%% perf.txt has four events, and periods.
of_several_events_one_is_read(_) ->
    expect([{0, ["check", corpus("perf.txt")],
            ["^  2 samples, ", "^only 2 samples of the event cpu-clock:pppH are read; "]},
        {0, ["check", corpus("perf.txt"), "--event", "all"],
            ["^  6 samples, ", "^samples of different events are added up: ", "^periods differ: "]},
        {0, ["hot", corpus("perf.txt"), "--event", "cycles"], ["^2 of 2 samples active"]},
        {0, ["export", corpus("perf.txt"), "--event", "all", "--as", "collapsed", "--output", "-"],
            ["^flame_prof: periods differ: "]},
        {2, ["hot", corpus("perf.txt"), "--event", "faults"],
            ["--event: no sample of faults; it takes first, all, or an event of "
            "these files: cpu-clock:pppH, "]}]).

json_is_read_by_others(_) ->
    case os:find_executable("python3") of
        false -> {skip, "no python3 to read it with"};
        _ ->
            Python = "import json,sys; print(json.load(sys.stdin)[sys.argv[1]])",
            [{0, <<"6\n">>} = shell([script(), " ", Command, " ", corpus("ours.log"),
                " --json | python3 -c '", Python, "' ", Key])
             || {Command, Key} <- [{"hot", "all_samples"}, {"check", "samples"}]]
    end.

%% A node with flame_prof on its path.
with_prepared(Fun) ->
    command_line:with_node(start_node, [["-pa", ebin()]], fun(Node, _) -> Fun(Node) end).

with_plain(Fun) -> command_line:with_shared({start_node, [[]]}, Fun).
at(#{name := Name}) -> ["--node", Name, "--cookie", cookie()].

sessions_are_started_flushed_and_stopped(Config) ->
    Output = filename:join(proplists:get_value(priv_dir, Config), "session"),
    Start = ["start", "--output", Output],
    with_prepared(fun(#{name := One} = Node) ->
        expect([{0, ["info" | at(Node)], [": stopped\n\\z"]},
            {1, ["stop" | at(Node)], []},
            {0, Start ++ ["--interval", "5", "--top", "20" | at(Node)], []},
            {1, Start ++ at(Node), ["a session is already running"]},
            {0, ["flush" | at(Node)], []},
            {0, ["info", "--json" | at(Node)], ["\"state\":\"running\"", "\"sample_interval\":5"]},
            {0, ["stop" | at(Node)], ["samples: "]}]),
        [File] = filelib:wildcard(filename:join(Output, "*.log*")),
        %% And of several nodes at once.
        with_prepared(fun(#{name := Two}) ->
            Both = at(#{name => One ++ "," ++ Two}),
            expect([{0, ["check", File], []},
                {0, Start ++ ["--json" | Both], ["\"node\"(.|\n)*\"node\""]},
                {0, ["stop" | Both], []}]),
            ?assertEqual(3, length(filelib:wildcard(filename:join(Output, "*.log*"))))
        end)
    end).

%% A script with flame_prof, and a node of Elixir without.
elixir_starts_it_and_is_attached_to(Config) ->
    case os:find_executable("elixir") of
        false -> {skip, "elixir is not installed"};
        _ ->
            Priv = proplists:get_value(priv_dir, Config),
            Lib = filename:dirname(filename:dirname(ebin())),
            Tests = filename:dirname(code:which(waiting)),
            {0, Text} = shell(["ERL_LIBS=", Lib, " elixir -pa ", Tests,
                " -e '{:ok, _} = :flame_prof.start(%{dir: \"", Priv, "elixir\"}); ",
                ":waiting.eventually(fn -> :flame_prof.info().counters.written > 100 end); ",
                "{:ok, %{files: files}} = :flame_prof.stop(); ",
                ":ok = :flame_prof.hot(files, %{top: 3})'"]),
            {match, _} = re:run(Text, "Functions: share"),
            ok = command_line:is_distributed(),
            Name = "elixir_" ++ os:getpid() ++ "@127.0.0.1",
            Port = open_port({spawn_executable, os:find_executable("elixir")}, [
                %% It ends with this port, whatever becomes of the test.
                {args, ["--name", Name, "--cookie", command_line:cookie(), "-e",
                    "spawn(fn -> IO.read(:line); System.halt(0) end); "
                    "Stream.cycle([1]) |> Enum.each(fn _ -> Enum.sort(Enum.to_list(1..999)) end)"]},
                {env, [{"ERL_LIBS", false}]}]),
            {os_pid, Pid} = erlang:port_info(Port, os_pid),
            try
                Node = list_to_atom(Name),
                true = erlang:set_cookie(Node, list_to_atom(command_line:cookie())),
                until(fun() -> net_kernel:connect_node(Node) end),
                {0, Hot} = run(["attach", Name, "--for", "1s", "--output", Priv, "--cookie",
                    command_line:cookie()]),
                {match, _} = re:run(Hot, " Enum\\.[a-z_]+/"),
                is_left(Node)
            after
                %% It works for ever, without anyone at its other end.
                os:cmd("kill -9 " ++ integer_to_list(Pid))
            end
    end.

%%% The terminal.

%% A server of our own: nobody's sessions are touched.
tmux(Arguments) -> shell(["tmux -L flame_prof_", os:getpid(), " ", Arguments]).

in_terminal(Command, Fun) ->
    _ = tmux("kill-server"),
    %% The one before may be about to end.
    until(fun() ->
        {Status, _} = tmux(["new-session -d -x 100 -y 30 -s t ",
            quoted(["bash --norc --noprofile"])]),
        Status =:= 0
    end),
    try
        ok = type([Command, "; echo status $?"]),
        ok = key("Enter"),
        Fun()
    after tmux("kill-server")
    end.

quoted(Text) -> ["'", string:replace(Text, "'", "'\\''", all), "'"].

type(Text) ->
    {0, _} = tmux(["send-keys -t t -l ", quoted(lists:flatten(Text))]),
    ok.

key(Key) ->
    {0, _} = tmux(["send-keys -t t ", Key]),
    ok.

%% In a moment: each look starts a program.
screen() ->
    timer:sleep(50),
    {0, Text} = tmux("capture-pane -p -t t"),
    Text.

shows(Expression) ->
    try
        waiting:eventually(fun() -> re:run(screen(), Expression, [multiline]) =/= nomatch end)
    catch
        error:{never, _, _} -> error({not_shown, Expression, screen()})
    end.

top(#{name := Name}) ->
    [script(), " top --every 200ms --node ", Name, " --cookie ", command_line:cookie()].

terminal_top_follows_the_window_and_keys(_) ->
    with_plain(fun(Node) ->
        in_terminal(top(Node), fun() ->
            ok = shows("by reductions"),
            ok = shows("busy +"),
            ok = shows("^q:quit"),
            [begin
                ok = key(Key),
                ok = shows(Order)
            end || {Key, Order} <- [{"m", "by memory"}, {"l", "by queue"}, {"n", "by name"},
                {"/", "^filter:"}]],
            ok = type("busy"),
            ok = key("Enter"),
            ok = shows("by name, with busy"),
            until(fun() -> re:run(screen(), "kernel_sup") =:= nomatch
                andalso re:run(screen(), "busy  ") =/= nomatch end),
            {0, _} = tmux("resize-window -t t -x 60 -y 12"),
            %% Every line finds room, so that the last line of the screen is the help.
            until(fun() ->
                Lines = string:split(string:trim(screen(), trailing, "\n"), "\n", all),
                length(Lines) =< 12 andalso re:run(lists:last(Lines), "^q:quit") =/= nomatch andalso
                    length([L || L <- Lines, re:run(L, "red/s run%") =/= nomatch]) =:= 1
            end),
            ok = key("p"),
            ok = shows("^paused"),
            ok = key("q"),
            ok = shows("^status 0")
        end)
    end).

terminal_top_ends_by_control_c_and_by_a_hangup(_) ->
    with_plain(fun(#{node := Node} = Plain) ->
        in_terminal(top(Plain), fun() ->
            ok = shows("red/s run%"),
            ok = key("C-c"),
            ok = shows("^status 0"),
            %% The terminal is as it was: what is typed is seen.
            ok = type("echo visi''ble"),
            ok = key("Enter"),
            ok = shows("^visible")
        end),
        is_left(Node),
        in_terminal(top(Plain), fun() -> ok = shows("red/s run%") end)
    end).

is_left(Node) ->
    until(fun() ->
        [] =:= [M || {M, _} <- command_line:call(Node, code, all_loaded, []),
            lists:prefix("flame_prof", atom_to_list(M))]
    end).

terminal_attach_shows_progress_and_ends_by_control_c(Config) ->
    with_plain(fun(#{name := Name}) ->
        Output = filename:join(proplists:get_value(priv_dir, Config), "interrupted"),
        Command = [script(), " attach ", Name, " --quiet --for 5m --output ", Output,
            " --cookie ", command_line:cookie()],
        in_terminal(Command, fun() ->
            ok = shows("s of 300: [0-9,]+ samples, 0 dropped, [0-9,]+ ticks missed"),
            ok = key("C-c"),
            ok = shows("^status 130")
        end),
        [File] = filelib:wildcard(filename:join(Output, "*.log*")),
        expect([{0, ["check", File], []}])
    end).

%% Nothing is in the file before the session ends.
terminal_attach_keeps_all_of_it_when_it_goes_away(Config) ->
    with_plain(fun(#{name := Name, node := Node}) ->
        Output = filename:join(proplists:get_value(priv_dir, Config), "hangup"),
        Command = [script(), " attach ", Name, " --for 5m --set flush_interval=600000 --output ",
            Output, " --cookie ", command_line:cookie()],
        in_terminal(Command, fun() -> ok = shows("s of 300: [1-9][0-9,]* samples") end),
        is_left(Node),
        [File] = filelib:wildcard(filename:join(Output, "*.log*")),
        expect([{0, ["check", File], ["^  [1-9][0-9,]* samples, "]}])
    end).

%% The progress line is gone, wherever the screen's other lines come from.
terminal_shows_nothing_but_the_answer_of_what_is_lent(Config) ->
    with_plain(fun(#{name := Name}) ->
        Cookie = [" --cookie ", command_line:cookie()],
        in_terminal(["cd ", proplists:get_value(priv_dir, Config)], fun() ->
            ok = shows("^status 0"),
            ok = does(["attach ", Name, " --for 1s --report lent.html", Cookie], 0,
                "^lent.html: [0-9,]+ bytes$"),
            nomatch = re:run(screen(), "(attaching to|fetching from|leaving) "),
            %% Refused where the native engine is. Stacks of C code are long.
            {0, _} = tmux("resize-window -t t -x 100 -y 100"),
            Mark = types(["pstack --node ", Name, Cookie]),
            ok = shows(["status [013] ", Mark, "$"]),
            ok = shows(["^", Name, "$|^flame_prof: "]),
            nomatch = re:run(screen(), "(attaching to|leaving) ")
        end)
    end).

a_viewer_that_a_signal_ends_leaves_no_index(Config) ->
    Cache = filename:join(proplists:get_value(priv_dir, Config), "cache"),
    true = os:putenv("XDG_CACHE_HOME", Cache),
    Indexes = fun() -> filelib:wildcard(filename:join([Cache, "flame_prof", "view-*"])) end,
    try
        lists:foreach(fun(Signal) ->
            Port = command_line:start(["view", corpus("ours.log")]),
            until(fun() -> length(Indexes()) =:= 1 end),
            receive {Port, {data, <<"http://", _/binary>>}} -> ok end,
            ok = command_line:kill(Signal, Port),
            {0, _} = command_line:await(Port),
            ?assertEqual([], Indexes())
        end, ["INT", "TERM", "HUP"])
    after os:unsetenv("XDG_CACHE_HOME")
    end.

terminal_files_by_hand(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "hand"),
    ok = file:make_dir(Folder),
    {ok, _} = file:copy(corpus("ours.log"), filename:join(Folder, "ours.log")),
    with_plain(fun(#{name := Name}) ->
        in_terminal(["cd ", Folder], fun() ->
            ok = shows("^status 0"),
            Seen = ["doctor ", Name, " --for 1s --report seen.html --cookie ", cookie(),
                " || [ $? = 10 ] || [ $? = 1 ]"],
            ok = does(Seen, 0, "^seen.html: [0-9,]+ bytes"),
            ok = does("export --as collapsed --output - ours.log | head -n 1", 0, " [0-9]+$"),
            ok = does("report --output hand.html ours.log", 0, "^hand.html: [0-9,]+ bytes$"),
            Mark = types("view ."),
            ok = shows("^http://127.0.0.1:[0-9]+/"),
            ok = key("C-c"),
            ok = ended(0, Mark)
        end)
    end).

does(Words, Status, Expression) ->
    ok = ended(Status, types(Words)),
    shows(Expression).

%% On a screen of its own; the mark tells its status from that of the command before.
types(Words) ->
    Mark = integer_to_list(erlang:unique_integer([positive])),
    ok = type(["clear; ", script(), " ", Words, "; echo status $? ", Mark]),
    ok = key("Enter"),
    Mark.

ended(Status, Mark) -> shows(["status ", integer_to_list(Status), " ", Mark, "$"]).

%% A file that takes longer to read than anybody would wait.
terminal_reading_ends_by_control_c(Config) ->
    Folder = filename:join(proplists:get_value(priv_dir, Config), "long"),
    ok = file:make_dir(Folder),
    {ok, Text} = file:read_file(corpus("ours.log")),
    Member = zlib:gzip(lists:duplicate(10000000 div byte_size(Text), Text)),
    ok = file:write_file(filename:join(Folder, "long.log.gz"), lists:duplicate(4000, Member)),
    in_terminal(["cd ", Folder], fun() ->
        ok = shows("^status 0"),
        lists:foreach(fun(Words) ->
            Mark = types(Words),
            ok = shows("MB read"),
            ok = key("C-c"),
            ok = ended(130, Mark)
        end, ["hot long.log.gz", "report long.log.gz"]),
        {ok, ["long.log.gz"]} = file:list_dir_all(Folder)
    end),
    ok = file:del_dir_r(Folder).

terminal_colours(_) ->
    Check = [" check ", corpus("cut.log.gz")],
    in_terminal([script(), Check], fun() ->
        ok = shows("^status 4"),
        {0, Coloured} = tmux("capture-pane -e -p -t t"),
        matches(Coloured, ["\e\\[1m"]),
        ok = type(["clear; NO_COLOR=1 ", script(), Check, "; echo status 2"]),
        ok = key("Enter"),
        ok = shows("^status 2"),
        {0, Plain} = tmux("capture-pane -e -p -t t"),
        nomatch = binary:match(Plain, <<"\e[1m">>)
    end),
    {4, Piped} = run(["check", corpus("cut.log.gz")]),
    nomatch = binary:match(Piped, <<"\e">>).

%% By hand in an Erlang shell: q ends it, and the shell goes on. Of this node; and of another one
%% that has no flame_prof, and is without it again when the table has ended.
terminal_top_of_a_shell(_) ->
    with_plain(fun(#{name := Name}) ->
        Shell = ["erl -name shell@127.0.0.1 -setcookie ", cookie(), " -pa ", ebin()],
        in_terminal(Shell, fun() ->
            ok = shows("1>"),
            ok = type("flame_prof:top(#{every => 200}), io:format(\"it ~s ended~n\", [has])."),
            ok = key("Enter"),
            ok = shows("red/s run%"),
            ok = type("q"),
            ok = key("Enter"),
            ok = shows("^it has ended"),
            ok = type("fun Wait() -> case [M || P <- processes(), {M, init, 1} <- "
                "[proc_lib:translate_initial_call(P)], M =:= flame_prof_top_sampler orelse "
                "M =:= flame_prof_top] of [] -> \"nothing is \" ++ \"left\"; _ -> "
                "timer:sleep(100), Wait() end end()."),
            ok = key("Enter"),
            ok = shows("^\"nothing is left"),
            ok = type(["flame_prof:top('", Name, "')."]),
            ok = key("Enter"),
            ok = shows(["^", Name, " .*: [0-9,]+ processes"]),
            ok = shows("busy +"),
            ok = shows("q:quit"),
            ok = type("q"),
            ok = key("Enter"),
            ok = shows("^ok")
        end)
    end).
