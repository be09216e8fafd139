%% What tests of the native engine share: whether this VM has what they need, and what is left
%% behind.
-module(native_node).

-export([why_not/0, or_skip/1, cases/1, leftovers/0, settled/0, printed/1]).

%% Where this release should work natively, a refusal is no reason to skip.
why_not() ->
    case flame_prof_engine:capture() of
        {ok, _} -> none;
        {error, Reason} ->
            Text = lists:flatten(io_lib:format("~ts", [flame_prof:format_error(Reason)])),
            Listed = lists:member(erlang:system_info(otp_release), ["25", "27", "29"]),
            case Listed andalso erlang:system_info(emu_flavor) =:= jit of
                true -> error({refused, Text});
                false -> Text
            end
    end.

%% What init_per_suite answers.
or_skip(Config) ->
    case why_not() of none -> Config; Why -> {skip, Why} end.

%% The cases of a suite: what it exports, but for its set-up.
cases(Suite) ->
    [F || {F, 1} <- Suite:module_info(exports),
        not lists:member(F, [init_per_suite, end_per_suite, module_info])].

%% Processes that are ours, and threads of sessions.
leftovers() ->
    {ok, Tasks} = file:list_dir("/proc/self/task"),
    Ours = [Pid || Pid <- erlang:processes(), is_ours(Pid)],
    {length(Ours), length(Tasks)}.

%% When those of whoever was here before are gone: a thread that has ended is listed for
%% a moment more.
settled() -> settled(leftovers(), 0).

settled({0, _} = Left, Looks) when Looks >= 10 -> Left;
settled(Left, Looks) ->
    timer:sleep(20),
    case leftovers() of Left -> settled(Left, Looks + 1); Other -> settled(Other, 0) end.

is_ours(Pid) ->
    case erlang:process_info(Pid, [initial_call, current_stacktrace]) of
        [{initial_call, {Module, _, _}}, {current_stacktrace, Stack}] ->
            lists:any(fun(M) -> lists:member(M, [flame_prof_blame_session, flame_prof_pstack]) end,
                [Module | [M || {M, _, _, _} <- Stack]]);
        _ -> false
    end.

%% What Fun prints to its group leader, and what it answers.
printed(Fun) ->
    Name = filename:join("/tmp", "printed_" ++ os:getpid() ++ "_"
        ++ integer_to_list(erlang:unique_integer([positive]))),
    {ok, Device} = file:open(Name, [write, {encoding, utf8}]),
    Leader = group_leader(),
    group_leader(Device, self()),
    try
        Fun()
    of
        Answer ->
            group_leader(Leader, self()),
            ok = file:close(Device),
            {ok, Text} = file:read_file(Name),
            {Answer, Text}
    after
        group_leader(Leader, self()),
        file:delete(Name)
    end.
