package differ

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	withControl = []pair.Shadow{{Name: "control", Role: pair.Control}, {Name: "new", Role: pair.Candidate}}
	without     = []pair.Shadow{{Name: "new", Role: pair.Candidate}}
)

func newDiffer(t testing.TB, o Options) *Differ {
	t.Helper()
	if o.Queue == 0 {
		o.Queue, o.QueueBytes = 100_000, 1<<30
	}
	o.Work = 1
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func jsonAnswer(body string) *pair.Answer {
	return &pair.Answer{Status: 200, Header: []pair.Field{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(body)}
}

// find compares two answers without a differ's goroutine.
func find(o Options, a, b *pair.Answer) *result {
	if err := o.ensureDefaults(); err != nil {
		panic(err)
	}
	d := &Differ{o: o, control: -1}
	d.table.init(&d.o, false)
	d.what = parts{
		status: slices.Contains(o.Compare, Status), headers: slices.Contains(o.Compare, Headers),
		body: true, json: slices.Contains(o.Compare, JSON), bare: true, ignore: o.Ignore,
	}
	return d.what.compare(d.answer(a), d.answer(b))
}

func lines(r *result, redactor *redact.Redactor) string {
	var b strings.Builder
	for _, f := range r.places {
		fmt.Fprintf(&b, "%s: %s -> %s\n", f.place, f.reference(redactor), f.shadow(redactor))
	}
	if r.skipped != "" {
		fmt.Fprintf(&b, "skipped: %s\n", r.skipped)
	}
	return b.String()
}

func TestJSONPlaces(t *testing.T) {
	redactor, err := redact.New(redact.Rules{"json:.user.email"})
	if err != nil {
		t.Fatal(err)
	}
	f := func(a, b, want string, ignore ...string) {
		t.Helper()
		r := find(Options{Compare: []string{JSON}, Ignore: ignore}, jsonAnswer(a), jsonAnswer(b))
		if got := lines(r, redactor); got != want {
			t.Errorf("%s\n%s\ngives\n%swant\n%s", a, b, got, want)
		}
	}
	f(`{"a":1,"b":[1,2]}`, `{ "b":[1,2], "a":1.0 }`, "")
	f(`{"a":1}`, `{"a":2}`, "body .a: 1 -> 2\n")
	f(`{"items":[{"price":1,"n":1},{"price":2,"n":2}]}`, `{"items":[{"price":1,"n":3},{"price":3,"n":2}]}`,
		"body .items[].n: 1 -> 3\nbody .items[].price: 2 -> 3\n")
	f(`{"items":[1,2,3]}`, `{"items":[1,2]}`, "body .items[] length: 3 -> 2\n")
	f(`[{"a":1}]`, `[{"a":2}]`, "body [].a: 1 -> 2\n")
	f(`{"a":{"b":1,"c":[1]}}`, `{"a":{"b":"1"},"d":null}`, "body .a.b type: 1 -> \"1\"\nbody .a.c missing: [1] -> \nbody .d extra:  -> null\n")
	f(`{"a":null,"b":true}`, `{"a":0,"b":false}`, "body .a type: null -> 0\nbody .b: true -> false\n")
	f(`{"a":{}}`, `{"a":[]}`, "body .a type: {} -> []\n")
	f(`1`, `2`, "body: 1 -> 2\n")
	f(`"x"`, `null`, "body type: \"x\" -> null\n")
	f(`{"users":{"1234":{"n":1},"5678":{"n":1}}}`, `{"users":{"1234":{"n":2},"9999":{"n":1}}}`,
		"body .users{}.n: 1 -> 2\nbody .users{} missing: {\"n\":1} -> \nbody .users{} extra:  -> {\"n\":1}\n")
	f(`{"3f2b8c1e-0d4a-4f6b-9a57-1c2d3e4f5a6b":1}`, `{"3f2b8c1e-0d4a-4f6b-9a57-1c2d3e4f5a6b":2}`, "body {}: 1 -> 2\n")
	f(`{"a b":1,"":1,"é":1}`, `{"a b":2,"":2,"é":1}`, "body .\"\": 1 -> 2\nbody .\"a b\": 1 -> 2\n")
	f(`{"n":9007199254740993}`, `{"n":9007199254740992}`, "body .n: 9007199254740993 -> 9007199254740992\n")
	f(`{"n":1e400}`, `{"n":1e400}`, "")
	f(`{"meta":{"time":1,"x":{"y":1}},"metal":1}`, `{"meta":{"time":2,"x":{"y":2}},"metal":2}`, "body .metal: 1 -> 2\n", "body .meta")
	f(`{"a":1}`, `no json`, "body: {\"a\":1} -> "+string(redactor.JSON([]byte("no json")))+"\n")
	f(`{"a":1} {"a":2}`, `{"a":1} {"a":3}`, "body: {\"a\":1} {\"a\":2} -> {\"a\":1} {\"a\":3}\n")
	m := redactor.Mark
	f(`{"user":{"email":"a@b"},"token":"x"}`, `{"user":{"email":"c@d"},"token":"y"}`,
		fmt.Sprintf("body .token: %q -> %q\nbody .user.email: %q -> %q\n", m("x"), m("y"), m("a@b"), m("c@d")))
	f(`{"user":{"email":"a@b","n":1}}`, `{}`, fmt.Sprintf("body .user missing: {\"email\":%q,\"n\":1} -> \n", m("a@b")))
}

func TestHeadersAndStatus(t *testing.T) {
	redactor, err := redact.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(status int, fields ...string) *pair.Answer {
		a := &pair.Answer{Status: status}
		for i := 0; i < len(fields); i += 2 {
			a.Header = append(a.Header, pair.Field{Name: fields[i], Value: fields[i+1]})
		}
		return a
	}
	f := func(a, b *pair.Answer, want string) {
		t.Helper()
		if got := lines(find(Options{Compare: []string{Status, Headers}}, a, b), redactor); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
	f(answer(200, "A", "1", "B", "2"), answer(200, "b", "2", "a", "1"), "")
	f(answer(200, "A", "1", "A", "2"), answer(200, "a", "2", "a", "1"), "header a: 1, 2 -> 2, 1\n")
	f(answer(200, "A", "1", "C", "1"), answer(200, "B", "1", "C", "2"), "header a missing: 1 -> \nheader b extra:  -> 1\nheader c: 1 -> 2\n")
	f(answer(200, "A", "1"), answer(500, "A", "2"), "status: 200 -> 500\n")
	f(answer(200, "Date", "1", "X-Request-Id", "1"), answer(200, "Date", "2"), "")
	f(answer(200, "Set-Cookie", "1"), answer(200, "Set-Cookie", "2"), fmt.Sprintf("header set-cookie: %s -> %s\n", redactor.Mark("1"), redactor.Mark("2")))
}

// A shadow that is slower answers in another second: its Date differs beyond what
// control and primary differ by, and means nothing.
func TestDate(t *testing.T) {
	d := &Differ{control: 0}
	d.what = parts{headers: true}
	date := func(fields ...pair.Field) *answer { return d.answer(&pair.Answer{Status: 200, Header: fields}) }
	a, b := pair.Field{Name: "Date", Value: "Sun, 01 Mar 2026 12:00:00 GMT"}, pair.Field{Name: "date", Value: "Sun, 01 Mar 2026 12:00:01 GMT"}
	if r := d.what.compare(date(a), date(b)); len(r.places) != 0 {
		t.Errorf("found %q", r.places[0].place)
	}
	if r := d.what.compare(date(a), date()); len(r.places) != 1 || r.places[0].place != "header date missing" {
		t.Errorf("found %d places where one has no Date", len(r.places))
	}
}

func zipped(body string, level int) *pair.Answer {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level)
	z.Write([]byte(body))
	z.Close()
	a := jsonAnswer("")
	a.Header = append(a.Header, pair.Field{Name: "content-encoding", Value: "gzip"})
	a.Body = b.Bytes()
	return a
}

func TestBodies(t *testing.T) {
	redactor, err := redact.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := func(o Options, a, b *pair.Answer, want string) {
		t.Helper()
		if got := lines(find(o, a, b), redactor); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
	byField, exact := Options{Compare: []string{JSON}}, Options{Compare: []string{Body}}
	long := strings.Repeat("x", 3000)
	f(byField, zipped(`{"a":1}`, 1), zipped(`{"a":2}`, 9), "body .a: 1 -> 2\n")
	f(byField, zipped(`{"a":1}`, 1), jsonAnswer(`{"a":1}`), "")
	f(exact, zipped(`{"a":1}`, 1), jsonAnswer(`{"a":1}`), "")
	f(exact, jsonAnswer(`{"a":1}`), jsonAnswer(`{"a": 1}`), "body: {\"a\":1} -> {\"a\": 1}\n")
	f(exact, &pair.Answer{Body: []byte(long + "a")}, &pair.Answer{Body: []byte(long + "b")},
		fmt.Sprintf("body: … from byte 2950: %sa -> … from byte 2950: %[1]sb\n", long[:50]))
	f(exact, &pair.Answer{Body: []byte{0, 1}}, &pair.Answer{Body: []byte{0, 2, 3}},
		fmt.Sprintf("body: 2 bytes, %s -> 3 bytes, %s\n", redactor.Mark("\x00\x01"), redactor.Mark("\x00\x02\x03")))
	f(exact, &pair.Answer{Body: []byte("a"), Cut: true}, &pair.Answer{Body: []byte("b")}, "skipped: too_long\n")
	short := byField
	short.BodyLimit = 10
	f(short, zipped(`{"a":"`+long+`"}`, 1), zipped(`{"a":"`+long+`"}`, 9), "skipped: too_long\n")
	// A few bytes of JSON are many of memory.
	many := "[" + strings.Repeat("{},", maxValues) + "1]"
	f(byField, zipped(many, 1), zipped(many+" ", 1), "skipped: too_long\n")
	f(exact, zipped(many, 1), zipped(many, 9), "")
	broken := zipped(`{"a":1}`, 1)
	broken.Body = broken.Body[:12]
	f(byField, broken, jsonAnswer(`{"a":1}`), "skipped: undecodable\n")
}

func TestValidate(t *testing.T) {
	for _, o := range []Options{{Compare: []string{"cookies"}}, {Compare: []string{Body, JSON}}} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "compare: ") {
			t.Errorf("%v: %v", o.Compare, err)
		}
	}
}

// rows renders what was found.
func rows(d api.MirrorDifferences) string {
	var b strings.Builder
	for _, r := range d.Rows {
		fmt.Fprintf(&b, "%s %s, %s: %d of %d, noise %v of %d, real %v\n", r.Shadow, r.Operation, r.Place, r.Raw, r.Compared, float64(r.Noise), r.NoiseOf, r.Real)
	}
	return b.String()
}

// Answers of a shop: the price is wrong of every tenth item, a time stands in
// every answer, and a recommendation is random.
func shop(i int, r *rand.Rand, wrong bool) *pair.Answer {
	price := float64(i % 50)
	if wrong && i%10 == 0 {
		price += 0.01
	}
	return jsonAnswer(fmt.Sprintf(`{"item":{"id":%d,"price":%.2f},"served_at":%d,"also":[%d],"session":{"token":"%d"}}`, i, price, r.Int64(), r.IntN(3), r.Int64()))
}

func TestNoiseIsSubtracted(t *testing.T) {
	d := newDiffer(t, Options{Shadows: withControl, Compare: []string{Status, Headers, JSON}})
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		x := Exchange{
			ID: fmt.Sprint(i), Time: int64(i) * 1e8, Operation: "GET /items/{id}", Method: "GET", Target: fmt.Sprintf("/items/%d?token=secret%d", i, i),
			Primary: shop(i, r, false), Shadows: []*pair.Answer{shop(i, r, false), shop(i, r, true)},
		}
		if i%4 == 0 {
			x.Operation = "GET /same"
			x.Shadows[1] = shop(i, r, false)
		}
		if i%100 == 1 {
			x.Shadows[1].Status = 500
		}
		d.Offer(x)
	}
	d.Close()
	got := d.Differences()
	if got.Compared != 2000 || len(got.Skipped) != 0 {
		t.Errorf("%d compared, skipped %v", got.Compared, got.Skipped)
	}
	real := []string{}
	for _, row := range got.Rows {
		if row.Real {
			real = append(real, fmt.Sprintf("%s: %s %d of %d, noise %v of %d", row.Operation, row.Place, row.Raw, row.Compared, row.Noise, row.NoiseOf))
		}
	}
	// Of an answer with another status the body is not looked at.
	want := []string{
		"GET /items/{id}: body .item.price 100 of 1480, noise 0 of 1500",
		"GET /items/{id}: status 20 of 1500, noise 0 of 1500",
	}
	if !slices.Equal(real, want) {
		t.Errorf("real are\n%s\nall are\n%s", strings.Join(real, "\n"), rows(got))
	}
	if len(got.Rows) != 8 {
		t.Errorf("%d rows:\n%s", len(got.Rows), rows(got))
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "secret1") || len(got.Examples) != 4 {
		t.Errorf("%d examples: %s", len(got.Examples), text)
	}
	for _, e := range got.Examples {
		for _, v := range e.Places {
			if v.Place != "body .item.price" && v.Place != "status" {
				t.Errorf("an example shows noise: %+v", e)
			}
		}
	}
}

