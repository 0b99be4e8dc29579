package chstore

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"tailscope/internal/store"
)

// A databaseError is what ClickHouse answered in place of a result. It matches the errors
// of package store that a caller may act on.
type databaseError struct {
	node string // host:port
	code int    // ClickHouse's number, 0 if it gave none, as what stands before it
	text string // one line

	status int // of HTTP
}

func (e *databaseError) Error() string {
	return fmt.Sprintf("ClickHouse at %s: %s", e.node, e.text)
}

// An awayError says why a node gave no answer. It matches store.ErrAway.
type awayError struct{ error }

func (e *awayError) Is(target error) bool { return target == store.ErrAway }

func (e *awayError) Unwrap() error { return e.error }

// ClickHouse's numbers of errors.
const (
	codeTooManyRows    = 158
	codeTooManyQueries = 202
	codeSocketTimeout  = 209
	codeNetwork        = 210
	codeWrite          = 75
	codeNoSpace        = 243
	codeMemory         = 241
	codeTooManyParts   = 252
	codeAllFailed      = 279
	codeFewReplicas    = 285 // fewer replicas than the quorum are there
	codeQuorumBefore   = 286 // the quorum of an earlier insertion is not there yet
	codeBehind         = 289 // a replica lacks what others have
	codeTooManyBytes   = 307
	codeUnknownInsert  = 319 // whether the quorum has an insertion is not known
	codeResultTooLarge = 396
	codeKeeper         = 999
)

// Is reports whether the error is one of package store's.
func (e *databaseError) Is(target error) bool {
	switch e.code {
	case codeFewReplicas, codeQuorumBefore, codeBehind, codeUnknownInsert, codeKeeper:
		return target == store.ErrAway
	case codeNoSpace:
		return target == store.ErrFull
	case codeWrite: // the system's own error is in the text alone
		return target == store.ErrFull && strings.Contains(e.text, "No space left on device")
	case codeMemory, codeTooManyRows, codeTooManyBytes, codeResultTooLarge:
		return target == store.ErrTooMany
	}
	return false
}

// temporary reports whether the same statement may succeed a moment later.
func (e *databaseError) temporary() bool {
	switch e.code {
	case codeTooManyQueries, codeSocketTimeout, codeNetwork, codeAllFailed, codeTooManyParts, codeKeeper, codeFewReplicas, codeQuorumBefore, codeBehind, codeUnknownInsert:
		return true
	case 0:
		return e.status >= http.StatusBadGateway
	}
	return false
}

var errorCode = regexp.MustCompile(`^Code: (\d+)`)

// longestError bounds what an error quotes of an answer.
const longestError = 500

// answerError returns the error that an answer of another status than 200 is. Older
// versions give the number in the text alone.
func answerError(node string, res *http.Response, body []byte) error {
	text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	e := &databaseError{node: node, text: text, status: res.StatusCode}
	if len(e.text) > longestError {
		e.text = strings.ToValidUTF8(e.text[:longestError], "") + "…"
	}
	code := res.Header.Get("X-ClickHouse-Exception-Code")
	if m := errorCode.FindStringSubmatch(text); m != nil {
		code = m[1]
	}
	e.code, _ = strconv.Atoi(code)
	if e.text == "" {
		e.text = "answered " + res.Status
	}
	return e
}
