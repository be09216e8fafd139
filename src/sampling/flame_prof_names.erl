%% @private What people call a process and a function.
-module(flame_prof_names).

-export([names/1, initial_calls/1, label/1, labels/2, show/1, plain/1]).
-export([function/1, call/1, printed/1, show_label/1, with_label/2]).

-export_type([names/0]).

%% Registered name (empty: none), initial call, $initial_call of proc_lib, the label's atom (empty:
%% none).
-type names() ::
    {binary(), none | flame_prof_nif:mfa_text(), none | flame_prof_nif:mfa_text(), binary()}.

%% Before 26.2 one key of a dictionary cannot be asked for alone. A dictionary
%% is on its process's heap, so this bounds what asking for all of it copies.
-define(DICTIONARY_MOST_BYTES, 262144).
%% Of a label, which may be any term.
-define(LABEL_DEPTH, 8).
%% Each is asked by a process of its own, since one that does not answer holds up
%% who asks.
-define(LABELS_MOST, 1000).

%% @doc For a file.
-spec names(pid()) -> names() | undefined.
names(Pid) ->
    case erlang:process_info(Pid, [registered_name, initial_call, memory]) of
        [{_, Name}, {_, Call}, {_, Memory}] ->
            ProcLib = proc_lib_call(Pid, Call, Memory),
            with_label(Pid, {registered_name(Name), mfa_text(Call), mfa_text(ProcLib), <<>>});
        undefined ->
            undefined
    end.

%% @doc With the label that it has now. A label is any term: of one that is no atom only the atom
%% that a tuple begins with is for a file.
-spec with_label(pid(), names()) -> names().
with_label(Pid, Names) ->
    Tag =
        case label(Pid) of
            undefined -> <<>>;
            Label when is_atom(Label) -> atom_to_binary(Label);
            Label when is_tuple(Label), is_atom(element(1, Label)) ->
                atom_to_binary(element(1, Label));
            _ -> <<>>
        end,
    setelement(4, Names, Tag).

%% @doc What it was spawned with, and what proc_lib has called for it.
-spec initial_calls(pid()) -> [mfa()].
initial_calls(Pid) ->
    case erlang:process_info(Pid, [initial_call, memory]) of
        [{_, Call}, {_, Memory}] ->
            [C || {_, _, _} = C <- [Call, proc_lib_call(Pid, Call, Memory)]];
        undefined ->
            []
    end.

%% @doc The process's label (`proc_lib:set_label/1', OTP 27 or newer).
-spec label(pid()) -> term().
label(Pid) ->
    ProcLib = proc_lib,
    case erlang:function_exported(ProcLib, get_label, 1) of
        true ->
            try
                ProcLib:get_label(Pid)
            catch
                error:_ -> undefined
            end;
        false ->
            undefined
    end.

%% @doc Those of several processes that have one, as far as they answer within so many
%% milliseconds: one in a long NIF does not. Only the first 1,000 processes are asked.
-spec labels([pid()], Ms :: non_neg_integer()) -> #{pid() => term()}.
labels(Pids, Ms) ->
    case erlang:function_exported(proc_lib, get_label, 1) of
        true -> labels_of(Pids, Ms);
        false -> #{}
    end.

