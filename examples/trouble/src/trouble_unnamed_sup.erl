%% Links to banks, each below a supervisor that nobody has named, below another one: they crash as
%% often as they are started.
-module(trouble_unnamed_sup).
-behaviour(trouble).
-behaviour(supervisor).

-export([children/0, truth/0]).
-export([start_link/1, start_bank/1, connect/1]).
-export([init/1]).

-define(LIVES_MS, 60).
-define(BANKS, 3).

children() ->
    [#{id => banks_sup, start => {?MODULE, start_link, [banks]}, type => supervisor}].

truth() ->
    #{problem => unnamed_restarts, kind => [restart_loop], severity => warning,
      process => [], function => <<"trouble_unnamed_sup:start_bank/1">>,
      sentence => <<"Each supervisor of a bank's link starts it again sixteen times a second.">>}.

start_link(Of) ->
    supervisor:start_link(?MODULE, Of).

init(banks) ->
    {ok, {#{}, [#{id => N, start => {?MODULE, start_link, [N]}, type => supervisor}
        || N <- lists:seq(1, ?BANKS)]}};
init(Bank) ->
    {ok, {#{intensity => 1000, period => 1},
        [#{id => Bank, start => {?MODULE, start_bank, [Bank]}, shutdown => brutal_kill}]}}.

start_bank(Bank) ->
    {ok, proc_lib:spawn_link(?MODULE, connect, [Bank])}.

connect(Bank) ->
    timer:sleep(?LIVES_MS),
    error({connection_refused, Bank}).
