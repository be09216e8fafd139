%% @doc The busiest processes of a node, as a live table: {@link flame_prof:top/1}.
%%
%% ```
%% 1> flame_prof:top(#{by => memory, filter => "cache", count => 3}).
%% 2> {ok, #{rows := [#{pid := Pid, name := Name} | _]}} = flame_prof:look(top, #{every => 2000}).
%% '''
%%
%% flame_prof_top_sampler is what it shows.
%%
%% A process of its own prints the tables and reads the keys, so that the caller waits in
%% gen_server's code: all of flame_prof can be loaded anew while a table is on the screen.
%% It ends with the process that called, whatever kills that.
-module(flame_prof_top).

-behaviour(gen_server).
-behaviour(flame_prof_look).

-export([about/0, takes/0, run/2, json/1, longest_ms/1]).
-export([live/1, columns/0, text/2, command/2, help/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export([read_line/1]).

-import(flame_prof_text, [grouped/1, fit/2, right/2, visible/1]).

-export_type([options/0, column/0, view/0]).

-type column() :: flame_prof_top_ranking:column().

-type options() ::
    #{
        node => node() | flame_prof_options:left_out(),
        by => column() | flame_prof_options:left_out(),
        sort => column() | flame_prof_options:left_out(),
        filter => unicode:chardata() | flame_prof_options:left_out(),
        every => pos_integer() | flame_prof_options:left_out(),
        top => pos_integer() | flame_prof_options:left_out(),
        count => pos_integer() | infinity | flame_prof_options:left_out()
    }.
%% An option that is left out, `undefined' or `nil' has its default, in brackets.
%%
%% <ul>
%% <li>`node': of which node (this one). One without flame_prof gets it for as long as
%%     this runs.</li>
%% <li>`by': the column by which the top processes of the node are selected and sorted
%%     (`reductions')</li>
%% <li>`sort': an older name of `by', `rows' one of `top'</li>
%% <li>`filter': only processes whose name, pid or function has this text (all)</li>
%% <li>`every': milliseconds between two tables, in which rates are measured (1000)</li>
%% <li>`top': processes to show (30)</li>
%% <li>`count': tables to print, then end (`infinity')</li>
%% </ul>

-type view() :: #{by := column(), filter := binary(), rows := pos_integer(),
    width := pos_integer()}.

-record(state, {
    options :: map(),
    caller = none :: none | gen_server:from(),
    caller_monitor :: reference(),
    sampler = none :: none | pid(),
    agent = none :: none | flame_prof_attach:agent(),
    reader = none :: none | pid(),
    is_paused = false :: boolean()
}).

-define(HOME, "\e[H\e[J").
-define(CALL_MS, 10000).
-define(HOUR_MS, 3600000).
-define(COUNT_MOST, 1000000).
%% An interval ends late if passes over all processes take long.
-define(LATE_MS, 60000).

