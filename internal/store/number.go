package store

import (
	"encoding/binary"
	"fmt"
	"math"

	"tailscope/internal/series"
)

// AppendNumber appends the stored form of a number point: uvarint count, then
// sum, min, max and last as little-endian float64, then the zig-zag varint of
// the last sample's time in milliseconds.
func AppendNumber(dst []byte, n series.Number) []byte {
	dst = binary.AppendUvarint(dst, n.Count)
	for _, v := range [...]float64{n.Sum, n.Min, n.Max, n.Last} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return binary.AppendVarint(dst, n.LastTimeMillis)
}

// DecodeNumber decodes what AppendNumber appended. Errors wrap ErrCorrupt.
func DecodeNumber(b []byte) (series.Number, error) {
	var n series.Number
	count, k := binary.Uvarint(b)
	if k <= 0 || len(b) < k+32 {
		return n, fmt.Errorf("number point of %d bytes: %w", len(b), ErrCorrupt)
	}
	b = b[k:]
	n.Count = count
	for i, p := range [...]*float64{&n.Sum, &n.Min, &n.Max, &n.Last} {
		*p = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	t, k := binary.Varint(b[32:])
	if k <= 0 || 32+k != len(b) {
		return n, fmt.Errorf("number point's time: %w", ErrCorrupt)
	}
	n.LastTimeMillis = t
	return n, nil
}
