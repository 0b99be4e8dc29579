package api

// ShapeKind is how figures moved: spike (for a while, and then as before), step (one
// level before and another after), drift (along a line) or season (as at the same hours
// of an earlier day).
type ShapeKind string

// Shape is what a comparison of two times says beside its verdict, which is of two
// averages.
type Shape struct {
	Kind     ShapeKind `json:"kind" enum:"spike,step,drift,season"`
	Sentence string    `json:"sentence"`
	// Side is that of two ranges that holds a spike; absent at a moment, whose spike may
	// lie between the sides and belongs to neither.
	Side string `json:"side,omitempty" enum:"a,b"`
	// Start and End are Unix seconds: of a spike its slots, of a step the moment twice, else
	// the range of both sides.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Service and Operation are those of the figure; without an operation it is of all of
	// the service, without both of all that is compared.
	Service   string `json:"service,omitempty"`
	Operation string `json:"operation,omitempty"`
	Measure   string `json:"measure,omitempty"`
	// Usual is the measure before, or elsewhere; Value in a spike, after a step, or at the
	// end of a drift, of which Usual is at the beginning.
	Usual Float `json:"usual"`
	Value Float `json:"value"`
}
