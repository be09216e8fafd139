%% @private What a file is that has no sample, and what makes a profile of it: an error that says
%% `no profile' of a file of perf helps nobody.
-module(flame_prof_foreign_file).

-export([name/1, kind/1]).

-define(HEAD_BYTES, 65536).

%% @doc A sentence. Of a file that cannot be read, and of unknown bytes, that it is no profile.
-spec name(file:name_all()) -> binary().
name(Path) ->
    case kind(Path) of
        {ok, Sentence} -> Sentence;
        unknown -> <<"it is no profile, or damaged">>
    end.

%% @doc The sentence about a file of a known kind.
-spec kind(file:name_all()) -> {ok, binary()} | unknown.
kind(Path) ->
    case file:open(Path, [read, raw, binary]) of
        {ok, Device} ->
            Read = file:read(Device, ?HEAD_BYTES),
            ok = file:close(Device),
            case Read of
                {ok, Bytes} -> of_bytes(unpacked(Bytes));
                _ -> unknown
            end;
        {error, _} ->
            unknown
    end.

%% As much as there is of a member of gzip.
unpacked(<<16#1f8b:16, _/binary>> = Bytes) ->
    Z = zlib:open(),
    try
        ok = zlib:inflateInit(Z, 31),
        case zlib:safeInflate(Z, Bytes) of
            {_, Text} -> iolist_to_binary(Text);
            _ -> Bytes
        end
    catch
        error:_ -> Bytes
    after
        zlib:close(Z)
    end;
unpacked(Bytes) ->
    Bytes.

of_bytes(<<16#0a, Size, 16#08, _/binary>>) when Size < 16 ->
    {ok, <<"it is a profile of pprof, whose samples have no times: `go tool pprof' reads it">>};
of_bytes(Bytes) ->
    case [Kind || {Pattern, Kind} <- patterns(),
        re:run(Bytes, Pattern, [{capture, none}]) =:= match] of
        [Kind | _] -> {ok, iolist_to_binary(Kind)};
        [] -> of_perf(Bytes)
    end.

%% The first one that matches. A stack of collapsed ones has no blank but in a name between
%% semicolons; its weight may have a fraction, and a second one stands behind it in a difference.
patterns() ->
    [
        {"\\APERFILE2",
            "it is a recording of perf: `perf script -i FILE > FILE.txt' makes text of it, and "
            "`perf inject --jit' before that if the VM runs with +JPperf"},
        {"\\A(?:\\xff\\xfe|\\xfe\\xff)",
            "it is UTF-16: `iconv -f UTF-16 -t UTF-8 FILE > FILE.txt' makes UTF-8 of it"},
        {"\\ASIMPLEPERF",
            "it is a recording of simpleperf: `report_sample.py' makes text of it"},
        {"\\APK\\x03\\x04", "it is a ZIP archive: `unzip' writes the files that are in it"},
        {"\\A=erl_crash_dump:", "it is a crash dump of a VM: `cdv' of Erlang/OTP opens it"},
        {"\\A%% Analysis results:", "it is an analysis of fprof, whose calls have no times"},
        {"^\\s*\\{[^\\0]*(?:speedscope\\.app/file-format|\"exporter\": ?\"speedscope)",
            "it is a profile of speedscope, which opens it"},
        {"^\\s*\\{[^\\0]*(?:\"preprocessedProfileVersion\"|\"meta\": ?\\{[^}]*\"(?:version|interval)\")",
            "it is a profile of the Firefox Profiler, which opens it"},
        {"^\\s*[\\[{][^\\0]*\"(?:traceEvents|ph)\"", "it is a trace of Chrome: Perfetto opens it"},
        {"^\\s*[\\[{]\\s*[\\[{\"]", "it is JSON: `perf script' output is text"},
        {"(?i)^\\s*<(?:\\?xml[^>]*>\\s*<)?(?:!doctype (?:html|svg)|html|svg)",
            "it is a page, such as a flame graph or a report: a browser opens it"},
        {"(?m)^# (?:Overhead|Children) ",
            "it is a table of `perf report': `perf script' prints the samples"},
        {"\\A(?:(?:#|//).*\\n)*[^;\\n]+(?:;[^;\\n]+)+(?: [0-9]+\\.?[0-9]*){1,2}\\r?(?:\\n|\\z)",
            "it has collapsed stacks, which have no times: flamegraph.pl, inferno and speedscope "
            "read them"}
    ].

%% What `perf script' leaves out if its option -F does not name it.
of_perf(Bytes) ->
    Has = fun(Pattern) -> re:run(Bytes, ["(?m)", Pattern], [{capture, none}]) =:= match end,
    HasTimes = Has("^[^\\t\\n][^\\n]*?\\b[0-9]+\\.[0-9]{6,9}:(?: |$)"),
    HasNames = Has("^ *\\S[^\\n]*? [0-9]+(?:/[0-9]+)? [^\\n]*?\\b[0-9]+\\.[0-9]{6,9}:(?: |$)"),
    %% perf writes addresses in 16 columns.
    case Has("^(?:[ \\t]*[0-9a-f]{9,}|\\t? {7,}[0-9a-f]{1,8}) [^\\n]+ \\([^\\n]*\\)$") of
        true when not HasTimes -> lacks("stacks without times");
        true when not HasNames -> lacks("stacks without commands and threads");
        false when HasNames -> lacks("times without stacks");
        _ -> unknown
    end.

lacks(What) ->
    {ok, iolist_to_binary(["it has ", What,
        ": `perf script -F comm,pid,tid,time,period,event,ip,sym,dso' prints all"])}.
