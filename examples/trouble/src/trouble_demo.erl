%% Healthy: the demo's shop.
-module(trouble_demo).
-behaviour(trouble).

-export([children/0, truth/0]).

children() ->
    [#{id => demo, start => {demo_workload, start, []}, type => supervisor}].

truth() ->
    #{problem => demo, kind => [], process => [],
      sentence => <<"A shop: each part is paced, and every store has a limit.">>}.
