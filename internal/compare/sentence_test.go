package compare

import (
	"math"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
)

// What is left of a very large effect is said in times: in per cent all of them
// are 100.
func TestVeryLargeEffects(t *testing.T) {
	c := &comparison{Request: Request{Level: 0.95, Within: 0.05}}
	p99, bytes := measures[4], measures[4]
	bytes.Kind, bytes.Unit = judge.Amount, "bytes"
	for _, x := range []struct {
		m                 measure
		verdict           judge.Verdict
		effect, low, high float64
		want              string
	}{
		{p99, judge.Faster, 1. / 5012, 1. / 6437, 1. / 3911, "p99 of shop is 5,000 times as fast (95 % interval 3,900 … 6,400)"},
		{p99, judge.Faster, 1. / 5012, 0, 1. / 3911, "p99 of shop is 5,000 times as fast (95 % interval 3,900 or more)"},
		{p99, judge.Faster, 0.05, 0.0002, 0.2, "p99 of shop is 20 times as fast (95 % interval 5 … 5,000)"},
		{p99, judge.Faster, 0.051, 0.0002, 0.2, "p99 of shop is 95 % faster (95 % interval 80 … 99.98 %)"},
		{p99, judge.Faster, 0.06, 0.0049, 0.2, "p99 of shop is 94 % faster (95 % interval 80 … 99.5 %)"},
		{p99, judge.Slower, 5012, 3911, 6437, "p99 of shop is 5,000 times as slow (95 % interval 3,900 … 6,400)"},
		{p99, judge.Slower, 1234567, 999.4, math.Inf(1), "p99 of shop is 1,200,000 times as slow (95 % interval 999 or more)"},
		{p99, judge.Slower, 100.4, 2.4, 999.6, "p99 of shop is 100 times as slow (95 % interval 2.4 … 1,000)"},
		{bytes, judge.Lower, 0.01, 0.005, 0.02, "p99 of shop is 100 times as low (95 % interval 50 … 200)"},
	} {
		f := api.CompareFigure{Effect: api.Float(x.effect), Low: api.Float(x.low), High: api.Float(x.high), Verdict: x.verdict}
		if got := c.finding(x.m, "shop", &f).Sentence(); got != x.want {
			t.Errorf("got  %s\nwant %s", got, x.want)
		}
	}
}
