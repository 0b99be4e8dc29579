#!/bin/sh
# An access log of the last hour, of so many lines, the same each time but for its
# times.
awk -v n="$1" -v now="$(date +%s)" 'BEGIN {
	srand(1)
	for (i = 0; i < n; i++) {
		r = rand()
		path = r < 0.6 ? "GET /search?q=" int(1000 * rand()) : r < 0.9 ? "GET /cart/" int(5000 * rand()) : "POST /orders"
		took = 0.004 * exp(1.2 * (rand() + rand() + rand() - 1.5)) * (r < 0.02 ? 30 : 1)
		printf "{\"msec\": %d.%03d, \"request\": \"%s HTTP/1.1\", \"status\": %d, \"body_bytes_sent\": %d, \"request_time\": %.6f}\n",
			now - 3500 + int(3400 * i / n), i % 1000, path, (r > 0.995 ? 500 : 200), 200 + int(2000 * rand()), took
	}
}'
