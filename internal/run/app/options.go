package app

import (
	"time"

	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/serve/server"
)

// symCacheConfig returns the options for answering SymCache requests.
func symCacheConfig(c *config.Config) server.SymCacheConfig {
	s := c.SymCache
	return server.SymCacheConfig{Wait: time.Duration(s.Wait), HexAge: s.HexAge, Redirect: s.Redirect}
}

// symbolsConfig returns the options for answering requests for symbol files that are made.
func symbolsConfig(c *config.Config) server.SymbolsConfig {
	return server.SymbolsConfig{Wait: time.Duration(c.Symbols.Wait)}
}
