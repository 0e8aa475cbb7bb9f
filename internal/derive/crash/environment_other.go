//go:build !windows

package crash

// childEnvironment is the environment of a child: it needs none of ours.
func childEnvironment() []string { return nil }
