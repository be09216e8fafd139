-module(flame_prof_view_cache_tests).

-include_lib("eunit/include/eunit.hrl").

in_a_directory(Test) -> text_file:folder(Test).

a_directory_is_made_for_its_user_alone_and_found_again_test() ->
    in_a_directory(fun(Dir) ->
        Cache = filename:join(Dir, "cache"),
        ?assertEqual(ok, flame_prof_view_cache:make_private(Cache)),
        ?assertEqual("drwx------", string:slice(os:cmd("ls -ld " ++ Cache), 0, 10)),
        ?assertEqual(ok, flame_prof_view_cache:make_private(Cache))
    end).

a_directory_that_others_can_read_is_refused_test() ->
    in_a_directory(fun(Dir) ->
        Cache = filename:join(Dir, "cache"),
        ok = file:make_dir(Cache),
        ok = file:change_mode(Cache, 8#755),
        ?assertEqual({error, eperm}, flame_prof_view_cache:make_private(Cache))
    end).

a_link_to_a_directory_is_refused_test() ->
    in_a_directory(fun(Dir) ->
        [Cache, Real] = [filename:join(Dir, Name) || Name <- ["cache", "real"]],
        ok = flame_prof_view_cache:make_private(Real),
        ok = file:make_symlink(Real, Cache),
        ?assertEqual({error, eperm}, flame_prof_view_cache:make_private(Cache))
    end).

a_directory_of_another_user_is_refused_test_() ->
    case string:trim(os:cmd("id -u")) of
        "0" -> {"only root can make one", fun of_another_user/0};
        _ -> []
    end.

of_another_user() ->
    in_a_directory(fun(Dir) ->
        Cache = filename:join(Dir, "cache"),
        ok = flame_prof_view_cache:make_private(Cache),
        ok = file:change_owner(Cache, 65534),
        ?assertEqual({error, eperm}, flame_prof_view_cache:make_private(Cache))
    end).
