package spec

import "time"

// receiver reads who is told.
func (r *reader) receiver(name string, def defined[rawReceiver]) {
	raw := def.raw
	out := Receiver{
		Name: name, Match: r.matchers(&raw.Match), Levels: strs(raw.Levels), SpoolBytes: 64 << 20, Timeout: raw.Timeout,
		File: def.at.File.Name, Line: def.at.Line,
	}
	if s := raw.Spool; s != nil {
		out.SpoolBytes, out.SpoolAge = s.Bytes, s.Age
	}
	if r.d.OK(&raw.Timeout) && out.Timeout < 10*time.Millisecond {
		r.d.Wrong(&raw.Timeout, "at least 10ms", "the timeout %s is too short", r.d.S(&raw.Timeout))
	}
	given := 0
	if k := raw.NSCA; k != nil {
		given++
		out.NSCA = k
		if e := k.Encryption; k.Password == nil && e != "none" && e != "xor" {
			r.d.Wrong(k, "write password: {env: NAME} or {file: PATH}", "the encryption %s needs a password", e)
		}
		k.Password = r.secret(k.Password)
	}
	if k := raw.Icinga; k != nil {
		given++
		r.noPassword(r.d.Node(&k.URL))
		out.Icinga, k.Password = k, r.secret(k.Password)
	}
	if k := raw.Alertmanager; k != nil {
		given++
		r.noPassword(r.d.Node(&k.URL))
		out.Alertmanager, k.Password = k, r.secret(k.Password)
		if r.d.OK(&k.Resend) && k.Resend < time.Second {
			r.d.Wrong(&k.Resend, "at least 1s", "resend %s is too often", r.d.S(&k.Resend))
		}
	}
	if k := raw.Webhook; k != nil {
		given++
		r.noPassword(k.URL.node)
		out.Webhook = &Webhook{URL: k.URL.text, SecretURL: r.secret(k.URL.secret), Template: k.Template, Secret: r.secret(k.Secret)}
		out.Webhook.Headers, out.Webhook.SecretHeaders = r.plainAndSecret("header", k.Headers)
	}
	if k := raw.Email; k != nil {
		given++
		out.Email, k.To = k, strs(k.To)
		if k.Password != nil && out.Email.StartTLS == "never" {
			r.d.Wrong(&k.StartTLS, "write always", "the password would go over the network as it is")
		}
		k.Password = r.secret(k.Password)
	}
	if k := raw.Graphite; k != nil {
		given++
		out.Graphite = k
	}
	if k := raw.File; k != nil {
		given++
		out.FileOut = k
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
