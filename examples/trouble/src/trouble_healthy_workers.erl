%% Healthy: two workers a scheduler that compute all the time, each job in some milliseconds, and
%% fetch the next job from a queue. The node is saturated, by its work.
-module(trouble_healthy_workers).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([jobs/1, worker/0, job/1]).

children() ->
    Workers = 2 * erlang:system_info(schedulers_online),
    [trouble:process(job_queue, ?MODULE, jobs, [1])] ++
        [trouble:process({render_worker, N}, ?MODULE, worker, [])
         || N <- lists:seq(1, Workers)].

truth() ->
    #{problem => healthy_workers, kind => [], process => [],
      sentence => <<"Workers saturate all schedulers with jobs of some milliseconds.">>}.

jobs(N) ->
    receive
        {next, From, Ref} ->
            From ! {Ref, {work(N), N}},
            jobs(N + 1)
    end.

%% Of several sorts.
work(N) -> element(1 + N rem 4, {sort, sum, text, map}).

worker() ->
    Ref = erlang:monitor(process, job_queue),
    job_queue ! {next, self(), Ref},
    receive {Ref, Job} -> job(Job) end,
    true = erlang:demonitor(Ref, [flush]),
    worker().

job({sort, N}) -> lists:sort([erlang:phash2({N, I}) || I <- lists:seq(1, 3000)]);
job({sum, N}) -> lists:foldl(fun(I, Sum) -> (Sum * 31 + I) rem 1000003 end, N, lists:seq(1, 20000));
job({text, N}) -> iolist_to_binary(lists:join($,, [integer_to_list(I * N)
    || I <- lists:seq(1, 4000)]));
job({map, N}) -> maps:size(maps:from_list([{I rem 701, N} || I <- lists:seq(1, 8000)])).
