%% No map of options, however wrong, starts anything, leaves anything behind or
%% crashes who gives it.
-module(flame_prof_start_tests).

-include_lib("proper/include/proper.hrl").
-include_lib("eunit/include/eunit.hrl").

wrong_options_start_nothing_test_() ->
    Property = ?FORALL(Given, wrong(), refused(fun flame_prof:start/1, Given)),
    seeded:property(Property, 300).

wrong_options_of_a_linked_start_start_nothing_test_() ->
    Property = ?FORALL(Given, wrong(), refused(fun flame_prof:start_link/1, Given)),
    seeded:property(Property, 100).

wrong_process_options_are_refused_without_a_session_test_() ->
    Property = ?FORALL(Given,
        oneof([junk(), #{status => junk()}, #{follow => junk(), status => all}, #{junk() => all}]),
        begin
            Raised =
                try
                    flame_prof:profile_start(Given)
                catch
                    error:Reason -> Reason
                end,
            case Raised of
                {bad_option, #{accepted := Accepted}} -> is_binary(Accepted);
                {not_started, flame_prof} -> true
            end
        end),
    seeded:property(Property, 300).

refused(Start, Given) ->
    ok = application_stopped(),
    ok = ended(),
    Reason = {bad_option, #{accepted := Accepted}} = refusal(Start(Given), Given),
    Sentence = unicode:characters_to_binary(flame_prof:format_error(Reason)),
    is_binary(Accepted) andalso is_binary(Sentence) andalso
        byte_size(Sentence) > byte_size(Accepted) andalso
        whereis(flame_prof_session) =:= undefined andalso
        whereis(flame_prof_sup) =:= undefined andalso threads() =:= [] andalso
        not filelib:is_file(directory()).

%% Said, because PropEr on OTP 25 loses an exception.
refusal({error, {bad_option, #{}} = Reason}, _Given) -> Reason;
refusal(Answer, Given) ->
    io:format(user, "    ~0p~n    answered ~0p~n", [Given, Answer]),
    Answer.

application_stopped() ->
    case application:stop(flame_prof) of
        ok -> ok;
        {error, {not_started, flame_prof}} -> ok
    end.

%% Of sessions: those of the VM come and go. A session of whoever was here before may
%% be on its way out.
threads() ->
    [Name || Path <- filelib:wildcard("/proc/self/task/*/comm"),
        {ok, <<"flame_prof", _/binary>> = Name} <- [file:read_file(Path)]].

ended() -> waiting:eventually(fun() -> threads() =:= [] end).
directory() -> "/tmp/flame_prof_start_tests_" ++ os:getpid().

%% Some that are right, and one that is not.
wrong() ->
    ?LET({Right, Wrong}, {list(right()), wrong_pair()},
        (maps:from_list([{dir, directory()} | Right]))#{element(1, Wrong) => element(2, Wrong)}).

right() ->
    oneof([{sample_interval, range(1, 100)},
        {collapse_recursion, oneof([true, false])},
        {select, {top, range(0, 100)}},
        {select, #{by => oneof(flame_prof_selection:metrics()), top => range(0, 100)}},
        {include, [init]},
        {follow_limits, #{events => range(1, 100)}},
        {triggers, [#{on => run_queue, above => range(1, 100)}, #{on => busy_port}]}]).

%% Nothing in junk() is right for any key.
wrong_pair() ->
    ?LET(Key, oneof(flame_prof_options:keys() ++ [junk()]), {Key, wrong_value(Key)}).

wrong_value(select) ->
    oneof([junk(),
        {top, junk()},
        {top, 5, junk()},
        #{top => junk()},
        #{by => junk()},
        #{delta => junk()},
        #{interval => junk()},
        #{include => junk()},
        #{exclude => {junk(), a_name}},
        #{junk() => 5},
        [#{}, junk()], [#{} | junk()]]);
wrong_value(process_options) ->
    oneof([junk(), #{status => junk()}, #{follow => junk()}, #{junk() => all}]);
wrong_value(follow_limits) -> oneof([junk(), #{events => junk()}, #{junk() => 5}]);
wrong_value(triggers) ->
    oneof([junk_but_a_list(), [junk()],
        #{on => junk()},
        #{on => run_queue, above => junk()},
        #{on => busy_port, interval => junk()},
        #{on => busy_port, junk() => 5},
        [#{on => busy_port} | junk()]]);
%% Which takes 1.5.
wrong_value(cpu_budget) -> ?SUCHTHAT(Junk, junk(), not is_float(Junk));
wrong_value(include) -> oneof([junk(), [init, junk()]]);
wrong_value(_) -> junk().

%% The empty list is no trigger at all.
junk_but_a_list() -> oneof([-1, 1.5, {}, {junk}, [a | b], make_ref()]).

junk() ->
    oneof([-1, 1.5, 1 bsl 100, {}, {junk}, [a | b], [-1], "\0",
        <<0>>, make_ref(), fun() -> ok end]).
