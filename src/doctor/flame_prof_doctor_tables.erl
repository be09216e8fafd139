%% @private The largest ETS tables, for the doctor: names and sizes, no contents.
-module(flame_prof_doctor_tables).

-export([look/1]).

-export_type([tables/0, table/0]).

-type tables() :: #{Identity :: binary() => table()}.
-type table() :: #{name := binary(), bytes := non_neg_integer(), objects := non_neg_integer(),
    owner := pid(), owner_name := binary()}.
%% By the text of its reference: a name can be that of another table later.

%% To ask takes about a microsecond a table, and some more where its counters are decentralized.
-define(TABLES_MOST, 20000).
-define(BYTES_LEAST, 1048576).

%% @doc Names of owners are read by the native engine only.
-spec look(flame_prof_top_reader:engine()) -> {ok, tables()} | {unseen, binary()}.
look(Engine) ->
    case erlang:system_info(ets_count) of
        Count when Count > ?TABLES_MOST -> {unseen, <<"too many ETS tables to ask each">>};
        _ -> {ok, maps:from_list(lists:append([table(Engine, Tab) || Tab <- ets:all()]))}
    end.

table(Engine, Tab) ->
    Bytes = bytes(ets:info(Tab, memory)),
    case Bytes >= ?BYTES_LEAST andalso ets:info(Tab) of
        [_ | _] = Info ->
            [{identity(Info), #{
                name => atom_to_binary(proplists:get_value(name, Info)),
                bytes => Bytes,
                objects => proplists:get_value(size, Info),
                owner => proplists:get_value(owner, Info),
                owner_name => named(Engine, proplists:get_value(owner, Info))
            }}];
        _ ->
            []
    end.

%% Out of memory: the owner is not asked.
named(portable, _) ->
    <<>>;
named(native, Owner) ->
    case flame_prof_mailbox:names([Owner]) of
        #{Owner := #{registered_name := Name}} -> atom_to_binary(Name);
        _ -> <<>>
    end.

bytes(Words) when is_integer(Words) -> Words * erlang:system_info(wordsize);
bytes(undefined) -> 0.

identity(Info) ->
    list_to_binary(ref_to_list(proplists:get_value(id, Info))).
