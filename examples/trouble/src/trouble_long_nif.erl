%% A notary that signs with numbers of many digits: a NIF that keeps its scheduler for a part of a
%% second, again and again.
-module(trouble_long_nif).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([notary/0]).

%% Longer until one call takes so long, as machines differ.
-define(BYTES, 512).
-define(BYTES_STEP, 256).
-define(BYTES_MOST, 4096).
-define(CALL_MS, 300).
-define(PAUSE_MS, 100).

children() ->
    [trouble:process(notary, ?MODULE, notary, [])].

truth() ->
    #{problem => long_nif, kind => [scheduler_stuck], severity => warning,
      process => [notary], function => <<"trouble_long_nif:seal/1">>,
      sentence => <<"notary keeps a scheduler in a NIF of crypto for a part of a second, again and "
          "again.">>}.

notary() ->
    signs(slow(?BYTES)).

slow(Bytes) ->
    Key = key(Bytes),
    %% The shortest of some: a machine that is busy makes each of them longer.
    case lists:min([element(1, timer:tc(fun() -> seal(Key) end)) || _ <- [1, 2]]) of
        Us when Us >= 1000 * ?CALL_MS; Bytes >= ?BYTES_MOST -> Key;
        _ -> slow(Bytes + ?BYTES_STEP)
    end.

key(Bytes) -> binary:decode_unsigned(binary:copy(<<251>>, Bytes)).

signs(Key) ->
    _ = seal(Key),
    timer:sleep(?PAUSE_MS),
    signs(Key).

seal(Key) ->
    byte_size(crypto:mod_pow(Key div 3, Key div 5, Key)).
