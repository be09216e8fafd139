%% A session cache that keeps 100 bytes of each request, and with them the whole request
%% of 64 KiB: the 100 bytes are a part of it (binary:copy/1 is forgotten).
-module(trouble_binary_leak).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([start_link/0, init/0]).

-define(REQUEST_BYTES, 64 * 1024).
-define(HEADER_BYTES, 2000).
-define(TOKEN_BYTES, 100).
-define(PAUSE_MS, 50).
-define(REQUESTS, 5).
%% 600 MiB of requests: then there is no room for another session.
-define(SESSIONS, 9600).

children() ->
    [#{id => session_cache, start => {?MODULE, start_link, []}}].

truth() ->
    #{problem => binary_leak,
      kind => [binary_leak],
      severity => warning,
      finding => memory,
      process => session_cache,
      function => <<"trouble_binary_leak:accept/1">>,
      sentence => <<"The binaries of session_cache only grow, by 6 MiB a second; "
          "trouble_binary_leak:accept/1 keeps them.">>}.

start_link() ->
    proc_lib:start_link(?MODULE, init, []).

init() ->
    register(session_cache, self()),
    proc_lib:init_ack({ok, self()}),
    serve([], 0).

serve(Sessions, N) ->
    Accepted = accept(N),
    serve([Token || N < ?SESSIONS, Token <- Accepted] ++ Sessions, N + ?REQUESTS).

accept(N) ->
    Tokens = [token(request(N + I)) || I <- lists:seq(1, ?REQUESTS)],
    timer:sleep(?PAUSE_MS),
    Tokens.

%% The token stands behind the header.
token(<<$\n, Token:?TOKEN_BYTES/binary, _/binary>>) -> Token;
token(<<_, Rest/binary>>) -> token(Rest).

request(N) ->
    Header = binary:copy(<<"x">>, ?HEADER_BYTES),
    Body = binary:copy(<<N:64>>, (?REQUEST_BYTES - ?HEADER_BYTES - 1) div 8),
    <<Header/binary, $\n, Body/binary>>.
