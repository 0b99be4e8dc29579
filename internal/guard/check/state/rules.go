package state

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/strictyaml"
)

// Rules say how runs become states. In the zero value one run decides, nothing flaps
// and nobody is reminded.
type Rules struct {
	Soft     Runs          `key:"soft" default:"3 of 3" doc:"Bad runs that make the state hard: 3 of 5."`
	Recover  Runs          `key:"recover" default:"1 of 1" doc:"Good runs that make it OK again: 2 of 2."`
	Flapping Flapping      `key:"flapping" doc:"Shares of changes among the last 21 runs that begin and end flapping, or off."`
	Remind   time.Duration `key:"remind" doc:"Time after which receivers are notified again of an open incident; default never."`
}

// Runs are N of the last Of runs; 0 means 1.
type Runs struct{ N, Of int }

// ReadText reads 3 of 5; 3 alone is 3 of 3.
func (v *Runs) ReadText(s string) error {
	a, b, ok := strings.Cut(s, " of ")
	if !ok {
		b = a
	}
	n, err := strconv.Atoi(strings.TrimSpace(a))
	of, err2 := strconv.Atoi(strings.TrimSpace(b))
	if err != nil || err2 != nil || n < 1 || n > of || of > 1000 {
		return strictyaml.Wrong("write one such as 3 of 5", "%q is not an n of m", s)
	}
	*v = Runs{n, of}
	return nil
}

// Schema is a pattern of one or two numbers.
func (*Runs) Schema() strictyaml.M { return strictyaml.Either(`^ *[0-9]+( of [0-9]+)? *$`) }

// String writes what ReadText reads.
func (v Runs) String() string { return fmt.Sprintf("%d of %d", max(1, v.N), max(1, v.Of)) }

// Flapping begins and ends at shares of changes among the last 21 runs. A High of 0
// turns it off.
type Flapping struct {
	High float64 `key:"high" is:"share" need:"yes" default:"50%" doc:"Begins at this share of changes."`
	Low  float64 `key:"low" is:"share" need:"yes" default:"25%" doc:"Ends at this share."`
}

// ReadScalar reads off.
func (f *Flapping) ReadScalar(d *strictyaml.Decoder, _ string, n *strictyaml.Node) bool {
	if *f = (Flapping{}); n.Text != "off" && n.Text != "false" {
		d.Problems.Add(n.At, "write off, or {high: 50%, low: 25%}", "flapping is %s", n.Text)
	}
	return true
}

// SchemaOf adds off to the schema of the keys.
func (*Flapping) SchemaOf(_ *strictyaml.Schemas, ref strictyaml.M) strictyaml.M {
	return strictyaml.M{"anyOf": []any{strictyaml.M{"enum": []any{"off", false}}, ref}}
}
