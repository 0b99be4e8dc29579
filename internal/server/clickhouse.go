package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/api"
	"tailscope/internal/store"
	"tailscope/internal/store/chstore"
	"tailscope/internal/store/pebblestore"
)

// openClickHouse opens a store in ClickHouse, for a server whose directory has the journal
// and its name.
func (s *Server) openClickHouse(ctx context.Context) (*dataStore, error) {
	lock, err := vfs.Default.Lock(filepath.Join(s.cfg.Data, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("open the data directory %s: %w: %w", s.cfg.Data, store.ErrLocked, err)
	}
	d, err := s.openLocked(ctx, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

func (s *Server) openLocked(ctx context.Context, lock io.Closer) (*dataStore, error) {
	// The journal would be stored under a name of its own, although the store has a part of it.
	if _, err := os.Stat(filepath.Join(s.cfg.Data, RestoringDir)); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, fmt.Errorf("a restore into %s did not end: run the same tailscope restore again", s.cfg.Data))
	}
	r := s.cfg.Retain
	o := chstore.Options{
		Address:     s.cfg.Store,
		SampleAge:   s.cfg.MaxSampleAge,
		SampleCount: s.cfg.MaxSamples,
		TraceAge:    s.cfg.Traces.Keep,
		TraceBytes:  s.cfg.Traces.MaxBytes,
		AnswerBytes: s.shares.Question,
		Logger:      s.log.With("part", "store"),
	}
	o.Retention[0], o.Retention[1], o.Retention[2], o.Retention[3] = r.Base, r.Minute, r.TenMin, r.Hour
	st, err := chstore.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("the store: %w", err)
	}
	writer, err := makeName(s.cfg.Data) // makes it once the store is known to be usable
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &dataStore{
		store: lockedStore{st, lock}, writer: writer, shared: true, host: st.FirstHost(),
		damage:   func() []store.Damage { return nil },
		space:    func() error { return nil },
		leap:     func() (clockLeap, bool) { return clockLeap{}, false },
		leapt:    func(time.Time) time.Duration { return 0 },
		sizes:    func() storeSizes { return storeSizes{} },
		readings: newPartCollector(st.Stats, clickHouseReadings),
		describe: func(ctx context.Context, to *api.ClusterResponse) {
			stats := st.Stats()
			to.Store, to.Statements, to.Retried, to.Failed = chstore.Redact(o.Address), stats.Requests, stats.Retries, stats.Failures
			to.Nodes, to.Findings = st.Health(ctx)
		},
	}, nil
}

// lockedStore is a store whose server has a directory locked until it is closed.
type lockedStore struct {
	store.Store
	lock io.Closer
}

func (l lockedStore) Close() error { return errors.Join(l.Store.Close(), l.lock.Close()) }

// NameFile has, in a data directory, the name under which its server writes to a store that
// it shares.
const NameFile = "WRITER"

// RestoringDir is the directory that a restore writes to, in the data directory so that both
// are on one disk. It is removed last: until then no server of a shared store starts.
const RestoringDir = ".restoring"

// serverName is a name, or that of a directory in which an old version has written; see
// pebblestore.Store.Writer.
var serverName = regexp.MustCompile(`^([0-9a-f]{16}|local)$`)

// ReadName returns the name of the server of a data directory. The error is fs.ErrNotExist
// if it has none yet.
func ReadName(data string) (string, error) {
	path := filepath.Join(data, NameFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the server's name: %w", err)
	}
	name := strings.TrimSpace(string(b))
	if !serverName.MatchString(name) {
		return "", fmt.Errorf("%s does not have a server's name, which is 16 hexadecimal digits: restore it, or remove it if nothing in the journal is to be stored", path)
	}
	return name, nil
}

// WriteName gives the server of a data directory its name.
func WriteName(data, name string) error {
	if err := pebblestore.WriteFile(pebblestore.OwnerOnly(vfs.Default), filepath.Join(data, NameFile), []byte(name+"\n")); err != nil {
		return fmt.Errorf("write the server's name: %w", err)
	}
	return nil
}

// makeName returns the server's name, which is random and made once for a directory.
func makeName(data string) (string, error) {
	name, err := ReadName(data)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	var random [8]byte
	rand.Read(random[:]) // never fails
	name = hex.EncodeToString(random[:])
	return name, WriteName(data, name)
}

var clickHouseReadings = []reading[chstore.Stats]{
	{"tailscope_store_points_total", "Points stored, of every view.", counts, func(s chstore.Stats) float64 { return float64(s.Points) }},
	{"tailscope_store_points_late_total", "Points added to a resolution that had passed their slot.", counts, func(s chstore.Stats) float64 { return float64(s.Late) }},
	{"tailscope_store_points_expired_total", "Points and samples that came too late for every resolution.", counts, func(s chstore.Stats) float64 { return float64(s.Expired) }},
	{"tailscope_store_points_left_out_total", "Points left out of a sum because their counts were beyond what can be counted.", counts, func(s chstore.Stats) float64 { return float64(s.LeftOut) }},
	{"tailscope_store_rollups_total", "Steps of roll-ups that this server has finished.", counts, func(s chstore.Stats) float64 { return float64(s.RollUps) }},
	{"tailscope_store_statements_total", "Statements sent to ClickHouse, with those sent again.", counts, func(s chstore.Stats) float64 { return float64(s.Requests) }},
	{"tailscope_store_statements_retried_total", "Statements sent to ClickHouse again.", counts, func(s chstore.Stats) float64 { return float64(s.Retries) }},
	{"tailscope_store_statements_failed_total", "Statements that ClickHouse did not answer, or answered with an error.", counts, func(s chstore.Stats) float64 { return float64(s.Failures) }},
	{"tailscope_store_traces_kept_total", "Traces given to the store.", counts, func(s chstore.Stats) float64 { return float64(s.TracesKept) }},
	{"tailscope_store_traces_late_total", "Traces not kept because they had expired already.", counts, func(s chstore.Stats) float64 { return float64(s.TracesLate) }},
}
