#!/bin/sh
# Build the shop; needs Go, and this repository. $TAILSCOPE is the program to
# measure, or the tailscope on the path.
set -eu
: "${work:?directory of the shop and of Tailscope's stores}"
cd "$(dirname "$0")"
command -v "${TAILSCOPE:-tailscope}" >/dev/null || { echo "tailscope is not on the path: make build, then export TAILSCOPE=\$PWD/bin/tailscope" >&2; exit 1; }
mkdir -p "$work"
rm -rf "$work/store" "$work/mirror"
go build -o "$work/shop" ./shop
