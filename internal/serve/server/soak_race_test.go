//go:build race

package server

import "time"

const soakTime = 30 * time.Second
