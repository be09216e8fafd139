%% @private Who fills a mailbox, by the look at it.
-module(flame_prof_doctor_senders).

-export([of_mailbox/2]).

-export_type([told/0]).

-import(flame_prof_doctor_rule, [number/1, share/1]).

-type told() :: #{
    sentence := unicode:chardata(),
    numbers := #{atom() => number()},
    processes := [flame_prof_doctor_rule:process()]
}.
%% What a finding on the mailbox adds. `processes': the sender of most of the messages.

-define(MOST, 0.5).

%% @doc One sender who has most of the messages in it, else how many there are. Nothing where the
%% mailbox was not looked at.
-spec of_mailbox(Pid :: binary(), flame_prof_doctor_rule:evidence()) -> told().
of_mailbox(Pid, Evidence) ->
    Looked = [M || #{process := Of} = M <- maps:get(mailboxes, Evidence, []),
        flame_prof_doctor_rule:pid(Of) =:= Pid],
    case Looked of
        [#{senders := [{Sender, N} | _], counted := Counted} = Mailbox] when N > ?MOST * Counted ->
            #{
                sentence => [share(N / Counted), " of the messages in it are from ",
                    who(Sender, Mailbox), "."],
                numbers => #{sender_share => N / Counted, sender_messages => N,
                    counted => Counted},
                processes => [process(Sender, Mailbox) || is_pid(Sender)]
            };
        [#{senders := [_, _ | _], all_senders := All}] ->
            #{sentence => ["They are from ", number(All), " senders."],
                numbers => #{senders => All}, processes => []};
        _ ->
            #{sentence => "", numbers => #{}, processes => []}
    end.

%% The names of the look; those of another node are not known.
who(Pid, #{names := Names} = Mailbox) when is_pid(Pid) ->
    Exited = [", which has exited" || maps:get(Pid, Names, none) =:= exited],
    [flame_prof_doctor_rule:name(process(Pid, Mailbox)) | Exited];
who({node, Node}, _) ->
    ["processes of the node ", atom_to_list(Node)];
who(Port, _) when is_port(Port) ->
    re:replace(erlang:port_to_list(Port), "^#Port<[0-9]+", "#Port<0");
who(unknown, _) ->
    "senders that are not known";
who(Sender, _) ->
    ["the VM (", atom_to_list(Sender), ")"].

process(Pid, #{names := Names}) ->
    Name = case Names of
        #{Pid := #{registered_name := Registered}} -> Registered;
        #{Pid := #{initial_call := Call}} -> Call;
        #{} -> undefined
    end,
    #{pid => flame_prof_doctor_rule:pid(Pid), name => flame_prof_doctor_rule:text(Name)}.
