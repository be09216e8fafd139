#!/bin/bash
# Print where this machine gets its Debian from; nothing where apt does not say.
# FLAME_PROF_MIRROR overrides it.
set -u

if [ -n "${FLAME_PROF_MIRROR:-}" ]; then
    echo "$FLAME_PROF_MIRROR"
    exit
fi
# shellcheck disable=SC1091
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
{
    apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' \
        'Created-By: Packages' 2>/dev/null |
        awk -v codename="$codename" '$1 == codename && $2 == "main" { print $3 }'
    # apt has no lists yet: what it is configured to fetch.
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
        awk '$1 == "URIs:" { print $2 }'
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
        sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p'
} | grep -v security | head -n 1
