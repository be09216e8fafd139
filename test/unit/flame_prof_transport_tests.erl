%% What the portable engine hands to a remote writer, who is this process.
-module(flame_prof_transport_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CREDIT_BYTES, 4194304).

tick(Ms) -> {tick, 0, 1795237782000000 + 1000 * Ms, 0}.
sample() -> {sample, 0, 0, 0, erlang:make_tuple(16, 0)}.

%% A batch that has all the credit.
large() -> [tick(1), {frame, 0, binary:copy(<<"m">>, ?CREDIT_BYTES),
    <<"f">>, 0, 0, <<>>}, sample()].

batch() ->
    receive
        {flame_prof_batch, Engine, Generation, Batch} when Engine =:= self() ->
            {ok, Items} = flame_prof_transport:opened(Batch),
            {Generation, byte_size(Batch), Items}
    after 0 -> none
    end.

what_is_taken_travels_as_it_is_test() ->
    Items = [tick(1), sample(), {cpu, 7}],
    {taken, _} = flame_prof_transport:push(Items, flame_prof_transport:far(self())),
    ?assertMatch({1, _, Items}, batch()).

beyond_the_credit_nothing_is_sent_and_all_of_it_is_counted_test() ->
    {taken, Full} = flame_prof_transport:push(large(), flame_prof_transport:far(self())),
    {1, Bytes, _} = batch(),
    {refused, Less} = flame_prof_transport:push([tick(2), sample(), sample()], Full),
    {refused, Least} = flame_prof_transport:push(
        [{tick, 3, 1795237782009000, 0}, {exited, 2}, sample()], Less),
    ?assertEqual(none, batch()),
    {taken, Free} = flame_prof_transport:heard({flame_prof_taken, Bytes, 1}, Least),
    {taken, _} = flame_prof_transport:push([tick(10)], Free),
    %% Told anew, so nothing of this needs what was lost.
    ?assertMatch(
        {3, _, [{lost, 1, 0, 3}, {exited, 2}, {tick, 3, 1795237782009000, 0}, {tick, 0, _, _}]},
            batch()).

a_later_generation_is_begun_when_the_remote_writer_wants_it_test() ->
    Transport = flame_prof_transport:far(self()),
    {taken, First} = flame_prof_transport:push([tick(1)], Transport),
    {1, Bytes, _} = batch(),
    {refused, Second} = flame_prof_transport:heard({flame_prof_taken, Bytes, 2}, First),
    {taken, Third} = flame_prof_transport:push([tick(2)], Second),
    {2, More, _} = batch(),
    %% Of a batch that was on its way already.
    {taken, _} = flame_prof_transport:heard({flame_prof_taken, More, 2}, Third).

the_last_word_has_what_was_not_told_test() ->
    {taken, Full} = flame_prof_transport:push(large(), flame_prof_transport:far(self())),
    {refused, Less} = flame_prof_transport:push([tick(2), sample()], Full),
    ok = flame_prof_transport:close(Less),
    Self = self(),
    receive {flame_prof_over, Self, Items} ->
        ?assertEqual([{lost, 0, 0, 1}, {exited, 0}, tick(2)], Items) end.

without_a_connection_it_is_closed_test() ->
    %% A process of a node that there is not.
    Gone = binary_to_term(<<131, 88, 119, 9, "nobody@no", 7:32, 0:32, 1:32>>),
    Transport = flame_prof_transport:far(Gone),
    ?assertEqual(closed, flame_prof_transport:push([tick(1)], Transport)),
    ?assertEqual(closed, flame_prof_transport:figures([], Transport)),
    ?assertEqual(ok, flame_prof_transport:close(Transport)).

what_is_no_batch_is_an_error_test() ->
    ?assertEqual(error, flame_prof_transport:opened(<<>>)),
    ?assertEqual(error, flame_prof_transport:opened(<<131, 97>>)),
    ?assertEqual(error, flame_prof_transport:opened(term_to_binary(samples))).

the_counts_are_left_of_what_can_not_be_used_test() ->
    Items = [{lost, 5, 6, 7}, {exited, 1}, tick(1),
        {process, 0, 1, 2, <<>>, none, none, <<>>}, sample(), tick(2), {exited, 1}],
    ?assertEqual([{lost, 6, 6, 8}, {exited, 2}, tick(2)],
        flame_prof_transport:without_samples(Items)).
