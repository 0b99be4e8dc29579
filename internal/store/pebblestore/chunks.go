package pebblestore

import (
	"encoding/binary"
	"hash/crc32"
)

// Pebble's logs and manifests are records in chunks, in blocks of 32 KiB that
// no chunk crosses (github.com/cockroachdb/pebble/v2/record):
//
//	crc u32 | length u16 | type u8 | [log number u32 | [synced u64]] | payload
//
// Types 1 to 4 are whole, first, middle and last chunks of a record; 5 to 8 the
// same with the number of the log, for reused files, and 9 to 12 with the offset up to
// which the log was synced when they were written. The checksum covers everything from
// the type on. Pebble's reader stops at the first invalid chunk; this one continues,
// because valid chunks behind it distinguish a damaged middle from a torn end.
const (
	chunkBlock = 32 << 10

	chunkHeader    = 7
	chunkHeaderLog = 11
	chunkHeaderSyn = 19
)

// logChunk is a chunk whose checksum matches.
type logChunk struct {
	at, end int64
	part    byte // 0 whole, 1 first, 2 middle, 3 last
	payload []byte
	synced  int64 // offset up to which the log was synced; 0 if not known
	trailer bool  // the end of a log that was closed
}

// logRecord is a record whose chunks are all valid.
type logRecord struct {
	at, end int64
	payload []byte
	after   bool // something before it is damaged
}

// records holds the records of a log or a manifest.
type records struct {
	list []logRecord
	// damage lists the ranges of bytes that were valid once, as what follows them shows,
	// and are not any more.
	damage [][2]int64
	// end reports that the last of them is the end of the file: a chunk that looks whole
	// but for some bits. The machine stopped while it was written, or it was damaged
	// since.
	end     bool
	endHeld []byte // what it held, or nil if that is not known
	// tail is the offset from which the file is not valid, with nothing behind it that
	// shows it ever was: the end of a file that was being written. It is -1 if the file
	// ends well.
	tail int64
}

// maskedCRC returns a checksum in its stored form (LevelDB's).
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, crcTable)
	return c>>15 | c<<17 + 0xa282ead8
}

// logChunkAt parses the chunk at an offset. log is the number that chunks with a number
// must carry.
func logChunkAt(b []byte, at int64, log uint32) (c logChunk, ok bool) {
	end := min(int64(len(b)), (at/chunkBlock+1)*chunkBlock)
	if at+chunkHeader > end {
		return c, false
	}
	kind := b[at+6]
	if kind < 1 || kind > 12 {
		return c, false
	}
	header := int64(chunkHeader)
	if kind > 8 {
		header = chunkHeaderSyn
	} else if kind > 4 {
		header = chunkHeaderLog
	}
	n := int64(binary.LittleEndian.Uint16(b[at+4:]))
	if at+header+n > end {
		return c, false
	}
	if header > chunkHeader && binary.LittleEndian.Uint32(b[at+7:]) != log {
		// The end of a closed log is a chunk of the next one without a checksum.
		c.trailer = kind == 5 && n == 0 && binary.LittleEndian.Uint32(b[at:]) == 0 &&
			binary.LittleEndian.Uint32(b[at+7:]) == log+1
		c.at, c.end = at, at+header
		return c, c.trailer
	}
	if binary.LittleEndian.Uint32(b[at:]) != maskedCRC(b[at+6:at+header+n]) {
		return c, false
	}
	if header == chunkHeaderSyn {
		c.synced = int64(binary.LittleEndian.Uint64(b[at+11:]))
	}
	c.at, c.end, c.part, c.payload = at, at+header+n, (kind-1)%4, b[at+header:at+header+n]
	return c, true
}

