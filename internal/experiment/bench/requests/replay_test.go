package requests_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/mirror/record"
)

// every returns the requests of all loops of a set, at most so many of each, in the
// order of the run.
func every(t testing.TB, set *requests.Set, loops, most int) (all []load.Request) {
	t.Helper()
	for loop := range loops {
		src, err := set.Source(loop, loops)
		if err != nil {
			t.Fatal(err)
		}
		for i := range most {
			var r load.Request
			if !src.Next(&r) {
				break
			}
			r.Wire, r.Path, r.Body = bytes.Clone(r.Wire), strings.Clone(r.Path), bytes.Clone(r.Body)
			for len(all) <= i*loops+loop {
				all = append(all, load.Request{})
			}
			all[i*loops+loop] = r
		}
	}
	return all
}

func same(a, b load.Request) bool {
	return a.Path == b.Path && a.Query == b.Query && a.Tenant == b.Tenant && a.Due == b.Due && a.Think == b.Think && bytes.Equal(a.Wire, b.Wire)
}

// The k-th request of a run is the same over any number of loops.
func TestLoopsShareTheRequests(t *testing.T) {
	dir := write(t, map[string]string{"w.csv": "w,t\na,x\nb,y\nc,x\n", "targets": "/1\n/2\n/3\n/4\n/5\n"})
	for _, s := range []requests.Spec{
		{Dir: dir, Base: "http://h", Tenant: "column:t", Queries: []requests.Query{
			{Name: "one", Request: "/{{w}}/{{seq}}/{{uuid}}/{{random 1000}}", Think: "exp 1s", Data: "w.csv", Order: "shuffle", Weight: 3},
			{Name: "two", Request: "/{{w}}", Data: "w.csv", Order: "random", Weight: 2},
			{Name: "three", Request: "/{{w}}", Data: "w.csv"}}},
		{Dir: dir, Base: "http://h", Targets: "targets"},
	} {
		one := every(t, compile(t, s), 1, 120)
		for _, loops := range []int{2, 3, 5} {
			many := every(t, compile(t, s), loops, 120/loops)
			if !slices.EqualFunc(one, many, same) {
				t.Errorf("%d loops send something else", loops)
			}
		}
	}
}

func TestDataThatRunsOut(t *testing.T) {
	dir := write(t, map[string]string{"w.csv": "w\na\nb\nc\n"})
	s := requests.Spec{Dir: dir, Base: "http://h", Queries: []requests.Query{{Name: "q", Request: "/{{w}}", Data: "w.csv", AtEnd: "once"}, {Name: "r", Request: "/r"}}}
	set := compile(t, s)
	if err := set.Enough(6); err != nil || set.Endless() {
		t.Errorf("%v, endless %v", err, set.Endless())
	}
	want := "query q, data: w.csv holds 3 rows, and the plan asks for 4 of them (hint: make the run shorter, the rate lower, add rows, or let them begin again at the end)"
	if err := set.Enough(7); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if all := every(t, set, 1, 100); len(all) != 6 || set.RanOut() != "query q: the 3 rows of w.csv have run out" {
		t.Errorf("%d requests, %q", len(all), set.RanOut())
	}
	// At random each row still comes once, over loops too.
	s.Random, s.Queries = true, s.Queries[:1]
	set = compile(t, s)
	var paths []string
	for _, r := range every(t, set, 2, 100) {
		if r.Path != "" {
			paths = append(paths, r.Path)
		}
	}
	if slices.Sort(paths); !slices.Equal(paths, []string{"/a", "/b", "/c"}) || set.Enough(4) == nil {
		t.Errorf("%q", paths)
	}
}

