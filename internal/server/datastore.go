package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/api"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// dataStore is the server's store, with what a server needs beside the contract. Only this
// file and clickhouse.go know which store it is.
type dataStore struct {
	store    store.Store
	writer   string                // the server's name in it
	shared   bool                  // with other servers, perhaps
	host     string                // of a shared store, with its port
	damage   func() []store.Damage // found since the start
	space    func() error          // wraps store.ErrFull while the disk is full
	leap     func() (clockLeap, bool)
	leapt    func(wall time.Time) time.Duration // how far the clock is ahead of maintenance, if it leapt
	sizes    func() storeSizes                  // bytes in memory
	readings prometheus.Collector
	// describe adds to an answer what the store's nodes say; nil if the store is in the
	// server's directory.
	describe func(ctx context.Context, to *api.ClusterResponse)
}

// clockLeap is a clock that is far ahead of maintenance, which does not follow it yet.
type clockLeap = pebblestore.ClockLeap

// storeSizes are the bytes that a store holds in memory.
type storeSizes struct{ cache, memtables, index int64 }

// damageFile keeps the list of damage across restarts.
type damageFile struct {
	known       []store.Damage // of earlier runs, unacknowledged
	acknowledge func(except func(store.Damage) bool) error
	remember    func(store.Damage) error
}

// openDataStore opens the store that is configured: that of the server's data directory, or
// one in ClickHouse. It returns the damage file even if the store does not open.
func (s *Server) openDataStore(ctx context.Context) (d *dataStore, f damageFile, err error) {
	r := s.cfg.Retain
	o := pebblestore.Options{
		Dir:         filepath.Join(s.cfg.Data, "store"),
		DamagedDir:  filepath.Join(s.cfg.Data, "damaged"),
		SampleAge:   s.cfg.MaxSampleAge,
		SampleCount: s.cfg.MaxSamples,
		MaxBytes:    r.MaxBytes,
		TraceAge:    s.cfg.Traces.Keep,
		TraceBytes:  s.cfg.Traces.MaxBytes,
		LeapWait:    leapWait,
		Quiet:       settleQuiet,
		Logger:      s.log.With("part", "store"),

		CacheBytes: s.shares.StoreCache, MemtableBytes: s.shares.Memtable, IndexBytes: s.shares.Index,
		AnswerBytes: s.shares.Question,
	}
	o.Retention[0], o.Retention[1], o.Retention[2], o.Retention[3] = r.Base, r.Minute, r.TenMin, r.Hour
	f.acknowledge = func(except func(store.Damage) bool) error { return pebblestore.AcknowledgeDamage(o, except) }
	f.remember = func(d store.Damage) error { return pebblestore.Remember(o, d) }
	if f.known, err = pebblestore.KnownDamage(o); err != nil {
		return nil, f, fmt.Errorf("read what is damaged in %s: %w", s.cfg.Data, err)
	}
	if s.cfg.Store != "" {
		d, err = s.openClickHouse(ctx)
		return d, f, err
	}
	st, err := pebblestore.Open(ctx, o)
	if err != nil {
		return nil, f, fmt.Errorf("open the store in %s: %w", s.cfg.Data, err)
	}
	return newDataStore(st), f, nil
}

// openEmptyStore opens a store in a temporary directory.
func openEmptyStore(ctx context.Context, dir string) (*dataStore, error) {
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	return newDataStore(st), nil
}

func newDataStore(st *pebblestore.Store) *dataStore {
	return &dataStore{
		store: st, writer: st.Writer(), damage: st.Damage, space: st.Room, leap: st.ClockLeap, leapt: st.Leapt,
		sizes: func() storeSizes {
			s := st.Stats()
			return storeSizes{s.CacheBytes, s.MemtableBytes, s.IndexBytes}
		},
		readings: newPartCollector(st.Stats, storeReadings),
	}
}

var storeReadings = []reading[pebblestore.Stats]{
	{"tailscope_store_points_total", "Points stored, of every view.", counts, func(s pebblestore.Stats) float64 { return float64(s.Points) }},
	{"tailscope_store_points_late_total", "Points added to a resolution that had passed their slot.", counts, func(s pebblestore.Stats) float64 { return float64(s.Late) }},
	{"tailscope_store_points_expired_total", "Points and samples that came too late for every resolution.", counts, func(s pebblestore.Stats) float64 { return float64(s.Expired) }},
	{"tailscope_store_points_rolled_up_total", "Points made for coarser resolutions.", counts, func(s pebblestore.Stats) float64 { return float64(s.RolledUp) }},
	{"tailscope_store_points_settled_total", "Points rewritten in their final order.", counts, func(s pebblestore.Stats) float64 { return float64(s.Settled) }},
	{"tailscope_store_points_left_out_total", "Points left out of a sum because their counts were beyond what can be counted.", counts, func(s pebblestore.Stats) float64 { return float64(s.LeftOut) }},
	{"tailscope_store_samples_outnumbered_total", "Raw samples dropped because their series had limits.samples newer ones.", counts, func(s pebblestore.Stats) float64 { return float64(s.SamplesOutnumbered) }},
	{"tailscope_store_sample_hours_evicted_total", "Hours of raw samples dropped to stay within retention.max_bytes.", counts, func(s pebblestore.Stats) float64 { return float64(s.SampleHoursEvicted) }},
	{"tailscope_store_disk_bytes", "Bytes on disk.", level, func(s pebblestore.Stats) float64 { return float64(s.DiskBytes) }},
	{"tailscope_store_cache_bytes", "Bytes of blocks held in memory.", level, func(s pebblestore.Stats) float64 { return float64(s.CacheBytes) }},
	{"tailscope_store_memtable_bytes", "Bytes written and not yet sorted onto disk.", level, func(s pebblestore.Stats) float64 { return float64(s.MemtableBytes) }},
	{"tailscope_store_traces", "Traces kept.", level, func(s pebblestore.Stats) float64 { return float64(s.Traces) }},
	{"tailscope_store_trace_bytes", "Bytes of kept traces before compression, bounded by traces.max_bytes.", level, func(s pebblestore.Stats) float64 { return float64(s.TraceBytes) }},
	{"tailscope_store_traces_expired_total", "Kept traces dropped by age.", counts, func(s pebblestore.Stats) float64 { return float64(s.TracesExpired) }},
	{"tailscope_store_traces_evicted_total", "Kept traces dropped for want of room.", counts, func(s pebblestore.Stats) float64 { return float64(s.TracesEvicted) }},
	{"tailscope_store_traces_late_total", "Traces not kept because they had expired already, or lie far ahead of the clock.", counts, func(s pebblestore.Stats) float64 { return float64(s.TracesLate) }},
	{"tailscope_store_index_bytes", "Bytes of label indexes held in memory.", level, func(s pebblestore.Stats) float64 { return float64(s.IndexBytes) }},
}
