package pair

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"tailscope/api"
)

func sum(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}

func closed(a api.MirrorAccount) error {
	switch {
	case a.Offered != a.Queued+sum(a.Dropped)+a.Mirrored:
		return fmt.Errorf("offered is not queued + dropped + mirrored: %+v", a)
	case a.Mirrored != a.Waiting+sum(a.Failed)+a.Answered:
		return fmt.Errorf("mirrored is not waiting + failed + answered: %+v", a)
	case a.Answered != a.Pairing+a.Paired+a.Unpaired:
		return fmt.Errorf("answered is not pairing + paired + unpaired: %+v", a)
	case a.Queued > a.Offered || a.Waiting > a.Mirrored || a.Pairing > a.Answered:
		return fmt.Errorf("less than nothing: %+v", a)
	}
	return nil
}

// The sums close at every moment while many goroutines end legs in any order,
// and at the end they are what the goroutines themselves counted.
func TestAccountsCloseAtEveryMoment(t *testing.T) {
	b, m, _ := testLedger(t, Options{Now: func() int64 { return 1_000_000 * second }})
	const workers, each = 8, 800
	type counted struct{ offered, dropped, failed, answered, paired [2]atomic.Uint64 }
	var want counted
	var wrong atomic.Pointer[error]
	stop := make(chan struct{})
	var watching, working sync.WaitGroup
	for range 2 {
		watching.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for i := range both {
					if err := closed(b.Account(i)); err != nil {
						wrong.Store(&err)
					}
				}
				s := b.Stats()
				if sum(s.Skipped) > s.Requests || sum(s.Failed) > s.Requests || s.Open < 0 {
					err := fmt.Errorf("stats %+v", s)
					wrong.Store(&err)
				}
			}
		})
	}
	for w := range workers {
		working.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range each {
				copies := []uint8{uint8(r.IntN(3)), uint8(r.IntN(3))}
				ok := r.IntN(4) > 0
				x := b.Begin(Names{fmt.Sprint("op", r.IntN(5)), ""}, copies, false)
				var legs []func()
				for i, n := range copies {
					want.offered[i].Add(uint64(n))
					for range n {
						legs = append(legs, func() {
							switch r.IntN(3) {
							case 0:
								want.dropped[i].Add(1)
								x.EndCopy(i, Leg{Cause: QueueFull})
							case 1:
								want.failed[i].Add(1)
								x.Sent(i)
								x.EndCopy(i, Leg{Start: 1, Cause: Reset})
							default:
								want.answered[i].Add(1)
								if ok {
									want.paired[i].Add(1)
								}
								x.Sent(i)
								x.EndCopy(i, Leg{Start: 1, FirstByte: 2, End: 3, Status: 200})
							}
						})
					}
				}
				legs = append(legs, func() {
					l := Leg{Start: 1, FirstByte: 2, End: 3, Status: 200}
					if !ok {
						l.Cause = Reset
					}
					x.EndPrimary(l)
				})
				r.Shuffle(len(legs), func(i, j int) { legs[i], legs[j] = legs[j], legs[i] })
				if r.IntN(2) == 0 {
					for _, l := range legs {
						l()
					}
					continue
				}
				// r is not shared: what it decides in a leg is drawn one at a time.
				var one sync.Mutex
				var each sync.WaitGroup
				for _, l := range legs {
					each.Go(func() {
						one.Lock()
						defer one.Unlock()
						l()
					})
				}
				each.Wait()
			}
		})
	}
	working.Wait()
	close(stop)
	watching.Wait()
	if err := wrong.Load(); err != nil {
		t.Error(*err)
	}
	flush(t, b)
	for i := range both {
		a := b.Account(i)
		got := fmt.Sprint(a.Offered, a.Queued, sum(a.Dropped), a.Mirrored, a.Waiting, sum(a.Failed), a.Answered, a.Pairing, a.Paired, a.Unpaired)
		answered, failed := want.answered[i].Load(), want.failed[i].Load()
		paired := want.paired[i].Load()
		if w := fmt.Sprint(want.offered[i].Load(), 0, want.dropped[i].Load(), answered+failed, 0, failed, answered, 0, paired, answered-paired); got != w {
			t.Errorf("account %d is %s, want %s", i, got, w)
		}
		if n := m.count(fmt.Sprintf(`mirror_copies_total{experiment="e1", outcome="answered", service="shop", variant="%s"}`, both[i].Name)); uint64(n) != paired {
			t.Errorf("%v copies put as answered, want %d", n, paired)
		}
	}
	if s := b.Stats(); s.Open != 0 || s.Strays != 0 || s.Requests != workers*each {
		t.Errorf("stats %+v", s)
	}
}

// Whatever is called in whatever order, also wrongly, the sums close after
// every call.
func TestAccountsCloseWhateverIsCalled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewLedger(Options{Shadows: both, Now: func() int64 { return second }})
		n := rapid.SliceOfN(rapid.Uint8Range(0, 3), 2, 2).Draw(t, "copies")
		x := b.Begin(Names{}, n, false)
		left := 1 + int(n[0]) + int(n[1])
		for left > 0 {
			shadow := rapid.IntRange(0, 1).Draw(t, "shadow")
			before := b.Stats().Strays
			switch rapid.IntRange(0, 5).Draw(t, "call") {
			case 0, 1:
				x.Sent(shadow)
				left++
			case 2:
				x.EndCopy(shadow, Leg{Cause: rapid.SampledFrom([]Cause{None, Expired, Cause(200)}).Draw(t, "cause")})
			case 3:
				x.EndCopy(shadow, Leg{Start: 1, Cause: rapid.SampledFrom([]Cause{None, Reset}).Draw(t, "cause")})
			case 4:
				x.EndCopy(shadow, Leg{Start: 1, FirstByte: 2, End: 3, Status: 200})
			case 5:
				x.EndPrimary(Leg{Start: 1, End: 2, Cause: rapid.SampledFrom([]Cause{None, Reset, Cause(99)}).Draw(t, "cause")})
			}
			if b.Stats().Strays == before {
				left--
			}
			for i := range both {
				if err := closed(b.Account(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if open := b.Stats().Open; open != 0 {
			t.Fatalf("%d exchanges open", open)
		}
	})
}
