# What the build says where a header, the compiler or Erlang is missing.

check "headers: the build names what is missing, and its packages" \
    env TESTS=flame_prof_build_SUITE tools/test.sh erl
