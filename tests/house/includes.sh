#!/usr/bin/env bash
# includes.sh <root of a tree>: fails if a source below it includes what its folder may not.
set -euo pipefail
rules=$(cd "$(dirname "$0")" && pwd)/includes.awk
cd "$1"
find . -path './build*' -prune -o -path './.*' -prune -o -type f -regex '.*\.\(h\|c\|cpp\|cu\|cuh\)' -printf '%P\0' |
  xargs -0 awk -f "$rules"
