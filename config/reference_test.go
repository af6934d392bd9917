package config_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
)

var update = flag.Bool("update", false, "rewrite the generated parts of docs/config.md")

// source is what the doc comments of config.go say.
type source struct {
	fields map[string]string     // by "Type.Field"
	words  map[string][]constant // by type
}

type constant struct{ name, value, doc string }

func readSource(t *testing.T) source {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	s := source{fields: map[string]string{}, words: map[string][]constant{}}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if st, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range st.Fields.List {
						for _, name := range field.Names {
							s.fields[spec.Name.Name+"."+name.Name] = field.Doc.Text()
						}
					}
				}
			case *ast.ValueSpec:
				typ, ok := spec.Type.(*ast.Ident)
				if !ok || gen.Tok != token.CONST {
					continue
				}
				doc := spec.Doc
				if doc == nil && len(gen.Specs) == 1 {
					doc = gen.Doc
				}
				value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				s.words[typ.Name] = append(s.words[typ.Name], constant{spec.Names[0].Name, value, doc.Text()})
			}
		}
	}
	return s
}

// parts splits a doc comment into what it says, as paragraphs, and its
// example. The Go name at its start becomes name.
func parts(doc, goName, name string) (said []string, example string) {
	for _, paragraph := range strings.Split(strings.TrimSpace(doc), "\n\n") {
		if strings.HasPrefix(paragraph, "\t") {
			example += strings.ReplaceAll("\n"+paragraph, "\n\t", "\n") + "\n"
			continue
		}
		said = append(said, marked(strings.ReplaceAll(paragraph, "\n", " ")))
	}
	if len(said) > 0 {
		said[0] = "`" + name + "`" + strings.TrimPrefix(said[0], goName)
	}
	return said, strings.TrimPrefix(example, "\n")
}

// compound is a word that can only be one of the file's: it has an underscore,
// a slash or a dot within.
var compound = regexp.MustCompile(`\.?\b[a-z0-9]+([._/][a-z0-9]+)+\b`)

func marked(text string) string { return compound.ReplaceAllString(text, "`$0`") }

func goName(key config.Key) string {
	_, name, _ := strings.Cut(key.Field, ".")
	return name
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func TestKeysAreDocumented(t *testing.T) {
	src := readSource(t)
	for _, key := range config.Keys() {
		doc := src.fields[key.Field]
		if !strings.HasPrefix(doc, goName(key)+" ") {
			t.Errorf("%s: the comment of %s does not start with its name: %q", key.Path, key.Field, doc)
		}
		said, example := parts(doc, goName(key), lastPart(key.Path))
		if len(said) == 0 || !strings.HasSuffix(strings.Join(said, " "), ".") {
			t.Errorf("%s: the comment of %s says nothing", key.Path, key.Field)
		}
		if example == "" && !section(key) {
			t.Errorf("%s: the comment of %s has no example", key.Path, key.Field)
		}
	}
}

func TestKeysHaveExamplesThatHold(t *testing.T) {
	src := readSource(t)
	for _, key := range config.Keys() {
		_, example := parts(src.fields[key.Field], goName(key), key.Path)
		if example == "" {
			continue
		}
		text := example
		if key.Path != "version" {
			text = "version: 1\n" + example
		}
		c, _, err := config.Parse("config.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v in the example\n%s", key.Path, err, example)
			continue
		}
		shown := false
		for _, path := range concrete(key.Path, c) {
			_, ok := c.Pos(path)
			shown = shown || ok
		}
		if !shown {
			t.Errorf("%s: the example does not show it\n%s", key.Path, example)
		}
	}
}

func TestKeysHaveDocumentedWords(t *testing.T) {
	src := readSource(t)
	for _, key := range config.Keys() {
		if key.GoType == "" {
			continue
		}
		var declared []string
		for _, c := range src.words[key.GoType] {
			declared = append(declared, c.value)
			if !strings.HasPrefix(c.doc, c.name+" ") {
				t.Errorf("the comment of %s does not start with its name: %q", c.name, c.doc)
			}
		}
		if diff := cmp.Diff(declared, key.Values); diff != "" {
			t.Errorf("%s: words (-constants of %s +values):\n%s", key.Path, key.GoType, diff)
		}
	}
}

func TestKeysNameEveryField(t *testing.T) {
	fields := map[string]string{}
	for _, key := range config.Keys() {
		// One type can be the item of two lists, but a field has one name.
		if name, ok := fields[key.Field]; ok && (name != lastPart(key.Path) || !strings.Contains(key.Path, "[]")) {
			t.Errorf("%s documents two keys", key.Field)
		}
		fields[key.Field] = lastPart(key.Path)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[config.Config](), reflect.TypeFor[config.Permissions](), reflect.TypeFor[config.ApprovalPolicy](),
		reflect.TypeFor[config.Granular](), reflect.TypeFor[config.Policy](), reflect.TypeFor[config.Organization](),
		reflect.TypeFor[config.Capabilities](), reflect.TypeFor[config.Reviewer](), reflect.TypeFor[config.Plugin](),
		reflect.TypeFor[config.RequestPermissions](), reflect.TypeFor[config.Hook](),
		reflect.TypeFor[config.Server](), reflect.TypeFor[config.Principals](), reflect.TypeFor[config.Notifier](), reflect.TypeFor[config.Ledger](),
	} {
		for i := range typ.NumField() {
			field := typ.Field(i)
			if !field.IsExported() || field.Tag.Get("json") == "-" {
				continue
			}
			if name := typ.Name() + "." + field.Name; fields[name] == "" {
				t.Errorf("%s is no key", name)
			}
		}
	}
}

