//go:build unix

package commandtest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Resident returns a process's peak and present resident memory in MiB.
func Resident(t *testing.T, pid int) (peak, now float64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	get := func(key string) float64 {
		m := regexp.MustCompile(key + `:\s+(\d+) kB`).FindSubmatch(b)
		if m == nil {
			return 0
		}
		v, _ := strconv.ParseFloat(string(m[1]), 64)
		return v / 1024
	}
	return get("VmHWM"), get("VmRSS")
}
