%% A scraper of meters that opens a socket for each reading, and closes none.
-module(trouble_ports).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([scraper/0]).

-define(SOCKETS, 2).
-define(PAUSE_MS, 40).
-define(MOST, 6000).

children() ->
    [trouble:process(meter_scraper, ?MODULE, scraper, [])].

truth() ->
    #{problem => port_leak, kind => [port_growth], severity => warning,
      process => [], function => <<"trouble_ports:read_meter/0">>,
      sentence => <<"meter_scraper opens 50 sockets a second, and closes none.">>}.

scraper() ->
    scraper(0).

scraper(N) ->
    [ok = read_meter() || N < ?MOST, _ <- lists:seq(1, ?SOCKETS)],
    timer:sleep(?PAUSE_MS),
    scraper(N + ?SOCKETS).

%% Where the OS has no more of them, it goes on without.
read_meter() ->
    case gen_udp:open(0, [{ip, {127, 0, 0, 1}}, {active, false}]) of
        {ok, _} -> ok;
        {error, _} -> ok
    end.
