//go:build !windows

package clientsetup

// registeredKits returns nothing: the registry is part of Windows.
func registeredKits() []string { return nil }
