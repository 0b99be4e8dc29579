package load

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func itoa(n int) string { return strconv.Itoa(n) }

// chunks frames a body in chunks of size bytes, without the last.
func chunks(body string, size int) string {
	out := ""
	for len(body) > 0 {
		n := min(size, len(body))
		out += strconv.FormatInt(int64(n), 16) + "\r\n" + body[:n] + "\r\n"
		body = body[n:]
	}
	return out
}

// dues is a schedule of given times; the phase is the number of the request.
type dues struct {
	at []time.Duration
	k  int
}

func (d *dues) Next() (time.Duration, int, bool) {
	if d.k == len(d.at) {
		return 0, 0, false
	}
	d.k++
	return d.at[d.k-1], d.k - 1, true
}

// The queue, which remembers no request, does what one does that keeps them all.
func TestQueueOfPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 60), func(n int) time.Duration { return time.Duration(n) }), 0, 80).Draw(t, "due")
		slices.Sort(at)
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		until := time.Duration(rapid.IntRange(0, 60).Draw(t, "until"))
		var dropped []int
		q := newQueue(&dues{at: at}, &dues{at: at}, limit, until, func(due time.Duration, phase int) {
			if at[phase] != due {
				t.Fatalf("dropped %d due %d", phase, due)
			}
			dropped = append(dropped, phase)
		})

		var waiting, lost []int // the model
		k := 0
		for now := time.Duration(0); now < 70; now += time.Duration(rapid.IntRange(1, 9).Draw(t, "step")) {
			free := rapid.IntRange(0, 3).Draw(t, "free")
			for ; k < len(at) && at[k] <= now && (until == 0 || at[k] < until); k++ {
				if len(waiting) < limit+free {
					waiting = append(waiting, k)
				} else {
					lost = append(lost, k)
				}
			}
			q.arrive(now, free)
			if q.waiting != len(waiting) || !slices.Equal(dropped, lost) {
				t.Fatalf("at %d: %d wait, not %d; dropped %v, not %v", now, q.waiting, len(waiting), dropped, lost)
			}
			for ; free > 0 && q.waiting > 0; free-- {
				due, phase := q.pop()
				if phase != waiting[0] || due != at[phase] {
					t.Fatalf("took %d due %d, not %d", phase, due, waiting[0])
				}
				waiting = waiting[1:]
			}
		}
		if q.arrived != uint64(k) || q.dropped != uint64(len(lost)) || q.due != never {
			t.Fatalf("%d fell due, %d were dropped", q.arrived, q.dropped)
		}
	})
}

// Where a target is far behind, requests that are dropped one here, one there
// are remembered only for as long as they lie ahead.
func TestQueueDropsPassedGaps(t *testing.T) {
	at := make([]time.Duration, 100_000)
	for k := range at {
		at[k] = time.Duration(k)
	}
	q := newQueue(&dues{at: at}, &dues{at: at}, 10, 0, func(time.Duration, int) {})
	for k := range at {
		if q.arrive(time.Duration(k), 0); k%2 == 1 && q.waiting > 0 {
			q.pop()
		}
	}
	if q.dropped < 49_000 || cap(q.gaps) > 64 {
		t.Errorf("%d dropped, room for %d gaps", q.dropped, cap(q.gaps))
	}
}

func TestRequestsAsSent(t *testing.T) {
	tests := []struct {
		name    string
		r       Request
		closing bool
		want    string
	}{
		{name: "least", r: Request{}, want: "GET / HTTP/1.1\r\nHost: h:1\r\n\r\n"},
		{name: "fields", r: Request{Path: "/a?b=c", Header: []Field{{"Accept", "x"}, {"Content-Length", "7"}}}, want: "GET /a?b=c HTTP/1.1\r\nHost: h:1\r\nAccept: x\r\n\r\n"},
		{name: "a host of its own", r: Request{Header: []Field{{"hOST", "other"}}}, want: "GET / HTTP/1.1\r\nhOST: other\r\n\r\n"},
		{name: "body", r: Request{Method: "POST", Body: []byte("hi")}, want: "POST / HTTP/1.1\r\nHost: h:1\r\nContent-Length: 2\r\n\r\nhi"},
		{name: "POST of nothing", r: Request{Method: "POST"}, want: "POST / HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n"},
		{name: "rendered before", r: Request{Path: "/x", Wire: []byte("GET /y HTTP/1.1\r\n\r\n")}, want: "GET /y HTTP/1.1\r\n\r\n"},
		{name: "the last of its connection", r: Request{Wire: []byte("GET /y HTTP/1.1\r\nHost: a\r\n\r\nbody")}, closing: true, want: "GET /y HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\nbody"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := string(appendWire([]byte("before"), &test.r, "h:1", test.closing)); got != "before"+test.want {
				t.Errorf("%q, not %q", got, test.want)
			}
		})
	}
}
