%% @doc Calls that lasted for several ticks, from the samples of their callers and callees.
%% {@link flame_prof:slow_calls/1} prints them.
%%
%% ```
%% 1> {ok, _} = flame_prof:start(#{dir => "/tmp/prof"}).
%% 2> {ok, #{files := Files}} = flame_prof:stop().
%% 3> {ok, [#{ms := Ms, caller := Caller, request := Request} | _]} =
%%        flame_prof_slow_calls:look(Files, #{}).
%% '''
%%
%% A process that waits for the answer to a call has the call's reference, and the server that has
%% the call in work has it, too. A reference is unique in the life of a node: the same reference in
%% two samples is the same call. Its numbers are a thread and 64 bits that the thread counts up from
%% the time of the node's start, which do not wrap; two OS processes are never mixed.
%%
%% == What is found ==
%% <ul>
%% <li>Calls of sampled processes that were seen at `ticks' ticks or more, with all that lasted
%%     longer than that. Either side suffices: of a caller without samples the callee's tell how
%%     long the call was in work, and `of_callee' is true.</li>
%% <li>`ms' is good to a tick: a call began between the last sample without it and the first one
%%     with it, and ended between two samples likewise. `least_ms' and `most_ms' are these bounds.
%%     Where the samples do not show begin and end, `open' is true, `ms' is the least, and
%%     `most_ms' is missing.</li>
%% <li>Calls that are shorter, and those of processes that were not selected, are not found.</li>
%% </ul>
%%
%% Files without the words of samples (doc/format.md, format 2 and before; sessions with
%% `messages => false'; the portable engine) have no calls.
-module(flame_prof_slow_calls).

-behaviour(flame_prof_look).

-export([look/2, found/2, format/2, json/1]).
-export([about/0, takes/0, run/2, text/2]).

-export_type([options/0, call/0, party/0, found/0]).

-import(flame_prof_text, [grouped/1, plural/1, fit/2, right/2, visible/1]).

-type options() ::
    #{
        files => flame_prof_samples:files() | flame_prof_options:left_out(),
        ticks => pos_integer() | flame_prof_options:left_out(),
        top => pos_integer() | all | flame_prof_options:left_out(),
        max_memory => pos_integer() | flame_prof_options:left_out(),
        progress => fun() | flame_prof_options:left_out()
    }.
%% An option that is left out, `undefined' or `nil' has its default, in brackets.
%%
%% <ul>
%% <li>`ticks': at how many ticks a call was seen at least (3)</li>
%% <li>`top': the longest ones only (all; 20 where they are printed)</li>
%% <li>`files': {@link flame_prof} takes them</li>
%% <li>`max_memory', `progress': {@link flame_prof_profile:options()}</li>
%% </ul>

-type party() :: #{pid := binary(), name := binary()} | none.
%% `name' has the pid and the registered name, label or initial call. `none': it has no samples and
%% no sample names it.

-type call() ::
    #{
        caller := party(),
        callee := party(),
        request := binary(),
        reference := binary(),
        ms := float(),
        least_ms := float(),
        most_ms => float(),
        open := boolean(),
        of_callee := boolean(),
        at_us := integer(),
        ticks := pos_integer(),
        served_ticks := non_neg_integer(),
        caller_stack := [flame_prof_samples:frame()],
        callee_stack := [flame_prof_samples:frame()]
    }.
