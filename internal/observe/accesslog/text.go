package accesslog

// textFormat is the format of lines that a server other than nginx writes, in the form of a
// log_format. Each name of a variable counts for itself alone.
type textFormat struct {
	text         string
	unit, unitUp int64 // see Format
	names        map[string]slot
}

// common is the format that Apache and others share (CLF); Combined goes on with two more.
const common = `$remote_addr $ident $remote_user [$time_local] "$request" $status $body_bytes_sent`

const haproxy = `$client [$start] $frontend $backend/$server $request_timer/$queue/$connecting/$upstream_response_time/$duration $status $bytes $cookie_of_request $cookie_of_answer $termination $connections $queues "$request"`

// textFormats are known by their names. Lines are recognised by themselves but for Apache's,
// whose number at the end could be another one.
var textFormats = map[string]textFormat{
	// nginx's combined, with the variable that most people add.
	"combined-time": {Combined + ` $request_time`, 1e9, 1e9, nil},
	// "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\" %D", and without the two in
	// quotes (https://httpd.apache.org/docs/2.4/mod/mod_log_config.html): %t is when the
	// request came, %D microseconds.
	"apache":        {common + ` "$referer" "$agent" $duration`, 1e3, 1e3, map[string]slot{"time_local": slotStart, "duration": slotDuration}},
	"apache-common": {common + ` $duration`, 1e3, 1e3, map[string]slot{"time_local": slotStart, "duration": slotDuration}},
	// https://doc.traefik.io/traefik/observe/logs-and-access-logs/#access-logs: the Common Log
	// Format, then requests, router, server and the duration.
	"traefik-text": {common + ` "$referer" "$agent" $requests "$proxy_host" "$upstream" ${duration}ms`, 1e6, 1e6,
		map[string]slot{"time_local": slotStart, "duration": slotDuration}},
	// The default of https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage.
	"envoy-text": {`[$start] "$request" $status $flags $received $bytes $duration $upstream_response_time "$forwarded" "$agent" "$request_id" "$host" "$upstream_addr"`, 1e6, 1e6,
		map[string]slot{"start": slotStart, "bytes": slotBytes, "duration": slotDuration}},
	// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html:
	// a request lasted from its creation until its answer's time.
	"alb": {`$type $time $elb $client $upstream_addr $reading $upstream_response_time $answering $status $upstream_status $received $bytes "$request" "$agent" $cipher $protocol $group "$trace" "$host" "$certificate" $rule $start $rest`, 1e9, 1e9,
		map[string]slot{"time": slotTime, "start": slotStart, "bytes": slotBytes}},
	// option httplog of https://docs.haproxy.org/3.2/configuration.html#8.2.3, behind syslog's
	// prefix, and without it. Headers that are captured stand before the request.
	"haproxy":      {`$syslog]: ` + haproxy, 1e6, 1e6, haproxyNames},
	"haproxy-bare": {haproxy, 1e6, 1e6, haproxyNames},
}

var haproxyNames = map[string]slot{"start": slotStart, "duration": slotDuration, "bytes": slotBytes, "server": slotUpAddr, "backend": slotUpName}

// textNames are the names of textFormats in the order in which lines are held against them:
// one that another is the beginning of comes later.
var textNames = []string{"alb", "haproxy", "haproxy-bare", "envoy-text", "traefik-text", "combined-time", "apache", "apache-common"}
