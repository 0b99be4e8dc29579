package notify

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/guard/check/event"
)

func fixed() time.Time { return t0 }

// crash copies dir as a kill would leave it: everything written is there, and of
// the file written last up to cut bytes of a write that was broken off follow.
func crash(t interface{ Fatal(...any) }, dir, to string, torn []byte) {
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	ids, err := segmentIDs(to)
	if err != nil || len(ids) == 0 {
		t.Fatal("no segments", err)
	}
	f, err := os.OpenFile(filepath.Join(to, fmt.Sprintf("%016x.spool", ids[len(ids)-1])), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(torn); err != nil {
		t.Fatal(err)
	}
}

// quick is a directory where to sync costs nothing, if there is one.
func quick(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "notify")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Whatever happens, at whatever moment it crashes: what was accepted and not
// finished is there, once, in order, and nothing that was finished comes back.
func TestSpoolKeepsWhatItAccepted(t *testing.T) {
	root := quick(t)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(root, fmt.Sprint(runs))
		s, err := openSpool(dir, 1, fixed)
		if err != nil {
			t.Fatal(err)
		}
		s.segBytes = int64(rapid.SampledFrom([]int{300, 3000, 30000}).Draw(t, "segment"))
		var want []int // numbers of the events that wait
		open := map[string]bool{}
		next, crashes := 1, 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				var batch []message
				for range rapid.IntRange(1, 5).Draw(t, "events") {
					id := fmt.Sprintf("i%d", rapid.IntRange(0, 3).Draw(t, "incident"))
					e := someEvent(id, next, event.Changed, event.OK, event.Critical, t0)
					e.Key.Check = id
					if rapid.Bool().Draw(t, "resolved") {
						e.Kind, e.To = event.Resolved, event.OK
					}
					if e.Kind == event.Resolved {
						delete(open, id)
					} else {
						open[id] = true
					}
					batch = append(batch, message{at: t0, event: &e})
					want = append(want, next)
					next++
				}
				if err := s.append(batch, false); err != nil {
					t.Fatal(err)
				}
			case 2:
				if len(want) == 0 {
					continue
				}
				n := rapid.IntRange(1, len(want)).Draw(t, "settled")
				if err := s.markDone(s.waiting[n-1].seq); err != nil {
					t.Fatal(err)
				}
				want = want[n:]
			case 3:
				if err := s.rotate(); err != nil {
					t.Fatal(err)
				}
			case 4:
				crashes++
				to := fmt.Sprintf("%s-%d", dir, crashes)
				half := appendFrame(nil, []byte("\x01something that was being written"))
				crash(t, s.dir, to, half[:rapid.IntRange(0, len(half)-1).Draw(t, "torn")])
				segBytes := s.segBytes
				if err := s.close(); err != nil {
					t.Fatal(err)
				}
				if s, err = openSpool(to, 1, fixed); err != nil {
					t.Fatal(err)
				}
				s.segBytes = segBytes
			}
			messages, bad, err := s.read(len(want) + 1)
			if err != nil || bad != 0 || s.damaged != 0 {
				t.Fatal(err, bad, s.damaged)
			}
			var got []int
			for _, m := range messages {
				got = append(got, m.event.Seq)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			for id, k := range s.known {
				if k.Done.IsZero() != open[id] {
					t.Fatalf("%s: done %v, open %v", id, k.Done, open[id])
				}
			}
			for id := range open {
				if _, ok := s.known[id]; !ok {
					t.Fatalf("%s is open and not known", id)
				}
			}
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A crash while a segment is begun, at whatever byte, forgets nothing either.
func TestSpoolCrashInRotation(t *testing.T) {
	root := quick(t)
	s, err := openSpool(filepath.Join(root, "first"), 1<<20, fixed)
	if err != nil {
		t.Fatal(err)
	}
	e := someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)
	if err := s.append([]message{{at: t0, event: &e}}, false); err != nil {
		t.Fatal(err)
	}
	if err := s.rotate(); err != nil {
		t.Fatal(err)
	}
	last := s.segments[len(s.segments)-1].path
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	for k := 0; k < len(whole); k += 7 {
		dir := filepath.Join(root, fmt.Sprint(k))
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(last))); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, filepath.Base(last)), int64(k)); err != nil {
			t.Fatal(err)
		}
		// Opened, emptied, and opened once more.
		for range 2 {
			s, err := openSpool(dir, 1<<20, fixed)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.known) != 1 {
				t.Fatalf("cut at %d of %d: %d incidents are known", k, len(whole), len(s.known))
			}
			if err := s.markDone(s.next - 1); err != nil {
				t.Fatal(err)
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An incident that nobody will resolve any more gives way to the next of its check.
func TestSpoolDropsSuperseded(t *testing.T) {
	s, err := openSpool(t.TempDir(), 1<<20, fixed)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, id := range []string{"lost", "next"} {
		e := someEvent(id, 1, event.Opened, event.OK, event.Critical, t0)
		s.recordIncident(&e)
	}
	if _, ok := s.known["next"]; !ok || len(s.known) != 1 {
		t.Errorf("%v", s.known)
	}
}

// A byte that changed on disk costs the message that it is in, and no other.
func TestSpoolDamage(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, 1<<20, fixed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		e := someEvent("i", i, event.Changed, event.OK, event.Critical, t0)
		if err := s.append([]message{{at: t0, event: &e}}, true); err != nil {
			t.Fatal(err)
		}
	}
	at := s.waiting[4].offset + 50
	path := s.segments[0].path
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = openSpool(dir, 1<<20, fixed); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	messages, _, err := s.read(20)
	if err != nil || len(messages) != 9 || s.damaged != 1 {
		t.Errorf("%d messages, %d damaged, %v", len(messages), s.damaged, err)
	}
}