func TestWithoutControl(t *testing.T) {
	d := newDiffer(t, Options{Shadows: without, Compare: []string{JSON}})
	for i := range 10 {
		d.Offer(Exchange{Operation: "a", Primary: jsonAnswer(`{"a":1}`), Shadows: []*pair.Answer{jsonAnswer(fmt.Sprintf(`{"a":%d}`, i%2))}})
	}
	d.Offer(Exchange{Operation: "a", Primary: jsonAnswer("1"), Shadows: []*pair.Answer{nil}})
	d.Offer(Exchange{Operation: "a", Shadows: []*pair.Answer{jsonAnswer("1")}})
	d.Close()
	got := d.Differences()
	if got.Compared != 10 || len(got.Rows) != 1 || !math.IsNaN(float64(got.Rows[0].Noise)) || !math.IsNaN(float64(got.Rows[0].P)) || !got.Rows[0].Real || got.Rows[0].Raw != 5 {
		t.Errorf("%+v", got)
	}
}

// A table of McNemar's exact test: R's binom.test(only, only+never,
// alternative = "greater").
func TestMcNemar(t *testing.T) {
	for _, c := range []struct{ only, never, want float64 }{
		{0, 5, 1}, {0, 0, 1}, {1, 0, 0.5}, {7, 0, 0.0078125}, {8, 2, 0.0546875}, {5, 5, 0.623046875},
		{15, 5, 0.02069473266601562}, {60, 40, 0.02844396682049039},
	} {
		if got := mcNemar(c.only, c.never); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v and %v: %v, want %v", c.only, c.never, got, c.want)
		}
	}
}

