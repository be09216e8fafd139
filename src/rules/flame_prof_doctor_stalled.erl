%% @private Processes that wait for something outside of the VM, or of OTP, and nothing moves:
%% connections, name servers, handshakes, programs, other nodes.
%%
%% == False alarms ==
%% These waits are short where all is well. Each process that counts has run nothing for 2.5 s or
%% more. Sockets that are read or accepted wait for others by design: these are no such places. Each
%% place has its own least number, as one program or one call to another node may take long.
-module(flame_prof_doctor_stalled).

-behaviour(flame_prof_doctor_rule).

-export([kind/0, needs/0, thresholds/0, find/2]).

-import(flame_prof_doctor_rule, [name/1, number/1, seconds/1]).

-define(NAMED_MOST, 20).
%% Functions, what those who are in them wait for, what to do, and whether few of them are told.
%% A process is in the first place that has it.
-define(PLACES, [
    {[<<"ssl_gen_statem:handshake/*">>, <<"ssl_gen_statem:connect/*">>], "TLS handshakes",
        "The peer does not answer, or is no TLS server: give ssl a time-out.", few},
    {[<<"inet_res:*">>, <<"inet_gethost_native:getit/*">>], "name servers",
        "Look at the resolver of the machine: its servers do not answer.", few},
    {[<<"prim_inet:connect*">>, <<"socket:connect*">>, <<"gen_tcp_socket:connect*">>,
        <<"gen_tcp:connect*">>], "connections that are not accepted",
        "Look at the host and the port: give gen_tcp:connect a time-out.", few},
    {[<<"os:get_data/*">>], "programs that os:cmd/1 has started",
        "Look at the programs with ps: os:cmd/1 has no time-out.", many},
    {[<<"erpc:call/*">>, <<"erpc:multicall/*">>, <<"erpc:receive_response/*">>,
        <<"erpc:wait_response/*">>, <<"rpc:call/*">>, <<"rpc:multicall/*">>],
        "calls to other nodes",
        "Look at the other nodes with the doctor.", many},
    {[<<"httpc:*">>], "answers of HTTP servers", "Give httpc:request a time-out.", many},
    {[<<"mnesia_controller:*">>, <<"mnesia_schema:*">>], "tables of mnesia that are not loaded",
        "Another node may have the newest copy: start it, or mnesia:force_load_table/1.", few},
    {[<<"mnesia_tm:rec_all/*">>, <<"mnesia_tm:rec_acc_pre_commit/*">>],
        "other nodes of mnesia to commit", "Look at the other nodes of mnesia.", few},
    {[<<"erl_prim_loader:*">>, <<"code_server:call/*">>], "the loader of code",
        "Look at the disk that the code is on.", few}
]).

kind() -> stalled.

needs() -> [standing].

thresholds() ->
    [
        {waiting, 8, <<"processes that have waited in such a place for 2.5 s or more: a warning">>},
        {few, 2, <<"the same: a note, where such waits are short">>}
    ].

find(#{standing := #{processes := Processes}} = Evidence, Limits) ->
    {Found, _} = lists:mapfoldl(
        fun({Functions, What, Remedy, How}, Left) ->
            In = flame_prof_doctor_places:standing(Functions,
                #{standing => #{processes => Left}}),
            Pids = [Pid || #{process := #{pid := Pid}} <- In],
            {{What, Remedy, How, In}, [P || #{pid := Pid} = P <- Left,
                not lists:member(flame_prof_doctor_waits:text(Pid), Pids)]}
        end, Processes, ?PLACES),
    [
        finding(What, Remedy, In, Evidence, Limits)
     || {What, Remedy, How, In} <- Found, length(In) >= least(How, Limits)
    ].

least(few, #{few := Few}) -> Few;
least(many, #{waiting := Many}) -> Many.

finding(What, Remedy, In, #{span_us := Us}, #{waiting := Many}) ->
    Processes = [#{pid := Pid} = First | _] = [Process || #{process := Process} <- In],
    Function = flame_prof_doctor_places:function(In),
    Ms = lists:min([Since || #{since_ms := Since} <- In]),
    Finding = #{
        kind => kind(),
        severity => case length(In) >= Many of true -> warning; false -> note end,
        size => length(In),
        title => [number(length(In)), " processes wait for ", What],
        sentences => [
            [name(First), " is one of them",
                [[", in ", Function] || Function =/= <<>>], "."],
            ["None of them has run for ", seconds(1000 * Ms), " or more."],
            Remedy,
            ["Seen in readings of their reductions in ", seconds(Us), "."]
        ],
        command => ["flame_prof pstack --node NODE '", Pid, "'"],
        processes => lists:sublist(Processes, ?NAMED_MOST),
        numbers => #{waiting => length(In), still_ms => Ms, span_us => Us}
    },
    maps:merge(Finding, maps:from_list([{function, Function} || Function =/= <<>>])).
