%% @doc The callers of a function, by their share: of an Erlang function, BIF or NIF, of garbage
%% collection, of a C function or library. {@link flame_prof:blame/2} prints them.
%%
%% ```
%% 1> {ok, Report} = flame_prof:look(blame, #{function => "ets:lookup/2"}).
%% 2> [{Caller, Share} || #{name := Caller, share := Share} <- maps:get(callers, Report)].
%% 3> io:put_chars(flame_prof_blame:format(Report)).
%% '''
%%
%% The text of a report:
%%
%% ```
%% 1> flame_prof:blame(gc, 3000).
%% gc was on 46.8 % of the stacks of running processes:
%% 2,234 of 4,772 samples in 3.0 s, one every 1 ms from each of 2 schedulers, 933 could not be used.
%% That is 46.1 % of the schedulers' time, 2.76 s.
%% The callers' shares are good to about 2.1 points.
%%
%% Callers
%%   share  of all    samples  caller < its own caller
%%   62.0%   29.0%     1,386  lists:seq_loop/3:276 < my_cache:count/1:15
%%   35.5%   16.6%       794  my_cache:get/2:12 (in ets:lookup/2) < my_cache:serve/1:9
%%    2.4%    1.1%        54  (not known: the stack was being moved)
%%
%% Processes
%%   share  of all    samples  process
%%   63.8%   29.9%     1,425  my_stats <0.80.0>
%%   36.2%   17.0%       809  my_api <0.79.0>
%% ok
%% '''
%%
%% A session samples every scheduler, at most 1,000 times a second each and 4,000 times a second in
%% total. The report counts the stacks that have the function.
%%
%% == Why it is safe in production ==
%% The session is like any other in mode `schedulers', and runs beside one of
%% {@link flame_prof:start/1}. Its samples go to a directory of mode 0700 below `$TMPDIR' or `/tmp',
%% some 4 MB a second. They are deleted after they were read, or when the calling process ends. A
%% node that is killed leaves them there.
-module(flame_prof_blame).

-behaviour(flame_prof_look).

-export([report/2, format/1]).
-export([about/0, takes/0, run/2, text/2, json/1]).

-import(flame_prof_text, [grouped/1, percent/1, plural/1, fit/2, right/2]).

-export_type([target/0, report/0, row/0, options/0]).

-type options() :: #{
    function => target() | flame_prof_options:left_out(),
    for => pos_integer() | flame_prof_options:left_out(),
    node => node() | flame_prof_options:left_out()
}.
%% `for': milliseconds, 10 to 60000 (5000).

-type target() ::
    gc
    | {module(), Function :: atom(), arity() | '_'}
    | string()
    | binary().
%% `gc', garbage collection; a BIF, NIF or Erlang function, of one arity or any; or
%% a name as it stands in a frame: a C function (`"copy_struct"'), a library and
%% all that is called in it (`"libc.so.6"'), what has no symbol in it
%% (`"[beam.smp]"'), `"ets:lookup/2"', `"Enum.map/2"', a source file.

-type row() ::
    #{
        name := binary(),
        samples := pos_integer(),
        share := float(),
        share_of_running := float(),
        %% Of a caller: the BIF or NIF that it called, and its own callers.
        through => none | binary(),
        callers => [{binary(), pos_integer()}]
    }.
%% `share' is that of the matching samples, `share_of_running' that of all samples
%% of running processes, both in percent.

-type report() ::
    #{
        target := binary(),
        elapsed_ms := pos_integer(),
        interval_ms := pos_integer(),
        schedulers := pos_integer(),
        samples := non_neg_integer(),
        idle := non_neg_integer(),
        running := non_neg_integer(),
        matched := non_neg_integer(),
        inconsistent := non_neg_integer(),
        share_of_running := float(),
        share_of_time := float(),
        error_points := float(),
        callers := [row()],
        processes := [row()],
        alike := [{binary(), pos_integer()}]
    }.
%% `samples' of all schedulers, of these the `idle', the `running' and, among them,
%% those that `matched'; `inconsistent' could not be used and are not among them. The most
%% frequent are first. `alike' has names that were seen, if nothing matched.
%% `error_points': by how many points of percent the shares among the matching may
%% be wrong, in 95 of 100 cases, were the samples independent.

-define(MS_LEAST, 10).
-define(MS_MOST, 60000).
%% To write the last samples and to send them.
-define(MORE_MS, 40000).
%% Of the profile, whose samples are at most 240,000 of some 30 bytes, and their stacks.
-define(MEMORY_MOST, 268435456).
%% With fewer, shares are off by more than 10 points.
-define(ENOUGH, 100).
-define(ROWS, 15).
-define(ALIKE, 8).
-define(COLUMNS, 100).

-type wanted() :: gc | {mfa, binary()} | {any_arity, binary()} | {name, binary()}.
%% The target to search in a stack.

-type frame() :: flame_prof_samples:frame().

-type kind() :: idle | other | {matched, blamed()}.
%% A stack, taken apart once however many processes have it.

-type blamed() ::
    {Caller :: binary(), Through :: none | binary(), ItsCaller :: none | binary()}.
%% `through': the BIF or NIF that the caller called.

-type found() :: {kind(), Pid :: binary(), [frame()], Samples :: pos_integer()}.
%% The result: the samples of a stack in a process.

%% @private Measures for so many milliseconds, 10 to 60000, and answers.
-spec report(target(), pos_integer()) -> {ok, report()} | {error, flame_prof:reason()}.
report(Target, Ms) ->
    case {wanted(Target), is_integer(Ms) andalso Ms >= ?MS_LEAST andalso Ms =< ?MS_MOST} of
        {{ok, Wanted}, true} ->
            flame_prof_blame_session:with(Ms, fun(Files, About) -> read(Files, Wanted, About) end);
        {error, _} -> {error, refused(function, Target)};
        {_, false} -> {error, refused(ms, Ms)}
    end.

refused(Argument, Value) ->
    {badarg, #{argument => Argument, value => Value, accepted => accepts(Argument)}}.

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => blame,
        group => cpu,
        asks => "the callers of a function, here of the collector",
        sentence => "The callers of a function, by share, and the processes that ran it: of an "
            "Erlang function, a BIF, a NIF, a C function, a library, or of garbage collection.",
        cost => "Costs a sample of each scheduler 1,000 times a second, 4,000 a second in all, "
            "and 4 MB a second in a temporary folder.",
        shows => "No terms.",
        argument => {function, required, "flame_prof_blame:target()", "FUNCTION"},
        runs => here,
        lends => [flame_prof_blame_session],
        library => needed,
        examples => ["blame shop@myhost gc", "blame shop@myhost ets:lookup/2 --for 3s"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() ->
    [
        #{key => function, word => "FUNCTION", type => {own, fun function/1, accepts(function)},
            doc => "gc, a function as ets:lookup/2, or the name of a C function or a library"},
        #{key => for, type => {whole, ms, ?MS_LEAST, ?MS_MOST}, default => 5000,
            doc => "how long it samples"}
    ].

%% The command line has texts only.
function(<<"gc">>) -> {ok, gc};
function(Function) ->
    case wanted(Function) of
        {ok, _} -> {ok, Function};
        error -> error
    end.

%% @private
-spec run(node(), map()) -> {ok, report()} | {error, flame_prof:reason()}.
run(Node, #{function := Function, for := Ms}) when Node =:= node() ->
    report(Function, Ms);
run(Node, #{function := Function, for := Ms}) ->
    {ok, Wanted} = wanted(Function),
    flame_prof_lending:with(Node, flame_prof_look:lent(?MODULE), fun() ->
        case flame_prof_remote:call(Node, flame_prof_blame_session, record, [Ms], Ms + ?MORE_MS) of
            {ok, {ok, {Files, About}}} ->
                With = fun(Paths) -> read(Paths, Wanted, About) end,
                flame_prof_temporary:with_files(Files, With);
            {ok, {error, _} = Error} -> Error;
            {error, _} = Error -> Error
        end
    end).

%% @private
-spec text(report(), pos_integer()) -> unicode:chardata().
text(Report, _Columns) -> format(Report).

%% @private
-spec json(report()) -> #{atom() => term()}.
json(#{callers := Callers, alike := Alike} = Report) ->
    Report#{
        callers := [Row#{callers := counts(Next)} || #{callers := Next} = Row <- Callers],
        alike := counts(Alike)
    }.

counts(Counts) -> [#{name => Name, samples => Samples} || {Name, Samples} <- Counts].

accepts(function) ->
    <<"gc, {Module, Function, Arity} or {Module, Function, '_'}, an external fun, or the name of "
        "a function, a C function or a library as a string or binary">>;
accepts(ms) ->
    <<"whole milliseconds from 10 to 60000">>.

wanted(gc) ->
    {ok, gc};
wanted({Module, Function, '_'}) when is_atom(Module), is_atom(Function) ->
    {ok, {any_arity, mfa(Module, Function, "")}};
wanted({Module, Function, Arity}) when
    is_atom(Module), is_atom(Function), is_integer(Arity), Arity >= 0, Arity =< 255
->
    {ok, {mfa, mfa(Module, Function, integer_to_list(Arity))}};
wanted(Fun) when is_function(Fun) ->
    case flame_prof_mfa:parse(Fun) of
        {ok, Function} -> wanted(Function);
        {error, _} -> error
    end;
wanted(Name) when is_binary(Name); is_list(Name) ->
    try unicode:characters_to_binary(Name) of
        <<$&, Text/binary>> when Text =/= <<>> -> {ok, {name, Text}};
        Text when is_binary(Text), Text =/= <<>> -> {ok, {name, Text}};
        _ -> error
    catch
        error:_ -> error
    end;
wanted(_) ->
    error.

mfa(Module, Function, Arity) ->
    unicode:characters_to_binary([atom_to_list(Module), ":", atom_to_list(Function), "/", Arity]).

%% Reading.

read(Files, Wanted, About) ->
    case flame_prof_profile:read(Files, #{max_memory => ?MEMORY_MOST}) of
        {ok, Profile} ->
            Stacks = flame_prof_profile:stacks(Profile, #{group_by => [pid]}),
            Report = report_of(Stacks, Profile, Wanted, About),
            ok = flame_prof_profile:close(Profile),
            Report;
        {error, _} = Error ->
            Error
    end.

-spec found([flame_prof_profile:stack()], wanted()) -> [found()].
found(Stacks, Wanted) ->
    Program = [Stack || {_, Frames, _, _} = Stack <- Stacks, not flame_prof_own:is_in(Frames)],
    Kinds = lists:foldl(
        fun
            ({_, Frames, _, _}, Known) when is_map_key(Frames, Known) -> Known;
            ({_, Frames, _, _}, Known) -> Known#{Frames => kind(Frames, Wanted)}
        end,
        #{},
        Program
    ),
    [{maps:get(Frames, Kinds), Pid, Frames, Samples} || {[Pid], Frames, _, Samples} <- Program].

%% The place of the function in a stack, and its callers.

-spec kind([frame()], wanted()) -> kind().
kind([{<<"[idle]">>, <<"flame_prof">>} | _], _Wanted) ->
    idle;
kind(Frames, Wanted) ->
    case behind(Frames, Wanted, none) of
        none -> other;
        Callers -> {matched, blamed(Callers, none)}
    end.

%% The callers of the outermost frame that matches, which is above all others that do.
behind([], _Wanted, Found) ->
    Found;
behind([Frame | Frames], Wanted, Found) ->
    case is_wanted(Frame, Wanted) of
        true -> behind(Frames, Wanted, Frames);
        false -> behind(Frames, Wanted, Found)
    end.

is_wanted({Symbol, Dso}, gc) ->
    Symbol =:= <<"[gc]">> andalso Dso =:= <<"flame_prof">>;
is_wanted(Frame, {mfa, Text}) ->
    flame_prof_frames:kind(Frame) =/= native andalso flame_prof_frames:function(Frame) =:= Text;
is_wanted(Frame, {any_arity, Text}) ->
    Size = byte_size(Text),
    case flame_prof_frames:kind(Frame) =/= native andalso flame_prof_frames:function(Frame) of
        <<Text:Size/binary, Arity/binary>> -> binary:match(Arity, <<"/">>) =:= nomatch;
        _ -> false
    end;
is_wanted({_Symbol, Dso} = Frame, {name, Text}) ->
    Function = flame_prof_frames:function(Frame),
    Function =:= Text orelse shown(Function) =:= Text orelse
        flame_prof_frames:decode(Dso) =:= Text.

blamed([], Through) ->
    {<<"(none: it is where its process starts)">>, Through, none};
blamed([{<<"ambiguous">>, <<"flame_prof">>} | Frames], Through) ->
    %% While the collector exchanges the heaps no stack is found: what follows are
    %% the initial calls, which everything in the process would be put down to.
    case lists:any(fun has_line/1, Frames) of
        true -> blamed(Frames, Through);
        false -> {<<"(not known: the stack was being moved)">>, Through, none}
    end;
blamed([Frame | Frames], Through) ->
    case {flame_prof_frames:kind(Frame), Through} of
        {erlang, _} -> {line(Frame), Through, caller_of(Frames)};
        {called, none} -> blamed(Frames, flame_prof_frames:function(Frame));
        _ -> blamed(Frames, Through)
    end.

has_line({Symbol, _Dso}) ->
    re:run(Symbol, "/[0-9]+:[0-9]+$", [{capture, none}]) =:= match.

caller_of(Frames) ->
    case [Frame || Frame <- Frames, flame_prof_frames:kind(Frame) =:= erlang] of
        [Caller | _] -> line(Caller);
        [] -> none
    end.

line({Symbol, _Dso}) -> flame_prof_frames:decode(Symbol).

%% The report.

report_of({error, _} = Error, _Profile, _Wanted, _About) ->
    Error;
report_of({ok, Sampled}, Profile, Wanted, #{inconsistent := Unused} = About) ->
    #{samples := Sum, stacks := Stacks} = Sampled,
    Found = found(Stacks, Wanted),
    All = Sum - lists:sum([Count || {_, Frames, _, Count} <- Stacks, flame_prof_own:is_in(Frames)]),
    Idle = lists:sum([Count || {idle, _, _, Count} <- Found]),
    Blamed = [{Blame, Count} || {{matched, Blame}, _, _, Count} <- Found],
    Matched = lists:sum([Count || {_, Count} <- Blamed]),
    Running = All - Idle,
    {ok, About#{
        target => text(Wanted),
        schedulers => erlang:system_info(schedulers_online),
        samples => All,
        idle => Idle,
        running => Running,
        matched => Matched,
        share_of_running => share(Matched, Running),
        %% Inconsistent samples are of what was running, whatever that was.
        share_of_time => share(Matched, Running) * (Running + Unused) / max(1, All + Unused),
        error_points => error_points(Matched),
        callers => callers(Blamed, Matched, Running),
        processes => processes(named(Found, Profile), Matched, Running),
        alike => alike(Wanted, Matched, Found)
    }}.

text(gc) -> <<"gc">>;
text({any_arity, Text}) -> <<Text/binary, "_">>;
text({_, Text}) -> Text.

share(_, 0) -> 0.0;
share(Part, All) -> 100 * Part / All.

%% The widest there is, at a share of one half: 1.96 * sqrt(0.5 * 0.5 / N).
error_points(0) -> 100.0;
error_points(Matched) -> min(100.0, 98 / math:sqrt(Matched)).

callers(Blamed, Matched, Running) ->
    Grouped = summed([
        {{Caller, Through}, {[{ItsCaller, N}], N}}
     || {{Caller, Through, ItsCaller}, N} <- Blamed
    ]),
    [
        (row(Caller, Count, Matched, Running))#{
            through => Through, callers => ranked(summed([{C, N} || {C, N} <- Next, C =/= none]))
        }
     || {{Caller, Through}, {Next, Count}} <- lists:sort(fun is_more/2, maps:to_list(Grouped))
    ].

%% A pid occurs once in a minute of one node.
named(Found, Profile) ->
    Counts = summed([{Pid, Count} || {{matched, _}, Pid, _, Count} <- Found]),
    [{flame_prof_frames:process(Process), maps:get(Pid, Counts)}
        || #{erl_pid := Pid} = Process <- flame_prof_profile:processes(Profile),
           is_map_key(Pid, Counts)].

processes(Processes, Matched, Running) ->
    [row(Name, Count, Matched, Running) || {Name, Count} <- ranked(summed(Processes))].

row(Name, Count, Matched, Running) ->
    #{
        name => Name,
        samples => Count,
        share => share(Count, Matched),
        share_of_running => share(Count, Running)
    }.

summed(Pairs) ->
    Add = fun({Key, Value}, Map) ->
        maps:update_with(Key, fun(Before) -> plus(Before, Value) end, Value, Map)
    end,
    lists:foldl(Add, #{}, Pairs).

plus({Ones, A}, {Others, B}) -> {Ones ++ Others, A + B};
plus(A, B) -> A + B.

%% The name decides last, so that a report never depends on a map's order.
is_more({KeyA, {_, A}}, {KeyB, {_, B}}) -> {-A, KeyA} =< {-B, KeyB}.

ranked(Counts) ->
    lists:sort(fun({KeyA, A}, {KeyB, B}) -> {-A, KeyA} =< {-B, KeyB} end, maps:to_list(Counts)).

%% Similar names, for a name that is misspelt or that another C library has.

alike(_Wanted, Matched, _Found) when Matched > 0 ->
    [];
alike(Wanted, 0, Found) ->
    Asked = pairs(text(Wanted)),
    Names = summed([
        {Name, Count}
     || {other, _, Frames, Count} <- Found, Name <- names(Frames)
    ]),
    Close = maps:filter(fun(Name, _) -> likeness(Asked, pairs(Name)) >= 0.4 end, Names),
    lists:sublist(ranked(Close), ?ALIKE).

names(Frames) ->
    Functions = [Frame || Frame <- Frames, flame_prof_frames:kind(Frame) =/= pseudo],
    Libraries = [Dso || {_, Dso} = Frame <- Functions, flame_prof_frames:kind(Frame) =:= native],
    lists:usort(
        [flame_prof_frames:function(Frame) || Frame <- Functions] ++
            [flame_prof_frames:decode(Dso) || Dso <- Libraries]
    ).

%% Dice's coefficient of the pairs of neighbouring letters.
likeness(Ones, Others) ->
    Common = length(Ones) - length(Ones -- Others),
    2 * Common / max(1, length(Ones) + length(Others)).

pairs(Name) ->
    Letters = string:lowercase(binary_to_list(Name)),
    lists:zip(lists:droplast([none | Letters]), Letters).

%% Text.

%% @doc A report as text, in at most 100 columns.
-spec format(report()) -> unicode:chardata().
format(#{matched := 0} = Report) ->
    #{target := Target, running := Running, alike := Alike} = Report,
    [
        io_lib:format("~ts was on none of the stacks of running processes~n", [Target]),
        [grouped(Running), " samples", measured(Report), ".\n"],
        alike_table(Alike)
    ];
format(Report) ->
    #{target := Target, matched := Matched, running := Running} = Report,
    #{share_of_running := OfRunning, callers := Callers, processes := Processes} = Report,
    [
        [Target, io_lib:format(" was on ~.1f % of the stacks of running processes:~n",
            [OfRunning])],
        [grouped(Matched), " of ", grouped(Running), " samples", measured(Report), ".\n"],
        time(Report),
        confidence(Report),
        table("Callers", "caller < its own caller", [{R, caller(R)} || R <- Callers]),
        table("Processes", "process", [{R, shown(maps:get(name, R))} || R <- Processes])
    ].

measured(#{elapsed_ms := Ms, interval_ms := Interval, schedulers := Schedulers} = Report) ->
    #{inconsistent := Unused} = Report,
    [
        io_lib:format(" in ~.1f s, one every ~b ms from each of ", [Ms / 1000, Interval]),
        io_lib:format("~b scheduler~ts", [Schedulers, plural(Schedulers)]),
        [[", ", grouped(Unused), " could not be used"] || Unused > 0]
    ].

time(#{share_of_time := Share, schedulers := Schedulers, elapsed_ms := Ms}) ->
    Format = "That is ~.1f % of the schedulers' time, ~.2f s.~n",
    io_lib:format(Format, [Share, Share / 100 * Schedulers * Ms / 1000]).

confidence(#{matched := Matched, elapsed_ms := Ms}) when Matched < ?ENOUGH ->
    Longer = min(?MS_MOST, 1000 * (Ms * 4 * ?ENOUGH div Matched div 1000 + 1)),
    [
        io_lib:format("Too few samples for more than a hint: take ~b ms", [Longer]),
        " or more, while it happens.\n"
    ];
confidence(#{error_points := Points}) ->
    io_lib:format("The callers' shares are good to about ~.1f points.~n", [Points]).

%% A caller, the BIF or NIF through which it called, and its own callers.
caller(#{name := Name, through := Through, callers := Callers}) ->
    [shown(Name), [[" (in ", shown(Through), ")"] || Through =/= none], next(Callers)].

next([]) -> "";
next([{Caller, _}]) -> [" < ", shown(Caller)];
next([{Caller, _} | More]) -> [" < ", shown(Caller), ", ", integer_to_list(length(More)), " more"].

%% Names of Elixir, as Elixir writes them. In the report it is as it stands in the file.
shown(Name) -> flame_prof_names:function(Name).

table(Title, What, Rows) ->
    [
        ["\n", Title, "\n  share  of all", right("samples", 11), "  ", What, "\n"],
        [
            [numbers(Row), fit(Name, ?COLUMNS - 27), "\n"]
         || {Row, Name} <- lists:sublist(Rows, ?ROWS)
        ],
        [
            [right("", 27), grouped(length(Rows) - ?ROWS), " more\n"]
         || length(Rows) > ?ROWS
        ]
    ].

numbers(#{share := Share, share_of_running := OfRunning, samples := Samples}) ->
    [percent(Share), " ", percent(OfRunning), right(grouped(Samples), 10), "  "].

alike_table([]) ->
    "No similar name was seen either.\n";
alike_table(Alike) ->
    [
        "\nNames that look alike\n    samples\n",
        [
            [right(grouped(Count), 11), "  ", fit(shown(Name), ?COLUMNS - 13), "\n"]
         || {Name, Count} <- Alike
        ]
    ].
