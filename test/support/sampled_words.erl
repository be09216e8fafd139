%% A session, and the words of its samples: messages, calls and spans. Reads the files line by
%% line, without any reader of the library.
-module(sampled_words).

-export([why_not/1, start/3, wait/1, stop/1, sampled/4, read/1, words/2, pid/1, kill/1]).

%% Whether the process collects garbage: by its status, or by a frame.
-type sample() :: {Pid :: binary() | none, Us :: integer(), Status :: binary(),
    Collects :: boolean(), #{binary() => binary()}}.

-define(WORDS, [<<"message">>, <<"serves">>, <<"waits_for">>, <<"call">>, <<"request">>,
    <<"trace">>, <<"span">>]).

%% @doc For init_per_suite/1.
why_not(Config) ->
    case native_node:why_not() of
        none -> ok = waits_work:know_sites(), Config;
        Why -> {skip, Why}
    end.

-spec start([tuple()], [pid()], map()) -> ok.
start(Config, Pids, Options) ->
    _ = flame_prof:stop(),
    Dir = filename:join(proplists:get_value(priv_dir, Config),
        integer_to_list(erlang:unique_integer([positive]))),
    {ok, _} = flame_prof:start(maps:merge(#{dir => Dir, engine => native, sample_interval => 1,
        select => {top, 0, 1000}, growers => 0, include => Pids, cpu_budget => infinity,
        compress => none, max_file_bytes => infinity
    }, Options)),
    ok.

%% @doc Until so many samples were attempted. The caller's timetrap ends it.
-spec wait(pos_integer()) -> ok.
wait(Count) ->
    case flame_prof:info() of
        #{counters := #{attempted := Attempted}} when Attempted >= Count -> ok;
        #{} -> timer:sleep(20), wait(Count)
    end.

%% @doc The samples of these processes.
-spec stop([pid()]) -> [sample()].
stop(Pids) ->
    {ok, #{files := Files}} = flame_prof:stop(),
    Known = [pid(Pid) || Pid <- Pids],
    Samples = [Sample || File <- Files, {Pid, _, _, _, _} = Sample <- read(File),
        lists:member(Pid, Known)],
    _ = [file:delete(File) || File <- Files],
    Samples.

-spec sampled([tuple()], [pid()], map(), pos_integer()) -> [sample()].
sampled(Config, Pids, Options, Count) ->
    ok = start(Config, Pids, Options),
    ok = wait(Count),
    stop(Pids).

%% @doc Each that samples of this process have.
-spec words(pid(), [sample()]) -> [#{binary() => binary()}].
words(Pid, Samples) -> lists:usort([Words || {P, _, _, _, Words} <- Samples, P =:= pid(Pid)]).

%% @doc All of a file. A whole sample tells whose tid it is; the profiler's own have `none'.
-spec read(file:name_all()) -> [sample()].
read(File) ->
    {ok, Text} = file:read_file(File),
    {Samples, _} = lists:foldl(fun sample/2, {[], #{}},
        binary:split(Text, <<"\n\n">>, [global, trim_all])),
    lists:reverse(Samples).

sample(Piece, {Samples, Tids0}) ->
    [Header | Frames] = binary:split(Piece, <<"\n">>, [global]),
    [_, Ids, _, Time | Fields] = binary:split(Header, <<" ">>, [global]),
    Words = maps:from_list([{K, V} || Field <- Fields, [K, V] <- [binary:split(Field, <<"=">>)]]),
    Tids = case Words of #{<<"erl_pid">> := Told} -> Tids0#{Ids => Told}; #{} -> Tids0 end,
    [Seconds, <<Us:6/binary, ":">>] = binary:split(Time, <<".">>),
    <<"\tffffffff ", Last/binary>> = lists:last(Frames),
    Status = hd(binary:split(Last, <<" ">>)),
    Collects = Status =:= <<"garbage_collecting">> orelse
        binary:match(Piece, <<"ffffffff [gc]">>) =/= nomatch,
    {[{maps:get(Ids, Tids, none), binary_to_integer(Seconds) * 1000000 + binary_to_integer(Us),
        Status, Collects, maps:with(?WORDS, Words)} | Samples], Tids}.

-spec pid(pid()) -> binary().
pid(Pid) -> list_to_binary(pid_to_list(Pid)).

-spec kill([pid()]) -> ok.
kill(Pids) -> lists:foreach(fun(Pid) -> exit(Pid, kill) end, Pids).
