%% Compile the test modules, and run one of them under EUnit or Common Test.
%%
%% Called by tools/test_erl.sh as `erl -s test_runner compile|eunit|ct ARGS...`;
%% the counts go to a file, so that a node which dies without writing it is
%% told from one whose tests failed. What failed, and why, is appended to the file
%% that $FAILURES names: tools/test.sh ends with it. The failed cases of a suite, `CASE GROUP' a
%% line, are appended to the file that $CASES names; `*' is a failure outside of a case. With
%% $CASE, and $GROUP if it is in one, only that case of the suite runs.
-module(test_runner).

-export([compile/1, eunit/1, ct/1]).

%% Common Test's hook callbacks
-export([id/1, init/2, on_tc_fail/4]).

%% How much slower than usual a machine may be: for what is there to end a hang, and
%% is never what a test is about.
-define(PATIENCE, 12).

%% EUnit's listener callbacks
-behaviour(eunit_listener).
-export([start/1, init/1, handle_begin/3, handle_end/3, handle_cancel/3, terminate/2]).

%%% compile TEST_DIR OUT_DIR LIST_FILE
%%
%% The list has the tests that $TEST_CLASS names: `proof', those of the folder proof, which report
%% figures; else all others.

compile(Args) ->
    [Dir, Out, List] = [atom_to_list(A) || A <- Args],
    PropEr = code:which(proper) =/= non_existing,
    Sources = lists:sort(
        filelib:wildcard(filename:join(Dir, "*.erl"))
        ++ filelib:wildcard(filename:join(Dir, "*/*.erl"))),
    Lines = [Line || {Source, Line} <- compile_all(Sources, Out, PropEr),
        is_proof(Source) =:= (os:getenv("TEST_CLASS") =:= "proof")],
    [link_data(Source, Out) || Source <- Sources, kind(Source) =/= helper],
    ok = file:write_file(List, lists:usort([iolist_to_binary(L) || L <- Lines])),
    halt(0).

%% By as many processes as there are processors.
compile_all(Sources, Out, PropEr) ->
    Places = erlang:system_info(schedulers_online),
    Workers = [
        spawn_monitor(fun() ->
            exit({lines, [{S, Line} || {N, S} <- lists:enumerate(Sources),
                N rem Places =:= Place, Line <- compile_one(S, Out, PropEr)]})
        end)
     || Place <- lists:seq(0, Places - 1)
    ],
    lists:append([receive {'DOWN', M, process, P, {lines, Lines}} -> Lines end
        || {P, M} <- Workers]).

compile_one(Source, Out, PropEr) ->
    Module = filename:basename(Source, ".erl"),
    case not PropEr andalso needs_proper(Source) of
        true ->
            io:format("  ~s: skipped, PropEr (erlang-proper) is not installed~n", [Module]),
            [];
        false ->
            Dir = filename:dirname(Source),
            Options = [debug_info, report, nowarn_missing_spec,
                       {d, 'TEST'}, {outdir, Out},
                       {i, Dir}, {i, "include"}, {i, "src"}, {i, "test"}]
                ++ [{d, 'PROPER'} || PropEr]
                ++ [{i, "tools/include"} || PropEr, not has_proper_header()],
            case {compile:file(Source, Options), kind(Source)} of
                {error, helper} -> [["broken ", Module, "\n"]];
                {_, helper} -> [];
                {error, _} -> [["broken ", Module, "\n"]];
                {_, Kind} -> [[atom_to_list(Kind), " ", Module, "\n"]]
            end
    end.

is_proof(Source) ->
    filename:basename(filename:dirname(Source)) =:= "proof".

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
            ok = file:make_symlink(filename:absname(Data), Link);
        false ->
            ok
    end.

%%% eunit MODULE RESULT_FILE LOG_DIR

eunit([Module, ResultFile, _Logs]) ->
    {module, Module} = code:ensure_loaded(Module),
    %% EUnit's five seconds are for machines as fast as its authors'. OTP 25 scales no
    %% timeouts.
    _ = eunit:test({spawn, [patient(Module, F) || {F, 0} <- Module:module_info(exports)]},
                   [no_tty, {scale_timeouts, ?PATIENCE},
                    {report, {?MODULE, [{result, atom_to_list(ResultFile)}]}}]),
    halt(0).

%% What `{module, Module}' stands for.
patient(Module, Function) ->
    Name = atom_to_list(Function),
    case {lists:suffix("_test", Name), lists:suffix("_test_", Name)} of
        {true, _} -> {timeout, 5 * ?PATIENCE, {Module, Function}};
        {_, true} -> {generator, fun() -> patient(Module:Function()) end};
        _ -> []
    end.

%% Tests as a generator answers them: those without a timeout of their own have more time.
patient(Tests) when is_list(Tests) ->
    case io_lib:char_list(Tests) of
        true -> Tests;
        false -> [patient(Test) || Test <- Tests]
    end;
patient(Test) when is_function(Test, 0) ->
    {timeout, 5 * ?PATIENCE, Test};
patient({Line, Test}) when is_integer(Line) ->
    {timeout, 5 * ?PATIENCE, {Line, Test}};
patient({Name, Tests}) when Name =:= inorder; Name =:= spawn; is_list(Name); is_binary(Name) ->
    {Name, patient(Tests)};
patient({setup, Setup, Cleanup, Tests}) ->
    {setup, Setup, Cleanup, patient(Tests)};
patient(Instantiate) when is_function(Instantiate, 1) ->
    fun(Given) -> patient(Instantiate(Given)) end;
patient(Tests) ->
    Tests.

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

ct([Module, ResultFile, Logs]) ->
    State = #{result => atom_to_list(ResultFile)},
    Dir = filename:dirname(code:which(Module)),
    case ct:run_test([{dir, Dir}, {suite, Module}, {auto_compile, false},
                      {logdir, atom_to_list(Logs)}, {abort_if_missing_suites, true},
                      {multiply_timetraps, ?PATIENCE},
                      {ct_hooks, [?MODULE]}
                      | only(os:getenv("CASE", ""), os:getenv("GROUP", ""))]) of
        {Pass, Fail, {UserSkip, AutoSkip}} ->
            %% Skipped by itself: its init failed.
            write_result(State, Pass, Fail + AutoSkip, UserSkip);
        Error ->
            failed("ct: ~tp~n", [Error]),
            write_result(State, 0, 1, 0)
    end,
    halt(0).

only("", _Group) -> [];
only(Case, "") -> [{testcase, [list_to_atom(Case)]}];
only(Case, Group) -> [{group, list_to_atom(Group)}, {testcase, [list_to_atom(Case)]}].

id(_Options) ->
    ?MODULE.

init(?MODULE, _Options) ->
    {ok, none}.

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
