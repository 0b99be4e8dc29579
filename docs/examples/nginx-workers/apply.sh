#!/bin/sh
# Give nginx so many workers, and wait until it has them and the old ones are gone.
#   apply.sh WORKERS [DIRECTORY]
set -eu
work=${2:-/tmp/tailscope-nginx}
PATH=$PATH:/usr/sbin
master=$(cat "$work/nginx.pid" 2>/dev/null || true)
# Not there, such as after a crash: it starts with what is written here.
echo "worker_processes $1;" > "$work/workers.conf"
if [ -z "$master" ] || ! kill -0 "$master" 2>/dev/null; then
	exit 0
fi
workers() { cat /proc/"$master"/task/*/children | wc -w; }
nginx -t -q -c "$work/nginx.conf" -p "$work"
old=$(cat /proc/"$master"/task/*/children)
kill -HUP "$master"
for _ in $(seq 100); do
	sleep 0.1
	kill -0 "$master" 2>/dev/null || exit 0 # it was about to end
	gone=yes
	for pid in $old; do
		! kill -0 "$pid" 2>/dev/null || gone=no
	done
	if [ "$gone" = yes ] && [ "$(workers)" = "$1" ]; then
		exit 0
	fi
done
echo "nginx has $(workers) workers after 10 s, $1 were wanted" >&2
exit 1
