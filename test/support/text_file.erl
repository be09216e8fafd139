%% A file of a test's own, for as long as the test reads it.
-module(text_file).

-export([with/2]).

with(Text, Test) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Name = "flame_prof_test." ++ os:getpid() ++ "." ++ Unique,
    File = filename:join(os:getenv("TMPDIR", "/tmp"), Name),
    ok = file:write_file(File, Text),
    try
        Test(File)
    after
        file:delete(File)
    end.