// shownErrors are the files whose faults the page shows.
var shownErrors = []string{
	"version: 1\npermissions:\n  mode: modelreview\n",
	"version: 1\npermissions:\n  harness: manual\n",
	"version: 1\npolicy:\n  test_before_load: yes\n",
	"version: 1\nreviewers:\n  default/reviewer: {kind: model, provider: openai}\n",
	"version: 1\npermissions:\n\tmode: manual\n",
}

func TestReferencePageIsThatOfTheFields(t *testing.T) {
	path := filepath.Join("..", "docs", "config.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sample, err := os.ReadFile(filepath.Join("testdata", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for name, text := range map[string]string{
		"sample":    "```yaml\n" + string(sample) + "```\n",
		"overview":  overview(),
		"reference": reference(readSource(t)),
		"looser":    looser(),
		"errors":    errorsShown(t),
	} {
		page = between(t, page, name, text)
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(page, string(data)); diff != "" && !*update {
		t.Errorf("docs/config.md is out of date; run go test ./config -update (-want +got):\n%s", diff)
	}
}

// between puts text between the two comments in page that name it.
func between(t *testing.T, page, name, text string) string {
	t.Helper()
	begin := "<!-- " + name + ": written by go test ./config -update -->\n"
	end := "<!-- end of " + name + " -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, okAfter := strings.Cut(rest, end)
	if !ok || !okAfter {
		t.Fatalf("docs/config.md has no place for %s:\n%s%s", name, begin, end)
	}
	return before + begin + "\n" + text + "\n" + end + after
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func choices(key config.Key) string {
	switch {
	case key.Path == "approval_policy":
		return codes(key.Values, ", ") + ", or `{granular: {...}}`"
	case len(key.Values) > 0:
		return codes(key.Values, ", ")
	case key.Path == "version":
		return "`1`"
	case key.Max > 0:
		return fmt.Sprintf("%d to %d", key.Min, key.Max)
	default:
		return ""
	}
}

func codes(words []string, separator string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = code(word)
	}
	return strings.Join(quoted, separator)
}

// section reports whether a key only holds others.
func section(key config.Key) bool {
	return key.Type == "mapping" && !strings.HasSuffix(key.Path, "s.args")
}

func defaultOf(key config.Key) string {
	switch {
	case key.Required:
		return "required"
	case strings.Contains(key.Default, ","):
		before, after, _ := strings.Cut(key.Default, ",")
		return code(before) + "," + after
	default:
		return code(key.Default)
	}
}

func overview() string {
	var b strings.Builder
	b.WriteString("| key | type | values | default |\n| --- | --- | --- | --- |\n")
	for _, key := range config.Keys() {
		if section(key) {
			continue
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s |\n", key.Path, anchor(key), key.Type, choices(key), defaultOf(key))
	}
	return b.String()
}

// anchor is the identifier that a heading with the key gets where Markdown is
// shown.
func anchor(key config.Key) string {
	return regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(strings.ToLower(key.Path), "")
}

func reference(src source) string {
	var b strings.Builder
	for i, key := range config.Keys() {
		if i > 0 {
			b.WriteString("\n")
		}
		level := "####"
		if section(key) || !strings.Contains(key.Path, ".") {
			level = "###"
		}
		fmt.Fprintf(&b, "%s `%s`\n\n", level, key.Path)
		facts := []string{capital(key.Type)}
		if choice := choices(key); choice != "" && len(key.Values) == 0 && key.Path != "version" {
			facts = append(facts, choice)
		}
		if key.Required {
			facts = append(facts, "required")
		} else if def := defaultOf(key); def != "" {
			facts = append(facts, "default "+def)
		}
		if key.HomeOnly {
			facts = append(facts, "for the file of a home alone")
		}
		fmt.Fprintf(&b, "%s.\n\n", strings.Join(facts, "; "))

		said, example := parts(src.fields[key.Field], goName(key), lastPart(key.Path))
		b.WriteString(strings.Join(said, "\n\n") + "\n")
		if words := src.words[key.GoType]; len(words) > 0 {
			b.WriteString("\n")
			for _, word := range words {
				meaning, _ := parts(word.doc, word.name, word.value)
				fmt.Fprintf(&b, "- %s\n", strings.Join(meaning, " "))
			}
		}
		if example != "" {
			fmt.Fprintf(&b, "\n```yaml\n%s```\n", example)
		}
	}
	return b.String()
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func looser() string {
	var b strings.Builder
	b.WriteString("| key | looser is |\n| --- | --- |\n")
	for _, key := range config.Keys() {
		if key.Looser != "" {
			rule := marked(key.Looser)
			for _, word := range append(key.Values, "true", "false") {
				if !strings.Contains(word, "_") { // marked has done the others
					rule = regexp.MustCompile(`\b`+word+`\b`).ReplaceAllString(rule, "`$0`")
				}
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", key.Path, rule)
		}
	}
	return b.String()
}

func errorsShown(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i, text := range shownErrors {
		_, _, err := config.Parse("config.yaml", []byte(text))
		if err == nil {
			t.Fatalf("no error in:\n%s", text)
		}
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "```yaml\n%s```\n\n```text\n%v\n```\n", text, err)
	}
	return b.String()
}
