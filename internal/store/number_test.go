package store

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"tailscope/internal/series"
)

func TestNumber(t *testing.T) {
	for _, n := range []series.Number{
		{},
		{Count: 1, Sum: 2.5, Min: 2.5, Max: 2.5, Last: 2.5, LastTimeMillis: 1_789_948_800_123},
		{Count: math.MaxUint64, Sum: math.Inf(1), Min: math.Inf(-1), Max: math.MaxFloat64, Last: -0.5, LastTimeMillis: math.MinInt64},
	} {
		got, err := DecodeNumber(AppendNumber(nil, n))
		if err != nil || got != n {
			t.Errorf("got %+v, %v, want %+v", got, err, n)
		}
	}
	good := AppendNumber(nil, series.Number{Count: 300, LastTimeMillis: 1 << 40})
	for i := range good {
		if _, err := DecodeNumber(good[:i]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("first %d bytes: got error %v, want ErrCorrupt", i, err)
		}
	}
	if _, err := DecodeNumber(append(good, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: got error %v, want ErrCorrupt", err)
	}
}

func FuzzNumber(f *testing.F) {
	f.Add(AppendNumber(nil, series.Number{Count: 3, Sum: 6, Min: 1, Max: 3, Last: 2, LastTimeMillis: -5}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := DecodeNumber(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("got error %v, want ErrCorrupt", err)
			}
			return
		}
		again, err := DecodeNumber(AppendNumber(nil, n))
		if err != nil || !bytes.Equal(AppendNumber(nil, again), AppendNumber(nil, n)) {
			t.Fatalf("%+v came back as %+v, %v", n, again, err)
		}
	})
}
