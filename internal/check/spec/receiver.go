package spec

import "time"

// receiver reads who is told.
func (r *reader) receiver(name string, def defined[rawReceiver]) {
	raw := def.raw
	out := Receiver{
		Name: name, Match: r.matchers(raw.Match), Levels: strs(raw.Levels), SpoolBytes: 64 << 20, Timeout: 10 * time.Second,
		File: def.at.file.name, Line: def.at.line,
	}
	if s := raw.Spool; s != nil {
		out.SpoolBytes, out.SpoolAge = size(s.Bytes, out.SpoolBytes), s.Age.d
	}
	if raw.Timeout.ok {
		if out.Timeout = raw.Timeout.d; out.Timeout < 10*time.Millisecond {
			r.problem(raw.Timeout.n.at, "at least 10ms", "the timeout %s is too short", raw.Timeout.s())
		}
	}
	given := 0
	if k := raw.NSCA; k != nil {
		given++
		out.NSCA = &NSCA{Address: k.Address.s(), Password: r.secret(k.Password), Encryption: k.Encryption.or("xor"), Short: k.Short.b}
		if e := out.NSCA.Encryption; k.Password == nil && e != "none" && e != "xor" {
			r.problem(k.Node.at, "write password: {env: NAME} or {file: PATH}", "the encryption %s needs a password", e)
		}
	}
	if k := raw.Icinga; k != nil {
		given++
		r.noPassword(k.URL)
		out.Icinga = &Icinga{URL: k.URL.s(), User: k.User.s(), Password: r.secret(k.Password), CA: k.CA.s(), Insecure: k.Insecure.b}
	}
	if k := raw.Alertmanager; k != nil {
		given++
		r.noPassword(k.URL)
		out.Alertmanager = &Alertmanager{URL: k.URL.s(), User: k.User.s(), Password: r.secret(k.Password), Resend: time.Minute}
		if k.Resend.ok {
			if out.Alertmanager.Resend = k.Resend.d; k.Resend.d < time.Second {
				r.problem(k.Resend.n.at, "at least 1s", "resend %s is too often", k.Resend.s())
			}
		}
	}
	if k := raw.Webhook; k != nil {
		given++
		r.noPassword(k.URL.text)
		out.Webhook = &Webhook{URL: k.URL.s(), SecretURL: r.secret(k.URL.secret), Template: k.Template.s(), Secret: r.secret(k.Secret)}
		out.Webhook.Headers, out.Webhook.SecretHeaders = r.plainAndSecret("header", k.Headers)
	}
	if k := raw.Email; k != nil {
		given++
		out.Email = &Email{
			Server: k.Server.s(), From: k.From.s(), To: strs(k.To), User: k.User.s(), Password: r.secret(k.Password),
			StartTLS: k.StartTLS.or("always"), Subject: k.Subject.s(), Body: k.Body.s(),
		}
		if k.Password != nil && out.Email.StartTLS == "never" {
			r.problem(k.StartTLS.n.at, "write always", "the password would go over the network as it is")
		}
	}
	if k := raw.Graphite; k != nil {
		given++
		out.Graphite = &Graphite{Address: k.Address.s(), Prefix: k.Prefix.s()}
	}
	if k := raw.File; k != nil {
		given++
		out.FileOut = &FileOut{Path: k.Path.s(), Format: k.Format.or("json"), What: k.What.or("events")}
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
