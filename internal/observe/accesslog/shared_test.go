package accesslog

import (
	"context"
	"testing"

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
