%% The map for Linux perf against what the VM says in public, at the real place.
-module(flame_prof_perf_map_tests).

-include_lib("eunit/include/eunit.hrl").

-export([spin/1]).

perf_map_test_() ->
    case flame_prof_nif:platform() of
        #{native := false, why := Why} ->
            io:format(user, "    skipped, no native engine here: ~ts~n", [Why]),
            [];
        #{native := true} ->
            {foreach, fun clean/0, fun(_) -> clean() end, [
                {timeout, 1200, {atom_to_list(Name), fun() -> test(Name) end}}
             || Name <- [every_function_of_every_loaded_module_and_no_other,
                    places_are_sorted_and_disjoint,
                    a_new_module_comes_with_the_next_call_and_a_purged_one_goes,
                    a_replaced_module_goes_and_old_code_stays, the_file_is_private_and_alone,
                    a_planted_link_is_not_followed, a_planted_directory_is_a_clear_error,
                    it_works_beside_a_session, a_vm_that_writes_its_own_map_is_left_alone,
                    single_mapped_code_is_found, perf_shows_the_functions_name]]}
    end.

clean() ->
    _ = file:del_dir(path()),
    _ = file:delete(path()),
    ok.

test(every_function_of_every_loaded_module_and_no_other) ->
    {Expected, Found} = expected_and_found(10),
    ?assertEqual([], Expected -- Found),
    ?assertEqual([], Found -- Expected),
    ?assert(length(Found) > 3000),
    say("~w functions of ~w modules", [length(Found), length(erlang:loaded())]);
test(places_are_sorted_and_disjoint) ->
    #{functions := Functions, bytes := Bytes} = write(),
    Lines = lines(),
    ?assertEqual(Bytes, filelib:file_size(path())),
    {Shared, Named} = lists:partition(fun({_, _, S}) -> S =:= <<"[jit shared]">> end, Lines),
    ?assertMatch([_ | _], Shared),
    ?assertEqual(Functions, length(Named)),
    lists:foldl(fun({Start, Size, _}, End) ->
        ?assert(Size > 0),
        ?assert(Start >= End),
        Start + Size
    end, 0, Lines),
    %% Shared code comes first, as what all the rest calls.
    ?assertMatch([{_, _, <<"[jit shared]">>} | _], Lines);
test(a_new_module_comes_with_the_next_call_and_a_purged_one_goes) ->
    Module = 'Elixir.Fresh and new',
    write(),
    ?assertEqual([], symbols_of(Module)),
    load(Module, [{first, 1}, {second, 2}]),
    write(),
    ?assertEqual([{first, 1}, {module_info, 0}, {module_info, 1}, {second, 2}], symbols_of(Module)),
    true = code:delete(Module),
    false = code:purge(Module),
    %% The VM does not wipe it: it is there, and left out.
    #{left_out := LeftOut} = write(),
    ?assertEqual([], symbols_of(Module)),
    ?assert(LeftOut >= 4);
test(a_replaced_module_goes_and_old_code_stays) ->
    Module = replaced,
    load(Module, [{before, 0}]),
    load(Module, [{'after', 0}, {again, 0}]),
    write(),
    %% Old code may run until it is purged.
    ?assertMatch([{'after', 0}, {again, 0}, {before, 0} | _], symbols_of(Module)),
    false = code:purge(Module),
    write(),
    ?assertEqual([{'after', 0}, {again, 0}, {module_info, 0}, {module_info, 1}], symbols_of(Module)
    ),
    true = code:delete(Module),
    write(),
    ?assertMatch([{'after', 0} | _], symbols_of(Module)),
    false = code:purge(Module),
    write(),
    ?assertEqual([], symbols_of(Module));
%%% ------------------------------------------------------------------- file --

