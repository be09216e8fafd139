%% Healthy: a publisher of short messages to three hundred subscribers, thirty times a second.
-module(trouble_healthy_topics).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([publisher/0, subscriber/1]).

-define(SUBSCRIBERS, 300).
-define(PAUSE_MS, 33).

children() ->
    [trouble:process(topic_publisher, ?MODULE, publisher, [])].

truth() ->
    #{problem => healthy_topics, kind => [], process => [],
      sentence => <<"topic_publisher sends 9,000 short messages a second, which are taken at "
          "once.">>}.

publisher() ->
    rounds([spawn_link(?MODULE, subscriber, [0]) || _ <- lists:seq(1, ?SUBSCRIBERS)], 1).

rounds(Subscribers, N) ->
    [Subscriber ! {topic, N, <<"news">>} || Subscriber <- Subscribers],
    timer:sleep(?PAUSE_MS),
    rounds(Subscribers, N + 1).

subscriber(Hash) ->
    receive
        {topic, N, Text} -> subscriber(erlang:phash2({Hash, N, Text}))
    end.
