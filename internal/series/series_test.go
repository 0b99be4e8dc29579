package series

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

func TestSlot(t *testing.T) {
	for _, tt := range []struct {
		r       Resolution
		t, want int64
	}{
		{Base, 0, 0}, {Base, 9, 0}, {Base, 10, 10}, {Base, -1, -10}, {Base, -10, -10},
		{Minute, 119, 60}, {TenMin, 1199, 600}, {Hour, 3600, 3600}, {Hour, -3601, -7200},
	} {
		if got := tt.r.Slot(tt.t); got != tt.want {
			t.Errorf("Resolution(%d).Slot(%d) = %d, want %d", tt.r, tt.t, got, tt.want)
		}
	}
	for i := 1; i < len(Resolutions); i++ {
		if Resolutions[i]%Resolutions[i-1] != 0 {
			t.Errorf("%d s does not divide %d s", Resolutions[i-1], Resolutions[i])
		}
	}
}

// Identities are stored: they must never change.
func TestIDGolden(t *testing.T) {
	s := Series{Family: SpanDuration, View: Marginal, Labels: labels.FromStrings("service", "checkout", "operation", "GET /cart/{id}")}
	id, _ := s.ID(nil)
	if want := (ID{0x21e8e8ce5c8611fa, 0xbe5a63f95abfa2c}); id != want {
		t.Errorf("got %#x, want %#x", id, want)
	}
	key := "\x15span_duration_seconds\x01\x09operation\x0eGET /cart/{id}\x07service\x08checkout"
	if got := string(s.AppendKey(nil)); got != key {
		t.Errorf("got key %q, want %q", got, key)
	}
}

func TestIDs(t *testing.T) {
	ids := map[ID]Series{}
	var buf []byte
	for _, s := range []Series{
		{Family: "a"}, {Family: "a", View: Total}, {Family: "b"},
		{Family: "a", Labels: labels.FromStrings("x", "y")}, {Family: "a", Labels: labels.FromStrings("xy", "")},
		{Family: "a", Labels: labels.FromStrings("x", "yz")}, {Family: "a", Labels: labels.FromStrings("xy", "z")},
	} {
		var id ID
		id, buf = s.ID(buf)
		if other, ok := ids[id]; ok {
			t.Errorf("%v and %v have one identity", s, other)
		}
		ids[id] = s
	}
	counter := Series{Family: "a", Kind: Counter}
	if id, _ := counter.ID(nil); ids[id].Family != "a" {
		t.Error("the kind is part of the identity")
	}
}

func TestNumberMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		ns := make([]Number, 5)
		for i := range ns {
			if v := float64(rng.IntN(20) - 10); rng.IntN(5) > 0 {
				ns[i] = Number{Count: 1, Sum: v, Min: v, Max: v, Last: v, LastTimeMillis: rng.Int64N(4)}
			}
		}
		fold := func() (n Number) {
			for _, o := range ns {
				n.Merge(o)
			}
			return n
		}
		want := fold()
		rng.Shuffle(len(ns), func(i, j int) { ns[i], ns[j] = ns[j], ns[i] })
		if got := fold(); got != want {
			t.Fatalf("in another order: got %+v, want %+v", got, want)
		}
	}
}
