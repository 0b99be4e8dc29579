package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/profile"
	"tailscope/internal/guard/check/schedule"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/notify"
)

// ReadChecks reads files of checks, and patterns of files, and validates them
// completely, with schedules and profiles.
func ReadChecks(paths []string) (*spec.File, []spec.Problem) {
	return spec.Read(paths, spec.Options{
		Schedule: func(s spec.Schedule) (time.Duration, error) {
			parsed, err := schedule.Parse(s, "")
			return parsed.Interval(), err
		},
		Profile:  profileProblems,
		Receiver: notify.Valid,
	})
}

func profileProblems(name string, p spec.Profile, c spec.Calendar) []spec.Problem {
	cal, err := profile.NewCalendar(c)
	if err == nil {
		_, err = profile.Compile(name, p, cal, func(src string, _ int) (*expr.Program, error) {
			return expr.Parse(src, expr.Options{Variables: []string{"value"}})
		})
	}
	if err == nil {
		return nil
	}
	several := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		several = joined.Unwrap()
	}
	var out []spec.Problem
	for _, err := range several {
		var e *profile.Error
		if errors.As(err, &e) {
			out = append(out, spec.Problem{Line: e.Line, Message: e.Message, Hint: e.Hint})
			continue
		}
		out = append(out, spec.Problem{Message: err.Error()})
	}
	return out
}

// checkProblems returns one error for all problems in files of checks.
func checkProblems(problems []spec.Problem) error {
	var b strings.Builder
	for i, p := range problems {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(p.Error())
	}
	return fmt.Errorf("checks: %s", b.String())
}
