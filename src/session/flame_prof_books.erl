%% @private What a session of the library says of itself, for people: the counts, what
%% they come to in a second, and its files. No process; flame_prof_session and
%% flame_prof_scribe ask.
-module(flame_prof_books).

-export([books/1, rates/2]).
-export([files/3]).

-export_type([books/0, file_event/0]).

-type books() :: #{atom() => non_neg_integer() | binary()}.
-type file_event() :: begun | finished | removed.

%% @doc `pending' samples are between the engine and the file: 0 after the end. What
%% the file refused was dropped no less than what found the ring full: `lost'
%% tells how many of the dropped those were.
-spec books(flame_prof_nif:session()) -> books().
books(Session) ->
    Info = flame_prof_nif:session_info(Session),
    Counts = maps:without([state, path], Info),
    #{taken := Taken, written := Written, torn := Torn, gone := Gone} = Counts,
    #{dropped := Refused, lost := Lost, expired := Expired} = Counts,
    Dropped = Refused + Lost,
    Pending = Taken - Written - Torn - Dropped - Gone - Expired,
    Counts#{dropped := Dropped, pending => Pending}.

-spec rates(books(), ElapsedMs :: non_neg_integer()) -> #{atom() => float()}.
rates(Books, ElapsedMs) ->
    #{ticks := Ticks, missed := Missed, taken := Taken, bytes := Bytes} = Books,
    #{sampler_cpu_ns := SamplerNs, writer_cpu_ns := WriterNs, handler_ns := HandlerNs} = Books,
    Seconds = max(1, ElapsedMs) / 1000,
    #{
        ticks_per_second => rounded(Ticks / Seconds),
        samples_per_second => rounded(Taken / Seconds),
        bytes_per_second => rounded(Bytes / Seconds),
        missed_percent => rounded(100 * Missed / max(1, Ticks + Missed)),
        %% Of one core.
        sampler_cpu_percent => rounded(SamplerNs / 1.0e7 / Seconds),
        writer_cpu_percent => rounded(WriterNs / 1.0e7 / Seconds),
        %% Of one core, spent on the schedulers themselves.
        handler_cpu_percent => rounded(HandlerNs / 1.0e7 / Seconds)
    }.

rounded(Float) ->
    round(Float * 100) / 100.

%% @doc Those that are there after what the library has said, the newest first.
-spec files(file_event(), Path :: binary(), [binary()]) -> [binary()].
files(begun, Path, Files) -> [Path | Files];
files(finished, Path, Files) -> [Path | Files -- in_progress(Files)];
files(removed, Path, Files) -> lists:delete(Path, Files).

%% The newest one, if it is.
in_progress([Path | _]) ->
    case filename:extension(Path) of
        <<".part">> -> [Path];
        _ -> []
    end;
in_progress([]) ->
    [].
