%% @private Large rows of ETS tables: each read copies all of them into the heap of the reader.
%%
%% == False alarms ==
%% To find a small row costs more than to copy it, and what is copied is collected seldom. Only
%% samples count in which a read of a table copies, or a collection follows it at once: above
%% `ets_share' the rows are large, and `ets_node' of all that the node does is that.
-module(flame_prof_doctor_copies_ets).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2, unseen/2]).

-import(flame_prof_doctor_rule, [name/1, bytes/1]).

-define(READS, [<<"ets:lookup/2">>, <<"ets:lookup_element/*">>, <<"ets:tab2list/1">>,
    <<"ets:match/*">>, <<"ets:match_object/*">>, <<"ets:select/*">>, <<"ets:take/2">>,
    <<"ets:next_lookup/2">>, <<"ets:first_lookup/1">>, <<"ets:foldl/3">>, <<"ets:foldr/3">>]).
-define(COPY, [<<"copy_shallow*">>, <<"copy_struct*">>, <<"copy_object*">>, <<"[gc]">>]).
%% A row of a page of memory is no small one.
-define(LARGE_ROW, 1024).

kind() -> copies.

needs() -> [samples].

thresholds() ->
    [
        {ets_share, 0.4, <<"share of its time on a CPU in copies of rows of tables">>},
        {ets_cpus, 0.08, <<"CPUs together">>},
        {ets_node, 0.25, <<"share of the CPU time of all processes">>}
    ].

find(#{samples := Samples} = Evidence, #{ets_share := Share, ets_cpus := Cpus, ets_node := Node}) ->
    Limits = #{share => Share, cpus => Cpus, node => Node},
    case flame_prof_doctor_calls:heavy(Samples, fun copies/1, Limits) of
        none ->
            [];
        #{processes := [{_, First} | _], stacks := Stacks} = Heavy ->
            {Read, _} = flame_prof_doctor_stacks:most_called(Stacks),
            Table = table(Evidence),
            Does = ["copying rows of tables, in ", Read],
            [flame_prof_doctor_calls:finding(kind(), Heavy, Does, #{
                sentences => [
                    "A read of a table copies the whole row, and the copy is soon garbage: make the "
                        "rows smaller, or read one element of them.",
                    largest(Table)
                ],
                command => ["flame_prof pstack --node NODE ",
                    flame_prof_doctor_samples:target(First)],
                numbers => maps:from_list([{row_bytes, Bytes} || {Bytes, _} <- Table])
            })]
    end.

unseen(Evidence, _) -> flame_prof_doctor_rule:portable(Evidence).

copies(Stacks) ->
    [Stack || {Frames, _} = Stack <- Stacks,
        flame_prof_doctor_stacks:is_in(flame_prof_doctor_stacks:called(Frames), ?READS),
        lists:any(fun({F, Kind}) -> Kind =/= erlang andalso
            flame_prof_doctor_stacks:is_in(F, ?COPY) end, Frames)].

%% Of those that were looked at, the one with the largest rows.
table(#{tables := #{tables := Tables}}) ->
    lists:sublist(lists:reverse(lists:sort([{Bytes / N, Table}
        || #{bytes := Bytes, objects := N} = Table <- Tables, is_integer(Bytes), is_integer(N),
            N > 0, Bytes >= ?LARGE_ROW * N])), 1);
table(_) ->
    [].

largest([{Bytes, #{name := Table, owner := Owner, owner_name := Name}}]) ->
    ["The table with the largest rows, ", bytes(Bytes), " in the mean, is ",
        flame_prof_doctor_rule:text(Table), " of ",
        name(#{pid => flame_prof_doctor_rule:pid(Owner),
            name => flame_prof_doctor_rule:text(Name)}), "."];
largest([]) ->
    "".
