package spec

import (
	"strings"
	"testing"
)

// Every mistake has its line and column, and a hint where one can be given.
func TestProblems(t *testing.T) {
	const ok = "checks:\n  a:\n    every: 10s\n    value: 1\n"
	for _, tc := range []struct{ name, file, want string }{
		{"none", ok, ""},
		{"no YAML", "checks: [\n", "a.yaml:1:9: sequence end token ']' not found"},
		{"twice", "checks:\n  a: {every: 1s, value: 1}\n  a: {every: 1s, value: 1}\n", `a.yaml:3:3: mapping key "a" already defined at [2:3]`},
		{"list", "- a\n", "a.yaml:1:1: the file is not a mapping: write key: value below it"},
		{"second document", ok + "---\nzone: UTC\n", "a.yaml:6:5: a second document: put it in a file of its own"},
		{"anchors", "checks:\n  a: &x {every: 10s, value: 1}\n", "a.yaml:2:3: check a has no schedule: write one of every: 10s, cron: and after: another check\n" +
			"a.yaml:2:3: check a has no value: write value: and an expression, or a source such as http\n" +
			"a.yaml:2:6: anchors and aliases are not read here: what several checks share goes into a template"},
		{"top key", "cheks: {}\n", "a.yaml:1:1: unknown key cheks in the file: did you mean checks?"},
		{"key", ok + "    vale: 1\n", "a.yaml:5:5: unknown key vale in check a: did you mean value?"},
		{"nested key", ok + "    threshold: {must: '<', off: 3, critical: 1}\n", "a.yaml:5:16: threshold needs of: A number, an expression, or profile NAME.\n" +
			"a.yaml:5:28: unknown key off in threshold: did you mean of?"},
		{"in a template that nobody uses", ok + "templates:\n  t: {evry: 1s}\n", "a.yaml:6:7: unknown key evry in template t: did you mean every?"},
		{"in a template, once", "templates:\n  t: {every: 10x, value: 1}\nchecks:\n  a: {template: t}\n  b: {template: t}\n",
			`a.yaml:2:14: every: "10x" is not a duration: write one such as 500ms, 10s, 48h or 35d`},
		{"template", ok + "    template: weeb\ntemplates:\n  web: {}\n", "a.yaml:5:15: unknown template weeb: did you mean web?"},
		{"template of a template", "templates:\n  a: {every: 10s}\n  b: {template: a, value: 1}\nchecks:\n  c: {template: b}\n", ""},
		{"template of itself", "templates:\n  a: {template: b}\n  b: {template: a}\nchecks:\n  c: {template: a, every: 10s, value: 1}\n",
			"a.yaml:2:17: template goes in a circle: b → a → b: leave one of them out\na.yaml:3:17: template goes in a circle: a → b → a: leave one of them out"},
		{"unknown template of a template", "templates:\n  a: {template: b}\n" + ok, "a.yaml:2:17: unknown template b: write one of a"},
		{"no template", "checks:\n  c: {template: [~], every: 10s, value: 1, threshold: 5}\n", "a.yaml:2:55: threshold is not a mapping: write key: value below it"},
		{"threshold in a list", "checks:\n  c: {every: 10s, value: 1, threshold: [{must: '<', of: 1, warning: 1}]}\n", "a.yaml:2:40: threshold is not a mapping: write key: value below it"},
		{"days that are none", "profiles:\n  p: {days: [5], learn: 3}\n", "a.yaml:2:14: days[0] is not a mapping: write key: value below it\n" +
			"a.yaml:2:14: a day of profile p says not what holds on it: write one of hours: [24 values], intervals: and none: true\n" +
			"a.yaml:2:25: learn is not a mapping: write key: value below it"},
		{"a mark of the order of bytes", "\ufeff" + ok, ""},
		{"Latin 1", "checks:\n  caf\xe9: {every: 10s, value: 1}\n", "a.yaml:2:6: this is not UTF-8: save the file in UTF-8"},
		{"tabs", "checks:\n\ta: {every: 10s, value: 1}\n", "a.yaml:2:1: found character '\t' that cannot start any token: indent with spaces, not with tabs"},
		{"receiver", ok + "    receivers: [male]\nreceivers:\n  mail: {file: {path: x}}\n", "a.yaml:5:17: unknown receiver male: did you mean mail?"},
		{"no receiver", ok + "    receivers: mail\n", "a.yaml:5:16: unknown receiver mail: none is defined"},
		{"label of a profile", ok + "    threshold: {must: '>', of: profile usual, warning: 1}\nprofiles:\n  usual: {days: [{intervals: [{from: '00:00', to: '24:00', value: 'x{a=$operation}[0]'}]}]}\n",
			"a.yaml:5:40: profile usual asks for $operation, which this check has not: add it to by of each"},
		{"macro in a profile", ok + "    threshold: {must: '>', of: profile usual, warning: 1}\nprofiles:\n  usual: {days: [{intervals: [{from: '00:00', to: '24:00', value: '$$HOSTNAME$$-a-b[0]'}]}]}\n",
			"a.yaml:7:68: $$HOSTNAME$$ is not replaced in a profile, which belongs to no check: write the names out, or $label in a check with each"},
		{"label of learn", ok + "profiles:\n  usual: {learn: {series: 'x{a=\"$operation\"}'}}\n",
			"a.yaml:6:27: $operation is not replaced in learn.series: leave series out: then each check learns from its own values"},
		{"profile", ok + "    threshold: {must: '>', of: profile usal, warning: 1}\nprofiles:\n  usual: {learn: {by: hour}}\n", "a.yaml:5:40: unknown profile usal: did you mean usual?"},
		{"check", ok + "    depends_on: [b]\n", "a.yaml:5:18: unknown check b: write one of a"},
		{"check of an expression", "checks:\n  orders:\n    every: 10s\n    value: 'avg({check=\"oders\"}[0:9])'\n", "a.yaml:4:17: unknown check oders: did you mean orders?"},
		{"circle", "checks:\n  a: {after: b, value: 1}\n  b: {after: a, value: 1}\n", "a.yaml:3:14: after goes in a circle: a → b → a: leave one of them out"},
		{"itself", ok + "    depends_on: a\n", "a.yaml:5:17: depends_on goes in a circle: a → a: leave one of them out"},
		{"expression", "checks:\n  a:\n    every: 10s\n    value: avg(x[0:9]\n", "a.yaml:4:22: "},
		{"expression, in quotes", "checks:\n  a:\n    every: 10s\n    value: 'avg(x{a=''b''}[-24])'\n", "a.yaml:4:28: "},
		{"expression, in a block", "checks:\n  a:\n    every: 10s\n    value: |\n      avg(\n        x[-24])\n", "a.yaml:6:11: "},
		{"duration without a unit", "checks:\n  a: {every: 10, value: 1}\n", `a.yaml:2:14: every: "10" is not a duration: a duration needs a unit: write 10ms, 10s or 10m`},
		{"Bischeck's duration", "checks:\n  a: {every: 10M, value: 1}\n", `a.yaml:2:14: every: "10M" is not a duration: units are small here: write 10m`},
		{"timeout", ok + "    timeout: 11s\n", "a.yaml:5:14: the timeout 11s is longer than the interval: at most every: 10s"},
		{"two schedules", ok + "    cron: '* * * * *'\n", "a.yaml:2:3: check a has several schedules: write one of every: 10s, cron: and after: another check"},
		{"two sources", "checks:\n  a: {every: 10s, value: {promql: '1', tcp: {address: 'a:1'}}}\n", "a.yaml:2:26: the value says several sources: write an expression, or one of query, promql, http, tcp, tls, command and sql"},
		{"enumeration", ok + "    null: skipp\n", `a.yaml:5:11: null: "skipp" is not known: did you mean skip?`},
		{"soft", ok + "    soft: 5 of 3\n", `a.yaml:5:11: soft: "5 of 3" is not an n of m: write one such as 3 of 5`},
		{"warning beyond", ok + "    threshold: {must: '<', of: 1, warning: 30%, critical: 10%}\n", "a.yaml:5:44: warning 30% lies beyond critical 10%: warning is the nearer one"},
		{"warning beyond, another way", ok + "    threshold: {must: '<', of: -5, warning: 10%, critical: 0.2}\n", "a.yaml:5:45: warning 10% of -5 lies beyond critical 0.2: warning is the nearer one"},
		{"share of nothing", ok + "    threshold: {must: '<', of: 0, critical: 10%}\n", "a.yaml:5:45: 10% of 0 is 0: write an amount such as 5"},
		{"neither must nor allow", ok + "    threshold: {of: 1, critical: 10%}\n", "a.yaml:5:16: threshold has neither must nor allow: write must: \"<\" and critical: 3%, or allow: increase:3%"},
		{"allow and must", ok + "    threshold: {must: '<', of: 1, allow: 3%}\n", "a.yaml:5:42: allow says what must and critical say: leave them out, or allow"},
		{"allow of a measure", ok + "    threshold: {of: 1, allow: 'p99=increase:3%'}\n", "a.yaml:5:31: allow names the measure p99: a check has one value: write increase:3%"},
		{"allow of worse", ok + "    threshold: {of: 1, allow: 'worse:3%'}\n", "a.yaml:5:31: \"worse\" is a direction of comparisons alone: write increase or decrease: which of them is worse is not known of a check's value"},
		{"allow of no size", ok + "    threshold: {of: 1, allow: 'increase:much'}\n", "a.yaml:5:31: \"much\" is not the size of a change: want 0.03 or 3%: write one such as increase:3%"},
		{"warning beyond allow", ok + "    threshold: {of: 1, warning: 5%, allow: 'increase:3%'}\n", "a.yaml:5:33: warning 5% lies beyond critical 3%: warning is the nearer one"},
		{"allow of nothing", ok + "    threshold: {of: 0, allow: 'increase:3%'}\n", "a.yaml:5:31: 3% of 0 is 0: write must and critical: 5"},
		{"threshold of nothing", ok + "    threshold: {must: '<', of: 0}\n", "a.yaml:5:16: threshold has neither warning nor critical: it would judge nothing: write warning: 10%, critical: 30%"},
		{"cohort", "checks:\n  a: {every: 10s, value: {query: {measure: p99, series: x, cohort: larg}}}\n", "a.yaml:2:68: cohort: \"larg\" is not known: did you mean large?"},
		{"measure", "checks:\n  a: {every: 10s, value: {query: {measure: error, series: x}}}\n", "a.yaml:2:44: measure: unknown measure error: did you mean errors?"},
		{"range in PromQL", "checks:\n  a: {every: 10s, value: {promql: 'x[5m]'}}\n", "a.yaml:2:35: promql: this comes to a matrix, not to a number: put a function such as rate or avg_over_time around it"},
		{"PromQL", "checks:\n  a: {every: 10s, value: {promql: 'sum(x'}}\n", "a.yaml:2:41: promql: unclosed left parenthesis"},
		{"matchers", ok + "receivers:\n  m: {file: {path: x}, match: 'team=1'}\n", `a.yaml:6:36: match: unexpected "="`},
		{"each label", "checks:\n  a: {every: 10s, each: {series: 'x', by: [service]}, value: 'avg(x{service=$srvice}[0:9])'}\n", "a.yaml:2:77: each has no label srvice in by: did you mean service?"},
		{"each by what is reserved", "checks:\n  a: {every: 10s, each: {series: 'x', by: check}, value: 1}\n", "a.yaml:2:43: the label check is what the check's own series have anyway: choose another one"},
		{"each in a shell", "checks:\n  a: {every: 10s, each: {series: x, by: service}, value: {command: {shell: 'check $service'}}}\n",
			`a.yaml:2:83: $service is not replaced in value.command.shell: a value could be a command: give it by env, such as env: {SERVICE: $service}, and write "$SERVICE" in quotes`},
		{"each in SQL", "checks:\n  a: {every: 10s, each: {series: x, by: service}, value: {sql: {driver: sqlite, dsn: x, query: 'select $service'}}}\n",
			"a.yaml:2:104: $service is not replaced in value.sql.query: only descriptions, names, expressions, series, addresses, headers, arguments and environments know labels"},
		{"macro", ok + "    description: $$HOSTNAM$$\n", "a.yaml:5:18: unknown macro $$HOSTNAM$$: did you mean HOSTNAME?"},
		{"macro of nothing", ok + "    description: of $$HOSTNAME$$\n", "a.yaml:5:21: $$HOSTNAME$$ stands for nothing here: give the check host, service and item"},
		{"item", ok + "    item: x\n", "a.yaml:5:11: item x has no host and service: give host and service too"},
		{"label", ok + "    labels: {check: x}\n", "a.yaml:5:21: the label check is what the check's series have anyway: choose another name"},
		{"name", "checks:\n  'a{b}': {every: 10s, value: 1}\n", `a.yaml:2:3: "a{b}" is not a name of a check: write a name without quotes, brackets, braces, commas and $`},
		{"receiver of no kind", ok + "receivers:\n  m: {}\n", "a.yaml:6:3: receiver m says no kind: write one of nsca, icinga, alertmanager, webhook, email, graphite and file"},
		{"encryption that is gone", ok + "receivers:\n  m: {nsca: {address: 'h:5667', password: {env: A}, encryption: aes256}}\n",
			"a.yaml:6:65: encryption: aes256 does not exist any more: use none, xor, 3des or aes128, whose key has 256 bits; aes128 is decryption_method=14 of the server"},
		{"encryption that never was", ok + "receivers:\n  m: {nsca: {address: 'h:5667', password: {env: A}, encryption: rot13}}\n", `a.yaml:6:65: encryption: "rot13" is not known: use none, xor, 3des or aes128`},
		{"hours", ok + "profiles:\n  p: {days: [{hours: [1, 2, 3]}]}\n", "a.yaml:6:23: a day has 24 hours, not 3: one for each hour from 00:00; none where there is no threshold"},
		{"overlap", ok + "profiles:\n  p: {days: [{intervals: [{from: '09:00', to: '12:00', value: 1}, {from: '11:00', to: '13:00', value: 1}]}]}\n", "a.yaml:6:74: 11:00 to 13:00 overlaps 09:00 to 12:00: let one end where the other begins"},
		{"maintenance", ok + "maintenance:\n  - {name: m, start: 2026-12-01 22:00, end: tomorrow}\n", `a.yaml:6:45: "tomorrow" is not a moment: write one such as 2026-12-01 22:00`},
		{"zone", "zone: Europe/Stokholm\n" + ok, `a.yaml:1:7: zone: "Europe/Stokholm" is not a time zone: write one such as Europe/Stockholm or UTC`},
		{"several at once", "checks:\n  a: {every: soon, value: {tcp: {adress: x}}}\n", "a.yaml:2:14: every: \"soon\" is not a duration: write one such as 500ms, 10s, 48h or 35d\n" +
			"a.yaml:2:33: tcp needs address: host:port\na.yaml:2:34: unknown key adress in tcp: did you mean address?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, problems := read(t, tc.file)
			got := told(problems)
			if want, prefix := strings.CutSuffix(tc.want, ": "); prefix {
				if len(problems) != 1 || !strings.HasPrefix(got, want) || problems[0].Hint == "" && !strings.Contains(got, ";") && problems[0].Message == "" {
					t.Errorf("got  %s\nwant %s…", got, want)
				}
				return
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestSecretsAreNotWritten(t *testing.T) {
	const head = "checks:\n  a:\n    every: 10s\n    value: "
	for _, tc := range []struct{ file, want string }{
		{head + "{http: {url: 'https://u:hunter2@x/'}}\n", "the address holds a password"},
		{head + "{http: {url: 'https://x/', headers: {Authorization: 'Bearer hunter2'}}}\n", "header Authorization is a secret"},
		{head + "{http: {url: 'https://x/', headers: {X-Api-Key: hunter2}}}\n", "header X-Api-Key is a secret"},
		{head + "{sql: {driver: postgres, dsn: 'postgres://u:hunter2@h/d', query: 'select 1'}}\n", "the dsn holds a password"},
		{head + "{sql: {driver: postgres, dsn: 'host=h password=hunter2', query: 'select 1'}}\n", "the dsn holds a password"},
		{head + "{sql: {driver: mysql, dsn: 'u:hunter2@tcp(h:3306)/d', query: 'select 1'}}\n", "the dsn holds a password"},
		{head + "{command: {args: [check, --password=hunter2]}}\n", "a secret is written in an argument"},
		{head + "{command: {args: [check], env: {DB_PASSWORD: hunter2}}}\n", "env DB_PASSWORD is a secret"},
		{head + "1\nreceivers:\n  r: {nsca: {address: 'h:5667', password: hunter2}}\n", "password is a secret"},
		{head + "1\nreceivers:\n  r: {webhook: {url: 'https://h/', secret: hunter2}}\n", "secret is a secret"},
		{head + "1\nreceivers:\n  r: {email: {server: 'h:25', from: a@b, to: a@b, password: {env: A, file: B}}}\n", "a secret is read from the environment or from a file"},
	} {
		_, problems := read(t, tc.file)
		got := told(problems)
		if len(problems) != 1 || !strings.Contains(got, tc.want) {
			t.Errorf("%s\ngot  %s\nwant %s", tc.file, got, tc.want)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("the secret is told: %s", got)
		}
	}
}

func TestSeveralFiles(t *testing.T) {
	f, problems := read(t, "templates:\n  t: {every: 10s}\nzone: Asia/Tokyo\n", "checks:\n  a: {template: t, value: 1}\n", "checks:\n  b: {template: t, value: 1}\n  c: {after: a, value: 1}\n")
	if len(problems) > 0 || len(f.Checks) != 3 || len(f.Files) != 3 {
		t.Fatalf("%+v, %s", f, told(problems))
	}
	_, problems = read(t, "checks:\n  a: {every: 10s, value: 1}\n", "page: x\nchecks:\n  a: {every: 10s, value: 1}\n")
	want := "b.yaml:1:7: page: \"x\" is not a web address: write one such as https://shop.example/health\n" +
		"b.yaml:3:3: check a is defined in a.yaml:2 already: give one of them another name"
	if told(problems) != want {
		t.Errorf("got\n%s\nwant\n%s", told(problems), want)
	}
	if _, problems := Read([]string{"nothing*.yaml"}, Options{}); told(problems) != "nothing*.yaml: there is no such file" {
		t.Error(told(problems))
	}
}
