package cases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regent-policy/regent/rego"
)

// maxFileBytes bounds a case file.
const maxFileBytes = 4 << 20

// caseFile is a case file that belongs to a layer.
type caseFile struct {
	path, name string
	layer      rego.LayerName
}

// find lists the case files of the layers: files whose names end in _cases.yaml
// below a layer's paths, and every YAML file in a folder named cases there or in
// the layer's own folder.
func find(layers []rego.Layer) ([]caseFile, error) {
	var files []caseFile
	seen := map[string]bool{}
	for _, l := range layers {
		add := func(p string) {
			if !seen[p] {
				seen[p] = true
				files = append(files, caseFile{path: p, name: shownName(l.Dir, p), layer: l.Name})
			}
		}
		roots := slices.Clone(l.Paths)
		if l.Dir != "" {
			beside := filepath.Join(l.Dir, "cases")
			if _, err := os.Stat(beside); err == nil {
				roots = append(roots, beside)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("look for cases: %w", err)
			}
		}
		for _, root := range roots {
			absolute, err := filepath.Abs(root)
			if err != nil {
				return nil, fmt.Errorf("find %s: %w", root, err)
			}
			if err := walk(absolute, add); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// walk visits the case files at or below root in a fixed order. Hidden names are
// passed over, as the engine does.
func walk(root string, visit func(string)) error {
	// A policy folder may be a link itself; those below it are not followed.
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return fmt.Errorf("look for cases: %w", err)
	}
	err = filepath.WalkDir(resolved, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p != resolved && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		relative, err := filepath.Rel(resolved, p)
		if err != nil {
			return err
		}
		if as := filepath.Join(root, relative); isCaseFile(as) {
			visit(as)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for cases: %w", err)
	}
	return nil
}

func isCaseFile(p string) bool {
	base := filepath.Base(p)
	stem, ok := strings.CutSuffix(base, ".yaml")
	if !ok {
		stem, ok = strings.CutSuffix(base, ".yml")
	}
	// data.yaml is data wherever it stands.
	return ok && stem != "data" && (strings.HasSuffix(stem, "_cases") || filepath.Base(filepath.Dir(p)) == "cases")
}

// shownName is how a file is named to people: relative to its layer's folder
// where it stands below it.
func shownName(dir, p string) string {
	if dir == "" {
		return p
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return p
	}
	relative, err := filepath.Rel(absolute, p)
	if err != nil || relative == ".." || strings.HasPrefix(relative, "../") {
		return p
	}
	return relative
}

func readLimited(p string) ([]byte, error) {
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%d bytes, the limit is %d", info.Size(), maxFileBytes)
	}
	return os.ReadFile(p)
}
