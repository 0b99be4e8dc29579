package spec

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strconv"
)

// maxSecret bounds what is read of a secret's file.
const maxSecret = 64 << 10

// Read returns the secret itself, now: its first line, so that a newline at the
// end of a file does no harm. The error never holds any of it.
func (s Secret) Read() (string, error) {
	if s.Env != "" {
		v, ok := os.LookupEnv(s.Env)
		if !ok || v == "" {
			return "", fmt.Errorf("secret: the environment has no %s: set it where the server is started", s.Env)
		}
		return v, nil
	}
	f, err := os.Open(s.File)
	if err != nil {
		return "", fmt.Errorf("secret: %w", err)
	}
	defer f.Close()
	b := make([]byte, maxSecret)
	n, err := f.Read(b)
	if n == 0 && err != nil {
		return "", fmt.Errorf("secret: %s holds none: %w", s.File, err)
	}
	line, _, _ := bytes.Cut(b[:n], []byte("\n"))
	if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
		return "", fmt.Errorf("secret: the first line of %s is empty", s.File)
	}
	return string(line), nil
}

// String says where the secret comes from.
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
