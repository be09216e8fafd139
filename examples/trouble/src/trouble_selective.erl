%% A printer of invoices that waits for acknowledgements by their form, behind 60,000 jobs that it
%% leaves in its mailbox: each receive looks through all of them.
-module(trouble_selective).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([printer/0, tray/0]).

-define(JOBS, 60000).

children() ->
    [trouble:process(invoice_printer, ?MODULE, printer, []),
     trouble:process(paper_tray, ?MODULE, tray, [])].

truth() ->
    #{problem => selective_receive, kind => [selective_receive], severity => warning,
      process => [invoice_printer], function => <<"trouble_selective:page/1">>,
      sentence => <<"invoice_printer looks through 60,000 messages for each one that it takes, in "
          "trouble_selective:page/1.">>}.

printer() ->
    [self() ! {job, N, invoice} || N <- lists:seq(1, ?JOBS)],
    pages(1).

pages(N) ->
    ok = page(N),
    pages(N + 1).

page(N) ->
    paper_tray ! {sheet, self(), N},
    receive
        {sheet_taken, N} -> ok
    end.

tray() ->
    receive
        {sheet, From, N} -> From ! {sheet_taken, N}
    end,
    tray().
