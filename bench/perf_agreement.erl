%% What flame_prof and Linux perf say of the same schedulers in the same seconds.
%% Called by bench/perf_agreement.sh.
%%
%% Compared is what runs on top of each sample: an Erlang function by its name; C by
%% its library, because names of a stripped library are a matter of convention (perf
%% takes the symbol before the address, we want the address to be inside of it); the
%% JIT's shared code as one.
-module(perf_agreement).

-export([main/1]).

-define(HZ, 499).
-define(NS, 2000000).

main([Seconds, Directory]) ->
    ok = running_test_nif:build(),
    T = list_to_integer(atom_to_list(Seconds)),
    Out = atom_to_list(Directory),
    Slices = [
        {Leaf, max(1, ?NS * 1000 div max(1, running_work:calibrate(Leaf)))}
     || Leaf <- [leaf_a, leaf_b, floats, maps, binaries, dictionary, messages, exceptions, funs,
                 guard_bif, light_bif, tables, nif]
    ],
    Workers = [
        running_work:start(S, {untimed_slices, Slices})
     || S <- lists:seq(1, erlang:system_info(schedulers_online))
    ],
    timer:sleep(200),
    {ok, _} = flame_prof:start(#{
        basename => filename:join(Out, "files"), mode => schedulers, sample_interval => 2
    }),
    timer:sleep(1000),
    Data = filename:join(Out, "perf.data"),
    %% perf's samples, and ours of the same time.
    Begin = os:system_time(microsecond),
    Said = os:cmd(
        "LC_ALL=C perf record -e cpu-clock:u -F " ++ integer_to_list(?HZ) ++ " -p " ++
            os:getpid() ++ " -o " ++ Data ++ " -- sleep " ++ integer_to_list(T) ++ " 2>&1"
    ),
    End = os:system_time(microsecond),
    {ok, #{files := Files} = Books} = flame_prof:stop(),
    _ = [running_work:stop(W) || W <- Workers],
    Ours = ours(Files, Begin, End),
    Theirs = theirs(Data),
    _ = [file:delete(F) || F <- [Data | Files]],
    _ = file:delete("/tmp/perf-" ++ os:getpid() ++ ".map"),
    case total(Theirs) of
        0 ->
            io:format("perf has no samples here: ~ts~n", [Said]),
            halt(1);
        _ ->
            show(Ours, Theirs, Books),
            halt(0)
    end.

%% ------------------------------------------------------------------- theirs --

theirs(Data) ->
    Text = os:cmd("LC_ALL=C perf script -f -F comm,ip,sym,dso -i " ++ Data ++ " 2>/dev/null"),
    lists:foldl(
        fun(Line, Counts) ->
            %% `comm  address symbol (dso)', the symbol with blanks or without any.
            case re:run(Line, "^\\s*(\\S+)\\s+[0-9a-f]+ (.*) \\((.*)\\)$", [{capture, all_but_first, list}]) of
                {match, [Comm, Symbol, Dso]} ->
                    case is_scheduler(Comm) of
                        true -> add(of_perf(Symbol, Dso), Counts);
                        false -> Counts
                    end;
                nomatch ->
                    Counts
            end
        end,
        #{},
        string:lexemes(Text, "\n")
    ).

%% Named by the VM: up to OTP 25 `1_scheduler', then `erts_sched_1'.
is_scheduler(Comm) ->
    re:run(Comm, "^([0-9]+_scheduler|erts_sched_[0-9]+)$", [{capture, none}]) =:= match.

%% beam_jit_main.cpp: `$module:function/arity' for functions.
of_perf([$$ | Function], _Dso) ->
    case re:run(Function, "^.+:.+/[0-9]+(-[A-Z]+)?$", [{capture, none}]) of
        match -> {erlang, list_to_binary(hd(string:split(Function, "-CodeInfo")))};
        nomatch -> shared
    end;
of_perf(_Symbol, Dso) ->
    case re:run(Dso, "perf-[0-9]+\\.map|memfd|^//anon|jitted", [{capture, none}]) of
        match -> shared;
        nomatch -> {library, list_to_binary(filename:basename(Dso))}
    end.

%% --------------------------------------------------------------------- ours --

ours(Files, Begin, End) ->
    {ok, Counts, _} = flame_prof_reader:fold(
        fun
            (#{time_us := Us, frames := Frames}, Acc) when Us >= Begin, Us =< End ->
                case top(Frames) of
                    idle -> Acc;
                    Top -> add(Top, Acc)
                end;
            (_, Acc) ->
                Acc
        end,
        #{},
        Files
    ),
    Counts.

top([{<<"[idle]">>, <<"flame_prof">>} | _]) -> idle;
top([{<<"[gc]">>, <<"flame_prof">>} | _]) -> {library, <<"beam.smp">>};
top([{_, <<"flame_prof">>} | _]) -> shared;
%% The BIF or NIF itself is C that has no frames: its library is not known.
top([{_, Kind} | _]) when Kind =:= <<"bif">>; Kind =:= <<"nif">> -> {library, Kind};
top([{Symbol, Dso} | _]) ->
    case filename:extension(Dso) of
        <<".erl">> -> {erlang, flame_prof_reader:decode(running_profile:plain(Symbol))};
        _ -> {library, Dso}
    end.

%% -------------------------------------------------------------------- shown --

show(Ours, Theirs, Books) ->
    Keys = lists:usort(maps:keys(Ours) ++ maps:keys(Theirs)),
    Rows = [{100 * get(K, Ours) / total(Ours), 100 * get(K, Theirs) / total(Theirs), K} || K <- Keys],
    io:format("OTP ~s: ~w samples of ours, ~w of perf's (~w Hz, user space)~n~s~n~n~8s ~8s ~8s~n", [
        erlang:system_info(otp_release), total(Ours), total(Theirs), ?HZ,
        [io_lib:format("~w ~w  ", [K, maps:get(K, Books)])
         || K <- [captures, torn_moved, torn_unfound, torn_late, torn_changed]],
        "ours %", "perf %", "differ"
    ]),
    [
        io:format("~8.2f ~8.2f ~8.2f  ~ts~n", [A, B, A - B, text(K)])
     || {A, B, K} <- lists:sublist(lists:reverse(lists:sort(Rows)), 25)
    ],
    io:format(
        "~nOTP ~s: total variation distance ~.2f %; ~.2f % without the ~.2f % that perf has in~n"
        "the JIT's shared code, which is nobody's function: we put it down to its caller~n",
        [
            erlang:system_info(otp_release),
            distance(Ours, Theirs),
            distance(maps:remove(shared, Ours), maps:remove(shared, Theirs)),
            100 * get(shared, Theirs) / total(Theirs)
        ]
    ).

distance(Ours, Theirs) ->
    Keys = lists:usort(maps:keys(Ours) ++ maps:keys(Theirs)),
    50 * lists:sum([abs(get(K, Ours) / total(Ours) - get(K, Theirs) / total(Theirs)) || K <- Keys]).

text(shared) -> "[the JIT's shared code]";
text({erlang, Function}) -> Function;
text({library, Library}) -> ["[", Library, "]"].

get(Key, Counts) -> maps:get(Key, Counts, 0).

add(Key, Counts) -> maps:update_with(Key, fun(N) -> N + 1 end, 1, Counts).

total(Counts) -> max(0, lists:sum(maps:values(Counts))).
