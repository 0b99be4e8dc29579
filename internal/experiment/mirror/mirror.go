// Package mirror runs sessions: it stands between clients and their server, the
// primary, passes everything through unchanged, and gives copies of chosen
// requests to other servers whose answers are measured and thrown away.
//
// What copies do never reaches a client. The primary is written to first; then a copy
// is offered to each shadow (a candidate, or the control), which takes it or drops it
// at once and says why. The parts: pair keeps the accounts and the measurements,
// choose says which requests, offer gives their copies to senders, shadow sends them,
// proxy serves HTTP/1.1. This package serves everything else (HTTP/2 and TLS),
// validates the options, and starts and ends all parts.
package mirror