// Candidates that behave as the primary are found to differ no more often than
// level says, also if what differs comes in bursts; one that differs twice as
// often as the noise is found.
func TestVerdictsHold(t *testing.T) {
	trial := func(r *rand.Rand, burst, more float64) bool {
		o := Options{Shadows: withControl, Compare: []string{JSON}}
		if err := o.ensureDefaults(); err != nil {
			t.Fatal(err)
		}
		var tab table
		tab.init(&o, true)
		const slots, requests = 60, 30
		p := make([]float64, 2) // of primary and candidate, to differ from the control
		for slot := range slots {
			for i := range p {
				// A slot is as its server happens to be: burst 0 is none.
				p[i] = 0.1
				if burst > 0 {
					p[i] = 0.1 / burst
					if r.Float64() > burst {
						p[i] = 0
					}
				}
			}
			p[1] = min(p[1]*more, 1)
			for range requests {
				results := make([]*result, 2)
				for i := range results {
					results[i] = &result{seen: map[string]bool{}, body: true}
					if r.Float64() < p[i] {
						results[i].seen["body .a"] = true
						results[i].places = []found{{"body .a", func(*redact.Redactor) string { return "" }, func(*redact.Redactor) string { return "" }}}
					}
				}
				tab.add(&Exchange{Time: int64(slot) * slotNanos}, results[0], []*result{nil, results[1]})
			}
		}
		rows := tab.output().Rows
		return len(rows) > 0 && rows[0].Real
	}
	count := func(trials int, burst, more float64) int {
		n := 0
		for i := range trials {
			if trial(rand.New(rand.NewPCG(uint64(i), 7)), burst, more) {
				n++
			}
		}
		return n
	}
	// The bound is five standard deviations above one in a hundred.
	if n := count(200, 0, 1); n > 9 {
		t.Errorf("independent: %d of 200 found without a difference", n)
	}
	if n := count(200, 0.2, 1); n > 9 {
		t.Errorf("in bursts: %d of 200 found without a difference", n)
	}
	if n := count(50, 0, 2); n < 48 {
		t.Errorf("%d of 50 found that differ twice as often", n)
	}
	if n := count(50, 0.5, 2); n < 20 {
		t.Errorf("in bursts: %d of 50 found that differ twice as often", n)
	}
}

