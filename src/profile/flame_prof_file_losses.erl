%% @private What is not in a profile: damaged parts of its files, and what the sessions that wrote
%% them missed.
-module(flame_prof_file_losses).

-export([read/3, refused/1, is_whole/1, texts/1, counted/1, events/1, periods/1]).

-import(flame_prof_text, [grouped/1, plural/1]).

%% Of the ticks or of the samples of a session, below which a table or an export does not tell.
-define(TOLD_PERCENT, 1).

%% @doc Calls Use with the profile of these files, and closes the profile afterwards. Limits are
%% options of {@link flame_prof_profile:read/2}. Refused as by {@link refused/1}.
-spec read(
    flame_prof_samples:files(),
    map(),
    fun((flame_prof_profile:profile()) -> {ok, Result} | {error, flame_prof:reason()})
) -> {ok, Result} | {error, flame_prof:reason()}.
read(Files, Limits, Use) ->
    case flame_prof_profile:read(Files, Limits) of
        {ok, Profile} ->
            try refused(flame_prof_profile:info(Profile)) of
                ok -> Use(Profile);
                {error, _} = Error -> Error
            after
                flame_prof_profile:close(Profile)
            end;
        {error, _} = Error ->
            Error
    end.

%% @doc An error where no sample of any file can be read, although they are not empty.
-spec refused(flame_prof_profile:info()) -> ok | {error, flame_prof:reason()}.
refused(#{files := [First | _] = Files}) ->
    case lists:all(fun is_no_profile/1, Files) of
        true ->
            {error, {file, #{file => maps:get(path, First), reason => none_of(First)}}};
        false ->
            ok
    end;
refused(_) ->
    ok.

is_no_profile(#{dialect := Dialect} = File) ->
    Dialect =:= none andalso not is_whole(File).

-spec is_whole(flame_prof_profile:file()) -> boolean().
is_whole(#{bad := Bad, damaged := Damaged, cut_off := CutOff}) ->
    Bad =:= 0 andalso Damaged =:= 0 andalso not CutOff.

%% @doc Sentences: what is left out of each file, and, where it may change a picture, what the
%% sessions missed.
-spec texts(flame_prof_profile:info()) -> [unicode:chardata()].
texts(#{files := Files} = Info) ->
    [[Path, ": ", damage(File)] || #{path := Path} = File <- Files, not is_whole(File)]
        ++ [[Path, ": perf has lost ", grouped(Lost), " event", plural(Lost)]
            || #{path := Path, perf_lost := Lost} <- Files, Lost > 0]
        ++ events(Info)
        ++ [["the sessions missed ", Text] || Text <- missed(Files, ?TOLD_PERCENT)]
        ++ in_step(sessions(Files)).

%% Where a program fills its heap with the same terms again and again, each look meets the same
%% function.
in_step(Ends) ->
    {InStep, Words} = {sum([<<"in_step_words">>], Ends), sum([<<"words">>], Ends)},
    [[grouped(InStep), " of ", grouped(Words), " words are of processes that are collected after "
        "the same number of words each time: do not trust the shares of their functions"]
        || is_much(InStep, Words, ?TOLD_PERCENT)].

damage(#{dialect := none} = File) ->
    none_of(File);
damage(#{bad := Bad, damaged := Damaged, cut_off := CutOff}) ->
    lists:join(", ",
        [[grouped(Bad), " damaged sample", plural(Bad), " left out"] || Bad > 0] ++
        ["its end is cut off" || CutOff] ++
        [["text is missing at ", grouped(Damaged), " place", plural(Damaged)] || Damaged > 0]).

none_of(File) ->
    <<"no sample of it can be read: ", (why_none(File))/binary>>.

why_none(#{cut_off := true}) -> <<"the compressed file is cut off before its first sample ends">>;
why_none(#{damaged := Damaged}) when Damaged > 0 -> <<"the compressed file is damaged">>;
why_none(#{path := Path}) -> flame_prof_foreign_file:name(Path).

%% @doc Which event is shown, if there are others: their samples count different things.
-spec events(#{atom() => term()}) -> [unicode:chardata()].
events(#{event := all, event_samples := Samples}) when map_size(Samples) > 1 ->
    [["samples of different events are added up: ",
        lists:join(", ", [of_event(One) || One <- maps:to_list(Samples)])]];
events(#{event := Event, event_samples := Samples, left_out := LeftOut}) when LeftOut > 0 ->
    Others = [Other || {Name, N} = Other <- maps:to_list(Samples), Name =/= Event, N > 0],
    Count = maps:get(Event, Samples),
    [["only ", grouped(Count), " sample", plural(Count), " of the event ", Event,
        case Count of 1 -> " is"; _ -> " are" end,
        " read; the option event selects another one, or all: ",
        lists:join(", ", [of_event(One) || One <- Others])]];
events(#{}) ->
    [].

of_event({Name, Samples}) -> [grouped(Samples), " of ", Name].

%% @doc Whether each sample counts as one although perf gives it a period of its own, as it does
%% with cycles and page faults.
-spec periods(#{atom() => term()}) -> [unicode:chardata()].
periods(#{periods_differ := true} = Info) ->
    ["periods differ: a sample is weighed as one, with the option by period as its period"
        || not flame_prof_query:is_of_allocations(Info)];
periods(#{}) ->
    [].

%% @doc What one file's session had missed until the end of the file; empty: nothing.
-spec counted(flame_prof_profile:file()) -> [unicode:chardata()].
counted(File) -> missed([File], 0).

missed(Files, Percent) ->
    Ends = sessions(Files),
    %% The second name is that of earlier files.
    {Missed, Ticks} = {sum([<<"missed">>], Ends), sum([<<"ticks">>, <<"missed">>], Ends)},
    {Attempted, Broken} =
        {sum([<<"attempted">>, <<"taken">>], Ends), sum([<<"inconsistent">>, <<"torn">>], Ends)},
    Dropped = sum([<<"dropped">>, <<"lost">>], Ends),
    {NotTold, Words} = {sum([<<"dropped_words">>], Ends), sum([<<"words">>], Ends)},
    [[grouped(Missed), " of ", grouped(Ticks), " ticks"] || is_much(Missed, Ticks, Percent)] ++
    [[grouped(Broken), " of ", grouped(Attempted), " samples, which were inconsistent"]
        || is_much(Broken, Attempted, Percent)] ++
    [[grouped(Dropped), " samples, for which there was no room"]
        || is_much(Dropped, Attempted, Percent)] ++
    [[grouped(NotTold), " of ", grouped(Words), " words, for whose samples there was no room"]
        || is_much(NotTold, Words, Percent)].

sum(Keys, Ends) ->
    lists:sum([maps:get(Key, End, 0) || End <- Ends, Key <- Keys]).

%% The last counters of each.
sessions(Files) ->
    ends(lists:sort([{node_of(File), First, counters(Own)}
        || #{own := Own, first_us := First} = File <- Files, Own =/= <<>>])).

is_much(Part, All, Percent) ->
    Part > 0 andalso 100 * Part >= Percent * All.

node_of(#{path := Path}) ->
    case flame_prof_log_name:parse(filename:basename(Path)) of
        {ok, #{node := Node}} -> {filename:dirname(Path), Node};
        error -> Path
    end.

%% Counters are those since a session's begin: of its files the last one has all. The next session
%% of a node begins with fewer ticks.
ends([{Node, _, Before}, {Node, Time, Counters} | More]) ->
    case begun(Counters) >= begun(Before) of
        true -> ends([{Node, Time, Counters} | More]);
        false -> [Before | ends([{Node, Time, Counters} | More])]
    end;
ends([{_, _, Last} | More]) -> [Last | ends(More)];
ends([]) -> [].

%% Of allocations there are no ticks.
begun(Counters) ->
    maps:get(<<"ticks">>, Counters, maps:get(<<"looks">>, Counters, 0)).

counters(Own) ->
    case re:run(Own, "([a-z_]+)=([0-9]+)/", [global, {capture, all_but_first, binary}]) of
        {match, Pairs} ->
            maps:from_list([{Key, binary_to_integer(Value)} || [Key, Value] <- Pairs]);
        nomatch ->
            #{}
    end.
