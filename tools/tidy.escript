#!/usr/bin/env escript
%% Hold the house rules: a test of `make test', in seconds.
%%
%%   tools/tidy.escript          prints FILE:LINE: rule: what is wrong; exit 1 if any is
%%   tools/tidy.escript --prove  does each rule find its violation, and only that?
%%
%% Rules, over C, Erlang, JavaScript, shell and Markdown:
%%
%%   function  a function has at most 70 lines (tests, which are lists of cases: no limit)
%%   file      a file is one concept: of C it has at most 1,200 lines, of Erlang and of others 800
%%             (tests and documents: no limit), one of src/rules 120
%%   column    a line has at most 100 columns (tables and fenced blocks of documents aside)
%%   dead      what a C header declares, a module of src/ or viewer/src/ exports is used
%%             by another file (a declaration right below "/* For tests. */" aside)
%%   arrow     a folder of c_src includes the folders below it only, a rule of the doctor knows
%%             evidence only (tools/check_arrows.sh)
%%   word      a word of tools/tidy.words is not used where that file retires it
%%   link      a document links to a file and a heading that exist; so does a text that names
%%             doc/NAME.md, and a document of doc/dev that names a module
-mode(compile).

-define(FUNCTION_LINES, 70).
-define(C_LINES, 1200).
-define(FILE_LINES, 800).
-define(RULE_LINES, 120).
-define(COLUMNS, 100).
-define(FOR_TESTS, <<"/* For tests. */">>).

main([]) ->
    ok = file:set_cwd(filename:join(filename:dirname(escript:script_name()), "..")),
    Found = violations(files()) ++ arrows(),
    [io:format("~ts:~b: ~s: ~ts~n", [File, Line, Rule, Text]) || {File, Line, Rule, Text} <- Found],
    Found =:= [] orelse halt(1),
    io:format("  ok    ~b files are tidy~n", [length(files())]);
main(["--prove"]) ->
    prove();
main(_) ->
    io:format(standard_error, "usage: tools/tidy.escript [--prove]~n", []),
    halt(2).

%% Every file of the repository, committed or not, that is not ignored.
files() ->
    List = os:cmd("git ls-files --cached --others --exclude-standard 2>/dev/null || "
                  "find . -path ./_build -prune -o -type f -printf '%P\\n'"),
    [File || File <- lists:usort(string:lexemes(List, "\n")),
             language(File) =/= none, not is_foreign(File), filelib:is_regular(File)].

%% What others wrote or what a program made.
is_foreign(File) ->
    lists:any(fun(Prefix) -> lists:prefix(Prefix, File) end,
              ["priv/", "test/corpus/", "viewer/node_modules/", "_build/", "tools/include/",
                  "doc/benchmarks/"]).

language(File) ->
    case filename:extension(File) of
        ".c" -> c;
        ".h" -> c;
        ".erl" -> erlang;
        ".hrl" -> erlang;
        ".escript" -> erlang;
        ".js" -> javascript;
        ".mjs" -> javascript;
        ".sh" -> shell;
        ".md" -> markdown;
        _ -> none
    end.

violations(Files) ->
    Words = words(),
    Texts = [{File, language(File), lines(File)} || File <- Files],
    lists:flatmap(fun(Text) -> check(Text, Words) end, Texts) ++ dead(Texts).

lines(File) ->
    {ok, Bytes} = file:read_file(File),
    case binary:split(Bytes, <<"\n">>, [global]) of
        [<<>>] -> [];
        Lines -> lists:zip(lists:seq(1, length(Lines)), Lines)
    end.

check({File, Language, Lines}, Words) ->
    [{File, Line, Rule, Text} || {Line, Rule, Text} <-
        long_file(File, Lines) ++ columns(Language, Lines) ++
            functions(File, Language, Lines) ++ retired(File, Lines, Words) ++
            links(File, Language, Lines) ++ named_documents(File, Lines) ++
            named_modules(File, Lines)].

%% ------------------------------------------------------- file, column, word --

long_file(File, Lines) ->
    IsProduct = not lists:prefix("test/", File) andalso filename:extension(File) =/= ".md",
    IsC = lists:prefix("c_src/", File),
    Most = case lists:prefix("src/rules/", File) of
        true -> ?RULE_LINES;
        false when IsC -> ?C_LINES;
        false -> ?FILE_LINES
    end,
    [{Most + 1, file, io_lib:format("~b lines, at most ~b", [length(Lines) - 1, Most])}
     || IsProduct, length(Lines) - 1 > Most].

columns(markdown, Lines) ->
    columns(text, [L || {_, Text} = L <- prose(Lines), not has_link(Text)]);
columns(Language, Lines) ->
    [{Line, column, io_lib:format("~b columns, at most ~b", [Width, ?COLUMNS])}
     || {Line, Text} <- Lines, byte_size(Text) > ?COLUMNS,
        Width <- [length(unicode:characters_to_list(Text))], Width > ?COLUMNS,
        not is_cut_by_limit(Language, Text)].

%% Does the limit lie within a string, which is one thing? C joins strings, so it has no
%% need of long ones.
is_cut_by_limit(Language, Text) ->
    lists:member(Language, [erlang, javascript, shell]) andalso not is_comment(Text) andalso
        quote(unicode:characters_to_list(binary:part(Text, 0, ?COLUMNS)), none) =/= none.

is_comment(Text) -> is_match(Text, regex("^\\s*(%|//|#|\\*)")).

%% The quotation mark that is open at the end.
quote([], Open) -> Open;
quote([$\\, _ | Rest], Open) -> quote(Rest, Open);
quote([Open | Rest], Open) -> quote(Rest, none);
quote([C | Rest], none) when C =:= $"; C =:= $'; C =:= $` -> quote(Rest, C);
quote([_ | Rest], Open) -> quote(Rest, Open).

