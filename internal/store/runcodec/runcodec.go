// Package runcodec packs the points of a run: distributions, in order of series and then
// of slot, go through entropy coders whose models learn the shape of the distributions
// along the run.
//
// An Encoder writes a run and a Decoder reads it, in the same order, from the start:
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
//		dec.Series()            // and dec.Group() where the encoder called Group
//		for {
//			slot, ok, err := dec.More()
//			if !ok { break }
//			dec.Merge(&acc)     // or Next, Moment, Append, Skip
//		}
//	}
//
// Small counts, which are nearly all, are modelled as Poisson around what the series'
// shape predicts, and coded by fixed tables. Models of larger counts begin as Poisson and
// sharpen over some thousand points: a run should hold a few thousand; with a few hundred
// it is a few percent larger. A point of about 200 log-normal observations at schema 5
// (buckets 2.2 % wide) takes 41 bytes, of which 8 are the exact sum, minimum and maximum;
// a point of a single observation takes 3. Histograms that were sent as such (general.go)
// take as much: 42 bytes without extremes, 12 with 14 explicit bounds.
//
// The caller keeps the number of series of a run, their identities, the places of groups,
// and a checksum. Every point decodes exactly: Decoder.Append appends the bytes that Add
// was given.
package runcodec
