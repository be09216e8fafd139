%% @private The live table: {@link flame_prof:top/1} in a shell, and the text of it
%% for the command line. flame_prof_top_look is what it shows.
%%
%% In a shell, lines are read by a process of its own, as a shell hands out lines
%% only: `q' and return ends it, the name of a column sorts. All of it ends with the
%% process that called, whatever kills it.
-module(flame_prof_top).

-export([live/1, columns/0, text/2, accepts/0]).

-import(flame_prof_text, [grouped/1, fit/2, right/2]).

-export_type([options/0, column/0, view/0]).

-type column() :: reductions | memory | growth | queue | running | name.

-type options() ::
    #{
        every => pos_integer(),
        sort => column(),
        filter => unicode:chardata(),
        rows => pos_integer(),
        count => pos_integer() | infinity
    }.
%% <ul>
%% <li>`every': milliseconds between two tables (1000)</li>
%% <li>`sort': by what (`reductions')</li>
%% <li>`filter': only processes whose name, pid or frame has this text</li>
%% <li>`rows': processes to look at and to show (30)</li>
%% <li>`count': tables to print, then end (`infinity')</li>
%% </ul>

-type view() :: #{sort := column(), filter := binary(), rows := pos_integer(),
    width := pos_integer()}.

-define(HOME, "\e[H\e[J").

-spec columns() -> [column(), ...].
columns() -> [reductions, memory, growth, queue, running, name].

-spec accepts() -> binary().
accepts() ->
    <<"every (ms, 100 or more), sort (a column), filter (a text), rows and count (1 or more)">>.

