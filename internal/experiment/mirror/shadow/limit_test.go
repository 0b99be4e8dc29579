package shadow

import (
	"testing"

	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

// The limit on bodies holds for those that are there in whole, too.
func TestBodyLimitOfWholeBodies(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Answer(200, "x"))
	l := testSender(t, func(o *Options) { o.BodyLimit = 10 }, s)
	for _, c := range []struct {
		size int
		want pair.Cause
	}{{10, pair.None}, {11, pair.BodyLimit}} {
		e := newEnder(1)
		p := get("/")
		p.HasBody, p.Body = true, append(p.Body, make([]byte, c.size)...)
		l.Offer(Copy{Payload: p, To: e, Copies: 1})
		p.Release()
		if leg := e.wait(t)[0]; leg.Cause != c.want || (leg.Start == 0) != (c.want != pair.None) {
			t.Errorf("%d bytes: %+v", c.size, leg)
		}
	}
}
