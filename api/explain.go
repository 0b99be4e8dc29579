package api

// ExplainResponse answers GET /api/v1/explain?family&match&start&end&from&to&low&high&
// against&before: which labels a rectangle of the heatmap has more of than the same
// labels had before, or than all other requests of the range have.
type ExplainResponse struct {
	Range
	Warned
	Family  string `json:"family"`
	Slot    int64  `json:"slot"`
	Against string `json:"against" enum:"before,day,rest"`
	// The rectangle as it was taken: whole slots, whole buckets. It begins at a mark that
	// is near.
	From    int64          `json:"from"` // Unix seconds
	To      int64          `json:"to"`
	Low     Float          `json:"low"`  // exclusive, seconds or the family's unit; null: without end
	High    Float          `json:"high"` // inclusive; null: without end
	Inside  uint64         `json:"inside"`
	Outside uint64         `json:"outside"`          // others of the range; against the time before: of the rectangle's time
	Before  *ExplainBefore `json:"before,omitempty"` // absent against rest
	Level   Float          `json:"level"`
	// Items are listed in the order in which they account for the rectangle. Against the
	// time before, each is counted without those above it.
	Items []ExplainItem `json:"items"`
	// How many labels' values, and pairs of them, were looked at.
	LabelsTried int    `json:"labels_tried"`
	PairsTried  int    `json:"pairs_tried"`
	Sentence    string `json:"sentence"` // of the first item, or that there is none
	// Errors says whose requests fail more often than before; absent against rest, of
	// metrics, and where status is named.
	Errors *ExplainErrors `json:"errors,omitempty"`
	Notes  []string       `json:"notes"`
}

// ExplainBefore is the stretch before that a rectangle is compared with.
type ExplainBefore struct {
	Start  int64  `json:"start"` // Unix seconds
	End    int64  `json:"end"`
	Mark   string `json:"mark,omitempty"` // id of the mark that it ends at
	Name   string `json:"name,omitempty"` // of the mark
	Inside uint64 `json:"inside"`         // requests within the same values
	Count  uint64 `json:"count"`
	// Share is the share of requests that would lie inside if each label had kept its own,
	// and Now the share that does.
	Share Float `json:"share"`
	Now   Float `json:"now"`
	// Own lists operations that count from a threshold of their own, since half of their
	// requests lay inside before.
	Own []ExplainThreshold `json:"own,omitempty"`
}

// ExplainErrors says whose requests of the rectangle's time fail more often than in the
// stretch before, whatever they take.
type ExplainErrors struct {
	Start  int64  `json:"start"` // the stretch before, Unix seconds
	End    int64  `json:"end"`
	Failed uint64 `json:"failed"` // in the rectangle's time
	// Share is the share of requests that would fail if each label had kept its own, and Now
	// the share that does.
	Share Float `json:"share"`
	Now   Float `json:"now"`
	// Items are listed as those of the answer are, with what fails in place of what lies
	// inside.
	Items    []ExplainItem `json:"items"`
	Sentence string        `json:"sentence"` // of the first item, or that there is none
}

// ExplainThreshold is the value above which an operation's requests count, in one of its
// environments where it had several before.
type ExplainThreshold struct {
	Service     string `json:"service,omitempty"`
	Environment string `json:"environment,omitempty"`
	Operation   string `json:"operation,omitempty"`
	Above       Float  `json:"above"`
}

// ExplainWhen is a part of the rectangle's time.
type ExplainWhen struct {
	Start int64 `json:"start"` // Unix seconds
	End   int64 `json:"end"`
	Share Float `json:"share"` // of the item's requests of that time, that is inside
}

// ExplainItem is a label's value, or a pair of them. Against the time before, no labels
// are all requests that no other item names.
type ExplainItem struct {
	Labels  Labels `json:"labels"`
	Inside  uint64 `json:"inside"` // requests with the labels
	Outside uint64 `json:"outside"`
	// Against rest: shares of all inside, and of all outside. Against the time before:
	// shares of the label's requests that are inside now, and that were before, like for
	// like.
	InsideShare  Float `json:"inside_share"`
	OutsideShare Float `json:"outside_share"`
	// Effect is InsideShare − OutsideShare with its interval; Lift their ratio.
	Effect   Float `json:"effect"`
	EffLow   Float `json:"effect_low"`
	EffHigh  Float `json:"effect_high"`
	Lift     Float `json:"lift"`
	Adjusted Float `json:"adjusted_p"` // over all labels, or all pairs, that were looked at
	// Part is the share of all that the rectangle has more than before; absent against rest.
	Part Float `json:"part,omitempty"`
	// When is the part of the rectangle's time that holds nearly all of the increase; absent
	// where it fills the rectangle, and against rest.
	When *ExplainWhen `json:"when,omitempty"`
	// RestUnknown says that requests without the labels are too few to tell whether they rose
	// as well.
	RestUnknown bool `json:"rest_unknown,omitempty"`
	// Through is the pair that accounts for a label: its requests that are not
	// of the pair are not over-represented. Empty if there is none.
	Through  Labels `json:"through,omitempty"`
	Sentence string `json:"sentence"`
}
