package demo

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"tailscope/internal/experiment"
	"tailscope/internal/experiment/scenario"
)

// Twins answer as the shop does, whatever is changed of them; what is written there stays
// there, and nothing is left of them.
func TestTwins(t *testing.T) {
	s, ts, _, _ := testShop(t, 2000)
	d := &demo{dir: t.TempDir(), db: s.db, tenants: ts}
	kept := &sync.Map{}
	twins, err := d.startTwins(t.Context(), nil, func(s *shop) { s.kept = kept })
	if err != nil {
		t.Fatal(err)
	}
	plain, keeps := twins.addresses[0], twins.addresses[1]
	one := fmt.Sprintf("/products/%d", productID(&ts[0], 3))
	var want, got product
	call(t, "GET", plain+one, "globex", &want)
	for range 2 { // from the database, then from memory
		if status := call(t, "GET", keeps+one, "globex", &got); status != http.StatusOK || got != want || got.Name == "" {
			t.Errorf("a product that is kept: got %d, %+v, want %+v", status, got, want)
		}
	}
	if status := call(t, "GET", keeps+one, "initech", nil); status != http.StatusNotFound {
		t.Errorf("a product that is kept for another tenant: got %d, want 404", status)
	}
	if status := call(t, "PUT", fmt.Sprintf("%s/cart/%d?customer=1", plain, productID(&ts[0], 3)), "globex", nil); status != http.StatusOK {
		t.Errorf("add to a cart: got %d", status)
	}
	if status := call(t, "POST", plain+"/orders?customer=1", "globex", nil); status != http.StatusCreated {
		t.Errorf("checkout: got %d", status)
	}
	if err := twins.close(); err != nil {
		t.Error(err)
	}
	var placed int
	if err := s.db.QueryRow("SELECT count(*) FROM orders WHERE status = 'placed'").Scan(&placed); err != nil || placed != 0 {
		t.Errorf("%d orders, %v, were placed in the shop itself", placed, err)
	}
	if left, err := os.ReadDir(d.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A cart is the same by one query and by many.
func TestCartJoined(t *testing.T) {
	_, ts, srv, rec := testShop(t, 2000)
	for _, i := range []int{3, 7} {
		call(t, "PUT", fmt.Sprintf("%s/cart/%d?customer=5", srv.URL, productID(&ts[0], i)), "globex", nil)
	}
	read := func(how string) (list []product, queries int) {
		t.Helper()
		selects := func() (n int) {
			for _, s := range rec.Ended() {
				if strings.HasPrefix(s.Name(), "SELECT") {
					n++
				}
			}
			return n
		}
		before := selects()
		r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/cart?customer=5", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(tenantHeader, "globex")
		r.Header.Set(cartHeader, how)
		ask(t, r, &list)
		return list, selects() - before
	}
	set := func(list []product) map[product]bool {
		out := map[product]bool{}
		for _, p := range list {
			out[p] = true
		}
		return out
	}
	each, many := read("each")
	joined, one := read("joined")
	if !reflect.DeepEqual(set(each), set(joined)) || len(joined) < 3 {
		t.Errorf("each: %v, joined: %v", each, joined)
	}
	if one != 1 || many != 1+len(each) {
		t.Errorf("%d and %d queries for %d products, want 1, and one for each and one more", one, many, len(each))
	}
}

func TestPrices(t *testing.T) {
	s, ts, srv, _ := testShop(t, 100)
	put := func(body []byte, of string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "PUT", srv.URL+"/prices", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(tenantHeader, of)
		return ask(t, r, nil)
	}
	list, err := priceList(&ts[4], 30)
	if err != nil {
		t.Fatal(err)
	}
	cheaper := bytes.ReplaceAll(list, []byte(`"price_cents":1`), []byte(`"price_cents":9`))
	for _, c := range []struct {
		body   []byte
		tenant string
		want   int
	}{{list, "hooli", 200}, {list, "acme", 200}, {cheaper, "hooli", 200}, {[]byte("[{"), "hooli", 400}} {
		if got := put(c.body, c.tenant); got != c.want {
			t.Errorf("a list of %d bytes of %s: got %d, want %d", len(c.body), c.tenant, got, c.want)
		}
	}
	for tenant, want := range map[int]int{5: 30*900 + 29*30/2, 3: 30*100 + 29*30/2} {
		var rows, sum int
		if err := s.db.QueryRow("SELECT count(*), sum(price_cents) FROM prices WHERE tenant = ?", tenant).Scan(&rows, &sum); err != nil || rows != 30 || sum != want {
			t.Errorf("tenant %d: %d rows of %d, %v, want 30 of %d", tenant, rows, sum, err, want)
		}
	}
}

// A command that fails says what it printed last; one that is interrupted, or less certain
// than was asked for, did not fail.
func TestRun(t *testing.T) {
	var said bytes.Buffer
	d := &demo{Options: Options{Program: "/bin/sh", Out: &said}, dir: t.TempDir()}
	for _, c := range []struct{ script, want string }{
		{"true", ""},
		{"exit 3", ""},
		{"echo first; echo why >&2; echo hint: what to do; exit 1", "exit status 1: why; hint: what to do"},
		{`test -z "$TAILSCOPE_TO"`, ""},
	} {
		t.Setenv("TAILSCOPE_TO", "elsewhere")
		got := ""
		if err := run(d.command(t.Context(), "-c", c.script), 3); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.script, got, c.want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c := d.command(ctx, "-c", "trap 'exit 0' INT; echo begun; while :; do sleep 0.01; done")
	c.Stdout = writer(func(string) { stop() })
	if err := run(c); err != nil || ctx.Err() == nil {
		t.Errorf("interrupted: %v", err)
	}
	if want := `$ tailscope -c 'echo first; echo why >&2; echo hint: what to do; exit 1'`; !strings.Contains(said.String(), want) {
		t.Errorf("said %q, want %q in it", said.String(), want)
	}
}

// writer is an output that calls a function with what is written.
type writer func(string)

func (w writer) Write(b []byte) (int, error) {
	w(string(b))
	return len(b), nil
}

// The experiment's files are right as they are written.
func TestExperimentFile(t *testing.T) {
	dir := t.TempDir()
	if err := writeExperiment(dir, "http://127.0.0.1:1", "globex"); err != nil {
		t.Fatal(err)
	}
	s, problems := scenario.Load(filepath.Join(dir, "shop.yaml"), scenario.LoadOptions{})
	if len(problems) > 0 || s.Target.String() != "http://127.0.0.1:1" {
		t.Errorf("the scenario: %v", problems)
	}
	x, problems := experiment.Load(filepath.Join(dir, "cart.yaml"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if x.Variable != "cart" || len(x.Settings) != 2 {
		t.Errorf("got %+v", x)
	}
}
