package api

// ExplainResponse answers GET /api/v1/explain?family&match&start&end&from&to&low&high:
// which labels are over-represented inside a rectangle of the heatmap, against
// all other requests of the range.
type ExplainResponse struct {
	Range
	Family string `json:"family"`
	Slot   int64  `json:"slot"`
	// The rectangle as it was taken: whole slots, whole buckets.
	From    int64         `json:"from"` // Unix seconds
	To      int64         `json:"to"`
	Low     Float         `json:"low"`  // exclusive, seconds or the family's unit; null: without end
	High    Float         `json:"high"` // inclusive; null: without end
	Inside  uint64        `json:"inside"`
	Outside uint64        `json:"outside"`
	Level   Float         `json:"level"`
	Items   []ExplainItem `json:"items"` // the most telling first
	// How many labels' values, and pairs of them, were looked at.
	LabelsTried int      `json:"labels_tried"`
	PairsTried  int      `json:"pairs_tried"`
	Notes       []string `json:"notes"`
}

// ExplainItem is a label's value, or a pair of them.
type ExplainItem struct {
	Labels       Labels `json:"labels"`
	Inside       uint64 `json:"inside"` // requests with the labels
	Outside      uint64 `json:"outside"`
	InsideShare  Float  `json:"inside_share"` // of all inside
	OutsideShare Float  `json:"outside_share"`
	// Effect is InsideShare − OutsideShare with its interval; Lift their ratio.
	Effect   Float `json:"effect"`
	EffLow   Float `json:"effect_low"`
	EffHigh  Float `json:"effect_high"`
	Lift     Float `json:"lift"`
	Adjusted Float `json:"adjusted_p"` // over all labels, or all pairs, that were looked at
	// Through is the pair that accounts for a label: its requests that are not
	// of the pair are not over-represented. Empty if there is none.
	Through  Labels `json:"through,omitempty"`
	Sentence string `json:"sentence"`
}
