#!/bin/sh
# Fetch Solr and make the documents and the questions, where they are not there yet.
set -eu
: "${work:?directory for Solr and the documents}" "${documents:?how many}"
here=$(cd "$(dirname "$0")" && pwd)
for tool in mvn java; do
	command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install maven openjdk-17-jdk-headless" >&2; exit 1; }
done
mkdir -p "$work"
if [ ! -s "$work/classpath" ] || [ "$here/pom.xml" -nt "$work/classpath" ]; then
	mvn --quiet --batch-mode -Dstyle.color=never --file "$here/pom.xml" -Dwork="$work" validate
fi
made=$(cat "$work/made" 2>/dev/null || true)
want="$documents $(cksum < "$here/Documents.java")"
if [ "$made" != "$want" ]; then
	java "$here/Documents.java" "$documents" 20000 "$work"
	echo "$want" > "$work/made"
fi
