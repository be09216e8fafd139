%% The CPUs are busy, but the program does not get on: who collects garbage?
-module(guide_garbage).

-export([run/1]).

run(Directory) ->
    Report = spawn(fun() -> report(lists:seq(1, 20000)) end),
    true = register(report_builder, Report),
    {ok, _} = flame_prof:start(#{
        dir => Directory,
        select => #{top => 20, by => minor_gcs, interval => 500}
    }),
    timer:sleep(3000),
    {ok, #{files := Files}} = flame_prof:stop(),
    flame_prof:hot(Files, #{by => minor_gcs, top => 3}).

%% All rows are alive, and each turn throws as many away.
report(Rows) ->
    report(lists:map(fun format/1, Rows)).

format(Row) when is_integer(Row) -> {Row, integer_to_list(Row)};
format({Row, Text}) -> {Row, lists:reverse(Text)}.
