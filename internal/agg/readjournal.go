package agg

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// account is the result of reading one journal.
type account struct {
	format byte   // 0 if nothing of a journal was found
	header header // since format 3; without previous where the header is damaged
	placed bool   // header.before and end are known
	end    uint64 // position behind the last whole frame

	applied uint64
	lost    uint64 // entries missing between whole frames, or whose definition is
	unknown bool   // something is missing of which the number of entries is not known

	damage   string // the first damage; empty if there is none
	damageAt int64

	tail        int64  // bytes behind the last whole frame
	tailAt      int64  // their offset
	tailDamage  string // why they do not look like a write that was cut short; empty if they do
	tailEntries int64  // their entries if they are a frame, -1 if that is not known

	from, to int64 // times of the first and last commit that is whole, Unix milliseconds
}

// addDamage records damage at an offset.
func (a *account) addDamage(at int64, why string) {
	if a.damage == "" {
		a.damage, a.damageAt = why, at
	}
}

// readJournal passes every whole frame of a journal to h. It skips damage and records it
// in the account. The error is one of opening the file, or store.ErrVersion.
func readJournal(fsys vfs.FS, path string, generation uint64, h handler) (*account, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return decodeJournal(f, info.Size(), path, generation, h)
}

func decodeJournal(f io.ReaderAt, size int64, path string, generation uint64, h handler) (*account, error) {
	r := journalReader{f: f, size: size, h: h, seed: frameSeed(generation)}
	a := &r.account
	a.header.generation = generation
	head := r.bytes(0, int(min(size, journalHeader)))
	switch format, why := r.readHeader(head); {
	case why == "" && format >= placedFormat:
		r.frames(journalHeader)
	case why == "":
		r.oldFrames(oldHeader)
	case size == 0 || r.zeros(0):
		a.tail = size // lengthened by zeros before anything was written
	case r.err == nil && size <= journalHeader:
		a.tail = size // cut short when it was created: no request followed
	default:
		// The header is damaged: the frames determine the format.
		if r.err != nil {
			why = r.err.Error()
		}
		head = slices.Clone(head)
		if next, _ := r.search(1); next < size {
			a.format = journalFormat
			a.addDamage(0, why)
			r.frames(next)
		} else if _, state := r.oldFrameAt(oldHeader); state == whole {
			a.format = 2
			a.addDamage(0, why)
			r.oldFrames(oldHeader)
		} else if r.err == nil && len(head) > 7 && string(head[:7]) == journalMagic[:7] && head[7] > journalFormat {
			return nil, fmt.Errorf("journal %s has format %d, this program knows 1 to %d: start the version that wrote it and stop it cleanly: %w", path, head[7], journalFormat, store.ErrVersion)
		} else {
			a.tail, a.tailEntries = size, -1
			if !r.endsInZeros(0) {
				a.tailDamage = why
			}
		}
	}
	if r.err != nil {
		a.addDamage(a.tailAt, r.err.Error())
		a.tailDamage = r.err.Error()
	}
	return a, nil
}

// journalReader reads a journal through a window.
type journalReader struct {
	f    io.ReaderAt
	size int64
	h    handler
	seed uint32

	account account
	last    uint32 // number of the last whole frame
	from    int64
	buf     []byte
	err     error // from reading the file
	entry   entryReader
}

const (
	readAhead = 1 << 20
	oldHeader = 20
	// placedFormat is the first format whose frames have positions.
	placedFormat = 3
	oldFrame     = 8
)

// bytes returns n bytes at an offset, valid until the next call; fewer where the file
// cannot be read.
func (r *journalReader) bytes(at int64, n int) []byte {
	if at < r.from || at+int64(n) > r.from+int64(len(r.buf)) {
		k := int(min(int64(max(n, readAhead)), r.size-at))
		if cap(r.buf) < k {
			r.buf = make([]byte, k)
		}
		got, err := 0, error(nil)
		for range 3 { // a failed read may succeed in a moment
			if got, err = r.f.ReadAt(r.buf[:k], at); got == k {
				break
			}
		}
		if got < k && r.err == nil {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			r.err = fmt.Errorf("read at byte %d: %w", at+int64(got), err)
		}
		r.from, r.buf = at, r.buf[:got]
	}
	b := r.buf[at-r.from:]
	return b[:min(n, len(b))]
}

