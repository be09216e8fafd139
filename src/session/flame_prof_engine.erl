%% @private Which engine takes the samples, and why this one.
-module(flame_prof_engine).

-export([choose/1, load/0, capture/0, portable_error/1]).
-export([schedulers/2, usable/3, without_allocations/0]).

-include_lib("kernel/include/logger.hrl").

-export_type([name/0, choice/0]).

-type name() :: native | portable.

-type choice() :: #{engine := name(), engine_reason := binary()}.


%% @doc `auto' is the native engine where it can be trusted and the portable one
%% elsewhere; `native' is refused where it cannot be trusted.
-spec choose(auto | native | portable) -> {ok, choice()} | {error, flame_prof:reason()}.
choose(Wanted) ->
    %% First: a load of the library ends the code server of a node that has no process left.
    case {has_room(Wanted), Wanted} of
        {ok, _} -> choose_with_room(Wanted);
        {{error, Reason}, auto} -> without_native(flame_prof_shortage:check(portable), Reason);
        {{error, _} = Shortage, _} -> Shortage
    end.

has_room(portable) -> flame_prof_shortage:check(portable);
has_room(_) -> flame_prof_shortage:check(native).

without_native(ok, Reason) ->
    {ok, portable(unicode:characters_to_binary(flame_prof_error:format(Reason)))};
without_native({error, _} = Shortage, _Reason) ->
    Shortage.

choose_with_room(Wanted) ->
    %% The portable engine needs the library too: it writes the file.
    case load() of
        ok -> choose_loaded(Wanted);
        {error, _} = Error -> Error
    end.

%% @doc The library is loaded, now if it was not.
-spec load() -> ok | {error, flame_prof:reason()}.
load() ->
    loaded(whereis(flame_prof_agent)).

loaded(undefined) ->
    case code:ensure_loaded(flame_prof_nif) of
        {module, flame_prof_nif} -> ok;
        {error, Why} -> {error, {library, #{reason => unloaded(Why)}}}
    end;
%% What an agent has not loaded is in no file: to look for it would keep the code server where files
%% hang.
loaded(_Agent) ->
    case erlang:module_loaded(flame_prof_nif) of
        true -> ok;
        false -> {error, {library, #{reason => <<"the agent of this node has not loaded it">>}}}
    end.

%% flame_prof_nif keeps what the system said. An embedded system loads it at its start only.
unloaded(Reason) ->
    case {application:get_env(flame_prof_nif, failure), Reason} of
        {{ok, Why}, _} -> text("~ts~ts", [Why, hint(Why)]);
        {undefined, on_load_failure} -> <<"the log has the reason">>;
        {undefined, embedded} -> <<"flame_prof_nif is not in the boot script of this release">>;
        {undefined, _} -> <<"flame_prof_nif.beam cannot be read">>
    end.

%% The dynamic linker's message for a file that it may read and not run.
hint(Why) ->
    case string:find(Why, "failed to map segment") of
        nomatch -> "";
        _ -> ", as from a file system that is mounted noexec"
    end.

%% @doc The native engine, and schedulers that can be asked what they run: made
%% ready now if they are not yet, which takes up to a second once.
-spec capture() -> {ok, flame_prof_schedulers:known()} | {error, flame_prof:reason()}.
capture() ->
    case choose(native) of
        {ok, _} ->
            case flame_prof_schedulers:ensure() of
                {ok, _Registered, Known} ->
                    ok = flame_prof_capture_classes:await(),
                    {ok, Known};
                {error, Why} -> {error, unasked(Why)}
            end;
        {error, _} = Refusal ->
            Refusal
    end.

%% @doc Whether the schedulers are asked what they run. Where they cannot be, all else works as
%% well as without.
-spec schedulers(name(), flame_prof_options:options()) -> flame_prof_schedulers:use().
schedulers(portable, _Options) ->
    flame_prof_run:without_captures();
schedulers(native, #{running_stacks := false}) ->
    {off, <<"not asked for">>};
schedulers(native, _Options) ->
    case flame_prof_schedulers:ensure() of
        {ok, _Registered, Known} ->
            {on, Known};
        {error, Why} ->
            ?LOG_NOTICE(
                "flame_prof does not capture the stacks of running processes: ~ts", [Why],
                #{application => flame_prof, domain => [flame_prof]}
            ),
            {off, Why}
    end.

%% @doc Whether the engine can do what the options ask for.
-spec usable(name(), flame_prof_options:options(), flame_prof_schedulers:use()) ->
    ok | {error, flame_prof:reason()}.
usable(_Engine, #{mode := schedulers}, {off, Why}) ->
    Text = <<"mode schedulers needs the schedulers' answers: ", Why/binary>>,
    {error, {engine, #{engine => native, reason => Text, cause => schedulers}}};
usable(portable, #{allocations := #{}}, _Schedulers) ->
    {error, {engine, #{engine => portable, reason => without_allocations()}}};
usable(_Engine, _Options, _Schedulers) ->
    ok.

%% @doc Why the portable engine has none.
-spec without_allocations() -> binary().
without_allocations() ->
    <<"allocations need the native engine">>.

%% @doc Its process has not started.
-spec portable_error(term()) -> flame_prof:reason().
portable_error(Reason) ->
    {session_ended, #{reason := Why}} = flame_prof_error:of_exit(Reason),
    {engine, #{engine => portable, reason => Why}}.

unasked(Why) ->
    Text = <<"the schedulers cannot be sampled: ", Why/binary>>,
    {engine, #{engine => native, reason => Text, cause => schedulers}}.

choose_loaded(portable) ->
    {ok, portable(<<"asked for">>)};
choose_loaded(Wanted) ->
    case {native(Wanted), Wanted} of
        {{ok, Choice}, _} ->
            {ok, Choice};
        {{error, _Reason, Text}, auto} ->
            {ok, portable(Text)};
        {{error, Reason, Text}, native} ->
            {error, {engine, #{engine => native, reason => Text, cause => Reason}}}
    end.

portable(Why) ->
    #{engine => portable, engine_reason => <<"portable: ", Why/binary>>}.

%% A release that the layout table does not list is tried with `engine => native' only; its
%% result is not that of `auto'.
native(Wanted) ->
    Insists = Wanted =:= native,
    case flame_prof_nif:platform() of
        #{native := true, arch := Arch} ->
            case flame_prof_calibration:ensure(#{allow_unlisted => Insists}) of
                {ok, #{tested := unlisted}} when not Insists ->
                    {error, unlisted, <<"this OTP release is not in the layout table">>};
                Answer ->
                    calibrated(Arch, Answer)
            end;
        #{native := false, why := Why} -> {error, platform, Why}
    end.

calibrated(Arch, {ok, Layout}) ->
    Release = erlang:system_info(otp_release),
    Tested = tested(maps:get(tested, Layout)),
    Why = text("native: OTP ~ts ~ts, layout calibrated, ~ts", [Release, Arch, Tested]),
    {ok, #{engine => native, engine_reason => Why}};
calibrated(_Arch, {error, Reason}) ->
    {error, Reason, unicode:characters_to_binary(flame_prof_calibration:format_error(Reason))}.

tested(tested) -> "in the tested matrix";
tested(untested) -> "in the layout table but not in the tested matrix";
tested(unlisted) -> "not in the layout table".

text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).
