%% The folders of src/ depend on each other in one direction: a module calls those of its own folder
%% and of the folders below. The oracle is what the compiler has written into the modules.
-module(flame_prof_folders_tests).

-include_lib("eunit/include/eunit.hrl").

%% From the bottom. `src' is the folder of the facade.
order() ->
    ["util", "options", "looks", "sampling", "profile", "session", "waits", "tracer", "attach",
        "live", "triggers", "doctor", "rules", "view", "src", "cli", "mcp"].

%% The calls upwards that stay, each with its reason. One that is gone is to leave this list.
upwards() ->
    [
        {flame_prof_cli, [flame_prof_cli_mcp], "the command line starts the server of mcp"},
        {flame_prof_shortage, [flame_prof_memory_budget], "one check of a node's room for all"},
        {flame_prof_targets, [flame_prof_event], "it reports that following ended"},
        {flame_prof_waits_part, [flame_prof_pstack], "a deadlock is shown with stacks"},
        {flame_prof_waits_text, [flame_prof_pstack], "the same lines as pstack prints"},
        {flame_prof_messages, [flame_prof_wait_sites], "a session writes what waits has learnt"},
        {flame_prof_recording, [flame_prof_agent, flame_prof],
            "the agent owns the sessions of a lent node"},
        {flame_prof_session_allocations, [flame_prof_allocations, flame_prof_allocations_sum,
            flame_prof_tracing], "a session with allocations is a tracing as well"},
        {flame_prof_memory_metrics, [flame_prof_allocators, flame_prof_memory],
            "metrics of a session are sums of the look at memory"},
        {flame_prof_node_memory, [flame_prof_allocators, flame_prof_memory],
            "lines of the node in files are sums of the look at memory"},
        {flame_prof_metrics, [flame_prof_latency, flame_prof_latency_text],
            "metrics have the measurement that runs"},
        {flame_prof_info, [flame_prof, flame_prof_tracing, flame_prof_triggers],
            "info/0 collects from all that runs"},
        {flame_prof_sup, [flame_prof, flame_prof_tracing, flame_prof_triggers],
            "the supervisor starts all servers"},
        {flame_prof_oneshot, [flame_prof_report], "profile/2 writes a page on request"},
        {flame_prof_event, [flame_prof], "the sentence of an error"},
        {flame_prof_doctor_evidence, [flame_prof], "the sentence of an error"}
    ].

a_folder_calls_only_folders_below_it_test() ->
    Folders = folders(),
    Found = [{From, To} || {From, Of} <- maps:to_list(Folders), To <- imports(From),
        #{To := Other} <- [Folders], place(Of) < place(Other)],
    Listed = [{From, To} || {From, All, _Why} <- upwards(), To <- All],
    ?assertEqual([], lists:sort(Found) -- Listed),
    ?assertEqual([], Listed -- Found).

place(Folder) -> length(lists:takewhile(fun(Other) -> Other =/= Folder end, order())).

every_folder_has_a_place_test() ->
    ?assertEqual(lists:sort(order()), lists:usort(maps:values(folders()))).

%% A task of mix is called by no module.
folders() ->
    Root = filename:dirname(filename:dirname(command_line:script())),
    Sources = filelib:wildcard(filename:join(Root, "src/*.erl"))
        ++ filelib:wildcard(filename:join(Root, "src/*/*.erl")),
    maps:from_list([{list_to_atom(filename:basename(Source, ".erl")),
            filename:basename(filename:dirname(Source))} || Source <- Sources]).

imports(Module) ->
    {ok, {Module, [{imports, Imports}]}} = beam_lib:chunks(code:which(Module), [imports]),
    lists:usort([Of || {Of, _, _} <- Imports]).
