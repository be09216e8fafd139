%% @private Which process waits for which, where the native engine is refused: by
%% `process_info/2'.
%%
%% Exact is one case: a process that waits in gen:do_call/4 and has one monitor waits for what it
%% monitors. With more monitors it is not known which one is the call's. References and requests
%% stay unknown, as `process_info/2' tells them with all other terms of a stack only; so it is not
%% known whether two looks have seen the same call, and no cycle is sure to be a deadlock.
%%
%% Each process answers by itself: it is scheduled for it. So they are asked one after the other, by
%% another process, for two seconds at most. One that does not answer within a fifth of a second is
%% counted as `no_answer', and those that there was no time for as `not_asked'.
-module(flame_prof_waits_portable).

-export([part/0, told/1, own/0, is_idle/1]).
%% For tests.
-export([part/2]).

-define(LOOK_MS, 2000).
-define(ANSWER_MS, 200).
-define(TOLD_MS, 500).

-type part() ::
    #{
        edges := [flame_prof_waits_graph:edge()],
        counts := #{atom() => non_neg_integer()},
        unknown := #{mfa() => pos_integer()}
    }.

%% @doc The caller and the processes of flame_prof that have names, which no look tells.
-spec own() -> [pid()].
own() ->
    [self() | flame_prof_own:pids()].

%% @doc All processes of this node, as far as the time reaches.
-spec part() -> part().
part() ->
    part(processes() -- own(), ?LOOK_MS).

