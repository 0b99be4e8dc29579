package accesslog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // a machine need not have zones
)

// show writes a record as text.
func show(r *record) string {
	s := fmt.Sprintf("%s %v %d %s %s", time.Unix(0, r.end).UTC().Format("2006-01-02T15:04:05.000000Z"), time.Duration(r.end-r.start), r.status, r.method, r.path)
	add := func(name string, v []byte) {
		if len(v) > 0 {
			s += fmt.Sprintf(" %s=%s", name, v)
		}
	}
	add("host", r.host)
	add("tenant", r.tenant)
	add("version", r.version)
	add("id", r.requestID)
	add("parent", r.parent)
	if r.queued != 0 {
		s += " queued=" + time.Unix(0, r.queued).UTC().Format("15:04:05.000")
	}
	for _, a := range r.attempts {
		s += fmt.Sprintf(" [%s %v", a.addr, time.Duration(a.total))
		if a.connect >= 0 {
			s += fmt.Sprintf(" connect %v", time.Duration(a.connect))
		}
		if a.header >= 0 {
			s += fmt.Sprintf(" header %v", time.Duration(a.header))
		}
		if a.status > 0 {
			s += fmt.Sprintf(" status %d", a.status)
		}
		if a.retried {
			s += " retried"
		}
		s += "]"
	}
	return s
}

// parse reads one line and writes what it says, or what is wrong with it.
func parse(t testing.TB, c Config, line string) string {
	t.Helper()
	p := parser{f: compile(t, c).format}
	var r record
	if !p.read([]byte(line), &r) {
		return fmt.Sprintf("%s at column %d: %s", p.problem.reason, p.problem.column, explainProblem(p.problem))
	}
	return show(&r)
}

