//go:build !linux

package proxy

import "net"

func fast(nc net.Conn) net.Conn { return nc }

func tcp(nc net.Conn) *net.TCPConn {
	t, _ := nc.(*net.TCPConn)
	return t
}
