package spec

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"tailscope/internal/experiment/simulate"
	"tailscope/internal/strictyaml"
)

// Bounds of a file.
const (
	leastQueries = 1000
	mostQueries  = 20_000_000
	mostLayouts  = 256
	mostLeaves   = 64
)

// Spec is the content of a file. Durations are seconds.
type Spec struct {
	Name     string `key:"simulate" is:"word" need:"yes" doc:"Its name."`
	Text     string // the file
	Leaves   []Leaf
	Layouts  []Layout // the first is what others are measured against
	Variable string   // the key that is varied; empty if none is
	Asks     float64  `key:"asks" is:"quantile" default:"p99" doc:"The quantile of whole queries that the answer is about, for which there must be observations enough."`
	Moments  string   `key:"moments" is:"all|leaves|none" default:"all" doc:"What changes from slot to slot as it was measured: leaves' durations and the rate of queries (all), durations, or nothing."`
	Queries  uint64   `key:"queries" is:"queries" default:"100k" doc:"How many are simulated for each layout, such as 500k."`
	Seed     uint64   `key:"seed" is:"0.." default:"1" doc:"Of all that is drawn."`
	Currency string   `key:"currency" doc:"Of prices, such as €; default nothing is said."`
}

// Parts that change from slot to slot.
const (
	All       = "all" // durations and rate
	Durations = "leaves"
	None      = "none"
)

// Leaf is one class of queries, or a source of several.
type Leaf struct {
	Name     string         `key:"name" is:"word" doc:"Of the class; default that of the operation or the file."`
	Weight   float64        `key:"weight" is:"amount" doc:"Share of queries against other classes' weights, such as 80%; default as they were counted."` // NaN: as counted
	From     []From         // several are of several numbers of shards, ascending
	Fixed    float64        `key:"fixed" is:"seconds of" doc:"What of a leaf's time does not shrink with its shard, where it was measured at one number of shards; default 0."`
	Together float64        `key:"together" is:"share" doc:"How alike leaves of one query are beyond class and moment, a correlation from 0 to 1; default out of kept traces where there are some, else 0."` // NaN: not said
	Waits    float64        `key:"waits" is:"share" doc:"Share of a leaf's time in which no core is busy with it, as it waits for a disc or another service; default 0."`
	Before   *simulate.Cost `key:"before" doc:"What the aggregator does before leaves are asked, for this class."`
	After    *simulate.Cost `key:"after" doc:"What it does when the last one has answered, for this class."`
	At       strictyaml.Place
}

// From is the source of durations: Service of a store, File, or Takes. Start and End
// are moments as in the API; zero is the server's default.
type From struct {
	Service   string        `key:"service" doc:"Whose requests leaves are, out of the server's store."`
	Operation string        `key:"operation" doc:"Only this one; default each operation is a class."`
	Match     string        `key:"match" doc:"Further matchers, such as '{instance=\"solr-1\"}'."`
	Since     time.Duration `key:"since" doc:"How far back from end; default 1h."`
	Start     string        `key:"start" doc:"Beginning instead of since: RFC 3339, Unix seconds, or now-6h."`
	End       string        `key:"end" doc:"End; default now."`
	Every     time.Duration `key:"every" doc:"Length of a slot; default the shortest of 10s, 1m, 10m and 1h that has observations enough."`
	File      string        `key:"file" doc:"Result of tailscope bench, leaves that tailscope simulate leaves wrote, or a text with a duration in each line; from the directory of this file."`
	Query     string        `key:"query" doc:"Only this one of the file; default each is a class."`
	Takes     *simulate.Distribution
	Said      string // Takes, for people
	Shards    int    `key:"shards" is:"1..100000" doc:"In how many shards the data was when it was measured; default as the first layout has."`
	At        strictyaml.Place
}

// Layout is one layout of a simulation.
type Layout struct {
	simulate.Layout
	Curve string
	At    strictyaml.Place
	Keys  map[string]bool // that are said, for what is worth a warning
}

// Stores reports whether anything is read from a store.
func (s *Spec) Stores() bool {
	for _, l := range s.Leaves {
		for _, f := range l.From {
			if f.Service != "" {
				return true
			}
		}
	}
	return false
}

// Largest returns the most shards that a query asks in any layout.
func (s *Spec) Largest() int {
	most := 1
	for _, l := range s.Layouts {
		most = max(most, l.InShards())
	}
	return most
}

var nan = math.NaN()

// Selector returns the PromQL matchers of leaves in a store.
func (f From) Selector() string {
	ms := []string{"service=" + strconv.Quote(f.Service)}
	if f.Operation != "" {
		ms = append(ms, "operation="+strconv.Quote(f.Operation))
	}
	rest := strings.TrimSpace(f.Match)
	if strings.HasPrefix(rest, "{") && strings.HasSuffix(rest, "}") {
		rest = strings.TrimSpace(rest[1 : len(rest)-1])
	}
	if rest = strings.TrimSuffix(rest, ","); rest != "" {
		ms = append(ms, rest)
	}
	return "{" + strings.Join(ms, ",") + "}"
}

// Range returns when leaves of a store are read, as moments of the API; empty for the
// server's default.
func (f From) Range(now time.Time) (start, end string) {
	start, end = f.Start, f.End
	if start == "" && f.Since > 0 {
		switch at, err := time.Parse(time.RFC3339, end); {
		case end == "" || end == "now":
			start = strconv.FormatInt(now.Add(-f.Since).Unix(), 10)
		case err == nil:
			start = strconv.FormatInt(at.Add(-f.Since).Unix(), 10)
		default:
			if unix, err := strconv.ParseInt(end, 10, 64); err == nil {
				start = strconv.FormatInt(unix-int64(f.Since.Seconds()), 10)
			} else if back, ok := strings.CutPrefix(end, "now-"); ok {
				if d, err := model.ParseDuration(back); err == nil {
					start = strconv.FormatInt(now.Add(-time.Duration(d)-f.Since).Unix(), 10)
				}
			}
		}
	}
	return start, end
}
