%% What is lent, with a failure in it: the modules that an agent gets are those of the code path, so
%% that one of them can do something else at one step. Those that run here stay as they are.
-module(lent_modules).

-export([with/3]).

%% While Fun runs, Module:Function/Arity of what is lent evaluates this text before its own work.
with({Module, Function, Arity}, Text, Fun) ->
    _ = application:load(flame_prof),
    {ok, Modules} = application:get_key(flame_prof, modules),
    ok = code:ensure_modules_loaded([M || M <- Modules, not is_of_elixir(M)]),
    Folder = filename:join("/tmp", "flame_prof_lent_" ++ os:getpid()),
    ok = filelib:ensure_path(Folder),
    File = filename:join(Folder, atom_to_list(Module) ++ ".beam"),
    ok = file:write_file(File, patched(Module, Function, Arity, Text)),
    true = code:add_patha(Folder),
    try Fun()
    after
        true = code:del_path(Folder),
        ok = file:del_dir_r(Folder)
    end.

is_of_elixir(Module) -> lists:prefix("Elixir.", atom_to_list(Module)).

patched(Module, Function, Arity, Text) ->
    {ok, {Module, [{abstract_code, {raw_abstract_v1, Forms}}]}} =
        beam_lib:chunks(code:which(Module), [abstract_code]),
    {ok, Tokens, _} = erl_scan:string(Text ++ "."),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    Patched = lists:append([patch(Form, Function, Arity, Expressions) || Form <- Forms]),
    true = length(Patched) =:= length(Forms) + 1,
    {ok, Module, Code} = compile:forms(Patched, [nowarn_unused_function]),
    Code.

patch({function, At, Function, Arity, Clauses}, Function, Arity, Expressions) ->
    Own = list_to_atom(atom_to_list(Function) ++ "_of_its_own"),
    Arguments = [{var, At, list_to_atom("Argument" ++ integer_to_list(N))}
        || N <- lists:seq(1, Arity)],
    Call = {call, At, {atom, At, Own}, Arguments},
    [{function, At, Function, Arity, [{clause, At, Arguments, [], Expressions ++ [Call]}]},
        {function, At, Own, Arity, Clauses}];
patch(Form, _Function, _Arity, _Expressions) -> [Form].
