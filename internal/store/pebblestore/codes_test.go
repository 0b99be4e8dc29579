package pebblestore

import (
	"testing"

	"pgregory.net/rapid"
)

// Codes are those of a plain list, whatever their widths, and what was read before stays as
// it was.
func TestCodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c, before codes
		var want []uint32
		same := func(c *codes, want []uint32) {
			t.Helper()
			if c.len() != len(want) {
				t.Fatalf("got %d codes, want %d", c.len(), len(want))
			}
			for i, code := range want {
				if c.at(i) != code {
					t.Fatalf("code %d is %d, want %d", i, c.at(i), code)
				}
			}
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				most := rapid.SampledFrom([]uint32{1, 255, 256, 65535, 65536, 1 << 31}).Draw(t, "most")
				code := rapid.Uint32Range(0, most).Draw(t, "code")
				i := len(want) + rapid.IntRange(0, 3).Draw(t, "left out")
				c.put(i, code)
				for len(want) < i {
					want = append(want, 0)
				}
				want = append(want, code)
			},
			"read": func(t *rapid.T) { before, n = c.now(), len(want) },
			"grow": func(t *rapid.T) { c.grow(rapid.IntRange(0, 100).Draw(t, "by")) },
			"keep": func(t *rapid.T) {
				most := uint32(0)
				for _, code := range want {
					most = max(most, code)
				}
				if most > 1<<17 {
					return // it has that many values
				}
				ok, sel := make([]bool, most+1), make([]bool, len(want)+2)
				for i := range ok {
					ok[i] = i%3 == 0
				}
				for i := range sel {
					sel[i] = i%5 != 0
				}
				c.keep(sel, ok)
				for i, got := range sel {
					code := uint32(0)
					if i < len(want) {
						code = want[i]
					}
					if got != (i%5 != 0 && code%3 == 0) {
						t.Fatalf("series %d of code %d: %v", i, code, got)
					}
				}
			},
			"": func(*rapid.T) {
				same(&c, want)
				same(&before, want[:n])
			},
		})
	})
}
