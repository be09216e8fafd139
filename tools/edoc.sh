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

# PAGE HREF, for each link within the documentation that leads nowhere.
dead_links() {
    local page target anchor
    grep -o 'href="[^":]*"' ./*.html | sed 's/^\.\///; s/:href="/ /; s/"$//' | sort -u |
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
echo "  ok    edoc, in _build/doc"