func TestTargets(t *testing.T) {
	dir := write(t, map[string]string{
		"targets":    "# mine\nGET http://h:80/shop/17?x=1\nX-Tenant: acme\nHost: other\n\nPOST http://h:80/orders\n@order.json\n\n/shop/18\nhttp://h:80\n",
		"order.json": `{"a":1}`,
	})
	set := compile(t, requests.Spec{Dir: dir, Targets: "targets", Tenant: "header:x-tenant", Header: []load.Field{{Name: "X-Tenant", Value: "rest"}, {Name: "User-Agent", Value: "me"}}})
	want := []string{
		"GET /shop/17?x=1 HTTP/1.1\r\nX-Tenant: acme\r\nHost: other\r\nUser-Agent: me\r\n\r\n",
		"POST /orders HTTP/1.1\r\nHost: h:80\r\nX-Tenant: rest\r\nUser-Agent: me\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
		"GET /shop/18 HTTP/1.1\r\nHost: h:80\r\nX-Tenant: rest\r\nUser-Agent: me\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h:80\r\nX-Tenant: rest\r\nUser-Agent: me\r\n\r\n",
		"GET /shop/17?x=1 HTTP/1.1\r\nX-Tenant: acme\r\nHost: other\r\nUser-Agent: me\r\n\r\n", // from the beginning again
	}
	if got := take(t, set, 5); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := fmt.Sprint(set.Queries(), set.Tenants(), set.Base()); got != "[GET /shop/{id} POST /orders GET /] [acme rest] http://h:80" {
		t.Error(got)
	}
	once := compile(t, requests.Spec{Dir: dir, Targets: "targets", Once: true})
	if got := take(t, once, 5); len(got) != 4 || once.Endless() || once.Enough(4) != nil || once.Enough(5) == nil || once.RanOut() != "the 4 requests of targets have run out" {
		t.Errorf("%d requests, %v, %q", len(got), once.Enough(5), once.RanOut())
	}
	all := every(t, set, 1, 4)
	if all[0].Query != 0 || all[2].Query != 0 || all[1].Query != 1 || all[0].Tenant != 0 || all[1].Tenant != 1 || string(all[1].Body) != `{"a":1}` || all[1].Path != "/orders" {
		t.Errorf("%+v", all)
	}
}

