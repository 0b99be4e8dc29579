package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/gzip"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/packed"
	"tailscope/internal/store/storetest"
)

// receiver answers requests as it is told, and keeps what it was sent.
type receiver struct {
	answer  func(*http.Request, []byte) (code int, header http.Header, body string)
	batches []*store.Batch
	agents  []packed.Agent
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var a packed.Agent
	_ = json.Unmarshal([]byte(req.Header.Get(packed.AgentHeader)), &a)
	r.agents = append(r.agents, a)
	code, header, body := http.StatusOK, http.Header{}, `{"stored":1}`
	if r.answer != nil {
		code, header, body = r.answer(req, b)
	}
	if code == http.StatusOK && len(b) > 0 && req.Header.Get("Content-Type") == packed.ContentType {
		d, err := packed.NewDecoder()
		if err != nil {
			return nil, err
		}
		defer d.Close()
		if x, err := d.Batch(b, 1<<24); err == nil {
			r.batches = append(r.batches, x)
		}
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// failing is a local store whose Put fails while fail is set, after it was made if made is.
type failing struct {
	*storetest.Twin
	fail, made bool
}

func (f *failing) Put(ctx context.Context, b *store.Batch) error {
	if f.fail {
		err := errors.New("the disk is out of order")
		if f.made {
			return errors.Join(err, f.Twin.Put(ctx, b))
		}
		return err
	}
	return f.Twin.Put(ctx, b)
}

// unreadable is a file system that does not open files of generations while err is set.
type unreadable struct {
	vfs.FS
	err error
}

func (u *unreadable) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := u.FS.Open(name, o...)
	if err == nil && u.err != nil && strings.HasSuffix(name, batchSuffix) {
		return nil, errors.Join(u.err, f.Close())
	}
	return f, err
}

type bench struct {
	t     *testing.T
	fs    *unreadable
	local *failing
	to    *receiver
	now   time.Time
	o     Options
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, fs: &unreadable{FS: vfs.NewMem()}, local: &failing{Twin: storetest.NewTwin()}, to: &receiver{}, now: time.Unix(1_900_000_000, 0)}
}

