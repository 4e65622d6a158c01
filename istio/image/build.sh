#!/bin/sh
# Builds the image that Istio's WasmPlugin, TrafficExtension and `oci://` URLs fetch: one layer with
# plugin.wasm in it (the "compat" variant of the Wasm image specification, which Istio's agent reads).
#
#     istio/image/build.sh MODULE FOLDER      # make image
#
# FOLDER becomes an OCI image layout and MODULE its content. What must be pinned, the digest of the
# manifest, goes to stdout and nothing else does. No engine, no registry and no root is needed, only umoci
# (https://umo.ci, Debian: umoci) and GNU tar.
#
# The same module gives the same digest, whoever builds it, whenever and where: times, owners and the
# platform are fixed. Only another umoci may compress differently.
set -eu

say() { printf 'image: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[ $# -eq 2 ] || die "usage: $0 MODULE FOLDER"
module=$1
layout=$2
[ -f "$module" ] || die "there is no module at $module: run \`make build\` first"
command -v umoci >/dev/null 2>&1 || die "umoci is needed (Debian: apt-get install umoci); with docker use istio/image/Dockerfile"
# BSD tar has no such options; where GNU tar is installed beside it, it is called gtar.
tar=tar
if command -v gtar >/dev/null 2>&1; then tar=gtar; fi
"$tar" --version | grep -q 'GNU tar' || die "GNU tar is needed"

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)

# Everything is made beside its final place and renamed into it, so that nobody sees half an image. What
# stood there before is replaced, and only if it is an image.
if [ -e "$layout" ] && [ ! -f "$layout/oci-layout" ]; then die "$layout exists and is no OCI image layout"; fi
mkdir -p "$(dirname -- "$layout")"
work=$(mktemp -d "$layout.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

cp "$module" "$work/plugin.wasm"
"$tar" --create --file "$work/layer.tar" --directory "$work" --format ustar \
    --owner 0 --group 0 --numeric-owner --mode 0644 --mtime @0 plugin.wasm

epoch=1970-01-01T00:00:00Z
umoci init --layout "$work/image" >&2
umoci new --image "$work/image:$version" >&2
umoci raw add-layer --image "$work/image:$version" --history.created "$epoch" --history.created_by "COPY plugin.wasm /" \
    "$work/layer.tar" >&2
# The module runs on every platform and Istio's agent does not look at this one. It is named because the
# default is the builder's, which would give each kind of machine a digest of its own.
umoci config --image "$work/image:$version" --no-history --created "$epoch" --os linux --architecture amd64 \
    --config.user 65534:65534 \
    --manifest.annotation module.wasm.image/variant=compat \
    --manifest.annotation org.opencontainers.image.title=retry-budget \
    --manifest.annotation "org.opencontainers.image.version=$version" \
    --manifest.annotation org.opencontainers.image.licenses=Apache-2.0 >&2
# Each step above has left its own manifest and configuration behind.
umoci gc --layout "$work/image" >&2

digest=$(tr -d ' \n\t' <"$work/image/index.json" | sed -n 's/.*"manifests":\[{[^]]*"digest":"\(sha256:[0-9a-f]\{64\}\)".*/\1/p')
[ -n "$digest" ] || die "no manifest in the index"
rm -rf "$layout"
mv "$work/image" "$layout"

say "$layout:$version has the module. Copy it to a registry, then pin it by this digest:"
say "    skopeo copy oci:$layout:$version docker://REGISTRY/retry-budget:$version"
say "    url: oci://REGISTRY/retry-budget:$version"
say "    sha256: ${digest#sha256:}"
printf '%s\n' "$digest"
