package api

// Verdict is what a comparison found, in words. Of one figure it is faster, slower,
// fewer errors, more errors, lower, higher, same, within the noise floor (of a
// mirror), drifts (the sides differ, as what is measured may do by itself),
// no evidence or too little data. Of several it may also be regression, improvement,
// mixed or changed.
type Verdict string

// CapacityVerdict is what a search for capacity came to: found, at least (never broken
// as far as it went), below (broken at the lowest) or too little data; empty while the
// search runs.
type CapacityVerdict string

// MarkState is waiting (too little time has passed since the mark), provisional (judged
// on slots of one second), early (judged on what there is of the time after it) or final.
type MarkState string

// Way says whether a change is better or worse; empty where nobody knows.
type Way string
