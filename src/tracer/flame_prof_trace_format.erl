%% @doc Events of a readable trace as text, and the behaviour of modules that do it otherwise:
%% `format => Module' of {@link flame_prof_trace}.
%%
%% ```
%% % 09:41:07.123456 <0.188.0> my_server
%% % lists:seq(1, 3)
%% %   called by my_server:handle_call/3
%%
%% % 09:41:07.123461 <0.188.0> my_server
%% % lists:seq/2 -> [1,2,3]
%% '''
%%
%% `...' stands for what the limits of terms left out: of `{a, {b}, [1 | _]}' it may show
%% `{a,{...},[1|...]}'; of a binary the size is told: `<<"abc"... 4096 bytes>>'.
-module(flame_prof_trace_format).

-export([format/1, summary/2, term/1]).

-export_type([event/0]).

-type event() :: #{
    event := call | return | exception | send | 'receive' | spawn | spawned | exit | link | unlink
        | getting_linked | getting_unlinked | register | unregister,
    time := integer(),
    process := pid(),
    name := atom() | mfa() | unknown,
    mfa => mfa(),
    args => [term()],
    caller => mfa() | undefined,
    stack => [tuple()],
    value => term(),
    class => term(),
    reason => term(),
    message => term(),
    to => term(),
    exists => boolean(),
    from => pid() | undefined,
    other => pid() | port(),
    registered_name => atom(),
    result => term()
}.
%% `time' is Unix time in nanoseconds. `args': of a call and of a spawn. `value' of a return,
%% `class' and `reason' of an exception, and of an exit `reason'. `other': the child, the parent, or
%% the process of a link. `exists' is `false' for a message to a process that has exited. `result':
%% of a match specification that was given. What limits left out of a term is told by
%% <code>'...'</code>:
%% {@link flame_prof_trace}.

-callback format(event()) -> unicode:chardata().

%% @doc The default.
-spec format(event()) -> unicode:chardata().
format(#{time := Time, process := Pid} = Event) ->
    ["% ", time(Time), " ", pid_to_list(Pid), name(Event), "\n", [["% ", Line, "\n"]
        || Line <- lines(Event)], "\n"].

name(#{name := unknown}) -> "";
name(#{name := {_, _, _} = MFA}) -> [" ", mfa(MFA)];
name(#{name := Name}) -> [" ", atom(Name)].

time(Ns) ->
    {{_, _, _}, {H, M, S}} =
        calendar:system_time_to_local_time(Ns, nanosecond),
    Us = Ns div 1000 - Ns div 1000000000 * 1000000,
    io_lib:format("~2..0b:~2..0b:~2..0b.~6..0b", [H, M, S, Us]).

lines(#{event := call, mfa := {M, F, _}, args := Args} = Event) ->
    [[function(M, F), "(", arguments(Args), ")"]] ++ called(Event) ++ result(Event);
lines(#{event := return, mfa := MFA, value := Value}) ->
    [[mfa(MFA), " -> ", term(Value)]];
lines(#{event := exception, mfa := MFA, class := Class, reason := Reason}) ->
    [[mfa(MFA), " raises ", term(Class), ": ", term(Reason)]];
lines(#{event := send, message := Message, to := To} = Event) ->
    Gone = [" (which does not exist)" || maps:get(exists, Event, true) =:= false],
    [["sends to ", term(To), Gone, ": ", term(Message)]] ++ result(Event);
lines(#{event := 'receive', message := Message} = Event) ->
    From = [[" from ", term(From)] || #{from := From} <- [Event], From =/= undefined],
    [["receives", From, ": ", term(Message)]] ++ result(Event);
lines(#{event := spawn, other := Pid, mfa := {M, F, _}, args := Args}) ->
    [["spawns ", term(Pid), ": ", function(M, F), "(", arguments(Args), ")"]];
lines(#{event := spawned, other := Pid, mfa := {M, F, _}, args := Args}) ->
    [["is spawned by ", term(Pid), ": ", function(M, F), "(", arguments(Args), ")"]];
lines(#{event := exit, reason := Reason}) ->
    [["exits: ", term(Reason)]];
lines(#{event := register, registered_name := Name}) -> [["gets the name ", atom(Name)]];
lines(#{event := unregister, registered_name := Name}) -> [["loses the name ", atom(Name)]];
lines(#{event := link, other := Other}) -> [["links to ", term(Other)]];
lines(#{event := unlink, other := Other}) -> [["removes its link to ", term(Other)]];
lines(#{event := getting_linked, other := Other}) -> [["is linked by ", term(Other)]];
lines(#{event := getting_unlinked, other := Other}) -> [["loses the link of ", term(Other)]].

called(#{stack := [_ | _] = Stack}) -> [["  ", frame(Frame)] || Frame <- frames(Stack)];
called(#{caller := {_, _, _} = Caller}) -> [["  called by ", mfa(Caller)]];
called(#{}) -> [].

%% Improper where it is cut.
frames([Frame | Frames]) -> [Frame | frames(Frames)];
frames([]) -> [];
frames(Cut) -> [Cut].

frame({M, F, A, Place}) when is_integer(A) -> [mfa({M, F, A}), place(Place)];
frame(Other) -> term(Other).

place(Place) when is_list(Place) ->
    try {proplists:get_value(file, Place), proplists:get_value(line, Place)} of
        {[_ | _] = File, Line} when is_integer(Line) ->
            [" ", filename:basename(File), ":", integer_to_list(Line)];
        _ -> ""
    catch
        %% It is cut.
        error:_ -> ""
    end;
place(_) -> "".

result(#{result := Result}) -> [["  ", term(Result)]];
result(#{}) -> [].

mfa({M, F, A}) when is_atom(M), is_atom(F), is_integer(A) -> flame_prof_names:printed({M, F, A});
mfa({M, F, A}) -> [function(M, F), "/", term(A)].

function(M, F) when is_atom(M), is_atom(F) -> flame_prof_names:printed({M, F});
function(M, F) -> [atom(M), ":", atom(F)].

atom(Atom) when is_atom(Atom) -> flame_prof_names:printed(Atom);
atom(Other) -> term(Other).

arguments([]) -> "";
arguments([Arg]) -> term(Arg);
arguments([Arg | Args]) when is_list(Args) -> [term(Arg), ", ", arguments(Args)];
arguments([Arg | Cut]) -> [term(Arg), ", ", term(Cut)];
arguments(Cut) -> term(Cut).

%% @doc A term as a trace has it, on one line.
-spec term(term()) -> unicode:chardata().
term('...') -> "...";
term({'...', text, Text}) when is_binary(Text) -> Text;
term({'...', binary, Size, Bytes}) when is_binary(Bytes) ->
    Shown = unicode:characters_to_list(io_lib:format("~0tp", [Bytes])),
    [lists:sublist(Shown, length(Shown) - 2), "... ", integer_to_list(Size), " bytes>>"];
term({'...', tuple, Size, Here}) when is_list(Here) ->
    ["{", commas(Here), more(Here, Size), "}"];
term({'...', map, Size, Pairs}) when is_list(Pairs) ->
    ["#{", pairs(Pairs), more(Pairs, Size), "}"];
term(Tuple) when is_tuple(Tuple) -> ["{", commas(tuple_to_list(Tuple)), "}"];
term(Map) when is_map(Map) -> ["#{", pairs(maps:to_list(Map)), "}"];
term([_ | _] = List) ->
    {Begin, Tail} = proper(List, []),
    case Tail of
        [] ->
            case io_lib:printable_unicode_list(Begin) of
                true -> io_lib:format("~0tp", [Begin]);
                false -> ["[", commas(Begin), "]"]
            end;
        '...' ->
            case io_lib:printable_unicode_list(Begin) of
                true -> [io_lib:format("~0tp", [Begin]), "..."];
                false -> ["[", commas(Begin), "|...]"]
            end;
        _ -> ["[", commas(Begin), "|", term(Tail), "]"]
    end;
term(Leaf) -> io_lib:format("~0tp", [Leaf]).

proper([H | T], Begin) -> proper(T, [H | Begin]);
proper(Tail, Begin) -> {lists:reverse(Begin), Tail}.

commas(Terms) -> lists:join(",", [term(Term) || Term <- Terms]).

pairs(Pairs) -> lists:join(",", [[term(K), " => ", term(V)] || {K, V} <- Pairs]).

more(Here, Size) when length(Here) < Size ->
    Comma = [$, || Here =/= []],
    [Comma, "... ", integer_to_list(Size - length(Here)), " more"];
more(_Here, _Size) -> "".

%% @private The last line of a trace, whose limit was so many events a second.
-spec summary(flame_prof_trace:summary(), pos_integer()) -> unicode:chardata().
summary(#{ended := Ended, seconds := Seconds} = Summary, Rate) ->
    #{written := Written, dropped := Dropped, lost := Lost, late := Late} = Summary,
    #{left_alone := Alone, processes := Processes, not_followed := NotFollowed} = Summary,
    io_lib:format("% ~ts event~ts in ~.1f s, ~ts dropped (rate ~b a second), ~ts lost~ts; "
        "ended: ~ts~n", [flame_prof_text:grouped(Written), flame_prof_text:plural(Written),
        Seconds, flame_prof_text:grouped(Dropped), Rate, flame_prof_text:grouped(Lost),
        [[", ", flame_prof_text:grouped(Late), " skipped while the node was busy"] || Late > 0] ++
        [[", ", flame_prof_text:grouped(NotFollowed), " message",
            flame_prof_text:plural(NotFollowed), " not followed"] || NotFollowed > 0] ++
        [io_lib:format(", ~b processes have another tracer", [Alone]) || Alone > 0] ++
        [", no process was traced" || Processes =:= 0],
        ended_text(Ended)]).

ended_text({limit, Limit}) -> atom_to_list(Limit);
ended_text(asked) -> "asked";
ended_text({_, What}) -> io_lib:format("~tp", [What]).
