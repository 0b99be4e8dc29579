package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"tailscope/internal/series"
)

// CopyWriter puts the points and samples of a copy. No server has this name.
const CopyWriter = "copy"

// Content is all that a store holds: points, samples and state as of one moment, records
// and traces as they are when they are read.
type Content interface {
	Outline(ctx context.Context) (*Outline, error)
	// Batches calls yield with all points that are kept, those of a series in a slot of a
	// resolution added up, and with all raw samples. Writer and Generation are not set. Two
	// calls yield the same batches in the same order. A batch is valid during the call.
	Batches(ctx context.Context, yield func(*Batch) error) error
	// KeptTraces calls yield with all kept traces, some at a time.
	KeptTraces(ctx context.Context, yield func([]Trace) error) error
	State(ctx context.Context, writer string, prefix []byte, yield func(key, value []byte) error) error
	ListRecords(ctx context.Context, kind, prefix string, yield func(Record) error) error
}

// Outline is what a copy is told beside points, samples, traces and records.
type Outline struct {
	// Floor and Ready are those of tier.Horizon, by resolution, finest first.
	Floor, Ready [len(series.Resolutions)]int64
	Direct       []DirectSlots
	Families     []FamilyInfo
	Writers      map[string]uint64 // the highest generation that each has put; without CopyWriter
	Kinds        []string          // of records
	Cuts         []SampleCut
}

// DirectSlots are slots [From, To), in Unix seconds, of a tier that hold what no finer tier
// holds: of one family in one view, or of all if Family is empty.
type DirectSlots struct {
	Tier     int
	From, To int64
	Family   string      `json:",omitempty"`
	View     series.View `json:",omitempty"`
}

// SampleCut is where the raw samples of a series begin: those of whole hours before Until,
// in Unix milliseconds, were dropped.
type SampleCut struct {
	Series series.Series
	Until  int64
}

// CopyTarget is a store that was opened, or begun, to be filled by Copy: Put adds nothing
// to longer slots, and what a Put before has put under CopyWriter is there.
type CopyTarget interface {
	Store
	// EndCopy has the store answer by the outline. Only then it may be used as any other,
	// once it has been closed.
	EndCopy(ctx context.Context, o *Outline) error
}

// copyRecords is the number of records written at once.
const copyRecords = 500

// Copy puts all that one store holds into an empty one. If it was interrupted it goes on
// where it was, given the same content.
func Copy(ctx context.Context, from Content, to CopyTarget) error {
	o, err := from.Outline(ctx)
	if err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	done, err := to.Flushed(ctx, CopyWriter)
	if err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	n := uint64(0)
	put := func(b *Batch) error {
		if n++; n <= done {
			return nil
		}
		b.Writer, b.Generation = CopyWriter, n
		return to.Put(ctx, b)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"families", func() error { return put(&Batch{Families: o.Families}) }},
		{"points and samples", func() error { return from.Batches(ctx, put) }},
		{"traces", func() error {
			return from.KeptTraces(ctx, func(t []Trace) error { return to.PutTraces(ctx, t) })
		}},
		{"state", func() error { return copyState(ctx, from, to, o.Writers) }},
		{"records", func() error { return copyAllRecords(ctx, from, to, o.Kinds) }},
		{"outline", func() error { return to.EndCopy(ctx, o) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("copy %s of the store: %w", step.what, err)
		}
	}
	return nil
}

// copyState puts each writer's last generation, with its state and nothing else.
func copyState(ctx context.Context, from Content, to Store, writers map[string]uint64) error {
	for _, w := range slices.Sorted(maps.Keys(writers)) {
		b := &Batch{Writer: w, Generation: writers[w]}
		err := from.State(ctx, w, nil, func(key, value []byte) error {
			b.State = append(b.State, State{bytes.Clone(key), bytes.Clone(value)})
			return nil
		})
		if err != nil {
			return err
		}
		if b.Generation == 0 && len(b.State) == 0 {
			continue
		}
		if err := to.Put(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func copyAllRecords(ctx context.Context, from Content, to Records, kinds []string) error {
	for _, kind := range kinds {
		var writes []RecordWrite
		flush := func() error {
			if len(writes) == 0 {
				return nil
			}
			_, err := to.PutRecords(ctx, kind, writes...)
			writes = writes[:0]
			return err
		}
		err := from.ListRecords(ctx, kind, "", func(r Record) error {
			writes = append(writes, RecordWrite{r.Key, bytes.Clone(r.Value), AnyRevision})
			if len(writes) < copyRecords {
				return nil
			}
			return flush()
		})
		if err == nil {
			err = flush()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}
