%% @private Allocations as text and as JSON. {@link flame_prof_allocations} has the shapes.
-module(flame_prof_allocations_text).

-export([format/1, json/1, collapsed/1, frame/1]).

-import(flame_prof_text, [duration/1, grouped/1, percent/1, plural/1, right/2]).

-define(ROWS, 15).
-define(MESSAGES, 5).
-define(LONGEST, 5).
-define(COLLECTED, 5).
-define(FRAMES, 6).
%% A percentage of the words that is worth a sentence.
-define(NOTED, 1.0).

-spec format(flame_prof_allocations:allocations()) -> unicode:chardata().
format(#{stacks := Stacks, processes := Processes, names := Names} = Allocations) ->
    Sampled = lists:sum([Words || {_, Words} <- Stacks]),
    Functions = functions(Stacks),
    Survived = survived(Allocations),
    [
        heading(Allocations),
        [["ended early: ", ended(Ended), "\n"]
         || #{ended := Ended} <- [Allocations], not is_due(Ended)],
        in_step(Allocations, Sampled),
        share_of(Allocations),
        lost(Allocations, Sampled),
        ["no stack: measure longer, or set a smaller `bytes`\n"
         || Functions =:= []],
        ["\n  total    own  survive  function\n" || Functions =/= []],
        [
            [percent(share(All, Sampled)), percent(share(Own, Sampled)), "  ",
                kept(maps:get(Function, Survived, none)), "  ", frame(Function), "\n"]
         || {Function, Own, All} <- lists:sublist(Functions, ?ROWS)
        ],
        ["\n  share  process\n" || Processes =/= []],
        [
            [percent(share(Words, Sampled)), "  ", process(Pid, Names), "\n"]
         || {Pid, Words} <- lists:sublist(Processes, ?ROWS)
        ],
        messages(Allocations, Sampled),
        collections(Allocations)
    ].

messages(#{messages_off := Why}, _Sampled) ->
    ["\nno message in work is known: ", Why, "\n"];
messages(#{messages := []}, _Sampled) ->
    "";
messages(#{messages := Messages}, Sampled) ->
    [
        "\n  share  message in work\n",
        [
            [percent(share(Words, Sampled)), "  ", flame_prof_mailbox_text:tag(Tag), "\n"]
         || {Tag, Words} <- lists:sublist(Messages, ?MESSAGES)
        ]
    ].

heading(#{words := Words, words_error := Error, samples := Samples, milliseconds := Ms} = All) ->
    Bytes = 8 * Words,
    [
        amount(Bytes),
        [[" (+- ", io_lib:format("~.1f", [200 * Error / Words]), "%)"]
         || Words > 0, 200 * Error > ?NOTED / 2 * Words],
        " allocated in ", io_lib:format("~.1f", [Ms / 1000]), " s (",
        amount(Bytes * 1000 div max(1, Ms)), " a second); ",
        grouped(Samples), " sample", plural(Samples), ", one each ", amount(maps:get(bytes, All)),
        "\n"
    ].

%% The text of the page about processes has it, too.
share_of(#{share := 1}) ->
    "";
share_of(#{share := Share}) ->
    N = grouped(Share),
    ["1 in ", N, " processes is traced and counts ", N, " times: the others are in no table\n"].

amount(Bytes) -> amount(Bytes, ["bytes", "KB", "MB", "GB", "TB"]).

amount(N, [Unit | Larger]) when N < 1000; Larger =:= [] -> [digits(N), $\s, Unit];
amount(N, [_ | Larger]) -> amount(N / 1024, Larger).

digits(N) when is_integer(N); N > 99.9 -> integer_to_list(round(N));
digits(N) when N > 9.99 -> io_lib:format("~.1f", [N]);
digits(N) -> io_lib:format("~.2f", [N]).

%% Its own limit of time.
is_due(asked) -> true;
is_due({limit, max_seconds}) -> true;
is_due(_) -> false.

ended({limit, heartbeat}) -> "the node was too busy to check the limits";
ended({limit, broken_invariant}) -> "an invariant of the library is broken";
ended({limit, Limit}) -> ["its limit ", atom_to_list(Limit), " was reached"];
ended({down, Pid}) -> [pid_to_list(Pid), " ended"].

in_step(#{in_step := InStep}, Sampled) ->
    Words = lists:sum([N || {_, N} <- InStep]),
    case share(Words, Sampled) of
        Share when Share >= ?NOTED ->
            [
                "may be in step: ", who(hd(InStep)),
                [[" and ", grouped(N), " more"] || N <- [length(InStep) - 1], N > 0],
                ", with ", string:trim(percent(Share)), " of the bytes\n"
                "  Each collection comes after the same number of bytes, and so may always meet the\n"
                "  same function. The sum is right; shares of functions may be wrong.\n"
            ];
        _ ->
            ""
    end.

who({Pid, _}) when is_pid(Pid) -> pid_to_list(Pid);
who({Frame, _}) -> ["processes that begin with ", frame(Frame)].

lost(#{lost := #{dropped_words := Dropped, unreadable := Unreadable} = Lost} = All, Sampled) ->
    #{collections := #{minor := Minor, major := Major}} = All,
    #{other_stacks_words := Other, events := Events, left_alone := Left} = Lost,
    [
        [["processes with another tracer, which are not measured: ", grouped(Left), "\n"]
         || Left > 0],
        [
            [string:trim(percent(Share)), " of the ", What, "\n"]
         || {Share, What} <- [
                {share(Dropped, Dropped + Sampled),
                    "bytes are in no stack below: there was no room for their samples"},
                {share(Other, Other + Sampled), "bytes are in no stack below: too many stacks"},
                {share(Unreadable, maps:get(looks, All)), "processes to sample could not be read"},
                {share(Events, Events + 2 * (Minor + Major)),
                    "collections are not counted: the node was too busy to measure"}
            ],
            Share >= ?NOTED
        ]
    ].

share(_, 0) -> 0.0;
share(Part, All) -> 100.0 * Part / All.

%% Each function once in a stack.
functions(Stacks) ->
    Add =
        fun({[Leaf | _] = Stack, Words}, Sum0) ->
            Sum = add(function(Leaf), Words, 0, Sum0),
            Each = lists:usort([function(Frame) || Frame <- Stack]),
            lists:foldl(fun(F, S) -> add(F, 0, Words, S) end, Sum, Each)
        end,
    Rows = [{F, Own, All} || {F, {Own, All}} <- maps:to_list(lists:foldl(Add, #{}, Stacks))],
    lists:sort(fun({_, O1, A1}, {_, O2, A2}) -> {O1, A1} >= {O2, A2} end, Rows).

add(Function, Own, All, Sum) ->
    maps:update_with(Function, fun({O, A}) -> {O + Own, A + All} end, {Own, All}, Sum).

%% Of the words that a function has allocated itself.
survived(#{survived := Survived}) ->
    lists:foldl(
        fun({[Leaf | _], Kept, Of}, Sum) -> add(function(Leaf), Kept, Of, Sum) end, #{}, Survived
    ).

kept({_, 0}) -> right("", 7);
kept({Kept, Of}) -> percent(share(Kept, Of));
kept(none) -> right("", 7).

function({Module, Function, Arity, _Line}) -> {Module, Function, Arity};
function(Special) -> Special.

%% @private
-spec frame(flame_prof_allocations:frame() | mfa()) -> unicode:chardata().
frame({Module, Function, Arity, 0}) ->
    frame({Module, Function, Arity});
frame({Module, Function, Arity, Line}) ->
    [frame({Module, Function, Arity}), ":", integer_to_list(Line)];
frame({Module, Function, Arity}) ->
    shown({Module, Function, Arity});
frame(Special) ->
    ["[", atom_to_list(Special), "]"].

shown(Name) ->
    flame_prof_text:visible(unicode:characters_to_binary(flame_prof_names:printed(Name))).

process(Pid, Names) ->
    Name = maps:get(Pid, Names, #{}),
    Parts =
        case Name of
            exited -> ["(exited)"];
            _ ->
                [shown(N) || #{registered_name := N} <- [Name]] ++
                    [frame(Call) || #{initial_call := Call} <- [Name]]
        end,
    lists:join($\s, [pid_to_list(Pid) | Parts]).

collections(#{collections := Collections, names := Names, milliseconds := Ms}) ->
    #{minor := Minor, major := Major, milliseconds := Spent, longest := Longest} = Collections,
    #{longest_microseconds := LongestUs} = Collections,
    [
        ["\n", grouped(Minor), " minor and ", grouped(Major), " major collections took ",
            grouped(Spent), " ms of ", grouped(Ms), ", the longest ", ms(LongestUs), "\n"],
        [lengths(Kind, Histogram)
            || Kind <- [minor, major], #{Kind := Histogram} <- [maps:get(lengths, Collections)]],
        causes(maps:get(causes, Collections)),
        collected(Collections, Names),
        [["\n  the longest:\n"] || Longest =/= []],
        [collection(Collection) || Collection <- lists:sublist(Longest, ?LONGEST)]
    ].

lengths(_Kind, #{count := 0}) ->
    [];
lengths(Kind, Histogram) ->
    At = fun(Q) -> duration(flame_prof_histogram:quantile(Q, Histogram)) end,
    ["  ", atom_to_list(Kind), " ones: half took at most ", At(0.5), ", 99 % at most ",
        At(0.99), ", 99.9 % at most ", At(0.999), "\n"].

%% Of those that were looked at, as they stand for all.
causes(Causes) ->
    Sum = lists:sum(maps:values(Causes)),
    Order = lists:reverse(lists:keysort(2, maps:to_list(Causes))),
    [["  causes: ", lists:join(", ", [[string:trim(percent(100 * N / Sum)), " ", cause(Cause)]
        || {Cause, N} <- Order]), "\n"] || Sum > 0].

%% Of the time of all collections.
collected(#{processes := []}, _Names) ->
    [];
collected(#{processes := Processes, lengths := Lengths}, Names) ->
    AllUs = lists:sum([Ns || #{sum_ns := Ns} <- maps:values(Lengths)]) div 1000,
    [
        "\n  share      minor      major     longest  process\n"
        | [
            [percent(share(Us, AllUs)), right(grouped(Minor), 11), right(grouped(Major), 11),
                right(ms(LongestUs), 12), "  ", process(Pid, Names), "\n"]
         || #{process := Pid, minor := Minor, major := Major, microseconds := Us} = One <-
                lists:sublist(Processes, ?COLLECTED),
            #{longest_microseconds := LongestUs} <- [One]
        ]
    ].

ms(Us) -> [io_lib:format("~.1f", [Us / 1000]), " ms"].

collection(#{process := Pid, kind := Kind, cause := Cause, microseconds := Us} = Collection) ->
    #{words := Words, stack := Stack} = Collection,
    [
        right(ms(Us), 12), "  ", atom_to_list(Kind), ", ", pid_to_list(Pid),
        [[" of ", amount(8 * Words)] || is_integer(Words)], ", ", cause(Cause), "\n",
        right("", 14),
        lists:join(" < ", [frame(Frame) || Frame <- lists:sublist(Stack, ?FRAMES)]),
        [" < ..." || length(Stack) > ?FRAMES], "\n"
    ].

cause(heap) -> "heap full";
cause(fragments) -> "messages or large terms";
cause(binaries) -> "binaries";
cause(other) -> "on request";
cause(unknown) -> "cause not known".

%% @doc A line a stack, the root first, and its words: for flamegraph.pl and others.
-spec collapsed(flame_prof_allocations:allocations()) -> unicode:chardata().
collapsed(#{stacks := Stacks}) ->
    [
        [lists:join(";", [semicolon(frame(F)) || F <- lists:reverse(Stack)]), " ",
            integer_to_list(Words), "\n"]
     || {Stack, Words} <- Stacks
    ].

semicolon(Text) -> string:replace(unicode:characters_to_binary(Text), ";", ":", all).

%% @doc For flame_prof_json.
-spec json(flame_prof_allocations:allocations()) -> map().
json(Allocations) ->
    #{stacks := Stacks, processes := Processes, survived := Survived, names := Names} = Allocations,
    #{collections := Collections, in_step := InStep, ended := Ended} = Allocations,
    #{messages := Messages} = Allocations,
    Longest = [
        C#{process := text(pid_to_list(Pid)), stack := stack(Stack)}
     || #{process := Pid, stack := Stack} = C <- maps:get(longest, Collections)
    ],
    (maps:without([names], Allocations))#{
        stacks := [#{stack => stack(Stack), words => Words} || {Stack, Words} <- Stacks],
        survived := [
            #{stack => stack(Stack), words => Words, of_words => Of}
         || {Stack, Words, Of} <- Survived
        ],
        messages := [
            #{message => text(flame_prof_mailbox_text:tag(Tag)), words => Words}
         || {Tag, Words} <- Messages
        ],
        processes := [#{process => text(process(P, Names)), words => W} || {P, W} <- Processes],
        collections := Collections#{
            longest := Longest,
            processes := [
                One#{process := text(process(Pid, Names))}
             || #{process := Pid} = One <- maps:get(processes, Collections)
            ],
            lengths := maps:map(
                fun(_, #{buckets := Buckets} = H) ->
                    (maps:merge(H, flame_prof_histogram:quantiles(H)))#{
                        buckets := flame_prof_histogram:json(Buckets)}
                end, maps:get(lengths, Collections))
        },
        in_step := [#{who => text(who(Group)), words => W} || {_, W} = Group <- InStep],
        ended := text(io_lib:format("~0p", [Ended]))
    }.

stack(Stack) -> [text(frame(Frame)) || Frame <- Stack].

text(Text) -> unicode:characters_to_binary(Text).