test(the_file_is_private_and_alone) ->
    write(),
    write(),
    {ok, Info} = file:read_file_info(path()),
    ?assertEqual(8#600, element(8, Info) band 8#7777),
    ?assertEqual([path()], filelib:wildcard(path() ++ "*"));
test(a_planted_link_is_not_followed) ->
    Target = path() ++ ".target",
    ok = file:write_file(Target, <<"precious">>),
    ok = file:make_symlink(Target, path()),
    try
        write(),
        ?assertEqual({ok, <<"precious">>}, file:read_file(Target)),
        ?assertEqual({error, einval}, file:read_link(path()))
    after file:delete(Target)
    end;
test(a_planted_directory_is_a_clear_error) ->
    ok = file:make_dir(path()),
    {error, Reason} = flame_prof:write_perf_map(),
    Text = unicode:characters_to_list(flame_prof:format_error(Reason)),
    ?assertEqual(path() ++ ": illegal operation on a directory", Text),
    ?assertEqual([path()], filelib:wildcard(path() ++ "*"));
%%% ---------------------------------------------------------------- the node --

test(it_works_beside_a_session) ->
    Directory = temporary(),
    {ok, _} = flame_prof:start(#{dir => Directory}),
    write(),
    {ok, #{attempted := T, written := W, inconsistent := N, dropped := D,
        exited := G}} = flame_prof:stop(),
    ?assertEqual(T, W + N + D + G),
    remove(Directory);
test(a_vm_that_writes_its_own_map_is_left_alone) ->
    Out = eval_in_peer("+JPperf true", "P = \"/tmp/perf-\" ++ os:getpid() ++ \".map\","
        "{ok, Before} = file:read_file(P),"
        "{error, Reason} = flame_prof:write_perf_map(),"
        "{ok, After} = file:read_file(P),"
        "io:format(\"~w ~w ~ts~n\", [byte_size(Before) > 100000,"
        "    byte_size(After) >= byte_size(Before), flame_prof:format_error(Reason)]),"
        "file:delete(P), halt()."),
    ?assertMatch({match, _}, re:run(Out, "^true true /tmp/perf-[0-9]+.map: .*\\+JPperf")),
    ok;
test(single_mapped_code_is_found) ->
    case list_to_integer(erlang:system_info(otp_release)) >= 27 of
        false -> say("skipped: OTP ~s has no +JMsingle", [erlang:system_info(otp_release)]);
        true ->
            Out = eval_in_peer("+JMsingle true",
                "{ok, #{functions := N, left_out := 0, memory := anonymous, file := F}} ="
                "    flame_prof:write_perf_map(),"
                "Known = lists:sum([length(M:module_info(functions)) || M <- erlang:loaded()]),"
                "io:format(\"~w\", [N =:= Known]), file:delete(F), halt()."),
            ?assertEqual("true", Out)
    end;
%%% ------------------------------------------------------------------- perf --

test(perf_shows_the_functions_name) ->
    Directory = temporary(),
    Data = filename:join(Directory, "perf.data"),
    Pid = spawn(?MODULE, spin, [0]),
    try
        Record = os:cmd("LC_ALL=C timeout 60 perf record -e cpu-clock -F 499 -p " ++ os:getpid() ++
                " -o " ++ Data ++ " -- sleep 2 2>&1"),
        %% Without /sys, as in a bare chroot, perf records and reports nothing.
        case filelib:file_size(Data) > 0 andalso string:find(top(Data), "%") =/= nomatch of
            false -> say("skipped, perf does not run here: ~ts", [string:trim(Record)]);
            true ->
                #{memory := Memory} = write(),
                say("perf recorded; code is ~w; as recorded: ~ts", [Memory, top(Data)]),
                ok = rename_mapping(Memory, Data),
                Top = top(Data),
                say("with the mapping renamed: ~ts", [Top]),
                {match, [Share, Symbol]} =
                    re:run(Top, "([0-9.]+)%.*\\[\\.\\] (.*)$", [{capture, all_but_first, list}]),
                ?assertEqual("flame_prof_perf_map_tests:spin/1", string:trim(Symbol)),
                ?assert(list_to_float(Share) > 50)
        end
    after
        exit(Pid, kill),
        remove(Directory)
    end.

%% As the documentation of flame_prof:write_perf_map/0 has it.
rename_mapping(anonymous, _Data) -> ok;
rename_mapping(memfd, Data) ->
    "" = os:cmd("LC_ALL=C sed -i 's|/memfd:vmem (deleted)|//anon"
        "\\x0\\x0\\x0\\x0\\x0\\x0\\x0\\x0\\x0\\x0\\x0\\x0\\x0\\x0\\x0|g' " ++ Data),
    ok.

top(Data) ->
    os:cmd("LC_ALL=C timeout 60 perf report --stdio -f -i " ++ Data ++
            " 2>/dev/null | grep -v '^#' | grep -m 1 '%' | tr -d '\\n'").

spin(N) -> spin((N * 7 + 1) band 16#ffffff).
path() -> "/tmp/perf-" ++ os:getpid() ++ ".map".

write() ->
    Path = list_to_binary(path()),
    {ok, #{file := Path, functions := N} = Written} = flame_prof:write_perf_map(),
    true = N > 0,
    Written.

%% Modules are loaded behind our backs: what was loaded before and after.
expected_and_found(Attempts) when Attempts > 0 ->
    Before = lists:sort(erlang:loaded()),
    write(),
    Found = [S || {_, _, S} <- lines(), S =/= <<"[jit shared]">>],
    Expected = [symbol(M, F, A) || M <- Before, {F, A} <- M:module_info(functions)],
    case lists:sort(erlang:loaded()) of
        Before -> {lists:sort(Expected), lists:sort(Found)};
        _ -> expected_and_found(Attempts - 1)
    end.

symbol(M, F, A) ->
    <<(atom_to_binary(M))/binary, ":", (atom_to_binary(F))/binary, "/",
        (integer_to_binary(A))/binary>>.

%% {Start, Size, Symbol}, the symbol decoded.
lines() ->
    {ok, Text} = file:read_file(path()),
    [line(L) || L <- binary:split(Text, <<"\n">>, [global]), L =/= <<>>].

line(Line) ->
    [Start, Rest] = binary:split(Line, <<" ">>),
    [Size, Symbol] = binary:split(Rest, <<" ">>),
    {binary_to_integer(Start, 16), binary_to_integer(Size, 16), decode(Symbol)}.

decode(Symbol) -> iolist_to_binary(uri_string:percent_decode(Symbol)).

symbols_of(Module) ->
    Prefix = <<(atom_to_binary(Module))/binary, ":">>,
    Size = byte_size(Prefix),
    lists:usort([begin
        [F, A] = binary:split(binary:part(S, Size, byte_size(S) - Size), <<"/">>),
        {binary_to_atom(F), binary_to_integer(A)}
    end || {_, _, S} <- lines(), binary:longest_common_prefix([S, Prefix]) =:= Size]).

load(Module, Functions) ->
    Forms = [{attribute, 1, module, Module},
        {attribute, 1, export, Functions}
        | [{function, 1, F, A, [{clause, 1, [{var, 1, '_'} || _ <- lists:seq(1, A)], [], [
                {atom, 1, F}]}]} || {F, A} <- Functions]],
    {ok, Module, Beam} = compile:forms(Forms),
    {module, Module} = code:load_binary(Module, "generated", Beam).

temporary() ->
    Directory = filename:join("/tmp", "flame_prof_perf_map." ++ os:getpid()),
    ok = filelib:ensure_dir(filename:join(Directory, "x")),
    Directory.

remove(Directory) ->
    [file:delete(F) || F <- filelib:wildcard(filename:join(Directory, "*"))],
    file:del_dir(Directory).

eval_in_peer(Flags, Code) ->
    Ebin = filename:dirname(code:which(flame_prof)),
    string:trim(
        os:cmd("erl " ++ Flags ++ " -noinput -pa " ++ Ebin ++ " -eval '" ++ Code ++ "' 2>&1")).

say(Format, Args) -> io:format(user, "    " ++ Format ++ "~n", Args).
