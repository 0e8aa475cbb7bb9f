// Command symdepot keeps the debug symbols of every build of every platform
// and answers every debugger in the protocol that it already speaks.
package main

import (
	"os"

	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/console"
)

// version is set by release builds.
var version string

func main() { os.Exit(command.Main(console.Options{Version: version})) }
