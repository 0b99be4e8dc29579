// Package runcodec packs settled points: a run of distributions, in order of
// series and then of slot, through entropy coders whose models learn along the
// run what its distributions look like.
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
//	dec.Reset(run)              // a Decoder is some 80 kB: keep it
//	for each series {
//		dec.Series()            // and dec.Group(), as the encoder was told
//		for {
//			slot, ok, err := dec.More()
//			if !ok { break }
//			dec.Merge(&acc)     // or Next, Moment, Append, Skip
//		}
//	}
//
// Small counts, which are nearly all, are taken to be Poisson around what the
// series' shape lets expect and go through fixed tables; models of larger ones
// start as such and sharpen over some thousand points, so a run had better hold
// a few thousand; a few hundred cost a few percent more. A point of about 200
// log-normal observations at schema 5 (buckets 2.2 % wide) takes 41 bytes, of
// which 8 are the exact sum, minimum and maximum; one of a single observation
// takes 3.
//
// How many series a run has, which they are and where groups begin is the
// caller's to keep, and so is a checksum. Every point comes back exactly: what
// Decoder.Append writes are the bytes that Add was given.
package runcodec
