%% @private Has a node what a command takes there? Asked before anything is sent: an atom too many
%% ends a node, and so does a page too many.
%%
%% One table has the needs of each command. The tests of flame_prof_preflight_SUITE hold it: each
%% command takes less of everything, on a node that does little. A session looks after what it takes
%% of a node that does more ({@link flame_prof_memory_budget}).
-module(flame_prof_preflight).


-export([ask/3, check/2, needs/2, sentence/2, no_process/1]).

-export_type([command/0, shortage/0]).

-type command() :: atom().
%% As a person calls it: `doctor', `attach', `top', `mailbox'.

-type shortage() ::
    #{
        what := flame_prof_limits:resource(),
        used := non_neg_integer(),
        limit := none | pos_integer(),
        needed := pos_integer()
    }.
%% In bytes where it is memory, in words where it is a heap.

-type needs() :: #{needed() => pos_integer()}.
-type needed() :: atoms | processes | ports | files | heap | heap_with_binaries | memory | carriers
    | mapped | literals.

-type outcome() :: ok | {less, [shortage(), ...]} | {refused, [shortage(), ...]}.
%% `less': there is room for it without the C library, with the portable engine.

-define(MIB, 1048576).
-define(LITERAL_BYTES, 4194304).
-define(HEAP_WORDS, 1000000).
%% With all that is sent, which is one message.
-define(BINARIES_WORDS, 4000000).

%% @doc Asks the node. `none': nothing is short. `{less, Why}': it may run without the library.
%% `late': nor is anything short, but the node reads no file in time.
-spec ask(node(), flame_prof_attach:lent(), MayLackLibrary :: boolean()) ->
    none | late | {less, Why :: binary()} | {error, flame_prof:reason()}.
ask(Node, Lent, MayLack) ->
    Command = command(Lent),
    case flame_prof_limits:of_node(Node) of
        {error, _} = Error -> Error;
        {Files, Limits} ->
            case asked(Node, Command, MayLack, check(Command, Limits)) of
                none when Files =:= late -> late;
                Answer -> Answer
            end
    end.

%% As a person calls it: a look by its first module.
command({look, [Module | _]}) -> command(Module);
command(flame_prof_top_sampler) -> top;
command(flame_prof_blame_session) -> blame;
command(Module) -> list_to_atom(lists:last(string:split(atom_to_list(Module), "flame_prof_"))).

asked(_Node, _Command, _MayLack, ok) ->
    none;
asked(_Node, Command, true, {less, Shortages}) ->
    {less, format(Command, " with it", Shortages)};
asked(Node, Command, _, {_, Shortages}) ->
    {error, refusal(Node, Shortages, format(Command, "", Shortages))}.

%% @doc By these limits. One that is not known is none.
-spec check(command(), [flame_prof_limits:limit()]) -> outcome().
check(Command, Limits) ->
    case {short(needs(Command, library), Limits), short(needs(Command, bare), Limits)} of
        {[], _} -> ok;
        {[_ | _] = Shortages, []} -> {less, Shortages};
        {_, [_ | _] = Shortages} -> {refused, Shortages}
    end.

short(Needs, Limits) ->
    [
        #{what => What, used => Used, limit => Limit, needed => maps:get(needed(What), Needs)}
     || {What, Used, Limit} <- Limits, Limit - Used < maps:get(needed(What), Needs)
    ].

needed(What) when What =:= control_group; What =:= machine -> memory;
needed(What) when What =:= address_space; What =:= data -> mapped;
needed(super_carrier) -> carriers;
needed(What) -> What.

%% @doc What a command takes of a node: with the library, or `bare'.
-spec needs(command(), library | bare) -> needs().
needs(Command, Library) -> taken(kind(Command), Library).

%% One look is lent what it calls; the others are lent everything. A doctor, an attach and a blame
%% have a session, too.
kind(Command) when
    Command =:= doctor; Command =:= attach; Command =:= mcp; Command =:= blame
->
    session;
kind(Command) when
    Command =:= top; Command =:= latency; Command =:= allocations; Command =:= trace
->
    everything;
kind(_Look) ->
    look.

