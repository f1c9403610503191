#!/usr/bin/env bash
# Makes sure that the tests find what pip cannot install: a WebGPU adapter (llvmpipe, in Debian's mesa-vulkan-drivers)
# where there is none or only OpenGL, a C compiler, a Verilog simulator, an MPI, and a browser with WebGPU (Debian's chromium).
# Says what it will install before it does.
# Usage: scripts/ensure-packages.sh PYTHON. INSTALL=no installs nothing. Never fails: the tests decide what is a must.
set -u
python=$1

has_adapter() {
    "$python" -c '
import sys
from shadergrad.runtime.adapters import adapters
sys.exit(not [a for a in adapters() if a.backend != "OpenGL"])'
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then env DEBIAN_FRONTEND=noninteractive "$@"; else
        sudo --non-interactive env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

packages=()
has_adapter || packages+=(mesa-vulkan-drivers)
command -v iverilog >/dev/null || packages+=(iverilog)
command -v chromium >/dev/null || packages+=(chromium)
command -v mpirun >/dev/null || packages+=(openmpi-bin)
command -v cc >/dev/null || packages+=(gcc libc6-dev)
[ "${#packages[@]}" -eq 0 ] && exit 0

leave() {
    echo "######## NOT INSTALLED: ${packages[*]}: $1. Tests that need them cannot run here. ########" >&2
    exit 0
}

[ "${INSTALL:-yes}" = no ] && leave "INSTALL=no"
command -v apt-get >/dev/null || leave "this is neither Debian nor Ubuntu; install their like by hand"
as_root true 2>/dev/null || leave "that needs root, or sudo without a password"

echo "######## INSTALLING SYSTEM PACKAGES for the tests: ${packages[*]} (to leave the system as it is: make test INSTALL=no)"
as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
    leave "apt-get could not"
has_adapter || echo "######## NO WEBGPU ADAPTER, though mesa-vulkan-drivers is installed. ########" >&2
