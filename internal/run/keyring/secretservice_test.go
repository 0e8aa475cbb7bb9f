//go:build linux

package keyring

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// inside says to the test binary that it runs in a session of its own.
const inside = "SYMDEPOT_TEST_SESSION"

// run runs one test of this binary again, with these variables, perhaps by way of a program.
// The module keeps one connection to the bus for a process.
func run(t *testing.T, test string, env []string, by ...string) {
	t.Helper()
	command := append(by, os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), inside+"=1", "DISPLAY=", "WAYLAND_DISPLAY="), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) || strings.Contains(string(out), secret) {
		t.Errorf("%s in a session of its own: %v; want it to pass, and no secret printed\n%s", test, err, out)
	}
}

// daemon starts gnome-keyring for the session, as a login at a desktop with a password does;
// without one, the collection stays locked.
const daemon = `if [ "$1" ]; then printf %s "$1" | gnome-keyring-daemon --unlock --components=secrets >/dev/null
else gnome-keyring-daemon --start --components=secrets >/dev/null; fi 2>&1; shift; exec "$@"`

// TestSecretService: gnome-keyring keeps secrets while it is unlocked. While it is locked,
// calls that may not ask fail at once, and those that may ask end, too.
func TestSecretService(t *testing.T) {
	t.Parallel()
	session, gnome := symtest.Tool(t, "dbus-run-session"), symtest.Tool(t, "gnome-keyring-daemon")
	home := t.TempDir()
	env := []string{
		"HOME=" + home, "XDG_DATA_HOME=" + filepath.Join(home, "data"), "XDG_RUNTIME_DIR=" + home,
		"XDG_CACHE_HOME=" + filepath.Join(home, "cache"), "PATH=" + filepath.Dir(gnome) + ":" + os.Getenv("PATH"),
	}
	by := []string{session, "--", "sh", "-c", daemon, "sh"}
	run(t, "TestInNoCollection", env, append(by, "")...)
	run(t, "TestInUnlocked", env, append(by, "password")...)
	run(t, "TestInLocked", env, append(by, "")...)
	run(t, "TestInUnlocked", env, append(by, "password")...)
}

// keepassxc opens a database in KeePassXC, without a screen, with the first line of a file as its
// password. It then runs a program, and ends KeePassXC.
const keepassxc = `keepassxc --pw-stdin "$1" <"$2" >/dev/null 2>&1 & shift 2; "$@"; code=$?; kill -KILL $!; exit $code`

// bus is the configuration of a bus that starts no program: nothing but KeePassXC is its Secret
// Service.
const bus = `<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><policy context="default">` +
	`<allow send_destination="*"/><allow own="*"/><allow eavesdrop="true"/></policy></busconfig>`

// database is a database whose root group KeePassXC gives to the Secret Service.
const database = `<KeePassFile><Meta><Generator>KeePassXC</Generator><CustomData><Item><Key>FDO_SECRETS_EXPOSED_GROUP</Key>` +
	`<Value>{00112233-4455-6677-8899-aabbccddeeff}</Value></Item></CustomData></Meta>` +
	`<Root><Group><UUID>ABEiM0RVZneImaq7zN3u/w==</UUID><Name>Root</Name></Group></Root></KeePassFile>`