func (b *bench) open() *Store {
	b.t.Helper()
	o := b.o
	o.Dir, o.FS, o.Writer, o.To = "/data/spool", b.fs, "0123456789abcdef", "http://server:4318/"
	o.HTTP = &http.Client{Transport: b.to}
	o.Now, o.Random = func() time.Time { return b.now }, func() float64 { return 0 }
	s, err := Open(b.t.Context(), b.local, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func batch(generation uint64) *store.Batch {
	return &store.Batch{Writer: "0123456789abcdef", Generation: generation, Resolution: series.Base,
		Series: []series.Series{storetest.Span(series.Full, "service", "shop")},
		Points: []store.Point{{Slot: 1_900_000_000, Data: storetest.Dist(0.1, 0.2)}},
		State:  []store.State{{Key: []byte("k"), Value: []byte{byte(generation)}}},
	}
}

func (b *bench) files() string {
	b.t.Helper()
	names, err := b.fs.List("/data/spool")
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// The local store decides whether a generation was put: a file without it goes at a start,
// and a Put that failed and is repeated is sent once.
func TestPutIsDecidedLocally(t *testing.T) {
	for _, made := range []bool{false, true} {
		b := newBench(t)
		s := b.open()
		b.local.fail, b.local.made = true, made
		if err := s.Put(t.Context(), batch(1)); err == nil {
			t.Fatal("no error")
		}
		if s.Send(t.Context()); len(b.to.batches) != 0 {
			t.Fatalf("made %v: a generation that was not put is sent", made)
		}
		b.local.fail = false
		again := b.open() // as after a crash here
		if has := strings.Contains(b.files(), batchSuffix); has != made {
			t.Errorf("made %v: after a start there are %s", made, b.files())
		}
		if !made {
			if err := again.Put(t.Context(), batch(1)); err != nil {
				t.Fatal(err)
			}
		}
		again.Send(t.Context())
		if first := b.to.agents[len(b.to.agents)-1].First; (first == 1) != made {
			t.Errorf("made %v: it says that it had put %d when it started", made, first)
		}
		if len(b.to.batches) != 1 || b.to.batches[0].Writer != "agent-0123456789abcdef" || len(b.to.batches[0].Points) != 1 || len(b.to.batches[0].State) != 0 {
			t.Errorf("made %v: sent %+v", made, b.to.batches)
		}
		if strings.Contains(b.files(), batchSuffix) || again.Stats().Files != 0 {
			t.Errorf("made %v: left %s", made, b.files())
		}
	}
}

// What the server asks for is obeyed; what it refuses for good is set aside, and so is what
// the disk has damaged, so that the others go on.
func TestAnswers(t *testing.T) {
	b := newBench(t)
	s := b.open()
	for g := range uint64(4) {
		if err := s.Put(t.Context(), batch(g+1)); err != nil {
			t.Fatal(err)
		}
	}
	b.to.answer = func(*http.Request, []byte) (int, http.Header, string) {
		return http.StatusServiceUnavailable, http.Header{"Retry-After": {"40"}}, `{"error":"busy"}`
	}
	if wait := s.Send(t.Context()); wait != 40*time.Second || !strings.Contains(s.Stats().LastError, "busy") {
		t.Errorf("waits %v, %q", wait, s.Stats().LastError)
	}
	attempts := s.Stats().Attempts
	b.now = b.now.Add(39 * time.Second)
	if s.Send(t.Context()); s.Stats().Attempts != attempts {
		t.Error("tried before its time")
	}
	// Generation 1 is refused, a byte of 2 is damaged.
	b.to.answer = func(r *http.Request, frame []byte) (int, http.Header, string) {
		if s.Stats().Refused == 0 {
			return http.StatusBadRequest, nil, `{"error":"corrupt frame"}`
		}
		return http.StatusOK, nil, `{"stored":9}`
	}
	path := b.fs.PathJoin("/data/spool", "00000000000000000002.batch")
	f, err := b.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.WriteAt([]byte{0xff}, 30)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Second)
	s.Send(t.Context())
	if st := s.Stats(); st.Refused != 1 || st.Damaged != 1 || st.Generations != 2 || st.Files != 0 || st.LastError != "" {
		t.Errorf("%+v", st)
	}
	aside, err := b.fs.List("/data/spool/refused")
	if err != nil || len(aside) != 2 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
}

// A generation that is larger than the whole spool waits until the spool is empty, and is
// then taken.
func TestLargerThanSpool(t *testing.T) {
	b := newBench(t)
	b.o.MaxBytes = 10
	s := b.open()
	for g := range uint64(2) {
		if err := s.Put(t.Context(), batch(g+1)); errors.Is(err, store.ErrFull) != (g == 1) {
			t.Fatalf("generation %d: %v", g+1, err)
		}
	}
	s.Send(t.Context())
	if err := s.Put(t.Context(), batch(2)); err != nil || s.Stats().Full != 1 {
		t.Errorf("the spool is empty: %v, %+v", err, s.Stats())
	}
}

// What is set aside takes a quarter of the spool: the oldest goes for newer ones.
func TestAsideIsBounded(t *testing.T) {
	one := newBench(t).open()
	if err := one.Put(t.Context(), batch(1)); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.o.MaxBytes = 8*one.Stats().SpoolBytes + 40 // a quarter is two files and a little
	b.to.answer = func(*http.Request, []byte) (int, http.Header, string) {
		return http.StatusBadRequest, nil, `{"error":"corrupt frame"}`
	}
	s := b.open()
	for g := range uint64(4) {
		if err := s.Put(t.Context(), batch(g+1)); err != nil {
			t.Fatal(err)
		}
		b.now = b.now.Add(time.Minute)
		s.Send(t.Context())
	}
	aside, err := b.fs.List("/data/spool/refused")
	slices.Sort(aside)
	if st := s.Stats(); err != nil || st.Refused != 4 || st.Deleted != 2 || len(aside) != 2 || aside[0] != "00000000000000000003.batch" {
		t.Errorf("set aside: %v, %v, %+v", aside, err, st)
	}
}

// A file that is missing is counted and does not stop those behind it; one that cannot be
// read is tried again some times. Neither has the server be taken for dead.
func TestUnreadable(t *testing.T) {
	b := newBench(t)
	s := b.open()
	for g := range uint64(3) {
		if err := s.Put(t.Context(), batch(g+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.fs.Remove("/data/spool/00000000000000000001.batch"); err != nil {
		t.Fatal(err)
	}
	b.fs.err = errors.New("input/output error")
	for i := range mostReads - 1 {
		wait := s.Send(t.Context())
		if st := s.Stats(); wait <= 0 || st.Damaged != 1 || st.Files != 2 || st.Down || st.Failures != 0 {
			t.Fatalf("attempt %d: waits %v, %+v", i+1, wait, st)
		}
		b.now = b.now.Add(wait)
	}
	b.fs.err = nil
	b.now = b.now.Add(time.Minute)
	s.Send(t.Context())
	if st := s.Stats(); st.Damaged != 1 || st.Generations != 2 || st.Files != 0 {
		t.Errorf("it can be read again: %+v", st)
	}
	if err := s.Put(t.Context(), batch(4)); err != nil {
		t.Fatal(err)
	}
	b.fs.err = errors.New("input/output error")
	for range mostReads {
		b.now = b.now.Add(s.Send(t.Context()))
	}
	if st := s.Stats(); st.Damaged != 2 || st.Files != 0 {
		t.Errorf("it stays unreadable: %+v", st)
	}
}

// An agent without anything to send says that it is alive. The runs before are named until
// the server has acknowledged this one.
func TestIncarnations(t *testing.T) {
	b := newBench(t)
	b.to.answer = func(*http.Request, []byte) (int, http.Header, string) { return http.StatusBadGateway, nil, "" }
	b.open().Send(t.Context())
	b.open().Send(t.Context())
	b.to.answer = nil
	s := b.open()
	s.Send(t.Context())
	b.now = b.now.Add(11 * time.Second)
	s.Send(t.Context())
	a := b.to.agents
	if len(a) != 4 || len(a[0].Earlier) != 0 || len(a[2].Earlier) != 2 || a[2].Earlier[0] != a[0].Incarnation || a[2].Earlier[1] != a[1].Incarnation || len(a[3].Earlier) != 0 || a[3].Incarnation != a[2].Incarnation {
		t.Errorf("told %+v", a)
	}
	if next := b.open(); len(next.self.Earlier) != 1 || next.self.Earlier[0] != s.self.Incarnation {
		t.Errorf("the next start knows %v", next.self.Earlier)
	}
}

// Other receivers get delta exponential histograms, in zstd or, if they refuse that, gzip.
func TestOTLP(t *testing.T) {
	b := newBench(t)
	b.o.OTLP = true
	var got collector.ExportMetricsServiceRequest
	b.to.answer = func(r *http.Request, body []byte) (int, http.Header, string) {
		if r.URL.Path != "/v1/metrics" || r.Header.Get("Content-Encoding") == "zstd" {
			return http.StatusUnsupportedMediaType, nil, ""
		}
		z, err := gzip.NewReader(strings.NewReader(string(body)))
		if err == nil {
			if body, err = io.ReadAll(z); err == nil {
				err = proto.Unmarshal(body, &got)
			}
		}
		if err != nil {
			t.Error(err)
		}
		return http.StatusAccepted, nil, ""
	}
	s := b.open()
	x := batch(1)
	x.Series = append(x.Series, storetest.Span(series.Total, "service", "shop"))
	x.Points = append(x.Points, store.Point{Series: 1, Slot: 1_900_000_000, Data: storetest.Dist(0.1, 0.2)})
	if err := s.Put(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	s.Send(t.Context())
	m := got.GetResourceMetrics()
	if len(m) != 1 || len(m[0].ScopeMetrics[0].Metrics) != 1 {
		t.Fatalf("sent %v, %+v", m, s.Stats())
	}
	p := m[0].ScopeMetrics[0].Metrics[0].GetExponentialHistogram().GetDataPoints()
	if len(p) != 1 || p[0].Count != 2 || p[0].Scale != 5 || p[0].StartTimeUnixNano != 1_900_000_000e9 || s.Stats().Files != 0 {
		t.Errorf("sent %v", p)
	}
}
