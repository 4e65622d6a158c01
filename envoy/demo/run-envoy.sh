#!/bin/sh
# Runs one of the files in envoy/ by func-e, with its addresses set for where it runs.
#
#     LISTEN=0.0.0.0:10000 ADMIN=0.0.0.0:9901 UPSTREAM=origin:8080 MODULE=/opt/retry_budget.wasm \
#         run-envoy.sh FILE [MORE OF ENVOY'S OPTIONS]
#
# The files in envoy/ are made to run on one's own machine: everything on 127.0.0.1. This replaces the
# listener's, the admin's and the upstream's address and the module's path, has the upstream looked up
# by name, and changes nothing else. Where the file has not exactly one of each, it refuses to run.
set -eu

die() { printf 'run-envoy: %s\n' "$*" >&2; exit 1; }

[ $# -ge 1 ] || die "usage: $0 FILE [MORE OF ENVOY'S OPTIONS]"
file=$1
shift
[ -r "$file" ] || die "there is no $file"
# Envoy tells YAML by the name.
config=$(mktemp -d "${TMPDIR:-/tmp}/envoy.XXXXXX")/envoy.yaml
cp "$file" "$config"

# once OLD NEW: the text OLD, which stands in the file once, becomes NEW.
once() {
    [ "$(grep -cF -- "$1" "$config")" = 1 ] || die "$file must have '$1' in one line"
    old=$(printf '%s' "$1" | sed 's/[.[\*^$|]/\\&/g')
    new=$(printf '%s' "$2" | sed 's/[\&|]/\\&/g')
    sed "s|$old|$new|" "$config" >"$config.new"
    mv "$config.new" "$config"
}

# address PORT HOST:PORT: what listens or is expected on 127.0.0.1:PORT is there instead.
address() {
    once "address: 127.0.0.1, port_value: $1 }" "address: ${2%:*}, port_value: ${2##*:} }"
}

address 10000 "$LISTEN"
address 9901 "$ADMIN"
address 8080 "$UPSTREAM"
once "type: STATIC" "type: STRICT_DNS"
# control.yaml has no module.
if grep -q retry_budget "$config"; then
    once "filename: target/wasm32-unknown-unknown/release/retry_budget.wasm" "filename: $MODULE"
fi

# Without hot restarts, which nobody wants here, several can run on one machine.
exec func-e run -c "$config" --disable-hot-restart "$@"
