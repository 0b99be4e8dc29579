package accesslog

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Whatever a line is, reading it does not fail in any other way than to say
// so, with a column within it; and what is read makes sense.
func FuzzLine(f *testing.F) {
	f.Add(0, strings.TrimSpace(example))
	f.Add(1, `1772366370.250 1.500 0.500, 0.900 : 0.050 10.0.0.1:80, 10.0.0.2:80 : unix:/run/app.sock 200 GET /x`)
	f.Add(2, `{"msec":1772366370.25,"request_time":0.5,"status":200,"request":"GET \/caf\u00e9?\" HTTP\/1.1","a":[{"b":null}]}`)
	f.Add(3, `{"ts":1772366370.25,"request":{"method":"GET","host":"a","uri":"/x","headers":{"X-Request-Start":["t=1"]}},"duration":1e-05,"status":404}`)
	f.Add(4, `{"t":"1772366370.250","d":0.250,"s":200,"r":"GET /\"q\" HTTP/1.1","a":"x\\"}`)
	f.Add(8, `http 2026-03-01T11:59:30.250000Z a 10.0.0.9:1 - -1 -1 -1 503 - 34 366 "GET http://a.example:80/x HTTP/1.1" "curl/8" - - - "R" "-" "-" 0 2026-03-01T11:59:30.150000Z "-"`)
	f.Add(9, `<134>Mar  1 12:59:30 haproxy[1]: ::1:33317 [01/Mar/2026:11:59:30.100] f~ b/s 0/0/0/1/1 200 27 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`)
	var sources []*Source
	configs := []Config{
		{Format: "tailscope", Tenant: "host"},
		{Format: `$msec $request_time $upstream_response_time $upstream_addr $status $request_method $uri`},
		{Format: "json", Tenant: `path:^/([a-z]+)`}, {Format: "caddy"},
		{Format: `log_format x escape=json '{"t":"$msec","d":$request_time,"s":$status,"r":"$request","a":"$http_user_agent"}';`},
		{Format: "traefik"}, {Format: "envoy"},
		{Format: `$time_local $status $request_time $request`},
	}
	for _, name := range textNames {
		configs = append(configs, Config{Format: name})
	}
	for _, c := range configs {
		c.Service = "fuzz"
		s, err := c.Compile()
		if err != nil {
			f.Fatal(err)
		}
		sources = append(sources, s)
	}
	f.Fuzz(func(t *testing.T, which int, line string) {
		src := sources[uint(which)%uint(len(sources))]
		p := parser{f: src.format}
		var r record
		if !p.read([]byte(line), &r) {
			if p.problem.column < 1 || p.problem.column > len(line)+1 {
				t.Errorf("column %d of a line of %d bytes", p.problem.column, len(line))
			}
			return
		}
		if r.start <= 0 || r.end < r.start || r.status < 0 {
			t.Errorf("read %+v", r)
		}
		for _, a := range r.attempts {
			if a.total < 0 {
				t.Errorf("an attempt of %d ns", a.total)
			}
		}
		src.tenant.tenantOf(&r)
		n := new(null)
		in := New(Options{Sink: n, Traces: n, Retention: 200 * 366 * 24 * time.Hour, Now: func() time.Time { return time.Unix(0, r.end) }})
		fd, err := in.feed(t.Context(), src, 1, "test")
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(line, "\n") || line == "" || line[len(line)-1] == '\r' {
			return
		}
		if err := fd.ingestBlock(context.Background(), []byte(line), 0); err != nil {
			t.Fatal(err)
		}
		want := 1 + len(r.attempts)
		if r.untimed {
			want = 0 // it is counted without a duration
		}
		if fd.tally.Accepted == 1 && (n.observations != want || n.spans != want) {
			t.Errorf("%d observations and %d spans, want %d", n.observations, n.spans, want)
		}
		for _, s := range fd.spans {
			if s.Start < r.start || s.End > r.end || s.End < s.Start {
				t.Errorf("a span %d to %d of a request %d to %d", s.Start, s.End, r.start, r.end)
			}
		}
	})
}

// Whatever a format is, it compiles or says why not; and one that compiles
// reads lines.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{Combined, Recommended, Directive, "json", "json:time=ts,duration=took/ms", `log_format x escape=json '{"a":"$msec"' "b";`, "${msec}${status}"} {
		f.Add(s, example)
	}
	f.Fuzz(func(t *testing.T, spec, line string) {
		src, err := Config{Service: "x", Format: spec}.Compile()
		if err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		if src, err = src.ForLines([]byte(line)); err != nil {
			return
		}
		p := parser{f: src.format}
		p.read([]byte(line), &record{})
	})
}
