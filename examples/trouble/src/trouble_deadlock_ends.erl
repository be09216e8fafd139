%% The same two desks with the time-out that a call has if none is given: after five seconds both
%% exit, their supervisor starts them again, and for some seconds all is well.
-module(trouble_deadlock_ends).
-behaviour(trouble).
-behaviour(gen_server).

-export([children/0, truth/0]).
-export([start_desks/0, start_link/2, till/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TILLS, 6).
-define(AFTER_MS, 8000).

children() ->
    Desks = #{id => desks, start => {?MODULE, start_desks, []}, type => supervisor,
        shutdown => brutal_kill},
    [Desks | [trouble:process({till, N}, ?MODULE, till, [N]) || N <- lists:seq(1, ?TILLS)]].

truth() ->
    #{problem => deadlock_ends, kind => [deadlock], severity => warning,
      process => [bank_clerk, fraud_clerk], function => <<"trouble_deadlock_ends:handle_info/2">>,
      sentence => <<"bank_clerk and fraud_clerk wait for each other until their calls time out.">>}.

start_desks() ->
    supervisor:start_link(?MODULE, desks).

start_link(Name, Other) ->
    gen_server:start_link({local, Name}, ?MODULE, Other, []).

init(desks) ->
    {ok, {#{strategy => one_for_one, intensity => 10, period => 5},
        [clerk(bank_clerk, fraud_clerk), clerk(fraud_clerk, bank_clerk)]}};
init(Other) ->
    _ = erlang:send_after(?AFTER_MS, self(), review),
    {ok, Other}.

clerk(Name, Other) ->
    #{id => Name, start => {?MODULE, start_link, [Name, Other]}, shutdown => brutal_kill}.

handle_call(Question, _From, Other) ->
    {reply, {answer, Question}, Other}.

handle_cast(_, Other) ->
    {noreply, Other}.

handle_info(review, Other) ->
    timer:sleep(100),
    _ = ask(Other, {review, self()}),
    {noreply, Other}.

ask(Other, Question) ->
    gen_server:call(Other, Question).

till(N) ->
    timer:sleep(1000 + N * 10),
    _ = try ask(bank_clerk, {balance, N}) catch exit:_ -> closed end,
    till(N).