labels_of(Pids, Ms) ->
    Alias = erlang:alias(),
    Asked = lists:sublist(Pids, ?LABELS_MOST),
    Askers = [spawn(fun() -> Alias ! {Alias, Pid, label(Pid)} end) || Pid <- Asked],
    Until = erlang:monotonic_time(millisecond) + Ms,
    {Labels, Left} = collect_labels(Alias, length(Asked), Until, #{}),
    _ = erlang:unalias(Alias),
    _ = [exit(Asker, kill) || Left > 0, Asker <- Askers],
    %% Those that came between the end and the unalias.
    {All, _} = collect_labels(Alias, Left, Until, Labels),
    All.

%% And how many have not answered. After the end, what is there already.
collect_labels(_Alias, 0, _Until, Labels) ->
    {Labels, 0};
collect_labels(Alias, Left, Until, Labels) ->
    receive
        {Alias, _Pid, undefined} -> collect_labels(Alias, Left - 1, Until, Labels);
        {Alias, Pid, Label} -> collect_labels(Alias, Left - 1, Until, Labels#{Pid => Label})
    after max(0, Until - erlang:monotonic_time(millisecond)) -> {Labels, Left}
    end.

%% @doc For a person: pid, registered name or label, and what it was started as.
-spec show(pid()) -> unicode:chardata().
show(Pid) ->
    Parts = [shown_name(Pid), shown_call(Pid)],
    lists:join($\s, [pid_to_list(Pid) | [Part || Part <- Parts, Part =/= []]]).

%% @doc The same without a label, which may be any term: for a file.
-spec plain(pid()) -> binary().
plain(Pid) ->
    Name =
        case erlang:process_info(Pid, registered_name) of
            {registered_name, Registered} -> function(atom_to_list(Registered));
            _ -> []
        end,
    Parts = [Part || Part <- [Name, shown_call(Pid)], Part =/= []],
    unicode:characters_to_binary(lists:join($\s, [pid_to_list(Pid) | Parts])).

shown_name(Pid) ->
    case erlang:process_info(Pid, registered_name) of
        {registered_name, Name} -> function(atom_to_list(Name));
        _ -> shown_label(label(Pid))
    end.

shown_label(undefined) -> [];
shown_label(Label) -> show_label(Label).

%% @doc For a person, cut where it is deep.
-spec show_label(term()) -> unicode:chardata().
show_label(Label) -> io_lib:format("~0tP", [Label, ?LABEL_DEPTH]).

shown_call(Pid) ->
    case lists:reverse(initial_calls(Pid)) of
        [] -> [];
        [Call | _] -> call(Call)
    end.

%% @doc A call for a person, the Elixir way where it is Elixir's. Names as atoms or as texts.
-spec call(mfa() | flame_prof_nif:mfa_text()) -> binary().
call({Module, Function, Arity}) ->
    function(io_lib:format("~ts:~ts/~b", [Module, Function, Arity])).

%% @doc The Elixir way where it is Elixir's: `Elixir.Foo.Bar:baz/1' is
%% `Foo.Bar.baz/1' to who has written it, and the registered name
%% `Elixir.Foo.Bar' is `Foo.Bar'. Anything else stays as it is.
-spec function(unicode:chardata()) -> binary().
function(<<"Elixir.", Rest/binary>>) -> elixir(Rest);
%% Out of a damaged file, it may be no UTF-8.
function(Name) when is_binary(Name) -> Name;
function(Name) -> function(unicode:characters_to_binary(Name)).

elixir(Text) ->
    case binary:split(Text, <<":">>) of
        [Module, Function] -> elixir(Module, Function);
        [Module] -> Module
    end.

%% @doc A module, a name or a function as Elixir writes it if it is one of Elixir, otherwise as
%% Erlang writes it, with its quotes.
-spec printed(atom() | {module(), atom()} | {module(), atom(), arity()}) -> unicode:chardata().
printed(Name) when is_atom(Name) -> printed(Name, atom_to_binary(Name), "~tw", [Name]);
printed({M, F}) ->
    printed(M, io_lib:format("~ts:~ts", [M, F]), "~tw:~tw", [M, F]);
printed({M, F, A}) ->
    printed(M, io_lib:format("~ts:~ts/~b", [M, F, A]), "~tw:~tw/~b", [M, F, A]).

printed(Module, Text, Format, Args) ->
    case atom_to_binary(Module) of
        <<"Elixir.", _/binary>> -> function(Text);
        _ -> io_lib:format(Format, Args)
    end.

%% The compiler calls a fun -name/1-fun-0-/2.
elixir(Module, Function) ->
    case re:run(Function, "^-(.*)-fun-[0-9]+-/([0-9]+)(.*)$", [{capture, [1, 2, 3], binary}]) of
        {match, [In, Arity, Rest]} ->
            <<"anonymous fn/", Arity/binary, " in ", Module/binary, ".", In/binary, Rest/binary>>;
        nomatch ->
            <<Module/binary, ".", Function/binary>>
    end.

registered_name([]) -> <<>>;
registered_name(Name) -> atom_to_binary(Name).

%% The types of OTP before 26.2 do not know the item.
-dialyzer({nowarn_function, proc_lib_call/3}).
proc_lib_call(Pid, {proc_lib, init_p, _}, Memory) ->
    try erlang:process_info(Pid, [{dictionary, '$initial_call'}]) of
        [{_, Call}] -> Call;
        undefined -> none
    catch
        error:badarg -> search_dictionary(Pid, Memory)
    end;
proc_lib_call(_, _, _) ->
    none.

search_dictionary(Pid, Memory) when Memory =< ?DICTIONARY_MOST_BYTES ->
    case erlang:process_info(Pid, dictionary) of
        {dictionary, Dictionary} -> proplists:get_value('$initial_call', Dictionary, none);
        undefined -> none
    end;
search_dictionary(_, _) ->
    none.

mfa_text({Module, Function, Arity}) when
    is_atom(Module), is_atom(Function), is_integer(Arity), Arity >= 0, Arity =< 255
->
    {flame_prof_stacks:module(Module), atom_to_binary(Function), Arity};
mfa_text(_) ->
    none.
