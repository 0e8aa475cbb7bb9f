package setup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// madviseDontNeed is MADV_DONTNEED of madvise(2).
const madviseDontNeed = 4

// releaseFile gives back the resident pages of the program file: they stay in the page cache
// of the kernel, which maps those that are used again when they are used.
func releaseFile() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := unchanged(f, program)
	if err != nil {
		return err
	}
	for _, m := range list {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, madviseDontNeed); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchanged returns the mappings of a file that nobody can write to and whose pages are all
// those of the file, from a text in the form of /proc/self/smaps. A debugger that sets a
// breakpoint changes a page, and the page would lose the breakpoint.
func unchanged(smaps io.Reader, file string) (list []mapping, err error) {
	var m mapping
	of := false // m is a mapping of the file that nobody can write to
	for s := bufio.NewScanner(smaps); ; {
		if !s.Scan() {
			return list, s.Err()
		}
		fields := strings.Fields(s.Text())
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			of = strings.HasSuffix(s.Text(), " "+file) && !strings.Contains(fields[1], "w")
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to); err != nil {
				return nil, fmt.Errorf("%q is no mapping: %w", s.Text(), err)
			}
		case of && len(fields) >= 2 && fields[0] == "Anonymous:" && fields[1] == "0":
			list = append(list, m)
		}
	}
}
