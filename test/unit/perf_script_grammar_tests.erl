%% The checker itself: it takes what doc/format.md shows, and each rule of it has
%% a file that breaks this rule only.
-module(perf_script_grammar_tests).

-include_lib("eunit/include/eunit.hrl").

the_example_of_the_document_is_accepted_test() ->
    {ok, Summary} = perf_script_grammar:check_text(text(sample(1), sample(2))),
    ?assertMatch(#{samples := 2, comm := <<"beam">>, event := <<"cpu-clock">>,
            tids := #{71 := 1, 72 := 1}, statuses := #{<<"waiting">> := 2}, first_us := 1011367,
            last_us := 2011367, keys := [<<"erl_pid">>, <<"message_queue_len">>, <<"reductions">>]},
        Summary).

accepted_test_() ->
    [{Name, ?_assertMatch({ok, _}, perf_script_grammar:check_text(Text))}
     || {Name, Text} <- [{"no metrics line", changed("# .*\n", "")},
            {"a period", changed(": cpu", ": 9223372036854775807 cpu")},
            {"a wide address", changed("ffffffff", "0000abcd12345678")},
            {"no line number", changed("/7:871", "/7")},
            {"a mark", changed("\tffffffff gen_.*\n", "\tffffffff truncated (flame_prof)\n")},
            {"a name that is not ASCII", changed("Foo", "Ⱦ")},
            {"255 frames", frames(255)},
            {"two processes at one time", text(sample(1), changed(" 2.", " 1.", sample(2)))}]].

