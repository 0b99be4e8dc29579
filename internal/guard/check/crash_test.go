package check

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
)

// However often the process dies, and whatever the receivers' disk does, they are
// told of each incident in order, of its end if they know of it, and of nothing
// under a number that meant something else before.
func TestCrashesAtRandom(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(t, two)
				w.probe.set("parent:80", 0.1)
				for range 40 {
					w.probe.set("child:80", []float64{0.1, 0.1, 1.5, 3}[rng.IntN(4)])
					time.Sleep(time.Duration(1+rng.IntN(60_000)) * time.Millisecond)
					switch rng.IntN(6) {
					case 0:
						w.store.kill()
						time.Sleep(time.Duration(rng.IntN(9_000)) * time.Millisecond) // less than tellAnyway
						w.stop()
						w.store.dead = false
						w.notes.failing(nil)
						w.open(two)
					case 1:
						w.notes.failing(errors.New("disk full"))
					case 2:
						w.notes.failing(nil)
					case 3:
						_, _ = w.Acknowledge(t.Context(), "child", api.Ack{User: "eva"}) // there may be nothing to acknowledge
					}
				}
				w.notes.failing(nil)
				w.probe.set("child:80", 0.1)
				time.Sleep(10 * time.Minute) // any flapping ends
				w.stop()
				type told struct {
					last int
					over bool
				}
				known := map[string]*told{}
				meant := map[string]event.Kind{}
				opened := 0
				for _, v := range w.notes.events {
					k := known[v.Incident]
					name := fmt.Sprint(v.Incident, " ", v.Seq)
					if was, ok := meant[name]; ok && was != v.Kind {
						t.Errorf("%s was %s, then %s", name, was, v.Kind)
					}
					again := meant[name] != ""
					meant[name] = v.Kind
					if k == nil {
						if v.Kind != event.Opened {
							t.Errorf("%s begins with %s", v.Incident, v.Kind)
						}
						k = &told{}
						known[v.Incident] = k
						opened++
					}
					if !again && v.Seq <= k.last {
						t.Errorf("%s: %d after %d", v.Incident, v.Seq, k.last)
					}
					k.last = max(k.last, v.Seq)
					k.over = k.over || v.Kind == event.Resolved
				}
				for id, k := range known {
					if !k.over {
						t.Errorf("nobody was told that %s is over", id)
					}
				}
				if opened == 0 {
					t.Error("nothing happened")
				}
			})
		})
	}
}
