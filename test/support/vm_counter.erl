%% A number of this VM's C code, read from its memory. Not every VM exports its symbols.
-module(vm_counter).

-export([read/1]).

-spec read(string()) -> {ok, integer()} | unknown.
read(Symbol) ->
    {ok, Program} = file:read_link("/proc/self/exe"),
    case re:run(os:cmd("nm -D " ++ Program), "([0-9a-f]+) . " ++ Symbol ++ "\n", [{capture, [1],
        list}]) of
        {match, [Offset]} -> {ok, read_at(list_to_integer(Offset, 16))};
        nomatch -> unknown
    end.

read_at(Offset) ->
    Memory = "/proc/" ++ os:getpid() ++ "/",
    {ok, Maps} = file:open(Memory ++ "maps", [read]),
    {ok, Line} = file:read_line(Maps),
    ok = file:close(Maps),
    [First | _] = string:lexemes(Line, "-"),
    {ok, File} = file:open(Memory ++ "mem", [read, raw, binary]),
    {ok, <<Value:64/signed-native>>} = file:pread(File, list_to_integer(First, 16) + Offset, 8),
    ok = file:close(File),
    Value.
