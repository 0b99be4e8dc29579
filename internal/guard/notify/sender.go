package notify

import (
	"errors"
	"time"

	"tailscope/internal/guard/check/spec"
)

// newSender returns the sender of a definition, or an error for a wrong one.
func newSender(r spec.Receiver, now func() time.Time) (sender, error) {
	if events := r.Webhook != nil || r.Email != nil || r.FileOut != nil && r.FileOut.What != "results"; r.Verdicts && !events {
		return nil, errors.New("verdicts: only a webhook, an email and a file of events are told of marks: leave it out")
	}
	switch {
	case r.NSCA != nil:
		return sure(newNSCA(*r.NSCA, now))
	case r.Icinga != nil:
		return sure(newIcinga(*r.Icinga))
	case r.Alertmanager != nil:
		return sure(newAlertmanager(*r.Alertmanager, now))
	case r.Webhook != nil:
		return sure(newWebhook(*r.Webhook, now))
	case r.Email != nil:
		return sure(newEmail(*r.Email))
	case r.Graphite != nil:
		return newGraphite(*r.Graphite), nil
	case r.FileOut != nil:
		return sure(newFile(*r.FileOut))
	}
	return nil, errors.New("no kind is set: write nsca, icinga, alertmanager, webhook, email, graphite or file")
}

// Valid returns what is wrong with a definition, without looking at what only the
// machine that runs it has: the files of certificates and secrets.
func Valid(r spec.Receiver) error {
	if r.Icinga != nil {
		i := *r.Icinga
		i.CA = ""
		r.Icinga = &i
	}
	s, err := newSender(r, time.Now)
	if err != nil {
		return err
	}
	s.close()
	return nil
}

// sure keeps a nil pointer from becoming a sender.
func sure[S sender](s S, err error) (sender, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
