package cases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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
				files = append(files, caseFile{path: p, name: l.Shown(p), layer: l.Name})
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

// walk visits the case files at or below root.
func walk(root string, visit func(string)) error {
	err := rego.Walk(root, func(p, _ string) error {
		if rego.IsCaseFile(p) {
			visit(p)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for cases: %w", err)
	}
	return nil
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
