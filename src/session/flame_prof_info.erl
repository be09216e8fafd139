%% @doc What flame_prof:info/0, i/0 and selected/0 answer, put together from the
%% session, its targets and the triggers; and the same as text, for a shell and for the
%% command line. A process that ends meanwhile is left out.
-module(flame_prof_info).

-export([info/0, selected/0, format/2, allocations/1]).

-import(flame_prof_text, [grouped/1]).

-define(SESSION_MS, 4000).
-define(TARGETS_MS, 1000).

-export_type([run/0, info/0]).

-type run() ::
    #{
        state := stopped,
        files := [file:filename_all()],
        engine := flame_prof_engine:name(),
        engine_reason := binary(),
        options := flame_prof_options:options(),
        started_at := calendar:datetime(),
        elapsed_ms := non_neg_integer(),
        error := binary(),
        attempted := non_neg_integer(),
        written := non_neg_integer(),
        inconsistent := non_neg_integer(),
        dropped := non_neg_integer(),
        exited := non_neg_integer(),
        evicted := non_neg_integer(),
        ticks := non_neg_integer(),
        missed := non_neg_integer(),
        rates := #{atom() => float()},
        atom() => term()
    }.
%% A session that has ended. doc/glossary.md explains the counters.

-type info() ::
    #{
        state := running | stopping | stopped | armed | unresponsive,
        last_run => run(),
        last_error => flame_prof:reason(),
        counters => #{atom() => integer()},
        atom() => term()
    }.
%% While a session runs: what {@link run()} has, with the counters in `counters'; `rates';
%% and `targets', which counts the processes sampled beside the selected ones. `node_memory' is
%% `on', or says which figures of the node's memory are left out, and why. `messages' is `on', or
%% says why samples have no messages in work, and whether the session tries again. Otherwise
%% `#{state => stopped}', with `last_run' when there was one and `last_error' when
%% an autostart or the application's environment was refused since. `armed' is one that waits
%% for its triggers, and has `triggers', each with how often it fired and how often it did not
%% although its condition held. `unresponsive' is one whose process has not answered within 4
%% seconds.

%% @private
-spec info() -> info().
info() ->
    add_tracing(add_triggers(
        case flame_prof_session:info(?SESSION_MS) of
            {ok, Info, Targets} -> add_targets(Info, Targets);
            {error, {timeout, _}} -> #{state => unresponsive};
            {error, _} -> stopped()
        end
    )).

add_tracing(Info) ->
    case flame_prof_tracing:info() of
        None when map_size(None) =:= 0 -> Info;
        Tracing -> Info#{tracing => Tracing}
    end.

