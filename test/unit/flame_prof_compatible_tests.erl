-module(flame_prof_compatible_tests).

-include_lib("eunit/include/eunit.hrl").

-import(flame_prof_compatible, [incompatibility/3]).

%% As the kernel writes them, of real VMs.
-define(DEBIAN_MUSL, <<
    "7f2a5c1e5000-7f2a5c1fa000 r--p 00000000 fe:00 131 /usr/lib/x86_64-linux-musl/libc.so\n"
    "7ffd0b1f2000-7ffd0b213000 rw-p 00000000 00:00 0   [stack]\n">>).
-define(ALPINE, <<"7f2a5c1e5000-7f2a5c1fa000 r--p 00000000 fe:00 131 /lib/ld-musl-x86_64.so.1\n">>).
-define(GLIBC, <<
    "7f3f00000000-7f3f00026000 r--p 00000000 fe:00 17 /usr/lib/x86_64-linux-gnu/libc.so.6\n"
    "7f3f01000000-7f3f01001000 r--p 00000000 fe:00 18 /usr/lib/x86_64-linux-gnu/libcrypto.so.3\n"
>>).
-define(OLD_GLIBC,
    <<"7f3f00000000-7f3f00026000 r--p 00000000 fe:00 17 /lib/x86_64-linux-gnu/libc-2.31.so\n">>).
-define(STATIC, <<"00400000-00700000 r-xp 00000000 fe:00 17 /opt/otp/beam.smp\n">>).

-define(X86_64, "x86_64-pc-linux-gnu").

library(Machine, Needed) ->
    <<16#7f, "ELF", 2, 1, 1, 0:72, 3:16/little, Machine:16/little, 0:64, 0, Needed/binary, 0,
        "enif_alloc", 0>>.

for_glibc() -> library(62, <<"libc.so.6">>).
for_alpine() -> library(62, <<"libc.musl-x86_64.so.1">>).
for_debian_musl() -> library(62, <<"libc.so">>).

why(Architecture, Maps, Library) ->
    case incompatibility(Architecture, {ok, Maps}, Library) of
        none -> none;
        Why -> unicode:characters_to_binary(Why)
    end.

a_node_like_ours_fits_test() ->
    [?assertEqual(none, why(?X86_64, Maps, for_glibc())) || Maps <- [?GLIBC, ?OLD_GLIBC]],
    [?assertEqual(none, why("x86_64-alpine-linux-musl", Maps, Library))
     || Maps <- [?ALPINE, ?DEBIAN_MUSL], Library <- [for_alpine(), for_debian_musl()]].

this_node_fits_the_library_that_it_runs_test() ->
    Library = filename:join([filename:dirname(code:which(flame_prof_nif)), "..", "priv",
        "flame_prof_nif.so"]),
    {ok, Bytes} = file:read_file(Library),
    Maps = file:read_file("/proc/self/maps"),
    ?assertEqual(none, incompatibility(erlang:system_info(system_architecture), Maps, Bytes)).

musl_is_known_by_any_of_its_names_test() ->
    [?assertMatch(<<"it runs on musl (/", _/binary>>, why(?X86_64, Maps, for_glibc()))
     || Maps <- [?ALPINE, ?DEBIAN_MUSL]],
    {match, _} = re:run(why(?X86_64, ?DEBIAN_MUSL, for_glibc()), "the library of flame_prof needs glibc$").

a_library_for_musl_does_not_fit_glibc_test() ->
    [?assertMatch(<<"it runs on glibc (/", _/binary>>, why(?X86_64, Maps, Library))
     || Maps <- [?GLIBC, ?OLD_GLIBC], Library <- [for_alpine(), for_debian_musl()]].

without_a_libc_that_is_mapped_the_name_tells_test() ->
    ?assertEqual(
        <<"it runs on musl (x86_64-alpine-linux-musl), and the library of flame_prof needs glibc">>,
        why("x86_64-alpine-linux-musl", ?STATIC, for_glibc())),
    ?assertEqual(none, why(?X86_64, ?STATIC, for_glibc())),
    ?assertEqual(none, incompatibility(?X86_64, {error, enoent}, for_glibc())).

another_architecture_or_system_is_named_test() ->
    [?assertEqual(
            iolist_to_binary(["it is built for ", Theirs, ", and the library of flame_prof for x86_64 Linux"]),
            why(Theirs, ?GLIBC, for_glibc()))
     || Theirs <- ["aarch64-unknown-linux-gnu", "i686-pc-linux-gnu", "x86_64-apple-darwin22.6.0",
         "win32"]],
    ?assertEqual(none, why("aarch64-unknown-linux-gnu", ?GLIBC, library(183, <<"libc.so.6">>))),
    {match, _} = re:run(why(?X86_64, ?GLIBC, library(40, <<"libc.so.6">>)),
        "for another architecture Linux").

what_is_no_library_is_said_to_be_none_test() ->
    [?assertEqual(<<"the library of flame_prof is no ELF file">>, why(?X86_64, ?GLIBC, Bytes))
        || Bytes <- [<<>>, <<16#7f, "ELF">>]].
