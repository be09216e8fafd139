%% A fixed set of nodes at their limits, as test/proof/limits.erl generates them: none is harmed,
%% and each reason is a sentence. Each case is a node of its own.
-module(flame_prof_limits_SUITE).

-include_lib("common_test/include/ct.hrl").

-export([all/0, groups/0, init_per_suite/1, end_per_suite/1, no_process_is_free/1,
    few_processes_are_free/1, one_descriptor_is_free/1, no_descriptor_and_no_port_is_free/1,
    few_atoms_are_free/1, heaps_are_limited/1, no_thread_can_be_started/1,
    the_group_has_little_memory/1, the_address_space_is_used_up/1, files_may_have_one_kibibyte/1,
    nothing_can_be_executed_or_written/1, there_is_no_home/1]).

all() -> [{group, nodes}].

groups() ->
    [{nodes, [parallel], [F || {F, 1} <- ?MODULE:module_info(exports),
        not lists:member(F, [init_per_suite, end_per_suite, module_info])]}].

init_per_suite(Config) -> native_node:or_skip(Config).
end_per_suite(_) -> ok.

no_process_is_free(Config) ->
    unharmed(Config, 1, interactive, [{processes, 0}], [
        {{start, #{}}, "the node has no processes free of 1,024 \\(\\+P\\); a session needs "},
        {waits, "the node has no processes free of 1,024 \\(\\+P\\); this look needs "}]).

few_processes_are_free(Config) ->
    unharmed(Config, 2, embedded, [{processes, 3}], [
        {{start, #{}}, "the node has 3 processes free of 1,024"},
        {doctor, "the node has 3 processes free of 1,024 \\(\\+P\\); the doctor needs "},
        {top, "the node has 3 processes free of 1,024"}]).

one_descriptor_is_free(Config) ->
    unharmed(Config, 3, embedded, [{files, 64, 1}], [
        {{start, #{}}, "the node has 1 file descriptor free of 64 \\(ulimit -n\\)"},
        {doctor, "the node has 1 file descriptor free of 64"},
        {memory, ok}]).

no_descriptor_and_no_port_is_free(Config) ->
    unharmed(Config, 4, embedded, [{files, 40, 0}, {ports, 0}], [
        {{start, #{}}, "the node has no file descriptors free \\(ulimit -n\\)"},
        {waits, ok},
        {tables, ok}]).

few_atoms_are_free(Config) ->
    unharmed(Config, 5, interactive, [{atoms, 1500}], [
        {{start, #{}}, "the node has [0-9,]+ atoms free of 40,000 \\(\\+t\\); a session needs "}]).

heaps_are_limited(Config) ->
    unharmed(Config, 6, interactive, [{heap, 100000, true}], [{{start, #{}}, ok}, {profile, ok},
        {waits, ok}, {doctor, ok}]).

no_thread_can_be_started(Config) ->
    unharmed(Config, 7, embedded, [{threads, 0}], [
        {{start, #{}}, "a native thread could not be started"},
        {memory, ok}]).

the_group_has_little_memory(Config) ->
    unharmed(Config, 8, embedded, [{memory_group, 8}], [
        {{start, #{}}, "memory limit of the node's control group leaves [0-9.]+ MiB; a session"},
        {doctor, "memory limit of the node's control group leaves [0-9.]+ MiB; the doctor needs"}]).

the_address_space_is_used_up(Config) ->
    unharmed(Config, 9, embedded, [{address_space, 32}], [
        {{start, #{}}, "the limit of the node's address space \\(ulimit -v, -d\\) leaves "}]).

files_may_have_one_kibibyte(Config) ->
    unharmed(Config, 10, embedded, [{file_size, 1}], [{waits, ok}]).

nothing_can_be_executed_or_written(Config) ->
    unharmed(Config, 11, interactive, [{library, noexec}, {folder, read_only}], [
        {{start, #{}}, "did not load: .*flame_prof_nif.so: failed to map .* noexec"},
        {waits, ok}]).

there_is_no_home(Config) ->
    unharmed(Config, 12, embedded, [{home, none}], [{profile_default, ok}]).

%% Each step with what it answers: `ok', or what its sentence has.
unharmed(Config, N, Code, Limits, Expected) ->
    Combination = #{place => local, code => Code, limits => Limits,
        steps => [Step || {Step, _} <- Expected]},
    Folder = filename:join(?config(priv_dir, Config), integer_to_list(N)),
    case limits:run(Combination, N, Folder) of
        #{outcome := skipped, why := Why} -> {skip, unicode:characters_to_list(Why)};
        #{violations := Violations, answers := Answers} = Result ->
            ct:pal("~ts~n~tp~n~ts", [limits:sentence(Result), Answers, maps:get(output, Result)]),
            [] = Violations,
            Pairs = lists:zip(Expected, Answers),
            [] = [{Step, Answer} || {{Step, Wanted}, {Step, Answer}} <- Pairs,
                not is_answer(Wanted, Answer)],
            ok
    end.

is_answer(ok, Answer) -> Answer =:= ok;
is_answer(Pattern, {refused, Text}) -> re:run(Text, Pattern, [{capture, none}]) =:= match;
is_answer(Pattern, ok) -> re:run("ok", Pattern, [{capture, none}]) =:= match.
