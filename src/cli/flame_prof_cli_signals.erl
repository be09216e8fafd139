%% @private SIGTERM and SIGHUP as a message to the command, which ends in good
%% order. The script sends SIGTERM for Ctrl-C.
-module(flame_prof_cli_signals).

-behaviour(gen_event).

-export([install/1, is_orphan/0]).
-export([init/1, handle_event/2, handle_call/2]).

%% An environment variable.
-define(STARTER, "FLAME_PROF_STARTER").

-spec install(pid()) -> ok.
install(Command) ->
    ok = persistent_term:put(?MODULE, parent()),
    ok = os:set_signal(sigterm, handle),
    ok = os:set_signal(sighup, handle),
    gen_event:swap_handler(
        erl_signal_server, {erl_signal_handler, []}, {?MODULE, Command}
    ).

%% @doc The script was killed, and with it the terminal's Ctrl-C; or the program has ended that
%% started the script, and gave its process id for that.
-spec is_orphan() -> boolean().
is_orphan() ->
    parent() =/= persistent_term:get(?MODULE, unknown) orelse has_ended(os:getenv(?STARTER)).

has_ended(false) -> false;
has_ended(Pid) -> not filelib:is_dir("/proc/" ++ Pid).

%% Behind the name in brackets, which may hold anything, come state and parent.
parent() ->
    case file:read_file("/proc/self/stat") of
        {ok, Text} ->
            [_State, Parent | _] = string:lexemes(lists:last(string:split(Text, ")", all)), " "),
            Parent;
        {error, _} ->
            unknown
    end.

-spec init({pid(), term()}) -> {ok, pid()}.
init({Command, _}) ->
    {ok, Command}.

-spec handle_event(atom(), pid()) -> {ok, pid()}.
handle_event(Signal, Command) when Signal =:= sigterm; Signal =:= sighup ->
    Command ! {flame_prof_cli, interrupted},
    {ok, Command};
handle_event(_, Command) ->
    {ok, Command}.

-spec handle_call(term(), pid()) -> {ok, ok, pid()}.
handle_call(_, Command) ->
    {ok, ok, Command}.
