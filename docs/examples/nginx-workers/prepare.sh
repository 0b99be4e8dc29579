#!/bin/sh
# A certificate, files of a few sizes, and the configuration of nginx and of the
# server behind it.
set -eu
: "${work:?directory of all that}" "${port:?}" "${behind:?port of the server behind}" "${workers:?}"
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin
for tool in nginx openssl awk; do
	command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install nginx-light openssl mawk" >&2; exit 1; }
done
mkdir -p "$work/files"
if [ ! -s "$work/cert.pem" ]; then
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
		-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
		-keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
fi
# A page of 50 kB that gzip has work with, an icon of 1 kB, a picture of 200 kB.
awk 'BEGIN { srand(7); print "<!doctype html><title>shop</title><table>"
	for (i = 0; i < 900; i++) printf "<tr><td>article %d<td class=price>%.2f<td>%d in stock\n", i, rand()*100, rand()*1000 }' > "$work/files/page.html"
awk 'BEGIN { srand(8); for (i = 0; i < 1024; i++) printf "%c", 32 + rand()*94 }' > "$work/files/icon.bin"
awk 'BEGIN { srand(9); for (i = 0; i < 204800; i++) printf "%c", 32 + rand()*94 }' > "$work/files/picture.bin"
user=
[ "$(id -u)" != 0 ] || user='user root;'
sed -e "s|@work@|$work|g; s|@port@|$port|g; s|@behind@|$behind|g; s|@user@|$user|" "$here/nginx.conf" > "$work/nginx.conf"
sed -e "s|@work@|$work|g; s|@behind@|$behind|g; s|@user@|$user|" "$here/behind.conf" > "$work/behind.conf"
echo "worker_processes $workers;" > "$work/workers.conf"
nginx -t -q -c "$work/nginx.conf" -p "$work"
