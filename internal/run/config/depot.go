package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// DepotDir returns the folder of the depot: the configured one, or the
// platform's folder for user data.
func (c *Config) DepotDir() (string, error) {
	if c.Depot.Dir != "" {
		return c.Depot.Dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("cannot find a home folder for the depot; set the depot with --depot, SYMDEPOT_DEPOT or the " +
			"key depot of a configuration file")
	}
	switch runtime.GOOS {
	case "windows":
		if d := c.getenv("LOCALAPPDATA"); d != "" {
			return filepath.Join(d, "symdepot"), nil
		}
		return filepath.Join(home, "AppData", "Local", "symdepot"), nil
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "symdepot"), nil
	}
	if d := c.getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "symdepot"), nil
	}
	return filepath.Join(home, ".local", "share", "symdepot"), nil
}

// ErrPassword means that an address has a password, which other users of the
// machine could read.
var ErrPassword = errors.New("the address of a depot must not have a password; set the variable PGPASSWORD, or use a " +
	"password file (PGPASSFILE)")

// CheckDepot rejects an address of a depot with a password.
func CheckDepot(where string) error {
	if !address.IsDatabase(where) {
		return nil
	}
	u, err := url.Parse(where)
	if err != nil {
		return errors.New("the address of the depot is not a valid URL; it has the form postgres://USER@HOST/DATABASE")
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return ErrPassword
	}
	return nil
}

// checkDepot checks the keys below depot.
func (c *Config) checkDepot(fail fail) {
	d := &c.Depot
	if err := CheckDepot(d.Dir); err != nil {
		fail("depot.dir", "%v", err)
	}
	if d.Blobs != "" {
		if _, err := bucket.ParseURL(d.Blobs); err != nil {
			fail("depot.blobs", "%v", err)
		}
	}
	for i, where := range d.Replicas {
		if err := checkReplica(d.Dir, where); err != nil {
			fail(fmt.Sprintf("depot.replicas[%d]", i), "%v", err)
		}
	}
	if key, err := d.checkPeers(); err != nil {
		fail(key, "%v", err)
	}
}

// checkReplica rejects the address of a standby that cannot be one of the
// depot's.
func checkReplica(dir, where string) error {
	switch {
	case !address.IsDatabase(dir):
		return errors.New("only a depot in PostgreSQL has replicas")
	case !address.IsDatabase(where):
		return errors.New("the address of a standby is expected, such as postgres://USER@HOST/DATABASE")
	}
	return CheckDepot(where)
}

// ShownURL returns a space and a URL without the parts that may be secret, or
// nothing if it cannot be parsed.
func ShownURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return " " + (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// checkPeers checks the addresses for other servers. An error is returned with
// its key.
func (d *Depot) checkPeers() (key string, err error) {
	const listen, address = "depot.peer_listen", "depot.peer_address"
	if d.PeerListen == "" {
		if d.PeerAddress != "" {
			return address, errors.New("depot.peer_listen is missing: without it, this server answers no other server")
		}
		return "", nil
	}
	host, _, err := net.SplitHostPort(d.PeerListen)
	if err != nil {
		return listen, fmt.Errorf("an address and a port are expected, such as 10.0.0.1:8081, not %q", d.PeerListen)
	}
	if d.PeerAddress == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return listen, fmt.Errorf("other machines cannot reach %q; set depot.peer_address too, such as node1.internal:8081", d.PeerListen)
		}
		return "", nil
	}
	if host, port, err := net.SplitHostPort(d.PeerAddress); err != nil || host == "" || port == "" || port == "0" {
		return address, fmt.Errorf("a host and a port are expected, such as node1.internal:8081, not %q", d.PeerAddress)
	}
	return "", nil
}
