package demo

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/api"
	"tailscope/internal/config"
	"tailscope/internal/judge"
)

func words(of ...string) []*commonpb.KeyValue {
	var kv []*commonpb.KeyValue
	for i := 0; i < len(of); i += 2 {
		kv = append(kv, &commonpb.KeyValue{Key: of[i], Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: of[i+1]}}})
	}
	return kv
}

// recordedSpans makes a recording of lines "trace id parent service name from-to", times in
// milliseconds; a dash is no parent.
func recordedSpans(t *testing.T, lines string) *recording {
	t.Helper()
	r := &recording{}
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		from, to, _ := strings.Cut(f[len(f)-1], "-")
		ms := func(s string) uint64 {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n * 1e6
		}
		s := &tracepb.Span{TraceId: []byte(f[0]), SpanId: []byte(f[1]), Name: strings.Join(f[4:len(f)-1], " "),
			StartTimeUnixNano: ms(from), EndTimeUnixNano: ms(to), Attributes: words("tenant.id", "globex", "db.namespace", "shop")}
		if f[2] != "-" {
			s.ParentSpanId = []byte(f[2])
		}
		r.spans = append(r.spans, &tracepb.ResourceSpans{Resource: &resourcepb.Resource{Attributes: words("service.name", f[3])},
			ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{s}}}})
	}
	return r
}

const twoRequests = `late a - shoppers GET /cart 70-90
early b - shoppers GET /orders 10-40
early d c shop SELECT orders 15-30
early c b shop GET /orders 12-35
late e a shop GET /cart 75-85
cold f - shoppers GET /orders 1-3
torn g - shoppers GET /orders 50-60
torn i h shop SELECT orders 52-54
probe k - shop GET /products 20-22
`

