// Package offer gives the copies of a request to the senders of shadows. The mirror's
// two HTTP servers share one [Maker], so that a request is chosen, counted and copied
// alike over every protocol. Each server reads the request by its own means, and
// makes its payload:
//
//	Maker.Bound  is it copied?
//	Offer.Begin  its exchange begins: is a payload wanted?
//	Offer.Give   when the primary's is written: the copies go to the senders
package offer

import (
	"math/rand/v2"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
)

// Chooser decides whether a request is copied; *choose.Chooser is one. It retains
// nothing of its arguments.
type Chooser interface {
	Choose(r *choose.Request) choose.Decision
}

// Sender sends copies to one shadow; *shadow.Sender is one. No method may wait.
type Sender interface {
	Copies(write bool) uint8
	// Missed records that a write was not copied, and why.
	Missed(pair.Reason)
	Offer(c shadow.Copy)
}

// Maker holds what the offers of a session share. Its fields are not changed once it
// is in use; then it is safe for concurrent use.
type Maker struct {
	Ledger  *pair.Ledger
	Chooser Chooser
	Senders []Sender // in the order of the ledger's shadows
	// Keep keeps answers for comparison.
	Keep bool
	// Watched is called with every request that is chosen, before it goes to the
	// primary; its result is the exchange's Request. The payload, which has the body
	// if that came with the head, is valid during the call. Default: none.
	Watched func(d *choose.Decision, p *shadow.Payload, began int64) any
	// BodyLimit bounds the announced length of a body that is copied; requests with a
	// longer one are skipped. 0: the senders' own limits. Negative: requests with a
	// body are not copied.
	BodyLimit int64
}

// Bound marks a request as not copied if its body may not be. length is the body's if
// it is known in advance, else 0 or less.
func (m *Maker) Bound(d *choose.Decision, hasBody bool, length int64) {
	if d.Mirror && (m.BodyLimit > 0 && length > m.BodyLimit || m.BodyLimit < 0 && hasBody) {
		d.Mirror, d.Reason, d.Missed = false, pair.Length, d.Write
	}
}

// Unreached begins the exchange of a request that does not reach the primary. It is
// not copied.
func (m *Maker) Unreached(d *choose.Decision) *pair.Exchange {
	if d.Mirror {
		return m.Ledger.Begin(d.Names, nil, false)
	}
	return m.Ledger.Skip(d.Names, d.Reason)
}

// Offer offers the copies of one request after the other, for one goroutine at a
// time. Its zero value is ready.
type Offer struct {
	m      *Maker
	counts []uint8 // of each sender
	write  bool
	given  bool
}

// Begin begins the exchange of a request that goes to the primary, and reports
// whether a payload is wanted, by the senders or by Watched.
func (o *Offer) Begin(m *Maker, d *choose.Decision) (x *pair.Exchange, wanted bool) {
	o.m, o.write, o.given = m, d.Write, false
	if !d.Mirror {
		if d.Missed {
			for _, l := range m.Senders {
				l.Missed(d.Reason)
			}
		}
		return m.Ledger.Skip(d.Names, d.Reason), false
	}
	if len(o.counts) != len(m.Senders) {
		o.counts = make([]uint8, len(m.Senders))
	}
	wanted = m.Watched != nil
	for i, l := range m.Senders {
		o.counts[i] = l.Copies(d.Write)
		wanted = wanted || o.counts[i] > 0
	}
	return m.Ledger.Begin(d.Names, o.counts, m.Keep), wanted
}

// Give offers the payload to the senders, once. The order is random, so that no
// shadow is always the last.
func (o *Offer) Give(x *pair.Exchange, p *shadow.Payload) {
	n := len(o.m.Senders)
	if o.given || n == 0 {
		return
	}
	o.given = true
	k, step := rand.IntN(n), 1
	if rand.IntN(2) == 0 {
		step = n - 1
	}
	for range n {
		if c := o.counts[k]; c > 0 {
			o.m.Senders[k].Offer(shadow.Copy{Payload: p, To: x, Shadow: k, Copies: c, Write: o.write})
		}
		k = (k + step) % n
	}
}
