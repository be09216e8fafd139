%% A file of allocations (doc/format.md, Allocations) with a known truth: three processes
%% allocate at a known rate, so much of it is kept, and so many collections are long.
%%
%% It shares nothing with the writer: what a reader should answer is computed from the story alone.
-module(made_allocations).

-export([write/1, write/2, text/1, samples/1, story/0, main/1]).

-export_type([story/0, one/0]).

-type one() :: #{
    who := {Name :: string(), Pid :: string(), Tid :: pos_integer()},
    frames := [string()],
    words := pos_integer(),
    fate := kept | garbage | not_known,
    at_us := non_neg_integer(),
    long => {Us :: pos_integer(), minor | major, heap | fragments | binaries | other}
}.
-type story() :: #{start_us := pos_integer(), samples := [one()]}.

-define(START_US, 1795237782100001).

%% @doc Three seconds: a parser that makes garbage, a cache that keeps what it builds, and a reader
%% of large messages, which lie in fragments.
-spec story() -> story().
story() ->
    Parser = {"parser", "<0.101.0>", 101},
    Cache = {"cache", "<0.102.0>", 102},
    Reader = {"reader", "<0.103.0>", 103},
    Parse = ["json:decode/1:40 (json.erl)", "parser:loop/1:12 (parser.erl)"],
    Split = ["binary:split/3:200 (binary.erl)", "parser:lines/1:30 (parser.erl)",
        "parser:loop/1:14 (parser.erl)"],
    Put = ["maps:put/3 (bif)", "cache:insert/2:55 (cache.erl)",
        "gen_server:handle_call/6:900 (gen_server.erl)"],
    Receive = ["fragments (heap)", "reader:loop/1:9 (reader.erl)"],
    Samples = lists:append([[one(Parser, Parse, 60000, garbage, I * 30000),
            one(Parser, Parse, 5000, kept, I * 30000 + 1),
            one(Parser, Split, 20000, garbage, I * 30000 + 400),
            one(Cache, Put, 10000, kept, I * 30000 + 800),
            one(Reader, Receive, 5000, not_known, I * 30000 + 900)] || I <- lists:seq(0, 99)]),
    Long = [(one(Cache, Put, 8192, kept, 500011))#{long => {45000, major, heap}},
        (one(Parser, Parse, 4096, garbage, 1500011))#{long => {2500, minor, binaries}},
        (one(Reader, Receive, 1, not_known, 2500011))#{long => {120000, major, fragments}}],
    #{start_us => ?START_US,
        samples => lists:sort(fun(#{at_us := A}, #{at_us := B}) -> A =< B end, Samples ++ Long)}.

one(Who, Frames, Words, Fate, At) ->
    #{who => Who, frames => Frames, words => Words, fate => Fate, at_us => At}.

-spec write(file:name_all()) -> story().
write(Path) -> write(Path, story()).

-spec write(file:name_all(), story()) -> story().
write(Path, Story) ->
    ok = file:write_file(Path, text(Story)),
    Story.

%% For a shell: erl -run made_allocations main Path.
-spec main([string()]) -> ok.
main([Path]) ->
    _ = write(Path),
    ok.

-spec text(story()) -> iodata().
text(#{start_us := Start, samples := Samples}) ->
    [[sample(Start, One) || One <- Samples], own(Start, lists:last(Samples))].

%% @doc Samples of the same session, which began a second before, for five seconds: the parser runs,
%% the cache waits.
-spec samples(story()) -> iodata().
samples(#{start_us := Start}) ->
    [[header(Name, Tid, Start - 1000000 + I * 50000), "reductions=", integer_to_list(I), "/0 "
            "memory=100000/0 erl_pid=", Pid, " name=", Name, " initial_call=proc_lib%3Ainit_p/5 "
            "cpu-clock:\n\tffffffff ", Name, ":loop/1:9 (", Name, ".erl)\n\tffffffff ", Status,
            " (status)\n\n"] || I <- lists:seq(0, 99),
        {Name, Pid, Tid, Status} <- [{"parser", "<0.101.0>", 101, "running"},
            {"cache", "<0.102.0>", 102, "waiting"}]].

sample(Start, #{who := {Name, Pid, Tid}, words := Words, at_us := At} = One) ->
    #{frames := Frames, fate := Fate} = One,
    N = integer_to_list(Words),
    Fields = ["# words=", N, "/", N, " erl_pid=", Pid, " name=", Name,
        " initial_call=proc_lib%3Ainit_p/5", long(One), " (metrics)\n"],
    [header(Name, Tid, Start + At), N, " alloc-words:\n", Fields,
        [["\tffffffff ", Frame, "\n"] || Frame <- Frames],
        ["\tffffffff ", atom_to_list(Fate), " (heap)\n"],
        "\tffffffff garbage_collecting (status)\n\n"].

long(#{long := {Us, Kind, Cause}}) ->
    io_lib:format(" collection_us=~b collection=~s cause=~s", [Us, Kind, Cause]);
long(_) -> "".

own(Start, #{at_us := At}) ->
    [header("flame_prof", 16#7fffffff, Start + At),
        "looks=503/503 words=10012289/10012289 dropped_words=0/0 minor=400/400 major=3/3 "
        "collection_ns=167500000/167500000 longest_ns=120000000/120000000 in_step_words=0/0 "
        "name=flame_prof engine=native format=3 node=shop@host otp=27 alloc-words:\n"
        "\tffffffff flame_prof_self (flame_prof)\n\tffffffff waiting (status)\n\n"].

header(Comm, Tid, Us) ->
    io_lib:format("~s 4242/~b [000] ~b.~6..0b: ", [Comm, Tid, Us div 1000000, Us rem 1000000]).
