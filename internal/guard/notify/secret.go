package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"tailscope/internal/guard/check/spec"
)

// readSecret reads a secret, if one is set, at each call, so that a changed file
// needs no restart. It uses the first line of a file. what names it in errors.
func readSecret(what string, s *spec.Secret) (string, error) {
	if s == nil {
		return "", nil
	}
	if s.File == "" {
		v := os.Getenv(s.Env)
		if v == "" {
			return "", fmt.Errorf("%s: the environment has no %s: set it for the server and start it again", what, s.Env)
		}
		return v, nil
	}
	f, err := os.Open(s.File)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	b, _, _ = bytes.Cut(b, []byte("\n"))
	if b = bytes.TrimSuffix(b, []byte("\r")); len(b) == 0 {
		return "", fmt.Errorf("%s: the first line of %s is empty", what, s.File)
	}
	return string(b), nil
}

// readText returns t, or the secret that stands for it, which it adds to secrets.
func readText(what string, t spec.Text, secrets *[]string) (string, error) {
	if t.Secret == nil {
		return t.Plain, nil
	}
	v, err := readSecret(what, t.Secret)
	*secrets = append(*secrets, v)
	return v, err
}

// redact removes secrets from err's text. Refusals and answers keep their types.
func redact(err error, secrets []string) error {
	text := err.Error()
	clean := text
	for _, s := range secrets {
		if s != "" {
			clean = strings.ReplaceAll(clean, s, "***")
		}
	}
	if clean == text {
		return err
	}
	var a answer
	switch {
	case refused(err):
		return refusal{errors.New(clean)}
	case errors.As(err, &a):
		return answer{errors.New(clean), a.after, a.alive}
	}
	return errors.New(clean)
}
