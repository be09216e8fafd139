%% @private Queues of bytes, of ports or of connections, that their peers do not take.
-module(flame_prof_doctor_queues).

-export([slow/4]).

%% @doc The queues that stand, with the bytes that were taken from each between the looks.
-spec slow([map()], [map()], pos_integer(), flame_prof_doctor_rule:thresholds()) ->
    [{map(), integer()}].
slow(First, Last, Us, #{queued_bytes := Least, delay_ms := DelayMs}) ->
    Before = maps:from_list([{Port, Queue} || #{port := Port} = Queue <- First]),
    [
        {Now, Taken}
     || #{port := Port, queued := Queued, output := Output} = Now <- Last, Queued >= Least,
        #{Port := #{queued := Had, output := Was}} <- [Before], Had >= Least,
        Taken <- [max(0, (Output - Was) - (Queued - Had))],
        Queued * 1000.0 >= DelayMs * Taken * 1.0e6 / max(1, Us)
    ].
