//go:build servers

package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/test/program"
	"tailscope/test/sender"
)

// The balancer of deploy/compose divides the requests of one connection by gRPC, and those
// over HTTP, among the servers; goes on when one of them is gone; and has an agent stay with
// one.
func TestBalancer(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../deploy/compose/balancer.conf")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf := string(b)
	servers := map[string]*server{}
	for _, name := range []string{"ts1", "ts2", "ts3"} {
		s := startIn(t, filepath.Join(dir, name))
		servers[name] = s
		conf = strings.NewReplacer(name+":7099", strings.TrimPrefix(s.URL, "http://"), name+":4317", s.OTLPGRPC, name+":4318", s.OTLPHTTP).Replace(conf)
	}
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	grpcAddr, httpAddr := free(), free()
	conf = strings.NewReplacer("listen 7099", "listen $ADDR", "listen 4317", "listen "+grpcAddr, "listen 4318", "listen "+httpAddr).Replace(conf)
	n, err := program.StartNginx(t.Context(), filepath.Join(dir, "nginx"), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)

	const requests, spans = 30, 10
	send := func(snd sender.Sender, service string) {
		t.Helper()
		body := crashPayload(t, service, spans, 3)
		for range requests {
			if err := snd.Send(t.Context(), body); err != nil {
				t.Fatal(err)
			}
		}
		if err := snd.Close(); err != nil {
			t.Fatal(err)
		}
	}
	counts := func(service string) (sum uint64, with int) {
		for _, s := range servers {
			s.start = time.Now().Add(-10 * time.Minute)
			n := s.count("span_duration_seconds", `{service="`+service+`"}`)
			if sum += n; n > 0 {
				with++
			}
		}
		return sum, with
	}
	byGRPC := func() sender.Sender {
		t.Helper()
		snd, err := sender.GRPC(grpcAddr, sender.Traces)
		if err != nil {
			t.Fatal(err)
		}
		return snd
	}
	send(byGRPC(), "by-grpc")
	send(sender.HTTP("http://"+httpAddr+"/v1/traces", ""), "by-http")
	for _, service := range []string{"by-grpc", "by-http"} {
		if sum, with := counts(service); sum != requests*spans || with != 3 {
			t.Errorf("%s: %d spans on %d servers, want %d on 3", service, sum, with, requests*spans)
		}
	}
	agent, err := program.StartAgent(t.Context(), filepath.Join(dir, "agent"), "http://"+httpAddr, flushFlag)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Kill()
	snd, err := sender.GRPC(agent.OTLPGRPC, sender.Traces)
	if err != nil {
		t.Fatal(err)
	}
	send(snd, "by-agent")
	for deadline := time.Now().Add(time.Minute); ; pause(t, 200*time.Millisecond) {
		sum, with := counts("by-agent")
		if sum == requests*spans && with == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("by-agent: %d spans on %d servers, want %d on 1", sum, with, requests*spans)
		}
	}

	servers["ts2"].Kill()
	delete(servers, "ts2")
	send(byGRPC(), "two-by-grpc")
	send(sender.HTTP("http://"+httpAddr+"/v1/traces", ""), "two-by-http")
	for _, service := range []string{"two-by-grpc", "two-by-http"} {
		if sum, with := counts(service); sum != requests*spans || with != 2 {
			t.Errorf("%s, of two servers: %d spans on %d, want %d on 2", service, sum, with, requests*spans)
		}
	}
	for range 4 {
		res, err := http.Get("http://" + n.Addr + "/api/v1/status")
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Errorf("the page's address answers %s", res.Status)
		}
	}
}
