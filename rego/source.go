package rego

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"gopkg.in/yaml.v3"
)

// LayerName is one of the layers that rules come from.
type LayerName string

// The layers, from the one that outranks the others to the one nearest the
// agent. The built-in layer's root is regent.
const (
	Builtin      LayerName = "builtin"
	Organization LayerName = "organization"
	Home         LayerName = "home"
	Workspace    LayerName = "workspace"
)

// Root is the package below which alone the layer may write.
func (l LayerName) Root() ast.Ref {
	switch l {
	case Builtin:
		return ast.MustParseRef("data.regent")
	case Organization:
		return ast.MustParseRef("data.org")
	case Home:
		return ast.MustParseRef("data.home")
	case Workspace:
		return ast.MustParseRef("data.rules")
	default:
		// No package starts with this, so an unknown layer can define nothing.
		return ast.MustParseRef("data.regent.none")
	}
}

// RulesRoot is the package below which rule names count: deny, ask, review,
// allow, ceiling and context.
func (l LayerName) RulesRoot() ast.Ref {
	if l == Workspace {
		return l.Root()
	}
	return l.Root().Append(ast.StringTerm("rules"))
}

// Layer is one source of rules.
type Layer struct {
	Name LayerName
	// Dir is what the shown names of files are relative to. Files outside it
	// are shown with their whole path.
	Dir string
	// Paths are Rego files, data files, folders of both, and bundles (.tar.gz).
	Paths []string
	// Untrusted makes the layer one that can only tighten: its allow rules count
	// for nothing.
	Untrusted bool
}

// Limits on what a layer may hold; past them the load fails.
const (
	maxFileBytes  = 16 << 20
	maxLayerFiles = 10_000
)

// file is one file of a layer as it was read.
type file struct {
	name  string // as shown
	path  string // absolute, "" inside a bundle
	mount []string
	data  []byte
}

// ignored is a file that a layer's folder holds and the engine does not load.
type ignored struct {
	name   string
	reason string
}

// contents is a layer as read from disk, before anything is parsed.
type contents struct {
	layer   Layer
	rego    []file
	tests   []file
	data    []file
	ignored []ignored
	// paths are the absolute files and folders read, for the self-guard.
	paths []string
}

