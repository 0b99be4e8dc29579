package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// filled says what a store was filled with.
type filled struct {
	Start, End     int64 // Unix seconds
	Series, Points int   // of the part that has every tenant
}

func readFilled(dir string) (f filled, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "filled.json"))
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(b, &f)
}

func (f filled) write(dir string) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "filled.json"), b, 0o644)
}

// filledOnce returns the data directory of a filled store: the one kept, or one
// that fill has filled.
func filledOnce(o *options, name string, fill func(dir string) (filled, error)) (data string, f filled, err error) {
	dir := o.keep
	if dir == "" {
		dir = filepath.Join(o.tmp, name)
	}
	data = filepath.Join(dir, "data")
	f, err = readFilled(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = fill(filepath.Join(data, "store")); err == nil {
			err = f.write(dir)
		}
	}
	return data, f, err
}

// lastHour returns the end of a filled range: so long ago that all of it is
// compacted.
func lastHour() time.Time { return time.Now().Add(-90 * time.Minute).Truncate(time.Hour) }

// fillSlots puts the result of of for each slot of f's range into a store, nil for
// nothing, compacts it, and counts the points.
func fillSlots(ctx context.Context, o *options, dir string, f *filled, of func(at int64) *store.Batch) (err error) {
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	end := time.Unix(f.End, 0)
	o.logf("filling %s", end.Sub(time.Unix(f.Start, 0)))
	began, cpu := time.Now(), ownCPU()
	generation := uint64(0)
	for at := f.Start; at < f.End; at += 10 {
		b := of(at)
		if b == nil {
			continue
		}
		generation++
		b.Generation = generation
		for i := range b.Points {
			b.Points[i].Slot = at
		}
		f.Points += len(b.Points)
		if err := st.Put(ctx, b); err != nil {
			return err
		}
		if at%3600 == 0 {
			if err := st.Maintain(ctx, time.Unix(at, 0)); err != nil {
				return err
			}
		}
	}
	if err := st.Maintain(ctx, end.Add(time.Hour)); err != nil {
		return err
	}
	o.logf("filled in %s, %.0f CPU-s", time.Since(began).Round(time.Second), (ownCPU() - cpu).Seconds())
	return nil
}

// shopBatch returns an empty slot of requests of the service shop.
func shopBatch() *store.Batch {
	return &store.Batch{Writer: "bench", Resolution: series.Base, Families: []store.FamilyInfo{{Name: series.SpanDuration, Kind: series.Distribution}}}
}

// addShop adds a series of requests that went well, with these labels besides.
func addShop(b *store.Batch, view series.View, h *hist.Histogram, more ...string) error {
	data, err := h.AppendBinary(nil)
	if err != nil {
		return err
	}
	l := labels.FromStrings(append(more, series.LabelService, "shop", series.LabelComponent, "app", series.LabelKind, "server", series.LabelStatus, "ok")...)
	b.Points = append(b.Points, store.Point{Series: uint32(len(b.Series)), Data: data})
	b.Series = append(b.Series, series.Series{Family: series.SpanDuration, View: view, Labels: l})
	return nil
}
