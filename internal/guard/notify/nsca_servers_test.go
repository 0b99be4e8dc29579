//go:build servers

package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// startNSCA runs Debian's nsca in front of a file of commands.
func startNSCA(t *testing.T, dir, address, commands string, method int, more string) *process {
	t.Helper()
	conf := filepath.Join(dir, "nsca.cfg")
	write(t, conf, fmt.Sprintf(`server_address=127.0.0.1
server_port=%s
pid_file=%s/nsca.pid
command_file=%s
alternate_dump_file=%s/nsca.dump
aggregate_writes=0
max_packet_age=30
password=s3cret pass
decryption_method=%d
debug=1
%s
`, portOf(address), dir, commands, dir, method, more))
	p := start(t, dir, "/usr/sbin/nsca", "-f", "-c", conf, "--single")
	listening(t, address)
	return p
}

// Every encryption that we speak is one that Debian's nsca reads, over several
// packets of one connection, long and short.
func TestNSCAEncryptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		method int
		short  bool
	}{
		{"none", 0, false}, {"xor", 1, false}, {"3des", 3, false}, {"aes128", 14, false},
		{"none", 0, true}, {"xor", 1, true}, {"aes128", 14, true},
	} {
		t.Run(fmt.Sprintf("%s short=%v", c.name, c.short), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			commands := filepath.Join(dir, "commands")
			write(t, commands, "")
			address := freePort(t)
			startNSCA(t, dir, address, commands, c.method, "append_to_file=1")
			n := open(t, t.TempDir(), spec.Receiver{NSCA: &spec.NSCA{Address: address, Encryption: c.name, Password: password(t, "s3cret pass"), Short: c.short}})
			count := 5
			if c.short {
				count = 1
			}
			var results []event.Result
			for i := range count {
				r := someResult("orders", i, time.Now())
				r.Level = event.Level(i % 4)
				r.Host = "shop;evil"
				results = append(results, r)
			}
			if !c.short {
				results[4].Reading.Text = strings.Repeat("long ", 700) + "number 4"
			}
			n.Results([]string{"r"}, results)
			eventually(t, "all results", func() bool { return len(lines(commands, "PROCESS_SERVICE_CHECK_RESULT")) == count })
			for i, line := range lines(commands, "PROCESS_SERVICE_CHECK_RESULT") {
				_, got, _ := strings.Cut(line, "] ")
				want := fmt.Sprintf("PROCESS_SERVICE_CHECK_RESULT;shop evil;orders;%d;%s - %d ms, threshold 100 ms by profile office: %s", i%4, event.Level(i%4), i, results[i].Reading.Text) +
					fmt.Sprintf(" | value=%dms;~:110;~:130 threshold=100ms warning=110ms critical=130ms", i)
				if got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
			eventually(t, "delivery", func() bool { return n.States()[0].Delivered == uint64(count) })
			if s := n.States()[0]; s.Failed != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Nagios reads what nsca gets, and each of them is killed.
func TestNagios(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"rw", "spool", "results"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/objects.cfg", `
define command {
 command_name dummy
 command_line /bin/true
}
define timeperiod {
 timeperiod_name always
 alias always
}
define host {
 host_name shop
 address 127.0.0.1
 check_command dummy
 max_check_attempts 1
 active_checks_enabled 0
 contacts nobody
 check_period always
 notification_period always
}
define contact {
 contact_name nobody
 host_notifications_enabled 0
 service_notifications_enabled 0
 host_notification_commands dummy
 service_notification_commands dummy
 host_notification_period always
 service_notification_period always
}
define service {
 host_name shop
 service_description orders
 check_command dummy
 active_checks_enabled 0
 passive_checks_enabled 1
 max_check_attempts 1
 contacts nobody
 check_period always
 notification_period always
}
`)
	name, group := whoami(t)
	write(t, dir+"/nagios.cfg", strings.NewReplacer("DIR", dir, "USER", name, "GROUP", group).Replace(`log_file=DIR/nagios.log
cfg_file=DIR/objects.cfg
object_cache_file=DIR/objects.cache
precached_object_file=DIR/objects.precache
status_file=DIR/status.dat
state_retention_file=DIR/retention.dat
lock_file=DIR/nagios.pid
temp_file=DIR/nagios.tmp
temp_path=DIR
check_result_path=DIR/results
log_archive_path=DIR
command_file=DIR/rw/nagios.cmd
query_socket=DIR/rw/nagios.qh
check_external_commands=1
log_passive_checks=1
log_external_commands=0
process_performance_data=1
service_perfdata_file=DIR/perfdata
service_perfdata_file_template=$SERVICEOUTPUT$ | $SERVICEPERFDATA$
service_perfdata_file_mode=a
status_update_interval=1
check_result_reaper_frequency=1
enable_notifications=0
use_syslog=0
check_for_updates=0
check_for_orphaned_services=0
nagios_user=USER
nagios_group=GROUP
`))
	fifo := dir + "/rw/nagios.cmd"
	nagios := func() *process {
		p := start(t, dir, "nagios4", dir+"/nagios.cfg")
		eventually(t, "command file of Nagios", func() bool { _, err := os.Stat(fifo); return err == nil })
		return p
	}
	// What Nagios made of each result; its log of passive checks has no output.
	passive := func() []string { return lines(dir+"/perfdata", "number ") }
	na := nagios()
	address := freePort(t)
	ns := startNSCA(t, dir, address, fifo, 1, "")
	n := open(t, t.TempDir(), spec.Receiver{NSCA: &spec.NSCA{Address: address, Encryption: "xor", Password: password(t, "s3cret pass")}})
	sent := 0
	send := func(count int) {
		for range count {
			n.Results([]string{"r"}, []event.Result{someResult("orders", sent, time.Now())})
			sent++
		}
	}
	arrived := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d results in Nagios", want), func() bool { return len(firsts(t, passive(), "number ")) >= want })
	}
	send(20)
	arrived(20)
	// nsca dies: nothing is lost, everything comes late, and says so if it is.
	ns.kill()
	send(30)
	eventually(t, "a receiver that waits", func() bool { return n.States()[0].State == "waiting" })
	startNSCA(t, dir, address, fifo, 1, "")
	arrived(50)
	// Nagios dies and comes back; nsca waits for nobody, and writes what comes
	// meanwhile into its dump file. Of that we know nothing.
	na.kill()
	send(10)
	eventually(t, "delivery to nsca", func() bool { return n.States()[0].Spooled == 0 })
	os.Remove(fifo)
	na = nagios()
	send(20)
	eventually(t, "the last result", func() bool {
		got := firsts(t, passive(), "number ")
		return len(got) > 0 && got[len(got)-1] == sent-1
	})
	got := firsts(t, passive(), "number ")
	inOrder(t, got, len(got))
	if s := n.States()[0]; s.Delivered != uint64(sent) || s.Spooled != 0 || len(s.Dropped) != 0 {
		t.Errorf("%+v", s)
	}
	t.Logf("%d of %d reached Nagios, 10 were sent while it was dead", len(got), sent)
	if len(got) < sent-10 {
		t.Errorf("lost more than what came while Nagios was dead")
	}
	eventually(t, "performance data in Nagios' status", func() bool {
		return len(lines(dir+"/status.dat", fmt.Sprintf("performance_data=value=%dms;~:110;~:130 threshold=100ms warning=110ms critical=130ms", sent-1))) > 0
	})
	na.kill()
}
