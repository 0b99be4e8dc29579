package program

import "context"

// StartFaulty runs a server that misbehaves in the way named (benchmarks/cmd/
// faulty) and returns its address; the one that refuses is an address alone.
func StartFaulty(ctx context.Context, logPath, fault string) (*Process, string, error) {
	path, err := Build(ctx, "faulty")
	if err != nil {
		return nil, "", err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	p, err := Start(logPath, nil, path, "-fault", fault, "-listen", addr)
	if err != nil {
		return nil, "", err
	}
	return p, addr, p.until(ctx, func() bool { return fault == "refuse" || listens(addr) })
}

// StartFrozen runs a server that freezes (benchmarks/cmd/frozen) and returns its
// address.
func StartFrozen(ctx context.Context, logPath string) (*Process, string, error) {
	path, err := Build(ctx, "frozen")
	if err != nil {
		return nil, "", err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	p, err := Start(logPath, nil, path, "-listen", addr)
	if err != nil {
		return nil, "", err
	}
	return p, addr, p.until(ctx, func() bool { return listens(addr) })
}