func TestTenantsAreBounded(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("shop\n")
	for i := range 50 {
		for range i%5 + 1 { // the last of each five is the heaviest
			fmt.Fprintf(&csv, "s%02d\n", i)
		}
	}
	dir := write(t, map[string]string{"d.csv": csv.String()})
	set := compile(t, requests.Spec{Dir: dir, Base: "http://h", Tenant: "path:^/([^/]+)", MaxTenants: 10, Queries: []requests.Query{{Request: "/{{shop}}/", Data: "d.csv"}}})
	want := []string{"s04", "s09", "s14", "s19", "s24", "s29", "s34", "s39", "s44", "s49", "_other"}
	if !slices.Equal(set.Tenants(), want) {
		t.Errorf("%q", set.Tenants())
	}
	for _, r := range every(t, set, 1, 150) {
		name := r.Path[1:4]
		if got := set.Tenants()[r.Tenant]; got != name && (got != "_other" || slices.Contains(want, name)) {
			t.Errorf("%s is of %s", r.Path, got)
		}
	}
}

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// session writes a recording.
func session(t testing.TB, entries ...record.Entry) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w, err := record.Create(filepath.Join(dir, "session.rec"), record.Options{Header: record.Header{ID: "m1", Start: began, Bodies: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		to := w.Begin()
		to.Offset, to.Method, to.Target, to.Host, to.Operation, to.Tenant = e.Offset, e.Method, e.Target, e.Host, e.Operation, e.Tenant
		to.Fields, to.Body, to.BodyBytes = e.Fields, e.Body, e.BodyBytes
		if !w.Offer(to) {
			t.Fatal("no room")
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestARecordedSession(t *testing.T) {
	const ms = time.Millisecond
	dir := session(t,
		record.Entry{Offset: 100 * ms, Method: "GET", Target: "/shop/1", Host: "shop", Operation: "GET /shop/{id}", Tenant: "acme", Fields: []record.Field{{Name: "Accept", Value: "*/*"}, {Name: "Connection", Value: "close"}, {Name: "Host", Value: "shop"}}},
		record.Entry{Offset: 300 * ms, Method: "POST", Target: "/orders", Operation: "POST /orders", Tenant: "acme", Body: []byte("a=1"), BodyBytes: 3},
		record.Entry{Offset: 200 * ms, Method: "GET", Target: "/shop/2", Operation: "GET /shop/{id}"}, // it came a little late to the file
		record.Entry{Offset: 400 * ms, Method: "PUT", Target: "/big", Operation: "PUT /big", BodyBytes: 1e6},
		record.Entry{Offset: 500 * ms, Method: "GET", Target: "/shop/3", Operation: "GET /shop/{id}", Tenant: "tiny"},
	)
	spec := requests.Spec{Dir: dir, Base: "http://test:81", Record: &requests.Record{Path: "session.rec", Speed: 2, Loop: true}}
	set := compile(t, spec)
	all := every(t, set, 2, 4)
	var got []string
	for _, r := range all {
		tenant := "-"
		if r.Tenant >= 0 {
			tenant = set.Tenants()[r.Tenant]
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Due, r.Path, set.Queries()[r.Query], tenant))
	}
	// Four of five are sent, twice as fast; the next pass begins a mean gap after.
	want := []string{
		"0s /shop/1 GET /shop/{id} acme", "50ms /shop/2 GET /shop/{id} -", "100ms /orders POST /orders acme", "200ms /shop/3 GET /shop/{id} tiny",
		"266.666666ms /shop/1 GET /shop/{id} acme", "316.666666ms /shop/2 GET /shop/{id} -", "366.666666ms /orders POST /orders acme", "466.666666ms /shop/3 GET /shop/{id} tiny",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if wire := string(all[0].Wire); wire != "GET /shop/1 HTTP/1.1\r\nHost: test:81\r\nAccept: */*\r\nUser-Agent: tailscope-bench\r\n\r\n" {
		t.Errorf("%q", wire)
	}
	if wire := string(all[2].Wire); wire != "POST /orders HTTP/1.1\r\nHost: test:81\r\nUser-Agent: tailscope-bench\r\nContent-Length: 3\r\n\r\na=1" {
		t.Errorf("%q", wire)
	}
	if notes := set.Notes(); len(notes) != 1 || notes[0] != "session.rec: 4 requests are sent; left out are 1 whose bodies were not recorded" || !set.Recorded() || set.Duration() != 200*ms {
		t.Errorf("%q, %s", notes, set.Duration())
	}

	if err := set.Lasts(time.Hour); err != nil {
		t.Errorf("it begins again: %v", err)
	}
	spec.Record = &requests.Record{Path: "session.rec"}
	set = compile(t, spec)
	short := "session.rec lasts 400ms, and 2s are asked for (hint: make the run shorter, or let it begin again at its end)"
	if err := set.Lasts(2 * time.Second); err == nil || err.Error() != short || set.Lasts(time.Second) != nil {
		t.Errorf("got %v, %v", err, set.Lasts(time.Second))
	}

	spec.Record = &requests.Record{Path: "session.rec", Only: []string{"GET *"}, Tenants: []string{"acme", ""}}
	set = compile(t, spec)
	if all = every(t, set, 1, 100); len(all) != 2 || set.Endless() || set.RanOut() != "the 2 requests of session.rec have run out" {
		t.Errorf("%d requests, %q", len(all), set.RanOut())
	}
	spec.Record = &requests.Record{Path: "session.rec", Untimed: true}
	if set = compile(t, spec); set.Recorded() || set.Enough(4) != nil || set.Enough(5) == nil {
		t.Errorf("%v, %v", set.Recorded(), set.Enough(5))
	}
	spec.Record = &requests.Record{Path: "session.rec", Methods: []string{"DELETE"}}
	wanted := "record: session.rec: it holds no request to send: left out are 5 of another method (hint: say methods: with those that are to be sent)"
	if _, err := requests.Compile(spec); err == nil || err.Error() != wanted {
		t.Errorf("got %v", err)
	}
	spec.Record, spec.Base = &requests.Record{Path: "session.rec"}, ""
	if _, err := requests.Compile(spec); err == nil || !strings.Contains(err.Error(), "target: no target is named") {
		t.Errorf("got %v", err)
	}
}

func TestAnAccessLog(t *testing.T) {
	line := func(second int, request, host string) string {
		return fmt.Sprintf(`10.0.0.9 - - [01/Mar/2026:12:00:%02d +0000] "%s HTTP/1.1" 200 512 "-" "curl" %s`+"\n", second, request, host)
	}
	const format = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $host`
	text := line(1, "GET /shop/17?q=a b", "acme.example") + line(0, "GET /", "acme.example") + line(1, "POST /orders", "beta.example") + line(1, "HEAD /shop/18", "beta.example") + "rubbish\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{"access.log": text, "access.log.gz": packed.String()})
	for _, file := range []string{"access.log", "access.log.gz"} {
		set := compile(t, requests.Spec{Dir: dir, Base: "http://test", Tenant: `host:^([a-z]+)\.`, AccessLog: &requests.AccessLog{Path: file, Format: format}})
		var got []string
		for _, r := range every(t, set, 1, 10) {
			got = append(got, fmt.Sprintf("%s %s %s %s %s", r.Due, r.Method, r.Path, set.Queries()[r.Query], set.Tenants()[r.Tenant]))
		}
		// Seconds are all that is known: two of one are half a second apart.
		want := []string{"0s GET / GET / acme", "1s GET /shop/17?q=a%20b GET /shop/{id} acme", "1.5s HEAD /shop/18 HEAD /shop/{id} beta"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		notes := strings.Join(set.Notes(), "\n")
		if want := file + `: 1 of 5 lines hold no request that can be read; the first is line 5, column 1: expected  - 
the log knows times to the second: requests are spread evenly over theirs
` + file + `: 3 requests are sent; left out are 1 of another method`; notes != want {
			t.Errorf("notes:\n%s\nwant\n%s", notes, want)
		}
	}
}
