// Package mirror runs sessions: it stands between clients and their server, the
// primary, passes everything through unchanged, and gives copies of chosen
// requests to other servers whose answers are measured and thrown away.
//
// What copies do never reaches a client. The primary is written to first; then
// a copy is offered to each shadow (a candidate, or the control), which takes it
// or drops it at once and says why. The parts: pair keeps the accounts and the
// measurements, choose says which requests, offer gives their copies to lanes,
// shadow sends them, proxy is the door for HTTP/1.1, and this package is the door
// for everything else (HTTP/2 and TLS), checks what it is given, and starts and
// ends them all.
package mirror
