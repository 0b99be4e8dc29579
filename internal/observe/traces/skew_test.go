package traces

import (
	"testing"

	"tailscope/internal/series"
)

func TestSkew(t *testing.T) {
	const ahead = `clock_skew_seconds{direction="ahead", peer="web", service="pay"}: 1 in `
	const behind = `clock_skew_seconds{direction="behind", peer="web", service="pay"}: 1 in `
	for _, tc := range []struct{ name, text, want, self string }{
		{"inside: nothing to see", `
			a - web server app o 0-100
			b a web client external c 20-80
			c b pay server app c 30-70`,
			"", "pay app c 40000\nweb app o 40000\nweb external c 20000"},
		{"ahead, and what is below moves along", `
			a - web server app o 0-100
			b a web client external c 20-80
			c b pay server app c 530-570
			d c pay client db q 540-550`,
			ahead + "500ms", "pay app c 30000\npay db q 10000\nweb app o 40000\nweb external c 20000"},
		{"behind", `
			a - web server app o 0-100
			b a web client external c 20-80
			c b pay server app c 10-50`,
			behind + "20ms", "pay app c 40000\nweb app o 40000\nweb external c 20000"},
		{"begins before and lasts longer: starts are aligned", `
			a - web server app o 0-100
			b a web client external c 20-80
			c b pay server app c 10-90`,
			behind + "10ms", "pay app c 70000\nweb app o 30000"},
		{"a caller that gave up", `
			a - web server app o 0-100
			b a web client external c 20-80
			c b pay server app c 30-170`,
			"", "pay app c 60000\nweb app o 30000\nweb external c 10000"},
		{"a caller that failed and gave up", `
			a - web server app o 0-100
			b a web client external c 20-80 failed
			c b pay server app c 50-90`,
			"", "pay app c 35000\nweb app o 35000\nweb external c 30000"},
		{"a message may wait", `
			a - web server app o 0-100
			b a web producer messaging c 20-30
			c b pay consumer app c 50-90`,
			"", "pay app c 20000\nweb app o 70000\nweb messaging c 10000"},
		{"but not before it was sent", `
			a - web server app o 0-100
			b a web producer messaging c 20-40
			c b pay consumer app c 10-20`,
			behind + "10ms", "pay app c 10000\nweb app o 80000\nweb messaging c 10000"},
		{"one service, one clock", `
			a - web server app o 0-100 at=w1
			b a web internal app c 90-150 at=w1`,
			"", "web app c 10000\nweb app o 90000"},
		{"the address of a call is not a clock", `
			a - web server app o 10-100 at=w1
			b a web client db q 0-20 at=db:5432`,
			"", "web app o 80000\nweb db q 10000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, st := flushed(t, Options{}, tc.text)
			diff(t, s.dump(series.ClockSkew), tc.want)
			if got := uint64(1); tc.want != "" && st.Skewed != got || tc.want == "" && st.Skewed != 0 {
				t.Errorf("%d skewed", st.Skewed)
			}
			diffSet(t, counts(s, series.BreakdownSelf, `operation="o", p`), tc.self)
		})
	}
}

func TestInstancesAreClocks(t *testing.T) {
	s, _ := flushed(t, Options{}, `
		a - web server app o 0-100 at=w1
		b a web server app p 300-350 at=w2`)
	diff(t, s.dump(series.ClockSkew), "")
	s, _ = flushed(t, Options{}, `
		a - web internal app o 50-100 at=w1
		b a web server app p 20-50 at=w2`)
	diff(t, s.dump(series.ClockSkew), `clock_skew_seconds{direction="behind", peer="web", service="web"}: 1 in 40ms`)
}
