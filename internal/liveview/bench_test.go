package liveview

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/report/reporttest"
)

func TestBenchPicture(t *testing.T) {
	h := hist.New(hist.DefaultSchema)
	for i := range 100 {
		_ = h.RecordNanos(int64(i+1)*1e6, 1)
	}
	r := reporttest.Bench(t)
	r.Account.Dropped = 7
	m := session.Moment{Result: r, Elapsed: 5 * time.Second, Left: 3 * time.Second, Asked: 350, Behind: 164, Phase: 1, Trouble: "what is measured waits: it is away",
		Live: tally.Live{Seconds: 5, Latency: h, Service: h, Late: h, Rate: 348.25, Recent: r.Timeline}}
	warming := m
	warming.Elapsed = -3500 * time.Millisecond
	v := &benchView{title: "search"}
	closed := m
	c := *r
	c.Plan.Arrivals, closed.Result, closed.Asked, closed.Left = "closed", &c, math.NaN(), -1
	reporttest.Golden(t, "bench-picture.txt", v.picture(m, 100)+"\n"+v.picture(warming, 100)+"\n"+v.picture(closed, 40)+"\n"+benchLine(m)+"\n"+benchLine(warming)+"\n")

	// On a terminal it draws over itself, within its size, and leaves nothing.
	var b bytes.Buffer
	v = &benchView{w: &b, title: "search", terminal: true, colors: true, size: func() (int, int) { return 40, 8 }, now: time.Now}
	v.Show(m)
	v.Note("a server is started")
	v.Close()
	for line := range strings.Lines(b.String()) {
		plain := strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "", "\x1b[31m", "", "\x1b[33m", "").Replace(line)
		if n := len([]rune(strings.TrimSpace(plain))); n > 40 && !strings.Contains(plain, "A\r") {
			t.Errorf("%d characters: %q", n, line)
		}
	}
	if n := strings.Count(b.String(), "\x1b[7A\r\x1b[J"); n != 2 || !strings.HasSuffix(b.String(), "\x1b[J") {
		t.Errorf("drawn over %d times: %q", n, b.String())
	}
}
