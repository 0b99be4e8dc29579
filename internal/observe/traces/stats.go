package traces

// Stats holds totals since the Assembler was made, and its present content.
type Stats struct {
	Spans        uint64 // added; those left out are counted below
	Late         uint64 // came after their trace was closed; left out
	TooMany      uint64 // beyond MaxSpans of their trace; left out
	Invalid      uint64 // without a trace id, or ended before they started; left out
	NoSpace      uint64 // for lack of memory, though the oldest traces were closed; left out
	LeftOutSpans uint64 // of LeftOutTraces
	Duplicates   uint64 // sent more than once; counted once
	Orphans      uint64 // whose parent never came
	Cycles       uint64 // that were their own ancestor; cut there

	LeftOutTraces uint64 // whole, near the bound on memory; others count for them
	Closed        uint64 // traces
	AtOnce        uint64 // of them, those closed as soon as they came
	Incomplete    uint64 // of them, those without a root, closed early, or with spans left out or orphans
	Rootless      uint64 // of them, those whose root never came
	ClosedEarly   uint64 // of them, those closed early for lack of memory

	Requests     uint64 // broken down
	Nested       uint64 // requests nested too deeply to be broken down
	Skewed       uint64 // calls whose times had to be moved
	QueueSkewed  uint64 // requests that started before they were queued
	FoldedNames  uint64 // identities that lost some of their names to the bound
	FoldedParts  uint64 // times a part was folded into series.Other
	LeftOutTexts uint64 // statements left out for lack of memory
	CommitErrors uint64 // failed attempts to hand over distributions
	LostRequests uint64 // whose breakdown was dropped after such failures
	Kept         uint64 // traces handed to the Keeper
	KeepErrors   uint64 // failed attempts
	LostKept     uint64 // traces dropped after such failures
	LeftOutKept  uint64 // traces not kept for lack of memory
	Lost         Loss   // times of LostRequests and LostKept
	CutSpans     uint64 // spans left out of kept traces

	OneIn       int // of so many traces that begin one is put together, in the shard with the least space
	OpenTraces  int
	OpenSpans   int
	MemoryBytes int64 // of everything that is bounded by Options.MemoryBytes
}

// Loss holds the times of losses, in Unix seconds. All are 0 without any.
type Loss struct {
	From, To int64 // enclose the lost requests
	Last     int64 // when something was last lost
}

func (l *Loss) add(from, to, now int64) {
	if l.Last == 0 {
		l.From = from
	}
	l.From, l.To, l.Last = min(l.From, from), max(l.To, to), now
}

// addClosed adds the counts of a closer.
func (s *Stats) addClosed(o *Stats) {
	s.Duplicates += o.Duplicates
	s.Orphans += o.Orphans
	s.Cycles += o.Cycles
	s.Closed += o.Closed
	s.AtOnce += o.AtOnce
	s.Incomplete += o.Incomplete
	s.Rootless += o.Rootless
	s.ClosedEarly += o.ClosedEarly
	s.Requests += o.Requests
	s.Nested += o.Nested
	s.Skewed += o.Skewed
	s.QueueSkewed += o.QueueSkewed
	s.FoldedParts += o.FoldedParts
	s.CommitErrors += o.CommitErrors
	s.LostRequests += o.LostRequests
	if o.Lost.Last != 0 {
		s.Lost.add(o.Lost.From, o.Lost.To, max(s.Lost.Last, o.Lost.Last))
	}
}
