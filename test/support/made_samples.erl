%% Files whose processes are functions of time: what a sampler sees of a story, so that tests know
%% the truth. flame_prof_doctor judges them.
%%
%%      Found = made_samples:judged([made_samples:holder(idle, fun(_) -> #{} end)], #{})
-module(made_samples).

-export([judged/1, judged/2, samples/1, text/2, file/3, holder/2, worker/2, worker/3, stack/2,
    stack/1]).

-export_type([state/0, story/0]).

%% Frames are functions, leaf first, `{Symbol, Dso}' where they are none of a module's.
-type state() :: #{
    status := atom(),
    stack := [string() | {string(), string()}],
    values => #{atom() => integer()},
    scheduler => non_neg_integer(),
    words => string()
}.
-type story() :: #{name := atom(), at := fun((Us :: integer()) -> state() | none)}.

-define(BEGIN_US, 1795237782000000).
-define(QUIET, #{reductions => 0, message_queue_len => 0, memory => 2640, bin_vheap_size => 0,
    bin_old_vheap_size => 0}).

judged(Stories) -> judged(Stories, #{}).

%% What the doctor finds in it.
-spec judged([story()], #{seconds => number(), tick_us => pos_integer(),
    own => [{Us :: integer(), #{atom() => integer()}}], own_words => string(),
    thresholds => map()}) -> [flame_prof_doctor_rule:finding()].
judged(Stories, Options) ->
    text_file:with(text(Stories, Options), fun(Path) ->
        {ok, Profile} = flame_prof_profile:read(Path),
        #{findings := Found} = flame_prof_doctor:of_profile(Profile,
            maps:get(thresholds, Options, #{})),
        ok = flame_prof_profile:close(Profile),
        [doctor_finding:checked(Finding) || Finding <- Found]
    end).

%% As a rule gets them.
-spec samples([story()]) -> flame_prof_doctor_samples:samples().
samples(Stories) ->
    text_file:with(text(Stories, #{}), fun(Path) ->
        {ok, Profile} = flame_prof_profile:read(Path),
        {ok, Samples} = flame_prof_doctor_samples:read(Profile),
        ok = flame_prof_profile:close(Profile),
        Samples
    end).

file(Path, Stories, Options) -> file:write_file(Path, text(Stories, Options)).

text(Stories, Options) ->
    Seconds = maps:get(seconds, Options, 10),
    TickUs = maps:get(tick_us, Options, 10000),
    Ticks = [N * TickUs || N <- lists:seq(0, trunc(Seconds * 1000000 / TickUs) - 1)],
    Numbered = lists:zip(lists:seq(100, 99 + length(Stories)), Stories),
    Samples = [{Us, sample(N, Name, Us, At(Us))} || Us <- Ticks,
        {N, #{name := Name, at := At}} <- Numbered],
    Own = [{Us, own(Us, Values, maps:get(own_words, Options, "options=rest "))}
        || {Us, Values} <- maps:get(own, Options, [])],
    [Text || {_, Text} <- lists:keymerge(1, Samples, Own)].

sample(_, _, _, none) -> [];
sample(N, Name, Us, #{status := Status, stack := Stack} = State) ->
    Values = maps:merge(?QUIET, maps:get(values, State, #{})),
    Scheduler = integer_to_list(maps:get(scheduler, State, 0)),
    Number = integer_to_binary(N),
    ["beam 42/", Number, " [", lists:duplicate(3 - length(Scheduler), $0), Scheduler, "] ",
        time(Us), $:, numbers(Values), " erl_pid=<0.", Number, ".0> ", name(Name),
        maps:get(words, State, ""), "cpu-clock:\n", [frame(Frame) || Frame <- Stack],
        "\tffffffff ", atom_to_binary(Status), " (status)\n\n"].

name('') -> "";
name(Name) -> ["name=", atom_to_binary(Name), " "].

own(Us, Values, Words) ->
    ["flame_prof 42/2147483647 [000] ", time(Us), $:, numbers(Values), " name=flame_prof "
        "engine=native format=2 node=a@b otp=25 version=0.1.0 ", Words, "cpu-clock:\n"
        "\tffffffff flame_prof_self (flame_prof)\n\tffffffff running (status)\n\n"].

%% No formats: a story has some ten thousand samples.
time(Us) ->
    At = integer_to_list(?BEGIN_US + Us),
    {Seconds, Part} = lists:split(length(At) - 6, At),
    [Seconds, $., Part].

numbers(Values) ->
    [[$ , atom_to_binary(K), $=, integer_to_binary(V), "/0"] || {K, V} <- maps:to_list(Values)].

frame({Symbol, Dso}) -> ["\tffffffff ", encoded(Symbol), " (", Dso, ")\n"];
frame(Symbol) -> frame({Symbol, [module(Symbol), ".erl"]}).

module(Symbol) -> lists:takewhile(fun(C) -> C =/= $: end, Symbol).
encoded(Symbol) -> [case C of $+ -> "%2B"; _ -> C end || C <- Symbol].

%% Of a process that has a module of its name.
stack(Name) -> stack(Name, []).
stack(Name, Leaf) ->
    Leaf ++ [atom_to_list(Name) ++ ":work/1:7", atom_to_list(Name) ++ ":init/1"].

%% Waits; the values are a function of seconds.
holder(Name, Values) ->
    #{name => Name, at => fun(Us) ->
        #{status => waiting, stack => stack(Name, ["timer:sleep/1"]), values => Values(Us / 1.0e6)}
    end}.

%% Each status for its share of the ticks, by a fixed shuffle; else it waits. Its reductions grow.
worker(Name, Shares) -> worker(Name, Shares, #{}).
worker(Name, Shares, More) ->
    #{name => Name, at => fun(Us) ->
        Place = ((Us div 10000 * 617) rem 1000) / 1000,
        Status = status(Place, Shares),
        maps:merge(#{status => Status, stack => stack(Name, ["lists:map/2:3"]),
            scheduler => case Status of running -> 1; _ -> 0 end,
            values => #{reductions => Us}}, More)
    end}.

status(Place, [{Status, Share} | _]) when Place < Share -> Status;
status(Place, [{_, Share} | Shares]) -> status(Place - Share, Shares);
status(_, []) -> waiting.
