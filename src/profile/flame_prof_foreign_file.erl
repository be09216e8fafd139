%% @private What a file is that has no sample, and what makes a profile of it: an error that says
%% `no profile' of a file of perf helps nobody.
-module(flame_prof_foreign_file).

-export([name/1]).

-define(HEAD_BYTES, 65536).

%% @doc A sentence. Of a file that cannot be read, and of unknown bytes, that it is no profile.
-spec name(file:name_all()) -> binary().
name(Path) ->
    iolist_to_binary(case file:open(Path, [read, raw, binary]) of
        {ok, Device} ->
            Read = file:read(Device, ?HEAD_BYTES),
            ok = file:close(Device),
            case Read of
                {ok, Bytes} -> named(unpacked(Bytes));
                _ -> unknown()
            end;
        {error, _} ->
            unknown()
    end).

unknown() -> "it is no profile, or damaged".

%% As much as there is of a member of gzip.
unpacked(<<16#1f8b:16, _/binary>> = Bytes) ->
    Z = zlib:open(),
    try
        ok = zlib:inflateInit(Z, 31),
        case zlib:safeInflate(Z, Bytes) of
            {_, Text} -> {gzip, iolist_to_binary(Text)};
            _ -> {plain, Bytes}
        end
    catch
        error:_ -> {plain, Bytes}
    after
        zlib:close(Z)
    end;
unpacked(Bytes) ->
    {plain, Bytes}.

named({_, <<"PERFILE2", _/binary>>}) ->
    "it is a recording of perf: `perf script -i FILE > FILE.txt' makes text of it, and `perf inject "
        "--jit' before that if the VM runs with +JPperf";
named({_, <<Mark:16, _/binary>>}) when Mark =:= 16#fffe; Mark =:= 16#feff ->
    "it is UTF-16: `iconv -f UTF-16 -t UTF-8 FILE > FILE.txt' makes UTF-8 of it";
named({gzip, <<16#0a, Size, 16#08, _/binary>>}) when Size < 16 ->
    "it is a profile of pprof, whose samples have no times: `go tool pprof' reads it";
named({_, Bytes}) ->
    by_text([Kind || {Pattern, Kind} <- patterns(),
        re:run(Bytes, Pattern, [{capture, none}]) =:= match]).

by_text([Kind | _]) -> Kind;
by_text([]) -> unknown().

%% The first one that matches. A line of collapsed stacks has no blank but before its weight, or in
%% a name between semicolons.
patterns() ->
    [
        {"^\\s*\\{[^\\0]*speedscope", "it is a profile of speedscope, which opens it"},
        {"^\\s*\\{[^\\0]*\"(?:preprocessedProfileVersion|geckoType|meta)\"",
            "it is a profile of the Firefox Profiler, which opens it"},
        {"^\\s*[\\[{][^\\0]*\"(?:traceEvents|ph)\"", "it is a trace of Chrome: Perfetto opens it"},
        {"^\\s*[\\[{]\\s*[\\[{\"]", "it is JSON: `perf script' output is text"},
        {"(?i)^\\s*<(?:!doctype html|html|svg|\\?xml)",
            "it is a page, such as a flame graph or a report: a browser opens it"},
        {"\\A(?:[^;\\n]+(?:;[^;\\n]+)+ [0-9]+\\r?\\n){1}",
            "it has collapsed stacks, which have no times: flamegraph.pl, inferno and speedscope "
            "read them"},
        {"(?m)^\\S[^\\n]*\\n[ \\t]+[0-9a-f]{4,} [^\\n]+ \\(",
            "it has stacks without times: `perf script -F comm,pid,tid,cpu,time,event,ip,sym,dso' "
            "prints them"}
    ].
