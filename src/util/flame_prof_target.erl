%% @doc Processes of this node, as arguments and options name them.
-module(flame_prof_target).

-export([parse/1, find/1, found/1, accepts/0]).

-export_type([target/0, parsed/0]).

-type target() ::
    parsed()
    | string()
    | binary()
    | {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
%% Also a text, as a string or a binary: of a pid, `"<0.85.0>"' or `"#PID<0.85.0>"', or a name as
%% flame_prof prints it, `"my_server"', `"Shop.Stock"'. And the numbers of a pid, `{0, 85, 0}'.

-type parsed() ::
    pid()
    | RegisteredName :: atom() | binary()
    | {global, Name :: term()}
    | {via, Module :: module(), Name :: term()}.
%% A name can become that of another process: `find/1' looks it up.

%% The targets process looks names up several times a second: it cannot wait for a registry that
%% hangs.
-define(VIA_MS, 200).

%% @private One target, or a list of them. A text makes no atom.
-spec parse(term()) -> {ok, [parsed()]} | error.
parse([Character | _] = Text) when is_integer(Character) ->
    parse([Text]);
parse(Targets) when is_list(Targets) ->
    try {ok, [one(Target) || Target <- Targets]} of
        Parsed -> Parsed
    catch
        %% No target; an improper list.
        error:_ -> error
    end;
parse(Target) ->
    parse([Target]).

one(Pid) when is_pid(Pid), node(Pid) =:= node() -> Pid;
one(Name) when is_atom(Name) -> Name;
one({global, _} = Name) -> Name;
one({via, Module, _} = Name) when is_atom(Module) -> Name;
one({A, B, C}) when is_integer(A), is_integer(B), is_integer(C) ->
    one(lists:flatten(io_lib:format("<~b.~b.~b>", [A, B, C])));
one([_ | _] = Text) ->
    true = io_lib:printable_unicode_list(Text),
    one(unicode:characters_to_binary(Text));
one(<<"#PID<", _/binary>> = Text) -> one(binary:part(Text, 4, byte_size(Text) - 4));
one(<<$<, _/binary>> = Text) -> one(list_to_pid(binary_to_list(Text)));
one(<<_, _/binary>> = Name) -> unquoted(Name).

%% Names that need it are printed with quotes.
unquoted(<<$', Rest/binary>> = Name) ->
    case binary:split(Rest, <<$'>>) of
        [<<_, _/binary>> = Inner, <<>>] -> Inner;
        _ -> Name
    end;
unquoted(Name) ->
    Name.

%% @private
%% The process that has the name now. Nothing that a `via' module does is a failure here, and
%% one that does not answer within 0.2 s has no process of that name.
-spec find(parsed()) -> pid() | undefined.
find(Pid) when is_pid(Pid) -> Pid;
find({global, Name}) -> find({via, global, Name});
find({via, Module, Name}) ->
    Alias = erlang:alias([reply]),
    try spawn(fun() -> Alias ! {Alias, registered(Module, Name)} end) of
        Pid -> answered(Pid, Alias)
    catch
        error:system_limit ->
            _ = erlang:unalias(Alias),
            undefined
    end;
find(Name) when is_atom(Name) ->
    find(atom_to_binary(Name));
%% Elixir's names are printed without what Elixir puts before them.
find(Name) ->
    case {registered(Name), Name} of
        {undefined, <<C, _/binary>>} when C >= $A, C =< $Z ->
            registered(<<"Elixir.", Name/binary>>);
        {Found, _} ->
            Found
    end.

answered(Pid, Alias) ->
    receive
        {Alias, Found} -> local(Found)
    after ?VIA_MS ->
        _ = erlang:unalias(Alias),
        true = exit(Pid, kill),
        %% It may have answered just now.
        receive {Alias, _} -> ok after 0 -> ok end,
        undefined
    end.

registered(Name) ->
    try
        local(whereis(binary_to_existing_atom(Name)))
    catch
        error:_ -> undefined
    end.

%% @private The same, or the error that all functions have. Of a pid: its process may have ended.
-spec found(parsed()) -> {ok, pid()} | {error, flame_prof:reason()}.
found(Target) ->
    case find(Target) of
        Pid when is_pid(Pid) ->
            case is_process_alive(Pid) of
                true -> {ok, Pid};
                false -> {error, {process, #{target => Target}}}
            end;
        undefined ->
            {error, {process, #{target => Target}}}
    end.

registered(Module, Name) ->
    try
        Module:whereis_name(Name)
    catch
        _:_ -> undefined
    end.

%% A port can be registered, too.
local(Pid) when is_pid(Pid), node(Pid) =:= node() -> Pid;
local(_) -> undefined.

%% @private For an error message or a help text.
-spec accepts() -> binary().
accepts() ->
    <<"a pid of this node, its text \"<0.1.0>\" or numbers {0,1,0}, a registered name or its "
        "text, {global, Name} or {via, Module, Name}">>.
