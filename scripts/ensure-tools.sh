#!/usr/bin/env bash
# Makes sure that the tests of exported circuits find a C compiler and the Verilog simulator: installs Debian's where one
# is missing and it may. Usage: scripts/ensure-tools.sh. Never fails: the tests decide what is a must.
set -u
missing=()
command -v iverilog >/dev/null || missing+=(iverilog)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
[ "${#missing[@]}" -eq 0 ] && exit 0
as_root() {
    if [ "$(id -u)" -eq 0 ]; then env DEBIAN_FRONTEND=noninteractive "$@"; else
        sudo --non-interactive env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}
if ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
    echo "######## NOT INSTALLED: ${missing[*]}. Some exported circuits cannot be tested here. ########" >&2
    exit 0
fi
echo "installing ${missing[*]} for the tests of exported circuits"
as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || exit 0
