#!/usr/bin/env bash
# Makes sure that there is a WebGPU adapter to test on: installs llvmpipe (Debian's mesa-vulkan-drivers) where there is
# none, or only OpenGL, and it may. Usage: scripts/ensure-adapter.sh PYTHON. Never fails: the tests decide whether an
# adapter is a must.
set -u
python=$1

has_adapter() {
    "$python" -c '
import sys
from shadergrad.runtime.adapters import adapters
sys.exit(not [a for a in adapters() if a.backend != "OpenGL" or sys.argv[1] == "any"])' "$1"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then env DEBIAN_FRONTEND=noninteractive "$@"; else
        sudo --non-interactive env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

give_up() {
    has_adapter any && exit 0
    echo "######## NO WEBGPU ADAPTER: $1. The webgpu half of the tests cannot run here. ########" >&2
    exit 0
}

has_adapter good && exit 0
command -v apt-get >/dev/null || give_up "this is neither Debian nor Ubuntu; install a Vulkan driver by hand"
as_root true 2>/dev/null || give_up "installing mesa-vulkan-drivers needs root or passwordless sudo"

echo "no Vulkan, Metal or D3D12 adapter: installing mesa-vulkan-drivers (llvmpipe)"
as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers >/dev/null ||
    give_up "apt-get could not install mesa-vulkan-drivers"
has_adapter good || give_up "mesa-vulkan-drivers is installed and yet nothing shows up"