// readHeader returns the format, or why the header is invalid.
func (r *journalReader) readHeader(head []byte) (format byte, why string) {
	a := &r.account
	if len(head) < oldHeader || string(head[:7]) != journalMagic[:7] {
		return 0, "it does not begin as a journal does"
	}
	generation := binary.LittleEndian.Uint64(head[8:])
	switch v := head[7]; {
	case (v == placedFormat || v == journalFormat) && len(head) == journalHeader && binary.LittleEndian.Uint32(head[32:]) == crc32.Checksum(head[:32], crcTable):
		if generation != a.header.generation {
			return 0, fmt.Sprintf("its header says generation %d", generation)
		}
		a.header.previous, a.header.before = binary.LittleEndian.Uint64(head[16:]), binary.LittleEndian.Uint64(head[24:])
		a.end, a.placed, a.format = a.header.before, true, v
		return v, ""
	case (v == 1 || v == 2) && binary.LittleEndian.Uint32(head[16:]) == crc32.Checksum(head[:16], crcTable):
		if generation != a.header.generation {
			return 0, fmt.Sprintf("its header says generation %d", generation)
		}
		a.format = v
		return v, ""
	}
	return 0, "its header's checksum does not match"
}

// The states of what lies where a frame should begin.
const (
	whole      = iota
	badPayload // the header is whole
	badHeader
	short // the file ends in it
)

// frameAt reads the frame at an offset.
func (r *journalReader) frameAt(at int64) (f frame, state int) {
	h := r.bytes(at, frameHeader)
	if len(h) < frameHeader {
		return f, short
	}
	return r.frameUnder(h, at)
}

// frameUnder is frameAt with the caller's header.
func (r *journalReader) frameUnder(h []byte, at int64) (f frame, state int) {
	f, ok := parseFrame(h, r.seed)
	if !ok || f.length > maxFrame || f.number <= r.last || r.account.placed && f.before < r.account.end {
		return f, badHeader
	}
	if int64(f.length) > r.size-at-frameHeader {
		return f, short
	}
	if p := r.bytes(at+frameHeader, int(f.length)); len(p) < int(f.length) || crc32.Checksum(p, crcTable) != f.sum {
		return f, badPayload
	}
	return f, whole
}

// restoreFrame returns the frame at an offset whose header is damaged, if the damage is
// in its length alone, which then ends where the next whole frame or the file does, or
// in any one byte. Both checksums must match the restored header.
func (r *journalReader) restoreFrame(at int64) (frame, bool) {
	var h [frameHeader]byte
	if copy(h[:], r.bytes(at, frameHeader)) < frameHeader {
		return frame{}, false
	}
	if next, _ := r.search(at + 1); next-at-frameHeader <= maxFrame {
		g := h
		binary.LittleEndian.PutUint32(g[:], uint32(max(next-at-frameHeader, 0)))
		if f, state := r.frameUnder(g[:], at); state == whole {
			return f, true
		}
	}
	for i := range h {
		for x := 1; x < 256; x++ {
			h[i] ^= byte(x)
			if f, state := r.frameUnder(h[:], at); state == whole {
				return f, true
			}
			h[i] ^= byte(x)
		}
	}
	return frame{}, false
}

// frames plays the frames from an offset on.
func (r *journalReader) frames(at int64) {
	a := &r.account
	for at < r.size {
		f, state := r.frameAt(at)
		if state == badHeader {
			if g, ok := r.restoreFrame(at); ok {
				a.addDamage(at, "a frame's header does not match its checksum: it could be restored")
				f, state = g, whole
			}
		}
		if state == whole {
			r.play(f, r.bytes(at+frameHeader, int(f.length)), at)
			at += frameHeader + int64(f.length)
			continue
		}
		from, why := at+1, "a frame's header does not match its checksum"
		if state == badPayload {
			// A frame inside its payload is a sender's data.
			from, why = at+frameHeader+int64(f.length), "a frame does not match its checksum"
		}
		if r.err != nil {
			why = r.err.Error()
		}
		next, found := r.search(from)
		if !found {
			a.tail, a.tailAt, a.tailEntries = r.size-at, at, -1
			if state == badPayload {
				a.tailEntries = int64(f.entries)
			}
			if state != short && !r.endsInZeros(at) {
				a.tailDamage = why
			}
			return
		}
		a.addDamage(at, why)
		at = next
	}
}

