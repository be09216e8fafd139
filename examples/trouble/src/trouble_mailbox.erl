%% An audit log that is too slow for the bursts of its entries: each burst leaves
%% thousands of them in its mailbox.
%%
%% Entries that waited too long are discarded, so the mailbox is empty again before the
%% next burst on a machine of any speed.
-module(trouble_mailbox).
-behaviour(trouble).
-behaviour(gen_server).

-export([children/0, truth/0]).
-export([start_link/0, start_source/0, init_source/0]).
-export([init/1, handle_call/3, handle_cast/2]).

%% Longer than entries stay: a burst and those that are not stale. A look of 10 s sees most of one.
-define(PERIOD_MS, 9000).
-define(BURST_MS, 5000).
-define(ENTRIES_PER_MS, 3).
-define(PAUSE_MS, 10).
-define(STALE_MS, 4000).
%% Entries that one write to the disk takes along, and its time: half of those that come in it, on
%% a machine of any speed.
-define(BATCH, 3).
-define(WRITE_MS, 2).

children() ->
    [#{id => audit_log, start => {?MODULE, start_link, []}},
     #{id => audit_source, start => {?MODULE, start_source, []}}].

truth() ->
    #{problem => mailbox,
      kind => [mailbox],
      severity => warning,
      finding => mailbox,
      process => audit_log,
      function => <<"trouble_mailbox:write/3">>,
      sentence => <<"The mailbox of audit_log grows by thousands of messages within 5 s; "
          "audit_log is in trouble_mailbox:write/3.">>}.

start_link() ->
    %% Messages off the heap: the collector does not copy the mailbox, one problem only.
    gen_server:start_link({local, audit_log}, ?MODULE, [],
        [{spawn_opt, [{message_queue_data, off_heap}]}]).

init([]) ->
    {ok, 0}.

handle_call(Request, _From, Written) ->
    {reply, {unknown, Request}, Written}.

handle_cast({entry, At, Entry}, Written) ->
    {noreply, write(At, Entry, Written)}.

write(At, {User, Action, Items}, Written) ->
    case erlang:monotonic_time(millisecond) - At of
        Age when Age > ?STALE_MS ->
            Written;
        _ ->
            Line = io_lib:format("~b user ~b ~s ~w~n", [Written, User, Action, Items]),
            _ = erlang:crc32(Line),
            Written rem ?BATCH =:= 0 andalso timer:sleep(?WRITE_MS),
            Written + 1
    end.

%%% The source of the entries.

start_source() ->
    proc_lib:start_link(?MODULE, init_source, []).

init_source() ->
    register(audit_source, self()),
    proc_lib:init_ack({ok, self()}),
    periods().

periods() ->
    Begin = erlang:monotonic_time(millisecond),
    burst(Begin, 0),
    timer:sleep(max(0, Begin + ?PERIOD_MS - erlang:monotonic_time(millisecond))),
    periods().

%% By the clock: a machine that is late sends as many.
burst(Begin, Sent) ->
    Now = erlang:monotonic_time(millisecond),
    Due = min(Now - Begin, ?BURST_MS) * ?ENTRIES_PER_MS,
    [gen_server:cast(audit_log, {entry, Now, entry(N)}) || N <- lists:seq(Sent + 1, Due)],
    case Now - Begin < ?BURST_MS of
        true ->
            timer:sleep(?PAUSE_MS),
            burst(Begin, Due);
        false ->
            ok
    end.

entry(N) ->
    {N rem 1000, logged_in, [erlang:phash2({N, I}, 10000) || I <- lists:seq(1, 20)]}.
