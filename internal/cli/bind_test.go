package cli

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/api"
)

// everyType has a field of each type that a flag can be bound to.
type everyType struct {
	Text     string         `query:"text" doc:"a text; default none" value:"word"`
	Count    int            `query:"row_count" doc:"a number; default 10"`
	Yes      bool           `query:"yes" doc:"a truth"`
	Time     api.Time       `query:"time" doc:"a moment"`
	Length   time.Duration  `query:"length" doc:"a duration" positive:"%s is not positive"`
	Slide    time.Duration  `query:"slide" doc:"a duration that may be 0"`
	Offset   time.Duration  `query:"offset" doc:"a duration either way" signed:"yes"`
	Settle   *time.Duration `query:"settle" doc:"a duration of which 0 is not the default"`
	Level    float64        `query:"level" doc:"a share as a number" example:"0.95"`
	Seconds  float64        `query:"t" doc:"a duration in seconds" unit:"seconds" flag:"target" help:"a duration"`
	Rare     api.Share      `query:"rare" doc:"a share"`
	Above    api.Quantile   `query:"above" doc:"a quantile" example:"0.95"`
	Q        api.Quantiles  `query:"q" doc:"quantiles"`
	By       []string       `query:"by" doc:"labels"`
	At       []float64      `query:"at" doc:"values"`
	Low      *float64       `query:"low" doc:"a bound"`
	Channel  chan int       `query:"channel"` // of a type that is not bound
	Internal int
}

var everyFlag = []string{"text", "row-count", "yes", "time", "length", "slide", "offset", "settle", "level", "target", "rare", "above", "q", "by", "at", "low"}

func TestBind(t *testing.T) {
	zero, second, number := time.Duration(0), 30*time.Second, 0.25
	for _, c := range []struct {
		flag, text string
		want       everyType
		wrong      string
	}{
		{"text", "a, b", everyType{Text: "a, b"}, ""},
		{"row-count", "7", everyType{Count: 7}, ""},
		{"row-count", "7.5", everyType{}, `--row-count: "7.5" is not a whole number: write one such as 8`},
		{"yes", "true", everyType{Yes: true}, ""},
		{"yes", "perhaps", everyType{}, `--yes: "perhaps" is neither true nor false`},
		{"time", "now-1h", everyType{Time: "now-1h"}, ""},
		{"time", "0", everyType{Time: "0"}, ""},
		{"time", "2026-03-01T12:00:00Z", everyType{Time: "2026-03-01T12:00:00Z"}, ""},
		{"time", "2026-03-01 12:00", everyType{Time: unix(time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local).Unix())}, ""},
		{"time", "soon", everyType{}, `--time "soon" is not a moment: write RFC 3339, Unix seconds, 2006-01-02 15:04, now or now-6h`},
		{"length", "1.5h", everyType{Length: 90 * time.Minute}, ""},
		{"length", "0.25", everyType{Length: 250 * time.Millisecond}, ""},
		{"length", "1w2d", everyType{Length: 9 * 24 * time.Hour}, ""},
		{"length", "0", everyType{}, `--length "0" is not a time: write one such as 500ms or 0.5`},
		{"length", "1e-10", everyType{}, `--length "1e-10" is not a time: write one such as 500ms or 0.5`},
		{"length", "1e99", everyType{}, `--length "1e99" is not a time: write one such as 500ms or 0.5`},
		{"length", "200y", everyType{}, `--length "200y" is not a time: write one such as 500ms or 0.5`},
		{"length", "NaN", everyType{}, `--length "NaN" is not a time: write one such as 500ms or 0.5`},
		{"length", "fast", everyType{}, `--length "fast" is not a time: write one such as 500ms or 0.5`},
		{"slide", "0", everyType{}, ""},
		{"slide", "-1s", everyType{}, `--slide "-1s" is not a time: write one such as 500ms or 0.5`},
		{"offset", "-1d", everyType{Offset: -24 * time.Hour}, ""},
		{"offset", "--1d", everyType{}, `--offset "--1d" is not a time: write one such as 500ms or 0.5`},
		{"settle", "30s", everyType{Settle: &second}, ""},
		{"settle", "0", everyType{Settle: &zero}, ""},
		{"settle", "-30s", everyType{}, `--settle "-30s" is not a time: write one such as 500ms or 0.5`},
		{"level", "99.9 %", everyType{Level: 0.999}, ""},
		{"level", "0.9", everyType{Level: 0.9}, ""},
		{"level", "95", everyType{}, `--level "95" is more than everything: write 95%`},
		{"level", "most", everyType{}, `--level "most" is not a share: write one between 0% and 100%, such as 95%`},
		{"target", "300ms", everyType{Seconds: 0.3}, ""},
		{"target", "1.25", everyType{Seconds: 1.25}, ""},
		{"target", "0", everyType{}, `--target "0" is not a time: write one such as 500ms or 0.5`},
		{"rare", "0.5%", everyType{Rare: 0.005}, ""},
		{"rare", "-1%", everyType{}, `--rare "-1%" is not a share: write one between 0% and 100%, such as 1%`},
		{"above", "0.999", everyType{Above: 0.999}, ""},
		{"above", "99", everyType{}, `--above "99" is not a quantile: write one between 0 and 1, such as 0.95`},
		{"above", "p99", everyType{}, `--above "p99" is not a quantile: write one between 0 and 1, such as 0.95`},
		{"q", "0.50, 0.9", everyType{Q: api.Quantiles{"0.50", "0.9"}}, ""},
		{"by", "service,,operation", everyType{By: []string{"service", "operation"}}, ""},
		{"at", "200ms,1,1d", everyType{At: []float64{0.2, 1, 86400}}, ""},
		{"at", "1,fast", everyType{}, `--at "fast": write values such as 200ms or 0.2`},
		{"low", "250ms", everyType{Low: &number}, ""},
		{"low", "0.25", everyType{Low: &number}, ""},
		{"low", "Inf", everyType{}, `--low "Inf": write a value such as 200ms or 0.2`},
		{"low", "slow", everyType{}, `--low "slow": write a value such as 200ms or 0.2`},
	} {
		var got everyType
		cmd := &cobra.Command{Use: "x"}
		bind(cmd.Flags(), &got, everyFlag...)
		err := cmd.Flags().Parse([]string{"--" + c.flag + "=" + c.text})
		if c.wrong != "" {
			if err == nil {
				t.Errorf("--%s %s: got %+v, want an error", c.flag, c.text, got)
			} else if said := flagError(cmd, err).Error(); said != c.wrong {
				t.Errorf("--%s %s: got %s, want %s", c.flag, c.text, said, c.wrong)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("--%s %s: got %+v, %v; want %+v", c.flag, c.text, got, err, c.want)
		}
	}
}

