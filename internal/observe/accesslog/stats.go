package accesslog

// Stats are running totals of all files of an Ingester.
type Stats struct {
	Lines, Accepted, Bytes uint64
	Attempts               uint64 // at upstreams
	Overloads              uint64 // blocks that had to wait
	QueueImplausible       uint64 // times of a queue that were more than queuetime.Most off, and left out
	Refused                []ReasonCount
}

// ReasonCount counts the lines that were not used for one reason.
type ReasonCount struct {
	Reason string
	Count  uint64
}

// Stats returns the counts so far. Lines is Accepted and all of Refused.
func (in *Ingester) Stats() Stats {
	st := &in.stats
	s := Stats{st.lines.Load(), st.accepted.Load(), st.bytes.Load(), st.attempts.Load(), st.overloads.Load(), st.implausible.Load(), nil}
	for r := range reasons {
		s.Refused = append(s.Refused, ReasonCount{r.String(), st.refused[r].Load()})
	}
	return s
}
