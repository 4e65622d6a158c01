#!/usr/bin/env bash
# A health check for images without curl: ready.sh HOST:PORT PATH succeeds where the answer is a 200.
set -euo pipefail
exec 3<>"/dev/tcp/${1%:*}/${1##*:}"
printf 'GET %s HTTP/1.1\r\nhost: %s\r\nconnection: close\r\n\r\n' "$2" "$1" >&3
read -r _ status _ <&3
[ "$status" = 200 ]
