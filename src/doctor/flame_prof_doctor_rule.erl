%% @private What a rule of the doctor is, and what it is given.
%%
%% A rule is a module for one kind of finding, of at most 120 lines: what it needs, its thresholds,
%% and a pure function from evidence to findings. It looks at nothing itself. Its module says below
%% `False alarms' why a healthy node does not meet its thresholds.
-module(flame_prof_doctor_rule).

-export([short/2, portable/1]).
-export([name/1, text/1, pid/1, share/1, bytes/1, number/1, count/2, seconds/1, duration/1]).

-export_type([kind/0, evidence/0, needs/0, thresholds/0, threshold/0, severity/0, finding/0]).
-export_type([process/0, memory/0, second/0]).

-type kind() :: atom().
%% The documented closed list is that of the rules: {@link flame_prof_doctor:kinds/0}.

-type needs() ::
    seconds | samples | waits | standing | mailboxes | memory | tables | binaries | os | system.
%% Keys of {@link evidence()}.

-type evidence() ::
    #{
        node := node() | none,
        engine := flame_prof_engine:name(),
        span_us := non_neg_integer(),
        unseen := #{needs() => Why :: binary()},
        start => #{uptime_ms := non_neg_integer(), is_starting := boolean()},
        seconds => [second(), ...],
        samples => flame_prof_doctor_samples:samples(),
        waits => waits(),
        standing => flame_prof_doctor_standing:standing(),
        mailboxes => [flame_prof_mailbox:mailbox()],
        memory => {First :: memory(), Last :: memory()},
        tables => flame_prof_tables:tables(),
        binaries => flame_prof_binaries:look(),
        os => {First :: flame_prof_doctor_os:os(), Last :: flame_prof_doctor_os:os()},
        system => {First :: flame_prof_doctor_system:system(),
            Last :: flame_prof_doctor_system:system()}
    }.
%% The evidence of one examination. `standing': processes that have only waited for seconds.
%% `mailboxes': the mailboxes with the longest queues. `tables' and
%% `binaries' are of two looks, with what has grown. `os' is what /proc and cgroups say, `system'
%% what few processes or tables of OTP say (supervisors, the logger); `seconds' are cheap figures
%% of the VM. A key that is not there was not seen, and `unseen' says why. Of files only `samples'
%% and what they tell of the node in `seconds' is known; `node' is `none' there.

-type waits() :: flame_prof_waits:look() | #{earlier := [flame_prof_waits:look()],
    monitored => #{pid() => #{pid() => flame_prof_waits:told()}}, _ => _}.
%% The last of the looks in that time, with those `earlier' ones that have what it has not
%% (`flame_prof_waits:looks/1'). `monitored': of idle servers whose answers some wait for, the
%% processes that they monitor and that do not wait for them.

-type memory() ::
    #{
        allocators => [#{allocator := atom(), carriers_bytes := non_neg_integer(),
            blocks_bytes := non_neg_integer(), atom() => term()}],
        process := #{rss => non_neg_integer(), atom() => term()},
        atom() => term()
    }.
%% Of {@link flame_prof_memory:look/1}, or of a reading in a file.

-type second() :: #{time_us := integer(), atom() => number()}.
%% Figures by the names that they have in files: `node_processes', `node_run_queues',
%% `node_memory_ets' (doc/format.md). `own_modules': modules of flame_prof that are loaded.

-type thresholds() :: #{atom() => number()}.
-type threshold() :: {Name :: atom(), Default :: number(), What :: binary()}.
%% `What' has its unit.

-type severity() :: critical | warning | note.
%% `critical': the node ends, or does its work no longer, if nothing is done. `warning': work is
%% delayed or memory lost. `note': it may be intended.

-type process() :: #{pid := binary(), name => binary()}.
%% The pid as the node itself writes it, and its registered name, label or initial call.

-type finding() ::
    #{
        kind := kind(),
        severity := severity(),
        size := number(),
        title := unicode:chardata(),
        sentences := [unicode:chardata(), ...],
        command := unicode:chardata(),
        processes := [process()],
        waiters => [process()],
        numbers := #{atom() => term()},
        function => binary(),
        range => {FromUs :: integer(), ToUs :: integer()},
        view => map(),
        caused_by => [kind()]
    }.
%% `title' follows `N. severity: kind: ' in a line, and has no stop. At most four `sentences': who
%% and where, since when and how much, why we say so. `command' shows more; `NODE' in it is the
%% node's name, and its first word of these letters. The first of `processes' is what it is about.
%% `waiters' are some of those who wait for it. `numbers' has each number of the title and of the
%% sentences, in the unit that its name ends with: `_us', `_ms', `_bytes'; a part of a whole is
%% from 0 to 1. `size' orders those of a kind. `range' and `view' are what the page selects for it.
%% `caused_by': kinds that lead to it: one of these of the same process, or of none, is told before
%% it, and is as severe.

-callback kind() -> kind().
-callback needs() -> [needs(), ...].
-callback thresholds() -> [threshold()].
-callback find(evidence(), thresholds()) -> [finding()] | {unseen, Why :: binary()}.
%% Called only where all of its needs are there. `unseen': they do not have what it takes.

