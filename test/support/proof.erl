%% Figures of `make proof': what was measured, with the interval that it may lie in and the aim.
%% They are printed and appended to the file that $PROOF_FIGURES names, one a line, with tabs.
-module(proof).

-export([figure/5, share/5]).

%% @doc `Interval': {Low, High} or none. `Aim': text, empty if there is none.
-spec figure(io:format(), [term()], number(), {number(), number()} | none, string()) -> ok.
figure(Format, Args, Value, Interval, Aim) ->
    Name = io_lib:format(Format, Args),
    Line = lists:join($\t, [Name, number(Value), interval(Interval), Aim]),
    io:format(user, "    ~ts: ~ts~ts~ts~n", [Name, number(Value), in_brackets(interval(Interval)),
        [[", aim ", Aim] || Aim =/= ""]]),
    case os:getenv("PROOF_FIGURES") of
        false -> ok;
        File -> file:write_file(File, unicode:characters_to_binary([Line, $\n]), [append])
    end.

%% @doc How many points a share of samples is off its truth, with two standard errors of independent
%% samples: those that stand at one place depend on each other.
-spec share(io:format(), [term()], Samples, Truth, string()) -> ok when
    Samples :: {Of :: non_neg_integer(), All :: non_neg_integer()}, Truth :: {number(), number()}.
share(Format, Args, {N, All}, {Part, Whole}, Aim) ->
    Truth = Part / max(1, Whole),
    Off = 100 * (N / max(1, All) - Truth),
    Error = 200 * math:sqrt(Truth * (1 - Truth) / max(1, All)),
    figure(Format ++ ", points off, of ~w samples", Args ++ [All], Off, {Off - Error, Off + Error},
        Aim).

interval(none) -> "";
interval({Low, High}) -> [number(Low), " to ", number(High)].

in_brackets("") -> "";
in_brackets(Text) -> [" (", Text, ")"].

number(N) when is_integer(N) -> integer_to_list(N);
number(N) -> io_lib:format("~.2f", [N]).
