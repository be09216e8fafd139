%% A report builder that collects garbage for most of its time: it keeps all rows of the
%% report on its heap, copies a tuple of all totals to change one of them, and has a
%% fullsweep_after of 0, so that each collection copies all the rows.
-module(trouble_gc).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([start_link/0, init/0]).

-define(PAUSE_MS, 1).
-define(ROWS, 80000).
-define(TOTALS, 50000).
-define(ROWS_OF_PAGE, 100).

children() ->
    [#{id => report_builder, start => {?MODULE, start_link, []}}].

truth() ->
    #{problem => gc,
      kind => [gc, long_gc],
      severity => warning,
      finding => gc,
      process => report_builder,
      function => <<"trouble_gc:page/2">>,
      sentence => <<"report_builder collects garbage for more than a fifth of its time; "
          "trouble_gc:page/2 makes the garbage.">>}.

start_link() ->
    proc_lib:start_link(?MODULE, init, [], infinity, [{fullsweep_after, 0}]).

init() ->
    register(report_builder, self()),
    Rows = [row(N) || N <- lists:seq(1, ?ROWS)],
    proc_lib:init_ack({ok, self()}),
    build(Rows, erlang:make_tuple(?TOTALS, 0)).

build(Rows, Totals) ->
    {Page, _} = lists:split(?ROWS_OF_PAGE, Rows),
    Totals1 = page(Page, Totals),
    timer:sleep(?PAUSE_MS),
    build(Rows, Totals1).

page([{Account, _, Amounts} | Rows], Totals) ->
    Total = lists:sum(Amounts),
    page(Rows, setelement(Account, Totals, Total));
page([], Totals) ->
    Totals.

row(N) ->
    {1 + N rem ?TOTALS, <<"row ", (integer_to_binary(N))/binary>>,
     [erlang:phash2({N, I}, 1000) || I <- lists:seq(1, 10)]}.
