package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/upstream"
)

// ErrPassword means that an address has a password, which other users of the
// machine could read.
var ErrPassword = errors.New("the address of a depot must not have a password; set the variable PGPASSWORD, or use a password file (PGPASSFILE)")

// CheckDepot rejects an address of a depot with a password.
func CheckDepot(where string) error {
	if !index.IsURL(where) {
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

// checkReplica rejects the address of a standby that cannot be one of the
// depot's.
func checkReplica(dir, where string) error {
	switch {
	case !index.IsURL(dir):
		return errors.New("only a depot in PostgreSQL has replicas")
	case !index.IsURL(where):
		return errors.New("the address of a standby is expected, such as postgres://USER@HOST/DATABASE")
	}
	return CheckDepot(where)
}

// UseDepot completes the options of a depot with the bucket of its contents and
// the folder of this machine. blobs is the URL of the bucket; empty: the bucket
// that a depot in a folder has recorded, or none.
func (c *Config) UseDepot(where, blobs string, opt *depot.Options) (err error) {
	if err := CheckDepot(where); err != nil {
		return err
	}
	opt.Local, opt.LocalSize = c.Depot.Local, int64(c.Depot.LocalSize)
	if index.IsURL(where) {
		opt.Dial = c.Dialer().Dial
		if where == c.Depot.Dir {
			opt.Replicas = c.Depot.Replicas
		}
		if opt.Local == "" {
			base, err := os.UserCacheDir()
			if err != nil {
				return fmt.Errorf("cannot find a cache folder of this user; set depot.local: %w", err)
			}
			opt.Local = filepath.Join(base, "symdepot")
		}
	} else if recorded, err := depot.BucketOf(where); err != nil {
		return err
	} else {
		blobs = cmp.Or(blobs, recorded)
	}
	if blobs == "" {
		return nil
	}
	opt.Bucket, err = c.OpenBucket(blobs)
	if err != nil {
		err = fmt.Errorf("depot.blobs%s: %w", shown(blobs), err)
	}
	return err
}

// OpenBucket opens a bucket by its URL, with the endpoint, region and credentials of the
// environment.
func (c *Config) OpenBucket(where string) (bucket.Bucket, error) {
	b, err := bucket.ParseURL(where)
	if err != nil {
		return nil, err
	}
	return upstream.OpenBucket(b, c.Dialer())
}

// shown returns a space and a URL without the parts that may be secret, or
// nothing if it cannot be parsed.
func shown(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return " " + (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
