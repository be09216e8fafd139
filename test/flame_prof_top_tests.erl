%% The live table, with a terminal that the test holds.
-module(flame_prof_top_tests).

-include_lib("eunit/include/eunit.hrl").

%% The table's printing is held up until the line has come: it is not read any more.
a_line_that_came_too_late_is_not_left_test_() ->
    {timeout, 1200, fun() ->
        Test = self(),
        {Top, Monitor} = spawn_monitor(fun() ->
            true = group_leader(Test, self()),
            ok = flame_prof_top:live(#{count => 1, rows => 5}),
            exit({left, process_info(self(), messages)})
        end),
        terminal(Top, none, none),
        receive
            {'DOWN', Monitor, process, Top, Reason} -> ?assertEqual({left, {messages, []}}, Reason)
        end
    end}.

%% Answers what is asked of a terminal until there is a table to print and
%% somebody who waits for a line.
terminal(Top, {Printer, Print}, {Reader, Read}) ->
    Reader ! {io_reply, Read, "memory\n"},
    until(fun() -> has_line(process_info(Top, messages)) end),
    Printer ! {io_reply, Print, ok};
terminal(Top, Printing, Reading) ->
    receive
        {io_request, From, As, {get_geometry, _}} ->
            From ! {io_reply, As, 80},
            terminal(Top, Printing, Reading);
        {io_request, From, As, Request} when element(1, Request) =:= put_chars ->
            terminal(Top, {From, As}, Reading);
        {io_request, From, As, Request} when element(1, Request) =:= get_line ->
            terminal(Top, Printing, {From, As})
    end.

has_line({messages, Messages}) ->
    [line || Message <- Messages, element(1, Message) =:= flame_prof_top,
        element(2, Message) =:= line] =/= [].

until(Condition) ->
    Condition() orelse begin timer:sleep(20), until(Condition) end.