%% Without what cannot be wrapped: tables and fenced blocks.
prose(Lines) ->
    {Plain, _} = lists:foldl(fun plain/2, {[], false}, Lines),
    lists:reverse(Plain).

plain({_, <<"```", _/binary>>}, {Plain, IsFenced}) -> {Plain, not IsFenced};
plain(_, {Plain, true}) -> {Plain, true};
plain({_, <<"|", _/binary>>}, {Plain, false}) -> {Plain, false};
plain({_, <<"    ", _/binary>>}, {Plain, false}) -> {Plain, false};
plain(Line, {Plain, false}) -> {[Line | Plain], false}.

has_link(Text) -> binary:match(Text, [<<"](">>, <<"://">>]) =/= nomatch.

%% {Compiled, Word, Instead, Areas}: an area is the beginning of a path, "" all.
words() ->
    {ok, Bytes} = file:read_file("tools/tidy.words"),
    Rows = [string:split(Row, "\t", all)
        || <<First, _/binary>> = Row <- binary:split(Bytes, <<"\n">>, [global]),
                                           First =/= $#],
    Parsed = [{Word, Instead, string:lexemes(binary_to_list(Areas), " ")}
        || [Word, Instead, Areas] <- Rows],
    Groups = lists:usort([Areas || {_, _, Areas} <- Parsed]),
    [begin
         Mine = [{Word, Instead} || {Word, Instead, A} <- Parsed, A =:= Areas],
         Pattern = ["(?<![A-Za-z])(?:", lists:join("|", [Word || {Word, _} <- Mine]),
             ")(?![A-Za-z])"],
         {ok, Regex} = re:compile(Pattern, [caseless]),
         {Areas, Regex, Mine}
     end || Areas <- Groups].

retired("tools/tidy.words", _, _) -> [];
retired("tools/tidy.escript", _, _) -> [];
retired("CHANGELOG.md", _, _) -> [];
retired(File, Lines, Groups) ->
    [{Line, word, io_lib:format("\"~ts\": ~ts", [Word, instead(Word, Words)])}
     || {Areas, Regex, Words} <- Groups, lists:any(fun(Area) -> is_in(Area, File) end, Areas),
        {Line, Text} <- Lines,
        {match, [Word]} <- [re:run(Text, Regex, [{capture, first, binary}])]].

is_in("*", _) -> true;
is_in(Area, File) -> lists:prefix(Area, File).

instead(Word, Words) ->
    [Instead | _] = [I || {W, I} <- Words, re:run(Word, ["^(?:", W, ")$"], [caseless]) =/= nomatch],
    Instead.

%% -------------------------------------------------------------------- link --

links(File, markdown, Lines) ->
    [{Line, link, ["nothing is at ", Target]}
     || {Line, Text} <- unfenced(Lines), Target <- captured(Text, "\\]\\(([^)\\s]+)\\)"),
        not is_match(Target, regex("^[a-z]+:")), not is_there(File, Target)];
links(_, _, _) ->
    [].

unfenced(Lines) ->
    {Found, _} = lists:foldl(fun
        ({_, <<"```", _/binary>>}, {Found, IsFenced}) -> {Found, not IsFenced};
        (_, {Found, true}) -> {Found, true};
        (Line, {Found, false}) -> {[Line | Found], false}
    end, {[], false}, Lines),
    lists:reverse(Found).

captured(Text, Pattern) ->
    case re:run(Text, Pattern, [global, {capture, [1], binary}]) of
        {match, Found} -> lists:append(Found);
        nomatch -> []
    end.

is_there(File, Target) ->
    case binary:split(Target, <<"#">>) of
        [<<>>, Anchor] -> has_heading(File, Anchor);
        [Path, Anchor] -> has_heading(beside(File, Path), Anchor);
        [Path] -> filelib:is_file(beside(File, Path))
    end.

beside(File, Path) -> filename:join(filename:dirname(File), binary_to_list(Path)).

has_heading(File, Anchor) ->
    filelib:is_regular(File) andalso
        lists:member(Anchor, [iolist_to_binary(anchor(Text))
            || {_, <<"#", Text/binary>>} <- unfenced(lines(File))]).

%% As the hosts of repositories make them: lower case, hyphens for spaces, no punctuation.
anchor(Heading) ->
    Text = string:lowercase(string:trim(string:trim(Heading, leading, "#"))),
    string:replace(re:replace(Text, "[^\\w\\- ]", "", [global, unicode, {return, binary}]),
        " ", "-", all).

named_documents(File, Lines) ->
    [{Line, link, ["there is no ", Name]}
     || File =/= "tools/tidy.escript", {Line, Text} <- Lines,
        Name <- captured(Text, "(?<![\\w/.])(doc/[\\w/]+\\.md)"), not filelib:is_regular(Name)].

named_modules(File, Lines) ->
    [{Line, link, ["there is no module ", Name]}
     || lists:prefix("doc/dev/", File), {Line, Text} <- Lines,
        Name <- captured(Text, "\\b(flame_prof_[a-z0-9_]*[a-z0-9])(?!\\w)"),
        filelib:wildcard("{src,test}/**/" ++ binary_to_list(Name) ++ ".erl") =:= []].

%% ---------------------------------------------------------------- function --

functions(File, Language, Lines) ->
    [{Line, function, io_lib:format("~ts has ~b lines, at most ~b", [Name, Size, ?FUNCTION_LINES])}
     || not is_test(File), {Name, Line, Size} <- sizes(Language, Lines), Size > ?FUNCTION_LINES].

is_test(File) -> lists:prefix("test/", File) orelse lists:prefix("viewer/test/", File).

%% A function of C ends at a brace in the first column, one of Erlang at a full stop,
%% one of JavaScript or the shell at the closing brace in the column of its first line.
sizes(c, Lines) ->
    braces(Lines, "^[A-Za-z_].*\\)$|^[A-Za-z_][^=;]*\\) \\{$", "^\\}");
sizes(erlang, Lines) ->
    forms(Lines, none, []);
sizes(shell, Lines) ->
    braces(Lines, "^[a-z_0-9]+\\(\\) \\{", "^\\}");
sizes(javascript, Lines) ->
    Opening =
        "(?:export |default |async )*function|=> \\{$|^  (?:async |static |get |set |#)*[A-Za-z_]+\\([^;]*\\) \\{$",
    nested(Lines, regex(Opening), []);
sizes(_, _) ->
    [].

regex(Pattern) ->
    {ok, Regex} = re:compile(Pattern),
    Regex.

is_match(Text, Regex) -> re:run(Text, Regex, [{capture, none}]) =:= match.

braces(Lines, Opening, Closing) ->
    braces(Lines, regex(Opening), regex(Closing), none, []).

braces([], _, _, _, Sizes) ->
    Sizes;
braces([{Line, Text} | Rest], Opening, Closing, Open, Sizes) ->
    case {Open, is_match(Text, Closing)} of
        {{Name, From}, true} ->
            braces(Rest, Opening, Closing, none, [{Name, From, Line - From + 1} | Sizes]);
        {_, false} ->
            Next = case is_match(Text, Opening) of
                true -> {Text, Line};
                false -> Open
            end,
            braces(Rest, Opening, Closing, Next, Sizes);
        {none, true} ->
            braces(Rest, Opening, Closing, none, Sizes)
    end.

forms([], _, Sizes) ->
    Sizes;
forms([{Line, Text} | Rest], none, Sizes) ->
    case re:run(Text, "^([a-z'][A-Za-z0-9_@']*)\\(", [{capture, [1], binary}]) of
        {match, [Name]} -> forms([{Line, Text} | Rest], {Name, Line}, Sizes);
        nomatch -> forms(Rest, none, Sizes)
    end;
forms([{Line, Text} | Rest], {Name, From} = Open, Sizes) ->
    case re:run(Text, "^[^%]*\\.\\s*(%.*)?$", [{capture, none}]) of
        match -> forms(Rest, none, [{Name, From, Line - From + 1} | Sizes]);
        nomatch -> forms(Rest, Open, Sizes)
    end.

nested([], _, _) ->
    [];
nested([{Line, Text} | Rest], Opening, Open) ->
    Indent = indent(Text),
    {Closed, Still} = case Text of
        <<_:Indent/binary, "}", _/binary>> ->
            lists:partition(fun({_, _, I}) -> I =:= Indent end, Open);
        _ ->
            {[], Open}
    end,
    Opened = [{Text, Line, Indent} || is_match(Text, Opening), binary:last(Text) =:= ${],
    [{string:trim(Name), From, Line - From + 1} || {Name, From, _} <- Closed] ++
        nested(Rest, Opening, Opened ++ Still).

indent(Text) -> byte_size(Text) - byte_size(string:trim(Text, leading)).

%% -------------------------------------------------------------------- dead --

dead(Texts) -> dead_c(Texts) ++ dead_erlang(Texts) ++ dead_javascript(Texts).

%% Another file than the one that defines the function has its name: a declaration in
%% a header is no use, nor is a use by a test.
dead_c(Texts) ->
    Sources = [{File, tokens(Lines)} || {File, c, Lines} <- Texts, lists:prefix("c_src/", File),
                                       filename:extension(File) =:= ".c"],
    Headers = [T || {File, c, _} = T <- Texts, lists:prefix("c_src/", File),
        filename:extension(File) =:= ".h"],
    Uses = uses(Sources ++ [{File, inline_tokens(Lines)} || {File, c, Lines} <- Headers]),
    [{File, Line, dead, [Name, " is declared for others, and no other file uses it"]}
     || {File, c, Lines} <- Headers, Exempt <- [[Line + 1 || {Line, ?FOR_TESTS} <- Lines]],
        {Line, Text} <- Lines, not lists:member(Line, Exempt), Name <- declared(Text),
        length(maps:get(Name, Uses, [])) < 2].

%% `int fp_name(' at the beginning of a line: a declaration; an inline function has its
%% body in the header and is left to the compiler.
declared(<<"static", _/binary>>) -> [];
declared(<<C, _/binary>> = Text) when C >= $a, C =< $z ->
    case re:run(Text, "^(?!typedef|return)[a-z][A-Za-z0-9_ *]*?\\b(fp_[a-z0-9_]+)\\(",
        [{capture, [1], binary}]) of
        {match, [Name]} -> [Name];
        nomatch -> []
    end;
declared(_) -> [].

%% The bodies of inline functions and macros of a header.
inline_tokens(Lines) ->
    tokens([L || {_, <<C, _/binary>>} = L <- Lines, C =:= $\s orelse C =:= $# orelse C =:= $\t]).

tokens(Lines) ->
    Text = [[Line, $\n] || {_, Line} <- Lines],
    case re:run(Text, "[A-Za-z_][A-Za-z0-9_]*", [global, {capture, first, binary}]) of
        {match, Found} -> lists:usort(lists:append(Found));
        nomatch -> []
    end.

uses(Sources) ->
    lists:foldl(fun({File, Tokens}, Uses) ->
        lists:foldl(fun(T, U) -> maps:update_with(T, fun(Fs) -> [File | Fs] end, [File], U) end,
            Uses, Tokens)
    end, #{}, Sources).

%% A function that a module exports is documented for the public, is the behaviour's, or
%% is named by another file: after a colon, or as an atom of a tuple or list.
dead_erlang(Texts) ->
    Named = uses([{File, qualified(Lines)} || {File, L, Lines} <- Texts,
                                              L =:= erlang orelse L =:= shell
                                                  orelse L =:= markdown]),
    [{File, Line, dead, [Name, " is exported, and no other file names it"]}
     || {File, erlang, Lines} <- Texts, lists:prefix("src/", File), not is_behaviour(Lines),
        {Line, Name} <- exported(Lines), not is_documented(Name, Lines),
        maps:get(Name, Named, []) -- [File] =:= []].

is_behaviour(Lines) ->
    lists:any(fun({_, Text}) ->
        is_match(Text, "^-behaviou?r\\(|^-define\\(NOT_LOADED|^-module\\(flame_prof\\)")
    end, Lines).

exported(Lines) ->
    [{Line, Name} || {Line, <<"-export([", Rest/binary>>} <- Lines,
                     {match, Found} <- [re:run(Rest, "([a-z][a-z0-9_]*)/[0-9]",
                         [global, {capture, [1], binary}])],
                     [Name] <- Found].

is_documented(Name, Lines) ->
    is_match([[Text, $\n] || {_, Text} <- Lines],
             ["%% @(?:doc|equiv)(?:.*\\n(?:%%.*\\n|-spec(?:.|\\n)*?\\n(?=", Name, "\\())*)", Name,
                 "\\("]).

qualified(Lines) ->
    Text = [[Line, $\n] || {_, Line} <- Lines],
    case re:run(Text, "[:,{\\s]\\s*([a-z][a-z0-9_]*)(?=\\(|/[0-9]|,|\\})",
        [global, {capture, [1], binary}]) of
        {match, Found} -> lists:usort(lists:append(Found));
        nomatch -> []
    end.

dead_javascript(Texts) ->
    Sources = [{File, Lines} || {File, javascript, Lines} <- Texts],
    Uses = uses([{File, tokens(Lines)} || {File, Lines} <- Sources]),
    [{File, Line, dead, [Name, " is exported, and no other file uses it"]}
     || {File, Lines} <- Sources, lists:prefix("viewer/src/", File), {Line, Text} <- Lines,
        {match, [Name]} <- [re:run(Text,
            "^export (?:async )?(?:function\\*?|const|let|class) ([A-Za-z0-9_]+)",
                                   [{capture, [1], binary}])],
        length(maps:get(Name, Uses)) < 2].

%% ------------------------------------------------------------------- arrow --

arrows() ->
    [{"tools/check_arrows.sh", 1, arrow, string:trim(Line)}
     || Line <- string:lexemes(os:cmd("tools/check_arrows.sh 2>&1"), "\n"),
         lists:prefix("  wrong", Line)].

%% ------------------------------------------------------------------- prove --

%% A tree with one violation of each rule in each language: each is found, at its line,
%% and nothing else is.
prove() ->
    {ok, Home} = file:get_cwd(),
    Root = string:trim(os:cmd("mktemp -d")),
    [begin ok = filelib:ensure_dir(filename:join(Root, File)),
        ok = file:write_file(filename:join(Root, File), Text) end
     || {File, Text, _} <- canaries()],
    {ok, _} = file:copy("tools/tidy.words", filename:join(Root, "tools/tidy.words")),
    ok = file:set_cwd(Root),
    Found = lists:sort([{File, Rule, Line}
        || {File, Line, Rule, _} <- violations([F || {F, _, _} <- canaries()])]),
    Expected = lists:sort([{File, Rule, Line} || {File, _, Wrong} <- canaries(),
        {Rule, Line} <- Wrong]),
    ok = file:set_cwd(Home),
    _ = os:cmd("rm -rf " ++ Root),
    Arrow = prove_arrow(),
    case {Expected -- Found, Found -- Expected} of
        {[], []} when Arrow ->
            io:format("  ok    tidy finds each of ~b violations, and no other~n",
                [length(Expected) + 2]);
        {Missed, False} ->
            io:format("  wrong  missed ~tp, found falsely ~tp, arrow ~p~n", [Missed, False, Arrow]),
            halt(1)
    end.

%% base/ includes session/, and a rule asks the node: only in a copy.
prove_arrow() ->
    Out = os:cmd("t=$(mktemp -d) && mkdir $t/tools && cp -r c_src src $t && cp tools/check_arrows.sh $t/tools && "
                 "echo '#include \"session/session.h\"' >>$t/c_src/base/ring.c && "
                 "echo 'x() -> flame_prof_node:counts().' >>$t/src/rules/flame_prof_doctor_gc.erl && "
                 "$t/tools/check_arrows.sh 2>&1; rm -rf $t"),
    lists:all(fun(Wrong) -> string:find(Out, Wrong) =/= nomatch end,
        ["base/ring.c includes session/session.h", "doctor_gc.erl names flame_prof_node"]).

canaries() ->
    Long = fun(N) -> lists:duplicate(N, "    x++;\n") end,
    Wide = [lists:duplicate(101, $x), "\n"],
    [
        {"c_src/a/one.c", ["void fp_used(void)\n{\n", Long(67), "}\n\nint fp_big(void)\n{\n",
            Long(68), "}\n"], [{function, 72}]},
        {"c_src/a/one.h", "void fp_used(void);\nint fp_big(void);\nint fp_dead(void);\n"
            "/* For tests. */\nint fp_a(void);\nint fp_b(void);\n", [{dead, 3}, {dead, 6}]},
        {"c_src/a/two.c", ["int x; /* fp_used fp_big fp_dead */\n", Wide], [{column, 2}]},
        {"c_src/a/three.c", lists:duplicate(1201, "\n"), [{file, 1201}]},
        {"c_src/a/four.c", "/* Whoever calls must know. */\n", [{word, 1}]},
        {"src/one.erl", ["-module(one).\n-export([dead/0, alive/0]).\nalive() ->\n",
            lists:duplicate(70, "    x,\n"), "    ok.\ndead() -> ok.\n"],
            [{function, 3}, {dead, 2}]},
        {"src/two.erl", ["-module(two).\nx() -> one:alive().\n", "%% ", Wide], [{column, 3}]},
        {"src/three.erl", ["-module(three).\n", lists:duplicate(800, "\n")], [{file, 801}]},
        {"src/rules/six.erl", ["-module(six).\n", lists:duplicate(120, "\n")], [{file, 121}]},
        {"src/rules/ten.erl", ["-module(ten).\n", lists:duplicate(119, "\n")], []},
        {"viewer/src/one.js", ["export function dead() {\n", lists:duplicate(69, "  x;\n"), "}\n",
            Wide],
            [{function, 1}, {dead, 1}, {column, 72}]},
        {"tools/one.sh", ["f() {\n", lists:duplicate(69, "  :\n"), "}\n", Wide],
            [{function, 1}, {column, 72}]},
        {"doc/one.md", ["| ", Wide, "```\n", Wide, "```\n", Wide], [{column, 5}]},
        {"doc/two.md", ["## A heading, `with_code`\n[a](one.md) [b](gone.md)\n",
            "[c](#a-heading-with_code) [d](#none)\n[e](https://x.org/y) doc/one.md\n",
            "```\n[f](gone.md)\n```\n"], [{link, 2}, {link, 3}]},
        {"doc/dev/three.md", "flame_prof_six.so, flame_prof_five_<kind>\nflame_prof_six_gone\n",
            [{link, 2}]},
        {"src/five/flame_prof_six.erl", "-module(flame_prof_six).\n", []},
        {"src/four.erl", "%% See doc/two.md and doc/gone.md.\n", [{link, 1}]}
    ].
