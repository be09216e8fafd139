%% @private What grows steadily in the figures of a node, for rules of growth.
-module(flame_prof_doctor_growth).

-export([unseen/1, unseen_of_code/1, is_missing/2, steady/2, settled/1, sentences/4, until/2]).

-export_type([growth/0]).

-type growth() :: #{from := number(), to := number(), change := number(), per_s := float(),
    looks := pos_integer(), parts := pos_integer(), span_us := pos_integer()}.

-define(PARTS, 5).
%% In less time the node still has what the doctor's own first looks made: atoms, code.
-define(LOOKS_LEAST, 6).
%% Of the growth, in the second half of the time: what decays comes to rest.
-define(SECOND_HALF, 0.3).

%% @doc The span is taken in five parts. The least value of each part is above that of the part
%% before, and much of the growth is in the second half: what goes up and down, goes up once, or
%% comes to rest does not grow steadily. Six looks at least are needed: six seconds.
-spec steady(atom(), [flame_prof_doctor_rule:second()]) -> growth() | none.
steady(Key, Seconds) ->
    Values = [{Us, Value} || #{time_us := Us, Key := Value} <- Seconds],
    case is_long(Values) of
        true -> grown(lists:sort(Values), length(Values), ?PARTS);
        false -> none
    end.

%% @doc Are there too few looks to tell growth? Files have fewer figures, and rules of their own.
-spec unseen(flame_prof_doctor_rule:evidence()) -> binary() | none.
unseen(#{node := Node, seconds := Seconds}) when Node =/= none ->
    case is_long(Seconds) of
        true -> none;
        false -> <<"the look is too short for growth: that needs six seconds">>
    end;
unseen(_) ->
    none.

%% @doc The same of what flame_prof's own modules make while they are loaded: code, and atoms.
-spec unseen_of_code(flame_prof_doctor_rule:evidence()) -> binary() | none.
unseen_of_code(#{seconds := Seconds} = Evidence) ->
    case {unseen(Evidence), is_long(settled(Seconds))} of
        {none, false} when length(Seconds) >= ?LOOKS_LEAST ->
            <<"modules of flame_prof were still being loaded: repeat the look">>;
        {Unseen, _} -> Unseen
    end.

%% @doc Without the seconds in which modules of flame_prof itself were still to be loaded.
-spec settled([flame_prof_doctor_rule:second()]) -> [flame_prof_doctor_rule:second()].
settled(Seconds) ->
    case Seconds =/= [] andalso lists:last(Seconds) of
        #{own_modules := All} -> [Second || #{own_modules := N} = Second <- Seconds, N =:= All];
        _ -> Seconds
    end.

is_long(Looks) -> length(Looks) >= ?LOOKS_LEAST.

%% @doc Do so few seconds have the figure that they do not tell its growth, while others do?
-spec is_missing(atom(), [flame_prof_doctor_rule:second()]) -> boolean().
is_missing(Key, Seconds) ->
    length([Key || #{Key := _} <- Seconds]) < min(?LOOKS_LEAST, length(Seconds)).

grown(Values, N, Parts) ->
    Least = [least(Part, N, Parts, Values) || Part <- lists:seq(0, Parts - 1)],
    {FirstUs, From} = hd(Values),
    {LastUs, To} = lists:last(Values),
    Us = LastUs - FirstUs,
    {_, Middle} = lists:nth((N + 1) div 2, Values),
    case Us > 0 andalso is_rising(Least) andalso To - Middle >= ?SECOND_HALF * (To - From) of
        true -> #{from => From, to => To, change => To - From, per_s => (To - From) * 1.0e6 / Us,
            looks => N, parts => Parts, span_us => Us};
        false -> none
    end.

least(Part, N, Parts, Values) ->
    First = Part * N div Parts,
    Next = (Part + 1) * N div Parts,
    lists:min([Value || {_, Value} <- lists:sublist(Values, First + 1, Next - First)]).

is_rising([A, B | Rest]) -> A < B andalso is_rising([B | Rest]);
is_rising(_) -> true.

%% @doc `Shown' writes a number with its unit. The last says why we say so.
-spec sentences(What :: unicode:chardata(), growth(), fun((number()) -> unicode:chardata()),
    More :: [unicode:chardata()]) -> [unicode:chardata(), ...].
sentences(What, #{from := From, to := To, per_s := PerS, span_us := Us} = Growth, Shown, More) ->
    #{looks := Looks, parts := Parts} = Growth,
    [
        io_lib:format("~ts grew from ~ts to ~ts in ~ts, ~ts a second.", [What, Shown(From),
            Shown(To), flame_prof_doctor_rule:seconds(Us), Shown(PerS)])
        | More
    ] ++ [io_lib:format("It grew in each of ~b parts of that time, seen in ~b looks.", [Parts,
        Looks])].

%% @doc Seconds until so much is reached at that rate.
-spec until(number(), growth()) -> float().
until(Limit, #{to := To, per_s := PerS}) -> max(0, Limit - To) / PerS.
