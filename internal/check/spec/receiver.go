package spec

import "time"

// receiver reads who is told.
func (r *reader) receiver(name string, def defined[rawReceiver]) {
	raw := def.raw
	out := Receiver{
		Name: name, Match: r.matchers(raw.Match), Levels: strs(raw.Levels), SpoolBytes: 64 << 20, Timeout: 10 * time.Second,
		File: def.at.File.Name, Line: def.at.Line,
	}
	if s := raw.Spool; s != nil {
		out.SpoolBytes, out.SpoolAge = size(s.Bytes, out.SpoolBytes), s.Age.Duration
	}
	if raw.Timeout.OK {
		if out.Timeout = raw.Timeout.Duration; out.Timeout < 10*time.Millisecond {
			r.problem(raw.Timeout.Node.At, "at least 10ms", "the timeout %s is too short", raw.Timeout.S())
		}
	}
	given := 0
	if k := raw.NSCA; k != nil {
		given++
		out.NSCA = &NSCA{Address: k.Address.S(), Password: r.secret(k.Password), Encryption: k.Encryption.Or("xor"), Short: k.Short.Bool}
		if e := out.NSCA.Encryption; k.Password == nil && e != "none" && e != "xor" {
			r.problem(k.Node.At, "write password: {env: NAME} or {file: PATH}", "the encryption %s needs a password", e)
		}
	}
	if k := raw.Icinga; k != nil {
		given++
		r.noPassword(k.URL)
		out.Icinga = &Icinga{URL: k.URL.S(), User: k.User.S(), Password: r.secret(k.Password), CA: k.CA.S(), Insecure: k.Insecure.Bool}
	}
	if k := raw.Alertmanager; k != nil {
		given++
		r.noPassword(k.URL)
		out.Alertmanager = &Alertmanager{URL: k.URL.S(), User: k.User.S(), Password: r.secret(k.Password), Resend: time.Minute}
		if k.Resend.OK {
			if out.Alertmanager.Resend = k.Resend.Duration; k.Resend.Duration < time.Second {
				r.problem(k.Resend.Node.At, "at least 1s", "resend %s is too often", k.Resend.S())
			}
		}
	}
	if k := raw.Webhook; k != nil {
		given++
		r.noPassword(k.URL.text)
		out.Webhook = &Webhook{URL: k.URL.S(), SecretURL: r.secret(k.URL.secret), Template: k.Template.S(), Secret: r.secret(k.Secret)}
		out.Webhook.Headers, out.Webhook.SecretHeaders = r.plainAndSecret("header", k.Headers)
	}
	if k := raw.Email; k != nil {
		given++
		out.Email = &Email{
			Server: k.Server.S(), From: k.From.S(), To: strs(k.To), User: k.User.S(), Password: r.secret(k.Password),
			StartTLS: k.StartTLS.Or("always"), Subject: k.Subject.S(), Body: k.Body.S(),
		}
		if k.Password != nil && out.Email.StartTLS == "never" {
			r.problem(k.StartTLS.Node.At, "write always", "the password would go over the network as it is")
		}
	}
	if k := raw.Graphite; k != nil {
		given++
		out.Graphite = &Graphite{Address: k.Address.S(), Prefix: k.Prefix.S()}
	}
	if k := raw.File; k != nil {
		given++
		out.FileOut = &FileOut{Path: k.Path.S(), Format: k.Format.Or("json"), What: k.What.Or("events")}
	}
	if given != 1 {
		message := "receiver " + name + " says no kind"
		if given > 1 {
			message = "receiver " + name + " says several kinds"
		}
		r.problem(def.at, "write one of nsca, icinga, alertmanager, webhook, email, graphite and file", "%s", message)
	} else if r.o.Receiver != nil {
		if err := r.o.Receiver(out); err != nil {
			r.problem(def.at, "", "receiver %s: %v", name, err)
		}
	}
	r.out.Receivers[name] = out
}
