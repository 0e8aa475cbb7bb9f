package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/layout"
)

// check checks the values beyond their types.
func (c *Config) check() error {
	var errs []error
	fail := func(key, format string, args ...any) { errs = append(errs, c.fault(0, key, format, args...)) }
	c.checkDepot(fail)
	c.checkFolders(fail)
	c.checkNetwork(fail)
	for i, text := range c.Transcoding.Programs {
		if _, err := ParseProgram(text); err != nil {
			fail(fmt.Sprintf("transcoding.programs[%d]", i), "%v", err)
		}
	}
	if s := c.SymCache; s.Store != "" && slices.Contains(s.Folders, s.Store) {
		fail("symcache.store", "the folder is also listed in symcache.folders, which are never written to")
	}
	c.Push.check(fail)
	c.Sources.check(fail)
	c.Cold.check(fail)
	c.Traces.check(c.NoEgress, fail)
	if _, key, err := c.Receivers(); err != nil {
		fail(key, "%v", err)
	}
	errs = append(errs, c.CheckAuth(), c.checkUpstreams(fail))
	return errors.Join(errs...)
}

// checkUpstreams checks the upstreams, and the keys that name one.
func (c *Config) checkUpstreams(fail fail) error {
	specs, err := c.Specs()
	if err != nil {
		return err
	}
	for name := range c.Cache.PerUpstream {
		if !slices.ContainsFunc(specs, func(s upstream.Spec) bool { return s.Name == name }) {
			fail("cache.per_upstream."+name, "no upstream has this name")
		}
	}
	return nil
}

// checkFolders checks the folders that are served and watched, and the records of stores.
func (c *Config) checkFolders(fail fail) {
	for i, s := range c.Stores {
		at := fmt.Sprintf("stores[%d]", i)
		if s.Dir == "" {
			fail(at+".dir", "%v", errFolder)
		}
		if _, err := layout.ParseFolder(s.Layout); err != nil {
			fail(at+".layout", "%v", err)
		}
	}
	for i, w := range c.Watch {
		if w.Dir == "" {
			fail(fmt.Sprintf("watch[%d].dir", i), "%v", errFolder)
		}
		if w.Version != "" && w.Product == "" {
			fail(fmt.Sprintf("watch[%d].version", i), "a version needs a product")
		}
	}
	for i, text := range c.PointerRoots {
		if _, dir := splitPointerRoot(text); dir == "" {
			fail(fmt.Sprintf("pointer_roots[%d]", i), "%v", errFolder)
		}
	}
	if _, _, err := c.Records(); err != nil {
		fail("admin_files", "%v", err)
	}
}

// checkNetwork checks the address of the server, and the networks and hosts that it trusts.
func (c *Config) checkNetwork(fail fail) {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		fail("listen", "an address and a port are expected, such as 127.0.0.1:8080, not %q", c.Listen)
	}
	if _, i, err := address.ParseNetworks(c.AllowNets); err != nil {
		fail(fmt.Sprintf("allow_networks[%d]", i), "a network is expected, such as 10.20.0.0/16, not %q", c.AllowNets[i])
	}
	for i, h := range c.AllowHosts {
		if !glob.IsHost(h) || strings.Contains(h, ":") {
			fail(fmt.Sprintf("allow_hosts[%d]", i), "a host is expected, such as files.example.com or *.example.com, not %q", h)
		}
	}
	if _, _, err := address.ParseNetworks(c.Proxies); err != nil {
		fail("proxies", "%v", err)
	}
}

// AllowedNetworks returns the networks of allow_networks.
func (c *Config) AllowedNetworks() []netip.Prefix {
	nets, _, _ := address.ParseNetworks(c.AllowNets) // Load reports errors
	return nets
}

// ProxyNetworks returns the networks of proxies.
func (c *Config) ProxyNetworks() []netip.Prefix {
	nets, _, _ := address.ParseNetworks(c.Proxies) // Load reports errors
	return nets
}

// check refuses rules and hosts that are not known.
func (s *SourceLinks) check(fail fail) {
	for product, rule := range s.Srcsrv {
		if !slices.Contains([]srclink.Rule{srclink.Keep, srclink.Flag, srclink.Refuse}, srclink.Rule(rule)) {
			fail("sources.srcsrv."+product, "keep, flag or refuse-commands is expected, not %q", rule)
		}
	}
	for key, hosts := range map[string][]string{"link_hosts": s.LinkHosts, "relay": s.Relay} {
		for i, h := range hosts {
			if !glob.IsHost(h) {
				fail(fmt.Sprintf("sources.%s[%d]", key, i), "a host is expected, such as github.com or *.example.com, not %q", h)
			}
		}
	}
}

// check refuses limits that would refuse every push.
func (p *Push) check(fail fail) {
	for key, n := range map[string]int64{"max_file": int64(p.MaxFile), "max_open": int64(p.MaxOpen)} {
		if n < 1 {
			fail("push."+key, "at least 1 is expected, not %d", n)
		}
	}
	if d := time.Duration(p.Collect); d < time.Second {
		fail("push.collect", "at least a second is expected, not %v", d)
	}
}

const (
	// minCold is the shortest time after which files may become cold.
	minCold = time.Hour
	// minNear is the smallest size of the restored files of a machine.
	minNear = 1 << 20
)

// check refuses times and sizes with which cold files would be restored all the time.
func (c *Cold) check(fail fail) {
	if after := time.Duration(c.After); after != 0 && after < minCold {
		fail("cold.after", "0 or at least an hour is expected, not %v", after)
	}
	if c.Near < minNear {
		fail("cold.near", "at least 1MiB is expected, not %v", c.Near)
	}
}

var (
	errCollector = errors.New("the http or https URL of a collector is expected, such as http://collector.example.com:4318")
	// ErrNoTraces means that the configuration wants traces sent and forbids to connect anywhere.
	ErrNoTraces = errors.New("no_egress forbids to send traces; remove one of the two")
)

// check refuses an endpoint that cannot be used, and texts that name no host.
func (t *Traces) check(noEgress bool, fail fail) {
	if t.Endpoint != "" {
		if _, err := TracesURL(t.Endpoint, false); err != nil {
			fail("traces.endpoint", "%v", err)
		} else if noEgress {
			fail("traces.endpoint", "%v", ErrNoTraces)
		}
	}
	for _, own := range t.Trust {
		if _, err := netip.ParsePrefix(own); err == nil {
			continue
		}
		if !glob.IsHost(own) {
			fail("traces.trust", "a host, *.domain or network is expected, not %q", own)
		}
	}
}

// TracesURL returns the URL that traces are sent to. whole: it is used as it is.
func TracesURL(text string, whole bool) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errCollector
	}
	if !whole && strings.Trim(u.Path, "/") == "" {
		u = u.JoinPath("v1/traces")
	}
	return u.String(), nil
}
