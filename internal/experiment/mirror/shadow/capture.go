package shadow

// BodyCapture keeps a payload's body beside its copies. It may be used after the
// payload was released.
type BodyCapture struct {
	s      *Spool
	limit  int
	length int64
	body   []byte
}

// CaptureBody keeps the body, if it has at most limit bytes, and its length. Call it
// before anything was written; a second capture replaces the first.
func (p *Payload) CaptureBody(limit int) *BodyCapture {
	t := &BodyCapture{limit: limit}
	if p.spool == nil {
		t.add(p.Body)
		return t
	}
	t.s = p.spool
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.capture = t
	return t
}

// add is called under the spool's lock.
func (t *BodyCapture) add(p []byte) {
	t.length += int64(len(p))
	if t.length <= int64(t.limit) {
		t.body = append(t.body, p...)
	} else {
		t.body = nil
	}
}

// Body returns the body, nil if it is not whole or too long, and its length, -1
// if it is not whole.
func (t *BodyCapture) Body() (body []byte, length int64) {
	if t.s != nil {
		t.s.mu.Lock()
		defer t.s.mu.Unlock()
		if !t.s.closed || t.s.cause != 0 {
			return nil, -1
		}
	}
	return t.body, t.length
}
