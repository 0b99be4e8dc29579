package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"tailscope/api"
	"tailscope/internal/guard/check"
)

// checkCollector collects the results of checks, and of notifications.
type checkCollector struct {
	stats     func() check.Stats
	receivers func() []api.CheckReceiver
}

var (
	checksByState = prometheus.NewDesc("tailscope_checks",
		"Checks by state; PENDING have not run yet.", []string{"state"}, nil)
	checkRuns = prometheus.NewDesc("tailscope_check_runs_total",
		"Runs of checks.", nil, nil)
	checkFailures = prometheus.NewDesc("tailscope_check_failures_total",
		"Runs without a value because something failed.", nil, nil)
	checkSkipped = prometheus.NewDesc("tailscope_check_runs_skipped_total",
		"Runs left out because the one before had not ended.", nil, nil)
	checkLag = prometheus.NewDesc("tailscope_check_lag_seconds",
		"How late runs of the last minutes began: the 99th percentile.", nil, nil)
	checkBeyond = prometheus.NewDesc("tailscope_check_series_beyond",
		"Series that no check is applied to because there are more than each.most.", nil, nil)
	checkIncidents = prometheus.NewDesc("tailscope_check_incidents_total",
		"Incidents opened.", nil, nil)
	checkRefused = prometheus.NewDesc("tailscope_check_results_refused_total",
		"Results that are not stored because the aggregator was overloaded.", nil, nil)
	checkPersist = prometheus.NewDesc("tailscope_check_persist_failures_total",
		"Attempts to keep states that failed and are made again.", nil, nil)
	checkEvents = prometheus.NewDesc("tailscope_check_events_total",
		"Events of incidents, by whether receivers have taken them over.", []string{"outcome"}, nil)
	receiverDeliveries = prometheus.NewDesc("tailscope_receiver_deliveries_total",
		"Notifications sent to receivers, by outcome; failed ones are tried again.", []string{"receiver", "outcome"}, nil)
	receiverSpooled = prometheus.NewDesc("tailscope_receiver_spooled",
		"Notifications that wait for a receiver.", []string{"receiver"}, nil)
	receiverDropped = prometheus.NewDesc("tailscope_receiver_dropped_total",
		"Notifications that a receiver will never get, by cause.", []string{"receiver", "cause"}, nil)
)

func (checkCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{checksByState, checkRuns, checkFailures, checkSkipped, checkLag, checkBeyond, checkIncidents,
		checkRefused, checkPersist, checkEvents, receiverDeliveries, receiverSpooled, receiverDropped} {
		ch <- d
	}
}

func (c checkCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, state := range []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"} {
		send(checksByState, level, float64(s.ByState[state]), state)
	}
	send(checksByState, level, float64(s.Pending), "PENDING")
	send(checkRuns, counts, float64(s.Runs))
	send(checkFailures, counts, float64(s.Failures))
	send(checkSkipped, counts, float64(s.Skipped))
	send(checkLag, level, s.LagSeconds)
	send(checkBeyond, level, float64(s.Beyond))
	send(checkIncidents, counts, float64(s.Incidents))
	send(checkRefused, counts, float64(s.Refused))
	send(checkPersist, counts, float64(s.PersistErrors))
	send(checkEvents, counts, float64(s.EventsSent), "sent")
	send(checkEvents, counts, float64(s.EventsHeld), "held")
	for _, r := range c.receivers() {
		send(receiverDeliveries, counts, float64(r.Delivered), r.Name, "delivered")
		send(receiverDeliveries, counts, float64(r.Failed), r.Name, "failed")
		send(receiverSpooled, level, float64(r.Spooled), r.Name)
		for cause, n := range r.Dropped {
			send(receiverDropped, counts, float64(n), r.Name, cause)
		}
	}
}
