%% Allocators as they are read from memory, against what the VM says of itself, with the flags that
%% change them; and what the resident memory is, against the kernel's sum.
-module(flame_prof_memory_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1,
    figures_with_flags_are_those_of_the_vm/1, abandoned_carriers_are_in_the_pool/1,
    the_largest_free_block_is_where_the_vm_counts_it/1, the_sums_are_those_of_the_instances/1,
    the_process_is_told_as_the_kernel_has_it/1, without_explanation_none_is_made/1,
    the_portable_engine_says_what_it_lacks/1, what_is_not_accepted_is_refused/1, it_is_printed/1]).

suite() -> [{timetrap, {minutes, 2}}].
all() -> native_node:cases(?MODULE).
init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_Config) -> ok.

%% Each of these VMs differs from the others in what its flags change: figures of instances, of all
%% of them and by kind; which allocators are off, what the resident memory is, and what else is
%% asked of it.
figures_with_flags_are_those_of_the_vm(_) ->
    Single = [["+JMsingle", "true"] || erlang:system_info(otp_release) >= "26"],
    [has_flags(Flags, More, Checked) || {Flags, More, Checked} <- [
        {[], [super_carrier], fun([[], {none, Text, _}]) ->
            ?assertEqual(nomatch, re:run(Text, "super carrier"))
        end},
        %% Strategies without a largest block have none.
        {["+MBas", "bf", "+MHas", "gf", "+MEas", "aobf", "+MRas", "ageffcbf", "+MIscs", "64"],
            [largest], fun([[], Largest]) ->
                ?assertMatch(#{binary_alloc := none, eheap_alloc := none, ets_alloc := none},
                    Largest),
                ?assertMatch(#{std_alloc := Bytes} when is_integer(Bytes), Largest)
            end},
        {["+MHas", "aoffcaobf", "+MBas", "ageffcaoff", "+Muacul", "0"], [], fun([[]]) -> ok end},
        {["+Mut", "false", "+MBsbct", "64", "+MBlmbcs", "1024"], [], fun([[]]) -> ok end},
        {["+Muatags", "false", "+S", "1:1", "+SDcpu", "1:1", "+SDio", "1" | lists:append(Single)],
            [], fun([[]]) -> ok end},
        {["+MHe", "false"], [], fun([[eheap_alloc]]) -> ok end},
        {["+Mea", "min"], [], fun([Off]) ->
            ?assert(lists:member(eheap_alloc, Off)),
            ?assertNot(lists:member(literal_alloc, Off))
        end},
        {["+MMscs", "512"], [super_carrier], fun([[], {Told, Text, Json}]) ->
            ?assertMatch(#{bytes := Bytes, used_bytes := Used}
                when Bytes >= 512 bsl 20 andalso Used > 0 andalso Used < Bytes, Told),
            command_line:matches(Text, ["^super carrier [(][+]MMscs[)]: 512M, [0-9.]+[KM] used, "
                "[0-9.]+% unused\n"]),
            command_line:matches(Json, ["\"super_carrier\":{\"(used_)?bytes\":[0-9]+,"])
        end}]].

has_flags(Flags, More, Checked) ->
    [Differ, {Other, Beside, Walked} | Answers] = peer_vm:values(
        [{vm_memory, Function} || Function <- [differences, explained, off | More]], Flags),
    ?assertEqual({Flags, []}, {Flags, Differ}),
    %% A wrong kind of mapping is more than this.
    ?assertMatch({_, _, _, true}, {Flags, Other, Beside, Other < 10 andalso Beside < 10}),
    ?assertEqual({Flags, all}, {Flags, Walked}),
    Checked(Answers).

abandoned_carriers_are_in_the_pool(_) ->
    {Bytes, Differ} = peer_vm:value(vm_memory, pool, []),
    ?assert(Bytes > 1000000),
    ?assertEqual([], Differ).

the_largest_free_block_is_where_the_vm_counts_it(_) ->
    case code:which(instrument) of
        non_existing -> {skip, "no instrument, of the application tools"};
        _ -> [has_buckets(Flags) || Flags <- [[], ["+MBas", "aoff", "+MEas", "ageffcaoff"]]]
    end.

has_buckets(Flags) ->
    Buckets = peer_vm:value(vm_memory, buckets, Flags),
    %% Releases differ in what of the start the first bucket is: half, all or twice.
    Fitting = [Unit || Unit <- [256, 512, 1024],
        [] =:= [Name || {Name, Bytes, Bucket} <- Buckets,
            bucket(Bytes div Unit + 1, 0) =/= Bucket]],
    ?assertMatch({_, _, [_ | _]}, {Flags, Buckets, Fitting}),
    ?assert(length(Buckets) >= 3).

bucket(1, Bucket) -> Bucket;
bucket(N, Bucket) -> bucket(N div 2, Bucket + 1).

the_sums_are_those_of_the_instances(_) ->
    Instance = fun(Name, N, Carriers, Blocks) ->
        #{allocator => Name, instance => N, carriers => 1, carriers_bytes => Carriers,
            blocks => 2, blocks_bytes => Blocks, multi => #{}, single => #{}}
    end,
    ?assertMatch([
            #{allocator := b, carriers_bytes := 1000, blocks_bytes := 250, fragmentation := 0.75,
                carriers := 1, blocks := 2, pool_bytes := 40},
            #{allocator := a, carriers_bytes := 300, blocks_bytes := 300, fragmentation := 0.0,
                carriers := 2, blocks := 4, pool_bytes := 0}],
        [maps:map(fun(fragmentation, F) -> F * 1.0; (_, V) -> V end, Row)
         || Row <- flame_prof_memory:by_allocator([Instance(a, 0, 100, 100),
                (Instance(b, 0, 1000, 250))#{pool => #{bytes => 40}}, Instance(a, 1, 200, 200)])]).

the_process_is_told_as_the_kernel_has_it(_) ->
    {ok, #{process := Process}} = flame_prof_memory:look(),
    #{rss := Rss, peak := Peak, anonymous := Anonymous, files := Files, shared := Shared} = Process,
    ?assertEqual(Rss, Anonymous + Files + Shared),
    ?assert(Peak >= Rss),
    #{minor_faults := Before} = Process,
    Touched = binary:copy(<<1>>, 20000000),
    {ok, #{process := #{minor_faults := After}}} = flame_prof_memory:look(#{explain => false}),
    ?assertEqual(20000000, byte_size(Touched)),
    ?assert(After > Before).

without_explanation_none_is_made(_) ->
    {ok, Look} = flame_prof_memory:look(#{explain => false}),
    ?assertMatch(#{allocators := [_ | _]}, Look),
    ?assertNot(is_map_key(explained, Look)).

the_portable_engine_says_what_it_lacks(_) ->
    {ok, Look} = flame_prof_memory:look(#{engine => portable}),
    ?assertMatch(
        #{engine := portable, vm := #{total := _}, process := #{rss := _}, unknown := [_]}, Look),
    ?assertNot(is_map_key(allocators, Look)),
    Text = unicode:characters_to_binary(flame_prof_memory:format(Look)),
    ?assertMatch({_, _}, binary:match(Text, <<"need the native engine">>)),
    ?assertMatch({_, _}, binary:match(Text, <<"processes">>)).

what_is_not_accepted_is_refused(_) ->
    ?assertMatch({error, {bad_option, #{option := explain}}},
        flame_prof_memory:look(#{explain => 7})),
    ?assertMatch({error, _}, flame_prof_memory:look(#{other => 7})).

it_is_printed(_) ->
    {ok, Look} = flame_prof_memory:look(),
    Text = unicode:characters_to_binary(flame_prof_memory:format(Look)),
    [?assertMatch({Part, {_, _}}, {Part, binary:match(Text, Part)})
     || Part <- [<<"RSS ">>, <<"explained">>, <<"eheap_alloc">>, <<"carriers">>]],
    Json = iolist_to_binary(flame_prof_json:encode(flame_prof_memory:json(Look))),
    ?assertMatch({_, _}, binary:match(Json, <<"\"fragmentation\"">>)).