taken(session, library) -> row({6000, 320, 12, 20}, {80, 40, 208});
taken(session, bare) -> row({5500, 320, 12, 8}, {24, 20, 96});
taken(everything, library) -> row({5500, 320, 12, 16}, {64, 32, 192});
taken(everything, bare) -> row({5000, 320, 12, 8}, {24, 20, 96});
taken(look, library) -> row({3500, 320, 12, 16}, {40, 24, 160});
taken(look, bare) -> row({3200, 320, 12, 8}, {16, 12, 80}).

%% A carrier of the VM's has room of its own, so that the super carrier gives less than what is
%% resident then.
row({Atoms, Processes, Ports, Files}, {Memory, Carriers, Mapped}) ->
    #{
        atoms => Atoms,
        processes => Processes,
        ports => Ports,
        files => Files,
        memory => Memory * ?MIB,
        carriers => Carriers * ?MIB,
        mapped => Mapped * ?MIB,
        literals => ?LITERAL_BYTES,
        heap => ?HEAP_WORDS,
        heap_with_binaries => ?BINARIES_WORDS
    }.

%% Sentences.

-spec format(command(), How :: string(), [shortage(), ...]) -> binary().
format(Command, How, Shortages) ->
    unicode:characters_to_binary(lists:join("; ",
        [["it ", sentence(Command, Shortage), How] || Shortage <- Shortages])).

%% @doc About the node, without naming it: what is short, how much is there, how much is needed:
%% `has 2,000 of 1,048,576 atoms free (erl +t), and the doctor needs 5,000'.
-spec sentence(command(), shortage()) -> unicode:chardata().
sentence(Command, #{what := What, needed := Needed} = Shortage) ->
    {_, Unit, _} = Names = names(What),
    [there(Names, Shortage), ", and ", name(Command), " needs ", amount(Unit, Needed)].

there({Noun, count, Option}, #{limit := none}) ->
    ["has 0 ", Noun, " (", Option, ")"];
there({Noun, words, Option}, #{limit := Limit}) ->
    ["allows ", Noun, " at most ", amount(words, Limit), " (", Option, ")"];
there({Noun, Unit, Option}, #{used := Used, limit := Limit}) ->
    ["has ", amount(Unit, max(0, Limit - Used)), " of ", amount(Unit, Limit), " ", Noun,
        [[" (", Option, ")"] || Option =/= ""]].

%% The resource, its unit, and the option that sets the limit.
names(atoms) -> {"atoms free", count, "erl +t"};
names(processes) -> {"processes free", count, "erl +P"};
names(ports) -> {"ports free", count, "erl +Q"};
names(files) -> {"file descriptors free", count, "ulimit -n"};
names(control_group) -> {"memory free in its control group", bytes, ""};
names(machine) -> {"memory free on its machine", bytes, ""};
names(address_space) -> {"address space free", bytes, "ulimit -v"};
names(data) -> {"memory for data free", bytes, "ulimit -d"};
names(super_carrier) -> {"memory free in its super carrier", bytes, "erl +MMscs"};
names(literals) -> {"memory for literals free", bytes, "erl +MIscs"};
names(What) when What =:= heap; What =:= heap_with_binaries ->
    {"heaps of", words, "erl +hmax, +hmaxk"}.

amount(count, N) -> flame_prof_text:grouped(N);
amount(words, N) -> [flame_prof_text:grouped(N), " words"];
amount(bytes, N) when N < 1 bsl 30 -> io_lib:format("~.1f MiB", [N / (1 bsl 20)]);
amount(bytes, N) -> io_lib:format("~.1f GiB", [N / (1 bsl 30)]).

name(doctor) -> "the doctor";
name(Command) -> ["flame_prof ", atom_to_list(Command)].

%% @doc For a program: `short' has the numbers.
refusal(Node, Shortages, Why) ->
    {attach, #{node => Node, reason => Why, cause => short, short => Shortages}}.

%% @doc What a node is that cannot spawn the process of a request.
-spec no_process(node()) -> flame_prof:reason().
no_process(Node) ->
    refusal(Node, [#{what => processes, used => 0, limit => none, needed => 1}],
        <<"it has no process free (erl +P): it cannot answer">>).