// readRecords reads a whole log or manifest. A chunk that follows an invalid one proves
// it damaged if it was written after that was synced. In a manifest each record is
// synced before the next, so any chunk proves it.
func readRecords(b []byte, log uint32) records {
	out := records{tail: -1}
	var rec []byte          // of the record being read
	start := int64(-1)      // its offset
	bad := int64(-1)        // where the file ceases to be valid
	badChunk := int64(-1)   // the invalid chunk, from bad on
	behind := int64(0)      // the end of the last valid chunk behind it
	var pending []logRecord // what follows bad, and does not prove anything yet
	proven := false
	at, size := int64(0), int64(len(b))
	confirm := func(until int64) {
		out.damage = append(out.damage, [2]int64{bad, until})
		for i := range pending {
			pending[i].after = true
		}
		out.list = append(out.list, pending...)
		pending, proven, bad = nil, true, -1
	}
	var until int64 // the end of the range from bad on
	for at < size {
		blockEnd := min(size, (at/chunkBlock+1)*chunkBlock)
		if blockEnd-at < chunkHeaderSyn && allZero(b[at:blockEnd]) && blockEnd%chunkBlock == 0 {
			at = blockEnd
			continue
		}
		c, ok := logChunkAt(b, at, log)
		if ok && c.trailer {
			if start < 0 && bad < 0 {
				return out
			}
			ok = false
			if bad >= 0 {
				// The log was closed after the damage: all of it was synced.
				confirm(until)
				return out
			}
		}
		if !ok {
			if bad < 0 {
				bad, badChunk, behind = at, at, 0
				if start >= 0 {
					bad = start
				}
			}
			start, rec = -1, nil
			if at = nextLogChunk(b, at+1, log); at < 0 {
				break
			}
			if len(pending) == 0 {
				until = at
			}
			continue
		}
		at = c.end
		behind = c.end
		switch {
		case c.part == 0 || c.part == 1:
			if start >= 0 { // an unfinished record
				if bad < 0 {
					bad, until = start, c.at
				}
			}
			start, rec = c.at, append([]byte(nil), c.payload...)
		case start < 0: // the rest of a record whose beginning is lost
			if bad < 0 {
				bad = c.at
			}
			if len(pending) == 0 {
				until = c.end
			}
		default:
			rec = append(rec, c.payload...)
		}
		if bad >= 0 && (c.synced > bad || log == 0) {
			confirm(until)
		}
		if start >= 0 && (c.part == 0 || c.part == 3) {
			r := logRecord{at: start, end: c.end, payload: rec, after: proven}
			if bad >= 0 {
				pending = append(pending, r)
			} else {
				out.list = append(out.list, r)
			}
			start, rec = -1, nil
		}
	}
	if bad < 0 {
		bad = start
	}
	if bad < 0 {
		return out
	}
	if log > 0 && badChunk >= 0 {
		c, flipped := flippedChunk(b, badChunk, log)
		if behind == 0 && flipped && (c.part == 0 || c.part == 3) {
			for at := bad; at < badChunk; {
				before, ok := logChunkAt(b, at, log)
				if !ok { // the rest of a block
					at = (at/chunkBlock + 1) * chunkBlock
					continue
				}
				out.endHeld, at = append(out.endHeld, before.payload...), before.end
			}
			out.endHeld = append(out.endHeld, c.payload...)
			until = c.end
		}
		if out.end = behind > 0 || flipped; out.end {
			confirm(max(until, c.end))
			return out
		}
	}
	out.tail = bad
	return out
}

// flippedChunk returns a chunk of a log that is complete but invalid. It is not ok if
// the bytes may be the beginning of one.
func flippedChunk(b []byte, at int64, log uint32) (c logChunk, ok bool) {
	end := min(int64(len(b)), (at/chunkBlock+1)*chunkBlock)
	b = append([]byte(nil), b[at:end]...)
	for i := range min(len(b), chunkHeaderSyn) * 8 { // one bit of the header
		b[i/8] ^= 1 << (i % 8)
		if c, ok = logChunkAt(b, 0, log); ok && !c.trailer {
			c.at, c.end = at, at+c.end
			return c, true
		}
		b[i/8] ^= 1 << (i % 8)
	}
	if len(b) < chunkHeaderSyn || b[6] < 5 || b[6] > 12 || binary.LittleEndian.Uint32(b[7:]) != log {
		return c, false
	}
	header := chunkHeaderLog
	if b[6] > 8 {
		header = chunkHeaderSyn
	}
	n := int(binary.LittleEndian.Uint16(b[4:]))
	// A file that was lengthened before it was written ends in zeros.
	if n == 0 || header+n > len(b) || allZero(b[max(header, header+n-16):header+n]) {
		return c, false
	}
	return logChunk{at: at, end: at + int64(header+n), part: (b[6] - 1) % 4, payload: b[header : header+n]}, true
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// nextLogChunk returns the offset of the next valid chunk, or -1. In a log only chunks
// with its number count: behind the end of a reused file lies old data.
func nextLogChunk(b []byte, at int64, log uint32) int64 {
	least := byte(1)
	if log > 0 {
		least = 5
	}
	for ; at+chunkHeader <= int64(len(b)); at++ {
		if kind := b[at+6]; kind < least || kind > 12 {
			continue
		}
		if _, ok := logChunkAt(b, at, log); ok {
			return at
		}
	}
	return -1
}
