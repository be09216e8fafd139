%% What is logged while a test does something.
-module(logged).

-export([during/1, texts/1]).
%% A handler of logger.
-export([log/2]).

-type event() :: {logger:level(), Message :: string() | logger:report(), logger:metadata()}.

%% @doc A message with arguments is its text.
-spec during(fun(() -> term())) -> [event()].
during(Fun) ->
    Id = list_to_atom("logged_" ++ pid_to_list(self())),
    ok = logger:add_handler(Id, ?MODULE, #{config => #{to => self()}, level => all}),
    try Fun() after ok = logger:remove_handler(Id) end,
    all().

%% @doc The texts of flame_prof's own.
-spec texts(fun(() -> term())) -> [string()].
texts(Fun) -> [Text || {_, [_ | _] = Text, #{application := flame_prof}} <- during(Fun)].

all() ->
    receive
        {?MODULE, Event} -> [Event | all()]
    after 0 -> []
    end.

log(#{level := Level, msg := Message, meta := Meta}, #{config := #{to := To}}) ->
    To ! {?MODULE, {Level, message(Message), Meta}}.

message({report, Report}) -> Report;
message({string, Text}) -> lists:flatten(io_lib:format("~ts", [Text]));
message({Format, Arguments}) -> lists:flatten(io_lib:format(Format, Arguments)).
