#!/usr/bin/env escript
%% What a node holds of ours, or could: NODE COOKIE. A line each, to be compared.
main([Name, Cookie]) ->
    Node = list_to_atom(Name),
    [_, Host] = string:split(Name, "@"),
    Domain = case lists:member($., Host) of true -> longnames; false -> shortnames end,
    Own = list_to_atom("traces_" ++ os:getpid() ++ "@" ++ Host),
    {ok, _} = net_kernel:start(Own, #{name_domain => Domain, dist_listen => false, hidden => true}),
    true = erlang:set_cookie(Node, list_to_atom(Cookie)),
    true = net_kernel:connect_node(Node),
    Call = fun(M, F, A) -> erpc:call(Node, M, F, A) end,
    Pid = Call(os, getpid, []),
    Read = fun(File) -> {ok, T} = file:read_file("/proc/" ++ Pid ++ "/" ++ File), string:lexemes(binary_to_list(T), "\n") end,
    Count = fun(Folder) -> {ok, L} = file:list_dir("/proc/" ++ Pid ++ "/" ++ Folder), length(L) end,
    [io:format("module ~s~n", [M]) || {M, _} <- lists:sort(Call(code, all_loaded, []))],
    [io:format("registered ~s~n", [R]) || R <- lists:sort(Call(erlang, registered, []))],
    io:format("threads ~b~n", [Count("task")]),
    [io:format("mapping ~s~n", [L]) || L <- Read("maps"), string:find(L, "flame_prof") =/= nomatch],
    [io:format("signals ~s~n", [L]) || L <- Read("status"), lists:prefix("SigCgt", L)],
    [io:format("file ~s~n", [F]) || F <- filelib:wildcard("/tmp/flame_prof." ++ Pid ++ ".*")],
    [io:format("named table ~p~n", [T]) || T <- lists:sort(Call(ets, all, [])), is_atom(T)].