%% Format 2.
fields_in_the_header_are_accepted_test() ->
    Whole = "reductions=9/12 message_queue_len=4/1 erl_pid=<0.71.0> name=a%3Ab ",
    Text = text(short(1, Whole), text(short(2, "reductions+7 "), text(short(3, ""),
        short(4, "reductions-7 message_queue_len=5/1 ")))),
    ?assertMatch({ok, #{samples := 4, tids := #{71 := 4}}}, perf_script_grammar:check_text(Text)).

fields_that_are_refused_test_() ->
    Whole = "reductions=9/12 message_queue_len=4/1 erl_pid=<0.71.0> ",
    [{Name, ?_assertMatch({error, {Line, _}}, perf_script_grammar:check_text(
            text(short(1, First), short(2, Second))))}
     || {Name, Line, First, Second} <- [{"a change of nothing", 1, "reductions+7 ", ""},
            {"a change of 0", 5, Whole, "reductions+0 "},
            {"a change of another number", 5, Whole, "memory+1 "},
            {"another order", 5, Whole, "message_queue_len+1 reductions+1 "},
            {"a number twice", 5, Whole, "reductions+1 reductions+1 "},
            {"a change in a whole sample", 5, Whole, "reductions+1 erl_pid=<0.71.0> "},
            {"a number behind a word", 1, "erl_pid=<0.71.0> reductions=1/1 ", ""},
            {"a colon in a word", 1, "reductions=1/1 name=a:b ", ""},
            {"two blanks", 5, Whole, "reductions+1  "},
            {"fields and a period", 5, Whole, "reductions+1 7 "},
            {"a word without text", 1, "reductions=1/1 name= ", ""}]].

short(N, Fields) ->
    unicode:characters_to_binary([
        io_lib:format("worker 4242/71 [003] ~b.011367: ~scpu-clock:\n", [N, Fields]),
        "\tffffffff gen_server:loop/7:871 (gen_server.erl)\n\tffffffff waiting (status)\n\n"]).

refused_test_() ->
    [{Name, ?_assertMatch({error, {Line, _}}, perf_script_grammar:check_text(Text))}
     || {Name, Line, Text} <- [{"an empty file", 1, <<>>},
            {"one sample", 8, sample(1)},
            {"a byte order mark", 1, <<16#ef, 16#bb, 16#bf, (text(sample(1), sample(2)))/binary>>},
            {"not UTF-8", 4, changed("Foo", <<255>>)},
            {"carriage returns", 1, changed(":\n", ":\r\n")},
            {"an empty line first", 1, <<"\n", (text(sample(1), sample(2)))/binary>>},
            {"no empty line last", 14, without_last(1)},
            {"no line feed last", 14, without_last(2)},
            {"an empty line more", 15, <<(text(sample(1), sample(2)))/binary, "\n">>},
            {"two empty lines between", 8, text(<<(sample(1))/binary, "\n">>, sample(2))},
            {"a long header", 1, changed(": cpu", [$:, $\s, lists:duplicate(127, $0), "1 cpu"])},
            {"a digit in the command", 1, changed("beam", "beam2")},
            {"a short command", 1, changed("beam", "b")},
            {"a blank in the command", 1, changed("beam", "be am")},
            {"two digits of CPU", 1, changed("003", "03")},
            {"five digits of microseconds", 1, changed("011367", "11367")},
            {"no period", 1, changed(": cpu", ": 0 cpu")},
            {"a long period", 1, changed(": cpu", ": 9223372036854775808 cpu")},
            {"a second event", 8, text(sample(1), changed("cpu-clock", "cycles", sample(2)))},
            {"time backwards", 8, text(sample(2), sample(1))},
            {"one process twice at one time", 8, text(sample(1), sample(1))},
            {"the end on a whole second", 15,
                text(sample(1), changed("011367", "000000", sample(2)))},
            {"a metric without a value", 2, changed("=9/12", "")},
            {"a metrics line without an end", 2, changed(" .metrics.", "")},
            {"a metric twice", 2, changed("message_queue_len", "reductions")},
            {"two blanks in the metrics", 2, changed("12 mess", "12  mess")},
            {"a second metrics line", 3, changed("# .*\n", "# a=1/2 (metrics)\n&")},
            {"a metrics line behind a frame", 4,
                changed("\tffffffff Elixir", "# a=1/2 (metrics)\n&")},
            {"no frame", 3, changed("\tffffffff.*\n", "", [global])},
            {"256 frames", 3, frames(256)},
            {"a short address", 3, changed("ffffffff", "fffffff")},
            {"a capital address", 3, changed("ffffffff", "FFFFFFFF")},
            {"no address", 3, changed("ffffffff ", "")},
            {"no dso", 3, changed("erlang.erl", "")},
            {"a blank in a symbol", 3, changed("erlang:", "erl ang:")},
            {"a plus", 3, changed("%2B", "+")},
            {"a quote", 3, changed("%2B", "'")},
            {"a semicolon", 3, changed("%2B", ";")},
            {"half a percent", 3, changed("%2B", "%2")},
            {"a lower-case percent", 3, changed("%2B", "%2b")},
            {"a Unicode blank", 3, changed("%2B", " ")},
            {"a line separator", 3, changed("%2B", <<16#2028/utf8>>)},
            {"a blank of no width", 3, changed("%2B", <<16#200b/utf8>>)},
            {"a byte order mark inside", 3, changed("%2B", <<16#feff/utf8>>)},
            {"a C1 control", 3, changed("%2B", <<16#85/utf8>>)},
            {"a bracket in a dso", 3, changed("erlang.erl", "erlang(1).erl")},
            {"no arity", 3, changed("/2 ", " ")},
            {"an arity beyond Erlang's", 3, changed("/2 ", "/256 ")},
            {"line 0", 5, changed("871", "0")},
            {"a symbol like a number", 3, changed("erlang:", "0x12:")},
            {"a symbol like C++", 3, changed("erlang:", "_Z3foo:")},
            {"a symbol like Rust", 3, changed("erlang:", "_Rfoo:")},
            {"a symbol like nothing", 3, changed("erlang:", "[unknown]:")},
            {"a wide 17th byte from the end", 3, changed("erlang:%2B%2B/2", "maé:aaaaaaaaaaaa/2")},
            {"no status", 5, changed("\tffffffff waiting.*\n", "")},
            {"an unknown status", 6, changed("waiting", "asleep")},
            {"a status inside", 3, changed("\tffffffff gen_.*\n", "\tffffffff waiting (status)\n")}]
    ].

text(First, Second) -> <<First/binary, Second/binary>>.

sample(N) ->
    unicode:characters_to_binary([
        io_lib:format("beam 4242/~b [003] ~b.011367: cpu-clock:\n", [70 + N, N]),
        io_lib:format("# reductions=9/12 message_queue_len=4/1 erl_pid=<0.~b.0> (metrics)\n",
            [70 + N]),
        "\tffffffff erlang:%2B%2B/2 (erlang.erl)\n",
        "\tffffffff Elixir.Foo.Bar:-handle_call/3-fun-0-/1:99 (Elixir.Foo.Bar.erl)\n",
        "\tffffffff gen_server:loop/7:871 (gen_server.erl)\n", "\tffffffff waiting (status)\n\n"]).

frames(Count) ->
    Frames = [[<<"\tffffffff m:f/0 (m.erl)\n">>] || _ <- lists:seq(1, Count - 4)],
    changed("\tffffffff erlang", [Frames, "&"]).

without_last(Bytes) ->
    Text = text(sample(1), sample(2)),
    binary:part(Text, 0, byte_size(Text) - Bytes).

%% The file with this change in its first sample.
changed(From, To) -> changed(From, To, []).

changed(From, To, Options) when is_list(Options) ->
    text(replaced(From, To, sample(1), Options), sample(2));
changed(From, To, Sample) -> replaced(From, To, Sample, []).

replaced(From, To, Sample, Options) ->
    Changed = re:replace(Sample, From, bytes(To), [{return, binary} | Options]),
    true = Changed =/= Sample,
    Changed.

%% Binaries are bytes, strings are characters.
bytes(To) when is_binary(To) -> To;
bytes(To) -> unicode:characters_to_binary(To).
