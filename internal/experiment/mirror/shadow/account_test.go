package shadow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

func sum(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}

// checkAccount checks the sums that close at any moment.
func checkAccount(a api.MirrorAccount) error {
	if a.Offered != a.Queued+sum(a.Dropped)+a.Mirrored ||
		a.Mirrored != a.Waiting+sum(a.Failed)+a.Answered ||
		a.Answered != a.Pairing+a.Paired+a.Unpaired {
		return fmt.Errorf("the account does not close: %+v", a)
	}
	return nil
}

// TestAccountsClose has clients offer all kinds of copies to a pool of servers
// that change their ways all the time, while the pool's size changes and copies
// are amplified, and closes the sender in the middle of it. Every copy ends once,
// with the ledger's account closed at every moment, and nothing is left.
func TestAccountsClose(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	var answered atomic.Uint64
	t.Cleanup(func() { // when all have been played; of one alone chance may have broken off everything
		if answered.Load() == 0 {
			t.Error("nothing was answered")
		}
	})
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			answered.Add(play(t, seed))
		})
	}
}

// play returns how many copies were answered.
func play(t *testing.T, seed uint64) uint64 {
	rnd := rand.New(rand.NewPCG(seed, 5))
	ways := []mirrortest.Way{
		mirrortest.Answer(200, "well"), mirrortest.Answer(200, "well"), mirrortest.Answer(500, "wrong"), mirrortest.Sleep(3 * time.Millisecond),
		mirrortest.Hang(), mirrortest.Silent(), mirrortest.ResetAtOnce(), mirrortest.ResetRequest(100),
		mirrortest.ResetAnswer(), mirrortest.Drip(time.Millisecond), mirrortest.Endless(), mirrortest.Garbage(),
		mirrortest.CloseAfter(2, false), mirrortest.CloseAfter(2, true), mirrortest.Early(413, false), mirrortest.Early(200, true),
	}
	var servers []*mirrortest.Server
	var urls []string
	for i := range 4 {
		s := mirrortest.Start(t, ways[rnd.IntN(len(ways))])
		servers = append(servers, s)
		urls = append(urls, s.URL())
		if i == 3 && seed%2 == 1 {
			// One of the pool speaks HTTP/2.
			url, _ := netServer(t, "h2c", func(w http.ResponseWriter, r *http.Request) {})
			urls[i] = url
		}
	}
	ledger := pair.NewLedger(pair.Options{Service: "mirror", Experiment: "x", Shadows: []pair.Shadow{{Name: "candidate", Role: pair.Candidate}}})
	l, err := NewSender(Options{
		Name: "candidate", Role: pair.Candidate, Session: "x", Servers: urls,
		Connections: 4, Queue: 40, Buffer: 1 << 20, BodyLimit: 256 << 10, AnswerLimit: 1 << 20,
		Timeout: 60 * time.Millisecond, Spread: 20 * time.Millisecond, Amplify: 1.5, Idle: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var clients, others sync.WaitGroup
	for i := range 4 {
		rnd := rand.New(rand.NewPCG(seed, uint64(100+i)))
		clients.Go(func() {
			for range 80 {
				client(l, ledger, rnd)
				if rnd.IntN(10) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	others.Go(func() { // changes
		rnd := rand.New(rand.NewPCG(seed, 200))
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
			s := servers[rnd.IntN(len(servers))]
			switch rnd.IntN(12) {
			case 0:
				s.Down()
			case 1, 2:
				if err := s.Up(); err != nil {
					t.Error(err)
				}
			case 3:
				l.SetUsing(rnd.IntN(len(servers) + 1))
			case 4:
				l.SetUsing(len(servers))
			case 5:
				l.SetAmplify(float64(rnd.IntN(8)) / 2)
			default:
				s.Set(ways[rnd.IntN(len(ways))])
			}
		}
	})
	others.Go(func() { // who looks
		for {
			select {
			case <-over:
				return
			case <-time.After(200 * time.Microsecond):
			}
			if err := checkAccount(ledger.Account(0)); err != nil {
				t.Error(err)
				return
			}
			l.State()
			if seed%2 == 1 {
				l.UnderWay(nil)
				l.Shed()
			}
			if held, bound := l.Buffered(); held < 0 || held > bound {
				t.Errorf("%d bytes are held of %d", held, bound)
				return
			}
		}
	})
	if seed%2 == 0 {
		clients.Wait()
	} else {
		time.Sleep(20 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(100))*time.Millisecond)
	defer cancel()
	l.Close(ctx)
	clients.Wait()
	close(over)
	others.Wait()
	a := ledger.Account(0)
	if err := checkAccount(a); err != nil {
		t.Error(err)
	}
	if a.Queued != 0 || a.Waiting != 0 || a.Pairing != 0 {
		t.Errorf("closed, and not all have ended: %+v", a)
	}
	if a.Offered < 50 {
		t.Errorf("nothing was tried: %+v", a)
	}
	if held, _ := l.Buffered(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	for _, s := range l.servers {
		if len(s.conns) != 0 || s.busy != 0 || s.making != 0 || len(s.idle) != 0 {
			t.Errorf("server %s: %d connections, %d idle, %d being made, %d copies", s.url, len(s.conns), len(s.idle), s.making, s.busy)
		}
	}
	return a.Answered
}

// client makes one request of some kind.
func client(l *Sender, ledger *pair.Ledger, rnd *rand.Rand) {
	write := rnd.IntN(3) == 0
	n := l.Copies(write)
	x := ledger.Begin(pair.Names{Operation: "GET /"}, []uint8{n}, rnd.IntN(4) == 0)
	var p *Payload
	var spool *Spool
	switch rnd.IntN(4) {
	case 0:
		p = post("some body")
	case 1:
		length := rnd.IntN(300 << 10)
		if rnd.IntN(2) == 0 {
			p, spool = stream(-1)
		} else {
			p, spool = stream(int64(length))
		}
		defer func() {
			part := make([]byte, 10_000)
			for left := length; left > 0; {
				k := min(left, len(part))
				spool.Write(part[:k])
				left -= k
				if rnd.IntN(60) == 0 {
					spool.Abort(pair.ClientClosed)
				}
			}
			spool.Close(nil)
			p.Release()
		}()
	default:
		p = get("/")
	}
	l.Offer(Copy{Payload: p, To: x, Copies: n, Write: write})
	if spool == nil {
		p.Release()
	}
	x.EndPrimary(pair.Leg{Start: 1, FirstByte: 2, End: 3, Status: 200})
}

// TestSpoolReaders reads a body by several readers of which some leave, or are
// cut off, and compares what each got.
func TestSpoolReaders(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		_, s := stream(-1)
		budgets := []*pair.Budget{pair.NewBudget(1 << 40), pair.NewBudget(40_000)}
		var want []byte
		bytes := make([]byte, 3*segmentBytes)
		for i := range bytes {
			bytes[i] = byte(i*i + i>>8)
		}
		type reading struct {
			r     *reader
			got   []byte
			taken int
			done  bool
			cause pair.Cause
		}
		var all []*reading
		for i := range 5 {
			r := s.open(budgets[i%2], 1<<40)
			r.begin()
			all = append(all, &reading{r: r})
		}
		step := func(x *reading) bool {
			if x.done {
				return false
			}
			p, more, cause := x.r.next(x.taken)
			x.taken = len(p)
			x.got = append(x.got, p...)
			if len(p) == 0 && !more {
				x.done, x.cause = true, cause
				x.r.close()
			}
			return len(p) > 0
		}
		for range 200 {
			switch k := rnd.IntN(10); {
			case k < 4:
				part := bytes[rnd.IntN(len(bytes)):]
				s.Write(part)
				want = append(want, part...)
			case k == 4 && rnd.IntN(20) == 0:
				x := all[rnd.IntN(len(all))]
				x.r.close()
				x.done = true
			default:
				step(all[rnd.IntN(len(all))])
			}
		}
		s.Close([]byte("A: b\r\n"))
		if open := s.open(budgets[0], 1); open != nil && len(want) > 0 {
			t.Error("a reader was opened behind the beginning")
		}
		for i, x := range all {
			for step(x) {
			}
			step(x)
			if !slices.Equal(x.got, want[:len(x.got)]) {
				t.Fatalf("seed %d: reader %d got other bytes than were written", seed, i)
			}
			if x.done && x.cause == pair.None && x.r.cut == pair.None && len(x.got) != len(want) && x.r.held != 0 {
				t.Errorf("seed %d: reader %d got %d of %d bytes", seed, i, len(x.got), len(want))
			}
			x.r.close()
		}
		for i, r := range budgets {
			if held := r.Held(); held != 0 {
				t.Errorf("seed %d: room %d holds %d bytes at the end", seed, i, held)
			}
		}
	}
}
