#!/bin/sh
# scale.sh N has the first N of eight servers behind nginx used; "scale.sh N start"
# writes the rest of its configuration before that. nginx takes the new list without
# losing a request.
set -eu
n=$1
run=$TAILSCOPE_RUN
port=${port:-27980}

{
  echo 'upstream pool {'
  i=1
  while [ "$i" -le "$n" ]; do
    echo "  server 127.0.0.1:$((port + i));"
    i=$((i + 1))
  done
  echo '  keepalive 64;'
  echo '}'
} > "$run/pool.conf"

if [ "${2:-}" != start ]; then
  kill -HUP "$(cat "$run/nginx.pid")"
  sleep 0.3 # until new workers have taken over
  exit
fi

mkdir -p "$run/temp"
echo ok > "$run/index.html"
{
  [ "$(id -u)" != 0 ] || echo 'user root;' # or its workers may not read this directory
  cat <<CONF
pid $run/nginx.pid;
error_log $run/error.log;
worker_processes 1;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path $run/temp/body;
  proxy_temp_path $run/temp/proxy;
  fastcgi_temp_path $run/temp/fastcgi;
  uwsgi_temp_path $run/temp/uwsgi;
  scgi_temp_path $run/temp/scgi;
  keepalive_requests 1000000;
  include $run/pool.conf;
  server {
    listen 127.0.0.1:$port backlog=1024;
    location / {
      proxy_pass http://pool;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
CONF
  i=1
  while [ "$i" -le 8 ]; do
    # What comes sooner than 10 ms after the request before waits.
    echo "  limit_req_zone \$server_port zone=server$i:64k rate=100r/s;"
    echo "  server { listen 127.0.0.1:$((port + i)) backlog=1024; root $run; limit_req zone=server$i burst=10000; }"
    i=$((i + 1))
  done
  echo '}'
} > "$run/nginx.conf"
