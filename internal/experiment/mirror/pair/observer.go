package pair

// Observer observes exchanges while they happen. Its methods are called on the
// goroutines that serve clients and read answers, with the exchange locked: they must
// not wait, and do not keep the exchange.
type Observer interface {
	// Begun is called for each request that arrives: why is Chosen, or the reason it
	// was not.
	Begun(x *Exchange, why Reason)
	// Ended is called when a leg has ended: the primary's, 0, or 1+i, that of a
	// copy for shadow i.
	Ended(x *Exchange, target int, l Leg)
}

// Observe makes o the ledger's observer, in place of the one before; nil is none, and
// costs nothing. Of exchanges that were begun before, o sees the ends alone.
func (b *Ledger) Observe(o Observer) {
	if o == nil {
		b.observer.Store(nil)
		return
	}
	b.observer.Store(&o)
}
