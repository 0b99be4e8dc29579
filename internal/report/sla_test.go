package report

import (
	"testing"
)

func TestReportNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{PerTime(1204.4), "1,204/s"}, {PerTime(34.115), "34.1/s"}, {PerTime(0.1), "6.00/min"}, {PerTime(0.001), "3.60/h"}, {PerTime(0), "0/s"},
		{floorPercent(0.98999), "98.999 %"}, {floorPercent(0.9899999), "98.999 %"}, {floorPercent(0.99), "99.000 %"}, {floorPercent(1), "100.000 %"},
		{change(0.7), "−30.0 %"}, {change(1), "±0.0 %"}, {change(12040), "×12040"}, {change(1.234), "+23.4 %"}, {difference(-0.01), "−0.010"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
