#!/bin/bash
# The documentation of the modules, out of their comments, in _build/doc. The index lists the
# public ones; the pages of the others are there because types of theirs are linked. Any
# warning of edoc fails, and so does a link to a page or a place that is not there.
set -eu
rm -rf _build/doc
mkdir -p _build/doc
said=$(erl -noinput -eval '
    Files = filelib:wildcard("src/*.erl") ++ filelib:wildcard("src/*/*.erl"),
    Options = [{dir, "_build/doc"}, {includes, ["include", "src"]}, {preprocess, true}],
    try
        ok = edoc:files(Files, [{private, true} | Options]),
        ok = edoc:files(Files, Options),
        halt(0)
    catch
        _:_ -> halt(1)
    end.' 2>&1) || {
    echo "$said" >&2
    exit 1
}
if [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
fi

# edoc links OTP's behaviours to pages of this folder, and OTP's types to an address that is gone.
otp='https://www.erlang.org/docs/25/man'
behaviours='application|gen_event|gen_server|gen_statem|supervisor'
sed -i -E "s,http://www\.erlang\.org/edoc/doc/[a-z_]+/doc,$otp,g
    s, href=\"($behaviours)\.html\", href=\"$otp/\1.html\",g" _build/doc/*.html

# PAGE HREF, for each link within the documentation that leads nowhere. (edoc writes a
# `docgen-href', too, which no browser follows.)
dead_links() {
    local page target anchor
    grep -o ' href="[^":]*"' ./*.html | sed 's/^\.\///; s/: href="/ /; s/"$//' | sort -u |
        while read -r page target; do
            anchor=${target#*#}
            [ "$anchor" = "$target" ] && anchor=
            target=${target%%#*}
            target=${target:-$page}
            if ! [ -e "$target" ]; then
                echo "$page $target"
            elif [ -n "$anchor" ] && ! grep -qF "name=\"$anchor\"" "$target" &&
                ! grep -qF "id=\"$anchor\"" "$target"; then
                echo "$page $target#$anchor"
            fi
        done
}
dead=$(cd _build/doc && dead_links)
if [ -n "$dead" ]; then
    echo "links that lead nowhere:" "$dead" >&2
    exit 1
fi

# A check that finds nothing has to find what is known to be dead.
canary=$(mktemp -d)
trap 'rm -rf "$canary"' EXIT
cat >"$canary/a.html" <<'EOF'
<a name="here"></a><a id="there"></a><a docgen-href="not_a_link" href="b.html">b</a>
<a href="#here"></a> <a href="a.html#there"></a> <a href="#nowhere"></a>
<a href="no_page.html"></a> <a href="b.html#nowhere"></a> <a href="https://example.org/"></a>
EOF
echo '<a href="a.html#here"></a>' >"$canary/b.html"
found=$(cd "$canary" && dead_links | tr '\n' ';')
if [ "$found" != "a.html a.html#nowhere;a.html b.html#nowhere;a.html no_page.html;" ]; then
    echo "the check of links is wrong; it found: $found" >&2
    exit 1
fi
echo "  ok    edoc, in _build/doc"
