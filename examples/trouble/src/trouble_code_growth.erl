%% A shop that compiles each page into a module of its own, and keeps all.
-module(trouble_code_growth).
-behaviour(trouble).

-export([children/0, truth/0]).
-export([pages/0]).

-define(PAUSE_MS, 100).
-define(PARAGRAPHS, 300).
-define(MOST, 2000).

children() ->
    [trouble:process(page_builder, ?MODULE, pages, [])].

truth() ->
    #{problem => code_growth, kind => [code_growth, code_loading], severity => warning,
      process => [], function => <<"trouble_code_growth:build/1">>,
      sentence => <<"page_builder makes some five modules a second, in "
          "trouble_code_growth:build/1.">>}.

pages() -> pages(1).

pages(N) ->
    ok = build(min(N, ?MOST)),
    timer:sleep(?PAUSE_MS),
    pages(N + 1).

build(N) ->
    Module = list_to_atom("trouble_page_" ++ integer_to_list(N)),
    Names = [list_to_atom("paragraph_" ++ integer_to_list(P)) || P <- lists:seq(1, ?PARAGRAPHS)],
    Forms = [{attribute, 1, module, Module}, {attribute, 2, export, [{Name, 1} || Name <- Names]}
        | [{function, 3, Name, 1, [paragraph()]} || Name <- Names]],
    {ok, Module, Beam} = compile:forms(Forms),
    _ = code:purge(Module),
    {module, Module} = code:load_binary(Module, "page.beam", Beam),
    ok.

%% paragraph_N(A) -> {A, {A, A}}.
paragraph() ->
    A = {var, 3, 'A'},
    {clause, 3, [A], [], [{tuple, 3, [A, {tuple, 3, [A, A]}]}]}.