%% @private
-spec part([pid()], Ms :: non_neg_integer()) -> part().
part(Pids, Ms) ->
    Keys = [waiting, idle, not_waiting, exited, unknown, no_answer, not_asked],
    Counts = maps:from_list([{processes, length(Pids)} | [{Key, 0} || Key <- Keys]]),
    collect(Pids, now_ms() + Ms, #{edges => [], counts => Counts, unknown => #{}}).

now_ms() -> erlang:monotonic_time(millisecond).

collect([], _Until, Part) ->
    Part;
collect(Pids, Until, Part) ->
    %% Messages of a process that was given up are dropped.
    Alias = erlang:alias(),
    Asker = spawn(fun() -> [Alias ! {Alias, Pid, seen(Pid)} || Pid <- Pids] end),
    {Left, More} = collected(Alias, Pids, Until, Part),
    _ = erlang:unalias(Alias),
    true = exit(Asker, kill),
    ok = flush(Alias),
    case {Left, now_ms() < Until} of
        {[], _} -> More;
        {[_ | Rest], true} -> collect(Rest, Until, count(no_answer, 1, More));
        {_, false} -> count(not_asked, length(Left), More)
    end.

collected(_Alias, [], _Until, Part) ->
    {[], Part};
collected(Alias, [Pid | Rest] = Pids, Until, Part) ->
    receive
        {Alias, Pid, Seen} -> collected(Alias, Rest, Until, add(Pid, Seen, Part))
    after max(0, min(?ANSWER_MS, Until - now_ms())) -> {Pids, Part}
    end.

flush(Alias) ->
    receive
        {Alias, _, _} -> flush(Alias)
    after 0 -> ok
    end.

add(_Pid, idle, Part) ->
    count(waiting, 1, count(idle, 1, Part));
add(_Pid, {unknown, Site}, #{unknown := Sites} = Part) ->
    More = maps:update_with(Site, fun(N) -> N + 1 end, 1, Sites),
    count(waiting, 1, count(unknown, 1, Part#{unknown := More}));
add(Pid, {How, To, Site}, #{edges := Edges} = Part) ->
    Edge = #{from => Pid, to => To, how => How, tag => unknown, ref => none, site => Site},
    count(waiting, 1, Part#{edges := [Edge | Edges]});
add(_Pid, Word, Part) ->
    count(Word, 1, Part).

count(Key, More, #{counts := Counts} = Part) ->
    Part#{counts := maps:update_with(Key, fun(N) -> N + More end, Counts)}.

seen(Pid) -> kept(erlang:process_info(Pid, [status, current_stacktrace, monitors])).

%% The small part of a reply that is kept.
kept(undefined) ->
    exited;
kept([{status, waiting}, {_, [{Module, Function, Arity, _} | _]}, {_, Monitors}]) ->
    waits({Module, Function, Arity}, Monitors);
%% It hibernates without a stack.
kept([{status, waiting} | _]) ->
    idle;
kept(_) ->
    not_waiting.

waits({gen, do_call, 4} = Site, [{process, To}]) -> {call, To, Site};
waits({timer, sleep, 1} = Site, _) -> {timer, timer, Site};
waits({prim_inet, _, _} = Site, _) -> {port, port, Site};
waits(Site, _) ->
    case is_idle(Site) of
        true -> idle;
        false -> {unknown, Site}
    end.

%% @doc Is it the main receive of a process of OTP, or of one of its behaviours? Such a process
%% waits for no other one: it has no message. Read in the sources of 25, 27 and 29.
-spec is_idle(mfa() | none) -> boolean().
is_idle({Module, Function, _}) -> lists:member(Function, main_receives(Module));
is_idle(none) -> false.

main_receives(gen_server) -> [loop, loop_hibernate];
main_receives(gen_statem) -> [loop, loop_receive, loop_hibernate];
main_receives(gen_event) -> [fetch_msg];
main_receives(erlang) -> [hibernate];
main_receives(application_master) -> [main_loop, loop_it];
main_receives(global) -> [loop_the_locker, loop_the_registrar];
main_receives(global_group) -> [global_group_check_dispatcher];
main_receives(erts_code_purger) -> [wait_for_request];
main_receives(erts_dirty_process_signal_handler) -> [msg_loop];
main_receives(erts_literal_area_collector) -> [msg_loop];
main_receives(inet_gethost_native) -> [main_loop];
main_receives(logger_std_h) -> [file_ctrl_loop];
main_receives(net_kernel) -> [ticker_loop];
main_receives(prim_file) -> [helper_loop];
main_receives(prim_tty) -> [reader_loop, writer_loop];
main_receives(rpc) -> [nodes_observer_loop];
main_receives(standard_error) -> [server_loop];
main_receives(timer) -> [interval_loop];
main_receives(user) -> [server_loop];
main_receives(dets) -> [open_file_loop2];
main_receives(mnesia_tm) -> [doit_loop];
main_receives(init) -> [loop, boot_loop];
main_receives(Module) when Module =:= code_server; Module =:= disk_log;
    Module =:= erl_prim_loader; Module =:= erts_trace_cleaner;
    Module =:= mnesia_late_loader; Module =:= mnesia_locker; Module =:= socket_registry -> [loop];
main_receives(_) -> [].

%% @doc These processes, as far as they answer in time. `serves' stays unknown.
-spec told([pid()]) -> #{pid() => flame_prof_waits:told()}.
told(Pids) ->
    Alias = erlang:alias(),
    Askers = [spawn(fun() -> Alias ! {Alias, Pid, named(Pid)} end) || Pid <- Pids],
    Told = told(Alias, length(Pids), now_ms() + ?TOLD_MS, #{}),
    _ = erlang:unalias(Alias),
    _ = [exit(Asker, kill) || Asker <- Askers],
    ok = flush(Alias),
    Told.

told(_Alias, 0, _Until, Told) ->
    Told;
told(Alias, Left, Until, Told) ->
    receive
        {Alias, _Pid, gone} -> told(Alias, Left - 1, Until, Told);
        {Alias, Pid, What} -> told(Alias, Left - 1, Until, Told#{Pid => What})
    after max(0, Until - now_ms()) -> Told
    end.

named(Pid) ->
    Items = [status, current_stacktrace, message_queue_len, memory, registered_name],
    case erlang:process_info(Pid, Items) of
        [{_, Status}, {_, Stack}, {_, Messages}, {_, Memory}, {_, Name}] ->
            Names = [{registered_name, Name} || Name =/= []] ++
                [{label, Label} || Name =:= [], Label <- [flame_prof_names:label(Pid)],
                    Label =/= undefined],
            Calls = lists:zip([initial_call, proc_lib_initial_call],
                lists:sublist(flame_prof_names:initial_calls(Pid) ++ [none, none], 2)),
            Frames = [{M, F, A, location(Location)} || {M, F, A, Location} <- Stack],
            maps:from_list([{status, Status}, {stack, Frames}, {message_queue_len, Messages},
                {memory, Memory}] ++ Names ++ [Call || {_, {_, _, _}} = Call <- Calls]);
        undefined ->
            gone
    end.

%% Of the VM's own memory pstack has bytes.
location(Location) ->
    [case Item of
        {file, File} -> {file, binary_to_list(unicode:characters_to_binary(File))};
        _ -> Item
    end || Item <- Location].