// Finished messages do not take space for ever.
func TestSpoolFreesSpace(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, 1, fixed) // segments of 64 KiB
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for i := range 2000 {
		e := someEvent(fmt.Sprint("i", i%10), i, event.Changed, event.OK, event.Critical, t0)
		if err := s.append([]message{{at: t0, event: &e}}, false); err != nil {
			t.Fatal(err)
		}
		if err := s.markDone(s.waiting[0].seq); err != nil {
			t.Fatal(err)
		}
	}
	bytes, _ := diskUsage(dir)
	if bytes > 200<<10 {
		t.Errorf("%d bytes for nothing that waits", bytes)
	}
}

// Space on disk is bounded: the oldest messages are dropped and counted.
func TestQueueBounds(t *testing.T) {
	now := t0
	q, err := openQueue(t.TempDir(), true, 100<<10, time.Hour, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	push := func(n int) {
		t.Helper()
		e := someEvent("i", n, event.Changed, event.OK, event.Critical, t0)
		e.Text = strings.Repeat("x", 5000)
		if err := q.push([]message{{at: now, event: &e}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		push(i)
	}
	waiting := q.length()
	if q.spool.bytes > 100<<10 || waiting < 15 || q.dropped["full"] != uint64(60-waiting) {
		t.Errorf("%d bytes, %d wait, %v", q.spool.bytes, waiting, q.dropped)
	}
	first, err := q.front(1)
	if err != nil || len(first) != 1 || first[0].event.Seq != 60-waiting {
		t.Errorf("the front is %+v, %v", first, err)
	}
	now = now.Add(time.Hour + time.Second)
	push(60)
	q.expire(now)
	if q.length() != 1 || q.dropped["age"]+q.dropped["full"] != 60 {
		t.Errorf("%d wait, %v", q.length(), q.dropped)
	}
}

// Results keep their order through memory, disk and back, with those on the way.
func TestResultsSpill(t *testing.T) {
	q, err := openQueue(t.TempDir(), false, 64<<20, time.Hour, fixed)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	push := func(n int) {
		t.Helper()
		var batch []message
		for range n {
			r := someResult("orders", next, t0)
			batch = append(batch, message{at: t0, result: &r})
			next++
		}
		if err := q.push(batch); err != nil {
			t.Fatal(err)
		}
	}
	want := 0
	take := func(n int) {
		t.Helper()
		list, err := q.front(n)
		if err != nil || len(list) != n {
			t.Fatalf("%d of %d: %v", len(list), n, err)
		}
		for _, m := range list {
			if got := int(m.result.Reading.Value); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
			want++
		}
		if err := q.finish(list[n-1].seq); err != nil {
			t.Fatal(err)
		}
	}
	push(10)
	take(3)
	list, err := q.front(4) // on the way while it spills
	if err != nil {
		t.Fatal(err)
	}
	if err := q.spill(); err != nil {
		t.Fatal(err)
	}
	push(5)
	if len(q.memory) != 0 || len(q.spool.waiting) != 12 {
		t.Fatalf("%d in memory, %d on disk", len(q.memory), len(q.spool.waiting))
	}
	if err := q.finish(list[3].seq); err != nil {
		t.Fatal(err)
	}
	want += 4
	take(8)
	push(4)
	if len(q.memory) != 4 {
		t.Fatalf("%d in memory", len(q.memory))
	}
	take(1)
	dir := q.spool.dir
	if err := q.close(); q.length() != 3 || err != nil {
		t.Fatal(q.length(), err)
	}
	if q, err = openQueue(dir, false, 64<<20, time.Hour, fixed); err != nil {
		t.Fatal(err)
	}
	defer q.close()
	push(2)
	take(5)
	if q.length() != 0 {
		t.Errorf("%d wait", q.length())
	}
}

func TestWireRoundTrip(t *testing.T) {
	e := someEvent("i/1", 3, event.Acknowledged, event.Warning, event.Unknown, t0)
	e.Value, e.User, e.Comment = nan, "me", "on it"
	b, err := appendMessage(nil, message{seq: 7, at: t0, event: &e})
	if err != nil {
		t.Fatal(err)
	}
	r, err := decode(b)
	if err != nil || r.message.seq != 7 || !r.message.at.Equal(t0) {
		t.Fatal(r, err)
	}
	if got := fmt.Sprintf("%+v", *r.message.event); got != fmt.Sprintf("%+v", e) {
		t.Errorf("got  %s\nwant %+v", got, e)
	}
	res := someResult("orders", 5, t0)
	res.Reading.Took = 1500 * time.Millisecond
	res.Reading.Perf = []event.Perf{{Label: "load 1", Value: 2, Unit: "c", Warning: nan, Critical: 4, Low: 0, High: nan}}
	res.Soft, res.Level, res.Quiet = true, event.Critical, "maintenance night"
	if b, err = appendMessage(nil, message{seq: 8, at: t0, result: &res}); err != nil {
		t.Fatal(err)
	}
	if r, err = decode(b); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", *r.message.result); got != fmt.Sprintf("%+v", res) {
		t.Errorf("got  %s\nwant %+v", got, res)
	}
}

// The bytes of version 1 stay readable.
func TestFrameGolden(t *testing.T) {
	b := appendFrame(nil, appendFinished(nil, 300))
	want := []byte{3, 0, 0, 0, 0x61, 0xa8, 0xa7, 0x3c, frameFinished, 0xac, 0x02}
	if !bytes.Equal(b, want) {
		t.Errorf("got % x, want % x", b, want)
	}
}

func FuzzDecode(f *testing.F) {
	e := someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)
	b, _ := appendMessage(nil, message{seq: 1, at: t0, event: &e})
	f.Add(appendFrame(nil, b))
	r := someResult("orders", 1, t0)
	b, _ = appendMessage(nil, message{seq: 2, at: t0, result: &r})
	f.Add(appendFrame(nil, b))
	f.Add(appendFrame(nil, appendFinished(nil, 9)))
	b, _ = appendSnapshot(nil, snapshot{Next: 4, Finished: 2, Known: map[string]incident{"i": {Event: e}}})
	f.Add(appendFrame(nil, b))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			payload, size, err := nextFrame(b)
			if err == errTorn {
				return
			}
			if size <= frameBytes || size > len(b) {
				t.Fatalf("a frame of %d bytes in %d", size, len(b))
			}
			if err == nil {
				again(t, payload)
			}
			// What the checksum would keep away must do no harm either.
			again(t, b[frameBytes:size])
			b = b[size:]
		}
	})
}

// again checks that what can be decoded is the same once encoded and decoded.
func again(t *testing.T, payload []byte) {
	r, err := decode(payload)
	if err != nil || r.kind != frameEvent && r.kind != frameResult {
		return
	}
	b, err := appendMessage(nil, r.message)
	if err != nil {
		return // a time beyond the year 9999
	}
	r2, err := decode(b)
	if err != nil || r2.message.seq != r.message.seq {
		t.Fatalf("%v: %q", err, b)
	}
	c, err := appendMessage(nil, r2.message)
	if err != nil || !bytes.Equal(b, c) {
		t.Fatalf("%v:\n%q\n%q", err, b, c)
	}
}
