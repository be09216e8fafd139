%% A folder of a test's own, and files in it, for as long as the test reads them.
-module(text_file).

-export([folder/1, with/2, with/3, several/2]).

folder(Test) ->
    Name = lists:concat(["flame_prof_test.", os:getpid(), ".", erlang:unique_integer([positive])]),
    Folder = filename:join(os:getenv("TMPDIR", "/tmp"), Name),
    ok = file:make_dir(Folder),
    ok = file:change_mode(Folder, 8#700),
    try Test(Folder)
    after file:del_dir_r(Folder)
    end.

with(Text, Test) -> with("file.log", Text, Test).

with(Name, Text, Test) ->
    folder(fun(Folder) ->
        File = filename:join(Folder, Name),
        ok = file:write_file(File, Text),
        Test(File)
    end).

%% In their order by name, too.
several(Texts, Test) ->
    folder(fun(Folder) ->
        Files = [filename:join(Folder, io_lib:format("~3..0b.log", [N]))
            || N <- lists:seq(1, length(Texts))],
        [ok = file:write_file(File, Text) || {File, Text} <- lists:zip(Files, Texts)],
        Test(Files)
    end).