// What is not given, or given as nothing, is left to the server; what the request
// holds is the default, and the last of several values counts.
func TestBindDefaults(t *testing.T) {
	parse := func(into *everyType, args ...string) {
		t.Helper()
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		bind(fs, into, everyFlag...)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
	}
	var got everyType
	parse(&got)
	parse(&got, "--text=", "--time=", "--length=", "--settle=", "--level=", "--target=", "--rare=", "--above=", "--q=", "--by=", "--at=", "--low=")
	if !reflect.DeepEqual(got, everyType{}) {
		t.Errorf("nothing given: got %+v", got)
	}
	got = everyType{Text: "a", Count: 3}
	parse(&got)
	if want := (everyType{Text: "a", Count: 3}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want the defaults %+v", got, want)
	}
	parse(&got, "--at=1,2", "--at=3", "--text=b")
	if want := (everyType{Text: "b", Count: 3, At: []float64{3}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBindHelp(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	bind(fs, &everyType{Text: "a", Count: 3}, everyFlag...)
	help := strings.Join(strings.Fields(fs.FlagUsages()), " ")
	for _, want := range []string{
		"--text word a text (default a)", "--row-count int a number (default 3)", "--yes a truth", "--time moment a moment",
		"--length duration a duration", "--settle duration", "--level share a share as a number", "--target duration a duration",
		"--rare share a share", "--above quantile a quantile", "--q quantiles quantiles", "--by list labels", "--at values values", "--low value a bound",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("help lacks %q:\n%s", want, fs.FlagUsages())
		}
	}
}

// A parameter with a key is named by it, is read as files have it, and is a number
// without a unit too.
func TestBoundSettings(t *testing.T) {
	var got everyType
	var set settings
	cmd := &cobra.Command{Use: "x"}
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	bind(all, &got, everyFlag...)
	set.register(cmd, all, "level=99%", "rare")
	for text, wrong := range map[string]string{
		"level=99%": "", "settle=30": "", "yes=yes": "", "rare=1%": "",
		"level=95":    `--set level "95" is more than everything: write 95%`,
		"length=soon": `--set length "soon" is not a time: write one such as 500ms or 0.5`,
		"rare=2":      `--rare "2" is more than everything: write 2%`,
	} {
		err := cmd.Flags().Parse([]string{"--set", text})
		if (err != nil) != (wrong != "") || err != nil && flagError(cmd, err).Error() != wrong {
			t.Errorf("--set %s: got %v, want %q", text, err, wrong)
		}
	}
}

// A flag of a parameter that a request does not have is a slip of its author.
func TestBindPanics(t *testing.T) {
	for _, name := range []string{"internal", "channel"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("--%s was bound", name)
				}
			}()
			bind(pflag.NewFlagSet("", pflag.ContinueOnError), new(everyType), name)
		}()
	}
}
