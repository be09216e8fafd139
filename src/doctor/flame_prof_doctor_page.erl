%% @private What the doctor finds in a profile, as JSON for the viewer's page and for reports.
%%
%% The page shows it, and judges nothing itself. Texts of a profile may be anybody's: here they are
%% valid UTF-8 without control characters, and a command with words that could mean something else
%% to a shell is left out.
-module(flame_prof_doctor_page).

-export([judged/1, judged/2, told/2, of_diagnosis/2]).

%% Some ten seconds of a processor. Not of the clock: on a machine that is short of processors, or
%% while the code server loads the rules, the judge waits, and its answer is as good.
-define(REDUCTIONS_MOST, 200000000).
-define(CHECK_MS, 250).
%% 256 MiB. The viewer may be in the node that is looked at.
-define(HEAP_WORDS, 33554432).
%% A screen has room for six.
-define(FINDINGS_MOST, 12).
-define(TEXT_MOST, 2000).
%% Words of plain characters, and whatever single quotes hold.
-define(COMMAND, "^(?:[A-Za-z0-9_@./:=,%+ -]|'[^']*')+$").

%% @doc Another process judges, with limited work and memory: where that fails, the answer says
%% so. A profile of allocations has nothing to judge.
-spec judged(flame_prof_profile:profile()) -> binary().
judged(Profile) ->
    case flame_prof_profile:info(Profile) of
        #{events := [<<"alloc-words">> | _]} -> encoded(#{state => none});
        Info -> judged(fun() -> flame_prof_doctor:of_profile(Profile, #{}) end, Info)
    end.

%% @doc What was judged already, of this profile and of more than it: a look at its node. Processes
%% that the profile does not have are left out, as the page cannot show them.
-spec told(flame_prof_doctor:diagnosis(), flame_prof_profile:profile()) -> binary().
told(#{findings := Findings} = Diagnosis, Profile) ->
    Sampled = maps:from_list([{Pid, sampled}
        || #{erl_pid := Pid} <- flame_prof_profile:processes(Profile)]),
    Shown = [Finding#{processes := [P || #{pid := Pid} = P <- Processes, is_map_key(Pid, Sampled)]}
        || #{processes := Processes} = Finding <- Findings],
    encoded(of_diagnosis(Diagnosis#{findings := Shown}, flame_prof_profile:info(Profile))).

%% @private The same with another judge.
-spec judged(
    fun(() -> flame_prof_doctor:diagnosis()),
    flame_prof_profile:info() | {error, flame_prof:reason()}
) -> binary().
judged(Judge, Info) ->
    {Caller, Answer} = {self(), make_ref()},
    Work = fun() -> Caller ! {Answer, encoded(of_diagnosis(Judge(), Info))} end,
    Limit = #{size => ?HEAP_WORDS, kill => true, error_logger => false},
    {Pid, Monitor} = spawn_opt(fun() -> quietly(Work) end, [monitor, {max_heap_size, Limit}]),
    answered(Answer, awaited(Pid, Monitor)).

awaited(Pid, Monitor) ->
    receive
        {'DOWN', Monitor, process, Pid, Reason} -> why(Reason)
    after ?CHECK_MS ->
        case process_info(Pid, reductions) of
            {reductions, Done} when Done > ?REDUCTIONS_MOST ->
                exit(Pid, kill),
                receive {'DOWN', Monitor, process, Pid, _} -> ok end,
                <<"it takes more than ten seconds of work">>;
            _ ->
                awaited(Pid, Monitor)
        end
    end.

%% An error of a rule is told in the page, and not by a crash report as well.
quietly(Work) ->
    try
        Work()
    catch
        _:_ -> failed
    end.

answered(Answer, Why) ->
    receive
        {Answer, Json} -> Json
    after 0 -> failed(Why)
    end.

why(killed) -> <<"it needs more memory than it may have">>;
why(_) -> <<"the doctor cannot read this profile">>.

failed(Why) ->
    encoded(#{state => failed, why => Why}).

encoded(Term) ->
    flame_prof_json:encode_for_page(Term).

%% @private `range' is in microseconds since the profile's begin, as all times of the page. The page
%% leaves out what is at its end, which is the time of the last sample: that belongs to it.
-spec of_diagnosis(
    flame_prof_doctor:diagnosis(),
    flame_prof_profile:info() | {error, flame_prof:reason()}
) -> map().
of_diagnosis(#{findings := Findings, unseen := Unseen} = Diagnosis, #{first_us := First} = Info) ->
    Kinds = flame_prof_doctor:kinds(),
    #{
        state => judged,
        findings => [shown(Finding, First) || Finding <- lists:sublist(Findings, ?FINDINGS_MOST)],
        more => max(0, length(Findings) - ?FINDINGS_MOST),
        judged => Kinds -- [Kind || {Kind, _} <- Unseen],
        unseen => [#{kind => Kind, why => text(Why)} || {Kind, Why} <- Unseen],
        source => source(Diagnosis),
        samples => maps:get(samples, Info),
        observations => lists:sum([N || #{observations := N} <- maps:get(files, Info)]),
        processes => maps:get(processes, Info)
    }.

%% The files alone tell less than a look at the node.
source(#{looked_at := #{node := Node}}) when Node =/= none -> node;
source(_) -> files.

shown(#{kind := Kind, severity := Severity, title := Title, sentences := Sentences} = Finding,
    First
) ->
    #{command := Command, processes := Processes} = Finding,
    #{
        kind => Kind,
        severity => Severity,
        title => text(Title),
        sentences => [text(Sentence) || Sentence <- Sentences],
        command => command(text(Command)),
        pids => [text(Pid) || #{pid := Pid} <- Processes],
        function => text(maps:get(function, Finding, <<>>)),
        range => range(Finding, First),
        view => view(maps:get(view, Finding, #{}))
    }.

range(#{range := {From, To}}, First) when From < To -> [max(0, From - First), To - First + 1];
range(_, _) -> undefined.

%% What the page's address says of it: the page takes what it knows.
view(View) ->
    maps:map(fun(_, Value) -> word(Value) end, maps:with([measure, show, levels, view], View)).

word(Words) when is_list(Words) -> [word(Word) || Word <- Words];
word(Word) when is_atom(Word) -> Word;
word(Word) -> text(Word).

command(Text) ->
    case re:run(Text, ?COMMAND, [dollar_endonly, unicode, {capture, none}]) of
        match -> Text;
        nomatch -> <<>>
    end.

%% A name that is cut in a character, or is no UTF-8, is one of the profile's.
text(Data) ->
    case unicode:characters_to_binary(Data) of
        Text when is_binary(Text) -> printable(Text);
        {_, Good, _} -> printable(<<Good/binary, "..."/utf8>>)
    end.

printable(Text) ->
    Shown = << <<(if C < 32; C =:= 127 -> $\s; true -> C end)/utf8>> || <<C/utf8>> <= Text >>,
    string:slice(Shown, 0, ?TEXT_MOST).