func TestRecordingGivesWholeRequestsOfShoppers(t *testing.T) {
	var got strings.Builder
	for _, q := range recordedSpans(t, twoRequests).requests(time.Unix(0, 5e6)) {
		fmt.Fprintf(&got, "%s of %s\n", q.operation, q.tenant)
		for _, s := range q.spans {
			fmt.Fprintf(&got, "  %s %s, below %d, %s to %s\n", s.service, s.same.Name, s.parent, s.start, s.end)
		}
	}
	const want = `GET /orders of globex
  shoppers GET /orders, below -1, 0s to 30ms
  shop SELECT orders, below 2, 5ms to 20ms
  shop GET /orders, below 0, 2ms to 25ms
GET /cart of globex
  shoppers GET /cart, below -1, 0s to 20ms
  shop GET /cart, below 0, 5ms to 15ms
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// A tenant has its own recorded requests, and if they are too few those of its neighbours
// under its own name, the fastest first.
func TestPoolBorrowsFromNeighbours(t *testing.T) {
	ts := makeTenants(1000)[:4]
	var recorded []request
	add := func(tenant int, n int, took time.Duration) {
		for range n {
			recorded = append(recorded, request{operation: "GET /cart", tenant: ts[tenant].name, spans: []requestSpan{
				{parent: -1, end: took, same: &tracepb.Span{Name: "GET /cart", Attributes: words("tenant.id", ts[tenant].name, "url.path", "/cart")}}}})
		}
	}
	add(0, enough+2, 10)
	add(1, 3, 11)
	add(3, 2, 13)
	p, err := newPool(recorded, ts)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"10×10", "10×5 11×3", "10×3 11×3 13×2", "10×3 11×3 13×2"} {
		var got []string
		n := 0
		all := p["GET /cart"][i]
		for j, q := range all {
			n++
			if j+1 == len(all) || all[j+1].spans[0].end != q.spans[0].end {
				got = append(got, fmt.Sprintf("%d×%d", q.spans[0].end, n))
				n = 0
			}
			var s tracepb.Span
			if err := proto.Unmarshal(q.spans[0].encoded, &s); err != nil {
				t.Fatal(err)
			}
			if text(s.Attributes, "tenant.id") != ts[i].name || text(s.Attributes, "url.path") != "/cart" {
				t.Errorf("a request of %s says %v", ts[i].name, s.Attributes)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has %s, want %s", ts[i].name, strings.Join(got, " "), want)
		}
	}
	if len(p["GET /orders"]) != 0 {
		t.Errorf("an operation that was not recorded has requests: %v", p)
	}
}

func TestPast(t *testing.T) {
	now := time.Date(2026, 11, 25, 10, 7, 3, 0, time.Local)
	const month = 30 * 24 * time.Hour
	p := newPast(now, month, 60)
	begin := p.next
	sent, all := 0, 0.0
	lastMinute, around := 0.0, 0
	served := map[string]float64{}
	before := begin
	f := func(at time.Time, r *release, _ *errand, weight float64) error {
		if weight < 1 || at.Before(begin) || at.Before(before.Add(-time.Minute)) {
			t.Fatalf("a request at %s after one at %s has weight %v", at, before, weight)
		}
		before = at
		sent++
		all += weight
		served[r.version] += weight
		if now.Sub(at) <= time.Minute {
			lastMinute += weight
		}
		if at.Sub(p.releases[2].at).Abs() < time.Hour {
			around++
		}
		return nil
	}
	if err := p.each(now, f); err != nil {
		t.Fatal(err)
	}
	if math.Abs(lastMinute-60*60) > 60 {
		t.Errorf("%.0f requests in the last minute, want the 3600 of the load", lastMinute)
	}
	if rate := all / month.Seconds(); rate < 30 || rate > 90 {
		t.Errorf("%.0f requests a second on average beside 60 now", rate)
	}
	if sent > 80_000 || around < 3500 {
		t.Errorf("%d requests are sent, %d of them around a release", sent, around)
	}
	for version, share := range map[string]float64{"2.1.0": 0.4, "2.2.0": 0.3, "2.3.0": 0.3, "2.4.0": 0.75 / 720} {
		if got := served[version] / all; math.Abs(got/share-1) > 0.4 {
			t.Errorf("release %s served %.4f of all, want about %.4f", version, got, share)
		}
	}
	// What came while it was sent follows without a gap, and without repeating anything.
	n := 0
	if err := p.each(now.Add(10*time.Second), func(at time.Time, r *release, _ *errand, weight float64) error {
		n++
		if at.Before(now) || math.Abs(weight-6) > 1e-9 || r.version != shopVersion {
			t.Errorf("then %s, weight %v, by %s", at, weight, r.version)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n < 99 || n > 101 {
		t.Errorf("%d requests in ten more seconds, want 100", n)
	}
}

// Minutes of a day ago, with which the load is compared, know that the bank keeps one payment in
// fifty waiting: an ordinary minute of the load is not slower than nearly all of them. Here, as on
// the first page, a minute is slower if a quantile so low that its p99 is surely above it is.
func TestPastKnowsTheSlowPayments(t *testing.T) {
	const (
		minutes = 5000
		// Of orders, the share whose cart is not empty, and how many there are of these in a minute.
		paid, payments = 0.57, 144
		surelyBelow    = 0.956 // the lower end of Wilson's 95 % interval of 0.99 of so many
	)
	now := time.Date(2026, 11, 25, 10, 7, 3, 0, time.Local)
	rng := rand.New(rand.NewPCG(1, 2))
	took := map[int64][]float64{} // of a minute
	p := newPast(now, 30*24*time.Hour, 60)
	p.next = now.Add(-24*time.Hour - 15*time.Minute)
	all := 0.0
	if err := p.each(now.Add(-24*time.Hour+15*time.Minute), func(at time.Time, _ *release, e *errand, weight float64) error {
		if all += weight; e.operation() == placeOrder && rng.Float64() < paid {
			took[at.Unix()/60] = append(took[at.Unix()/60], bankDelay(rng).Seconds())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if math.Abs(all/(60*1800)-1) > 0.02 {
		t.Errorf("half an hour has %.0f requests, want 60 a second", all)
	}
	quantile := func(values []float64, q float64) float64 {
		slices.Sort(values)
		return values[int(q*float64(len(values)-1)+0.5)]
	}
	var usual []float64
	for _, m := range took {
		usual = append(usual, quantile(m, 0.99))
	}
	high, worse := quantile(usual, 0.95), 0
	for range minutes {
		m := make([]float64, payments)
		for i := range m {
			m[i] = bankDelay(rng).Seconds()
		}
		if quantile(m, surelyBelow) > high {
			worse++
		}
	}
	if share := float64(worse) / minutes; share > 0.005 {
		t.Errorf("%.1f %% of the load's minutes have slower payments than the usual %.0f ms", 100*share, 1e3*high)
	}
}

// Of any so many points in a row each part of the square has its share, to a few points.
func TestEvenly(t *testing.T) {
	for _, from := range []int{0, 12_345} {
		for _, many := range []int{100, 1000} {
			for _, part := range [][2]float64{{0.99, 1}, {0.3, 0.5}, {1, 0.05}} {
				n := 0
				for i := range many {
					if x, y := evenly(from + i); x < part[0] && y < part[1] {
						n++
					}
				}
				if want := part[0] * part[1] * float64(many); math.Abs(float64(n)-want) > 4 {
					t.Errorf("%d of %d points from %d on are below %v, want %.0f", n, many, from, part, want)
				}
			}
		}
	}
}

func TestCopies(t *testing.T) {
	requests := recordedSpans(t, twoRequests).requests(time.Unix(0, 5e6))
	q, err := requests[0].of("initech")
	if err != nil {
		t.Fatal(err)
	}
	for _, weight := range []float64{1, 1.5, 8, 1800.25} {
		kept := &recording{}
		about := map[string]*resourcepb.Resource{}
		for _, service := range []string{"shop", "shoppers"} {
			about[service] = &resourcepb.Resource{Attributes: words("service.name", service, "service.version", "x")}
		}
		c := &copier{client: kept, rng: rand.New(rand.NewPCG(1, 2)), about: about}
		at := time.Unix(1_800_000_000, 0)
		ctx := t.Context()
		if err := c.send(ctx, func(ctx context.Context) error {
			for range 2000 {
				c.copy(ctx, &q, at, "2.2.0", weight)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		traces := map[string]int{}
		stands := 0.0
		for _, rs := range kept.spans {
			// As the server reads it.
			encoded, err := proto.Marshal(rs)
			if err != nil {
				t.Fatal(err)
			}
			var read tracepb.ResourceSpans
			if err := proto.Unmarshal(encoded, &read); err != nil {
				t.Fatal(err)
			}
			service, version := text(read.Resource.Attributes, "service.name"), text(read.Resource.Attributes, "service.version")
			if (service == "shop") != (version == "2.2.0") {
				t.Fatalf("%s has version %s", service, version)
			}
			for _, s := range read.ScopeSpans[0].Spans {
				traces[string(s.TraceId)]++
				var threshold, chance uint64
				if th, ok := strings.CutPrefix(s.TraceState, "ot=th:"); ok {
					if threshold, err = strconv.ParseUint((th + "00000000000000")[:14], 16, 64); err != nil {
						t.Fatal(err)
					}
				}
				for _, b := range s.TraceId[9:] {
					chance = chance<<8 | uint64(b)
				}
				if stands = (1 << 56) / float64(1<<56-threshold); math.Abs(stands/weight-1) > 1e-9 || chance < threshold {
					t.Fatalf("%x with %q stands for %v, want %v and a random part above the threshold", s.TraceId, s.TraceState, stands, weight)
				}
				if text(s.Attributes, "tenant.id") != "initech" || s.EndTimeUnixNano <= s.StartTimeUnixNano || s.StartTimeUnixNano < uint64(at.UnixNano()) {
					t.Fatalf("a copy is %v", s)
				}
				if (len(s.ParentSpanId) == 0) != (service == "shoppers") {
					t.Fatalf("a span of %s lies below %x", service, s.ParentSpanId)
				}
			}
		}
		if len(traces) != 2000 {
			t.Errorf("%d traces, want 2000", len(traces))
		}
		for id, n := range traces {
			if n != 3 {
				t.Errorf("trace %x has %d spans, want 3", id, n)
			}
		}
	}
}

// A demo with a past of thirty hours: the release that lost the index is found in it, and in
// the twenty hours without an act before that its checks raise less than one alarm an hour.
func TestHistory(t *testing.T) {
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute) // of a busy machine
	defer stop()
	run := func() string {
		var out bytes.Buffer
		err := Run(ctx, Options{
			Server: cfg, Out: &out, Log: slog.New(slog.DiscardHandler),
			Rate: 40, Orders: 20_000, Duration: time.Second, History: 30 * time.Hour, recordFor: time.Second,
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		return out.String()
	}
	if out := run(); !strings.Contains(out, "made of what was recorded") {
		t.Errorf("the output does not tell of the history:\n%s", out)
	}
	if out := run(); !strings.Contains(out, "has data already: the shop gets no history") {
		t.Errorf("the history is sent twice:\n%s", out)
	}

	now := time.Now()
	file, err := writeChecks(t.TempDir(), "127.0.0.1:1", "globex")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Checks = []string{file}
	c := reopen(t, cfg)
	if opened, n := alarms(t, c, now.Add(-22*time.Hour), now.Add(-90*time.Minute)); n >= 20 {
		t.Errorf("%d alarms in twenty hours without an act, want less than 20: %v", n, opened)
	}
	s, err := c.Services(ctx, api.ServicesRequest{Selection: api.Selection{Start: "now-2h", End: "now-1h"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range s.Services {
		if want := 40.0; x.Name == "shoppers" && math.Abs(float64(x.Rate)/want-1) > 0.4 {
			t.Errorf("shoppers made %.1f requests a second an hour ago, want about %v", x.Rate, want)
		}
	}
	marks, err := c.Marks(ctx, api.MarksRequest{Start: "now-31h", End: "now"})
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]api.Verdict{}
	for _, m := range marks.Marks {
		r, err := c.Compare(ctx, api.CompareRequest{Selection: api.Selection{Match: `{service="shop",operation="GET /orders",kind="server"}`}, Mark: m.ID})
		if err != nil {
			verdicts[m.Name] = api.Verdict(err.Error())
			continue
		}
		t.Logf("%s: %s", m.Name, r.Sentence)
		verdicts[m.Name] = r.Verdict
	}
	if len(verdicts) != 4 || verdicts["release 2.2"] != judge.Improvement || verdicts["release 2.4"] != judge.Regression ||
		verdicts["release 2.3"] != judge.NoEvidence && verdicts["release 2.3"] != judge.Same {
		t.Errorf("GET /orders is judged %v", verdicts)
	}
}
