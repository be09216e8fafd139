%% How right the figures of allocations are, against programs that count what they allocate:
%% test/support/counted_allocations.
-module(allocations_proof_SUITE).

-import(measured_allocations, [measured/2, worked/1, has/2, until/1, mixed/0]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2]).
-export([shares_and_sum/1, words_in_the_file_of_a_session/1,
    a_share_of_the_processes_under_a_limit/1, what_is_kept_survives/1,
    words_by_the_message_in_work/1, collections_have_lengths_and_causes/1]).
%% On stacks.
-export([keeping/2]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [shares_and_sum, words_in_the_file_of_a_session, a_share_of_the_processes_under_a_limit,
        what_is_kept_survives, words_by_the_message_in_work, collections_have_lengths_and_causes].

init_per_suite(Config) ->
    case native_node:why_not() of
        none ->
            true = os:putenv("ALLOCATIONS_MS", "4000"),
            Config;
        Why -> {skip, Why}
    end.

end_per_suite(_Config) -> ok.
end_per_testcase(_, _) -> flame_prof_tracing:stop_all().

shares_and_sum(_) ->
    _ = [compare(Name, Options) || {Name, Options} <- [
        {one_process, #{}}, {many_processes, #{}}, {thousand_processes, #{}},
        %% Each of its processes has 20 or 30 collections: smaller samples would say no more.
        {brief_processes, #{bytes => 2097152}}, {large_heap, #{bytes => 1024}},
        {small_terms_of_bifs, #{}}, {messages, #{}}, {large_terms_of_bifs, #{}}]],
    ok.

compare(Name, Options) ->
    {Answer, Program} = measured(Name, Options),
    All = counted_allocations:all(Program),
    #{words := Words, samples := Samples, stacks := Stacks, words_error := Error} = Answer,
    Off = [abs(share(Answer, F) - 100 * N / All) || {F, N} <- counted_allocations:counts(Program)],
    Fragments = lists:sum([W || {[fragments | _], W} <- Stacks]),
    proof:figure("allocations: ~s: sum, percent of the truth", [Name], 100 * Words / All,
        {100 * (Words - 2 * Error) / All, 100 * (Words + 2 * Error) / All}, "99 to 101"),
    proof:figure("allocations: ~s: the share that is most wrong, points, of ~w samples",
        [Name, Samples], lists:max([0.0 | Off]), none, "3"),
    proof:figure("allocations: ~s: percent of the words in fragments", [Name],
        100 * Fragments / max(1, lists:sum([W || {_, W} <- Stacks])), none, "").

%% Percent of the words whose stack has this function.
share(#{stacks := Stacks}, {M, F, A}) ->
    All = lists:sum([Words || {_, Words} <- Stacks]),
    Of = [Words || {Stack, Words} <- Stacks, has(Stack, {M, F, A})],
    100 * lists:sum(Of) / All.

%% Of so many samples that chance is a percent.
words_in_the_file_of_a_session(Config) ->
    {ok, _} = flame_prof:start(#{dir => proplists:get_value(priv_dir, Config), engine => native,
        flushes_per_file => 1000, allocations => #{bytes => 16384, max_cpu_percent => infinity}}),
    Program = counted_allocations:start(many_processes, 20000),
    ok = counted_allocations:go(Program),
    Samples = fun() -> maps:get(samples, maps:get(allocations, flame_prof:info())) end,
    until(fun() -> Samples() > 10000 end),
    {ok, #{allocations := #{words := Words, words_error := Error, files := Files,
        lost := #{dropped_words := Dropped}}}} = flame_prof:stop(),
    ok = counted_allocations:stop(Program),
    {ok, InFile, _} = flame_prof:fold(fun
        (#{words := #{<<"flame_prof_self">> := _}}, Sum) -> Sum;
        (#{period := Period}, Sum) -> Sum + Period
    end, 0, Files),
    Percent = fun(N) -> 100 * (InFile + Dropped + N) / Words end,
    proof:figure("allocations: words in the file of a session, percent of the counter", [],
        Percent(0), {Percent(-2 * Error), Percent(2 * Error)}, "95 to 105").

%% What the limit is reckoned with makes the share smaller.
a_share_of_the_processes_under_a_limit(_) ->
    {Answer, Program} = measured(thousand_processes, #{max_cpu_percent => 0.1}),
    #{words := Words, words_error := Error, share := Share, ended := Ended} = Answer,
    All = counted_allocations:all(Program),
    proof:figure("allocations: 1,000 processes, limit of 0.1 %: one in so many is traced (~0p)",
        [Ended], Share, none, "2 or more"),
    proof:figure("allocations: 1,000 processes, limit of 0.1 %: sum, percent of the truth", [],
        100 * Words / All, {100 * (Words - 2 * Error) / All, 100 * (Words + 2 * Error) / All}, "").

%% Until the end: the worker's result.
keeping(500, Kept) -> Kept;
keeping(N, Kept) -> keeping(N + 1, [counted_allocations:tuples(1000, []) | Kept]).

what_is_kept_survives(_) ->
    {Answer, _} = worked([{fun() -> keeping(0, []) end, []}, mixed()]),
    Kept = survived(Answer, {?MODULE, keeping, 2}),
    Garbage = survived(Answer, {counted_allocations, mixed, 7}),
    proof:figure("allocations: percent that survives of what is kept", [], Kept, none, "80"),
    proof:figure("allocations: percent that survives of garbage", [], Garbage, none, "10").

survived(#{survived := Survived}, Function) ->
    Of = [{Words, All} || {Stack, Words, All} <- Survived, has(Stack, Function)],
    100 * lists:sum([Words || {Words, _} <- Of]) / lists:sum([All || {_, All} <- Of]).

words_by_the_message_in_work(_) ->
    #{messages := Messages, processes := Processes, server := Server} =
        measured_allocations:of_messages(),
    [Large, Small] = [proplists:get_value({call, {tuple, Tag, 2}}, Messages, 0)
        || Tag <- [large, small]],
    proof:figure("allocations: percent of the words under the large message of two", [],
        100 * Large / (Large + Small), none, "75"),
    proof:figure("allocations: percent of the server's words under a message", [],
        100 * (Large + Small) / proplists:get_value(Server, Processes), none, "80").

%% Of one whose end was not seen, or which failed without a look, the sums know more or less than
%% the lengths.
collections_have_lengths_and_causes(_) ->
    {#{collections := Collections}, _} = worked([mixed()]),
    #{minor := Minor, major := Major, lengths := Lengths, causes := Causes} = Collections,
    #{minor := #{count := MinorCount}, major := #{count := MajorCount}} = Lengths,
    SumNs = lists:sum([Sum || #{sum_ns := Sum} <- maps:values(Lengths)]),
    proof:figure("allocations: collections with a cause, percent", [],
        100 * lists:sum(maps:values(Causes)) / (Minor + Major), none, "90 to 110"),
    proof:figure("allocations: collections with a length, percent", [],
        100 * (MinorCount + MajorCount) / (Minor + Major), none, "90 to 110"),
    proof:figure("allocations: milliseconds of the lengths, percent of the sum", [],
        100 * SumNs / 1000000 / max(1, maps:get(milliseconds, Collections)), none, "90 to 110").
