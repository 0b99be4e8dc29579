//go:build unix

package shadow

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

const serveElsewhere = "TAILSCOPE_TEST_SHADOW_SERVER"

// TestServerElsewhere is the server of BenchmarkCPU, in a process of its own.
func TestServerElsewhere(t *testing.T) {
	if os.Getenv(serveElsewhere) == "" {
		t.Skip("for BenchmarkCPU")
	}
	fmt.Println("url " + quickServer(t, 1024))
	io.Copy(io.Discard, os.Stdin)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCPU measures what a copy costs this process, user and system, without the
// server, at a number of requests a second and as fast as it goes (rate 0). The
// ledger is kept, so accounts and measuring are included.
func BenchmarkCPU(b *testing.B) {
	c := exec.Command(os.Args[0], "-test.run=^TestServerElsewhere$", "-test.v")
	c.Env = append(os.Environ(), serveElsewhere+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { in.Close(); c.Wait() }()
	var url string
	for s := bufio.NewScanner(out); url == "" && s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "url "); ok {
			url = rest
		}
	}
	go io.Copy(io.Discard, out)
	for _, bench := range []struct {
		method         string
		body, underWay int
		rate           int
	}{{"GET", 0, 16, 0}, {"GET", 0, 64, 0}, {"POST", 2048, 16, 0}, {"GET", 0, 16, 1000}, {"GET", 0, 16, 10000}} {
		b.Run(fmt.Sprintf("%s/under_way=%d/rate=%d", bench.method, bench.underWay, bench.rate), func(b *testing.B) {
			ledger := pair.NewLedger(pair.Options{Service: "mirror", Experiment: "x", Shadows: []pair.Shadow{{Name: "candidate", Role: pair.Candidate}}})
			l := benchSender(b, url)
			fields, body := realFields(), strings.Repeat("x", bench.body)
			free := make(chan struct{}, bench.underWay)
			for range bench.underWay {
				free <- struct{}{}
			}
			names := pair.Names{Operation: "GET /items/{id}", Tenant: "a"}
			begin, n := time.Now(), 0
			run := func() {
				if bench.rate > 0 {
					if due := begin.Add(time.Duration(n) * time.Second / time.Duration(bench.rate)); time.Until(due) > 0 {
						time.Sleep(time.Until(due))
					}
					n++
				}
				<-free
				p := NewPayload()
				p.Method = append(p.Method, bench.method...)
				p.Target = append(p.Target, "/items/42"...)
				p.Host = append(p.Host, "example.com"...)
				p.Fields = append(p.Fields, fields...)
				if body != "" {
					p.Body, p.HasBody = append(p.Body, body...), true
				}
				x := telling{ledger.Begin(names, []uint8{1}, false), free}
				l.Offer(Copy{Payload: p, To: x, Copies: 1, Write: body != ""})
				p.Release()
				now := time.Now().UnixNano()
				x.EndPrimary(pair.Leg{Start: now - 1e6, FirstByte: now - 1e5, End: now, Status: 200})
			}
			for range 200 {
				run()
			}
			begin, n = time.Now(), 0
			before := cpuTime()
			for b.Loop() {
				run()
			}
			for range bench.underWay {
				<-free
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/copy")
			if a := ledger.Account(0); sum(a.Dropped)+sum(a.Failed) > 0 {
				b.Errorf("%+v", a)
			}
		})
	}
}

// telling is an exchange that notifies a channel of the end of its copy.
type telling struct {
	*pair.Exchange
	free chan struct{}
}

func (t telling) EndCopy(shadow int, l pair.Leg) {
	t.Exchange.EndCopy(shadow, l)
	t.free <- struct{}{}
}
