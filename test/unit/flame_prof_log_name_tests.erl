%% The names of files, as this side reads them; test_sink.c has the library's.
-module(flame_prof_log_name_tests).

-include_lib("eunit/include/eunit.hrl").

names_of_sessions_are_read_test() ->
    Cases = [{"2026-11-21@0154.07.erl_perf.log", {"2026-11-21@0154.07", "", false, false}},
        {"2026-11-21@0154.07_001.erl_perf.log.zst.part",
            {"2026-11-21@0154.07_001", "", true, true}},
        {"2026-11-21@0154.07_999_017.shop@host.example.org.erl_perf.log.zst",
            {"2026-11-21@0154.07_999_017", "shop@host.example.org", true, false}},
        {"2026-11-21@0154.07.a@b.erl_perf.log.erl_perf.log",
            {"2026-11-21@0154.07", "a@b.erl_perf.log", false, false}}],
    [?assertEqual({ok, #{key => list_to_binary(Key), node => list_to_binary(Node), kind => samples,
                is_zst => IsZst, is_part => IsPart}},
            flame_prof_log_name:parse(list_to_binary(Name)))
     || {Name, {Key, Node, IsZst, IsPart}} <- Cases].

files_of_allocations_are_told_by_their_names_test() ->
    ?assertEqual({ok, #{key => <<"2026-11-21@0154.07">>, node => <<"a@b">>, kind => allocations,
            is_zst => true, is_part => true}},
        flame_prof_log_name:parse(<<"2026-11-21@0154.07.a@b.erl_alloc.log.zst.part">>)),
    ?assertEqual(error, flame_prof_log_name:parse(<<"2026-11-21@0154.07.erl_all.log">>)).

names_of_others_are_not_test() ->
    [?assertEqual(error, flame_prof_log_name:parse(Name))
     || Name <- [<<>>, <<"core">>, <<"2026-11-21@0154.07.log">>,
            <<"2026-11-21@0154.07.erl_perf.log.gz">>, <<"2026-11-21@0154.07.erl_perf.log\n">>,
            <<"2026-11-21@0154.07-1.erl_perf.log">>, <<"2026-11-21@0154.07_1.erl_perf.log">>,
            <<"2026-11-21@0154.07.bak.erl_perf.log">>,
            <<"2026-11-21@0154.07.a b@host.erl_perf.log">>,
            <<"2026-11-21@0154.07.a/b@host.erl_perf.log">>]].

a_node_s_name_is_added_once_test() ->
    Named = <<"2026-11-21@0154.07_001.shop@host.erl_perf.log.zst">>,
    ?assertEqual(Named, flame_prof_log_name:with_node(
        <<"2026-11-21@0154.07_001.erl_perf.log.zst">>, shop@host)),
    ?assertEqual(Named, flame_prof_log_name:with_node(Named, shop@host)),
    ?assertEqual(Named, flame_prof_log_name:with_node(Named, other@host)).

any_node_s_name_can_be_in_a_file_s_test() ->
    ?assertEqual(<<>>, flame_prof_log_name:node('nonode@nohost')),
    [begin
        Text = flame_prof_log_name:node(Node),
        Name = flame_prof_log_name:with_node(<<"2026-11-21@0154.07.erl_perf.log">>, Node),
        ?assertMatch({ok, #{node := Text, key := <<"2026-11-21@0154.07">>}},
            flame_prof_log_name:parse(Name)),
        ?assertEqual(nomatch, binary:match(Name, <<"/">>))
    end
     || Node <- ['shop@host', 'магазин@host', 'a@/etc/x y',
            list_to_atom(lists:duplicate(200, $a) ++ "@host")]].