add_triggers(#{state := State} = Info) ->
    case {flame_prof_triggers:info(), State} of
        {{ok, Triggers}, stopped} -> maps:merge(Info#{state := armed}, Triggers);
        %% It keeps what comes before the next one.
        {{ok, Triggers}, armed} -> maps:merge(maps:merge(stopped(), Info), Triggers);
        {{ok, Triggers}, _} -> maps:merge(Info, Triggers);
        {{error, _}, _} -> Info
    end.

add_targets(Info, none) ->
    Info;
add_targets(Info, Targets) ->
    try
        Info#{targets => flame_prof_targets:info(Targets, ?TARGETS_MS)}
    catch
        exit:_ -> Info
    end.

stopped() ->
    maps:from_list(
        [{state, stopped}] ++
            [{last_run, Run} || Run <- [flame_prof_history:run()], Run =/= none] ++
            [{last_error, Reason} || {error, Reason} <- [flame_prof_history:error()]]
    ).

%% @private
-spec selected() -> [{pid(), Names :: unicode:chardata()}].
selected() ->
    case flame_prof_session:targets(current) of
        {ok, Targets} -> [{Pid, shown(Pid)} || Pid <- selected(Targets)];
        {error, _} -> []
    end.

selected(Targets) ->
    try
        flame_prof_targets:selected(Targets)
    catch
        exit:_ -> []
    end.

shown(Pid) ->
    flame_prof_text:visible(unicode:characters_to_binary(flame_prof_names:show(Pid))).

%% @private Of a node: eight lines, and one more for each trigger. Of a run that has ended, too.
-spec format(node(), info() | run()) -> unicode:chardata().
format(Node, #{state := stopped, last_run := Run} = Info) ->
    [head(Node, "stopped; the last run was:"), last_error(Info), figures(Run, Run)];
format(Node, #{state := stopped, triggers := _, started_at := _} = Run)
    when not is_map_key(running_stacks, Run) ->
    [head(Node, "stopped; no trigger has fired"), triggers(Run)];
format(Node, #{state := stopped, engine := _} = Run) ->
    [head(Node, "stopped"), figures(Run, Run)];
format(Node, #{state := State, counters := Counters} = Info) ->
    [head(Node, atom_to_list(State)), figures(Info, Counters), triggers(Info)];
format(Node, #{state := State} = Info) ->
    [head(Node, atom_to_list(State)), last_error(Info), triggers(Info)].

head(Node, State) -> io_lib:format("~ts: ~ts~n", [Node, State]).

figures(#{engine_reason := Why, rates := Rates} = Info, Counters) ->
    [
        ["  ", Why, "\n"],
        ticks(Info, Counters),
        selection(Info, Counters),
        samples(Counters),
        io_lib:format("  rates: ~ts samples/s, ~ts bytes of text/s~n", [
            grouped(round(maps:get(Key, Rates))) || Key <- [samples_per_second, bytes_per_second]
        ]),
        cpu(Rates, Counters),
        files(Info, Counters),
        [["  allocations: ", Text, "\n"] || {ok, Text} <- [allocations(Info)]],
        [["  not in the file: ", Off, "\n"] || #{node_memory := {off, Off}} <- [Info]],
        [["  no messages in work: ", Off, "\n"] || {ok, Off} <- [flame_prof_messages:format(Info)]]
    ].

cpu(Rates, Counters) ->
    Parts = [
        [Name, io_lib:format(" ~.2f %", [maps:get(Key, Rates)])]
     || {Name, Key} <- [
            {"sampler", sampler_cpu_percent},
            {"writer", writer_cpu_percent},
            {"signal handler", handler_cpu_percent}
        ]
    ],
    ["  CPU, of one core: ", lists:join(", ", Parts), throttled(Counters), "\n"].

throttled(#{budget_step := 0}) -> [];
throttled(#{budget_step := Level}) -> io_lib:format("; throttle level ~b of 8", [Level]).

ticks(#{elapsed_ms := Ms, rates := #{missed_percent := Percent}}, Counters) ->
    io_lib:format("  ~.1f s, ~ts (~.1f %)~n",
        [Ms / 1000, flame_prof_losses:missed_ticks(Counters), Percent]).

selection(#{running_stacks := Captures}, #{selected := Selected, processes := All} = Counters) ->
    io_lib:format("  ~ts of ~ts processes selected~ts; stacks of running processes: ~ts~n",
        [grouped(Selected), grouped(All), growers(Counters), captures(Captures)]).

%% Not among the counters of a node that runs an earlier version.
growers(#{growers := Growers}) when Growers > 0 ->
    [", ", grouped(Growers), " of them for their growth"];
growers(_) -> [].

captures(on) -> "yes";
captures({off, Why}) -> ["no: ", Why];
captures({lost, Why}) -> ["lost: ", Why].

samples(Counters) ->
    Names = [attempted, written, inconsistent, dropped, exited, evicted],
    Parts = [[grouped(maps:get(Name, Counters)), $\s, atom_to_list(Name)] || Name <- Names],
    ["  samples: ", lists:join(", ", Parts), "\n"].

%% The newest; the directory has the others.
files(#{files := Files, error := Trouble}, #{file_bytes := Bytes}) ->
    Newest = [[lists:last(Files)] || Files =/= []],
    More = [io_lib:format(" and ~b before it", [length(Files) - 1]) || length(Files) > 1],
    [
        io_lib:format("  ~ts bytes in ", [grouped(Bytes)]),
        [["no file"] || Files =:= []], Newest, More, "\n",
        [["  cannot write: ", Trouble, "\n"] || Trouble =/= <<>>]
    ].

%% @private
%% One line on the allocations of a session that was to have them; none of one of an earlier
%% version.
-spec allocations(map()) -> {ok, unicode:chardata()} | none.
allocations(#{allocations := {off, _}, options := #{allocations := off}}) ->
    none;
allocations(#{allocations := {off, Why}}) ->
    {ok, ["none: ", Why]};
allocations(#{allocations := #{words := Words, samples := Samples} = Allocations}) ->
    #{ended := Ended, in_step_words := InStep, lost := #{dropped_words := Dropped}} = Allocations,
    {ok, [
        grouped(Words), " words in ", grouped(Samples), " samples",
        [[", ", grouped(Dropped), " dropped"] || Dropped > 0],
        [[", ", grouped(InStep), " in step with the heap"] || InStep > 0],
        ended(Ended)
    ]};
allocations(_) ->
    none.

ended(Ended) when Ended =:= no; Ended =:= asked -> [];
ended({limit, Limit}) -> ["; ended early: its limit ", atom_to_list(Limit)];
ended({file, Why}) -> ["; ended early: ", Why];
ended({down, _}) -> "; ended early: its process was killed".

last_error(#{last_error := Reason}) -> ["  error: ", flame_prof:format_error(Reason), "\n"];
last_error(_) -> [].

triggers(#{triggers := Triggers}) ->
    [
        io_lib:format("  trigger ~ts: fired ~b times~n", [flame_prof_trigger:name(On), Fired])
     || #{on := On, fired := Fired} <- Triggers
    ];
triggers(_) ->
    [].
