package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"tailscope/internal/agg"
	"tailscope/internal/observe/otlp"
)

// reading is one metric, read from a part's statistics.
type reading[S any] struct {
	name, help string
	kind       prometheus.ValueType
	read       func(S) float64
}

var sampleReadings = []reading[int64]{
	{"tailscope_store_sample_bytes", "Bytes of raw samples held in memory for what checks look up.", level, func(n int64) float64 { return float64(n) }},
}

// partCollector reads a part's statistics once per scrape.
type partCollector[S any] struct {
	stats    func() S
	readings []reading[S]
	descs    []*prometheus.Desc
}

func newPartCollector[S any](stats func() S, readings []reading[S]) *partCollector[S] {
	c := &partCollector[S]{stats: stats, readings: readings}
	for _, r := range readings {
		c.descs = append(c.descs, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	return c
}

func (c *partCollector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *partCollector[S]) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	for i, r := range c.readings {
		ch <- prometheus.MustNewConstMetric(c.descs[i], r.kind, r.read(s))
	}
}

const (
	counts = prometheus.CounterValue
	level  = prometheus.GaugeValue
)

var aggregatorReadings = []reading[agg.Stats]{
	{"tailscope_observations_total", "Observations accepted.", counts, func(s agg.Stats) float64 { return float64(s.Observations) }},
	{"tailscope_observations_late_total", "Observations accepted into a slot that had been flushed before.", counts, func(s agg.Stats) float64 { return float64(s.Late) }},
	{"tailscope_stream_resets_total", "Cumulative streams that began anew.", counts, func(s agg.Stats) float64 { return float64(s.Resets) }},
	{"tailscope_unmergeable_histograms_total", "Histograms left out because their bounds fit nothing else of their series and slot.", counts, func(s agg.Stats) float64 { return float64(s.Unmergeable) }},
	{"tailscope_overloads_total", "Requests refused, to be retried, because memory or the journal was at its bound.", counts, func(s agg.Stats) float64 { return float64(s.Overloads) }},
	{"tailscope_generations_total", "Generations flushed to the store.", counts, func(s agg.Stats) float64 { return float64(s.Generations) }},
	{"tailscope_flush_failures_total", "Flushes that failed and were or will be tried again.", counts, func(s agg.Stats) float64 { return float64(s.FlushErrors) }},
	{"tailscope_journal_sync_failures_total", "Syncs of the journal that failed.", counts, func(s agg.Stats) float64 { return float64(s.SyncErrors) }},
	{"tailscope_journal_replayed_total", "Entries replayed from the journal at the start.", counts, func(s agg.Stats) float64 { return float64(s.Replayed) }},
	{"tailscope_journal_recovered_total", "Entries replayed at the start that the store's log had lost.", counts, func(s agg.Stats) float64 { return float64(s.Recovered) }},
	{"tailscope_journal_lost_total", "Entries acknowledged and lost with journals that are damaged or missing.", counts, func(s agg.Stats) float64 { return float64(s.Lost) }},
	{"tailscope_journal_kept_bytes", "Bytes of journals kept until their generation lies in a table of the store.", level, func(s agg.Stats) float64 { return float64(s.JournalKeptBytes) }},
	{"tailscope_folded_tenants_total", "Resolutions of tenants to _other, because others are heavier.", counts, func(s agg.Stats) float64 { return float64(s.FoldedTenants) }},
	{"tailscope_folded_operations_total", "Resolutions of operations to _other.", counts, func(s agg.Stats) float64 { return float64(s.FoldedOperations) }},
	{"tailscope_folded_values_total", "Resolutions of versions, variants, instances and extra labels to _other.", counts, func(s agg.Stats) float64 { return float64(s.FoldedValues) }},
	{"tailscope_active_series", "Series held in memory.", level, func(s agg.Stats) float64 { return float64(s.ActiveSeries) }},
	{"tailscope_streams", "Cumulative and delta streams remembered.", level, func(s agg.Stats) float64 { return float64(s.Streams) }},
	{"tailscope_pending_generations", "Generations cut and not yet stored.", level, func(s agg.Stats) float64 { return float64(s.Pending) }},
	{"tailscope_journal_bytes_total", "Bytes written to the journal.", counts, func(s agg.Stats) float64 { return float64(s.JournalBytes) }},
	{"tailscope_open_bytes", "Bytes of open slots and tables, bounded by limits.memory.", level, func(s agg.Stats) float64 { return float64(s.MemoryBytes) }},
}

// ingestCollector collects what OTLP brought, and what was refused and why.
type ingestCollector struct{ stats func() otlp.Stats }

var (
	ingestItems = prometheus.NewDesc("tailscope_ingest_items_total",
		"Spans, data points and log records accepted.", []string{"signal"}, nil)
	ingestRejected = prometheus.NewDesc("tailscope_ingest_rejected_total",
		"Spans, data points and log records refused while the rest of their request was accepted.", []string{"signal", "reason"}, nil)
	ingestRequests = prometheus.NewDesc("tailscope_ingest_requests_total",
		"Requests, those refused whole among them.", []string{"protocol"}, nil)
	ingestRefused = prometheus.NewDesc("tailscope_ingest_requests_refused_total",
		"Requests refused whole: the sender is to retry overloaded and unavailable ones.", []string{"protocol", "reason"}, nil)
	ingestBytes = prometheus.NewDesc("tailscope_ingest_bytes_total",
		"Bytes of request bodies, as received over HTTP and unpacked over gRPC.", []string{"protocol"}, nil)
	ingestArriving = prometheus.NewDesc("tailscope_ingest_arriving_requests",
		"Requests whose bodies are not there yet.", []string{"protocol"}, nil)
	ingestQueueImplausible = prometheus.NewDesc("tailscope_ingest_queue_times_implausible_total",
		"Spans whose X-Request-Start or X-Queue-Start was more than a day off and left out.", nil, nil)
	ingestInFlight = prometheus.NewDesc("tailscope_ingest_in_flight_bytes",
		"Bytes of requests being worked on.", nil, nil)
)

func (c ingestCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ingestItems, ingestRejected, ingestRequests, ingestRefused, ingestBytes, ingestArriving, ingestQueueImplausible, ingestInFlight} {
		ch <- d
	}
}

