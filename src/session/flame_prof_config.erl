%% @private The options that the C library gets for a session: the validated options by their own
%% names, and values computed from them.
-module(flame_prof_config).

-export([session/4, remote_writer/4, portable/3, own_processes/0, start_bytes/2, absolute/1]).

%% As in flame_prof.app, which is not there in a node to which flame_prof is attached.
-define(VERSION, "0.1.0").

%% One second of samples that all differ, of 280 bytes each, should fit: the
%% writer may be kept from its CPU or its disk for as long.
-define(SAMPLE_BYTES, 280).
-define(RING_BYTES, 4194304).
%% Of the ring, and of the stacks' texts: flame_prof_options counts with it.
-define(LEAST_BYTES, 1048576).
%% Of the unwind information and symbols of the node's C libraries: 2 MiB with OpenSSL.
-define(LIBRARIES_BYTES, 33554432).

%% Of what the library takes of the words about a session: FP_NOTE_ROOM.
-define(ABOUT_BYTES, 511).

%% @doc By the process that will own the session. `IsCapturing': the schedulers
%% are asked for the stacks of running processes. `Excluded': processes that are
%% not chosen, beside the application's own.
-spec session(flame_prof_engine:name(), flame_prof_options:options(), boolean(), [pid()]) ->
    flame_prof_nif:config().
session(Engine, Options, IsCapturing, Excluded) ->
    #{
        dir := Basename,
        sample_interval := SampleMs,
        select := Select,
        process_options := #{status := Status}
    } = Options,
    All = flame_prof_selection:rules(Select),
    Rules = [Rule || Rule <- All, not flame_prof_selection:is_filtered(Rule)],
    #{ring := Ring, libraries := Libraries, texts := Texts} = shares(Engine, Options, IsCapturing),
    Options#{
        engine := Engine,
        event => cpu_clock,
        running_stacks := IsCapturing,
        directory => absolute(Basename),
        node => flame_prof_log_name:node(node()),
        schedulers_online => erlang:system_info(schedulers_online),
        sample_interval_us => SampleMs * 1000,
        cpu_permille => permille(maps:get(cpu_budget, Options)),
        lookback_ms => 0,
        note => <<>>,
        about => about(node(), erlang:system_info(otp_release), Options),
        rules => [native_rule(Rule, Rules) || Rule <- Rules],
        growers => flame_prof_options:growers(Options),
        select_interval_ms => flame_prof_selection:interval(Rules),
        status => Status,
        exclude => Excluded ++ own_processes(),
        ring_bytes => Ring,
        libraries_bytes => Libraries,
        text_bytes => Texts,
        os_pid => 0,
        pid_number_bits => pid_number_bits(erlang:system_info(otp_release))
    }.

%% @doc As filename:absname/1, without the server of files, which may hang in another file.
-spec absolute(file:name_all()) -> file:filename_all().
absolute(Name) ->
    {ok, Current} = prim_file:get_cwd(),
    filename:absname(Name, Current).

%% The words of the profiler's own samples (doc/format.md): of the options only atoms and
%% numbers, so that no path and no name of a program is among them.
about(Node, Release, Options) ->
    Plain = [[atom_to_binary(Key), $=, plain(Value)]
        || {Key, Value} <- lists:sort(maps:to_list(Options)),
           is_atom(Value) orelse is_number(Value)],
    Words = [
        ["node=", atom_to_binary(Node)],
        [" otp=", Release],
        [" version=", ?VERSION],
        [" options=", lists:join($,, Plain)]
    ],
    cut(unicode:characters_to_binary(Words)).

plain(Value) when is_atom(Value) -> atom_to_binary(Value);
plain(Value) when is_integer(Value) -> integer_to_binary(Value);
plain(Value) -> float_to_binary(Value, [short]).

cut(Words) when byte_size(Words) =< ?ABOUT_BYTES ->
    Words;
cut(Words) ->
    case unicode:characters_to_binary(binary:part(Words, 0, ?ABOUT_BYTES)) of
        {_, Whole, _} -> Whole;
        Whole -> Whole
    end.

