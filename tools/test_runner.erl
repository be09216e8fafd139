%% Compile the test modules, and run one of them under EUnit or Common Test, or many under EUnit.
%%
%% Called by tools/test_erl.sh as `erl -s test_runner compile|units|eunit|ct ARGS...';
%% the counts go to a file, so that a node which dies without writing it is
%% told from one whose tests failed. What failed, and why, is appended to the file
%% that $FAILURES names: tools/test.sh ends with it. The failed cases of a suite, `CASE GROUP' a
%% line, are appended to the file that $CASES names; `*' is a failure outside of a case. With
%% $CASE, and $GROUP if it is in one, only that case of the suite runs.
%%
%% A case has two minutes and a module five, and what hung is reported with its stacks: bounds
%% that end a hang, which no test is about. Those of the class proof have two hours, and
%% $TEST_CASE_SECONDS and $TEST_MODULE_SECONDS are for the tests of this.
-module(test_runner).

-export([compile/1, units/1, eunit/1, ct/1]).

%% Common Test's hook callbacks
-export([id/1, init/2, post_init_per_testcase/5, on_tc_fail/4]).

-define(CASE_SECONDS, 120).
-define(MODULE_SECONDS, 300).
-define(PROOF_SECONDS, 7200).

%% EUnit's listener callbacks
-behaviour(eunit_listener).
-export([start/1, init/1, handle_begin/3, handle_end/3, handle_cancel/3, terminate/2]).

bound(What) ->
    Usual = case {os:getenv("TEST_CLASS"), What} of
        {"proof", _} -> ?PROOF_SECONDS;
        {_, "CASE"} -> ?CASE_SECONDS;
        {_, "MODULE"} -> ?MODULE_SECONDS
    end,
    list_to_integer(os:getenv("TEST_" ++ What ++ "_SECONDS", integer_to_list(Usual))).

%%% compile TEST_DIR OUT_DIR LIST_FILE
%%
%% Compiles what is newer than its beam: the helpers, and the tests that $TESTS names, or else all,
%% of the live ones those that are listed in the file $LIVE or not listed in the file $LIVE_BUT.
%% The list has `CLASS KIND MODULE' lines; the class is the test's folder, and tests of the folder
%% proof are in it only where $TEST_CLASS is `proof', which excludes all others.

compile(Args) ->
    [Dir, Out, List] = [atom_to_list(A) || A <- Args],
    PropEr = code:which(proper) =/= non_existing,
    Sources = lists:sort(
        filelib:wildcard(filename:join(Dir, "*.erl"))
        ++ filelib:wildcard(filename:join(Dir, "*/*.erl"))),
    ok = start_afresh_if_needed(Out, PropEr),
    ok = remove_orphans(Out, Sources),
    Headers = newest([H || Place <- ["include", "src", Dir, filename:join(Dir, "*")],
        H <- filelib:wildcard(filename:join(Place, "*.hrl"))]),
    Wanted = [S || S <- Sources, kind(S) =:= helper orelse is_wanted(S)],
    Lines = compile_all(Wanted, fun(S) -> compile_one(S, Out, PropEr, Headers) end),
    [link_data(Source, Out) || Source <- Wanted, kind(Source) =/= helper],
    ok = file:write_file(List, lists:usort([iolist_to_binary(L) || L <- Lines])),
    halt(0).

is_wanted(Source) ->
    Name = filename:basename(Source, ".erl"),
    Proof = class(Source) =:= "proof",
    Proof =:= (os:getenv("TEST_CLASS") =:= "proof") andalso
        case string:lexemes(os:getenv("TESTS", ""), " \n") of
            [] -> class(Source) =/= "live" orelse is_wanted_live(Name);
            Names -> lists:member(Name, Names)
        end.

is_wanted_live(Name) ->
    case {os:getenv("LIVE", ""), os:getenv("LIVE_BUT", "")} of
        {"", ""} -> true;
        {"", Others} -> not is_map_key(Name, listed(Others));
        {File, _} -> is_map_key(Name, listed(File))
    end.

%% Cases by module.
listed(File) ->
    {ok, Text} = file:read_file(File),
    Lines = [string:lexemes(Line, " ") || Line <- string:lexemes(binary_to_list(Text), "\n"),
        hd(Line) =/= $#],
    maps:from_list([{Module, Cases} || [Module | Cases] <- Lines]).

class(Source) -> filename:basename(filename:dirname(Source)).

%% Beams of another release, or compiled with other options, are of no use.
start_afresh_if_needed(Out, PropEr) ->
    Expected = iolist_to_binary(
        io_lib:format("~s ~p", [erlang:system_info(otp_release), options(Out, PropEr)])),
    Path = filename:join(Out, ".compiled"),
    case file:read_file(Path) of
        {ok, Expected} ->
            ok;
        _ ->
            [ok = file:delete(B) || B <- beams(Out), module(B) =/= ?MODULE_STRING],
            file:write_file(Path, Expected)
    end.

remove_orphans(Out, Sources) ->
    Names = [?MODULE_STRING | [filename:basename(S, ".erl") || S <- Sources]],
    [ok = file:delete(B) || B <- beams(Out), not lists:member(module(B), Names)],
    ok.

module(Beam) -> filename:basename(Beam, ".beam").

beams(Out) -> filelib:wildcard(filename:join(Out, "*.beam")).

newest(Files) -> lists:max([0 | [filelib:last_modified(F) || F <- Files]]).

%% By as many processes as there are processors.
compile_all(Sources, Compile) ->
    Places = erlang:system_info(schedulers_online),
    Workers = [
        spawn_monitor(fun() ->
            exit({lines, [Line || {N, S} <- lists:enumerate(Sources), N rem Places =:= Place,
                Line <- Compile(S)]})
        end)
     || Place <- lists:seq(0, Places - 1)
    ],
    lists:append([receive {'DOWN', M, process, P, {lines, Lines}} -> Lines end
        || {P, M} <- Workers]).

compile_one(Source, Out, PropEr, Headers) ->
    Module = filename:basename(Source, ".erl"),
    case not PropEr andalso needs_proper(Source) of
        true ->
            io:format("  ~s: skipped, PropEr (erlang-proper) is not installed~n", [Module]),
            [];
        false ->
            Beam = filelib:last_modified(filename:join(Out, Module ++ ".beam")),
            IsNew = Beam =/= 0 andalso Beam > filelib:last_modified(Source) andalso Beam > Headers,
            Options = [{i, filename:dirname(Source)} | options(Out, PropEr)],
            case {IsNew orelse compile:file(Source, Options), kind(Source)} of
                {error, helper} -> [["broken broken ", Module, "\n"]];
                {_, helper} -> [];
                {error, _} -> [["broken broken ", Module, "\n"]];
                {_, Kind} -> [[class(Source), " ", atom_to_list(Kind), " ", Module, "\n"]]
            end
    end.

options(Out, PropEr) ->
    [debug_info, report, nowarn_missing_spec, {d, 'TEST'}, {outdir, Out},
        {i, "include"}, {i, "src"}, {i, "test"}]
        ++ [{d, 'PROPER'} || PropEr]
        ++ [{i, "tools/include"} || PropEr, not has_proper_header()].

kind(Source) ->
    Name = filename:basename(Source, ".erl"),
    case {lists:suffix("_tests", Name), lists:suffix("_SUITE", Name)} of
        {true, _} -> eunit;
        {_, true} -> ct;
        _ -> helper
    end.

%% A module that includes PropEr's header and has no way round it.
needs_proper(Source) ->
    {ok, Text} = file:read_file(Source),
    binary:match(Text, <<"proper/include/proper.hrl">>) =/= nomatch
        andalso binary:match(Text, <<"ifdef(PROPER)">>) =:= nomatch.

has_proper_header() ->
    filelib:is_regular(filename:join([code:lib_dir(proper), "include", "proper.hrl"])).

%% Common Test looks for SUITE_data beside the beam.
link_data(Source, Out) ->
    Data = filename:rootname(Source) ++ "_data",
    case filelib:is_dir(Data) of
        true ->
            Link = filename:join(Out, filename:basename(Data)),
            _ = file:delete(Link),
            ok = file:make_symlink(filename:absname(Data), Link);
        false ->
            ok
    end.

%%% units OUT_DIR MODULES
%%
%% All in this VM, one after the other, in an order of chance: what one leaves behind another one
%% meets. $SEED repeats an order. The files are those that `eunit' is given.

