package words

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

// Spec is what a file says. Durations are seconds.
type Spec struct {
	Name     string
	Text     string // the file
	Leaves   []Leaf
	Layouts  []Layout // the first is what others are measured against
	Variable string   // the key that is varied; empty if none is
	Asks     float64  // the quantile that the answer is about
	Moments  string   // All, Durations or None
	Queries  uint64
	Seed     uint64
	Currency string
}

// What changes from slot to slot.
const (
	All       = "all" // durations and rate
	Durations = "leaves"
	None      = "none"
)

// Leaf is one class of queries, or a source of several.
type Leaf struct {
	Name          string  // empty: that of what is found
	Weight        float64 // NaN: as counted
	From          []From  // several are of several numbers of shards, ascending
	Fixed, Waits  float64
	Together      float64 // NaN: not said
	Before, After *simulate.Cost
	At            strictyaml.Place
}

// From is where durations are from: Service of a store, File, or Takes.
type From struct {
	Service, Operation, Match string
	Since, Every              time.Duration // 0: not said
	Start, End                string        // as the API has moments; empty: not said
	File, Query               string
	Takes                     *simulate.Distribution
	Said                      string  // Takes, for people
	Shards                    float64 // 0: not said
	At                        strictyaml.Place
}

// Layout is one of those that are simulated.
type Layout struct {
	simulate.Layout
	Curve string
	At    strictyaml.Place
	Keys  map[string]bool // that are said, for what is worth a warning
}

// Stores says whether anything is read out of a store.
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

// Largest is the most shards that a query asks in any layout.
func (s *Spec) Largest() int {
	most := 1
	for _, l := range s.Layouts {
		most = max(most, l.InShards())
	}
	return most
}

var nan = math.NaN()

// QuantileName is p99 of 0.99, p99.9 of 0.999.
func QuantileName(q float64) string {
	return "p" + strconv.FormatFloat(math.Round(q*1e8)/1e6, 'f', -1, 64)
}

// Selector is the matchers of leaves in a store, for PromQL.
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

// Range is when leaves of a store are read, and in which slots, as the API has moments;
// empty where the server decides.
func (f From) Range(now time.Time) (start, end, step string) {
	start, end = f.Start, f.End
	if f.Every > 0 {
		step = f.Every.String()
	}
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
	return start, end, step
}