// read collects the files of a layer, in an order that does not depend on the
// file system.
func (l Layer) read() (*contents, error) {
	c := &contents{layer: l}
	for _, p := range l.Paths {
		absolute, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", p, err)
		}
		info, err := os.Stat(absolute)
		if err != nil {
			return nil, &LoadError{Problems: []Problem{{File: l.Shown(absolute), Message: plainPathError(err), Hint: "policy.paths names it; create it or take it out"}}}
		}
		c.paths = append(c.paths, absolute)
		switch {
		case info.IsDir():
			err = c.readFolder(absolute)
		case isBundle(absolute):
			err = c.readBundle(absolute)
		default:
			err = c.readFile(absolute, nil, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Shown is how a file is named to people: relative to the layer's folder where it
// stands below it, and whole elsewhere.
func (l Layer) Shown(absolute string) string {
	if l.Dir == "" {
		return absolute
	}
	dir, err := filepath.Abs(l.Dir)
	if err != nil {
		return absolute
	}
	relative, err := filepath.Rel(dir, absolute)
	if err != nil || relative == ".." || strings.HasPrefix(relative, "../") {
		return absolute
	}
	return relative
}

func plainPathError(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or folder"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	default:
		return err.Error()
	}
}

func isBundle(p string) bool {
	return strings.HasSuffix(p, ".tar.gz") || strings.HasSuffix(p, ".tgz")
}

// IsCaseFile reports whether a file holds decision cases by its name: it ends in
// _cases.yaml, or is a YAML file in a folder named cases.
func IsCaseFile(p string) bool {
	base := filepath.Base(p)
	stem, ok := strings.CutSuffix(base, ".yaml")
	if !ok {
		stem, ok = strings.CutSuffix(base, ".yml")
	}
	// data.yaml is data wherever it stands.
	return ok && stem != "data" && (strings.HasSuffix(stem, "_cases") || filepath.Base(filepath.Dir(p)) == "cases")
}

// readFolder walks a folder. Symbolic links inside it are followed for files
// (a mounted ConfigMap is made of them) but not for folders, so that a link
// cannot lead the walk round in circles; the hidden folder that such a mount
// keeps its versions in is skipped with every other hidden name.
func (c *contents) readFolder(root string) error {
	err := Walk(root, func(p, relative string) error {
		info, err := os.Stat(p)
		if err != nil {
			return &LoadError{Problems: []Problem{{File: c.layer.Shown(p), Message: plainPathError(err)}}}
		}
		if info.IsDir() {
			c.ignored = append(c.ignored, ignored{c.layer.Shown(p), "a symbolic link to a folder is not followed"})
			return nil
		}
		var mount []string
		if dir := filepath.ToSlash(filepath.Dir(relative)); dir != "." {
			mount = strings.Split(dir, "/")
		}
		return c.readFile(p, mount, false)
	})
	if _, ok := errors.AsType[*LoadError](err); err != nil && !ok {
		return &LoadError{Problems: []Problem{{File: c.layer.Shown(root), Message: plainPathError(err)}}}
	}
	return err
}

// Walk visits what is no folder below root, in a fixed order: p is its path
// below root, relative the part after root. Hidden names are passed over. Root may
// be a link to a folder; links below it are visited and not followed. It ends with
// the first error.
func Walk(root string, visit func(p, relative string) error) error {
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	return filepath.WalkDir(resolved, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != resolved && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		relative, err := filepath.Rel(resolved, p)
		if err != nil {
			return err
		}
		return visit(filepath.Join(root, relative), relative)
	})
}

// readFile adds one file. Named files must be of a kind that counts; the others
// in a folder are listed as ignored.
func (c *contents) readFile(p string, mount []string, named bool) error {
	name := c.layer.Shown(p)
	base := filepath.Base(p)
	var into *[]file
	switch {
	case strings.HasSuffix(base, "_test.rego"):
		into = &c.tests
	case strings.HasSuffix(base, ".rego"):
		into = &c.rego
	case base == "data.json" || base == "data.yaml" || base == "data.yml":
		into = &c.data
	case named:
		return &LoadError{Problems: []Problem{{File: name, Message: "not a policy file", Hint: "policies are .rego files, data files are named data.json or data.yaml, bundles end in .tar.gz"}}}
	default:
		reason := "neither .rego nor data.json or data.yaml"
		if IsCaseFile(p) {
			reason = "decision cases, which regent test runs"
		}
		c.ignored = append(c.ignored, ignored{name, reason})
		return nil
	}
	if err := c.layer.keepsIn(p); err != nil {
		return &LoadError{Problems: []Problem{{File: name, Message: err.Error(), Hint: "a workspace that is not trusted may only hold its own files"}}}
	}
	data, err := readLimited(p)
	if err != nil {
		return &LoadError{Problems: []Problem{{File: name, Message: err.Error()}}}
	}
	if len(c.rego)+len(c.tests)+len(c.data) >= maxLayerFiles {
		return &LoadError{Problems: []Problem{{File: name, Message: fmt.Sprintf("the %s layer has more than %d files", c.layer.Name, maxLayerFiles)}}}
	}
	*into = append(*into, file{name: name, path: p, mount: mount, data: data})
	return nil
}

// keepsIn refuses a file of an untrusted layer that a link leads out of the
// layer's folder: a workspace that somebody else made must not turn the user's
// own files into data for its rules.
func (l Layer) keepsIn(p string) error {
	if !l.Untrusted || l.Dir == "" {
		return nil
	}
	root, err := filepath.EvalSymlinks(l.Dir)
	if err != nil {
		return errors.New(plainPathError(err))
	}
	target, err := filepath.EvalSymlinks(p)
	if err != nil {
		return errors.New(plainPathError(err))
	}
	if !below(target, root) {
		return fmt.Errorf("it is a link to %s, outside the workspace", target)
	}
	return nil
}

func readLimited(p string) ([]byte, error) {
	f, err := os.Open(p)
	if err != nil {
		return nil, errors.New(plainPathError(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%d bytes, the limit is %d", info.Size(), maxFileBytes)
	}
	var buf bytes.Buffer
	buf.Grow(int(info.Size()) + 1)
	if _, err := buf.ReadFrom(f); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// readBundle adds the files of an OPA bundle. A bundle's manifest must keep to
// the layer's root, so that one cannot reach into another layer.
func (c *contents) readBundle(p string) error {
	name := c.layer.Shown(p)
	fault := func(format string, args ...any) error {
		return &LoadError{Problems: []Problem{{File: name, Message: fmt.Sprintf(format, args...)}}}
	}
	data, err := readLimited(p)
	if err != nil {
		return fault("%v", err)
	}
	b, err := bundle.NewReader(bytes.NewReader(data)).
		WithSkipBundleVerification(true).
		WithProcessAnnotations(true).
		WithRegoVersion(ast.RegoV1).
		WithSizeLimitBytes(maxFileBytes).
		Read()
	if err != nil {
		if problems, ok := fromOPA(err); ok {
			for i := range problems {
				problems[i].File = name + "/" + strings.TrimPrefix(problems[i].File, "/")
			}
			return &LoadError{Problems: problems}
		}
		return fault("not a policy bundle: %v", err)
	}
	for _, m := range b.Modules {
		f := file{name: name + "/" + strings.TrimPrefix(m.Path, "/"), data: m.Raw}
		if strings.HasSuffix(f.name, "_test.rego") {
			c.tests = append(c.tests, f)
		} else {
			c.rego = append(c.rego, f)
		}
	}
	if len(b.WasmModules) > 0 {
		return fault("holds compiled Wasm modules, which are not loaded")
	}
	if len(b.Data) > 0 {
		raw, err := yaml.Marshal(b.Data)
		if err != nil {
			return fault("data cannot be read: %v", err)
		}
		c.data = append(c.data, file{name: name + "/data.json", data: raw})
	}
	return nil
}

// value decodes a data file and puts it where it belongs below the layer's root.
func (f file) value(root []string) (map[string]any, error) {
	var v any
	decoder := yaml.NewDecoder(bytes.NewReader(f.data))
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	object, err := plainJSON(v)
	if err != nil {
		return nil, err
	}
	for _, part := range slices.Backward(f.mount) {
		object = map[string]any{part: object}
	}
	top, ok := object.(map[string]any)
	if !ok {
		return nil, errors.New("the top of a data file must be an object")
	}
	if len(top) == 1 && top[root[0]] != nil {
		return top, nil
	}
	for _, part := range slices.Backward(root) {
		top = map[string]any{part: top}
	}
	return top, nil
}

// plainJSON turns what YAML decodes to into what JSON knows, and refuses the rest.
func plainJSON(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, int, int64, uint64, float64:
		return v, nil
	case []any:
		for i := range v {
			e, err := plainJSON(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = e
		}
		return v, nil
	case map[string]any:
		for k := range v {
			e, err := plainJSON(v[k])
			if err != nil {
				return nil, err
			}
			v[k] = e
		}
		return v, nil
	default:
		return nil, fmt.Errorf("a value of type %T has no JSON form; quote it", v)
	}
}

// mergeData puts src into dst; two files may not say different things about one
// path.
func mergeData(dst, src map[string]any, at string) error {
	for k, v := range src {
		have, ok := dst[k]
		if !ok {
			dst[k] = v
			continue
		}
		a, aok := have.(map[string]any)
		b, bok := v.(map[string]any)
		if !aok || !bok {
			return fmt.Errorf("data.%s is given by two files", path.Join(at, k))
		}
		if err := mergeData(a, b, path.Join(at, k)); err != nil {
			return err
		}
	}
	return nil
}

// refStrings is a ground ref without its data prefix: data.home.rules gives
// [home rules].
func refStrings(r ast.Ref) []string {
	var parts []string
	for _, t := range r[1:] {
		if s, ok := t.Value.(ast.String); ok {
			parts = append(parts, string(s))
		}
	}
	return parts
}

// cancelled reports the end of ctx with its cause, so that logs say why.
func cancelled(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
