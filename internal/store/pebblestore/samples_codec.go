package pebblestore

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Raw samples of one series in one hour, ascending in time:
//
//	count uvarint | first time varint (ms) | count × (time, value)
//
// A time is the varint of the change of the interval (nothing for the first).
// A value is the bits of its float64 XORed with those of the one before: a
// byte that holds the number of zero bytes at the end and of bytes that
// follow, then those bytes. A repeated value takes one byte.

func appendSamples(dst []byte, ss []series.Sample) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ss)))
	var prev, step int64
	var before uint64
	for i, s := range ss {
		if i == 0 {
			dst = binary.AppendVarint(dst, s.TimeMillis)
		} else {
			d := s.TimeMillis - prev
			dst = binary.AppendVarint(dst, d-step)
			step = d
		}
		prev = s.TimeMillis
		v := math.Float64bits(s.Value)
		x := v ^ before
		before = v
		if x == 0 {
			dst = append(dst, 0)
			continue
		}
		zeros := bits.TrailingZeros64(x) / 8
		x >>= 8 * zeros
		n := (bits.Len64(x) + 7) / 8
		dst = append(dst, byte(zeros<<4|n))
		for range n {
			dst = append(dst, byte(x))
			x >>= 8
		}
	}
	return dst
}

func decodeSamples(dst []series.Sample, b []byte) ([]series.Sample, error) {
	r := reader{b: b}
	n := r.count(1)
	var t, step int64
	var before uint64
	for i := range n {
		if i == 0 {
			t = r.varint()
		} else {
			step += r.varint()
			t += step
		}
		c := r.byte()
		zeros, size := int(c>>4), int(c&15)
		if zeros+size > 8 || size == 0 && zeros != 0 {
			r.fail()
		}
		var x uint64
		for k, v := range r.bytes(size) {
			x |= uint64(v) << (8 * k)
		}
		before ^= x << (8 * zeros)
		if r.err != nil {
			break
		}
		dst = append(dst, series.Sample{TimeMillis: t, Value: math.Float64frombits(before)})
	}
	if r.err != nil || len(r.b) != 0 {
		return dst, fmt.Errorf("samples: %w", store.ErrCorrupt)
	}
	return dst, nil
}

// mergeSamples sorts samples by time. Of equal times the last argument is kept.
func mergeSamples(ss []series.Sample) []series.Sample {
	merged := true
	for i := 1; i < len(ss) && merged; i++ {
		merged = ss[i-1].TimeMillis < ss[i].TimeMillis
	}
	if merged {
		return ss
	}
	slices.SortStableFunc(ss, func(a, b series.Sample) int {
		switch {
		case a.TimeMillis < b.TimeMillis:
			return -1
		case a.TimeMillis > b.TimeMillis:
			return 1
		}
		return 0
	})
	out := ss[:0]
	for i, s := range ss {
		if i+1 < len(ss) && ss[i+1].TimeMillis == s.TimeMillis {
			continue
		}
		out = append(out, s)
	}
	return out
}
