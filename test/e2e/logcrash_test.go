//go:build servers

package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
)

// blockBytes is the amount that a crash may repeat, by docs/access-logs.md.
const blockBytes = 2 << 20

// crashLine is one line of the recommended format that ends now.
func crashLine(i int) string {
	ms := time.Now().UnixMilli()
	return fmt.Sprintf(`10.0.0.9 - - [%s] "GET /cart/%d HTTP/1.1" 200 512 "-" "curl/8" %d.%03d 0.100 "-" "-" "-" "-" "-" "-" "acme.example.com" "-" "-" "-"`+"\n",
		time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), i, ms/1000, ms%1000)
}

// stored returns how many requests are there once everything read has been flushed.
func (s *server) stored(service string) uint64 {
	s.t.Helper()
	match := fmt.Sprintf(`{service=%q,kind="server"}`, service)
	last, same := uint64(0), 0
	for deadline := time.Now().Add(30 * time.Second); same < 4 && time.Now().Before(deadline); pause(s.t, 400*time.Millisecond) {
		n := s.count("span_duration_seconds", match)
		if n == last && n > 0 && s.metric("tailscope_access_log_lag_bytes") == 0 {
			same++
		} else {
			same = 0
		}
		last = n
	}
	return last
}

// A server that is killed while it follows a log, which is written and rotated
// meanwhile, loses none of its lines and repeats at most the block under way.
func TestKillWhileFollowing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	conf := filepath.Join(dir, "tailscope.yaml")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "access_logs:\n  - path: %s\n    service: shop\n    start: beginning\n", path), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	startIn(t, data, "--config", conf).stop() // it is built by then

	var written, bytes, rotations atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // writes, and rotates now and then
		defer close(stopped)
		var f *os.File
		defer func() { f.Close() }()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%2000 == 0 {
				if f != nil {
					f.Close()
					for old := rotations.Load(); old > 0; old-- {
						_ = os.Rename(fmt.Sprintf("%s.%d", path, old), fmt.Sprintf("%s.%d", path, old+1))
					}
					if err := os.Rename(path, path+".1"); err != nil {
						t.Error(err)
						return
					}
					rotations.Add(1)
				}
				var err error
				if f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
					t.Error(err)
					return
				}
			}
			n, err := f.WriteString(crashLine(i))
			if err != nil {
				t.Error(err)
				return
			}
			written.Add(1)
			bytes.Add(int64(n))
			time.Sleep(time.Millisecond)
		}
	}()
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	begin := time.Now()
	const kills = 6
	for range kills {
		s := startIn(t, data, "--config", conf)
		pause(t, time.Duration(300+rng.IntN(2500))*time.Millisecond)
		s.Kill()
	}
	close(stop)
	<-stopped
	s := startIn(t, data, "--config", conf)
	s.start = begin
	got, want := s.stored("shop"), uint64(written.Load())
	line := uint64(bytes.Load()) / want
	if got < want || got > want+kills*(blockBytes/line+1) {
		t.Errorf("%d requests are stored, %d lines were written, and %d kills may repeat %d each", got, want, kills, blockBytes/line)
	}
	t.Logf("%d lines over %d rotations and %d kills: %d repeated", want, rotations.Load(), kills, got-want)
}

// The same for an import: it is begun again until it comes to its end.
func TestKillWhileImporting(t *testing.T) {
	t.Parallel()
	const n = 600_000
	var b strings.Builder
	for i := range n {
		b.WriteString(crashLine(i))
	}
	lines := b.String()
	rng := rand.New(rand.NewPCG(2, uint64(time.Now().UnixNano())))
	data := filepath.Join(t.TempDir(), "data")
	begin := time.Now()
	params := url.Values{"service": {"shop"}}
	kills := uint64(0)
	for ; kills < 4; kills++ {
		s := startIn(t, data)
		ended := make(chan error, 1)
		go func() {
			c := client.Client{Address: s.URL}
			_, err := c.ImportAccessLog(t.Context(), params, strings.NewReader(lines))
			ended <- err
		}()
		pause(t, time.Duration(100+rng.IntN(250))*time.Millisecond)
		s.Kill()
		var answer *client.Error
		if err := <-ended; err == nil || errors.As(err, &answer) {
			break // it was quicker
		}
	}
	s := startIn(t, data)
	s.start = begin
	c := client.Client{Address: s.URL}
	out, err := c.ImportAccessLog(t.Context(), params, strings.NewReader(lines))
	var answer *client.Error
	switch {
	case errors.As(err, &answer) && answer.Code == "conflict": // it came to its end before
		out = &api.AccessLogImport{ResumedAt: int64(len(lines))}
	case err != nil:
		t.Fatal(err)
	}
	got := s.stored("shop")
	perBlock := uint64(blockBytes/(len(lines)/n) + 1)
	if got < n || got > n+kills*perBlock {
		t.Errorf("%d requests are stored, the log has %d lines, and %d kills may repeat %d each", got, n, kills, perBlock)
	}
	t.Logf("%d lines and %d kills: %d repeated; the last import went on at byte %d of %d", n, kills, got-n, out.ResumedAt, len(lines))
}
