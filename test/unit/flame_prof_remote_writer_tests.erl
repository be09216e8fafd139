%% The remote writer, with real files, for a node and an engine that the tests play.
-module(flame_prof_remote_writer_tests).

-include_lib("eunit/include/eunit.hrl").

-define(AN_HOUR_US, 3600000000).

with_writer(Fun) ->
    Output = filename:join("/tmp", "flame_prof_remote_writer." ++ os:getpid() ++ "." ++
        integer_to_list(erlang:unique_integer([positive]))),
    ok = file:make_dir(Output),
    Config = #{node => 'engine@elsewhere', os_pid => 4711,
        release => erlang:system_info(otp_release), engine_reason => <<"of a test">>,
        output => Output},
    {ok, Writer} = flame_prof_remote_writer:start_link(Config),
    try Fun(Writer)
    after
        ok = flame_prof_remote_writer:close(Writer),
        ok = file:del_dir(Output)
    end.

open(Writer, Options) ->
    Least = #{sample_interval => 1, flush_interval => 1001, compress => none},
    ok = flame_prof_remote_writer:open(Writer, maps:merge(Least, Options)).

counters(Writer) ->
    {ok, #{counters := Counters}} = flame_prof_remote_writer:info(Writer),
    Counters.

%% Twice, as one may have begun already.
flushed(Writer) ->
    #{flushes := Before} = counters(Writer),
    waiting:eventually(fun() -> maps:get(flushes, counters(Writer)) > Before + 1 end).

%% As the engine does: what it defines, and then a sample in each tick.
samples(Times) ->
    Defined = [{process, 0, 84, 0, <<"shop">>, none, none, <<>>},
        {frame, 0, <<"shop">>, <<"sell">>, 1, 12, <<"shop.erl">>},
        {stack, 0, [0]}],
    Defined ++ lists:append([[{tick, 0, Us, 0}, {sample, 0, 0, 0, erlang:make_tuple(16, 7)}]
        || Us <- Times]).

send(Writer, Items) ->
    Writer ! {flame_prof_batch, self(), 1, term_to_binary(Items)},
    receive {flame_prof_taken, _, 1} -> ok end.

%% Whose clock may be behind ours by any time.
samples_have_the_time_of_their_node_whatever_is_flushed_between_them_test() ->
    with_writer(fun(Writer) ->
        ok = open(Writer, #{}),
        ok = flushed(Writer),
        Begin = os:system_time(microsecond) div 1000000 * 1000000 - ?AN_HOUR_US + 1,
        First = [Begin + N * 10000 || N <- lists:seq(1, 25)],
        %% Later than any flush that this waits for.
        Second = [Us + 600000000 || Us <- First],
        ok = send(Writer, samples(First)),
        ok = flushed(Writer),
        ok = send(Writer, samples(Second)),
        {ok, #{files := [File], written := 50} = Run} =
            flame_prof_remote_writer:stop(Writer, 60000),
        ?assertNot(is_map_key(failure, Run)),
        {ok, Read, #{bad := 0}} = reader_oracle:fold(fun(#{time_us := Us}, All) ->
            [Us | All] end, [], File),
        ?assertEqual(First ++ Second, lists:reverse(Read))
    end).

a_folder_that_is_gone_is_told_while_it_runs_test() ->
    with_writer(fun(Writer) ->
        ok = open(Writer, #{}),
        {ok, #{files := [File], error := <<>>}} = flame_prof_remote_writer:info(Writer),
        Folder = filename:dirname(File),
        Away = <<Folder/binary, ".away">>,
        ok = file:rename(Folder, Away),
        Error = waiting:eventually(fun() ->
            {ok, #{error := Text}} = flame_prof_remote_writer:info(Writer),
            {Text =/= <<>>, Text}
        end),
        ?assertEqual(<<Folder/binary, ": was removed or replaced by another program">>, Error),
        ok = file:rename(Away, Folder)
    end).

%% Both are in its mailbox before it knows that nobody is there.
a_connection_that_is_gone_before_the_end_was_heard_of_is_told_test() ->
    with_writer(fun(Writer) ->
        ok = open(Writer, #{}),
        Nobody = binary_to_term(<<131, 88, 119, 9, "nobody@no", 7:32, 0:32, 1:32>>),
        ok = sys:suspend(Writer),
        ok = flame_prof_remote_writer:begun(Writer, Nobody),
        Stop = gen_server:send_request(Writer, stop),
        ok = sys:resume(Writer),
        {reply, {ok, #{failure := Why}}} = gen_server:receive_response(Stop, 60000),
        ?assertEqual(<<"the connection to engine@elsewhere is gone">>, Why)
    end).

an_engine_that_does_not_say_that_it_has_ended_is_told_test() ->
    with_writer(fun(Writer) ->
        ok = open(Writer, #{}),
        Deaf = spawn_link(fun() -> receive never -> ok end end),
        ok = flame_prof_remote_writer:begun(Writer, Deaf),
        {ok, #{failure := Why}} = flame_prof_remote_writer:stop(Writer, 60000),
        ?assertEqual(<<"engine@elsewhere did not confirm the end of its engine">>, Why),
        true = unlink(Deaf),
        true = exit(Deaf, kill)
    end).

an_engine_that_ends_as_it_was_told_to_is_no_failure_test() ->
    with_writer(fun(Writer) ->
        ok = open(Writer, #{}),
        ok = flame_prof_remote_writer:begun(Writer, self()),
        Stop = gen_server:send_request(Writer, stop),
        receive {'$gen_cast', stop} -> ok end,
        Writer ! {flame_prof_over, self(), [{lost, 1, 2, 3}, {exited, 4}]},
        {reply, {ok, Run}} = gen_server:receive_response(Stop, 60000),
        ?assertNot(is_map_key(failure, Run)),
        ?assertMatch(#{attempted := 7, dropped := 3, exited := 4, ticks := 1, missed := 2,
            written := 0},
            Run)
    end).
