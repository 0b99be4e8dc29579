package traces

// Stats counts what an Assembler did since it was made, and what it holds now.
type Stats struct {
	Spans      uint64 // given; those left out are counted below
	Late       uint64 // came after their trace was closed; left out
	TooMany    uint64 // beyond MaxSpans of their trace; left out
	Invalid    uint64 // without a trace id, or ended before they started; left out
	NoSpace    uint64 // for want of memory, though the oldest traces were closed; left out
	Duplicates uint64 // sent more than once; counted once
	Orphans    uint64 // whose parent never came
	Cycles     uint64 // that were their own ancestor; cut there

	Closed      uint64 // traces
	Incomplete  uint64 // of them, those without a root, closed early, or with spans left out or orphans
	Rootless    uint64 // of them, those whose root never came
	ClosedEarly uint64 // of them, those closed before their time for want of memory

	Requests     uint64 // broken down
	Nested       uint64 // requests too deep in others to be broken down
	Skewed       uint64 // calls whose times had to be moved
	QueueSkewed  uint64 // requests that started before they were queued
	FoldedNames  uint64 // identities that lost some of their names to the bound
	FoldedParts  uint64 // times a part was folded into series.Other
	LeftOutTexts uint64 // statements left out for want of memory
	CommitErrors uint64 // failed attempts to hand over distributions
	LostRequests uint64 // whose breakdown was given up after such failures
	Kept         uint64 // traces handed to the Keeper
	KeepErrors   uint64 // failed attempts
	LostKept     uint64 // traces given up after such failures
	LeftOutKept  uint64 // traces not kept for want of memory
	Lost         Loss   // what LostRequests and LostKept say when
	CutSpans     uint64 // spans left out of kept traces

	OpenTraces  int
	OpenSpans   int
	MemoryBytes int64 // of everything that is bounded by Options.MemoryBytes
}

// Loss says when something was given up, in Unix seconds. All are 0 if nothing was.
type Loss struct {
	From, To int64 // enclose the requests concerned
	Last     int64 // when it last happened
}

func (l *Loss) add(from, to, now int64) {
	if l.Last == 0 {
		l.From = from
	}
	l.From, l.To, l.Last = min(l.From, from), max(l.To, to), now
}