// However many places and operations there are, what is kept is bounded.
func TestBounded(t *testing.T) {
	o := Options{Shadows: withControl, Compare: []string{JSON}, Places: 50, Operations: 5}
	d := newDiffer(t, o)
	for i := range 2000 {
		d.Offer(Exchange{
			Operation: fmt.Sprint("op", i), Time: int64(i) * 1e9,
			Primary: jsonAnswer("{}"), Shadows: []*pair.Answer{jsonAnswer(fmt.Sprintf(`{"x%d":1}`, i)), jsonAnswer(fmt.Sprintf(`{"y%d":%q}`, i, strings.Repeat("long", 100)))},
		})
	}
	d.Close()
	if n := len(d.table.groups); n > 5*2*3+6 {
		t.Errorf("%d groups", n)
	}
	if d.table.rows > 100 {
		t.Errorf("%d rows", d.table.rows)
	}
	got := d.Differences()
	if got.Compared != 2000 || len(got.Examples) > maxExamples || len(got.Rows) > maxRows {
		t.Errorf("%d compared, %d rows, %d examples", got.Compared, len(got.Rows), len(got.Examples))
	}
	other := uint64(0)
	for _, r := range got.Rows {
		if r.Place == otherPlaces[bodies] {
			other += r.Raw
		}
	}
	if other == 0 {
		t.Errorf("nothing is counted under other places:\n%s", rows(got))
	}
	for _, e := range got.Examples {
		for _, p := range e.Places {
			if len(p.Shadow) > maxValue+3 {
				t.Errorf("%d bytes in an example", len(p.Shadow))
			}
		}
	}
}

