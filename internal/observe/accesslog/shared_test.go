package accesslog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Two servers that share a store follow files of one name on their machines: neither
// goes on where the other is.
func TestServersReadApart(t *testing.T) {
	shared := storetest.NewTwin()
	state := func(name string) State {
		own, err := store.OwnRecords(context.Background(), shared, name)
		if err != nil {
			t.Fatal(err)
		}
		return In(own)
	}
	places := func(s State) string {
		got := ""
		if err := s.Load(context.Background(), "followed/", func(key string, value []byte) error {
			got += key + "=" + string(value) + " "
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	for n, name := range []string{"a", "b"} {
		if err := state(name).Save(context.Background(), map[string][]byte{"followed/shop\x00/var/log/access.log": {byte('0' + n)}}); err != nil {
			t.Fatal(err)
		}
	}
	for n, name := range []string{"a", "b"} { // as after a restart
		if got, want := places(state(name)), "followed/shop\x00/var/log/access.log="+string(rune('0'+n))+" "; got != want {
			t.Errorf("%s goes on at %q, want %q", name, got, want)
		}
	}
}

// Two servers that share a store name the requests of their logs alike.
func TestServersShareRoutes(t *testing.T) {
	shared, now := storetest.NewTwin(), noon
	server := func() (in *Ingester, name func(path string) string) {
		in = New(Options{Sink: newLedger(), Routes: shared, Now: func() time.Time { return now }})
		s, err := in.service(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		return in, func(path string) string {
			if err := in.remember(t.Context(), s, nil); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			return routed(s.router, "GET", path, 200)
		}
	}
	_, first := server()
	_, second := server()
	if got := second("/users/bob"); got != "GET /users/bob" {
		t.Fatal(got)
	}
	for i := range 500 {
		first("/users/" + letters(i))
		first("/users/me")
	}
	first("/users/bob") // what was learned is written
	if got := second("/users/bob"); got != "GET /users/bob" {
		t.Errorf("right away the other server reads the record anew: %s", got)
	}
	now = now.Add(store.ReadEvery)
	for path, want := range map[string]string{"/users/bob": "GET /users/{name}", "/users/me": "GET /users/me"} {
		if got := second(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	// Both learn before one has heard of the other: the first that writes decides.
	for i := range 500 {
		for n, name := range []func(string) string{first, second} {
			name("/carts/" + letters(i))
			name("/carts/" + string(rune('a'+n)))
		}
	}
	now = now.Add(store.ReadEvery)
	first("/")
	second("/")
	_, third := server() // a start goes by both
	for _, path := range []string{"/carts/a", "/carts/b", "/carts/new", "/users/ann"} {
		if x, y, z := first(path), second(path), third(path); x != y || y != z {
			t.Errorf("%s is %s, %s and %s", path, x, y, z)
		}
	}
	if got := third("/carts/new"); got != "GET /carts/{name}" {
		t.Errorf("got %s", got)
	}
}

// readableOnce is records that can be read once, and then fail.
type readableOnce struct {
	store.Records
	read bool
}

func (r *readableOnce) GetRecord(ctx context.Context, kind, key string) (store.Record, error) {
	if r.read {
		return store.Record{}, errors.New("the store is away")
	}
	r.read = true
	return r.Records.GetRecord(ctx, kind, key)
}

// Lines count once though what was learned of routes cannot be shared after them.
func TestPositionIsSavedBeforeRoutes(t *testing.T) {
	l, routes, state := newLedger(), &readableOnce{Records: storetest.NewTwin()}, newMemory()
	in := New(Options{Sink: l, Traces: l, State: state, Routes: routes, Now: func() time.Time { return noon }})
	if err := importText(t, in, Config{}, example); err == nil || !strings.Contains(err.Error(), "the store is away") {
		t.Fatalf("got %v, want that the store is away", err)
	}
	routes.read = false
	if err := importText(t, in, Config{}, example); !errors.Is(err, ErrAlready) {
		t.Errorf("got %v, want %v", err, ErrAlready)
	}
	if n := l.requests(); n != 1 {
		t.Errorf("%d requests are counted, want 1", n)
	}
}
