package commandtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profilesVariable names the folder in which each process of the program leaves a profile of
// its processor time; empty: none.
const profilesVariable = "SYMDEPOT_TEST_PROFILES"

// profiled runs the program, and leaves its profile. It returns the exit code.
func profiled(program func() int) int {
	dir := os.Getenv(profilesVariable)
	if dir == "" {
		return program()
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.pprof", os.Getpid())))
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, profilesVariable+":", err)
		return 1
	}
	code := program()
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		fmt.Fprintln(os.Stderr, profilesVariable+":", err)
		return 1
	}
	return code
}
