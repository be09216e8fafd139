%% A bank and its fraud desk that ask each other at the same moment, and wait for ever; the tills
%% wait for the bank.
-module(trouble_deadlock).
-behaviour(trouble).
-behaviour(gen_server).

-export([children/0, truth/0]).
-export([start_link/2, till/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TILLS, 6).
-define(AFTER_MS, 500).

children() ->
    [server(bank_desk, fraud_desk), server(fraud_desk, bank_desk)] ++
        [trouble:process({till, N}, ?MODULE, till, [N]) || N <- lists:seq(1, ?TILLS)].

server(Name, Other) ->
    #{id => Name, start => {?MODULE, start_link, [Name, Other]}, shutdown => brutal_kill}.

truth() ->
    #{problem => deadlock, kind => [deadlock], severity => critical,
      process => [bank_desk, fraud_desk], function => <<"trouble_deadlock:ask/2">>,
      sentence => <<"bank_desk and fraud_desk wait for each other, and 6 tills for bank_desk.">>}.

start_link(Name, Other) ->
    gen_server:start_link({local, Name}, ?MODULE, Other, []).

init(Other) ->
    _ = erlang:send_after(?AFTER_MS, self(), review),
    {ok, Other}.

handle_call(Question, _From, Other) ->
    {reply, {answer, Question}, Other}.

handle_cast(_, Other) ->
    {noreply, Other}.

handle_info(review, Other) ->
    timer:sleep(100),
    _ = ask(Other, {review, self()}),
    {noreply, Other}.

ask(Other, Question) ->
    gen_server:call(Other, Question, infinity).

till(N) ->
    timer:sleep(1000 + N * 10),
    _ = ask(bank_desk, {balance, N}),
    till(N).
