package api

// Verdict is what a comparison found, in words. Of one figure it is faster, slower,
// fewer errors, more errors, lower, higher, same, within the noise floor (of a
// mirror), no evidence or too little data. Of several it may also be regression,
// improvement, mixed or changed.
type Verdict string

// Way says whether a change is better or worse; empty where nobody knows.
type Way string
