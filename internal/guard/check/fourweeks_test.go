package check

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/agg"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/store/storetest"
)

var update = flag.Bool("update", false, "rewrite testdata")

// clocked keeps when receivers were told besides.
type clocked struct {
	notes
	at []time.Time
}

func (c *clocked) Events(ctx context.Context, receivers []string, events []event.Event) error {
	for range events {
		c.at = append(c.at, time.Now())
	}
	return c.notes.Events(ctx, receivers, events)
}

const office = `
zone: Europe/Stockholm
receivers:
  log: {file: {path: events.log}}
calendars:
  sweden: {zone: Europe/Stockholm, holidays: [easter-2, easter+1, 10-31+sat]}
profiles:
  office:
    calendar: sweden
    days:
      - {holiday: true, none: true}
      - name: weekend
        weekdays: [sat, sun]
        intervals: [{from: "02:00", to: "04:00", value: 200}]
      - name: weekdays
        hours: [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 200, 200, 200, 200, 200, 200, 200, 200, 100, 100, 100, 100, 100, 100]
checks:
  orders:
    value: {tcp: {address: "orders:80"}}
    cron: "*/10 * * * *"
    threshold: {must: ">", of: profile office, warning: 10%}
    soft: 1 of 1
    receivers: [log]
  interval: {value: {tcp: {address: "interval:80"}}, every: 10m}
  follows: {value: {tcp: {address: "follows:80"}}, after: orders, delay: 5s}
  nightly: {value: {tcp: {address: "nightly:80"}}, cron: "30 2 * * *"}
  workdays: {value: {tcp: {address: "workdays:80"}}, cron: "0 0 9 ? * MON-FRI"}
maintenance:
  - {name: backup, cron: "0 3 * * SUN", duration: 30m, checks: [orders]}
`

// An engine goes through four weeks around each change of the clock, within
// seconds. 151 orders are too few where the threshold is above 151/0.9: between
// 09:41 and 17:19 on working days that are no holidays, by the straight lines from
// and to 200, and from two to four at weekends, whatever the clock does then. On
// Sundays nothing is told from three to half past.
func TestFourWeeks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone, err := time.LoadLocation("Europe/Stockholm")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, first := range []string{"2026-03-16", "2026-10-12"} {
			start, err := time.ParseInLocation("2006-01-02", first, zone)
			if err != nil {
				t.Fatal(err)
			}
			end := start.AddDate(0, 0, 28)
			time.Sleep(time.Until(start) - 30*time.Second) // as good as waited for
			w, told := &world{t: t, store: &mortal{Store: storetest.NewTwin()}, probe: newProbes()}, new(clocked)
			if w.agg, err = agg.Open(t.Context(), w.store, agg.Options{Writer: "local", Dir: t.TempDir(), FlushInterval: time.Hour, SyncInterval: time.Hour}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"orders", "interval", "follows", "nightly", "workdays"} {
				w.probe.set(name+":80", 151)
			}
			if w.Engine, err = Open(t.Context(), Options{Store: w.store, Agg: w.agg, Prober: w.probe, Notifier: told, File: readFile(t, office)}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); w.Run(ctx) }()
			time.Sleep(time.Until(end) - 15*time.Second)
			cancel()
			<-done
			if err := w.agg.Close(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
			fmt.Fprintf(&b, "four weeks from %s, %g hours\n", start.Format("Mon 2006-01-02"), end.Sub(start).Hours())
			for _, name := range []string{"orders", "interval", "follows", "nightly", "workdays"} {
				fmt.Fprintf(&b, "  %-9s %4d runs\n", name, w.probe.ran(name+":80"))
			}
			for i, e := range told.events {
				at := e.Time.In(zone)
				switch e.Kind {
				case event.Opened:
					fmt.Fprintf(&b, "  %s  %s below %g", at.Format("Mon 2006-01-02 15:04 -0700"), e.To, e.Bands.LowWarning)
				case event.Changed:
					fmt.Fprintf(&b, ", told again at %s", at.Format("15:04 -0700"))
				case event.Resolved:
					fmt.Fprintf(&b, ", until %s: %s", at.Format("15:04 -0700"), e.Bands.Rule)
				default:
					t.Errorf("%s is told %s", e.Key.ID(), e.Kind)
				}
				if late := told.at[i].Sub(e.Time); late > time.Minute {
					fmt.Fprintf(&b, " (told at %s)", told.at[i].In(zone).Format("15:04"))
				}
				if e.Kind == event.Resolved {
					b.WriteString("\n")
				}
			}
		}
		file := filepath.Join("testdata", "fourweeks.txt")
		if *update {
			if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("got\n%s\nwant\n%s\n(-update rewrites it)", b.String(), want)
		}
	})
}
