package mirror

// connectionsWithin returns the bound on connections to each server of a shadow if
// the program may have files files open. Shadows together take no more than half of
// them, so that they keep out neither a client nor a connection to the primary. 0
// files means no bound.
func connectionsWithin(files uint64, servers, asked int) int {
	if files == 0 || servers == 0 {
		return asked
	}
	each := max(1, files/2/uint64(servers))
	return int(min(each, uint64(asked)))
}

// clientsWithin returns the bound on connections of clients if the program may have
// files files open: a quarter, since each may need one to the primary too.
func clientsWithin(files uint64, asked int) int {
	if files == 0 {
		return asked
	}
	return int(min(max(1, files/4), uint64(asked)))
}

// boundClients lowers the connections of clients to what the limit of open files
// allows, and logs it.
func (s *Session) boundClients() {
	files := openFiles()
	if n := clientsWithin(files, s.o.Clients); n < s.o.Clients {
		s.log.Warn("mirror: so few files may be open that fewer clients may be connected; raise the limit (ulimit -n) for more",
			"files", files, "clients", n, "asked", s.o.Clients)
		s.o.Clients = n
	}
}

// boundConnections lowers the connections to servers of shadows to what the limit of
// open files allows, and logs it.
func (s *Session) boundConnections() {
	servers := 0
	for _, p := range s.o.shadows() {
		servers += len(p.Servers)
	}
	files := openFiles()
	if n := connectionsWithin(files, servers, s.o.Connections); n < s.o.Connections {
		s.log.Warn("mirror: so few files may be open that servers of shadows get fewer connections each; raise the limit (ulimit -n) for more",
			"files", files, "connections", n, "asked", s.o.Connections)
		s.o.Connections = n
	}
}
