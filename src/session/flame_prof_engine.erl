%% @private Which engine takes the samples, and why this one.
-module(flame_prof_engine).

-export([choose/1, capture/0]).

-export_type([name/0, choice/0, refusal/0, capture_refusal/0]).

-type name() :: native | portable.

%% `layout' is there with the native engine: what calibration found.
-type choice() :: #{engine := name(), why := binary(), layout => flame_prof_calibration:info()}.

-type refusal() ::
    {library, Why :: binary()}
    | {native_engine, Reason :: term(), Text :: binary()}.

%% Beside these: no scheduler can be asked what it runs.
-type capture_refusal() :: refusal() | {schedulers, Why :: binary()}.

%% @doc `auto' is the native engine where it can be trusted and the portable one
%% elsewhere; `native' is refused where it cannot be trusted.
-spec choose(auto | native | portable) -> {ok, choice()} | {error, refusal()}.
choose(Wanted) ->
    %% The portable engine needs the library too: it writes the file.
    case code:ensure_loaded(flame_prof_nif) of
        {module, _} -> choose_loaded(Wanted);
        {error, Reason} -> {error, {library, text("the C library did not load: ~tp", [Reason])}}
    end.

%% @doc The native engine, and schedulers that can be asked what they run: made
%% ready now if they are not yet, which takes up to a second once.
-spec capture() -> {ok, flame_prof_schedulers:known()} | {error, capture_refusal()}.
capture() ->
    case choose(native) of
        {ok, _} ->
            case flame_prof_schedulers:ensure() of
                {ok, _Registered, Known} ->
                    ok = flame_prof_capture_classes:await(),
                    {ok, Known};
                {error, Why} -> {error, {schedulers, Why}}
            end;
        {error, _} = Refusal ->
            Refusal
    end.

choose_loaded(portable) ->
    {ok, portable(<<"asked for">>)};
choose_loaded(Wanted) ->
    case {native(Wanted), Wanted} of
        {{ok, Choice}, _} ->
            {ok, Choice};
        {{error, _Reason, Text}, auto} ->
            {ok, portable(Text)};
        {{error, Reason, Text}, native} ->
            {error, {native_engine, Reason, Text}}
    end.

portable(Why) ->
    #{engine => portable, why => <<"portable: ", Why/binary>>}.

%% A release that the layout table does not list is tried only where somebody
%% insists; what that found is not for who did not.
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
    {ok, #{engine => native, why => Why, layout => Layout}};
calibrated(_Arch, {error, Reason}) ->
    {error, Reason, unicode:characters_to_binary(flame_prof_calibration:format_error(Reason))}.

tested(tested) -> "in the tested matrix";
tested(untested) -> "in the layout table but not in the tested matrix";
tested(unlisted) -> "not in the layout table".

text(Format, Args) ->
    unicode:characters_to_binary(io_lib:format(Format, Args)).
