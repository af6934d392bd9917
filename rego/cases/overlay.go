package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"

	"github.com/regent-policy/regent/rego"
)

// overlay gives the layer of a case the data of the case on top of its own. The
// layer then consists of its Rego files, one by one, and of a single data file.
func (r *run) overlay(ctx context.Context, src *rego.Source, c *decisionCase) error {
	i := slices.IndexFunc(src.Layers, func(l rego.Layer) bool { return l.Name == c.layer })
	if i < 0 {
		src.Layers = append(src.Layers, rego.Layer{Name: c.layer})
		i = len(src.Layers) - 1
	}
	layer := src.Layers[i]
	// The folders stay guarded, though they are not read as such.
	src.Protected = append(slices.Clone(src.Protected), layer.Paths...)
	layer.Paths = nil
	for _, f := range r.policy.Files() {
		if f.Layer != c.layer || f.Kind != "policy" {
			continue
		}
		path := r.absolute(f)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s is part of a bundle, whose data a case cannot change", f.Name)
		}
		layer.Paths = append(layer.Paths, path)
	}
	root := c.layer.Root()
	own, err := r.baseData(ctx, root)
	if err != nil {
		return err
	}
	path, err := r.writeData(root, overlay(own, c.changes.data))
	if err != nil {
		return fmt.Errorf("write the data of the case: %w", err)
	}
	layer.Paths = append(layer.Paths, path)
	src.Layers[i] = layer
	return nil
}

// baseData is the data below a layer's root as its files give it.
func (r *run) baseData(ctx context.Context, root ast.Ref) (map[string]any, error) {
	path, err := storage.NewPathForRef(root)
	if err != nil {
		return nil, fmt.Errorf("read the data: %w", err)
	}
	found, err := storage.ReadOne(ctx, r.bed.Store, path)
	if storage.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the data: %w", err)
	}
	value, ok := found.(ast.Value)
	if !ok {
		return nil, errors.New("read the data: not a value of OPA")
	}
	plain, err := ast.JSON(value)
	if err != nil {
		return nil, fmt.Errorf("read the data: %w", err)
	}
	object, ok := plain.(map[string]any)
	if !ok {
		return nil, errors.New("the data of the layer is not an object")
	}
	return object, nil
}

func (r *run) writeData(root ast.Ref, data map[string]any) (string, error) {
	dir, err := os.MkdirTemp("", "regent-cases-")
	if err != nil {
		return "", err
	}
	r.temporary = append(r.temporary, dir)
	whole := data
	for _, t := range slices.Backward(root[1:]) {
		whole = map[string]any{string(t.Value.(ast.String)): whole}
	}
	raw, err := json.Marshal(whole)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "data.json")
	return path, os.WriteFile(path, raw, 0o600)
}

// overlay is base with what over says; over wins.
func overlay(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range over {
		below, ok := v.(map[string]any)
		have, both := out[k].(map[string]any)
		if ok && both {
			out[k] = overlay(have, below)
			continue
		}
		out[k] = v
	}
	return out
}