// What the queue has no room for is counted, and Offer does not wait.
func TestBehind(t *testing.T) {
	d := newDiffer(t, Options{Shadows: without, Compare: []string{JSON}, Queue: 10, QueueBytes: 10_000})
	d.mu.Lock() // the worker gets no further than its first
	const offers = 100
	for range offers {
		d.Offer(Exchange{Primary: jsonAnswer(`{"a":1}`), Shadows: []*pair.Answer{jsonAnswer(`{"a":1}`)}})
	}
	d.mu.Unlock()
	d.Close()
	got := d.Differences()
	if got.Compared+got.Skipped["behind"] != offers || got.Compared > 12 {
		t.Errorf("%d compared, %v", got.Compared, got.Skipped)
	}
	d.Offer(Exchange{})
	if n := d.Differences().Skipped["behind"]; n != got.Skipped["behind"]+1 {
		t.Error(n)
	}
	if n := d.waiting.Load(); n != 0 {
		t.Errorf("%d bytes wait", n)
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		work float64
		each time.Duration
		want time.Duration // of rest after a second of work
	}{
		{1, time.Millisecond, 0},
		{0.5, time.Millisecond, time.Second},
		{0.25, time.Millisecond, 3 * time.Second},
		{0.25, 100 * time.Millisecond, 3 * time.Second},
	} {
		p := pace{work: c.work}
		rest := time.Duration(0)
		for range time.Second / c.each {
			r := p.worked(c.each)
			if r != 0 && r < leastRest {
				t.Errorf("a rest of %v", r)
			}
			rest += r
		}
		if rest += p.earned; rest != c.want {
			t.Errorf("%v: %v of rest in pieces of %v, want %v", c.work, rest, c.each, c.want)
		}
	}
}

func FuzzWalk(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}],"c":"d"}`), []byte(`{"a":[1,{"b":2}],"e":1e9}`))
	f.Add([]byte(`[[[[1]]]]`), []byte(`[[[["x"]]]]`))
	f.Add([]byte(`{"1":{"2":3}}`), []byte(`{"1":{"2":4}} `))
	redactor, err := redact.New(nil)
	if err != nil {
		f.Fatal(err)
	}
	o := Options{Compare: []string{JSON}, Redactor: redactor}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if r := find(o, jsonAnswer(string(a)), jsonAnswer(string(a))); len(r.places) != 0 {
			t.Fatalf("%q differs from itself: %s", a, lines(r, redactor))
		}
		there := find(o, jsonAnswer(string(a)), jsonAnswer(string(b)))
		back := find(o, jsonAnswer(string(b)), jsonAnswer(string(a)))
		if len(there.places) > maxFound || len(there.places) == 0 != (len(back.places) == 0) {
			t.Fatalf("%q and %q differ at %d places, the other way at %d", a, b, len(there.places), len(back.places))
		}
		lines(there, redactor)
		for _, f := range there.places {
			if len(f.place) > maxPath*(6*maxName+10)+100 {
				t.Fatalf("a place of %d bytes", len(f.place))
			}
		}
	})
}

// BenchmarkTake compares three answers of 2 KB with two differences.
func BenchmarkTake(b *testing.B) {
	o := Options{Shadows: withControl, Compare: []string{Status, Headers, JSON}}
	d := newDiffer(b, o)
	body := func(x int) *pair.Answer {
		var s []byte
		for i := range 20 {
			s = fmt.Appendf(s, `{"id":%d,"name":"item %d","url":"https://shop/item/%d?ref=home","price":{"amount":%d.5,"currency":"EUR"}},`, i, i, i, x)
		}
		return jsonAnswer("[" + string(s[:len(s)-1]) + "]")
	}
	x := Exchange{Operation: "a", Primary: body(1), Shadows: []*pair.Answer{body(2), body(3)}}
	b.ReportAllocs()
	for b.Loop() {
		x.Time += 1e6
		d.compareExchange(&x)
	}
}
