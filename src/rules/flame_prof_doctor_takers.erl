%% @private Who takes what is limited: memory, processes.
-module(flame_prof_doctor_takers).

-export([memory/2, spawned/1, new_tables/1]).

-import(flame_prof_doctor_rule, [bytes/1, name/1, number/1]).

-record(taker, {
    grown :: number(),
    bytes :: number(),
    process :: flame_prof_doctor_rule:process(),
    what :: unicode:chardata()
}).

%% @doc The process whose heap, binaries or table grew most, with a sentence; else the one that has
%% most. Where that is less than `Share' of the growth, or of all memory, nobody is named.
-spec memory(flame_prof_doctor_rule:evidence(), Share :: number()) ->
    {flame_prof_doctor_rule:process(), unicode:chardata(), #{atom() => number()}} | none.
memory(#{seconds := [First | _] = Seconds} = Evidence, Share) ->
    case {First, lists:last(Seconds)} of
        {#{node_memory_total := From}, #{node_memory_total := To}} ->
            named(takers(Evidence), To - From, To, Share);
        _ ->
            none
    end;
memory(_, _) ->
    none.

named([], _, _, _) ->
    none;
named(Takers, Grown, All, Share) ->
    Grows = most(#taker.grown, Takers),
    Has = most(#taker.bytes, Takers),
    if
        Grown > 0, Grows#taker.grown >= Share * Grown ->
            #taker{process = Process, what = What, grown = By, bytes = Bytes} = Grows,
            {Process, [name(Process), " grew most: ", What, " by ", bytes(By), ", to ",
                bytes(Bytes), "."], #{taker_grown_bytes => By, taker_bytes => Bytes}};
        Has#taker.bytes >= Share * All ->
            #taker{process = Process, what = What, bytes = Bytes} = Has,
            {Process, [name(Process), " has most: ", What, " is ", bytes(Bytes), "."],
                #{taker_bytes => Bytes}};
        true ->
            none
    end.

most(Field, Takers) -> lists:last(lists:keysort(Field, Takers)).

takers(Evidence) -> heaps(Evidence) ++ binaries(Evidence) ++ tables(Evidence).

heaps(#{samples := #{processes := Processes}}) ->
    [
        #taker{grown = Last - First, bytes = Last, what = "its own memory",
            process = flame_prof_doctor_samples:process(Process)}
     || #{memory_range := {First, _, _, Last}} = Process <- Processes
    ];
heaps(_) ->
    [].

binaries(#{binaries := #{names := Names} = Look}) ->
    [
        #taker{grown = grown(Holder), bytes = Bytes, what = "the binaries that it holds",
            process = #{pid => flame_prof_doctor_rule:pid(Pid),
                name => flame_prof_doctor_holders:named(maps:get(Pid, Names, #{}))}}
     || #{process := Pid, bytes := Bytes} = Holder <-
            maps:get(growing, Look, []) ++ maps:get(holders, Look, [])
    ];
binaries(_) ->
    [].

grown(#{grown := Grown}) when is_integer(Grown) -> Grown;
grown(_) -> 0.

tables(#{tables := #{tables := Tables}, span_us := Us}) ->
    [
        #taker{grown = maps:get(bytes_per_s, maps:get(growth, Table, #{}), 0) * Us / 1.0e6,
            bytes = Bytes, what = ["its ETS table ", atom_to_binary(Name)],
            process = #{pid => flame_prof_doctor_rule:pid(Pid),
                name => flame_prof_doctor_rule:text(maps:get(owner_name, Table, undefined))}}
     || #{name := Name, owner := Pid, bytes := Bytes} = Table <- Tables
    ];
tables(_) ->
    [].

%% @doc Where most of the newest processes began, with a sentence.
-spec spawned(flame_prof_doctor_rule:evidence()) ->
    {Call :: binary(), unicode:chardata(), #{atom() => number()}} | none.
spawned(#{system := {_, #{newest := #{} = Newest}}}) when map_size(Newest) > 0 ->
    {N, Call} = lists:max([{N, Call} || {Call, N} <- maps:to_list(Newest)]),
    All = lists:sum(maps:values(Newest)),
    {Call, io_lib:format("Of the ~ts newest, ~ts began in ~ts.", [number(All), number(N), Call]),
        #{newest => All, of_function => N}};
spawned(_) ->
    none.

%% @doc Who owns most of the tables that were made since the first look, by their names, with a
%% sentence: of those that the look has.
-spec new_tables(flame_prof_doctor_rule:evidence()) ->
    {[unicode:chardata()], [flame_prof_doctor_rule:process()], #{atom() => number()}}.
new_tables(#{tables := #{tables := Tables}}) ->
    New = [Table || #{is_new := true} = Table <- Tables],
    Owned = maps:groups_from_list(fun(#{owner := Pid, name := Name}) -> {Pid, Name} end, New),
    case lists:max([{0, none} | [{length(Of), hd(Of)} || Of <- maps:values(Owned)]]) of
        {N, #{owner := Pid, name := Name} = Table} when 2 * N > length(New) ->
            Process = #{pid => flame_prof_doctor_rule:pid(Pid),
                name => flame_prof_doctor_rule:text(maps:get(owner_name, Table, undefined))},
            {[["Of ", number(length(New)), " new ones that were looked at ", number(N),
                " are ", atom_to_binary(Name), " and belong to ", name(Process), "."]],
                [Process], #{new => length(New), of_owner => N}};
        _ ->
            {[], [], #{}}
    end;
new_tables(_) ->
    {[], [], #{}}.