units([Out | Modules]) ->
    Seed = list_to_integer(os:getenv("SEED", integer_to_list(erlang:unique_integer([positive])
        + erlang:system_time(second)))),
    io:format("  in one VM, to repeat this order: SEED=~b~n", [Seed]),
    {ok, Cwd} = file:get_cwd(),
    [begin
        File = fun(Kind) -> lists:flatten(io_lib:format("~s/~s.~s", [Out, Kind, Module])) end,
        true = os:putenv("FAILURES", File("failed")),
        Since = erlang:monotonic_time(millisecond),
        unit(Module, File("result")),
        io:format("  ~s (~b ms)~n", [Module, erlang:monotonic_time(millisecond) - Since]),
        %% A case that was cut off may have left these.
        [ok = stand_in:unload(M) || {M, "stand_in"} <- code:all_loaded()],
        ok = file:set_cwd(Cwd)
    end || Module <- shuffled(Modules, rand:seed_s(exsss, Seed))],
    halt(0).

shuffled(Modules, State) ->
    {Keyed, _} = lists:mapfoldl(fun(Module, State1) ->
        {Key, State2} = rand:uniform_s(State1),
        {{Key, Module}, State2}
    end, State, lists:sort(Modules)),
    [Module || {_, Module} <- lists:sort(Keyed)].

