%% What Perfetto makes of a text of `perf script': a header has a time before one of its colons,
%% with `pid/tid' or `pid/tid [cpu]' right before that, and each line behind it is a frame, leaf
%% first, up to an empty one. It knows no comments.
-module(perfetto_oracle).

-export([samples/1]).

-type sample() ::
    #{
        comm := binary(),
        pid := integer(),
        tid := integer(),
        cpu := none | integer(),
        time_us := integer(),
        %% Lines of another form are whole.
        frames := [{Symbol :: binary(), Dso :: binary()} | binary()]
    }.

-spec samples(binary()) -> [sample() | {no_header, binary()}].
samples(Text) ->
    [sample(binary:split(Piece, <<"\n">>, [global]))
        || Piece <- binary:split(Text, <<"\n\n">>, [global, trim_all])].

sample([Header | Frames]) ->
    case re:run(Header, "^(.*?) ([0-9]+)/([0-9]+)(?: \\[([0-9]+)\\])? ([0-9]+)\\.([0-9]{6}):",
            [{capture, all_but_first, binary}]) of
        {match, [Comm, Pid, Tid, Cpu, Seconds, Micros]} ->
            #{comm => Comm, pid => binary_to_integer(Pid), tid => binary_to_integer(Tid),
                cpu => case Cpu of <<>> -> none; _ -> binary_to_integer(Cpu) end,
                time_us => binary_to_integer(<<Seconds/binary, Micros/binary>>),
                frames => [frame(Frame) || Frame <- Frames]};
        nomatch -> {no_header, Header}
    end.

frame(Line) ->
    case re:run(Line, "^\\s+[0-9a-f]+ (.+) \\((.+)\\)$", [{capture, all_but_first, binary}]) of
        {match, [Symbol, Dso]} -> {Symbol, Dso};
        nomatch -> Line
    end.
