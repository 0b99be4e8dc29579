package liveview

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/report/reporttest"
)

func TestCapacityView(t *testing.T) {
	var b bytes.Buffer
	v := NewCapacity(&b, "shop", false, time.Now)
	c := reporttest.Capacity(t)
	c.Steps, c.Progress, c.End = c.Steps[:1], "step 1, rise: 400 requests/s", api.Float(math.NaN())
	v.Show(c) // the step goes on
	if b.Len() > 0 {
		t.Errorf("written too soon: %s", b.String())
	}
	v.Show(reporttest.Capacity(t))
	if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "stopped") || !strings.Contains(lines[0], "p99 20.0 ms") {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	v = NewCapacity(&b, "shop", false, time.Now)
	v.terminal, v.size = true, func() (int, int) { return 120, 40 }
	v.Show(c)
	if got := b.String(); !strings.Contains(got, "✓ p99 < 200ms  now 20.0 ms (16.0 ms … 24.0 ms)") || !strings.Contains(got, "step 1, rise") {
		t.Errorf("%s", got)
	}
}
