package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/apitest"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// described is the description of the API.
var described = sync.OnceValues(func() (*apitest.Description, error) {
	text, err := Description()
	if err != nil {
		return nil, err
	}
	return apitest.New(text)
})

// watched returns a client that fails the test if an answer is not as described.
func watched(t testing.TB, c *http.Client) *http.Client {
	t.Helper()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	w := *c
	w.Transport = d.Watch(t, c.Transport)
	return &w
}

// TestDescriptionIsValid: the description is OpenAPI 3.1, by the schema that the OpenAPI
// Initiative publishes (Apache License 2.0), and its schemas are JSON Schema 2020-12.
func TestDescriptionIsValid(t *testing.T) {
	t.Parallel()
	text, err := Description()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/openapi-3.1.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	published, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi-3.1.json", published); err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.MustCompile("openapi-3.1.json").Validate(v); err != nil {
		t.Error(err)
	}
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Compile(); err != nil {
		t.Error(err)
	}
}

// TestDescriptionIsWhole: references lead to components, every component is used, and
// names are not given twice.
func TestDescriptionIsWhole(t *testing.T) {
	t.Parallel()
	text, err := Description()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Tags       []struct{ Name string }
		Components map[string]map[string]any
		Paths      map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string
			Tags        []string
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`"\$ref":"([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		used[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`\{"(\w+)":\[\]\}`).FindAllStringSubmatch(string(text), -1) {
		used["#/components/securitySchemes/"+m[1]] = true
	}
	there := map[string]bool{}
	for part, list := range doc.Components {
		for name := range list {
			there["#/components/"+part+"/"+name] = true
		}
	}
	if !maps.Equal(used, there) {
		for r := range used {
			if !there[r] {
				t.Errorf("the reference %s leads to nothing", r)
			}
		}
		for c := range there {
			if !used[c] {
				t.Errorf("the component %s is not used", c)
			}
		}
	}
	ids, tags := map[string]bool{}, map[string]bool{}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			if ids[op.OperationID] || op.OperationID == "" || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s: the id %q (used before: %v), summary %q and tags %q; want an id of its own, a summary and one tag", method, path, op.OperationID, ids[op.OperationID], op.Summary, op.Tags)
			}
			ids[op.OperationID], tags[op.Tags[0]] = true, true
		}
	}
	for _, tag := range doc.Tags {
		if !tags[tag.Name] {
			t.Errorf("the tag %s is not used", tag.Name)
		}
		delete(tags, tag.Name)
	}
	for tag := range tags {
		t.Errorf("the tag %s is not described", tag)
	}
}

// TestDescriptionHasAllRoutes: each route is an operation, and each operation a route.
func TestDescriptionHasAllRoutes(t *testing.T) {
	t.Parallel()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	star := regexp.MustCompile(`\{[^}]*\}`)
	var have, want []string
	for i := range d.Operations {
		op := &d.Operations[i]
		have = append(have, op.Method+" v1"+star.ReplaceAllString(op.Path, "*"))
		var names []string
		for _, m := range star.FindAllString(op.Path, -1) {
			names = append(names, strings.Trim(m, "{}"))
		}
		in := d.Parameters(op, "path")
		slices.Sort(in)
		slices.Sort(names)
		if !slices.Equal(names, in) {
			t.Errorf("%s %s: the parameters in its path are %q, described are %q", op.Method, op.Path, names, in)
		}
	}
	for _, r := range New(web.New(web.Config{})).table {
		want = append(want, r.method+" "+strings.Join(r.path, "/"))
	}
	for _, r := range want {
		if !slices.Contains(have, r) {
			t.Errorf("the route %s is not described", r)
		}
	}
	for _, r := range have {
		if !slices.Contains(want, r) {
			t.Errorf("the description has %s, which is no route", r)
		}
	}
}

// TestDescribedProblems: the description has the words of all problems.
func TestDescribedProblems(t *testing.T) {
	t.Parallel()
	words := web.Words()
	for i := range words {
		words[i] = wire.ProblemType + words[i]
	}
	if got := slices.Sorted(slices.Values(describedSchemas(t)["Problem"].Properties["type"].Enum)); !slices.Equal(got, words) {
		t.Errorf("described are the problems %q, want %q", got, words)
	}
}

// schema is what these tests read of a schema.
type schema struct {
	Ref         string            `yaml:"$ref"`
	Type        any               `yaml:"type"`
	Format      string            `yaml:"format"`
	Description string            `yaml:"description"`
	Enum        []string          `yaml:"enum"`
	AllOf       []schema          `yaml:"allOf"`
	Required    []string          `yaml:"required"`
	Properties  map[string]schema `yaml:"properties"`
	Items       *schema           `yaml:"items"`
	Values      *schema           `yaml:"additionalProperties"`
}

func describedSchemas(t *testing.T) map[string]schema {
	t.Helper()
	var doc struct {
		Components struct{ Schemas map[string]schema }
	}
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Components.Schemas
}

// answers are the types of answers, by the names of their schemas.
var answers = map[string]reflect.Type{
	"Me": reflect.TypeFor[wire.Me](), "Rights": reflect.TypeFor[wire.Rights](), "SignIn": reflect.TypeFor[wire.SignInInfo](),
	"Token": reflect.TypeFor[wire.TokenInfo](), "TokenUploads": reflect.TypeFor[wire.TokenUploads](), "Exchanged": reflect.TypeFor[wire.Exchanged](),
	"Event": reflect.TypeFor[auth.Event](),
	"About": reflect.TypeFor[wire.About](), "Connect": reflect.TypeFor[wire.Connect](), "Tool": reflect.TypeFor[wire.Tool](),
	"Stats": reflect.TypeFor[depot.Stats](), "ProductStats": reflect.TypeOf(depot.Stats{}.Products).Elem(),
	"Worker": reflect.TypeFor[wire.WorkerInfo](), "Ability": reflect.TypeFor[wire.Ability](), "Job": reflect.TypeFor[jobs.Job](), "JobStats": reflect.TypeFor[jobs.Stats](), "JobOutcome": reflect.TypeOf(jobs.Stats{}.Outcomes).Elem(),
	"Upstream": reflect.TypeFor[depot.UpstreamStatus](), "UpstreamActed": reflect.TypeFor[wire.UpstreamActed](), "Forgotten": reflect.TypeFor[wire.Forgotten](),
	"ServedFolder": reflect.TypeFor[display.ServedFolder](),
	"Object":       reflect.TypeFor[display.Object](), "Found": reflect.TypeFor[display.Found](), "Listed": reflect.TypeFor[display.Listed](),
	"Entry": reflect.TypeFor[display.Entry](), "EntryObject": reflect.TypeFor[display.EntryObject](), "Holder": reflect.TypeFor[display.Holder](),
	"Download": reflect.TypeFor[display.Download](), "Partner": reflect.TypeFor[display.Partner](), "Form": reflect.TypeFor[display.EntryForm](), "Removed": reflect.TypeFor[display.Removed](),
	"Product": reflect.TypeFor[display.Product](), "Version": reflect.TypeFor[display.Version](), "Difference": reflect.TypeFor[display.Difference](),
	"File": reflect.TypeFor[display.File](), "Wanted": reflect.TypeFor[catalog.Wanted](), "Arrival": reflect.TypeFor[arrivals.Item](),
	"Build": reflect.TypeFor[display.Transaction](), "Origin": reflect.TypeFor[depot.Origin](), "BuildState": reflect.TypeFor[display.State](),
	"Hold": reflect.TypeFor[display.Held](), "Promotion": reflect.TypeFor[display.Promoted](), "Removal": reflect.TypeFor[display.Removal](),
	"Changed": reflect.TypeFor[display.Changed](), "Purged": reflect.TypeFor[display.Purged](),
	"Policy": reflect.TypeFor[display.Policy](), "Plan": reflect.TypeFor[display.Plan](), "PlannedRemoval": reflect.TypeFor[display.Removes](),
	"PlanGroup": reflect.TypeFor[display.Group](), "CapUse": reflect.TypeFor[retention.CapUse](), "Braked": reflect.TypeFor[retention.Braked](),
	"RetentionRun": reflect.TypeFor[lifecycle.RetentionRun](), "Run": reflect.TypeFor[display.Run](), "RemovePlan": reflect.TypeFor[display.RemovePlan](),
	"Collected": reflect.TypeFor[display.Collected](), "Trashed": reflect.TypeFor[display.Trashed](),
	"ColdSums": reflect.TypeFor[coldstore.ColdStats](), "ColdFile": reflect.TypeFor[display.ColdFile](), "Cost": reflect.TypeFor[display.Cost](),
	"Usage": reflect.TypeFor[display.Usage](), "PlanSum": reflect.TypeFor[display.PlanSum](), "InPlace": reflect.TypeFor[display.InPlace](), "Share": reflect.TypeFor[display.Share](), "UsageDay": reflect.TypeFor[display.UsageDay](),
	"FileAnswer": reflect.TypeFor[display.FileAnswer](), "Identified": reflect.TypeFor[display.Identified](), "ObjectAnswer": reflect.TypeFor[display.ObjectAnswer](),
	"Spelling": reflect.TypeFor[display.Spelling](), "DumpAnswer": reflect.TypeFor[display.DumpAnswer](), "Module": reflect.TypeFor[needed.Module](),
	"Want": reflect.TypeFor[needed.Want](), "FileState": reflect.TypeFor[needed.FileState](), "MatchAnswer": reflect.TypeFor[display.MatchAnswer](),
	"Matched": reflect.TypeFor[display.Matched](), "Need": reflect.TypeFor[sparse.Need](), "Range": reflect.TypeFor[sparse.Range](),
	"Trace": reflect.TypeFor[display.Trace](), "TraceStep": reflect.TypeFor[display.TraceStep](), "TraceItem": reflect.TypeFor[display.TraceItem](), "TraceLog": reflect.TypeFor[display.TraceLog](),
	"PushLimits": reflect.TypeFor[wire.PushLimits](), "PushQuota": reflect.TypeFor[wire.PushQuota](), "PushState": reflect.TypeFor[wire.PushState](),
	"PushVerdict": reflect.TypeFor[wire.PushVerdict](), "PushParts": reflect.TypeFor[wire.PushParts](), "PushCommitted": reflect.TypeFor[wire.PushCommitted](),
	"Stacks": reflect.TypeFor[wire.Stacks](), "KeptDump": reflect.TypeFor[wire.KeptDump](), "StackSystem": reflect.TypeFor[wire.StackSystem](), "StackCrash": reflect.TypeFor[wire.StackCrash](), "StackThread": reflect.TypeFor[wire.StackThread](),
	"StackFrame": reflect.TypeFor[wire.StackFrame](), "StackInline": reflect.TypeFor[wire.StackInline](), "StackModule": reflect.TypeFor[wire.StackModule](), "StackAnnotation": reflect.TypeFor[wire.StackAnnotation](),
	"Function": reflect.TypeFor[web.Function](), "SourceName": reflect.TypeFor[display.SourceName](), "SourceLinks": reflect.TypeFor[srclink.Links](), "SourceScript": reflect.TypeFor[srclink.Summary](),
	"SourceExample": reflect.TypeFor[srclink.Resolution](), "SourceMap": reflect.TypeFor[srclink.MapSummary](), "LinkPlace": reflect.TypeFor[srclink.Place](),
	"PushFlag": reflect.TypeFor[wire.PushFlag](), "PushRefused": reflect.TypeFor[wire.PushRefused](), "Problem": reflect.TypeFor[wire.Problem](),
	"CoverageAnswer": reflect.TypeFor[wire.CoverageAnswer](), "Coverage": reflect.TypeFor[wire.Coverage](), "CoverageHeld": reflect.TypeFor[wire.CoverageHeld](),
	"CoverageSources": reflect.TypeFor[wire.CoverageSources](), "CoveredBuild": reflect.TypeFor[wire.CoveredBuild](),
	"BuildCoverage": reflect.TypeFor[wire.BuildCoverage](), "CoverageGap": reflect.TypeFor[wire.CoverageGap](),
}

// bodies are the types of bodies of requests, by the names of their schemas.
var bodies = map[string]reflect.Type{
	"TokenSpec": reflect.TypeFor[wire.TokenSpec](), "UpstreamAct": reflect.TypeFor[wire.UpstreamAct](),
	"BuildChange": reflect.TypeFor[wire.TransactionChange](), "HoldSpec": reflect.TypeFor[wire.HoldSpec](),
	"PlanSpec": reflect.TypeFor[wire.PlanSpec](), "PlanApply": reflect.TypeFor[wire.PlanApply](),
	"Match": reflect.TypeFor[wire.Match](), "MatchFile": reflect.TypeFor[wire.MatchFile](), "TraceAsk": reflect.TypeFor[wire.TraceAsk](),
	"CoverageAsk": reflect.TypeFor[wire.CoverageAsk](), "CoverageFile": reflect.TypeFor[wire.CoverageFile](), "CoveragePDB": reflect.TypeFor[wire.CoveragePDB](),
	"PushSpec": reflect.TypeFor[wire.PushSpec](), "PushCIJob": reflect.TypeFor[wire.PushCIJob](), "PushEntry": reflect.TypeFor[wire.PushEntry](), "PushCommit": reflect.TypeFor[wire.PushCommit](),
}

// TestDescribedTypes: the schemas have the members of the types that the server encodes
// and decodes, with their types. Members that an answer always has are required.
func TestDescribedTypes(t *testing.T) {
	t.Parallel()
	all := describedSchemas(t)
	names := map[reflect.Type]string{}
	for _, types := range []map[string]reflect.Type{answers, bodies} {
		for name, ty := range types {
			names[ty] = name
		}
	}
	own := []string{"Time", "SHA256", "Kind", "Verdict", "Page", "Whole", "End", "Path"} // no types of Go
	for name, s := range all {
		ty, body := answers[name], bodies[name]
		switch {
		case ty != nil:
			compareType(t, name, &s, ty, names, true)
		case body != nil:
			compareType(t, name, &s, body, names, false)
		case !slices.Contains(own, name):
			t.Errorf("the schema %s has no type in this test", name)
		}
		if s.Description == "" {
			t.Errorf("the schema %s has no description", name)
		}
	}
	for ty, name := range names {
		if _, ok := all[name]; !ok {
			t.Errorf("the type %s has no schema %s", ty, name)
		}
	}
}

// compareType compares a schema with a type of Go. always means that required members are
// those that the type always encodes.
func compareType(t *testing.T, name string, s *schema, ty reflect.Type, names map[reflect.Type]string, always bool) {
	t.Helper()
	var required, members, parts, embedded []string
	for _, p := range s.AllOf {
		parts = append(parts, strings.TrimPrefix(p.Ref, "#/components/schemas/"))
	}
	for i := range ty.NumField() {
		f := ty.Field(i)
		tag := f.Tag.Get("json")
		member, option, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && tag == "":
			embedded = append(embedded, names[f.Type])
			continue
		case !f.IsExported() || tag == "-":
			continue
		case !strings.HasPrefix(option, "omit"):
			required = append(required, member)
		}
		members = append(members, member)
		p, ok := s.Properties[member]
		if !ok {
			t.Errorf("the schema %s lacks %s", name, member)
			continue
		}
		if why := misfit(&p, f.Type, names); why != "" {
			t.Errorf("%s of the schema %s: %s", member, name, why)
		}
	}
	for member := range s.Properties {
		if !slices.Contains(members, member) {
			t.Errorf("the schema %s has %s, which %s does not have", name, member, ty)
		}
	}
	if !slices.Equal(parts, embedded) {
		t.Errorf("the schema %s has the parts %q, want %q", name, parts, embedded)
	}
	slices.Sort(required)
	if got := slices.Sorted(slices.Values(s.Required)); always && !slices.Equal(got, required) {
		t.Errorf("the schema %s requires %q, want %q", name, got, required)
	}
}

// misfit says why a schema is not that of a type; "" if it is.
func misfit(s *schema, ty reflect.Type, names map[reflect.Type]string) string {
	ref := strings.TrimPrefix(s.Ref, "#/components/schemas/")
	want := func(is bool, text string) string {
		if is {
			return ""
		}
		return fmt.Sprintf("described as $ref %q, type %v, format %q; want %s", s.Ref, s.Type, s.Format, text)
	}
	nullable, _ := s.Type.([]any)
	switch {
	case ty.Kind() == reflect.Pointer:
		return misfit(s, ty.Elem(), names)
	case names[ty] != "":
		return want(ref == names[ty], names[ty])
	case ty == reflect.TypeFor[time.Time]():
		return want(ref == "Time", "Time")
	case ty == reflect.TypeFor[blob.Ref]():
		return want(ref == "SHA256", "SHA256")
	case ty == reflect.TypeFor[json.RawMessage]():
		return want(s.Type == "object", "an object")
	case ty.Kind() == reflect.Slice && s.Items != nil:
		if why := want(s.Type == "array" || len(nullable) > 0 && nullable[0] == "array", "an array"); why != "" {
			return why
		}
		return misfit(s.Items, ty.Elem(), names)
	case ty.Kind() == reflect.Map && s.Values != nil:
		return misfit(s.Values, ty.Elem(), names)
	case ty.Kind() == reflect.Bool:
		return want(s.Type == "boolean", "a boolean")
	case ty.Kind() == reflect.Int64:
		return want(s.Type == "integer" && s.Format == "int64", "an integer of the format int64")
	case ty.Kind() == reflect.Float64:
		return want(s.Type == "number", "a number")
	case ty.Kind() == reflect.Int:
		return want(s.Type == "integer", "an integer")
	case ty.Kind() == reflect.String || ty.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()):
		return want(s.Type == "string" || ref == "SHA256" || ref == "Kind" || ref == "Verdict", "a string")
	}
	return want(false, ty.String())
}
