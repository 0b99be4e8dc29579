package pebblestore

import (
	"encoding/binary"
	"fmt"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// Tables: the first byte of every key. Integers in keys are big-endian, so that keys
// sort in numeric order.
const (
	tableMeta   = 0x01 // name -> value
	tableFamily = 0x02 // name -> number, kind, interval
	tableWriter = 0x03 // name -> number, flushed generation
	tableState  = 0x04 // writer(4) key -> value
	tableMark   = 0x05 // older versions: time(8) id -> mark
	tableMarkID = 0x06 // older versions: id -> key in tableMark
	tableRecord = 0x07 // kind 0 key -> revision, value
	tableIndex  = 0x10 // day(4) scope(4) first number(4) -> index block
	tableDirect = 0x11 // tier(1) part(4) -> "": a coarse tier was put to directly
	tableCoarse = 0x12 // tier(1) part(4) scope(4) -> "": so was a scope of it; see coarse.go
	tablePoints = 0x20 // tier(1) part(4) scope(4) class(1) ...
)

// Classes of keys below one (tier, part, scope).
const (
	classChunk     = 0x01 // slot(2) origin(1) writer(4) generation(8) first number(4) -> chunk
	classDirectory = 0x02 // first block(4) -> which series the blocks of the run hold
	classBlock     = 0x03 // block(4) -> series-major points
	classFolded    = 0x04 // -> the generations that the run contains
	classTally     = 0x05 // of raw samples: -> their number in the run, and the series whose samples were dropped
)

// Origins of a chunk.
const (
	originPut    = 0 // put by a writer
	originLate   = 1 // the same, added to a coarser tier whose watermark had passed the slot
	originRollup = 2 // the sum of the finer tier once its slots were over
)

// A tier is a resolution that is kept, or the raw samples of number series, whose "slot"
// is an hour.
const (
	tierSamples = len(series.Resolutions)
	numTiers    = tierSamples + 1
)

var tierSlot = [numTiers]int64{
	int64(series.Base), int64(series.Minute), int64(series.TenMin), int64(series.Hour), 3600,
}

// tierPart is the length of a partition in seconds: what is compacted into one run and
// expires at once. Each lies within a day, because days own the label index. That of
// base slots is short because reading a few packed slots means decoding the partition:
// with an hour, a range that begins at an odd second took seconds.
var tierPart = [numTiers]int64{600, 3600, 6 * 3600, 24 * 3600, 3600}

const secondsPerDay = 24 * 3600

func tierOf(r series.Resolution) (int, error) {
	for i, k := range series.Resolutions {
		if k == r {
			return i, nil
		}
	}
	return 0, fmt.Errorf("resolution of %d s is not kept: use one of %v", r, series.Resolutions)
}

func floorDiv(a, b int64) int64 { return tier.FloorDiv(a, b) }
func floorTo(t, n int64) int64  { return tier.Floor(t, n) }
func ceilTo(t, n int64) int64   { return tier.Ceil(t, n) }

// partOf returns the start of the tier's partition that holds the moment t.
func partOf(tier int, t int64) int64 { return floorTo(t, tierPart[tier]) }

// dayOf returns the start of the day that holds the moment t.
func dayOf(t int64) int64 { return floorTo(t, secondsPerDay) }

// Times in keys count units of ten minutes from the epoch, biased so that times
// before it sort first. They reach 40,000 years either way.
const keyUnit = 600

func appendTime(dst []byte, t int64) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(floorDiv(t, keyUnit)+1<<31))
}

func readTime(b []byte) int64 {
	return (int64(binary.BigEndian.Uint32(b)) - 1<<31) * keyUnit
}

func readUint32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// farPast and farFuture bound the times that can be stored; see store.InRange.
const (
	farPast   = -1 << 40
	farFuture = 1 << 40
)

// A scope is a family in a view, which one query reads. It is the unit of the label
// index and of compaction.
type scope uint32

func makeScope(family uint32, v series.View) scope { return scope(family<<2 | uint32(v)) }
func (s scope) view() series.View                  { return series.View(s & 3) }

func indexPrefix(dst []byte, day int64) []byte {
	return appendTime(append(dst, tableIndex), day)
}

func indexScopePrefix(dst []byte, day int64, sc scope) []byte {
	return binary.BigEndian.AppendUint32(indexPrefix(dst, day), uint32(sc))
}

func coarseKey(dst []byte, tier int, part int64, sc scope) []byte {
	return binary.BigEndian.AppendUint32(appendTime(append(dst, tableCoarse, byte(tier)), part), uint32(sc))
}

func directKey(dst []byte, tier int, part int64) []byte {
	return appendTime(append(dst, tableDirect, byte(tier)), part)
}

func tierPrefix(dst []byte, tier int) []byte {
	return append(dst, tablePoints, byte(tier))
}

func partPrefix(dst []byte, tier int, part int64) []byte {
	return appendTime(tierPrefix(dst, tier), part)
}

const scopePrefixLen = 10

func scopePrefix(dst []byte, tier int, part int64, sc scope) []byte {
	return binary.BigEndian.AppendUint32(partPrefix(dst, tier, part), uint32(sc))
}

func classPrefix(dst []byte, tier int, part int64, sc scope, class byte) []byte {
	return append(scopePrefix(dst, tier, part, sc), class)
}

// slotPrefix appends the prefix of the chunks of one slot; slot is an index in the
// partition.
func slotPrefix(dst []byte, tier int, part int64, sc scope, slot int) []byte {
	return binary.BigEndian.AppendUint16(classPrefix(dst, tier, part, sc, classChunk), uint16(slot))
}

func generationPrefix(dst []byte, tier int, part int64, sc scope, slot int, origin byte, writer uint32, gen uint64) []byte {
	dst = append(slotPrefix(dst, tier, part, sc, slot), origin)
	dst = binary.BigEndian.AppendUint32(dst, writer)
	return binary.BigEndian.AppendUint64(dst, gen)
}

// chunkKey is the parsed tail of a chunk's key.
type chunkKey struct {
	slot   int
	origin byte
	writer uint32
	gen    uint64
	first  uint32
}

const chunkKeyLen = scopePrefixLen + 1 + 2 + 1 + 4 + 8 + 4

func parseChunkKey(key []byte) (chunkKey, error) {
	if len(key) != chunkKeyLen {
		return chunkKey{}, fmt.Errorf("chunk key %x: %w", key, store.ErrCorrupt)
	}
	b := key[scopePrefixLen+1:]
	return chunkKey{
		slot:   int(binary.BigEndian.Uint16(b)),
		origin: b[2],
		writer: binary.BigEndian.Uint32(b[3:]),
		gen:    binary.BigEndian.Uint64(b[7:]),
		first:  binary.BigEndian.Uint32(b[15:]),
	}, nil
}

// prefixEnd returns the first key after every key with the prefix.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
