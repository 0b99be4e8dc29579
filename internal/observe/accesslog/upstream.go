package accesslog

import "tailscope/internal/route"

// attempt is one try at an upstream. Times are nanoseconds; -1 is not known.
type attempt struct {
	addr                   []byte
	total, connect, header int64
	status                 int  // 0 if not known
	retried                bool // another server of the group was tried after it
}

// attempts parses nginx's lists in step. Servers tried one after another are separated
// by ", ", and groups that an internal redirect led to by " : "
// (https://nginx.org/en/docs/http/ngx_http_upstream_module.html#var_upstream_addr). All
// of them are in sequence. It appends them to dst and does not copy the text. It leaves
// out an attempt without a time, which took none that counts.
func (p *parser) attempts(dst []attempt) []attempt {
	times := p.values[slotUpTime]
	if isAbsent(times) {
		return dst
	}
	addrs, connects, headers, statuses := p.values[slotUpAddr], p.values[slotUpConnect], p.values[slotUpHeader], p.values[slotUpStatus]
	for len(times) > 0 {
		var t, addr, connect, header, status []byte
		list := times
		t, times = cutItem(times)
		retried := len(times) > 0 && list[len(t)] == ','
		addr, addrs = cutItem(addrs)
		connect, connects = cutItem(connects)
		header, headers = cutItem(headers)
		status, statuses = cutItem(statuses)
		total, ok := parseDecimal(t, p.f.unitUp)
		if !ok {
			continue
		}
		a := attempt{addr: addr, total: total, connect: -1, header: -1, retried: retried}
		if v, ok := parseDecimal(connect, p.f.unitUp); ok {
			a.connect = v
		}
		if v, ok := parseDecimal(header, p.f.unitUp); ok {
			a.header = v
		}
		if isAbsent(addr) {
			a.addr = nil
		}
		a.status, _ = parseNumber(status)
		dst = append(dst, a)
	}
	return dst
}

// cutItem returns the first item of a list, and the rest.
func cutItem(l []byte) (first, rest []byte) {
	for i, c := range l {
		if c == ',' {
			return trim(l[:i]), trim(l[i+1:])
		}
		if c == ':' && i > 0 && l[i-1] == ' ' {
			return trim(l[:i]), trim(l[i+1:])
		}
	}
	return trim(l), nil
}

func trim(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}

// appendGroup appends the common name of attempts at the same kind of upstream: the
// configured name if it is logged, or else the port of an address, since the addresses
// of a group have nothing else in common.
func appendGroup(dst, name, addr []byte) []byte {
	if !isAbsent(name) {
		return append(dst, name...)
	}
	dst = append(dst, "upstream"...)
	if host := route.WithoutPort(addr); len(host) < len(addr) {
		return append(dst, addr[len(host):]...)
	}
	if len(addr) > 5 && string(addr[:5]) == "unix:" {
		return append(append(dst, ' '), addr...)
	}
	return dst
}