// TestKeePassXC: the Secret Service of KeePassXC keeps secrets while its database is open; it is
// locked while the database is.
func TestKeePassXC(t *testing.T) {
	t.Parallel()
	session, _, cli := symtest.Tool(t, "dbus-run-session"), symtest.Tool(t, "keepassxc"), symtest.Tool(t, "keepassxc-cli")
	home := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		symtest.Put(t, home, name, []byte(text))
		return filepath.Join(home, name)
	}
	if err := os.MkdirAll(filepath.Join(home, "keepassxc"), 0o700); err != nil {
		t.Fatal(err)
	}
	file("keepassxc/keepassxc.ini", "[General]\nSingleInstance=false\nUpdateCheckMessageShown=true\n[GUI]\nCheckForUpdates=false\n"+
		"[FdoSecrets]\nEnabled=true\nShowNotification=false\nConfirmDeleteItem=false\nConfirmAccessItem=false\n")
	env := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_RUNTIME_DIR=" + home, "XDG_CACHE_HOME=" + home, "XDG_DATA_HOME=" + home, "QT_QPA_PLATFORM=offscreen"}
	made := exec.CommandContext(t.Context(), cli, "import", "-p", file("db.xml", database), filepath.Join(home, "db.kdbx"))
	made.Env, made.Stdin = append(os.Environ(), env...), strings.NewReader("password\npassword\n")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", made.Args, err, out)
	}
	by := []string{session, "--config-file", file("bus.xml", bus), "--", "sh", "-c", keepassxc, "sh", filepath.Join(home, "db.kdbx")}
	env = append(env, inside+"="+comesLater)
	run(t, "TestInUnlocked", env, append(by, file("right", "password\n"))...)
	run(t, "TestInLocked", env, append(by, file("wrong", "other\n"))...)
}

// comesLater is the value of inside where the Secret Service starts beside the test.
const comesLater = "later"

func needsSession(t *testing.T) {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip("runs in the session that another test makes")
	}
}

// comes waits for the Secret Service, where it starts beside the test, to be open or locked.
func comes(t *testing.T, want error) {
	t.Helper()
	if os.Getenv(inside) == comesLater {
		symtest.Await(t, time.Minute, "the Secret Service", func() bool { return errors.Is(available(false), want) })
	}
}

func TestInNoCollection(t *testing.T) {
	needsSession(t)
	if _, err := (System{}).Get(t.Context(), "k"); !errors.Is(err, ErrAbsent) {
		t.Errorf("without a collection: %v, want %v", err, ErrAbsent)
	}
}

func TestInUnlocked(t *testing.T) {
	needsSession(t)
	comes(t, nil)
	keeps(t, System{})
	if s, without, err := Choose(t.Context(), "", t.TempDir()); err != nil || s.Name() != NameSystem || without != nil {
		t.Errorf("the store is %v, %v, %v; want that of the system", s, without, err)
	}
}

func TestInLocked(t *testing.T) {
	needsSession(t)
	comes(t, ErrLocked)
	started := time.Now()
	for what, err := range map[string]error{
		"get":    second(System{}.Get(t.Context(), "k")),
		"set":    System{}.Set(t.Context(), "k", secret),
		"delete": System{}.Delete(t.Context(), "k"),
	} {
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "SYMDEPOT_KEYRING=file") {
			t.Errorf("%s, which may not ask: %v, want %v and the next step", what, err, ErrLocked)
		}
	}
	if took := time.Since(started); took > silentTime {
		t.Errorf("three calls took %v, want less than the limit of one, %v", took, silentTime)
	}
	// There is no screen to ask at.
	err := (System{MayAsk: true, limit: 3 * time.Second}).Set(t.Context(), "k", secret)
	if !errors.Is(err, ErrLocked) && !errors.Is(err, ErrSilent) {
		t.Errorf("set, which may ask: %v, want %v or %v", err, ErrLocked, ErrSilent)
	}
}

func second(_ string, err error) error { return err }

// TestSilentBus: a bus that takes the call and says nothing does not keep this program.
func TestSilentBus(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "bus")
	listener, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	run(t, "TestInSilence", []string{"DBUS_SESSION_BUS_ADDRESS=unix:path=" + at})
}

func TestInSilence(t *testing.T) {
	needsSession(t)
	s := System{limit: 50 * time.Millisecond}
	if err := s.Set(t.Context(), "k", secret); !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), "SYMDEPOT_KEYRING=file") {
		t.Errorf("a silent bus: %v, want %v and the next step", err, ErrSilent)
	}
}