%% @doc Prints tables until it is told to end.
-spec live(options()) -> ok | {error, {bad_option, term(), binary()}}.
live(Given) when is_map(Given) ->
    Defaults = #{every => 1000, sort => reductions, filter => <<>>, rows => 30, count => infinity},
    Options = maps:merge(Defaults, Given),
    case [Key || {Key, Value} <- lists:sort(maps:to_list(Options)), not is_option(Key, Value)] of
        [] -> run(Options#{filter := unicode:characters_to_binary(maps:get(filter, Options))});
        [Key | _] -> {error, {bad_option, Key, accepts()}}
    end;
live(_) ->
    {error, {bad_option, options, accepts()}}.

is_option(every, Ms) -> is_integer(Ms) andalso Ms >= 100;
is_option(sort, Column) -> lists:member(Column, columns());
is_option(filter, Text) -> is_binary(unicode:characters_to_binary(Text));
is_option(rows, Rows) -> is_integer(Rows) andalso Rows >= 1 andalso Rows =< 1000;
is_option(count, infinity) -> true;
is_option(count, Count) -> is_integer(Count) andalso Count >= 1;
is_option(_, _) -> false.

run(#{every := Every, rows := Rows} = Options) ->
    {ok, Looker} = flame_prof_top_look:start(self(), #{every_ms => Every, rows => Rows}),
    Keys = keys(),
    Monitor = monitor(process, Looker),
    try
        loop(Looker, Monitor, Options)
    after
        ok = flame_prof_top_look:stop(Looker),
        true = demonitor(Monitor, [flush]),
        end_keys(Keys),
        flush(Looker)
    end.

loop(_Looker, _Monitor, #{count := 0}) ->
    ok;
loop(Looker, Monitor, Options) ->
    receive
        {flame_prof_top_look, Looker, Table} ->
            case is_shown(screen(Table, Options)) of
                true ->
                    ok = flame_prof_top_look:taken(Looker),
                    loop(Looker, Monitor, counted(Options));
                false ->
                    ok
            end;
        {?MODULE, line, Keys, Line} ->
            case command(Line, Options) of
                stop ->
                    ok;
                Changed ->
                    Keys ! {?MODULE, next},
                    loop(Looker, Monitor, Changed)
            end;
        {'DOWN', Monitor, process, _, Reason} ->
            {error, {top, looking, unicode:characters_to_binary(io_lib:format("~0tP",
                [Reason, 12]))}}
    end.

%% Not where the terminal is gone.
is_shown(Text) ->
    try
        ok =:= io:put_chars(Text)
    catch
        error:_ -> false
    end.

counted(#{count := Count} = Options) when is_integer(Count) -> Options#{count := Count - 1};
counted(Options) -> Options.

%% In place on a terminal, one below the other elsewhere.
screen(Table, #{rows := Rows} = Options) ->
    case {io:columns(), io:rows()} of
        {{ok, Columns}, {ok, Lines}} ->
            View = (view(Options))#{width := Columns - 1, rows := min(Rows, max(1, Lines - 5))},
            [?HOME, text([Table], View), "q: end, /TEXT: filter, or a column: ", names(), "\n"];
        _ ->
            [text([Table], view(Options)), "\n"]
    end.

view(#{sort := Sort, filter := Filter, rows := Rows}) ->
    #{sort => Sort, filter => Filter, rows => Rows, width => 120}.

names() -> lists:join(" ", [atom_to_list(Column) || Column <- columns()]).

%% Lines of the person. The next one is not read before it is known that it is for
%% us: the line after the last belongs to the shell.

keys() ->
    Top = self(),
    case io:columns() of
        {ok, _} -> spawn_link(fun() -> read_lines(Top) end);
        {error, _} -> none
    end.

%% Waiting for a line cannot be interrupted but by ending.
end_keys(none) ->
    true;
end_keys(Keys) ->
    true = unlink(Keys),
    exit(Keys, kill).

read_lines(Top) ->
    case io:get_line("") of
        Line when is_list(Line); is_binary(Line) ->
            Top ! {?MODULE, line, self(), string:trim(Line)},
            receive
                {?MODULE, next} -> read_lines(Top)
            end;
        _ ->
            ok
    end.

command("q" ++ _, _Options) -> stop;
command("/" ++ Text, Options) -> Options#{filter := unicode:characters_to_binary(Text)};
command(Word, Options) ->
    case [Column || Column <- columns(), lists:prefix(Word, atom_to_list(Column)), Word =/= ""] of
        [Column | _] -> Options#{sort := Column};
        [] -> Options
    end.

flush(Looker) ->
    receive
        {flame_prof_top_look, Looker, _} -> flush(Looker);
        {?MODULE, line, _, _} -> flush(Looker)
    after 0 -> ok
    end.

%% The text.

%% @doc Of one node, or of several in one table.
-spec text([flame_prof_top_look:table()], view()) -> unicode:chardata().
text(Tables, #{sort := Sort, rows := Rows, width := Width, filter := Filter}) ->
    Several = length(Tables) > 1,
    All = [Row#{node => Node} || #{node := Node, rows := Of} <- Tables, Row <- Of],
    Wanted = [Row || Row <- All, Filter =:= <<>> orelse is_wanted(Filter, Row)],
    Sorted = lists:sublist(lists:sort(order(Sort), Wanted), Rows),
    [
        [fit(summary(Tables, Sort, Filter), Width), "\n"],
        [fit(head(Several), Width), "\n"],
        [[fit(row(Row, Several), Width), "\n"] || Row <- Sorted]
    ].

is_wanted(Filter, #{name := Name, frame := Frame, pid := Pid}) ->
    lists:any(fun(Text) -> string:find(Text, Filter) =/= nomatch end, [Name, Frame, Pid]).

order(name) ->
    fun(#{name := A}, #{name := B}) -> A =< B end;
order(Column) ->
    fun(#{pid := PidA} = A, #{pid := PidB} = B) ->
        {-maps:get(Column, A), PidA} =< {-maps:get(Column, B), PidB}
    end.

summary(Tables, Sort, Filter) ->
    Processes = lists:sum([N || #{processes := N} <- Tables]),
    [
        lists:join(", ", [io_lib:format("~ts (~ts)", [Node, Engine])
            || #{node := Node, engine := Engine} <- Tables]),
        io_lib:format(": ~ts processes, by ~ts", [grouped(Processes), Sort]),
        [[", with ", Filter] || Filter =/= <<>>]
    ].

head(Several) ->
    ["     red/s run% rdy% gc%    queue    memory    growth  ", [string:pad("node", 21) || Several],
        "process / where it was most"].

row(Row, Several) ->
    #{reductions := Rate, running := Run, runnable := Ready, garbage_collecting := Gc} = Row,
    #{queue := Queue, memory := Memory, growth := Growth, name := Name, pid := Pid} = Row,
    #{frame := Frame, node := Node} = Row,
    [
        right(grouped(round(Rate)), 10),
        [right(integer_to_list(round(Share)), Width)
            || {Share, Width} <- [{Run, 5}, {Ready, 5}, {Gc, 4}]],
        right(grouped(Queue), 9),
        right(bytes(Memory), 10),
        right(bytes(Growth), 10),
        "  ",
        [[string:pad(fit(atom_to_list(Node), 20), 21)] || Several],
        [local(Pid), " ", printable(Name), "  ", printable(Frame)]
    ].

bytes(N) when N < 0 -> [$- | bytes(-N)];
bytes(N) when N < 10000 -> integer_to_list(N);
bytes(N) when N < 10000 bsl 10 -> [integer_to_list(N bsr 10), "K"];
bytes(N) when N < 10000 bsl 20 -> [integer_to_list(N bsr 20), "M"];
bytes(N) -> [integer_to_list(N bsr 30), "G"].

local(Pid) -> Pid.

printable(Text) -> << <<(visible(C))/utf8>> || <<C/utf8>> <= Text >>.

visible(C) when C < 32; C >= 16#7f, C < 16#a0 -> $?;
visible(C) -> C.
