package spec

import "time"

// addReceiver checks a receiver and adds it to the File.
func (r *reader) addReceiver(name string, def defined[Receiver]) {
	out := def.it
	out.Name, out.Levels, out.File, out.Line = name, unique(out.Levels), def.at.File.Name, def.at.Line
	if r.d.OK(&out.Timeout) && out.Timeout < 10*time.Millisecond {
		r.d.Wrong(&out.Timeout, "at least 10ms", "the timeout %s is too short", r.d.S(&out.Timeout))
	}
	if k := out.NSCA; k != nil {
		if e := k.Encryption; k.Password == nil && e != "none" && e != "xor" {
			r.d.Wrong(k, "write password: {env: NAME} or {file: PATH}", "the encryption %s needs a password", e)
		}
		r.checkSecret(k.Password)
	}
	if k := out.Icinga; k != nil {
		r.refusePassword(&k.URL)
		r.checkSecret(k.Password)
	}
	if k := out.Alertmanager; k != nil {
		r.refusePassword(&k.URL)
		r.checkSecret(k.Password)
		if r.d.OK(&k.Resend) && k.Resend < time.Second {
			r.d.Wrong(&k.Resend, "at least 1s", "resend %s is too often", r.d.S(&k.Resend))
		}
	}
	if k := out.Webhook; k != nil {
		r.refusePassword(&k.URL)
		r.checkSecret(k.URL.Secret)
		r.checkSecret(k.Secret)
		r.checkTexts("header", &k.Headers)
	}
	if k := out.Email; k != nil {
		k.To = unique(k.To)
		if k.Password != nil && k.StartTLS == "never" {
			r.d.Wrong(&k.StartTLS, "write always", "the password would go over the network as it is")
		}
		r.checkSecret(k.Password)
	}
	if r.checkOne(def.at, "receiver "+name+" says", "kind", "write one of nsca, icinga, alertmanager, webhook, email, graphite and file",
		&out.NSCA, &out.Icinga, &out.Alertmanager, &out.Webhook, &out.Email, &out.Graphite, &out.FileOut) && r.o.Receiver != nil {
		if err := r.o.Receiver(*out); err != nil {
			r.problem(def.at, "", "receiver %s: %v", name, err)
		}
	}
	r.out.Receivers[name] = *out
}
