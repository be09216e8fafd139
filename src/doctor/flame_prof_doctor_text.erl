%% @private A diagnosis for people and for machines.
-module(flame_prof_doctor_text).

-export([format/1, format/2, json/1, looked_at/1, why_not_judged/1]).

-export_type([looked_at/0]).

-type looked_at() ::
    #{
        node := node() | none,
        engine := flame_prof_engine:name(),
        span_us := non_neg_integer(),
        processes => non_neg_integer(),
        sampled => non_neg_integer(),
        observations => non_neg_integer(),
        looks => non_neg_integer(),
        uptime_ms => non_neg_integer(),
        may_be_start => true,
        seen := [flame_prof_doctor_rule:needs()]
    }.
%% `processes' of the node, of which so many were `sampled'; `looks' at waits. `may_be_start': what
%% grows may be what the node starts with.

%% A shorter look does not judge what has to last.
-define(SHORT_US, 6000000).

-type evidence() :: flame_prof_doctor_rule:evidence().

%% @doc How much was seen, without what was seen.
-spec looked_at(evidence()) -> looked_at().
looked_at(#{node := Node, engine := Engine, span_us := Us} = Evidence) ->
    Keys = [seconds, samples, waits, standing, mailboxes, memory, tables, binaries, os, system],
    maps:from_list(
        [{node, Node}, {engine, Engine}, {span_us, span(Us, Evidence)},
            {seen, [Key || Key <- Keys, is_map_key(Key, Evidence)]}] ++
            [{processes, N} || #{seconds := Seconds} <- [Evidence],
                #{node_processes := N} <- [lists:last(Seconds)]] ++
            [{sampled, length(Processes)}
                || #{samples := #{processes := Processes}} <- [Evidence]] ++
            [{observations, observations(Processes)}
                || #{samples := #{processes := Processes}} <- [Evidence]] ++
            [{looks, Looks} || #{waits := #{looks := Looks}} <- [Evidence]] ++
            [{uptime_ms, Ms} || #{start := #{uptime_ms := Ms}} <- [Evidence]]
    ).

span(0, #{samples := #{span_us := Us}}) -> Us;
span(Us, _) -> Us.

observations(Processes) ->
    lists:sum([N || #{observations := N} <- Processes]).

%% @doc The node's name is in commands, where it is known.
-spec format(flame_prof_doctor:diagnosis()) -> unicode:chardata().
format(Diagnosis) ->
    format(Diagnosis, #{}).

%% @doc `node': what stands for `NODE' in commands, else the node that was looked at. `few': at most
%% so many findings, the others are counted, and nothing is said of what was not seen.
-spec format(flame_prof_doctor:diagnosis(), #{node => string(), few => pos_integer()}) ->
    unicode:chardata().
format(#{findings := [], looked_at := #{seen := []}} = Diagnosis, How) ->
    ["nothing was seen of the node, and nothing is judged\n" | unseen(Diagnosis, How)];
format(#{findings := []} = Diagnosis, How) ->
    Said = case why_not_judged(Diagnosis) of
        too_short when is_map_key(few, How) -> "nothing is wrong: ";
        none -> "nothing is wrong: ";
        too_short -> "nothing was found, and much was not seen: ";
        not_sampled -> "nothing was found, and most was not seen: "
    end,
    [Said, looked(Diagnosis), "\n" | unseen(Diagnosis, How)];
format(#{findings := Findings} = Diagnosis, Given) ->
    How = maps:merge(named(Diagnosis), Given),
    Most = maps:get(few, How, length(Findings)),
    {Told, More} = lists:split(min(Most, length(Findings)), Findings),
    Numbered = lists:zip(lists:seq(1, length(Told)), Told),
    [
        lists:join("\n", [finding(N, Finding, How) || {N, Finding} <- Numbered]),
        [["\nand ", integer_to_list(length(More)), " more\n"] || More =/= []],
        [["\n", looked(Diagnosis), "\n"] || not is_map_key(few, How)]
        | unseen(Diagnosis, How)
    ].

%% @doc Is a node without findings healthy? Most kinds are judged by samples, and a node that is too
%% busy to begin with them is not. Queues, hot functions and growth need some seconds.
-spec why_not_judged(flame_prof_doctor:diagnosis()) -> none | not_sampled | too_short.
why_not_judged(#{looked_at := #{seen := Seen, span_us := Us} = Looked}) ->
    case lists:member(samples, Seen) andalso maps:get(sampled, Looked, 1) > 0 of
        false -> not_sampled;
        true when Us < ?SHORT_US -> too_short;
        true -> none
    end.

finding(N, #{severity := Severity, kind := Kind, title := Title} = Finding, How) ->
    #{sentences := Sentences, command := Command} = Finding,
    [
        io_lib:format("~b. ~ts: ~ts: ", [N, Severity, Kind]),
        visible(Title), "\n",
        [["   ", visible(Sentence), "\n"] || Sentence <- Sentences],
        [["   ", visible(with_node(Command, How)), "\n"] || not is_empty(Command)]
    ].

is_empty(Text) -> string:is_empty(Text).

%% What a process is called may have that word in it, and comes later.
with_node(Command, #{node := Node}) -> string:replace(Command, "NODE", Node);
with_node(Command, #{}) -> Command.

%% One without a name cannot be reached.
named(#{looked_at := #{node := Node}}) when Node =/= none, Node =/= nonode@nohost ->
    #{node => atom_to_list(Node)};
named(_) ->
    #{}.

%% Names may have anything in them.
visible(Text) ->
    case unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary) -> flame_prof_text:visible(Binary);
        {_, Good, _} -> flame_prof_text:visible(Good)
    end.

%% Looked for 10 s: 100 of 1,204 processes sampled (52,000 observations), 11 looks at waits.
looked(#{looked_at := #{span_us := 0, seen := []}}) ->
    "looked at its limits";
looked(#{looked_at := #{span_us := Us} = Looked}) ->
    Parts = [sampled(Looked) || is_map_key(sampled, Looked)] ++
        [[number(N), " look", flame_prof_text:plural(N), " at waits"]
            || #{looks := N} <- [Looked]] ++
        [["the ", Engine, " engine"] || {engine, Engine} <- engine(Looked)] ++
        [["the node started ", flame_prof_doctor_rule:seconds(1000 * Ms),
            " before: what grows may be what it starts with"]
            || #{uptime_ms := Ms, may_be_start := true} <- [Looked]],
    ["looked for ", flame_prof_doctor_rule:seconds(Us)
        | [[": " | lists:join(", ", Parts)] || Parts =/= []]];
looked(_) ->
    "evidence by hand".

engine(#{node := none}) -> [];
engine(#{engine := Engine}) -> [{engine, atom_to_list(Engine)}].

sampled(#{sampled := Sampled, observations := Observations} = Looked) ->
    Of = [[" of ", number(N)] || #{processes := N} <- [Looked]],
    [number(Sampled), Of, " processes sampled (", number(Observations), " observations)"].

number(N) -> flame_prof_text:grouped(N).

%% By reason: one reason often is that of many kinds.
unseen(_, #{few := _}) ->
    [];
unseen(#{findings := [_ | _], looked_at := #{seen := []}, unseen := [{_, Why} | _]}, _) ->
    ["nothing else is judged: ", visible(Why), "\n"];
unseen(#{unseen := Unseen}, _) ->
    Reasons = unique([Why || {_, Why} <- Unseen]),
    [
        ["not seen: ", lists:join(", ", [atom_to_list(K) || {K, W} <- Unseen, W =:= Why]), ": ",
            visible(Why), "\n"]
     || Why <- Reasons
    ].

unique([]) -> [];
unique([First | Rest]) -> [First | unique([Other || Other <- Rest, Other =/= First])].

%% @doc Texts are binaries; commands have the node's name, where it is known.
-spec json(flame_prof_doctor:diagnosis()) -> #{atom() => term()}.
json(#{findings := Findings, unseen := Unseen} = Diagnosis) ->
    maps:merge(maps:with([looked_at], Diagnosis), #{
        findings => [json_of(Finding, named(Diagnosis)) || Finding <- Findings],
        unseen => [#{kind => Kind, why => Why} || {Kind, Why} <- Unseen]
    }).

json_of(#{title := Title, sentences := Sentences, command := Command} = Finding, How) ->
    Range = [{range, [From, To]} || #{range := {From, To}} <- [Finding]],
    maps:merge(Finding#{
        title := visible(Title),
        sentences := [visible(Sentence) || Sentence <- Sentences],
        command := visible(with_node(Command, How))
    }, maps:from_list(Range)).
