%% @private Which application a module is of, as far as this node's code path can
%% tell: a profile names modules only.
-module(flame_prof_view_modules).

-export([known/0]).

%% Those of Erlang/OTP, of all releases that flame_prof knows.
-define(OTP, [
    "asn1", "common_test", "compiler", "crypto", "debugger", "dialyzer", "diameter", "edoc",
    "eldap", "erl_docgen", "erl_interface", "erts", "et", "eunit", "ftp", "inets", "jinterface",
    "kernel", "megaco", "mnesia", "observer", "odbc", "os_mon", "parsetools", "public_key",
    "reltool", "runtime_tools", "sasl", "snmp", "ssh", "ssl", "stdlib", "syntax_tools", "tftp",
    "tools", "wx", "xmerl"
]).

%% Module => [Application, 1 where it is OTP's, else 0].
-spec known() -> #{binary() => [binary() | 0..1]}.
known() ->
    Loaded = [{atom_to_binary(M), "erts"} || M <- erlang:pre_loaded()],
    Found = [{module(Beam), application(Dir)} || Dir <- code:get_path(), Beam <- beams(Dir)],
    maps:from_list([{Module, described(App)} || {Module, App} <- lists:reverse(Loaded ++ Found)]).

described(Application) ->
    [unicode:characters_to_binary(Application), is_otp(Application)].

is_otp(Application) ->
    case lists:member(Application, ?OTP) of
        true -> 1;
        false -> 0
    end.

beams(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} -> [Name || Name <- Names, filename:extension(Name) =:= ".beam"];
        {error, _} -> []
    end.

module(Beam) ->
    unicode:characters_to_binary(filename:rootname(Beam)).

%% .../stdlib-4.2/ebin; a directory of any other kind is an application by itself.
application(Dir) ->
    case lists:reverse(filename:split(filename:absname(Dir))) of
        ["ebin", Name | _] -> hd(string:split(Name, "-"));
        [Name | _] -> Name;
        [] -> "unknown"
    end.
