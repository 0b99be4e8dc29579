package record

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"tailscope/internal/experiment/mirror/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// buffer is a file in memory.
type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

func newWriter(t testing.TB, out io.WriteCloser, o Options) *Writer {
	t.Helper()
	o.Now = func() time.Time { return start }
	w, err := NewWriter(out, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// offer copies e into an entry of the writer's.
func offer(w *Writer, e Entry) bool {
	to := w.Begin()
	if to == nil {
		return false
	}
	fields, body, arena := to.Fields, to.Body, to.arena
	for _, f := range e.Fields {
		fields = append(fields, Field{f.Name, f.Value})
	}
	*to = e
	to.Fields, to.Body, to.arena = fields, append(body, e.Body...), arena
	to.Target = to.Text([]byte(e.Target))
	return w.Offer(to)
}

func all(t testing.TB, data []byte) (Header, []Entry, *Reader, error) {
	t.Helper()
	r, err := Open(bytes.NewReader(data))
	if err != nil {
		return Header{}, nil, nil, err
	}
	var out []Entry
	for {
		var e Entry
		if err := r.Next(&e); err != nil {
			return r.Header(), out, r, err
		}
		out = append(out, e)
	}
}

// What goes in comes out, in blocks of any size.
func TestRoundTrip(t *testing.T) {
	text := rapid.StringMatching(`[a-z0-9/]{0,12}`)
	entry := rapid.Custom(func(t *rapid.T) Entry {
		e := Entry{
			Offset: time.Duration(rapid.Int64Range(-1e9, 1e13).Draw(t, "offset")),
			Method: rapid.SampledFrom([]string{"GET", "POST", ""}).Draw(t, "method"),
			Target: "/" + text.Draw(t, "target"), Host: text.Draw(t, "host"),
			Operation: text.Draw(t, "operation"), Tenant: text.Draw(t, "tenant"),
			Body:        rapid.SliceOfN(rapid.ByteRange('a', 'f'), 0, 2000).Draw(t, "body"),
			Status:      rapid.IntRange(0, 999).Draw(t, "status"),
			FirstByte:   time.Duration(rapid.Int64Range(-1, 1e12).Draw(t, "first")),
			Total:       time.Duration(rapid.Int64Range(-1, 1e12).Draw(t, "total")),
			AnswerBytes: rapid.Int64Range(0, 1e12).Draw(t, "answer"),
		}
		for range rapid.IntRange(0, 5).Draw(t, "fields") {
			e.Fields = append(e.Fields, Field{"x-" + text.Draw(t, "name"), text.Draw(t, "value")})
		}
		e.BodyBytes = int64(len(e.Body))
		if len(e.Body) == 0 {
			e.Body = nil
			e.BodyBytes = rapid.Int64Range(-1, 1e9).Draw(t, "length")
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(entry, 0, 40).Draw(t, "entries")
		var b buffer
		w, err := NewWriter(&b, Options{Header: Header{ID: "x", Start: start, Bodies: true}, BlockBytes: rapid.IntRange(1, 5000).Draw(t, "block")})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			to := w.Begin()
			fields, body := append(to.Fields, e.Fields...), append(to.Body, e.Body...)
			*to = e
			to.Fields, to.Body = fields, body
			if !w.Offer(to) {
				t.Fatal("no room")
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := Open(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			var got Entry
			if err := r.Next(&got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, entries[i]) {
				t.Fatalf("entry %d is\n%+v\nwant\n%+v", i, got, entries[i])
			}
		}
		if err := r.Next(&Entry{}); err != io.EOF {
			t.Fatal(err)
		}
		if end, ok := r.End(); !ok || end.Requests != uint64(len(entries)) {
			t.Fatalf("%+v %v", end, ok)
		}
	})
}

func sample(n int) Entry {
	return Entry{
		Offset: time.Duration(n) * time.Millisecond, Method: "GET", Target: fmt.Sprintf("/items/%d", n), Host: "shop",
		Operation: "GET /items/{id}", Fields: []Field{{"Accept", "*/*"}},
		Status: 200, FirstByte: time.Millisecond, Total: 2 * time.Millisecond, AnswerBytes: 1024,
	}
}

// A file of version 1 must be read for as long as a program says it knows the
// version. How well it is compressed may change, what is compressed may not.
func TestGolden(t *testing.T) {
	first := sample(1)
	first.Method, first.Body, first.BodyBytes, first.Tenant = "POST", []byte("hello"), 5, "acme"
	entries := []Entry{first, sample(2)}

	file := filepath.Join("testdata", "v1.rec")
	if os.Getenv("UPDATE") != "" {
		var b buffer
		w := newWriter(t, &b, Options{Header: Header{ID: "7", Start: start, Bodies: true}})
		for _, e := range entries {
			offer(w, e)
		}
		if err := errors.Join(w.Close(), os.WriteFile(file, b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h, got, r, err := all(t, data)
	if err != io.EOF || h.ID != "7" || !h.Start.Equal(start) || !reflect.DeepEqual(got, entries) {
		t.Errorf("%+v %+v, %v", h, got, err)
	}
	if end, ok := r.End(); !ok || end.Requests != 2 || !end.End.Equal(start) {
		t.Errorf("%+v", end)
	}

	b := newBlock()
	for i := range entries {
		b.add(&entries[i])
	}
	if got := hex.EncodeToString(b.encode(nil)); got != goldenBlock {
		t.Errorf("the block is %s, want %s", got, goldenBlock)
	}
}

const goldenBlock = "" +
	"0a06416363657074032a2f2a04504f5354082f6974656d732f310473686f700f474554202f6974656d732f7b69647d046163" +
	"6d6503474554082f6974656d732f3200010100010280897a0203040506000605c801c1843d81897a800868656c6c6f80897a" +
	"0708040509000100c801c1843d81897a8008"

// Of a file cut anywhere all whole blocks are read, and the error says that it is
// torn, and where.
func TestTorn(t *testing.T) {
	var b buffer
	w := newWriter(t, &b, Options{BlockBytes: 200})
	const entries = 50
	for i := range entries {
		offer(w, sample(i))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	before := 0
	for cut := len(Magic); cut < b.Len(); cut++ {
		_, got, _, err := all(t, b.Bytes()[:cut])
		if !errors.Is(err, ErrTorn) || !strings.Contains(err.Error(), " at byte ") {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if len(got) < before {
			t.Fatalf("cut at %d: %d entries, one byte before %d", cut, len(got), before)
		}
		before = len(got)
	}
	if before != entries {
		t.Fatalf("%d entries before the end", before)
	}
	if _, _, _, err := all(t, b.Bytes()[:3]); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// A byte that is not what was written never goes unnoticed.
func TestDamage(t *testing.T) {
	var b buffer
	w := newWriter(t, &b, Options{BlockBytes: 200})
	for i := range 10 {
		offer(w, sample(i))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range b.Len() {
		data := bytes.Clone(b.Bytes())
		data[i] ^= 0x20
		_, _, _, err := all(t, data)
		if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTorn) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	data := bytes.Clone(b.Bytes())
	data[len(Magic)-1] = 9
	if _, err := Open(bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), "version 9") {
		t.Error(err)
	}
}

func TestSecretsAreNotWritten(t *testing.T) {
	const secret = "hunter2hunter2"
	rules, err := redact.New(redact.Rules{"query:q"})
	if err != nil {
		t.Fatal(err)
	}
	var b buffer
	w := newWriter(t, &b, Options{Header: Header{Bodies: true}, Redactor: rules})
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprintf(z, `{"password":%q,"a":1}`, secret)
	z.Close()
	body := fmt.Sprintf(`{"password":%q}`, secret)
	for _, e := range []Entry{
		{Target: "/?q=" + secret, Fields: []Field{{"Authorization", "Bearer " + secret}, {"Content-Type", "application/json"}, {"content-length", "1"}}, Body: []byte(body), BodyBytes: int64(len(body))},
		{Fields: []Field{{"Content-Encoding", "gzip"}}, Body: zipped.Bytes(), BodyBytes: int64(zipped.Len())},
		{Fields: []Field{{"Content-Encoding", "br"}}, Body: []byte(body), BodyBytes: int64(len(body))},
		{Body: []byte(body[:10]), BodyBytes: int64(len(body))},
	} {
		offer(w, e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, got, _, err := all(t, b.Bytes())
	if err != io.EOF || len(got) != 4 {
		t.Fatal(len(got), err)
	}
	if s := fmt.Sprintf("%+v %q", got, got[0].Body); strings.Contains(s, secret) {
		t.Error(s)
	}
	if want := fmt.Sprintf(`{"password":%q}`, rules.Mark(secret)); string(got[0].Body) != want || got[0].Fields[2].Value != fmt.Sprint(len(want)) || !got[0].Whole() {
		t.Errorf("%+v, body %q", got[0], got[0].Body)
	}
	if want := fmt.Sprintf(`{"password":%q,"a":1}`, rules.Mark(secret)); string(got[1].Body) != want || len(got[1].Fields) != 0 {
		t.Errorf("%+v, body %q", got[1], got[1].Body)
	}
	for _, e := range got[2:] {
		if e.Body != nil || e.Whole() {
			t.Errorf("%+v", e)
		}
	}
}

// A short body that is very long once decoded is not kept if it would have to be
// written so; the file can be read.
func TestLongOnceDecoded(t *testing.T) {
	var b buffer
	w := newWriter(t, &b, Options{Header: Header{Bodies: true}, BodyLimit: 8 << 20})
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprintf(z, `{"password":"x","a":"%s"}`, strings.Repeat("a", 30<<20))
	z.Close()
	offer(w, Entry{Method: "POST", Fields: []Field{{"Content-Encoding", "gzip"}}, Body: zipped.Bytes(), BodyBytes: int64(zipped.Len())})
	offer(w, Entry{Method: "GET"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, got, _, err := all(t, b.Bytes())
	if err != io.EOF || len(got) != 2 {
		t.Fatal(len(got), err)
	}
	if e := got[0]; e.Whole() || len(e.Body) > 0 {
		t.Errorf("%d bytes are kept of %d", len(e.Body), e.BodyBytes)
	}
}

// stuck is a disk that does not write until it is let.
type stuck struct {
	buffer
	let     chan struct{}
	writing chan struct{}
	once    sync.Once
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.Len() > 300 { // magic and head
		s.once.Do(func() { close(s.writing) })
		<-s.let
	}
	return s.buffer.Write(p)
}

// A disk that hangs keeps nobody waiting; what has no room is counted.
func TestSlowDisk(t *testing.T) {
	out := &stuck{let: make(chan struct{}), writing: make(chan struct{})}
	w := newWriter(t, out, Options{Header: Header{Name: strings.Repeat("n", 300)}, Queue: 20 << 10, BlockBytes: 1})
	if !offer(w, sample(0)) {
		t.Fatal("the first has no room")
	}
	<-out.writing
	taken := uint64(1)
	const entries = 1000
	for i := 1; i < entries; i++ {
		if offer(w, sample(i)) {
			taken++
		}
	}
	if s := w.State(); taken+s.Dropped != entries || s.Dropped == 0 || s.Requests != 0 {
		t.Errorf("%d taken, %+v", taken, s)
	}
	close(out.let)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if s := w.State(); s.Requests != taken || s.Requests+s.Dropped != entries || s.Bytes != int64(out.Len()) {
		t.Errorf("%d taken, %+v, %d bytes", taken, s, out.Len())
	}
}

type full struct {
	buffer
	left int
}

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return f.buffer.Write(p)
}

// A full disk ends the record, and the sum still closes.
func TestFullDisk(t *testing.T) {
	w := newWriter(t, &full{left: 600}, Options{BlockBytes: 200})
	const entries = 500
	for i := range entries {
		offer(w, sample(i))
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if s := w.State(); s.Requests == 0 || s.Requests+s.Dropped != entries || !strings.Contains(s.Error, "no space left") {
		t.Errorf("%+v", s)
	}
	if w.Begin() != nil || w.State().Dropped == 0 {
		t.Error("a closed writer gives out entries")
	}
}

// Offers from many goroutines while the writer closes are all accounted for.
func TestCloseWhileOffering(t *testing.T) {
	var b buffer
	w := newWriter(t, &b, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				offer(w, sample(i))
			}
		})
	}
	time.Sleep(time.Millisecond)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if s := w.State(); s.Requests+s.Dropped != 4000 {
		t.Errorf("%+v", s)
	}
	if _, got, _, err := all(t, b.Bytes()); err != io.EOF || uint64(len(got)) != w.State().Requests {
		t.Error(len(got), err)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.rec")
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, Options{}); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() != w.State().Bytes {
		t.Error(fi.Mode(), fi.Size(), err)
	}
}

func TestDescribe(t *testing.T) {
	var b buffer
	w := newWriter(t, &b, Options{Header: Header{ID: "7", Name: "shop, new cache", Service: "shop", Primary: "http://a:8081"}})
	for i := range 101 {
		e := sample(i * 100)
		if i%10 == 0 {
			e.Method, e.Operation, e.Status, e.BodyBytes, e.Tenant = "POST", "POST /cart", 503, 10, "acme"
		}
		offer(w, e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Describe(&b, &out); err != nil {
		t.Fatal(err)
	}
	const want = `session   shop, new cache
service   shop
primary   http://a:8081
start     2026-01-02T03:04:05Z
length    10s
requests  101, 10.1 a second
bodies    11 of 110 bytes, 0 of them kept
answers   103424 bytes
tenants   1

method     requests
        90 GET
        11 POST

status     requests
        90 200
        11 503

operation  requests
        90 GET /items/{id}
        11 POST /cart
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := Describe(strings.NewReader("GIF89a"), io.Discard); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

func FuzzReader(f *testing.F) {
	var b buffer
	w := newWriter(f, &b, Options{Header: Header{Bodies: true}, BlockBytes: 300})
	for i := range 10 {
		e := sample(i)
		e.Body, e.BodyBytes = []byte("body"), 4
		offer(w, e)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Open(bytes.NewReader(data))
		if err != nil {
			return
		}
		var e Entry
		for range 1 << 20 {
			if err = r.Next(&e); err != nil {
				if again := r.Next(&e); again != err {
					t.Fatalf("%v, and then %v", err, again)
				}
				return
			}
		}
	})
}

// The checksum keeps a fuzzer out of what is in a block.
func FuzzBlock(f *testing.F) {
	b := newBlock()
	for i := range 3 {
		e := sample(i)
		e.Body, e.BodyBytes = []byte("body"), 4
		b.add(&e)
	}
	f.Add(b.encode(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d decoder
		if d.open(data) != nil {
			return
		}
		again := newBlock()
		var entries []Entry
		for d.left > 0 {
			var e Entry
			if d.next(&e) != nil {
				return
			}
			entries = append(entries, e)
			again.add(&e)
		}
		// What was read is written and read alike.
		var d2 decoder
		if err := d2.open(again.encode(nil)); err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			var e Entry
			if err := d2.next(&e); err != nil || !reflect.DeepEqual(e, entries[i]) {
				t.Fatalf("%+v became %+v, %v", entries[i], e, err)
			}
		}
	})
}
