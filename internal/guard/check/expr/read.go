package expr

import (
	"errors"
	"slices"

	"tailscope/internal/strictyaml"
)

// Read parses an expression of a file. Its error says what to write and where.
func Read(src string, variables ...string) (*Program, error) {
	p, err := Parse(src, Options{Variables: variables})
	var wrong *Error
	if errors.As(err, &wrong) {
		return nil, &strictyaml.Mistake{Message: wrong.Message, Hint: wrong.Hint, Offset: wrong.Offset + 1}
	}
	return p, err
}

// ReadText parses an expression without variables.
func (p *Program) ReadText(s string) error {
	read, err := Read(s)
	if err == nil {
		*p = *read
	}
	return err
}

// Schema is that of texts and numbers.
func (*Program) Schema() strictyaml.M { return strictyaml.M{"type": []string{"string", "number"}} }

var nulls = []string{"strict", "skip", "zero"}

func (n Nulls) String() string { return nulls[n] }

// ReadText reads strict, skip or zero.
func (n *Nulls) ReadText(s string) error {
	i := slices.Index(nulls, s)
	if i < 0 {
		return strictyaml.Wrong(strictyaml.Suggest(s, nulls), "%q is not known", s)
	}
	*n = Nulls(i)
	return nil
}

// Schema lists the words.
func (*Nulls) Schema() strictyaml.M { return strictyaml.M{"enum": nulls} }
