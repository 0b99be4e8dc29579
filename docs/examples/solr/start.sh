#!/bin/sh
# A cluster of two nodes with a collection docsN for each N of $layouts. It ends on
# SIGTERM and leaves nothing but its log.
set -eu
: "${work:?}" "${port:?}" "${layouts:?}"
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC2086 # layouts are several
exec java -Xms"${heap:-2g}" -Xmx"${heap:-2g}" -XX:+UseG1GC -XX:+AlwaysPreTouch \
	-Dsolr.log.dir="$work" -Dsolr.disableConfigSetsCreateAuthChecks=true \
	-DmetricsEnabled=true -Dlog4j2.level=error -cp "$(cat "$work/classpath")" \
	"$here/Cluster.java" 2 "$port" "$work" "$here/config" $layouts
