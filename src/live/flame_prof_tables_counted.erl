%% @private What a node has of atoms, code, persistent terms, ports and processes: by functions that
%% ask no scheduler. {@link flame_prof_tables} tells it beside the tables.
%%
%% `persistent_term:info/0' visits all persistent terms, and who writes one waits meanwhile; the
%% sizes of atoms and code are counters (`erlang:system_info(allocated_areas)').
-module(flame_prof_tables_counted).

-export([now/0, with_growth/3, ets_misc/0]).

-export_type([counted/0]).

-type counted() :: #{
    count := non_neg_integer(),
    limit => pos_integer(),
    bytes => non_neg_integer(),
    growth => #{per_s := float(), bytes_per_s => float()}
}.
%% `bytes': of atoms their table and the room for their text; of code what the loader made.

-spec now() -> #{atom() => counted()}.
now() ->
    Areas = erlang:system_info(allocated_areas),
    Bytes = fun(Keys) -> [{bytes, lists:sum([area(Key, Areas) || Key <- Keys])}] end,
    Info = persistent_term:info(),
    maps:map(fun(_, Pairs) -> maps:from_list(Pairs) end, #{
        atoms => limited(atom_count, atom_limit) ++ Bytes([atom_space, atom_table]),
        code => [{count, length(erlang:loaded())} | Bytes([loaded_code])],
        persistent_terms => [{count, maps:get(count, Info)}, {bytes, maps:get(memory, Info)}],
        ports => limited(port_count, port_limit),
        processes => limited(process_count, process_limit)
    }).

%% @doc What `erlang:memory(ets)' has beside ets_alloc.
-spec ets_misc() -> non_neg_integer().
ets_misc() -> area(ets_misc, erlang:system_info(allocated_areas)).

area(Key, Areas) -> element(2, lists:keyfind(Key, 1, Areas)).

limited(Count, Limit) ->
    [{count, erlang:system_info(Count)}, {limit, erlang:system_info(Limit)}].

%% @doc With the growth since earlier; `none' is no earlier look.
-spec with_growth(#{atom() => counted()}, #{atom() => counted()} | none, non_neg_integer()) ->
    #{atom() => counted()}.
with_growth(Now, none, _) ->
    Now;
with_growth(Now, Before, Ms) ->
    maps:map(
        fun(Kind, #{count := Count} = Counted) ->
            #{Kind := #{count := CountBefore} = Earlier} = Before,
            Growth = [{per_s, 1000 * (Count - CountBefore) / Ms}] ++
                [{bytes_per_s, 1000 * (Bytes - BytesBefore) / Ms}
                 || #{bytes := Bytes} <- [Counted], #{bytes := BytesBefore} <- [Earlier]],
            Counted#{growth => maps:from_list(Growth)}
        end,
        Now
    ).
