%% One request, and everybody who works for it.
-module(guide_request).

-export([run/1]).

run(Directory) ->
    {ok, _} = flame_prof:start(#{dir => Directory, select => {top, 0}}),
    42 = flame_prof:apply(fun request/0, #{follow => spawn}),
    {ok, #{files := Files}} = flame_prof:stop(),
    flame_prof:hot(Files, #{top => 3}).

request() ->
    Self = self(),
    Workers = [spawn_link(fun() -> Self ! {self(), part(N)} end) || N <- lists:seq(1, 4)],
    _ = [receive {Worker, _} -> ok end || Worker <- Workers],
    42.

part(N) ->
    Until = erlang:monotonic_time(millisecond) + 1000,
    part(N, Until).

part(N, Until) ->
    case erlang:monotonic_time(millisecond) >= Until of
        true -> N;
        false -> _ = lists:sum(lists:seq(1, 1000 * N)), part(N, Until)
    end.
