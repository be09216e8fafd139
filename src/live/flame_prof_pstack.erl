%% @doc What runs right now, or what some processes are doing: their stacks, as
%% terms and as text. {@link flame_prof:pstack/0} prints it.
%%
%% ```
%% 1> flame_prof:pstack().
%% 1 of 2 schedulers runs a process, 1 more on dirty schedulers
%%
%% Scheduler 1: <0.79.0> my_api erlang:apply/2
%%     running, 0 messages, 2,120,381 reductions, 224 KB
%%   copy_shallow_x (beam.smp)
%%   [beam.smp] x 2
%%   db_get_hash (beam.smp)
%%   ets_lookup_2 (beam.smp)
%%   ets:lookup/2 (bif)
%%   my_cache:get/2 (my_cache.erl:12)
%%   my_cache:serve/1 (my_cache.erl:9)
%% ...
%% '''
%%
%% The same as terms:
%%
%% ```
%% 1> {ok, Look} = flame_prof:look(pstack, #{}).
%% 2> [Stack || {{scheduler, _}, #{stack := Stack}} <- Look].
%% 3> {ok, Gone} = flame_prof:look(pstack, #{process => [my_server, self()]}).
%% 4> io:put_chars(flame_prof_pstack:format(Look)).
%% '''
%%
%% The one thing that is asked of a process is its label (OTP 27's
%% `proc_lib:set_label/1'), where it has no registered name: it has a tenth of a
%% second to answer, or is told without. A thousand are asked at most.
%%
%% == Why it is safe in production ==
%% Otherwise the processes are not asked and do not notice: their memory is read, and the
%% schedulers' threads are interrupted for some 6 microseconds each. So it
%% answers where `process_info/2' would wait: for a process in a long NIF or BIF,
%% or in a dirty NIF. All of it is done on a dirty scheduler. A look takes some 5
%% ms before it begins (the libraries' symbols are read anew each time), and 0.2 to
%% 0.5 microseconds for each process of the node where those on dirty schedulers
%% are looked for. The first call in a node calibrates the native engine and lets the
%% schedulers register, which takes up to a second: so does each later one while a
%% scheduler has been too busy for that.
%%
%% Nothing is done where the native engine is refused: whatever else could be
%% asked would wait for the process, which is what this is there to avoid.
-module(flame_prof_pstack).

-behaviour(flame_prof_look).

-export([schedulers/0, processes/1, format/1, json/1, lines/1]).
-export([about/0, takes/0, run/2, text/2]).

-import(flame_prof_text, [grouped/1, plural/1, printable/1]).

%% The item of `process_info/2' that has the label of a process.
-define(LABEL_MS, 100).

-export_type([look/0, place/0, process/0, frame/0, figure/0, options/0, processes/0]).

-type processes() :: flame_prof_target:target() | [flame_prof_target:target()].

-type options() :: #{
    node => node() | flame_prof_options:left_out(),
    process => processes() | flame_prof_options:left_out()
}.
%% `process': whose stacks; without it what each scheduler runs. `node': of which node (this one).

-type look() :: [{place(), process() | nothing()}].
%% In the order of their schedulers, or that which was asked for.

-type place() ::
    {scheduler, pos_integer()}
    | dirty
    | {process, flame_prof_target:parsed()}.
%% `dirty': on a dirty scheduler; which one is not known.

-type nothing() :: idle | own | offline | late | unregistered | gone.
%% Of a scheduler: it runs no process; it runs flame_prof; it is offline; it has not answered within
%% a fifth of a second; it has not been able to register yet, or must not.
%% Of a process: there is none.

-type process() ::
    #{
        pid := pid(),
        status := flame_prof:status(),
        scheduler := pos_integer() | none,
        stack := [frame()],
        registered_name => atom(),
        label => term(),
        initial_call => mfa(),
        proc_lib_initial_call => mfa(),
        reductions := figure(),
        message_queue_len := figure(),
        memory := figure(),
        atom() => figure()
    }.
%% `scheduler': the normal one that ran it. Names and calls are left out where
%% there are none; figures are those of doc/sampling, reductions up to now.

-type figure() :: non_neg_integer() | unknown.
%% Sizes are unknown while the collector exchanges the heaps.

-type frame() ::
    {module(), Function :: atom(), arity(), [{file, string()} | {line, pos_integer()}]}
    | {bif | nif, mfa()}
    | {native, Function :: binary() | none, Library :: binary()}
    | gc
    | truncated
    | ambiguous
    | stack_unreadable
    | running_stack_not_sampled.
%% Leaf first. The first form is that of a stacktrace. C functions have their
%% library beside them, and no name where the library has no symbol for them. The
%% atoms are those of a file (doc/format); `stack_unreadable' is also of a process
%% whose heaps are being exchanged.


%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => pstack,
        group => cpu,
        asks => "what every scheduler runs now; pstack(P): a stack",
        sentence => "What every scheduler runs now, or the stacks of some processes, with BIFs, "
            "NIFs, C functions and garbage collection.",
        cost => "Costs some 5 ms and an interruption of 6 microseconds for each scheduler; "
            "processes are not asked.",
        shows => "No terms.",
        argument => {process, optional, "flame_prof_pstack:processes()", "PROCESS..."},
        runs => there,
        library => needed,
        assistant => #{
            title => "Stacks now",
            tells => ["One instant, no statistics: hot has these. Needs the native engine (Linux "
                "on x86_64)."]
        },
        examples => ["pstack shop@myhost", "pstack shop@myhost my_server '<0.1.0>'"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> [flame_prof_look_options:process(many)].

%% @private
-spec run(node(), map()) -> {ok, look()} | {error, flame_prof:reason()}.
run(_Node, #{process := Processes}) -> processes(Processes);
run(_Node, _) -> schedulers().

%% @private
-spec text(look(), pos_integer()) -> unicode:chardata().
text(Look, _Columns) -> format(Look).

%% @private What every normal scheduler runs, all asked within a millisecond, and the
%% processes on dirty schedulers, without the caller.
%%
%% The latter are looked for in the process table and told a moment later, as they
%% are then.
-spec schedulers() -> {ok, look()} | {error, flame_prof:reason()}.
schedulers() ->
    case flame_prof_engine:capture() of
        {ok, _} -> schedulers(flame_prof_nif:snapshot(schedulers));
        {error, _} = Refusal -> Refusal
    end.

schedulers({error, _} = Error) ->
    failed(Error);
schedulers(Normal) ->
    case flame_prof_nif:snapshot(dirty) of
        {error, _} = Error -> failed(Error);
        Dirty ->
            {ok, labelled([of_program(normal(Seen)) || Seen <- Normal] ++
                [Row || Row <- dirty(Dirty), of_program(Row) =:= Row])}
    end.

%% Processes of flame_prof are not shown; the scheduler is not idle.
of_program({Place, What}) ->
    case is_map(What) andalso flame_prof_own:is_own(What) of
        true -> {Place, own};
        false -> {Place, What}
    end.

normal({Number, Nothing}) when is_atom(Nothing) ->
    {{scheduler, Number}, nothing(Nothing, Number > erlang:system_info(schedulers_online))};
normal({Number, {Pid, Seen}}) ->
    {{scheduler, Number}, process(Pid, Seen)}.

nothing(late, _) -> late;
nothing(_, true) -> offline;
nothing(Nothing, false) -> Nothing.

%% Some have gone on meanwhile, to a normal scheduler or for good.
dirty(Found) ->
    [
        {dirty, process(Pid, Seen)}
     || {Pid, #{status := Status, scheduler := none} = Seen} <- Found,
        lists:member(Status, [running, garbage_collecting, exiting])
    ].

%% @private What these processes do, whether they run or not. Where the schedulers can
%% not be asked, a running one has the frame `running_stack_not_sampled'.
-spec processes(flame_prof_target:target() | [flame_prof_target:target()]) ->
    {ok, look()} | {error, flame_prof:reason()}.
processes(Targets) ->
    case {flame_prof_target:parse(Targets), flame_prof_engine:choose(native)} of
        {error, _} ->
            Accepted = <<(flame_prof_target:accepts())/binary, ", or a list of these">>,
            {error, {badarg, #{argument => process, value => Targets, accepted => Accepted}}};
        {{ok, Parsed}, {ok, _}} ->
            _ = flame_prof_schedulers:ensure(),
            ok = flame_prof_capture_classes:await(),
            Pids = [{Target, flame_prof_target:find(Target)} || Target <- Parsed],
            processes(Pids, flame_prof_nif:snapshot([Pid || {_, Pid} <- Pids, is_pid(Pid)]));
        {_, {error, _} = Refusal} ->
            Refusal
    end.

processes(_Pids, {error, _} = Error) ->
    failed(Error);
processes(Pids, Seen) ->
    Found = maps:from_list(Seen),
    case [{{process, Target}, found(Pid, Found)} || {Target, Pid} <- Pids] of
        [{{process, Target}, gone}] -> {error, {process, #{target => Target}}};
        Look -> {ok, labelled(Look)}
    end.

%% Not for a name that is better.
labelled(Look) ->
    Unnamed = [Pid || {_, #{pid := Pid} = P} <- Look, not is_map_key(registered_name, P)],
    Labels = flame_prof_names:labels(lists:usort(Unnamed) -- [self()], ?LABEL_MS),
    [{Place, label(What, Labels)} || {Place, What} <- Look].

label(#{pid := Pid} = Process, Labels) ->
    case Labels of
        #{Pid := Label} -> Process#{label => Label};
        _ -> Process
    end;
label(Nothing, _Labels) ->
    Nothing.

found(Pid, Found) ->
    case Found of
        #{Pid := #{} = Seen} -> process(Pid, Seen);
        _ -> gone
    end.

failed({error, Error}) ->
    Why = iolist_to_binary(["the node's memory could not be looked at: ", atom_to_binary(Error)]),
    {error, {engine, #{engine => native, reason => Why, cause => Error}}}.

%% Terms of the library to terms for people.

process(Pid, #{stack := Stack} = Seen) ->
    Named = maps:without([K || {K, none} <- maps:to_list(Seen), K =/= scheduler], Seen),
    maps:map(fun term/2, Named#{pid => Pid, stack := [frame(Frame) || Frame <- Stack]}).

term(registered_name, Name) -> name(Name);
term(initial_call, Call) -> call(Call);
term(proc_lib_initial_call, Call) -> call(Call);
term(_, Term) -> Term.

call({Module, Function, Arity}) -> {name(Module), name(Function), Arity}.

%% They were read out of the atom table, and what is there stays.
name(none) -> undefined;
name(Text) -> binary_to_atom(Text).

frame({Module, Function, Arity, File, Line}) ->
    {name(Module), name(Function), Arity, [{file, binary_to_list(File)} || File =/= none] ++
        [{line, Line} || Line > 0]};
frame({Kind, {_, _, _} = Call}) when Kind =:= bif; Kind =:= nif ->
    {Kind, call(Call)};
frame(Frame) ->
    Frame.

%% Text.

%% @doc As the VM's own tools would print it; idle schedulers in one line.
-spec format(look()) -> unicode:chardata().
format(Look) ->
    Schedulers = [Entry || {{scheduler, _}, _} = Entry <- Look],
    Nothing = [{What, Number} || {{scheduler, Number}, What} <- Schedulers, is_atom(What)],
    Parts = [
        [summary(Schedulers, length([dirty || {dirty, _} <- Look])) || Schedulers =/= []],
        [entry(Entry) || {Place, What} = Entry <- Look, is_told(Place, What)],
        [none_of(Nothing) || Nothing =/= []]
    ],
    lists:join("\n", lists:append(Parts)).

%% @private The same for {@link flame_prof_json}: pids as this node shows them.
-spec json(look()) -> #{look := [#{place := binary(), process := term()}]}.
json(Look) ->
    #{look => [#{place => named(Place), process => json_of(What)} || {Place, What} <- Look]}.

named({scheduler, Number}) -> <<"scheduler ", (integer_to_binary(Number))/binary>>;
named(dirty) -> <<"dirty scheduler">>;
named({process, Name}) when is_binary(Name) -> <<"process ", Name/binary>>;
named({process, Target}) -> <<"process ", (text(Target))/binary>>.

json_of(#{pid := Pid} = Process) ->
    Label = [{label, unicode:characters_to_binary(flame_prof_names:show_label(Label))}
        || #{label := Label} <- [Process]],
    maps:merge(Process#{pid := text(Pid)}, maps:from_list(Label));
json_of(Nothing) ->
    Nothing.

text(Term) -> unicode:characters_to_binary(io_lib:format("~0tp", [Term])).

is_told({scheduler, _}, What) -> is_map(What);
is_told(_, _) -> true.

summary(Schedulers, Dirty) ->
    Busy = length([Number || {{scheduler, Number}, #{}} <- Schedulers]),
    [
        io_lib:format("~b of ~b", [Busy, length(Schedulers)]),
        [" scheduler", plural(length(Schedulers)), " run"],
        [$s || Busy =:= 1],
        io_lib:format(" a process, ~b more on dirty schedulers~n", [Dirty])
    ].

none_of(Nothing) ->
    [none_of(What, Nothing) || What <- [idle, own, late, unregistered, offline]].

none_of(What, Nothing) ->
    case [Number || {W, Number} <- Nothing, W =:= What] of
        [] ->
            [];
        Numbers ->
            Format = "Scheduler~ts ~ts: ~ts~n",
            io_lib:format(Format, [plural(length(Numbers)), ranges(Numbers), why(What)])
    end.

why(own) -> "running flame_prof";
why(late) -> "no answer in time";
why(unregistered) -> "not registered: too busy, or it must not be interrupted";
why(What) -> atom_to_list(What).

%% 1, 3-5
ranges(Numbers) ->
    lists:join(", ", [range(Range) || Range <- lists:foldr(fun grow/2, [], Numbers)]).

grow(Number, [{Next, Last} | Ranges]) when Number + 1 =:= Next -> [{Number, Last} | Ranges];
grow(Number, Ranges) -> [{Number, Number} | Ranges].

range({Number, Number}) -> integer_to_list(Number);
range({First, Last}) -> io_lib:format("~b-~b", [First, Last]).

entry({{process, Target}, gone}) ->
    [shown(flame_prof_error:format({process, #{target => Target}})), "\n"];
entry({Place, #{pid := Pid} = Process}) ->
    [
        [place(Place), pid_to_list(Pid), title(Process), where(Place, Process), "\n"],
        ["    ", figures(Process), "\n"],
        [["  ", Line, "\n"] || Line <- lines(Process)]
    ].

place({scheduler, Number}) -> io_lib:format("Scheduler ~b: ", [Number]);
place(dirty) -> "Dirty scheduler: ";
place({process, _}) -> "".

title(Process) ->
    Name = [[" ", registered(Name)] || #{registered_name := Name} <- [Process]] ++
        [[" ", shown(flame_prof_names:show_label(Label))] || #{label := Label} <- [Process]],
    case Process of
        #{proc_lib_initial_call := Call} -> [Name, " ", function(Call)];
        #{initial_call := Call} -> [Name, " ", function(Call)];
        _ -> Name
    end.

where({process, _}, #{scheduler := Number}) when is_integer(Number) ->
    io_lib:format(", on scheduler ~b", [Number]);
where(_, _) ->
    "".

figures(#{status := Status, message_queue_len := Messages, reductions := Reductions} = Process) ->
    #{memory := Memory} = Process,
    [
        [atom_to_list(Status), ", "],
        [count(Messages), " message", plural(Messages), ", "],
        [count(Reductions), " reductions, ", kilobytes(Memory)]
    ].

count(unknown) -> "?";
count(Figure) -> grouped(Figure).

kilobytes(unknown) -> "? KB";
kilobytes(Bytes) -> [grouped((Bytes + 1023) div 1024), " KB"].

%% @private The lines of a stack. Neighbours that look alike, such as functions of a
%% library without symbols, are one line.
-spec lines(#{stack := [frame()], atom() => term()}) -> [unicode:chardata()].
lines(#{stack := Stack}) ->
    [line(Run) || Run <- lists:foldr(fun gather/2, [], [line_of(Frame) || Frame <- Stack])].

gather(Text, [{Text, Count} | Runs]) -> [{Text, Count + 1} | Runs];
gather(Text, Runs) -> [{Text, 1} | Runs].

line({Text, 1}) -> Text;
line({Text, Count}) -> [Text, io_lib:format(" x ~b", [Count])].

line_of({Module, Function, Arity, Location}) ->
    unicode:characters_to_binary([function({Module, Function, Arity}), location(Location)]);
line_of({native, none, Library}) ->
    list_to_binary([$[, printable(Library), $]]);
line_of({native, Function, Library}) ->
    list_to_binary([printable(Function), " (", printable(Library), ")"]);
line_of({Kind, Call}) ->
    unicode:characters_to_binary([function(Call), " (", atom_to_list(Kind), ")"]);
line_of(gc) ->
    <<"[gc]">>;
line_of(Word) ->
    atom_to_binary(Word).

location([{file, File}, {line, Line}]) -> io_lib:format(" (~ts:~b)", [file(File), Line]);
location([{file, File}]) -> io_lib:format(" (~ts)", [file(File)]);
location(_) -> "".

%% As it lies in the VM: bytes.
file(File) -> printable(list_to_binary(File)).

function(Call) -> shown(flame_prof_names:printed(Call)).

registered(Name) -> shown(flame_prof_names:printed(Name)).

shown(Text) -> flame_prof_text:visible(unicode:characters_to_binary(Text)).
