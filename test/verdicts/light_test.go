package verdicts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/internal/judge"
)

// What has few requests is compared together. One of it that begins, grows or leaves is a
// mix that moved, in which nobody became slower; one that became slower is named.
func TestLightOnesThatComeAndGo(t *testing.T) {
	base := crowd("shop", 8)
	beside := func(n int, perSecond float64, operation string) []load {
		all := slices.Clip(base)
		for i := range n {
			all = append(all, load{service: "shop", operation: operation, tenant: fmt.Sprint("light-", i), perSecond: perSecond, median: 0.05})
		}
		return all
	}
	lights, many := beside(30, 0.01, "GET /cart"), beside(150, 0.05, "GET /cart")
	staging := func(n int) []load {
		var all []load
		for _, l := range base {
			all = append(all, env("production", l))
		}
		for i := range n {
			all = append(all, env("staging", load{service: "shop", operation: fmt.Sprint("GET /rare", i), tenant: "tester", perSecond: 0.01, median: 0.05}))
		}
		return all
	}
	joined := func(all []load, more ...load) []load { return append(slices.Clip(all), more...) }
	one := func(perSecond float64) load {
		return load{service: "shop", operation: "GET /cart", tenant: "other", perSecond: perSecond, median: 1.5}
	}
	rare := load{service: "shop", operation: "GET /report", tenant: "tenant-3", perSecond: 0.12, median: 1.5}
	for _, c := range []struct {
		name          string
		before, after []load
		moved         string // whose share moved; empty: who became slower
		slower        string
	}{
		{"a tenant begins beside others as light", lights, joined(lights, one(0.12)), "other", ""},
		{"a tenant grows beside others as light", joined(lights, one(0.01)), joined(lights, one(0.2)), "other", ""},
		{"a tenant leaves others as light", joined(lights, one(0.2)), lights, "other", ""},
		{"a tenant begins that is not of the heaviest", many, joined(many, one(0.12)), "other", ""},
		{"an operation begins", lights, joined(lights, rare), "GET /report", ""},
		{"an operation of an environment begins", staging(20), joined(staging(20), env("staging", rare)), "GET /report", ""},
		{"a tenant becomes slower beside others as light", joined(lights, one(0.03)), with(joined(lights, one(0.03)), slow("", "other", 4)), "", "other"},
		{"an operation becomes slower", lights, with(lights, slow("GET /cart", "", 1.25)), "", "GET /cart"},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.9, func(w *world) (bool, string) {
				w.send(time.Hour, c.before...)
				w.send(time.Hour, c.after...)
				r := w.compare("shop", before, after)
				said := fmt.Sprintf("%s: %s | %s", r.Verdict, r.Sentence, warning(r.Warnings, "mix"))
				if c.slower != "" {
					return r.Verdict == judge.Regression && strings.Contains(r.Sentence, c.slower), said
				}
				return !judge.Moved(r.Verdict) && r.Verdict != judge.TooLittle && strings.Contains(r.Sentence, c.moved) && strings.Contains(warning(r.Warnings, "mix"), c.moved), said
			})
		})
	}
}
