package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// world is a directory of logs, a server that follows one of them, and what it
// remembers when it is started anew.
type world struct {
	t     testing.TB
	dir   string
	path  string
	l     *ledger
	st    *memory
	now   time.Time
	f     *Follower
	watch Watch
	n     int // lines written
	said  strings.Builder
}

func newWorld(t testing.TB, dir string) *world {
	w := &world{t: t, dir: dir, path: filepath.Join(dir, "access.log"), l: newLedger(), st: newMemory(), now: noon}
	w.watch = Watch{Path: w.path, Source: compile(t, Config{Format: plain})}
	return w
}

// start starts the server, or starts it again.
func (w *world) start() {
	if w.f != nil {
		w.f.closeFiles()
	}
	w.f = newFollower(FollowOptions{Ingester: testIngester(w.l, w.st), Watches: []Watch{w.watch}, Now: func() time.Time { return w.now }, Logger: slog.New(slog.NewTextHandler(&w.said, nil))})
	if err := w.f.openNewFiles(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) round() {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	if err := w.f.pollFiles(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rounds(n int) {
	w.t.Helper()
	for range n {
		w.round()
	}
}

// line makes the next line, distinguished from all others by its duration.
func (w *world) line() string {
	w.n++
	return fmt.Sprintf("1772366370.250 %d.%03d 200 GET /x/%d\n", w.n/1000, w.n%1000, w.n)
}

func (w *world) append(path string, lines int) {
	w.t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	for range lines {
		if _, err := f.WriteString(w.line()); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) write(path, text string) {
	w.t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rename(from, to string) {
	w.t.Helper()
	if err := os.Rename(from, to); err != nil {
		w.t.Fatal(err)
	}
}

// copyTruncate is logrotate's copytruncate.
func (w *world) copyTruncate(to string) {
	w.t.Helper()
	b, err := os.ReadFile(w.path)
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err == nil {
		err = os.Truncate(w.path, 0)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// places is how many files are remembered to be read.
func (w *world) places() (n int) {
	for key := range w.st.records {
		if strings.HasPrefix(key, "follow/") {
			n++
		}
	}
	return n
}

// counted fails the test unless each of the lines after the first skip was
// counted, once.
func (w *world) counted(skip int) {
	w.t.Helper()
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	seen := map[string]int{}
	for _, s := range w.l.seen {
		_, s, _ = strings.Cut(s, ": ")
		d, _, _ := strings.Cut(s, " at ")
		seen[d]++
	}
	for i := skip + 1; i <= w.n; i++ {
		d := (time.Duration(i) * time.Millisecond).String()
		if seen[d] != 1 {
			w.t.Fatalf("line %d was counted %d times; %d lines of %d in all", i, seen[d], len(w.l.seen), w.n-skip)
		}
	}
	if len(w.l.seen) != w.n-skip {
		w.t.Fatalf("%d lines were counted, want %d", len(w.l.seen), w.n-skip)
	}
}

func TestFollowBeginsAtTheEnd(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.append(w.path, 10)
	w.start()
	w.round()
	w.append(w.path, 5)
	w.round()
	w.counted(10)
}

func TestFollowFromTheBeginning(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.watch.Whole = true
	w.append(w.path, 10)
	w.start()
	w.round()
	w.counted(0)
}

// A file that comes later is read from its beginning.
func TestMissingFileIsWaitedFor(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	w.rounds(2)
	w.append(w.path, 3)
	w.round()
	w.counted(0)
	if s := w.f.Stats(); s.Failures != 0 || s.Files != 1 || s.LagBytes != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestRestartGoesOn(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	w.append(w.path, 3)
	w.round()
	w.append(w.path, 4)
	w.start()
	w.rounds(3)
	w.counted(0)
}

func TestLineIsReadWhenItHasEnded(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	whole := w.line()
	w.write(w.path, whole[:12])
	w.round()
	if len(w.l.seen) != 0 {
		t.Fatalf("got %v of half a line", w.l.seen)
	}
	w.write(w.path, whole[12:])
	w.round()
	w.counted(0)
}

func TestRotationByRename(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	w.append(w.path, 3)
	w.round()
	w.append(w.path, 2)
	w.rename(w.path, w.path+".1")
	w.append(w.path+".1", 2) // nginx has not reopened it yet
	w.round()
	w.append(w.path+".1", 2)
	w.append(w.path, 3)
	w.round()
	w.append(w.path+".1", 1) // a worker that is slow to close it
	w.write(w.path+".1", strings.TrimSuffix(w.line(), "\n"))
	w.append(w.path, 1)
	w.round()
	w.rounds(61)
	w.counted(0)
	if n := len(w.f.tails); n != 1 {
		t.Errorf("%d files are read, want 1", n)
	}
	if w.places() != 1 {
		t.Errorf("remembered: %v", w.st.records)
	}
	if s := w.f.Stats(); s.Rotations != 1 {
		t.Errorf("stats %+v", s)
	}
}

// The old file is read to its end even when the server was down meanwhile.
func TestRotationWhileDown(t *testing.T) {
	for _, how := range []string{"rename", "copytruncate"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.start()
			w.append(w.path, 300)
			w.round()
			w.append(w.path, 20)
			if how == "rename" {
				w.rename(w.path, w.path+".1")
			} else {
				w.copyTruncate(w.path + ".1")
			}
			w.append(w.path, 400)
			w.start()
			w.round()
			w.append(w.path, 1)
			w.rounds(70)
			w.counted(0)
			if len(w.f.tails) != 1 || w.places() != 1 {
				t.Errorf("%d files are read, remembered: %v", len(w.f.tails), w.st.records)
			}
		})
	}
}

func TestCopyTruncate(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	w.append(w.path, 30)
	w.round()
	w.append(w.path, 2) // not read when it is copied
	w.copyTruncate(w.path + ".1")
	w.append(w.path, 3)
	w.round()
	w.copyTruncate(w.path + ".1") // nothing was missed this time
	w.append(w.path, 50)          // and it is longer at once
	w.round()
	w.rounds(70)
	w.counted(0)
	if s := w.f.Stats(); s.Truncations != 2 {
		t.Errorf("stats %+v", s)
	}
}

// What was packed before it was read is lost, and said so.
func TestPackedFileIsLost(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	w.append(w.path, 30)
	w.round()
	w.rename(w.path, w.path+".1.gz")
	w.append(w.path, 5)
	w.start()
	w.rounds(2)
	w.counted(0)
	if s := w.f.Stats(); s.Lost != 1 || !strings.Contains(w.said.String(), "import it") {
		t.Errorf("stats %+v, said %s", s, w.said.String())
	}
	w.start()
	w.round()
	if s := w.f.Stats(); s.Lost != 0 {
		t.Errorf("said again: %+v", s)
	}
}

func TestPatternFindsFilesButNotOldOnes(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.watch.Path = filepath.Join(w.dir, "*.log*")
	w.start()
	w.round()
	for _, name := range []string{"a.log", "b.log"} {
		w.append(filepath.Join(w.dir, name), 3)
	}
	for _, name := range []string{"a.log.1", "a.log.2.gz", "b.log-20260301"} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte("1772366370.250 9.000 200 GET /old\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.round()
	w.counted(0)
	w.rename(filepath.Join(w.dir, "a.log"), filepath.Join(w.dir, "a.log.1"))
	w.append(filepath.Join(w.dir, "a.log"), 2)
	w.rounds(70)
	w.counted(0)
}

// A log that cannot be read as it is configured waits, and is not lost.
func TestWrongFormatWaits(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.watch.Source = compile(t, Config{})
	w.start()
	w.append(w.path, 3)
	w.rounds(3)
	if s := w.f.Stats(); s.Failures != 1 || s.LagBytes == 0 || len(w.l.seen) != 0 {
		t.Errorf("stats %+v, %d lines", s, len(w.l.seen))
	}
	w.watch.Source = compile(t, Config{Format: plain})
	w.start()
	w.round()
	w.counted(0)
}

// Whatever fails, lines are neither lost nor counted twice.
func TestFailuresAreTriedAgain(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	w.append(w.path, 3)
	w.l.fail = errors.New("journal failed")
	w.rounds(2)
	w.l.fail = nil
	w.round()
	w.append(w.path, 3)
	w.l.fail = io.ErrClosedPipe
	w.round()
	w.l.fail = nil
	w.round()
	w.counted(0)
	if s := w.f.Stats(); s.Failures != 3 {
		t.Errorf("stats %+v", s)
	}
	if n := strings.Count(w.said.String(), "level=ERROR"); n != 2 {
		t.Errorf("logged %d times of two failures, want each once:\n%s", n, w.said.String())
	}
}

// Random writing, rotating, and restarting: each line is counted once.
func TestFollowProperty(t *testing.T) {
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		dir := filepath.Join(base, fmt.Sprint(run))
		if err := os.Mkdir(dir, 0o755); err != nil {
			r.Fatal(err)
		}
		w := newWorld(t, dir)
		w.start()
		w.append(w.path, 1) // so that it is known when the server is started again
		w.round()
		// A line was read of every file before it is rotated: files that come
		// and go between two rounds are not there to be read.
		rotated := 0
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			switch rapid.SampledFrom([]string{"write", "write", "round", "restart", "rename", "copytruncate", "half", "wait"}).Draw(r, "step") {
			case "write":
				w.append(w.path, rapid.IntRange(1, 120).Draw(r, "lines"))
			case "round":
				w.round()
			case "restart":
				w.start()
			case "half":
				l := w.line()
				w.write(w.path, l[:10])
				w.round()
				w.write(w.path, l[10:])
			case "wait":
				w.rounds(65)
			case "rename", "copytruncate":
				w.append(w.path, 1)
				w.round()
				w.append(w.path, rapid.IntRange(0, 3).Draw(r, "more lines"))
				rotated++
				for i := rotated; i > 1; i-- {
					w.rename(fmt.Sprintf("%s.%d", w.path, i-1), fmt.Sprintf("%s.%d", w.path, i))
				}
				if rapid.Bool().Draw(r, "rename") {
					w.rename(w.path, w.path+".1")
					w.append(w.path+".1", rapid.IntRange(0, 2).Draw(r, "late lines"))
				} else {
					w.copyTruncate(w.path + ".1")
				}
			}
		}
		w.append(w.path, 1)
		w.start()
		w.rounds(70)
		w.counted(0)
		w.f.closeFiles()
	})
}

// A writer that does not stop for rotations, and a follower that runs.
func TestRotationUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	w := newWorld(t, t.TempDir())
	f, err := Follow(t.Context(), FollowOptions{Ingester: testIngester(w.l, w.st), Watches: []Watch{w.watch}, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // the file that is open; nginx reopens it on a signal
	var file *os.File
	reopen := func() {
		next, err := os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if file != nil {
			file.Close()
		}
		file = next
	}
	reopen()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50_000 {
			mu.Lock()
			_, err := file.WriteString(w.line())
			mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := int64(0); ; {
		select {
		case <-done:
		case <-time.After(5 * time.Millisecond):
			// A file that comes and goes between two looks is never seen, the
			// first one as little as others.
			if f.Stats().Rotations == i && w.l.requests() > 0 {
				i++
				w.rename(w.path, fmt.Sprintf("%s.%d", w.path, i))
				reopen()
			}
			continue
		}
		break
	}
	for deadline := time.Now().Add(time.Minute); w.l.requests() < w.n && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	f.Close()
	w.counted(0)
	t.Logf("%d lines over %d rotations", w.n, f.Stats().Rotations)
}

// The goroutine looks once an interval and ends when it is told to.
func TestFollowLooksOnceAnInterval(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		f, err := Follow(t.Context(), FollowOptions{Ingester: testIngester(w.l, w.st), Watches: []Watch{w.watch}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.append(w.path, 2)
		time.Sleep(time.Second - 1)
		synctest.Wait()
		if n := w.l.requests(); n != 0 {
			t.Errorf("%d lines before the interval has passed", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		w.counted(0)
		f.Close()
	})
}

// What was followed is passed over by an import, what was not is imported:
// also once the file was rotated away, and while it still grows.
func TestImportPassesOverWhatWasFollowed(t *testing.T) {
	for _, how := range []string{"growing", "rename", "copytruncate", "packed while down"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.append(w.path, 300) // before anybody followed it
			w.start()
			w.append(w.path, 200)
			w.round()
			old := w.path + ".1"
			switch how {
			case "growing":
				old = w.path
			case "rename":
				w.rename(w.path, old)
				w.append(w.path, 2)
				w.rounds(70)
			case "copytruncate":
				w.copyTruncate(old)
				w.append(w.path, 2)
				w.rounds(70)
			case "packed while down":
				w.append(w.path, 20) // which nobody has read
				old += ".gz"         // as far as a follower can see
				w.rename(w.path, old)
				w.append(w.path, 2)
				w.start()
				w.round()
			}
			b, err := os.ReadFile(old)
			if err != nil {
				t.Fatal(err)
			}
			in := testIngester(w.l, w.st)
			out, err := in.Import(t.Context(), strings.NewReader(string(b)), Import{Source: w.watch.Source})
			if err != nil {
				t.Fatal(err)
			}
			w.counted(0)
			if out.Followed == 0 {
				t.Errorf("got %+v", out)
			}
			if _, err := in.Import(t.Context(), strings.NewReader(string(b)), Import{Source: w.watch.Source}); !errors.Is(err, ErrAlready) {
				t.Errorf("again: got %v, want ErrAlready", err)
			}
		})
	}
}
