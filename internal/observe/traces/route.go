package traces

import "tailscope/internal/store"

// Router says which server puts a trace together, where several share a store.
type Router interface {
	// Route returns where the spans of a trace go, or nil if they stay. It must not block.
	Route(id *store.TraceID) Peer
}

// Peer takes the spans of traces that another server puts together.
type Peer interface {
	// Send takes valid spans of one message. Those of one trace follow each other, all that
	// the message has. It retains neither the slice nor the details, and must not block.
	Send(spans []Span)
}

// RouteBy has spans that Add is given go where r says, but for those of traces that are
// closed at once, are open here, or were not long ago. It is called before the first Add.
func (a *Assembler) RouteBy(r Router) { a.router = r }

// AddRouted adds spans that another server has sent here, whatever the Router says: servers
// that disagree for a while must not send them to and fro.
func (a *Assembler) AddRouted(spans []Span) { a.add(spans, nil) }

// routed is the spans of a trace that go to another server.
type routed struct {
	part uint32
	to   Peer
}

// maxSent is the number of spans sent together, about.
const maxSent = 4096

// send sends the spans g.away.
func (g *group) send(spans []Span) {
	for from := range g.away {
		to := g.away[from].to
		if to == nil { // sent with one before
			continue
		}
		for i := from; i < len(g.away); i++ {
			if g.away[i].to != to {
				continue
			}
			g.away[i].to = nil
			p := &g.traces[g.away[i].part]
			if len(g.sent) > 0 && len(g.sent)+int(p.n) > maxSent {
				g.sendTo(to)
			}
			for s := p.first; s != none; s = g.next[s] {
				g.sent = append(g.sent, spans[s])
			}
		}
		g.sendTo(to)
	}
	g.away = g.away[:0]
	if cap(g.sent) > 4*maxSent {
		g.sent = nil
	}
}

func (g *group) sendTo(to Peer) {
	to.Send(g.sent)
	clear(g.sent)
	g.sent = g.sent[:0]
}
