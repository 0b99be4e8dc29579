package spec

import (
	"fmt"
	"log/slog"
	"strconv"
)

// String returns where the secret comes from.
func (s Secret) String() string {
	switch {
	case s.Env != "":
		return "from $" + s.Env
	case s.File != "":
		return "from " + s.File
	}
	return "none"
}

// GoString, Format and the Marshal methods print what String does.
func (s Secret) GoString() string { return s.String() }

func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Secret) MarshalJSON() ([]byte, error) { return []byte(strconv.Quote(s.String())), nil }

func (s Secret) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(s.String())), nil }

func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
