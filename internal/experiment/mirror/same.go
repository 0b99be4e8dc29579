package mirror

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// endpoint is an address that a server's name resolves to.
type endpoint = netip.AddrPort

// machine knows this machine's addresses.
type machine struct {
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	own    []netip.Addr // addresses of this machine's interfaces
}

func thisMachine() machine {
	m := machine{lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	addrs, _ := net.InterfaceAddrs() // without them loopback is still known
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			m.own = append(m.own, p.Addr().Unmap())
		}
	}
	return m
}

// resolve returns the addresses of a server.
func (m machine) resolve(ctx context.Context, s server) ([]endpoint, error) {
	port, err := strconv.ParseUint(s.port, 10, 16)
	if err != nil {
		return nil, err
	}
	addrs, err := m.lookup(ctx, s.host)
	if err != nil {
		return nil, err
	}
	points := make([]endpoint, len(addrs))
	for i, a := range addrs {
		points[i] = netip.AddrPortFrom(connected(a.Unmap().WithZone("")), uint16(port))
	}
	return points, nil
}

// connected returns the address that a connection to a goes to: for the unspecified
// address that is this machine.
func connected(a netip.Addr) netip.Addr {
	switch {
	case !a.IsUnspecified():
		return a
	case a.Is4():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// local reports whether a is this machine.
func (m machine) local(a netip.Addr) bool {
	return a.IsLoopback() || slices.Contains(m.own, a)
}

// listens reports whether a connection to one of points reaches a listener that is
// bound to bound.
func (m machine) listens(bound endpoint, points []endpoint) bool {
	at := bound.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(points, func(p endpoint) bool {
		if p.Port() != bound.Port() {
			return false
		}
		return p.Addr() == at || at.IsUnspecified() && m.local(p.Addr())
	})
}

// same reports whether two servers are probably one: they share an address, or
// both are this machine, by its loopback and by another of its addresses. Two
// addresses of the loopback network, or of two interfaces, may well be two
// servers.
func (m machine) same(a, b []endpoint) bool {
	for _, p := range a {
		for _, q := range b {
			switch {
			case p.Port() != q.Port():
			case p.Addr() == q.Addr():
				return true
			case !m.local(p.Addr()) || !m.local(q.Addr()):
			case p.Addr().IsLoopback() != q.Addr().IsLoopback(), p.Addr().Is4() != q.Addr().Is4() && p.Addr().IsLoopback():
				return true
			}
		}
	}
	return false
}

// checkServers refuses loops, and shadows that are the primary. Names of shadows that
// do not resolve pass: the server may come later, and a request that comes round is
// then recognised by its mark.
func (m machine) checkServers(ctx context.Context, o *Options, bound net.Addr) error {
	parse := o.parse
	primary, err := parse(o.Primary)
	if err != nil {
		return fmt.Errorf("primary: %w", err)
	}
	answers, err := m.resolve(ctx, primary)
	if err != nil {
		return fmt.Errorf("primary: the name of %s does not resolve (%w): correct its address", o.Primary, err)
	}
	at := addrPort(bound)
	if m.listens(at, answers) {
		return fmt.Errorf("primary: %s is the address that this mirror listens on (%s), and requests would go round in circles: name the server behind it, or listen elsewhere", o.Primary, bound)
	}
	check := func(option, text string) error {
		s, err := parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", option, err)
		}
		points, err := m.resolve(ctx, s)
		if err != nil {
			return nil
		}
		if m.listens(at, points) {
			return fmt.Errorf("%s: %s is the address that this mirror listens on (%s), and every copy would be copied again: name another server, or listen elsewhere", option, text, bound)
		}
		if !o.AllowSame && m.same(points, answers) {
			return fmt.Errorf("%s: %s is the primary itself (%s), which would do everything twice: name another server, or add --set mirror.allow_same=true if that is meant", option, text, o.Primary)
		}
		return nil
	}
	for _, p := range o.named() {
		for _, text := range p.Servers {
			if err := check("candidate", text); err != nil {
				return err
			}
		}
	}
	for _, text := range o.Control {
		if err := check("control", text); err != nil {
			return err
		}
	}
	return nil
}

func addrPort(a net.Addr) endpoint {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort()
	}
	p, _ := netip.ParseAddrPort(a.String())
	return p
}
