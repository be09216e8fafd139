%% The libraries of a node as tests have them: the product's objects with what test/hooks/ wraps.
%% tools/nif.mk puts them into one folder.
-module(hooked_library).

-export([folder/0, path/1, use/0]).

-spec folder() -> string().
folder() -> checkout:path("_build/test/hooks").

-spec path(string()) -> string().
path(Library) -> filename:join(folder(), Library).

%% From the next load on. The library of looks is loaded again.
-spec use() -> ok.
use() ->
    application:set_env(flame_prof_attached, library, folder()),
    waiting:eventually(fun flame_prof_looks:purge/0).
