package config

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Key describes one key of a config.yaml, as it is read from the Go field.
type Key struct {
	// Path is the key with those it stands below. A part that is a free name is
	// written in angle brackets, as in plugins.<name>.command, and [] follows the
	// part that is a list, as in request_permissions.before[].command.
	Path string `json:"path"`
	// Field is the Go field that documents the key, as in Permissions.Mode.
	Field string `json:"-"`
	// Type is what the value is: text, word, whole number, number, true or false, list of
	// text, list of words, list of mappings, mapping, or a choice of two of them.
	Type string `json:"type"`
	// Values are the words that are taken, for a closed set.
	Values []string `json:"values,omitempty"`
	// GoType is the Go type that documents the Values.
	GoType string `json:"-"`
	// Min and Max bound a number. Both are 0 for anything else.
	Min int `json:"min,omitempty"`
	Max int `json:"max,omitempty"`
	// Default is the value where the key is not written, as it would be written;
	// empty where there is none.
	Default string `json:"default,omitempty"`
	// Required keys have to be written wherever the section that they stand in
	// is.
	Required bool `json:"required,omitempty"`
	// HomeOnly keys are for the file of a home alone.
	HomeOnly bool `json:"home_only,omitempty"`
	// Looser says what counts as looser for this key, as Looser judges it; empty
	// where no value is looser than another.
	Looser string `json:"looser,omitempty"`
}

// Keys returns all keys that a config.yaml may hold, in the order of the
// reference page. Callers must not change the result.
func Keys() []Key { return schema() }

var schema = sync.OnceValue(func() []Key {
	var keys []Key
	describeFields(&keys, "", reflect.ValueOf(*Default("")), false)
	looser := make(map[string]string, len(settings))
	for _, s := range settings {
		looser[s.path] = s.rule
	}
	for i := range keys {
		keys[i].Looser = looser[keys[i].Path]
	}
	return keys
})

// describeFields appends the keys of the struct v, whose fields hold the
// defaults.
func describeFields(keys *[]Key, parent string, v reflect.Value, home bool) {
	_, optional := textForm(v) // a word can stand in place of all the keys
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, ok := keyOf(field)
		if !ok {
			continue
		}
		key := Key{
			Path:     join(parent, name),
			Field:    v.Type().Name() + "." + field.Name,
			Default:  field.Tag.Get("default"),
			Required: field.Tag.Get("required") == "true" && !optional,
			HomeOnly: home || field.Tag.Get("home") == "true",
		}
		value := v.Field(i)
		if value.Kind() == reflect.Pointer {
			value = reflect.Zero(value.Type().Elem())
		}
		describeType(&key, value, field.Tag)
		*keys = append(*keys, key)

		switch value.Kind() {
		case reflect.Struct:
			describeFields(keys, key.Path, value, key.HomeOnly)
		case reflect.Map:
			if value.Type().Elem().Kind() == reflect.Struct {
				entry := reflect.Zero(value.Type().Elem())
				describeFields(keys, key.Path+".<"+field.Tag.Get("name")+">", entry, key.HomeOnly)
			}
		case reflect.Slice:
			if value.Type().Elem().Kind() == reflect.Struct {
				describeFields(keys, key.Path+"[]", reflect.Zero(value.Type().Elem()), key.HomeOnly)
			}
		}
	}
}

func describeType(key *Key, v reflect.Value, tag reflect.StructTag) {
	def := ""
	switch v.Kind() {
	case reflect.Struct:
		key.Type = "mapping"
		if word, ok := textForm(v); ok {
			key.Type = "word or mapping"
			key.Values = word.Interface().(enum).values()
			key.GoType = word.Type().Name()
			def = word.String()
		}
	case reflect.Map:
		key.Type = "mapping"
		if closed, ok := reflect.Zero(v.Type().Elem()).Interface().(enum); ok {
			key.Values = closed.values()
			key.GoType = v.Type().Elem().Name()
			key.Type = "mapping of names to words"
		} else if v.Type().Elem().Kind() == reflect.String {
			key.Type = "mapping of names to text"
		}
	case reflect.Slice:
		key.Type = "list of text"
		if v.Type().Elem().Kind() == reflect.Struct {
			key.Type = "list of mappings"
		}
		if closed, ok := reflect.Zero(v.Type().Elem()).Interface().(enum); ok {
			key.Type, key.Values, key.GoType = "list of words", closed.values(), v.Type().Elem().Name()
		}
		if !key.Required {
			def = "[]"
		}
	case reflect.String:
		key.Type = "text"
		def = v.String()
		if closed, ok := v.Interface().(enum); ok {
			key.Type = "word"
			key.Values = closed.values()
			key.GoType = v.Type().Name()
		}
	case reflect.Int:
		key.Type = "whole number"
		key.Min, key.Max = bounds(tag)
		if v.Int() != 0 {
			def = strconv.FormatInt(v.Int(), 10)
		}
	case reflect.Float64:
		key.Type = "number"
		key.Min, key.Max = bounds(tag)
	case reflect.Bool:
		key.Type = "true or false"
		def = strconv.FormatBool(v.Bool())
	default:
		panic("config: no way to describe " + v.Type().String())
	}
	if strings.ContainsAny(key.Path, "<[") && def == "[]" {
		def = "" // which reviewer or hook takes the list depends on its kind
	}
	if key.Default == "" && !key.Required {
		key.Default = def
	}
}