%% `request' is the tag, such as `{get,_}', and empty where it is not known. `at_us' is the time of
%% the first sample with the call. `ticks' are the samples with it, and `served_ticks' those of them
%% at which the callee had it in work; else the call was in the callee's mailbox, or the callee had
%% put it aside, as one that answers later does. `callee_stack' is
%% the stack that the callee had most often while it served the call, or, if it was never seen to,
%% while the caller waited: what it did instead. Empty: no sample has it. Leaf first.

-type found() :: #{count := non_neg_integer(), tick_ms := float(), words := non_neg_integer(),
    calls := [call()]}.

-define(COUNT_MOST, (1 bsl 60)).
%% Beyond this many ticks a gap between samples says nothing of a call's begin.
-define(GAP_TICKS, 4).
-define(FRAMES, 4).

%% @private The calls, the longest first.
-spec look(flame_prof_samples:files() | flame_prof_profile:profile(), options()) ->
    {ok, [call()]} | {error, flame_prof:reason()}.
look(Files, Given) ->
    case found(Files, Given) of
        {ok, #{calls := Calls}} -> {ok, Calls};
        {error, _} = Error -> Error
    end.

%% @private With how many there are, and how long a tick was.
-spec found(flame_prof_samples:files() | flame_prof_profile:profile(), options()) ->
    {ok, found()} | {error, flame_prof:reason()}.
found(Files, Given) ->
    case {flame_prof_schema:checked(rows(), Given), flame_prof_profile:is_profile(Files)} of
        {{ok, Options}, true} -> of_profile(Files, Options);
        {{ok, Options}, false} ->
            Limits = maps:with([max_memory, progress], Options),
            flame_prof_file_losses:read(Files, Limits, fun(P) -> of_profile(P, Options) end);
        {{error, _} = Error, _} -> Error
    end.

of_profile(Profile, #{ticks := Ticks, top := Top}) ->
    case {flame_prof_profile:calls(Profile, Ticks, Top), flame_prof_profile:info(Profile)} of
        {{ok, {Count, TickUs, Calls}}, #{calls := Words}} ->
            {ok, #{count => Count, tick_ms => TickUs / 1000, words => Words,
                calls => [call(Call, TickUs) || Call <- Calls]}};
        {{error, _} = Error, _} ->
            Error;
        {_, {error, _} = Error} ->
            Error
    end.

call(#{reference := {Thread, Low, High}, first_us := First, last_us := Last} = Call, TickUs) ->
    Before = gap(First, maps:get(before_us, Call), TickUs),
    After = gap(maps:get(after_us, Call), Last, TickUs),
    Least = Last - First,
    #{caller := Caller, callee := Callee, waits_for := WaitsFor} = Call,
    maps:merge(
        #{
            caller => party(Caller, <<>>),
            callee => party(Callee, WaitsFor),
            request => request(Call),
            reference => formatted("#Ref<0.~b.~b.~b>", [High, Low, Thread]),
            of_callee => maps:get(of_callee, Call),
            at_us => First,
            ticks => maps:get(ticks, Call),
            served_ticks => maps:get(served, Call),
            caller_stack => stack(maps:get(caller_stack, Call)),
            callee_stack => stack(maps:get(callee_stack, Call))
        },
        lasted(Least, Before, After)
    ).

%% Of a sample without the call to the next one with it, or the other way round.
gap(none, _, _TickUs) -> unknown;
gap(_, none, _TickUs) -> unknown;
gap(Later, Earlier, TickUs) when Later - Earlier > ?GAP_TICKS * TickUs -> unknown;
gap(Later, Earlier, _TickUs) -> Later - Earlier.

lasted(Least, Before, After) when is_integer(Before), is_integer(After) ->
    #{open => false, ms => (Least + (Before + After) / 2) / 1000, least_ms => Least / 1000,
        most_ms => (Least + Before + After) / 1000};
lasted(Least, _, _) ->
    #{open => true, ms => Least / 1000, least_ms => Least / 1000}.

party(none, <<>>) -> none;
party(none, Pid) -> #{pid => Pid, name => visible(flame_prof_frames:decode(Pid))};
party(#{erl_pid := Pid} = Process, _) ->
    #{pid => Pid, name => visible(flame_prof_frames:process(Process))}.

request(#{request := <<_, _/binary>> = Tag}) -> shown(Tag);
request(#{message := Message}) ->
    [Tag | _] = lists:reverse(binary:split(Message, <<":">>)),
    shown(Tag).

shown(Tag) -> visible(flame_prof_frames:decode(Tag)).

stack(none) -> [];
stack(Frames) -> Frames.

formatted(Format, Arguments) -> iolist_to_binary(io_lib:format(Format, Arguments)).

%% @doc As text of at most so many columns.
-spec format(found(), pos_integer()) -> unicode:chardata().
format(#{words := 0}, Columns) ->
    lines(["No sample shows a process that waits in a call.",
        "No sampled process waited in a call, or the session had messages => false or the "
        "portable engine."],
        Columns);
format(#{count := 0, tick_ms := Tick}, Columns) ->
    lines([io_lib:format("No call was seen at enough ticks; a tick is ~.1f ms.", [Tick])], Columns);
format(#{count := Count, tick_ms := Tick, calls := Calls}, Columns) ->
    [
        lines([io_lib:format("~ts call~ts, good to a tick of ~.1f ms; the longest first",
            [grouped(Count), plural(Count), Tick])], Columns),
        [["\n", lines(told(Call), Columns)] || Call <- Calls],
        [["\n", grouped(Count - length(Calls)), " more\n"] || Count > length(Calls)]
    ].

lines(Lines, Columns) -> [[fit(Line, Columns), "\n"] || Line <- Lines].

told(#{caller := Caller, callee := Callee, request := Request} = Call) ->
    #{caller_stack := CallerStack, callee_stack := CalleeStack} = Call,
    [
        [right(duration(Call), 12), "  ", name(Caller), " > ", name(Callee), "  ",
            request_text(Request)],
        ["              ", work(Call)]
    ] ++
        stack_lines("caller: ", CallerStack) ++ stack_lines("callee: ", CalleeStack).

duration(#{open := true, ms := Ms}) -> io_lib:format("> ~.1f ms", [Ms]);
duration(#{ms := Ms}) -> io_lib:format("~.1f ms", [Ms]).

name(none) -> "(not sampled)";
name(#{name := Name}) -> Name.

request_text(<<>>) -> "(unknown request)";
request_text(Request) -> Request.

work(#{callee_stack := [], served_ticks := 0}) -> "the callee was not sampled during the call";
work(#{served_ticks := 0, ticks := Ticks}) ->
    ["not in work at any of ", grouped(Ticks), " ticks: in the mailbox, or put aside; the callee was in:"];
work(#{served_ticks := Served, ticks := Ticks}) ->
    ["in work at ", grouped(Served), " of ", grouped(Ticks), " ticks"].

stack_lines(_What, []) ->
    [];
stack_lines(What, Frames) ->
    Names = [flame_prof_names:function(visible(flame_prof_frames:function(Frame)))
        || Frame <- lists:sublist(Frames, ?FRAMES)],
    [["              ", What, lists:join(" < ", Names), [" < ..." || length(Frames) > ?FRAMES]]].

%% @private With stacks as lists of functions, for JSON.
-spec json(found()) -> #{atom() => term()}.
json(#{calls := Calls} = Found) ->
    Names = fun(Frames) -> [flame_prof_frames:decode(Symbol) || {Symbol, _} <- Frames] end,
    Found#{calls := [Call#{caller_stack := Names(Caller), callee_stack := Names(Callee)}
        || #{caller_stack := Caller, callee_stack := Callee} = Call <- Calls]}.

%% Options.

rows() -> rows(all).

rows(Top) ->
    [
        #{key => ticks, type => {whole, count, 1, 1000000}, default => 3,
            doc => "least number of ticks at which a call was seen"},
        #{key => top, default => Top,
            type => {either, [{all, all}], {whole, count, 1, ?COUNT_MOST}},
            doc => "calls to list"}
        | flame_prof_profile:read_rows()
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => slow_calls,
        group => waiting,
        asks => "the longest calls between processes, in files",
        sentence => "The longest calls between processes, in files of a session: how long, caller, "
            "callee, request and both stacks.",
        cost => "Takes memory of the node in which the files are read: at most max_memory.",
        shows => "The tag atom of each request; no contents.",
        argument => {files, required, "flame_prof_samples:files()", "FILE..."},
        runs => files,
        examples => ["slow-calls /tmp/prof/*.erl_perf.log.zst --top 5"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> [flame_prof_profile:files_row() | rows(20)].

%% @private
-spec run(node(), map()) -> {ok, found()} | {error, flame_prof:reason()}.
run(_Node, #{files := Files} = Options) -> found(Files, maps:remove(files, Options)).

%% @private
-spec text(found(), pos_integer()) -> unicode:chardata().
text(Found, Columns) -> format(Found, Columns).