-callback explained_by() -> [kind()].
%% A finding is not told where one of these kinds names the same process first: a heap that is full
%% of messages is the mailbox's finding.

-callback unseen(evidence(), thresholds()) -> Why :: binary() | none.
%% Asked where it finds nothing: could it judge?

-optional_callbacks([explained_by/0, unseen/2]).

%% @doc Why nothing is known where what was sampled lasts for no longer than that.
-spec short(LeastUs :: number(), evidence()) -> binary() | none.
short(LeastUs, #{samples := #{span_us := Us}}) when Us < LeastUs ->
    iolist_to_binary(["the look is too short: that needs more than ", seconds(LeastUs)]);
short(_, _) ->
    none.

%% @doc Of what only the native engine sees.
-spec portable(#{engine => flame_prof_engine:name(), _ => _}) -> binary() | none.
portable(#{engine := portable}) -> <<"that needs the native engine">>;
portable(_) -> none.

%% @doc `order_store (<0.95.0>)', or the pid alone.
-spec name(#{pid := binary(), name => binary(), atom() => term()}) -> unicode:chardata().
name(#{pid := Pid, name := Name}) when Name =/= <<>> -> [Name, " (", Pid, ")"];
name(#{pid := Pid}) -> Pid.

%% @doc A registered name, or what it was started as; empty where it is not known.
-spec text(atom() | mfa()) -> binary().
text({M, F, A}) -> unicode:characters_to_binary(io_lib:format("~ts:~ts/~b", [M, F, A]));
text(Unknown) when Unknown =:= exited; Unknown =:= undefined -> <<>>;
text(Name) -> atom_to_binary(Name).

%% @doc Of 1: `71 %'.
-spec share(number()) -> unicode:chardata().
share(Part) -> [integer_to_list(round(100 * Part)), " %"].

-spec bytes(number()) -> unicode:chardata().
bytes(N) when abs(N) < 1 bsl 10 -> io_lib:format("~b bytes", [round(N)]);
bytes(N) when abs(N) < 1 bsl 20 -> io_lib:format("~.1f KiB", [N / (1 bsl 10)]);
bytes(N) when abs(N) < 1 bsl 30 -> io_lib:format("~.1f MiB", [N / (1 bsl 20)]);
bytes(N) -> io_lib:format("~.2f GiB", [N / (1 bsl 30)]).

%% @doc Rounded; small ones with a place behind the point.
-spec number(number()) -> unicode:chardata().
number(N) when abs(N) >= 10; trunc(N) == N -> flame_prof_text:grouped(round(N));
number(N) -> io_lib:format("~.1f", [float(N)]).

%% @doc `1 process', `2 processes'.
-spec count(number(), Noun :: string()) -> unicode:chardata().
count(1, Noun) -> ["1 ", Noun];
count(N, "process") -> [number(N), " processes"];
count(N, Noun) -> [number(N), " ", Noun, "s"].

-spec seconds(Us :: number()) -> unicode:chardata().
seconds(Us) when Us < 999.5 -> io_lib:format("~b us", [round(Us)]);
seconds(Us) when Us < 999500 -> io_lib:format("~b ms", [round(Us / 1000)]);
seconds(Us) when Us < 9950000 -> io_lib:format("~.1f s", [Us / 1000000]);
seconds(Us) -> io_lib:format("~b s", [round(Us / 1000000)]).

%% @doc Of seconds that may be many: `4 minutes', `2.5 hours', `12 days'.
-spec duration(Seconds :: number()) -> unicode:chardata().
duration(S) when S < 120 -> seconds(S * 1.0e6);
duration(S) when S < 7200 -> [number(round(S / 60)), " minutes"];
duration(S) when S < 172800 -> [number(round(S / 3600)), " hours"];
duration(S) -> [number(round(S / 86400)), " days"].

%% @doc As the examined node writes it, also where the judge is another one: there the first number
%% of its text is another. A text stays as it is.
-spec pid(pid() | binary()) -> binary().
pid(Pid) when is_pid(Pid) ->
    [_, Rest] = string:split(pid_to_list(Pid), "."),
    list_to_binary(["<0.", Rest]);
pid(Text) ->
    Text.
