%% A journal that waits for the disk at each entry, and forty processes that wait for it.
-module(trouble_slow_file).
-behaviour(trouble).
-behaviour(gen_server).

-export([children/0, truth/0]).
-export([start_link/0, writer/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(WRITERS, 40).

children() ->
    [#{id => trade_journal, start => {?MODULE, start_link, []}}] ++
        [trouble:process({trader, N}, ?MODULE, writer, [N]) || N <- lists:seq(1, ?WRITERS)].

truth() ->
    #{problem => slow_file, kind => [file_io, bottleneck], severity => warning,
      process => [trade_journal], function => <<"trouble_slow_file:entry/2">>,
      sentence => <<"trade_journal waits for the disk in trouble_slow_file:entry/2, and 40 "
          "processes wait for trade_journal.">>}.

start_link() ->
    gen_server:start_link({local, trade_journal}, ?MODULE, [], []).

init([]) ->
    Path = filename:join(os:getenv("TROUBLE_DIR", "/tmp"), "trade_journal." ++ os:getpid()),
    {ok, File} = file:open(Path, [raw, write, binary]),
    ok = file:delete(Path),
    {ok, File}.

handle_call({entry, Trade}, _From, File) ->
    {reply, entry(Trade, File), File}.

handle_cast(_, File) ->
    {noreply, File}.

entry(Trade, File) ->
    Bytes = binary:copy(<<Trade:64>>, 1 bsl 18),
    {ok, _} = file:position(File, 0),
    ok = file:write(File, Bytes),
    ok = file:sync(File),
    ok.

writer(N) ->
    ok = gen_server:call(trade_journal, {entry, N}, infinity),
    writer(N + 1).
