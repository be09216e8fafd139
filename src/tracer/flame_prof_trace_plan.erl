%% @private What a readable trace switches on: flags of processes, match specifications of functions
%% and messages, and the events that are written; out of its patterns.
-module(flame_prof_trace_plan).

-export([plan/2, tracing/2, flags/2, tags/2, is_following/1]).

-export_type([plan/0, follow/0]).

%% The patterns, and that of the first event.
-type plan() :: {flame_prof_trace_spec:parsed(), none | flame_prof_trace_spec:parsed()}.

-type follow() :: none | spawn | send | spawn_and_send.

%% @doc Modules that patterns name are loaded. What is not there is refused.
-spec plan(flame_prof_trace_spec:spec(), none | flame_prof_trace_spec:spec()) ->
    {ok, plan()} | {error, flame_prof:reason()}.
plan(Spec, First) ->
    try
        {ok, {existing(parsed(Spec)), first(First)}}
    catch
        throw:{error, _} = Error -> Error
    end.

parsed(Spec) ->
    case flame_prof_trace_spec:parse(Spec) of
        {ok, Parsed} -> Parsed;
        {error, _} = Error -> throw(Error)
    end.

existing(#{calls := Calls} = Parsed) ->
    ok = lists:foreach(fun({MFA, _}) -> exists(MFA) end, Calls),
    Parsed.

exists({M, F, A} = MFA) ->
    case code:ensure_loaded(M) of
        {module, _} ->
            lists:any(fun({Name, Arity}) ->
                (F =:= '_' orelse F =:= Name) andalso (A =:= '_' orelse A =:= Arity)
            end, M:module_info(functions))
                orelse missing(MFA, "there is no such function");
        {error, _} ->
            missing(MFA, "there is no such module")
    end.

-spec missing({module(), atom(), arity() | '_'}, string()) -> no_return().
missing({M, F, A}, Why) ->
    Pattern = [io_lib:format("~tw:~tw", [M, F]) | [io_lib:format("/~b", [A]) || A =/= '_']],
    throw({error, {trace_pattern, #{
        pattern => unicode:characters_to_binary(Pattern), reason => list_to_binary(Why)}}}).

first(none) -> none;
first(Spec) ->
    case existing(parsed(Spec)) of
        #{'receive' := none, procs := [], returns := false} = First -> First;
        #{} -> throw({error, flame_prof_error:option(first, Spec,
            <<"a pattern of a call without `return', or of a send">>)})
    end.

%% @doc Without `first', all flags are set at once. With it, the match specification of the first
%% event sets them; until then the process is silent.
-spec tracing(plan(), follow()) -> #{flags := [atom()], patterns := [tuple()],
    message_patterns := [{send | 'receive', term()}]}.
tracing({#{calls := Calls, send := Send, 'receive' := Receive}, none} = Plan, Follow) ->
    #{
        flags => flags(Plan, Follow),
        patterns => [{MFA, Spec, [local]} || {MFA, Spec} <- Calls],
        message_patterns => [{send, Send} || Send =/= none]
            ++ [{'receive', Receive} || Receive =/= none]
    };
tracing({#{calls := Calls, send := Send, 'receive' := Receive}, First} = Plan, Follow) ->
    #{calls := FirstCalls, send := FirstSend} = First,
    Flags = flags(Plan, Follow),
    Begin = fun(Clauses) ->
        [{H, G, Body ++ [{silent, false}, {trace, [], Flags}]} || {H, G, Body} <- Clauses]
    end,
    Firsts = [{MFA, Begin(Spec)} || {MFA, Spec} <- FirstCalls],
    Both = [
        {MFA, maps:get(MFA, maps:from_list(Firsts), []) ++ maps:get(MFA, maps:from_list(Calls), [])}
     || MFA <- lists:usort([MFA || {MFA, _} <- Firsts ++ Calls])
    ],
    Sends = [Clause || Clauses <- [FirstSend], Clauses =/= none, Clause <- Begin(Clauses)]
        ++ [Clause || Clauses <- [Send], Clauses =/= none, Clause <- Clauses],
    #{
        flags => [call || FirstCalls =/= []] ++ [send || FirstSend =/= none] ++ [silent],
        patterns => [{MFA, Spec, [local]} || {MFA, Spec} <- Both],
        message_patterns => [{send, Sends} || Sends =/= []]
            ++ [{'receive', Receive} || Receive =/= none]
    }.

%% @doc Of a process that is traced for all of the patterns.
-spec flags(plan(), follow()) -> [atom()].
flags({Parsed, First}, Follow) ->
    #{calls := Calls, send := Send, 'receive' := Receive, procs := Procs} = Parsed,
    [call || Calls =/= [] orelse has_calls(First)]
        %% Where it sends to is followed.
        ++ [send || Send =/= none orelse follows_sends(Follow)]
        ++ ['receive' || Receive =/= none]
        ++ [procs || Procs =/= []]
        ++ [set_on_spawn || Follow =:= spawn orelse Follow =:= spawn_and_send].

has_calls(#{calls := [_ | _]}) -> true;
has_calls(_) -> false.

follows_sends(Follow) -> Follow =:= send orelse Follow =:= spawn_and_send.

%% @doc Events that are written. The flag of the lives of processes is one for all of them.
-spec tags(plan(), follow()) -> [atom()].
tags({#{procs := Procs, send := Send}, First}, Follow) ->
    IsSending = Send =/= none orelse follows_sends(Follow)
        orelse (First =/= none andalso maps:get(send, First) =/= none),
    [call, return_from, exception_from, 'receive']
        ++ lists:append([[send, send_to_non_existing_process] || IsSending])
        ++ lists:append([of_procs(Event) || Event <- Procs]).

of_procs(spawn) -> [spawn, spawned];
of_procs(exit) -> [exit];
of_procs(link) -> [link, unlink, getting_linked, getting_unlinked];
of_procs(register) -> [register, unregister].

%% @doc Are processes silent until their first event?
-spec is_following(plan()) -> boolean().
is_following({_, First}) -> First =/= none.
