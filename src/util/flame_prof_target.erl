%% @doc Processes of this node, as arguments and options name them.
-module(flame_prof_target).

-export([parse/1, parse_texts/1, find/1, accepts/0]).

-export_type([target/0, parsed/0, unknown/0]).

-type target() ::
    parsed()
    | string()
    | binary()
    | {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
%% Also the text of a pid, `"<0.85.0>"', and its numbers, `{0, 85, 0}'.

-type parsed() ::
    pid()
    | RegisteredName :: atom()
    | {global, Name :: term()}
    | {via, Module :: module(), Name :: term()}.
%% A name can become that of another process: {@link find/1} looks it up.

-type unknown() :: binary().
%% A name that is no atom of this node.

%% The targets process looks names up several times a second: it cannot wait for a registry that
%% hangs.
-define(VIA_MS, 200).

%% @doc One target, or a list of them.
-spec parse(term()) -> {ok, [parsed()]} | error.
parse([$< | _] = Text) ->
    parse([Text]);
parse(Targets) when is_list(Targets) ->
    parse(fun one/1, Targets);
parse(Target) ->
    parse([Target]).

parse(One, Targets) ->
    try {ok, [One(Target) || Target <- Targets]} of
        Parsed -> Parsed
    catch
        %% No target; an improper list.
        error:_ -> error
    end.

%% @doc The same, and names as binaries, as a command has them. They make no atom: a name that this
%% node does not know stays as it is, and has no process.
-spec parse_texts(term()) -> {ok, [parsed() | unknown()]} | error.
parse_texts([$< | _] = Text) -> parse(Text);
parse_texts(Targets) when is_list(Targets) -> parse(fun text/1, Targets);
parse_texts(Target) -> parse_texts([Target]).

text(<<C, _/binary>> = Name) when C =/= $< ->
    try
        binary_to_existing_atom(Name)
    catch
        error:_ -> Name
    end;
text(Target) ->
    one(Target).

one(Pid) when is_pid(Pid), node(Pid) =:= node() -> Pid;
one(Name) when is_atom(Name) -> Name;
one({global, _} = Name) -> Name;
one({via, Module, _} = Name) when is_atom(Module) -> Name;
one({A, B, C}) when is_integer(A), is_integer(B), is_integer(C) ->
    one(lists:flatten(io_lib:format("<~b.~b.~b>", [A, B, C])));
one([$< | _] = Text) -> one(list_to_pid(Text));
one(<<$<, _/binary>> = Text) -> one(binary_to_list(Text)).

%% @doc The process that has the name now. Nothing that a `via' module does is a failure here, and
%% one that does not answer within 0.2 s has no process of that name.
-spec find(parsed() | unknown()) -> pid() | undefined.
find(Pid) when is_pid(Pid) -> Pid;
find(Unknown) when is_binary(Unknown) -> undefined;
find({global, Name}) -> find({via, global, Name});
find({via, Module, Name}) ->
    Alias = erlang:alias([reply]),
    Pid = spawn(fun() -> Alias ! {Alias, registered(Module, Name)} end),
    receive
        {Alias, Found} -> local(Found)
    after ?VIA_MS ->
        _ = erlang:unalias(Alias),
        true = exit(Pid, kill),
        %% It may have answered just now.
        receive {Alias, _} -> ok after 0 -> ok end,
        undefined
    end;
find(Name) ->
    local(whereis(Name)).

registered(Module, Name) ->
    try
        Module:whereis_name(Name)
    catch
        _:_ -> undefined
    end.

%% A port can be registered, too.
local(Pid) when is_pid(Pid), node(Pid) =:= node() -> Pid;
local(_) -> undefined.

%% @doc For an error message or a help text.
-spec accepts() -> binary().
accepts() ->
    <<"a pid of this node, its text \"<0.1.0>\" or numbers {0,1,0}, a registered name, "
        "{global, Name} or {via, Module, Name}">>.
