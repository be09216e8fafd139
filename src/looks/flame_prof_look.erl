%% @doc The looks: what they are, and what is the same for all of them.
%%
%% A look answers one question about a node, or about files of one. It is a module with the
%% callbacks of this behaviour, and an entry in the list of this module. {@link flame_prof}, its
%% `help/0', the command line, `flame_prof mcp' and what is lent to a node are made of these.
%%
%% ```
%% 1> {ok, #{tables := [_ | _]}} = flame_prof:look(tables, #{by => growth, top => 5}).
%% 2> flame_prof:tables(#{by => growth, top => 5, node => 'shop@myhost'}).
%% '''
%%
%% == Options ==
%% A map, or a list of pairs. Options of several looks have one name: `node' (this one), `process',
%% `for' (milliseconds), `by' (what it is sorted by), `top' (how many), `max_memory' (bytes),
%% `max_cpu' (percent of the node's CPU time), `max_events', `max_rate' (events a second). An option
%% that is left out, `undefined' or `nil' has its default. Older names are accepted, but not beside
%% the new one.
%%
%% == JSON ==
%% An object with the keys of the look, and `version', `command' (the name of the look) and `node'.
%% `version' is 1; a key that is added does not change it.
-module(flame_prof_look).

-export([modules/0, names/0, find/1, about/1, rows/1, version/0]).
-export([given/2, checked/2, seen/3, seen_there/3, lent/1, longest_ms/2, envelope/3]).

-export_type([about/0, group/0, argument/0, assistant/0, form/0, given/0]).

-type group() :: wrong | cpu | waiting | calls | memory.

-type about() ::
    #{
        name := atom(),
        group := group(),
        asks := string(),
        sentence := string(),
        cost := string(),
        shows := string(),
        argument := argument(),
        runs := there | here | files,
        library => needed | useful,
        lends => [module(), ...],
        assistant => assistant(),
        examples := [string(), ...]
    }.
%% `asks': what it is for, in a few words, for `help/0'. `shows': which parts of messages and terms.
%% `runs': `there', its module is lent to the node, and called in it; `here', it is called in the
%% node that asks, and lends to the other one what it needs; `files', it reads files. `library': can
%% a node that cannot load the C library be looked at (`useful') or not? `lends': other modules that
%% are called in the node; the first is the one that shows whether a node has what a look that runs
%% `here' needs. `examples': what stands
%% behind `flame_prof' on a command line.

-type argument() :: {Option :: atom(), required | optional, Type :: string(), Word :: string()}.
%% The option that a call has in front of the others, the type of it for a specification, and its
%% name in a command line.

-type assistant() :: #{
    title := string(),
    tells := [string()],
    seconds => {Option :: atom(), Least :: number(), Most :: number(), About :: string()},
    options => [atom() | {atom(), About :: string()}]
}.
%% For `flame_prof mcp'; a look without it is no tool there. `tells' is added to sentence and cost.
%% `seconds': the option that a tool calls so. `options': those that a tool has beside the argument.

-type form() :: terms | {text, Columns :: pos_integer()} | json.

-type given() :: map() | [{atom(), term()}].

-callback about() -> about().
%% It begins with the argument, if it has one.
-callback takes() -> [flame_prof_schema:row()].
%% The options are complete. A look that runs `there' is called in the node that is looked at.
-callback run(node(), Options :: map()) -> {ok, Answer :: term()} | {error, flame_prof:reason()}.
-callback text(Answer :: term(), Columns :: pos_integer()) -> unicode:chardata().
-callback json(Answer :: term()) -> #{atom() => term()}.
%% Prints while it runs. Without it the text of the answer is printed.
-callback live(Options :: map()) -> ok | {ok, term()} | {error, flame_prof:reason()}.
%% Milliseconds after which a look has an answer or an error. Without it twice the sum of the times
%% among the options.
-callback longest_ms(Options :: map()) -> non_neg_integer().
-optional_callbacks([live/1, longest_ms/1]).

-define(VERSION, 1).

%% In the order of `help/0', by group.
-define(LOOKS, [
    flame_prof_doctor,
    flame_prof_top,
    flame_prof_pstack,
    flame_prof_blame,
    flame_prof_tree,
    flame_prof_waits,
    flame_prof_mailbox,
    flame_prof_slow_calls,
    flame_prof_latency,
    flame_prof_trace,
    flame_prof_memory,
    flame_prof_xray,
    flame_prof_binaries,
    flame_prof_tables,
    flame_prof_allocations
]).

%% @private The modules of all looks.
-spec modules() -> [module(), ...].
modules() -> ?LOOKS.

%% @private The names of all looks, as functions of {@link flame_prof} have them.
-spec names() -> [atom(), ...].
names() -> [Name || Module <- ?LOOKS, #{name := Name} <- [Module:about()]].

%% @private The module of a look.
-spec find(atom()) -> {ok, module()} | error.
find(Wanted) ->
    case [Module || Module <- ?LOOKS, #{name := Name} <- [Module:about()], Name =:= Wanted] of
        [Module] -> {ok, Module};
        [] -> error
    end.

%% @private What a look says of itself.
-spec about(module()) -> about().
about(Module) -> Module:about().

%% @private The options of a look. Each look has `node', but for those that read files.
-spec rows(module()) -> [flame_prof_schema:row(), ...].
rows(Module) ->
    case Module:about() of
        #{runs := files} -> Module:takes();
        #{} -> Module:takes() ++ [row_of_node()]
    end.

row_of_node() ->
    #{key => node, type => {own, fun node_name/1, "the name of a node"}, word => none,
        default => {computed, fun(_) -> node() end, "this node"},
        doc => "the node to look at; one without flame_prof gets it for as long as the look lasts"}.

node_name(Node) when is_atom(Node) -> {ok, Node};
node_name(_) -> error.

%% @private The version of the JSON of all looks.
-spec version() -> pos_integer().
version() -> ?VERSION.

%% @private The arguments of a call as options: the argument of the look, or its options, or both.
-spec given(module(), [term()]) -> {ok, map()} | {error, flame_prof:reason()}.
given(Module, Arguments) ->
    #{argument := {Key, Need, _, _}} = Module:about(),
    Names = flame_prof_schema:names(rows(Module)),
    case {Arguments, Need} of
        {[Argument], _} ->
            case are_options(Argument) of
                true -> complete(Module, Argument);
                false -> with_argument(Module, Key, Argument, [])
            end;
        {[Argument, Given], _} ->
            with_argument(Module, Key, Argument, timed(Given, lists:member(for, Names)));
        {[], required} ->
            {error, missing(Module, Key)};
        {[], optional} ->
            {ok, #{}}
    end.

%% Instead of options a time.
timed(Given, true) when not is_map(Given), not is_list(Given) -> [{for, Given}];
timed(Given, _) -> Given.

%% Of what is no option, only {global, Name} is a pair: a process.
are_options(Given) when is_map(Given) -> true;
are_options([_ | _] = Given) ->
    case flame_prof_schema:as_map(Given) of
        {ok, Map} -> maps:keys(Map) =/= [global];
        error -> false
    end;
are_options(_) -> false.

complete(Module, Given) ->
    #{argument := {Key, Need, _, _}} = Module:about(),
    {ok, Options} = flame_prof_schema:as_map(Given),
    Names = flame_prof_schema:names([flame_prof_schema:row(Key, rows(Module))]),
    case [Name || Name <- Names, is_map_key(Name, Options)] of
        [] when Need =:= required -> {error, missing(Module, Key)};
        _ -> {ok, Options}
    end.

%% Of options it would be one that is left out: the look would be at something else.
with_argument(Module, Key, None, _Given) when None =:= undefined, Key =/= node; None =:= nil ->
    {error, refused(Module, Key, None)};
with_argument(Module, Key, Argument, Given) ->
    Row = flame_prof_schema:row(Key, rows(Module)),
    case {flame_prof_schema:values([Row], #{Key => Argument}), flame_prof_schema:as_map(Given)} of
        {{ok, _}, {ok, Options}} when is_map_key(Key, Options) ->
            {error, {bad_option, flame_prof_schema:refused(Key, maps:get(Key, Options),
                "it once, as the argument or as an option")}};
        {{ok, _}, {ok, Options}} -> {ok, Options#{Key => Argument}};
        {{ok, _}, error} -> {error, {bad_option, flame_prof_schema:refused(options, Given,
            "a map of options, or a list of {Option, Value}")}};
        {{error, #{value := Value}}, _} -> {error, refused(Module, Key, Value)}
    end.

missing(Module, Key) ->
    {badarg, #{argument => Key, accepted => accepts(Module, Key)}}.

refused(Module, Key, Value) ->
    {badarg, #{argument => Key, value => Value, accepted => accepts(Module, Key)}}.

accepts(Module, Key) ->
    flame_prof_schema:accepts(flame_prof_schema:row(Key, rows(Module))).

%% @private The options, complete.
-spec checked(module(), given()) -> {ok, #{atom() => term()}} | {error, flame_prof:reason()}.
checked(Module, Given) ->
    flame_prof_schema:checked(rows(Module), Given).

%% @private
%% A look at this node, in each of these forms. It is called in the node that is looked at, for
%% a look that runs there: the pids of its texts are as this node shows them.
-spec seen(module(), given(), [form()]) -> {ok, [term()]} | {error, flame_prof:reason()}.
seen(Module, Given, Forms) ->
    case checked(Module, Given) of
        {ok, Options} ->
            case Module:run(maps:get(node, Options, node()), Options) of
                {ok, Answer} -> {ok, [formed(Form, Module, Answer, Options) || Form <- Forms]};
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

%% @private
%% The same, called from another node: a pid of an error is a text, with the numbers that this
%% node shows.
-spec seen_there(module(), given(), [form()]) -> {ok, [term()]} | {error, flame_prof:reason()}.
seen_there(Module, Given, Forms) ->
    case seen(Module, Given, Forms) of
        {error, {Class, #{target := Pid} = Details}} when is_pid(Pid) ->
            {error, {Class, Details#{target := list_to_binary(pid_to_list(Pid))}}};
        Outcome ->
            Outcome
    end.

formed(terms, _Module, Answer, _Options) ->
    Answer;
formed({text, Columns}, Module, Answer, _Options) ->
    unicode:characters_to_binary(Module:text(Answer, Columns));
formed(json, Module, Answer, Options) ->
    Json = envelope(Module, maps:get(node, Options, none), Module:json(Answer)),
    iolist_to_binary(flame_prof_json:encode(Json)).

%% @private JSON of a look, with the keys that all looks have. Files are of no one node.
-spec envelope(module(), node() | none, #{atom() => term()}) -> #{atom() => term()}.
envelope(Module, Node, Json) ->
    #{name := Name} = Module:about(),
    maps:merge(Json, maps:from_list(
        [{version, ?VERSION}, {command, Name}] ++
            [{node, Node} || Node =/= none, not is_map_key(node, Json)])).

%% @private What a node is lent for a look: first the module that shows whether the node has it; and
%% whether a node without the C library can be looked at. A look at files needs no node.
-spec lent(module()) -> {refused | bare, [module()]}.
lent(Module) ->
    #{runs := Runs} = About = Module:about(),
    Lends = maps:get(lends, About, []),
    Modules = case Runs of
        there -> [Module, ?MODULE | Lends];
        here -> Lends;
        files -> []
    end,
    {case About of #{library := needed} -> refused; #{} -> bare end, Modules}.

%% @private How long an answer takes at most, beside the time to reach the node. Options may be
%% incomplete, and wrong: the node that is looked at checks them.
-spec longest_ms(module(), given()) -> non_neg_integer().
longest_ms(Module, Given) ->
    {ok, Map} = flame_prof_schema:as_map(Given),
    Plain = [Row || #{type := Type} = Row <- Module:takes(), not is_own(Type)],
    Known = maps:with(flame_prof_schema:names(Plain), Map),
    case flame_prof_schema:checked(Plain, Known) of
        {ok, Options} ->
            longest(Module, maps:merge(#{nodes => maps:get(nodes, Map, [])}, Options));
        {error, _} ->
            0
    end.

is_own({own, _, _}) -> true;
is_own({either, _, Type}) -> is_own(Type);
is_own(_) -> false.

longest(Module, Options) ->
    Times = [maps:get(Key, Options, 0)
        || #{key := Key, type := {whole, ms, _, _}} <- Module:takes()],
    case erlang:function_exported(Module, longest_ms, 1) of
        true -> Module:longest_ms(Options);
        false -> 2 * lists:sum(Times)
    end.
