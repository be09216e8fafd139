%% The modules of examples/trouble and examples/demo, which are no part of the library: compiled
%% here, the behaviour first.
-module(trouble_modules).

-export([load/0, unload/1]).

-spec load() -> [module()].
load() ->
    Files = [checkout:path("examples/trouble/src/trouble.erl")]
        ++ filelib:wildcard(checkout:path("examples/*/src/{demo,trouble}_*.erl")),
    [begin
         {ok, Module, Beam} = compile:file(File, [binary, report]),
         {module, Module} = code:load_binary(Module, File, Beam),
         Module
     end || File <- Files].

-spec unload([module()]) -> ok.
unload(Modules) ->
    lists:foreach(fun(Module) -> code:purge(Module), code:delete(Module) end, Modules).
