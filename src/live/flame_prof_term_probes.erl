%% @private Do terms lie in this VM as this release's sources say? Processes whose terms are known
%% are looked at. One that a busy node does not let come to where it waits says nothing, nor one
%% that was collected meanwhile: a purge of any module, as at the end of what was lent to a node,
%% has the VM look through all heaps. Then there are new ones, for some seconds.
-module(flame_prof_term_probes).

-export([verify/2, verify/3, is_at_rest/2]).

%% Of what an attempt has met: `wrong' only of probes at rest.
-type verdict() :: ok | unsure | wrong.

-define(ALL_MS, 3000).
%% So many that met the same are no chance.
-define(WRONG, 3).

%% @doc `What' is followed by `are not laid out as this release's sources say'. Each attempt has
%% probes of its own, and ends within some tenths of a second.
-spec verify(unicode:chardata(), fun(() -> verdict())) -> ok | {error, binary()}.
verify(What, Attempt) -> verify(What, Attempt, ?ALL_MS).

%% @private
-spec verify(unicode:chardata(), fun(() -> verdict()), Ms :: non_neg_integer()) ->
    ok | {error, binary()}.
verify(What, Attempt, Ms) ->
    case attempts(Attempt, erlang:monotonic_time(millisecond) + Ms, 0, 1) of
        ok -> ok;
        wrong ->
            Why = " are not laid out as this release's sources say",
            {error, iolist_to_binary([What, Why])};
        {unsure, N} -> {error, iolist_to_binary(["its probes were late or collected at each of ",
            integer_to_list(N), " attempt", flame_prof_text:plural(N), ": the node is busy, or a "
                "removal of flame_prof has just ended; try again"])}
    end.

attempts(Attempt, Until, Wrong, N) ->
    IsLast = erlang:monotonic_time(millisecond) >= Until,
    case Attempt() of
        ok -> ok;
        wrong when Wrong + 1 >= ?WRONG -> wrong;
        wrong -> attempts(Attempt, Until, Wrong + 1, N + 1);
        unsure when IsLast -> {unsure, N};
        unsure -> attempts(Attempt, Until, 0, N + 1)
    end.

%% @doc Does it wait in this function? It runs for the answer.
-spec is_at_rest(pid(), mfa()) -> boolean().
is_at_rest(Pid, Function) ->
    [{status, waiting}, {current_function, Function}] =:=
        process_info(Pid, [status, current_function]).
