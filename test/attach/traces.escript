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
    %% A process of OTP that is asked for its state loads it.
    {module, sys} = Call(code, ensure_loaded, [sys]),
    Pid = Call(os, getpid, []),
    Read = fun(File) -> {ok, T} = file:read_file("/proc/" ++ Pid ++ "/" ++ File),
        string:lexemes(binary_to_list(T), "\n") end,
    Count = fun(Folder) -> {ok, L} = file:list_dir("/proc/" ++ Pid ++ "/" ++ Folder), length(L) end,
    Lines = fun(Kind, Things) -> [io:format("~s ~p~n", [Kind, T]) || T <- lists:usort(Things)] end,
    Ours = fun(Process) -> string:find(io_lib:format("~p", [Process]),
        "flame_prof") =/= nomatch end,
    Lines("pid", [list_to_integer(Pid)]),
    Lines("module", [M || {M, _} <- Call(code, all_loaded, [])]),
    Lines("old module", [M || {M, _} <- Call(code, all_loaded, []),
        Call(erlang, check_old_code, [M]), Ours(M)]),
    Lines("registered", Call(erlang, registered, [])),
    Lines("process", [I || P <- Call(erlang, processes, []),
        I <- [Call(erlang, process_info, [P, [initial_call, current_function, dictionary]])],
            Ours(I)]),
    Lines("named table", [T || T <- Call(ets, all, []), is_atom(T)]),
    Lines("mapping", [lists:last(string:lexemes(L, " "))
        || L <- Read("maps"), string:find(L, ".so") =/= nomatch]),
    Lines("signals", [L || L <- Read("status"), lists:prefix("SigCgt", L)
        orelse lists:prefix("SigIgn", L)]),
    Lines("folder", filelib:wildcard("/proc/" ++ Pid ++ "/root/tmp/flame_prof." ++ Pid ++ ".*")),
    Lines("memfd", [F || F <- element(2, file:list_dir("/proc/" ++ Pid ++ "/fd")),
        {ok, To} <- [file:read_link("/proc/" ++ Pid ++ "/fd/" ++ F)],
            string:find(To, "memfd") =/= nomatch]),
    io:format("threads ~b~n", [Count("task")]).
