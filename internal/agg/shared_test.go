package agg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// sharers opens servers a, b, … of one store, whose rounds the test makes.
func sharers(t testing.TB, st store.Store, c *clock, n int, change ...func(*Options)) []*Aggregator {
	t.Helper()
	list := make([]*Aggregator, n)
	for i := range list {
		list[i] = open(t, st, c, t.TempDir(), append(slices.Clone(change), func(o *Options) {
			o.Shared, o.Writer, o.FS = true, string(rune('a'+i)), vfs.NewMem()
		})...)
	}
	return list
}

// rounds has each server make that many rounds.
func rounds(t testing.TB, n int, list ...*Aggregator) {
	t.Helper()
	for range n {
		for _, a := range list {
			if err := a.exchangeNames(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// serve has a server take a request for a tenant, and returns the names that it is counted under.
func serve(t testing.TB, a *Aggregator, operation, tenant string, weight uint32) string {
	t.Helper()
	b := a.NewBatch()
	id := SpanIdentity{Service: "s", Operation: operation, Kind: "server", Status: "ok"}
	one := []Member{{Target: a.NamedTarget(&id), Tenant: tenant}}
	a.Fold(one)
	b.ObserveTenant(one[0].Target, tenant, one[0].Folded, b.now, 1e6, weight)
	commit(t, b)
	if one[0].Folded {
		tenant = series.Other
	}
	return id.Operation + " " + tenant
}

// Whatever servers of one store are asked for, in whatever order they read and publish, names are
// the same on all of them some rounds later, and a name that one has given stays until its hour ends.
func TestServersGiveOneName(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, st := newClock(), storetest.NewTwin()
		list := sharers(t, st, c, rapid.IntRange(2, 3).Draw(rt, "servers"), func(o *Options) { o.MaxTenants, o.MaxOperations = 8, 6 })
		defer func() {
			for _, a := range list {
				a.Close(context.Background())
			}
		}()
		given, turned := map[string]bool{}, false // names; an hour has ended
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			a := list[rapid.IntRange(0, len(list)-1).Draw(rt, "server")]
			switch rapid.IntRange(0, 19).Draw(rt, "step") {
			case 0:
				c.advance(time.Hour)
				for _, a := range list {
					flush(t, a)
				}
				turned = true
			case 1, 2, 3:
				rounds(t, 1, a)
			default:
				names := serve(t, a, fmt.Sprint("o", rapid.IntRange(0, 9).Draw(rt, "operation")), fmt.Sprint("t", rapid.IntRange(0, 14).Draw(rt, "tenant")), rapid.Uint32Range(1, 9).Draw(rt, "weight"))
				for _, name := range strings.Fields(names) {
					given[name] = true
				}
			}
		}
		for _, a := range list { // one that has not seen the service does not hear of its names
			serve(t, a, "o0", "t0", 1)
		}
		c.advance(time.Minute) // the heaviest have the names of the hour
		rounds(t, 3, list...)
		for i := range 15 {
			var want string
			for n, a := range list {
				got := serve(t, a, fmt.Sprint("o", i%10), fmt.Sprint("t", i), 1)
				if n > 0 && got != want {
					rt.Errorf("request %d is counted under %s by server %d, and under %s by the first", i, got, n, want)
				}
				want = got
				for _, name := range []string{fmt.Sprint("o", i%10), fmt.Sprint("t", i)} {
					if given[name] && !turned && !slices.Contains(strings.Fields(got), name) {
						rt.Errorf("%s has lost its name: %s", name, got)
					}
				}
			}
			rounds(t, 3, list...) // as many as a service takes that comes near its bound
		}
	})
}

// Servers that each see other tenants and operations give hardly more names together than one
// may: all but the few that they give at once.
func TestBoundIsOfAllServers(t *testing.T) {
	const bound, servers = 64, 4
	list := sharers(t, storetest.NewTwin(), newClock(), servers, func(o *Options) {
		o.MaxTenants, o.MaxOperations, o.Servers = bound, bound, func() int { return servers }
	})
	given := map[string]bool{}
	for i := range bound {
		for n, a := range list {
			for _, name := range strings.Fields(serve(t, a, fmt.Sprint("o", n, "-", i), fmt.Sprint("t", n, "-", i), 1)) {
				given[name] = true
			}
		}
		rounds(t, 1, list...)
	}
	for _, first := range []string{"o", "t"} {
		names := 0
		for name := range given {
			if strings.HasPrefix(name, first) {
				names++
			}
		}
		if names < bound-servers || names > bound+servers {
			t.Errorf("%d names that begin with %s, want %d", names, first, bound)
		}
	}
}

// A tenant is in one cohort on all servers, that of its share of all their requests, also when
// a server starts anew.
func TestCohortsAreOfAllServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no rounds but those of the test
		c, st := newClock(), storetest.NewTwin()
		list := sharers(t, st, c, 2)
		a, b := list[0], list[1]
		for i := range 10 {
			serve(t, a, "o", fmt.Sprint("a", i), 100) // each 10 % of what a sees, 0.99 % of all
			serve(t, b, "o", "big", 9_100/10)
		}
		if got := a.Cohort("s", "a1"); got != series.VeryLarge {
			t.Errorf("before the servers know of each other: %s", got)
		}
		check := func(list ...*Aggregator) {
			t.Helper()
			for i, a := range list {
				for tenant, want := range map[string]string{"a1": series.Medium, "big": series.VeryLarge, "none": series.Small} {
					if got := a.Cohort("s", tenant); got != want {
						t.Errorf("on server %d %s is %s, want %s", i, tenant, got, want)
					}
				}
			}
		}
		rounds(t, 2, a, b)
		check(a, b)
		for range 2 { // as weights fade
			c.advance(time.Hour)
			flush(t, a)
			flush(t, b)
			rounds(t, 2, a, b)
			check(a, b)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		again := sharers(t, st, c, 1)[0]
		serve(t, again, "o", "a1", 1)
		rounds(t, 2, again, b)
		check(again, b)
		// What is gone for hours does not count any more, and is deleted after a day.
		for range 25 {
			c.advance(time.Hour)
			serve(t, b, "o", "big", 100)
			serve(t, b, "o", "b1", 900)
			flush(t, b)
			rounds(t, 2, b)
			if got := b.Cohort("s", "a1"); c.now().Hour() == 18 && got != series.Small { // some hours later
				t.Errorf("a tenant of a server that is gone is %s", got)
			}
		}
		if err := st.ListRecords(t.Context(), kindNames, "", func(x store.Record) error {
			if _, writer, _, _ := cutNameKey(x.Key); writer != "b" {
				t.Errorf("the record %q of a server that is gone since a day is left", x.Key)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// The names of an hour go to the heaviest of all servers, though each sees other tenants.
func TestHeaviestOfAllServersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no rounds but those of the test
		c, st := newClock(), storetest.NewTwin()
		list := sharers(t, st, c, 2, func(o *Options) { o.MaxTenants = 4 })
		for i := range 5 {
			for n, a := range list { // the later, the heavier; those of the second server more than all of the first
				serve(t, a, "o", fmt.Sprint(n, "-", i), uint32(10*(1+i)+1000*n))
			}
		}
		rounds(t, 2, list...)
		c.advance(time.Hour)
		for _, a := range list {
			flush(t, a)
		}
		rounds(t, 2, list...)
		if got := serve(t, list[1], "o", "1-4", 1); got != "o "+series.Other {
			t.Errorf("seconds after an hour began names were given: %s", got)
		}
		c.advance(time.Minute)
		rounds(t, 3, list...)
		for _, a := range list {
			got := ""
			for i := range 5 {
				got += serve(t, a, "o", fmt.Sprint("1-", i), 1) + " " + serve(t, a, "o", fmt.Sprint("0-", i), 1) + " "
			}
			if want := "o _other o _other o 1-1 o _other o 1-2 o _other o 1-3 o _other o 1-4 o _other "; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})
}

// A name that one server gives at the bound is that of the others within ten seconds.
func TestHowLongTwoNamesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewTwin()
		var list []*Aggregator
		for i := range 3 {
			a, err := Open(t.Context(), st, Options{Dir: t.TempDir(), Writer: string(rune('a' + i)), Shared: true, MaxTenants: 4, MaxOperations: 4})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close(context.Background())
			list = append(list, a)
			time.Sleep(store.ReadEvery / 3) // rounds of servers are not in step
		}
		for i := range 3 {
			serve(t, list[2], fmt.Sprint("o", i), fmt.Sprint("t", i), 1)
		}
		time.Sleep(3 * store.ReadEvery)      // all know that the bound is near
		serve(t, list[2], "last", "last", 1) // two give the last name at once
		if got := serve(t, list[0], "new", "acme", 1); got != "new acme" {
			t.Fatalf("a server that has heard of nobody counts under %s", got)
		}
		begin, longest := time.Now(), time.Duration(0)
		for time.Since(begin) < 3*store.ReadEvery {
			for _, a := range list[1:] {
				if got := serve(t, a, "new", "acme", 1); got != "new acme" {
					longest = time.Since(begin)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if longest == 0 || longest > 2*store.ReadEvery {
			t.Errorf("one request has two names for %v, want more than none and at most %v", longest, 2*store.ReadEvery)
		}
		t.Logf("one request had two names for %v", longest)
	})
}

// A server alone neither reads nor writes records of names.
func TestAloneNothingIsExchanged(t *testing.T) {
	st := storetest.NewTwin()
	a := open(t, st, newClock(), t.TempDir(), func(o *Options) { o.MaxTenants = 1 })
	serve(t, a, "o", "x", 1)
	serve(t, a, "o", "y", 1)
	flush(t, a)
	if err := st.ListRecords(t.Context(), kindNames, "", func(x store.Record) error {
		t.Errorf("record %q", x.Key)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Names that cannot be published are published once they can.
func TestNamesArePublishedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no rounds but those of the test
		st := &fullRecords{Twin: storetest.NewTwin()}
		c := newClock()
		list := sharers(t, st, c, 2, func(o *Options) { o.MaxTenants, o.MaxOperations = 2, 2 })
		for i := range 2 {
			serve(t, list[0], fmt.Sprint("o", i), fmt.Sprint("t", i), 1)
			serve(t, list[1], fmt.Sprint("p", i), fmt.Sprint("u", i), 1)
		}
		st.full = true
		if err := list[0].exchangeNames(t.Context()); err == nil || !strings.Contains(err.Error(), "publish the names that this server has given") {
			t.Errorf("a full store: %v", err)
		}
		st.full = false
		rounds(t, 2, list...)
		if got := serve(t, list[1], "o0", "t1", 1); got != "o0 t1" {
			t.Errorf("got %s, want the names that the first server gave", got)
		}
	})
}

type fullRecords struct {
	*storetest.Twin
	full bool
}

func (f *fullRecords) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	if f.full {
		return 0, store.ErrFull
	}
	return f.Twin.PutRecords(ctx, kind, writes...)
}

// What another program writes under a server's name does not stop this one.
func FuzzPublished(f *testing.F) {
	t := newTenants(4, new(int64))
	for h := range uint64(5) {
		t.admit(h + 1)
		t.count(h+1, 10, h%2 == 0)
	}
	s := &service{tenants: t, extra: map[string]map[string]struct{}{"region": {"eu": {}}}}
	s.values[dimOperation] = map[string]struct{}{"a": {}, "": {}}
	header := []byte{namesVersion, 3}
	f.Add(t.appendWeights(header[:2:2]), byte(partWeights))
	f.Add(t.appendNamed(header[:2:2]), byte(partTenants))
	f.Add(s.appendValues(header[:2:2], &Options{MaxOperations: 2, MaxInstances: 1, MaxValues: 1}), byte(partValues))
	f.Fuzz(func(t *testing.T, b []byte, part byte) {
		var p published
		p.add(b, false, int(part)%numParts)
		n := p.named.n + len(p.weights.of) + len(p.requests.of)
		for _, set := range p.values {
			n += len(set)
		}
		if n > len(b) {
			t.Errorf("%d bytes hold %d names", len(b), n)
		}
	})
}

// What is written is read as it was.
func TestPublishedIsReadBack(t *testing.T) {
	tt := newTenants(4, new(int64))
	for h := range uint64(6) {
		tt.admit(h + 1)
		tt.count(h+1, h+1, h%2 == 0)
	}
	s := &service{tenants: tt, extra: map[string]map[string]struct{}{"region": {"eu": {}, "us": {}}}}
	s.values[dimOperation] = map[string]struct{}{"a": {}, "b": {}}
	s.values[dimVersion] = map[string]struct{}{"1": {}}
	header := []byte{namesVersion, 3}
	var p published
	p.add(tt.appendWeights(header[:2:2]), true, partWeights)
	p.add(tt.appendNamed(header[:2:2]), false, partTenants)
	p.add(s.appendValues(header[:2:2], &Options{MaxOperations: 2, MaxInstances: 9, MaxValues: 2}), false, partValues)
	named := slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(p.named.slots), func(h uint64) bool { return h == 0 })))
	got := fmt.Sprint(p.hour, p.total, p.weights, p.requests, named, p.values, p.own)
	want := "3 21 {21 map[1:1 2:2 3:3 4:4 5:5 6:6]} {9 map[1:1 3:3 5:5]} [1 2 3 4] map[operation:map[a:{} b:{}] region:map[eu:{} us:{}]] [true false false]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, key := range []string{"", "shop", "shop\x00a", "shop\x00a\x003", "shop\x00a\x0000"} {
		if _, _, _, ok := cutNameKey(key); ok {
			t.Errorf("%q is a key", key)
		}
	}
	if service, writer, part, ok := cutNameKey(nameKey("", "a", partValues)); service != "" || writer != "a" || part != partValues || !ok {
		t.Errorf("got %q, %q, %d, %v", service, writer, part, ok)
	}
}
