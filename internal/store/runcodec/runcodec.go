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
