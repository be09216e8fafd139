%% Processes that wait in functions whose names break readers of `perf script', and
%% how each of these should be read: shared by the suite and by test/foreign.
-module(nasty_names).

-export([start/0, stop/1, check/2]).

-export_type([waiters/0]).

%% The function that each waits in, as Erlang has it: `Module:Function/Arity'.
-type waiters() :: #{ErlPid :: binary() => {pid(), Symbol :: binary()}}.

-spec start() -> waiters().
start() ->
    Named = lists:zip(lists:seq(1, length(functions())), functions()),
    Numbered = [{list_to_atom("nasty_" ++ integer_to_list(N)), F, A} || {N, {F, A}} <- Named],
    Pids = [waiter(M, F, A) || {M, F, A} <- modules() ++ Numbered] ++ [in_a_comprehension()],
    maps:from_list([{list_to_binary(pid_to_list(Pid)), {Pid, Symbol}} || {Pid, Symbol} <- Pids]).

-spec stop(waiters()) -> ok.
stop(Waiters) ->
    _ = [exit(Pid, kill) || {Pid, _} <- maps:values(Waiters)],
    ok.

%% Each is in these files, in its own function, and nowhere else.
-spec check(waiters(), flame_prof_samples:files()) -> ok.
check(Waiters, Files) ->
    {ok, Found, _} = flame_prof:fold(
        fun(#{words := Words, status := Status, frames := Frames}, Acc) ->
            case Words of
                #{<<"erl_pid">> := Pid} when is_map_key(Pid, Waiters), Status =:= <<"waiting">> ->
                    {Leaf, _} = hd(Frames),
                    maps:update_with(Pid, fun(Leafs) -> Leafs#{Leaf => []} end, #{Leaf => []}, Acc);
                _ -> Acc
            end
        end, #{},
        Files),
    Expected = maps:map(fun(_, {_, Symbol}) -> [Symbol] end, Waiters),
    case maps:map(fun(_, Leafs) -> lists:usort([read(L) || L <- maps:keys(Leafs)]) end, Found) of
        Expected -> ok;
        Read -> error({misread, maps:to_list(Expected) -- maps:to_list(Read), Read})
    end.

%% As doc/format.md says: without a line, then decoded.
read(Symbol) -> decode(re:replace(Symbol, "(/[0-9]+):[0-9]+$", "\\1", [{return, binary}])).

decode(<<$%, Hex:2/binary, Rest/binary>>) ->
    <<(binary_to_integer(Hex, 16)), (decode(Rest))/binary>>;
decode(<<Byte, Rest/binary>>) -> <<Byte, (decode(Rest))/binary>>;
decode(<<>>) -> <<>>.

%% The compiler takes fewer names for a module than for a function: Latin-1, and
%% nothing that does not show.
modules() ->
    Both = ['(status)', 'a b;c', '"\'', '%41', '0x12', '_Zfoo', '_Rfoo', '[unknown]', 'é',
        'ÿ <b>&c'],
    [{'Elixir.Foo.Bar', 'baz?', 1},
        {'Elixir.Foo.Bar.Baz', '-fun.f!/2-', 2},
        {longest("m"), longest("f"), 255},
        {longest("é"), longest("é"), 0}
    ] ++ [{Name, Name, 0} || Name <- Both].

functions() ->
    [{F, 0} || F <- ['', ' ', '\n\n', '\t', '\r', '\x{2028}', '\x{85}', '\x{feff}', '\x{200b}']] ++
        [{longest(C), 0} || C <- [" ", "%", [16#80], [16#1f525], [16#10ffff]]] ++
        [{'++', 2},
            {'two words', 3},
            {'f(x)', 1},
            {'a (b) (c.erl)', 1},
            {'(anonymous namespace)::f', 1},
            {'a;b;c', 1},
            {'<a href="x">', 1},
            {'->', 2},
            {'f->g', 2},
            {'f+0x1f', 2},
            {'/1:2', 1},
            {'_[k]', 1},
            {'beam 1/2 [000] 1.000001: cpu-clock:', 1},
            {'# cmdline : /usr/bin/java', 1},
            {'\tffffffff main (a.out)', 1},
            {'日本語', 1},
            {'🔥🔥🔥🔥🔥🔥🔥🔥🔥', 0}].

%% An atom has 255 characters, but one in a module has 255 bytes.
longest(Character) ->
    Bytes = byte_size(unicode:characters_to_binary(Character)),
    list_to_atom(lists:append(lists:duplicate(255 div Bytes, Character))).

%% It is registered by that name as well, where that can be.
waiter(Module, Function, Arity) ->
    Arguments = lists:duplicate(Arity, {var, 2, '_'}),
    load(Module, Function, Arity, [{clause, 2, Arguments, [], [wait()]}]),
    Pid = spawn(Module, Function, lists:duplicate(Arity, [])),
    true = whereis(Function) =/= undefined orelse register(Function, Pid),
    {Pid, symbol(Module, Function, Arity)}.

%% A name that the compiler makes: '-f/1-lc$^0/1-0-'.
in_a_comprehension() ->
    Comprehension = {lc, 2, wait(), [{generate, 2, {var, 2, '_'}, {var, 2, 'List'}}]},
    load(nasty_comprehension, f, 1, [{clause, 2, [{var, 2, 'List'}], [], [Comprehension]}]),
    Pid = spawn(nasty_comprehension, f, [[1]]),
    true = register(list_to_atom(lists:duplicate(255, 16#1f525)), Pid),
    {Pid, symbol(nasty_comprehension, '-f/1-lc$^0/1-0-', 1)}.

wait() -> {'receive', 3, [{clause, 3, [{atom, 3, stop}], [], [{atom, 3, ok}]}]}.

load(Module, Function, Arity, Clauses) ->
    {ok, Module, Beam} = compile:forms([{attribute, 1, module, Module},
            {attribute, 1, export, [{Function, Arity}]},
            {function, 2, Function, Arity, Clauses}],
        []),
    {module, Module} = code:load_binary(Module, "no file", Beam).

symbol(Module, Function, Arity) ->
    unicode:characters_to_binary([atom_to_list(Module), $:, atom_to_list(Function), $/,
        integer_to_list(Arity)]).
