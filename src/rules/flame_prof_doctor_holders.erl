%% @private Who holds the binaries that grow.
-module(flame_prof_doctor_holders).

-export([most/3, held/3, pins/1, named/1, numbers/3]).

-export_type([held/0]).

-import(flame_prof_doctor_rule, [bytes/1, name/1, number/1, share/1]).

%% In an object of a table: where there were more for each, the table is not why.
-define(OBJECT_BYTES_MOST, 262144).
-define(NOBODY, "No sampled process holds them: many processes do, or one that seldom runs.").

-type held() :: flame_prof_binaries:holder() | #{share := float()}.
%% As a look at all binaries has it; of samples, its part of the growth.

%% @doc The process or ETS table (then its owner) whose binaries grow most, where that is
%% `holder_share' of the growth. By the looks: also one that holds what others hold, too, or has it
%% in its mailbox. By samples: a process whose binaries grow without a fall for `span_us'.
-spec most(Grown :: number(), flame_prof_doctor_rule:evidence(),
    flame_prof_doctor_rule:thresholds()) -> {flame_prof_doctor_rule:process(), held()} | none.
most(Grown, #{binaries := #{growing := [#{grown := Most, kind := Kind} = Holder | _]} = Look},
    #{holder_share := Share}) when Most >= Share * Grown
->
    #{names := Names} = Look,
    Pid = maps:get(case Kind of process -> process; table -> owner end, Holder),
    {#{pid => flame_prof_doctor_rule:pid(Pid), name => named(maps:get(Pid, Names, #{}))}, Holder};
most(Grown, #{samples := #{processes := Processes}}, Limits) ->
    #{holder_share := Share, span_us := LeastUs} = Limits,
    Growing = [
        {To - From, flame_prof_doctor_samples:process(Process)}
     || #{bin_vheap := [_ | _] = Series} = Process <- Processes,
        #{from := From, to := To} <- [flame_prof_doctor_series:growth(Series, LeastUs)],
        To - From >= Share * Grown
    ],
    case lists:reverse(lists:keysort(1, Growing)) of
        [{Most, Process} | _] -> {Process, #{share => min(1.0, Most / Grown)}};
        [] -> none
    end.

%% @doc A sentence on how much it holds; or on what else may.
-spec held({flame_prof_doctor_rule:process(), held()} | none, BytesPerS :: number(),
    flame_prof_doctor_rule:evidence()) -> unicode:chardata().
held(none, BytesPerS, Evidence) -> elsewhere(BytesPerS, Evidence);
held({_, #{grown := Grown, binaries := N, bytes := Bytes}}, _, _) ->
    ["It holds ", bytes(Grown), " more than at the first look: ", bytes(Bytes), " in ", number(N),
        " binaries."];
held({_, #{share := Share}}, _, _) ->
    ["Its binaries grow by ", share(Share), " of that, without a fall."].

%% @doc A sentence on parts that keep whole binaries. What it shows of them is known of a process
%% that stood still.
-spec pins({flame_prof_doctor_rule:process(), held()} | none) -> unicode:chardata().
pins({_, #{pins := [#{path := Path, bytes := Bytes, shown_bytes := Shown} | _]}}) ->
    ["Parts of them, ", bytes(Shown), " of ", bytes(Bytes), ", keep them whole (", Path,
        "); binary:copy/1 does not."];
pins({_, #{pins := []}}) ->
    "";
pins({_, #{kind := table}}) ->
    "";
pins(_) ->
    "Small parts of large binaries may keep these whole; binary:copy/1 would not.".

%% Where no process holds them. The binaries of a table do not count as its memory: one that
%% gets enough objects for the growth is named.
elsewhere(BytesPerS, Evidence) ->
    case filled(BytesPerS, Evidence) of
        {PerS, #{name := Table, owner := Pid} = Fields} ->
            Owner = #{pid => flame_prof_doctor_rule:pid(Pid),
                name => flame_prof_doctor_rule:text(maps:get(owner_name, Fields, undefined))},
            [?NOBODY, " The ETS table ", atom_to_binary(Table), " of ", name(Owner), " gets ",
                number(PerS), " objects a second in that time."];
        none ->
            ?NOBODY
    end.

filled(BytesPerS, Evidence) ->
    #{tables := Tables} = maps:get(tables, Evidence, #{tables => []}),
    case lists:reverse(lists:sort([{PerS, Table}
        || #{growth := #{objects_per_s := PerS}} = Table <- Tables,
            PerS >= 1, PerS * ?OBJECT_BYTES_MOST >= BytesPerS]))
    of
        [Most | _] -> Most;
        [] -> none
    end.

%% @doc Those of these sentences.
-spec numbers({flame_prof_doctor_rule:process(), held()} | none, BytesPerS :: number(),
    flame_prof_doctor_rule:evidence()) -> #{atom() => number()}.
numbers(none, BytesPerS, Evidence) ->
    case filled(BytesPerS, Evidence) of
        {PerS, _} -> #{table_objects_per_second => PerS};
        none -> #{}
    end;
numbers({_, Held}, _, _) ->
    Own = maps:from_list([{To, N} || {From, To} <- [{grown, holder_grown}, {bytes, holder_bytes},
        {binaries, holder_binaries}, {share, holder_share}], #{From := N} <- [Held]]),
    Pins = [Pin || #{pins := [Pin | _]} <- [Held]],
    maps:merge(Own, maps:from_list([{To, N} || Pin <- Pins, {From, To} <- [{bytes, pinned_bytes},
        {shown_bytes, shown_bytes}], #{From := N} <- [Pin]])).

%% @doc As it is known; empty where it is not.
-spec named(map()) -> binary().
named(#{registered_name := Name}) -> flame_prof_doctor_rule:text(Name);
named(#{initial_call := Call}) -> flame_prof_doctor_rule:text(Call);
named(_) -> <<>>.
