%% @private The commands about files: hot, slow-calls, check and export.
-module(flame_prof_cli_files).

-export([do/2, progress/3, reading/1]).

-import(flame_prof_cli_out, [put/1]).
-import(flame_prof_text, [grouped/1, plural/1]).

-spec do(hot | 'slow-calls' | check | export, flame_prof_cli_args:parsed()) ->
    ok | damaged | {error, unicode:chardata()}.
do(check, #{arguments := Files} = Parsed) ->
    %% A directory's samples and allocations are no one profile, and may be checked together.
    case lists:partition(fun is_of_allocations/1, Files) of
        {[_ | _], [_ | _]} when map_get(json, Parsed) ->
            {error, "check --json takes files of one kind: samples (*.erl_perf.log.zst) or allocations "
                "(*.erl_alloc.log.zst)"};
        {[_ | _] = Allocations, [_ | _] = Samples} ->
            worst(read(check, Parsed#{arguments := Samples}),
                read(check, Parsed#{arguments := Allocations}));
        _ ->
            read(check, Parsed)
    end;
do(Command, Parsed) ->
    read(Command, Parsed).

is_of_allocations(File) ->
    case flame_prof_samples:path(File) of
        {ok, Path} ->
            case flame_prof_log_name:parse(filename:basename(Path)) of
                {ok, #{kind := Kind}} -> Kind =:= allocations;
                error -> false
            end;
        {error, _} ->
            false
    end.

worst({error, _} = Error, _) -> Error;
worst(_, {error, _} = Error) -> Error;
worst(ok, ok) -> ok;
worst(_, _) -> damaged.

read(Command, #{arguments := Files} = Parsed) ->
    case flame_prof_profile:read(Files, reading(Parsed)) of
        {ok, Profile} ->
            ok = flame_prof_cli_out:progress_done(),
            told(Command, Profile, Parsed);
        {error, Reason} ->
            failed(Reason)
    end.

%% @doc Options of {@link flame_prof_profile:read/2}.
-spec reading(flame_prof_cli_args:parsed()) -> flame_prof_profile:options().
reading(Parsed) ->
    maps:from_list([{progress, fun progress/3}] ++
        [{max_memory, Megabytes bsl 20} || #{max_memory := Megabytes} <- [Parsed]] ++
        [{event, event(Name)} || #{event := Name} <- [Parsed]]).

event("all") -> all;
event("first") -> first;
event(Name) -> Name.

%% @doc While files are read, by the process that runs the command. Does not come back
%% when it was interrupted.
-spec progress(file:name_all(), non_neg_integer(), non_neg_integer()) -> ok.
progress(File, Read, Size) ->
    flame_prof_cli:was_interrupted() andalso throw(interrupted),
    flame_prof_cli_out:progress([
        io_lib:format("~ts: ~b of ~b MB read", [File, Read bsr 20, Size bsr 20])
    ]).

told(check, Profile, Parsed) ->
    with(check, Profile, Parsed);
told(Command, Profile, Parsed) ->
    #{files := Files} = Info = flame_prof_profile:info(Profile),
    case flame_prof_file_losses:refused(Info) of
        {error, Reason} ->
            failed(Reason);
        ok ->
            Done = with(Command, Profile, Parsed),
            lists:foreach(fun flame_prof_cli_out:say/1, losses(Command, Info, Parsed)),
            and_whole(Done, Files)
    end.

%% The table of `hot' has the rest.
losses(hot, Info, _Parsed) ->
    flame_prof_file_losses:texts(Info) -- flame_prof_file_losses:events(Info);
losses(export, Info, Parsed) when not is_map_key(by, Parsed) ->
    flame_prof_file_losses:texts(Info) ++ flame_prof_file_losses:periods(Info);
losses(_Command, Info, _Parsed) ->
    flame_prof_file_losses:texts(Info).

and_whole(ok, Files) ->
    case lists:all(fun flame_prof_file_losses:is_whole/1, Files) of
        true -> ok;
        false -> damaged
    end;
and_whole({error, _} = Error, _Files) ->
    Error.

with(hot, Profile, Parsed) ->
    case flame_prof_tree:of_profile(Profile, options(flame_prof_tree, Parsed)) of
        {ok, Report} -> shown(Report, Parsed);
        {error, Reason} -> failed(Reason)
    end;
with('slow-calls', Profile, Parsed) ->
    Options = maps:merge(#{top => 20}, options(flame_prof_slow_calls, Parsed)),
    case {flame_prof_slow_calls:found(Profile, Options), Parsed} of
        {{ok, Found}, #{json := true}} ->
            json(flame_prof_slow_calls, flame_prof_slow_calls:json(Found));
        {{ok, Found}, _} ->
            put(flame_prof_slow_calls:format(Found, flame_prof_cli_out:columns()));
        {{error, Reason}, _} -> failed(Reason)
    end;
with(check, Profile, Parsed) ->
    #{files := Files} = Info = flame_prof_profile:info(Profile),
    ok =
        case Parsed of
            #{json := true} -> json(Info);
            _ -> checked(Info)
        end,
    and_whole(ok, Files);
with(export, Profile, #{as := Format, arguments := [First | _]} = Parsed) ->
    Options = maps:with([by, group_by, lines, chains, from, to, status,
        process], Parsed),
    Path = maps:get(output, Parsed, First ++ extension(Format)),
    exported(Profile, Format, Path, Options, Parsed).

shown(Report, #{json := true}) ->
    json(flame_prof_tree, flame_prof_tree:json(Report));
shown(Report, _) ->
    put(flame_prof_tree:format(Report, flame_prof_cli_out:columns(), "--idle")).

%% The options of the reading were those of read/2.
options(Look, Parsed) ->
    Given = flame_prof_cli_look_options:given(Look, Parsed),
    maps:without([files, max_memory, event], Given).

json(Look, Json) ->
    json(flame_prof_look:envelope(Look, none, Json)).

json(Term) ->
    put([flame_prof_json:encode(Term), "\n"]).

failed({bad_option, #{option := by, value := Metric, accepted := Accepted}}) ->
    {error, {usage, ["--by: no metric ", Metric, "; it takes ", Accepted]}};
failed({bad_option, #{option := process, value := Name, accepted := Accepted}}) ->
    {error, {usage, ["--process: no process ", Name, "; it takes ", Accepted]}};
failed({bad_option, #{option := chains, accepted := Accepted}}) ->
    {error, {usage, ["--chains: it takes ", Accepted]}};
failed({bad_option, #{option := group_by, accepted := Accepted}}) ->
    {error, {usage, ["--group-by: it takes ", Accepted]}};
failed({bad_option, #{option := event, value := Event, accepted := Accepted}}) ->
    {error, {usage, ["--event: no sample of ", Event, "; it takes ", Accepted]}};
failed({bad_option, #{option := Option, accepted := Accepted}}) when
    Option =:= from; Option =:= to
->
    {error, {usage, ["--", atom_to_list(Option), ": it takes ", Accepted]}};
failed(Reason) ->
    {error, flame_prof:format_error(Reason)}.

%% check

%% A file that is not a profile has no sample that could be damaged: one line of it is shown.
checked(#{files := Files, warnings := Warnings} = Info) ->
    Known = maps:from_list([{Path, Kind}
        || #{path := Path} = File <- Files, {ok, Kind} <- [foreign(File)]]),
    put([
        [file(File, Known) || File <- Files],
        totals(Info),
        [warning(Warning) || {Path, _, _} = Warning <- Warnings, not is_map_key(Path, Known)],
        [warning(lists:min(Lines)) || Path <- maps:keys(Known),
            [_ | _] = Lines <- [[Warning || {File, _, _} = Warning <- Warnings, File =:= Path]]]
    ]).

foreign(#{path := Path, dialect := none} = File) ->
    case flame_prof_file_losses:is_whole(File) of
        true -> unknown;
        false -> flame_prof_foreign_file:kind(Path)
    end;
foreign(_File) ->
    unknown.

file(#{path := Path}, Known) when is_map_key(Path, Known) ->
    [Path, ": ", flame_prof_cli_out:bold("no profile"), "\n  ", maps:get(Path, Known), "\n"];
file(File, _Known) ->
    file(File).

file(#{path := Path, dialect := Dialect, compression := Compression} = File) ->
    #{bytes := Bytes, text := Text, samples := Samples, observations := All, bad := Bad} = File,
    #{first_us := First, last_us := Last, cut_off := CutOff, damaged := Damaged} = File,
    #{lost_text := Lost, perf_messages := Lines, perf_lost := Events} = File,
    [
        [Path, ": ", verdict(flame_prof_file_losses:is_whole(File), File), "\n"],
        io_lib:format("  ~ts, ~ts, ~ts bytes", [dialect(Dialect), Compression, grouped(Bytes)]),
        [[" of ", grouped(Text), " bytes of text"] || Compression =/= plain, Text > 0],
        ["\n  ", grouped(Samples), " sample", plural(Samples)],
        [[" of ", grouped(All), " observations"] || All > Samples],
        [[", ", time(First), " to ", time(Last)] || Samples > 0],
        "\n",
        [["  ", grouped(Lines), " line", plural(Lines), " of perf's own beside the samples\n"]
            || Lines > 0],
        [["  lost: ", grouped(Bad), " damaged sample", plural(Bad), "\n"] || Bad > 0],
        ["  lost: the end is cut off\n" || CutOff],
        [["  lost: text at ", grouped(Damaged), " damaged place", plural(Damaged), "\n"]
            || Damaged > 0],
        [["  lost: ", grouped(Lost), " bytes of text of these frames\n"] || Lost > 0],
        [["  lost: ", grouped(Events), " event", plural(Events), ", as perf says\n"] || Events > 0],
        [["  the session missed: ", Part, "\n"] || Part <- flame_prof_file_losses:counted(File)]
    ].

verdict(true, _File) ->
    "whole";
verdict(false, #{dialect := none, damaged := 0, cut_off := false}) ->
    flame_prof_cli_out:bold("no profile, or damaged");
verdict(false, _File) ->
    flame_prof_cli_out:bold("damaged").

dialect(none) -> "no samples";
dialect(flame_prof) -> "flame_prof";
dialect(original_flame_prof) -> "the original flame_prof";
dialect(perf) -> "perf script".

time(Us) ->
    calendar:system_time_to_rfc3339(Us, [{unit, microsecond}, {offset, "Z"},
        {time_designator, $\s}]).

totals(#{stacks := Stacks, metrics := Metrics, is_ordered := IsOrdered} = Info) ->
    #{processes := Processes} = Info,
    [
        [grouped(Processes), " process", [["es"] || Processes =/= 1], ", "],
        [grouped(Stacks), " stack", plural(Stacks), ", "],
        [grouped(length(Metrics)), " metric", plural(length(Metrics)), "\n"],
        [[Note, "\n"] || Note <- flame_prof_file_losses:events(Info)
            ++ flame_prof_file_losses:periods(Info)],
        ["they are allocations: a sample weighs words of 8 bytes\n"
            || flame_prof_query:is_of_allocations(Info)],
        ["times go back in it: some tools want them in order\n" || not IsOrdered]
    ].

warning({File, 0, What}) -> [File, ": ", What, "\n"];
warning({File, Line, What}) -> [File, io_lib:format(":~b: ", [Line]), What, "\n"].

%% export

extension(collapsed) -> ".collapsed.txt";
extension(perf) -> ".perf.txt";
extension(speedscope) -> ".speedscope.json";
extension(pprof) -> ".pb.gz";
extension(firefox) -> ".firefox.json.gz".

%% The library writes files only, whole or not at all.
exported(Profile, Format, "-", Options, _Parsed) ->
    Folder = os:getenv("TMPDIR", "/tmp"),
    Path = filename:join(Folder, ["flame_prof_export_", os:getpid(), extension(Format)]),
    try flame_prof_profile:export(Profile, Format, Path, Options) of
        {ok, Facts} ->
            ok = warned(Facts, "the export", Options),
            streamed(file:open(Path, [read, raw, binary]), Path);
        {error, Reason} -> failed(Reason)
    after
        file:delete(Path)
    end;
exported(Profile, Format, Path, Options, Parsed) ->
    case flame_prof_profile:export(Profile, Format, Path, Options) of
        {ok, Facts} ->
            ok = warned(Facts, Path, Options),
            said(Facts#{file => unicode:characters_to_binary(Path)}, Parsed);
        {error, Reason} -> failed(Reason)
    end.

%% A metric may be 0 in all samples.
warned(#{samples := 0}, Path, Options) -> warned(Path, Options);
warned(#{total := 0}, Path, Options) -> warned(Path, Options);
warned(_Facts, _Path, _Options) -> ok.

warned(Path, Options) ->
    flame_prof_cli_out:say([Path, " is empty: no sample that was selected ", weighs(Options)]).

weighs(#{by := Metric}) when Metric =/= samples -> ["weighs anything by ", metric(Metric)];
weighs(_) -> "is in these files".

metric([Metric | _]) -> metric(Metric);
metric({value, Name}) -> metric(Name);
metric({delta, Name}) -> ["the change of ", metric(Name)];
metric(Name) when is_atom(Name) -> atom_to_binary(Name);
metric(Name) -> Name.

said(Facts, #{json := true}) -> json(Facts);
said(#{file := File, bytes := Bytes}, _) -> put([File, ": ", grouped(Bytes), " bytes\n"]).

%% Gone as soon as it is open: also when the reader goes away.
streamed({ok, Device}, Path) ->
    ok = file:delete(Path),
    copied(Device).

copied(Device) ->
    case file:read(Device, 1 bsl 16) of
        {ok, Bytes} ->
            ok = flame_prof_cli_out:put_bytes(Bytes),
            copied(Device);
        eof ->
            file:close(Device);
        {error, Reason} ->
            {error, file:format_error(Reason)}
    end.