// play passes a whole frame to the handler.
func (r *journalReader) play(f frame, payload []byte, at int64) {
	a := &r.account
	if !a.placed {
		a.header.before, a.placed = f.before, true
	} else {
		a.lost += f.before - a.end
	}
	applied, err := decodePayload(payload, r.h, &r.entry)
	if err != nil {
		a.addDamage(at, err.Error())
	}
	a.applied += applied
	a.lost += uint64(f.entries) - min(applied, uint64(f.entries))
	a.end, r.last = f.before+uint64(f.entries), f.number
	r.seen(payload)
}

// seen records the time of a frame of entries.
func (r *journalReader) seen(payload []byte) {
	d := reader{b: payload}
	if d.byte() != frameEntries {
		return
	}
	if t := int64(d.uvarint()); !d.bad {
		if r.account.from == 0 {
			r.account.from = t
		}
		r.account.to = t
	}
}

// search returns the offset of the next whole frame, from an offset on. It skips what
// cannot be read in steps that double: each read may take seconds.
func (r *journalReader) search(from int64) (at int64, found bool) {
	step := int64(4 << 10)
	for at = from; at+frameHeader <= r.size; at++ {
		h := r.bytes(at, frameHeader)
		if len(h) < frameHeader {
			at = (at+int64(len(h)))/(4<<10)*(4<<10) + step - 1
			step *= 2
			continue
		}
		// The length and number reject most of what is not a header.
		n := binary.LittleEndian.Uint32(h)
		if n == 0 || int64(n) > r.size-at-frameHeader || binary.LittleEndian.Uint32(h[4:])-r.last-1 > 1<<30 {
			continue
		}
		if _, state := r.frameAt(at); state == whole {
			return at, true
		}
	}
	return r.size, false
}

// zeros reports whether the file has only zeros from an offset on.
func (r *journalReader) zeros(at int64) bool {
	for at < r.size {
		b := r.bytes(at, int(min(readAhead, r.size-at)))
		if len(b) == 0 {
			return false
		}
		for _, c := range b {
			if c != 0 {
				return false
			}
		}
		at += int64(len(b))
	}
	return true
}

// endsInZeros reports whether the file, from an offset on, ends in more zeros than a
// frame can: a file system may lengthen a file before its data is there.
func (r *journalReader) endsInZeros(at int64) bool {
	return r.zeros(max(at, r.size-16))
}

// oldFrameAt returns the length of the payload of a frame of format 1 or 2.
func (r *journalReader) oldFrameAt(at int64) (n, state int) {
	h := r.bytes(at, oldFrame)
	if len(h) < oldFrame {
		return 0, short
	}
	length, sum := binary.LittleEndian.Uint32(h), binary.LittleEndian.Uint32(h[4:])
	switch {
	case length == 0 || length > maxFrame:
		return 0, badHeader
	case int64(length) > r.size-at-oldFrame:
		return 0, short
	case crc32.Checksum(r.bytes(at+oldFrame, int(length)), crcTable) != sum:
		return int(length), badPayload
	}
	return int(length), whole
}

// oldFrames plays the frames of a journal of format 1 or 2 from an offset on. It is not
// known how much is missing between them.
func (r *journalReader) oldFrames(at int64) {
	a := &r.account
	for at < r.size {
		n, state := r.oldFrameAt(at)
		if state == whole {
			payload := r.bytes(at+oldFrame, n)
			applied, err := decodePayload(payload, r.h, &r.entry)
			if err != nil {
				a.addDamage(at, err.Error())
				a.unknown = true
			}
			a.applied += applied
			r.seen(payload)
			at += oldFrame + int64(n)
			continue
		}
		next, found := r.oldSearch(at + 1)
		if !found {
			a.tail, a.tailAt, a.tailEntries = r.size-at, at, -1
			return
		}
		a.addDamage(at, "a frame does not match its checksum")
		a.unknown = true
		at = next
	}
}

// oldSearch finds a frame of format 1 or 2, whose header has no checksum.
func (r *journalReader) oldSearch(from int64) (at int64, found bool) {
	for at = from; at+oldFrame < r.size; at++ {
		h := r.bytes(at, oldFrame+1)
		if len(h) <= oldFrame {
			break
		}
		n := binary.LittleEndian.Uint32(h)
		if n == 0 || n > readAhead || h[oldFrame] != frameDefinitions && h[oldFrame] != frameEntries {
			continue
		}
		if _, state := r.oldFrameAt(at); state == whole {
			return at, true
		}
	}
	return r.size, false
}
