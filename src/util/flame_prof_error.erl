%% @private One sentence for a person of each reason that flame_prof refuses with.
-module(flame_prof_error).

-export([format/1]).

-spec format(flame_prof:reason()) -> unicode:chardata().
format({bad_option, _, _} = Reason) ->
    flame_prof_options:format_error(Reason);
format({already_started, Pid}) ->
    io_lib:format("a session is running, or waits for its triggers, already: ~p", [Pid]);
format({native_engine, _, Text}) ->
    ["the native engine cannot be used here: ", Text];
format({session, _, Text}) ->
    Text;
format({Asked, _, Text}) when Asked =:= perf_map; Asked =:= pstack; Asked =:= blame ->
    Text;
format({not_started, _}) ->
    "no session is running";
format({schedulers, Text}) ->
    ["the schedulers cannot be asked what they run: ", Text];
format(not_started) ->
    "no session is running";
format(stopping) ->
    "the session is ending";
format({timeout, Ms}) ->
    io_lib:format("no answer within ~p ms; it goes on in the background", [Ms]);
format({_, Text}) when is_binary(Text) ->
    Text;
format(Reason) ->
    io_lib:format("~0tP", [Reason, 20]).
