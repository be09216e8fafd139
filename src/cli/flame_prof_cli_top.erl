%% @private `flame_prof top': the live table of one node or several, in a terminal
%% by single keys, elsewhere one table below the other.
-module(flame_prof_cli_top).

-export([do/2]).

-import(flame_prof_cli_out, [put/1]).

-define(EVERY_MS, 1000).
-define(ROWS, 40).
%% Without a terminal: a line for each process of a screen.
-define(PLAIN_ROWS, 20).

-record(top, {
    samplers :: #{pid() => node()},
    tables = #{} :: #{node() => flame_prof_top_sampler:table()},
    view :: flame_prof_top_sampler:view(),
    typing = none :: none | string(),
    paused = false :: boolean(),
    rows :: pos_integer() | auto,
    left :: non_neg_integer() | infinity,
    json = false :: boolean(),
    keys :: port() | none
}).

-spec do([node()], flame_prof_cli_args:parsed()) -> ok | interrupted | {error, term()}.
do(Nodes, Parsed) ->
    Timeout = flame_prof_cli_nodes:timeout(Parsed),
    flame_prof_cli_attach:borrowing(Nodes, bare, Timeout,
        fun() -> watch(Nodes, Timeout, Parsed) end).

watch(Nodes, Timeout, Parsed) ->
    View = view(Parsed),
    Started = started(Nodes, View, Timeout, Parsed),
    case [Error || {_, {error, _} = Error} <- Started] of
        [] ->
            Samplers = maps:from_list([{Sampler, Node} || {Node, {ok, {ok, Sampler}}} <- Started]),
            _ = [monitor(process, Sampler) || Sampler <- maps:keys(Samplers)],
            top(Samplers, View, Parsed);
        [Error | _] ->
            Error
    end.

started(Nodes, View, Timeout, Parsed) ->
    Options = View#{
        every_ms => every_ms(Parsed),
        rows => max(?ROWS, maps:get(top, Parsed, ?ROWS))
    },
    flame_prof_remote:all(Nodes, flame_prof_top_sampler, start, [self(), Options], Timeout).

every_ms(Parsed) -> maps:get(every, Parsed, ?EVERY_MS).

view(Parsed) ->
    #{
        by => maps:get(by, Parsed, reductions),
        filter => unicode:characters_to_binary(maps:get(filter, Parsed, ""))
    }.

top(Samplers, View, Parsed) ->
    State = #top{
        samplers = Samplers,
        view = View,
        rows = maps:get(top, Parsed, auto),
        left = maps:get(count, Parsed, infinity),
        json = maps:get(json, Parsed, false),
        keys = keys()
    },
    ok = screen("\e[?1049h\e[?25l"),
    try
        loop(State)
    after
        _ = screen("\e[?25h\e[?1049l"),
        _ = [flame_prof_top_sampler:stop(Sampler) || Sampler <- maps:keys(Samplers)]
    end.

%% A screen of its own, so that what was there before comes back.
screen(Codes) ->
    case flame_prof_cli_out:is_terminal(out) of
        true -> put(Codes);
        false -> ok
    end.

%% The script has put the terminal into the mode of single keys.
keys() ->
    case flame_prof_cli_out:is_terminal(in) andalso flame_prof_cli_out:is_terminal(out) of
        true -> open_port({fd, 0, 0}, [in, binary, eof]);
        false -> none
    end.

loop(#top{left = 0}) ->
    ok;
loop(#top{keys = Keys, samplers = Samplers} = State) when map_size(Samplers) > 0 ->
    receive
        {flame_prof_top_sampler, Sampler, #{node := Node} = Table} ->
            ok = flame_prof_top_sampler:taken(Sampler),
            loop(shown(State#top{tables = (State#top.tables)#{Node => Table}}));
        {Keys, {data, Bytes}} ->
            keyed(binary_to_list(Bytes), State);
        {Keys, eof} ->
            ok;
        {flame_prof_cli, interrupted} ->
            interrupted_or_done(State);
        {'DOWN', _, process, Sampler, Reason} ->
            lost(Sampler, Reason, State)
    after 1000 ->
        case flame_prof_cli_signals:is_orphan() of
            true -> ok;
            false -> loop(State)
        end
    end;
loop(_) ->
    {error, "no node is left to watch"}.

%% Ctrl-C is how a live table ends.
interrupted_or_done(#top{keys = none}) -> interrupted;
interrupted_or_done(_) -> ok.

lost(Sampler, Reason, #top{samplers = Samplers, tables = Tables} = State) ->
    Node = maps:get(Sampler, Samplers),
    ok = flame_prof_cli_out:say([atom_to_list(Node), ": the table ended: ",
        flame_prof_error:exit_text(Reason)]),
    loop(State#top{samplers = maps:remove(Sampler, Samplers), tables = maps:remove(Node, Tables)}).

%% Once for all nodes, when the first of them has a new table.
shown(#top{paused = true} = State) ->
    State;
shown(#top{tables = Tables, samplers = Samplers} = State)
    when map_size(Tables) =:= map_size(Samplers) ->
    ok = draw(State),
    State#top{left = fewer(State#top.left), tables = kept(State)};
shown(State) ->
    State.

kept(#top{samplers = Samplers, tables = Tables}) when map_size(Samplers) =:= 1 -> Tables;
%% With several nodes the next screen waits for a table of each.
kept(_) -> #{}.

fewer(infinity) -> infinity;
fewer(N) -> N - 1.

draw(#top{tables = Tables, view = View, json = true}) ->
    put([[flame_prof_json:encode(flame_prof_look:envelope(flame_prof_top, Node,
            maps:merge(Table, View))), "\n"]
        || {Node, Table} <- maps:to_list(Tables)]);
draw(#top{tables = Tables} = State) ->
    case flame_prof_cli_out:is_terminal(out) of
        true ->
            Lines = flame_prof_cli_out:rows(),
            Rows = rows(State#top.rows, max(1, Lines - 4)),
            View = sized(State, Rows, columns()),
            Text = unicode:characters_to_list(flame_prof_top:text(maps:values(Tables), View)),
            put(["\e[H", cleared(Text), "\e[J", flame_prof_cli_out:bold(help(State))]);
        false ->
            View = sized(State, rows(State#top.rows, ?PLAIN_ROWS), flame_prof_cli_out:columns()),
            put([flame_prof_top:text(maps:values(Tables), View), "\n"])
    end.

rows(auto, Room) -> Room;
rows(Rows, Room) -> min(Rows, Room).

%% Each line to its end: no flicker, and nothing of the one before stays.
cleared(Text) -> [[Line, "\e[K\r\n"] || Line <- string:split(string:trim(Text, trailing, "\n"),
    "\n", all)].

sized(#top{view = View}, Rows, Width) -> View#{rows => Rows, width => Width}.

help(#top{typing = none, paused = true}) -> "paused; p:go on q:quit";
help(#top{typing = none}) -> flame_prof_text:fit(flame_prof_top:help(), columns());
help(#top{typing = Text}) -> ["filter: ", Text].

columns() -> max(20, flame_prof_cli_out:columns() - 1).

%% Keys.

keyed([], State) -> loop(State);
keyed([Key | Keys], State) ->
    case key(Key, State) of
        stop -> ok;
        Changed -> ok = redraw(Changed), keyed(Keys, Changed)
    end.

redraw(#top{tables = Tables}) when map_size(Tables) =:= 0 -> ok;
redraw(State) -> draw(State).

key(3, _State) -> stop;
key(Key, #top{typing = none} = State) -> command(Key, State);
key(Return, #top{typing = Text} = State) when Return =:= $\r; Return =:= $\n ->
    commanded("/" ++ Text, State#top{typing = none});
key(Escape, State) when Escape =:= 27 ->
    State#top{typing = none};
key(Delete, #top{typing = Text} = State) when Delete =:= 127; Delete =:= 8 ->
    State#top{typing = lists:sublist(Text, max(0, length(Text) - 1))};
key(Key, #top{typing = Text} = State) when Key >= 32 ->
    State#top{typing = Text ++ [Key]};
key(_, State) ->
    State.

command($/, State) -> State#top{typing = ""};
command(Key, State) -> commanded([Key], State).

commanded(Command, #top{view = View, paused = Paused} = State) ->
    case flame_prof_top:command(Command, View) of
        stop ->
            stop;
        pause ->
            State#top{paused = not Paused};
        Changed ->
            _ = [flame_prof_top_sampler:set_view(Sampler, Changed)
                || Sampler <- maps:keys(State#top.samplers)],
            State#top{view = Changed}
    end.
