package check

import (
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
)

const quietChecks = `
receivers:
  log: {file: {path: events.log}}
maintenance:
  - {name: nightly, cron: "0 1 * * *", duration: 30m, match: '{team="night"}'}
checks:
  daily:
    value: {tcp: {address: "daily:80"}}
    cron: "50 0 * * *"
    threshold: {must: "<", of: 1, critical: 0}
    soft: 1 of 1
    receivers: [log]
    remind: 6h
  night:
    labels: {team: night}
    value: {tcp: {address: "night:80"}}
    every: 1m
    threshold: {must: "<", of: 1, critical: 0}
    receivers: [log]
  hushed:
    value: {tcp: {address: "night:80"}}
    every: 1m
    threshold: {must: "<", of: 1, critical: 0}
    receivers: [log]
    silent: true
`

// What ends or is due between runs is told when it is, not with the next run.
func TestBetweenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quietChecks)
		w.probe.set("daily:80", 2)
		w.probe.set("night:80", 0)
		time.Sleep(59 * time.Minute)
		w.expect(w.notes.take(), "daily opened 1 OK>CRITICAL: daily is CRITICAL: 2 is above 1")
		if _, err := w.Acknowledge(t.Context(), "daily", api.Ack{User: "eva", Until: api.UnixTime(time.Now().Add(2 * time.Hour))}); err != nil {
			t.Fatal(err)
		}
		w.notes.take()
		w.probe.set("night:80", 5)
		time.Sleep(6 * time.Minute)
		w.expect(w.check("night")[:len("CRITICAL (maintenance nightly)")], "CRITICAL (maintenance nightly)")
		w.expect(w.check("hushed")[:len("CRITICAL (silent)")], "CRITICAL (silent)")
		w.expect(w.notes.take(), "")
		time.Sleep(25*time.Minute + 2*time.Second)
		w.expect(w.notes.take(), "night opened 1 OK>CRITICAL: night is CRITICAL: 5 is above 1")
		w.probe.set("night:80", 0)
		time.Sleep(2 * time.Minute)
		w.expect(w.notes.take(), "night resolved 2 CRITICAL>OK: night is OK after 29 min: 0")
		time.Sleep(87 * time.Minute)
		w.expect(w.notes.take(), "daily changed 3 CRITICAL>CRITICAL: daily is CRITICAL: 2 is above 1; for 2.1 h, the acknowledgement has ended")
		time.Sleep(6*time.Hour + 5*time.Second)
		w.expect(w.notes.take(), "daily changed 4 CRITICAL>CRITICAL: daily is CRITICAL: 2 is above 1; for 8.2 h, still not OK")
		w.stop()
	})
}