func (c ingestCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	add := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, counts, float64(v), labels...)
	}
	add(ingestItems, s.Spans, "spans")
	add(ingestItems, s.Points, "points")
	add(ingestItems, s.LogRecords, "log_records")
	add(ingestQueueImplausible, s.QueueImplausible)
	for _, r := range s.Rejected {
		add(ingestRejected, r.Count, r.Signal, r.Reason)
	}
	for _, p := range []struct {
		name string
		otlp.ProtocolStats
	}{{"grpc", s.GRPC}, {"http", s.HTTP}} {
		add(ingestRequests, p.Requests, p.name)
		add(ingestBytes, p.Bytes, p.name)
		add(ingestRefused, p.Malformed, p.name, "malformed")
		add(ingestRefused, p.TooLarge, p.name, "too_large")
		add(ingestRefused, p.Overloaded, p.name, "overloaded")
		add(ingestRefused, p.Unavailable, p.name, "unavailable")
		add(ingestRefused, p.Broken, p.name, "broken")
		add(ingestRefused, p.Slow, p.name, "slow")
		ch <- prometheus.MustNewConstMetric(ingestArriving, level, float64(p.Arriving), p.name)
	}
	ch <- prometheus.MustNewConstMetric(ingestInFlight, level, float64(s.InFlightBytes))
}

// listenerCollector collects the connections of each listener.
type listenerCollector struct{ listeners []listener }

var (
	connectionsOpen = prometheus.NewDesc("tailscope_connections",
		"Connections open, bounded by limits.connections for each listener, and by mirror.clients for the mirror's.", []string{"listener"}, nil)
	connectionsClosed = prometheus.NewDesc("tailscope_connections_closed_total",
		"Connections closed at the bound: idle ones for a newcomer, or the newcomer.", []string{"listener", "which"}, nil)
)

func (c listenerCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- connectionsOpen
	ch <- connectionsClosed
}

func (c listenerCollector) Collect(ch chan<- prometheus.Metric) {
	for _, l := range c.listeners {
		st := l.stats()
		ch <- prometheus.MustNewConstMetric(connectionsOpen, level, float64(st.Open), l.name)
		ch <- prometheus.MustNewConstMetric(connectionsClosed, counts, float64(st.Evicted), l.name, "idle")
		ch <- prometheus.MustNewConstMetric(connectionsClosed, counts, float64(st.Refused), l.name, "newcomer")
	}
}
