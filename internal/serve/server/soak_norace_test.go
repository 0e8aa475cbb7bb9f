//go:build !race

package server

import "time"

const soakTime = 4 * time.Second // the race detector has the longer turn
