package mirror

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"tailscope/test/program"
)

// Servers are the real ones behind: an nginx each.
type Servers struct {
	Primary, Candidate string // host:port
	processes          []*program.Process
}

// StartServers runs a primary and a candidate that answer everything with 1 KB.
func StartServers(ctx context.Context, dir string) (*Servers, error) {
	s := &Servers{}
	for _, into := range []struct {
		name string
		addr *string
	}{{"primary", &s.Primary}, {"candidate", &s.Candidate}} {
		n, err := program.StartNginx(ctx, filepath.Join(dir, into.name), fmt.Sprintf(`
server {
	listen $ADDR backlog=4096;
	location / { return 200 %s; }
}`, strings.Repeat("a", Get.Answer)))
		if err != nil {
			s.Stop()
			return nil, err
		}
		*into.addr = n.Addr
		s.processes = append(s.processes, n.Process)
	}
	return s, nil
}

// Stop ends them.
func (s *Servers) Stop() {
	for _, p := range s.processes {
		p.Kill()
	}
}

// Contender stands between clients and the primary.
type Contender struct {
	Addr    string           // where clients go
	Process *program.Process // nil where nothing stands between
	Page    string           // URL of Tailscope's API, if it is Tailscope
	// Mirrors says that the candidate gets copies.
	Mirrors bool
}

// Stop ends it, whatever it is doing.
func (c *Contender) Stop() {
	if c.Process != nil {
		c.Process.Kill()
	}
}

// Starter begins a contender; candidate is empty for a pass without a mirror.
type Starter func(ctx context.Context, dir, primary, candidate string) (*Contender, error)

// Direct is nothing in between.
func Direct(_ context.Context, _, primary, _ string) (*Contender, error) {
	return &Contender{Addr: primary}, nil
}

// Nginx is nginx as proxy, with its mirror if there is a candidate, and with
// connections kept to both servers.
func Nginx(ctx context.Context, dir, primary, candidate string) (*Contender, error) {
	upstream := func(name, addr string) string {
		return fmt.Sprintf("upstream %s { server %s; keepalive 128; keepalive_requests 100000000; }\n", name, addr)
	}
	pass := "proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host;"
	conf := upstream("primary", primary)
	mirror, internal := "", ""
	if candidate != "" {
		conf += upstream("candidate", candidate)
		mirror = "mirror /mirror;"
		internal = "location = /mirror { internal; proxy_pass http://candidate$request_uri; " + pass + " }"
	}
	conf += fmt.Sprintf(`server {
	listen $ADDR backlog=4096;
	location / { %s proxy_pass http://primary; %s }
	%s
}`, mirror, pass, internal)
	n, err := program.StartNginx(ctx, dir, conf)
	if err != nil {
		return nil, err
	}
	return &Contender{Addr: n.Addr, Process: n.Process, Mirrors: candidate != ""}, nil
}

// Duplicator returns the least that duplicates, made with net/http or fasthttp.
func Duplicator(with string) Starter {
	return func(ctx context.Context, dir, primary, candidate string) (*Contender, error) {
		p, addr, err := program.StartDuplicator(ctx, dir+".log", with, primary, candidate)
		if err != nil {
			return nil, err
		}
		return &Contender{Addr: addr, Process: p, Mirrors: candidate != ""}, nil
	}
}

// Tailscope is `tailscope mirror` with the server in the same process, further
// flags being args.
func Tailscope(args ...string) Starter {
	return func(ctx context.Context, dir, primary, candidate string) (*Contender, error) {
		args := append([]string{"--primary", "http://" + primary}, args...)
		if candidate == "" { // a mirror has to have one: it gets nothing
			args = append(args, "--candidate", "http://127.0.0.1:9", "--set", "mirror.method=TRACE")
		} else {
			args = append(args, "--candidate", "http://"+candidate, "--unsafe")
		}
		m, err := program.StartMirror(ctx, dir, args...)
		if err != nil {
			return nil, err
		}
		return &Contender{Addr: m.Addr, Process: m.Process, Page: m.URL, Mirrors: candidate != ""}, nil
	}
}
