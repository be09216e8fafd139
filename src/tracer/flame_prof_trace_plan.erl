%% @private What a readable trace switches on: flags of processes, match specifications of functions
%% and messages, and the events that are written; out of its patterns.
-module(flame_prof_trace_plan).

-export([plan/2, tracing/2, flags/2, tags/2, follows/2, followed/3, is_following/1]).

-export_type([plan/0, follow/0]).

%% The patterns, and that of the first event.
-type plan() :: {flame_prof_trace_spec:parsed(), none | flame_prof_trace_spec:parsed()}.

-type follow() :: none | spawn | send | spawn_and_send.

%% @doc Modules that patterns name are loaded. A missing function is refused.
-spec plan(flame_prof_trace_spec:spec(), none | flame_prof_trace_spec:spec()) ->
    {ok, plan()} | {error, flame_prof:reason()}.
plan(Spec, First) ->
    try
        {ok, ensure_one_receive({existing(parsed(Spec)), first(First)}, First)}
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
    Pattern = [flame_prof_names:printed({M, F}) | [io_lib:format("/~b", [A]) || A =/= '_']],
    throw({error, {trace_pattern, #{
        pattern => unicode:characters_to_binary(Pattern), reason => list_to_binary(Why)}}}).

first(none) -> none;
first(Spec) ->
    case existing(parsed(Spec)) of
        #{'receive' := none, procs := [], returns := false} = First -> First;
        #{'receive' := [_ | _], calls := [], send := none, procs := []} = First -> First;
        #{} -> refuse_first(Spec, <<"a pattern of calls without `return' and of sends, or of a "
            "receive alone">>)
    end.

-spec refuse_first(term(), binary()) -> no_return().
refuse_first(Given, Accepted) ->
    throw({error, flame_prof_error:option(first, Given, Accepted)}).

%% The VM has one match specification for all messages that are received.
ensure_one_receive({#{'receive' := [_ | _]}, #{'receive' := [_ | _]}}, Given) ->
    refuse_first(Given, <<"a pattern of calls or of sends where the trace has `receive'">>);
ensure_one_receive(Plan, _Given) ->
    Plan.

%% @doc Without `first', all flags are set at once. With it, the match specification of the first
%% event sets them; until then the process is silent. A match specification for a receive cannot set
%% flags: the reader sets them after the event.
-spec tracing(plan(), follow()) -> #{flags := [atom()], patterns := [tuple()],
    message_patterns := [{send | 'receive', term()}]}.
tracing({#{calls := Calls, send := Send, 'receive' := Receive}, none} = Plan, Follow) ->
    #{
        flags => flags(Plan, Follow),
        patterns => [{MFA, Spec, [local]} || {MFA, Spec} <- Calls],
        message_patterns => [{send, Send} || Send =/= none]
            ++ [{'receive', Receive} || Receive =/= none]
    };
tracing({Parsed, #{'receive' := [_ | _] = Receive}}, Follow) ->
    All = tracing({Parsed#{'receive' := Receive}, none}, Follow),
    All#{flags := ['receive']};
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
        %% The receivers of its messages are followed.
        ++ [send || Send =/= none orelse follows_sends(Follow)]
        ++ ['receive' || Receive =/= none orelse begins_with_receive(First)]
        ++ [procs || Procs =/= []]
        ++ [set_on_spawn || Follow =:= spawn orelse Follow =:= spawn_and_send].

has_calls(#{calls := [_ | _]}) -> true;
has_calls(_) -> false.

begins_with_receive(none) -> false;
begins_with_receive(#{'receive' := Receive}) -> Receive =/= none.

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

%% @doc Events that the reader follows: it is told how many of them it does not get. What a process
%% sends, and the first message that a process receives.
-spec follows(plan(), follow()) -> [send | 'receive'].
follows({_, First}, Follow) ->
    [send || follows_sends(Follow)] ++ ['receive' || begins_with_receive(First)].

%% @doc The processes to follow from these events on, once for each message.
-spec followed([flame_prof_trace_events:raw()], plan(), follow()) -> [pid() | atom()].
followed(Events, {_, First}, Follow) ->
    [To || follows_sends(Follow), {_, send, _, _, [To], _} <- Events,
        is_pid(To) orelse is_atom(To)]
        ++ [Pid || begins_with_receive(First), {_, 'receive', Pid, _, _, _} <- Events].

%% @doc Are processes silent until their first event?
-spec is_following(plan()) -> boolean().
is_following({_, First}) -> First =/= none andalso not begins_with_receive(First).
