package shadow

import (
	"sync"

	"tailscope/internal/experiment/mirror/pair"
)

// missed remembers the first write that the shadow did not get, after which its
// data are no longer those of the primary.
type missed struct {
	mu  sync.Mutex
	at  int64 // Unix nanoseconds, 0 if none was
	why string
}

func (m *missed) mark(at int64, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == 0 {
		m.at, m.why = at, why
	}
}

func (m *missed) since() (at int64, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at, m.why
}

// whyMissed describes the write that was missed, and why, for people. A query may
// hold secrets and is left out.
func whyMissed(p *Payload, leg pair.Leg) string {
	target := string(p.Target)
	for i := range len(target) {
		if target[i] == '?' {
			target = target[:i]
			break
		}
	}
	how := " was dropped: "
	if leg.Start != 0 {
		how = " did not arrive whole: "
	}
	return string(p.Method) + " " + target + how + causeText[leg.Cause]
}

// whyNotCopied describes why a write was not chosen.
func whyNotCopied(why pair.Reason) string {
	switch why {
	case pair.Paused:
		return "a write came while the session was paused"
	case pair.Share:
		return "a write was not of the share that is copied"
	case pair.Length:
		return "a write was not copied, as its body is above the limit"
	}
	return "a write was not copied: " + why.String()
}

// causeText describes each cause for people.
var causeText = [pair.NumCauses]string{
	pair.None:         "the server answered before it had all of the request",
	pair.QueueFull:    "the queue was full",
	pair.BufferFull:   "the buffer was full",
	pair.NoServer:     "no server is used",
	pair.Refused:      "no server could be reached",
	pair.ConnectTime:  "no connection stood in time",
	pair.Handshake:    "the handshake failed",
	pair.Expired:      "it waited for longer than the time limit",
	pair.Stopped:      "it was being stopped",
	pair.BodyLimit:    "its body is above the limit",
	pair.BodyBehind:   "the shadow was slower than the client and the buffer full",
	pair.ClientClosed: "the client broke it off",
	pair.Reset:        "the connection broke",
	pair.TimedOut:     "no answer within the time limit",
	pair.BadAnswer:    "the answer is not HTTP",
	pair.AnswerLimit:  "the answer is above the limit",
}
