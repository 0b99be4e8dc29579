// Package rawsocket reads, writes and looks into sockets that do not block, so that no
// call waits. Each function is for a callback of syscall.RawConn.
//
// On Linux the calls bypass the scheduler: it need not take a processor from a call
// that cannot wait, and its monitor thread, which looks for such calls every 20 µs
// while there are any, sleeps.
// The race detector sees no order in such calls, so that under it they are ordinary ones.
package rawsocket
