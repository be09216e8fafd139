%% @doc Frames and processes of a file, for a person.
%%
%% Texts of a file are percent-encoded (doc/format.md): {@link flame_prof:fold/3} and
%% {@link flame_prof_profile:stacks/2} answer them as they stand there, decode/1 makes them
%% readable.
-module(flame_prof_frames).

-include("flame_prof.hrl").

-export([decode/1, function/1]).
-export([kind/1, process/1]).

%% @doc Undoes the percent-encoding of a symbol. Unprintable characters stay encoded: the name of a
%% function may be an escape sequence of a terminal.
-spec decode(binary()) -> binary().
decode(Symbol) ->
    case binary:match(Symbol, <<"%">>) of
        nomatch -> Symbol;
        _ -> printable(decode(Symbol, <<>>), Symbol)
    end.

decode(<<$%, High, Low, Rest/binary>>, Decoded) ->
    try binary_to_integer(<<High, Low>>, 16) of
        Byte -> decode(Rest, <<Decoded/binary, Byte>>)
    catch
        error:badarg -> decode(<<High, Low, Rest/binary>>, <<Decoded/binary, $%>>)
    end;
decode(<<Byte, Rest/binary>>, Decoded) ->
    decode(Rest, <<Decoded/binary, Byte>>);
decode(<<>>, Decoded) ->
    Decoded.

printable(Decoded, Encoded) ->
    case unicode:characters_to_list(Decoded) of
        Characters when is_list(Characters) ->
            case lists:all(fun flame_prof_text:is_visible/1, Characters) of
                true -> Decoded;
                false -> Encoded
            end;
        _ ->
            Encoded
    end.

%% @doc The function of a frame, decoded: `m:f/1:23' is `m:f/1', and `_ZN3foo3barEv' of C++ is
%% `foo::bar'.
-spec function(flame_prof_samples:frame()) -> binary().
function({<<"_Z", _/binary>> = Symbol, _Dso}) ->
    flame_prof_report_nif:demangled(Symbol);
function({Symbol, _Dso}) ->
    case re:run(Symbol, "/[0-9]+(:[0-9]+)$", [{capture, [1], index}]) of
        {match, [{At, _}]} -> decode(binary:part(Symbol, 0, At));
        nomatch -> decode(Symbol)
    end.

%% @private `called': a BIF or a NIF. `pseudo': made by the profiler, such as `[gc]'.
-spec kind(flame_prof_samples:frame()) -> erlang | called | pseudo | native.
kind({_Symbol, <<"bif">>}) -> called;
kind({_Symbol, <<"nif">>}) -> called;
kind({_Symbol, ?FLAME_PROF_DSO}) -> pseudo;
kind({_Symbol, <<"waits_for">>}) -> pseudo;
kind({Symbol, _Dso}) ->
    case re:run(Symbol, ".:.*/[0-9]+(:[0-9]+)?$", [{capture, none}]) of
        match -> erlang;
        nomatch -> native
    end.

%% @private A process by its pid and its name, label or initial call; Elixir's names as Elixir
%% has them.
-spec process(flame_prof_profile:process()) -> binary().
process(#{erl_pid := <<>>} = Process) ->
    other(Process);
process(#{erl_pid := Pid, name := <<_, _/binary>> = Name}) ->
    <<(shown(Name))/binary, " ", Pid/binary>>;
process(#{erl_pid := Pid, label := <<_, _/binary>> = Label}) ->
    <<(shown(Label))/binary, " ", Pid/binary>>;
process(#{erl_pid := Pid, proc_lib_initial_call := <<_, _/binary>> = Call}) ->
    <<Pid/binary, " ", (shown(Call))/binary>>;
process(#{erl_pid := Pid, initial_call := <<_, _/binary>> = Call}) ->
    <<Pid/binary, " ", (shown(Call))/binary>>;
process(#{erl_pid := Pid}) ->
    Pid.

%% A scheduler, or a thread or process in a file of another profiler.
other(#{words := <<"scheduler=", Number/binary>>}) ->
    <<"scheduler ", Number/binary>>;
other(#{comm := Comm, pid := 0, tid := 0}) ->
    shown(Comm);
other(#{comm := Comm, pid := Pid, tid := Tid}) ->
    iolist_to_binary([shown(Comm), io_lib:format(" ~b/~b", [Pid, Tid])]).

shown(Text) ->
    flame_prof_names:function(decode(Text)).
