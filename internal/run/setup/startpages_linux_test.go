package setup

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// residentFile returns the resident KiB of this process that are pages of files.
func residentFile(t *testing.T) (sum int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^Rss(?:File|Shmem):\s+(\d+) kB`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// TestRelease: pages of the program file are no longer resident, and the program goes on.
func TestRelease(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := residentFile(t)
	if err := Release(); err != nil {
		t.Fatal(err)
	}
	after := residentFile(t)
	if after >= before*3/4 {
		t.Errorf("%d KiB of %s and other files are resident, %d KiB before; want less than three quarters", after, exe, before)
	}
}

func TestUnchanged(t *testing.T) {
	const (
		code    = "00400000-01ae1000 r-xp 00000000 00:1b 17256166                           /usr/bin/symdepot\nRss: 16 kB\nAnonymous:             0 kB\n"
		broken  = "02ae1000-032e7000 r-xp 016e1000 00:1b 17256166                           /usr/bin/symdepot\nAnonymous:             4 kB\n"
		data    = "032e7000-033df000 rw-p 02ee7000 00:1b 17256166                           /usr/bin/symdepot\nAnonymous:             0 kB\n"
		library = "7f7691d40000-7f7692100000 r--p 00000000 00:1b 3                          /usr/bin/other\nAnonymous:             0 kB\n"
		heap    = "3e4a0c000000-3e4a0dc00000 rw-p 00000000 00:00 0 \nAnonymous:             0 kB\n"
	)
	list, err := unchanged(strings.NewReader(heap+code+broken+data+library), "/usr/bin/symdepot")
	if want := []mapping{{0x400000, 0x1ae1000}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("unchanged: %x, %v; want %x: the code without the range of a breakpoint, data and other files", list, err, want)
	}
}
