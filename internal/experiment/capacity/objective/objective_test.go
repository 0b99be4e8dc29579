package objective

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want Objective
	}{
		{"p99 < 200ms", Objective{{"p99 < 200ms", Part{}, "quantile", 0.99, 0.2}}},
		{" p(99.9)<1.5s and errors < 0.1% ", Objective{{"p(99.9)<1.5s", Part{}, "quantile", 0.999, 1.5}, {"errors < 0.1%", Part{}, "errors", 0, 0.001}}},
		{"mean <= 30ms AND max < 2s, errors < 1%", Objective{{"mean <= 30ms", Part{}, "mean", 0, 0.03}, {"max < 2s", Part{}, "max", 0, 2}, {"errors < 1%", Part{}, "errors", 0, 0.01}}},
		{"p95{search and find} < 80ms", Objective{{"p95{search and find} < 80ms", Part{Query: "search and find"}, "quantile", 0.95, 0.08}}},
		{"p95{this or that} < 80ms", Objective{{"p95{this or that} < 80ms", Part{Query: "this or that"}, "quantile", 0.95, 0.08}}},
		{"p99 < 200ms and primary p99 < 300ms", Objective{{"p99 < 200ms", Part{}, "quantile", 0.99, 0.2}, {"primary p99 < 300ms", Part{Side: Primary}, "quantile", 0.99, 0.3}}},
	} {
		got, err := Parse(c.text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %+v, %v, want %+v", c.text, got, err, c.want)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "hint: write one as"},
		{"p99 < 200", "has no unit"},
		{"p99 > 200ms", "write < in place of >"},
		{"rate > 100/s", "is what is searched for"},
		{"p99 < 200ms,", "it is empty"},
		{"p99 < 200ms and p(99) < 100ms", "are on the same"},
		{"p99 < 200ms, abort", "hint"},
		{"errors < 100%", "no share of errors breaks it"},
		{"checks < 1%", "is on a percentile, mean, max or errors"},
		{"p99{phase: peak} < 1s", "on all requests or on a query's"},
		{"eror < 1%", "did you mean errors"},
		{"p99 < 200ms or errors < 1%", "hint: and joins conditions; run two searches"},
		{"p99{a} < 200ms OR p99{b} < 1s", "hint: and joins conditions; run two searches"},
		{"p99 < 200ms || mean < 1s", "hint: and joins conditions; run two searches"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestCheckNamesTheNearestQuery(t *testing.T) {
	o, err := Parse("p99{serch} < 80ms and p99 < 1s")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Check([]string{"search", "get"}); err == nil || !strings.Contains(err.Error(), "did you mean search?") {
		t.Errorf("got %v", err)
	}
	if err := o.Check([]string{"serch"}); err != nil {
		t.Error(err)
	}
	if got := o.Parts(); !reflect.DeepEqual(got, []Part{{Query: "serch"}, {}}) {
		t.Errorf("parts %+v", got)
	}
}

// What is read is written as it can be read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"p99 < 200ms and errors < 0.1%", "primary mean < 1s, max{a} <= 2s", "p(99.9){ and } < 1ms", "p99<"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(o.String())
		if err != nil || !reflect.DeepEqual(o, again) {
			t.Errorf("%q: %+v is read again as %+v, %v", text, o, again, err)
		}
		for _, c := range o {
			if !(c.Limit >= 0) || c.Measure == "quantile" && !(c.Quantile > 0 && c.Quantile < 1) {
				t.Errorf("%q: %+v", text, c)
			}
		}
	})
}
