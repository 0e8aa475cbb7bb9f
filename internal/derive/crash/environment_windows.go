package crash

import "os"

// childEnvironment is the environment of a child: only what Windows itself needs to start it.
func childEnvironment() []string { return []string{"SystemRoot=" + os.Getenv("SystemRoot")} }