%% @doc What a session maps at its start: all but the texts of stacks that come.
-spec start_bytes(flame_prof_engine:name(), flame_prof_options:options()) -> pos_integer().
start_bytes(Engine, #{memory_budget := Budget, running_stacks := IsCapturing} = Options) ->
    #{texts := Texts} = shares(Engine, Options, IsCapturing),
    Budget - Texts + ?LEAST_BYTES.

%% What the budget leaves: to the ring a half at most, to the two sets of C libraries a quarter
%% of the rest, to the stacks' texts what is left.
shares(Engine, Options, IsCapturing) ->
    #{sample_interval := SampleMs, select := Select} = Options,
    Node = flame_prof_memory_budget:node_bytes(Engine, Options),
    Spare = max(0, flame_prof_options:spare_memory(Options) - Node),
    Top = flame_prof_selection:top(flame_prof_selection:rules(Select)),
    Ring = ring_bytes(Top, SampleMs, Spare div 2),
    Rest = Spare - (Ring - ?LEAST_BYTES),
    Libraries = libraries_bytes(Engine, IsCapturing, Rest div 8),
    #{ring => Ring, libraries => Libraries, texts => ?LEAST_BYTES + Rest - 2 * Libraries}.

libraries_bytes(native, true, Share) -> min(?LIBRARIES_BYTES, Share);
libraries_bytes(_, _, _) -> 0.

native_rule(#{by := Metric, delta := IsDelta, top := Top} = Rule, Rules) ->
    {Metric, IsDelta, Top, flame_prof_selection:every(Rule, Rules)}.

permille(infinity) -> 0;
permille(Percent) -> max(1, round(Percent * 10)).

%% @doc By a remote writer, for the samples of another node: with that OS process, of that OTP
%% release.
-spec remote_writer(flame_prof_options:options(), node(), non_neg_integer(), string()) ->
    flame_prof_nif:config().
remote_writer(Options, Node, OsPid, Release) ->
    (session(portable, Options, false, []))#{
        node := flame_prof_log_name:node(Node),
        os_pid := OsPid,
        about := about(Node, Release, Options),
        pid_number_bits := pid_number_bits(Release)
    }.

%% @doc For the portable engine, by the owner of the session.
-spec portable(flame_prof_transport:transport(), flame_prof_options:options(), [pid()]) ->
    flame_prof_portable:config().
portable(Transport, Options, Excluded) ->
    #{
        sample_interval := SampleMs,
        select := Select,
        process_options := #{status := Status}
    } = Options,
    #{
        transport => Transport,
        sample_interval_ms => SampleMs,
        rules => flame_prof_selection:rules(Select),
        growers => flame_prof_options:growers(Options),
        status => Status,
        exclude => Excluded ++ own_processes()
    }.

%% @doc The application's, and the caller as the owner of a session; those of a session beside this
%% one, too.
-spec own_processes() -> [pid()].
own_processes() ->
    Others = [Session || Name <- [flame_prof_session, flame_prof_session_beside],
        Session <- [whereis(Name)], is_pid(Session), Session =/= self()],
    OfOthers = lists:append([flame_prof_run:own(Session) || Session <- Others]),
    [self() | flame_prof_own:pids() ++ OfOthers].

%% erl_term.h, _PID_NUM_SIZE: pids grew with OTP 26.
pid_number_bits(Release) ->
    case list_to_integer(Release) of
        Old when Old < 26 -> 15;
        _ -> 28
    end.

%% A power of two, because the library would round it up to one.
ring_bytes(Top, SampleMs, Spare) ->
    Wanted = max(?RING_BYTES, Top * ?SAMPLE_BYTES * (1000 div SampleMs + 1)),
    doubled(?LEAST_BYTES, min(Wanted, ?LEAST_BYTES + Spare)).

doubled(Bytes, Most) when 2 * Bytes =< Most -> doubled(2 * Bytes, Most);
doubled(Bytes, _Most) -> Bytes.
