%% Files of the repository, for tests: independent of the folder that they run in.
-module(checkout).

-export([path/1]).

%% `path("test/corpus/ours.log")' is that file, as an absolute path.
-spec path(string()) -> string().
path(File) ->
    Source = proplists:get_value(source, ?MODULE:module_info(compile)),
    [_, _, _ | Top] = lists:reverse(filename:split(Source)),
    filename:join(lists:reverse([File | Top])).
