%% @private Servers of OTP that all of a node share: what to do if many wait for one, and those that
%% many wait for in the mean of the samples, where the last look has met a moment with few.
%%
%% == False alarms ==
%% Their calls are short, so that processes that wait for one in the mean are behind one another. A
%% server that waits for messages for much of its time is not what they wait for.
-module(flame_prof_doctor_otp_servers).

-export([remedy/1, busy/2, finding/3]).

-import(flame_prof_doctor_rule, [name/1, number/1, share/1]).

-export_type([busy/0]).

-type busy() :: #{process := flame_prof_doctor_samples:process(), waiting := float(),
    clients := [flame_prof_doctor_samples:process()]}.

%% By registered name.
-define(SERVERS, #{
    <<"timer_server">> => "All timers of the module timer go through it: erlang:send_after/3 and "
        "erlang:start_timer/4 do without it.",
    <<"file_server_2">> => "Calls of the module file go through it: files that are opened as raw, "
        "and prim_file, do without it.",
    <<"code_server">> => "Code is loaded through it: load modules at the start, and look for a "
        "module that is missing.",
    <<"erl_prim_loader">> => "Code is read through it: load modules at the start.",
    <<"global_name_server">> => "It asks all nodes for each name: pg, or a name of one node, does "
        "without it.",
    <<"net_kernel">> => "Connections to nodes go through it: look for nodes that are down and are "
        "called again and again.",
    <<"application_controller">> => "Applications are started, stopped and listed through it; "
        "application:get_env does without it.",
    <<"inet_gethost_native">> => "Names of hosts are resolved through it: keep the addresses, or use "
        "inet_res.",
    <<"user">> => "Standard output goes through it: write less, or to a file.",
    <<"logger">> => "The configuration of the logger goes through it.",
    <<"mnesia_tm">> => "All transactions of mnesia go through it: make fewer and larger ones, or "
        "dirty operations.",
    <<"mnesia_locker">> => "All locks of mnesia go through it: make fewer and larger transactions.",
    <<"ssl_manager">> => "Sessions of TLS go through it: reuse connections.",
    <<"ssl_pem_cache">> => "Files of certificates go through it: give ssl the certificates as DER.",
    <<"Elixir.Logger">> => "All backends of the Logger of Elixir are called in it: log less, or "
        "set discard_threshold.",
    <<"rex">> => "Calls of rpc to older nodes go through it: use erpc."
}).

%% @doc A sentence; empty if it is none of these.
-spec remedy(flame_prof_doctor_rule:process()) -> string().
remedy(#{name := Name}) -> maps:get(Name, ?SERVERS, "").

%% @doc Those for which so many wait in the mean, and which are at work for most of the time.
-spec busy(flame_prof_doctor_rule:evidence(), flame_prof_doctor_rule:thresholds()) -> [busy()].
busy(#{samples := #{mode := processes, processes := Processes} = Samples}, Limits) ->
    #{otp_waiting := Least, otp_busy := Busy} = Limits,
    Ticks = flame_prof_doctor_calls:ticks(Samples),
    [
        #{process => Server, waiting => Waiting, clients => Clients}
     || #{pid := Pid, name := Name, observations := All, waiting := Idle} = Server <- Processes,
        is_map_key(Name, ?SERVERS), All - Idle >= Busy * All,
        Clients <- [[P || #{waits_for := Of} = P <- Processes, lists:keymember(Pid, 1, Of)]],
        Waiting <- [lists:sum([N || #{waits_for := Of} <- Clients, {To, N} <- Of, To =:= Pid])
            / Ticks], Waiting >= Least
    ];
busy(_, _) ->
    [].

%% @doc The finding on one of these.
-spec finding(flame_prof_doctor_rule:kind(), busy(), flame_prof_doctor_rule:evidence()) ->
    flame_prof_doctor_rule:finding().
finding(Kind, #{process := Server, waiting := Waiting, clients := Clients}, Evidence) ->
    #{samples := #{stacks := Stacks}} = Evidence,
    #{observations := All, waiting := Idle, queue_range := {_, _, Most, _}} = Server,
    Function = flame_prof_doctor_places:function([#{stacks => Stacks(Pid, [<<"waiting">>])}
        || #{pid := Pid} <- Clients]),
    Finding = flame_prof_doctor_samples:finding(Kind, Server, #{
        severity => warning,
        size => Waiting,
        title => ["keeps ", number(Waiting), " processes waiting in the mean"],
        sentences => [
            ["It is at work or ready for ", share((All - Idle) / All), " of the time, with up to ",
                flame_prof_doctor_rule:count(Most, "message"), " in its queue."],
            remedy(flame_prof_doctor_samples:process(Server)),
            [flame_prof_doctor_rule:count(length(Clients), "process"), " wait for it again and "
                "again", [[", most in ", Function] || Function =/= <<>>], "."],
            ["Seen in ", number(All), " samples of ",
                name(flame_prof_doctor_samples:process(Server)), " in ",
                flame_prof_doctor_samples:time(Server), "."]
        ],
        command => ["flame_prof waits NODE ", flame_prof_doctor_samples:target(Server)],
        numbers => #{waiting => Waiting, busy => (All - Idle) / All, most => Most,
            clients => length(Clients)},
        function => Function
    }),
    Finding#{waiters => [flame_prof_doctor_samples:process(P) || P <- lists:sublist(Clients, 20)]}.