%%% eunit MODULE RESULT_FILE LOG_DIR

eunit([Module, ResultFile, _Logs]) ->
    unit(Module, atom_to_list(ResultFile)),
    halt(0).

unit(Module, ResultFile) ->
    {module, Module} = code:ensure_loaded(Module),
    within_bound(Module, ResultFile, fun() ->
        eunit:test({spawn, [bounded(Module, F) || {F, 0} <- Module:module_info(exports)]},
            [no_tty, {report, {?MODULE, [{result, ResultFile}]}}])
    end).

%% What `{module, Module}' stands for.
bounded(Module, Function) ->
    Name = atom_to_list(Function),
    case {lists:suffix("_test", Name), lists:suffix("_test_", Name)} of
        {true, _} -> {timeout, bound("CASE"), {Module, Function}};
        {_, true} -> {generator, fun() -> bounded(Module:Function()) end};
        _ -> []
    end.

%% Tests as a generator answers them: each has the same bound, and EUnit's five seconds are none.
bounded(Tests) when is_list(Tests) ->
    case io_lib:char_list(Tests) of
        true -> Tests;
        false -> [bounded(Test) || Test <- Tests]
    end;
bounded(Test) when is_function(Test, 0) ->
    {timeout, bound("CASE"), Test};
bounded({Line, Test}) when is_integer(Line) ->
    {timeout, bound("CASE"), {Line, Test}};
bounded({timeout, _, Test}) when is_list(Test); is_function(Test, 1) ->
    {timeout, bound("MODULE"), bounded(Test)};
bounded({timeout, _, Test}) ->
    bounded(Test);
bounded({Name, Tests}) when Name =:= inorder; Name =:= spawn; is_list(Name); is_binary(Name) ->
    {Name, bounded(Tests)};
bounded({setup, Setup, Cleanup, Tests}) ->
    {setup, Setup, Cleanup, bounded(Tests)};
bounded(Instantiate) when is_function(Instantiate, 1) ->
    fun(Given) -> bounded(Instantiate(Given)) end;
bounded(Tests) ->
    Tests.

%%% bounds

%% A module that needs longer ends its VM, and is reported with what its processes do.
within_bound(Module, ResultFile, Run) ->
    Watch = spawn(fun() ->
        receive ended -> ok
        after bound("MODULE") * 1000 ->
            failed("~s: still running after ~b s~n~ts", [Module, bound("MODULE"), stacks()]),
            ok = write_result(#{result => ResultFile}, 0, 1, 0),
            halt(3)
        end
    end),
    Result = Run(),
    Watch ! ended,
    Result.

%% Of the processes that have a function of a test in their stack.
stacks() ->
    Tests = filename:dirname(code:which(?MODULE)),
    [io_lib:format("      ~p~n~ts", [Pid, [io_lib:format("        ~p:~p/~p ~p~n",
        [M, F, A, proplists:get_value(line, Where, 0)]) || {M, F, A, Where} <- Stack]])
        || Pid <- processes(), Pid =/= self(),
            {current_stacktrace, Stack} <- [process_info(Pid, current_stacktrace)],
            lists:any(fun({M, _, _, _}) -> is_of_tests(M, Tests) end, Stack)].

is_of_tests(Module, Tests) ->
    Module =/= ?MODULE andalso case code:which(Module) of
        Path when is_list(Path) -> filename:dirname(Path) =:= Tests;
        _ -> false
    end.

start(Options) ->
    eunit_listener:start(?MODULE, Options).

init(Options) ->
    #{result => proplists:get_value(result, Options), broken => 0}.

handle_begin(_Kind, _Data, State) ->
    State.

handle_end(group, _Data, State) ->
    State;
handle_end(test, Data, State) ->
    case proplists:get_value(status, Data) of
        ok ->
            io:format("    ok    ~ts (~b ms)~n", [title(Data), proplists:get_value(time, Data, 0)]);
        {skipped, Reason} ->
            io:format("    skip  ~ts: ~tp~n", [title(Data), Reason]);
        {error, Exception} ->
            failed("~ts~n~ts~n~ts", [
                title(Data),
                eunit_lib:format_exception(Exception),
                output(proplists:get_value(output, Data, <<>>))
            ])
    end,
    State.

%% A setup or generator that failed: its tests never ran, which is a failure.
handle_cancel(Kind, Data, #{broken := Broken} = State) ->
    case proplists:get_value(reason, Data) of
        undefined ->
            State;
        {blame, _} ->
            State;
        Reason ->
            failed("~ts: ~p cancelled~n      ~tp~n", [title(Data), Kind, Reason]),
            State#{broken := Broken + 1}
    end.

terminate({ok, Data}, #{broken := Broken} = State) ->
    [Pass, Fail, Skip, Cancel] = [proplists:get_value(K, Data, 0)
        || K <- [pass, fail, skip, cancel]],
    Broken1 = if Cancel > 0, Broken =:= 0 -> 1; true -> Broken end,
    write_result(State, Pass, Fail + Broken1, Skip);
terminate({error, Reason}, State) ->
    failed("eunit: ~tp~n", [Reason]),
    write_result(State, 0, 1, 0).

title(Data) ->
    Source = case proplists:get_value(source, Data) of
        {_, Function, _} -> plain_name(atom_to_list(Function));
        _ -> ""
    end,
    Line = case proplists:get_value(line, Data, 0) of
        0 -> "";
        N -> io_lib:format(":~b", [N])
    end,
    case proplists:get_value(desc, Data) of
        Desc when Desc =:= undefined; Desc =:= <<>>; Desc =:= "" -> [Source, Line];
        <<"module '", _/binary>> -> [Source, Line];
        Desc -> io_lib:format("~ts~s ~ts", [Source, Line, Desc])
    end.

%% The fun that a generator made, "-name_test_/0-fun-1-": its generator.
plain_name([$- | Name]) -> hd(string:split(Name, "/"));
plain_name(Name) -> Name.

output(Text) ->
    case unicode:characters_to_binary(Text) of
        <<>> -> [];
        Binary when is_binary(Binary) -> ["    output: ", Binary, "\n"];
        _ -> io_lib:format("    output: ~tp~n", [Text])
    end.

write_result(#{result := File}, Pass, Fail, Skip) ->
    ok = file:write_file(File, io_lib:format("~b ~b ~b~n", [Pass, Fail, Skip])).

%%% ct MODULE RESULT_FILE LOG_DIR

ct([Module, ResultFile0, Logs]) ->
    ResultFile = atom_to_list(ResultFile0),
    State = #{result => ResultFile},
    Dir = filename:dirname(code:which(Module)),
    case within_bound(Module, ResultFile, fun() ->
        ct:run_test([{dir, Dir}, {suite, Module}, {auto_compile, false},
            {logdir, atom_to_list(Logs)}, {abort_if_missing_suites, true},
            {ct_hooks, [?MODULE]}
            | only(Module, os:getenv("CASE", ""), os:getenv("GROUP", ""))])
    end) of
        {Pass, Fail, {UserSkip, AutoSkip}} ->
            %% Skipped by itself: its init failed.
            write_result(State, Pass, Fail + AutoSkip, UserSkip);
        Error ->
            failed("ct: ~tp~n", [Error]),
            write_result(State, 0, 1, 0)
    end,
    halt(0).

only(Module, "", _Group) ->
    Listed = case os:getenv("LIVE", "") of "" -> #{}; File -> listed(File) end,
    case maps:get(atom_to_list(Module), Listed, []) of
        [] -> [];
        Cases -> [{testcase, [list_to_atom(Case) || Case <- Cases]}]
    end;
only(_Module, Case, "") ->
    [{testcase, [list_to_atom(Case)]}];
only(_Module, Case, Group) ->
    [{group, list_to_atom(Group)}, {testcase, [list_to_atom(Case)]}].

id(_Options) ->
    ?MODULE.

init(?MODULE, _Options) ->
    {ok, none}.

post_init_per_testcase(_Suite, _Case, _Config, Return, State) ->
    _ = ct:timetrap({seconds, bound("CASE")}),
    {Return, State}.

on_tc_fail(Suite, Case, Reason, State) ->
    failed("~s: ~tp~n~ts~n", [Suite, Case, shortened(io_lib:format("~tp", [Reason]))]),
    append("CASES", [case_line(Case), $\n]),
    State.

case_line({Phase, _Group}) when Phase =:= init_per_group; Phase =:= end_per_group -> "*";
case_line({Case, Group}) -> io_lib:format("~s ~s", [Case, Group]);
case_line(Phase) when Phase =:= init_per_suite; Phase =:= end_per_suite -> "*";
case_line(Case) -> atom_to_list(Case).

%% A term as large as a file is no help.
shortened(Text) ->
    string:slice(Text, 0, 3000).

%%% what failed

failed(Format, Args) ->
    Text = io_lib:format("    FAIL  " ++ Format, Args),
    io:format(user, "~ts", [Text]),
    append("FAILURES", Text).

append(Variable, Text) ->
    case os:getenv(Variable) of
        false -> ok;
        File -> file:write_file(File, unicode:characters_to_binary(Text), [append])
    end.
