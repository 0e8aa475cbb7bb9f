package config

import (
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
)

const (
	// minCold is the shortest time after which files may become cold.
	minCold = time.Hour
	// minNear is the smallest size of the restored files of a machine.
	minNear = 1 << 20
)

// Cold configures the files that are kept as differences from similar ones.
type Cold struct {
	After term.Duration `yaml:"after" default:"0s" help:"How long a file must not have been added or read before a server keeps it as differences from a similar one (docs/cold.md); 0: none becomes cold." example:"14d"`
	Rate  term.ByteSize `yaml:"rate" default:"32MiB" help:"How much a server reads per second for that; 0: without limit." example:"100MiB"`
	Near  term.ByteSize `yaml:"near" default:"8GiB" help:"Size limit of the restored files that each machine keeps, so that the next reads are as fast as those of other files." example:"50GiB"`
}

// check refuses times and sizes with which cold files would be restored all the time.
func (c *Cold) check(fail func(key, format string, args ...any)) {
	if after := time.Duration(c.After); after != 0 && after < minCold {
		fail("cold.after", "0 or at least an hour is expected, not %v", after)
	}
	if c.Near < minNear {
		fail("cold.near", "at least 1MiB is expected, not %v", c.Near)
	}
}

// ColdOptions returns how a server makes files cold.
func (c *Config) ColdOptions() depot.ColdOptions {
	o := depot.ColdOptions{After: time.Duration(c.Cold.After), Rate: int64(c.Cold.Rate), Near: int64(c.Cold.Near)}
	if o.Rate == 0 {
		o.Rate = -1
	}
	return o
}
