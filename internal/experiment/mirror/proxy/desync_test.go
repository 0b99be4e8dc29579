package proxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// capricious is a primary that does what the target asks for, and says in its
// answer which request that was.
func capricious(c net.Conn) {
	var rest []byte
	for {
		raw, _, err := message(c, &rest, "")
		if err != nil {
			return
		}
		method, after, _ := strings.Cut(string(raw), " ")
		target, _, _ := strings.Cut(after, " ")
		id, how, _ := strings.Cut(strings.TrimPrefix(target, "/"), "/")
		body := "<" + id + ">"
		answer := fmt.Sprintf("HTTP/1.1 200 OK|X-Id: %s|Content-Length: %d||", id, len(body))
		if method != "HEAD" {
			answer += body
		}
		chunked := fmt.Sprintf("HTTP/1.1 200 OK|X-Id: %s|Transfer-Encoding: chunked||%x|%s|0|X-T: %s||", id, len(body), body, id)
		switch how {
		case "hint":
			answer = "HTTP/1.1 103 Early Hints|Link: x||HTTP/1.1 102 Processing||" + answer
		case "chunked":
			if method != "HEAD" {
				answer = chunked
			}
		case "none":
			answer = "HTTP/1.1 204 No Content|X-Id: " + id + "||"
		case "bytes": // one at a time, in two writes that may be read as one
			half := len(answer) / 2
			io.WriteString(c, crlf(answer)[:half])
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
			io.WriteString(c, crlf(answer)[half:])
			continue
		case "extra":
			answer += "HTTP/1.1 200 OK|X-Id: wrong|Content-Length: 7||<wrong>"
		case "head": // a body where there is none
			answer = "HTTP/1.1 304 Not Modified|X-Id: " + id + "|Content-Length: 7||<wrong>"
		case "close":
			io.WriteString(c, crlf(strings.Replace(answer, "||", "|Connection: close||", 1)))
			return
		case "leave": // without a word
			io.WriteString(c, crlf(answer))
			return
		case "cut":
			io.WriteString(c, crlf(answer)[:len(answer)-1])
			return
		case "reset":
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		}
		if _, err := io.WriteString(c, crlf(answer)); err != nil {
			return
		}
	}
}

// TestNoDesync lets clients and a primary break off, hurry and send too much in every
// order: every answer that a client gets belongs to its request. Only bytes that a
// primary sends after it has got the next request cannot be told from the answer.
func TestNoDesync(t *testing.T) {
	w := start(t, capricious, func(o *Options) { o.PrimaryTimeout = 2 * time.Second })
	hows := []string{"", "", "", "hint", "chunked", "none", "bytes", "extra", "head", "close", "leave", "cut", "reset"}
	var clients sync.WaitGroup
	for k := range 8 {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(5, uint64(k)))
			n := 0
			for range 25 {
				c, err := net.Dial("tcp", w.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				converse(t, c, rnd, func() string { n++; return fmt.Sprintf("%d-%d", k, n) }, hows)
				c.Close()
			}
		})
	}
	clients.Wait()
	w.failed()
	if s, a := w.ledger.Stats(), w.ledger.Account(0); s.Open != 0 || s.Strays != 0 || a.Pairing != 0 || a.Answered != a.Offered {
		t.Errorf("what was counted does not close: %+v, %+v", s, a)
	}
}

// converse makes some requests on a connection, perhaps pipelined, perhaps with
// bodies that are cut short.
func converse(t *testing.T, c net.Conn, rnd *rand.Rand, id func() string, hows []string) {
	type asked struct{ method, id, how string }
	var rest []byte
	for range 1 + rnd.IntN(6) {
		var all []asked
		text := ""
		for range 1 + rnd.IntN(3) {
			a := asked{[]string{"GET", "POST", "PUT", "HEAD"}[rnd.IntN(4)], id(), hows[rnd.IntN(len(hows))]}
			all = append(all, a)
			head := a.method + " /" + a.id + "/" + a.how + " HTTP/1.1|Host: a|"
			switch body := "GET /wrong/ HTTP/1.1|Host: a||"; {
			case a.method != "POST" && a.method != "PUT":
				text += crlf(head + "|")
			case rnd.IntN(2) == 0:
				text += crlf(head + fmt.Sprintf("Content-Length: %d||", len(crlf(body))) + body)
			default:
				text += crlf(head + fmt.Sprintf("Transfer-Encoding: chunked||%x|%s|0||", len(crlf(body)), body))
			}
		}
		if rnd.IntN(5) == 0 {
			io.WriteString(c, text[:rnd.IntN(len(text))]) // and goes
			time.Sleep(time.Duration(rnd.IntN(2)) * time.Millisecond)
			if rnd.IntN(2) == 0 {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			return
		}
		for len(text) > 0 {
			n := len(text)
			if rnd.IntN(2) == 0 {
				n = 1 + rnd.IntN(len(text))
			}
			if _, err := io.WriteString(c, text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
		for _, a := range all {
			for {
				raw, body, err := message(c, &rest, a.method)
				if err != nil {
					return // broken off
				}
				status := string(raw[9:12])
				if status[0] == '1' {
					continue
				}
				said := bars(raw)
				if status[0] == '5' || status == "400" {
					if !strings.Contains(said, "|Tailscope-Reason: ") {
						t.Errorf("%+v: %q", a, said)
					}
				} else if !strings.Contains(said, "|X-Id: "+a.id+"|") || len(body) > 0 && string(body) != "<"+a.id+">" {
					t.Errorf("%+v was answered %q", a, said)
				}
				break
			}
		}
	}
}