%% @private
-spec columns() -> [column(), ...].
columns() -> [reductions, memory, growth, queue, running, name].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => top,
        group => cpu,
        asks => "the busiest processes, live",
        sentence => "The first processes of a node by a column, live: rates, status, queue, memory "
            "and its growth, and the function in which each was most often.",
        cost => "Costs a pass over all processes (0.1 to 0.3 microseconds each, 3 to 10 with a "
            "filter or by name).",
        shows => "No terms.",
        argument => {node, optional, "node()", "NODE"},
        runs => here,
        lends => [flame_prof_top_sampler],
        assistant => #{
            title => "Busiest processes",
            tells => [
                "Over an interval: reductions a second, share of time running, ready to run and ",
                "collecting garbage, messages in the mailbox, memory and its growth, and the ",
                "function each was seen in most. A good first question. On a node with very many ",
                "processes the interval is longer than asked for."],
            seconds => {every, 0.5, 30, "length of the interval that is measured (1)"},
            options => [by, filter, {top, "processes to show (30)"}]
        },
        examples => ["top shop@myhost --by memory"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> [Row || #{key := Key} = Row <- option_rows(), Key =/= node].

%% @private One table.
-spec run(node(), map()) -> {ok, map()} | {error, flame_prof:reason()}.
run(Node, Options) ->
    case lent(Node) of
        {ok, Agent} ->
            try first(Node, Options)
            after
                _ = [flame_prof_attach:close(Agent) || Agent =/= none]
            end;
        {error, _} = Error ->
            Error
    end.

first(Node, #{every := Ms, top := Top} = Options) ->
    View = maps:with([by, filter], Options),
    case start(Node, [self(), View#{every_ms => Ms, rows => Top}]) of
        {ok, Sampler} ->
            Monitor = monitor(process, Sampler),
            Answer = table(Node, Sampler, Monitor, Ms + ?LATE_MS),
            true = demonitor(Monitor, [flush]),
            ok = flame_prof_top_sampler:stop(Sampler),
            sorted(Answer, View, Top);
        {error, _} = Error ->
            Error
    end.

table(Node, Sampler, Monitor, Ms) ->
    receive
        {flame_prof_top_sampler, Sampler, Table} -> {ok, Table};
        {'DOWN', Monitor, process, Sampler, Reason} -> ended(Node, Reason)
    after Ms -> {error, {timeout, #{ms => Ms}}}
    end.

sorted({ok, #{rows := Rows} = Table}, #{by := By, filter := Filter}, Top) ->
    Sorted = flame_prof_top_rows:sorted(By, Rows),
    {ok, Table#{rows := lists:sublist(Sorted, Top), by => By, filter => Filter}};
sorted({error, _} = Error, _View, _Top) ->
    Error.

%% @private
-spec json(#{atom() => term()}) -> #{atom() => term()}.
json(Table) -> Table.

%% @private
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{every := Ms}) -> Ms + ?LATE_MS.

%% @private Prints tables until the message that ends it.
-spec live(options()) -> ok | {error, flame_prof:reason()}.
live(Given) ->
    case flame_prof_schema:checked(option_rows(), Given) of
        {ok, Options} -> live_with_room(flame_prof_shortage:check(portable), Options);
        {error, _} = Error -> Error
    end.

live_with_room(ok, Options) ->
    live_with(gen_server:start(?MODULE, {self(), Options}, []));
live_with_room({error, _} = Shortage, _Options) ->
    Shortage.

%% Without a handler of exceptions: the caller would wait in this code, and end when that is
%% loaded anew twice.
live_with({ok, Top}) -> gen_server:call(Top, run, infinity).

ended(Node, Reason) ->
    node_error(Node, ["the table ended: ", flame_prof_error:exit_text(Reason)]).

%% Options.

option_rows() ->
    [
        #{key => node, type => {own, fun node_name/1, "the name of a node"},
            default => {computed, fun(_) -> node() end, "this node"}},
        #{key => by, alias => sort, type => {one_of, columns()}, default => reductions,
            word => "COLUMN",
            doc => lists:flatten(lists:join(", ", [atom_to_list(By) || By <- columns()]))},
        #{key => filter, type => {own, fun text/1, "a text"}, default => <<>>, word => "TEXT",
            doc => "only processes whose name or function contains this text"},
        #{key => every, type => {whole, ms, 100, ?HOUR_MS}, default => 1000,
            doc => "between two tables"},
        #{key => top, alias => rows, type => {whole, count, 1, 1000},
            default => {computed, fun(_) -> 30 end, "30; of a terminal what finds room"},
            doc => "processes to show"},
        #{key => count, default => infinity, doc => "tables to print, then end",
            type => {either, [{infinity, infinity}], {whole, count, 1, ?COUNT_MOST}}}
    ].

node_name(Node) when is_atom(Node) -> {ok, Node};
node_name(_) -> error.

text(Text) ->
    try unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary) -> {ok, Binary};
        _ -> error
    catch
        error:badarg -> error
    end.

%% The process.

%% @private
-spec init({pid(), map()}) -> {ok, #state{}}.
init({Caller, Options}) ->
    _ = process_flag(trap_exit, true),
    {ok, #state{options = Options, caller_monitor = monitor(process, Caller)}}.

%% @private
-spec handle_call(run, gen_server:from(), #state{}) ->
    {noreply, #state{}} | {stop, normal, #state{}}.
handle_call(run, From, #state{options = #{node := Node}} = State0) ->
    State = State0#state{caller = From},
    case lent(Node) of
        {ok, Agent} -> started(State#state{agent = Agent});
        {error, _} = Error -> finish(Error, State)
    end.

%% As the command line does it: a node without flame_prof gets it meanwhile.
lent(Node) when Node =:= node() ->
    {ok, none};
lent(Node) ->
    case net_kernel:connect_node(Node) of
        true -> lent_if_needed(Node);
        _ -> node_error(Node, "this node cannot connect to it")
    end.

lent_if_needed(Node) ->
    case flame_prof_remote:lacks(Node, flame_prof_top_sampler, ?CALL_MS) of
        {ok, true} -> flame_prof_attach:open(Node, bare, top);
        {ok, false} -> {ok, none};
        {error, _} = Error -> Error
    end.

node_error(Node, Text) ->
    {error, {node, #{node => Node, reason => unicode:characters_to_binary(Text)}}}.

started(#state{options = #{node := Node, every := Every, top := Rows} = Options} = State) ->
    View = maps:with([by, filter], Options),
    Sampling = View#{every_ms => Every, rows => Rows},
    case start(Node, [self(), Sampling]) of
        {ok, Sampler} ->
            _ = monitor(process, Sampler),
            {noreply, State#state{sampler = Sampler, reader = reader()}};
        {error, _} = Error ->
            finish(Error, State)
    end.

start(Node, Args) when Node =:= node() ->
    apply(flame_prof_top_sampler, start, Args);
start(Node, Args) ->
    case flame_prof_remote:call(Node, flame_prof_top_sampler, start, Args, ?CALL_MS) of
        {ok, Started} -> Started;
        {error, _} = Error -> Error
    end.

%% @private
-spec handle_cast({line, pid(), unicode:chardata()}, #state{}) ->
    {noreply, #state{}} | {stop, normal, #state{}}.
handle_cast({line, Reader, Line}, #state{reader = Reader} = State) ->
    case command(Line, State#state.options) of
        stop ->
            finish(ok, State);
        pause ->
            IsPaused = not State#state.is_paused,
            _ = [is_shown("paused; p:go on q:quit\n") || IsPaused],
            {noreply, State#state{reader = reader(), is_paused = IsPaused}};
        Options ->
            ok = flame_prof_top_sampler:set_view(State#state.sampler,
                maps:with([by, filter], Options)),
            {noreply, State#state{reader = reader(), options = Options}}
    end;
handle_cast(_, State) ->
    {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({flame_prof_top_sampler, Sampler, Table}, #state{sampler = Sampler} = State) ->
    ok = flame_prof_top_sampler:taken(Sampler),
    shown(Table, State);
handle_info({'DOWN', Monitor, process, _, _}, #state{caller_monitor = Monitor} = State) ->
    finish(ok, State#state{caller = none});
handle_info({'DOWN', _, process, Sampler, Reason}, #state{sampler = Sampler} = State) ->
    #state{options = #{node := Node}} = State,
    finish(ended(Node, Reason), State);
%% Its code has been loaded anew, twice, while it waited for a line.
handle_info({'EXIT', Reader, killed}, #state{reader = Reader} = State) ->
    {noreply, State#state{reader = reader()}};
handle_info(_, State) ->
    {noreply, State}.

shown(_Table, #state{is_paused = true} = State) ->
    {noreply, State};
shown(Table, #state{options = Options} = State) ->
    case {is_shown(screen(Table, Options)), Options} of
        {false, _} -> finish(ok, State);
        {true, #{count := 1}} -> finish(ok, State);
        {true, #{count := infinity}} -> {noreply, State};
        {true, #{count := Count}} -> {noreply, State#state{options = Options#{count := Count - 1}}}
    end.

%% The terminal may be gone.
is_shown(Text) ->
    try
        ok =:= io:put_chars(Text)
    catch
        error:_ -> false
    end.

finish(Answer, #state{sampler = Sampler, agent = Agent, reader = Reader, caller = From} = State) ->
    _ = [flame_prof_top_sampler:stop(Sampler) || Sampler =/= none],
    %% The line after the last belongs to the shell.
    _ = [exit(Reader, kill) || Reader =/= none],
    _ = [flame_prof_attach:close(Agent) || Agent =/= none],
    _ = [gen_server:reply(From, Answer) || From =/= none],
    {stop, normal, State}.

%% In place on a terminal, one below the other elsewhere.
screen(Table, #{top := Rows} = Options) ->
    case {io:columns(), io:rows()} of
        {{ok, Columns}, {ok, Lines}} ->
            View = (view(Options))#{width := Columns - 1, rows := min(Rows, max(1, Lines - 5))},
            [?HOME, text([Table], View), fit(help(), Columns - 1), "\n"];
        _ ->
            [text([Table], view(Options)), "\n"]
    end.

view(#{top := Rows} = Options) -> (maps:with([by, filter], Options))#{rows => Rows, width => 120}.

%% Keys: a shell hands out lines only. A process waits for one, as waiting cannot be
%% interrupted but by ending.

reader() ->
    case io:columns() of
        {ok, _} -> spawn_link(?MODULE, read_line, [self()]);
        {error, _} -> none
    end.

%% @private
-spec read_line(pid()) -> ok.
read_line(Top) ->
    case io:get_line("") of
        Line when is_list(Line); is_binary(Line) ->
            gen_server:cast(Top, {line, self(), string:trim(Line)});
        _ ->
            ok
    end.

%% @private What a key, or a word in a shell, asks for: the same in both.
-spec command(unicode:chardata(), Options) -> stop | pause | Options when Options :: map().
%% The shell of Elixir, and one of Erlang in binary mode, hand out binaries.
command(Line, Options) when is_binary(Line) ->
    command(unicode:characters_to_list(Line), Options);
command("q", _Options) -> stop;
%% As it was once.
command("x", _Options) -> stop;
command("p", _Options) -> pause;
command("/" ++ Text, Options) -> Options#{filter := unicode:characters_to_binary(Text)};
command(Word, Options) ->
    case [Column || {Key, Column, _} <- sort_keys(), [Key] =:= Word orelse
        atom_to_list(Column) =:= Word] of
        [Column] -> Options#{by := Column};
        [] -> Options
    end.

sort_keys() ->
    [
        {$r, reductions, "red/s"},
        {$m, memory, "memory"},
        {$g, growth, "growth"},
        {$l, queue, "queue"},
        {$s, running, "run%"},
        {$n, name, "name"}
    ].

%% @private The keys, in 76 columns.
-spec help() -> string().
help() ->
    "q:quit p:pause /:filter sort " ++
        lists:join($\s, [[Key, $: | Title] || {Key, _, Title} <- sort_keys()]).

%% The text.

%% @private
%% A table of one node or of several. `text/2' is also the callback of a look: the table alone.
-spec text(map(), pos_integer()) -> unicode:chardata();
    ([flame_prof_top_sampler:table()], view()) -> unicode:chardata().
text(#{by := By, filter := Filter, rows := Rows} = Table, Width) when is_integer(Width) ->
    text([maps:without([by, filter], Table)], #{
        by => By, filter => Filter, rows => max(1, length(Rows)), width => Width});
text(Tables, #{by := By, rows := Rows, width := Width, filter := Filter}) ->
    Several = length(Tables) > 1,
    All = [Row#{node => Node} || #{node := Node, rows := Of} <- Tables, Row <- Of],
    Wanted = [Row || Row <- All, flame_prof_top_ranking:is_wanted(Filter, Row)],
    Sorted = lists:sublist(flame_prof_top_rows:sorted(By, Wanted), Rows),
    [
        [fit(summary(Tables, By, Filter), Width), "\n"],
        [fit(head(Several), Width), "\n"],
        [[fit(row(Row, Several, Width), Width), "\n"] || Row <- Sorted]
    ].

summary(Tables, By, Filter) ->
    Processes = lists:sum([N || #{processes := N} <- Tables]),
    Seconds = lists:max([S || #{seconds := S} <- Tables]),
    [
        lists:join(", ", [io_lib:format("~ts (~ts)", [Node, Engine])
            || #{node := Node, engine := Engine} <- Tables]),
        io_lib:format(": ~ts processes, ~.1f s, by ~ts", [grouped(Processes), Seconds, By]),
        [[", with ", Filter] || Filter =/= <<>>]
    ].

%% Numbers in 44 columns, so that name and function find room in 80.
head(Several) ->
    ["  red/s run% rdy% gc%   queue memory growth ", [string:pad("node", 21) || Several],
        "process / where it was most"].

row(Row, Several, Width) ->
    #{reductions := Rate, running := Run, runnable := Ready, garbage_collecting := Gc} = Row,
    #{queue := Queue, memory := Memory, growth := Growth, node := Node} = Row,
    [
        right(figure(fun count/1, Rate), 7),
        [right(integer_to_list(round(Share)), Columns)
            || {Share, Columns} <- [{Run, 5}, {Ready, 5}, {Gc, 4}]],
        right(figure(fun count/1, Queue), 8),
        right(figure(fun flame_prof_text:bytes/1, Memory), 7),
        right(figure(fun flame_prof_text:bytes/1, Growth), 7),
        " ",
        [[string:pad(fit(atom_to_list(Node), 20), 21)] || Several],
        process(Row, Width - 44 - case Several of true -> 21; false -> 0 end)
    ].

%% A long name leaves half of the room to the function.
process(#{pid := Pid, name := Name, frame := Frame}, Width) ->
    Room = Width - byte_size(Pid) - 3,
    Most = lists:max([14, Room div 2, Room - string:length(Frame)]),
    [Pid, " ", cut(visible(Name), Most), "  ", visible(Frame)].

cut(Text, Most) ->
    case string:length(Text) =< Most of
        true -> Text;
        false -> [string:slice(Text, 0, Most - 1), "~"]
    end.

figure(_, unknown) -> "?";
figure(Text, Figure) -> Text(Figure).

%% In at most seven columns.
count(Number) when Number < 1000000 -> grouped(round(Number));
count(Number) when Number < 1.0e9 -> io_lib:format("~.1fM", [Number / 1.0e6]);
count(Number) -> io_lib:format("~.1fG", [Number / 1.0e9]).
