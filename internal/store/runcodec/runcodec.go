// Package runcodec packs settled points: a run of distributions, in order of
// series and then of slot, through an adaptive range coder whose models learn
// along the run what its distributions look like.
//
// A run is made with an Encoder and read with a Decoder, in the same order,
// from the start:
//
//	enc.Reset()
//	for each series {
//		enc.Series()            // slots start anew; enc.Group() before it where a new operation begins
//		for each of its points {
//			enc.Add(slot, data) // slot: its number within the partition; data: hist's compact form
//		}
//	}
//	run = enc.AppendTo(nil)
//
//	dec.Reset(run)
//	for each series {
//		dec.Series()            // and dec.Group(), as the encoder was told
//		for {
//			slot, ok, err := dec.More()
//			if !ok { break }
//			dec.Merge(&acc)     // or Next, Append, Skip
//		}
//	}
//
// How many series a run has, which they are and where groups begin is the
// caller's to keep, and so is a checksum. Every point comes back exactly: what
// Decoder.Append writes are the bytes that Add was given.
package runcodec

import "tailscope/hist"

// Encoder makes runs. The zero value is ready. Not safe for concurrent use.
type Encoder struct{}

// Reset starts a new run, keeping memory.
func (e *Encoder) Reset() {}

// Group says, before Series, that the series that follow are unlike those
// before (another family or operation). It costs nothing; the decoder must be
// told the same at the same place.
func (e *Encoder) Group() {}

// Series starts the next series and ends the one before. A series may have no points.
func (e *Encoder) Series() {}

// Add appends the point of a slot of the current series. Slots rise within a
// series. data is hist's compact form; it is not retained.
func (e *Encoder) Add(slot uint32, data []byte) error { return nil }

// AppendTo appends the finished run. The Encoder must be Reset before its next use.
func (e *Encoder) AppendTo(dst []byte) []byte { return dst }

// Decoder reads runs. The zero value is ready. Not safe for concurrent use.
type Decoder struct{}

// Reset starts reading a run, keeping memory. b must not change while it is read.
func (d *Decoder) Reset(b []byte) error { return nil }

// Group and Series repeat what the encoder was told, at the same places. The
// points of the series before must all have been read, up to More's false.
func (d *Decoder) Group()  {}
func (d *Decoder) Series() {}

// More reads whether the current series has another point, and its slot. After
// true, read the point with exactly one of Next, Merge, Append and Skip.
func (d *Decoder) More() (slot uint32, ok bool, err error) { return 0, false, nil }

// Next replaces h by the point.
func (d *Decoder) Next(h *hist.Histogram) error { return nil }

// Merge adds the point to h.
func (d *Decoder) Merge(h *hist.Histogram) error { return nil }

// Append appends the point in hist's compact form, as Add was given it.
func (d *Decoder) Append(dst []byte) ([]byte, error) { return dst, nil }

// Skip passes over the point.
func (d *Decoder) Skip() error { return nil }
