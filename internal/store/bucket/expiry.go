package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// lifecycleRule is a rule of a store that changes objects after some time.
type lifecycleRule struct {
	name   string
	prefix string // of the keys, without that of a Bucket
	does   string // what it does to objects, for users
}

// ruler is a backend whose store has an API for lifecycle rules.
type ruler interface {
	// rules returns the rules that delete current objects, or archive them so that
	// they cannot be read before they are restored.
	rules(ctx context.Context) ([]lifecycleRule, error)
}

// Expiry describes a lifecycle rule of the store that deletes or archives objects
// whose keys begin with one of the prefixes, after some time. It returns an empty
// text if there is none, and also if the store has no such rules, or does not tell
// them to these credentials (Azure never does).
func Expiry(ctx context.Context, b Bucket, prefixes ...string) (string, error) {
	f, ok := b.(*front)
	if !ok {
		return "", nil
	}
	r, ok := f.backend.(ruler)
	if !ok {
		return "", nil
	}
	list, err := r.rules(ctx)
	if e := (*Error)(nil); errors.As(err, &e) && e.Status >= 300 && e.Status < 600 && e.Status != http.StatusServiceUnavailable {
		return "", nil // no rules, no such request, or no right to ask
	}
	if err != nil {
		return "", f.fail("lifecycle", "", err)
	}
	for _, rule := range list {
		for _, p := range prefixes {
			if p = f.prefix + p; strings.HasPrefix(p, rule.prefix) || strings.HasPrefix(rule.prefix, p) {
				return fmt.Sprintf("rule %q %s whose keys begin with %q", rule.name, rule.does, rule.prefix), nil
			}
		}
	}
	return "", nil
}

// rules implements ruler by GetBucketLifecycleConfiguration.
func (b *s3) rules(ctx context.Context) ([]lifecycleRule, error) {
	ctx, s := watch(ctx)
	conf, err := b.core.GetBucketLifecycle(ctx, b.bucket)
	if err != nil {
		if s.status == http.StatusOK {
			return nil, nil // an answer that is no configuration
		}
		return nil, b.fail(err, s)
	}
	var list []lifecycleRule
	for _, r := range conf.Rules {
		f := r.RuleFilter
		if r.Status != "Enabled" || f.Tag.Key != "" || len(f.And.Tags) > 0 { // our objects have no tags
			continue
		}
		rule := lifecycleRule{name: r.ID, prefix: r.Prefix + f.Prefix + f.And.Prefix} // at most one is set
		switch class := r.Transition.StorageClass; {
		case r.Expiration.Days > 0 || !r.Expiration.Date.IsZero():
			rule.does = "deletes objects"
		case class == "GLACIER" || class == "DEEP_ARCHIVE":
			rule.does = "archives objects, which cannot be read then,"
		default:
			continue
		}
		list = append(list, rule)
	}
	return list, nil
}

// rules implements ruler by the description of the bucket.
func (g *gcs) rules(ctx context.Context) ([]lifecycleRule, error) {
	u := *g.base
	u.Path = g.base.Path + gcsRoot + "/b/" + g.bucket
	u.RawQuery = url.Values{"fields": {"lifecycle"}}.Encode()
	resp, err := g.send(ctx, http.MethodGet, &u, nil, nil)
	if err != nil {
		return nil, err
	}
	defer closeBody(resp)
	var answer struct {
		Lifecycle struct {
			Rule []struct {
				Action struct {
					Type string `json:"type"`
				} `json:"action"`
				Condition struct {
					MatchesPrefix    []string `json:"matchesPrefix"`
					MatchesSuffix    []string `json:"matchesSuffix"`
					IsLive           *bool    `json:"isLive"`
					NumNewerVersions int      `json:"numNewerVersions"`
					DaysNoncurrent   int      `json:"daysSinceNoncurrentTime"`
				} `json:"condition"`
			} `json:"rule"`
		} `json:"lifecycle"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPage)).Decode(&answer); err != nil {
		return nil, nil // an answer that is no description
	}
	var list []lifecycleRule
	for i, r := range answer.Lifecycle.Rule {
		c := r.Condition
		if r.Action.Type != "Delete" || c.IsLive != nil && !*c.IsLive || c.NumNewerVersions > 0 || c.DaysNoncurrent > 0 ||
			len(c.MatchesSuffix) > 0 {
			continue // it concerns earlier versions, or names that we do not use
		}
		if len(c.MatchesPrefix) == 0 {
			c.MatchesPrefix = []string{""}
		}
		for _, p := range c.MatchesPrefix {
			list = append(list, lifecycleRule{fmt.Sprint(i + 1), p, "deletes objects"})
		}
	}
	return list, nil
}
