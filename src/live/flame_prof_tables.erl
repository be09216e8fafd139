%% @doc The ETS tables of this node: who owns them, what they hold and how fast they grow; and
%% beside them atoms, code and persistent terms. `flame_prof tables' prints it.
%%
%% ```
%% 1> {ok, #{tables := [#{name := Name, bytes := Bytes} | _], all := #{tables := Tables}}} =
%%        flame_prof:look(tables, #{}).
%% 2> flame_prof:look(tables, #{for => 1000, by => growth, top => 5}).
%% '''
%%
%% == Why it is cheap ==
%% `ets:i/0' and `ets:info/1' lock each table, and make a table with decentralized counters exchange
%% them and suspend who asks; `ets:all/0' and `erlang:memory(ets)' ask every scheduler. Here the
%% structures of the tables are read out of memory, a microsecond or two for each. Where they have
%% what is found once in a VM's life, by some tables that exist for a moment.
%%
%% == How exact it is ==
%% Of a table at rest, `objects' and `bytes' equal what `ets:info/2' says. Tables are read one after
%% another: these are figures of some milliseconds, not of one moment. Decentralized counters are
%% summed while schedulers write them. `bytes' leaves out what ETS leaves out: the bytes of large
%% binaries, which are in `binary_alloc'.
%%
%% == What it does not say ==
%% The portable engine asks, for two seconds and 1,000 tables at most, and leaves tables with
%% decentralized counters unasked.
-module(flame_prof_tables).

-behaviour(flame_prof_look).

-export([look/0, look/1, format/1, json/1]).
-export([about/0, takes/0, run/2, text/2, longest_ms/1]).

-export_type([tables/0, table/0, options/0, growth/0, sums/0]).

-type options() :: #{
    node => node() | flame_prof_options:left_out(),
    for => 0..60000 | flame_prof_options:left_out(),
    by => memory | objects | growth | flame_prof_options:left_out(),
    top => pos_integer() | infinity | flame_prof_options:left_out(),
    engine => auto | native | portable | flame_prof_options:left_out()
}.
%% `node': of which node; {@link flame_prof} takes it, functions of this module do not. `for':
%% milliseconds between two looks, of which the growth is (0: one look; by `growth' 1000). `by':
%% what they are sorted by (`memory'); `sort' is an older name. `top': how many tables (20); `all'
%% has the sums of all in any case.

-type growth() :: #{objects_per_s := float(), bytes_per_s := float()}.

-type table() :: #{
    id := atom() | reference(),
    name := atom(),
    owner := pid(),
    owner_name := atom() | mfa() | exited,
    type := set | ordered_set | bag | duplicate_bag,
    protection := public | protected | private,
    named := boolean(),
    keypos := pos_integer(),
    write_concurrency := boolean(),
    decentralized := boolean(),
    compressed := boolean(),
    deleting := boolean(),
    objects => non_neg_integer(),
    bytes => non_neg_integer(),
    share => float(),
    growth => growth(),
    is_new => boolean()
}.
%% `owner_name' is the registered name, or what the owner was started as; `undefined' where nothing
%% is known. `deleting': it was deleted, and its objects are being freed. Without `objects' and
%% `bytes' they are not known. `share': `bytes' of what `erlang:memory(ets)' would be. `is_new':
%% made since the first look; it grew from nothing.

-type sums() :: #{
    tables := non_neg_integer(),
    deleting := non_neg_integer(),
    objects := non_neg_integer(),
    bytes := non_neg_integer(),
    memory => non_neg_integer(),
    share => float(),
    growth => growth(),
    made => non_neg_integer(),
    deleted => non_neg_integer()
}.
%% `memory': what `erlang:memory(ets)' would be; `share': `bytes' of it. It may be above 1: the
%% bytes of a table have its locks, which are in the memory of other allocators.

-type tables() :: #{
    engine := flame_prof_engine:name(),
    sort := memory | objects | growth,
    ms => pos_integer(),
    tables := [table()],
    all := sums(),
    atoms := flame_prof_tables_counted:counted(),
    code := flame_prof_tables_counted:counted(),
    persistent_terms := flame_prof_tables_counted:counted(),
    ports := flame_prof_tables_counted:counted(),
    processes := flame_prof_tables_counted:counted(),
    unknown := [binary()]
}.
%% `ms': between the looks. `unknown': missing values, with the reasons.

-define(FOR_MOST_MS, 60000).
-define(FOR_GROWTH_MS, 1000).
-define(COUNT_MOST, 1000000).

%% Bits of a status: c_src/erts/ets.h.
-define(PRIVATE, 16#1).
-define(PROTECTED, 16#2).
-define(DELETING, 16#8).
-define(SET, 16#10).
-define(BAG, 16#20).
-define(DUPLICATE_BAG, 16#40).
-define(FINE_LOCKED, 16#200).
-define(NAMED, 16#800).
-define(DECENTRALIZED, 1).
-define(COMPRESSED, 2).

%% @private
-spec look() -> {ok, tables()} | {error, flame_prof:reason()}.
look() ->
    look(#{}).

%% @private What there is now, or how it changes for a time.
-spec look(options()) -> {ok, tables()} | {error, flame_prof:reason()}.
look(Options) ->
    case flame_prof_schema:checked(rows(), Options) of
        {ok, #{by := growth, for := 0} = Checked} ->
            begun(Checked#{for := ?FOR_GROWTH_MS});
        {ok, Checked} ->
            begun(Checked);
        {error, _} = Error ->
            Error
    end.

rows() -> rows(100).

rows(Top) ->
    [
        #{key => for, type => {whole, ms, 0, ?FOR_MOST_MS}, default => 0,
            doc => "time between two looks, for growth"},
        #{key => by, alias => sort, type => {one_of, [memory, objects, growth]},
            default => memory, doc => "memory, objects or growth"},
        flame_prof_look_options:infinite(#{key => top, type => {whole, count, 1, ?COUNT_MOST},
            default => Top, doc => "tables to show"}),
        flame_prof_look_options:engine()
    ].

%% @private
-spec about() -> flame_prof_look:about().
about() ->
    #{
        name => tables,
        group => memory,
        asks => "the ETS tables: owner, memory, growth",
        sentence => "The ETS tables: owner, objects, memory, growth; and the number of atoms, "
            "modules and persistent terms.",
        cost => "Costs 20 ms of CPU for 10,000 tables. No table is locked or asked.",
        shows => "No keys and no objects.",
        argument => {node, optional, "node()", "NODE"},
        runs => there,
        library => useful,
        assistant => #{
            title => "ETS tables",
            tells => ["Shows which table grows."],
            seconds => {for, 0.1, 30, "time between two looks, for growth (one look)"},
            options => [by, top]
        },
        examples => ["tables shop@myhost", "tables shop@myhost --for 5s --by growth"]
    }.

%% @private
-spec takes() -> [flame_prof_schema:row()].
takes() -> rows(20).

%% @private
-spec run(node(), map()) -> {ok, tables()} | {error, flame_prof:reason()}.
run(_Node, Options) -> look(maps:remove(node, Options)).

%% @private
-spec text(tables(), pos_integer()) -> unicode:chardata().
text(Tables, _Columns) -> format(Tables).

%% @private
-spec longest_ms(map()) -> non_neg_integer().
longest_ms(#{for := Ms}) -> max(Ms, ?FOR_GROWTH_MS).

begun(#{engine := portable} = Options) ->
    looked(portable, <<"asked for">>, Options);
begun(#{engine := Engine} = Options) ->
    Native = fun() ->
        case ready() of
            ok -> looked(native, <<>>, Options);
            {error, Reason} -> {not_native, Reason}
        end
    end,
    case flame_prof_looks:with(Native) of
        {not_native, Reason} -> without_native(Reason, Engine, Options);
        {error, {library, _} = Reason} -> without_native(Reason, Engine, Options);
        Answer -> Answer
    end.

without_native(Reason, native, _Options) -> {error, Reason};
without_native({limit, _} = Shortage, _Engine, _Options) -> {error, Shortage};
without_native({_, #{reason := Why}}, _Engine, Options) -> looked(portable, Why, Options).

%% The layout of processes first, of which that of tables is a part.
ready() ->
    case flame_prof_engine:choose(auto) of
        {ok, #{engine := native}} ->
            case flame_prof_tables_layout:ensure() of
                ok -> ok;
                {error, {Error, Why}} -> refused(Error, Why)
            end;
        {ok, #{engine := portable, engine_reason := Why}} ->
            refused(portable, Why);
        {error, _} = Error ->
            Error
    end.

refused(Cause, Why) ->
    Reason = <<"tables: ", Why/binary>>,
    {error, {engine, #{engine => native, reason => Reason, cause => Cause}}}.

looked(Engine, Why, #{for := 0} = Options) ->
    case read(Engine, Why) of
        {ok, Now} -> {ok, answer(Engine, Now, none, Options)};
        {error, _} = Error -> Error
    end;
looked(Engine, Why, #{for := For} = Options) ->
    case read(Engine, Why) of
        {ok, #{at := At} = Before} ->
            timer:sleep(max(0, For - (erlang:monotonic_time(millisecond) - At))),
            case read(Engine, Why) of
                {ok, Now} -> {ok, answer(Engine, Now, Before, Options)};
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

%%% ----------------------------------------------------------------- reading --

%% Of one look: figures of tables as the library tells them, and of the rest.
read(Engine, Why) ->
    At = erlang:monotonic_time(millisecond),
    Counted = flame_prof_tables_counted:now(),
    case figures(Engine, Why) of
        {ok, Figures, Unknown} ->
            Own = flame_prof_own:pids(),
            Others = [Row || Row <- Figures, not is_own(Row, Own)],
            {ok, #{at => At, figures => Others, unknown => Unknown, counted => Counted}};
        {error, _} = Error ->
            Error
    end.

%% Tables of flame_prof are none of the program's.
is_own(Row, Own) ->
    flame_prof_own:is_module(element(2, Row)) orelse lists:member(element(3, Row), Own).

figures(portable, Why) ->
    flame_prof_tables_portable:read(Why);
figures(native, _) ->
    case flame_prof_looks_nif:tables_read() of
        {Figures, Incomplete, LeftOut} ->
            {ok, Figures, incomplete(Incomplete) ++ left_out(LeftOut)};
        {error, {Error, Why}} ->
            refused(Error, Why);
        {error, Error} ->
            refused(Error, <<"their memory could not be read">>)
    end.

incomplete(0) -> [];
incomplete(N) ->
    [<<"some tables that were made on ", (integer_to_binary(N))/binary,
        " schedulers: tables came and went there faster than they could be read">>].

left_out(0) -> [];
left_out(N) -> [<<(integer_to_binary(N))/binary, " tables that went while they were read">>].

%%% ------------------------------------------------------------------ answer --

answer(Engine, #{figures := Figures} = Now, Before, #{by := Sort, top := Top}) ->
    Earlier = earlier(Before),
    Ms = elapsed(Now, Before),
    Chosen = top(Top, [{order(Sort, Row, Earlier), Row} || Row <- Figures]),
    Names = names(Engine, lists:usort([element(3, Row) || Row <- Chosen])),
    Memory = memory(Engine),
    Counted = flame_prof_tables_counted:with_growth(counted(Now), counted(Before), Ms),
    Rest = maps:merge(Counted, maps:from_list([{ms, Ms} || Ms > 0])),
    Rest#{
        engine => Engine,
        sort => Sort,
        tables => [with_share(Memory, table(Row, Names, Earlier, Ms)) || Row <- Chosen],
        all => maps:merge(sums(Figures, Memory), growth_of_all(Figures, Earlier, Ms)),
        unknown => maps:get(unknown, Now) ++ uncounted(Engine, Figures) ++
            [Why || {error, Why} <- [Memory]]
    }.

counted(none) -> none;
counted(#{counted := Counted}) -> Counted.

earlier(none) -> none;
earlier(#{figures := Figures}) ->
    maps:from_list([{Id, {Objects, Bytes}} || {Id, _, _, _, _, Objects, Bytes, _} <- Figures]).

elapsed(_, none) -> 0;
elapsed(#{at := At}, #{at := Before}) -> max(1, At - Before).

%% Largest first, of equal ones by memory; what is not known is last.
top(Top, Rows) ->
    Sorted = lists:sort([{-Key, -element(7, Row), Row} || {Key, Row} <- Rows]),
    [Row || {_, _, Row} <- case Top of infinity -> Sorted; _ -> lists:sublist(Sorted, Top) end].

order(memory, Row, _) -> element(7, Row);
order(objects, Row, _) -> element(6, Row);
order(growth, Row, Earlier) ->
    case grown(Row, Earlier) of
        {_, Bytes} -> Bytes;
        unknown -> 0
    end.

%% Objects and bytes that it has more of than before.
grown({Id, _, _, _, _, Objects, Bytes, _}, Earlier) when Objects >= 0 ->
    case Earlier of
        #{Id := {-1, -1}} -> unknown;
        #{Id := {ObjectsBefore, BytesBefore}} -> {Objects - ObjectsBefore, Bytes - BytesBefore};
        #{} -> {Objects, Bytes}
    end;
grown(_, _) ->
    unknown.

table({Id, Name, Owner, Status, Keypos, Objects, Bytes, Flags} = Row, Names, Earlier, Ms) ->
    Is = fun(Bit) -> Status band Bit =/= 0 end,
    Table = #{
        id => id(Is(?NAMED), Name, Id),
        name => Name,
        owner => Owner,
        owner_name => owner_name(Owner, Names),
        type => type(Status),
        protection => protection(Status),
        named => Is(?NAMED),
        keypos => Keypos,
        write_concurrency => Is(?FINE_LOCKED),
        decentralized => Flags band ?DECENTRALIZED =/= 0,
        compressed => Flags band ?COMPRESSED =/= 0,
        deleting => Is(?DELETING)
    },
    maps:merge(
        Table,
        maps:from_list(
            [Figure || Figure <- [{objects, Objects}, {bytes, Bytes}], Objects >= 0] ++
                [{growth, rates(Grown, Ms)}
                 || Ms > 0, {_, _} = Grown <- [grown(Row, Earlier)]] ++
                [{is_new, not is_map_key(Id, Earlier)} || Ms > 0]
        )
    ).

with_share({ok, Memory}, #{bytes := Bytes} = Table) -> Table#{share => Bytes / max(1, Memory)};
with_share(_, Table) -> Table.

rates({Objects, Bytes}, Ms) ->
    #{objects_per_s => 1000 * Objects / Ms, bytes_per_s => 1000 * Bytes / Ms}.

id(true, Name, _) ->
    Name;
id(false, Name, {N0, N1, N2}) ->
    try
        list_to_ref(lists:append(["#Ref<0.", integer_to_list(N2), ".", integer_to_list(N1), ".",
            integer_to_list(N0), ">"]))
    catch
        %% Of a deleted table, whose numbers were freed while they were read.
        error:badarg -> Name
    end.

type(Status) when Status band ?SET =/= 0 -> set;
type(Status) when Status band ?BAG =/= 0 -> bag;
type(Status) when Status band ?DUPLICATE_BAG =/= 0 -> duplicate_bag;
type(_) -> ordered_set.

protection(Status) when Status band ?PRIVATE =/= 0 -> private;
protection(Status) when Status band ?PROTECTED =/= 0 -> protected;
protection(_) -> public.

%% No process is asked: the names are read, or are those that are registered.
names(native, Owners) ->
    flame_prof_mailbox:names(Owners);
names(portable, _) ->
    maps:from_list([{Pid, #{registered_name => Name}}
        || Name <- registered(), Pid <- [whereis(Name)], is_pid(Pid)]).

owner_name(Owner, Names) ->
    case Names of
        #{Owner := exited} -> exited;
        #{Owner := #{registered_name := Name}} -> Name;
        #{Owner := #{initial_call := Call}} -> Call;
        #{} -> undefined
    end.

%% The sum of `erlang:memory(ets)', without asking the schedulers.
memory(portable) ->
    {error, <<"the share of memory(ets): needs the native engine">>};
memory(native) ->
    case flame_prof_allocators:look() of
        {ok, Instances} ->
            case [Bytes || #{allocator := ets_alloc, blocks_bytes := Bytes} <- Instances] of
                [] -> {error, <<"the share of memory(ets): +M flags turned ets_alloc off">>};
                Bytes -> {ok, lists:sum(Bytes) + flame_prof_tables_counted:ets_misc()}
            end;
        {error, {_, #{reason := Why}}} ->
            {error, <<"the share of memory(ets): ", Why/binary>>}
    end.

sums(Figures, Memory) ->
    Bytes = lists:sum([Bytes || {_, _, _, _, _, _, Bytes, _} <- Figures, Bytes >= 0]),
    Sums = #{
        tables => length(Figures),
        deleting => length([x || Row <- Figures, element(4, Row) band ?DELETING =/= 0]),
        objects => lists:sum([N || {_, _, _, _, _, N, _, _} <- Figures, N >= 0]),
        bytes => Bytes
    },
    case Memory of
        {ok, Used} -> Sums#{memory => Used, share => Bytes / max(1, Used)};
        {error, _} -> Sums
    end.

%% Of the tables that are there at the end; what went is only counted.
growth_of_all(_, none, _) ->
    #{};
growth_of_all(Figures, Earlier, Ms) ->
    Grown = [Grown || Row <- Figures, {_, _} = Grown <- [grown(Row, Earlier)]],
    Stayed = length([x || Row <- Figures, is_map_key(element(1, Row), Earlier)]),
    {Objects, Bytes} = lists:unzip(Grown),
    #{
        growth => rates({lists:sum(Objects), lists:sum(Bytes)}, Ms),
        made => length(Figures) - Stayed,
        deleted => map_size(Earlier) - Stayed
    }.

uncounted(Engine, Figures) ->
    case length([x || {_, _, _, _, _, -1, _, _} <- Figures]) of
        0 -> [];
        N -> [<<"objects and bytes of ", (integer_to_binary(N))/binary, " tables: ",
            (why_uncounted(Engine))/binary>>]
    end.

why_uncounted(native) -> <<"another process takes a snapshot of their counters">>;
why_uncounted(portable) -> <<"a read of decentralized counters would exchange them">>.

%% @doc As text.
-spec format(tables()) -> unicode:chardata().
format(Tables) -> flame_prof_tables_text:format(Tables).

%% @private The same for {@link flame_prof_json}.
-spec json(tables()) -> #{atom() => term()}.
json(Tables) -> flame_prof_tables_text:json(Tables).