func TestLines(t *testing.T) {
	setZone(t, time.UTC)
	short := `$msec $request_time $status "$request"`
	for _, tc := range []struct{ name, format, line, want string }{
		{"recommended", "tailscope", strings.TrimSpace(example),
			"2026-03-01T11:59:30.250000Z 120ms 200 GET /cart/4711 host=acme.example.com id=4bf92f3577b34da6a3ce929d0e0e4736 queued=11:59:30.100 [10.0.0.1:8080 100ms connect 2ms header 90ms status 200]"},
		{"local time with a zone", `$remote_addr [$time_local] "$request" $status $request_time`,
			`::1 [01/Mar/2026:13:59:30 +0200] "POST / HTTP/2.0" 503 12.000`, "2026-03-01T11:59:30.000000Z 12s 503 POST /"},
		{"bare local time", `$time_local $status $request_time $request`, `29/Feb/2024:00:00:00 -0130 200 0.001 GET /x HTTP/1.0`,
			"2024-02-29T01:30:00.000000Z 1ms 200 GET /x"},
		{"iso time", `[$time_iso8601] $request_uri $status $request_time`, `[2026-03-01T11:59:30+00:00] /a/b?c=/d 204 0.000`,
			"2026-03-01T11:59:30.000000Z 0s 204  /a/b"},
		{"bare lists", `$msec $request_time $upstream_response_time $upstream_addr $status $request_method $uri`,
			`1772366370.250 1.500 0.500, 0.900 : 0.050 10.0.0.1:80, 10.0.0.2:80 : unix:/run/app.sock 200 GET /x`,
			"2026-03-01T11:59:30.250000Z 1.5s 200 GET /x [10.0.0.1:80 500ms retried] [10.0.0.2:80 900ms] [unix:/run/app.sock 50ms]"},
		{"no upstream", `$msec $request_time $upstream_response_time $upstream_addr $status $request_method $uri`,
			`1772366370.250 0.000 - - 200 GET /x`, "2026-03-01T11:59:30.250000Z 0s 200 GET /x"},
		{"an attempt without time", `$msec $request_time "$upstream_response_time" "$upstream_addr" $status $request_method $uri`,
			`1772366370.250 0.010 "-, 0.010" "10.0.0.1:80, 10.0.0.2:80" 200 GET /x`, "2026-03-01T11:59:30.250000Z 10ms 200 GET /x [10.0.0.2:80 10ms]"},
		{"IPv6 upstream", `$msec $request_time "$upstream_response_time" "$upstream_addr" $status $request_method $uri`,
			`1772366370.250 0.010 "0.010" "[::1]:8080" 200 GET /x`, "2026-03-01T11:59:30.250000Z 10ms 200 GET /x [[::1]:8080 10ms]"},
		{"port scan", short, `1772366370.250 0.010 400 "\x16\x03\x01\x00"`, "2026-03-01T11:59:30.250000Z 10ms 400  "},
		{"empty request", short, `1772366370.250 0.010 400 ""`, "2026-03-01T11:59:30.250000Z 10ms 400  "},
		{"spaces in the path", short, `1772366370.250 0.010 200 "GET /a b HTTP/1.1"`, "2026-03-01T11:59:30.250000Z 10ms 200 GET /a b"},
		{"escaped path", short, `1772366370.250 0.010 200 "GET /a\x22b HTTP/1.1"`, "2026-03-01T11:59:30.250000Z 10ms 200 GET /a\"b"},
		{"absolute form", short, `1772366370.250 0.010 200 "GET http://x.example:80/p?q HTTP/1.1"`, "2026-03-01T11:59:30.250000Z 10ms 200 GET /p host=x.example:80"},
		{"directive", `log_format  x  escape=json  '{"t":"$msec","d":$request_time,'
			'"s":$status,"r":"$request","a":"$http_user_agent"}';`, `{"t":"1772366370.250","d":0.250,"s":200,"r":"GET /\"q\" HTTP/1.1","a":"x\\"}`,
			"2026-03-01T11:59:30.250000Z 250ms 200 GET /\"q\""},
		{"braces", `${msec}s ${request_time}s ${status}s ${request}`, `1772366370.250s 0.010s 200s GET / HTTP/1.1`, "2026-03-01T11:59:30.250000Z 10ms 200 GET /"},
		{"other text", short, `x1772366370.250 0.010 200 "GET / HTTP/1.1"`, "bad_time at column 1: this is not a time"},
		{"ends early", short, `1772366370.250 0.010 200`, "other_format at column 22: expected  \""},
		{"goes on", short, `1772366370.250 0.010 200 "GET / HTTP/1.1" more`, "other_format at column 42: the line goes on after the format's end"},
		{"no duration", short, `1772366370.250 - 200 "GET / HTTP/1.1"`, "no_duration at column 1: the line says no duration"},
		{"bad duration", short, `1772366370.250 fast 200 "GET / HTTP/1.1"`, "bad_duration at column 16: this is not a duration"},
		{"negative duration", short, `1772366370.250 -0.001 200 "GET / HTTP/1.1"`, "bad_duration at column 16: this is not a duration"},
		{"bad status", short, `1772366370.250 0.010 OK "GET / HTTP/1.1"`, "bad_status at column 22: this is not a status"},
		{"json", "json", `{"time_iso8601":"2026-03-01T11:59:30Z","request_time":"0.120","status":"200","request_method":"GET","request_uri":"/a/1?x","host":"h","upstream_response_time":"0.1","upstream_addr":"10.0.0.1:80","nested":{"status":"500","deep":[1,{"a":[]}]}}`,
			"2026-03-01T11:59:30.000000Z 120ms 200 GET /a/1 host=h [10.0.0.1:80 100ms]"},
		{"json escapes", "json", `{ "msec" : 1772366370.25 , "request_time" : 0.5, "status":200, "request":"GET \/caf\u00e9?\" HTTP\/1.1" , "x":null, "y":true}`,
			"2026-03-01T11:59:30.250000Z 500ms 200 GET /café"},
		{"own names", "json:time=ts,duration=took/ms,status=http.code,method=verb,path=http.url", `{"ts":1772366370250,"took":12.5,"http":{"code":201,"url":"/x?y"},"verb":"PUT"}`,
			"2026-03-01T11:59:30.250000Z 12.5ms 201 PUT /x"},
		{"caddy", "caddy", `{"level":"info","ts":1772366370.25,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"::1","proto":"HTTP/2.0","method":"GET","host":"a.example","uri":"/x?y=1","headers":{"X-Request-Start":["t=1772366370.1"],"Accept":["*/*"]}},"duration":0.0123,"size":5,"status":404}`,
			"2026-03-01T11:59:30.250000Z 12.3ms 404 GET /x host=a.example queued=11:59:30.100"},
		{"traefik", "traefik", `{"DownstreamStatus":200,"Duration":15000000,"OriginDuration":14000000,"OriginStatus":200,"RequestHost":"a.example","RequestMethod":"GET","RequestPath":"/x?y","ServiceAddr":"10.0.0.1:80","ServiceName":"web@docker","StartUTC":"2026-03-01T11:59:30.250000001Z","time":"2026-03-01T11:59:30Z","level":"info","msg":""}`,
			"2026-03-01T11:59:30.265000Z 15ms 200 GET /x host=a.example [10.0.0.1:80 14ms status 200]"},
		{"envoy", "envoy", `{"start_time":"2026-03-01T11:59:30.250Z","method":"GET","path":"/x","response_code":503,"duration":25,"upstream_service_time":"24","upstream_host":"10.0.0.1:80","authority":"a.example","x_request_id":"9a1d8c9e-8c2b-4f5a-9a53-3a2f3c1d4e5f"}`,
			"2026-03-01T11:59:30.275000Z 25ms 503 GET /x host=a.example id=9a1d8c9e-8c2b-4f5a-9a53-3a2f3c1d4e5f [10.0.0.1:80 24ms]"},
		{"nginx, combined and its time", "combined-time", `10.0.0.9 - - [01/Mar/2026:11:59:30 +0000] "GET /x HTTP/1.1" 200 512 "-" "curl/8" 0.120`,
			"2026-03-01T11:59:30.000000Z 120ms 200 GET /x"},
		{"apache", "apache", `10.0.0.9 - - [01/Mar/2026:11:59:30 +0000] "GET /x HTTP/1.1" 200 512 "-" "curl/8" 120500`,
			"2026-03-01T11:59:30.120500Z 120.5ms 200 GET /x"},
		{"apache, common", "apache-common", `10.0.0.9 - frank [01/Mar/2026:11:59:30 +0000] "GET /x HTTP/1.1" 200 - 120500`,
			"2026-03-01T11:59:30.120500Z 120.5ms 200 GET /x"},
		{"traefik's text", "traefik-text", `10.0.0.9 - - [01/Mar/2026:11:59:30 +0000] "GET /x HTTP/2.0" 502 11 "-" "curl/8" 17 "web@docker" "http://10.0.0.1:80" 35ms`,
			"2026-03-01T11:59:30.035000Z 35ms 502 GET /x"},
		{"envoy's text", "envoy-text", `[2026-03-01T11:59:30.250Z] "POST /x?y HTTP/1.1" 204 - 154 0 226 100 "10.0.35.28" "curl/8" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "10.0.0.1:80"`,
			"2026-03-01T11:59:30.476000Z 226ms 204 POST /x host=locations id=cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2 [10.0.0.1:80 100ms]"},
		{"envoy's text, answered by itself", "envoy-text", `[2026-03-01T11:59:30.250Z] "GET /x HTTP/1.1" 503 UF,URX 0 91 3 - "-" "-" "cc21" "-" "-"`,
			"2026-03-01T11:59:30.253000Z 3ms 503 GET /x id=cc21"},
		{"alb", "alb", `https 2026-03-01T11:59:30.250000Z app/web/50dc6c495c0c9188 10.0.0.9:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://a.example:443/x?y HTTP/1.1" "curl/8" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/t/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "a.example" "arn:aws:acm:us-east-2:123456789012:certificate/12345678" 1 2026-03-01T11:59:30.000000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_dc57cebed65b444ebc8177bb698fe166`,
			"2026-03-01T11:59:30.250000Z 250ms 200 GET /x host=a.example [10.0.0.1:80 48ms status 200]"},
		{"alb, without a target", "alb", `http 2026-03-01T11:59:30.250000Z app/web/50dc6c495c0c9188 10.0.0.9:2817 - -1 -1 -1 503 - 34 366 "GET http://a.example:80/x HTTP/1.1" "curl/8" - - - "Root=1-58337364" "-" "-" 0 2026-03-01T11:59:30.248000Z "fixed-response" "-" "-" "-" "-" "-" "-"`,
			"2026-03-01T11:59:30.250000Z 2ms 503 GET /x host=a.example:80"},
		{"alb, answered before it came", "alb", `http 2026-03-01T11:59:30.250000Z a 10.0.0.9:1 - -1 -1 -1 503 - 34 366 "GET http://a.example:80/x HTTP/1.1" "curl/8" - - - "R" "-" "-" 0 2026-03-01T11:59:30.350000Z "-"`,
			"bad_duration at column 6: this is not a duration"},
		{"haproxy", "haproxy", `Mar  1 12:59:30 lb haproxy[14389]: 10.0.1.2:33317 [01/Mar/2026:11:59:30.100] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu|x} {} "GET /index.html?a HTTP/1.1"`,
			"2026-03-01T11:59:30.209000Z 109ms 200 GET /index.html [srv1 69ms]"},
		{"haproxy, no server", "haproxy-bare", `::1:33317 [01/Mar/2026:11:59:30.100] http-in~ static/<NOSRV> -1/-1/-1/-1/8 400 0 - - CR-- 1/1/1/1/0 0/0 "<BADREQ>"`,
			"2026-03-01T11:59:30.108000Z 8ms 400  "},
		{"broken json", "json", `{"status":200,`, "other_format at column 15: this is not a JSON object"},
		{"json with more", "json", `{"status":200} x`, "other_format at column 16: the line goes on after the format's end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := parse(t, Config{Format: tc.format}, tc.line); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// setZone has this machine be in a zone until the test ends.
func setZone(t *testing.T, zone *time.Location) {
	t.Helper()
	was := time.Local
	time.Local = zone
	t.Cleanup(func() { time.Local = was })
}

// HAProxy's times have no zone: they are of the machine's.
func TestHAProxyIsOfThisZone(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	setZone(t, zone)
	for local, want := range map[string]string{"01/Mar/2026:06:59:30.100": "2026-03-01T11:59:30.108000Z", "08/Mar/2026:01:59:30.100": "2026-03-08T06:59:30.108000Z", "08/Mar/2026:03:00:00.000": "2026-03-08T07:00:00.008000Z"} {
		got := parse(t, Config{Format: "haproxy-bare"}, `::1:3 [`+local+`] f b/s 0/0/0/1/8 200 0 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`)
		if want += " 8ms 200 GET / [s 1ms]"; got != want {
			t.Errorf("%s: got  %s\nwant %s", local, got, want)
		}
	}
}

func TestNamedFields(t *testing.T) {
	c := Config{Format: `$msec $request_time $status "$request" $http_x_tenant $http_x_version $host`, Tenant: "field:$http_x_tenant", Version: "$http_x_version", Variant: "host"}
	if got, want := parse(t, c, `1772366370.250 0.010 200 "GET / HTTP/1.1" acme 1.2 blue`),
		"2026-03-01T11:59:30.250000Z 10ms 200 GET / host=blue tenant=acme version=1.2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBadFormats(t *testing.T) {
	for _, tc := range []struct{ format, want string }{
		{`$remote_addr [$time_local] "$request"`, "log_format tailscope '"},
		{`$request_time`, "there is no $msec and no $request and no $status in it"},
		{`$msec$request_time $status $request`, "column 6: nothing stands between $msec and $request_time"},
		{`$msec $ $status`, "column 7: a variable is $name or ${name}"},
		{`${msec $status`, "column 1: a variable is $name or ${name}"},
		{`common`, "has no variables"},
		{`log_format x 'a $msec`, "a quote ' is never closed"},
		{`log_format x escape=xml '$msec'`, "escape=xml is not one of default, json, none"},
		{`log_format x`, "log_format needs a name and a text"},
		{"json:times=ts", "is not WORD=FIELD"},
		{"json:duration=took/m", "the unit of a duration is one of s, ms, us, ns"},
		{"$msec\n$status", "a line break in it"},
	} {
		_, err := Config{Service: "x", Format: tc.format}.Compile()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q in it", tc.format, err, tc.want)
		}
	}
	_, err := Config{Format: `$msec $request_time $status $request`, Tenant: "path:/x", Routes: []string{"x", "(=y"}}.Compile()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"service: ", "tenant: \"/x\" has no group", "route: \"x\" is not REGEX=NAME", "route: error parsing regexp"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	_, err = Config{Service: "x", Format: `$msec $request_time $status $request`, Tenant: "field:who"}.Compile()
	if err == nil || !strings.Contains(err.Error(), "there is no $who in it") {
		t.Errorf("got %v, want an error that names the field", err)
	}
}

func TestDetect(t *testing.T) {
	combined := `10.0.0.9 - - [01/Mar/2026:11:59:30 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8"`
	for _, tc := range []struct{ name, lines, want, err string }{
		{"recommended", "\ngarbage\n" + example, "tailscope", ""},
		{"nginx json", `{"msec":1772366370.25,"request_time":0.5,"status":200,"request":"GET / HTTP/1.1"}`, "json", ""},
		{"caddy", `{"ts":1772366370.25,"request":{"method":"GET","uri":"/"},"duration":0.1,"status":200}`, "caddy", ""},
		{"traefik", `{"StartUTC":"2026-03-01T11:59:30Z","Duration":1,"DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/"}`, "traefik", ""},
		{"envoy", `{"start_time":"2026-03-01T11:59:30.250Z","method":"GET","path":"/x","response_code":503,"duration":25}`, "envoy", ""},
		{"combined", combined + "\n", "combined", ""},
		{"json without durations", `{"msec":1772366370.25,"status":200,"request":"GET / HTTP/1.1"}`, "json", ""},
		{"json, of which some have durations", `{"msec":1772366370.25,"status":200,"request":"GET / HTTP/1.1"}
{"ts":1772366370.25,"request":{"method":"GET","uri":"/"},"duration":0.1,"status":200}`, "caddy", ""},
		{"combined and more", combined + ` "10.0.0.2"` + "\n", "", "give the log_format"},
		{"something", "hello\n", "", "no known format"},
		{"other json", `{"a":1}`, "", "say which fields are meant"},
		{"nginx with its time", combined + " 0.120\n" + combined + " 1.000", "combined-time", ""},
		{"apache, or another number", combined + " 120500", "", "say apache"},
		{"traefik's text", combined + ` 17 "web@docker" "http://10.0.0.1:80" 35ms`, "traefik-text", ""},
		{"envoy's text", `[2026-03-01T11:59:30.250Z] "POST / HTTP/1.1" 204 - 154 0 226 100 "-" "-" "-" "-" "10.0.0.1:80"`, "envoy-text", ""},
		{"alb", `http 2026-03-01T11:59:30.250000Z a 10.0.0.9:1 - -1 -1 -1 503 - 34 366 "GET http://a.example:80/x HTTP/1.1" "curl/8" - - - "R" "-" "-" 0 2026-03-01T11:59:30.150000Z "-"`, "alb", ""},
		{"haproxy", `<134>Mar  1 12:59:30 haproxy[1]: ::1:33317 [01/Mar/2026:11:59:30.100] f~ b/s 0/0/0/1/1 200 27 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`, "haproxy", ""},
		{"haproxy on its standard output", `::1:33317 [01/Mar/2026:11:59:30.100] f~ b/s 0/0/0/1/1 200 27 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`, "haproxy-bare", ""},
	} {
		got, err := detectFormat([]byte(tc.lines))
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got %q, %v; want %q, %q", tc.name, got, err, tc.want, tc.err)
		}
	}
	for _, tc := range []struct {
		format, lines string
		want          error
	}{
		{"", combined, ErrNoDuration}, {"combined", "", ErrNoDuration}, {"", example, nil}, {"json", "", nil},
		{"json", `{"msec":1772366370.25,"status":200,"request":"GET / HTTP/1.1"}`, ErrNoDuration},
	} {
		src, err := compile(t, Config{Format: tc.format}).ForLines([]byte(tc.lines))
		if err != nil {
			t.Fatal(err)
		}
		if got := src.Notice([]byte(tc.lines)); !errors.Is(got, tc.want) {
			t.Errorf("notice of %q: got %v, want %v", tc.format, got, tc.want)
		}
	}
}

// The recommended format holds everything that is made use of.
func TestRecommendedBindsWhatIsUsed(t *testing.T) {
	f := compile(t, Config{Format: Directive}).format
	for _, s := range []slot{slotEpoch, slotDuration, slotStatus, slotRequest, slotHost, slotUpAddr, slotUpTime, slotUpConnect, slotUpHeader, slotUpStatus, slotUpName, slotQueued, slotRequestID, slotParent} {
		if !f.bound[s] {
			t.Errorf("slot %d is in no variable of it", s)
		}
	}
}

func TestCivilTimes(t *testing.T) {
	var c clock
	for day := 1; day < 366*30; day++ {
		want := time.Unix(int64(day)*86400+int64(day)*7919%86400, 0).UTC()
		for _, layout := range []string{"02/Jan/2006:15:04:05 -0700", time.RFC3339, "2006-01-02T15:04:05.000-0700"} {
			for _, zone := range []*time.Location{time.UTC, time.FixedZone("", -5400), time.FixedZone("", 14*3600)} {
				text := want.In(zone).Format(layout)
				if got, ok := c.parse([]byte(text)); !ok || got != want.UnixNano() {
					t.Fatalf("%s: got %s, %v, want %s", text, time.Unix(0, got).UTC(), ok, want)
				}
			}
		}
	}
	for _, bad := range []string{"", "-", "31/Feb/2026:00:00:00 +0000", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00", "1e400", "99999999999999999999", "2026-01-01T00:00:00+2400"} {
		if got, ok := c.parse([]byte(bad)); ok {
			t.Errorf("%q: got %d, want an error", bad, got)
		}
	}
}

func TestEpochUnits(t *testing.T) {
	var c clock
	for _, text := range []string{"1772366370.25", "1772366370250", "1772366370250000", "1772366370250000000"} {
		if got, ok := c.parse([]byte(text)); !ok || got != 1772366370250000000 {
			t.Errorf("%s: got %d, %v", text, got, ok)
		}
	}
}
